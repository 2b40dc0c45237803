"""The occupancy kernel against n: ns for an event, from 10^3 to 10^9 servers, and its leaps.

Each system starts in the rest point of its fluid limit, so that all n do the same work; CPU times,
the median of several repetitions, the sizes interleaved. An event is an arrival or a departure.
The memoryless kernel stands beside it as far as its memory goes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from equipoise.policies import PolicySpec, resolve
from equipoise.rng import make_rng
from equipoise.scenario import Scenario
from equipoise.scenario.servers import ALL_AT_ONCE
from equipoise.sim.leap import asked_each, make_leap, make_leaping
from equipoise.sim.occupancy import make_counted, make_occupancy
from equipoise.sim.run import ANY, replicate
from equipoise.sim.tally import tally_of
from equipoise.theory.limits import jsq_d

SIZES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9)
FOLLOWED = 10**6  # most servers that the memoryless kernel is given here
EVENTS, REPETITIONS, LEVELS = 4_000_000, 11, 300
GOAL = 1.1  # times the time at the smallest size
STEP, UNITS = 0.01, 5.0  # of a leap, and how long it goes on; mean service times


@dataclass(frozen=True)
class System:
    """A policy, its discipline and load, and where its fluid limit rests."""

    label: str
    queue: bool
    load: float
    tails: tuple[float, ...]  # shares of servers with at least 1, 2, .. tasks

    @property
    def spec(self) -> PolicySpec:
        return resolve(self.label)

    def counts(self, size: int) -> np.ndarray:
        """Return the servers with 0, 1, .. tasks, int64[levels]."""
        least = np.rint(size * np.array([1.0, *self.tails, 0.0])).astype(np.int64)
        return -np.diff(least)


def systems() -> Iterator[System]:
    """Queues at load 0.9, pools of 5.5 tasks: two levels share them under all but random."""
    yield System("jsq-d", True, 0.9, tuple(jsq_d.rest_point(0.9, 12)))
    yield System("jiq", True, 0.9, (0.9,))
    yield System("random", True, 0.9, tuple(0.9 ** np.arange(1, 200)))
    pools = (*[1.0] * 5, 0.5)
    for label in ("jsq", "threshold(level=5)", "learning-threshold"):
        yield System(label, False, 5.5, pools)


class Run:
    """The occupancy kernel on one system of one size, to be gone on with."""

    def __init__(self, system: System, size: int) -> None:
        self.system, self.size = system, size
        policy = system.spec.policy
        assert policy.ranked is not None
        self.state, first = policy.ranked.init(size, **system.spec.params)
        if policy.learns:
            self.state.known[0] = first = int(system.load)
        self.tally = tally_of(system.counts(size), LEVELS, first)
        self.world = make_counted(size, None, first, *(make_rng(i) for i in range(4)))
        self.workers = 1 if system.queue else ALL_AT_ONCE
        self.curve = np.minimum(np.arange(LEVELS), self.workers).astype(float)
        self.kernel = make_occupancy(policy, system.queue, False)
        self.go(0)

    def go(self, tasks: int) -> float:
        """Let so many more tasks come; return the ns of CPU time of an event."""
        number = self.tally.number
        before = int(number[3] + number[4])
        rate, began = self.system.load * self.size, time.process_time()
        most = int(number[3]) + tasks
        self.kernel(
            self.world, self.state, self.tally, self.curve, rate, self.workers, np.inf, most
        )
        spent = time.process_time() - began
        return spent * 1e9 / max(1, int(number[3] + number[4]) - before)


def followed(system: System, size: int) -> float:
    """Return the ns of an event in the memoryless kernel, set-up included, from the same start."""
    lengths = np.repeat(np.arange(len(system.tails) + 1), system.counts(size))
    scenario = Scenario.simple(
        servers=size,
        discipline="fcfs" if system.queue else "pool",
        load=system.load,
        start=lengths.tolist(),
        tasks=EVENTS // 2,
        replications=1,
    )
    label = system.label + "(level=5)" * (system.label == "learning-threshold")
    replicate(scenario.with_run(tasks=1000), resolve(label), 0, kernel="memoryless")  # compiles
    began = time.process_time()
    record = replicate(scenario, resolve(label), 0, kernel="memoryless")
    return (time.process_time() - began) * 1e9 / record.events


def compare_sizes() -> None:
    """Print ns for an event of every system at every size, and whether they stay the same."""
    print(f"{'ns an event':<34}" + "".join(f"{size:>8.0e}" for size in SIZES) + "    last / first")
    worst = 0.0
    for system in systems():
        runs = [Run(system, size) for size in SIZES]
        for run in runs:
            run.go(EVENTS // 8)
        times = [[run.go(EVENTS // 2) for run in runs] for _ in range(REPETITIONS)]
        middle = [median(column) for column in zip(*times, strict=True)]
        ratio = median(row[-1] / row[0] for row in times)
        worst = max(worst, ratio)
        name = f"{system.label}, {'queues' if system.queue else 'pools'}"
        print(
            f"{'occupancy  ' + name:<34}"
            + "".join(f"{ns:>8.1f}" for ns in middle)
            + f"{ratio:>16.2f}",
            flush=True,
        )
        beside = [followed(system, size) for size in SIZES if size <= FOLLOWED]
        print(f"{'memoryless':<34}" + "".join(f"{ns:>8.1f}" for ns in beside), flush=True)
    verdict = "reached" if worst <= GOAL else "MISSED"
    print(f"goal, {SIZES[-1]:,} servers at most {GOAL} times {SIZES[0]:,}: {verdict}")


def time_leaps() -> None:
    """Print what five mean service times of 10^9 servers cost in leaps."""
    system, size = next(systems()), SIZES[-1]
    ranked = system.spec.policy.ranked
    assert ranked is not None
    state, _ = ranked.init(size, **system.spec.params)
    kernel = make_leap(system.spec.policy, True, False)
    times = []
    for repetition in range(REPETITIONS + 1):  # the first compiles
        tally = tally_of(np.array([size]), LEVELS, 0)
        asked = asked_each(system.spec.policy, state, size)
        world = make_leaping(size, None, asked, LEVELS, make_rng(repetition))
        curve, rate = np.minimum(np.arange(LEVELS), 1.0), system.load * size
        began = time.process_time()
        kernel(world, state, tally, curve, rate, STEP, 1, np.inf, UNITS, ANY)
        times.append(time.process_time() - began)
    events = int(tally.number[3] + tally.number[4])
    print(
        f"leaps of {STEP} from empty: {UNITS:g} mean service times of {size:.0e} servers under "
        f"{system.label}, {events:.1e} events, in {median(times[1:]) * 1e3:.2f} ms"
    )


def main() -> None:
    """Print both."""
    compare_sizes()
    time_leaps()


if __name__ == "__main__":
    main()
