"""The model of occupancy.py in leaps of time instead of event by event.

For fleets so large that even 20 ns an event is too long. With y_i servers that have at least i
tasks, a step of h mean service times raises and lowers them by

    y_i <- y_i + Poisson(h rate (T(y_{i-1}) - T(y_i))) - Poisson(h r(i) (y_i - y_{i+1})),

T(y) being the probability that the chosen server is one of the y longest (Ranked.tail), r the speed
of a server (occupancy.py), and all rates those at the midpoint, y + h/2 times the drift of y. It
takes a microsecond a step, whatever n.

Error, stated by `leap_error` and tested:

* Means. The midpoint has the rest point of the fluid limit exactly, so at rest there is none but
  noise. On the way to it a share of servers is off by at most (f h)^2 / 6, f the rate at which a
  server changes its length.
* Variance. Where the drift pulls back at rate m, a step multiplies deviations by
  a = 1 - m h + (m h)^2 / 2, and the stationary variance comes out too large by the factor
  2 m h / (1 - a^2) = 1 / ((1 - mh/2) (1 - mh/2 + (mh)^2/4)), about 1 + m h. The number of tasks in
  pools has m = 1.
* Levels with a few servers are clipped: no more can change than there are.

Only policies whose choice varies smoothly with the counts can leap. Under jsq or a threshold the
few servers below a level decide, and they come and go n times faster than a step.
Source: Gillespie (2001), Approximate accelerated stochastic simulation of chemically reacting
systems, J. Chem. Phys. 115(4); the variance is derived for the linear case.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, kernel
from ..errors import EquipoiseError
from ..policies.base import Policy, Ranks
from ..policies.spec import PolicySpec, parse
from ..policies.steps import NO_LIMIT, PROBE
from ..rng import ARRIVALS_SEED, make_rng, poisson
from ..scenario import Scenario
from .occupancy import CountsDriver, expected_wait
from .store import NEEDS_LEVELS, REACHED, longer
from .tally import (
    ABOVE,
    ARRIVED,
    BALANCED,
    BEGAN,
    EXCESS,
    FINISHED,
    LOST,
    NOW,
    RESPONSES,
    TALLEST,
    TOTAL,
    UNEVEN,
    WAITS,
    excess,
    pass_time,
    settle,
)

LONGEST_STEP = 0.01  # mean service times, where nothing is said and servers are not faster
SURE_CHANGE = 0.1  # and then at most so many changes of a server in a step
MOST_CHANGE = 0.5  # a step beyond is refused


class Leap(NamedTuple):
    """What a leaping kernel keeps beside the tally."""

    size: int  # n
    limit: int  # most tasks at a server
    asked: int  # messages for probing that each task costs
    count: np.ndarray  # type: ignore[assignment]  # int64[7], messages, announcements, changes
    reached: np.ndarray  # float64[1], the end of the last step
    middle: np.ndarray  # float64[levels], servers with at least i tasks halfway through a step
    raised: np.ndarray  # int64[levels], servers that came to have i tasks in a step
    lowered: np.ndarray  # int64[levels], servers that had i and lost one
    rng: np.ndarray  # uint64[4]


def make_leaping(size: int, limit: int | None, asked: int, levels: int, rng: np.ndarray) -> Leap:
    """Return what a leaping kernel keeps of `size` servers, with room for so many levels."""
    return Leap(
        int(size),
        NO_LIMIT if limit is None else int(limit),
        int(asked),
        np.zeros(7, np.int64),
        np.zeros(1),
        np.zeros(levels),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        rng,
    )


def grown(world: Leap, levels: int) -> Leap:
    """Return the same with room for more levels."""
    return world._replace(
        middle=longer(world.middle, levels, 0.0),
        raised=longer(world.raised, levels, 0),
        lowered=longer(world.lowered, levels, 0),
    )


def out_of_balance(tally):
    """Return the tasks that would have to move for all servers to be level."""
    return tally.number[ABOVE] + max(tally.number[EXCESS], 0)


def apply_changes(world, tally, stop, h):
    """Raise and lower the levels as drawn; integrals take the mean of before and after."""
    least, number, size = tally.least, tally.number, world.size
    uneven = out_of_balance(tally)
    pass_time(tally, stop, size)
    for i in range(1, number[TALLEST] + 3):
        change = world.raised[i] - world.lowered[i]
        tally.area[i] -= change * (stop - tally.now[BEGAN] - 0.5 * h)
        least[i] += change
        number[TOTAL] += change
    while least[number[TALLEST] + 1] > 0:
        number[TALLEST] += 1
    balanced = number[TOTAL] // size
    number[BALANCED], number[ABOVE] = balanced, 0
    for i in range(balanced + 2, number[TALLEST] + 1):
        number[ABOVE] += least[i]
    number[EXCESS] = excess(tally, size)
    tally.sums[UNEVEN] += 0.5 * h * (out_of_balance(tally) - uneven)


def clip(world, least, tallest):
    """Let no more servers leave a level than there are."""
    for k in range(tallest + 2):
        here = least[k] - least[k + 1]
        world.lowered[k] = min(world.lowered[k], here)
        world.raised[k + 1] = min(world.raised[k + 1], here - world.lowered[k])


@cache
def make_leap(policy: Policy, queue: bool, limited: bool) -> Any:
    """Return the leaping kernel of one policy that has `Ranked.tail`.

    run(world, state, tally, curve, rate, step, workers, end, until, most) goes on in steps of
    `step` mean service times, the last one ending at `end`, the end of this rate, as long as they
    end by `until`, or until at least `most` tasks have arrived. Between the last step and `until`
    nothing changes. It returns REACHED, or NEEDS_LEVELS: grow world, tally and curve outside.
    """
    tail = policy.ranked.tail  # type: ignore[union-attr]

    def leap(world, state, tally, curve, rate, step, workers, end, until, most):
        world, state, tally, curve = borrow(world), borrow(state), borrow(tally), borrow(curve)
        size, limit = world.size, world.limit
        least, number, middle = tally.least, tally.number, world.middle
        raised, lowered = world.raised, world.lowered
        code = REACHED
        while number[ARRIVED] < most:
            tallest = number[TALLEST]
            if tallest + 5 >= least.size or number[BALANCED] + 5 >= least.size:
                code = NEEDS_LEVELS
                break
            begin = world.reached[0]
            stop = min(begin + step, end)
            if begin >= end or stop > until:
                if min(until, end) > tally.now[NOW]:
                    pass_time(tally, min(until, end), size)
                break
            h = stop - begin

            above = 1.0  # T(y_0): somebody is chosen
            middle[0] = size
            for i in range(1, tallest + 2):
                chosen = tail(state, least[i] / size, size) if i <= limit else above
                drift = rate * (above - chosen) - curve[i] * (least[i] - least[i + 1])
                above = chosen
                middle[i] = min(max(least[i] + 0.5 * h * drift, 0.0), middle[i - 1])
            middle[tallest + 2] = middle[tallest + 3] = 0.0

            above = 1.0
            came = 0
            for i in range(1, tallest + 3):
                chosen = tail(state, middle[i] / size, size) if i <= limit else above
                raised[i] = poisson(world.rng, h * rate * max(0.0, above - chosen))
                above = chosen
                lowered[i] = poisson(world.rng, h * curve[i] * (middle[i] - middle[i + 1]))
            clip(world, least, tallest)
            for i in range(1, tallest + 3):
                came += raised[i]
                number[FINISHED] += lowered[i]
                if queue:
                    wait = expected_wait(i - 1, workers)
                    tally.sums[WAITS] += raised[i] * wait
                    tally.sums[RESPONSES] += raised[i] * (wait + 1.0)
            if limited:
                lost = poisson(world.rng, h * rate * above)
                number[LOST] += lost
                came += lost
            number[ARRIVED] += came
            world.count[PROBE] += came * world.asked
            apply_changes(world, tally, stop, h)
            world.reached[0] = stop
        settle(tally)
        return code

    leap.__name__ = f"leap_{policy.name.replace('-', '_')}"
    return kernel(leap)


def asked_each(policy: Policy, state: Any, size: int) -> int:
    """Return the messages for probing that each task costs: those of one choice, tried here."""
    ranks = Ranks(size, np.array([size, 0], np.int64), np.zeros(1, np.int64))
    policy.ranked.choose(state, ranks, make_rng(0))  # type: ignore[union-attr]
    return int(ranks.asked[0])


class LeapDriver(CountsDriver):
    """Drives leap.py."""

    def __init__(
        self,
        scenario: Scenario,
        spec: PolicySpec,
        replication: int,
        trail: int = 0,
        step: float = LONGEST_STEP,
    ) -> None:
        super().__init__(scenario, spec, replication)
        self.step = float(step)
        self.kernel = make_leap(spec.policy, self.waiting, self.limited)
        asked = asked_each(spec.policy, self.tasks, self.size)
        rng, limit = make_rng(self.streams[ARRIVALS_SEED]), scenario.servers.limit
        self.world = make_leaping(self.size, limit, asked, self.tally.least.size, rng)

    def waited(self) -> tuple[int, int]:
        number = self.tally.number
        followed = int(number[ARRIVED] - number[LOST]) if self.waiting else 0
        return followed, followed

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        return self.call(self.curve, rate, self.step, self.workers, end, until, most)

    def grow(self, code: int) -> None:
        super().grow(code)
        self.world = grown(self.world, self.tally.least.size)


# -- steps and their errors ---------------------------------------------------------------------


class LeapError(NamedTuple):
    """The error of a leap as it is stated."""

    share: float  # most that a share of servers is off while it changes; at rest none but noise
    variance: float  # by how much variances are too large, as a fraction, where m = 1

    def __str__(self) -> str:
        return (
            f"shares of servers are off by at most {self.share:.2g} while they change, by noise "
            f"alone at rest; the variance of the number of tasks is up to {self.variance:.2%} "
            "too large"
        )


def leap_error(step: float, changes: float) -> LeapError:
    """Return the error of steps of `step` mean service times.

    `changes` is the rate at which a server changes its length, per mean service time.
    """
    h = step
    return LeapError((changes * step) ** 2 / 6, 1 / ((1 - h / 2) * (1 - h / 2 + h * h / 4)) - 1)


def change_rate(scenario: Scenario, spec: PolicySpec) -> float:
    """Return how often a server changes its length at most, per mean service time.

    What it gets while it is among the shortest, and what it does with as many tasks as it has at
    most, but for one server in a thousand.
    """
    ranked, servers = spec.policy.ranked, scenario.servers
    assert ranked is not None
    assert ranked.tail is not None
    state, _ = ranked.init(servers.count, **spec.params)
    small = 1e-6
    slope = (1 - ranked.tail(state, 1 - small, servers.count)) / small
    rate = float(scenario.rate_table()[1].max()) * scenario.mean_service / servers.count
    if servers.discipline != "pool":
        return slope * rate + float(servers.speed_curve(1000).max())
    load = scenario.offered_load()[2]
    most = max(load + 3 * math.sqrt(load), scenario.start_counts().size - 1)
    return slope * rate + most


def read_step(written: str, scenario: Scenario, specs: Any) -> float:
    """Return the step of a kernel written as "leap" or "leap(step=0.005)", mean service times.

    Raises
    ------
    EquipoiseError
        If it is not a step, or one so long that its error could not be stated.
    """
    _, given = parse(written)
    changes = max((change_rate(scenario, spec) for spec in specs), default=1.0)
    step = given.pop("step", None)
    if given:
        raise EquipoiseError(f"leap has no parameter '{next(iter(given))}'; it has step alone")
    if step is None:
        return float(f"{min(LONGEST_STEP, SURE_CHANGE / changes):.2g}")
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
        raise EquipoiseError(f"leap: step = {step} must be a number > 0, in mean service times")
    if step * changes > MOST_CHANGE:
        raise EquipoiseError(
            f"leap: step = {step:g} is too long: servers change up to {changes:.3g} times in a "
            f"mean service time; use at most {MOST_CHANGE / changes:.2g}"
        )
    return float(step)
