"""When tasks come: a Poisson stream, piecewise-constant rates, or a trace.

Rates are in tasks per second for all servers together. `scale` multiplies the traffic:
rates times scale; a trace: every task `scale` times, the copies moved by up to `jitter`
seconds.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from equipoise.scenario.base import Number, Part, Whole, base_folder, read_columns
from equipoise.scenario.mistakes import Mistake, Mistakes, mistake

Positive = Annotated[Number, Field(gt=0)]
Nonnegative = Annotated[Number, Field(ge=0)]


class Poisson(Part):
    """A Poisson stream of constant rate, given as `rate` or as `load`.

    `load` is the tasks offered per server for pools, and a fraction of what the servers can
    do for fcfs.
    """

    law: Literal["poisson"] = "poisson"
    rate: Positive | None = None  # tasks per second, all servers together
    load: Positive | None = None
    scale: Positive = 1.0

    @model_validator(mode="after")
    def _one_of_two(self) -> Poisson:
        if (self.rate is None) == (self.load is None):
            raise mistake(
                "give either rate (tasks per second, all servers together) or load"
                + (", not both" if self.rate is not None else "")
            )
        return self


class Rates(Part):
    """A Poisson stream whose rate is constant on each interval of a table.

    The table is one of
        bin, rates    rates[i] tasks per second from i * bin to (i + 1) * bin
        bin, counts   counts[i] tasks expected in that interval
        times, rates  rates[i] tasks per second from times[i] to times[i + 1]; one more time
        file          a CSV with a column `count` or `rate` (with bin), or `time` and `rate`,
                      where the last row has rate 0 and marks the end
    Nothing comes after its end.
    """

    law: Literal["rates"] = "rates"
    bin: Positive | None = None  # s
    rates: Annotated[tuple[Nonnegative, ...], Field(min_length=1)] | None = None
    counts: Annotated[tuple[Nonnegative, ...], Field(min_length=1)] | None = None
    times: Annotated[tuple[Number, ...], Field(min_length=2)] | None = None
    file: str | None = None
    scale: Positive = 1.0

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
        if self.rates is not None and self.bin is None:
            if self.times is None:
                return [Mistake(("bin",), "missing; rates need bin (s) or times (s)")]
            if len(self.times) != len(self.rates) + 1:
                return [
                    Mistake(
                        ("times",),
                        f"{len(self.times)} times for {len(self.rates)} rates; there must be one "
                        "more than rates, the last being the end",
                    )
                ]
            return [Mistake(("times",), what) for what in _wrong_times(np.array(self.times))]
        return []

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """(edges float64[k + 1] in s, rates float64[k] in tasks per second, scale included)."""
        if self.counts is not None:
            assert self.bin is not None
            edges, rates = _even(self.bin, np.array(self.counts) / self.bin)
        elif self.rates is not None and self.bin is not None:
            edges, rates = _even(self.bin, np.array(self.rates))
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
                tables |= {"times": columns["time"], "rates": columns["rate"][:-1]}
            elif "count" in columns:
                tables["counts"] = columns["count"]
            else:
                tables["rates"] = columns["rate"]
        return tables

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What the file holds, float64[rows] by column."""
        return read_columns(self._base / str(self.file))

    def _from_file(self) -> tuple[np.ndarray, np.ndarray]:
        columns = self.columns
        for name in ("count", "rate"):
            if name in columns and (columns[name] < 0).any():
                raise mistake(f"{self.file}: a {name} is negative; it must be at least 0", "file")
        if self.bin is not None and "count" in columns:
            return _even(self.bin, columns["count"] / self.bin)
        if self.bin is not None and "rate" in columns and "time" not in columns:
            return _even(self.bin, columns["rate"])
        if self.bin is None and "time" in columns and "rate" in columns:
            times, rates = columns["time"], columns["rate"]
            for what in _wrong_times(times):
                raise mistake(f"{self.file}: {what}", "file")
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
    trace too. Arrivals must not go back in time; `sort` puts them in order instead of refusing.
    """

    law: Literal["trace"] = "trace"
    file: str
    time: str | None = None
    end: str | None = None
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


def _even(width: float, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return width * np.arange(len(rates) + 1), rates


def _wrong_times(times: np.ndarray) -> list[str]:
    if times[0] != 0:
        return [f"the first time is {times[0]:g}; it must be 0"]
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i = int(back[0])
        return [f"{times[i + 1]:g} follows {times[i]:g}; each time must be later than the last"]
    return []
