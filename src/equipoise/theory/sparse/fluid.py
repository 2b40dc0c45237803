"""How a fleet without end moves under sparse feedback, from any lengths to any times.

Between updates `filling` is exact, so *synchronous* schemes are followed exactly: sujsq-det with
its updates at T, 2T, ..., sujsq-exp with the updates at the times it is given, since those stay
random in the limit.

*Asynchronous* schemes tell all the time. A step of length h serves exactly (each server has
Poisson(h) services on offer), lets those tell whose turn it is, and fills lam h tasks in from the
lowest estimate up, each vessel moving y(i, m) to y(i + 1, m + 1) in proportion. Under aujsq-exp a
part 1 - e^(-delta h) of all servers tells in a step; under aujsq-det the servers are kept by the
phase of their clock, T/h groups, and one group tells in each step. A step is off by O(h^2), a
trajectory by O(h): two are run, with h and h/2, and extrapolated; the difference between the answer
and the finer run is given as the error, which is more than the true one as long as that falls
faster than h.
Source: the equations are those of van der Boor et al. 2019, section 3; the scheme is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .base import check_delta, check_law, check_load, check_scheme
from .filling import NOTHING, Poisson, fill, idle_told, lengths_of, synchronised

MOST_STEPS = 2_000_000


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A fleet over time; times in mean service times."""

    scheme: str
    load: float
    delta: float
    idle_only: bool
    times: np.ndarray  # float64[k]
    lengths: np.ndarray = field(repr=False)  # float64[k, levels], part of servers with i tasks
    error: float  # the most by which any entry of `lengths` may be off

    @property
    def mean_tasks(self) -> np.ndarray:
        """Mean number of tasks per server at each time, float64[k]."""
        return self.lengths @ np.arange(self.lengths.shape[1])

    @property
    def busy(self) -> np.ndarray:
        """Part of servers busy at each time, float64[k]."""
        return 1 - self.lengths[:, 0]


def trajectory(
    scheme: str,
    start: Any,
    times: Any,
    *,
    load: float,
    delta: float,
    idle_only: bool = False,
    updates: Sequence[float] | np.ndarray | None = None,
    step: float = 0.02,
) -> Trajectory:
    """Follow the limit of many servers from given lengths, all estimates true at time 0.

    Parameters
    ----------
    scheme
        "sujsq-det", "sujsq-exp", "aujsq-det" or "aujsq-exp".
    start
        float[levels], the parts of servers with 0, 1, ... tasks.
    times
        float[k], ascending, >= 0, in mean service times. At the time of an update, after it.
    load
        Tasks per server and mean service time, 0 < load < 1.
    delta
        Updates per server and mean service time, > 0.
    idle_only
        Whether only idle servers tell.
    updates
        float[u], ascending, > 0: when all servers tell. For sujsq-exp, which must be given them;
        `delta` then only labels the result.
    step
        The longer of the two steps of the asynchronous schemes, > 0.

    Returns
    -------
    With the lengths at each time, and the most by which any of them may be off: rounding for the
    synchronous schemes, for the asynchronous ones as explained in the head of this file.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If another argument is not allowed, or the steps would be too many.

    Examples
    --------
    >>> path = trajectory("sujsq-det", [0, 1], [0.0, 1.0, 2.0], load=0.5, delta=1.0)
    >>> path.lengths[:, 0].round(6).tolist()
    [0.0, 0.367879, 0.503215]
    """
    scheme, load, delta = check_scheme(scheme), check_load(load), check_delta(delta)
    law, moments = check_law(start), _ascending(times, "times", least=0.0)
    if updates is not None and scheme != "sujsq-exp":
        raise EquipoiseError(f"{scheme} has its own updates; only sujsq-exp is given them")
    if scheme.startswith("sujsq"):
        epochs = _epochs(scheme, delta, updates, moments[-1])
        lengths, error = _follow(law, moments, load, epochs, idle_only), 1e-12
    else:
        lengths, error = _extrapolate(scheme, law, moments, load, delta, idle_only, step)
    return Trajectory(scheme, load, delta, idle_only, moments, lengths, error)


def _epochs(scheme: str, delta: float, updates: Any, end: float) -> np.ndarray:
    """Return when all servers tell, up to `end`."""
    if scheme == "sujsq-det":
        return np.arange(1, int(end * delta * (1 + 1e-14)) + 1) / delta
    if updates is None:
        raise EquipoiseError(
            "the updates of sujsq-exp stay random in the limit: give their times, "
            "updates = [0.8, 2.9, ...]"
        )
    epochs = _ascending(updates, "updates", least=0.0)
    return epochs[(epochs > 0) & (epochs <= end)]


def _follow(
    law: np.ndarray, times: np.ndarray, load: float, epochs: np.ndarray, idle_only: bool
) -> np.ndarray:
    """Return the lengths at each time, exactly, if all servers tell at `epochs`."""
    tell = idle_told if idle_only else synchronised
    state, now, at = np.diag(law), 0.0, []
    queue = list(epochs)
    for time in times:
        while queue and queue[0] <= time * (1 + 1e-14):
            epoch = queue.pop(0)
            state, now = tell(fill(state, load, epoch - now).state), epoch
        state, now = fill(state, load, max(0.0, time - now)).state, max(now, time)
        at.append(lengths_of(state))
    return _stacked(at)


def _extrapolate(
    scheme: str,
    law: np.ndarray,
    times: np.ndarray,
    load: float,
    delta: float,
    idle_only: bool,
    step: float,
) -> tuple[np.ndarray, float]:
    """Return the lengths at each time from two runs of steps, and how far they may be off."""
    if not (np.isfinite(step) and step > 0):
        raise EquipoiseError(f"step = {step} must be a number > 0")
    if times[-1] / step > MOST_STEPS:
        raise EquipoiseError(
            f"step = {step:g} makes {times[-1] / step:.3g} steps up to time {times[-1]:g}, more "
            f"than {MOST_STEPS}; take a longer one"
        )
    if scheme == "aujsq-det":
        groups = max(1, int(np.ceil(1 / (delta * step))))
        step = 1 / (delta * groups)
    else:
        groups = 1
    coarse, fine = (
        _stepped(law, times, load, delta, idle_only, step / parts, groups * parts, scheme)
        for parts in (1, 2)
    )
    levels = max(coarse.shape[1], fine.shape[1])
    coarse, fine = _widened(coarse, levels), _widened(fine, levels)
    best = 2 * fine - coarse
    return best, float(np.abs(best - fine).max())


def _stepped(
    law: np.ndarray,
    times: np.ndarray,
    load: float,
    delta: float,
    idle_only: bool,
    step: float,
    groups: int,
    scheme: str,
) -> np.ndarray:
    """Return the lengths at each time by serving, telling and filling in steps.

    y is float64[lengths, estimates, groups]; groups of equal phase for aujsq-det, else one.
    """
    groups = groups if scheme == "aujsq-det" else 1
    y = np.zeros((law.size + 4, law.size + 4, groups))
    y[np.arange(law.size), np.arange(law.size)] = law[:, None] / groups
    part = 1.0 if scheme == "aujsq-det" else -np.expm1(-delta * step)
    at, now, done = [], 0.0, 0
    before = after = y.sum(axis=(1, 2))
    serve = Poisson(step, y.shape[0] + 3).served
    for time in times:
        while now < time:
            if y[:, -1].sum() > NOTHING:  # room for one estimate more
                y = np.pad(y, ((0, 4), (0, 4), (0, 0)))
                serve = Poisson(step, y.shape[0] + 3).served
            y = np.tensordot(serve, y, axes=1)
            _tell(y[:, :, done % groups], part, idle_only)
            _pour(y, load * step)
            done += 1
            now = done * step
            before, after = after, y.sum(axis=(1, 2))
        # between two steps lengths are nearly straight, off by O(h^2)
        late = (now - time) / step
        size = max(before.size, after.size)
        before = np.pad(before, (0, size - before.size))
        at.append(late * before + (1 - late) * after if late > 0 else after)
    return _stacked(at)


def _tell(y: np.ndarray, part: float, idle_only: bool) -> None:
    """Let a part of the servers y, float64[lengths, estimates], tell their lengths."""
    if idle_only:
        told = part * y[0]
        y[0] -= told
        y[0, 0] += told.sum()
    else:
        told = part * y
        y -= told
        y[np.arange(y.shape[0]), np.arange(y.shape[0])] += told.sum(axis=1)


def _pour(y: np.ndarray, tasks: float) -> None:
    """Give `tasks` per server to the servers of y, from the lowest estimate up."""
    weights = y.sum(axis=(0, 2))
    moved = 0.0  # what has come to the present estimate in this step already
    for m in range(weights.size - 1):
        weight = weights[m] + moved
        if weight <= NOTHING:
            moved = 0.0
            continue
        part = min(1.0, tasks / weight)
        flow = part * y[:-1, m]
        y[:-1, m] -= flow
        y[1:, m + 1] += flow
        moved = part * weight
        tasks -= moved
        if part < 1.0:
            return


def _ascending(values: Any, name: str, least: float) -> np.ndarray:
    """Return times as float64[k] if they ascend from `least` on."""
    try:
        times = np.atleast_1d(np.array(values, dtype=float))
    except (TypeError, ValueError):
        times = np.empty(0)
    good = times.ndim == 1 and times.size and np.isfinite(times).all() and times[0] >= least
    if not good or (np.diff(times) <= 0).any():
        raise EquipoiseError(f"{name} must be a list of numbers that ascends from {least:g} on")
    return times


def _widened(lengths: np.ndarray, levels: int) -> np.ndarray:
    return np.pad(lengths, ((0, 0), (0, levels - lengths.shape[1])))


def _stacked(laws: list[np.ndarray]) -> np.ndarray:
    """Return laws of unequal size as one array, without empty levels at the end."""
    size = max(law.size for law in laws)
    stack = np.array([np.pad(law, (0, size - law.size)) for law in laws])
    return stack[:, : np.flatnonzero(stack.max(axis=0) > NOTHING)[-1] + 1]
