"""The tasks of one run, block by block: when each comes and how long it takes.

Poisson streams of piecewise-constant rate are exact: with L(t) the integral of the rate
and E_1, E_2, ... the points of a Poisson stream of rate 1, the arrivals are L^-1(E_i)
(Cinlar 1975, the inversion method). An interval of rate 0 has no points because L stands
still there, and no interval is skipped. Where the rate is linear between two times L is
quadratic there, and its inverse is still closed. A sinusoid is drawn by thinning: candidates
at the largest rate, each kept with probability rate(t) / largest (Lewis and Shedler 1979).

All streams are made in chunks of fixed size and handed out in blocks of any size, so the
tasks do not depend on how a run is cut into blocks, and memory does not depend on its
length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from equipoise.scenario.batch import Batch
from equipoise.scenario.flow import Flow
from equipoise.scenario.trace import Recording

CHUNK = 65536

Tasks = tuple[np.ndarray, np.ndarray]  # times float64[k], sizes float64[k], both in s


class Sampler(Protocol):
    """A law of service times."""

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray: ...


class TaskStream:
    """Tasks in order of arrival, taken block by block until there are none."""

    def __init__(self, chunks: Iterable[Tasks]) -> None:
        self._chunks = iter(chunks)
        self._times = self._sizes = np.empty(0)
        self._next = 0

    def block(self, most: int = CHUNK) -> Tasks:
        """Return the next tasks, at least one and at most `most`; none when the traffic has ended.

        Returns (times, sizes): float64[k] each, in seconds; times ascend, from one block to
        the next too. The arrays are views, to be read only.
        """
        if most < 1:
            raise ValueError(f"a block holds at least 1 task, not {most}")
        while self._next == len(self._times):
            chunk = next(self._chunks, None)
            if chunk is None:
                return self._times[:0], self._sizes[:0]
            self._times, self._sizes = chunk
            self._next = 0
        block = slice(self._next, min(self._next + most, len(self._times)))
        self._next = block.stop
        return self._times[block], self._sizes[block]


class TaskSplit:
    """Which of several dispatchers each task comes to, in order of arrival."""

    def __init__(self, chunks: Iterable[np.ndarray]) -> None:
        self._chunks = iter(chunks)
        self._left = np.empty(0, np.int64)

    def take(self, k: int) -> np.ndarray:
        """Return the dispatchers of the next k tasks, int64[k], numbered from 0."""
        parts, found = [self._left], len(self._left)
        while found < k:
            parts.append(next(self._chunks))
            found += len(parts[-1])
        whole = np.concatenate(parts)
        self._left = whole[k:]
        return whole[:k].copy()


def at_random(dispatchers: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the dispatchers of tasks that come to any of them, for ever, int64[CHUNK] each."""
    while True:
        yield rng.integers(0, dispatchers, CHUNK)


def poisson_times(flow: Flow, rng: np.random.Generator, chunk: int = CHUNK) -> Iterator[np.ndarray]:
    """Yield the points of a Poisson stream of this rate, float64[k] seconds, up to `chunk` each."""
    return _thinned(flow, rng, chunk) if flow.amplitude > 0 else _inverted(flow, rng, chunk)


def _inverted(flow: Flow, rng: np.random.Generator, chunk: int) -> Iterator[np.ndarray]:
    edges, base, slope = flow.edges, flow.base, flow.slope
    rise = slope.any()
    spans = np.diff(edges)
    mass = base * spans
    if rise:
        mass = mass + slope * spans**2 / 2
    expected = np.concatenate(([0.0], np.cumsum(mass)))
    passed = 0.0
    while passed < expected[-1]:
        points = passed + np.cumsum(rng.standard_exponential(chunk))
        passed = float(points[-1])
        if passed >= expected[-1]:
            points = points[: np.searchsorted(points, expected[-1], side="left")]
        # The last interval that starts at or below the point: never one of rate 0.
        interval = np.searchsorted(expected, points, side="right") - 1
        into, first = points - expected[interval], base[interval]
        if rise:  # solve first x + slope x^2 / 2 = into, in the form that loses no digits
            root = np.sqrt(np.maximum(first**2 + 2 * slope[interval] * into, 0.0))
            yield np.minimum(edges[interval] + 2 * into / (first + root), edges[interval + 1])
        else:
            yield edges[interval] + into / first


def _thinned(flow: Flow, rng: np.random.Generator, chunk: int) -> Iterator[np.ndarray]:
    most, now = float(flow.most[0]), 0.0
    while True:
        times = now + np.cumsum(rng.standard_exponential(chunk)) / most
        now = float(times[-1])
        yield times[rng.random(chunk) * most < flow.rate(times)]


def in_batches(
    points: Iterable[np.ndarray], batch: Batch, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield the arrivals of tasks, as many at each point as `batch` says."""
    for some in points:
        yield np.repeat(some, batch.sample(rng, len(some)))


def with_sizes(
    times: Iterable[np.ndarray], law: Sampler, rng: np.random.Generator
) -> Iterator[Tasks]:
    """Yield (times, sizes), each task with a service time of its own."""
    for some in times:
        yield some, law.sample(rng, len(some))


def copied(
    recording: Recording, scale: int, jitter: float, rng: np.random.Generator
) -> Iterator[Tasks]:
    """Yield (times, sizes) with every recorded task `scale` times, in order of arrival.

    The first copy is where it was recorded, each other one later by an amount uniform on
    [0, jitter) s. Sizes are those recorded, or empty where the recording has none. Kept
    in memory: the copies that belong after what was yielded so far.
    """
    times = recording.times
    sizes = np.empty(0) if recording.sizes is None else recording.sizes
    step = max(1, CHUNK // scale)
    late_times, late_sizes = np.empty(0), np.empty(0)
    for start in range(0, len(times), step):
        here = times[start : start + step]
        moved = np.zeros((len(here), scale))
        moved[:, 1:] = rng.uniform(0.0, jitter, (len(here), scale - 1))
        new_times = np.concatenate((late_times, (here[:, None] + moved).ravel()))
        order = np.argsort(new_times, kind="stable")
        new_times = new_times[order]
        new_sizes = sizes
        if len(sizes):
            copies = np.repeat(sizes[start : start + step], scale)
            new_sizes = np.concatenate((late_sizes, copies))[order]
        if start + step < len(times):
            done = int(np.searchsorted(new_times, times[start + step], side="left"))
        else:
            done = len(new_times)
        late_times, late_sizes = new_times[done:], new_sizes[done:]
        if done:
            yield new_times[:done], new_sizes[:done]
