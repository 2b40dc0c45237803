"""A user's policy of ten lines against the built-in jsq-d, on the same queues."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from bench.timing import goal, run_kernel
from equipoise.policies import resolve
from equipoise.scenario import Scenario

NEIGHBOURS = """
from equipoise.policies import Policy, ask
from equipoise.rng import below

def choose(state, fleet, rng):
    left = below(rng, fleet.size)
    right = left + 1 if left + 1 < fleet.size else 0
    return left if ask(fleet, left) <= ask(fleet, right) else right

NEIGHBOURS = Policy("neighbours", choose=choose, probes=True)
"""


def compare_with_users_policy() -> None:
    """Print how fast ten lines of a user's are beside the built-in jsq-d."""
    scenario = Scenario.simple(
        servers=1000, discipline="fcfs", load=0.9, tasks=2_000_000, replications=1
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "neighbours.py")
        file.write_text(NEIGHBOURS)
        mine, built_in = resolve(f"{file}:NEIGHBOURS"), resolve("jsq-d")
        for policy in (mine, built_in):
            run_kernel(scenario, policy, "memoryless")
        ratios = [
            run_kernel(scenario, mine, "memoryless") / run_kernel(scenario, built_in, "memoryless")
            for _ in range(9)
        ]
    print(goal("the shorter of two neighbours, times jsq-d's speed", median(ratios), 0.8))
