"""How far n pools are from the limit: deviations of order n^(-1/2) around the balanced state.

Under jsq and under the threshold l = K = floor(lam) alike, with q(i) the fraction of pools that have
at least i tasks:

*lam not whole*: hardly a pool has fewer than K or more than K + 1, and
Z = sqrt(n) (q(K+1) - (lam - K)) tends to the Ornstein-Uhlenbeck process

    dZ = -Z dt + sqrt(2 lam) dW,      at rest Normal(0, lam), autocorrelation e^-s.

*lam = K whole*: the missing tasks M = n^(-1/2) sum_{i<=K} n (1 - q(i)) and the pools beyond
Q = sqrt(n) q(K+1) tend to

    dM = -(M + K Q) dt + sqrt(2 K) dW + dV,       dQ = dV - (K + 1) Q dt,

V the least non-decreasing process that keeps M >= 0. Then Q - M is Ornstein-Uhlenbeck with variance
K at rest, E M = E Q, and E dV/dt = (K + 1) E Q: the tasks per unit of time, over sqrt(n), that find
nothing missing. At finite n the pair is the chain of pairs.py; means at rest are those of the chain,
extrapolated in n^(-1/2).
Source: Goldsztajn et al. 2022, Theorems 3 and 4, after Mukherjee, Borst, van Leeuwaarden, Whiting
(2016); the equations are worked out here from the chain. Whether l = K - 1 has the same limit at
whole lam is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .offered_load import check_times
from .pairs import pair_law
from .states import check_load, whole

FELT = 4.0  # standard deviations of the load
SIZES = (256, 1024, 4096, 16384)  # n, each four times the last: n^(-1/2) halves


@dataclass(frozen=True)
class Spread:
    """How far n pools are from the balanced state at rest, under jsq or the right threshold."""

    servers: int  # n
    load: float  # tasks offered per pool
    tasks: float  # standard deviation of the tasks per pool, sqrt(lam / n): exact at every n
    distance: float  # root mean square Euclidean distance of q from q*(lam)
    nearest: int  # the nearest whole number >= 1
    misplaced: float  # mean tasks per pool that are on a level too high; 0 if of order 1/n

    @property
    def deviations(self) -> float:
        """From the load to `nearest`, in standard deviations of the tasks per pool."""
        return abs(self.load - self.nearest) / self.tasks

    @property
    def whole_felt(self) -> bool:
        """Whether `nearest` is so near that the law of q is not the normal one."""
        return self.deviations < FELT


def spread(servers: int, load: float) -> Spread:
    """Return how far n pools are from the balanced state at rest, under jsq.

    Away from whole numbers q(K+1) alone varies, and is Normal(lam - K, lam / n). Within 4 standard
    deviations of a whole number k the exact chain of tasks missing below k and pools with k + 1 is
    solved at this n; thresholds that learn the load are like jsq then, fixed ones differ.

    Raises
    ------
    EquipoiseError
        If servers < 1 or load is not > 0, or the chain would be too large (n above 10^6 or so).
    """
    n, load = whole(servers, "servers", 1), check_load(load)
    sd, k = math.sqrt(load / n), max(1, math.floor(load + 0.5))
    if abs(load - k) >= FELT * sd:
        return Spread(n, load, sd, sd, k, 0.0)
    law = pair_law(n, load, k)
    missing, beyond = max(0.0, n * (k - load)), max(0.0, n * (load - k))
    square = law.missing_square - 2 * missing * law.missing + missing**2
    square += law.beyond_square - 2 * beyond * law.beyond + beyond**2
    return Spread(n, load, sd, math.sqrt(square) / n, k, max(0.0, law.beyond - beyond) / n)


def autocorrelation(lag: Any) -> Any:
    """Return the correlation of Z, and of the tasks in the system, over a time `lag` >= 0.

    e^-lag, in mean service times; exact at every n for the tasks if service is exponential.
    """
    return np.exp(-np.abs(lag))


@dataclass(frozen=True)
class WholeLoad:
    """Stationary means of the limit for a whole load lam = K."""

    level: int  # K
    missing: float  # E M = E Q, over sqrt(n)
    beyond_square: float  # E Q^2, over n
    error: float  # of `missing`
    square_error: float  # of `beyond_square`

    @property
    def beyond(self) -> float:
        """E Q, over sqrt(n): the same as E M."""
        return self.missing

    @property
    def push(self) -> float:
        """E dV/dt = (K + 1) E Q: tasks that find nothing missing per unit of time, over sqrt(n)."""
        return (self.level + 1) * self.missing


@lru_cache(maxsize=32)
def whole_load(level: int) -> WholeLoad:
    """Return the stationary means of (M, Q) for lam = K = `level` >= 1.

    From the chains of n = 256, ..., 16384 pools by repeated extrapolation in n^(-1/2); the errors
    are by how much the last two extrapolations differ. Takes about a second.
    """
    level = whole(level, "level", 1)
    laws = [pair_law(n, float(level), level) for n in SIZES]
    missing = [law.missing / math.sqrt(law.servers) for law in laws]
    square = [law.beyond_square / law.servers for law in laws]
    (m, dm), (q, dq) = extrapolate(missing), extrapolate(square)
    return WholeLoad(level, m, q, dm, dq)


def extrapolate(values: list[float]) -> tuple[float, float]:
    """Return (limit, error) of f(e), f(e/2), f(e/4), ..., a power series in e."""
    rows = [np.asarray(values, dtype=float)]
    power = 1
    while len(rows[-1]) > 1:
        last = rows[-1]
        rows.append((2**power * last[1:] - last[:-1]) / (2**power - 1))
        power += 1
    return float(rows[-1][0]), float(abs(rows[-1][0] - rows[-2][-1]))


@dataclass(frozen=True, eq=False)
class Paths:
    """Sample paths of the limits; each float64[paths, k]."""

    times: np.ndarray  # float64[k]
    missing: np.ndarray  # M
    beyond: np.ndarray  # Q
    push: np.ndarray  # V, from 0


def ornstein_uhlenbeck(
    load: float, times: Any, generator: np.random.Generator, paths: int = 1, start: Any = None
) -> np.ndarray:
    """Draw paths of Z at `times`, exact in law: float64[paths, k].

    `start` is Z(0), a number or float64[paths]; by default it is drawn from the law at rest.
    """
    load, times = check_load(load), check_times(times)
    z = generator.normal(0, math.sqrt(load), paths) if start is None else np.full(paths, start)
    out, now = np.empty((paths, len(times))), 0.0
    for k, t in enumerate(times):
        keep = math.exp(-(t - now))
        z = keep * z + math.sqrt(load * (1 - keep**2)) * generator.standard_normal(paths)
        out[:, k], now = z, t
    return out


def reflected(
    level: int,
    times: Any,
    generator: np.random.Generator,
    paths: int = 1,
    start: tuple[Any, Any] = (0.0, 0.0),
    dt: float = 2e-3,
) -> Paths:
    """Draw paths of (M, Q, V) for lam = K = `level`, by Euler's scheme with exact reflection.

    In a step the least value of the free path is drawn too (that of a Brownian bridge between its
    ends), so V is pushed by what a discrete path does not see; the error in law is of order dt.

    Parameters
    ----------
    level
        K >= 1.
    times
        float64[k], ascending, >= 0, in mean service times.
    generator
        Where the randomness comes from.
    start
        (M, Q) at time 0, each a number >= 0 or float64[paths].
    dt
        Longest time step.

    Raises
    ------
    EquipoiseError
        If an argument makes no sense.
    """
    level, times = whole(level, "level", 1), check_times(times)
    if not (math.isfinite(dt) and dt > 0):
        raise EquipoiseError(f"dt = {dt:g} must be a number > 0, in mean service times")
    m, q = (np.broadcast_to(np.asarray(s, dtype=float), paths).copy() for s in start)
    if m.min() < 0 or q.min() < 0:
        raise EquipoiseError("start: M and Q must be >= 0")
    v, now = np.zeros(paths), 0.0
    out = [np.empty((paths, len(times))) for _ in range(3)]
    for k, t in enumerate(times):
        steps = math.ceil((t - now) / dt - 1e-9)
        h = (t - now) / max(steps, 1)
        for _ in range(steps):
            m, q, pushed = _reflect(m, q, level, h, generator)
            v = v + pushed
        now = t
        for row, value in zip(out, (m, q, v), strict=True):
            row[:, k] = value
    return Paths(times, *out)


def _reflect(m, q, level, h, generator):
    """One step: (M, Q, what V grew by)."""
    free = m - (m + level * q) * h + math.sqrt(2 * level * h) * generator.standard_normal(len(m))
    # the minimum of a Brownian bridge from m to `free` whose variance over the step is 2 K h
    spread = (free - m) ** 2 - 4 * level * h * np.log(1 - generator.random(len(m)))
    least = 0.5 * (m + free - np.sqrt(spread))
    pushed = np.maximum(0.0, -least)
    return free + pushed, q - (level + 1) * q * h + pushed, pushed
