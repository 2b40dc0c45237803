"""What a format is: it turns lines into rows, and says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .tasks import Batch

NOT_A_LINE = "not a line of this format"
NO_SERVER = "answered by the balancer itself, no server took part"
NO_REQUEST = "not an HTTP request"
NO_TIME = "the time is none"
RUN_TOGETHER = "two records run together on one line"
BLANK = "blank"
NOTHING = (b"-", b"")  # what stands where there is no value


@dataclass(frozen=True)
class Field:
    """A field of a format and what becomes of it."""

    name: str  # the official name
    meaning: str
    used: str = ""  # the column of the table; "" where it is read over


@dataclass(frozen=True)
class Format:
    """How lines of one kind are read."""

    name: str
    about: str
    read: Callable[[Sequence[bytes]], Batch]
    fields: tuple[Field, ...]
    source: str  # the official documentation
    durations: bool = True  # whether it can tell how long requests took


EXACT = 2**53  # a whole number below it, divided by a power of ten, is rounded but once
SOME = 64  # texts that are looked at to see if they repeat
SHORT = 5  # characters of texts of which there cannot be many
REMEMBERED = 100_000
DIGITS = 17  # of a text that is taken apart; longer ones are left to float()


def numbers(texts: Sequence[bytes], factor: float = 1.0) -> np.ndarray:
    """Return float64[k]: each text times `factor`; nan where there is no value.

    The same as `float` of each, which takes 170 ns for bytes. Where few of the texts differ they
    are remembered (35 ns); else all are taken apart digit by digit at once (80 ns). Raises
    ValueError where a text is neither a number nor nothing; patterns see to it that none is.
    """
    found = _values(texts)
    return found * factor if factor != 1.0 else found


class Known(dict[bytes, float]):
    """Numbers that were met before."""

    def __missing__(self, text: bytes) -> float:
        if len(self) > REMEMBERED:
            self.clear()
        number = self[text] = float("nan") if text in NOTHING else float(text)
        return number


KNOWN = Known()


def _values(texts: Sequence[bytes]) -> np.ndarray:
    some = texts[:SOME]
    if len(set(some)) > SOME // 2 and max(map(len, some)) > SHORT:
        return _decimals(texts)
    return np.fromiter(map(KNOWN.__getitem__, texts), np.float64, len(texts))


def _decimals(texts: Sequence[bytes]) -> np.ndarray:
    packed = np.array(texts, "S") if len(texts) else np.zeros(0, "S1")
    width = packed.itemsize
    if width > DIGITS:
        return np.array([float("nan") if t in NOTHING else float(t) for t in texts], float)
    value, behind = np.zeros(packed.size, np.int64), np.zeros(packed.size, np.int8)
    point, strange = np.zeros(packed.size, bool), np.zeros(packed.size, bool)
    for column in np.ascontiguousarray(packed.view(np.uint8).reshape(-1, width).T):
        digit = column - np.uint8(48)  # what is below "0" wraps around
        is_digit = digit < 10
        value = np.where(is_digit, value * 10 + digit, value)
        if is_digit.all() and not point.any():
            continue
        behind += is_digit & point
        is_point = column == 46
        strange |= ~is_digit & (column != 0) & (point | ~is_point)
        point |= is_point
    found = value / POWERS[behind] if point.any() else value.astype(np.float64)
    strange |= (value >= EXACT) | (packed == b"") | (packed == b".")
    for i in np.flatnonzero(strange).tolist():
        found[i] = float("nan") if texts[i] in NOTHING else float(texts[i])
    return found


POWERS = 10.0 ** np.arange(DIGITS + 1)


def whole(texts: Sequence[bytes], nothing: int, kind: type) -> np.ndarray:
    """Return int[k] of whole numbers; `nothing` where there is no value."""
    found = _values(texts)
    empty = np.isnan(found)
    return np.where(empty, nothing, found).astype(kind) if empty.any() else found.astype(kind)


def unknown(k: int) -> np.ndarray:
    """Return nan, float64[k]."""
    return np.full(k, np.nan)


def kept(batch: Batch, keep: np.ndarray, reason: str) -> Batch:
    """Return the rows where `keep`, bool[k], the others rejected for `reason`."""
    if keep.all():
        return batch
    places = np.flatnonzero(keep)
    return Batch(
        batch.place[keep],
        batch.arrival[keep],
        batch.duration[keep],
        batch.service[keep],
        None if batch.server is None else [batch.server[i] for i in places],
        batch.status[keep],
        batch.size[keep],
        batch.rejected + [(int(i), reason) for i in batch.place[~keep]],
    )


def named(batch: Batch) -> Batch:
    """Return the rows whose server is known."""
    if not batch.server or b"" not in batch.server:
        return batch
    return kept(batch, np.array([bool(name) for name in batch.server], bool), NO_SERVER)


def timed(batch: Batch) -> Batch:
    """Return the rows that have a time."""
    return kept(batch, ~np.isnan(batch.arrival), NO_TIME)
