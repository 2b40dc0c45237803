"""How fast it is, as ratios within one run: `make bench`, or `python -m bench`.

Seven tables, some minutes, the first time a minute longer for compiling:

1. events per second of the kernels, against the plain loop of tests/reference.py and against
   SimPy (simpy_models.py) doing the same work;
2. a user's policy of ten lines against the built-in jsq-d;
3. microseconds that a decision takes in the live core;
4. how soon a second process runs its first kernel, and what it had to compile;
5. what it costs if policies are called instead of inlined;
6. ns for an event of the occupancy kernel from 10^3 to 10^9 servers (occupancy.py);
7. replications on two cores against one (parallel.py).

An event is an arrival or a departure. Times are CPU times, each figure the median of several
repetitions, interleaved with those it is compared with, so that a busy machine slows both. A
kernel's time is that of a whole replication, its set-up included; that of the others is their
loop alone. Nothing here fails: a goal is reached or missed, and the exit code is 0.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numba
import numpy as np

from bench import occupancy
from bench.parallel import compare_parallel
from bench.simpy_models import (
    UNIT,
    Measured,
    Work,
    lognormal,
    plain_loop,
    with_callbacks,
    with_processes,
)
from equipoise.live.core import Core
from equipoise.policies import POLICIES, PolicySpec, resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate

REPETITIONS = 5
OTHERS = (plain_loop, with_callbacks, with_processes)  # in the order of the columns
TASKS = 20_000  # of a repetition in plain Python or SimPy
GOALS = {"with_callbacks": 50, "with_processes": 200}  # for fcfs, n = 1000, jsq-d
ALPHA = (("alpha", 10 / 11),)

NEIGHBOURS = """
from equipoise.policies import Policy, ask
from equipoise.rng import below

def choose(state, fleet, rng):
    left = below(rng, fleet.size)
    right = left + 1 if left + 1 < fleet.size else 0
    return left if ask(fleet, left) <= ask(fleet, right) else right

NEIGHBOURS = Policy("neighbours", choose=choose, probes=True)
"""


@dataclass(frozen=True)
class Row:
    """One work, and how many tasks of it a repetition of the kernel does."""

    kernel: str
    work: Work
    tasks: int
    law: str = "exponential"
    repetitions: int = REPETITIONS
    slow: int = REPETITIONS  # of the models in plain Python; SimPy alone may take 15 s to set up

    @property
    def policy(self) -> PolicySpec:
        """The policy as the package has it; its alpha is the default here."""
        params = {key: value for key, value in self.work.params if key != "alpha"}
        return resolve({"name": self.work.policy, **params})

    @property
    def label(self) -> str:
        """What the row is about: kernel, fleet, law, policy."""
        fleet = f"{self.work.servers:,} {'pools' if self.work.pools else 'queues'}"
        return f"{self.kernel:<11}{fleet:<15}{self.law:<13}{self.policy.label:<22}"

    def scenario(self) -> Scenario:
        """The same work for a kernel."""
        law = "lognormal(mean=1, scv=4)" if self.law == "lognormal" else self.law
        return Scenario.simple(
            servers=self.work.servers,
            discipline=self.work.discipline,
            load=self.work.load,
            service=law,
            start=self.work.start(),
            tasks=self.tasks,
            replications=1,
        )


def rows() -> Iterable[Row]:
    """The works of the first table: pools hold 5.5 tasks each, queues are busy 0.9 of the time."""
    level = {"pool": (("level", 5),), "fcfs": (("level", 1),)}
    some = ("jsq", "threshold", "learning-threshold")

    def work(policy: str, servers: int, discipline: str, law: str = "exponential") -> Work:
        params = {"threshold": level[discipline], "learning-threshold": ALPHA}.get(policy, ())
        load = 5.5 if discipline == "pool" else 0.9
        service = lognormal(1.0, 4.0) if law == "lognormal" else UNIT
        return Work(policy, servers, discipline, load, service, params)

    for policy in some:
        yield Row("memoryless", work(policy, 500, "pool"), 3_000_000)
    for policy in some:
        yield Row("memoryless", work(policy, 100_000, "pool"), 2_000_000, slow=1)
    for policy in ("jsq", "jsq-d", *some[1:]):
        more = {"repetitions": 9, "slow": 9} if policy == "jsq-d" else {}  # the one with goals
        yield Row("memoryless", work(policy, 1000, "fcfs"), 3_000_000, **more)
    yield Row("events", work("jsq-d", 1000, "fcfs", "lognormal"), 1_000_000, "lognormal")
    for policy in some[:2]:
        yield Row("events", work(policy, 500, "pool"), 1_000_000)


# -- 1. kernels -------------------------------------------------------------------------------


def run_kernel(scenario: Scenario, policy: PolicySpec, kernel: str) -> float:
    """Run one replication; return events per second of CPU time."""
    began = time.process_time()
    record = replicate(scenario, policy, 0, kernel=kernel)
    return record.events / (time.process_time() - began)


def compare_kernels() -> None:
    """Print the first table and whether its goals are reached."""
    print(f"{'':61}{'million':>9}{'ns per':>9}      times as fast as")
    print(
        f"{'kernel':<11}{'servers':<15}{'service':<13}{'policy':<22}{'events/s':>9}{'event':>9}"
        f"{'plain loop':>13}{'callbacks':>12}{'processes':>12}"
    )
    verdict = ""
    for one in rows():
        own, ratios = measure(one)
        print(
            f"{one.label}{own / 1e6:>9.1f}{1e9 / own:>9.0f}"
            + "".join(f"{ratios[m.__name__]:>{13 if m is plain_loop else 12},.0f}" for m in OTHERS),
            flush=True,
        )
        if one.kernel == "memoryless" and one.policy.label == "jsq-d(d=2)":
            verdict = "; ".join(
                f"{goal} times SimPy's {name.removeprefix('with_')}: {said(ratios[name] >= goal)}"
                for name, goal in GOALS.items()
            )
    print(f"goals, memoryless, 1,000 queues, jsq-d: {verdict}")


def measure(one: Row) -> tuple[float, dict[str, float]]:
    """Return events per second of the kernel, and the median of its ratio to each other model."""
    scenario = one.scenario()
    run_kernel(one.scenario(), one.policy, one.kernel)  # compiles, or finds it on disk
    own: list[float] = []
    ratios: dict[str, list[float]] = {model.__name__: [] for model in OTHERS}
    for repetition in range(one.repetitions):
        own.append(run_kernel(scenario, one.policy, one.kernel))
        if repetition < one.slow:
            for model in OTHERS:
                done: Measured = model(TASKS, one.work, seed=repetition)
                ratios[model.__name__].append(own[-1] / done.rate)
    return median(own), {name: median(values) for name, values in ratios.items()}


# -- 2. a user's policy -----------------------------------------------------------------------


def compare_with_users_policy() -> None:
    """Print how fast ten lines of a user's are beside the built-in jsq-d."""
    scenario = Scenario.simple(
        servers=1000, discipline="fcfs", load=0.9, tasks=3_000_000, replications=1
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "neighbours.py")
        file.write_text(NEIGHBOURS)
        mine, built_in = resolve(f"{file}:NEIGHBOURS"), resolve("jsq-d")
        for policy in (mine, built_in):
            run_kernel(scenario, policy, "memoryless")
        ratios = [
            run_kernel(scenario, mine, "memoryless") / run_kernel(scenario, built_in, "memoryless")
            for _ in range(9)
        ]
    ratio = median(ratios)
    print(f"a user's shorter of two neighbours: {ratio:.2f} times the speed of jsq-d(d=2)")
    print(f"goal, at least 0.8 times: {said(ratio >= 0.8)}")


# -- 3. decisions in the live core ------------------------------------------------------------


def time_decisions() -> None:
    """Print what a decision takes, for every policy."""
    print(f"{'us of CPU time':<33}{'100 servers':>16}{'10,000 servers':>26}")
    print(f"{'policy':<27}" + 2 * f"{'choose':>11}{'and finish':>14}")
    slowest, steepest = 0.0, 0.0
    for spec in live_policies():
        costs = [decision(spec, servers) for servers in (100, 10_000)]
        print(f"{spec.label:<27}" + "".join(f"{c:>11.2f}{b:>14.2f}" for c, b in costs), flush=True)
        slowest = max(slowest, costs[0][1])
        if not spec.policy.probes:
            steepest = max(steepest, costs[1][1] / costs[0][1])
    print(f"goal, at most 2.5 us to choose and finish at 100 servers: {said(slowest <= 2.5)}")
    # 10,000 slots are Python objects, which miss the processor's cache whatever the policy
    print(f"goal, 10,000 servers at most twice that, but for policies that probe: {steepest:.2f} "
          f"times, {said(steepest <= 2.0)}")  # fmt: skip


def live_policies() -> list[PolicySpec]:
    """Every policy that a live dispatcher can run; those that must be given something are."""
    given = {"threshold": {"level": 1}, "sampled": {"law": "0+1:0.7, 2:0.3"}}
    return [
        resolve({"name": name, **given.get(name, {})})
        for name, policy in POLICIES.items()
        if "sizes" not in policy.needs
    ]


def decision(spec: PolicySpec, servers: int) -> tuple[float, float]:
    """Return us to choose, and to choose and later release; one task a server is out, or more.

    In batches of a quarter of the fleet, so that the load stays about one task a server.
    """
    core, rng = Core(spec, (str(i) for i in range(servers))), random.Random(1)
    slots = [core.choose() for _ in range(servers)]
    batch, chosen, released = servers // 4, [], []
    for _ in range(max(11, 20_000 // batch)):
        began = time.process_time()
        slots += [core.choose() for _ in range(batch)]
        halfway = time.process_time()
        chosen.append(halfway - began)
        rng.shuffle(slots)
        leaving = [slots.pop() for _ in range(batch)]
        began = time.process_time()
        for slot in leaving:
            core.finished(slot)
        released.append(time.process_time() - began)
    choose = median(chosen) / batch * 1e6
    return choose, choose + median(released) / batch * 1e6


# -- 4. a second process ----------------------------------------------------------------------

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


def time_second_process() -> None:
    """Print how soon a comparison of eight policies begins in a new process, once and again.

    A kernel may be found twice, by two threads at once.
    """
    for which in ("first", "second"):
        first, cpu, whole, hits, misses = map(float, child(EIGHT, str(time.time())).split())
        print(
            f"{which + ' process:':<16} kernels found {hits:.0f} times, compiled {misses:.0f} "
            f"times; begun after {first:.2f} s ({cpu:.2f} s of CPU time), done after {whole:.1f} s"
        )
    print(f"goals, nothing compiled: {said(misses == 0)}; begun within 1 s: {said(first <= 1)}")


# -- 5. inlining ------------------------------------------------------------------------------

INLINED = """
import sys, time
import equipoise.compile as compiling
if sys.argv[1] == "called":
    njit = compiling.njit
    compiling.njit = lambda **options: njit(**options | {"forceinline": False})
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate
scenario = Scenario.simple(
    servers=500, discipline="pool", load=5.5, tasks=1_000_000, start="balanced", replications=1
)
rates = []
for _ in range(6):
    began = time.process_time()
    record = replicate(scenario, resolve("jsq"), 0, kernel="memoryless")
    rates.append(record.events / (time.process_time() - began))
print(sorted(rates[1:])[2])
"""


def compare_inlining() -> None:
    """Print what it costs not to force policies and indices into the kernel's loop.

    The cache does not know of the difference: each form has a folder of its own.
    """
    rates = {}
    for form in ("inlined", "called"):
        with tempfile.TemporaryDirectory() as folder:
            rates[form] = float(child(INLINED, form, EQUIPOISE_CACHE=folder))
    ratio = rates["inlined"] / rates["called"]
    print(f"jsq on 500 pools: policies forced inline are {ratio:.1f} times as fast as called ones")


def child(program: str, *arguments: str, **environment: str) -> str:
    """Run a program in a Python of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def said(good: bool) -> str:
    """Say whether a goal is reached."""
    return "reached" if good else "MISSED"


SECTIONS: dict[str, Callable[[], None]] = {
    "Kernels": compare_kernels,
    "A user's policy": compare_with_users_policy,
    "Decisions in the live core": time_decisions,
    "A second process": time_second_process,
    "Inlining": compare_inlining,
    "Occupancy": occupancy.compare,
    "Parallel": compare_parallel,
}


def main() -> None:
    """Run every section, or those whose names begin with an argument."""
    began = time.perf_counter()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}; "
        f"{os.cpu_count()} cores{load}"
    )
    wanted = sys.argv[1:]
    for name, section in SECTIONS.items():
        if not wanted or any(name.lower().startswith(word.lower()) for word in wanted):
            print(f"\n{name}\n")
            section()
    print(f"\n{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
