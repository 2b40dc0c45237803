"""One call for any log: find its format, read it chunk by chunk, account for every line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ..errors import TraceError
from .base import Format
from .json_lines import JSONS
from .lines import Source, bare
from .pattern import custom
from .tables import Counts, Mapping, counts_of, table_format
from .tasks import Account, Builder, Tasks
from .text import TEXTS
from .times import Clock, read_iso, read_seconds

FORMATS: dict[str, Format] = {f.name: f for f in (*JSONS, *TEXTS)}
NAMED_ONLY = ("apache-s",)  # looks like another: it must be asked for
HEADER_LINE = "the header"
SAMPLE = 100  # lines that the format is found by
HEADER = re.compile(r"[A-Za-z_][\w .$()/-]*")


@dataclass(frozen=True)
class Log:
    """What was read; `counts` and no tasks where the file holds counts, or only rates were asked.

    `notes` are things to know that are no mistakes, each a sentence.
    """

    path: str
    format: Format
    account: Account
    tasks: Tasks | None
    counts: Counts | None = None
    notes: tuple[str, ...] = field(default=())


def read_log(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    mapping: Mapping | None = None,
    rates_only: bool = False,
    on_progress: Callable[[float], None] | None = None,
) -> Log:
    """Read an access log or a trace, gzipped or not.

    Parameters
    ----------
    format
        A name of `FORMATS`, a pattern with $variables (see `pattern.py`), or None: it is found
        from the first lines.
    mapping
        What columns of a CSV or JSONL table mean; the usual names are known.
    rates_only
        Count requests per second instead of keeping a row for each: memory follows the length of
        the log in seconds.
    on_progress
        Told the fraction of the file that is read.

    Raises
    ------
    TraceError
        If the file cannot be read, is in no known format, or no line of it can be used; one line.
    """
    source = Source(path)
    chunks = source.chunks(
        None if on_progress is None else lambda done: on_progress(done / source.size)
    )
    first: Sequence[bytes] = next(chunks, [])
    chosen, skip, counted = _choose(str(path), first, format, mapping)
    if counted:
        return _read_counts(str(path), chain([first], chunks), source)
    account, builder = Account(), Builder()
    per_second: dict[int, int] = {}
    for lines in chain([first], chunks):
        for i in range(skip):
            account.skip(HEADER_LINE, i + 1, lines[i])
        batch = chosen.read(lines[skip:])
        for i, reason in batch.rejected:
            account.skip(reason, account.read + skip + i + 1, lines[skip + i])
        account.read += len(lines)
        account.used += batch.place.size
        if rates_only:
            _count(batch.arrival, per_second)
        else:
            builder.add(batch)
        skip = 0
    notes = [f"{path}: {source.cut}; what came before was used"] if source.cut else []
    if not account.used:
        why = next(iter(sorted(account.skipped.items(), key=lambda s: -s[1].count)), None)
        told = f": {why[0]} (line {why[1].line})" if why else ""
        raise TraceError(
            f"{path}: none of its {account.read:,} lines can be used as '{chosen.name}'{told}"
        )
    if not chosen.durations:
        notes.append(
            "this log does not say how long requests took: it gives rates and burstiness; "
            "a service law must come from elsewhere"
        )
    if rates_only:
        return Log(str(path), chosen, account, None, _as_counts(per_second), tuple(notes))
    return Log(str(path), chosen, account, builder.tasks(), None, tuple(notes))


def _choose(
    path: str, lines: Sequence[bytes], wanted: str | None, mapping: Mapping | None
) -> tuple[Format, int, bool]:
    """Return the format, how many lines stand before the first record, and if it holds counts."""
    table = _table(path, lines, mapping) if wanted in (None, "csv", "jsonl") else None
    if wanted is not None and table is None:
        if wanted in FORMATS:
            return FORMATS[wanted], 0, False
        if "$" in wanted or "%" in wanted:
            return custom(wanted), 0, False
        names = ", ".join([*FORMATS, "csv", "jsonl"])
        raise TraceError(
            f"no log format is called '{wanted}'; there are {names}, or a pattern such as "
            "'$time_iso8601 $request_time $upstream_addr'"
        )
    if table is not None:
        return table
    used = _used_by(lines[:SAMPLE])
    if not any(used.values()):  # much else may stand before the first record
        used = _used_by(lines)
    most = max(used.values())
    if most == 0:
        raise TraceError(
            f"{path}: in no format that is known ({', '.join(FORMATS)}, csv, jsonl); name one with "
            "--format, or give a pattern such as '$time_iso8601 $request_time $upstream_addr'"
        )
    # the most telling one of those that read most lines: others read them too, but see less
    best = next(name for name in used if used[name] >= max(1, most / 2))
    return FORMATS[best], 0, False


def _used_by(lines: Sequence[bytes]) -> dict[str, int]:
    """Return how many of the lines each format can use."""
    sample = [line for line in lines if line.strip()]
    return {
        name: form.read(sample).place.size
        for name, form in FORMATS.items()
        if name not in NAMED_ONLY
    }


def _table(
    path: str, lines: Sequence[bytes], mapping: Mapping | None
) -> tuple[Format, int, bool] | None:
    """Return the format of a table with a header, or of JSON objects that are no access log."""
    at = next((i for i, line in enumerate(lines) if line.strip()), None)
    if at is None:
        return None
    first = lines[at].decode("utf-8", "replace").lstrip("\ufeff")
    second = next((line for line in lines[at + 1 :] if line.strip()), b"")
    if first.lstrip().startswith("{"):
        return _json_table(path, lines, first, mapping)
    separator = max(",;\t", key=first.count)
    header = [name.strip() for name in next(csv.reader(io.StringIO(first), delimiter=separator))]
    if len(header) < 2 or not all(HEADER.fullmatch(name) for name in header):
        return None
    row = next(csv.reader([second.decode("utf-8", "replace")], delimiter=separator), [])
    if len(row) != len(header):
        return None
    if [name.lower() for name in header] == ["timestamp", "value"]:
        return table_format(header, Mapping(time=header[0]), separator, True), at + 1, True
    found = (mapping or Mapping()).filled(header, path)
    stamp = row[header.index(found.time or str(found.end))].strip()
    return table_format(header, found, separator, _is_iso(stamp)), at + 1, False


def _json_table(
    path: str, lines: Sequence[bytes], first: str, mapping: Mapping | None
) -> tuple[Format, int, bool] | None:
    sample = [line for line in lines if line.strip()][:SAMPLE]
    if mapping is None and any(form.read(sample).place.size for form in JSONS):
        return None
    try:
        record = json.loads(first)
    except ValueError:
        return None
    found = (mapping or Mapping()).filled(list(record), path)
    stamp = str(record[found.time or str(found.end)])
    return table_format(list(record), found, None, _is_iso(stamp)), 0, False


def _is_iso(text: str) -> bool:
    return not np.isfinite(read_seconds(text.encode()))


def _count(arrival: np.ndarray, per_second: dict[int, int]) -> None:
    seconds, often = np.unique(np.floor(arrival).astype(np.int64), return_counts=True)
    for second, count in zip(seconds.tolist(), often.tolist(), strict=True):
        per_second[second] = per_second.get(second, 0) + count


def _as_counts(per_second: dict[int, int]) -> Counts:
    first, last = min(per_second), max(per_second)
    if last - first >= 10**8:
        raise TraceError("the times span more than three years; some of them must be wrong")
    counts = np.zeros(last - first + 1)
    for second, count in per_second.items():
        counts[second - first] = count
    return Counts(float(first), 1.0, counts)


def _read_counts(path: str, chunks: Sequence[list[bytes]] | chain, source: Source) -> Log:
    """Read `timestamp,value` rows, all of them: there are few."""
    account, times, values = Account(), [], []
    clock: Clock | None = None
    for lines in chunks:
        for line in lines:
            account.read += 1
            if account.read == 1 and b"timestamp" in line.lower():
                account.skip(HEADER_LINE, 1, line)
                continue
            stamp, _, value = bare(line).partition(b",")
            if not line.strip():
                account.skip("blank", account.read, line)
                continue
            clock = clock or Clock(read_iso if _is_iso(stamp.decode("latin-1")) else read_seconds)
            time, count = clock.fractional([stamp])[0], read_seconds(value)
            if np.isnan(time) or not count >= 0:
                account.skip("no time and count", account.read, line)
                continue
            account.used += 1
            times.append(float(time))
            values.append(count)
    counts = counts_of(np.array(times), np.array(values), path)
    notes = [
        f"{counts.missing} of {counts.counts.size} bins of {counts.bin:g} s are missing and "
        "interpolated"
    ] if counts.missing else []  # fmt: skip
    if source.cut:
        notes.append(source.cut)
    form = Format("counts", "requests counted by time", lambda lines: None, (), "", False)  # type: ignore[arg-type,return-value]
    return Log(path, form, account, None, counts, tuple(notes))
