"""CSV and JSONL tables: traces with named columns, and counts by time, which become rates."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import TraceError
from .base import BLANK, NO_TIME, NOT_A_LINE, Field, Format, numbers, timed, unknown
from .lines import block_of
from .tasks import Batch
from .text import no_collection
from .times import Clock, read_iso, read_seconds

# What columns of known traces are called, the first that is there counts. Units: seconds.
TIMES = ("timestamp", "time", "arrival", "arrival_timestamp", "start", "start_time", "ts")
ENDS = ("end_timestamp", "end", "end_time")
DURATIONS = ("duration", "service", "service_time", "latency", "elapsed")
SERVERS = ("server", "upstream", "backend", "host")
STATUSES = ("status", "code", "status_code")
SIZES = ("bytes", "size", "body_bytes_sent")
WRONG_WIDTH = "more or fewer values than the header names"
NO_NUMBER = "a value that must be a number is none"


@dataclass(frozen=True)
class Mapping:
    """Which columns mean what; None: there is none."""

    time: str | None = None  # arrival
    end: str | None = None  # end; arrival = end - duration
    duration: str | None = None  # s
    # s at the server; or seconds per unit by column, {"constant": 0.05, "GeneratedTokens": 0.02}
    service: str | dict[str, float] | None = None
    server: str | None = None
    status: str | None = None
    size: str | None = None

    def filled(self, header: Sequence[str], where: str) -> Mapping:
        """Return the mapping with what is left out found by the usual names."""
        for name in self.columns:
            if name not in header:
                raise TraceError(f"{where}: no column '{name}'; there are {', '.join(header)}")
        by_name = {column.lower(): column for column in header}

        def usual(names: Sequence[str]) -> str | None:
            return next((by_name[name] for name in names if name in by_name), None)

        time, end = self.time, self.end
        if time is None and end is None:
            time = usual(TIMES)
            end = None if time is not None else usual(ENDS)
        if time is None and end is None:
            raise TraceError(
                f"{where}: no column is known as a time; name one with --time or --end: "
                f"{', '.join(header)}"
            )
        return Mapping(
            time,
            end,
            self.duration or usual(DURATIONS),
            self.service,
            self.server or usual(SERVERS),
            self.status or usual(STATUSES),
            self.size or usual(SIZES),
        )

    @property
    def columns(self) -> list[str]:
        """The columns that are named."""
        names: list[str] = []
        for value in vars(self).values():
            names += [n for n in value if n != CONSTANT] if isinstance(value, dict) else [value]
        return [name for name in names if name is not None]


CONSTANT = "constant"  # of a service time that is made of several columns


def _combined(
    named: str | dict[str, float] | None, values: Callable[[str | None], np.ndarray]
) -> np.ndarray:
    """Return the column, or what several make together, in seconds."""
    if not isinstance(named, dict):
        return values(named)
    parts = [weight * values(name) for name, weight in named.items() if name != CONSTANT]
    total: np.ndarray = np.sum(parts, axis=0) + named.get(CONSTANT, 0.0)
    return total


def table_reader(
    header: Sequence[str], mapping: Mapping, separator: str | None, iso: bool
) -> Callable[[Sequence[bytes]], Batch]:
    """Return the reader of rows under a header; of JSON objects where there is no separator."""
    clock = Clock(read_iso if iso else read_seconds)
    wanted = mapping.columns
    places_of = {name: header.index(name) for name in wanted}

    def cells(line: bytes) -> Sequence[str] | None:
        text = line.decode("utf-8", "replace")
        if separator is None:
            record = json.loads(text)
            return [str(record.get(name, "")) for name in header]
        row = next(csv.reader(io.StringIO(text), delimiter=separator), [])
        return row if len(row) == len(header) else None

    quickly = _plain_rows(header, wanted, separator) if separator is not None else None

    def read(lines: Sequence[bytes]) -> Batch:
        columns = quickly(lines) if quickly is not None and len(lines) else None
        if columns is not None:
            try:
                return _batch(mapping, clock, iso, len(lines), columns)
            except ValueError:
                pass  # a number that is none: some line is to be left out, or some value
        return slowly(lines)

    def slowly(lines: Sequence[bytes]) -> Batch:
        places, rows, rejected = [], [], []
        for i, line in enumerate(lines):
            if not line.strip():
                rejected.append((i, BLANK))
                continue
            try:
                row = cells(line)
            except (ValueError, csv.Error, AttributeError):
                rejected.append((i, NOT_A_LINE))
                continue
            if row is None:
                rejected.append((i, WRONG_WIDTH))
                continue
            places.append(i)
            rows.append(row)

        def column(name: str | None) -> list[str] | None:
            return None if name is None else [row[places_of[name]].strip() for row in rows]

        def values(name: str | None) -> np.ndarray:
            texts = column(name)
            if texts is None:
                return unknown(len(rows))
            return np.array([_float(text) for text in texts], float)

        stamps = column(mapping.time or mapping.end) or []
        coded = [text.encode() for text in stamps]
        arrival = clock.fractional(coded) if iso else clock.whole(coded)
        duration = values(mapping.duration)
        if mapping.time is None:
            arrival = arrival - duration
        servers = column(mapping.server)
        batch = Batch(
            np.array(places, np.int64),
            arrival,
            np.where(duration < 0, np.nan, duration),
            _combined(mapping.service, values),
            None if servers is None else [text.encode() for text in servers],
            np.nan_to_num(values(mapping.status)).astype(np.int16),
            np.nan_to_num(values(mapping.size), nan=-1).astype(np.int64),
            rejected,
        )
        return timed(batch)

    return read


def _plain_rows(
    header: Sequence[str], wanted: Sequence[str], separator: str
) -> Callable[[Sequence[bytes]], dict[str, tuple[bytes, ...]] | None]:
    """Return what takes the wanted columns out of rows without quotes, all rows at once.

    It returns None where a row is not so plain; csv.reader takes six times as long.
    """
    value = b"[^" + re.escape(separator.encode()) + b"\n]*+"
    cells = [b"(" + value + b")" if name in wanted else value for name in header]
    every = re.compile(b"^" + re.escape(separator.encode()).join(cells) + b"$", re.MULTILINE)
    names = [name for name in header if name in wanted]
    edges = (f"{separator} ".encode(), f" {separator}".encode(), b'"')

    def columns(lines: Sequence[bytes]) -> dict[str, tuple[bytes, ...]] | None:
        block = block_of(lines)
        if any(edge in block for edge in edges):
            return None
        with no_collection():
            found = every.findall(block)
            if len(found) != len(lines):
                return None
            if len(names) == 1:
                return {names[0]: tuple(found)}
            return dict(zip(names, zip(*found, strict=True), strict=True))

    return columns


def _batch(
    mapping: Mapping, clock: Clock, iso: bool, k: int, columns: dict[str, tuple[bytes, ...]]
) -> Batch:
    """Return the rows of plain columns; ValueError where a text that must be a number is none."""

    def values(name: str | None) -> np.ndarray:
        return unknown(k) if name is None else numbers(columns[name])

    stamps = columns[mapping.time or str(mapping.end)]
    arrival = clock.fractional(stamps) if iso else numbers(stamps)
    duration = values(mapping.duration)
    if mapping.time is None:
        arrival = arrival - duration
    batch = Batch(
        np.arange(k),
        arrival,
        np.where(duration < 0, np.nan, duration),
        _combined(mapping.service, values),
        None if mapping.server is None else list(columns[mapping.server]),
        np.nan_to_num(values(mapping.status)).astype(np.int16),
        np.nan_to_num(values(mapping.size), nan=-1).astype(np.int64),
    )
    return timed(batch)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def table_format(
    header: Sequence[str], mapping: Mapping, separator: str | None, iso: bool
) -> Format:
    """Return the format of a table with this header."""
    fields = tuple(
        Field(
            "+".join(column) if isinstance(column, dict) else column,
            f"{name}, s" if name in ("duration", "service") else name,
            name,
        )
        for name, column in vars(mapping).items()
        if column is not None
    )
    return Format(
        "csv" if separator else "jsonl",
        "a table with a header" if separator else "a JSON object with named values a line",
        table_reader(header, mapping, separator, iso),
        fields,
        "",
        mapping.duration is not None or mapping.service is not None,
    )


# --- Counts by time ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """Requests counted in bins of equal width; nan where a bin is missing."""

    start: float  # s since 1970 of the first bin's beginning
    bin: float  # s
    counts: np.ndarray  # float64[bins]

    @property
    def missing(self) -> int:
        """Bins that the file leaves out."""
        return int(np.isnan(self.counts).sum())

    def rates(self) -> np.ndarray:
        """Return tasks per second in each bin, float64[bins]; a missing one is interpolated."""
        known = ~np.isnan(self.counts)
        at = np.arange(self.counts.size)
        filled: np.ndarray = np.interp(at, at[known], self.counts[known]) / self.bin
        return filled


def counts_of(times: np.ndarray, values: np.ndarray, where: str) -> Counts:
    """Return counts on an even grid: the width is the most frequent step.

    Raises
    ------
    TraceError
        If times do not rise, or steps are no multiples of the width.
    """
    steps = np.diff(times)
    if times.size < 2 or (steps <= 0).any():
        raise TraceError(f"{where}: counts need at least two times, each later than the last")
    distinct, often = np.unique(np.round(steps, 6), return_counts=True)
    width = float(distinct[often.argmax()])
    place = np.rint((times - times[0]) / width).astype(np.int64)
    if (np.abs(times - times[0] - place * width) > 0.5 * width).any() or (
        np.diff(place) <= 0
    ).any():
        raise TraceError(f"{where}: the times do not stand on a grid of {width:g} s")
    counts = np.full(int(place[-1]) + 1, np.nan)
    counts[place] = values
    return Counts(float(times[0]), width, counts)


__all__ = ["NO_NUMBER", "NO_TIME", "Counts", "Mapping", "counts_of", "table_format"]
