"""Who may get traffic: active checks, passive ejection with a floor, and the way back.

A server is in one of five states:

    new        not yet checked; gets nothing until a check is good, unless nothing is checked
    up         gets traffic
    ejected    `failures` requests in a row failed there; back after `back_off` seconds, twice as
               long each time it happens again soon, at most `back_off_most`
    down       `fall` checks in a row were bad; back after `rise` good ones in a row
    draining   on its way out; gets nothing, is seen until its last task has left

Ejection never leaves fewer than a share `floor` of the servers up: where most of them fail, taking
them out would only crowd the rest. Checks know no floor: a server that does not answer them has no
use for traffic.

Nothing here keeps time or opens a connection: what happens comes in with its time, s on any clock
that does not go back, and `checks.py` does the asking. The rules for ejection are those of Envoy's
outlier detection for consecutive failures, with exponential back-off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """What a server may get."""

    NEW = "new"
    UP = "up"
    EJECTED = "ejected"
    DOWN = "down"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a server is taken out and let back in. Times in seconds."""

    check: Literal["none", "tcp", "http"] = "tcp"  # a connection is made, or a GET answered by 2xx
    path: str = "/"  # of that GET
    interval: float = 2.0  # from one check to the next
    timeout: float = 1.0  # of a check
    rise: int = 2  # good checks in a row that bring a server back
    fall: int = 3  # bad checks in a row that take it out
    failures: int = 5  # failed requests in a row that eject it; 0: never
    bad_status: int = 500  # from this status on an answer counts as a failure; 0: none does
    floor: float = 0.5  # the share of servers that ejection leaves up at least
    back_off: float = 5.0  # out for so long the first time
    back_off_most: float = 300.0
    penalty: float = 1.0  # a failed task goes on counting at its server for so long
    slow_start: float = 0.0  # a server that has come up gets a growing share for so long


@dataclass(slots=True)
class Condition:
    """How a server is."""

    state: State
    since: float  # when that began
    why: str = ""  # why, in words
    good: int = 0  # good checks in a row
    bad: int = 0
    failures: int = 0  # failed requests in a row
    ejections: int = 0  # in short succession
    until: float = 0.0  # when an ejection ends
    back_off: float = 0.0  # how long the last one was


class Health:
    """The conditions of all servers; tells what changes.

    Parameters
    ----------
    on_change
        Called with (name, condition) after a state has changed.
    """

    def __init__(self, rules: Rules, on_change: Callable[[str, Condition], None]) -> None:
        self.rules, self.on_change = rules, on_change
        self.of: dict[str, Condition] = {}
        self.spared = 0  # ejections that the floor forbade

    def add(self, name: str, now: float) -> Condition:
        """Take in a server; it is up at once where nothing is checked."""
        condition = self.of[name] = Condition(State.NEW, now, "not checked yet")
        if self.rules.check == "none":
            self._become(name, State.UP, now, "")
        return condition

    def drain(self, name: str, now: float) -> None:
        """Let a server get nothing more, whatever checks say."""
        self._become(name, State.DRAINING, now, "being removed")

    def restore(self, name: str, now: float) -> None:
        """Take back in a server that was to leave; it is up if its last check was good."""
        condition = self.of[name]
        if condition.state is not State.DRAINING:
            return
        good = condition.good > 0 or self.rules.check == "none"
        condition.state, condition.since, condition.why = State.NEW, now, "not checked yet"
        if good:
            self._become(name, State.UP, now, "")

    def rename(self, name: str, new: str) -> None:
        """Call a server otherwise."""
        self.of = {new if one == name else one: condition for one, condition in self.of.items()}

    def govern(self, rules: Rules, now: float) -> None:
        """Go by other rules from now on; where nothing is checked any more, checks keep none out.

        What was counted so far goes on counting, an ejection ends when it was to end.
        """
        self.rules = rules
        if rules.check == "none":
            for name, condition in list(self.of.items()):
                if condition.state in (State.NEW, State.DOWN):
                    self._become(name, State.UP, now, "")

    def forget(self, name: str) -> None:
        """Drop a server."""
        self.of.pop(name, None)

    def checked(self, name: str, good: bool, now: float, why: str = "") -> None:
        """Take note of a check; of a server that is not there, nothing."""
        condition = self.of.get(name)
        if condition is None:
            return
        condition.good = condition.good + 1 if good else 0
        condition.bad = 0 if good else condition.bad + 1
        state, rules = condition.state, self.rules
        if good:
            if state is State.NEW or (state is State.DOWN and condition.good >= rules.rise):
                self._become(name, State.UP, now, "")
        elif state is State.NEW:
            condition.why = why
        elif state in (State.UP, State.EJECTED) and condition.bad >= rules.fall:
            self._become(name, State.DOWN, now, why)

    def worked(self, name: str) -> None:
        """Take note of a request that went well."""
        condition = self.of.get(name)
        if condition is not None:
            condition.failures = 0

    def failed(self, name: str, now: float, why: str) -> None:
        """Take note of a request that failed; eject the server if that is one too many."""
        condition = self.of.get(name)
        if condition is None:
            return
        condition.failures += 1
        enough = 0 < self.rules.failures <= condition.failures
        if not enough or condition.state is not State.UP:
            return
        if self._too_few():
            self.spared += 1
            return
        rules = self.rules
        if now - condition.since > 2 * condition.back_off:  # it did well for long enough
            condition.ejections = 0
        doubled = rules.back_off * 2.0 ** min(condition.ejections, 64)
        condition.back_off = min(doubled, rules.back_off_most)
        condition.ejections += 1
        condition.until = now + condition.back_off
        what = f"{condition.failures} failures in a row, the last one: {why}"
        self._become(name, State.EJECTED, now, what)

    def due(self, now: float) -> None:
        """Let those back whose ejection is over."""
        for name, condition in list(self.of.items()):
            if condition.state is State.EJECTED and condition.until <= now:
                if self.rules.check != "none" and condition.bad > 0:
                    self._become(name, State.DOWN, now, "its checks are bad")
                else:
                    self._become(name, State.UP, now, "")

    def states(self) -> Iterable[State]:
        """Return the states of all servers."""
        return (condition.state for condition in self.of.values())

    def _too_few(self) -> bool:
        """Whether with one server less the floor would be undershot."""
        staying = [state for state in self.states() if state is not State.DRAINING]
        least = math.ceil(self.rules.floor * len(staying) - 1e-9)
        return sum(state is State.UP for state in staying) - 1 < least

    def _become(self, name: str, state: State, now: float, why: str) -> None:
        condition = self.of[name]
        if condition.state is State.DRAINING or condition.state is state:
            return
        condition.state, condition.since, condition.why = state, now, why
        if state is State.UP:
            condition.failures = condition.bad = 0
        self.on_change(name, condition)
