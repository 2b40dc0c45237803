"""The loops of reference.c: compiled on the spot, called by ctypes, held against theory."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import exact

SOURCE = Path(__file__).with_name("reference.c")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")
LEVELS, BUCKETS = 256, 4097  # as in reference.c
_folder = tempfile.TemporaryDirectory(prefix="equipoise-bench-")


class CannotCompile(Exception):
    """There is no C compiler, or it does not take the source; the reason in one line."""


class _Work(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64),
        ("load", ctypes.c_double),
        ("scv", ctypes.c_double),
        ("before", ctypes.c_int64),
        ("tasks", ctypes.c_int64),
        ("start", ctypes.c_void_p),
        ("seed", ctypes.c_uint64 * 4),
    )


class _Sums(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_double) for name in ("time", "tasks", "squares", "waits", "responses")),
        *((name, ctypes.c_int64) for name in ("events", "waited", "responded")),
        ("least", ctypes.c_double * LEVELS),
        ("seconds", ctypes.c_double),
        ("timed", ctypes.c_int64),
        ("uneven", ctypes.c_double),
        ("wait", ctypes.c_int64 * BUCKETS),
        ("response", ctypes.c_int64 * BUCKETS),
    )


@dataclass(frozen=True)
class Result:
    """What a loop found. Times in mean service times, per server where it says so."""

    rate: float  # events per second of CPU time, without set-up and what came before the clock
    time: float
    events: int  # in all
    mean_tasks: float  # per server
    variance: float  # of the number of tasks of all servers
    mean_wait: float  # nan for pools
    mean_response: float
    occupancy: np.ndarray  # float64[LEVELS], fraction of servers with at least i tasks
    imbalance: float  # per server; 0 unless the loop keeps what the kernels keep


@cache
def library() -> ctypes.CDLL:
    """Compile reference.c; once in a process.

    Raises
    ------
    CannotCompile
        If no compiler is found ($CC, cc, gcc, clang) or it refuses.
    """
    named = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    compiler = next((path for name in named if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise CannotCompile("no C compiler (cc, gcc or clang) on the path")
    target = Path(_folder.name, "reference.so")
    command = [compiler, *FLAGS, "-o", str(target), str(SOURCE), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotCompile(f"{Path(compiler).name} does not compile reference.c: {lines[0]}")
    return ctypes.CDLL(str(target))


def run(
    loop: str,
    servers: int,
    load: float,
    tasks: int,
    before: int = 0,
    scv: float = 0.0,
    seed: int = 1,
) -> Result:
    """Run a loop of reference.c until `before + tasks` tasks have arrived, the last ones timed.

    Parameters
    ----------
    loop
        pools_(separate|packed)_(list|index), queues_exponential, queues_lognormal; each also with
        _full behind it: it then keeps what the kernels keep (imbalance, histograms).
    load
        Tasks that arrive in a mean service time, for each server. They begin with it, evenly.
    scv
        Squared coefficient of variation of lognormal service.
    """
    even, extra = divmod(round(load * servers), servers)
    start = np.full(servers, even, np.int32)
    start[:extra] += 1
    words = np.random.SeedSequence(seed).generate_state(4, np.uint64)
    work = _Work(
        servers,
        load,
        scv,
        before,
        before + tasks,
        start.ctypes.data,
        (ctypes.c_uint64 * 4)(*map(int, words)),
    )
    sums = _Sums()
    code = getattr(library(), loop)(ctypes.byref(work), ctypes.byref(sums))
    if code:
        raise MemoryError(f"{loop} needs more memory, or a server held {LEVELS} tasks")
    mean = sums.tasks / sums.time
    return Result(
        sums.timed / sums.seconds,
        sums.time,
        sums.events,
        mean / servers,
        sums.squares / sums.time - mean * mean,
        sums.waits / sums.waited if sums.waited else math.nan,
        sums.responses / sums.responded if sums.responded else math.nan,
        np.array(sums.least) / sums.time / servers,
        sums.uneven / sums.time / servers,
    )


# -- that it is the right work ----------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A figure of the loops beside what theory says."""

    what: str
    figure: float
    error: float  # standard error
    truth: float
    bias: float = 0.0  # of the truth, where it is a limit

    @property
    def good(self) -> bool:
        """Within four standard errors, and the bias."""
        return abs(self.figure - self.truth) <= 4 * self.error + self.bias

    def __str__(self) -> str:
        return f"{self.what} {self.figure:.4g} +- {self.error:.1g} ({self.truth:.4g})"


def checks(tasks: int = 200_000) -> Iterator[Check]:
    """Hold the loops against closed forms and exact chains, 12 runs of so many tasks each."""

    def mean(what: str, runs: list[Result], of: Callable, truth: float, bias: float = 0.0) -> Check:
        values = np.array([of(one) for one in runs])
        return Check(what, values.mean(), values.std(ddof=1) / math.sqrt(values.size), truth, bias)

    def runs(loop: str, servers: int, load: float, before: int, scv: float = 0.0) -> list[Result]:
        return [run(loop, servers, load, tasks, before, scv, seed) for seed in range(1, 13)]

    wait = lambda one: one.mean_wait  # noqa: E731
    yield mean("M/M/1 wait", runs("queues_exponential_full", 1, 0.8, 2000), wait, 4.0, 0.01)
    truth = exact.pollaczek_khinchine(0.5, 1.0, 4.0)
    yield mean("M/G/1 wait", runs("queues_lognormal_full", 1, 0.5, 2000, 4.0), wait, truth, 0.01)
    chain = exact.chain("jsq", 2, 1.4, cap=60)
    two = runs("queues_exponential", 2, 0.7, 2000)
    yield mean("2 queues, wait", two, wait, chain.mean_wait, 1e-3)
    chain = exact.chain("jsq", 2, 5.0, workers=math.inf, cap=20)
    for loop in ("pools_packed_list_full", "pools_separate_index_full"):
        few = runs(loop, 2, 2.5, 2000)
        yield mean("2 pools, imbalance", few, lambda one: one.imbalance, chain.imbalance)
        for i in (2, 3, 4):
            share = lambda one, i=i: float(one.occupancy[i])  # noqa: E731
            yield mean(f"with {i} tasks or more", few, share, chain.occupancy[i - 1], 1e-4)
    many = runs("pools_packed_index", 500, 5.5, 2000)
    yield mean("500 pools, tasks", many, lambda one: one.mean_tasks, 5.5)
    many = runs("queues_exponential", 1000, 0.9, 100_000)
    yield mean("1000 queues, busy", many, lambda one: float(one.occupancy[1]), 0.9)
    limit = exact.jsq_d_wait(0.9, 2)
    yield mean("1000 queues, wait", many, wait, limit, 0.05)
    many = runs("queues_lognormal", 1000, 0.9, 100_000, 4.0)
    yield mean("1000 lognormal queues, busy", many, lambda one: float(one.occupancy[1]), 0.9, 0.01)
