"""How many dispatchers stand in front of the servers, and what each knows of the others' tasks."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from equipoise.scenario.base import Part, Whole


class Dispatchers(Part):
    """The [dispatchers] table, or `dispatchers = count` in its place.

    Each task comes to one of them: as the trace says, else to a uniformly random one.
    """

    count: Annotated[Whole, Field(ge=1)] = 1
    hear: Literal["all", "own"] = "all"  # every message of every server, or only of its own tasks

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that it matters what they hear."""
        return self.count > 1

    @property
    def own(self) -> bool:
        """Whether each of several counts its own tasks only."""
        return self.several and self.hear == "own"


def _table(value: Any) -> Any:
    if isinstance(value, Dispatchers | Mapping):
        return value
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not float(value).is_integer() or value < 1:
        raise ValueError(
            'must be a whole number of at least 1, or a table such as {count = 4, hear = "own"}'
        )
    return {"count": int(value)}


DispatchersTable = Annotated[Dispatchers, BeforeValidator(_table)]
