"""Table: bytes per server and per task, as counted and as the process grows.

"arrays" adds up what a kernel keeps; a task's share is what a second load costs more. "resident"
is what the process holds after a run of a million servers beyond what it held before; it includes
what Python keeps of the scenario. Lists of tasks begin with room for twice the tasks of the start.
"""

from __future__ import annotations

from bench.timing import child, goal

PROGRAM = """
import gc, os, sys
import numpy as np
from bench.timing import scenario
from equipoise.policies import resolve
from equipoise.sim.run import DRIVERS

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

def arrays(value, seen):
    if isinstance(value, np.ndarray):
        base = value if value.base is None else value.base
        if id(base) in seen:
            return 0
        seen.add(id(base))
        return base.nbytes if isinstance(base, np.ndarray) else value.nbytes
    return sum(arrays(part, seen) for part in value) if isinstance(value, tuple) else 0

def make(servers, load):
    driver = DRIVERS[kernel](scenario(servers, discipline, load), resolve(policy), 0, 0)
    driver.compile()
    return driver

kernel, discipline, policy, n = *sys.argv[1:4], int(sys.argv[4])
loads = [float(load) for load in sys.argv[5:]]
make(400_000, loads[0]).run(np.inf, 20_000)  # the kernel of large fleets, all imported late

def counted(driver):
    seen = set()
    return sum(arrays(part, seen) for part in (driver.world, driver.tasks, driver.lengths)) / n

before = resident()
driver = make(n, loads[0])
driver.run(np.inf, 2 * n)
grown = (resident() - before) / n
kept = counted(driver)
del driver
more = counted(make(n, loads[1]))
print(kept, (more - kept) / (loads[1] - loads[0]), grown)
"""
SERVERS = 1_000_000
ROWS = (
    ("memoryless", "pool", "jsq", 5.5, 8.25),
    ("memoryless", "pool", "threshold(level=5)", 5.5, 8.25),
    ("memoryless", "fcfs", "jsq-d", 0.9, 0.95),
    ("events", "fcfs", "jsq-d", 0.9, 0.95),
    ("events", "pool", "jsq", 5.5, 8.25),
)
MOST = 40.0  # bytes a server, jsq pools at load 5.5, tasks included


def measure_memory() -> None:
    """Print the table and whether the goal is reached."""
    print(f"{'':52}{'arrays, bytes per':^18}{'resident':>12}")
    head = f"{'kernel':<11}{'policy':<22}{f'{SERVERS:,} servers':<19}"
    print(head + f"{'server':>9}{'task':>9}{'server':>12}")
    verdict = ""
    for kernel, discipline, policy, load, more in ROWS:
        loads = (str(load), str(more))
        said = child(PROGRAM, kernel, discipline, policy, str(SERVERS), *loads)
        counted, task, resident = map(float, said.split())
        what = f"{load:g} tasks each" if discipline == "pool" else f"load {load:g}"
        print(
            f"{kernel:<11}{policy:<22}{what:<19}{counted:>9.1f}"
            + (f"{task:>9.1f}" if discipline == "pool" else f"{'':>9}")
            + f"{resident:>12.1f}",
            flush=True,
        )
        if (kernel, policy) == ("memoryless", "jsq"):
            verdict = goal(
                "jsq pools, resident bytes a server, tasks included",
                resident, MOST, most=True, form=".1f",
            )  # fmt: skip
    print(verdict)
