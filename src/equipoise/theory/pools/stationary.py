"""Where pools under a threshold come to rest: Poisson laws cut to a range, with mean `load`.

For every threshold l and h = l + step the number of tasks at a pool has at rest, as n grows, the
Poisson(r) law restricted to a range of levels, r being fixed by the mean:

    pi(j) = (r^j / j!) / sum_{k=a}^{b} r^k / k!,     a <= j <= b,     sum_j j pi(j) = lam.

    too high   l > lam         a, b = 0, l      r = lam / (1 - theta), theta = q(l) = pi(l), which is
                                                ErlangB(l, r): the share of full "lines"
    right      l <= lam <= h   a, b = l, h      r = rate per pool below h; step = 1: pi(h) = lam - l
    too low    h < lam         a, b = h, inf    r = lam - h pi(h): what goes to every pool at random

r is where arrivals reach a pool below b; from a a finished task is made good at once.

*Any service law of the same mean, in phases, has the same law of the number at a pool*: given the
number, phases are as in an unrestricted M/G/inf. At b arrivals are cut off, which never matters to
it; at a a finished task is replaced by a fresh one, and the flow out of a state by that equals the
flow that arrivals from a - 1 would have brought. So `load` is the offered load, rate x mean time.

*Fluid-optimal thresholds* (every start tends to the balanced state, step 1): l = floor(lam), and
l = lam - 1 too if lam is whole. For steps beyond 1 every l <= lam <= h keeps all pools in l..h.

*Messages per task* at rest, by tokens: exactly 1 unless the threshold is too low,
    too high   on arrival 1 - l pi(l) / lam,               on departure l pi(l) / lam
    right      on arrival r sum_{j=l}^{h-2} pi(j) / lam,   on departure the rest
    too low    on departure h pi(h) / lam

*At the boundary* the number of pools that miss tasks is finite as n grows: geometric with mean
p / (1 - p), p = a pi(a) / lam, of those below a.

Source: Goldsztajn et al. 2022, section 3 (Theorem 2, its corollary and the two examples); the one
form of all three, the insensitivity, and messages are worked out here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .states import check_level, check_load, mean_tasks, occupancy_of, whole

HIGH, RIGHT, LOW = "too high", "right", "too low"


@dataclass(frozen=True, eq=False)
class Rest:
    """The stationary point of the fluid limit under a threshold."""

    load: float  # tasks offered per pool
    level: int  # l
    step: int  # h = l + step
    regime: str  # "too high", "right" or "too low"
    low: int  # a, the fewest tasks a pool has
    high: int | None  # b, the most; None if there is no most
    rate: float  # r; 0 if all pools have a tasks, inf if all have b
    shares: np.ndarray  # float64[levels], pi(j) from level 0 on

    @property
    def occupancy(self) -> np.ndarray:
        """q, float64[levels]: the fraction of pools with at least i tasks."""
        return occupancy_of(self.shares)

    @property
    def theta(self) -> float:
        """The fraction of pools that are at b (too high, right) or above a (too low)."""
        return float(self.shares[self.high] if self.high is not None else self.above_low)

    @property
    def above_low(self) -> float:
        """1 - pi(a), summed without cancelling."""
        return float(self.shares[self.low + 1 :].sum())

    @property
    def variance(self) -> float:
        """Variance of the number of tasks at a pool; that of Poisson(load) under random sending."""
        away = np.arange(len(self.shares)) - self.load
        return float(self.shares @ away**2)

    @property
    def tasks_share(self) -> np.ndarray:
        """Fraction of the tasks that share their pool with x in all, float64[levels]."""
        return np.arange(len(self.shares)) * self.shares / self.load

    @property
    def messages(self) -> tuple[float, float]:
        """Messages per task (on arrival, on departure) as n grows."""
        if self.regime == HIGH:
            full = self.level * self.theta / self.load
            return 1 - full, full
        if self.regime == LOW:
            return 0.0, float(self.low * self.shares[self.low] / self.load)
        below = float(self.shares[self.low : self.low + self.step - 1].sum())
        on_arrival = self.rate * below / self.load if below > 0 else 0.0
        return on_arrival, 1 - on_arrival

    @property
    def falling(self) -> float:
        """p = a pi(a) / lam: the part of the tasks needed to keep pools from falling below a."""
        return float(self.low * self.shares[self.low] / self.load)

    @property
    def missing_pools(self) -> float:
        """Mean number of pools below a as n grows, geometric; inf if of order sqrt(n) (lam = a)."""
        p = self.falling
        return p / (1 - p) if p < 1 else math.inf


def rest_point(load: float, level: int, step: int = 1) -> Rest:
    """Return where pools under the threshold `level` come to rest as n grows.

    Parameters
    ----------
    load
        Tasks offered per pool, > 0.
    level, step
        l >= 0 and step >= 1.

    Raises
    ------
    EquipoiseError
        If one of them is not so.
    """
    load, (level, step) = check_load(load), check_level(level, step)
    high: int | None
    if level > load:
        regime, low, high = HIGH, 0, level
    elif load <= level + step:
        regime, low, high = RIGHT, level, level + step
    else:
        regime, low, high = LOW, level + step, None
    rate, shares = cut_poisson(load, low, high)
    return Rest(load, level, step, regime, low, high, rate, shares)


def cut_poisson(mean: float, low: int, high: int | None = None) -> tuple[float, np.ndarray]:
    """Return (r, pi): Poisson(r) cut to low..high, with the given mean.

    pi is float64[levels] from level 0 on; without `high` it ends where less than 1e-18 is left. The
    mean increases with r, from `low` at r = 0 to `high` at r = inf.

    Raises
    ------
    EquipoiseError
        If the mean is outside low..high, or low is negative.
    """
    low = whole(low, "low", 0)
    top = high if high is not None else max(low, math.ceil(mean)) + 40 + math.ceil(12 * mean**0.5)
    if not low <= mean <= top or top < low:
        raise EquipoiseError(f"mean = {mean:g} must be in {low}..{'' if high is None else high}")
    shares = np.zeros(top + 1)
    if mean in (low, top):
        shares[int(mean)] = 1.0
        return (0.0 if mean == low else math.inf), shares
    j = np.arange(low, top + 1)
    weight = -np.array([math.lgamma(k + 1) for k in j])

    def law(log_r: float) -> np.ndarray:
        logs = j * log_r + weight
        parts = np.exp(logs - logs.max())
        return parts / parts.sum()

    left = right = math.log(mean)  # of an uncut Poisson law
    while law(left) @ j > mean:
        left -= 1 + abs(left)
    while law(right) @ j < mean:
        right += 1 + abs(right)
    while True:
        middle = 0.5 * (left + right)
        if not left < middle < right:
            break
        if law(middle) @ j < mean:
            left = middle
        else:
            right = middle
    shares[low:] = law(middle)
    return math.exp(middle), shares


def optimal_levels(load: float, step: int = 1) -> tuple[int, ...]:
    """Return the thresholds that keep all pools between l and l + step: l <= load <= l + step.

    With step 1 these are the fluid-optimal ones: floor(load), and load - 1 if load is whole.
    """
    load, step = check_load(load), whole(step, "step", 1)
    return tuple(range(max(0, math.ceil(load - step)), math.floor(load) + 1))


def load_with(level: int, theta: float) -> float:
    """Return the load at which a threshold `level` above it is reached by `theta` of the pools.

    The mean of the Poisson law cut to 0..level with pi(level) = theta; it increases with theta. A
    threshold that learns gives up `level` below this load at theta = alpha.

    Raises
    ------
    EquipoiseError
        If theta is not between 0 and 1, or level < 1.
    """
    level = whole(level, "level", 1)
    if not 0 < theta < 1:
        raise EquipoiseError(f"theta = {theta:g} must be between 0 and 1, both excluded")
    j = np.arange(level + 1)
    weight = -np.array([math.lgamma(k + 1) for k in j])
    left, right = -100.0, 100.0  # log r
    while True:
        middle = 0.5 * (left + right)
        logs = j * middle + weight
        parts = np.exp(logs - logs.max())
        parts /= parts.sum()
        if not left < middle < right:
            return float(parts @ j)
        left, right = (middle, right) if parts[-1] < theta else (left, middle)


def erlang_b(lines: int, load: float) -> float:
    """Return the part of calls that are lost on `lines` lines: pi(lines) of a cut Poisson law."""
    lost = 1.0
    for k in range(1, whole(lines, "lines", 0) + 1):
        lost = load * lost / (k + load * lost)
    return lost


def jsq_d_rest(load: float, d: int = 2, levels: int | None = None) -> np.ndarray:
    """Return where pools under the power of d choices come to rest, q float64[levels].

    The root of lam (q(i-1)^d - q(i)^d) = i (q(i) - q(i+1)), found by Newton's method. There is one
    and every start goes there: the equation is cooperative (q(i +- 1) only push q(i) up), so the
    paths from empty and from crowded starts enclose all others; both end at rest with the same
    mass lam, and ordered states of the same mass are equal. With d = 1 it is the Poisson law.

    Raises
    ------
    EquipoiseError
        If load is not > 0 or d < 1, or Newton's method fails.
    """
    load, d = check_load(load), whole(d, "d", 1)
    least = math.ceil(load + 12 * math.sqrt(load)) + 30
    size = max(least, levels or 0)
    i = np.arange(1, size)
    q = 1 / (1 + np.exp(np.clip(2 * (i - load - 0.5) * d**0.5 / max(1, load) ** 0.5, -30, 30)))
    for _ in range(200):
        full = np.concatenate(([1.0], q, [0.0]))
        power = full[:-1] ** d
        off = load * (power[:-1] - power[1:]) - i * (full[1:-1] - full[2:])
        off[-1] = load * power[-2] - i[-1] * full[-2]  # nothing goes beyond the last level
        slope = load * d * full[:-1] ** (d - 1)
        matrix = np.diag(-slope[1:] - i) + np.diag(slope[1:-1], -1) + np.diag(i[:-1], 1)
        matrix[-1, -1] = -i[-1]
        change = np.linalg.solve(matrix, -off)
        q = np.clip(q + change, 0.0, 1.0)
        if np.abs(change).max() < 1e-15:
            break
    occupancy = np.concatenate(([1.0], q))
    if abs(mean_tasks(occupancy) - load) > 1e-9 * (1 + load):
        raise EquipoiseError(
            f"no rest point of jsq-d found at load = {load:g}, d = {d}: the mass came to "
            f"{mean_tasks(occupancy):.6g}"
        )
    return occupancy if levels is None else occupancy[:levels]


def random_rest(load: float, levels: int | None = None) -> np.ndarray:
    """Return the tails of Poisson(load), q float64[levels]: pools under random sending, any n."""
    return jsq_d_rest(load, 1, levels)


def imbalance(occupancy: np.ndarray) -> Any:
    """Return the variance of the number of tasks at a pool, float64[...], of q float64[..., k]."""
    i = np.arange(1, occupancy.shape[-1])
    mean = mean_tasks(occupancy)
    return (occupancy[..., 1:] * (2 * i - 1)).sum(axis=-1) - mean**2
