"""Table: events per second on sparse feedback against jsq at 100,000 queues.

Ten million tasks from a balanced start, delta = 0.1, so ten tasks come to a server between two of
its updates. Updates are few; what costs is the memory of the tasks that wait, which jsq has
none of: the more of them a scheme leaves waiting, the less of it stands in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench.timing import goal, interleaved, ratio, run_kernel
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate

SERVERS, TASKS, REPETITIONS = 100_000, 10_000_000, 3
POLICIES = ("jsq", "sujsq-det", "sujsq-exp", "aujsq-det", "aujsq-exp", "stale-jsq")


def work(load: float, tasks: int) -> Scenario:
    """Queues at this load."""
    return Scenario.simple(
        servers=SERVERS, discipline="fcfs", load=load, tasks=tasks, start="balanced", replications=1
    )


def main() -> None:
    """Print the table and whether the goal is reached."""
    print(f"{'load':>6}{'policy':>24}{'ns per event':>15}{'of jsq':>9}{'tasks a server':>17}")
    worst = {}
    for load in (0.7, 0.9):
        specs = [resolve(name if name == "jsq" else f"{name}(delta=0.1)") for name in POLICIES]
        present = [
            replicate(work(load, TASKS), spec, 0, kernel="memoryless").present / SERVERS
            for spec in specs
        ]

        def runs(spec: object, load: float = load) -> Callable[[], float]:
            return lambda: run_kernel(work(load, TASKS), spec, "memoryless")  # type: ignore[arg-type]

        rates = interleaved([runs(spec) for spec in specs], REPETITIONS)
        for spec, own, tasks in zip(specs, rates, present, strict=True):
            of_jsq = ratio(own, rates[0])
            if "ujsq" in spec.label:  # not stale-jsq, which is there for comparison
                worst[load] = min(worst.get(load, 9.0), of_jsq)
            print(
                f"{load:>6}{spec.label:>24}{1e9 / median(own):>15.1f}{of_jsq:>9.2f}{tasks:>17.2f}",
                flush=True,
            )
    for load, least in worst.items():
        print(goal(f"the slowest of the four, load {load}, of jsq's events/s", least, 0.5))


if __name__ == "__main__":
    main()
