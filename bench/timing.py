"""What every table needs: one processor, CPU time, a kernel's loop without its set-up, children."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import numpy as np

from equipoise.policies import PolicySpec, resolve
from equipoise.scenario import Scenario
from equipoise.sim import memoryless, tally
from equipoise.sim.run import DRIVERS, replicate


def pin() -> int | None:
    """Stay on one processor from now on, children too; return which, None where none can be had."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    last = max(os.sched_getaffinity(0))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {last})
        return last
    return None


class Loop:
    """A kernel that has been set up and warmed up: its loop alone can be timed, again and again."""

    def __init__(self, scenario: Scenario, policy: str, kernel: str, before: int) -> None:
        self.driver = DRIVERS[kernel](scenario, resolve(policy), 0, 0)
        self.driver.compile()
        self.rate(before)

    def rate(self, tasks: int) -> float:
        """Let so many more tasks arrive; return events per second of CPU time."""
        driver, number = self.driver, self.driver.tally.number
        events = number[tally.ARRIVED] + number[tally.FINISHED]
        began = time.process_time()
        driver.run(np.inf, driver.arrived() + tasks)
        seconds = time.process_time() - began
        number = driver.tally.number  # may have grown
        return float(number[tally.ARRIVED] + number[tally.FINISHED] - events) / seconds


def scenario(servers: int, discipline: str, load: float, law: str = "exponential") -> Scenario:
    """Servers that begin with the load spread evenly; how long they run is the caller's matter."""
    law = "lognormal(mean=1, scv=4)" if law == "lognormal" else law
    return Scenario.simple(
        servers=servers,
        discipline=discipline,
        load=load,
        service=law,
        start="balanced",
        tasks=10**9,
        replications=1,
    )


@contextlib.contextmanager
def departures(through: str) -> Iterator[None]:
    """Draw who departs through the policy's "index" or from the "list" of tasks, at any size."""
    before = memoryless.MANY
    memoryless.MANY = {"index": 1, "list": 2**62}[through]
    try:
        yield
    finally:
        memoryless.MANY = before


def run_kernel(scenario: Scenario, policy: PolicySpec, kernel: str) -> float:
    """Run one replication, set-up included; return events per second of CPU time."""
    began = time.process_time()
    record = replicate(scenario, policy, 0, kernel=kernel)
    return record.events / (time.process_time() - began)


def interleaved(models: Sequence[Callable[[], float]], times: int) -> list[list[float]]:
    """Call each in turn, over and over, so that a busy machine slows all; return their values."""
    rows = [[model() for model in models] for _ in range(times)]
    return [list(column) for column in zip(*rows, strict=True)]


def ratio(some: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of values that were measured side by side."""
    return median(a / b for a, b in zip(some, others, strict=True))


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


def goal(what: str, figure: float, bound: float, most: bool = False, form: str = ".2f") -> str:
    """Say a goal, what there is, and whether it is reached."""
    good = figure <= bound if most else figure >= bound
    return f"{what}: {figure:{form}} (goal {'<=' if most else '>='} {bound:g}) {said(good)}"
