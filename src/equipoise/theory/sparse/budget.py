"""Which policy waits least under a budget of messages per task, and what one more message buys.

Every scheme is given the update rate at which it spends the budget, or the one from which nobody
waits if that spends less, and is held against the baselines that the budget allows. With mode
"pull" servers may tell of their own accord; with "push" they only answer when asked, so the jiq
family is out, each update costs a question more, and jsq-d is in at 2d as ever.

In a fleet without end one message per task is enough for no wait at all (jiq); what is asked here
is mostly what to do with less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import EquipoiseError
from . import baselines
from .asynchronous import aujsq_det, aujsq_exp
from .base import MODES, SCHEMES, Equilibrium, check_load
from .extremes import no_waiting_delta
from .synchronous import settled_idle_only, sujsq_det, sujsq_exp

NO_WAIT = 1e-9  # mean waits below are none
MOST_LEVELS = 1000  # that a period may fill: their number is 1 over the messages per task
MOST_KEPT = 100  # the same where only idle servers tell: their state is a matrix


@dataclass(frozen=True)
class Option:
    """A policy within the budget, and what it does; time in mean service times."""

    policy: str  # its name
    parameters: tuple[tuple[str, str], ...]  # (name, value), as one writes them
    messages: float  # per task
    mean_wait: float
    error: float  # how far mean_wait may be off; see Equilibrium

    @property
    def label(self) -> str:
        """The policy as it is written in commands: name(parameter=value, ...)."""
        if not self.parameters:
            return self.policy
        return f"{self.policy}({','.join(f'{name}={value}' for name, value in self.parameters)})"


@dataclass(frozen=True)
class Recommendation:
    """What to do with a budget of messages, in the limit of many servers."""

    load: float
    messages_per_task: float  # the budget
    mode: str
    options: tuple[Option, ...]  # least wait first, then fewest messages
    left_out: tuple[str, ...]  # schemes without an answer at this budget, and why
    with_one_more: Option  # the best at a budget of one message per task more
    marginal: float  # mean wait saved per message more, at the margin, if the policy stays

    @property
    def best(self) -> Option:
        """The policy that waits least within the budget."""
        return self.options[0]

    @property
    def saved_by_one_more(self) -> float:
        """Mean wait that one message per task more would save, in mean service times."""
        return self.best.mean_wait - self.with_one_more.mean_wait

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        more = self.with_one_more
        one = (
            "no policy does better"
            if self.best.mean_wait < NO_WAIT
            else f"one message per task more: {more.label} waits {more.mean_wait:.4g}"
        )
        return (
            f"{self.best.label} waits {self.best.mean_wait:.4g} mean service times with "
            f"{self.best.messages:.4g} messages per task; {one}"
        )


def recommend(
    load: float, messages_per_task: float, *, mode: str = "pull", random_gaps: bool = False
) -> Recommendation:
    """Return the policy that waits least with so many messages per task, in the limit.

    Parameters
    ----------
    load
        Tasks per server and mean service time, 0 < load < 1.
    messages_per_task
        The budget, >= 0.
    mode
        "pull": servers may tell of their own accord. "push": they only answer.
    random_gaps
        Whether sujsq-exp is among the options. It waits longer than sujsq-det with as many
        messages, and must be averaged over random gaps: seconds, where the rest takes less.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If load <= 0, the budget is < 0 or no number, or the mode is unknown.

    Examples
    --------
    >>> answer = recommend(0.8, 0.3)
    >>> answer.best.policy, round(answer.best.mean_wait, 3), answer.with_one_more.label
    ('sujsq-det', 0.838, 'jiq')
    """
    load = check_load(load)
    try:
        budget = float(messages_per_task)
    except (TypeError, ValueError):
        budget = math.nan
    if not (budget >= 0 and math.isfinite(budget)):
        raise EquipoiseError(f"messages_per_task = {messages_per_task} must be a number >= 0")
    if mode not in MODES:
        raise EquipoiseError(f"no mode is called {mode!r}; the modes are: {', '.join(MODES)}")

    options, left_out = _ranked(load, budget, mode, random_gaps)
    one_more = _ranked(load, budget + 1, mode, random_gaps)[0][0]
    marginal = _marginal(load, options[0], mode)
    return Recommendation(load, budget, mode, options, left_out, one_more, marginal)


def _ranked(
    load: float, budget: float, mode: str, random_gaps: bool
) -> tuple[tuple[Option, ...], tuple[str, ...]]:
    """Return the options, best first, and the schemes left out with their reasons."""
    options = list(_baselines(load, budget, mode))
    left_out = []
    for scheme in SCHEMES:
        if budget == 0 or (scheme == "sujsq-exp" and not random_gaps):
            continue
        for idle_only in (False, True):
            found = _tuned(scheme, load, budget, mode, idle_only)
            if isinstance(found, str):
                which = " where only idle servers tell" if idle_only else ""
                left_out.append(f"{scheme}{which}: {found}")
            else:
                options.append(_option(found, mode))
    # of equal ones the first: baselines, which need no clocks, lead
    options.sort(
        key=lambda o: (o.mean_wait if o.mean_wait >= NO_WAIT else 0.0, round(o.messages, 9))
    )
    return tuple(options), tuple(left_out)


def _baselines(load: float, budget: float, mode: str) -> Iterator[Option]:
    """Yield the policies without clocks that the budget allows."""
    if mode == "pull":
        if budget >= 1:
            yield _plain(baselines.jiq(load))
            yield _plain(baselines.jsq(load))
        elif budget > 0:
            p = baselines.sparsified_jiq_p(load, budget)
            yield _plain(baselines.sparsified_jiq(load, p), ("p", f"{p:.6g}"))
    if budget >= 4:
        d = int(budget // 2)
        yield _plain(baselines.jsq_d(load, d), ("d", str(d)))
    yield _plain(baselines.round_robin(load))
    yield _plain(baselines.random(load))


def _plain(baseline: baselines.Baseline, *parameters: tuple[str, str]) -> Option:
    error = 1e-12 * (1 + baseline.mean_wait)
    return Option(baseline.policy, parameters, baseline.messages, baseline.mean_wait, error)


def _option(rest: Equilibrium, mode: str) -> Option:
    parameters = [("delta", f"{rest.delta:.6g}")]
    if rest.idle_only:
        parameters.append(("idle_only", "true"))
    if mode == "push":
        parameters.append(("mode", "push"))
    return Option(rest.scheme, tuple(parameters), rest.messages(mode), rest.mean_wait, rest.error)


def _solve(scheme: str, load: float, delta: float, idle_only: bool) -> Equilibrium | None:
    """Return the equilibrium; None where levels do not settle."""
    if scheme == "sujsq-exp":
        return sujsq_exp(load, delta, idle_only=idle_only, periods=500)
    if scheme == "aujsq-exp":
        return aujsq_exp(load, delta, idle_only=idle_only)
    if scheme == "aujsq-det":
        return aujsq_det(load, delta, idle_only=idle_only)
    return settled_idle_only(load, delta) if idle_only else sujsq_det(load, delta)


def _tuned(
    scheme: str, load: float, budget: float, mode: str, idle_only: bool
) -> Equilibrium | str:
    """Return a scheme at the update rate that spends the budget or leaves no wait, or why not."""
    asked = 1 if mode == "push" else 0
    closed = scheme == "aujsq-exp"
    most = MOST_KEPT if idle_only else MOST_LEVELS
    if budget * most < 1 + asked and not closed:
        return f"it would fill more than {most} levels between updates"
    enough = no_waiting_delta(scheme, load)
    if not idle_only:
        delta = min(enough, budget * load / (1 + asked))
    elif scheme.endswith("exp"):  # met like any other time: 1 - load are idle
        delta = min(enough, budget * load / (asked + 1 - load))
    else:
        found = _spending(scheme, load, budget, mode, enough)
        return found or "its levels do not settle with so few messages"
    rest = _solve(scheme, load, delta, idle_only)
    return rest or "its levels do not settle with so few messages"


def _spending(
    scheme: str, load: float, budget: float, mode: str, enough: float
) -> Equilibrium | None:
    """Return the scheme of idle servers at equal gaps that spends the budget, or leaves no wait.

    How many are found idle follows from delta, so that delta is searched for, downwards from where
    nobody waits. None if the levels cease to settle on the way.
    """
    from scipy.optimize import brentq

    seen: dict[float, Equilibrium] = {}

    def surplus(delta: float) -> float:
        rest = _solve(scheme, load, delta, True)
        if rest is None:
            raise _Unsettled
        seen[delta] = rest
        return rest.messages(mode) / budget - 1

    high = low = enough
    try:
        while surplus(low) > 1e-9:
            low, high = low * 0.7, low
        if low < enough:
            low = brentq(surplus, low, high, xtol=1e-300, rtol=1e-7)
    except _Unsettled:
        return None
    # within rounding of the budget, and on the right side of a jump
    return max(
        (rest for rest in seen.values() if rest.messages(mode) <= budget * (1 + 1e-6)),
        key=lambda rest: rest.delta,
    )


class _Unsettled(Exception):
    """Ends a search among update rates."""


def _marginal(load: float, best: Option, mode: str) -> float:
    """Return the mean wait that a message more saves, per message, if the policy stays."""
    if best.mean_wait < NO_WAIT or best.policy in ("round-robin", "random", "jsq-d"):
        return 0.0
    more = best.messages * 1.01
    if best.policy == "sparsified-jiq":
        p = baselines.sparsified_jiq_p(load, min(1.0, more))
        rest = baselines.sparsified_jiq(load, p)
        return (best.mean_wait - rest.mean_wait) / (rest.messages - best.messages)
    idle_only = ("idle_only", "true") in best.parameters
    found = _tuned(best.policy, load, more, mode, idle_only)
    if isinstance(found, str):
        return 0.0
    return (best.mean_wait - found.mean_wait) / (found.messages(mode) - best.messages)
