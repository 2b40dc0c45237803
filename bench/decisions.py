"""Table: microseconds that a decision takes in the dispatcher's core, for every policy."""

from __future__ import annotations

import random
import time
from statistics import median

from bench.timing import goal
from equipoise.live.core import Core
from equipoise.policies import POLICIES, PolicySpec, resolve


def time_decisions() -> None:
    """Print what a decision takes, for every policy."""
    print(f"{'us of CPU time':<33}{'100 servers':>16}{'10,000 servers':>26}")
    print(f"{'policy':<27}" + 2 * f"{'choose':>11}{'and finish':>14}")
    slowest, steepest = 0.0, 0.0
    for spec in live_policies():
        costs = [decision(spec, servers) for servers in (100, 10_000)]
        print(f"{spec.label:<27}" + "".join(f"{c:>11.2f}{b:>14.2f}" for c, b in costs), flush=True)
        slowest = max(slowest, costs[0][1])
        if not spec.policy.probes:
            steepest = max(steepest, costs[1][1] / costs[0][1])
    print(goal("us to choose and finish at 100 servers", slowest, 2.5, most=True))
    # 10,000 slots are Python objects, which miss the processor's cache whatever the policy
    what = "10,000 servers against 100, but for policies that probe"
    print(goal(what, steepest, 2.0, most=True))


def live_policies() -> list[PolicySpec]:
    """Every policy that a live dispatcher can run; those that must be given something are."""
    given = {"threshold": {"level": 1}, "sampled": {"law": "0+1:0.7, 2:0.3"}}
    return [
        resolve({"name": name, **given.get(name, {})})
        for name, policy in POLICIES.items()
        if "sizes" not in policy.needs
    ]


def decision(spec: PolicySpec, servers: int) -> tuple[float, float]:
    """Return us to choose, and to choose and later release; one task a server is out, or more.

    In batches of a quarter of the fleet, so that the load stays about one task a server.
    """
    core, rng = Core(spec, (str(i) for i in range(servers))), random.Random(1)
    slots = [core.choose() for _ in range(servers)]
    batch, chosen, released = servers // 4, [], []
    for _ in range(max(11, 20_000 // batch)):
        began = time.process_time()
        slots += [core.choose() for _ in range(batch)]
        halfway = time.process_time()
        chosen.append(halfway - began)
        rng.shuffle(slots)
        leaving = [slots.pop() for _ in range(batch)]
        began = time.process_time()
        for slot in leaving:
            core.finished(slot)
        released.append(time.process_time() - began)
    choose = median(chosen) / batch * 1e6
    return choose, choose + median(released) / batch * 1e6
