"""When tasks came: a table of tasks, or counts by time, as one thing to ask about.

A log's clock has a resolution: the coarsest step that all its times are multiples of. Where a log
writes the end of a request, rounded, and its duration, the arrival computed from them looks finer
than it is; then the resolution is that of the ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tables import Counts
from .tasks import Tasks

STEPS = (3600.0, 60.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
LOOKED_AT = 20_000  # times, to find the resolution
EPOCH = 1e8  # s; a clock that shows more began in 1970


@dataclass(frozen=True)
class Stream:
    """Arrivals from 0 to `span`; either each one's time, or counts in bins."""

    times: np.ndarray | None  # float64[k], s, ascending from 0
    counts: np.ndarray | None  # float64[bins]; where there are no times
    bins: float | None  # s, the width of the bins of `counts`
    span: float  # s
    first: float  # when the first one came, s since 1970 or on the log's own clock
    resolution: float  # s, of the clock; 0 where none was found
    of_ends: bool = False  # whether it is that of the ends
    finest: float = 1e-6  # s, the step below which times in double precision mean nothing

    @classmethod
    def of(cls, source: Tasks | Counts) -> Stream:
        """Return the stream of a table of tasks, or of counts."""
        if isinstance(source, Counts):
            counts = source.rates() * source.bin
            return cls(None, counts, source.bin, counts.size * source.bin, source.start, source.bin)
        step, of_ends = find_resolution(source)
        times = source.arrival
        last = float(times[-1]) or 1e-9
        k = times.size
        if k > 1:  # the log could have gone on until the next one
            last = last + step if step and not of_ends else last * k / (k - 1)
        finest = (
            1e-6
            if source.first > EPOCH
            else max(1e-9, 10.0 ** int(np.ceil(np.log10(1e-12 * last))))
        )
        return cls(times, None, None, last, source.first, step, of_ends, finest)

    @property
    def total(self) -> float:
        """How many tasks came."""
        return float(self.times.size if self.times is not None else self.counts.sum())  # type: ignore[union-attr]

    @property
    def daytime(self) -> bool:
        """Whether the clock knows the time of day."""
        return self.first > EPOCH

    def counted(self, width: float) -> tuple[np.ndarray, np.ndarray]:
        """Return places of bins that are not empty, int64[k] ascending, and their counts.

        Counts in bins give no finer answer than their own width.
        """
        if self.times is None:
            assert self.counts is not None
            assert self.bins is not None
            every = max(1, round(width / self.bins))
            place = np.flatnonzero(self.counts)
            return _runs(place // every, self.counts[place])
        # times stand on ticks up to rounding: half a tick keeps them from falling to both sides
        shift = 0.5 * min(self.resolution or self.finest, width) if not self.of_ends else 0.0
        place = np.floor((self.times + shift) / width).astype(np.int64)
        return _runs(place, np.ones(place.size))

    def dense(self, width: float) -> np.ndarray:
        """Return the counts of all bins of a width, float64[ceil(span / width)]."""
        place, count = self.counted(width)
        out = np.zeros(max(1, int(np.ceil(self.span / width - 1e-9))))
        inside = place < out.size
        out[place[inside]] = count[inside]
        out[-1] += count[~inside].sum()
        return out


def _runs(place: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not place.size:
        return place, values
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    return place[starts], np.add.reduceat(values, starts)


def find_resolution(tasks: Tasks) -> tuple[float, bool]:
    """Return the step of the clock (s; 0: none above 1 us) and whether it is that of ends."""
    some = slice(None, None, max(1, len(tasks) // LOOKED_AT))
    arrival = tasks.first + tasks.arrival[some]
    begun = step_of(arrival)
    took = tasks.duration[some]
    known = ~np.isnan(took)
    ended = step_of(arrival[known] + took[known]) if known.mean() > 0.9 else 0.0
    return (ended, True) if ended > begun else (begun, False)


def step_of(values: np.ndarray) -> float:
    """Return the coarsest of `STEPS` that nearly all values are multiples of; 0 where none is."""
    if values.size < 20 or np.ptp(values) <= 0:
        return 0.0
    noise = 4 * np.spacing(np.abs(values).max())
    for step in STEPS:
        part = values / step
        allowed = max(1e-6, 2 * noise / step)
        if allowed > 0.2:
            return 0.0
        whole = np.rint(part)
        if (whole == whole[0]).mean() > 0.99:  # wider than all there is
            continue
        if (np.abs(part - whole) <= allowed).mean() > 0.99:
            return step
    return 0.0
