"""Run policies on a scenario, on all cores, and put what they did side by side."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import (
    EquipoiseError,
    PolicyError,
    PolicyMismatch,
    ScenarioError,
    UnstableError,
)
from ..policies import Policy, PolicySpec, resolve, unique_labels
from ..policies.user import try_plain
from ..scenario import Scenario
from ..sim.run import Record, pick_kernel, stated_error, warnings_of
from ..stats import paired
from .measure import measure, warm_up_rows
from .parallel import Meter, Progress, Workers, run_jobs
from .precise import Ran, keep_finished, run_until_precise
from .results import HIGHER_IS_BETTER, METRICS, Comparison, Difference, PolicyResult
from .stability import unstable_reason

Written = str | dict[str, Any] | Policy | PolicySpec
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
    workers: int | None,
) -> list[list[Record]]:
    """Return the records of each policy's replications. Ctrl-C is raised here."""
    meter = Meter(progress, float(len(specs) * scenario.run.replications))
    ran = _run_fixed(scenario, specs, kernel, Workers.asked(workers), meter, None)
    if ran.interrupted:
        raise KeyboardInterrupt
    return ran.records


def _run_fixed(
    scenario: Scenario,
    specs: Sequence[PolicySpec],
    kernel: str,
    workers: Workers,
    meter: Meter,
    only: int | None,
) -> Ran:
    """Run as many replications as the scenario says, or one of them."""
    numbers = range(scenario.run.replications) if only is None else range(only, only + 1)
    # by replication: what Ctrl-C leaves is then whole replications of all policies
    jobs = [(p, r) for r in numbers for p in range(len(specs))]
    meter.planned = float(len(jobs))
    found, interrupted = run_jobs(
        scenario, specs, jobs, kernel=kernel, workers=workers, meter=meter
    )
    kept, records = keep_finished(found, len(specs))
    if interrupted and not kept:
        raise KeyboardInterrupt
    return Ran(scenario, kept, records, interrupted)


def check_clock(scenario: Scenario, spec: PolicySpec) -> None:
    """Refuse a clock that would not strike once in the run.

    Raises
    ------
    PolicyError
        With the least delta of which the run would show something.
    """
    if spec.policy.clock is None:
        return
    delta, length = float(dict(spec.params)["delta"]), scenario.horizon
    if length is None:
        rate = float(scenario.rate_table()[1].max())
        length = float(scenario.run.tasks or 0) / rate if rate > 0 else 0.0
    period = scenario.mean_service / delta
    if 0 < length < period:
        least = scenario.mean_service / length
        raise PolicyError(
            f"{spec.label}: a server tells its state every {period:.4g} s, but the run is only "
            f"{length:.4g} s long; take delta > {least:.3g} or a longer run"
        )


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
    replication: int | None = None,
    leave_out: float | None = None,
) -> Comparison:
    """Check, run, leave out the warm-up, estimate, rank and pair. See `compare`, `simulate`."""
    if not 0 < confidence < 1:
        raise EquipoiseError(f"confidence = {confidence} must lie between 0 and 1, e.g. 0.95")
    metric = scenario.run.precision_of or rank_by
    for name in {rank_by, metric} - {None}:
        if name not in METRICS:
            raise EquipoiseError(f"no metric is called '{name}'; they are: {', '.join(METRICS)}")
    _check_one(scenario, replication, leave_out)
    _check_warm_up(scenario)
    asked = specs_of(scenario, policies)
    reasons = {spec.label: unstable_reason(scenario, spec) for spec in asked}
    specs = [spec for spec in asked if reasons[spec.label] is None]
    refused = [_refused(spec, str(reasons[spec.label])) for spec in asked if spec not in specs]
    if not specs:
        raise UnstableError("\n".join(f"{one.label}: {one.unstable}" for one in refused))
    for spec in specs:
        check_clock(scenario, spec)
    chosen = pick_kernel(scenario, kernel, specs)
    offered = scenario.load_table()  # reads a trace now, once, before the threads need it
    team, meter = Workers.asked(workers), Meter(progress)
    rank_by = rank_by or default_rank(scenario)
    if scenario.run.precision is None:
        ran = _run_fixed(scenario, specs, chosen, team, meter, replication)
    else:
        ran = run_until_precise(
            scenario, specs, metric=metric or rank_by, kernel=chosen, confidence=confidence,
            workers=team, meter=meter,
        )  # fmt: skip
    records = ran.records
    at_once = min(team.count or 1, len(specs) * len(ran.numbers))
    seconds = sum(record.seconds for each in records for record in each) / at_once

    first, notes = _leave_out(ran, specs, leave_out)
    error = stated_error(scenario, chosen, specs)
    notes += [error] if error else []
    notes += [warning for spec in specs for warning in warnings_of(scenario, spec)]
    if team.note:
        notes.append(team.note)
    results = [
        measure(ran.scenario, spec, each, first, confidence)
        for spec, each in zip(specs, records, strict=True)
    ]
    ranked = _ranked(results, rank_by) + refused
    rows = len(records[0][0].ends)
    return result(
        scenario=ran.scenario,
        seed=scenario.run.seed,
        version=versions()["equipoise"],
        versions=versions(),
        kernel=chosen,
        confidence=confidence,
        rank_by=rank_by,
        policies=tuple(ranked),
        differences=tuple(differences_of(ranked, rank_by, confidence)),
        replications=len(ran.numbers),
        warm_up=float(np.mean([r.ends[first - 1] for each in records for r in each]))
        if first
        else 0.0,
        given=scenario.given,
        events=sum(record.events for each in records for record in each),
        seconds=seconds,
        command=command,
        offered=offered,
        notes=tuple(notes),
        numbers=ran.numbers,
        left_out=first / rows,
        interrupted=ran.interrupted,
    )


def _leave_out(
    ran: Ran, specs: Sequence[PolicySpec], leave_out: float | None
) -> tuple[int, list[str]]:
    """Return how many rows to leave out, the same for all, and what to say about the run."""
    notes = []
    if ran.interrupted:
        count = ran.scenario.run.replications
        of = f" of {count}" if ran.scenario.run.precision is None else ""
        notes.append(
            f"Interrupted: {len(ran.numbers)}{of} replication{'s' * (len(ran.numbers) > 1)} "
            f"{'were' if len(ran.numbers) > 1 else 'was'} finished and "
            f"{'are' if len(ran.numbers) > 1 else 'is'} what is shown."
        )
    notes += ran.notes
    if leave_out is not None:
        return round(leave_out * len(ran.records[0][0].ends)), notes
    found = [warm_up_rows(ran.scenario, each) for each in ran.records]
    unsettled = [s.label for s, (_, settled) in zip(specs, found, strict=True) if not settled]
    if unsettled:
        notes.append(_too_short(ran.scenario, unsettled))
    return max(rows for rows, _ in found), notes


def _too_short(scenario: Scenario, labels: Sequence[str]) -> str:
    """Say that no warm-up can be told from a run so short, and what would help."""
    run = scenario.run
    if run.tasks is not None:
        longer = f"tasks = {4 * run.tasks}"
    else:
        longer = f"duration = {4 * float(scenario.horizon or 0):g}"
    balanced = ', start = "balanced"' if run.start == "empty" else ""
    who = ", ".join(labels)
    return (
        f"{who} had not settled in half of the run: its means may still drift; run longer, e.g. "
        f"{longer}{balanced and ', or'}{balanced.replace(', start', ' start')}"
    )


def _check_one(scenario: Scenario, replication: int | None, leave_out: float | None) -> None:
    """Refuse what makes no sense about one replication alone."""
    if leave_out is not None and not 0 <= leave_out < 1:
        raise EquipoiseError(f"leave_out = {leave_out}: must be a share of the run, e.g. 0.1")
    if replication is None:
        return
    if isinstance(replication, bool) or int(replication) != replication or replication < 0:
        raise EquipoiseError(
            f"replication = {replication}: must be a whole number; the first is replication 0"
        )
    if scenario.run.precision is not None:
        raise EquipoiseError(
            f"replication = {replication}: a run by precision finds its length on the way; give "
            "the length it had, in tasks, in place of precision"
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


def differences_of(
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


__all__ = ["Progress", "Written", "default_rank", "run_all", "specs_of", "study"]
