"""The advice: what to use, against what, at which cost, how sure, and what would change it.

`rows` puts it into words, a label and a text each; the terminal and the page show the same rows.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import EquipoiseError
from ...policies import PolicySpec
from ...scenario import Scenario
from ...stats import Estimate
from ..files import write_atomic
from ..results import HIGHER_IS_BETTER, METRICS, Comparison, PolicyResult
from ..table import bits, plain, pm, time_unit
from .candidates import Excluded, Limits
from .changes import Change
from .configure import configuration, settings_of
from .fleet import Fleet
from .race import OPEN, SAME, WORSE, Standing

WIDTH = 100
LABEL = 13  # columns of the label of a row
ADVISED, CURRENT = "advised", "now"
HARDLY = 300  # times the budget: beyond, what would decide is not worth it


@dataclass(frozen=True)
class Entry:
    """One policy that was simulated, in the order of the metric."""

    spec: PolicySpec
    result: PolicyResult
    standing: str  # ADVISED, "same", "open", "worse", "messages" (over the limit) or CURRENT
    replications: int
    against: Estimate | None = None  # its metric minus that of the advised policy, paired

    @property
    def label(self) -> str:
        """The policy with its parameters."""
        return self.spec.label


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """Which policy to use in front of this traffic, with the evidence.

    `print(advice)` says it in a few lines, `advice.save("advised.toml")` writes the configuration,
    `advice.page("advice.html")` the evidence, `advice.to_json()` is for other programs.
    """

    scenario: Scenario
    metric: str  # what was compared
    limits: Limits
    entries: tuple[Entry, ...]  # everything simulated, the best first
    excluded: tuple[Excluded, ...]
    standing: Standing
    advised: str  # label
    current: str | None  # label of what is used now
    changes: tuple[Change, ...]
    fleet: Fleet | None  # the smallest fleet for a goal, under the policy advised for it
    fleet_now: Fleet | None  # under what is used now
    comparison: Comparison  # the policies of the figures, on their common replications
    confidence: float
    matters: float  # the fraction that counts as a difference
    budget: float  # tasks
    spent: float  # tasks
    seed: int
    version: str
    command: str = ""
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    written: dict[str, str] = field(default_factory=dict)  # "configuration", "page" -> file

    # looking things up

    def __getitem__(self, label: str) -> Entry:
        """Return what was found of a policy, by its label or by a name that only one has."""
        exact = [e for e in self.entries if e.label == label]
        named = exact or [e for e in self.entries if e.spec.policy.name == label]
        if len(named) != 1:
            have = ", ".join(e.label for e in self.entries)
            raise EquipoiseError(f"'{label}' was not simulated, or more than one is; here: {have}")
        return named[0]

    @property
    def use(self) -> PolicySpec:
        """The policy advised, with its parameters."""
        return self[self.advised].spec

    @property
    def ties(self) -> tuple[str, ...]:
        """Labels of policies shown to differ by less than what matters."""
        return tuple(e.label for e in self.entries if e.standing == SAME)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Labels of policies that the budget could not tell from the best."""
        return tuple(e.label for e in self.entries if e.standing == OPEN)

    @property
    def decided(self) -> bool:
        """Whether nothing was left open."""
        return not self.undecided

    # in words

    def rows(self) -> list[tuple[str, str]]:
        """Return the advice, a label and a text each."""
        use = self[self.advised]
        out = [("Use", self.advised)]
        if self.current is not None:
            out.append(("Instead of", self._instead()))
        out.append(("Costs", self._costs(use)))
        out.append(("Because", self._because()))
        out += self._tie_rows()
        if self.fleet is not None:
            out.append(("Fleet", self._fleet_words()))
        out += self._change_rows()
        out += self._limit_rows()
        out += [("Note", note) for note in self.notes]
        settings = settings_of(use.spec)
        if settings:
            out.append(
                ("Elsewhere", "; ".join(f"{s.proxy} {s.text.rstrip(';')}" for s in settings))
            )
        return out

    def text(self, width: int = WIDTH) -> str:
        """Return the advice for a terminal."""
        lines = [*self._head(), ""]
        for label, words in self.rows():
            lines += _row(label, words, width)
        if self.written:
            named = {"configuration": "", "page": "the page with the evidence "}
            parts = [f"{named[kind]}{path}" for kind, path in self.written.items()]
            lines += _row("Wrote", ", ".join(parts), width)
        if self.command:
            lines.append(f"{'Same again':<{LABEL}}{self.command}")
        return "\n".join(lines)

    def _head(self) -> list[str]:
        servers = self.scenario.servers
        mean, least, most = self.scenario.offered_load()
        load = plain(mean, 3)
        if plain(least, 3) != plain(most, 3):
            load += f" ({plain(least, 3)} to {plain(most, 3)})"
        pool = servers.discipline == "pool"
        offered = f"offered {load} tasks per server" if pool else f"load {load}"
        count = f"{servers.count} server{'s' * (servers.count != 1)} ({servers.discipline})"
        run = f"{plain(self.spent / 1e6, 3)} million tasks simulated"
        return [
            f"{self.scenario.name}     {count}     {offered}",
            f"{len(self.entries)} policies, {run}, seed {self.seed}     "
            f"intervals are {100 * self.confidence:g} %",
        ]

    def _instead(self) -> str:
        assert self.current is not None
        now, use = self[self.current], self[self.advised]
        if now is use:
            return f"{now.label} is what you have (now): keep it"
        parts = [f"{now.label} (now): "]
        if self.metric == "imbalance" and _has(now, use, "p99_neighbours"):
            parts.append(
                "99 % of tasks share their server with at most "
                f"{self.shown(use, 'p99_neighbours')} others instead of "
                f"{self.shown(now, 'p99_neighbours')}; "
            )
        parts.append(f"{METRICS[self.metric][0]} ")
        parts.append(f"{self.shown(use, self.metric)} instead of {self.shown(now, self.metric)}")
        if now.against is not None and math.isfinite(now.against.value):
            sign = -1 if self.metric in HIGHER_IS_BETTER else 1
            saved = Estimate(sign * now.against.value, now.against.error)
            way = "more" if sign < 0 else "less"
            parts.append(f", {self.amount(saved)} {way}" if saved.value > 0 else "")
            if now.standing == SAME:
                parts.append(", which does not matter")
            elif saved.value <= 0:
                parts.append(": within the limits nothing does better")
        return "".join(parts)

    def _costs(self, entry: Entry) -> str:
        policy = entry.spec.policy
        sent = entry.result.metrics["messages_per_task"]
        if sent.value == 0:
            told = "no messages"
        else:
            exact = math.isfinite(sent.error) and sent.error < 0.005
            told = f"{sent.value:.2f}" if exact else pm(sent.value, sent.error, 1)
            told += " messages per task (measured)"
            promised = re.match(r"at most [\d.]+ messages? per task", policy.cost)
            told += f", {promised[0]}" if promised else ""
        keeps = "no memory" if policy.memory == 0 else bits(policy.memory)
        return f"{told}; {keeps} per server"

    def _because(self) -> str:
        """By how much it beats the best of those that are surely worse."""
        use = self[self.advised]
        worse = [e for e in self.entries if e.standing == WORSE]
        value = f"{METRICS[self.metric][0]} {self.shown(use, self.metric)}"
        if not worse:
            return f"{value}; nothing that was tried is surely worse"
        parts = []
        for e in worse[:2]:
            if e.against is not None and math.isfinite(e.against.value):
                size = Estimate(abs(e.against.value), e.against.error)
                way = "less" if self.metric in HIGHER_IS_BETTER else "more"
                parts.append(f"{e.label} has {self.amount(size)} {way}")
        last = worse[-1]
        if len(worse) > 2:
            parts.append(f"the worst, {last.label}, has {self.shown(last, self.metric)}")
        return f"{value}; {'; '.join(parts)}"

    def _tie_rows(self) -> list[tuple[str, str]]:
        out = []
        margin = self.amount(Estimate(self.standing.margin, math.nan))
        if self.ties:
            words = (
                f"{_listed(self.ties)}: the difference is surely less than {margin}, which does "
                f"not matter; {self._preferred()}"
            )
            out.append(("Ties with", words))
        leader = self.standing.leader.label
        for label in self.undecided:
            found = self.standing.verdicts[label].difference
            above = "" if leader == self.advised else f" from {leader}"
            words = f"{label}: difference{above} {self.amount(found)}, all intervals together"
            out.append(("Not decided", f"{words}; {self._what_decides(found)}"))
        return out

    def _preferred(self) -> str:
        """Why the advised policy was taken from those that tie."""
        use = self[self.advised]
        mine = use.result.metrics["messages_per_task"].value
        others = [self[label] for label in self.ties]
        sent = [e.result.metrics["messages_per_task"].value for e in others]
        if all(mine < 0.98 * other - 0.005 for other in sent):
            return f"{self.advised} sends the fewest messages"
        if all(use.spec.policy.memory < e.spec.policy.memory for e in others):
            return f"{self.advised} needs the least memory"
        return f"{self.advised} is the cheapest: messages first, then memory, then announcements"

    def _what_decides(self, difference: Estimate) -> str:
        """How large a budget would tell them apart, or that the difference hardly matters."""
        gap = abs(difference.value - self.standing.margin)
        if not (math.isfinite(difference.error) and gap > 0):
            return "a longer run would decide"
        times = (difference.error / gap) ** 2
        if times > HARDLY:
            return "the difference is just at what matters: take either"
        millions = max(2.0, times) * self.budget / 1e6
        return f"a budget of about {plain(millions, 2)} million tasks would decide"

    def _change_rows(self) -> list[tuple[str, str]]:
        if not self.changes:
            return []
        holds = [c.words for c in self.changes if c.holds]
        out = []
        if holds:
            out.append(("Holds", "; ".join(_shortened(holds))))
        would = [f"{c.words}: {self._becomes(c)}" for c in self.changes if not c.holds]
        out.append(("Would change", "; ".join(would) if would else "with nothing that was tried"))
        notes = dict.fromkeys(c.note for c in self.changes if c.note and c.better is not None)
        out += [("Note", note) for note in notes]
        return out

    def _becomes(self, change: Change) -> str:
        if change.better is None:
            return change.note or "no policy carries that"
        if self.advised in change.unstable:
            return f"{change.better} ({self.advised}: {change.unstable[self.advised]})"
        if change.difference is None:
            return change.better
        less = Estimate(change.difference.value, change.difference.error)
        return f"{change.better} ({self.amount(less)} less)"

    def _limit_rows(self) -> list[tuple[str, str]]:
        out = []
        words = self.limits.words()
        if words:
            out.append(("Within", "; ".join(words)))
        by_reason: dict[str, list[str]] = {}
        for one in self.excluded:
            by_reason.setdefault(f"{one.reason}", []).append(one.label)
        told = [f"{_listed(labels)} ({reason})" for reason, labels in by_reason.items()]
        if told:
            out.append(("Left out", "; ".join(told)))
        return out

    def _fleet_words(self) -> str:
        assert self.fleet is not None
        goal = self.fleet.goal
        if self.fleet.servers is None or self.fleet.value is None:
            most = max((t.servers for t in self.fleet.tried), default=0)
            words = f"{goal.words}: not reached with {most} servers, more would not help"
        else:
            value = self.in_unit(goal.metric, self.fleet.value)
            words = (
                f"{goal.words}: {self.fleet.servers} servers are enough with {self.fleet.label} "
                f"({value})"
            )
            short = [t for t in self.fleet.tried if t.servers == self.fleet.servers - 1]
            if short and short[0].value is not None:
                miss = self.in_unit(goal.metric, short[0].value)
                words += f", {short[0].servers} are not ({miss})"
        if self.fleet_now is not None and self.fleet_now.label != self.fleet.label:
            now = self.fleet_now
            needs = f"needs {now.servers}" if now.servers else "does not reach it"
            words += f"; {now.label} (now) {needs}"
        return words + "; assumed: more servers never do worse"

    def shown(self, entry: Entry, metric: str) -> str:
        """Return a metric of a policy with its unit."""
        return self.in_unit(metric, entry.result.metrics[metric])

    def in_unit(self, metric: str, estimate: Estimate) -> str:
        """Return an estimate in the unit in which it reads well."""
        unit = METRICS[metric][1]
        value, error = estimate.value, estimate.error
        if unit == "s":
            unit, size = time_unit(abs(value) if value else 1.0)
            value, error = value / size, error / size
        elif metric in ("p99_neighbours", "mean_neighbours", "imbalance"):
            unit = ""  # tasks, per server: said by the name
        return f"{pm(value, error, 1)} {unit}".strip()

    def amount(self, difference: Estimate) -> str:
        """Return a difference in the metric, with its unit."""
        return self.in_unit(self.metric, difference)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        state = "decided" if self.decided else f"not decided against {', '.join(self.undecided)}"
        return f"<Advice for {self.scenario.name!r}: use {self.advised}, {state}>"

    def _repr_html_(self) -> str:
        from .page import notebook

        return notebook(self)

    # as files and data

    def configuration(self) -> str:
        """Return the TOML to use: `[[policies]]` as in a scenario, and the servers to fill in."""
        about = [
            f"{self.scenario.name}: {self.advised}",
            f"Advised by Equipoise {self.version}, seed {self.seed}.",
        ]
        about += textwrap.wrap(f"Costs {self._costs(self[self.advised])}.", 96)
        if self.command:
            about.append(f"Same again: {self.command}")
        return configuration(self.scenario, self.use, about)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the configuration to a file, whole or not at all.

        Raises
        ------
        EquipoiseError
            If it cannot be written.
        """
        write_atomic(path, self.configuration())
        self.written["configuration"] = os.fspath(path)

    def page(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if one is given."""
        from .page import html

        text = html(self)
        if path is not None:
            write_atomic(path, text)
            self.written["page"] = os.fspath(path)
        return text

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and finite numbers."""
        out: dict[str, Any] = {
            "scenario": self.scenario.name,
            "metric": self.metric,
            "advised": {"label": self.advised, **_params(self.use)},
            "current": self.current,
            "decided": self.decided,
            "ties": list(self.ties),
            "undecided": list(self.undecided),
            "margin": self.standing.margin,
            "limits": {
                "messages_per_task": self.limits.messages,
                "memory": self.limits.memory,
                "sees": sorted(self.limits.sees),
                "stable_to": self.limits.stable_to,
            },
            "policies": [_entry_json(e) for e in self.entries],
            "excluded": [vars(e) for e in self.excluded],
            "changes": [_change_json(c) for c in self.changes],
            "configuration": self.configuration(),
            "settings": {s.proxy: s.text for s in settings_of(self.use)},
            "notes": list(self.notes),
            "seed": self.seed,
            "budget": self.budget,
            "simulated": self.spent,
            "version": self.version,
            "interrupted": self.interrupted,
        }
        for name, fleet in (("fleet", self.fleet), ("fleet_now", self.fleet_now)):
            if fleet is not None:
                out[name] = _fleet_json(fleet)
        return out


def _has(a: Entry, b: Entry, metric: str) -> bool:
    return metric in a.result.metrics and metric in b.result.metrics


def _listed(labels: tuple[str, ...] | list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _shortened(words: list[str]) -> list[str]:
    """Of messages that may be late by more and more, only the last is said."""
    late = [text for text in words if text.endswith(" late")]
    return [text for text in words if text not in late[:-1]]


def _row(label: str, words: str, width: int) -> list[str]:
    kept = words.replace(" +- ", "\xa0+-\xa0").replace(" %", "\xa0%")
    lines = textwrap.wrap(kept, width - LABEL, break_long_words=False, break_on_hyphens=False)
    lines = [line.replace("\xa0", " ") for line in lines] or [""]
    first = f"{label:<{LABEL}}{lines[0]}"
    return [first, *(" " * LABEL + line for line in lines[1:])]


def _number(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _estimate(e: Estimate | None) -> dict[str, Any] | None:
    if e is None or not math.isfinite(e.value):
        return None
    return {"value": float(e.value), "error": _number(e.error), "confidence": e.confidence}


def _params(spec: PolicySpec) -> dict[str, Any]:
    params = {name: value for name, value in spec.params.items() if value is not None}
    return {"name": spec.written or spec.policy.name, "params": params}


def _entry_json(e: Entry) -> dict[str, Any]:
    metrics = {name: _estimate(value) for name, value in e.result.metrics.items()}
    return {
        "label": e.label,
        **_params(e.spec),
        "standing": e.standing,
        "memory_bits": float(e.spec.policy.memory),
        "replications": e.replications,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "against_advised": _estimate(e.against),
    }


def _change_json(c: Change) -> dict[str, Any]:
    values: Mapping[str, Any] = {label: _estimate(e) for label, e in c.values.items()}
    return {
        "kind": c.kind,
        "words": c.words,
        "size": c.size,
        "holds": c.holds,
        "better": c.better,
        "difference": _estimate(c.difference),
        "values": values,
        "unstable": c.unstable,
        "note": c.note,
    }


def _fleet_json(fleet: Fleet) -> dict[str, Any]:
    return {
        "goal": {fleet.goal.metric: fleet.goal.most},
        "servers": fleet.servers,
        "policy": fleet.label,
        "value": _estimate(fleet.value),
        "tried": [
            {
                "servers": t.servers,
                "policy": t.label,
                "value": _estimate(t.value),
                "enough": t.enough,
                "open": t.open,
            }
            for t in fleet.tried
        ],
    }
