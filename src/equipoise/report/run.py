"""Run policies on a scenario, on all cores, and put what they did side by side."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import EquipoiseError, PolicyMismatch, ScenarioError, UnstableError
from ..policies import Policy, PolicySpec, resolve, unique_labels
from ..policies.user import try_plain
from ..scenario import Scenario
from ..sim.run import (
    Interrupted,
    Record,
    pick_kernel,
    replicate,
    stated_error,
    warnings_of,
)
from ..stats import paired
from .measure import measure, warm_up_rows
from .results import HIGHER_IS_BETTER, METRICS, Comparison, Difference, PolicyResult
from .stability import unstable_reason

Written = str | dict[str, Any] | Policy | PolicySpec
Progress = Callable[[float, str], None]
SUPPLIED = frozenset({"sizes", "speeds"})  # what policies may need beside lengths, given here


def versions() -> dict[str, str]:
    """Return the version of Python and of what the numbers depend on."""
    from importlib.metadata import version

    return {"python": platform.python_version()} | {
        name: version(name) for name in ("equipoise", "numpy", "numba")
    }


def specs_of(scenario: Scenario, policies: Iterable[Written] | None) -> list[PolicySpec]:
    """Return the policies to run: those named, else the scenario's, else a telling few.

    Raises
    ------
    EquipoiseError
        If one is unknown, listed twice, refused for this fleet, or breaks in a first trial.
    """
    if isinstance(policies, str | Policy | PolicySpec | dict):
        policies = [policies]
    written = list(policies) if policies is not None else list(scenario.policies)
    if policies is not None and not written:
        raise EquipoiseError("no policies to run; name at least one, e.g. jsq")
    specs = [resolve(one) for one in written or _telling(scenario)]
    unique_labels(specs)
    for spec in specs:
        spec.check(scenario.servers.count)
        missing = spec.policy.needs - SUPPLIED
        if missing:
            raise PolicyMismatch(
                f"policy '{spec.label}' must observe {' and '.join(sorted(missing))}, "
                "which these kernels do not supply"
            )
        if spec.written or spec.policy.choose.__module__.partition(".")[0] != "equipoise":
            try_plain(spec, scenario.servers.count)
    return specs


def _telling(scenario: Scenario) -> list[Written]:
    """The policies compared when none are named."""
    pool = scenario.servers.discipline == "pool"
    level = int(scenario.offered_load()[0]) if pool else 1
    threshold = {"name": "threshold", "level": level}
    learning = ["learning-threshold"] if scenario.servers.count > 1 else []
    d = ["jsq-d"] if scenario.servers.count > 1 else []
    return ["random", "round-robin", *d, "jiq", threshold, *learning, "jsq"]


def run_all(
    scenario: Scenario,
    specs: Sequence[PolicySpec],
    *,
    kernel: str,
    progress: Progress | None,
    workers: int,
) -> list[list[Record]]:
    """Return the records of each policy's replications, run on `workers` threads.

    Kernels release the interpreter's lock, so threads use all cores. Ctrl-C stops every thread
    at its next stretch, well under a second, and is raised here.
    """
    count = scenario.run.replications
    stop, lock, done = threading.Event(), threading.Lock(), 0.0

    def one(spec: PolicySpec, replication: int) -> Record:
        def step(share: float) -> None:
            nonlocal done
            with lock:
                done += share / (len(specs) * count)
                if progress:
                    progress(min(done, 1.0), spec.label)

        return replicate(
            scenario, spec, replication, kernel=kernel, on_progress=step, stopped=stop.is_set
        )

    pool = ThreadPoolExecutor(workers)
    try:
        jobs = [[pool.submit(one, spec, r) for r in range(count)] for spec in specs]
        waiting = {job for each in jobs for job in each}
        while waiting:  # in short waits, so that Ctrl-C is heard at once
            finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
            for job in finished:
                job.result()
        return [[job.result() for job in each] for each in jobs]
    finally:
        stop.set()
        # a kernel that is being compiled cannot be stopped, and nobody who interrupts waits for it
        pool.shutdown(wait=sys.exc_info()[0] is not KeyboardInterrupt, cancel_futures=True)


def study(
    scenario: Scenario,
    policies: Iterable[Written] | None,
    *,
    rank_by: str | None,
    kernel: str,
    confidence: float,
    progress: Progress | None,
    workers: int | None,
    command: str,
    result: type[Comparison],
) -> Comparison:
    """Check, run, leave out the warm-up, estimate, rank and pair. See `compare`."""
    if not 0 < confidence < 1:
        raise EquipoiseError(f"confidence = {confidence} must lie between 0 and 1, e.g. 0.95")
    if rank_by is not None and rank_by not in METRICS:
        raise EquipoiseError(f"no metric is called '{rank_by}'; they are: {', '.join(METRICS)}")
    _check_warm_up(scenario)
    asked = specs_of(scenario, policies)
    reasons = {spec.label: unstable_reason(scenario, spec) for spec in asked}
    specs = [spec for spec in asked if reasons[spec.label] is None]
    refused = [_refused(spec, str(reasons[spec.label])) for spec in asked if spec not in specs]
    if not specs:
        raise UnstableError("\n".join(f"{one.label}: {one.unstable}" for one in refused))
    chosen = pick_kernel(scenario, kernel, specs)
    offered = scenario.load_table()  # reads a trace now, once, before the threads need it
    workers = workers or len(os.sched_getaffinity(0))
    records = run_all(scenario, specs, kernel=chosen, progress=progress, workers=workers)
    at_once = min(workers, len(specs) * scenario.run.replications)
    seconds = sum(record.seconds for each in records for record in each) / at_once

    found = [warm_up_rows(scenario, each) for each in records]
    first = max(rows for rows, _ in found)
    notes = [
        f"{spec.label} had not settled in half of the run: its means may still drift; run longer"
        for spec, (_, settled) in zip(specs, found, strict=True)
        if not settled
    ]
    error = stated_error(scenario, chosen, specs)
    notes += [error] if error else []
    notes += [warning for spec in specs for warning in warnings_of(scenario, spec)]
    results = [
        measure(scenario, spec, each, first, confidence)
        for spec, each in zip(specs, records, strict=True)
    ]
    rank_by = rank_by or default_rank(scenario)
    ranked = _ranked(results, rank_by) + refused
    return result(
        scenario=scenario,
        seed=scenario.run.seed,
        version=versions()["equipoise"],
        versions=versions(),
        kernel=chosen,
        confidence=confidence,
        rank_by=rank_by,
        policies=tuple(ranked),
        differences=tuple(_differences(ranked, rank_by, confidence)),
        replications=scenario.run.replications,
        warm_up=float(np.mean([r.ends[first - 1] for each in records for r in each]))
        if first
        else 0.0,
        given=scenario.given,
        events=sum(record.events for each in records for record in each),
        seconds=seconds,
        command=command,
        offered=offered,
        notes=tuple(notes),
    )


def _refused(spec: PolicySpec, reason: str) -> PolicyResult:
    """A policy that is not run, because its queues would grow for ever."""
    policy = spec.policy
    params = {k: v for k, v in spec.params.items() if v is not None}
    return PolicyResult(
        policy.name, spec.label, params, policy.memory, policy.cost, policy.source, unstable=reason
    )


def _check_warm_up(scenario: Scenario) -> None:
    """Refuse a given warm-up that leaves nothing to measure."""
    warm_up, horizon = scenario.run.warm_up, scenario.horizon
    if warm_up != "auto" and horizon is not None and float(warm_up) >= horizon:
        raise ScenarioError(
            f"run.warm_up = {warm_up:g}: leaves nothing of the {horizon:g} s of traffic to "
            "measure; take a shorter one"
        )


def default_rank(scenario: Scenario) -> str:
    """Return the metric that decides: crowding for pools, response for queues."""
    return "imbalance" if scenario.servers.discipline == "pool" else "mean_response"


def _ranked(results: list[PolicyResult], rank_by: str) -> list[PolicyResult]:
    have = [r for r in results if rank_by in r.metrics]
    if not have:
        known = ", ".join(results[0].metrics)
        raise EquipoiseError(f"'{rank_by}' was not measured here; measured were: {known}")
    sign = -1 if rank_by in HIGHER_IS_BETTER else 1
    have.sort(key=lambda r: sign * r.metrics[rank_by].value)
    return have + [r for r in results if rank_by not in r.metrics]


def _differences(
    ranked: list[PolicyResult], rank_by: str, confidence: float
) -> Iterable[Difference]:
    """Every pair, the better first, paired by replication."""
    have = [r for r in ranked if rank_by in r.metrics]
    for a, b in combinations(have, 2):
        if rank_by in a.replications and a.replications[rank_by].shape == (
            b.replications[rank_by].shape
        ):
            estimate = paired(a.replications[rank_by], b.replications[rank_by], confidence)
            yield Difference(a.label, b.label, rank_by, estimate.value, estimate.error)
        else:
            value = a.metrics[rank_by].value - b.metrics[rank_by].value
            yield Difference(a.label, b.label, rank_by, value, float("nan"))


__all__ = ["Interrupted", "Progress", "Written", "default_rank", "run_all", "specs_of", "study"]
