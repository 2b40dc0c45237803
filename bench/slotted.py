"""The slotted kernel, and mixed fleets, as ratios within one run: `python -m bench.slotted`.

1. slots per second at 10 to 10,000 servers, against the plain loop of tests/reference_slotted.py
   on the same system (jsq-d with d = 2; goal at 10,000 servers: 50 times as fast). Once with 0.9
   tasks a slot, so that nearly all work is in drawing what servers could do, and once at load
   0.9, half of the slots bringing tasks, all of them to one server;
2. events per second on 100,000 servers of two speeds, against as many equal ones under the same
   policy (goal: at least half).

CPU times, the median of several repetitions interleaved with what they are compared with. Nothing
here fails.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference_slotted as plain

REPETITIONS = 5
SERVERS = 100_000


def batch(servers: int, busy: bool) -> int:
    """Tasks that come in a slot, if any do: with probability 1/2, or 0.9 of one."""
    return round(2 * 0.9 * 0.6 * servers) if busy else 1


def slotted(servers: int, slots: int, busy: bool) -> Scenario:
    """Half of the servers twice as fast, Bernoulli services."""
    come = 0.5 if busy else 0.9
    return Scenario.from_dict(
        {
            "servers": {
                "discipline": "slotted",
                "groups": [
                    {"count": servers // 2, "speed": 0.4},
                    {"count": servers - servers // 2, "speed": 0.8},
                ],
            },
            "arrivals": {
                "law": "slots",
                "jobs": "table",
                "values": [0, batch(servers, busy)],
                "probabilities": [1 - come, come],
            },
            "service": {"law": "slots", "jobs": "bernoulli"},
            "run": {"duration": float(slots), "replications": 1, "start": start(servers, busy)},
        }
    )


def start(servers: int, busy: bool) -> list[int]:
    """Tasks at each server at first: as after some slots, so that as many are busy."""
    return [(7 * i) % 64 for i in range(servers)] if busy else [0] * servers


def kernel_rate(servers: int, slots: int, busy: bool) -> float:
    """Return slots per second of CPU time."""
    scenario, spec = slotted(servers, slots, busy), resolve("jsq-d")
    began = time.process_time()
    replicate(scenario, spec, 0, kernel="slotted")
    return slots / (time.process_time() - began)


def plain_rate(servers: int, slots: int, busy: bool, seed: int) -> float:
    """Return slots per second of CPU time of the plain loop."""
    half = servers // 2
    services = [plain.bernoulli(0.4)] * half + [plain.bernoulli(0.8)] * (servers - half)
    many, coin = batch(servers, busy), plain.bernoulli(0.5 if busy else 0.9)
    first = start(servers, busy)
    began = time.process_time()
    plain.simulate(services, lambda rng: many * coin(rng), plain.shortest_of(2), slots, seed, first)
    return slots / (time.process_time() - began)


def compare_slotted() -> None:
    """Print the first table."""
    print(
        f"{'servers':>9}{'tasks':>12}{'slots/s':>12}{'ns per server':>16}"
        f"{'plain loop':>13}{'times':>8}"
    )
    least = 1e9
    for servers in (10, 100, 1000, 10_000):
        for busy in (False, True):
            slots = 100_000_000 // servers
            few = max(20, 100_000 // servers)
            kernel_rate(servers, slots, busy)
            own, ratios = [], []
            for seed in range(REPETITIONS):
                own.append(kernel_rate(servers, slots, busy))
                ratios.append(own[-1] / plain_rate(servers, few, busy, seed))
            rate, ratio = median(own), median(ratios)
            print(
                f"{servers:>9,}{'load 0.9' if busy else '0.9 a slot':>12}{rate:>12,.0f}"
                f"{1e9 / rate / servers:>16.1f}{rate / ratio:>13,.0f}{ratio:>8.0f}",
                flush=True,
            )
            least = ratio if servers < 10_000 or not busy else min(least, ratio)
    print(f"goal, 50 times the plain loop at 10,000 servers: {'yes' if least >= 50 else 'MISSED'}")


def queues(mixed: bool, events: int) -> Scenario:
    """Load 0.9; half of the servers three times as fast as the other half, or all equal."""
    speeds = (1.5, 0.5) if mixed else (1.0, 1.0)
    groups = [{"count": SERVERS // 2, "speed": speed} for speed in speeds]
    servers = {"groups": groups} if mixed else {"count": SERVERS}
    return Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", **servers},
            "arrivals": {"law": "poisson", "load": 0.9},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"tasks": events // 2, "start": "balanced", "replications": 1},
        }
    )


def compare_mixed() -> None:
    """Print the second table."""
    print(f"{'kernel':<12}{'policy':<26}{'equal':>9}{'mixed':>9}{'ratio':>8}   million events/s")
    least = 1e9
    policies = ("jsq", "jsq-d", "jsq-d(sampling=speed)", "sed", "random(weighted=true)")
    for kernel in ("memoryless", "events"):
        for name in policies:
            spec, rates, ratios = resolve(name), [], []
            for repetition in range(REPETITIONS + 1):
                pair = []
                for mixed in (False, True):
                    scenario = queues(mixed, 3_000_000)
                    began = time.process_time()
                    record = replicate(scenario, spec, 0, kernel=kernel)
                    pair.append(record.events / (time.process_time() - began) / 1e6)
                if repetition:  # the first compiles
                    rates.append(pair)
                    ratios.append(pair[1] / pair[0])
            equal, mixed_rate = (median(column) for column in zip(*rates, strict=True))
            least = min(least, median(ratios))
            print(
                f"{kernel:<12}{spec.label:<26}{equal:>9.1f}{mixed_rate:>9.1f}"
                f"{median(ratios):>8.2f}",
                flush=True,
            )
    print(f"goal, at least half the speed on mixed servers: {'yes' if least >= 0.5 else 'MISSED'}")


def main() -> None:
    """Print both."""
    compare_slotted()
    print()
    compare_mixed()


if __name__ == "__main__":
    main()
