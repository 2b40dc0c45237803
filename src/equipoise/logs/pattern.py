"""A line format in the user's terms: `$time_iso8601 $request_time $upstream_addr`.

Variables are nginx's, with `$ignore` (or any other name) for what is read over; Apache's and
HAProxy's directives `%t`, `%D`, `%Tr` and the like are understood too where nginx's are not used.
Everything else in the pattern must stand in the line as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import TraceError
from .base import NO_SERVER, NOTHING, Field, Format, kept, numbers, unknown, whole
from .tasks import Batch
from .text import Columns, last_try, pick, text_reader
from .times import Clock, read_clf, read_iso, read_seconds

NUMBER = rb"-|-?\d+(?:\.\d+)?"
LISTS = rb"[^\"\n]*?"
# variable -> (column, factor to seconds, pattern)
VARIABLES: dict[str, tuple[str, float, bytes]] = {
    "time_local": ("end:clf", 1.0, rb"[^\]\[\"\n]+?"),
    "time_iso8601": ("end:iso", 1.0, rb"[\dT:.+Z-]+"),
    "msec": ("end:epoch", 1.0, rb"\d+(?:\.\d+)?"),
    "start_iso8601": ("start:iso", 1.0, rb"[\dT:.+Z-]+"),
    "start_msec": ("start:epoch", 1.0, rb"\d+(?:\.\d+)?"),
    "request_time": ("duration", 1.0, NUMBER),
    "request_time_ms": ("duration", 1e-3, NUMBER),
    "request_time_us": ("duration", 1e-6, NUMBER),
    "upstream_response_time": ("service", 1.0, LISTS),
    "upstream_response_time_ms": ("service", 1e-3, LISTS),
    "upstream_addr": ("server", 1.0, LISTS),
    "server_name": ("server", 1.0, rb"\S+"),
    "status": ("status", 1.0, rb"\d{3}|-"),
    "body_bytes_sent": ("size", 1.0, rb"\d+|-"),
    "bytes_sent": ("size", 1.0, rb"\d+|-"),
    # Apache
    "%t": ("start:clf", 1.0, rb"\[?[^\]\[\"\n]+?\]?"),
    "%D": ("duration", 1e-6, NUMBER),
    "%T": ("duration", 1.0, NUMBER),
    "%>s": ("status", 1.0, rb"\d{3}|-"),
    "%b": ("size", 1.0, rb"\d+|-"),
    "%B": ("size", 1.0, rb"\d+|-"),
    # HAProxy
    "%tr": ("start:clf", 1.0, rb"[\w/:.]+"),
    "%Ta": ("duration", 1e-3, NUMBER),
    "%Tt": ("duration", 1e-3, NUMBER),
    "%Tr": ("service", 1e-3, NUMBER),
    "%s": ("server", 1.0, rb"\S+"),
    "%ST": ("status", 1.0, rb"\d{3}|-\d"),
}
TOKEN = re.compile(r"\$(\w+)|(%(?:\{[^}]*\})?>?[A-Za-z]+)")
READERS = {"clf": read_clf, "iso": read_iso, "epoch": read_seconds}


def custom(text: str) -> Format:
    """Return the format that a user's pattern describes.

    Raises
    ------
    TraceError
        If it names no time, a variable twice, or nothing at all.
    """
    pattern = b""
    columns: list[tuple[str, float]] = []
    end = 0
    for found in TOKEN.finditer(text):
        pattern += _literal(text[end : found.start()])
        name = found[1] or found[2]
        column, factor, shape = VARIABLES.get(name, ("", 1.0, rb".*?"))
        if not column:
            pattern += b"(?:" + shape + b")"
        elif any(c == column for c, _ in columns):
            raise TraceError(f"--format: two fields for the {column.partition(':')[0]}: '{text}'")
        else:
            pattern += b"(" + shape + b")"
            columns.append((column, factor))
        end = found.end()
    pattern += _literal(text[end:])
    times = [c for c, _ in columns if ":" in c]
    if len(times) != 1:
        known = ", ".join(f"${name}" for name in VARIABLES if ":" in VARIABLES[name][0])
        raise TraceError(
            f"--format: a line needs one time, {known.replace('$%', '%')}; '{text}' has "
            f"{len(times) or 'none'}"
        )
    fields = tuple(
        Field(f"${n}" if n[0] != "%" else n, c, c.partition(":")[0])
        for n, (c, _, _) in VARIABLES.items()
        if any(c == column for column, _ in columns)
    )
    durations = any(c in ("duration", "service") for c, _ in columns)
    return Format(
        "custom",
        text,
        text_reader(
            pattern,
            _rows(dict(columns), list(columns)),
            time=next(i for i, (c, _) in enumerate(columns) if ":" in c),
        ),
        fields,
        "",
        durations,
    )  # fmt: skip


def _literal(text: str) -> bytes:
    """Return the pattern of what must stand in the line; any number of blanks for one."""
    return re.sub(rb"(?:\\? )+", rb" +", re.escape(text.encode()))


def _rows(
    factors: dict[str, float], order: list[tuple[str, float]]
) -> Callable[[np.ndarray, Columns], Batch]:
    stamp = next(c for c in factors if ":" in c)
    ends, _, form = stamp.partition(":")
    clock = Clock(READERS[form])

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        k = places.size
        given = {name: column for (name, _), column in zip(order, columns, strict=True)}
        stamps: Sequence[bytes] = [text.strip(b"[]") for text in given[stamp]]
        arrival = clock.whole(stamps) if form == "epoch" else clock.fractional(stamps)
        duration, service, server = unknown(k), unknown(k), None
        if "duration" in given:
            duration = _positive(numbers(given["duration"], factors["duration"]))
        at = [-1] * k
        if "service" in given:
            at, values = last_try(given["service"])
            service = _positive(numbers([_number(v) for v in values], factors["service"]))
        if "server" in given:
            server = pick(given["server"], at)
            server = [b"" if name == b"<NOSRV>" else name for name in server]
        if ends == "end":
            spent = np.where(np.isnan(duration), service, duration)
            arrival = arrival - np.nan_to_num(spent)
        status = given.get("status", (b"-",) * k)
        batch = Batch(
            places, arrival, duration, service, server,
            np.maximum(whole([_number(s) for s in status], 0, np.int16), 0),
            whole(given.get("size", (b"-",) * k), -1, np.int64),
        )  # fmt: skip
        if server is None:
            return batch
        return kept(batch, np.array([bool(name) for name in server], bool), NO_SERVER)

    return rows


def _number(text: bytes) -> bytes:
    return text if text not in NOTHING and text.replace(b".", b"", 1).isdigit() else b"-"


def _positive(values: np.ndarray) -> np.ndarray:
    """Return times; a negative one says that something never happened."""
    return np.where(values < 0, np.nan, values)
