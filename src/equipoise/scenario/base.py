"""What all parts of a scenario share: frozen, no unknown keys, mistakes in plain words."""

from __future__ import annotations

import math
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo

from equipoise.errors import ScenarioError
from equipoise.scenario.files import read_table
from equipoise.scenario.mistakes import mistake, translate


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError("must be a number")
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return float(value)


def _whole(value: Any) -> int:
    if not isinstance(value, bool):
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and float(value).is_integer():
            return int(float(value))  # scale = 100.0
    raise ValueError("must be a whole number")


# Numbers as a file or a numpy array holds them; "20" and true are mistakes, not numbers.
Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]


class Part(BaseModel):
    """One table of a scenario. Making a wrong one raises `ScenarioError`, a line per mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise translate(error, type(self), type(self).__name__) from None

    def __eq__(self, other: object) -> bool:
        """Equal when the tables are; what was read and kept on the way does not count."""
        if type(self) is not type(other):
            return NotImplemented
        fields = type(self).model_fields
        return all(getattr(self, name) == getattr(other, name) for name in fields)

    # Tells pydantic that a table inside a table needs no call of __init__: otherwise the
    # first wrong table would hide the mistakes of the others.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """Read the CSV that a key `file` names; what is wrong with it is a mistake at that key."""
    try:
        return read_table(path)
    except ScenarioError as error:
        raise mistake(str(error), "file") from None


def base_folder(info: ValidationInfo) -> Path:
    """Return the folder that relative file names start from: the scenario's, else the current."""
    return Path((info.context or {}).get("base", "."))
