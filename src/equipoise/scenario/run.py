"""How long to look, from which state, what to leave out, and how often to repeat."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from equipoise.scenario.base import Number, Part, Whole
from equipoise.scenario.mistakes import Mistake, Mistakes, did_you_mean, mistake, shown


def _start(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("empty", "balanced"):
            guess = did_you_mean(value, ("empty", "balanced"))
            raise ValueError(f"must be 'empty', 'balanced' or a list of lengths{guess}")
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError("must be 'empty', 'balanced' or a list of lengths, one per server")
    wrong = [
        Mistake((i,), f"{shown(length)} is no length; it must be a whole number, at least 0")
        for i, length in enumerate(value)
        if isinstance(length, bool) or not isinstance(length, int) or length < 0
    ]
    if wrong:
        raise Mistakes(wrong)
    return tuple(value)


def _warm_up(value: Any) -> Any:
    if value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise ValueError("must be 'auto' or a number of seconds, at least 0")
    return float(value)


def _precision(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < 1:
        raise ValueError("must be a fraction of the value, above 0 and below 1, e.g. 0.01 for 1 %")
    return value


class Run(Part):
    """One run lasts `duration` seconds or until `tasks` tasks have arrived.

    With neither, the run is as long as the rates or the trace, and for a Poisson stream of
    constant rate a million tasks, or a thousand per server if that is more.

    `precision` says how sure to be instead of how much to run: the half-width of the interval of
    `precision_of` (a metric; what ranks, if left out) as a fraction of its value. Replications,
    and where the length is left open their length, then follow, up to `budget` tasks in all
    replications of a policy together; `duration` or `tasks` stays the length of each.
    """

    duration: Annotated[Number, Field(gt=0)] | None = None
    tasks: Annotated[Whole, Field(ge=1)] | None = None
    start: Annotated[Literal["empty", "balanced"] | tuple[int, ...], BeforeValidator(_start)] = (
        "empty"
    )
    warm_up: Annotated[Literal["auto"] | float, BeforeValidator(_warm_up)] = "auto"
    replications: Annotated[Whole, Field(ge=1)] = 8
    seed: Annotated[Whole, Field(ge=0)] = 1
    precision: Annotated[Number, BeforeValidator(_precision)] | None = None
    precision_of: str | None = None
    budget: Annotated[Whole, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Run:
        for key in ("precision_of", "budget"):
            if getattr(self, key) is not None and self.precision is None:
                raise mistake("belongs to precision, which is not given", key)
        if self.duration is not None and self.tasks is not None:
            raise mistake("duration is given too; give one of them, the other follows", "tasks")
        if (
            self.duration is not None
            and self.warm_up != "auto"
            and float(self.warm_up) >= self.duration
        ):
            raise mistake(
                f"{self.warm_up:g} s leaves nothing of the {self.duration:g} s to measure",
                "warm_up",
            )
        return self
