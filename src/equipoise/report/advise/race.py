"""Running the candidates until it is decided which is best, or the budget is spent.

Every candidate meets the same tasks in replication r (the events kernel), so differences are
paired. After a round each candidate is held against the one that leads:

    worse   surely more than the leader, and by more than what matters (the margin)
    same    surely less than the margin above the leader
    open    neither yet

What is worse is dropped; the others are run twice as often, until none is open or the budget has
no room for another round (successive halving, after Jamieson and Talwalkar (2016), Non-stochastic
best arm identification and hyperparameter optimization, AISTATS). "Surely" is Student's interval
of the paired differences, Bonferroni's correction over all pairs of candidates and all looks: with
probability `confidence` not one of the intervals of the race misses, whoever leads when. The margin
is the indifference zone of ranking and selection (Bechhofer (1954), Ann. Math. Statist. 25(1)).

The budget counts simulated tasks and not seconds, and looks are taken between whole rounds only:
the answer depends on the seed and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import EquipoiseError
from ...policies import PolicySpec
from ...scenario import Scenario
from ...sim.run import Record
from ...stats import Estimate, paired, student
from ..measure import measure, warm_up_rows
from ..parallel import Meter, Workers, run_jobs
from ..precise import expected_tasks
from ..results import HIGHER_IS_BETTER, PolicyResult

FIRST, LEAST = 8, 4  # replications of the first round; the fewest where runs are long
MOST = 256  # replications of a candidate
LOOKS = 1 + math.ceil(math.log2(MOST / LEAST))  # rounds there can be
SHARE = 0.6  # of the budget for the race; the rest is for what would change the answer
FIRST_SHARE = 0.5  # of the budget for the first round, at most
OPEN_TASKS, PER_SERVER = 20_000, 100  # of a replication whose length the scenario leaves open
MATTERS = 0.01  # the margin, as a fraction of what REFERENCE names
# A wait of a thousandth of the service time is ten times one of a ten-thousandth, and nobody minds:
# what matters is measured against what the task takes in all.
REFERENCE = {"mean_wait": "mean_response", "p99_wait": "p99_response", "lost": ""}
SCATTER = 0.4  # imbalance over the root of the tasks per server when tasks are strewn at random
WORSE, SAME, OPEN = "worse", "same", "open"


@dataclass
class Runner:
    """Replications of policies on one scenario, kept by policy and number."""

    scenario: Scenario
    metric: str
    kernel: str
    workers: Workers
    meter: Meter
    confidence: float
    records: dict[str, list[Record]] = field(default_factory=dict)
    first: int | None = None  # rows left out at the start, the same for all
    spent: float = 0.0  # tasks
    interrupted: bool = False

    def add(self, specs: Sequence[PolicySpec], count: int) -> None:
        """Run until every one of these policies has `count` replications.

        After Ctrl-C only what is whole for all of them is kept, and `interrupted` is set; it is
        raised where that is not enough for an interval.
        """
        jobs = [
            (p, r)
            for r in range(count)
            for p, one in enumerate(specs)
            if r >= len(self.records.get(one.label, ()))
        ]
        found, self.interrupted = run_jobs(
            self.scenario, specs, jobs, kernel=self.kernel, workers=self.workers, meter=self.meter
        )
        whole = count
        for p, one in enumerate(specs):
            have = len(self.records.get(one.label, ()))
            new = [r for r in range(have, count) if (p, r) in found]
            whole = min(whole, have + sum(r == have + i for i, r in enumerate(new)))
        if whole < 2 and self.interrupted:
            raise KeyboardInterrupt
        for p, one in enumerate(specs):
            mine = self.records.setdefault(one.label, [])
            mine += [found[p, r] for r in range(len(mine), whole)]
        self.spent += sum(record.arrived for record in found.values())
        if self.first is None:
            each = [self.records[one.label] for one in specs]
            self.first = max(warm_up_rows(self.scenario, records)[0] for records in each)

    def result(self, one: PolicySpec, replications: int | None = None) -> PolicyResult:
        """Return what a policy did, in its first `replications` or all."""
        records = self.records[one.label][:replications]
        return measure(self.scenario, one, records, self.first or 0, self.confidence)

    def values(self, one: PolicySpec, replications: int | None = None) -> np.ndarray:
        """Return the metric in each replication, float64[R], turned so that less is better."""
        found = self.result(one, replications).replications.get(self.metric)
        if found is None or found.size == 0:
            known = ", ".join(self.result(one).metrics)
            raise EquipoiseError(f"'{self.metric}' was not measured here; measured were: {known}")
        return -found if self.metric in HIGHER_IS_BETTER else found

    def pair(
        self, a: PolicySpec, b: PolicySpec, confidence: float, metric: str | None = None
    ) -> Estimate:
        """Return a's metric minus b's, paired over the replications that both have."""
        metric = metric or self.metric
        common = min(len(self.records[a.label]), len(self.records[b.label]))
        first, second = (self.result(one, common).replications.get(metric) for one in (a, b))
        if first is None or second is None or first.size != second.size or not first.size:
            return Estimate(math.nan, math.nan, confidence)
        return paired(first, second, confidence)

    def margin(self, one: PolicySpec, matters: float) -> float:
        """Return the difference that matters, in the unit of the metric, seen from a policy."""
        metrics = self.result(one).metrics
        if self.metric == "imbalance":  # of a Poisson law: half its mean deviation, sqrt(2/pi)/2
            return matters * SCATTER * math.sqrt(metrics["mean_tasks"].value)
        reference = REFERENCE.get(self.metric, self.metric)
        if not reference or reference not in metrics:
            return matters
        return matters * abs(metrics[reference].value)


@dataclass(frozen=True)
class Verdict:
    """One candidate against the leader."""

    label: str
    kind: str  # WORSE, SAME or OPEN
    difference: Estimate  # above the leader, less being better; the interval is simultaneous


@dataclass(frozen=True)
class Standing:
    """How the race ended."""

    leader: PolicySpec
    verdicts: Mapping[str, Verdict]  # of the others, by label; those dropped as they were dropped
    margin: float
    replications: Mapping[str, int]
    decided: bool

    def of_kind(self, kind: str) -> list[str]:
        """Return the labels with this verdict, the nearest to the leader first."""
        found = [v for v in self.verdicts.values() if v.kind == kind]
        return [v.label for v in sorted(found, key=lambda v: (v.difference.value, v.label))]


def verdict(
    label: str, values: np.ndarray, leader: np.ndarray, margin: float, chance: float
) -> Verdict:
    """Return what the paired differences say, at an error of `chance` for this test."""
    difference = values - leader
    value, count = float(difference.mean()), difference.size
    deviation = float(difference.std(ddof=1))
    half = student(count - 1, 1 - chance) * deviation / math.sqrt(count)
    if value - half > 0 and value > margin:
        kind = WORSE
    elif value + half < margin or (value == 0 and half == 0):
        kind = SAME
    else:
        kind = OPEN
    return Verdict(label, kind, Estimate(value, half, 1 - chance))


@dataclass
class Race:
    """The candidates that are left, and what is known of those that are not."""

    runner: Runner
    budget: float  # tasks
    matters: float
    dropped: dict[str, Verdict] = field(default_factory=dict)

    def first_round(self, specs: Sequence[PolicySpec]) -> int:
        """Run the first round; return how many replications it had."""
        count = first_replications(self.runner.scenario, len(specs), self.budget)
        self.runner.add(specs, count)
        return count

    def run(self, specs: Sequence[PolicySpec]) -> Standing:
        """Go on until nothing is open, from candidates that have had their first round."""
        left = list(specs)
        pairs = max(1, len(specs) * (len(specs) - 1) // 2)
        chance = (1 - self.runner.confidence) / (pairs * LOOKS)
        each = max(1.0, expected_tasks(self.runner.scenario))
        while True:
            standing = self._look(left, chance)
            left = [one for one in left if one.label not in self.dropped]
            count = standing.replications[standing.leader.label]
            more = min(2 * count, MOST)
            room = SHARE * self.budget - self.runner.spent
            if standing.decided or self.runner.interrupted or more <= count:
                return standing
            if (more - count) * len(left) * each > room:
                return standing
            self.runner.meter.planned += len(left) * (more - count)
            self.runner.add(left, more)

    def _look(self, left: Sequence[PolicySpec], chance: float) -> Standing:
        values = {one.label: self.runner.values(one) for one in left}
        leader = min(left, key=lambda one: (float(values[one.label].mean()), one.label))
        margin = self.runner.margin(leader, self.matters)
        verdicts = dict(self.dropped)
        for one in left:
            if one is not leader:
                found = verdict(one.label, values[one.label], values[leader.label], margin, chance)
                verdicts[one.label] = found
                if found.kind == WORSE:
                    self.dropped[one.label] = found
        counts = {label: len(records) for label, records in self.runner.records.items()}
        decided = not any(v.kind == OPEN for v in verdicts.values())
        return Standing(leader, verdicts, margin, counts, decided)


def first_replications(scenario: Scenario, candidates: int, budget: float) -> int:
    """Return how many replications of each candidate the first round has."""
    room = FIRST_SHARE * budget / max(1.0, candidates * expected_tasks(scenario))
    return int(min(FIRST, max(LEAST, room)))


def fitted(scenario: Scenario, candidates: int, budget: float) -> tuple[Scenario, list[str]]:
    """Return the scenario with runs so long that the first round fits the budget, and notes.

    A length that the scenario gives stays where there is room for it.
    """
    notes: list[str] = []
    room = FIRST_SHARE * budget / (LEAST * max(1, candidates))  # tasks of a replication
    if not scenario._own_length:
        least = max(OPEN_TASKS, PER_SERVER * scenario.servers.count)
        usual = SHARE * budget / (4 * FIRST * max(1, candidates))
        tasks = int(min(max(least, usual), room, float(scenario.run.tasks or room)))
        scenario = scenario.with_run(tasks=max(tasks, 100))
    each = expected_tasks(scenario)
    if each > room:
        if scenario.horizon is None:
            scenario = scenario.with_run(tasks=int(room))
        else:
            shorter = float(f"{scenario.horizon * room / each:.3g}")
            notes.append(
                f"Only the first {shorter:g} s of {scenario.horizon:.4g} s are simulated, as the "
                f"budget is {budget:.3g} tasks in all; --budget gives more."
            )
            scenario = scenario.with_run(duration=shorter)
    start = scenario._run_as_given().get("start")
    if start is None and scenario.stationary:
        scenario = scenario.with_run(start="balanced")  # so that little has to be left out
    return scenario, notes
