"""Can this policy carry this load on this fleet? Theory's answer for a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..policies import PolicySpec
from ..policies.law import law_sets
from ..scenario import Scenario

if TYPE_CHECKING:
    from ..theory.stability import Stability


def stability_of(scenario: Scenario, spec: PolicySpec) -> Stability:
    """Return what is known of the load that a policy carries on a scenario's servers.

    Rates are tasks per second, of slotted servers tasks per slot; what is asked is the mean rate of
    the scenario, over its whole length where it changes.
    """
    from ..theory.stability import policy_stability

    servers = scenario.servers
    params = dict(spec.params)
    if "law" in params:
        params["law"] = law_sets(params["law"])
    mean = scenario.mean_service
    return policy_stability(
        spec.policy.name,
        servers.speed_of * servers.workers / mean,
        params,
        rate=scenario.offered_load()[0] * servers.capacity / mean,
        discipline="pool" if servers.discipline == "pool" else "fcfs",
        workers=servers.workers,
        limit=servers.limit,
    )


def unstable_reason(scenario: Scenario, spec: PolicySpec) -> str | None:
    """Return why a simulation would only measure its own length; None if that is not known.

    Asked where queues can grow and the traffic does not change: equal servers without a limit are
    refused by the scenario itself.
    """
    if scenario.servers.identical or not scenario.stationary:
        return None
    found = stability_of(scenario, spec)
    if found.stable is not False:
        return None
    unit = "slot" if scenario.servers.discipline == "slotted" else "s"
    return found.describe(unit)
