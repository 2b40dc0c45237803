"""Which policy should stand in front of this traffic, under these limits?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import EquipoiseError, UnstableError
from ...policies import PolicySpec, resolve
from ...scenario import Scenario
from ...sim.run import pick_kernel, warnings_of
from ...stats import Estimate
from ..parallel import Meter, Progress, Workers
from ..results import HIGHER_IS_BETTER, METRICS, Comparison, PolicyResult
from ..run import Written, differences_of, versions
from ..table import plain
from ..traffic import traffic_of
from .answer import ADVISED, CURRENT, Advice, Entry
from .candidates import OVER, Candidate, Excluded, Limits, candidates_of, retuned, unstable
from .changes import RIVALS, changes_of
from .fleet import Fleet, Goal, as_it_is, best_fleet, same_role, smallest_fleet
from .race import MATTERS, OPEN, SAME, WORSE, Race, Runner, Standing, Verdict, fitted

BUDGET = 100_000_000  # tasks simulated: 10 to 60 s on two cores, once all is compiled
EVENTS_MOST = 20_000  # servers up to which all policies meet the same tasks
FIGURES = 6  # policies in the figures


def advise(
    what: Scenario | str | os.PathLike[str],
    *,
    messages_per_task: float | None = None,
    memory: float | None = None,
    sees: str | Iterable[str] | None = None,
    stable_to: float | None = None,
    current: Written | None = None,
    goal: str | Goal | None = None,
    policies: Iterable[Written] | None = None,
    rank_by: str | None = None,
    budget: float = BUDGET,
    matters: float = MATTERS,
    confidence: float = 0.95,
    seed: int | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    command: str = "",
    **log: Any,
) -> Advice:
    """Run the policies that the limits allow until it is decided which is best, and say so.

    All meet the same tasks. What surely does worse is dropped, the others run on, until none is
    open or the budget is spent. Among those that differ by less than matters the one with the
    fewest messages is advised, then the one with the least memory, then the one whose servers need
    not be told anything, then the one used now. Ctrl-C ends it at once: from the first round on
    what is known by then is the answer.

    Parameters
    ----------
    what
        A scenario, or a file: a scenario's TOML, or a log whose tasks are replayed (`traffic_of`).
    messages_per_task
        At most so many, >= 0, all kinds together; kept up to 2 %, since they are measured.
    memory
        At most so many bits per server at the dispatcher, >= 0.
    sees
        What the dispatcher can observe, of "messages" (what servers tell of their own accord),
        "answers" (what they answer when asked), "speeds" and "sizes"; all but sizes if left out.
    stable_to
        The load that must be carried, as a multiple of the mean load, e.g. 1.2.
    current
        The policy used now, to be compared with; it need not keep the limits.
    goal
        Such as "p99_response=0.2": find the smallest fleet that reaches it.
    policies
        The candidates, in place of those proposed by themselves.
    rank_by
        The metric that decides: `imbalance` for pools, `mean_wait` for equal fcfs servers and
        `mean_response` for others, or that of the goal, if left out.
    budget
        Tasks to simulate in all, > 0. Seconds are not counted, so that the answer depends on the
        seed alone.
    matters
        Differences below this fraction do not matter: for waits of the response time, for imbalance
        of what dispatching at random leaves (0.4 times the root of the tasks per server), else of
        the metric itself.
    confidence
        That all intervals of the race hold together, in (0, 1).
    seed
        In place of the scenario's.
    progress, workers, command
        As `compare`.
    log
        How to read a log, as `traffic_of`: `servers`, `discipline`, `service`, `format`, ...

    Raises
    ------
    EquipoiseError
        If no policy keeps the limits (a line for each limit, and whom it excludes), or as
        `compare`.

    Examples
    --------
    >>> s = Scenario.simple(servers=100, load=0.7)
    >>> advise(s, messages_per_task=0.4).advised  # doctest: +SKIP
    'sujsq-det(delta=0.774767, idle_only=true)'
    """
    limits = Limits.asked(messages_per_task, memory, sees, stable_to)
    wanted = Goal.read(goal) if isinstance(goal, str) else goal
    _check(budget, matters, confidence)
    notes: list[str] = []
    if isinstance(what, Scenario):
        scenario = what
    else:
        traffic = traffic_of(what, **log)
        scenario, notes = traffic.scenario, list(traffic.notes)
    if scenario.servers.discipline == "slotted":
        raise EquipoiseError("advice is given in continuous time; slotted servers have none")
    if seed is not None:
        scenario = scenario.with_run(seed=seed)
    metric = _metric(scenario, rank_by, wanted)
    candidates, excluded = candidates_of(scenario, limits, policies)
    if not candidates:
        raise _nobody(limits, excluded)
    now = resolve(current) if current is not None else None
    job = _Job(scenario, limits, candidates, excluded, now, metric, budget, matters)
    job.notes = notes
    return job.run(wanted, confidence, progress, workers, command)


def _check(budget: float, matters: float, confidence: float) -> None:
    if not (budget > 0 and math.isfinite(budget)):
        raise EquipoiseError(f"budget = {budget:g}: must be a number of tasks, e.g. 100e6")
    if not 0 < matters < 1:
        raise EquipoiseError(f"matters = {matters:g}: must be a fraction, e.g. 0.01 for 1 %")
    if not 0 < confidence < 1:
        raise EquipoiseError(f"confidence = {confidence} must lie between 0 and 1, e.g. 0.95")


def _metric(scenario: Scenario, rank_by: str | None, goal: Goal | None) -> str:
    servers = scenario.servers
    name = rank_by or (goal.metric if goal is not None else None)
    if name is None:
        if servers.discipline == "pool":
            return "imbalance"
        return (
            "mean_wait" if servers.discipline == "fcfs" and servers.identical else "mean_response"
        )
    if name not in METRICS:
        raise EquipoiseError(f"no metric is called '{name}'; they are: {', '.join(METRICS)}")
    return name


def _nobody(limits: Limits, excluded: Sequence[Excluded]) -> EquipoiseError:
    """Say which limit excludes whom, a line for each limit."""
    by_limit: dict[str, list[Excluded]] = {}
    for one in excluded:
        by_limit.setdefault(one.limit, []).append(one)
    names = {
        "messages": f"messages_per_task = {limits.messages:g}"
        if limits.messages is not None
        else "",
        "memory": f"memory = {limits.memory:g}" if limits.memory is not None else "",
        "sees": f"sees = {', '.join(sorted(limits.sees)) or 'nothing'}",
        "stability": f"stable_to = {limits.stable_to:g}" if limits.stable_to else "the load",
        "scenario": "the scenario",
    }
    lines = ["no policy keeps all limits"]
    for limit, those in by_limit.items():
        reasons: dict[str, list[str]] = {}
        for one in those:
            reasons.setdefault(one.reason, []).append(one.label)
        told = "; ".join(f"{', '.join(labels)} ({why})" for why, labels in reasons.items())
        lines.append(f"{names[limit]} excludes {told}")
    kind = UnstableError if set(by_limit) == {"stability"} else EquipoiseError
    return kind("\n".join(lines))


class _Job:
    """One piece of advice in the making."""

    def __init__(
        self,
        scenario: Scenario,
        limits: Limits,
        candidates: list[Candidate],
        excluded: list[Excluded],
        now: PolicySpec | None,
        metric: str,
        budget: float,
        matters: float,
    ) -> None:
        self.asked, self.limits, self.metric = scenario, limits, metric
        self.candidates, self.excluded = candidates, excluded
        self.now, self.budget, self.matters = now, budget, matters
        self.notes: list[str] = []
        self.over: dict[str, PolicySpec] = {}  # simulated, but above the limit of messages

    def run(
        self,
        goal: Goal | None,
        confidence: float,
        progress: Progress | None,
        workers: int | None,
        command: str,
    ) -> Advice:
        """Race, choose, try what would change the answer, look for the fleet."""
        self.scenario, notes = fitted(self.asked, self._count(), self.budget)
        self.notes += notes
        team, meter = Workers.asked(workers), Meter(progress)
        if team.note:
            self.notes.append(team.note)
        self.runner = Runner(self.scenario, self.metric, self._kernel(), team, meter, confidence)
        self.race = Race(self.runner, self.budget, self.matters)
        self._first_round()
        standing = self.race.run([one.spec for one in self.candidates])
        advised = self._choose(standing)
        rivals = self._rivals(advised, standing)
        changes = (
            ()
            if self.runner.interrupted
            else tuple(
                changes_of(
                    self.runner, advised.spec, rivals, budget=self.budget, matters=self.matters
                )
            )
        )
        fleet = fleet_now = None
        if goal is not None and not self.runner.interrupted:
            fleet, fleet_now = self._fleets(goal, advised, rivals)
        entries = self._entries(advised.spec, standing)
        self.notes += warnings_of(self.scenario, advised.spec)
        if self.runner.interrupted:
            self.notes.append("Interrupted: this is what was known by then.")
        return Advice(
            scenario=self.asked,
            metric=self.metric,
            limits=self.limits,
            entries=tuple(entries),
            excluded=tuple(self.excluded),
            standing=standing,
            advised=advised.label,
            current=self.now.label if self.now is not None else None,
            changes=changes,
            fleet=fleet,
            fleet_now=fleet_now,
            comparison=self._comparison(entries, command),
            confidence=confidence,
            matters=self.matters,
            budget=self.budget,
            spent=self.runner.spent,
            seed=self.scenario.run.seed,
            version=versions()["equipoise"],
            command=command,
            notes=tuple(dict.fromkeys(self.notes)),
            interrupted=self.runner.interrupted,
        )

    def _count(self) -> int:
        extra = self.now is not None and self.now.label not in {c.label for c in self.candidates}
        return len(self.candidates) + extra

    def _kernel(self) -> str:
        specs = [one.spec for one in self.candidates] + ([self.now] if self.now else [])
        many = self.scenario.servers.count > EVENTS_MOST
        return pick_kernel(self.scenario, "auto" if many else "events", specs)

    def _first_round(self) -> None:
        """Run everybody, what is used now too; hold the messages measured against the limit."""
        specs = [one.spec for one in self.candidates]
        if self.now is not None and self.now.label not in {one.label for one in specs}:
            reason = unstable(self.scenario, self.now, None)
            if reason is not None:
                if self.now.label not in {one.label for one in self.excluded}:
                    self.excluded.append(Excluded(self.now.label, "stability", reason))
                self.notes.append(f"{self.now.label} (now) cannot be compared with: {reason}.")
                self.now = None
            else:
                self.now.check(self.scenario.servers.count)
                specs.append(self.now)
        self.runner.meter.planned = float(len(specs) * 8)
        count = self.race.first_round(specs)
        self.runner.meter.planned = float(len(specs) * count)
        if self.limits.messages is None:
            return
        for _ in range(2):  # twice: what is left over the second time is not worth a third
            again = self._too_talkative()
            if not again or self.runner.interrupted:
                break
            self.runner.meter.planned += len(again) * count
            self.runner.add([one.spec for one in again], count)
            self.candidates += again
        self._too_talkative()
        if not self.candidates:
            raise _nobody(self.limits, self.excluded)

    def _too_talkative(self) -> list[Candidate]:
        """Take out who sends more than allowed; return those that can be made to send less."""
        assert self.limits.messages is not None
        kept, again = [], []
        for one in self.candidates:
            sent = self.runner.result(one.spec).metrics["messages_per_task"]
            error = 0.0 if math.isnan(sent.error) else sent.error
            if sent.value - error <= OVER * self.limits.messages:
                kept.append(one)
                continue
            less = retuned(one, sent.value, self.limits)
            if less is not None and less.label not in self.over:
                again.append(less)
            many = plain(sent.value, 3)
            reason = f"{many} message{'s' * (many != '1')} per task, measured"
            self.excluded.append(Excluded(one.label, "messages", reason))
            self.over[one.label] = one.spec
        self.candidates = kept
        return again

    def _choose(self, standing: Standing) -> Candidate:
        """Return the cheapest of those that are as good as the leader."""
        equal = [
            one
            for one in self.candidates
            if one.label == standing.leader.label or one.label in standing.of_kind(SAME)
        ]
        least = min(self._messages(one) for one in equal)

        def cost(one: Candidate) -> tuple[Any, ...]:
            policy = one.spec.policy
            more = self._messages(one) > OVER * least + 0.005
            values = self.runner.values(one.spec)
            sent = self._messages(one) if more else 0.0
            used = self.now is not None and one.label == self.now.label
            mean = float(values.mean())
            return more, sent, policy.memory, policy.announces, not used, mean, one.label

        return min(equal, key=cost)

    def _messages(self, one: Candidate) -> float:
        return self.runner.result(one.spec).metrics["messages_per_task"].value

    def _rivals(self, advised: Candidate, standing: Standing) -> list[PolicySpec]:
        """Return whom the advised policy meets when something changes.

        The nearest of those that tie, of those not decided and of the worse, one that learns and
        one that needs no news: those are what a change of load or of delay may bring up.
        """
        order = [*standing.of_kind(OPEN), *standing.of_kind(SAME), *standing.of_kind(WORSE)]
        labels = [standing.leader.label, *order]
        specs = {one.label: one.spec for one in self.candidates}
        near = [specs[label] for label in labels if label in specs and label != advised.label]
        kinds = [
            next((one for one in near if one.policy.learns), None),
            next((one for one in near if _without_news(one)), None),
        ]
        chosen = [one for one in kinds if one is not None]
        for one in near:
            if len(chosen) >= RIVALS:
                break
            if one not in chosen:
                chosen.append(one)
        return chosen[:RIVALS]

    def _fleets(
        self, goal: Goal, advised: Candidate, rivals: Sequence[PolicySpec]
    ) -> tuple[Fleet, Fleet | None]:
        """Return the smallest fleets under the policies advised, and under what is used now."""
        roles = {one.label: one for one in self.candidates}
        makes = [same_role(advised, self.limits)]
        makes += [same_role(roles[one.label], self.limits) for one in rivals]
        best = best_fleet(self.runner, goal, makes)
        now = None
        if self.now is not None and not self.runner.interrupted:
            now = smallest_fleet(self.runner, goal, as_it_is(self.now))
        return best, now

    def _entries(self, advised: PolicySpec, standing: Standing) -> list[Entry]:
        specs = {one.label: one.spec for one in self.candidates} | self.over
        if self.now is not None:
            specs.setdefault(self.now.label, self.now)
        entries = []
        for label, one in specs.items():
            if label == advised.label:
                kind = ADVISED
            elif label in self.over:
                kind = "messages"
            elif label == standing.leader.label:
                kind = SAME
            elif label in standing.verdicts:
                kind = standing.verdicts[label].kind
            else:
                kind = CURRENT
            against = None
            if label != advised.label:
                against = self.runner.pair(one, advised, self.runner.confidence)
            records = len(self.runner.records[label])
            entries.append(Entry(one, self.runner.result(one), kind, records, against))
        sign = -1 if self.metric in HIGHER_IS_BETTER else 1
        entries.sort(key=lambda e: (sign * e.result.metrics[self.metric].value, e.label))
        return entries

    def _comparison(self, entries: Sequence[Entry], command: str) -> Comparison:
        """Return the policies of the figures side by side, on the replications all have."""
        order = {ADVISED: 0, CURRENT: 1, SAME: 2, OPEN: 2, WORSE: 3, "messages": 4}
        now = self.now.label if self.now is not None else None
        ranked = sorted(
            range(len(entries)),
            key=lambda i: (order[entries[i].standing] - (entries[i].label == now), i),
        )
        chosen = [entries[i] for i in sorted(ranked[:FIGURES])]
        common = min(e.replications for e in chosen)
        results: list[PolicyResult] = [self.runner.result(e.spec, common) for e in chosen]
        sign = -1 if self.metric in HIGHER_IS_BETTER else 1
        results.sort(key=lambda r: sign * r.metrics[self.metric].value)
        records = [r for e in chosen for r in self.runner.records[e.label][:common]]
        first = self.runner.first or 0
        return Comparison(
            scenario=self.scenario.with_run(replications=common),
            seed=self.scenario.run.seed,
            version=versions()["equipoise"],
            versions=versions(),
            kernel=self.runner.kernel,
            confidence=self.runner.confidence,
            rank_by=self.metric,
            policies=tuple(results),
            differences=tuple(differences_of(results, self.metric, self.runner.confidence)),
            replications=common,
            warm_up=float(sum(r.ends[first - 1] for r in records) / len(records)) if first else 0.0,
            given=self.scenario.given,
            events=sum(r.events for r in records),
            seconds=sum(r.seconds for r in records),
            command=command,
            offered=self.scenario.load_table(),
            numbers=tuple(range(common)),
            left_out=first / len(records[0].ends),
        )


def _without_news(one: PolicySpec) -> bool:
    """Whether a policy hears nothing and asks nothing."""
    from .candidates import tells

    return not tells(one) and not one.policy.probes


__all__ = ["Advice", "Estimate", "Goal", "Limits", "Verdict", "advise"]
