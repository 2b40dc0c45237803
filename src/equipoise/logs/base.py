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


def numbers(texts: Sequence[bytes], factor: float = 1.0) -> np.ndarray:
    """Return float64[k]: each text times `factor`; nan where there is no value.

    Raises ValueError where a text is neither; patterns see to it that none is.
    """
    try:
        found = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        plain = [b"nan" if text in NOTHING else text for text in texts]
        found = np.fromiter(map(float, plain), np.float64, len(texts))
    return found * factor if factor != 1.0 else found


def whole(texts: Sequence[bytes], nothing: int, kind: type) -> np.ndarray:
    """Return int[k] of whole numbers; `nothing` where there is no value."""
    try:
        return np.fromiter(map(int, texts), kind, len(texts))
    except (ValueError, OverflowError):
        found = numbers(texts)
    return np.where(np.isnan(found), nothing, found).astype(kind)


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


def timed(batch: Batch) -> Batch:
    """Return the rows that have a time."""
    return kept(batch, ~np.isnan(batch.arrival), NO_TIME)
