"""Synchronous updates: all servers tell at once, at T, 2T, ... with T = 1/delta, or at random gaps.

Right after an update every estimate is true, so the law v of the lengths is the whole state, and
`filling` carries it through the period: the map v -> v' is exact. The lowest estimate is a water
level,

    m(t) = max{ m : sum_i (m - i)^+ v(i) <= lam t },      level m lasts F(m)/lam,  F(m) = v(0..m).

*sujsq-det* comes to the fixed point of that map. The waits vanish if and only if the lam T tasks of
a period fit on the 1 - lam servers that are idle: delta >= lam/(1 - lam).

*sujsq-exp* has gaps that are exponential with mean 1/delta and common to all servers. They stay
random however many servers there are; what is computed is the mean over them, with its error.

Where only idle servers tell (their estimate becomes 0, the others keep theirs) the state is the
whole matrix y(i, j), and the same filling is exact. If updates are rare it comes to no fixed point:
those who were idle are handed so many tasks that the next periods find few idle, and the levels
swing without end (at load 0.7 below delta 0.28). Then the mean over many periods is given.

*Bounds.* Nobody who got a task in a period has more than L + 1, L the level at its end, and since
sum_i (L - i)^+ v(i) >= L - Qbar, L <= Qbar + lam T with Qbar the mean length at the update. In
equilibrium Qbar is bounded too: if p is the part of servers below x at the update, then
Qbar <= p x + (1 - p)(Qbar + lam T + 1), and a server that starts with x is idle only if it could
have served x in the period. So 1 - lam <= p + P(Pois(T) >= x), which gives

    Qbar <= x + (lam T + 1) (1/f - 1),      f = 1 - lam - P(Pois(T) >= x) > 0,  for every such x.

Source: van der Boor et al. 2019, sections 2 and 4. Closed forms and bounds are worked out here; the
paper proves a finite bound too (Proposition 4.5), whose constant we do not know, and that queueing
vanishes for a high enough delta (Proposition 4.11). That the fixed point is the only one, and that
everything goes there, has been seen from many starts and not been proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ...errors import EquipoiseError
from .base import Equilibrium, check_count, check_delta, check_law, check_load
from .filling import Passage, fill, idle_told, lengths_of, padded, synchronised, trimmed

SETTLED = 1e-14  # the largest change of any part from one period to the next
ALMOST = 1e-12  # the same, if rounding allows no better
MOST_PERIODS = 2000
MEMORY = 6  # earlier periods that an accelerated step looks back on


@dataclass(frozen=True, eq=False)
class Period:
    """One period, from just after an update to just after the next."""

    lengths: np.ndarray  # float64[levels], at its end
    mean_lengths: np.ndarray  # float64[levels], over its time
    level_times: tuple[tuple[float, int], ...]  # (since when, lowest estimate), ascending

    @property
    def mean_tasks(self) -> float:
        """Mean number of tasks per server over the period."""
        return float(np.arange(self.mean_lengths.size) @ self.mean_lengths)


@dataclass(frozen=True, eq=False)
class Periodic(Equilibrium):
    """The equilibrium of a scheme whose servers all tell at once."""

    at_updates: np.ndarray = field(repr=False)  # float64[lengths, estimates], y just after one
    level_times: tuple[tuple[float, int], ...]  # of the last period
    settled: bool  # whether every period is like the one before

    @property
    def lengths_at_updates(self) -> np.ndarray:
        """The law of the lengths just after an update, float64[levels]."""
        return lengths_of(self.at_updates)


def period(lengths: object, load: float, delta: float) -> Period:
    """Return what one period of 1/delta makes of a law of lengths, all servers telling at its ends.

    Parameters
    ----------
    lengths
        float[levels], the parts of servers with 0, 1, ... tasks just after an update.
    load
        Tasks per server and mean service time, 0 < load < 1.
    delta
        Updates per server and mean service time, > 0.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If the lengths are no law, load <= 0 or delta <= 0.

    Examples
    --------
    >>> one = period([0.5, 0.5], load=0.5, delta=1.0)
    >>> one.lengths.round(12).tolist(), one.level_times
    ([0.5, 0.5], ((0.0, 0),))
    """
    load, time = check_load(load), 1 / check_delta(delta)
    passage = fill(np.diag(check_law(lengths)), load, time)
    return Period(lengths_of(passage.state), passage.area / time, passage.level_times)


def water_level(lengths: object, load: float, time: float) -> int:
    """Return the lowest estimate that is held `time` after all servers have told their lengths.

    A level that has just been filled counts as reached. Raises as `period`, and if time < 0.
    """
    law, load = check_law(lengths), check_load(load)
    if not 0 <= time < np.inf:
        raise EquipoiseError(f"time = {time} must be a number >= 0")
    level = int(np.argmax(law > 0))
    poured = 0.0
    while True:
        poured += law[: level + 1].sum()  # fills one level more
        if poured > load * time:
            return level
        level += 1


def level_bound(mean_tasks: float, load: float, delta: float) -> float:
    """Return Qbar + lam/delta: the level at the end of a period is at most that.

    `mean_tasks` is the mean length at its beginning, >= 0. Nobody who got a task in the period has
    more than one task above it. Raises as `period`.
    """
    if not mean_tasks >= 0:
        raise EquipoiseError(f"mean_tasks = {mean_tasks} must be a number >= 0")
    return mean_tasks + check_load(load) / check_delta(delta)


def long_run_bound(load: float, delta: float) -> float:
    """Return a bound on the mean length at updates in equilibrium, finite for every delta > 0.

    The least over x of the bound in the head of this file. It is far from sharp: what it says is
    that a fleet is stable however rarely its servers tell. Raises as `period`.
    """
    from scipy.special import gammainc

    load, time = check_load(load), 1 / check_delta(delta)
    x = np.arange(1, math.ceil(time + 40 * math.sqrt(time) + 40))  # beyond, the tail is 0
    kept = 1 - load - gammainc(x, time)
    x, kept = x[kept > 0], kept[kept > 0]
    return float((x + (load * time + 1) * (1 / kept - 1)).min())


def sujsq_det(load: float, delta: float, *, idle_only: bool = False) -> Periodic:
    """Return the equilibrium of synchronous updates at T, 2T, ..., T = 1/delta.

    Parameters
    ----------
    load
        Tasks per server and mean service time, 0 < load < 1.
    delta
        Updates per server and mean service time, > 0.
    idle_only
        Whether only idle servers tell.

    Returns
    -------
    The fixed point of the exact period map, its `error` that of solving for it. With `idle_only`
    and a small delta nothing may come to it (`settled` is false): then `lengths` and `idle_told`
    are means over 1000 periods after 200 from (1 - load, load) on, `error` two standard errors, and
    the state that of the last period.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If load <= 0 or delta <= 0, or nothing is found, which should not happen.

    Examples
    --------
    >>> rest = sujsq_det(0.7, 0.7)
    >>> round(rest.mean_wait, 8), rest.level_times[0], rest.messages()
    (0.30923652, (0.0, 0), 1.0)
    """
    load, delta = check_load(load), check_delta(delta)
    if idle_only:
        return _idle_only(load, delta)
    law = _fixed_point(
        lambda v: lengths_of(fill(np.diag(v[:, 0]), load, 1 / delta).state)[:, None],
        np.array([[1 - load], [load]]),
    )
    if law is None:
        raise EquipoiseError(
            f"no fixed point of the period map within {MOST_PERIODS} periods at load {load:g} and "
            f"delta {delta:g}, which should not happen: please report it"
        )
    return _periodic(load, delta, False, np.diag(law[:, 0]))


def settled_idle_only(load: float, delta: float) -> Periodic | None:
    """Return `sujsq_det` where only idle servers tell if its levels settle, else None.

    Quicker than to average over what does not. Raises as `sujsq_det`.
    """
    load, delta = check_load(load), check_delta(delta)
    if delta * (1 - load) >= load * (1 - 1e-12):
        return _periodic(load, delta, True, np.diag([1 - load, load]))  # nobody waits
    state = idle_fixed_point(load, delta)
    if state is None or not _attracts(state, load, delta):
        return None
    return _periodic(load, delta, True, state)


def idle_fixed_point(load: float, delta: float) -> np.ndarray | None:
    """Return y just after an update where only idle servers tell, or None if nothing is found.

    A fixed point of the period map, whether or not anything comes to it.
    """

    def step(state: np.ndarray) -> np.ndarray:
        return idle_told(fill(state, load, 1 / delta).state)

    state = np.diag([1 - load, load])
    for _ in range(20):  # away from the start, the way that a fleet goes
        state = step(state)
    return _fixed_point(step, state)


def _idle_only(load: float, delta: float) -> Periodic:
    """Return the fixed point of idle servers that tell, or means over many periods."""
    found = settled_idle_only(load, delta)
    if found is not None:
        return found
    state = np.diag([1 - load, load])
    for _ in range(200):
        state = idle_told(fill(state, load, 1 / delta).state)
    mean, error = _mean_over(np.full(1000, 1 / delta), state, load, idle_told)
    return _averaged("sujsq-det", load, delta, True, mean, error)


def _attracts(state: np.ndarray, load: float, delta: float) -> bool:
    """Return whether a fleet pushed a little off a fixed point of idle servers comes nearer again.

    The eigenvalues of the map's derivative would tell more, but where a period ends just as a level
    does the map has a kink, and budgets of 1/2 or 1/3 of a message lead right to it.
    """
    push, size = 1e-4, max(state.shape)
    near = (1 - push) * state
    near[0, 0] += push
    there = _embedded(state, size)
    pushed = np.abs(near - state).max()
    for _ in range(200):
        near = idle_told(fill(near, load, 1 / delta).state)
    return bool(np.abs(_embedded(near, size) - there).max() < pushed)


def sujsq_exp(
    load: float, delta: float, *, idle_only: bool = False, periods: int = 2000, seed: int = 1
) -> Periodic:
    """Return the equilibrium of synchronous updates after exponential gaps of mean 1/delta.

    The gaps are random in the limit too. The exact limit between them is averaged over `periods`
    gaps drawn from `seed`: no system is simulated, and `error` is two standard errors, by batch
    means. Some waits are left for every delta, since some gaps are long. The rest is as in
    `sujsq_det`.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If load <= 0, delta <= 0 or periods < 1.
    """
    load, delta = check_load(load), check_delta(delta)
    gaps = np.random.default_rng(seed).exponential(1 / delta, 100 + check_count(periods, "periods"))
    tell = idle_told if idle_only else synchronised
    state = np.diag([1 - load, load])
    for gap in gaps[:100]:  # towards equilibrium; the error sees what is left of the start
        state = tell(fill(state, load, gap).state)
    mean, error = _mean_over(gaps[100:], state, load, tell)
    # what ends a memoryless gap is met like any other time: 1 - load are idle, exactly
    mean = replace(mean, idle=1 - load)
    return _averaged("sujsq-exp", load, delta, idle_only, mean, error)


@dataclass(frozen=True, eq=False)
class _Mean:
    lengths: np.ndarray
    idle: float
    state: np.ndarray
    passage: Passage


def _mean_over(
    gaps: np.ndarray, state: np.ndarray, load: float, tell: Callable[[np.ndarray], np.ndarray]
) -> tuple[_Mean, float]:
    """Return the means over periods of the given lengths, and two standard errors of the wait."""
    area, idle = np.zeros(1), 0.0
    tasks = np.empty(gaps.size)
    for k, gap in enumerate(gaps):
        start = state
        passage = fill(start, load, gap)
        area = padded(area, passage.area.size)
        area[: passage.area.size] += passage.area
        tasks[k] = np.arange(passage.area.size) @ passage.area
        state = tell(passage.state)
        idle += state[0].sum()
    mean = _Mean(area / gaps.sum(), idle / gaps.size, start, passage)
    batches = min(20, gaps.size)
    surplus = tasks - tasks.sum() / gaps.sum() * gaps  # a ratio of means
    sums = np.array([part.sum() for part in np.array_split(surplus, batches)])
    error = 2 * math.sqrt(float(sums @ sums) * batches / max(1, batches - 1)) / gaps.sum() / load
    return mean, error if batches > 1 else math.inf


def _periodic(load: float, delta: float, idle_only: bool, state: np.ndarray) -> Periodic:
    """Return the equilibrium whose state just after an update is given."""
    passage = fill(state, load, 1 / delta)
    after = lengths_of(passage.state)  # telling does not change the lengths
    return Periodic(
        "sujsq-det",
        load,
        delta,
        idle_only,
        passage.area * delta,
        float(state[0].sum()),
        _solving_error(after, lengths_of(state), load, 1 / delta),
        "fixed point of the exact period map",
        state,
        passage.level_times,
        True,
    )


def _averaged(
    scheme: str, load: float, delta: float, idle_only: bool, mean: _Mean, error: float
) -> Periodic:
    return Periodic(
        scheme,
        load,
        delta,
        idle_only,
        mean.lengths,
        mean.idle,
        error,
        "exact period map, averaged over periods; the error is two standard errors",
        mean.state,
        mean.passage.level_times,
        False,
    )


def _solving_error(new: np.ndarray, old: np.ndarray, load: float, time: float) -> float:
    """Return how far the mean wait may be off if one period still changes the lengths so much.

    A queue forgets its start like exp(-(1 - sqrt(lam))^2 t), at the slowest that one at a server
    with random arrivals would; the maps here contract faster.
    """
    size = max(new.size, old.size)
    change = padded(new, size) - padded(old, size)
    tasks = abs(float(np.arange(size) @ change)) + 1e-15 * size
    return tasks / load / -math.expm1(-((1 - math.sqrt(load)) ** 2) * time)


def _embedded(state: np.ndarray, size: int) -> np.ndarray:
    """Return a state as float64[size, size], cut or with zeros around it."""
    whole = np.zeros((size, size))
    rows, columns = min(size, state.shape[0]), min(size, state.shape[1])
    whole[:rows, :columns] = state[:rows, :columns]
    return whole


def _fixed_point(step: Callable[[np.ndarray], np.ndarray], state: np.ndarray) -> np.ndarray | None:
    """Return the state float64[rows, columns] that `step` leaves as it is, None if not found.

    Anderson's acceleration: at load 0.99 and delta 1 it takes 21 periods, plain iteration 1133. A
    step that leaves the laws is replaced by a plain one.
    """
    states: list[np.ndarray] = []
    images: list[np.ndarray] = []
    best, least, stale = state, math.inf, 0
    for _ in range(MOST_PERIODS):
        states, images = [*states[-MEMORY:], state], [*images[-MEMORY:], step(state)]
        shape = np.max([x.shape for x in states + images], axis=0)
        states, images = ([_widened(x, shape) for x in some] for some in (states, images))
        change = float(np.abs(images[-1] - states[-1]).max())
        stale = 0 if change < least else stale + 1
        if change < least:
            best, least = images[-1], change
        if least <= SETTLED or (stale > 8 and least <= ALMOST):
            return trimmed(best)
        state = _accelerated(states, images)
    return None


def _accelerated(states: list[np.ndarray], images: list[np.ndarray]) -> np.ndarray:
    """Return the combination of the images whose changes nearly cancel, or the last image."""
    changes = [(image - state).ravel() for image, state in zip(images, states, strict=True)]
    if len(changes) == 1:
        return trimmed(images[-1])
    slopes = np.stack([change - changes[-1] for change in changes[:-1]], axis=1)
    weights = np.linalg.lstsq(slopes, -changes[-1], rcond=1e-10)[0]
    moves = np.stack([image - images[-1] for image in images[:-1]], axis=-1)
    state = images[-1] + moves @ weights
    if state.min() < -1e-12:
        return trimmed(images[-1])
    state = trimmed(np.maximum(state, 0.0))
    return state / state.sum()


def _widened(state: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return a state with zeros behind it, float64[shape]."""
    return np.pad(state, [(0, wide - now) for wide, now in zip(shape, state.shape, strict=True)])
