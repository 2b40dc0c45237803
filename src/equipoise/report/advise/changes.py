"""What would change the answer: more load, a server lost, messages that come late.

Each change is a scenario of its own, in which the policy advised, as it was advised, meets its
rivals on the same tasks. Parameters are not chosen anew: that is what a change finds in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...errors import EquipoiseError
from ...policies import PolicySpec
from ...scenario import Scenario
from ...sim.run import pick_kernel, warnings_of
from ...stats import Estimate
from ..precise import expected_tasks
from ..table import plain
from ..variants import with_delay, with_load, without_one
from .candidates import tells, unstable
from .race import FIRST, LEAST, WORSE, Runner, verdict

MORE = 1.2  # times the load
DELAYS = (0.01, 0.1, 1.0)  # of a message, in mean service times
RIVALS = 3  # that the advised policy meets


@dataclass(frozen=True)
class Change:
    """What happens to the advice when something else does."""

    kind: str  # "load", "server" or "delay"
    words: str  # "with 20 % more load"
    size: float  # the factor, the servers left, or the delay in s
    holds: bool
    better: str | None = None  # who should be used then
    difference: Estimate | None = None  # of the advised policy above that one, less being better
    values: dict[str, Estimate] = field(default_factory=dict)  # of the metric, by label
    unstable: dict[str, str] = field(default_factory=dict)  # who does not carry it, and why
    note: str = ""


def changed_scenarios(
    scenario: Scenario, late: bool
) -> Iterator[tuple[str, str, float, Callable[[], Scenario | None]]]:
    """Yield (kind, words, size, how to make it) for each change; late messages if any are sent."""
    yield (
        "load",
        f"with {100 * (MORE - 1):.0f} % more load",
        MORE,
        lambda: with_load(scenario, MORE),
    )
    if scenario.servers.count > 1:
        left = scenario.servers.count - 1
        yield "server", "with one server lost", float(left), lambda: without_one(scenario)
    if late and scenario.messages.law is None and not scenario.dispatchers.own:
        for part in DELAYS:
            delay = float(f"{part * scenario.mean_service:.2g}")
            words = f"with messages {time_words(delay)} late"
            yield "delay", words, delay, lambda d=delay: with_delay(scenario, d)  # type: ignore[misc]


def time_words(seconds: float) -> str:
    """Return a time with a unit that suits it."""
    if seconds < 1e-3:
        return f"{plain(1e6 * seconds, 2)} us"
    return f"{plain(1e3 * seconds, 2)} ms" if seconds < 1 else f"{plain(seconds, 2)} s"


def changes_of(
    runner: Runner,
    advised: PolicySpec,
    rivals: Sequence[PolicySpec],
    *,
    budget: float,
    matters: float,
) -> list[Change]:
    """Return what becomes of the advice under each change.

    Parameters
    ----------
    runner
        The race that was run, whose settings are taken over; its tasks count against the budget.
    budget
        Tasks in all; a change gets an even share of what is left, and at least a few replications.
    matters
        The difference that matters, as in the race.
    """
    scenario = runner.scenario
    news = any(tells(one) or one.policy.probes for one in (advised, *rivals))
    cases = list(changed_scenarios(scenario, news))
    found: list[Change] = []
    specs = [advised, *rivals]
    each = max(1.0, expected_tasks(scenario)) * len(specs)
    left = max(0.0, budget - runner.spent) / max(1, len(cases))
    count = int(min(FIRST, max(LEAST, left / each)))
    runner.meter.planned = runner.meter.done + len(cases) * len(specs) * count
    for kind, words, size, make in cases:
        if runner.interrupted:
            break
        try:
            changed = make()
        except EquipoiseError as error:
            found.append(Change(kind, words, size, False, note=str(error).splitlines()[0]))
            continue
        if changed is not None:
            other = replace(
                runner, scenario=changed, records={}, first=None, spent=0.0,
                kernel=pick_kernel(changed, _kernel(runner), specs),
            )  # fmt: skip
            try:
                found.append(_meet(other, kind, words, size, advised, rivals, count, matters))
            except KeyboardInterrupt:
                runner.interrupted = True
            runner.spent += other.spent
            runner.interrupted |= other.interrupted
    return found


def _kernel(runner: Runner) -> str:
    return "auto" if runner.kernel not in ("events", "memoryless") else "events"


def _meet(
    runner: Runner,
    kind: str,
    words: str,
    size: float,
    advised: PolicySpec,
    rivals: Sequence[PolicySpec],
    count: int,
    matters: float,
) -> Change:
    """Let the policies meet in one changed scenario."""
    scenario = runner.scenario
    reasons = {one.label: unstable(scenario, one, None) for one in (advised, *rivals)}
    lost = {label: why for label, why in reasons.items() if why is not None}
    able = [one for one in (advised, *rivals) if one.label not in lost]
    if not able:
        return Change(kind, words, size, False, unstable=lost, note="no policy carries that")
    runner.add(able, count)
    values = {one.label: runner.values(one) for one in able}
    shown = {one.label: runner.result(one).metrics[runner.metric] for one in able}
    notes = " ".join(warnings_of(scenario, advised))
    best = min(able, key=lambda one: (float(values[one.label].mean()), one.label))
    if advised.label in lost:
        return Change(kind, words, size, False, best.label, None, shown, lost, notes)
    margin = runner.margin(best, matters)
    chance = (1 - runner.confidence) / max(1, len(able) - 1)
    worse = [
        (one, found)
        for one in able
        if one is not advised
        and (
            found := verdict(
                advised.label, values[advised.label], values[one.label], margin, chance
            )
        ).kind
        == WORSE
    ]
    if not worse:
        return Change(kind, words, size, True, None, None, shown, lost, notes)
    rival, found = max(worse, key=lambda pair: pair[1].difference.value)
    return Change(kind, words, size, False, rival.label, found.difference, shown, lost, notes)
