"""Run until a wanted precision is reached, or the budget is spent.

Replications of one length are added, a round at a time, by the rule of stats/precision.py, until
the interval of the metric is narrow enough for every policy. Decisions are taken between rounds,
from whole rounds only, so the answer depends on the seed and on nothing else.

Where the scenario leaves the length of a replication open, it begins short and is lengthened, all
replications anew, while the run has not settled in half of it, or while more than `FEW` times the
first round would be needed: what is left of the start, and the skewness of a mean, fall with the
length and not with the number of replications. What is thrown away is at most a quarter of what
is kept, or half where a run had not settled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import EquipoiseError, ScenarioError
from ..policies import PolicySpec
from ..scenario import Scenario
from ..sim.run import Record
from ..stats import needed, next_round, relative_error
from ..stats.precision import LEAST
from .measure import measure, warm_up_rows
from .parallel import Meter, Workers, run_jobs

FEW = 4  # times the first round: beyond, longer replications instead of more
LONGER = 16  # times as long at once, at most
MOST = 512  # replications, each with some 400 kB of histograms
FIRST_TASKS, FIRST_PER_SERVER = 20_000, 20  # of a replication whose length is left open
BUDGET, BUDGET_PER_SERVER = 10**9, 10**4  # tasks, in all replications of a policy


@dataclass(frozen=True)
class Ran:
    """What was run: the scenario with its length, records by policy and replication."""

    scenario: Scenario
    numbers: tuple[int, ...]  # of the replications, ascending
    records: list[list[Record]]  # [policy][replication]
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def keep_finished(
    records: dict[tuple[int, int], Record], policies: int
) -> tuple[tuple[int, ...], list[list[Record]]]:
    """Return the replications that are finished for all policies, and their records."""
    numbers = sorted({r for _, r in records})
    numbers = [r for r in numbers if all((p, r) in records for p in range(policies))]
    return tuple(numbers), [[records[p, r] for r in numbers] for p in range(policies)]


def run_until_precise(
    scenario: Scenario,
    specs: Sequence[PolicySpec],
    *,
    metric: str,
    kernel: str,
    confidence: float,
    workers: Workers,
    meter: Meter,
) -> Ran:
    """Run replications of the policies until `scenario.run.precision` is reached.

    Raises
    ------
    EquipoiseError
        If the metric is not measured here, or the budget has no room for two replications.
    """
    search = _Search(scenario, specs, metric, kernel, confidence, workers, meter)
    return search.run()


class _Search:
    """The state of the search: the length, the replications so far, the tasks spent."""

    def __init__(
        self,
        scenario: Scenario,
        specs: Sequence[PolicySpec],
        metric: str,
        kernel: str,
        confidence: float,
        workers: Workers,
        meter: Meter,
    ) -> None:
        run, servers = scenario.run, scenario.servers.count
        assert run.precision is not None
        self.wanted, self.metric, self.confidence = run.precision, metric, confidence
        self.specs, self.kernel, self.workers, self.meter = specs, kernel, workers, meter
        self.budget = run.budget or max(BUDGET, BUDGET_PER_SERVER * servers)
        self.round = max(LEAST, run.replications)
        self.open = not scenario._own_length  # we choose the length of a replication
        self.scenario = scenario
        self.spent = 0.0  # tasks, of each policy, on replications that were thrown away
        self.records: dict[tuple[int, int], Record] = {}
        self.interrupted = False
        if self.open:
            self.scenario = scenario.with_run(tasks=self._first_length())
        self.each = expected_tasks(self.scenario)  # tasks in a replication

    def _first_length(self) -> int:
        tasks = max(FIRST_TASKS, FIRST_PER_SERVER * self.scenario.servers.count)
        warm_up = self.scenario.run.warm_up
        if warm_up != "auto":  # and ten times as long to measure
            rate = float(self.scenario.rate_table()[1][0])
            tasks = max(tasks, math.ceil(11 * float(warm_up) * rate))
        return max(1, min(tasks, self.budget // self.round))

    def run(self) -> Ran:
        """Run rounds until the precision is reached, the budget spent, or Ctrl-C."""
        count = self._affordable(self.round)
        if count < 2:
            raise ScenarioError(
                f"run.budget = {self.budget}: not enough for two replications of "
                f"{self.each:.0f} tasks; give more, or take shorter ones"
            )
        self.meter.planned = len(self.specs) * count
        while True:
            self._add(count)
            if self.interrupted:
                return self._end(*self._look())
            reached, settled = self._look()
            if self.open and self._lengthen(reached, settled):
                count = self._affordable(self.round)
                continue
            more = next_round(reached, self.wanted, count, min(MOST, self._affordable(MOST)))
            if more == count:
                return self._end(reached, settled)
            self._foresee(reached, more)
            count = more

    def _affordable(self, count: int) -> int:
        """Return how many replications of the present length, at most, the budget has room for."""
        return min(count, int((self.budget - self.spent) // max(self.each, 1.0)))

    def _add(self, count: int) -> None:
        """Run replications until there are `count`."""
        have = len(self.records) // len(self.specs)
        jobs = [(p, r) for r in range(have, count) for p in range(len(self.specs))]
        new, self.interrupted = run_jobs(
            self.scenario, self.specs, jobs,
            kernel=self.kernel, workers=self.workers, meter=self.meter,
        )  # fmt: skip
        self.records |= new
        if self.interrupted and not keep_finished(self.records, len(self.specs))[0]:
            raise KeyboardInterrupt

    def _look(self) -> tuple[float, bool]:
        """Return the relative error of the least precise policy, and whether all had settled."""
        _, records = keep_finished(self.records, len(self.specs))
        found = [warm_up_rows(self.scenario, each) for each in records]
        first = max(rows for rows, _ in found)
        self.each = float(np.mean([r.arrived for each in records for r in each]))
        metrics = [
            measure(self.scenario, spec, each, first, self.confidence).metrics
            for spec, each in zip(self.specs, records, strict=True)
        ]
        errors = [relative_error(m[self.metric]) for m in metrics if self.metric in m]
        if not errors:
            raise EquipoiseError(
                f"the precision of '{self.metric}' was asked for, but it was not measured here; "
                f"measured were: {', '.join(metrics[0])}"
            )
        reached = max(errors)
        self.meter.remark = f" (+- {100 * reached:.2g} %, wanted {100 * self.wanted:g} %)"
        return reached, all(settled for _, settled in found)

    def _lengthen(self, reached: float, settled: bool) -> bool:
        """Begin anew with longer replications where that is better and the budget has room."""
        need = needed(reached, self.wanted, len(self.records) // len(self.specs))
        if settled and need <= FEW * self.round:
            return False
        times = min(LONGER, max(2, need / (2 * self.round))) if settled else FEW
        tasks = self.scenario.run.tasks
        assert tasks is not None
        room = (self.budget - self.spent) / len(self.records) * len(self.specs) - tasks
        times = min(times, room / tasks)
        if times < 2:
            return False
        self.spent += tasks * len(self.records) / len(self.specs)
        self.scenario = self.scenario.with_run(tasks=int(times * tasks))
        self.each *= times
        self.meter.done, self.meter.planned = 0.0, float(len(self.specs) * self.round)
        self.records = {}
        return True

    def _foresee(self, reached: float, more: int) -> None:
        """Tell the bar how much there is to do, by what was seen."""
        need = needed(reached, self.wanted, len(self.records) // len(self.specs))
        most = min(MOST, self._affordable(MOST))
        self.meter.planned = len(self.specs) * min(max(need, more), most)

    def _end(self, reached: float, settled: bool) -> Ran:
        numbers, records = keep_finished(self.records, len(self.specs))
        notes = []
        length = (
            f"{self.scenario.run.tasks} tasks"
            if self.scenario.run.tasks is not None
            else f"{self.scenario.horizon:g} s"
        )
        if reached <= self.wanted:
            notes.append(
                f"{self.metric} was wanted to {100 * self.wanted:g} %: {len(numbers)} replications "
                f"of {length} each."
            )
        elif not self.interrupted:
            notes.append(self._missed(reached, len(numbers), length))
        scenario = self.scenario.with_run(replications=len(numbers))
        return Ran(scenario, numbers, records, self.interrupted, tuple(notes))

    def _missed(self, reached: float, count: int, length: str) -> str:
        """Say that the precision was not reached, what was, and what would do."""
        told = (
            f"{self.metric} was wanted to {100 * self.wanted:g} %, but is known to "
            f"{100 * reached:.2g} % only, after {count} replications of {length}"
        )
        if not math.isfinite(reached):
            return f"{told.partition(', but')[0]}, but a relative error of it does not exist."
        need = needed(reached, self.wanted, count)
        if count >= MOST:
            return f"{told}: more are not kept; take replications {need / count:.2g} times as long."
        tasks = float(f"{1.1 * need * self.each + self.spent:.1e}")
        return f"{told}, all that budget = {self.budget} allows; about {tasks:.0f} would do."


def expected_tasks(scenario: Scenario) -> float:
    """Return how many tasks a replication has, from what is offered."""
    if scenario.run.tasks is not None:
        return float(scenario.run.tasks)
    starts, rates = scenario.rate_table()
    end = min(scenario.horizon or np.inf, scenario.traffic_end)
    ends = np.minimum(np.append(starts[1:], end), end)
    return float((rates * np.maximum(ends - starts, 0.0)).sum())
