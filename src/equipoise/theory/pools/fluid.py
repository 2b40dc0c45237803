"""Fluid limits of pools under a threshold, fixed or learning, jsq and jsq-d.

q(i) is the fraction of pools with at least i tasks, q(0) = 1. As their number grows,

    dq(i)/dt = lam p_i - i (q(i) - q(i+1)),      i >= 1,

p_i the probability that a task goes to a pool with exactly i - 1. Under a threshold l, with
h = l + step,

    q(l) < 1             p_i = (q(i-1) - q(i)) / (1 - q(l))                        1 <= i <= l
    q(l) = 1, q(h) < 1   p_l = l (1 - q(l+1)) / lam, which keeps q(l) = 1, and
                         p_i = (1 - p_l) (q(i-1) - q(i)) / (1 - q(h))              l < i <= h
    q(h) = 1             p_h = h (1 - q(h+1)) / lam, which keeps q(h) = 1, and
                         p_i = (1 - p_h) (q(i-1) - q(i))                           i > h

as long as p_l, p_h <= 1; else q(l), q(h) leave 1 at once. Under jsq all tasks that are not needed
to keep the lowest level full go one above it; under jsq-d, p_i = q(i-1)^d - q(i)^d. In all of them
the tasks per pool are

    u(t) = rho(t) + u(0) e^-t,      rho the offered load from empty; lam (1 - e^-t) at constant lam.

The right-hand side jumps, and is 0/0 where q(l) reaches 1, which happens in finite time. The scheme
of kernel.py does not notice. Its error is O(dt), O(dt^2) after extrapolation from dt and dt/2; it
is run with dt/4 too, and the error stated is by how much the two extrapolations differ: about three
times that of the result. modes.py solves the same equations in another way.

*The learning threshold* reacts at once in the limit: while q(h) = 1 it goes up, while q(l) <= alpha
down. The variants of the rule (tokens, the authors' program) have the same limit; the total-count
scheme sets l = step floor(u / step).

*Coxian service*: the same scheme on shares by the tasks in each phase; the first phase is where a
task starts. Costs memory and time as the number of ways to place up to B tasks in all phases.

Source: Goldsztajn et al. 2022, section 3, eq. (2), Theorem 1; steps beyond 1, time-varying rates
and Coxian service: Goldsztajn, Borst, van Leeuwaarden 2025; the scheme is worked out here.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import EquipoiseError, PolicyError
from . import kernel
from .offered_load import EXPONENTIAL, Coxian, arrival_masses, as_rate, check_times, offered_load
from .states import (
    check_alpha,
    check_level,
    check_load,
    mean_tasks,
    occupancy_of,
    shares_from,
    whole,
)

STEP = 2e-3  # the coarsest of the three; 6e-7 or better in the trajectories that were compared
MOST_STATES = 4000  # of a pool: tasks in each phase
RULES = {"tokens": kernel.TOKENS, "program": kernel.TOKENS, "total": kernel.TOTAL}


@dataclass(frozen=True)
class Change:
    """A change of the threshold."""

    time: float  # mean service times
    level: int  # the new threshold
    answers: float  # fraction of the pools that answer its announcement


@dataclass(frozen=True, eq=False)
class FluidPath:
    """A trajectory of the fluid limit; entries can leave [0, 1] by no more than `error`."""

    times: np.ndarray  # float64[k], mean service times
    occupancy: np.ndarray  # float64[k, levels], q(0) = 1, q(1), ...
    offered: np.ndarray  # float64[k], rho(t) + u(0) P(S > t): what the tasks per pool must be
    error: float  # largest difference of two extrapolations, about three times the error
    levels: np.ndarray | None = None  # int64[k], the threshold; None without one
    changes: tuple[Change, ...] = ()
    time_error: float = 0.0  # of the times of the changes

    @property
    def tasks(self) -> np.ndarray:
        """Tasks per pool, float64[k]."""
        return mean_tasks(self.occupancy)

    @property
    def last_change(self) -> float:
        """When the threshold changed last; 0 if it never did."""
        return self.changes[-1].time if self.changes else 0.0


def threshold(
    load: Any,
    times: Any,
    level: int,
    step: int = 1,
    start: Any = "empty",
    service: Coxian = EXPONENTIAL,
    dt: float = STEP,
) -> FluidPath:
    """Return the fluid limit under a fixed threshold.

    Parameters
    ----------
    load
        Tasks that come per pool and unit of time: a number > 0, a `Rate`, or a function of time.
    times
        float64[k], ascending, >= 0, in mean service times.
    level, step
        l >= 0 and step >= 1; h = l + step.
    start
        "empty", a number of tasks per pool, or fractions of pools by level: see `shares_from`.
        With Coxian service all these tasks are at the beginning of their first phase.
    dt
        The coarsest of three time steps.

    Raises
    ------
    EquipoiseError
        If an argument makes no sense, or Coxian service needs more than 4000 states of a pool.
    """
    level, step = check_level(level, step)
    return _solve(load, times, start, service, dt, kernel.THRESHOLD, level, step)


def learning(
    load: Any,
    times: Any,
    alpha: float,
    step: int = 1,
    level: int = 0,
    start: Any = "empty",
    rule: str = "tokens",
    service: Coxian = EXPONENTIAL,
    dt: float = STEP,
) -> FluidPath:
    """Return the fluid limit under a threshold that learns; parameters as in `threshold`.

    Parameters
    ----------
    alpha
        Go down while at most this fraction of the pools has l tasks; unused by "total".
    level
        The first threshold, a multiple of `step` if the rule is "total".
    rule
        "tokens", "program" (the same limit) or "total".
    """
    level, step = check_level(level, step)
    if rule not in RULES:
        raise PolicyError(f"rule = '{rule}' is unknown; the rules are: {', '.join(RULES)}")
    if rule != "total":
        check_alpha(alpha)
    return _solve(load, times, start, service, dt, RULES[rule], level, step, alpha)


def jsq(
    load: Any,
    times: Any,
    start: Any = "empty",
    service: Coxian = EXPONENTIAL,
    dt: float = STEP,
) -> FluidPath:
    """Return the fluid limit of joining the shortest; parameters as in `threshold`."""
    return _solve(load, times, start, service, dt, kernel.JSQ, 0, 1)


def jsq_d(load: Any, times: Any, d: int = 2, start: Any = "empty") -> FluidPath:
    """Return the fluid limit of the power of d choices, exponential service; d = 1 is random.

    dq(i)/dt = lam (q(i-1)^d - q(i)^d) - i (q(i) - q(i+1)): smooth, so the error is that of the
    integrator, below 1e-8. Other parameters as in `threshold`.
    """
    from scipy.integrate import solve_ivp  # 0.3 s, wanted only here

    rate, times, d = _rate(load), check_times(times), whole(d, "d", 1)
    shares = shares_from(start)
    offered = _offered(rate, times, shares, EXPONENTIAL)
    width = _levels(offered, len(shares) - 1, 0)
    q, i = occupancy_of(np.pad(shares, (0, width - len(shares)))), np.arange(1, width)

    def drift(t, y):
        full = np.concatenate(([1.0], np.clip(y, 0.0, 1.0), [0.0]))
        power = full**d
        power[-1] = power[-2]  # nothing goes beyond the last level
        came = float(rate.at(np.asarray(t))) * (power[:-2] - power[1:-1])
        return came - i * (full[1:-1] - full[2:])

    ends = np.union1d(times, _inner(rate.breaks, times[-1]))
    path, now = {0.0: q[1:]}, 0.0
    for end in ends[ends > 0]:
        inner = np.nextafter([now, end], [np.inf, -np.inf])  # where the rate is that of between
        solved = solve_ivp(
            drift, inner, path[now], "DOP853", rtol=1e-10, atol=1e-12, max_step=rate.panel
        )
        if not solved.success:
            raise EquipoiseError(f"the integration stopped at t = {solved.t[-1]:g}")
        path[float(end)], now = solved.y[:, -1], float(end)
    occupancy = np.array([np.concatenate(([1.0], path[float(t)])) for t in times])
    return FluidPath(times, occupancy, offered, error=1e-8)


# -- serve, then fill, three times ------------------------------------------------------------


def _solve(load, times, start, service, dt, rule, level, step, alpha=0.5) -> FluidPath:
    rate, times = _rate(load), check_times(times)
    if not (math.isfinite(dt) and dt > 0):
        raise EquipoiseError(f"dt = {dt:g} must be a number > 0, in mean service times")
    dt = min(dt, rate.panel / 8, 0.05 / max(service.mu))
    shares = shares_from(start)
    offered = _offered(rate, times, shares, service)
    top = max(len(shares) - 1, level + step) if rule != kernel.JSQ else len(shares) - 1
    width = _levels(offered, top, 2 * step, rate, times[-1], service)
    cells = _Cells(service, width)
    level, first = _at_once(shares, rule, level, step, alpha)
    runs = [
        _run(cells, shares, rate, times, dt / 2**k, rule, level, step, alpha, first)
        for k in range(3)
    ]
    (q1, _, _), (q2, _, c2), (q4, levels, c4) = runs
    once, twice = 2 * q2 - q1, 2 * q4 - q2
    twice[:, 0] = 1.0
    changes, time_error = _extrapolated(c2, c4, dt)
    return FluidPath(
        times,
        twice,
        offered,
        float(np.abs(twice - once).max()),
        None if rule == kernel.JSQ else levels,
        changes,
        time_error,
    )


def _run(cells, shares, rate, times, dt, rule, level, step, alpha, first):
    """One run: (q at the times, thresholds there, changes)."""
    advance = kernel.compiled()
    x = cells.start(shares)
    record, count = np.empty((kernel.MOST_CHANGES if rule != kernel.THRESHOLD else 1, 3)), 0
    for change in first:
        count = kernel.note(record, count, *change)
    room = kernel.room(x)
    q, levels, now = np.empty((len(times), x.shape[1])), np.empty(len(times), np.int64), 0.0
    # a step across a jump of the rate would cost an order of accuracy
    for end in np.union1d(times, _inner(rate.breaks, times[-1])):
        steps = math.ceil((end - now) / dt - 1e-9)
        if steps:
            h = (end - now) / steps
            masses = arrival_masses(rate, np.linspace(now, end, steps + 1), cells.service)
            level, count = advance(
                x, *cells.serving(h), masses, h, now, rule, level, step, alpha, record, count, *room
            )  # fmt: skip
        now = end
        k = int(np.searchsorted(times, end))
        if times[k] == end:
            q[k], levels[k] = occupancy_of(x.sum(axis=0)), level
    if count > len(record):
        raise EquipoiseError(
            f"the threshold of the fluid limit changed more than {len(record)} times; take a "
            "shorter time"
        )
    changes = [Change(float(t), int(to), float(part)) for t, to, part in record[:count]]
    return q, levels, changes


def _at_once(shares, rule, level, step, alpha):
    """What a learning threshold does at time 0: (threshold, changes as rows of the record)."""
    q = np.pad(occupancy_of(shares), (0, level + 3 * step))
    changes = []
    if rule == kernel.TOTAL:
        wanted = step * math.floor(mean_tasks(q) / step + 1e-12)
        if wanted != level:
            changes.append((0.0, wanted, 1 - q[wanted + step]))
        return wanted, changes
    if rule != kernel.TOKENS:
        return level, changes
    while level + step < len(shares) and q[level + step] >= 1 - 1e-15:
        level += step
        changes.append((0.0, level, 1 - q[level + step]))
    while level >= step and q[level] <= alpha:
        level -= step
        changes.append((0.0, level, 1 - q[level + step]))
    return level, changes


def _extrapolated(coarse, fine, dt) -> tuple[tuple[Change, ...], float]:
    """Changes at extrapolated times, if both runs have the same; and how sure the times are."""
    if [c.level for c in coarse] != [c.level for c in fine]:
        return tuple(fine), dt
    apart = max((abs(a.time - b.time) for a, b in zip(coarse, fine, strict=True)), default=0.0)
    changes = tuple(
        Change(max(0.0, 2 * b.time - a.time), b.level, b.answers)
        for a, b in zip(coarse, fine, strict=True)
    )
    return changes, apart


def _rate(load: Any) -> Any:
    return as_rate(check_load(load) if isinstance(load, int | float) else load)


def _offered(rate, times, shares, service) -> np.ndarray:
    return offered_load(rate, times, service, float(np.arange(len(shares)) @ shares))


def _levels(offered, top, more, rate=None, end=0.0, service=EXPONENTIAL) -> int:
    """Levels 0..B that hold all but a negligible part of the pools at all times."""
    most = float(offered.max())
    if rate is not None and end > 0:  # a peak between the times
        between = np.linspace(0, end, 400)
        most = max(most, float(offered_load(rate, between, service).max()) + float(offered[0]))
    return max(top, math.ceil(most) + more) + math.ceil(10 * math.sqrt(most)) + 11


def _inner(breaks, end) -> np.ndarray:
    breaks = np.asarray(breaks, dtype=float)
    return breaks[(breaks > 0) & (breaks < end)]


class _Cells:
    """The states of a pool, and how service moves it between them in a step."""

    def __init__(self, service: Coxian, width: int) -> None:
        self.service, self.width = service, width
        if (
            service.phases > 1
            and math.comb(width - 1 + service.phases, service.phases) > MOST_STATES
        ):
            most = next(
                b for b in itertools.count()
                if math.comb(b + 1 + service.phases, service.phases) > MOST_STATES
            )  # fmt: skip
            raise EquipoiseError(
                f"{service.phases} phases of service and up to {width - 1} tasks at a pool are too "
                f"many states; at most {most} tasks can be followed with so many phases"
            )
        ranges = itertools.product(range(width), repeat=service.phases - 1)
        self.rows = [later for later in ranges if sum(later) < width]  # tasks in phases 2..K
        self._made: dict[float, Any] = {}

    def start(self, shares: np.ndarray) -> np.ndarray:
        x = np.zeros((len(self.rows), self.width))
        x[0, : len(shares)] = shares
        return x

    def serving(self, dt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The map of a serve over dt, in compressed rows: (starts, froms, parts)."""
        key = round(dt, 13)
        if key not in self._made:
            moves = self._binomial(dt) if self.service.phases == 1 else self._phases(dt)
            self._made[key] = (
                moves.indptr.astype(np.int64),
                moves.indices.astype(np.int64),
                moves.data.astype(float),
            )
        return self._made[key]

    def _binomial(self, dt: float) -> Any:
        """Each of j tasks stays with probability e^(-mu dt), whatever the others do."""
        from scipy.sparse import csr_array

        s, width = math.exp(-self.service.mu[0] * dt), self.width
        matrix = np.zeros((width, width))
        matrix[0, 0] = 1.0
        for j in range(1, width):
            matrix[:, j] = (1 - s) * matrix[:, j - 1]
            matrix[1:, j] += s * matrix[:-1, j - 1]
        matrix[matrix < 1e-22] = 0.0
        return csr_array(matrix)

    def _phases(self, dt: float) -> Any:
        """The exponential of the generator, by its series: dt is short."""
        from scipy.sparse import csr_array, eye_array

        size = len(self.rows) * self.width
        generator = csr_array(self._rates(), shape=(size, size)) * dt
        total = term = csr_array(eye_array(size))
        for k in range(1, 40):
            term = (generator @ term) / k
            term.data[np.abs(term.data) < 1e-22] = 0.0
            term.eliminate_zeros()
            total = total + term
            if not term.nnz:
                break
        return csr_array(total)

    def _rates(self) -> tuple[list[float], tuple[list[int], list[int]]]:
        """The generator of service, transposed: (rates, (to, from))."""
        index = {later: row for row, later in enumerate(self.rows)}
        mu, onward = self.service.mu, (*self.service.p, 0.0)
        rates: list[float] = []
        to: list[int] = []
        origin: list[int] = []

        def move(source: int, target: int, rate: float) -> None:
            rates.extend((rate, -rate))
            to.extend((target, source))
            origin.extend((source, source))

        for row, later in enumerate(self.rows):
            for m in range(sum(later), self.width):
                counts, source = (m - sum(later), *later), row * self.width + m
                for k, count in enumerate(counts):
                    if not count:
                        continue
                    ended = list(later)
                    if k:
                        ended[k - 1] -= 1
                    speed = count * mu[k]
                    move(source, index[tuple(ended)] * self.width + m - 1, speed * (1 - onward[k]))
                    if onward[k]:
                        ended[k] += 1
                        move(source, index[tuple(ended)] * self.width + m, speed * onward[k])
        return rates, (to, origin)
