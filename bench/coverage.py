"""How often intervals hold the truth: `python -m bench.coverage`, some ten minutes on two cores.

Many studies of a system whose mean wait is known, each with its interval; what is counted is how
many of the intervals hold the mean. Prints the table of docs/design/statistics.md as Markdown. The
kernel is driven directly, without the 500 stretches into which the package cuts every run for its
warm-up rule and its pictures and which would take longer than these short runs themselves; the
first twentieth of a run that starts empty is left out instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim import tally as t
from equipoise.sim.memoryless import MemorylessDriver
from equipoise.stats import Estimate, batch_means, next_round, relative_error, t_interval
from equipoise.stats.precision import LEAST

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import exact

SKIPPED = 20  # one part in so many of a run is its warm-up
ROWS = 50  # into which the package cuts a long run before it makes batches of them
MOST = 512  # replications, of a study by precision
ROOM = 1000  # numbers of replications that a study has for itself


@dataclass(frozen=True)
class System:
    """Servers whose mean wait is known."""

    name: str
    servers: int
    load: float
    policy: str

    @property
    def truth(self) -> float:
        """The mean wait, from a closed form or from the exact chain, in mean service times."""
        if self.servers == 1:
            return exact.mmc_wait(1, self.load)
        return exact_wait(self.policy, self.servers, self.load)


@cache
def exact_wait(policy: str, servers: int, load: float) -> float:
    """Return the mean wait of a few servers, from the chain of all their lengths."""
    return exact.chain(policy, servers, servers * load, cap=100).mean_wait


@cache
def scenario_of(system: System) -> Scenario:
    """Return the scenario, made once: checking it takes as long as a short run."""
    return Scenario.simple(servers=system.servers, load=system.load, seed=1)


MM1 = System("M/M/1", 1, 0.8, "random")
JSQ2 = System("jsq, 2 servers", 2, 0.8, "jsq")


def waits(system: System, replication: int, tasks: int, rows: int = 1) -> np.ndarray:
    """Run one replication; return the waits added up and their number, float64[2, rows].

    The warm-up is left out of them, and of the `tasks` it is the first twentieth.
    """
    driver = MemorylessDriver(scenario_of(system), resolve(system.policy), replication, 0)
    skipped = tasks // SKIPPED
    driver.run(np.inf, skipped)
    found = np.zeros((2, rows))
    for row in range(rows):
        driver.tally.sums[:] = 0
        driver.tally.waits[:] = 0
        driver.run(np.inf, skipped + (tasks - skipped) * (row + 1) // rows)
        found[:, row] = driver.tally.sums[t.WAITS] * driver.unit, driver.tally.waits.sum()
    return found


def mean_wait(system: System, replication: int, tasks: int) -> float:
    """Run one replication; return its mean wait."""
    total, count = waits(system, replication, tasks)[:, 0]
    return float(total / count)


def by_replications(system: System, study: int, tasks: int, replications: int) -> Estimate:
    """Estimate the mean wait as `run.replications` does."""
    numbers = range(study * ROOM, study * ROOM + replications)
    return t_interval([mean_wait(system, r, tasks) for r in numbers])


def by_batches(system: System, study: int, tasks: int) -> Estimate:
    """Estimate the mean wait from one run, as the package does without replications."""
    return batch_means(*waits(system, study * ROOM, tasks, ROWS))


def by_precision(system: System, study: int, tasks: int, precision: float) -> Estimate:
    """Estimate the mean wait as `run.precision` does with a length that is given."""
    means: list[float] = []
    count = LEAST
    while True:
        have = len(means)
        means += [mean_wait(system, study * ROOM + r, tasks) for r in range(have, count)]
        estimate = t_interval(means)
        more = next_round(relative_error(estimate), precision, count, MOST)
        if more == count:
            return estimate
        count = more


def coverage(
    estimate: Callable[[int], Estimate], truth: float, studies: int, workers: int = 1
) -> tuple[float, float, float]:
    """Return the fraction of studies that hold the truth, the mean relative error, the mean bias.

    `estimate(k)` makes study k; error and bias are fractions of the truth.
    """

    def all_of(numbers: Iterable[int]) -> np.ndarray:
        found = [estimate(k) for k in numbers]
        return np.array([(e.value, e.error) for e in found])

    with ThreadPoolExecutor(workers) as pool:
        values, errors = np.concatenate(
            list(pool.map(all_of, np.array_split(np.arange(studies), workers)))
        ).T
    held = float(np.mean(np.abs(values - truth) <= errors))
    return held, float(errors.mean() / truth), float(values.mean() / truth - 1)


STUDIES = 2000
REPLICATED = (100, 500, 2_000, 5_000, 20_000)  # tasks in each of 8 and of 16 replications
BATCHED = (2_000, 8_000, 20_000, 80_000, 320_000)  # tasks in one run
PRECISIONS = (0.2, 0.1, 0.05, 0.02)
EACH = 20_000  # tasks in a replication of a study by precision


def rows(system: System) -> Iterable[tuple[str, Callable[[int], Estimate]]]:
    """Yield what is done and how, a row of the table each."""
    for count in (8, 16):
        for tasks in REPLICATED:
            yield (
                f"{count} replications of {tasks}",
                lambda k, n=tasks, r=count: by_replications(system, k, n, r),
            )
    for tasks in BATCHED:
        yield f"one run of {tasks}, in 20 batches", lambda k, n=tasks: by_batches(system, k, n)
    for precision in PRECISIONS:
        yield (
            f"precision = {precision:g}, replications of {EACH}",
            lambda k, p=precision: by_precision(system, k, EACH, p),
        )


def main() -> None:
    """Print the table."""
    systems = (MM1, JSQ2)
    print("| tasks | " + " | ".join(f"{s.name}: covered | error | bias" for s in systems) + " |")
    print("|---|" + "--:|--:|--:|" * len(systems))
    for (what, first), (_, second) in zip(rows(MM1), rows(JSQ2), strict=True):
        cells = []
        for system, estimate in zip(systems, (first, second), strict=True):
            held, error, bias = coverage(estimate, system.truth, STUDIES, workers=2)
            cells += [f"{100 * held:.1f} %", f"{100 * error:.1f} %", f"{100 * bias:+.1f} %"]
        print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
