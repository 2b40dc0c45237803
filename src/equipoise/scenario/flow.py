"""The rate of a Poisson stream, exactly, at every moment.

Time is cut into pieces; on the piece that begins at `edges[i]` the rate at time t is

    base[i] + slope[i] (t - edges[i]) + amplitude sin(omega t + phase)    tasks per second,

where the sine stands alone (one piece, slope 0) or is absent. That covers constant rates, tables of
rates constant or linear between times, and sinusoids. Drawing from it: stream.py, by inversion or,
with the sine, by thinning; the memoryless kernel, by thinning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Flow(NamedTuple):
    """Tasks per second over time, all servers together; nothing comes after the last edge."""

    edges: np.ndarray  # float64[k + 1], s; the last may be infinite
    base: np.ndarray  # float64[k], tasks/s
    slope: np.ndarray  # float64[k], tasks/s^2
    amplitude: float = 0.0  # tasks/s, at most the base
    omega: float = 0.0  # radians per second
    phase: float = 0.0  # radians

    @classmethod
    def constant(cls, rate: float) -> Flow:
        """Return the flow of a constant rate, for ever."""
        return cls(np.array([0.0, np.inf]), np.array([rate]), np.zeros(1))

    @property
    def changes(self) -> bool:
        """Whether the rate changes within a piece."""
        return self.amplitude > 0 or bool(self.slope.any())

    @property
    def most(self) -> np.ndarray:
        """Return the largest rate on each piece, float64[k] tasks/s."""
        rising = self.slope > 0  # those have an end
        rise = np.zeros(self.base.size)
        rise[rising] = self.slope[rising] * np.diff(self.edges)[rising]
        return self.base + rise + self.amplitude

    def rate(self, t: np.ndarray) -> np.ndarray:
        """Return the rate at times t >= 0, float64 like t, tasks/s."""
        t = np.asarray(t, float)
        piece = np.minimum(np.searchsorted(self.edges, t, side="right") - 1, self.base.size - 1)
        here = self.base[piece] + self.slope[piece] * (t - self.edges[piece])
        here = here + self.amplitude * np.sin(self.omega * t + self.phase)
        return np.where(t < self.edges[-1], here, 0.0)

    def expected(self, t: np.ndarray) -> np.ndarray:
        """Return how many tasks are expected until times t >= 0 (finite), float64 like t."""
        t = np.minimum(np.asarray(t, float), self.edges[-1])
        spans = np.diff(self.edges)[:-1]
        whole = np.cumsum(self.base[:-1] * spans + self.slope[:-1] * spans**2 / 2)
        before = np.concatenate(([0.0], whole))
        piece = np.minimum(np.searchsorted(self.edges, t, side="right") - 1, self.base.size - 1)
        into = t - self.edges[piece]
        found = before[piece] + self.base[piece] * into + self.slope[piece] * into**2 / 2
        if self.amplitude > 0:
            turned = np.cos(self.phase) - np.cos(self.omega * t + self.phase)
            found = found + self.amplitude / self.omega * turned
        return found

    def spread(self, end: float) -> tuple[float, float, float]:
        """Return the mean, the least and the most of the rate from 0 to `end` s; inf: for ever."""
        if self.amplitude > 0 and end >= 2 * np.pi / self.omega:
            base = float(self.base[0])
            mean = base if end == np.inf else float(self.expected(np.array(end))) / end
            return mean, base - self.amplitude, base + self.amplitude
        if end == np.inf:
            return (float(self.base[0]),) * 3
        end = min(end, float(self.edges[-1]))
        inside = self.edges[:-1] < end
        start, until = self.edges[:-1][inside], np.minimum(self.edges[1:][inside], end)
        first = self.base[inside]
        rates = [first, first + self.slope[inside] * (until - start)]
        if self.amplitude > 0:  # the ends of the run, and the turns of the sine within it
            turns = (np.array([0.5, 1.5]) * np.pi - self.phase) % (2 * np.pi) / self.omega
            rates = [self.rate(np.append(turns[turns < end], (0.0, end)))]
        every = np.concatenate(rates)
        mean = float(self.expected(np.array(end))) / end
        return mean, float(every.min()), float(every.max())
