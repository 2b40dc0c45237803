"""Tasks missing below a level and pools above it: a Markov chain of two numbers, exact for n pools.

Count, for n pools and a level K,

    M = sum over pools of (K - x)^+     tasks missing
    Q = pools with K + 1 tasks          tasks beyond

As long as nobody has K + 2 tasks, jsq and the threshold policy with l = K move the pair alike,
whatever else the state is:

    M -> M - 1   at rate n lam if M > 0      (a task goes to a pool with fewer than K)
    Q -> Q + 1   at rate n lam if M = 0      (or to one with exactly K)
    M -> M + 1   at rate n K - M - K Q       (the tasks in pools with at most K)
    Q -> Q - 1   at rate (K + 1) Q

If pools hold at most K + 1 tasks and tasks are lost when all are full, the chain with arrivals lost
at M = 0, Q = n is exact: this is the coupled system from which the diffusion limits are proved.

The threshold that learns adds one bit. With k = K, in both of its states (l = k - 1 and l = k) a task
goes to a pool below k while there is one, so M and Q still move as above; the threshold goes up at an
arrival that finds at most one yellow token (M <= 1), and down at one that finds at least
(1 - alpha) n pools below k. How many pools that is follows from M where missing tasks are one to a
pool; deeper ones are counted by the law of the resting point with the same M.

*How it is solved*: Q rises only from M = 0, so the levels Q >= j are entered at one state. The
stationary measure of a level, given a unit inflow there, follows from that of the level above by a
banded solve, from the top down; a pass up joins the levels. All terms are positive, so fluxes of
10^-30 keep their digits. O(M Q) in time; n = 10^5 takes seconds.
Source: the coupling, Mukherjee, Borst, van Leeuwaarden, Whiting (2016), as used by Goldsztajn et al.
2022, Theorems 3 and 4; the chain and its solution are worked out here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import EquipoiseError
from .states import check_alpha, check_load, whole
from .stationary import load_with

MOST_STATES = 60_000_000  # about 10 s
MOST_KEPT = 4_000_000  # states of which the whole law is kept
NEVER = 8.0  # standard deviations of the load that are never bridged: below 10^-14
FAR = 10.0  # standard deviations that are kept around the mean


@dataclass(frozen=True, eq=False)
class PairLaw:
    """The stationary law of (M, Q), neither scaled."""

    servers: int  # n
    load: float  # tasks offered per pool
    level: int  # K
    missing: float  # E M, tasks
    beyond: float  # E Q, pools
    missing_square: float  # E M^2
    beyond_square: float  # E Q^2
    product: float  # E M Q
    none_missing: float  # P(M = 0)
    loss: float  # P(M = 0, Q = n): the part of the tasks lost if pools hold K + 1
    mass: float  # tasks in service per pool, K + (E Q - E M) / n
    law: np.ndarray | None  # float64[m, q] from (0, lowest), None if it would be large
    lowest: int  # the least Q that is kept in the law; below it is less than 10^-20

    @property
    def variance(self) -> float:
        """Var(Q - M) of the number of tasks."""
        square = self.missing_square + self.beyond_square - 2 * self.product
        return square - (self.beyond - self.missing) ** 2


def pair_law(servers: int, load: float, level: int | None = None) -> PairLaw:
    """Return the stationary law of the chain, arrivals lost at M = 0, Q = n.

    Parameters
    ----------
    servers
        n >= 1 pools.
    load
        lam > 0, tasks offered per pool.
    level
        K, by default floor(load).

    Raises
    ------
    EquipoiseError
        If an argument makes no sense, or the chain has more than 60 million states.
    """
    n, load = whole(servers, "servers", 1), check_load(load)
    level = whole(math.floor(load) if level is None else level, "level", 0)
    chain = _Chain(n, load, level)
    chain.down()
    return chain.up()


def threshold_changes(servers: int, load: float, alpha: float) -> float:
    """Return how often the learning threshold moves, per mean service time, in the long run.

    Moves up and down are counted, between all l = k - 1 and k with k next to the load; step 1,
    exponential service, either rule of the token scheme. Exact but for pools with k + 2 tasks and
    missing tasks that are more than one to a pool. Against simulations (moves per unit of time):

        n = 100, load 2.9, alpha 0.97   10.90    10.68 +- 0.06
        n = 100, load 3.1, alpha 0.97   22.02    21.77 +- 0.06
        n = 400, load 2.9, alpha 0.97    2.19     2.10 +- 0.04
        n =  60, load 2.5, alpha 0.9     0.93     0.85 +- 0.01

    Raises
    ------
    EquipoiseError
        As `pair_law`; and if alpha is not between 0 and 1 - 1/n.
    """
    n, load = whole(servers, "servers", 1), check_load(load)
    alpha = check_alpha(alpha, n)
    levels = range(max(1, math.floor(load) - 1), math.floor(load) + 3)
    near = [k for k in levels if abs(k - load) * math.sqrt(n / load) < NEVER]
    return sum(_moves(n, load, alpha, k) for k in near)


def _moves(n: int, load: float, alpha: float, level: int) -> float:
    """Moves between `level` - 1 and `level`, both ways, per unit of time."""
    chain = _Chain(n, load, level, missing_at(n, level, alpha))
    chain.down()
    chain.up()
    return 2 * chain.raised


def total_changes(servers: int, load: float, step: int = 1) -> float:
    """Return how often the total-count scheme moves its threshold, per mean service time; exact.

    l = step floor(u / step) moves when the tasks in the system, Poisson(n lam) at rest for every
    service law, pass a multiple of n step: as often up as down.
    """
    n, load, step = whole(servers, "servers", 1), check_load(load), whole(step, "step", 1)
    away = FAR * math.sqrt(n * load) + 30
    first = max(1, math.ceil((n * load - away) / (n * step)))
    last = math.floor((n * load + away) / (n * step))
    came = n * load
    below = [n * step * k - 1 for k in range(first, last + 1)]
    return 2 * came * sum(math.exp(b * math.log(came) - came - math.lgamma(b + 1)) for b in below)


def missing_at(servers: int, level: int, alpha: float) -> int:
    """Return M at which the threshold `level` is lowered: (1 - alpha) n pools lack tasks.

    Those lack more than one each if they are many; how many is taken from the Poisson law cut to
    0..level with pi(level) = alpha (see stationary.py).
    """
    pools = servers - math.floor(alpha * servers + 1e-9)  # as the token rule counts them
    full = 1 - pools / servers
    if full <= 0:
        return servers * level
    return max(pools, round(servers * (level - load_with(level, full))))


class _Chain:
    """The chain's levels Q = lowest..highest; with `lower`, in two modes: l = K - 1 and l = K."""

    def __init__(self, n: int, load: float, level: int, lower: int | None = None) -> None:
        self.n, self.load, self.level, self.lower = n, load, level, lower
        excess, away = n * (load - level), FAR * math.sqrt(n * load) + 30
        self.lowest = max(0, math.floor(excess - away))
        self.highest = min(n, math.ceil(max(excess, 0) + away))
        least = max(0.0, -excess) + away
        self.most = min(n * level, math.ceil(max(least, (lower or 0) + away)))  # M
        self.modes = 1 if lower is None else 2
        levels = self.highest - self.lowest + 1
        size = (self.most + 1) * self.modes * levels
        if size > MOST_STATES:
            raise EquipoiseError(
                f"{n} servers at load {load:g} make a chain of {size:.2g} states; at most "
                f"{MOST_STATES:.2g} can be solved: ask about fewer servers"
            )
        self.m = np.repeat(np.arange(self.most + 1), self.modes)
        self.raised = 0.0  # how often the threshold goes up, per unit of time
        self.found = np.zeros((levels, 5))  # of each level given a unit inflow: see `sums`
        self.kept = np.zeros((levels, len(self.m))) if size <= MOST_KEPT else None

    def sums(self, b: np.ndarray) -> np.ndarray:
        """Mass, M, M^2, M = 0, and where the next arrival raises the threshold."""
        rises = b[0::2][:2].sum() if self.modes == 2 else 0.0
        return np.array([b.sum(), self.m @ b, self.m**2 @ b, b[: self.modes].sum(), rises])

    def band(self, q: int) -> tuple[int, np.ndarray]:
        """(width w, minus the generator within level q, transposed, as a band of 2 w + 1 rows)."""
        n, k, modes, size = self.n, self.level, self.modes, len(self.m)
        came, width = n * self.load, 1 if modes == 1 else 3
        more = np.maximum(n * k - self.m - k * q, 0.0)
        more[-modes:] = 0.0
        out = more + (k + 1) * q * (q > self.lowest) + came * (self.m > 0)
        if q < self.highest:
            out[:modes] += came  # to level q + 1
        band = np.zeros((2 * width + 1, size))
        band[width] = out
        band[width + modes, : size - modes] = -more[:-modes]  # to M + 1
        if modes == 1:
            band[0, 1:] = -came  # to M - 1
            return width, band
        origin = np.arange(2, size)
        high = origin % 2 == 1
        to_high = np.where(high, self.m[2:] < self.lower, self.m[2:] <= 1)
        target = 2 * (self.m[2:] - 1) + to_high
        band[width + target - origin, origin] = -came
        if q == self.highest:  # lost, but it has seen the tokens: what is low there goes up
            band[width, 0] += came
            band[width + 1, 0] = -came
        return width, band

    def down(self) -> None:
        """From the top: the measure of each level per unit that enters it from below."""
        from scipy.linalg import solve_banded

        came, size = self.n * self.load, len(self.m)
        enter = np.zeros(size)
        enter[self.modes - 1] = 1.0  # at M = 0, by an arrival that has raised the threshold
        above = np.zeros(size)
        for q in range(self.highest, self.lowest - 1, -1):
            width, band = self.band(q)
            both = np.column_stack((enter, (self.level + 1) * (q + 1) * above))
            w, y = solve_banded((width, width), band, both, overwrite_ab=True).T
            if q == self.lowest and q < self.highest:
                b = y  # nothing enters from below: per unit that leaves upwards
            else:
                again = came * y[: self.modes].sum()
                b = w + y * came * w[: self.modes].sum() / (1 - again)
            self.found[q - self.lowest] = self.sums(b)
            if self.kept is not None:
                self.kept[q - self.lowest] = b
            above = b

    def up(self) -> PairLaw:
        """Join the levels: what leaves one upwards is what enters the next."""
        came, levels = self.n * self.load, len(self.found)
        weight = np.empty(levels)
        weight[0], enters = 1.0, 1.0
        for j in range(1, levels):
            weight[j] = enters
            enters = came * enters * self.found[j, 3]
        weight /= weight @ self.found[:, 0]
        q = self.lowest + np.arange(levels)
        mass, missing, square, none, rises = self.found.T
        law = None
        if self.kept is not None and self.modes == 1:
            law = (self.kept * weight[:, None]).T
        if self.modes == 2:
            self.raised = came * float(weight @ rises)
        beyond = float(weight @ (q * mass))
        full = self.highest == self.n
        return PairLaw(
            self.n, self.load, self.level,
            missing=float(weight @ missing),
            beyond=beyond,
            missing_square=float(weight @ square),
            beyond_square=float(weight @ (q**2 * mass)),
            product=float(weight @ (q * missing)),
            none_missing=float(weight @ none),
            loss=float(weight[-1] * none[-1]) if full else 0.0,
            mass=self.level + (beyond - float(weight @ missing)) / self.n,
            law=law,
            lowest=self.lowest,
        )  # fmt: skip
