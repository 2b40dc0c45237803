"""Replications on two cores against one: `python -m bench.parallel`.

Two replications at once on two threads, and in two processes that were started and have compiled
before, against two one after the other, all in one run and in turns, so that a busy machine slows
all of them. The speed-up is the ratio of wall times, each the least of several: whatever else the
machine does can only add to them. Without two idle cores the figures say nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

import joblib

from equipoise.policies import resolve
from equipoise.report.parallel import Meter, Workers, available_cores, run_jobs
from equipoise.scenario import Scenario

REPETITIONS = 9
GOAL = 1.8
WORK = [
    ("fcfs", 100, 0.9, "jsq-d", 1_000_000),
    ("fcfs", 10_000, 0.9, "jsq-d", 1_000_000),
    ("pool", 500, 5.5, "jsq", 1_000_000),
    ("pool", 10_000, 5.5, "jsq", 1_000_000),
    ("pool", 1_000_000, 5.5, "jsq", 12_000_000),
    ("fcfs", 100, 0.9, "jsq-d", 100_000),
]


def seconds(scenario: Scenario, policy: str, backend: str, workers: int) -> float:
    """Run two replications; return the wall time."""
    named = backend != "threads"
    context = joblib.parallel_config(backend=backend, n_jobs=workers) if named else nullcontext()
    with context:
        began = time.perf_counter()
        _, interrupted = run_jobs(
            scenario,
            [resolve(policy)],
            [(0, 0), (0, 1)],
            kernel="memoryless",
            workers=Workers.asked(workers),
            meter=Meter(),
        )
    if interrupted:
        raise KeyboardInterrupt
    return time.perf_counter() - began


SPIN = """
import sys, time
while time.time() < float(sys.argv[1]):
    pass
began = time.perf_counter()
total = 0
for i in range(20_000_000):
    total += i
print(time.perf_counter() - began)
"""


def spin(processes: int) -> float:
    """Run a loop that touches no memory in so many processes at once; return the mean wall time."""
    start = str(time.time() + 0.5)
    running = [
        subprocess.Popen([sys.executable, "-c", SPIN, start], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    return sum(float(child.communicate()[0]) for child in running) / processes


def machine() -> float:
    """Return what two cores do of what one does, for work that shares nothing: 2 at best."""
    pairs = [(spin(1), spin(2)) for _ in range(REPETITIONS)]
    return 2 * min(one for one, _ in pairs) / min(two for _, two in pairs)


def main() -> None:
    """Print the speed-ups of two workers."""
    cores = available_cores()
    if cores < 2:
        print(f"{cores} core: nothing to compare")
        return
    most = machine()
    print(f"two plain loops that share nothing, at once: {most:.2f} times one, of 2")
    print("two replications, speed-up by two workers   threads   processes   goal")
    for discipline, n, load, policy, tasks in WORK:
        scenario = Scenario.simple(servers=n, discipline=discipline, load=load, tasks=tasks)
        forms: dict[str, Callable[[], float]] = {
            "one": lambda s=scenario, p=policy: seconds(s, p, "threads", 1),
            "threads": lambda s=scenario, p=policy: seconds(s, p, "threads", 2),
            "processes": lambda s=scenario, p=policy: seconds(s, p, "loky", 2),
        }
        least = dict.fromkeys(forms, float("inf"))
        for repetition in range((REPETITIONS if n < 1_000_000 else 3) + 1):
            for form, measure in forms.items():
                took = measure()
                if repetition:  # the first compiles, or starts the processes
                    least[form] = min(least[form], took)
        gains = {form: least["one"] / took for form, took in least.items()}
        said = "none"
        if n <= 10_000 and tasks >= 1_000_000:
            said = f"{GOAL} {'reached' if gains['threads'] >= GOAL else 'MISSED'}"
            said += f", of this machine's {most:.2f}: {gains['threads'] / most:.2f}"
        what = f"{policy}, {n} {discipline}, {tasks / 1e6:g} million tasks"
        print(f"{what:<42} {gains['threads']:8.2f} {gains['processes']:11.2f}   {said}")


if __name__ == "__main__":
    main()
