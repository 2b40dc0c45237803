"""What the dispatcher believes of servers that tell: streams, numbers, what is forgotten.

No socket and no clock: lines come in with their time, and what is to be said goes out through the
stream they came on (`streams.py`). The core (`agents=True`) keeps each server's last promise and
adds the tasks sent since; this file sees to it that what the core hears is true:

    numbers     Every task that is written to a server has a number, from 1 in each life of the
                server. A message says how many of them the agent has received, as a set, so that
                tasks may overtake each other and the promise: fewer than m, and what was sent and
                not received. A task with a number is never taken back. Where nobody knows whether
                it came, the agent is told that it is *over*, and counts it as received. Before
                the agent has said hello tasks have no numbers and are *carried*: they count on
                top of what it says until they end, or for `unheard` seconds.
    sequence    A line that is not newer than the last one heard is dropped. After a gap, which a
                sign of life shows too, the server is asked.
    generation  An agent that is another than before, or counts fewer tasks than before, has lost
                count: numbers begin anew, under a new name and on a new stream, and until it
                speaks nothing is known of it. Tasks that are out are carried, as they may still
                come.
    streams     One at a time; what comes late on an earlier one is dropped. A stream that is lost
                voids nothing: the promise stands, own sends are added, and the agent answers with
                its state when there is a new one.
    unheard     A server of which no line has come for `unheard` seconds is forgotten: it may have
                any number of tasks, so it is chosen last; if that is so of all, at random.
    learning    A change of the threshold goes to every open stream under a number. Until each has
                answered with it, or has closed, the policy does not learn: it would judge the new
                value by what servers said under the old one, and run away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from itertools import islice
from typing import Any, Protocol

from .core import Core, Slot
from .wire import (
    BEAT,
    MOST_OVER,
    TASK,
    Announce,
    Ask,
    Beat,
    Hello,
    Message,
    Over,
    Welcome,
    WireError,
    line,
    of_agent,
)

UNHEARD = 3.0  # s, unless configured
CONFIRM = 1.0  # s between two questions whether what was said to be over was heard
LOOK = 0.25  # s between two looks at all servers
MOST_UNSETTLED = 4096  # numbers said to be over of which the agent has not shown that it knows
MOST_PAST = 64  # generations of a server that are remembered
SKEW = 1.0  # s that two clocks may differ before it is said


class Mouth(Protocol):
    """A stream as what is said on it sees it."""

    def say(self, data: bytes) -> None:
        """Write a line; a stream that cannot takes note and closes."""

    def close(self, why: str, *, refused: bool = False) -> None:
        """End the stream; a new one is opened by and by."""


class Ear:
    """What is believed of the agent of one server that the core knows."""

    __slots__ = (
        *("carried", "dispatcher", "generation", "heard_at", "issued", "limit", "messages"),
        *("name", "out", "over", "past", "received", "refused", "said", "skew", "talk", "task"),
        *("unheard", "why"),
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.talk: Talk | None = None  # the stream that is open
        self.past: deque[str] = deque(maxlen=MOST_PAST)  # generations that are gone
        self.heard_at = now
        self.unheard = False  # nothing came for too long
        self.refused = False  # the last stream was
        self.why = "not heard yet"  # why there is no stream, in words
        self.skew: float | None = None  # s that its clock is ahead
        self.limit: int | None = None  # most tasks that it takes
        self.messages = 0  # promises heard
        self.carried: dict[Slot, float] = {}  # written without a number, and until when they count
        self.out: dict[Slot, int] = {}  # with their numbers; 0: carried for long enough
        self.begin("")

    def begin(self, dispatcher: str) -> None:
        """Begin to count, under this name."""
        self.dispatcher = dispatcher
        self.generation: str | None = None  # of the agent; None until it has said hello
        self.task = f"{TASK}: {dispatcher} ".encode()
        self.issued = 0  # the last number
        self.received = 0  # what it had received when it spoke last
        self.over: dict[int, Slot | None] = {}  # to be said to be over; a slot if it may be there
        self.said: dict[int, Slot | None] = {}  # said, and again on the next stream unless it shows

    def __repr__(self) -> str:
        return f"<agent of {self.name}, {self.state}>"

    @property
    def state(self) -> str:
        """What there is of a stream: open, closed, refused or unheard."""
        if self.refused:
            return "refused"
        if self.unheard:
            return "unheard"
        return "open" if self.talk is not None and self.talk.welcomed else "closed"


class Talk:
    """One stream with an agent."""

    __slots__ = (
        *("announced_at", "asked", "asked_at", "awaited", "ear", "marked", "mouth"),
        *("opened_at", "sequence", "uncertain", "welcomed"),
    )

    def __init__(self, ear: Ear, mouth: Mouth, wall: float) -> None:
        self.ear, self.mouth = ear, mouth
        self.opened_at = wall  # s since 1970
        self.welcomed = False  # the agent has said hello
        self.sequence = 0  # of the last message heard
        self.asked: deque[str] = deque(maxlen=64)  # kinds that the answers to questions are of
        self.uncertain = False  # messages are missing, and no answer has come since
        self.asked_at = self.announced_at = 0.0
        self.awaited = 0  # the number of an announcement that is not answered yet
        self.marked: tuple[int, ...] = ()  # what was said to be over before it


class Hearing:
    """Between the streams and the core. Called from one thread, the event loop's.

    Parameters
    ----------
    core
        With `agents`; its servers come and go by `joined` and `left` of both.
    name
        The dispatcher's, new at each of its starts; up to 32 letters and digits.
    unheard
        After so long without a line a server is forgotten, s.
    period
        Between two updates of a server, s, for policies with a clock.
    note
        Called with what happens, in words.
    """

    def __init__(
        self,
        core: Core,
        name: str,
        *,
        unheard: float = UNHEARD,
        period: float | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.core, self.name, self.unheard, self.period = core, name, unheard, period
        self.version = version("equipoise")
        self.ears: dict[str, Ear] = {}
        self.deaf = False  # no server that is up is heard
        self.dropped = {"old stream": 0, "out of order": 0, "false": 0}  # lines, by why
        self.gaps = self.restarts = 0
        self.on_join: Callable[[str], None] = lambda name: None  # set by whoever opens streams
        self.on_leave: Callable[[str], None] = lambda name: None
        policy = core.spec.policy
        self._learns = policy.learns
        self._note = note
        self._lives = 0
        self._number = 0  # of the last announcement
        self._awaited: set[Talk] = set()
        self._heard: set[Ear] = set()
        self._pending: tuple[Ear, int, object] | None = None  # a start to learn from
        self._look_at = 0.0
        together = policy.clock is not None and policy.clock.together and period is not None
        self._skew = min(SKEW, period / 4) if together and period is not None else SKEW

    # -- servers come and go --------------------------------------------------------------------

    def joined(self, name: str, now: float) -> None:
        """A server has joined the core; nothing is known of it until it speaks."""
        ear = self.ears[name] = Ear(name, now)
        self._begin(ear)
        self.on_join(name)

    def left(self, name: str) -> None:
        """A server has left the core."""
        ear = self.ears.pop(name, None)
        if ear is not None:
            self._heard.discard(ear)
            self._lose(ear)
            self.on_leave(name)

    # -- tasks ----------------------------------------------------------------------------------

    def started(self, slot: Slot) -> bytes:
        """Number the slot's task, which is being written; return the line for its head."""
        ear = self.ears.get(slot.server.name)
        if ear is None:
            return b""
        if ear.generation is None:
            ear.carried[slot] = self.core.now + self.unheard
            return b""
        number = ear.issued = ear.issued + 1
        ear.out[slot] = number
        if self._learns:
            self._pending = ear, number, self.core.world
        return b"%b%d\r\n" % (ear.task, number)

    def ended(self, slot: Slot, *, came: bool, stays: bool = False) -> bool:
        """Release the slot of a task; False if it was released before.

        Parameters
        ----------
        came
            The server has certainly received it. A task that was never written has not reached it,
            whatever this says.
        stays
            The server may be working on it still: it was left alone, not lost there.
        """
        ear = self.ears.get(slot.server.name)
        if ear is None:
            return self.core.finished(slot)
        number = ear.out.pop(slot, None)
        if number is None and not (stays and slot in ear.carried):
            ear.carried.pop(slot, None)
            return self.core.not_sent(slot)
        released = self.core.finished(slot)
        if number is None:
            ear.carried[slot] = self.core.now + self.unheard  # it may be running there
        elif number and not came:
            self._settle(ear, number, slot if stays else None)
        if self._pending is not None:
            self.learn()
        return released

    def learn(self) -> None:
        """Let the policy learn from the last start, as its messages were heard, if it may now.

        Called before each choice, and by itself when the server has said that the task came.
        """
        pending, self._pending = self._pending, None
        # in a memory that has begun anew since, there was no such start
        if pending is None or pending[2] is not self.core.world or not self._may_learn():
            return
        value = self.core.adapt()
        if value is not None and self.core.spec.policy.announces:
            self._announce(value)

    # -- streams --------------------------------------------------------------------------------

    def opened(self, name: str, mouth: Mouth, wall: float) -> Talk | None:
        """A stream was opened; says hello on it. None if the server has left.

        `wall` is the time since 1970, s.
        """
        ear = self.ears.get(name)
        if ear is None:
            return None
        self._lose(ear)
        talk = ear.talk = Talk(ear, mouth, wall)
        spec = self.core.spec
        hello = Hello(
            self.version,
            ear.dispatcher,
            spec.written or spec.policy.name,
            dict(spec.params),
            self.core.announcement,
            self.period,
            wall,
        )
        mouth.say(line(hello))
        return talk

    def closed(self, talk: Talk, why: str, *, refused: bool = False) -> None:
        """A stream has ended."""
        if talk.ear.talk is talk:
            self._lose(talk.ear)
            self.failed(talk.ear.name, why, refused=refused)

    def failed(self, name: str, why: str, *, refused: bool = False) -> None:
        """A stream could not be opened; `refused`: there is one to answer, and it does not fit."""
        ear = self.ears.get(name)
        if ear is None:
            return
        if refused and ear.why != why:
            self._note(f"{name} is not heard: {why}")
        ear.why, ear.refused = why, refused

    def line(self, talk: Talk, text: bytes, now: float, wall: float) -> None:
        """Take a line that came on a stream, without its end.

        Raises
        ------
        WireError
            If it makes no sense, after which the stream is to be closed.
        """
        ear = talk.ear
        if not self._is_current(talk):
            self.dropped["old stream"] += 1
            return
        said = of_agent(text)
        ear.heard_at = now
        if type(said) is Message:
            if not talk.welcomed:
                raise WireError("it speaks before it has said hello")
            if ear.unheard:
                self._hear_again(talk, now)
            self._message(talk, said, now)
        elif type(said) is Welcome:
            self._welcome(talk, said, now, wall)
        elif type(said) is Beat and talk.welcomed:
            if ear.unheard:
                self._hear_again(talk, now)
            if said.sequence > talk.sequence:
                self._miss(talk, now)

    def beat(self, talk: Talk) -> None:
        """Give a sign of life on a stream."""
        talk.mouth.say(_BEAT)

    def ask(self, name: str, now: float, kind: str = "update") -> None:
        """Ask a server how it is, if there is a stream; its answer counts as of this kind."""
        ear = self.ears.get(name)
        if ear is not None and ear.talk is not None and ear.talk.welcomed:
            self._ask(ear.talk, kind, now)

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Forget what is too old, ask again what was not answered; call it often."""
        self.core.now = now
        if now < self._look_at:
            return
        self._look_at = now + LOOK
        self._forget(
            [
                ear
                for ear in self.ears.values()
                if not ear.unheard and now - ear.heard_at > self.unheard
            ]
        )
        for ear in list(self.ears.values()):
            if ear.carried:
                for slot in [slot for slot, until in ear.carried.items() if until < now]:
                    del ear.carried[slot]
                    if not slot.released:
                        ear.out[slot] = 0
                    self.core.received(slot)
            if ear.talk is not None and ear.talk.welcomed:
                self._remind(ear.talk, now)
        self._judge()

    # -- what can be seen -----------------------------------------------------------------------

    def status(self, name: str, now: float) -> dict[str, Any]:
        """Return what is known of the agent of a server, {} if there is none of that name."""
        ear = self.ears.get(name)
        if ear is None:
            return {}
        return {
            "state": ear.state,
            "heard_seconds": round(now - ear.heard_at, 3) if ear.generation else None,
            "why": "" if ear.state == "open" else ear.why,
            "skew_seconds": None if ear.skew is None else round(ear.skew, 3),
            "messages": ear.messages,
            "generation": ear.generation,
        }

    def counts(self) -> dict[str, Any]:
        """Return how many streams are open, how many servers unheard, and what was dropped."""
        states = [ear.state for ear in self.ears.values()]
        return {
            "open": states.count("open"),
            "unheard": sum(ear.unheard for ear in self.ears.values()),
            "deaf": self.deaf,
            "messages": self.core.messages(),
            "dropped": dict(self.dropped),
            "gaps": self.gaps,
            "restarts": self.restarts,
        }

    # -- lines ----------------------------------------------------------------------------------

    def _message(self, talk: Talk, said: Message, now: float) -> None:
        ear, m, received = talk.ear, said.m, said.received
        if not self._is_newer(talk, said):
            self.dropped["out of order"] += 1
            self._answered(talk, said.number)  # even so it has seen the announcement
            return
        if not self._is_possible(ear, received):
            self.dropped["false"] += 1
            what = f"it has received {received} tasks, after {ear.received}, of {ear.issued} sent"
            self._renew(ear, f"lost count: {what}")
            return
        gap = said.sequence != talk.sequence + 1
        talk.sequence, ear.received = said.sequence, received
        if received == ear.issued and (ear.said or ear.over):  # so it has heard all that is over
            ear.said.clear()
            ear.over.clear()
        kind = said.kind
        if kind == "answer" or kind == "update":  # it has told its state
            talk.uncertain = False
            if talk.asked and not (talk.awaited and said.number == talk.awaited):
                kind = talk.asked.popleft()
        self.core.now = now
        self.core.heard(ear.name, m, received, kind)
        if m:
            ear.messages += 1
        if gap:
            self._miss(talk, now)
        if said.number:
            self._answered(talk, said.number)
        pending = self._pending
        if pending is not None and pending[0] is ear and received >= pending[1]:
            self.learn()

    def _welcome(self, talk: Talk, welcome: Welcome, now: float, wall: float) -> None:
        ear = talk.ear
        if welcome.generation in ear.past:
            raise WireError("it speaks for an agent that was there before and is gone")
        if self._is_other(ear, welcome.generation):
            self._renew(ear, "restarted")
            return
        if talk.welcomed:
            return  # said twice
        ear.generation, ear.limit = welcome.generation, welcome.limit
        ear.refused, ear.why = False, ""
        talk.welcomed = True
        self._heard.add(ear)
        before = ear.skew
        ear.skew = welcome.time - (talk.opened_at + wall) / 2
        if abs(ear.skew) > self._skew and (before is None or abs(before) <= self._skew):
            way = "ahead of" if ear.skew > 0 else "behind"
            self._note(f"the clock of {ear.name} is {abs(ear.skew):.3g} s {way} this one's")
        if ear.unheard:
            self._hear_again(None, now, ear)
        if ear.said or ear.over:
            ear.over, ear.said = ear.said | ear.over, {}
            self._flush(ear)

    def _is_current(self, talk: Talk) -> bool:
        return talk.ear.talk is talk

    def _is_newer(self, talk: Talk, said: Message) -> bool:
        return said.sequence > talk.sequence

    def _is_possible(self, ear: Ear, received: int) -> bool:
        """An agent that keeps count has never received less than before, nor what was not sent."""
        return ear.received <= received <= ear.issued

    def _is_other(self, ear: Ear, generation: str) -> bool:
        return ear.generation is not None and generation != ear.generation

    # -- inside ---------------------------------------------------------------------------------

    def _begin(self, ear: Ear) -> None:
        self._lives += 1
        self._remember(ear)
        ear.begin(f"{self.name}.{self._lives}")

    def _remember(self, ear: Ear) -> None:
        """So that nobody speaks for an agent that is gone."""
        if ear.generation is not None:
            ear.past.append(ear.generation)

    def _lose(self, ear: Ear) -> None:
        """There is no stream any more."""
        talk, ear.talk = ear.talk, None
        if talk is not None:
            self._awaited.discard(talk)

    def _renew(self, ear: Ear, why: str) -> None:
        """The agent has lost count: begin anew, on a new stream."""
        self.restarts += 1
        left = [slot for slot in (*ear.over.values(), *ear.said.values()) if slot is not None]
        ear.carried.update(dict.fromkeys([*ear.out, *left], self.core.now + self.unheard))
        ear.out.clear()
        self.core.restarted(ear.name, ended=sum(slot.released for slot in ear.carried))
        self._begin(ear)
        talk = ear.talk
        self._lose(ear)
        self._note(f"the agent of {ear.name} has {why}")
        if talk is not None:
            talk.mouth.close(why)

    def _settle(self, ear: Ear, number: int, slot: Slot | None) -> None:
        """Nobody knows whether this task came, and it will not come any more.

        Its slot is given if the server may be working on it.
        """
        ear.over[number] = slot
        self._flush(ear)
        if len(ear.said) + len(ear.over) > MOST_UNSETTLED:
            self._renew(ear, "not shown what it has received")

    def _flush(self, ear: Ear) -> None:
        """Say which tasks are over, if there is a stream."""
        while ear.over and ear.talk is not None and ear.talk.welcomed:
            numbers = tuple(islice(ear.over, MOST_OVER))
            ear.said.update((number, ear.over.pop(number)) for number in numbers)
            ear.talk.mouth.say(line(Over(numbers)))

    def _miss(self, talk: Talk, now: float) -> None:
        """Messages are missing: what they said must be asked for."""
        self.gaps += 1
        if not talk.uncertain:
            talk.uncertain = True
            self._ask(talk, "answer", now)

    def _ask(self, talk: Talk, kind: str, now: float) -> None:
        talk.asked.append(kind)
        talk.asked_at = now
        self.core.asked(kind)
        talk.mouth.say(_ASK)

    def _remind(self, talk: Talk, now: float) -> None:
        """Give up a stream on which answers are missing; have it shown what it has heard."""
        late = talk.uncertain and now - talk.asked_at > self.unheard
        if late or (talk.awaited and now - talk.announced_at > self.unheard):
            why = f"no answer within {self.unheard:g} s"
            talk.mouth.close(why)
            self.closed(talk, why)
        elif talk.ear.said and not talk.awaited and now - talk.announced_at >= CONFIRM:
            self._number += 1
            self._await(talk, now)
            self._say_announcement(talk)

    def _announce(self, value: int) -> None:
        """Tell every server what is announced now."""
        self._number += 1
        ears = [self.ears[server.name] for server in self.core.servers if server.name in self.ears]
        ears += [ear for ear in self.ears.values() if ear not in ears]
        talks = [ear.talk for ear in ears if ear.talk is not None]
        self._awaited.update(talks)
        for talk in talks:  # all of them first: an answer may come before the last is told
            self._await(talk, self.core.now)
        for talk in talks:
            self._say_announcement(talk)

    def _await(self, talk: Talk, now: float) -> None:
        talk.awaited, talk.announced_at, talk.marked = self._number, now, tuple(talk.ear.said)

    def _say_announcement(self, talk: Talk) -> None:
        talk.mouth.say(line(Announce(self.core.announcement, talk.awaited)))

    def _answered(self, talk: Talk, number: int) -> None:
        """An announcement was answered, and with it all that was said before it was heard."""
        if number and number == talk.awaited:
            talk.awaited = 0
            self._awaited.discard(talk)
            for heard in talk.marked:
                talk.ear.said.pop(heard, None)

    def _may_learn(self) -> bool:
        """All have answered; and of a single server that is heard nothing can be learnt."""
        return not self._awaited and len(self._heard) >= min(2, len(self.core.servers))

    def _forget(self, ears: list[Ear]) -> None:
        """These were not heard for too long."""
        for ear in ears:
            ear.unheard = True
            self._heard.discard(ear)
            self._note(f"{ear.name} was not heard for {self.unheard:g} s")
        if ears:
            self.core.forgot(*(ear.name for ear in ears))

    def _hear_again(self, talk: Talk | None, now: float, ear: Ear | None = None) -> None:
        """A server is heard again; on an old stream it is asked, on a new one it says by itself."""
        ear = talk.ear if talk is not None else ear
        assert ear is not None
        ear.unheard = False
        self._heard.add(ear)
        self._note(f"{ear.name} is heard again")
        if talk is not None:
            talk.uncertain = True
            self._ask(talk, "answer", now)
        self._judge()

    def _judge(self) -> None:
        """Say it when the last server falls silent, and when one is heard again."""
        up = [self.ears[s.name] for s in self.core.servers if s.name in self.ears]
        deaf = bool(up) and all(ear.unheard for ear in up)
        if deaf is not self.deaf:
            self.deaf = deaf
            self._note(
                "no server is heard: tasks go to servers at random" if deaf else
                "servers are heard: tasks go where the policy says"
            )  # fmt: skip


_ASK, _BEAT = line(Ask()), line(Beat())
assert UNHEARD > BEAT
