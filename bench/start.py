"""How soon a process runs its first kernel: with nothing on disk, then warm.

"first event" is when the first task of a jsq run has been dispatched, counted from when the process
was started, imports included; "a further policy" is what each of seven more takes from its name to
its first task. Then the same for a whole comparison, `equipoise.compare` of eight policies.
The package has its bytecode on disk, as one has that was installed: where Python is told to write
none, reading our own sources would be a sixth of a warm start.
"""

from __future__ import annotations

import compileall
import tempfile
import time
from pathlib import Path
from statistics import median

import equipoise
from bench.timing import child, goal, said

FIRST = """
import sys, time
began = float(sys.argv[1])
import numpy as np
from equipoise.compile import counters
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import DRIVERS

scenario = Scenario.simple(servers=100, load=0.9, tasks=10, replications=1)
took, used = [], []
for policy in ("jsq", "random", "round-robin", "jsq-d", "jiq", "jbt", "threshold(level=1)",
               "learning-threshold"):
    before = time.process_time()
    DRIVERS["memoryless"](scenario, resolve(policy), 0, 0).run(np.inf, 1)
    took.append(time.time() - began)
    used.append(time.process_time() - before)
print(took[0], time.process_time() - sum(used[1:]), sum(used[1:]) / 7, counters.misses,
      "scipy.linalg" in sys.modules)
"""

# what nobody's code can take away from a start: the libraries, and numba's first look at one kernel
LIBRARIES = """
import time
import click, numba, numpy as np, pydantic
imported = time.process_time()
made = numba.njit("f8(f8)")(lambda x: x + 1.0)
print(imported, time.process_time() - imported)
"""

EIGHT = """
import sys, time
began = float(sys.argv[1])
import equipoise as eq
first = []
eq.compare(
    eq.Scenario.simple(servers=100, load=0.9, tasks=20_000, replications=2),
    ["random", "round-robin", "jsq", "jsq-d", "jiq", "jbt", "threshold(level=1)",
     "learning-threshold"],
    progress=lambda done, what: first or first.extend((time.time() - began, time.process_time())),
)
from equipoise.compile import counters
print(*first[:2], time.time() - began, counters.hits, counters.misses)
"""


SET_ON = 0.20  # s, what the imports take on the machine that the goals come from


def time_start() -> None:
    """Print how soon a process begins, and what it had to compile."""
    compileall.compile_dir(Path(equipoise.__file__).parent, quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        cold = first_event(folder)
        warm = [first_event(folder) for _ in range(5)]
        shown("nothing on disk", cold)
        seconds, cpu, further, misses, scipy = (
            median(column) for column in zip(*warm, strict=True)
        )
        shown("warm", (seconds, cpu, further, misses, scipy))
        libraries, one = (
            median(column)
            for column in zip(
                *(map(float, child(LIBRARIES).split()) for _ in range(5)), strict=True
            )
        )
        print(
            f"of that imports of numpy, numba, pydantic and click take {libraries:.2f} s of CPU "
            f"time ({SET_ON} s where the goal was set); to compile x + 1 takes numba {one:.2f} s"
        )
        print(goal("s of CPU time to the first event, warm", cpu, 0.5, most=True))
        print(goal("times these imports", cpu / libraries, 0.5 / SET_ON, most=True))
        print(goal("ms for a further policy", further * 1e3, 20, most=True, form=".1f"))
        print(goal("s of CPU time to the first event, cold", cold[1], 3, most=True))
        print(goal("times these imports", cold[1] / libraries, 3 / SET_ON, most=True))
        print(
            f"nothing compiled: {said(misses == 0)}; scipy.linalg not imported: {said(not scipy)}"
        )
        for which in ("first", "second"):
            answer = child(EIGHT, str(time.time()), EQUIPOISE_CACHE=folder)
            first, cpu, whole, hits, misses = map(float, answer.split())
            print(
                f"compare, {which} process: kernels found {hits:.0f} times, compiled {misses:.0f} "
                f"times; begun after {first:.2f} s ({cpu:.2f} s of CPU time), done after "
                f"{whole:.1f} s"
            )


def first_event(folder: str) -> tuple[float, ...]:
    """Return seconds to the first event, of these CPU time, the same for a further policy, how
    much was compiled, whether scipy was imported."""
    *numbers, scipy = child(FIRST, str(time.time()), EQUIPOISE_CACHE=folder).split()
    return (*map(float, numbers), float(scipy == "True"))


def shown(which: str, row: tuple[float, ...]) -> None:
    """Print one process."""
    print(
        f"{which:<16} first event after {row[0]:.2f} s ({row[1]:.2f} s of CPU time), a further "
        f"policy {row[2] * 1e3:.1f} ms, compiled {row[3]:.0f}"
    )
