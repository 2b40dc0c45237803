"""Which policies may be advised: each with parameters that suit the traffic, within the limits.

A limit is checked against facts of the policy (bits of memory, what it must see, the messages it
declares) and against what theory knows of the load it carries, before anything is run; messages
that follow from the traffic are measured in the first round (race.py). Left out of the list are
policies that another one always matches at the same cost: total-threshold (jsq keeps and hears as
much), stale-jsq (sujsq-det counts its own sends too) and sujsq-exp (sujsq-det with random gaps).
They can be named.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import EquipoiseError, PolicyError
from ...policies import PolicySpec, resolve, spec
from ...policies.base import silent
from ...scenario import Scenario
from ..run import Written, check_clock
from ..stability import Fleet, stability_of
from ..table import bits, plain

SIGHTS = {
    "messages": "what servers tell of their own accord",
    "answers": "what servers answer when asked",
    "speeds": "how fast each server is",
    "sizes": "how long each task will take",
}
USUAL = frozenset({"messages", "answers", "speeds"})
SPARED = 0.98  # of a budget of messages that is planned for: what is measured has an error
OVER = 1.02  # times a limit of messages that still counts as kept, for the same reason
HOPELESS = 2.0  # times the least wait that theory knows: schemes beyond are not tried
NO_NEWS = ("random", "round-robin")
ASKS = ("jsq-d", "ll-d")
CLOCKED = ("sujsq-det", "aujsq-det", "aujsq-exp")


@dataclass(frozen=True)
class Limits:
    """What the user allows; None is no limit.

    Attributes
    ----------
    messages
        Per task, all kinds together.
    memory
        Bits per server at the dispatcher.
    sees
        What the dispatcher can observe, names of `SIGHTS`.
    stable_to
        The load that must be carried, as a multiple of the mean load.
    """

    messages: float | None = None
    memory: float | None = None
    sees: frozenset[str] = USUAL
    stable_to: float | None = None

    @classmethod
    def asked(
        cls,
        messages: float | None,
        memory: float | None,
        sees: str | Iterable[str] | None,
        stable_to: float | None,
    ) -> Limits:
        """Return the limits as they were asked for.

        Raises
        ------
        EquipoiseError
            If one makes no sense.
        """
        for name, value in (("messages_per_task", messages), ("memory", memory)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise EquipoiseError(f"{name} = {value:g}: must be a number, at least 0")
        if stable_to is not None and not (math.isfinite(stable_to) and stable_to > 0):
            raise EquipoiseError(
                f"stable_to = {stable_to:g}: must be a multiple of the load, e.g. 1.2"
            )
        return cls(messages, memory, _sights(sees), stable_to)

    def words(self) -> list[str]:
        """Return what is limited, in words."""
        out = []
        if self.messages is not None:
            out.append(f"at most {plain(self.messages)} messages per task")
        if self.memory is not None:
            out.append(f"at most {bits(self.memory)} of memory per server".replace("none", "0"))
        if self.sees != USUAL:
            seen = [name for name in SIGHTS if name in self.sees]
            out.append(f"the dispatcher sees {' and '.join(seen) or 'nothing'}")
        if self.stable_to is not None:
            out.append(f"stable up to {plain(self.stable_to)} times the load")
        return out


def _sights(sees: str | Iterable[str] | None) -> frozenset[str]:
    if sees is None:
        return USUAL
    names = sees.split(",") if isinstance(sees, str) else list(sees)
    found = frozenset(name.strip() for name in names) - {"", "nothing"}
    for name in sorted(found - SIGHTS.keys()):
        raise EquipoiseError(
            f"sees = '{name}': a dispatcher can see {', '.join(SIGHTS)}, or nothing"
        )
    return found


@dataclass(frozen=True)
class Excluded:
    """A policy that a limit rules out, or that cannot run here."""

    label: str
    limit: str  # "messages", "memory", "sees", "stability" or "scenario"
    reason: str  # in words


@dataclass(frozen=True)
class Candidate:
    """A policy that may be advised."""

    spec: PolicySpec
    role: str  # what its parameters were chosen for; the same in another scenario

    @property
    def label(self) -> str:
        """The policy with its parameters."""
        return self.spec.label


def candidates_of(
    scenario: Scenario, limits: Limits, policies: Iterable[Written] | None = None
) -> tuple[list[Candidate], list[Excluded]]:
    """Return the policies to try on a scenario, and those that a limit rules out beforehand.

    Parameters
    ----------
    policies
        To be tried in place of those that are proposed, parameters as written.
    """
    if policies is None:
        proposed = list(_proposals(scenario, limits))
    else:
        proposed = [Candidate(resolve(one), f"asked: {resolve(one).label}") for one in policies]
    kept: dict[str, Candidate] = {}
    out: dict[str, Excluded] = {}
    for one in proposed:
        if one.label in kept or one.label in out:
            continue
        why = excluded(scenario, limits, one.spec)
        if why is None:
            kept[one.label] = one
        else:
            out[one.label] = why
    return list(kept.values()), list(out.values())


def excluded(scenario: Scenario, limits: Limits, one: PolicySpec) -> Excluded | None:
    """Return why a policy cannot be advised by what is known beforehand; None if it can."""
    policy, label = one.policy, one.label
    if limits.memory is not None and policy.memory > limits.memory:
        return Excluded(label, "memory", f"keeps {bits(policy.memory)} per server")
    unseen = [name for name in SIGHTS if name in must_see(one) - limits.sees]
    if unseen:
        return Excluded(label, "sees", f"must see {SIGHTS[unseen[0]]} ({unseen[0]})")
    declared = declared_messages(scenario, one)
    most = math.inf if limits.messages is None else OVER * limits.messages
    if declared is not None and declared > most:
        return Excluded(label, "messages", f"takes {plain(declared, 3)} messages per task")
    try:
        one.check(scenario.servers.count)
        check_clock(scenario, one)
    except PolicyError as error:
        return Excluded(label, "scenario", str(error).removeprefix(f"{label}: "))
    reason = unstable(scenario, one, limits.stable_to)
    return None if reason is None else Excluded(label, "stability", reason)


def must_see(one: PolicySpec) -> set[str]:
    """Return what a dispatcher must observe to run a policy, names of `SIGHTS`."""
    policy, params = one.policy, one.params
    need = set(policy.needs & SIGHTS.keys())
    if policy.probes or params.get("mode") == "push":
        need.add("answers")
    elif policy.clock is not None or policy.announces or tells(one):
        need.add("messages")
    if params.get("weighted") or params.get("sampling") == "speed":
        need.add("speeds")
    return need


def tells(one: PolicySpec) -> bool:
    """Whether servers tell the dispatcher anything, so that a late message matters."""
    policy = one.policy
    told = (policy.tell_start, policy.tell_finish, policy.tell_state)
    return any(function is not silent for function in told)


def declared_messages(scenario: Scenario, one: PolicySpec) -> float | None:
    """Return the messages per task that follow from the parameters; None if from the traffic."""
    name, params = one.policy.name, one.params
    if name in NO_NEWS:
        return 0.0
    if name in ASKS:
        return 2.0 * params["d"]
    if one.policy.clock is not None and not params.get("idle_only", False):
        asked = 2 if params.get("mode") == "push" else 1
        return asked * float(params["delta"]) / tasks_per_server(scenario)
    return None


def tasks_per_server(scenario: Scenario) -> float:
    """Return how many tasks come to a server in a mean service time (at speed 1), on average."""
    servers = scenario.servers
    return scenario.offered_load()[0] * servers.capacity / servers.count


def unstable(scenario: Scenario, one: PolicySpec, factor: float | None) -> str | None:
    """Return why a policy does not carry the mean load, or `factor` times it; None if it does.

    Where a factor was asked for, what is not known to be carried does not count as carried.
    """
    fleet = Fleet.of(scenario)
    assert fleet.rate is not None
    if fleet.rate >= fleet.capacity and not scenario.stationary and factor is None:
        return None  # an overload that passes: then it is a question of who bears it best
    rate = fleet.rate * (factor or 1.0)
    found = stability_of(dataclasses.replace(fleet, rate=rate), one)
    load = plain(rate / fleet.capacity, 3)
    if found.stable is False:
        carries = plain(found.lam_max / fleet.capacity, 3)
        return f"load {load} of the capacity, carries only {carries}"
    if found.stable is None and factor is not None:
        return f"load {load} of the capacity, not known to be carried"
    return None


# Proposals.


def _proposals(scenario: Scenario, limits: Limits) -> Iterator[Candidate]:
    servers = scenario.servers
    several = servers.count > 1
    unequal = not servers.identical

    def one(role: str, name: str, **params: Any) -> Candidate:
        return Candidate(resolve({"name": name, **params}), role)

    yield one("random", "random")
    yield one("round-robin", "round-robin")
    if unequal:
        yield one("random by speed", "random", weighted=True)
        yield one("round-robin by speed", "round-robin", weighted=True)
    for d in (2, 3):
        if servers.count >= d:
            yield one(f"jsq-d {d}", "jsq-d", d=d)
            if unequal:
                yield one(f"jsq-d {d} by speed", "jsq-d", d=d, sampling="speed")
    if several and "sizes" in limits.sees and servers.curve is None:
        yield one("ll-d", "ll-d", d=2)
    yield one("jsq", "jsq")
    if unequal:
        yield one("sed", "sed")
    yield one("jiq", "jiq")
    yield from _thresholds(scenario, one)
    if limits.messages is not None and limits.messages > 0:
        yield from _sparse(scenario, limits, one)


def _thresholds(scenario: Scenario, one: Any) -> Iterator[Candidate]:
    """Thresholds at what servers do well with, and those that learn it."""
    servers = scenario.servers
    mean, _, peak = scenario.offered_load()
    if servers.discipline == "pool":
        level = math.floor(mean)
        # a trace's peak is that of 1/500 of it, which one long task can make: beyond twice the
        # mean it says little about how many tasks there are
        high = min(peak, 2 * mean)
        yield one("threshold at the load", "threshold", level=level)
        if math.floor(high) > level and not scenario.stationary:
            yield one("threshold above the load", "threshold", level=math.floor(high))
        yield one("jbt at the load", "jbt", r=max(1, level))
        yield one("jbt above the load", "jbt", r=level + 1)
        if servers.count > 1:
            # alpha is made for loads up to that, so that it settles at most one too high; its
            # default is the largest that so few servers can tell apart
            most = max(1, math.ceil(high))
            fits = most <= servers.count / 2 - 1
            more = {"max_load": float(most)} if fits else {}
            yield one("learning", "learning-threshold", level=level, **more)
        return
    served = servers.last_change if servers.discipline == "ps" else servers.at_once
    served = max(1, min(served, 1000))
    yield one("threshold at the workers", "threshold", level=served)
    yield one("jbt above the workers", "jbt", r=served + 1)


def _sparse(scenario: Scenario, limits: Limits, one: Any) -> Iterator[Candidate]:
    """JSQ on sparse feedback, at the update rate that spends the messages allowed."""
    assert limits.messages is not None
    budget = SPARED * limits.messages
    mode = "pull" if "messages" in limits.sees else "push"
    more = {} if mode == "pull" else {"mode": mode}
    per_server = tasks_per_server(scenario)
    servers = scenario.servers
    if limits.messages < 1 and mode == "pull":
        load = min(per_server, 0.999)
        p = budget / (1 - load + budget * load)  # messages are p (1 - load)/(1 - p load) per task
        yield one("sparsified jiq", "sparsified-jiq", p=round(min(p, 0.999), 6))
    single = servers.discipline == "fcfs" and servers.workers == 1 and servers.identical
    if single and 0 < per_server < 1 and servers.limit is None:
        from ...theory.sparse import recommend

        options = recommend(per_server, budget, mode=mode).options
        clocked = [option for option in options if option.policy in CLOCKED]
        least = min((option.mean_wait for option in clocked), default=0.0)
        for option in clocked:
            if option.mean_wait <= HOPELESS * least + 1e-9:
                idle = ("idle_only", "true") in option.parameters
                role = option.policy + " of idle servers" * idle
                yield Candidate(resolve(option.label), role)
        return
    delta = round(budget * per_server / (2 if more else 1), 6)
    if delta > 0:
        for name in ("sujsq-det", "aujsq-det"):
            yield one(name, name, delta=delta, **more)


def retuned(one: Candidate, measured: float, limits: Limits) -> Candidate | None:
    """Return the candidate with updates as much rarer as its messages were too many, or None."""
    params = one.spec.params
    key = "delta" if one.spec.policy.clock is not None else "p"
    if limits.messages is None or key not in params or measured <= 0:
        return None
    less = float(params[key]) * SPARED * limits.messages / measured
    return Candidate(spec(one.spec.policy, **{**params, key: round(less, 6)}), one.role)
