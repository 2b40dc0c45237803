"""From the records of a policy's replications to estimates with error bars.

A replication gives one value for each metric, a ratio of sums over the rows after the warm-up; the
interval is Student's over replications. A single replication is cut into batches instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..policies.spec import PolicySpec
from ..policies.steps import ANNOUNCEMENTS, CHANGES, MESSAGES
from ..scenario import Scenario
from ..sim import run as t
from ..sim.run import STRETCHES, Record
from ..stats import Estimate, batch_means, mser5, t_interval
from ..stats.quantiles import quantile, quantile_interval
from .results import Path, PolicyResult

BATCHES = 20
Ratio = tuple[np.ndarray, np.ndarray]  # numerator and denominator, float64[R, rows] each


def warm_up_rows(scenario: Scenario, records: Sequence[Record]) -> tuple[int, bool]:
    """Return how many rows to leave out, and whether the run had settled by then.

    A given warm-up is a row of its own. By rule (MSER-5 on the mean number of tasks, averaged over
    replications) only where the traffic is stationary: of traffic that changes, all is wanted.
    """
    warm_up = scenario.run.warm_up
    if warm_up != "auto":
        return (1 if float(warm_up) > 0 else 0), True
    if not scenario.stationary:
        return 0, True
    sums = np.mean([record.sums for record in records], axis=0)
    lasted = sums[:, t.TIME] > 0
    found = mser5(sums[lasted, t.TASKS] / sums[lasted, t.TIME])
    rows = math.ceil(found.drop / STRETCHES)
    return min(rows, max(0, len(records[0].ends) - 2)), found.settled


def measure(
    scenario: Scenario,
    spec: PolicySpec,
    records: Sequence[Record],
    first: int,
    confidence: float,
) -> PolicyResult:
    """Return what a policy did, the first `first` rows of each replication left out."""
    rows = _Rows(scenario, records, first)
    metrics, replications = {}, {}
    for name, ratio in rows.ratios().items():
        estimate = _of_ratio(ratio, confidence)
        if math.isfinite(estimate.value):
            metrics[name] = estimate
            replications[name] = _per_replication(ratio)
    for name, (counts, edges, p) in rows.quantiles().items():
        if counts.sum() > 0:
            pieces = counts.sum(axis=1) if len(records) > 1 else _batched(counts[0])
            metrics[name] = quantile_interval(pieces, edges, p, confidence)
            each = counts.sum(axis=1)
            replications[name] = np.array([quantile(c, edges, p) for c in each])
    for name, values in rows.whole(spec).items():
        if values.size:
            metrics[name] = t_interval(values, confidence)
            replications[name] = values
    policy = spec.policy
    return PolicyResult(
        name=policy.name,
        label=spec.label,
        params={k: v for k, v in spec.params.items() if v is not None},
        memory_bits=policy.memory,
        cost=policy.cost,
        source=policy.source,
        metrics=metrics,
        replications=replications if len(records) > 1 else {},
        messages=rows.messages(),
        tasks=rows.tasks(),
        occupancy=rows.occupancy(),
        share=rows.share(),
        threshold_time=rows.threshold_time() if policy.learns else {},
        distribution=rows.distribution(),
        path=path_of(records[0], scenario.servers.count),
        written=spec.written,
    )


def path_of(record: Record, servers: int) -> Path:
    """Return how a replication went over time: at the end of each stretch, and row by row."""
    lasted, came = record.sums[:, t.TIME], record.sums[:, t.ARRIVALS]
    rate = np.divide(came, lasted, out=np.zeros(lasted.size), where=lasted > 0)
    cells = np.concatenate(([0.0], record.ends))
    levels = max(len(row) for row in record.area)
    held = np.zeros((len(record.area), levels - 1))
    for cell, row in zip(held, record.area, strict=True):
        cell[: len(row) - 1] = row[1:]
    spans = np.diff(cells)[:, None] * servers
    occupancy = np.divide(held, spans, out=np.zeros(held.shape), where=spans > 0)
    return Path(
        **record.path,
        total=record.path["mean"] * servers,
        rate=rate,
        cells=cells,
        occupancy=occupancy,
    )


def _of_ratio(ratio: Ratio, confidence: float) -> Estimate:
    above, below = ratio
    if above.shape[0] > 1:
        return t_interval(_per_replication(ratio), confidence)
    # the value to the last digit what it is among other replications
    value = float(_per_replication(ratio)[0])
    return replace(batch_means(above[0], below[0], BATCHES, confidence), value=value)


def _per_replication(ratio: Ratio) -> np.ndarray:
    """Return one value for each replication, float64[R]; nan where nothing was counted."""
    above, below = (part.sum(axis=1) for part in ratio)
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)


def _added(by_level: np.ndarray) -> np.ndarray:
    """Add up over levels, the last axis, one after the other.

    numpy's own sum goes in pairs: levels that another replication reached and this one did not
    would change its last digit.
    """
    if not by_level.shape[-1]:
        return np.zeros(by_level.shape[:-1])
    return np.cumsum(by_level, axis=-1)[..., -1]


def _batched(counts: np.ndarray) -> np.ndarray:
    """Add up the rows of one replication in batches: [rows, buckets] to [batches, buckets]."""
    first = np.arange(min(BATCHES, len(counts))) * len(counts) // min(BATCHES, len(counts))
    return np.add.reduceat(counts, first, axis=0)


class _Rows:
    """The rows of all replications after the warm-up, side by side."""

    def __init__(self, scenario: Scenario, records: Sequence[Record], first: int) -> None:
        self.scenario, self.records, self.first = scenario, records, first
        self.n = scenario.servers.count
        self.queue = scenario.servers.discipline != "pool"
        count = min(len(record.ends) for record in records)
        self.sums = np.zeros((len(records), count - first, t.SUMS))
        for sums, record in zip(self.sums, records, strict=True):
            kept = (record.row_of >= first) & (record.row_of < count)
            np.add.at(sums, record.row_of[kept] - first, record.sums[kept])
        self.said = np.array([record.messages[first:count] for record in records])
        self.area = self._levels([record.area[first:count] for record in records])

    @staticmethod
    def _levels(ragged: list[list[np.ndarray]]) -> np.ndarray:
        """Return float64[R, rows, levels] from rows that know different numbers of levels."""
        levels = max(len(row) for record in ragged for row in record)
        table = np.zeros((len(ragged), len(ragged[0]), levels))
        for r, record in enumerate(ragged):
            for i, row in enumerate(record):
                table[r, i, : len(row)] = row
        return table

    def column(self, name: int) -> np.ndarray:
        """Return one of the sums named in tally.py, float64[R, rows]."""
        return self.sums[:, :, name]

    def ratios(self) -> dict[str, Ratio]:
        """Return the metrics that are ratios of sums."""
        time, tasks = self.column(t.TIME), self.column(t.TASKS)
        arrivals, losses = self.column(t.ARRIVALS), self.column(t.LOSSES)
        held = self.area[:, :, 1:]  # integral of the number of servers with at least 1, 2, .. tasks
        level = np.arange(1, held.shape[2] + 1)
        exactly = held.copy()
        exactly[:, :, :-1] -= held[:, :, 1:]  # .. with exactly 1, 2, .. tasks
        by_task = exactly * level
        found = {
            "mean_tasks": (tasks, time * self.n),
            "imbalance": (self.column(t.UNEVEN), time * self.n),
            "mean_neighbours": (_added(by_task * (level - 1)), _added(by_task)),
            "utility": (_added(by_task * -np.log(level)), _added(by_task)),
            "throughput": (self.column(t.DEPARTURES), time),
            "messages_per_task": (self.said[:, :, : len(MESSAGES)].sum(axis=2), arrivals),
            "mean_response": (self.column(t.RESPONSES), self.column(t.RESPONDED)),
        }
        if self.queue:
            found["mean_wait"] = (self.column(t.WAITS), self.column(t.WAITED))
        if self.scenario.servers.discipline != "fcfs" and not self.column(t.RESPONDED).any():
            # not followed one by one: time at the servers over tasks done, for pools right from any
            # start, for slotted servers in the long run (Little's law)
            found["mean_response"] = (tasks, self.column(t.DEPARTURES))
        if self.scenario.servers.limit is not None:
            found["lost"] = (losses, arrivals)
        return found

    def histogram(self, which: str) -> np.ndarray:
        """Return tasks by "waits" or "responses", [R, rows, buckets], the buckets of `edges`."""
        tables = [getattr(record, which) for record in self.records]
        begins = [record.first_bucket[which == "responses"] for record in self.records]
        low, high = self.used(which)
        whole = np.zeros((len(tables), self.sums.shape[1], high - low), np.uint32)
        last = self.first + self.sums.shape[1]
        for out, table, begin in zip(whole, tables, begins, strict=True):
            if not table.shape[1]:
                continue
            out[:, begin - low : begin - low + table.shape[1]] = table[self.first : last]
        return whole

    def used(self, which: str) -> tuple[int, int]:
        """Return the first bucket that any record used, and the one behind the last."""
        i = int(which == "responses")
        spans = [(r.first_bucket[i], r.first_bucket[i] + getattr(r, which).shape[1])
                 for r in self.records if getattr(r, which).shape[1]]  # fmt: skip
        if not spans:
            return 0, 1
        return min(low for low, _ in spans), max(high for _, high in spans)

    def edges(self, which: str) -> np.ndarray:
        """Return the boundaries of the buckets used, s; a wait of exactly 0 is an atom at 0."""
        edges = self.records[0].edges()
        if which == "waits":
            edges[1] = 0.0
        low, high = self.used(which)
        return edges[low : high + 1]

    def quantiles(self) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
        """Return (counts [R, rows, buckets], edges s, p) of the metrics that are quantiles."""
        responses, edges = self.histogram("responses"), self.edges("responses")
        found = {"p50_response": (responses, edges, 0.5), "p99_response": (responses, edges, 0.99)}
        if self.queue:
            found["p99_wait"] = (self.histogram("waits"), self.edges("waits"), 0.99)
        return found

    def whole(self, spec: PolicySpec) -> dict[str, np.ndarray]:
        """Return the metrics that are one number a replication, float64[R]."""
        seen = self.area.sum(axis=1) > 0
        tallest = np.array([np.flatnonzero(levels).max(initial=0) for levels in seen], float)
        found = {"max_tasks": tallest, "p99_neighbours": self._p99_neighbours()}
        if spec.policy.learns:
            count = np.array([record.messages.sum(axis=0) for record in self.records], float)
            found["announcements"] = count[:, ANNOUNCEMENTS]
            found["threshold_changes"] = count[:, CHANGES]
            moved = [r.last_change for r in self.records if r.last_change is not None]
            found["last_change"] = np.array(moved)
        return found

    def _p99_neighbours(self) -> np.ndarray:
        """The least x such that 99 % of tasks, over time, have at most x others at their server."""
        held = self.area.sum(axis=1)[:, 1:]
        exactly = held - np.pad(held[:, 1:], ((0, 0), (0, 1)))
        by_task = exactly * np.arange(1, held.shape[1] + 1)
        total = by_task.sum(axis=1, keepdims=True)
        if not (total > 0).all():
            return np.zeros(0)
        reached = np.cumsum(by_task, axis=1) >= 0.99 * total * (1 - 1e-12)
        return reached.argmax(axis=1).astype(float)

    def messages(self) -> dict[str, float]:
        """Return messages per task by kind, their sum being `messages_per_task`."""
        arrivals = self.column(t.ARRIVALS)
        return {
            kind: float(np.nan_to_num(_per_replication((self.said[:, :, i], arrivals))).mean())
            for i, kind in enumerate(MESSAGES)
        }

    def tasks(self) -> dict[str, int]:
        """Return what became of all tasks, warm-up included."""
        return {
            name: sum(getattr(record, name) for record in self.records)
            for name in ("arrived", "finished", "present", "lost")
        }

    def occupancy(self) -> np.ndarray:
        """Return the fraction of servers with at least 1, 2, .. tasks, over time."""
        held = self.area.sum(axis=(0, 1))[1:] / (self.column(t.TIME).sum() * self.n)
        return np.trim_zeros(held, "b")

    def share(self) -> dict[int, float]:
        """Return the fraction of tasks, over time, that have x tasks at their server."""
        held = self.area.sum(axis=(0, 1))[1:]
        by_task = (held - np.append(held[1:], 0)) * np.arange(1, held.size + 1)
        total = by_task.sum()
        if total <= 0:
            return {}
        # integrals differ in their last digits: nobody is where nobody was
        kept = by_task > 1e-12 * total
        return {int(x) + 1: float(by_task[x] / total) for x in np.flatnonzero(kept)}

    def threshold_time(self) -> dict[int, float]:
        """Return the fraction of time at each threshold."""
        last = self.first + self.sums.shape[1]
        time = self._levels([record.thresholds[self.first : last] for record in self.records])
        held = time.sum(axis=(0, 1))
        return {int(x): float(held[x] / held.sum()) for x in np.flatnonzero(held)}

    def distribution(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return (edges s, counts) of responses and waits, used buckets only."""
        found = {}
        for name, which in (("response", "responses"), ("wait", "waits")):
            counts = self.histogram(which).sum(axis=(0, 1))
            used = np.flatnonzero(counts)
            if used.size and (self.queue or name == "response"):
                low, high = used[0], used[-1] + 1
                found[name] = (self.edges(which)[low : high + 1], counts[low:high])
        return found


__all__ = ["measure", "warm_up_rows"]
