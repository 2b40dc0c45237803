"""What a policy is: what the dispatcher does, and what a server tells it.

Every message is a promise: `m > 0` from a server says "I have fewer than m tasks", 0 is
silence. The driver adds the tasks it has sent since the message was made, so the dispatcher
hears a bound that is still true, however late; messages are idempotent and need no threshold
to be understood by. A policy is a frozen record of small plain functions, all arguments
positional; `compile.py` makes the compiled twins that simulator and live dispatcher run.

    init(bounds, speeds, announcement, **params) -> (state, announcement)
        The dispatcher's memory: a NamedTuple of arrays whose first field `par` is a NamedTuple
        of scalars, given to the server half as `params`. bounds[s], int64, is the most tasks
        server s can have: its length where known, huge where not. `announcement` is None at
        first, later the one in force. Must be right from any bounds, at any moment.
    choose(state, fleet, rng) -> server
        Where the next task goes; books it in its own memory. Only a policy with `probes` may
        look at lengths, by ask(fleet, server), which counts the question and the answer.
    hear(state, server, bound)
        A message, own sends added: the server has fewer than `bound` tasks.
    adapt(state) -> announcement
        After the task is placed and its message heard; a changed value goes to all servers.
    tell_start(length, announcement, params, rng) -> m      a task has come; length includes it
    tell_finish(length, announcement, params, rng) -> m     a task has left; length without it
    tell_state(length, announcement, params, rng) -> m      the full answer: to an announcement,
                                                            at an update by the clock, at joining
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..compile import near
from ..errors import PolicyError

UNKNOWN = 2**40  # a bound that says nothing
LARGEST = 2**31 - 1  # of whole-number parameters: sums of two still fit
REQUIRED = ...  # the default of a parameter that must be given


class NoParams(NamedTuple):
    """The parameters of a policy that has none; the field is there for numba's sake."""

    none: int = 0


NO_PARAMS = NoParams()


class Stateless(NamedTuple):
    """The memory of a policy that keeps none."""

    par: NoParams


class OnlyParams(NamedTuple):
    """The memory of a policy of counts that needs no more than its parameters."""

    par: Any


@near(asked=1)
class Fleet(NamedTuple):
    """What a policy that probes can reach: the lengths, through `ask` alone."""

    size: int
    length: np.ndarray  # int32[n]
    asked: np.ndarray  # int64[1], messages sent for probing


@near(asked=1, now=1, workers=1)
class SizedFleet(NamedTuple):
    """The same for a policy that needs sizes, in a kernel that knows them."""

    size: int
    length: np.ndarray  # int32[n]
    asked: np.ndarray  # int64[1], messages sent for probing
    work: np.ndarray  # float64[n], work at each server at time `since`, s at speed 1
    since: np.ndarray  # float64[n], s
    now: np.ndarray  # float64[1], s, kept by the kernel
    speed: np.ndarray  # float64[n]
    workers: np.ndarray  # int64[1], tasks in service at once


class Blind(NamedTuple):
    """What any other policy can see of the fleet: how many servers there are."""

    size: int


def ask(fleet, server):
    """Return the length of a server's queue, at the price of a question and an answer."""
    if server < 0 or server >= fleet.size:
        raise IndexError("ask(fleet, server): no such server")
    fleet.asked[0] += 2
    return fleet.length[np.uintp(server)]


def ask_work(fleet, server):
    """Return the time that the tasks at a server still take, one after the other, s.

    At the price of a question and an answer, like `ask`; only policies that need sizes can.
    """
    if server < 0 or server >= fleet.size:
        raise IndexError("ask_work(fleet, server): no such server")
    fleet.asked[0] += 2
    return work_left(fleet, server, fleet.length[server]) / fleet.speed[server]


def work_left(fleet, server, length):
    """Return the work at a server now, s at speed 1; it had `length` tasks since it was booked."""
    done = (fleet.now[0] - fleet.since[server]) * min(length, fleet.workers[0])
    return max(0.0, fleet.work[server] - done * fleet.speed[server])


def book_work(fleet, server, before, added):
    """Book the work at a server that had `before` tasks until now and got `added` more, s."""
    fleet.work[server] = work_left(fleet, server, before) + added
    fleet.since[server] = fleet.now[0]


class Ranks(NamedTuple):
    """Exchangeable servers, the longest first, as a kernel sees them that keeps counts only.

    The server of rank u = 0 .. size - 1 has at least i tasks if and only if u < least[i].
    """

    size: int
    least: np.ndarray  # int64[levels], servers with at least i tasks
    asked: np.ndarray  # int64[1], messages sent for probing


def at_least(ranks, level):
    """Return how many servers have at least `level` tasks, level >= 0; none beyond the table."""
    return ranks.least[np.uintp(level)] if level < ranks.least.size else np.int64(0)


def below_level(ranks, level):
    """Return how many servers have fewer than `level` tasks."""
    return ranks.size - at_least(ranks, level)


def remember_nothing(bounds, speeds, announcement):
    """Init of a policy without memory."""
    return Stateless(NO_PARAMS), 0


def ignore(state, server, bound):
    """Hear of a policy that listens to nothing."""


def keep(state):
    """Adapt of a policy that never announces."""
    return 0


def silent(length, announcement, params, rng):
    """Tell of a server that has nothing to say."""
    return 0


def foresee_nothing(state, fleet, rng):
    """What a policy without foresight says of the next task."""
    return 0


def expect_nothing(state, server):
    """What it does before a message."""


def remember_no_count(size):
    """Init of a policy of counts without memory."""
    return Stateless(NO_PARAMS), 0


def overlook(state, ranks):
    """See of a policy of counts that does not learn."""


@dataclass(frozen=True)
class Ranked:
    """A policy in front of exchangeable servers of which only the counts per level are known.

    With instant messages what a dispatcher keeps of such servers follows from those counts; so
    a choice is a rank, drawn by the same law as the policy's `choose` draws a server. What servers
    tell, and `adapt`, are the policy's own.
    """

    choose: Callable[..., Any]  # (state, ranks, rng) -> rank of the server, 0 the longest
    init: Callable[..., Any] = remember_no_count  # (size, **params) -> (state, announcement)
    see: Callable[..., Any] = overlook  # (state, ranks), after a task was placed, before `adapt`
    # (state, share, size) -> probability that the chosen server is one of `share` of the longest;
    # float; for policies whose choice varies smoothly with the counts
    tail: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Clock:
    """When servers tell their state unasked; the policy's parameter `delta` is the rate.

    delta is the mean number of updates of a server per mean service time. A server whose
    `tell_state` has nothing to say sends nothing. The policy's parameter `mode` tells what an
    update costs: "pull", one message, or "push", a question and an answer.
    """

    together: bool  # all servers at the same moments, or each at its own
    regular: bool  # at constant intervals, or at exponential ones


@dataclass(frozen=True)
class Knows:
    """For a policy whose memory holds every length, as long as messages take no time.

    A kernel of pools then keeps no lengths and no list of tasks beside it. At a million servers,
    where every array is a cache line to wait for, that is 1.8 times the speed, in a quarter of the
    memory.
    """

    # (state, fleet, rng) -> server, its tasks with this one; `choose` and the length
    join: Callable[..., Any]
    # (state, target) -> server, its tasks with this one: whose task number `target` is, counted in
    # any order, 0 <= target < all tasks; a float. Books the departure as its message would.
    leave: Callable[..., Any]
    # (state) -> the same without what only `choose` and `hear` need
    lean: Callable[..., Any] = lambda state: state


@dataclass(frozen=True)
class Foresight:
    """Which memory a policy needs soon, so that a kernel of a large fleet need not wait for it.

    The functions ask for cache lines ahead of time (compile.hurry). They may read random numbers to
    come (rng.ahead), and must change nothing and draw nothing: no result hangs on them, only speed,
    a third of the time at a million servers.
    """

    # (state, fleet, rng) -> the server of the next task, or of the one after it, as far as can be
    # said before any message
    choose: Callable[..., Any] = foresee_nothing
    hear: Callable[..., Any] = expect_nothing  # (state, server), which may send a message soon


NO_FORESIGHT = Foresight()


@dataclass(frozen=True)
class Param:
    """One parameter of a policy: its default and what is allowed."""

    default: Any
    kind: type  # int, float, bool or str
    meaning: str = ""
    least: float | None = None
    above: float | None = None  # strictly greater than this
    below: float | None = None  # strictly less than this
    choices: tuple[str, ...] = ()
    shown: bool = False  # part of the label even at its default
    most: float | None = None
    reads: Callable[[Any], Any] | None = None  # turns what was written into one form; may refuse

    def allowed(self) -> str:
        """Say in words what is allowed, e.g. 'a whole number >= 1'."""
        if self.choices:
            return " or ".join(repr(c) for c in self.choices)
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
        bounds = [f">= {self.least}" if self.least is not None else ""]
        bounds += [f"> {self.above}" if self.above is not None else ""]
        bounds += [f"<= {self.most}" if self.most is not None else ""]
        bounds += [f"< {self.below}" if self.below is not None else ""]
        return " ".join([words[self.kind], " and ".join(b for b in bounds if b)]).strip()

    def check(self, policy: str, name: str, value: Any) -> Any:
        """Return `value` as this parameter's kind.

        Raises
        ------
        PolicyError
            If it is not allowed; the text says what is.
        """
        if value is None and self.default is None:
            return None
        if self.reads is not None:
            try:
                value = self.reads(value)
            except PolicyError as error:
                raise PolicyError(f"{policy}: {error}") from None
        if self.kind is int and isinstance(value, int) and abs(value) > LARGEST:
            raise PolicyError(
                f"{policy}: {name} = {value} must be a whole number of at most {LARGEST}"
            )
        good = isinstance(value, self.kind) and not (self.kind is not bool and value is True)
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value, good = float(value), True
        if self.kind is int and isinstance(value, bool):
            good = False
        if good and self.kind in (int, float):
            good = value == value and abs(value) != float("inf")
            good = good and (self.least is None or value >= self.least)
            good = good and (self.above is None or value > self.above)
            good = good and (self.most is None or value <= self.most)
            good = good and (self.below is None or value < self.below)
        if good and self.choices:
            good = value in self.choices
        if not good:
            raise PolicyError(f"{policy}: {name} = {value!r} must be {self.allowed()}")
        return value


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy and the facts about it. What is left out defaults to nothing."""

    name: str
    init: Callable[..., Any] = remember_nothing
    choose: Callable[..., Any] = None  # type: ignore[assignment]
    hear: Callable[..., Any] = ignore
    adapt: Callable[..., Any] = keep
    tell_start: Callable[..., Any] = silent
    tell_finish: Callable[..., Any] = silent
    tell_state: Callable[..., Any] = silent
    about: str = ""  # one line: what it does
    source: str = ""
    cost: str = ""  # messages per task, a sentence
    memory: float = 0  # bits per server at the dispatcher
    params: Mapping[str, Param] = field(default_factory=dict)
    probes: bool = False  # may ask lengths
    announces: bool = False  # adapt may change what servers must know
    needs: frozenset[str] = frozenset()  # what it must see beside lengths: "sizes", "speeds"
    knows: Knows | None = None  # for policies whose memory holds every length
    clock: Clock | None = None  # updates by the clock, for policies that have them
    check: Callable[..., str | None] | None = None  # (servers, **params) -> why not, or None
    foresight: Foresight = NO_FORESIGHT  # for fleets so large that memory is what costs
    ranked: Ranked | None = None  # its form for exchangeable servers, where it has one

    def __post_init__(self) -> None:
        if not callable(self.choose):
            raise PolicyError(f"policy {self.name!r} has no choose(state, fleet, rng)")
        if not self.params:
            object.__setattr__(self, "params", _params_of(self.init))

    @property
    def learns(self) -> bool:
        """Whether what it announces can change."""
        return self.adapt is not keep

    @property
    def tells(self) -> bool:
        """Whether servers have anything to tell."""
        return {self.tell_start, self.tell_finish, self.tell_state} != {silent}

    def __repr__(self) -> str:
        return f"<policy {self.name}>"


def _params_of(init: Callable[..., Any]) -> dict[str, Param]:
    """Read a policy's parameters off the keyword arguments of its `init`."""
    found = {}
    for name, argument in list(inspect.signature(init).parameters.items())[3:]:
        if argument.default is inspect.Parameter.empty:
            raise PolicyError(f"init's parameter {name!r} needs a default")
        kind = type(argument.default)
        if kind not in (int, float, bool, str):
            raise PolicyError(f"init's parameter {name!r} must default to a number, truth or word")
        found[name] = Param(argument.default, kind)
    return found
