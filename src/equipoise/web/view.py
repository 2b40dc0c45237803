"""What the page looks at: a dispatcher in this process, or several in processes of their own.

Of one everything is read when it is wanted. Several are asked, and what is shown is what each has
said last: one that does not answer keeps nobody waiting for longer than `PATIENCE`, and its numbers
stay as they were, so that sums do not jump. What was counted by a process that has ended stays in
the sums, as it does in Prometheus.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import EquipoiseError
from ..live import reading
from ..live.fleet import MOST_EVENTS
from ..live.reading import COUNTED, Reading
from .history import Happened

if TYPE_CHECKING:
    from ..live.serve import Service
    from ..live.workers import Worker, Workers

PATIENCE = 0.4  # s that workers are waited for
SILENT = 4.0  # s without an answer, after which it is said
COUNTERS = ("_total", "_sum", "_count")  # how names end of what only grows
UNHEARD = ("unheard", "refused")  # states of agents
BY_WORKER = re.compile(r"worker (\d+): (.*)", re.DOTALL)


class Whole(NamedTuple):
    """How all is at a moment, servers aside."""

    policy: str
    threshold: int | None
    tokens: Mapping[str, int]
    tells: bool  # whether what is known of servers is what they told
    draining: bool
    under_way: int
    queued: int
    workers: int = 1
    silent: Sequence[int] = ()  # workers that do not answer


class View(Protocol):
    """One or several dispatchers."""

    anew: int  # grows whenever counts of servers do not go on from those before

    @property
    def up_seconds(self) -> float:
        """For how long there are readings."""

    @property
    def events(self) -> Sequence[Any]:
        """The last ones, newest last, the same objects each time: `time`, `text`."""

    def read(self) -> Reading:
        """Return what is counted as a whole; without values where nothing is known yet."""

    def counts(self) -> tuple[Sequence[str], np.ndarray]:
        """Return all servers' names and what is counted of them, as `reading.counts` does."""

    def whole(self) -> Whole:
        """Return how all is."""

    def states(self) -> Mapping[str, tuple[str, str]]:
        """Return the state of each server, and why."""

    def slots(self, name: str) -> int:
        """Return the tasks at a server."""

    def rows(self, names: Sequence[str]) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Return all that is known of servers, and what is counted of them."""

    def agents(self) -> dict[str, Any]:
        """Return how many of how many are heard (`open`, `count`), whether none is (`deaf`).

        And under `of` what is known of each server's; {} where there are none.
        """


class One:
    """A dispatcher in this process."""

    anew = 0

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def up_seconds(self) -> float:
        """The fleet's age."""
        return self.service.fleet.up_seconds

    @property
    def events(self) -> Sequence[Any]:
        """The fleet's."""
        return self.service.fleet.events

    def read(self) -> Reading:
        """Return what is counted as a whole."""
        return reading.read(self.service)

    def counts(self) -> tuple[Sequence[str], np.ndarray]:
        """Return all servers' names and what is counted of them."""
        backends = self.service.fleet.backends
        return list(backends), reading.counts(backends.values())

    def whole(self) -> Whole:
        """Return how all is."""
        fleet, proxy = self.service.fleet, self.service.proxy
        figures = proxy.figures()
        return Whole(
            fleet.core.spec.label,
            fleet.threshold,
            fleet.core.tokens(),
            fleet.core.tells,
            proxy.draining,
            figures.under_way,
            figures.queued,
        )

    def states(self) -> Mapping[str, tuple[str, str]]:
        """Return the state of each server, and why."""
        fleet = self.service.fleet
        of = fleet.health.of
        return {name: (reading.state(fleet, name), of[name].why) for name in fleet.backends}

    def slots(self, name: str) -> int:
        """Return the tasks at a server."""
        return self.service.fleet.slots(name)

    def rows(self, names: Sequence[str]) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Return all that is known of servers, and what is counted of them."""
        fleet = self.service.fleet
        counted = reading.counts(fleet.backends[name] for name in names)
        return reading.servers(fleet, names), counted

    def agents(self) -> dict[str, Any]:
        """Return what is known of agents."""
        fleet = self.service.fleet
        if fleet.hearing is None:
            return {}
        of = {name: fleet.hearing.status(name, fleet.now) for name in fleet.backends}
        return _agents(of, fleet.hearing.deaf)


class Part:
    """What a worker's process has said."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.heard = 0.0  # when it last did
        self.told: dict[str, Any] = {}
        self.counts: dict[str, list[float]] = {}
        self.servers: dict[str, dict[str, Any]] = {}

    def take(self, told: dict[str, Any], at: float) -> None:
        """Take an answer to `reading.told`."""
        self.heard, self.told = at, told
        self.counts = told.get("counts", self.counts)
        if "servers" in told:
            self.servers = {row["name"]: row for row in told["servers"]}

    @property
    def reading(self) -> Reading:
        """What it has counted as a whole."""
        return Reading(*self.told["reading"])


class Joined:
    """Several dispatchers in processes of their own, as one."""

    def __init__(self, workers: Workers, clock: Callable[[], float] = time.monotonic) -> None:
        self.workers, self._clock = workers, clock
        self.anew = 0
        self.events: deque[Happened] = deque(maxlen=MOST_EVENTS)
        self._began = clock()
        self._parts: dict[int, Part] = {}  # by the worker's index
        self._ended: Reading | None = None  # by processes that are gone
        self._asking: dict[tuple[int, str], tuple[float, asyncio.Task[None]]] = {}
        self._rows: dict[str, dict[str, Any]] | None = None
        self._last: Reading = Reading(0.0, {}, [])
        self._seen: Any = None  # the last event that was taken

    # -- asking ---------------------------------------------------------------------------------

    async def ask(self, what: str) -> None:
        """Ask all workers, and wait a little for their answers; `what` as in `reading.told`."""
        now = self._clock()
        loop = asyncio.get_running_loop()
        for worker in self.workers.workers:
            if worker.runs and (worker.index, what) not in self._asking:
                self._asking[worker.index, what] = now, loop.create_task(self._ask(worker, what))
        fresh = [
            task
            for (_, kind), (since, task) in self._asking.items()
            if kind == what and now - since < PATIENCE
        ]
        if fresh:
            await asyncio.wait(fresh, timeout=PATIENCE)

    async def _ask(self, worker: Worker, what: str) -> None:
        pid = worker.pid
        try:
            told = await self._told(worker, what)
        except EquipoiseError:
            return  # it is told when that lasts
        finally:
            del self._asking[worker.index, what]
        if worker.pid == pid:
            self.take(worker.index, pid, told)

    async def _told(self, worker: Worker, what: str) -> dict[str, Any]:
        """Ask a worker, part by part."""
        command = {"command": "reading", "what": what, "start": 0}
        told: dict[str, Any] = await self.workers.ask(worker, command)
        start = told.pop("next")
        while start is not None:
            more = await self.workers.ask(worker, {**command, "start": start})
            told["counts"].update(more["counts"])
            told.get("servers", []).extend(more.get("servers", []))
            start = more["next"]
        return told

    def take(self, index: int, pid: int, told: dict[str, Any]) -> None:
        """Take a worker's answer."""
        self._retire()
        if index not in self._parts:
            self._parts[index] = Part(pid)
            self.anew += 1
        self._parts[index].take(told, self._clock())
        self._rows = None

    def _retire(self) -> None:
        """Keep of processes that have ended what they have counted as a whole."""
        for worker in self.workers.workers:
            part = self._parts.get(worker.index)
            if part is None or (worker.runs and worker.pid == part.pid):
                continue
            del self._parts[worker.index]
            self.anew += 1
            self._rows = None
            at, values, buckets = part.reading
            kept = {
                name: value if name.endswith(COUNTERS) else 0
                for name, value in values.items()
                if name != "threshold"
            }
            one = Reading(at, kept, buckets)
            self._ended = one if self._ended is None else reading.total([self._ended, one])

    # -- what is shown --------------------------------------------------------------------------

    @property
    def up_seconds(self) -> float:
        """The parent's age."""
        return self._clock() - self._began

    def read(self) -> Reading:
        """Return what all have counted; without values while none has answered."""
        self._retire()
        parts = list(self._parts.values())
        readings = [part.reading for part in parts]
        if self._ended is not None:
            readings.append(self._ended)
        if not readings:
            return self._last
        whole = reading.total(readings)
        slots: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for part in parts:
            slots.update(part.told["up"])
            seen.update(part.told["up"].keys())
        up = [slots[name] for name, times in seen.items() if 2 * times >= len(parts)]
        whole.values.update(
            servers_up=len(up), least_slots=min(up, default=0), most_slots=max(up, default=0)
        )
        self._happened(whole.values.get("threshold"))
        self._last = whole._replace(at=self.up_seconds)
        return self._last

    def _happened(self, threshold: float | None) -> None:
        """Take new events; of thresholds the middle one's moves, since it is the one shown."""
        new = []
        for event in reversed(self.workers.events):
            if event is self._seen:
                break
            new.append(event)
        if new:
            self._seen = new[0]
        for event in reversed(new):
            found = BY_WORKER.fullmatch(event.text)
            if found is None:
                self.events.append(Happened(event.time, event.text))
            elif not found[2].startswith("threshold "):
                self.events.append(Happened(event.time, found[2], int(found[1])))
        was = self._last.values.get("threshold")
        learns = any(part.told["learns"] for part in self._parts.values())
        if learns and was is not None and threshold is not None and was != threshold:
            self.events.append(Happened(time.time(), f"threshold {was} -> {threshold}"))

    def counts(self) -> tuple[Sequence[str], np.ndarray]:
        """Return all servers' names and what all have counted of them."""
        names = list(dict.fromkeys(n for part in self._parts.values() for n in part.counts))
        return names, self._counted(names)

    def _counted(self, names: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(names), len(COUNTED)))
        nothing = [0.0] * len(COUNTED)
        for part in self._parts.values():
            if names:
                found += np.array([part.counts.get(name, nothing) for name in names])
        return found

    def whole(self) -> Whole:
        """Return how all is."""
        self._retire()
        told = [part.told for part in self._parts.values()]
        values, now = self._last.values, self._clock()
        tokens: Counter[str] = Counter()
        for one in told:
            tokens.update(one["tokens"])
        labels = [one["policy"] for one in told] or [self.workers.config.spec.label]
        threshold = values.get("threshold")
        late = [
            worker.index
            for worker in self.workers.workers
            if (part := self._parts.get(worker.index)) is None or now - part.heard > SILENT
        ]
        return Whole(
            max(labels, key=labels.count),
            None if threshold is None else int(threshold),
            tokens,
            any(one["tells"] for one in told),
            self.workers.stopping,
            int(values.get("proxy_under_way", 0)),
            int(values.get("proxy_queued", 0)),
            len(self.workers.workers),
            late,
        )

    def states(self) -> Mapping[str, tuple[str, str]]:
        """Return the state of each server, as most workers see it, and why."""
        return {name: (row["state"], row["why"]) for name, row in self._servers().items()}

    def slots(self, name: str) -> int:
        """Return the tasks at a server that any worker has sent there."""
        return int(self._servers()[name]["slots"])

    def rows(self, names: Sequence[str]) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Return all that is known of servers, and what is counted of them."""
        found = [dict(self._servers()[name]) for name in names]
        for row in found:
            row.pop("agent", None)
        return found, self._counted(names)

    def agents(self) -> dict[str, Any]:
        """Return what is known of agents; a server's is as most workers have it."""
        of = {name: row["agent"] for name, row in self._servers().items() if "agent" in row}
        parts = self._parts.values()
        return _agents(of, all(part.told["deaf"] for part in parts)) if of else {}

    def _servers(self) -> dict[str, dict[str, Any]]:
        if self._rows is None:
            parts = [part.servers for part in self._parts.values()]
            names = dict.fromkeys(name for part in parts for name in part)
            self._rows = {name: joined([p[name] for p in parts if name in p]) for name in names}
        return self._rows


def joined(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several dispatchers know of a server together; see `reading.servers`."""
    states = [row["state"] for row in rows]
    state = max(states, key=states.count)
    agree = [row for row in rows if row["state"] == state]
    limits = [row["limit"] for row in rows]
    found = {
        **rows[0],
        "state": state,
        "why": agree[0]["why"],
        "for": max(row["for"] for row in agree),
        "slots": sum(row["slots"] for row in rows),
        "limit": None if None in limits else sum(limits),
    }
    found.pop("most", None)
    found.pop("told", None)
    known = [row for row in rows if "most" in row]
    agents = [row["agent"] for row in rows if row.get("agent")]
    if agents:
        of = [agent["state"] for agent in agents]
        most = max(of, key=of.count)
        found["agent"] = min(
            (agent for agent in agents if agent["state"] == most),
            key=lambda agent: float("inf") if (s := agent["heard_seconds"]) is None else s,
        )
        if known:  # each tells of all tasks there, whoever sent them
            last = min(known, key=lambda row: row["told"])
            found.update(most=last["most"], told=last["told"])
    elif len(known) == len(rows):  # each of its own
        found["most"] = sum(row["most"] for row in known)
        found["told"] = max(row["told"] for row in known)
    return found


def _agents(of: Mapping[str, dict[str, Any]], deaf: bool) -> dict[str, Any]:
    of = {name: agent for name, agent in of.items() if agent}
    states = [agent["state"] for agent in of.values()]
    return {"count": len(of), "open": states.count("open"), "deaf": deaf, "of": of}
