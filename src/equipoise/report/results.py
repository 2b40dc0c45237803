"""What a simulation or a comparison found, and everything needed to run it again.

The records hold numbers only; `table.py`, `plots.py` and `page.py` turn them into
something to look at. All times are in seconds, task counts are per server, and
`replications` arrays have one entry for each independent run, so that policies
that met the same tasks can be compared run by run.

`to_json` is the contract other programs build on: it holds estimates, never NaN,
and what does not apply is absent, not zero. `save` writes the same object with one
more key, "record", from which `Comparison.load` rebuilds everything (files.py).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equipoise.errors import EquipoiseError
from equipoise.report.files import FORMAT, load_record, save_record, write_atomic
from equipoise.stats import Estimate

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from equipoise.scenario import Scenario

MESSAGE_KINDS = ("join", "leave", "update", "answer", "probe")
TASK_COUNTS = ("arrived", "finished", "present", "lost")

# Name of a metric -> (what it is called, its unit). Every metric of the JSON contract.
METRICS = {
    "mean_tasks": ("mean tasks", "tasks per server"),
    "mean_wait": ("mean wait", "s"),
    "mean_response": ("mean response", "s"),
    "p50_response": ("median response", "s"),
    "p99_response": ("p99 response", "s"),
    "p99_wait": ("p99 wait", "s"),
    "max_tasks": ("largest", "tasks at a server"),
    "imbalance": ("imbalance", "tasks per server"),
    "mean_neighbours": ("mean neighbours", "tasks"),
    "p99_neighbours": ("p99 neighbours", "tasks"),
    "utility": ("utility", ""),
    "messages_per_task": ("messages", "per task"),
    "announcements": ("announcements", "per run"),
    "threshold_changes": ("threshold changes", "per run"),
    "last_change": ("last threshold change", "s"),
    "throughput": ("throughput", "tasks/s"),
    "lost": ("lost", "fraction of arrivals"),
}
HIGHER_IS_BETTER = frozenset({"utility", "throughput"})


@dataclass(frozen=True, eq=False)
class Path:
    """What happened over time, in the first replication.

    On a grid of moments, some 500 to a run; occupancy on a coarser one of some 50 cells, each
    the mean over its time.
    """

    times: np.ndarray  # float64[G], s from the start of the run, ascending
    mean: np.ndarray  # float64[G], over all servers
    least: np.ndarray  # float64[G], the emptiest server
    most: np.ndarray  # float64[G], the fullest server
    threshold: np.ndarray | None = None  # float64[G], where the policy has one
    total: np.ndarray | None = None  # float64[G], tasks in the system
    rate: np.ndarray | None = None  # float64[G], tasks/s that came since the moment before
    cells: np.ndarray | None = None  # float64[C + 1], s, where the cells begin and end
    occupancy: np.ndarray | None = None
    #  float64[C, L]: entry (c, i) is the fraction of servers with at least i + 1 tasks in cell c


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """One policy: what it did, what it cost, how sure we are."""

    name: str
    label: str  # unique in a comparison, e.g. "threshold(level=10)"
    params: dict[str, Any]
    memory_bits: float  # per server, at the dispatcher
    cost: str  # messages per task, a sentence
    source: str
    metrics: dict[str, Estimate] = field(default_factory=dict)
    replications: dict[str, np.ndarray] = field(default_factory=dict)  # float64[R] each
    messages: dict[str, float] = field(default_factory=dict)  # kind -> per task
    tasks: dict[str, int] = field(default_factory=dict)  # all replications, warm-up included
    occupancy: np.ndarray = field(default_factory=lambda: np.zeros(0))
    #  float64[L]: entry i is the fraction of servers with at least i + 1 tasks, over time
    share: dict[int, float] = field(default_factory=dict)
    #  tasks at a task's server, itself included -> fraction of tasks, over time
    threshold_time: dict[int, float] = field(default_factory=dict)  # threshold -> of time
    distribution: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    #  "response", "wait" -> (edges float64[B+1] in s, counts float64[B])
    path: Path | None = None
    unstable: str | None = None  # why it was not run; then all the measurements are empty
    written: str = ""  # "file.py:NAME" where it is the user's own


@dataclass(frozen=True)
class Difference:
    """Policy `a` minus policy `b` in one metric, paired by replication, in its unit.

    `error` is the half-width of the interval, NaN with a single replication.
    """

    a: str
    b: str
    metric: str
    value: float
    error: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several policies in front of the same traffic, best first.

    `comparison["jsq"]` is one policy's result, by label or, where that is clear, by
    name. `print(comparison)` shows the table, a notebook shows it as HTML, `plot()`
    draws, `page("compare.html")` writes the whole story into one file.
    """

    scenario: Scenario
    seed: int
    version: str  # of Equipoise
    versions: dict[str, str]  # of Python and what else took part
    kernel: str
    confidence: float
    rank_by: str
    policies: tuple[PolicyResult, ...]  # in rank order, unstable ones last
    differences: tuple[Difference, ...]  # every pair, the better first
    replications: int
    warm_up: float  # s left out at the start of every run
    given: str | None  # "traffic", "arrivals" or None: what came from a trace
    events: int  # simulated in all
    seconds: float  # wall time they took
    command: str  # runs it again
    offered: tuple[np.ndarray, np.ndarray]  # (times s, tasks per server), float64[G] each
    notes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()  # of the replications, counted from 0; () is all of them
    left_out: float = 0.0  # share of every run left out at its start, by the grid it was kept on
    interrupted: bool = False  # Ctrl-C came before all replications were finished

    # looking things up

    @property
    def stable(self) -> tuple[PolicyResult, ...]:
        """The policies that were run, in rank order."""
        return tuple(p for p in self.policies if p.unstable is None)

    @property
    def best(self) -> PolicyResult | None:
        """The first in rank; None when every policy was refused."""
        return next(iter(self.stable), None)

    def __getitem__(self, policy: str) -> PolicyResult:
        """Return the result of a policy, by its label or by a name that only one has."""
        exact = [p for p in self.policies if p.label == policy]
        named = exact or [p for p in self.policies if p.name == policy]
        if len(named) != 1:
            labels = ", ".join(p.label for p in self.policies)
            what = "is not among the policies" if not named else "may be several policies"
            raise EquipoiseError(f"'{policy}' {what}; here are: {labels}")
        return named[0]

    def __iter__(self) -> Iterator[PolicyResult]:
        return iter(self.policies)

    def __len__(self) -> int:
        return len(self.policies)

    def _ipython_key_completions_(self) -> list[str]:
        return [p.label for p in self.policies]

    def difference(self, a: str, b: str) -> Difference | None:
        """Return a's metric ranked by, minus b's; None when the two were not compared."""
        for d in self.differences:
            if d.metric == self.rank_by and (d.a, d.b) == (a, b):
                return d
            if d.metric == self.rank_by and (d.a, d.b) == (b, a):
                return Difference(a, b, d.metric, -d.value, d.error)
        return None

    # as data

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and finite numbers, ready for `json.dumps`."""
        return {
            "scenario": _plain(self.scenario.to_dict()),
            "seed": int(self.seed),
            "version": self.version,
            "kernel": self.kernel,
            "policies": [_policy_json(p) for p in self.policies],
            "differences": [
                {
                    "a": d.a,
                    "b": d.b,
                    "metric": d.metric,
                    "value": float(d.value),
                    "error": _number(d.error),
                }
                for d in self.differences
                if math.isfinite(d.value)
            ],
        }

    def to_csv(self) -> str:
        """Return the estimates as text, one line each: policy,metric,value,error,confidence.

        `error` is empty where a single replication leaves none.
        """
        rows = [("policy", "metric", "value", "error", "confidence")]
        for p, name, e in self._estimates():
            error = "" if not math.isfinite(e.error) else repr(float(e.error))
            rows.append((p.label, name, repr(float(e.value)), error, repr(float(e.confidence))))
        return csv_text(rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return the estimates as a tidy table with columns policy, metric, value, error.

        `error` is the half-width of the interval. Policies are in rank order; one
        refused as unstable has no rows.
        """
        import pandas as pd

        rows = [(p.label, name, float(e.value), float(e.error)) for p, name, e in self._estimates()]
        return pd.DataFrame(rows, columns=["policy", "metric", "value", "error"])

    def to_xarray(self) -> xr.Dataset:
        """Return everything measured as one labelled dataset.

        Each metric that has a value per run is a variable over (policy, replication).
        `occupancy` and `share` are over (policy, level), level i >= 1 being servers with
        at least i tasks and tasks among exactly i. `path_mean`, `path_least`,
        `path_most`, `path_threshold`, `path_total` (tasks in the system) and `path_rate` (tasks/s
        that came) are over (policy, time), `path_occupancy` over (policy, cell, level), the cell
        being named by its end (s), `offered` over time (s). `value` and `error` over (policy,
        metric) are the estimates. What does not apply is NaN.
        """
        import xarray as xr

        run = self.stable
        labels = [p.label for p in run]
        data: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}

        metrics = [m for m in METRICS if any(m in p.metrics for p in run)]
        estimates = np.full((2, len(run), len(metrics)), np.nan)
        for i, p in enumerate(run):
            for j, m in enumerate(metrics):
                if m in p.metrics:
                    estimates[:, i, j] = p.metrics[m].value, p.metrics[m].error
        data["value"] = (("policy", "metric"), estimates[0])
        data["error"] = (("policy", "metric"), estimates[1])

        for m in metrics:
            if any(m in p.replications for p in run):
                values = np.full((len(run), self.replications), np.nan)
                for i, p in enumerate(run):
                    runs = np.asarray(p.replications.get(m, ()), dtype=float)
                    values[i, : runs.size] = runs
                data[m] = (("policy", "replication"), values)

        highest = max(
            [len(p.occupancy) for p in run]
            + [x for p in run for x in p.share]
            + [p.path.occupancy.shape[1] for p in run if p.path and p.path.occupancy is not None],
            default=0,
        )
        levels = np.arange(1, highest + 1)
        occupancy, share = np.zeros((2, len(run), highest))
        for i, p in enumerate(run):
            occupancy[i, : len(p.occupancy)] = p.occupancy
            for x, fraction in p.share.items():
                if x >= 1:
                    share[i, x - 1] = fraction
        data["occupancy"] = (("policy", "level"), occupancy)
        data["share"] = (("policy", "level"), share)

        paths = [p.path for p in run if p.path is not None]
        times = paths[0].times if paths else np.asarray(self.offered[0], dtype=float)
        for name in ("mean", "least", "most", "threshold", "total", "rate"):
            values = np.full((len(run), times.size), np.nan)
            for i, p in enumerate(run):
                series = None if p.path is None else getattr(p.path, name)
                if p.path is not None and series is not None:
                    values[i] = held(times, p.path.times, series)
            data[f"path_{name}"] = (("policy", "time"), values)
        data["offered"] = (("time",), held(times, *self.offered))
        with_cells = [p.cells for p in paths if p.cells is not None]
        ends = with_cells[0][1:] if with_cells else np.zeros(0)
        by_cell = np.full((len(run), ends.size, highest), np.nan)
        for i, p in enumerate(run):
            if p.path is not None and p.path.cells is not None and p.path.occupancy is not None:
                cells, levels_of = p.path.cells, p.path.occupancy
                at = np.clip(np.searchsorted(cells, ends) - 1, 0, len(levels_of) - 1)
                by_cell[i] = 0.0
                by_cell[i, :, : levels_of.shape[1]] = levels_of[at][:, :highest]
        data["path_occupancy"] = (("policy", "cell", "level"), by_cell)

        return xr.Dataset(
            data,
            coords={
                "policy": labels,
                "metric": metrics,
                "replication": np.array(self.numbers or range(self.replications)),
                "level": levels,
                "time": ("time", times, {"units": "s"}),
                "cell": ("cell", ends, {"units": "s"}),
            },
            attrs={
                "scenario": self.scenario.name,
                "seed": self.seed,
                "version": self.version,
                "confidence": self.confidence,
                "left_out": self.left_out,
                "command": self.command,
            },
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, whole or not at all: NetCDF if it ends in .nc, else JSON.

        The JSON is the object of `to_json` with one more key, "record"; the NetCDF is the dataset
        of `to_xarray`, with that JSON as text in one attribute.

        Raises
        ------
        EquipoiseError
            If it cannot be written; a file that was there before is then as it was.
        """
        save_record(path, {**self.to_json(), "record": _record(self)}, self.to_xarray)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read what `save` wrote.

        The output of `--json` is read too; it has estimates but no paths, so the
        figures over time are missing from its page. A scenario whose trace is not at
        hand is kept as it was recorded: it can be shown, not run.

        Raises
        ------
        EquipoiseError
            If the file cannot be read, was cut off, is of a later format or holds something else.
        """
        data = load_record(path)
        try:
            return _from_record(cls, data)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise EquipoiseError(
                f"{path}: not a saved comparison ({type(e).__name__}: {e}); "
                "save() and `equipoise compare --json` write them"
            ) from None

    # to run again

    def redo(self, replication: int, policy: str | None = None) -> Simulation:
        """Run one replication again, alone, with the very numbers it had here.

        Parameters
        ----------
        replication
            Its number, counted from 0 (`numbers` has them all).
        policy
            A label, or a name that only one has; the best if left out.

        Raises
        ------
        EquipoiseError
            If there is no such policy, the scenario's trace is not at hand, or as `simulate`.
        """
        from equipoise.report.simulate import simulate

        one = self.best if policy is None else Comparison.__getitem__(self, policy)
        if one is None or one.unstable is not None:
            who = "the policies" if one is None else one.label
            raise EquipoiseError(f"nothing to redo: {who} was not run")
        if isinstance(self.scenario, SimpleNamespace):
            raise EquipoiseError("no replication to redo: the scenario's trace is not at hand")
        return simulate(
            self.scenario.with_run(precision=None, precision_of=None, budget=None),
            {"name": one.written or one.name, **one.params},
            kernel=self.kernel,
            confidence=self.confidence,
            replication=replication,
            leave_out=self.left_out,
        )

    # to look at

    def __repr__(self) -> str:
        best = self.best
        parts = [f"{len(self.policies)} policies", f"{self.replications} replications"]
        if best is not None and self.rank_by in best.metrics:
            parts.append(f"best by {self.rank_by}: {best.label} {best.metrics[self.rank_by]}")
        return f"<{type(self).__name__} {self.scenario.name!r}: {', '.join(parts)}>"

    def __str__(self) -> str:
        from equipoise.report.table import text

        return text(self)

    def _repr_html_(self) -> str:
        from equipoise.report.page import notebook_table

        return notebook_table(self)

    def plot(
        self,
        kind: Literal[
            "distribution", "path", "cost", "threshold", "occupancy", "lengths", "quantiles"
        ] = "distribution",
    ) -> Figure:
        """Draw a figure with matplotlib: those of the page, and three more.

        `"distribution"` of neighbours (pools) or response time (queues), `"path"` of
        the tasks per server over time, `"cost"` in messages against what they buy,
        `"threshold"` over time against the load; `"occupancy"`, the fraction of servers with at
        least so many tasks over time, `"lengths"`, the fraction with exactly so many, and
        `"quantiles"` of the response time.

        Raises
        ------
        EquipoiseError
            If there is no such figure, or nothing to draw in it.
        """
        from equipoise.report import plots

        return plots.plot(self, kind)

    def page(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if one is given."""
        from equipoise.report.page import html

        text = html(self)
        if path is not None:
            write_atomic(path, text)
        return text

    def _estimates(self) -> Iterator[tuple[PolicyResult, str, Estimate]]:
        for p in self.stable:
            for name, estimate in p.metrics.items():
                if math.isfinite(estimate.value):
                    yield p, name, estimate


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Comparison):
    """One policy in front of one scenario's traffic: a comparison with a single entry.

    `simulation["mean_wait"]` is an estimate, and `print(simulation)` lists them all.
    """

    @property
    def policy(self) -> PolicyResult:
        """What the policy did."""
        return self.policies[0]

    @property
    def metrics(self) -> dict[str, Estimate]:
        """The estimates, by name."""
        return self.policy.metrics

    def __getitem__(self, name: str) -> Any:
        """Return the estimate of a metric."""
        if name in self.metrics:
            return self.metrics[name]
        if name in (self.policy.label, self.policy.name):
            return self.policy
        raise EquipoiseError(
            f"no metric '{name}' here; there are: {', '.join(self.metrics) or 'none'}"
        )

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.metrics)

    def __repr__(self) -> str:
        return f"<Simulation of {self.policy.label} on {self.scenario.name!r}: {self._line()}>"

    def __str__(self) -> str:
        from equipoise.report.table import simulation_text

        return simulation_text(self)

    def _line(self) -> str:
        if self.policy.unstable is not None:
            return f"not run: {self.policy.unstable}"
        estimate = self.metrics.get(self.rank_by)
        return "no estimates" if estimate is None else f"{self.rank_by} {estimate}"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV, quoting what needs it, lines ended by a line feed."""
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def held(at: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the last of `values` known at each of the moments `at`, NaN before the first.

    Shapes: `at` float64[k], `times` float64[G] ascending, `values` float64[G].
    """
    at, times = np.asarray(at, dtype=float), np.asarray(times, dtype=float)
    if times.size == 0:
        return np.full(at.shape, np.nan)
    index = np.searchsorted(times, at, side="right") - 1
    return np.where(index >= 0, np.asarray(values, dtype=float)[np.maximum(index, 0)], np.nan)


# To and from JSON.


def _number(x: Any) -> float | None:
    """JSON has no NaN and no infinity."""
    x = float(x)
    return x if math.isfinite(x) else None


def _plain(x: Any) -> Any:
    """Turn numpy and Python objects into what JSON has."""
    if isinstance(x, Mapping):
        return {str(k): _plain(v) for k, v in x.items()}
    if isinstance(x, np.ndarray):
        return _plain(x.tolist())
    if isinstance(x, (list, tuple, set, frozenset)):
        return [_plain(v) for v in x]
    if isinstance(x, np.generic):
        return _plain(x.item())
    if isinstance(x, float):
        return _number(x)
    if x is None or isinstance(x, (str, bool, int)):
        return x
    return str(x)


def _policy_json(p: PolicyResult) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": p.name,
        "label": p.label,
        "params": _plain(p.params),
        "memory_bits": _plain(p.memory_bits),
    }
    if p.unstable is not None:
        return {**out, "unstable": p.unstable}
    out["metrics"] = {
        name: {
            "value": float(e.value),
            "error": _number(e.error),
            "confidence": float(e.confidence),
        }
        for name, e in p.metrics.items()
        if math.isfinite(e.value)
    }
    out["messages"] = {kind: float(p.messages.get(kind, 0.0)) for kind in MESSAGE_KINDS}
    out["tasks"] = {count: int(p.tasks.get(count, 0)) for count in TASK_COUNTS}
    out["occupancy"] = [float(q) for q in np.trim_zeros(np.asarray(p.occupancy, float), "b")]
    out["share"] = _fractions(p.share)
    if p.threshold_time:
        out["threshold_time"] = _fractions(p.threshold_time)
    return out


def _fractions(of: Mapping[int, float]) -> dict[str, float]:
    return {str(int(x)): float(of[x]) for x in sorted(of) if of[x] > 0}


def _list(values: np.ndarray) -> list[Any]:
    """Floats for a file of our own: null is NaN, and an infinity is a word."""
    return [
        float(v) if math.isfinite(v) else None if math.isnan(v) else str(float(v))
        for v in np.asarray(values, dtype=float)
    ]


def _array(values: Iterable[Any]) -> np.ndarray:
    return np.array([math.nan if v is None else float(v) for v in values], dtype=float)


def _record(c: Comparison) -> dict[str, Any]:
    """What `to_json` leaves out and `load` needs."""
    return {
        "format": FORMAT,
        "kind": "simulation" if isinstance(c, Simulation) else "comparison",
        "versions": dict(c.versions),
        "confidence": c.confidence,
        "rank_by": c.rank_by,
        "replications": c.replications,
        "warm_up": _number(c.warm_up),
        "given": c.given,
        "events": int(c.events),
        "seconds": _number(c.seconds),
        "command": c.command,
        "offered": {"times": _list(c.offered[0]), "load": _list(c.offered[1])},
        "load": _list(np.asarray(c.scenario.offered_load())),
        "notes": list(c.notes),
        "numbers": [int(r) for r in c.numbers],
        "left_out": float(c.left_out),
        "interrupted": bool(c.interrupted),
        "policies": [
            {
                "cost": p.cost,
                "source": p.source,
                "written": p.written,
                "replications": {m: _list(v) for m, v in p.replications.items()},
                "distribution": {
                    k: {"edges": _list(edges), "counts": _list(counts)}
                    for k, (edges, counts) in p.distribution.items()
                },
                "path": None if p.path is None else _path_json(p.path),
            }
            for p in c.policies
        ],
    }


SERIES = ("times", "mean", "least", "most", "threshold", "total", "rate", "cells")


def _path_json(path: Path) -> dict[str, Any]:
    out: dict[str, Any] = {
        name: _list(series) for name in SERIES if (series := getattr(path, name)) is not None
    }
    if path.occupancy is not None:  # level by level, most of which are empty at the end
        out["occupancy"] = [_list(np.trim_zeros(cell, "b")) for cell in path.occupancy]
    return out


def _path_from(data: dict[str, Any]) -> Path:
    series = {name: _array(data[name]) for name in SERIES if name in data}
    if "occupancy" in data:
        rows = [_array(cell) for cell in data["occupancy"]]
        table = np.zeros((len(rows), max((row.size for row in rows), default=0)))
        for cell, row in zip(table, rows, strict=True):
            cell[: row.size] = row
        series["occupancy"] = table
    return Path(**series)


def _from_record(cls: type[Comparison], data: dict[str, Any]) -> Comparison:
    record = data.get("record", {})
    extras = record.get("policies", [{}] * len(data["policies"]))
    policies = tuple(
        _policy_from(p, extra) for p, extra in zip(data["policies"], extras, strict=True)
    )
    run = [p for p in policies if p.unstable is None]
    differences = tuple(
        Difference(
            d["a"],
            d["b"],
            d["metric"],
            d["value"],
            math.nan if d["error"] is None else d["error"],
        )
        for d in data["differences"]
    )
    pool = data["scenario"].get("servers", {}).get("discipline") == "pool"
    rank_by = differences[0].metric if differences else "imbalance" if pool else "mean_response"
    offered = record.get("offered", {"times": [], "load": []})
    if record.get("kind") == "simulation":
        cls = Simulation
    return cls(
        scenario=_scenario_from(data["scenario"], record.get("load")),
        seed=data["seed"],
        version=data["version"],
        versions=record.get("versions", {}),
        kernel=data["kernel"],
        confidence=record.get(
            "confidence",
            next((e.confidence for p in run for e in p.metrics.values()), 0.95),
        ),
        rank_by=record.get("rank_by", rank_by),
        policies=policies,
        differences=differences,
        replications=record.get(
            "replications", data["scenario"].get("run", {}).get("replications", 1)
        ),
        warm_up=record.get("warm_up") or 0.0,
        given=record.get("given"),
        events=record.get("events", 0),
        seconds=record.get("seconds") or 0.0,
        command=record.get("command", ""),
        offered=(_array(offered["times"]), _array(offered["load"])),
        notes=tuple(record.get("notes", ())),
        numbers=tuple(record.get("numbers", ())),
        left_out=record.get("left_out", 0.0),
        interrupted=record.get("interrupted", False),
    )


def _policy_from(p: dict[str, Any], extra: dict[str, Any]) -> PolicyResult:
    path = extra.get("path")
    return PolicyResult(
        name=p["name"],
        label=p["label"],
        params=p["params"],
        memory_bits=p["memory_bits"],
        cost=extra.get("cost", ""),
        source=extra.get("source", ""),
        written=extra.get("written", ""),
        metrics={
            name: Estimate(
                e["value"], math.nan if e["error"] is None else e["error"], e["confidence"]
            )
            for name, e in p.get("metrics", {}).items()
        },
        replications={m: _array(v) for m, v in extra.get("replications", {}).items()},
        messages=p.get("messages", {}),
        tasks=p.get("tasks", {}),
        occupancy=_array(p.get("occupancy", ())),
        share={int(x): f for x, f in p.get("share", {}).items()},
        threshold_time={int(x): f for x, f in p.get("threshold_time", {}).items()},
        distribution={
            k: (_array(d["edges"]), _array(d["counts"]))
            for k, d in extra.get("distribution", {}).items()
        },
        path=None if not path else _path_from(path),
        unstable=p.get("unstable"),
    )


def _scenario_from(data: dict[str, Any], load: list[float] | None) -> Any:
    from equipoise.scenario import Dispatchers, Scenario

    try:
        scenario = Scenario.from_dict(data)
        scenario.offered_load()  # reads its trace, if it has one
        return scenario
    except EquipoiseError:  # its trace stayed on another machine
        return SimpleNamespace(
            name=data.get("name", ""),
            servers=SimpleNamespace(**{"count": 0, "workers": 1, **data.get("servers", {})}),
            dispatchers=Dispatchers(**data.get("dispatchers", {})),
            to_dict=lambda: data,
            offered_load=lambda: tuple(load) if load else (math.nan,) * 3,
        )
