"""The fluid limit of a threshold, mode by mode: an independent check of fluid.py.

With x(j) the fraction of pools with exactly j tasks and h = l + step, the limit is in one of three
modes, each a smooth equation. In all of them tasks leave level j + 1 for j at rate (j+1) x(j+1).

    A  q(l) < 1             pools below l receive at rate lam / (1 - q(l)) each
    B  q(l) = 1, q(h) < 1   x(j) = 0 for j < l. What falls from l to l - 1, l x(l), is sent back at
                            once; pools from l to h - 1 receive (lam - l x(l)) / (1 - q(h)) each
    C  q(h) = 1             x(j) = 0 for j < h. What falls from h is sent back at once; all pools
                            receive lam - h x(h) each

    A -> B  when 1 - q(l) has fallen to 1e-10      B -> A  when lam falls below l x(l)
    B -> C  when 1 - q(h) has fallen to 1e-10      C -> B  when lam falls below h x(h)

The next mode is named at each event: to decide it again from the state loops for ever at
lam = h x(h). On leaving a boundary some mass is moved one level down, since the equations are 0/0
on it; what happens near the boundary forgets it at once.
Source: Goldsztajn et al. 2022, section 3, eq. (2); the modes for steps beyond 1 are worked out here
from the rule: a task goes to a uniformly random pool below l, else below h, else to any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .fluid import FluidPath, _inner, _levels, _offered
from .offered_load import EXPONENTIAL, as_rate, check_times
from .states import check_level, occupancy_of, shares_from

REACHED = 1e-10  # 1 - q on reaching a boundary
LEAVING = 1e-8  # moved one level down on leaving it
NEAR, STIFF = 1e-4, 0.01  # so near to the boundary a stiff method is used, for this time
ERROR = 1e-6  # of the result: what both of these can do, and the integrator
MOST_EVENTS = 1000
A, B, C = "ABC"


def threshold_by_modes(
    load: Any, times: Any, level: int, step: int = 1, start: Any = "empty"
) -> tuple[FluidPath, tuple[tuple[float, str], ...]]:
    """Return the fluid limit under a fixed threshold, and (time, mode entered) in order.

    Parameters as in `fluid.threshold`, for exponential service. Some tens of milliseconds to
    seconds; good to about 1e-6.

    Raises
    ------
    EquipoiseError
        If an argument makes no sense, or the integration fails.
    """
    level, step = check_level(level, step)
    rate, times = as_rate(load), check_times(times)
    shares = shares_from(start)
    offered = _offered(rate, times, shares, EXPONENTIAL)
    width = _levels(offered, max(len(shares) - 1, level + step), 2 * step, rate, times[-1])
    solver = _Solver(rate, level, level + step, width)
    x = np.pad(shares, (0, width - len(shares)))
    out, entered, now = np.empty((len(times), width)), [], 0.0
    if times[0] == 0:
        out[0] = x
    for end in np.union1d(times[-1:], _inner(rate.breaks, times[-1])):
        x, mode = solver.begin(x, now)
        entered.append((now, mode))
        x = solver.run(x, mode, now, float(end), times, out, entered)
        now = float(end)
    modes = [m for k, m in enumerate(entered) if not k or entered[k - 1][1] != m[1]]
    return FluidPath(times, occupancy_of(out), offered, ERROR), tuple(modes)


class _Solver:
    def __init__(self, rate, low, high, width):
        self.rate, self.low, self.high = rate, low, high
        self.j = np.arange(width, dtype=float)
        self.bottom = {A: 0, B: low, C: high}  # no pool has fewer tasks
        self.ceiling = {A: low, B: high, C: width - 1}  # pools below this one receive

    def lam(self, t):
        return float(self.rate.at(np.asarray(t)))

    def drift(self, mode, t, x):
        """dx/dt in a mode; below its bottom nothing is and nothing moves."""
        bottom, ceiling = self.bottom[mode], self.ceiling[mode]
        leaving = self.j * x
        back = leaving[bottom] if bottom else 0.0  # from the bottom, sent back at once
        targets = 1.0 if mode == C else x[bottom:ceiling].sum()
        each = (self.lam(t) - back) / max(targets, 1e-12)
        coming = np.zeros_like(x)
        coming[bottom:ceiling] = each * x[bottom:ceiling]
        change = -leaving - coming
        change[1:] += coming[:-1]
        change[:-1] += leaving[1:]
        if bottom:
            change[:bottom] = 0.0
            change[bottom] += back
        return change

    def begin(self, x, t):
        """The mode in force at a start, and the state there."""
        if x[: self.low].sum() > REACHED:
            return x, A
        if x[: self.high].sum() > REACHED:
            return (x, B) if self.lam(t) >= self.low * x[self.low] else (self.leave(x, self.low), A)
        return (x, C) if self.lam(t) >= self.high * x[self.high] else (self.leave(x, self.high), B)

    def run(self, x, mode, now, end, times, out, entered):
        """Go on from mode to mode until `end`, filling in `out` at the times passed."""
        from scipy.integrate import solve_ivp

        for _ in range(MOST_EVENTS):
            # LSODA does not see that it is stiff just off a boundary: 1e9 steps per unit of time
            near = self.near_boundary(mode, x)
            until = min(end, now + STIFF) if near else end
            solved = solve_ivp(
                lambda t, y, mode=mode: self.drift(mode, t, y),
                (np.nextafter(now, np.inf), np.nextafter(until, -np.inf)),
                x,
                "Radau" if near else "LSODA",
                rtol=1e-10,
                atol=1e-13,
                events=self.events(mode),
                dense_output=True,
                max_step=self.rate.panel,
            )
            if solved.status < 0:
                raise EquipoiseError(
                    f"the integration stopped at t = {solved.t[-1]:g}: {solved.message}"
                )
            passed = (times > now) & (times <= solved.t[-1] + 1e-15 * (1 + end))
            if passed.any():
                out[passed] = solved.sol(np.minimum(times[passed], solved.t[-1])).T
            if solved.status == 0:
                now, x = until, solved.y[:, -1]
                if until == end:
                    return x
                continue
            which = next(k for k, found in enumerate(solved.t_events) if len(found))
            now, x = float(solved.t_events[which][0]), solved.y_events[which][0]
            x, mode = self.enter(x, mode, which)
            entered.append((now, mode))
        raise EquipoiseError(f"more than {MOST_EVENTS} changes of mode by t = {now:g}")

    def near_boundary(self, mode, x):
        """Whether hardly any pool is below the ceiling of A or B."""
        return mode != C and x[: self.ceiling[mode]].sum() < NEAR

    def events(self, mode):
        """What ends a mode: reaching the boundary above, leaving the one below."""

        def reach(t, x):
            return x[: self.ceiling[mode]].sum() - REACHED

        def fall(t, x):
            return self.lam(t) - self.bottom[mode] * x[self.bottom[mode]]

        found = {A: [reach], B: [reach, fall], C: [fall]}[mode]
        for event in found:
            event.terminal, event.direction = True, -1
        return found

    def enter(self, x, mode, event):
        if mode == A:
            return self.gather(x, self.low), B
        if mode == B and event == 0:
            return self.gather(x, self.high), C
        return (self.leave(x, self.low), A) if mode == B else (self.leave(x, self.high), B)

    def gather(self, x, level):
        """All pools below `level` reach it."""
        x = x.copy()
        x[level] += x[:level].sum()
        x[:level] = 0.0
        return x

    def leave(self, x, level):
        """A few pools fall below `level`, where all were."""
        x = self.gather(x, level)
        x[level] -= LEAVING
        x[level - 1] += LEAVING
        return x
