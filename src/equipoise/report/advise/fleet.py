"""The smallest fleet that reaches a goal: `p99_response=0.2`, so many seconds or less.

The same traffic meets fleets of every size that is tried. A size is taken as enough where the upper
end of the interval reaches the goal, as too small where the lower end misses it; where neither
holds the run is made longer, and what stays open counts as too small. That more servers never do
worse is assumed, so sizes are bisected. Sizes tried share the error: each interval holds at
1 - (1 - confidence)/TRIES.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...errors import EquipoiseError, UnstableError
from ...policies import PolicySpec
from ...scenario import Scenario
from ...stats import Estimate
from ..results import HIGHER_IS_BETTER, METRICS
from ..variants import with_servers
from .candidates import Candidate, Limits, candidates_of, unstable
from .race import FIRST, Runner

TRIES = 16  # sizes, at most about, that share the error
LONGER = 4  # times as many replications where the first do not decide
WIDEST = 256  # times as many servers as there are now: beyond, more servers are not the way


@dataclass(frozen=True)
class Goal:
    """What is to be reached: a metric of `METRICS` at most so much."""

    metric: str
    most: float

    @classmethod
    def read(cls, text: str) -> Goal:
        """Return the goal that a text such as "p99_response=0.2" states.

        Raises
        ------
        EquipoiseError
            If it is no metric of which less is better, or no number.
        """
        name, equals, value = text.partition("=")
        name = name.strip()
        known = [m for m in METRICS if m not in HIGHER_IS_BETTER]
        if not equals:
            raise EquipoiseError(
                f"goal = '{text}': write a metric and the most it may be, e.g. p99_response=0.2"
            )
        if name not in known:
            raise EquipoiseError(f"goal: no metric '{name}' to reach; they are: {', '.join(known)}")
        try:
            most = float(value)
        except ValueError:
            most = math.nan
        if not (math.isfinite(most) and most >= 0):
            raise EquipoiseError(f"goal: {name} = '{value.strip()}' must be a number, at least 0")
        return cls(name, most)

    @property
    def words(self) -> str:
        """The goal in words."""
        what, unit = METRICS[self.metric]
        return f"{what} at most {self.most:g} {unit}".strip()


@dataclass(frozen=True)
class Tried:
    """One size of the fleet under one policy."""

    servers: int
    label: str
    value: Estimate | None  # None: it does not carry the load
    enough: bool
    open: bool = False  # the interval holds the goal; counted as too small


@dataclass(frozen=True)
class Fleet:
    """The smallest fleet that was found for one policy."""

    goal: Goal
    servers: int | None  # None: no size that was tried is enough
    label: str  # the policy, its parameters those for this size
    value: Estimate | None
    tried: tuple[Tried, ...] = field(default=())  # in order of size


Make = Callable[[Scenario], PolicySpec | None]  # a policy for a size; None: it cannot be used there


def same_role(candidate: Candidate, limits: Limits) -> Make:
    """Return what makes a candidate's policy with parameters for another number of servers."""

    def make(scenario: Scenario) -> PolicySpec | None:
        proposed, _ = candidates_of(scenario, limits)
        found = next((one.spec for one in proposed if one.role == candidate.role), None)
        if found is None and candidate.role.startswith("asked"):
            return None if unstable(scenario, candidate.spec, limits.stable_to) else candidate.spec
        return found

    return make


def as_it_is(spec: PolicySpec) -> Make:
    """Return what leaves a policy's parameters alone."""
    return lambda scenario: None if unstable(scenario, spec, None) else spec


def smallest_fleet(runner: Runner, goal: Goal, make: Make, below: int | None = None) -> Fleet:
    """Return the smallest fleet whose servers reach the goal under a policy.

    Parameters
    ----------
    below
        Only sizes below this one are of interest.
    """
    return _Search(runner, goal, make).run(below)


def best_fleet(runner: Runner, goal: Goal, makes: Sequence[Make]) -> Fleet:
    """Return the smallest fleet over several policies, the first being preferred among equals."""
    best = smallest_fleet(runner, goal, makes[0])
    for make in makes[1:]:
        if runner.interrupted:
            break
        below = best.servers
        found = smallest_fleet(runner, goal, make, below)
        if found.servers is not None:
            best = found
    return best


class _Search:
    """Bisection over sizes, remembering what was tried."""

    def __init__(self, runner: Runner, goal: Goal, make: Make) -> None:
        self.runner, self.goal, self.make = runner, goal, make
        self.scenario = runner.scenario
        self.tried: dict[int, Tried] = {}

    def run(self, below: int | None) -> Fleet:
        now = self.scenario.servers.count
        if below is not None:
            if below <= 1 or not self.enough(below - 1):
                return self.answer(None)
            high: int | None = below - 1
            low = 0
        elif self.enough(now):
            high, low = now, 0
        else:
            low, high = now, None
            while high is None and 2 * low <= WIDEST * now:
                if self.enough(2 * low):
                    high = 2 * low
                else:
                    low = 2 * low
        if high is None:
            return self.answer(None)
        while high - low > 1:
            middle = (low + high) // 2
            if self.enough(middle):
                high = middle
            else:
                low = middle
        return self.answer(high)

    def answer(self, servers: int | None) -> Fleet:
        tried = tuple(self.tried[count] for count in sorted(self.tried))
        if servers is None:
            label = tried[-1].label if tried else ""
            return Fleet(self.goal, None, label, None, tried)
        found = self.tried[servers]
        return Fleet(self.goal, servers, found.label, found.value, tried)

    def enough(self, count: int) -> bool:
        if count not in self.tried:
            self.tried[count] = self.look(count)
        return self.tried[count].enough

    def look(self, count: int) -> Tried:
        """Simulate one size until it is decided, or long enough."""
        try:
            scenario = with_servers(self.scenario, count)
            spec = self.make(scenario)
        except UnstableError:
            spec = None
        if spec is None:
            return Tried(count, "", None, False)
        confidence = 1 - (1 - self.runner.confidence) / TRIES
        runner = replace(
            self.runner, scenario=scenario, records={}, first=None, spent=0.0,
            confidence=confidence,
        )  # fmt: skip
        runner.meter.planned += FIRST
        found = None
        for replications in (FIRST, LONGER * FIRST):
            runner.add([spec], replications)
            metrics = runner.result(spec).metrics
            if self.goal.metric not in metrics:
                known = ", ".join(metrics)
                raise EquipoiseError(
                    f"goal: '{self.goal.metric}' was not measured here; measured were: {known}"
                )
            found = metrics[self.goal.metric]
            error = 0.0 if math.isnan(found.error) else found.error
            undecided = found.value - error <= self.goal.most < found.value + error
            if not undecided or runner.interrupted:
                break
            runner.meter.planned += (LONGER - 1) * FIRST
        self.runner.spent += runner.spent
        self.runner.interrupted |= runner.interrupted
        assert found is not None
        enough = found.value + error <= self.goal.most
        return Tried(count, spec.label, found, enough, undecided)
