"""How many tasks come at one instant, where tasks come in batches.

A batch arrives at a point of the stream; its tasks are dispatched one after the other, in no time.
Rates and loads count tasks, so batches of mean m come 1/m times as often as tasks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_serializer, model_validator

from equipoise.scenario.base import Number, Part, Whole
from equipoise.scenario.mistakes import mistake, shown

Size = Annotated[Whole, Field(ge=1, le=10**6)]


class Batch(Part):
    """The tasks of a batch: a whole number, geometric of some mean, or `values` drawn at random.

    In a file `batch = 3`, `batch = {law = "geometric", mean = 2.5}` (1, 2, 3, .. tasks), or
    `batch = {values = [1, 10], probabilities = [0.9, 0.1]}`; without probabilities all values are
    equally likely.
    """

    tasks: Size | None = None
    law: Literal["geometric"] | None = None
    mean: Annotated[Number, Field(ge=1, le=10**6)] | None = None
    values: Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    probabilities: tuple[Annotated[Number, Field(ge=0, le=1)], ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        """A plain number is that many tasks."""
        if isinstance(given, dict | Batch):
            return given
        try:
            whole = not isinstance(given, bool | str) and 1 <= given <= 10**6 and given % 1 == 0
        except TypeError:
            whole = False
        if not whole:
            raise ValueError(
                f"{shown(given)} must be a whole number from 1 to 1000000, "
                '{law = "geometric", mean = 2.5}, or {values = [1, 10], probabilities = [0.9, 0.1]}'
            )
        return {"tasks": int(given)}

    @model_validator(mode="after")
    def _one_of_three(self) -> Batch:
        kinds = [self.tasks is not None, self.law is not None, self.values is not None]
        if sum(kinds) != 1 or (self.mean is None) == (self.law is not None):
            raise mistake(
                'give one of a whole number, {law = "geometric", mean = 2.5}, or '
                "{values = [1, 10], probabilities = [0.9, 0.1]}"
            )
        if self.probabilities is None:
            return self
        given = 0 if self.values is None else len(self.values)
        if len(self.probabilities) != given:
            raise mistake(
                f"{len(self.probabilities)} probabilities for {given} values; there must be as "
                "many",
                "probabilities",
            )
        if abs(sum(self.probabilities) - 1) > 1e-9:
            raise mistake(
                f"their sum is {sum(self.probabilities):g}; it must be 1", "probabilities"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, default: Any) -> Any:
        return default(self) if self.tasks is None else self.tasks

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """(tasks int64[k], probabilities float64[k]); both empty where the law is geometric."""
        if self.tasks is not None:
            return np.array([self.tasks]), np.ones(1)
        if self.values is None:
            return np.zeros(0, np.int64), np.zeros(0)
        values = np.array(self.values)
        if self.probabilities is None:
            return values, np.full(values.size, 1 / values.size)
        return values, np.array(self.probabilities)

    @property
    def expected(self) -> float:
        """The mean number of tasks."""
        if self.mean is not None:
            return self.mean
        values, probabilities = self.table
        return float(values @ probabilities)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return int64[k] tasks."""
        values, probabilities = self.table
        if self.mean is not None:
            return generator.geometric(1 / self.mean, k)
        steps = np.cumsum(probabilities)[:-1]
        return values[np.searchsorted(steps, generator.random(k), side="right")]
