"""When tasks come: a Poisson stream of constant or changing rate, or a trace.

    poisson    a constant rate
    sinusoid   a rate that rises and falls for ever
    rates      a table of rates, constant between its times or linear
    trace      recorded tasks

Rates are in tasks per second for all servers together. `scale` multiplies the traffic:
rates times scale; a trace: every task `scale` times, the copies moved by up to `jitter`
seconds. All but a trace may come in batches (batch.py).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from equipoise.scenario.base import Number, Part, Whole, base_folder, read_columns
from equipoise.scenario.batch import Batch
from equipoise.scenario.flow import Flow
from equipoise.scenario.mistakes import Mistake, Mistakes, mistake

Positive = Annotated[Number, Field(gt=0)]
Nonnegative = Annotated[Number, Field(ge=0)]


class Mean(Part):
    """A mean rate, given as `rate` or as `load`.

    `load` is the tasks offered per server for pools, and a fraction of what the servers can
    do for others.
    """

    rate: Positive | None = None  # tasks per second, all servers together
    load: Positive | None = None
    scale: Positive = 1.0
    batch: Batch | None = None  # tasks that come at once; None: one

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.rate is None) == (self.load is None):
            raise mistake(
                "give either rate (tasks per second, all servers together) or load"
                + (", not both" if self.rate is not None else "")
            )
        return self


class Poisson(Mean):
    """A Poisson stream of constant rate."""

    law: Literal["poisson"] = "poisson"

    def flow(self, unit: float) -> Flow:
        """Return the rate over time; `unit` is the tasks per second at load 1."""
        mean = self.rate if self.load is None else self.load * unit
        assert mean is not None
        return Flow.constant(mean * self.scale)


class Sinusoid(Mean):
    """A Poisson stream of rate mean + amplitude sin(2 pi t / period + phase), for ever.

    The mean is `rate` or `load`, and `amplitude` is in the same unit.
    """

    law: Literal["sinusoid"] = "sinusoid"
    amplitude: Nonnegative
    period: Positive  # s
    phase: Number = 0.0  # radians

    @model_validator(mode="after")
    def _never_negative(self) -> Sinusoid:
        name = "rate" if self.load is None else "load"
        mean = self.rate if self.load is None else self.load
        if mean is not None and self.amplitude > mean:
            raise mistake(
                f"{self.amplitude:g} is above the mean, {name} = {mean:g}, so the rate would fall "
                f"below 0; it must be at most {mean:g}",
                "amplitude",
            )
        return self

    def flow(self, unit: float) -> Flow:
        """Return the rate over time; `unit` is the tasks per second at load 1."""
        to_rate = self.scale * (1.0 if self.load is None else unit)
        mean = self.rate if self.load is None else self.load
        assert mean is not None
        wave = self.amplitude * to_rate, 2 * np.pi / self.period, self.phase
        return Flow(np.array([0.0, np.inf]), np.array([mean * to_rate]), np.zeros(1), *wave)


class Rates(Part):
    """A Poisson stream whose rate is constant on each interval of a table, or linear.

    The table is one of
        bin, rates    rates[i] tasks per second from i * bin to (i + 1) * bin
        bin, counts   counts[i] tasks expected in that interval
        times, rates  rates[i] tasks per second from times[i] to times[i + 1]; one more time
        file          a CSV with a column `count` or `rate` (with bin), or `time` and `rate`,
                      where the last row has rate 0 and marks the end
    With interpolation = "linear" rates[i] is the rate at times[i], or at i * bin, and in between
    it is on the straight line; the last time has a rate too, and is the end. Nothing comes after
    the end.
    """

    law: Literal["rates"] = "rates"
    bin: Positive | None = None  # s
    rates: Annotated[tuple[Nonnegative, ...], Field(min_length=1)] | None = None
    counts: Annotated[tuple[Nonnegative, ...], Field(min_length=1)] | None = None
    times: Annotated[tuple[Number, ...], Field(min_length=2)] | None = None
    file: str | None = None
    interpolation: Literal["steps", "linear"] = "steps"
    scale: Positive = 1.0
    batch: Batch | None = None  # tasks that come at once; None: one

    _base: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _readable(self, info: ValidationInfo) -> Rates:
        self._base = base_folder(info)
        wrong = self._wrong_keys()
        if wrong:
            raise Mistakes(wrong)
        if not self.table[1].any():
            raise mistake("all rates are 0, so no task would ever come")
        return self

    def _wrong_keys(self) -> list[Mistake]:
        given = [key for key in ("rates", "counts", "file") if getattr(self, key) is not None]
        if len(given) != 1:
            told = " and ".join(given) or "none of them"
            return [Mistake((), f"give one of rates, counts or file; there is {told}")]
        if self.bin is not None and self.times is not None:
            return [Mistake(("times",), "bin is given too; give one of them")]
        if self.counts is not None and self.bin is None:
            return [Mistake(("bin",), "missing; counts need the seconds of an interval")]
        if self.file is not None and self.times is not None:
            return [Mistake(("times",), "put the times into the file, in a column `time`")]
        if self.linear and self.counts is not None:
            return [Mistake(("counts",), "a line goes through rates; give rates in their place")]
        if self.linear and self.rates is not None and len(self.rates) < 2:
            return [Mistake(("rates",), "a line needs at least 2 rates")]
        if self.rates is not None and self.bin is None:
            if self.times is None:
                return [Mistake(("bin",), "missing; rates need bin (s) or times (s)")]
            if len(self.times) != len(self.rates) + (not self.linear):
                needed = (
                    "as many, the last being the end"
                    if self.linear
                    else "one more than rates, the last being the end"
                )
                return [
                    Mistake(
                        ("times",),
                        f"{len(self.times)} times for {len(self.rates)} rates; there must be "
                        f"{needed}",
                    )
                ]
            return [Mistake(("times",), what) for what in _wrong_times(np.array(self.times))]
        return []

    @property
    def linear(self) -> bool:
        """Whether the rate is linear between the times, not constant."""
        return self.interpolation == "linear"

    def flow(self, unit: float) -> Flow:
        """Return the rate over time; `unit` plays no role."""
        edges, rates = self.table
        if self.linear:
            return Flow(edges, rates[:-1], np.diff(rates) / np.diff(edges))
        return Flow(edges, rates, np.zeros(rates.size))

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """(edges float64[k + 1] in s, rates float64[k] in tasks per second, scale included).

        With linear interpolation there is a rate at each edge: float64[k + 1].
        """
        if self.counts is not None:
            assert self.bin is not None
            edges, rates = self._even(np.array(self.counts) / self.bin)
        elif self.rates is not None and self.bin is not None:
            edges, rates = self._even(np.array(self.rates))
        elif self.rates is not None:
            edges, rates = np.array(self.times), np.array(self.rates)
        else:
            edges, rates = self._from_file()
        return edges, rates * self.scale

    def inlined(self) -> dict[str, Any]:
        """Return the table of a scenario's file, with numbers in place of a file's name."""
        tables = self.model_dump(mode="json", exclude_none=True)
        if self.file is not None:
            del tables["file"]
            columns = {name: values.tolist() for name, values in self.columns.items()}
            if self.bin is None:
                rates = columns["rate"] if self.linear else columns["rate"][:-1]
                tables |= {"times": columns["time"], "rates": rates}
            elif "count" in columns:
                tables["counts"] = columns["count"]
            else:
                tables["rates"] = columns["rate"]
        return tables

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What the file holds, float64[rows] by column."""
        return read_columns(self._base / str(self.file))

    def _even(self, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (edges, rates) at a distance of `bin`."""
        assert self.bin is not None
        return self.bin * np.arange(len(rates) + (not self.linear)), rates

    def _from_file(self) -> tuple[np.ndarray, np.ndarray]:
        columns = self.columns
        for name in ("count", "rate"):
            if name in columns and (columns[name] < 0).any():
                raise mistake(f"{self.file}: a {name} is negative; it must be at least 0", "file")
        if self.linear and "count" in columns:
            raise mistake(f"{self.file}: a line goes through rates, not counts", "file")
        if self.linear and min(len(values) for values in columns.values()) < 2:
            raise mistake(f"{self.file}: a line needs at least 2 rows", "file")
        if self.bin is not None and "count" in columns:
            return self._even(columns["count"] / self.bin)
        if self.bin is not None and "rate" in columns and "time" not in columns:
            return self._even(columns["rate"])
        if self.bin is None and "time" in columns and "rate" in columns:
            times, rates = columns["time"], columns["rate"]
            for what in _wrong_times(times):
                raise mistake(f"{self.file}: {what}", "file")
            if self.linear:
                return times, rates
            if len(times) < 2 or rates[-1] != 0:
                raise mistake(
                    f"{self.file}: the last row must have rate 0; it marks the end", "file"
                )
            return times, rates[:-1]
        raise mistake(
            f"{self.file} has the columns {', '.join(columns)}; it needs count or rate together "
            "with bin = seconds, or time and rate without bin",
            "file",
        )


class TraceArrivals(Part):
    """The tasks of a recorded trace, as they came.

    `time` names the column of arrival times. Where the trace has only end times, `end` names
    theirs, and the arrival is the end less the service time, which must then come from the
    trace too. `dispatcher` names the column that says which of several each task came to.
    Arrivals must not go back in time; `sort` puts them in order instead of refusing.
    """

    law: Literal["trace"] = "trace"
    file: str
    time: str | None = None
    end: str | None = None
    dispatcher: str | None = None
    sort: bool = False
    scale: Annotated[Whole, Field(ge=1)] = 1
    jitter: Nonnegative = 5.0  # s

    _base: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _one_of_two(self, info: ValidationInfo) -> TraceArrivals:
        self._base = base_folder(info)
        if (self.time is None) == (self.end is None):
            raise mistake("give the column of the arrival times as time, or of the ends as end")
        return self

    @property
    def path(self) -> Path:
        """The trace, found from the folder of the scenario's file."""
        return self._base / self.file


def _wrong_times(times: np.ndarray) -> list[str]:
    if times[0] != 0:
        return [f"the first time is {times[0]:g}; it must be 0"]
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i = int(back[0])
        return [f"{times[i + 1]:g} follows {times[i]:g}; each time must be later than the last"]
    return []
