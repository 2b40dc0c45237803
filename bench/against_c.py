"""Table: the kernels against the loops of reference.c, and those against SimPy.

W1  500 pools, jsq, 5.5 tasks each                      memoryless
W2  1000 queues at load 0.9, jsq-d with d = 2            memoryless
W3  W2 with lognormal service, scv 4                    events; a binary heap in C
W4  W1 with a million pools                             memoryless; who departs is drawn from the
                                                        list of tasks, or through the index

"same sums" is C that keeps what the kernels keep of a run (occupancy, imbalance, histograms of
waits and responses); "bare" keeps occupancy, mean wait and response. Goals are for the same sums:
the same work. Loops alone, without set-up, both after two tasks a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.reference import CannotCompile, checks, library, run
from bench.simpy_models import Work, with_callbacks
from bench.timing import Loop, departures, interleaved, ratio, said, scenario

REPETITIONS = 9
SIMPY_TASKS = 20_000
LEAST = {"W1": 55, "W2": 80}  # times SimPy's callbacks that C must reach to be the reference


@dataclass(frozen=True)
class Pair:
    """A work for a kernel, the loop in C that does the same, and the goal."""

    name: str
    what: str
    servers: int
    discipline: str
    load: float
    policy: str
    kernel: str
    loop: str
    most: float  # times C's time
    law: str = "exponential"
    through: str = "list"
    tasks: int = 1_000_000

    @property
    def scv(self) -> float:
        """Of the service."""
        return 4.0 if self.law == "lognormal" else 0.0

    def kernel_loop(self) -> Loop:
        """Set the kernel up."""
        with departures(self.through):
            work = scenario(self.servers, self.discipline, self.load, self.law)
            return Loop(work, self.policy, self.kernel, 2 * self.servers)

    def c_rate(self, full: bool) -> float:
        """Run the loop in C; return events per second."""
        loop = self.loop + ("_full" if full else "")
        before = 2 * self.servers
        return run(loop, self.servers, self.load, self.tasks, before, self.scv).rate


PAIRS = (
    Pair("W1", "500 pools, jsq", 500, "pool", 5.5, "jsq", "memoryless", "pools_packed_list", 1.25),
    Pair(
        "W2", "1000 queues, jsq-d", 1000, "fcfs", 0.9, "jsq-d", "memoryless",
        "queues_exponential", 1.25,
    ),
    Pair(
        "W3", "the same, lognormal", 1000, "fcfs", 0.9, "jsq-d", "events", "queues_lognormal",
        1.25, "lognormal", tasks=500_000,
    ),
    Pair(
        "W4", "10^6 pools, list; separate", 10**6, "pool", 5.5, "jsq", "memoryless",
        "pools_separate_list", 1.8,
    ),
    Pair(
        "W4", "10^6 pools, index; packed", 10**6, "pool", 5.5, "jsq", "memoryless",
        "pools_packed_index", 1.3, through="index",
    ),
)  # fmt: skip


def compare_with_c() -> None:
    """Print the table, whether C does the right work, and whether goals are reached."""
    try:
        library()
    except CannotCompile as error:
        print(f"skipped: {error}")
        return
    found = list(checks())
    wrong = [str(check) for check in found if not check.good]
    print(f"C against theory, {len(found)} figures: " + ", ".join(map(str, found[:3])) + ", ...")
    print("C does other work: " + ", ".join(wrong) if wrong else "all within four standard errors")
    print(f"\n{'':32}{'million events/s':>30}{'times the time of C':>24}")
    head = f"{'':4}{'work; layout':<28}{'kernel':>10}{'same sums':>10}{'bare':>10}"
    print(head + f"{'same sums':>14}{'bare':>10}{'goal':>8}")
    for pair in PAIRS:
        compare(pair)
    check_against_simpy()


def compare(pair: Pair) -> None:
    """Print the line of one work."""
    loop = pair.kernel_loop()

    def kernel_rate() -> float:
        if pair.servers < 10**5:
            return loop.rate(pair.tasks)
        # as fresh as C is: the longer it runs, the less is in order
        return pair.kernel_loop().rate(pair.tasks)

    repetitions = REPETITIONS if pair.servers < 10**5 else 5
    kernel, full, bare = interleaved(
        [kernel_rate, lambda: pair.c_rate(True), lambda: pair.c_rate(False)], repetitions
    )
    times = ratio(full, kernel)
    print(
        f"{pair.name:<4}{pair.what:<28}{median(kernel) / 1e6:>10.1f}{median(full) / 1e6:>10.1f}"
        f"{median(bare) / 1e6:>10.1f}{times:>14.2f}{ratio(bare, kernel):>10.2f}{pair.most:>8.2f} "
        f"{said(times <= pair.most)}",
        flush=True,
    )


def check_against_simpy() -> None:
    """Print whether C is fast enough to be called the reference."""
    for pair in PAIRS[:2]:
        work = Work(pair.policy, pair.servers, pair.discipline, pair.load)
        models = (partial(with_callbacks, SIMPY_TASKS, work), partial(pair.c_rate, False))
        simpy, bare = interleaved([lambda m=models[0]: m().rate, models[1]], 5)
        times, least = ratio(bare, simpy), LEAST[pair.name]
        verdict = "" if times >= least else "; it is NOT the reference"
        print(
            f"{pair.name}: bare C does {times:.0f} times SimPy's callbacks "
            f"(at least {least}{verdict})"
        )
