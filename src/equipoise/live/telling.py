"""The server's half without I/O: counts the tasks at a server and tells what its policy tells.

An `Agent` is a server's. Each dispatcher that has opened a stream to it is a `Link`, with the
policy, the announcement and the parameters of its hello; a start, a finish and the turn of a clock
are told on every link, by the plain functions of the policy. The length is that of the server:
all its tasks, whoever sent them. `Received` is what has come from one dispatcher:

    task       started: its number is received, length + 1; tell_start to all
               at the limit it is refused: received, not counted, and its dispatcher hears the state
    finish     length - 1; tell_finish to all
    over       numbers that will not come are received too; if one was new, the state is answered
    announce   the new value is in force for this dispatcher; the state is answered, always
    hello      the same, after the welcome: whatever was said before, on an earlier stream, is made
               good by one answer, and nothing is kept for a stream that is not there

So `m - received` is always a promise that was true when it was made: what the dispatcher sent since
is not among the received, and it adds that itself. A number that comes twice, or comes although it
was over, is a task all the same; its dispatcher hears the state at once, since it has not added it.

Nothing here waits, opens a connection or runs compiled code. A start and a finish cost 0.5 us, and
1.7 us for each stream where one of them is told, the line included.
"""

from __future__ import annotations

import hmac
import os
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..errors import EquipoiseError, PolicyMismatch
from ..policies import POLICIES, Policy, PolicySpec, resolve
from ..policies import spec as make_spec
from ..rng import exponential, make_rng, uniform
from .wire import Announce, Ask, Beat, Hello, Message, Over, Welcome, WireError

MOST_DISPATCHERS = 64  # that an agent remembers
MOST_GAPS = 1024  # among the numbers that have come from a dispatcher
MOST_NOTES = 50
MOST_SKEW = 1.0  # s between two machines' clocks, without a note
EPSILON = 1e-6  # receivers of load reports throw away a utilisation of 0

JOIN, LEAVE, UPDATE, ANSWER = KINDS = ("join", "leave", "update", "answer")
Sent = Welcome | Message


class NotWelcome(EquipoiseError):
    """A dispatcher that does not fit, with the HTTP status that says so."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Note(NamedTuple):
    """Something that happened to an agent."""

    time: float  # s since 1970
    text: str


class Received:
    """Which of a dispatcher's numbers have come: all up to `base`, and some ranges beyond."""

    __slots__ = ("base", "count", "ends", "starts")

    def __init__(self) -> None:
        self.base = 0
        self.count = 0
        self.starts: list[int] = []  # of ranges, ascending; between two of them numbers are missing
        self.ends: list[int] = []  # the last number of each

    def add(self, number: int) -> bool:
        """Note that a number has come; False if it had come before."""
        starts, ends = self.starts, self.ends
        if number == self.base + 1:
            self.base = number
            if starts and starts[0] == number + 1:
                self.base = ends.pop(0)
                del starts[0]
        elif number <= self.base or not self._insert(number):
            return False
        self.count += 1
        return True

    def _insert(self, number: int) -> bool:
        """Put a number into a range beyond `base`; False if it is there."""
        starts, ends = self.starts, self.ends
        i = bisect_right(starts, number)  # ranges that begin at or before it
        if i and number <= ends[i - 1]:
            return False
        after = i > 0 and ends[i - 1] == number - 1
        before = i < len(starts) and starts[i] == number + 1
        if after and before:
            ends[i - 1] = ends.pop(i)
            del starts[i]
        elif after:
            ends[i - 1] = number
        elif before:
            starts[i] = number
        else:
            starts.insert(i, number)
            ends.insert(i, number)
        return True


class Record:
    """A dispatcher that an agent has heard of."""

    __slots__ = ("heard", "life", "link", "name", "received")

    def __init__(self, name: str, life: int, heard: float) -> None:
        self.name = name
        self.life = life  # no two records of an agent have the same
        self.received = Received()
        self.link: Link | None = None  # its open stream
        self.heard = heard  # when anything of it came last


class Link:
    """The open stream of one dispatcher. `open` is False once it has ended."""

    def __init__(
        self,
        agent: Agent,
        record: Record,
        spec: PolicySpec,
        hello: Hello,
        send: Callable[[Sent], None],
        end: Callable[[str], None],
    ) -> None:
        self.agent, self.record, self.spec, self.hello = agent, record, spec, hello
        self.open = True
        self.announcement, self.number = hello.announcement, 0
        self.sequence = 0
        self._send, self._end = send, end
        policy = spec.policy
        self._start, self._finish, self._state = (
            *(policy.tell_start, policy.tell_finish, policy.tell_state),
        )
        state, _ = policy.init(np.zeros(2, np.int64), np.ones(2), hello.announcement, **spec.params)
        self.params = state.par
        # an answer where there is a clock is an update that was asked for
        self._asked = UPDATE if policy.clock is not None else ANSWER
        self.next = inf  # when its clock turns, on the agent's clock
        self._wind(first=True)

    # -- what the dispatcher says ---------------------------------------------------------------

    def take(self, said: Hello | Announce | Over | Ask | Beat) -> None:
        """Do what one line asks for. Raises `WireError` at a second hello."""
        self.record.heard = self.agent.clock()
        if isinstance(said, Over):
            self.over(said.numbers)
        elif isinstance(said, Announce):
            self.announce(said.value, said.number)
        elif isinstance(said, Ask):
            self.ask()
        elif isinstance(said, Hello):
            raise WireError("a second hello; open another stream for it")

    def announce(self, value: int, number: int) -> None:
        """Let a new announcement be in force here, and answer it.

        One that is older than what is in force came late, and is nothing any more.
        """
        if number >= self.number:
            self.announcement, self.number = value, number
            self.answer()

    def over(self, numbers: tuple[int, ...]) -> None:
        """Count tasks as received that will not come; answer if one of them had not come."""
        received = self.record.received
        new = [received.add(number) for number in numbers]
        if self.agent.overfull(self.record):
            return
        if any(new):
            self.answer()

    def ask(self) -> None:
        """Answer how the server is."""
        self.answer(self._asked)

    # -- what the server tells ------------------------------------------------------------------

    def started(self, length: int) -> None:
        """A task has come; `length` includes it."""
        self._tell(self._start, length, JOIN)

    def finished(self, length: int) -> None:
        """A task has left; `length` is without it."""
        self._tell(self._finish, length, LEAVE)

    def tell(self) -> None:
        """Tell the state, if there is something to tell."""
        self._tell(self._state, self.agent.length, ANSWER)

    def answer(self, kind: str = ANSWER) -> None:
        """Tell the state, or that there is nothing to tell: silence, which is not counted."""
        m = max(0, self._say(self._state, self.agent.length))
        if self.open:
            self.sequence += 1
            self.agent.messages[kind] += m > 0
            self._send(Message(m, self.record.received.count, self.sequence, kind, self.number))

    def due(self, now: float) -> None:
        """Tell the state if the clock has turned, once for all turns that were missed."""
        if now >= self.next:
            self._tell(self._state, self.agent.length, UPDATE)
            self._wind()

    def close(self, why: str = "") -> None:
        """End the stream, from whichever side."""
        if self.open:
            self.open = False
            self.agent.left(self)
            self._end(why)

    # -- inside ---------------------------------------------------------------------------------

    def _say(self, tell: Callable[..., Any], length: int) -> int:
        """Return what a function of the policy tells; one that fails ends the stream."""
        try:
            return int(tell(length, self.announcement, self.params, self.agent.coins))
        except Exception as error:  # a user's policy must not fail the task it is told of
            self.agent.note(f"policy {self.spec.label} failed: {type(error).__name__}: {error}")
            self.close("the policy failed at the agent")
            return 0

    def _tell(self, tell: Callable[..., Any], length: int, kind: str) -> None:
        m = self._say(tell, length)
        if m > 0 and self.open:
            self.sequence += 1
            self.agent.messages[kind] += 1
            number = self.number if kind == ANSWER else 0
            self._send(Message(m, self.record.received.count, self.sequence, kind, number))

    def _wind(self, *, first: bool = False) -> None:
        """Set the clock, for a policy whose servers keep time themselves.

        Where all update together at regular moments, these are the multiples of the period since
        1970, so that servers agree on them. Where all do at random moments, or the dispatcher
        asks, the dispatcher keeps time.
        """
        clock, period = self.spec.policy.clock, self.hello.period
        if clock is None or period is None or self.spec.params.get("mode") == "push":
            return
        agent = self.agent
        now = agent.clock()
        if clock.together:
            if clock.regular:
                self.next = now + period - agent.wall() % period
        elif not clock.regular:
            self.next = now + float(exponential(agent.times)) * period
        elif first:
            self.next = now + uniform(agent.times) * period
        else:
            self.next += period * (1 + max(0.0, now - self.next) // period)


class Agent:
    """A server's count of its tasks, and what dispatchers are told of it. For one event loop.

    Parameters
    ----------
    policy
        The only one that dispatchers may run, with its parameters; any that is registered if
        absent. One that a user wrote, "file.py:NAME", must be given here.
    limit
        Most tasks at the server, >= 1; more are refused. None: no limit.
    workers
        Tasks that it works on at once, for the utilisation in load reports.
    secret
        What dispatchers must know.
    orca
        Whether responses carry a load report; for whoever writes them.
    note
        Called with each `Note`.
    seed
        Of the coins; new ones at each start if absent.
    clock, wall
        Seconds that never go back; seconds since 1970.

    Raises
    ------
    EquipoiseError
        If a number makes no sense, or the policy is unknown or has servers tell nothing.
    """

    def __init__(
        self,
        policy: str | dict[str, Any] | Policy | PolicySpec | None = None,
        *,
        limit: int | None = None,
        workers: int | None = None,
        secret: str | None = None,
        orca: bool = True,
        note: Callable[[Note], None] | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.policy = None if policy is None else resolve(policy)
        if self.policy is not None:
            _check_tells(self.policy)
        self.limit, self.workers = _whole("limit", limit), _whole("workers", workers)
        if secret is not None and not secret.strip():
            raise EquipoiseError("the secret is empty")
        self.secret, self.orca = secret, orca
        self.clock, self.wall = clock, wall
        self.coins, self.times = (
            make_rng(child) for child in np.random.SeedSequence(seed).spawn(2)
        )
        self.version = version("equipoise")
        self.generation = f"{int(wall()):x}.{os.urandom(4).hex()}"
        self.length = 0  # tasks at the server
        self.count = 0  # tasks ever, without the refused
        self.refused = 0
        self.spurious = 0  # finishes of what had not started
        self.dropped = 0  # messages that a slow reader was spared
        self.messages = dict.fromkeys(KINDS, 0)
        self.notes: deque[Note] = deque(maxlen=MOST_NOTES)
        self.began = clock()
        self._note = note
        self._records: dict[str, Record] = {}
        self._lives = 0
        self._links: tuple[Link, ...] = ()

    # -- tasks ----------------------------------------------------------------------------------

    def started(self, task: tuple[str, int] | None = None) -> bool:
        """Count a task that has come; False if the server is full, and it must be refused.

        Parameters
        ----------
        task
            The dispatcher that sent it, and its number there; None if nobody says.
        """
        record, new = None, True
        if task is not None:
            record = self._record(task[0])
            if record is not None:
                new = record.received.add(task[1])
                if record.received.starts and self.overfull(record):
                    record = None
        link = None if record is None else record.link
        if self.limit is not None and self.length >= self.limit:
            self.refused += 1
            if link is not None:
                link.tell()
            return False
        self.count += 1
        self.length += 1
        length = self.length
        for each in self._links:
            each.started(length)
        if not new and link is not None:
            link.tell()
        return True

    def finished(self) -> None:
        """Count a task that has left; once for each that `started` took."""
        if not self.length:
            self.spurious += 1
            return
        self.length -= 1
        length = self.length
        for each in self._links:
            each.finished(length)

    def load(self) -> bytes:
        """Return a load report, the value of the header `endpoint-load-metrics`."""
        of = self.workers or self.limit
        if of is None:
            return b"TEXT named_metrics.queue=%d" % self.length
        used = max(EPSILON, self.length / of)
        return b"TEXT application_utilization=%.6f,named_metrics.queue=%d" % (used, self.length)

    # -- dispatchers ----------------------------------------------------------------------------

    def admits(self, authorization: str | None) -> bool:
        """Whether the value of `Authorization` is the secret's, where there is one."""
        if self.secret is None:
            return True
        scheme, _, said = (authorization or "").partition(" ")
        same = hmac.compare_digest(said.strip().encode(), self.secret.encode())
        return same and scheme.lower() == "bearer"

    def hello(
        self, said: Hello, send: Callable[[Sent], None], end: Callable[[str], None] | None = None
    ) -> Link:
        """Open a stream; welcome the dispatcher and tell it the state.

        Parameters
        ----------
        send
            Called with each line for the dispatcher; must not wait or raise.
        end
            Called once, with the reason, when the stream must end or has ended.

        Raises
        ------
        NotWelcome
            If the dispatcher does not fit.
        """
        spec = self._spec(said)
        record = self._record(said.dispatcher)
        if record is None:
            raise NotWelcome(503, f"{MOST_DISPATCHERS} dispatchers have streams open already")
        try:
            link = Link(self, record, spec, said, send, end or _nothing)
        except Exception as error:  # a user's init, or numbers that overflow in it
            raise NotWelcome(400, f"{spec.label}: {type(error).__name__}: {error}") from None
        if record.link is not None:
            record.link.close("the dispatcher has opened another stream")
        self._look_at(said, spec)
        record.link = link
        self._links = (*self._links, link)
        generation = f"{self.generation}.{record.life}"
        send(Welcome(self.version, generation, self.limit, self.wall()))
        link.answer()
        return link

    def left(self, link: Link) -> None:
        """Forget a stream that has ended; called by `Link.close`."""
        self._links = tuple(each for each in self._links if each is not link)
        link.record.link = None

    def overfull(self, record: Record) -> bool:
        """Give a dispatcher up whose numbers have too many gaps; whether that was so.

        Its next hello finds a new generation, and both begin at 0.
        """
        if len(record.received.starts) <= MOST_GAPS:
            return False
        self.note(f"{MOST_GAPS} numbers of dispatcher {record.name} have not come: begun anew")
        self._records.pop(record.name, None)
        if record.link is not None:
            record.link.close("too many tasks have not come")
        return True

    def close(self, why: str = "the server stops") -> None:
        """End all streams."""
        for link in self._links:
            link.close(why)

    # -- time -----------------------------------------------------------------------------------

    @property
    def next(self) -> float:
        """When a clock turns next; inf if none does."""
        return min((link.next for link in self._links), default=inf)

    def due(self, now: float) -> None:
        """Let those tell whose clocks have turned."""
        for link in self._links:
            link.due(now)

    # -- what can be seen -----------------------------------------------------------------------

    @property
    def links(self) -> tuple[Link, ...]:
        """The streams that are open."""
        return self._links

    def received(self, dispatcher: str) -> int:
        """Return how many tasks of a dispatcher have come, those that were over among them."""
        record = self._records.get(dispatcher)
        return 0 if record is None else record.received.count

    def note(self, text: str) -> None:
        """Take note of what an operator may want to know."""
        one = Note(self.wall(), " ".join(text.split()))
        self.notes.append(one)
        if self._note is not None:
            self._note(one)

    def status(self) -> dict[str, Any]:
        """Return all that is known, as text, numbers, lists and dicts."""
        now = self.clock()
        return {
            "generation": self.generation,
            "version": self.version,
            "up_seconds": round(now - self.began, 3),
            "policy": None if self.policy is None else self.policy.label,
            "tasks": self.length,
            "limit": self.limit,
            "workers": self.workers,
            "started": self.count,
            "refused": self.refused,
            "spurious_finishes": self.spurious,
            "messages": dict(self.messages),
            "dropped": self.dropped,
            "dispatchers": [_of_record(record, now) for record in self._records.values()],
            "notes": [{"time": round(n.time, 3), "text": n.text} for n in self.notes],
        }

    # -- inside ---------------------------------------------------------------------------------

    def _record(self, name: str) -> Record | None:
        """Return the record of a dispatcher, a new one if need be; None if there is no place."""
        record, now = self._records.get(name), self.clock()
        if record is not None:
            record.heard = now
            return record
        if len(self._records) >= MOST_DISPATCHERS:
            silent = [each for each in self._records.values() if each.link is None]
            if not silent:
                return None
            del self._records[min(silent, key=lambda each: each.heard).name]
        self._lives += 1
        record = self._records[name] = Record(name, self._lives, now)
        return record

    def _spec(self, said: Hello) -> PolicySpec:
        """Return the dispatcher's policy, if it may be run here."""
        pinned = self.policy
        name = said.policy
        if pinned is not None and name in (pinned.written, pinned.policy.name):
            policy = pinned.policy
        elif name in POLICIES and pinned is None:
            policy = POLICIES[name]
        elif pinned is not None:
            raise NotWelcome(409, f"this agent is there for {pinned.label}, not for {_short(name)}")
        else:
            hint = f"; name it at the agent, --policy {_short(name)}" if ":" in name else ""
            raise NotWelcome(409, f"no policy is called {_short(name)} here{hint}")
        try:
            spec = make_spec(policy, **said.params)
            _check_tells(spec)
        except EquipoiseError as error:
            raise NotWelcome(409, str(error)) from None
        if pinned is not None and dict(spec.params) != dict(pinned.params):
            raise NotWelcome(409, f"this agent is there for {pinned.label}, not for {spec.label}")
        if policy.clock is not None and said.period is None:
            raise NotWelcome(400, f"{spec.label} has a clock; its hello must say the period")
        return spec

    def _look_at(self, said: Hello, spec: PolicySpec) -> None:
        """Note what may be wrong and is no reason to refuse."""
        if said.version != self.version:
            self.note(
                f"dispatcher {said.dispatcher} is equipoise {said.version[:40]}, this one "
                f"{self.version}; run the same version on both sides"
            )
        clock, skew, most = spec.policy.clock, said.time - self.wall(), MOST_SKEW
        if clock is not None and clock.together and said.period is not None:
            most = min(most, said.period / 4)
        if abs(skew) > most:
            ahead = "ahead" if skew > 0 else "behind"
            self.note(f"the clock of dispatcher {said.dispatcher} is {abs(skew):.3g} s {ahead}")


def _nothing(why: str) -> None:
    """Do nothing."""


def _check_tells(spec: PolicySpec) -> None:
    if not spec.policy.tells:
        raise PolicyMismatch(
            f"policy '{spec.label}' has servers tell nothing, so it needs no agents"
        )


def _whole(what: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise EquipoiseError(f"{what} = {value!r} must be a whole number >= 1")
    return value


def _short(text: str) -> str:
    return ascii(text[:60])


def _of_record(record: Record, now: float) -> dict[str, Any]:
    link = record.link
    found: dict[str, Any] = {
        "name": record.name,
        "open": link is not None,
        "received": record.received.count,
        "gaps": len(record.received.starts),
        "silent_seconds": round(now - record.heard, 3),
    }
    if link is not None:
        found |= {
            "policy": link.spec.label,
            "announcement": link.announcement,
            "messages": link.sequence,
            "version": link.hello.version,
        }
    return found
