"""The threshold that learns the load: where it settles, when, and what the learning costs.

At each arrival, by the tokens held just before it (l in multiples of step, h = l + step, n pools):

    at most one yellow token              l <- l + step     q(h) >= 1 - 1/n
    else n - green <= alpha n, l > 0      l <- l - step     q(l) <= alpha

The authors' program looks after the task was placed (up if all pools have h, then down if at most
alpha n + 1 have l): the same up to one pool, and the same limit. The total-count scheme uses only
the number of tasks in the system: l = step floor(u / step).

*Where*, with m = floor(lam / step):

    m step <= l <= lam / alpha        (one step less below if lam / step is whole)

the lower end since h < lam fills all pools to h in finite time, the upper since alpha < q(l) <= u/l.
A level above lam is kept only if theta_l(lam) >= alpha, theta_l the fraction of full pools in the
stationary law (stationary.py); that law is reached from all starts tried, not proved. Several
possible levels mean hysteresis: a rising load leaves l at lam = h, a falling one where
theta_l(lam) = alpha.

*Choice of alpha*: alpha (m + 1) step > lam makes m step the only level. alpha >= max / (max + step)
allows only m step and the next above, for all loads up to max.

*When*, for alpha (m + 1) step > lam and lam / step not whole, u0 tasks per pool at the start:

    t_eq <= t0 + log(lam / (lam - m step)),
    t0 = 0 if u0 <= alpha (m + 1) step, else log((u0 - lam) / (alpha (m + 1) step - lam)).

After t0 every level above m step has q(l) <= alpha; from then on all tasks go to pools below m step
while l < m step, so their mass w has w' >= lam - w. From empty it is exact: l reaches k at
log(lam / (lam - k)), the time at which u = k. Finite n exceeds a tight bound about half of the time,
by about sqrt(k / n) / (lam - k).

*Messages*: a change is announced to all; the pools answer with their colour. Going up those below
the new h do, n (1 - q(h)); going down those below the old l, n (1 - q(l)).
Source: Goldsztajn et al. 2022, section 4, and its authors' program for t0 and alpha; steps and the
total-count scheme: Goldsztajn, Borst, van Leeuwaarden 2025 (the exact form of its schemes is not
known here). Proofs, the sharper criterion and the costs are worked out here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...errors import EquipoiseError
from .fluid import Change
from .offered_load import Rate, offered_load
from .states import check_alpha, check_load, whole
from .stationary import load_with, rest_point


@dataclass(frozen=True)
class Equilibria:
    """Levels at which a learning threshold can settle at a load."""

    load: float  # tasks offered per pool
    alpha: float
    step: int
    lowest: int  # bounds of Goldsztajn et al. 2022
    highest: int
    possible: tuple[int, ...]  # those that also meet theta >= alpha; ascending, never empty
    thetas: tuple[float, ...]  # fraction of pools at or above each of them, at rest

    @property
    def optimal(self) -> bool:
        """Whether every start leads to the best level, or at a whole load one of the two best."""
        best = best_level(self.load, self.step)
        return self.alpha * (best + self.step) > self.load

    @property
    def margin(self) -> float:
        """The least theta - alpha of the possible levels: how firmly they are held."""
        return min(theta - self.alpha for theta in self.thetas)


@dataclass(frozen=True)
class Settling:
    """When the threshold is right for good, in mean service times, as n grows."""

    level: int  # m step
    t0: float  # from then on it is not above the level; a bound
    bound: float  # and from then on it is there; inf if there is no bound

    def spread(self, servers: int, load: float) -> float:
        """Return the standard deviation of the time for n pools from empty, sqrt(k/n)/(lam-k)."""
        if not load > self.level:
            return math.inf
        return math.sqrt(self.level / servers) / (load - self.level)


@dataclass(frozen=True)
class Cost:
    """What changes of the threshold cost."""

    changes: int
    announcements: int  # to each pool: n for each change; on a broadcast medium 1 for each change
    answers: float  # messages from pools

    @property
    def broadcasts(self) -> int:
        """Announcements where one reaches all pools."""
        return self.changes


def best_level(load: float, step: int = 1) -> int:
    """Return step floor(load / step), the level at which no pool need be above l + step."""
    return whole(step, "step", 1) * math.floor(check_load(load) / step)


def alpha_for_load(load: float, step: int = 1) -> float:
    """Return the alpha of the authors' program for a known load.

    0.1 + 0.9 lam / ((m + 1) step): above the least that makes the best level the only one.
    """
    return 0.1 + 0.9 * load / (best_level(load, step) + step)


def alpha_for_bound(max_load: float, step: int = 1) -> float:
    """Return the alpha that allows at most one step too much for every load up to `max_load`.

    max / (max + step); it makes a whole load below `max_load` settle at the best level.
    """
    return check_load(max_load) / (max_load + whole(step, "step", 1))


def alpha_vanishing(servers: int, power: float = 0.4) -> float:
    """Return alpha_n = 1 - n^-power: nearly all pools, and yet more than fluctuate, power < 1/2."""
    if not 0 < power < 1:
        raise EquipoiseError(f"power = {power:g} must be between 0 and 1, both excluded")
    return 1 - whole(servers, "servers", 2) ** -power


def equilibria(load: float, alpha: float, step: int = 1) -> Equilibria:
    """Return the levels at which the threshold can settle, by the bounds and the criterion.

    Raises
    ------
    EquipoiseError
        If load is not > 0, alpha not between 0 and 1, or step < 1.
    """
    load, alpha, step = check_load(load), check_alpha(alpha), whole(step, "step", 1)
    best = best_level(load, step)
    lowest = max(0, best - step) if best == load else best
    highest = max(best, step * math.floor(load / alpha / step + 1e-12))
    possible, thetas = [], []
    for level in range(lowest, highest + 1, step):
        theta = rest_point(load, level, step).theta if level > load else 1.0
        if level <= load or theta >= alpha:
            possible.append(level)
            thetas.append(theta)
    return Equilibria(load, alpha, step, lowest, highest, tuple(possible), tuple(thetas))


def drop_load(level: int, alpha: float) -> float:
    """Return the load below which a falling load makes the threshold give up `level` >= 1.

    Where theta_l(lam) = alpha; a rising load leaves `level` at level + step.
    """
    return load_with(level, check_alpha(alpha))


def hysteresis(
    loads: Iterable[float], alpha: float, step: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the thresholds (int64[k], int64[k]) of a slowly rising and a slowly falling load.

    `loads` are float64[k] > 0, in any order. The first is the best level, which a rising load has
    just reached; the second the highest possible.
    """
    found = [equilibria(float(load), alpha, step) for load in loads]
    rising = [best_level(e.load, step) - (step if e.load == best_level(e.load, step) else 0)
              for e in found]  # fmt: skip
    return (
        np.array([max(0, level) for level in rising], np.int64),
        np.array([e.possible[-1] for e in found], np.int64),
    )


def settling_bound(load: float, alpha: float, tasks: float = 0.0, step: int = 1) -> Settling:
    """Return a bound of the time after which the threshold is at its best level for good.

    Parameters
    ----------
    load
        Tasks offered per pool, > 0.
    alpha
        Between 0 and 1. The bound is inf unless alpha (m + 1) step > load, and for load = m step.
    tasks
        u0 >= 0, tasks per pool at the start, however they are distributed.

    Raises
    ------
    EquipoiseError
        If an argument makes no sense.
    """
    load, alpha = check_load(load), check_alpha(alpha)
    if not (math.isfinite(tasks) and tasks >= 0):
        raise EquipoiseError(f"tasks = {tasks:g} must be a number >= 0, per pool at the start")
    level = best_level(load, step)
    room = alpha * (level + step)
    if room <= load:
        return Settling(level, math.inf, math.inf)
    t0 = 0.0 if tasks <= room else math.log((tasks - load) / (room - load))
    if level == load:
        return Settling(level, t0, math.inf)
    return Settling(level, t0, t0 + math.log(load / (load - level)))


def times_from_empty(load: float, step: int = 1) -> tuple[tuple[int, float], ...]:
    """Return (level, time) of each rise from empty at a constant load: exact as n grows.

    l reaches k = step, 2 step, ... < load at log(lam / (lam - k)). A level equal to the load is
    not reached in finite time.
    """
    load, step = check_load(load), whole(step, "step", 1)
    levels = range(step, math.ceil(load), step)
    return tuple((k, math.log(load / (load - k))) for k in levels)


def total_settling(load: float, tasks: float = 0.0, step: int = 1) -> Settling:
    """Return the time at which the total-count scheme is at its best level: exact as n grows.

    u(t) = lam + (u0 - lam) e^-t passes its last multiple of step; inf if load is such a multiple
    and the start is below it.
    """
    load, level = check_load(load), best_level(load, step)
    time = 0.0
    if tasks >= level + step:
        time = math.log((tasks - load) / (level + step - load))
    elif tasks < level:
        time = math.log((load - tasks) / (load - level)) if load > level else math.inf
    return Settling(level, time, time)


def cost_of(changes: Iterable[Change], servers: int) -> Cost:
    """Return what these changes cost `servers` pools."""
    n, changes = whole(servers, "servers", 1), tuple(changes)
    return Cost(len(changes), n * len(changes), n * sum(change.answers for change in changes))


def wanted_levels(load: float | Rate, times: np.ndarray, step: int = 1) -> np.ndarray:
    """Return step floor(rho(t) / step), int64[k]: what a threshold should be at `times`.

    `load` is a number or a rate; rho is the offered load of exponential service, from empty. While
    rho stays between multiples of step, both schemes are there after a finite time, and then
    pools with more than l + step tasks vanish like e^-t.
    """
    rho = offered_load(load, times)
    return (whole(step, "step", 1) * np.floor(rho / step)).astype(np.int64)
