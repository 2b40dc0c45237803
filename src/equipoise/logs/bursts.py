"""Do tasks come one by one? Index of dispersion at several time scales, and ties.

Counted in bins of a width s, a stream has the index of dispersion I(s) = Var N / E N: 1 at all
scales for a Poisson stream; E B^2 / E B at all scales where tasks come in batches of B; rising with
s where the rate changes. A rate that changes slowly also raises I(s), so what decides here is
local, and exact whatever the rate does over longer times: of S tasks in a window of w ticks, each
pair falls on the same tick with chance 1/w if the tasks have nothing to do with one another, and
these pairs are pairwise independent, so that the number of pairs has

    mean  sum C(S, 2) / w,    variance  sum C(S, 2) (1/w) (1 - 1/w).

With the ticks of the clock that is the test of ties. Times rounded to a tick have ties, but no more
than these; batches have more. With w = 2 and wider ticks it is the test of neighbouring bins: their
squared differences over their sums average 1. Both say how much too many pairs there are, and the
chance of so many. What stays below `DOUBT` is called a batch, a rounded time is one that was found.

Source: Cox and Lewis (1966), The Statistical Analysis of Series of Events, chapters 4 and 6;
Fendick and Whitt (1989), Proc. IEEE 77(1), for indices of dispersion as a measure of traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .stream import Stream

DOUBT = 1e-4  # a stream without batches is said to have some once in so many times
LEAST_EXCESS = 0.02  # companions of a task at its instant that are worth a word
NEAR = 0.02  # what is nearer than this part of a mean gap may be called together
WINDOW = 4.0  # tasks in a window of the test of ties, on average ..
MOST_TICKS = 10  # .. unless it would be wider than so many ticks, over which a rate may change
CERTAIN = 5.0  # standard errors, from which the rate is said to change; there are many scales
SCALES = 24  # at most


@dataclass(frozen=True)
class Scale:
    """Counts in bins of one width."""

    width: float  # s
    bins: int
    index: float  # variance over mean of all counts: 1 for a Poisson stream of constant rate
    local: float  # the same from neighbouring bins: 1 for a Poisson stream whose rate changes
    deviation: float  # of `local` from 1, in standard errors


@dataclass(frozen=True)
class Ties:
    """Tasks on the same tick, against what chance would put there."""

    tick: float  # s
    tasks: int  # that share their tick with an earlier one
    pairs: float
    expected: float  # pairs, given the tasks in each window, if they fell on ticks at random
    chance: float  # pairs that are left to chance once the batches are taken out
    p: float  # the chance of so many pairs or more
    excess: float  # companions that each task has at its instant, chance left out

    @property
    def dispersion(self) -> float:
        """E B^2 / E B of batches of B that would explain it; 1 where there are none."""
        return 1.0 + max(0.0, self.excess)

    @property
    def decided(self) -> bool:
        """Whether there are more ties than chance explains."""
        return self.p < DOUBT and self.excess >= LEAST_EXCESS


@dataclass(frozen=True)
class Bursts:
    """How tasks come.

    `kind` is "poisson" (nothing speaks against single, independent tasks), "rounded" (the same, as
    far as a clock lets one see whose ticks many tasks share), or "batches"; "counts" where only
    counts in wide bins are known, and "few" where the tasks are too few to say.
    """

    kind: str
    resolution: float  # s, of the clock; 0 where none was found
    of_ends: bool  # whether it is that of the ends, arrivals being computed from them
    ties: Ties | None
    scales: tuple[Scale, ...]
    changes: Scale | None  # the shortest on which the rate changes, or batches show; None: none
    batch_mean: float  # tasks at an instant; 1 where there are no batches
    batch_sizes: tuple[tuple[int, ...], tuple[float, ...]] | None  # sizes, shares; None: not seen

    @property
    def dispersion(self) -> float:
        """What short bins vary more than Poisson counts, at least 1: E B^2 / E B of batches."""
        if self.kind == "batches" and self.ties is not None:
            return self.ties.dispersion
        if self.kind == "counts":
            return max(1.0, *(s.local for s in self.scales[:1]), 1.0)
        return 1.0


def find_bursts(stream: Stream) -> Bursts:
    """Return how the tasks of a stream come; at least 50 of them are needed to say anything."""
    scales = _scales(stream)
    changes = next(
        (s for s in scales if s.deviation > CERTAIN and s.local > 1 + LEAST_EXCESS), None
    )
    few = Bursts("few", stream.resolution, stream.of_ends, None, scales, changes, 1.0, None)
    if stream.total < 50 or stream.span <= 0:
        return few
    if stream.bins is not None and stream.bins > 1.0:
        return Bursts("counts", stream.bins, False, None, scales, changes, 1.0, None)
    tried = [ties_of(stream, tick) for tick in _ticks(stream)]
    ties = _deciding(tried)
    kind = "rounded" if ties.tasks and stream.resolution else "poisson"
    mean, sizes = 1.0, None
    if ties.decided:
        kind = "batches"
        mean, sizes = _batches(stream, ties)
    return Bursts(kind, stream.resolution, stream.of_ends, ties, scales, changes, mean, sizes)


def ties_of(stream: Stream, tick: float) -> Ties:
    """Return the test of ties on ticks of so many seconds."""
    place, count = stream.counted(tick)
    pairs = float((count * (count - 1)).sum() / 2)
    rate = stream.total / stream.span * tick  # tasks a tick
    w = max(2, int(min(MOST_TICKS, np.ceil(WINDOW / rate))))
    sums = _added(place // w, count)[1]
    within = float((sums * (sums - 1)).sum() / 2)
    expected, variance = within / w, within / w * (1 - 1 / w)
    excess = 2 * (pairs - expected) / (1 - 1 / w) / stream.total
    chance = max(0.0, (expected - pairs / w) / (1 - 1 / w))
    p = _tail(pairs, expected, variance)
    return Ties(tick, int(stream.total - place.size), pairs, expected, chance, p, excess)


def _tail(pairs: float, expected: float, variance: float) -> float:
    """P(so many pairs or more): of a Poisson number where few are expected, else normal."""
    from scipy.special import ndtr, pdtrc

    if pairs <= 0 or variance <= 0:
        return 1.0
    if expected < 100:
        return float(pdtrc(pairs - 1, expected))
    return float(ndtr(-(pairs - 0.5 - expected) / np.sqrt(variance)))


def _ticks(stream: Stream) -> list[float]:
    """The ticks to try: that of the clock, and wider ones that still are short against a gap."""
    gap = stream.span / stream.total
    first = stream.resolution or stream.finest
    ticks = [first]
    while ticks[-1] * 10 <= NEAR * gap:
        ticks.append(ticks[-1] * 10)
    return ticks


def _deciding(tried: list[Ties]) -> Ties:
    """The narrowest tick on which nearly all companions are found; the clock's where none are."""
    found = [t for t in tried if t.p * len(tried) < DOUBT and t.excess >= LEAST_EXCESS]
    if not found:
        return tried[0]
    most = max(t.excess for t in found)
    return next(t for t in found if t.excess >= 0.8 * most)


def _batches(
    stream: Stream, ties: Ties
) -> tuple[float, tuple[tuple[int, ...], tuple[float, ...]] | None]:
    """Return the mean size of batches and, where ticks hold no more than one batch, their sizes.

    Else the sizes are taken to be geometric, whose E B^2 / E B is 2 m - 1 at mean m.
    """
    _, count = stream.counted(ties.tick)
    if ties.chance > 0.02 * ties.pairs:
        return (ties.dispersion + 1) / 2, None
    sizes, often = np.unique(np.rint(count).astype(np.int64), return_counts=True)
    return float(count.mean()), (
        tuple(sizes.tolist()),
        tuple((often / often.sum()).tolist()),
    )


def _scales(stream: Stream) -> tuple[Scale, ...]:
    """Return the dispersion in bins that hold half a task on average, and in wider and wider ones.

    At least ten bins of the widest.
    """
    if stream.total < 2 or stream.span <= 0:
        return ()
    narrow = max(stream.resolution, 0.5 * stream.span / stream.total, stream.bins or 0.0)
    if stream.resolution:
        narrow = np.ceil(narrow / stream.resolution - 1e-9) * stream.resolution
    wide = stream.span / 10
    if wide < narrow:
        return ()
    steps = min(SCALES, 1 + int(np.log2(wide / narrow)))
    return tuple(_scale(stream, narrow * 2.0**i) for i in range(steps))


def _scale(stream: Stream, width: float) -> Scale:
    place, count = stream.counted(width)
    bins = max(1, int(stream.span / width))
    inside = place < bins
    place, count = place[inside], count[inside]
    mean = count.sum() / bins
    index = float((count**2).sum() / bins / mean - mean) if mean > 0 else 1.0
    paired = place < bins // 2 * 2
    local, error = _local(place[paired], count[paired])
    deviation = (local - 1) / error if error > 0 else 0.0
    return Scale(width, bins, index, local, deviation)


def _local(place: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """Squared differences of neighbouring bins over their sums, and its standard error.

    Given the sum S of a pair of bins the squared difference has mean S and variance 2 S (S - 1).
    """
    _, total = _added(place // 2, count)
    first = np.where(place % 2 == 0, count, -count)
    gap = _added(place // 2, first)[1]
    weight = float(total.sum())
    if weight <= 0:
        return 1.0, 0.0
    variance = float(np.maximum(2 * total * (total - 1), 0).sum())
    return float((gap**2).sum()) / weight, np.sqrt(variance) / weight


def _added(place: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending places, each once, and the sum of their values."""
    if not place.size:
        return place, values
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    return place[starts], np.add.reduceat(values, starts)
