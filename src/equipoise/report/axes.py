"""Scales, ticks and the placing of labels, for figures we draw ourselves.

Plain arithmetic, no drawing: a `Scale` takes values to positions, `ticks` picks round
numbers, `place` puts words where they cover nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scale:
    """Values in [low, high] to positions in [start, end], which may run backwards.

    `kind` is "linear", "log" (low > 0), or "root": log(1 + x / unit), which is linear
    near 0, logarithmic beyond `unit`, and so shows 0 and the very large at once.
    """

    low: float
    high: float
    start: float
    end: float
    kind: str = "linear"
    unit: float = 1.0

    def _bent(self, x: float) -> float:
        if self.kind == "log":
            return math.log(max(x, 1e-300))
        if self.kind == "root":
            return math.log1p(max(x, 0.0) / self.unit)
        return x

    def __call__(self, x: float) -> float:
        a, b = self._bent(self.low), self._bent(self.high)
        share = (self._bent(x) - a) / (b - a) if b > a else 0.0
        return self.start + share * (self.end - self.start)

    def clipped(self, x: float) -> float:
        """Return the position of x, or of the nearest end when it is outside."""
        return self(min(max(x, self.low), self.high))

    def ticks(self, about: int = 5) -> list[float]:
        """Return about that many round values inside the scale, ascending."""
        if self.kind == "log":
            return log_ticks(self.low, self.high, about)
        if self.kind == "root":
            small = [x for x in log_ticks(self.unit, self.high, about) if x >= self.unit]
            return [0.0, *small]
        return ticks(self.low, self.high, about)


def step(span: float, about: int) -> float:
    """Return the round step (1, 2, 2.5 or 5 times a power of ten) that cuts `span` so often."""
    raw = span / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round values in [low, high], ascending, about that many.

    >>> ticks(0, 13, 4)
    [0.0, 5.0, 10.0]
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    by = step(high - low, about)
    first = math.ceil(low / by - 1e-9)
    last = math.floor(high / by + 1e-9)
    return [round(i * by, 12) for i in range(first, last + 1)]


def whole_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round whole numbers in [low, high], for counts.

    >>> whole_ticks(0, 13, 6)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    by = max(1.0, step(high - low, about)) if high > low else 1.0
    by = 2.0 if by == 2.5 else by
    return [float(i * by) for i in range(math.ceil(low / by), math.floor(high / by + 1e-9) + 1)]


def log_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round values in [low, high], 0 < low < high, evenly spread in the logarithm.

    >>> log_ticks(0.5, 200)
    [1.0, 10.0, 100.0]
    """
    decades = math.log10(high / low)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 6, 8)):
        if decades * len(digits) >= about - 2.5:
            break
    every = max(1, math.ceil(decades / (2 * about))) if len(digits) == 1 else 1
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    values = [float(f"{d}e{k}") for k in powers if k % every == 0 for d in digits]
    inside = [x for x in values if low * (1 - 1e-9) <= x <= high * (1 + 1e-9)]
    return inside or [low]


def time_axis(span: float) -> tuple[str, float]:
    """Return the unit in which a run of `span` seconds is told, and its length in seconds."""
    for name, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if span >= 3 * size:
            return name, size
    return ("seconds", 1.0) if span >= 0.5 else ("milliseconds", 1e-3)


def time_ticks(span: float, unit: float, about: int = 5) -> list[float]:
    """Return round moments in [0, span] in `unit`s: 0, 15, 30, 45, 60 of an hour, not 0, 20, ..

    `span` is in seconds, `unit` is the unit's length in seconds.
    """
    length = span / unit
    sixties = {60.0: (1, 2, 5, 10, 15, 20, 30, 60), 3600.0: (0.5, 1, 2, 3, 4, 6, 12, 24)}
    for by in sixties.get(unit, ()):
        if length / by <= about + 0.01:
            return [i * by for i in range(int(length / by + 1e-9) + 1)]
    return ticks(0.0, length, about)


Box = tuple[float, float, float, float]  # left, top, right, bottom


def overlap(a: Box, b: Box) -> float:
    """Return the area two boxes share."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _covered(boxes: Sequence[Box], by: Sequence[Box]) -> np.ndarray:
    """Return the area of each box that all of `by` cover, summed; arrays, for they are many."""
    if not by:
        return np.zeros(len(boxes))
    a, b = np.array(boxes)[:, None, :], np.array(by)[None, :, :]
    least = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    return np.maximum(least, 0.0).prod(axis=2).sum(axis=1)


def place(
    candidates: Sequence[Sequence[Box]], obstacles: Sequence[Sequence[Box]], inside: Box
) -> list[int]:
    """Choose one of each label's candidate boxes, so that they cover as little as can be.

    Greedy: labels are placed in order, each where it overlaps placed labels least (weighted
    most), then leaves the frame least, then covers the obstacles least, then comes first
    among its candidates. `obstacles[i]` are those that matter to label i. Returns the index
    chosen for each label.
    """
    placed: list[Box] = []
    chosen = []
    for boxes, avoid in zip(candidates, obstacles, strict=True):
        covered = _covered(boxes, avoid)
        best, least = 0, math.inf
        for i, box in enumerate(boxes):
            area = (box[2] - box[0]) * (box[3] - box[1])
            cost = 100 * sum(overlap(box, other) for other in placed)
            cost += 100 * (area - overlap(box, inside))
            cost += covered[i] + 0.1 * i
            if cost < least:
                best, least = i, cost
        placed.append(boxes[best])
        chosen.append(best)
    return chosen
