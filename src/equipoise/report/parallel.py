"""Replications side by side: on threads here, or wherever the caller's joblib context puts them.

Kernels release the interpreter's lock, so threads use all cores, share the scenario's trace and
start at once; processes would each import and compile for themselves (bench/parallel.py has both).
They are those of Python's own pool: joblib looks every 10 ms whether one has ended, a sixth of a
replication of a million tasks.
Whoever names another backend, `with joblib.parallel_config(backend="dask")`, gets it: a replication
is then sent as scenario, policy and number, and comes back as its record. Nothing a replication
draws depends on where or beside whom it runs, so the numbers are the same.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import TimeoutError as NotYet
from multiprocessing.pool import ThreadPool
from typing import Any

from ..errors import EquipoiseError
from ..policies import POLICIES, PolicySpec, resolve
from ..scenario import Scenario
from ..sim.run import Interrupted, Record, replicate

Job = tuple[int, int]  # index of a policy, number of a replication
Progress = Callable[[float, str], None]


@dataclass
class Meter:
    """The one bar over everything that is run: shares of replications done, of those planned."""

    report: Progress | None = None
    planned: float = 1.0  # replications
    done: float = 0.0
    remark: str = ""  # said behind the policy's name
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, share: float, label: str) -> None:
        """Tell that a share of a replication was run, from any thread."""
        with self.lock:
            self.done += share
            if self.report:
                self.report(min(self.done / self.planned, 1.0), label + self.remark)


@dataclass(frozen=True)
class Workers:
    """How many replications run at once, and what to say about it."""

    count: int | None  # None: as many as the backend that the caller named has
    near: bool  # threads of this process
    note: str | None = None

    @classmethod
    def asked(cls, wanted: int | None) -> Workers:
        """Return the workers for `workers = wanted`, one for each core if None.

        More than there are cores would only take turns and memory: there are as many as cores, and
        the note says so. Where the caller named a joblib backend its own number counts.

        Raises
        ------
        EquipoiseError
            If `wanted` is no whole number of at least 1.
        """
        if wanted is not None and (isinstance(wanted, bool) or wanted != int(wanted) or wanted < 1):
            raise EquipoiseError(f"workers = {wanted}: must be a whole number, at least 1")
        if not _named_backend_is_near():
            return cls(wanted, near=False)
        cores = available_cores()
        if wanted is not None and wanted > cores:
            has = f"{cores} core{'s' * (cores != 1)}"
            note = f"{wanted} workers were asked for, but there are {has} here: {cores} ran."
            return cls(cores, near=True, note=note)
        return cls(wanted or cores, near=True)


def available_cores() -> int:
    """Return how many cores this process may use."""
    import os

    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _named_backend_is_near() -> bool:
    """Whether replications run on threads of ours: unless the caller named something else."""
    if "joblib" not in sys.modules:  # then nobody has; importing it takes 0.1 s
        return True
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


def run_jobs(
    scenario: Scenario,
    specs: Sequence[PolicySpec],
    jobs: Sequence[Job],
    *,
    kernel: str,
    workers: Workers,
    meter: Meter,
) -> tuple[dict[Job, Record], bool]:
    """Run replications of policies; return their records, and whether Ctrl-C cut it short.

    After Ctrl-C the records are those of the replications that were finished by then. Threads stop
    at their next stretch, well under a second; one that compiles is not waited for.

    Raises
    ------
    EquipoiseError
        What a replication raises; the others are stopped first.
    """
    stop = threading.Event()
    finished: dict[Job, Record] = {}

    def near(job: Job) -> None:
        policy, replication = job
        label = specs[policy].label
        if stop.is_set():
            return
        try:
            record = replicate(
                scenario,
                specs[policy],
                replication,
                kernel=kernel,
                on_progress=lambda share: meter.add(share, label),
                stopped=stop.is_set,
            )
        except Interrupted:
            return
        except BaseException:
            stop.set()  # the others are of no use any more
            raise
        finished[job] = record

    try:
        if not workers.near:
            travelling = [_travelling(spec) for spec in specs]
            calls = [(_far, (scenario, travelling[p], r, kernel, (p, r))) for p, r in jobs]
            with _outcomes(calls, workers.count) as outcomes:
                for job, record in outcomes:
                    finished[job] = record
                    meter.add(1.0, specs[job[0]].label)
        elif min(workers.count or 1, len(jobs)) == 1:
            for job in jobs:
                near(job)
        else:
            _on_threads(near, jobs, workers.count or 1)
    except KeyboardInterrupt:
        return dict(finished), True
    finally:
        stop.set()
    return finished, False


def _on_threads(run: Callable[[Job], None], jobs: Sequence[Job], count: int) -> None:
    """Run every job, so many at once; raise what one raises. Nobody waits for the others then."""

    def outcome(job: Job) -> BaseException | None:
        try:
            run(job)
        except BaseException as error:  # of others than `Exception` a pool would never tell
            return error
        return None

    pool = ThreadPool(min(count, len(jobs)))
    outcomes = pool.imap_unordered(outcome, jobs)
    pool.close()
    left = len(jobs)
    while left:
        with suppress(NotYet):  # on systems where Ctrl-C cannot end a wait, it is heard after this
            error = outcomes.next(timeout=0.1)
            if error is not None:
                raise error
            left -= 1


@contextmanager
def _outcomes(
    calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]], count: int | None
) -> Iterator[Iterator[Any]]:
    """Yield what the calls return, as they end. Nobody waits for the rest when it is left early."""
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="processes")
    stream = backend.supports_return_generator
    pool = Parallel(
        n_jobs=count,
        prefer="processes",
        batch_size=1,
        return_as="generator_unordered" if stream else "list",
    )
    outcomes = iter(pool(delayed(call)(*arguments) for call, arguments in calls))
    try:
        yield outcomes
    finally:
        if stream:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that not all was taken: it was meant
                outcomes.close()


def _travelling(spec: PolicySpec) -> Mapping[str, Any] | PolicySpec:
    """Return a policy in a form that another process understands.

    Functions go by the name of their module, and that of a user's file is known here only: what
    is sent is what was written, to be resolved there.
    """
    if POLICIES.get(spec.policy.name) is spec.policy:
        return {"name": spec.policy.name, **spec.params}
    if spec.written:
        return {"name": spec.written, **spec.params}
    return spec


def _far(
    scenario: Scenario,
    policy: Mapping[str, Any] | PolicySpec,
    replication: int,
    kernel: str,
    job: Job,
) -> tuple[Job, Record]:
    """Run one replication, in another process."""
    return job, replicate(scenario, resolve(policy), replication, kernel=kernel)
