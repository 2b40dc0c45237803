"""What a decision of the live core costs, for every policy that can stand before traffic.

`python -m bench.live_core` prints, for each policy and number of servers, the median time of a task
in microseconds, `choose` and `finished` together, called from Python, with the fleet half busy
(three tasks a server for policies that tell servers apart by length). Goals: at most 2.5 us at a
hundred servers, and flat to 10,000 but for policies that probe. Nothing fails; goals are reached or
missed.
"""

from __future__ import annotations

import gc
import time
from statistics import median

import numpy as np

from equipoise.live.core import Core
from equipoise.policies import POLICIES

GOAL = 2.5  # us
FLAT = 2.0  # times the cost at the fewest servers; slots of 30,000 tasks miss the cache in Python
SERVERS = (100, 1_000, 10_000)
TASKS = 20_000
REPETITIONS = 7
PARAMS: dict[str, dict[str, object]] = {"threshold": {"level": 4}}


def written(name: str, servers: int) -> dict[str, object]:
    """Return the table of a policy for so many servers."""
    if name == "sampled":  # neighbours in a ring, as many sets as servers
        sets = {f"{i}+{(i + 1) % servers}": 1 / servers for i in range(servers)}
        return {"name": name, "law": ", ".join(f"{k}:{v!r}" for k, v in sets.items())}
    return {"name": name, **PARAMS.get(name, {})}


def cost(name: str, servers: int) -> float:
    """Return the time of one task, us: the median of repetitions."""
    core = Core(written(name, servers), map(str, range(servers)))
    present = [core.choose() for _ in range(3 * servers)]
    picks = np.random.default_rng(1).integers(0, len(present), TASKS).tolist()
    choose, finished = core.choose, core.finished
    times = []
    gc.disable()
    for _ in range(REPETITIONS + 1):
        began = time.process_time()
        for i in picks:
            finished(present[i])
            present[i] = choose()
        times.append((time.process_time() - began) / TASKS * 1e6)
    gc.enable()
    return median(times[1:])


def main() -> None:
    """Print the table."""
    print(f"{'us per task, choose and finished':34}" + "".join(f"{n:>10,}" for n in SERVERS))
    slow, bent = [], []
    for name, policy in POLICIES.items():
        if "sizes" in policy.needs:
            continue
        costs = [cost(name, n) for n in SERVERS]
        print(f"{name:34}" + "".join(f"{c:>10.2f}" for c in costs), flush=True)
        if costs[0] > GOAL:
            slow.append(name)
        if not policy.probes and costs[-1] > FLAT * costs[0]:
            bent.append(name)
    print(
        f"goal, {GOAL} us at {SERVERS[0]}: {'MISSED by ' + ', '.join(slow) if slow else 'reached'}"
    )
    print(f"goal, flat to {SERVERS[-1]:,} but for policies that probe: "
          f"{'MISSED by ' + ', '.join(bent) if bent else 'reached'}")  # fmt: skip


if __name__ == "__main__":
    main()
