"""Table: the memoryless kernel against general-purpose simulators on W2, or W2 scaled down.

Queues at load 0.9 under jsq-d with d = 2. Loops alone: nobody's set-up is counted. Who is not
installed is left out with a line that says so; `pip install -e '.[bench]'` installs all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.simpy_models import Work, plain_loop, with_callbacks, with_processes
from bench.timing import Loop, interleaved, ratio, said, scenario

TASKS = 1_000_000  # of a repetition of the kernel
REPETITIONS = 5


def compare_with_peers() -> None:
    """Print the table and whether goals are reached."""
    print(f"{'':34}{'servers':>8}{'events/s':>13}{'kernel':>13}{'times':>9}{'goal':>8}")
    work = Work()
    line("SimPy, events and callbacks", 1000, lambda: with_callbacks(20_000, work).rate, 60)
    line("SimPy, processes and resources", 1000, lambda: with_processes(20_000, work).rate, 200)
    line("plain Python, a heap and lists", 1000, lambda: plain_loop(20_000, work).rate, None)
    if find_spec("ciw"):
        from bench.ciw_model import rate

        line("Ciw", 100, lambda: rate(100, 3000, 1)[0], 5000)
    else:
        print("Ciw is not installed: left out")
    if find_spec("cimba"):
        for form, goal in (("processes", 10), ("events", None)):
            with cimba(form) as ask:
                if ask is None:
                    print("cimba does not run here: left out")
                    break
                line(f"cimba, {form}", 1000, lambda ask=ask: ask(300_000), goal)
    else:
        print("cimba is not installed: left out")


def line(name: str, servers: int, model: Callable[[], float], goal: float | None) -> None:
    """Print one peer beside the kernel on the same number of servers."""
    own = Loop(scenario(servers, "fcfs", 0.9), "jsq-d", "memoryless", 100_000)
    kernel, other = interleaved([lambda: own.rate(TASKS), model], REPETITIONS)
    times = ratio(kernel, other)
    verdict = "" if goal is None else f"{goal:>8,} {said(times >= goal)}"
    print(
        f"{name:<34}{servers:>8,}{median(other):>13,.0f}{median(kernel):>13,.0f}{times:>9,.1f}"
        + verdict,
        flush=True,
    )


@contextmanager
def cimba(form: str) -> Iterator[Callable[[int], float] | None]:
    """Give a function from tasks to events per second, answered by a process; None if it fails."""
    file = Path(__file__).with_name("cimba_model.py")
    process = subprocess.Popen(
        [sys.executable, "-P", str(file), "1000", form],  # calendar.py is not the library's
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(tasks: int) -> float:
        process.stdin.write(f"{tasks}\n")
        process.stdin.flush()
        return float(process.stdout.readline().split()[0])

    with process:
        yield ask if process.stdout.readline().strip() == "ready" else None
        process.stdin.close()
