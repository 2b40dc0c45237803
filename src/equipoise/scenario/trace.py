"""Reading recorded tasks: a CSV or JSONL file with named columns, gzipped or not.

A trace says when each task came and, if it can, how long it took. Times are seconds or
ISO 8601 (UTC where no offset is given; all digits down to 1 ns are kept). Where only end
times are recorded, a task came at end - duration.

A file that makes no sense is refused in one line with the number of the offending line:
a replay of wrong times would look just like one of right ones. Arrivals that go back are
such a case, checked on the arrivals themselves, so after ends are turned into them: a log
written in order of the ends need not be in order of arrival, and then `sort` is the way
to say that this is known. Steps back of at most 1 us are rounding (an epoch second in
double precision is good to 0.24 us) and are levelled.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from equipoise.errors import TraceError
from equipoise.scenario.base import Number, Part
from equipoise.scenario.files import opened
from equipoise.scenario.mistakes import did_you_mean, mistake, shown

ROUNDING = 1e-6  # s

ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(?:(Z|z|UTC)|([+-]\d\d):?(\d\d))?"
)


class Recording(NamedTuple):
    """Tasks as recorded: the first comes at time 0, none before the one in front of it."""

    times: np.ndarray  # float64[k], s, ascending from 0
    sizes: np.ndarray | None  # float64[k], s of service, >= 0; None where the trace has none
    dispatchers: np.ndarray | None = None  # int64[k], which each came to, from 0; None: not told

    @property
    def end(self) -> float:
        """When to stop looking (s): one mean interval after the last arrival."""
        k, last = len(self.times), float(self.times[-1])
        if last > 0:
            return last * k / (k - 1)
        longest = 0.0 if self.sizes is None else float(self.sizes.max())
        return longest or 1.0


def check_combination(value: Any) -> Any:
    """Return {column: seconds per unit} as floats; raise `ValueError` if it is not that."""
    if value is None:
        return None
    if not isinstance(value, dict) or not value:
        raise ValueError("must be a table such as {constant = 0.05, GeneratedTokens = 0.02}")
    for name, factor in value.items():
        if isinstance(factor, bool) or not isinstance(factor, Real) or not math.isfinite(factor):
            raise mistake(f"{shown(factor)} must be a number, the seconds per unit", str(name))
    if set(value) == {"constant"}:
        raise ValueError("names no column; for a constant time use the law 'deterministic'")
    return {str(name): float(factor) for name, factor in value.items()}


def _service(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict | None):
        raise ValueError("must name a column, or be a table of seconds per unit by column")
    return check_combination(value)


class TraceColumns(Part):
    """What the columns of a trace mean, for a file that is named later (`--trace FILE`)."""

    time: str | None = None
    end: str | None = None
    service: Annotated[str | dict[str, float] | None, BeforeValidator(_service)] = None
    dispatcher: str | None = None
    sort: bool = False
    jitter: Annotated[Number, Field(ge=0)] | None = None  # s; None: that of the arrivals, or 5

    @model_validator(mode="after")
    def _one_of_two(self) -> TraceColumns:
        if (self.time is None) == (self.end is None):
            raise mistake("give the column of the arrival times as time, or of the ends as end")
        if self.end is not None and self.service is None:
            raise mistake("missing; an arrival is the end less the service time", "service")
        return self


def read_trace(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    end: str | None = None,
    service: str | dict[str, float] | None = None,
    dispatcher: str | None = None,
    sort: bool = False,
) -> Recording:
    """Read the tasks of a trace.

    Parameters
    ----------
    path
        A CSV file (separated by comma, semicolon or tab; the first line names the columns)
        or a JSONL file (one object per line), in UTF-8, gzipped or not. Memory: about 200
        bytes per line while reading, 16 after.
    time, end
        The column of arrival times, or that of end times; exactly one of them.
    service
        The column of service times in seconds, or seconds per unit by column with an
        optional "constant"; needed with `end`.
    dispatcher
        The column that says which dispatcher each task came to, a whole number from 0 on.
    sort
        Put the tasks in order of arrival instead of refusing arrivals that go back.

    Raises
    ------
    TraceError
        One line naming the file and the line in it.
    """
    if (time is None) == (end is None):
        raise TraceError("a trace needs the column of arrival times (time) or of ends (end)")
    if end is not None and service is None:
        raise TraceError("end times need the service times too: an arrival is end - service time")
    clock = time if time is not None else str(end)
    weights = {service: 1.0} if isinstance(service, str) else service
    factors = {name: factor for name, factor in (weights or {}).items() if name != "constant"}
    split = [] if dispatcher is None else [dispatcher]
    cells, lines = _read_columns(Path(path), [clock, *factors, *split])

    times = _seconds(cells[clock], _at(path, lines, clock))
    sizes = None
    if weights is not None:
        sizes = np.full(len(times), weights.get("constant", 0.0), dtype=np.float64)
        for name, factor in factors.items():
            sizes += factor * _numbers(cells[name], _at(path, lines, name))
        told = service if isinstance(service, str) else "the combination of columns"
        if (sizes < 0).any():
            i = int(np.argmax(sizes < 0))
            raise TraceError(
                f"{path}, line {lines[i]}: {told} gives {sizes[i]:g} s; "
                "a service time must be at least 0"
            )
    if end is not None:
        assert sizes is not None
        times = times - sizes
    whose = None
    if dispatcher is not None:
        whose = _dispatchers(cells[dispatcher], _at(path, lines, dispatcher))
    if sort:
        order = np.argsort(times, kind="stable")
        times = times[order]
        sizes = None if sizes is None else sizes[order]
        whose = None if whose is None else whose[order]
    back = np.diff(times) < -ROUNDING
    if back.any():
        i = int(np.argmax(back))
        what = "arrival time" if end is None else f"arrival ({end} - service time)"
        raise TraceError(
            f"{path}, line {lines[i + 1]}: the {what} goes back by {times[i] - times[i + 1]:.6g} s;"
            " sort the file by arrival, or say sort = true"
        )
    times = np.maximum.accumulate(times)
    return Recording(times - times[0], sizes, whose)


def _dispatchers(cells: list[Any], fail: Fail) -> np.ndarray:
    """Return the numbers of dispatchers, int64[k]."""
    numbers = _numbers(cells, fail)
    wrong = (numbers < 0) | (numbers != np.floor(numbers)) | (numbers > 2**31)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise fail(i, f"{shown(cells[i])} is no dispatcher; they are numbered 0, 1, 2, ..")
    return numbers.astype(np.int64)


Fail = Callable[[int, str], TraceError]


def _at(path: str | os.PathLike[str], lines: array[int], column: str) -> Fail:
    """Return a maker of errors about row i of a column."""
    return lambda i, what: TraceError(f"{path}, line {lines[i]}: column {column}: {what}")


def _read_columns(path: Path, names: list[str]) -> tuple[dict[str, list[Any]], array[int]]:
    """Return the cells of the named columns as they stand, and the line number of each row."""
    names = list(dict.fromkeys(names))
    cells: dict[str, list[Any]] = {name: [] for name in names}
    lines = array("q")
    with opened(path, TraceError) as text:
        first, skipped = "", 0
        for first in text:
            if first.strip():
                break
            skipped += 1
        if not first.strip():
            raise TraceError(f"{path}: the file is empty; a trace has a line for each task")
        if first.lstrip().startswith("["):
            raise TraceError(f"{path}, line 1: a JSON list; a trace has one JSON object per line")
        rows = chain([first], text)
        if first.lstrip().startswith("{"):
            _read_jsonl(path, rows, skipped, cells, lines)
        else:
            _read_csv(path, rows, first, skipped, cells, lines)
    if not lines:
        raise TraceError(f"{path}: there are no tasks below the header")
    return cells, lines


def _read_csv(
    path: Path,
    rows: Iterable[str],
    first: str,
    skipped: int,
    cells: dict[str, list[Any]],
    lines: array[int],
) -> None:
    reader = csv.reader(rows, delimiter=max(",;\t", key=first.count))
    number = skipped
    try:
        header = [name.strip() for name in next(reader)]
        missing = [name for name in cells if name not in header]
        if missing:
            raise TraceError(
                f"{path}: no column '{missing[0]}'{did_you_mean(missing[0], header)}; "
                f"the columns are: {', '.join(header)}"
            )
        places = [header.index(name) for name in cells]
        appends = [column.append for column in cells.values()]
        width = len(header)
        for row in reader:
            if len(row) != width:
                if not row:
                    continue  # a blank line
                raise TraceError(
                    f"{path}, line {skipped + reader.line_num}: {len(row)} values, but the header "
                    f"names {width} columns"
                )
            for place, append in zip(places, appends, strict=True):
                append(row[place])
            lines.append(skipped + reader.line_num)
    except csv.Error as failure:
        number = skipped + reader.line_num
        raise TraceError(f"{path}, line {number}: not CSV: {failure}") from None


def _read_jsonl(
    path: Path, rows: Iterator[str], skipped: int, cells: dict[str, list[Any]], lines: array[int]
) -> None:
    for number, line in enumerate(rows, start=skipped + 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise TraceError(
                f"{path}, line {number}: not a JSON object: {shown(line.strip())}"
            ) from None
        if not isinstance(row, dict):
            raise TraceError(f"{path}, line {number}: not a JSON object: {shown(line.strip())}")
        for name, column in cells.items():
            if name not in row:
                raise TraceError(
                    f"{path}, line {number}: no '{name}'{did_you_mean(name, list(row))}; "
                    f"the names are: {', '.join(row)}"
                )
            value = row[name]
            column.append(str(value) if isinstance(value, bool) else value)
        lines.append(number)


def _numbers(cells: list[Any], fail: Fail) -> np.ndarray:
    """Return float64[k]; every cell must be a finite number."""
    try:
        values = np.array(list(map(float, cells)), dtype=np.float64)
    except (ValueError, TypeError):
        i = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        raise fail(i, f"{_cell(cells[i])}; it must be a number") from None
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise fail(i, f"{_cell(cells[i])}; it must be a finite number")
    return values


def _seconds(cells: list[Any], fail: Fail) -> np.ndarray:
    """Return float64[k] seconds since the first time; the first cell says in which form."""
    if _is_number(cells[0]):
        values = _numbers(cells, fail)
        return values - values[0]
    nanoseconds = _iso(cells, fail)
    return (nanoseconds - nanoseconds[0]) / 1e9


def _iso(cells: list[Any], fail: Fail) -> np.ndarray:
    """Return int64[k] nanoseconds since 1970."""
    # numpy reads plain times ten times faster than the loop below, but it knows no offsets
    # and takes "today" or a date alone for a time; those differ in dashes, colons or plus.
    if all(isinstance(cell, str) for cell in cells):
        plain = [cell.strip().removesuffix("Z") for cell in cells]
        text, k = "".join(plain), len(plain)
        if "+" not in text and text.count("-") == 2 * k and text.count(":") == 2 * k:
            try:
                return np.array(plain, dtype="datetime64[ns]").astype(np.int64)
            except ValueError:
                pass  # the loop finds the line
    values = np.empty(len(cells), dtype=np.int64)
    for i, cell in enumerate(cells):
        try:
            values[i] = _nanoseconds(cell)
        except (ValueError, OverflowError):
            raise fail(
                i,
                f"{_cell(cell)}; a time is written as seconds (12.5) or ISO 8601 "
                "(2023-11-16T18:17:03.97Z)",
            ) from None
    return values


def _nanoseconds(cell: Any) -> int:
    found = ISO.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if found is None:
        raise ValueError
    day, clock, fraction, _, hours, minutes = found.groups()
    offset = f"{hours}:{minutes}" if hours else "+00:00"
    moment = datetime.fromisoformat(f"{day}T{clock}{offset}")
    return int(moment.timestamp()) * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def _cell(cell: Any) -> str:
    return "the value is empty" if cell is None or cell == "" else shown(cell)
