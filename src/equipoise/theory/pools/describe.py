"""All that theory says about pools under one policy, in one answer.

>>> from equipoise.theory import pools
>>> answer = pools.describe(7.3, servers=200, policy="learning-threshold")
>>> answer.best_level, round(answer.settled, 2)
(7, 3.19)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import PolicyError
from . import fluid, learning, pairs
from .diffusion import Spread, spread
from .fluid import FluidPath
from .learning import Cost, Equilibria, Settling
from .offered_load import EXPONENTIAL, Constant, Coxian, Rate, as_rate, check_times, crossings
from .states import (
    balanced,
    check_alpha,
    check_level,
    check_load,
    distance,
    shares_from,
    whole,
)
from .stationary import Rest, jsq_d_rest, optimal_levels, rest_point

POLICIES = ("threshold", "learning-threshold", "jsq", "jsq-d", "random")
HORIZON = 30.0  # of a load that varies, mean service times
NEAR = 3.0  # standard deviations of the load within which a whole number is felt
OFTEN = 1e-3  # changes of the threshold per mean service time that deserve a word
POINTS = 241
MOST_STATES = 4_000_000  # for the rate of changes; some seconds
PHASE_STEP = 6e-3  # with service in phases, which costs 100 times as much: good to about 1e-5


@dataclass(frozen=True, eq=False)
class PoolTheory:
    """What theory says about `servers` pools under a policy; times in mean service times."""

    policy: str
    servers: int  # n
    load: float | None  # tasks offered per pool; None if it varies
    rate: Rate  # tasks that come per pool and unit of time
    service: Coxian
    level: int | None  # the threshold, or the first one; None if the policy has none
    step: int
    alpha: float | None  # of a threshold that learns
    d: int | None  # of jsq-d

    path: FluidPath  # the trajectory as n grows
    imbalance: np.ndarray  # float64[k], distance of q from the balanced state along it

    best_levels: tuple[int, ...]  # thresholds that keep pools in l..l + step; () if load varies
    best_level: int | None  # the one to take
    best_alpha: float | None  # that makes it the only one to be learnt

    rest: Rest | None  # where a threshold comes to rest: the given, or the final one
    occupancy: np.ndarray | None  # q at rest, float64[levels]; None if the load varies
    rest_distance: float | None  # of q at rest from the balanced state, as n grows
    equilibria: Equilibria | None  # levels a learning threshold may settle at
    settling: Settling | None  # a bound of the time it takes
    settled: float | None  # and the time as n grows: the last change; None if none was in sight

    on_arrival: float | None  # messages per task at rest; None if the load varies
    on_departure: float | None
    memory: float  # bits per server at the dispatcher
    learning: Cost | None  # what the changes on the way cost
    changes: float | None  # of the threshold per unit of time in the long run; None if not known

    spread: Spread | None  # deviations of n pools, of order n^(-1/2)
    loss: float | None  # part of the tasks lost if pools have a limit, where it is known
    crossings: int | None  # how often a varying load passes a multiple of step
    warnings: tuple[str, ...]

    @property
    def messages(self) -> float | None:
        """Messages per task at rest, those of learning apart."""
        if self.on_arrival is None or self.on_departure is None:
            return None
        return self.on_arrival + self.on_departure

    @property
    def final_level(self) -> int | None:
        """The threshold at the end of the trajectory."""
        return None if self.path.levels is None else int(self.path.levels[-1])

    @property
    def learning_messages(self) -> float | None:
        """Answers to announcements per task in the long run, at most: n for each change."""
        if self.changes is None or self.load is None:
            return None
        return self.changes * self.service.mean / self.load

    @property
    def finite_distance(self) -> float | None:
        """About how far n pools are from the balanced state at rest, Euclidean, root mean square.

        The distance of the limit, and what fluctuations add for a policy that balances.
        """
        if self.rest_distance is None or self.spread is None:
            return None
        return math.hypot(self.rest_distance, self.spread.distance)


def describe(
    load: float | Rate,
    servers: int,
    policy: str = "learning-threshold",
    *,
    level: int | None = None,
    step: int = 1,
    alpha: float | None = None,
    max_load: float | None = None,
    rule: str = "tokens",
    d: int = 2,
    start: Any = "empty",
    service: Coxian = EXPONENTIAL,
    limit: int | None = None,
    horizon: float | None = None,
    times: Any = None,
) -> PoolTheory:
    """Return all that theory says about pools under a policy.

    Parameters
    ----------
    load
        Tasks offered per pool, > 0; or a `Rate` that varies, in tasks per pool and unit of time.
    servers
        n >= 1 pools.
    policy
        "threshold", "learning-threshold", "jsq", "jsq-d" or "random".
    level
        l; by default the best one, and 0 for a threshold that learns.
    step
        h = l + step.
    alpha, max_load
        As the policy takes them: alpha, or the largest load to be learnt, or neither for 10.
    rule
        "tokens", "program" or "total": how the threshold learns.
    d
        Choices of "jsq-d".
    start
        "empty", tasks per pool, or fractions of pools by level.
    service
        Phases of service; its mean is the unit of time for a load that is a number.
    limit
        Most tasks at a pool, if there is one.
    horizon, times
        How far the trajectory goes, or float64[k], its times; by default until things settle.

    Raises
    ------
    EquipoiseError
        If something makes no sense: load <= 0, alpha outside (0, 1 - 1/n), step < 1, a level
        above the limit, ...
    """
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise PolicyError(f"policy = '{policy}' is not known here; known are: {known}")
    n = whole(servers, "servers", 1)
    lam = check_load(float(load)) if isinstance(load, int | float | np.number) else None
    rate: Rate = Constant(lam / service.mean) if lam is not None else as_rate(load)
    shares = shares_from(start)
    learns, has_level = policy == "learning-threshold", "threshold" in policy
    if limit is not None and len(shares) - 1 > whole(limit, "limit", 1):
        raise PolicyError(f"start: {len(shares) - 1} tasks at a pool are above limit = {limit}")
    alpha = _alpha(n, alpha, max_load) if learns and rule != "total" else None
    level = _level(policy, level, step, lam, limit) if has_level else None
    tasks = float(np.arange(len(shares)) @ shares)
    settling = _settling(lam, alpha, tasks, step, rule) if learns else None
    if times is None:
        times = np.linspace(0, horizon or _horizon(lam, settling), POINTS)
    path = _path(policy, rate, check_times(times), level, step, alpha, rule, d, start, service)
    final = None if path.levels is None else int(path.levels[-1])
    rest = None if lam is None or final is None else rest_point(lam, final, step)
    q = _at_rest(policy, lam, rest, d)
    before, after = _messages(policy, lam, rest, d)
    even = lam is not None and policy != "jsq-d" and policy != "random"
    answer = PoolTheory(
        policy, n, lam, rate, service, level, step, alpha, d if policy == "jsq-d" else None,
        path=path,
        imbalance=distance(path.occupancy, path.offered),
        best_levels=optimal_levels(lam, step) if lam is not None else (),
        best_level=learning.best_level(lam, step) if lam is not None else None,
        best_alpha=learning.alpha_for_load(lam, step) if lam is not None else None,
        rest=rest,
        occupancy=q,
        rest_distance=None if q is None or lam is None else float(distance(q, lam)),
        equilibria=None if lam is None or alpha is None else learning.equilibria(lam, alpha, step),
        settling=settling,
        settled=path.last_change if learns and lam is not None else None,
        on_arrival=before,
        on_departure=after,
        memory={"threshold": 2, "learning-threshold": 2, "jsq": 32}.get(policy, 0),
        learning=learning.cost_of(path.changes, n) if learns else None,
        changes=_changes(lam, n, alpha, step, rule, service) if learns else None,
        spread=spread(n, lam) if lam is not None and even else None,
        loss=_loss(n, lam, limit, policy, final, step),
        crossings=None if lam else crossings(rate, float(path.times[-1]), step, service),
        warnings=(),
    )  # fmt: skip
    return replace(answer, warnings=tuple(_warnings(answer, limit)))


def _alpha(n: int, alpha: float | None, max_load: float | None) -> float:
    from ...policies.learning_threshold import alpha_of

    if alpha is not None and max_load is not None:
        raise PolicyError("alpha and max_load say the same thing twice; give one of them")
    if max_load is not None:
        check_load(max_load)
    if n < 2:  # says that one server has nothing to learn, rather than what is wrong with alpha
        check_alpha(0.5, n)
    return check_alpha(alpha_of(n, alpha, max_load), n)


def _level(policy, level, step, lam, limit) -> int:
    if level is None:
        if policy == "threshold" and lam is None:
            raise PolicyError("level: missing; a load that varies has no best threshold")
        level = learning.best_level(lam, step) if policy == "threshold" else 0
    return check_level(level, step, limit)[0]


def _settling(lam, alpha, tasks, step, rule) -> Settling | None:
    if lam is None:
        return None
    if rule == "total":
        return learning.total_settling(lam, tasks, step)
    return learning.settling_bound(lam, alpha, tasks, step)


def _horizon(lam: float | None, settling: Settling | None) -> float:
    if lam is None:
        return HORIZON
    if settling is None or math.isinf(settling.bound):
        return 15.0
    return float(math.ceil(max(8.0, 1.25 * settling.bound)))


def _path(policy, rate, times, level, step, alpha, rule, d, start, service) -> FluidPath:
    dt = fluid.STEP if service.phases == 1 else PHASE_STEP
    if policy == "threshold":
        return fluid.threshold(rate, times, level, step, start, service, dt)
    if policy == "learning-threshold":
        alpha = 0.5 if alpha is None else alpha
        return fluid.learning(rate, times, alpha, step, level, start, rule, service, dt)
    if policy == "jsq":
        return fluid.jsq(rate, times, start, service, dt)
    if service.phases > 1:
        raise PolicyError(f"the limit of {policy} is known here for exponential service only")
    return fluid.jsq_d(rate, times, d if policy == "jsq-d" else 1, start)


def _at_rest(policy, lam, rest: Rest | None, d) -> np.ndarray | None:
    if lam is None:
        return None
    if rest is not None:
        return rest.occupancy
    return balanced(lam) if policy == "jsq" else jsq_d_rest(lam, d if policy == "jsq-d" else 1)


def _messages(policy, lam, rest: Rest | None, d) -> tuple[float | None, float | None]:
    if lam is None:
        return None, None
    if rest is not None:
        return rest.messages
    return {"jsq": (0.0, 1.0), "jsq-d": (2.0 * d, 0.0)}.get(policy, (0.0, 0.0))


def _changes(lam, n, alpha, step, rule, service) -> float | None:
    if lam is None:
        return None
    if rule == "total":
        return pairs.total_changes(n, lam, step) / service.mean
    if step > 1 or service.phases > 1:
        return None
    try:
        return pairs.threshold_changes(n, lam, alpha, MOST_STATES) / service.mean
    except pairs.TooLarge:
        return None


def _loss(n, lam, limit, policy, final, step) -> float | None:
    """Part of the tasks lost: known exactly where pools hold one task more than they need."""
    if lam is None or limit is None:
        return None
    balances = policy == "jsq" or (final == limit - 1 and step == 1)
    return pairs.pair_law(n, lam, limit - 1).loss if balances else None


def _warnings(answer: PoolTheory, limit: int | None):
    """What a user should know before relying on it, a line each."""
    final, lam = answer.final_level, answer.load
    if final is not None and limit is not None and final + answer.step > limit:
        yield (
            f"pools hold at most limit = {limit} tasks, fewer than l + step = "
            f"{final + answer.step}: tasks will be lost; the limit of many pools ignores it"
        )
    if lam is None:
        if answer.crossings:
            yield (
                f"the offered load passes a multiple of step = {answer.step} "
                f"{answer.crossings} times in {answer.path.times[-1]:g} mean service times; every "
                "time the threshold must move, and around it no threshold is right: a larger step "
                "follows less closely and moves less"
            )
        return
    if answer.policy == "threshold" and answer.rest is not None and answer.rest.regime != "right":
        yield (
            f"level = {answer.level} is {answer.rest.regime} for a load of {lam:g}: use "
            f"level = {answer.best_level}"
        )
    if answer.policy == "learning-threshold":
        yield from _about_learning(answer)


def _about_learning(answer: PoolTheory):
    lam, n, found, best = answer.load, answer.servers, answer.equilibria, answer.best_level
    assert lam is not None
    assert best is not None
    deviation = math.sqrt(lam / n)
    multiple = answer.step * max(1, round(lam / answer.step))
    away = abs(lam - multiple) / deviation
    often = "" if answer.changes is None else f", {answer.changes:.3g} times per mean service time"
    if away < NEAR and (answer.changes is None or answer.changes > OFTEN):
        yield (
            f"load {lam:g} is {away:.2g} standard deviations (sqrt(load/n) = {deviation:.2g}) from "
            f"{multiple}: the threshold goes back and forth{often}; more servers, or a larger step "
            "with the load in its middle, calm it"
        )
    elif answer.changes is not None and answer.changes > OFTEN:
        yield f"the threshold goes on moving{often}: alpha or the fleet is small"
    if found is None:
        return
    if len(found.possible) > 1 and not found.optimal:
        levels = ", ".join(str(level) for level in found.possible)
        yield (
            f"with alpha = {found.alpha:.4g} the threshold may settle at any of {levels}, "
            f"depending on where it comes from; alpha > {lam / (best + answer.step):.4g} leaves "
            f"only {best}"
        )
    firm = found.thetas[-1]
    shaky = math.sqrt(max(firm * (1 - firm), 0.0) / n)
    if found.possible[-1] > lam and firm - found.alpha < NEAR * shaky:
        yield (
            f"level {found.possible[-1]} is held by only {firm - found.alpha:.2g} (theta - alpha): "
            "a fleet of this size will leave it after a while"
        )
