"""The servers behind the dispatcher: the core's decisions, health, and what is counted of both.

The proxy asks it where a request goes and tells it what became of it (`dispatch.py`); checks tell
it how servers are; whoever keeps time calls `tick`. It opens no connection and never waits.

A failed task goes on counting at its server for `penalty` seconds: the slot itself is released at
once, and another is taken there that nobody uses. So a server that fails at once does not look idle
to a policy that looks for idle ones, until enough failures in a row eject it.

A server that has come up, at first or again, may start slowly: for `slow_start` seconds it is sent
at most its growing part of what the others have on average, and one task more.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import EquipoiseError
from ..policies import Policy, PolicySpec
from ..policies.base import Clock
from .core import Core, Server, Slot
from .dispatch import NO_FAULT, Exchange, Outcome
from .health import Condition, Health, Rules, State
from .hearing import Hearing
from .updates import ALL, Updates

# upper ends of the latency histogram's buckets, s; one more bucket holds the rest
BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
OUTCOMES = ("ok", "client_aborted", "upstream_error", "timeout", "cut", "refused_full")
CAME = ("ok", "refused_full")  # outcomes of which the server's agent knows for certain
FAILURES = ("upstream_error", "timeout")
MOST_PENALTIES = 64  # tasks that count at a server beyond their end
MOST_EVENTS = 200


@dataclass(slots=True)
class Backend:
    """A server, and what was counted of it since it was added."""

    name: str
    host: str
    port: int
    speed: float = 1.0
    limit: int | None = None  # most tasks that it is sent
    agent: tuple[str, int] | None = None  # host and port of its agent; its own if absent
    chosen: int = 0
    started: int = 0
    not_sent: int = 0
    failures: int = 0  # what health took for one
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    statuses: list[int] = field(default_factory=lambda: [0] * 6)  # by hundreds; 0: none came
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0  # spent there by those of outcome ok
    penalties: deque[Slot] = field(default_factory=deque)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Event(NamedTuple):
    """Something that happened to the fleet."""

    time: float  # s since 1970
    text: str


class Fleet:
    """Implements `Dispatch`. Called from one thread, the event loop's.

    Parameters
    ----------
    policy, seed
        As in `Core`.
    backends
        The servers at first; names must differ.
    rules
        Of health.
    period
        Between two updates of a server, s, for policies with a clock.
    unheard
        With agents, which tell for their servers: after so long without a line of one, s, its
        server is forgotten. None: there are no agents, this dispatcher runs both halves itself.
    log
        Called with each `Exchange`.
    on_event
        Called with each `Event`.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        policy: str | dict[str, Any] | Policy | PolicySpec,
        backends: Iterable[Backend] = (),
        rules: Rules | None = None,
        *,
        seed: int | np.random.SeedSequence = 0,
        period: float | None = None,
        unheard: float | None = None,
        log: Callable[[Exchange], None] | None = None,
        on_event: Callable[[Event], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = Core(policy, seed=seed, agents=unheard is not None)
        self.rules = Rules() if rules is None else rules
        self.health = Health(self.rules, self._changed)
        self.backends: dict[str, Backend] = {}
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.began = clock()
        self.retries = 0
        self.refused: dict[str, int] = {}  # exchanges that reached no server, by outcome
        self.lasted = [0] * (len(BUCKETS) + 1)  # exchanges by their whole duration
        self.lasted_seconds = 0.0
        self._clock, self._record, self._on_event = clock, log, on_event
        self._freed: list[Callable[[], None]] = []
        self._penalties: deque[tuple[float, Backend, Slot]] = deque()
        self._threshold = self.core.announcement
        self._slow: dict[str, float] = {}  # since when servers start slowly
        self._in_core: set[str] = set()  # up or paused there
        found = self.core.spec.policy.clock
        if found is not None and period is None:
            raise EquipoiseError(
                f"policy '{self.core.spec.label}' has a clock: how long is the time between two "
                "updates of a server?"
            )
        self.hearing: Hearing | None = None
        if unheard is not None:
            self.core.now = self.began
            name = os.urandom(6).hex()
            self.hearing = Hearing(self.core, name, unheard=unheard, period=period, note=self._note)
            if found is not None and not self._asks(found, self.core.spec):
                found = None  # the servers keep time themselves
        self.updates = Updates(found, period, self.began) if found and period else None
        for backend in backends:
            self.add(backend)

    # -- servers come and go ------------------------------------------------------------------

    def add(self, backend: Backend) -> None:
        """Take in a server; it gets traffic when health says so.

        Raises
        ------
        EquipoiseError
            If there is one of that name, on its way out or not.
        """
        if backend.name in self.backends:
            raise EquipoiseError(f"server '{backend.name}' is there already; names must differ")
        self.backends[backend.name] = backend
        self.health.add(backend.name, self._clock())

    def remove(self, name: str) -> None:
        """Send a server nothing more; it is seen until its last task has left.

        Raises
        ------
        EquipoiseError
            If there is none of that name.
        """
        if name not in self.backends:
            names = ", ".join(self.backends) or "none"
            raise EquipoiseError(f"no server is called '{name}'; there are: {names}")
        self.health.drain(name, self._clock())
        self._drop_if_empty(name)

    def checked(self, name: str, good: bool, why: str = "") -> None:
        """Take note of an active check."""
        self.health.checked(name, good, self._clock(), why)

    def state(self, name: str) -> State:
        """Return the state of a server."""
        return self.health.of[name].state

    # -- what the proxy asks and tells (dispatch.py) --------------------------------------------

    def choose(self, exclude: str | None = None) -> Slot | None:
        """Take a slot, at another server than `exclude`; None: nobody is up, or all are full.

        A user's policy that fails chooses nobody, and that is told.
        """
        try:
            if self.hearing is not None:
                self.hearing.learn()
            slot = self.core.choose(exclude)
        except Exception as error:
            self._policy_failed(error)
            return None
        if slot is not None:
            self.backends[slot.server.name].chosen += 1
        return slot

    def address(self, slot: Slot) -> tuple[str, int]:
        """Return the host and port of the slot's server."""
        backend = self.backends[slot.server.name]
        return backend.host, backend.port

    def agent_of(self, name: str) -> tuple[str, int]:
        """Return the host and port of a server's agent."""
        backend = self.backends[name]
        return backend.agent or (backend.host, backend.port)

    def started(self, slot: Slot) -> bytes:
        """The request is being written to a connection; return the line that numbers it."""
        self.backends[slot.server.name].started += 1
        return b"" if self.hearing is None else self.hearing.started(slot)

    def finished(self, slot: Slot, outcome: Outcome, seconds: float) -> None:
        """Release the slot; `seconds` from `started` to the last byte or the failure."""
        name = slot.server.name
        backend = self.backends.get(name)
        if self.hearing is None:
            released = self.core.finished(slot)
        else:
            lost = outcome == "upstream_error"  # by the server; else it may not have noticed yet
            released = self.hearing.ended(slot, came=outcome in CAME, stays=not lost)
        if not released or backend is None:
            return
        backend.outcomes[outcome] += 1
        if outcome == "ok":
            backend.seconds += seconds
            backend.buckets[bisect_left(BUCKETS, seconds)] += 1
        elif outcome in FAILURES:
            self._failed(backend, outcome.replace("_", " "))
        self._after(name)

    def not_sent(self, slot: Slot, why: str) -> None:
        """Release the slot of a request that never reached its server."""
        name = slot.server.name
        backend = self.backends.get(name)
        hearing, core = self.hearing, self.core
        released = core.not_sent(slot) if hearing is None else hearing.ended(slot, came=False)
        if not released or backend is None:
            return
        backend.not_sent += 1
        if why not in NO_FAULT:
            self._failed(backend, why)
        self._after(name)

    def on_freed(self, call: Callable[[], None]) -> None:
        """Have `call` called whenever a place may have become free."""
        self._freed.append(call)

    def log(self, record: Exchange) -> None:
        """Take note of an exchange that is over."""
        self.retries += record.retries
        self.lasted[bisect_left(BUCKETS, record.total)] += 1
        self.lasted_seconds += record.total
        backend = self.backends.get(record.server) if record.server is not None else None
        if record.outcome not in OUTCOMES:
            self.refused[record.outcome] = self.refused.get(record.outcome, 0) + 1
        elif backend is not None:
            hundreds = record.status // 100
            backend.statuses[hundreds if 0 < hundreds < 6 else 0] += 1
            if record.outcome == "ok":
                if 0 < self.rules.bad_status <= record.status:
                    self._failed(backend, f"status {record.status}")
                else:
                    self.health.worked(backend.name)
        if self._record is not None:
            self._record(record)

    # -- time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due: ends of penalties and ejections, updates; call it a few times a second.

        For a policy with a clock call it when `updates.next` has come, too.
        """
        now = self.core.now = self._clock()
        freed = False
        while self._penalties and self._penalties[0][0] <= now:
            _, backend, slot = self._penalties.popleft()
            freed |= self._forgive(backend, slot)
        self.health.due(now)
        if self._slow:
            self._let_grow(now)
        if self.hearing is not None:
            self.hearing.tick(now)
        if self.updates is not None:
            up = self.core.servers
            for turn in self.updates.due(now, len(up)):
                self._update(up if turn == ALL else (up[turn],), now)
        if self.core.announcement != self._threshold:
            was, self._threshold = self._threshold, self.core.announcement
            self._note(f"threshold {was} -> {self._threshold}")
        if freed:
            self._free()

    # -- what can be seen -----------------------------------------------------------------------

    def slots(self, name: str) -> int:
        """Return the tasks that are at a server now, or on their way to it."""
        slots, penalties = self._counts(name)
        return slots - penalties

    @property
    def threshold(self) -> int | None:
        """The threshold in force; None for policies that have none."""
        policy = self.core.spec.policy
        has = policy.announces or "level" in policy.params
        return self.core.announcement if has else None

    def status(self) -> dict[str, Any]:
        """Return all that is known, as text, numbers, lists and dicts."""
        core, now = self.core, self._clock()
        known = core.known()
        servers = []
        for name, backend in self.backends.items():
            condition = self.health.of[name]
            slots, penalties = self._counts(name)
            one = known.get(name)
            servers.append(
                {
                    "name": name,
                    "address": backend.address,
                    "state": "slow start" if name in self._slow else str(condition.state),
                    "for_seconds": round(now - condition.since, 3),
                    "why": condition.why,
                    "speed": backend.speed,
                    "limit": backend.limit,
                    "length": one.tasks if one else 0,
                    "most": one.most if one else None,
                    "slots": slots - penalties,
                    "penalties": penalties,
                    "chosen": backend.chosen,
                    "started": backend.started,
                    "not_sent": backend.not_sent,
                    "failures": backend.failures,
                    "outcomes": dict(backend.outcomes),
                    "statuses": _by_hundreds(backend.statuses),
                    "mean_seconds": _mean(backend.seconds, backend.outcomes["ok"]),
                }
            )
            if self.hearing is not None:
                servers[-1]["agent"] = self.hearing.status(name, now)
        more = {} if self.hearing is None else {"agents": self.hearing.counts()}
        return {
            "policy": core.spec.label,
            "threshold": self.threshold,
            "threshold_changes": core.changes,
            "tokens": core.tokens(),
            "messages": core.messages(),
            "up_seconds": round(now - self.began, 3),
            "exchanges": sum(self.lasted),
            "mean_seconds": _mean(self.lasted_seconds, sum(self.lasted)),
            "retries": self.retries,
            "refused": dict(self.refused),
            "displaced": core.displaced,
            "spurious_releases": core.spurious,
            "ejections_spared": self.health.spared,
            **more,
            "servers": servers,
            "events": [{"time": round(e.time, 3), "text": e.text} for e in self.events],
        }

    # -- inside ---------------------------------------------------------------------------------

    @staticmethod
    def _asks(clock: Clock, spec: PolicySpec) -> bool:
        """Whether with agents it is for the dispatcher to ask for updates.

        So it is where the policy says so, and where all servers tell at random moments: no server
        knows when the others do.
        """
        return spec.params.get("mode") == "push" or (clock.together and not clock.regular)

    def _update(self, servers: Iterable[Server], now: float) -> None:
        """It is the turn of these servers to tell their state."""
        for server in servers:
            if self.hearing is None:
                self.core.update(server.name)
            else:
                self.hearing.ask(server.name, now)

    def _changed(self, name: str, condition: Condition) -> None:
        """Health has changed: let the core send there, or not."""
        up = condition.state is State.UP
        backend = self.backends[name]
        if up and name not in self._in_core:
            length = 0 if self.hearing is None else None  # its agent will say
            self.core.joined(name, speed=backend.speed, limit=backend.limit, length=length)
            self._in_core.add(name)
            if self.hearing is not None:
                self.hearing.joined(name, self._clock())
        elif up:
            self.core.resumed(name)
        elif (server := self.core.server(name)) is not None and server.index >= 0:
            self.core.paused(name)
        self._slow.pop(name, None)
        if up and self.rules.slow_start > 0:
            self._slow[name] = condition.since
            self._let_grow(condition.since)
        why = f": {condition.why}" if condition.why else ""
        self._note(f"{name} is {condition.state}{why}")
        if up:
            self._free()

    def _let_grow(self, now: float) -> None:
        """Set the limits of those that start slowly; where all do, nobody is held back."""
        others = [s.slots for s in self.core.servers if s.name not in self._slow]
        mean = sum(others) / len(others) if others else float("inf")
        for name, since in list(self._slow.items()):
            part, limit = (now - since) / self.rules.slow_start, self.backends[name].limit
            if part >= 1:
                del self._slow[name]
            elif mean < float("inf"):
                slow = 1 + int(part * mean)
                limit = slow if limit is None else min(slow, limit)
            self.core.limited(name, limit)
        self._free()

    def _failed(self, backend: Backend, why: str) -> None:
        backend.failures += 1
        now = self._clock()
        if self.rules.penalty > 0 and (slot := self.core.occupied(backend.name)) is not None:
            if len(backend.penalties) >= MOST_PENALTIES:
                self._forgive(backend, backend.penalties[0])
            backend.penalties.append(slot)
            self._penalties.append((now + self.rules.penalty, backend, slot))
        self.health.failed(backend.name, now, why)

    def _forgive(self, backend: Backend, slot: Slot) -> bool:
        """End a penalty, if it has not ended; say whether it had not."""
        if slot.released:
            return False
        backend.penalties.remove(slot)
        self.core.not_sent(slot)
        self._drop_if_empty(backend.name)
        return True

    def _after(self, name: str) -> None:
        """A slot was released."""
        if self.health.of[name].state is State.DRAINING:
            self._drop_if_empty(name)
        self._free()

    def _free(self) -> None:
        for call in self._freed:
            call()

    def _counts(self, name: str) -> tuple[int, int]:
        server = self.core.server(name)
        slots = 0 if server is None else server.slots
        return slots, len(self.backends[name].penalties)

    def _drop_if_empty(self, name: str) -> None:
        condition = self.health.of.get(name)
        if condition is None or condition.state is not State.DRAINING or self.slots(name) > 0:
            return
        backend = self.backends[name]
        for slot in list(backend.penalties):
            backend.penalties.remove(slot)
            self.core.not_sent(slot)
        if name in self._in_core:
            self._in_core.remove(name)
            self.core.left(name)
            if self.hearing is not None:
                self.hearing.left(name)
        del self.backends[name]
        self.health.forget(name)
        self._note(f"{name} is gone")

    def _policy_failed(self, error: Exception) -> None:
        what = " ".join(str(error).split()) or type(error).__name__
        text = f"the policy failed: {what}"
        if not self.events or self.events[-1].text != text:
            self._note(text)

    def _note(self, text: str) -> None:
        event = Event(time.time(), text)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)


def _by_hundreds(statuses: Sequence[int]) -> dict[str, int]:
    return {f"{i}xx" if i else "none": count for i, count in enumerate(statuses)}


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None
