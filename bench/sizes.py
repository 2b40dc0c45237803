"""Table: nanoseconds per event against the number of servers, from a hundred to a million.

Loops alone, after two tasks a server: a fleet is then as mixed as it will be. From 10^5 servers on
what counts is the memory, random cache lines an event, so the same loops in C stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench.reference import CannotCompile, library, run
from bench.timing import Loop, departures, goal, interleaved, scenario

SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
REPETITIONS = 3
TASKS = 500_000
# label, kernel, discipline, load, policy, departures through, goal for 10^6 against 10^3
ROWS = (
    ("queues, jsq-d", "memoryless", "fcfs", 0.9, "jsq-d", "list", 2.5),
    ("queues, jsq-d", "events", "fcfs", 0.9, "jsq-d", "list", None),
    ("pools, threshold(level=5)", "memoryless", "pool", 5.5, "threshold(level=5)", "list", 5.5),
    ("pools, jsq, list", "memoryless", "pool", 5.5, "jsq", "list", 5.5),
    ("pools, jsq, index", "memoryless", "pool", 5.5, "jsq", "index", 1.5),
    ("pools, jsq", "events", "pool", 5.5, "jsq", "list", None),
)
IN_C = (
    ("queues, jsq-d", "queues_exponential_full", 0.9),
    ("pools, jsq, list", "pools_packed_list_full", 5.5),
    ("pools, jsq, index", "pools_packed_index_full", 5.5),
)


def compare_sizes() -> None:
    """Print the table and whether goals are reached."""
    print(f"{'ns per event':<38}" + "".join(f"{n:>11,}" for n in SIZES) + f"{'growth':>9}")
    goals, grown = [], {}
    for label, kernel, discipline, load, policy, through, most in ROWS:

        def rate(
            n: int,
            kernel: str = kernel,
            work: tuple[str, float] = (discipline, load),
            policy: str = policy,
            through: str = through,
        ) -> Callable[[], float]:
            with departures(through):
                loop = Loop(scenario(n, *work), policy, kernel, 2 * n)
            return lambda: loop.rate(TASKS)

        growth = line(f"{kernel:<11}{label}", rate)
        if most is not None:
            goals.append((label, goal(label, growth, most, most=True)))
    try:
        library()
        for label, loop, load in IN_C:

            def in_c(n: int, loop: str = loop, load: float = load) -> Callable[[], float]:
                return lambda: run(loop, n, load, TASKS, 2 * n).rate

            grown[label] = line(f"{'C':<11}{label}", in_c)
    except CannotCompile as error:
        print(f"C left out: {error}")
    print("growth from 1,000 to 1,000,000 servers:")
    for label, one in goals:
        print(f"  {one}" + (f"; C {grown[label]:.2f}" if label in grown else ""))


def line(label: str, make: Callable[[int], Callable[[], float]]) -> float:
    """Print one row; return how many times slower a million servers are than a thousand."""
    times = []
    for n in SIZES:
        [rates] = interleaved([make(n)], REPETITIONS)
        times.append(1e9 / median(rates))
    growth = times[SIZES.index(1_000_000)] / times[SIZES.index(1000)]
    print(f"{label:<38}" + "".join(f"{t:>11.1f}" for t in times) + f"{growth:>9.2f}", flush=True)
    return growth
