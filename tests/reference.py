"""A slow simulator in plain Python: the oracle that kernels and policies are tested against.

It shares no line with the package. Each policy is the sentence that defines it, read off the
true lengths of all servers; there are no tokens, bands or promises here, nor estimates but where
they are the definition. Messages are counted by the tables below, from what happened to a length,
not by sending any:

    policy             a task joins, leaving the server with j tasks   a task leaves, leaving j
    random             -                                                -
    round-robin        -                                                -
    jsq                -                                                always
    jsq-d              2 d (d questions, d answers), asked before       -
    jiq                -                                                j = 0
    jbt(r)             j < r                                            j = r - 1
    threshold(l, h)    j < l, or l < j < h                              j = l - 1, or j = h - 1
    total-threshold    -                                                always
    sparsified-jiq(p)  -                                                j = 0, with probability p

A learning threshold that changes is announced to all; every server with fewer than (the new)
h tasks answers. Announcements and answers are instant. The total-threshold is not announced.

JSQ on estimates (sujsq-det and the like): the estimate of a server grows by 1 with each task sent
there and becomes the length at an update, which is 1 message; if idle_only, a server that is busy
sends none. In mode push a question comes before each, answered or not. stale-jsq goes by the
lengths at the last update alone. Updates come at T, 2T, ... (T = 1/delta) for all servers together;
at i T/n, i = 1, 2, ..., for server i mod n of n; or at exponential gaps, for all together or for
each server on its own.

A policy is also a judge: given the choices that someone else made, `simulate(choices=...)`
follows them, says whether the rule allows each, and works out everything else (waits,
messages, time averages) for itself.

Conventions. A task that ends when another arrives has left before it arrives; an update at that
moment comes between the two. A task sent to a full server is lost: it costs its questions, and
nothing else happens, but that stale-jsq counts its sends there until the next update. Averages are
over the time from `warm_up` to the end; waits and responses are those of tasks that arrived
after `warm_up` and began service before the end; `max_tasks` too is that of the time after
`warm_up`, while threshold changes are those of the whole run.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

KINDS = ("join", "leave", "update", "answer", "probe")
NEVER = math.inf
Strike = tuple[float, Sequence[int]]  # a moment (s), and the servers that update then


class Fleet:
    """The true lengths of all servers, and who has which."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.size = len(lengths)
        self.lengths = list(lengths)
        top = max(lengths, default=0) + 2
        self.having: list[list[int]] = [[] for _ in range(top)]  # [j]: the servers with j tasks
        self.place = [0] * self.size  # of a server in its list
        for server, length in enumerate(lengths):
            self.place[server] = len(self.having[length])
            self.having[length].append(server)
        self.at_least = [len(lengths)] * top  # servers with at least j tasks
        for j in range(1, top):
            self.at_least[j] = self.at_least[j - 1] - len(self.having[j - 1])
        self.total = sum(lengths)

    def add(self, server: int) -> int:
        """One task more at a server; return its length now."""
        length = self.lengths[server] + 1
        if length + 1 >= len(self.having):
            self.having.append([])
            self.at_least.append(0)
        self._move(server, length)
        self.at_least[length] += 1
        self.total += 1
        return length

    def remove(self, server: int) -> int:
        """One task less at a server; return its length now."""
        length = self.lengths[server] - 1
        self._move(server, length)
        self.at_least[length + 1] -= 1
        self.total -= 1
        return length

    def _move(self, server: int, length: int) -> None:
        old = self.having[self.lengths[server]]
        last = old.pop()
        if last != server:
            at = self.place[server]
            old[at] = last
            self.place[last] = at
        new = self.having[length]
        self.place[server] = len(new)
        new.append(server)
        self.lengths[server] = length

    def below(self, length: int) -> int:
        """How many servers have fewer than `length` tasks."""
        at_least = self.at_least
        return self.size - at_least[length] if length < len(at_least) else self.size

    def any_below(self, length: int, rng: random.Random) -> int:
        """A server chosen uniformly among those with fewer than `length` tasks, of which some."""
        pick = int(rng.random() * self.below(length))
        for servers in self.having:
            if pick < len(servers):
                return servers[pick]
            pick -= len(servers)
        raise AssertionError("nobody below")

    def any(self, rng: random.Random) -> int:
        """A server chosen uniformly among all."""
        return int(rng.random() * self.size)

    def shortest(self) -> int:
        """The least length."""
        length = 0
        while not self.having[length]:
            length += 1
        return length

    def imbalance(self) -> int:
        """Tasks that would have to move to even out the tasks present."""
        even, extra = divmod(self.total, self.size)
        missing = self.size * even - sum(self.at_least[1 : even + 1])
        above = self.at_least[even + 1] if even + 1 < len(self.at_least) else 0
        return missing + max(extra - above, 0)


class Policy:
    """What defines a policy. This one is `random`: every server alike, nothing said."""

    probes = 0  # questions and answers, per task
    clock: str | None = None  # "together" or "apart", then "regular" or "random", if it has one
    delta = 0.0  # updates per server and mean service time
    coins = False  # whether a server that a task left may toss one before it speaks
    announces = True  # what it has learnt

    def begin(self, fleet: Fleet) -> None:
        """Called once, with the start state."""

    def lost(self, server: int) -> None:
        """Called when the server chosen for a task was full."""

    def update(self, fleet: Fleet, server: int) -> int:
        """The server's clock strikes; return how many messages that costs."""
        return 0

    def says_idle(self, server: int, length: int, rng: random.Random) -> bool:
        """Where there are coins: does a server that a task left, leaving so many, say so?"""
        return False

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        return fleet.any(rng)

    def allows(self, fleet: Fleet, server: int) -> bool:
        """Could the rule have chosen this server just now?"""
        return True

    def chosen(self, server: int) -> None:
        """Called after each choice, whoever made it."""

    def tells_joining(self, length: int) -> bool:
        return False

    def tells_leaving(self, length: int) -> bool:
        return False

    level: int | None = None

    def look(self, fleet: Fleet) -> None:
        """Called just before a task is placed."""

    def learn(self, fleet: Fleet) -> bool:
        """Called after a task is placed; did the threshold change?"""
        return False

    def answers(self, fleet: Fleet) -> int:
        """How many servers answer the announcement of a new threshold."""
        return 0


class Random(Policy):
    pass


class RoundRobin(Policy):
    def __init__(self, first: int = 0) -> None:
        self.next = first

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        return self.next % fleet.size

    def allows(self, fleet: Fleet, server: int) -> bool:
        return server == self.next % fleet.size

    def chosen(self, server: int) -> None:
        self.next = server + 1


class Shortest(Policy):
    """jsq: uniformly among the servers with the fewest tasks."""

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        candidates = fleet.having[fleet.shortest()]
        return candidates[int(rng.random() * len(candidates))]

    def allows(self, fleet: Fleet, server: int) -> bool:
        return fleet.lengths[server] == fleet.shortest()

    def tells_leaving(self, length: int) -> bool:
        return True


class ShortestOf(Policy):
    """jsq-d: d servers drawn uniformly, the shortest of them, ties uniform."""

    def __init__(self, d: int = 2, replacement: bool = False) -> None:
        self.d = d
        self.replacement = replacement
        self.probes = d

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        n, d, lengths = fleet.size, self.d, fleet.lengths
        if self.replacement:
            drawn = [int(rng.random() * n) for _ in range(d)]
        elif d == 2:
            first, second = int(rng.random() * n), int(rng.random() * (n - 1))
            drawn = [first, second + (second >= first)]
        else:
            drawn = rng.sample(range(n), d)
        # The draws are exchangeable: the first of the shortest is a uniform one of them.
        return min(drawn, key=lengths.__getitem__)

    def allows(self, fleet: Fleet, server: int) -> bool:
        if self.replacement:
            return True
        no_shorter = fleet.size - fleet.below(fleet.lengths[server])
        return no_shorter >= self.d


class Below(Policy):
    """jbt(r): uniformly among the servers with fewer than r tasks; if none, among all."""

    def __init__(self, r: int = 2) -> None:
        self.r = r

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        return fleet.any_below(self.r, rng) if fleet.below(self.r) else fleet.any(rng)

    def allows(self, fleet: Fleet, server: int) -> bool:
        return fleet.lengths[server] < self.r or not fleet.below(self.r)

    def tells_joining(self, length: int) -> bool:
        return length < self.r

    def tells_leaving(self, length: int) -> bool:
        return length == self.r - 1


class Idle(Below):
    """jiq is jbt(1); a server that a task has just joined is never idle."""

    def __init__(self) -> None:
        super().__init__(1)


class Threshold(Policy):
    """Below l if any; else from l to below h = l + step if any; else all."""

    def __init__(self, level: int, step: int = 1) -> None:
        self.level: int = level
        self.step = step

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        for bound in (self.level, self.level + self.step):
            if fleet.below(bound):  # when it comes to h, nobody has fewer than l
                return fleet.any_below(bound, rng)
        return fleet.any(rng)

    def allows(self, fleet: Fleet, server: int) -> bool:
        length = fleet.lengths[server]
        if fleet.below(self.level):
            return length < self.level
        return length < self.level + self.step or not fleet.below(self.level + self.step)

    def tells_joining(self, length: int) -> bool:
        return length < self.level or self.level < length < self.level + self.step

    def tells_leaving(self, length: int) -> bool:
        return length in (self.level - 1, self.level + self.step - 1)


class LearningThreshold(Threshold):
    """A threshold that moves by `step` when a task arrives.

    rule "tokens": by the counts just before the task: up if at most one server has fewer
    than h tasks, else down if at most alpha n have l or more.
    rule "program": by the counts after the task is placed: up if none has fewer than h; then,
    with the new l, down if at most alpha n + 1 have l or more.
    Never below 0: a move that would end there is not made.
    """

    def __init__(self, alpha: float, step: int = 1, level: int = 0, rule: str = "tokens") -> None:
        super().__init__(level, step)
        if rule not in ("tokens", "program"):
            raise ValueError(rule)
        self.alpha = alpha
        self.rule = rule
        self.green = self.yellow = 0

    def look(self, fleet: Fleet) -> None:
        self.green = fleet.below(self.level)
        self.yellow = fleet.below(self.level + self.step)

    def learn(self, fleet: Fleet) -> bool:
        before = self.level
        n = fleet.size
        if self.rule == "tokens":
            if self.yellow <= 1:
                self.level += self.step
            elif self.level >= self.step and n - self.green <= self.alpha * n:
                self.level -= self.step
        else:
            if fleet.below(self.level + self.step) == 0:
                self.level += self.step
            if self.level >= self.step and n - fleet.below(self.level) <= self.alpha * n + 1:
                self.level -= self.step
        return self.level != before

    def answers(self, fleet: Fleet) -> int:
        return fleet.below(self.level + self.step)


class TotalThreshold(Threshold):
    """The threshold is the number of tasks per server, rounded down to a multiple of `step`."""

    announces = False

    def __init__(self, step: int = 1) -> None:
        super().__init__(0, step)
        self.before = 0

    def begin(self, fleet: Fleet) -> None:
        self.set_level(fleet)
        self.before = self.level

    def set_level(self, fleet: Fleet) -> None:
        self.level = self.step * (fleet.total // (self.step * fleet.size))

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        self.set_level(fleet)
        return super().choose(fleet, rng)

    def allows(self, fleet: Fleet, server: int) -> bool:
        self.set_level(fleet)
        return super().allows(fleet, server)

    def tells_joining(self, length: int) -> bool:
        return False

    def tells_leaving(self, length: int) -> bool:
        return True

    def learn(self, fleet: Fleet) -> bool:
        changed, self.before = self.level != self.before, self.level
        return changed

    def answers(self, fleet: Fleet) -> int:
        return 0


class SparsifiedIdle(Policy):
    """Uniformly among the idle servers that said so; if there are none, among all.

    A server that runs empty says so with probability p; those idle at the start are known.
    """

    coins = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = p
        self.known: list[int] = []

    def begin(self, fleet: Fleet) -> None:
        self.known = [server for server in range(fleet.size) if fleet.lengths[server] == 0]

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        return rng.choice(self.known) if self.known else fleet.any(rng)

    def allows(self, fleet: Fleet, server: int) -> bool:
        return server in self.known or not self.known

    def chosen(self, server: int) -> None:
        if server in self.known:
            self.known.remove(server)

    def says_idle(self, server: int, length: int, rng: random.Random) -> bool:
        if length > 0 or rng.random() >= self.p:
            return False
        self.known.append(server)
        return True


class Estimates(Policy):
    """JSQ on estimates: uniformly among the servers with the least."""

    def __init__(self, delta: float = 1.0, idle_only: bool = False, mode: str = "pull") -> None:
        self.delta = delta
        self.idle_only = idle_only
        self.asked = {"pull": 0, "push": 1}[mode]
        self.estimate: list[int] = []

    def begin(self, fleet: Fleet) -> None:
        self.estimate = list(fleet.lengths)

    def choose(self, fleet: Fleet, rng: random.Random) -> int:
        least = min(self.estimate)
        return rng.choice([s for s, estimate in enumerate(self.estimate) if estimate == least])

    def allows(self, fleet: Fleet, server: int) -> bool:
        return self.estimate[server] == min(self.estimate)

    def chosen(self, server: int) -> None:
        self.estimate[server] += 1

    def lost(self, server: int) -> None:
        self.estimate[server] -= 1

    def update(self, fleet: Fleet, server: int) -> int:
        if self.idle_only and fleet.lengths[server] > 0:
            return self.asked
        self.estimate[server] = fleet.lengths[server]
        return self.asked + 1


class SujsqDet(Estimates):
    clock = "together, regular"


class SujsqExp(Estimates):
    clock = "together, random"


class AujsqDet(Estimates):
    clock = "apart, regular"


class AujsqExp(Estimates):
    clock = "apart, random"


class Stale(Estimates):
    """stale-jsq: by the lengths at the last update; its own sends it does not count."""

    clock = "together, regular"

    def __init__(self, delta: float = 1.0) -> None:
        super().__init__(delta)
        self.sent: list[int] = []

    def begin(self, fleet: Fleet) -> None:
        super().begin(fleet)
        self.sent = [0] * fleet.size
        self.told = list(fleet.lengths)

    def chosen(self, server: int) -> None:
        self.sent[server] += 1

    def lost(self, server: int) -> None:
        self.sent[server] -= 1
        self.estimate[server] = self.told[server] + self.sent[server]

    def update(self, fleet: Fleet, server: int) -> int:
        self.sent[server] = 0
        self.told[server] = fleet.lengths[server]
        return super().update(fleet, server)


def strikes(rule: Policy, servers: int, unit: float, rng: random.Random) -> Iterator[Strike]:
    """When the clocks of a rule strike (s), and whose; `unit` is the mean service time (s)."""
    if rule.clock is None:
        return
    gap = unit / rule.delta
    everyone = range(servers)
    together, regular = rule.clock.startswith("together"), rule.clock.endswith("regular")
    now, turn = 0.0, 0
    while True:
        turn += 1
        if regular:
            now = turn * gap if together else turn * gap / servers
            yield now, everyone if together else [turn % servers]
        else:
            # servers with clocks of their own: the next of all is n times as soon, anybody's
            now -= math.log(1.0 - rng.random()) * (gap if together else gap / servers)
            yield now, everyone if together else [int(rng.random() * servers)]


POLICIES: dict[str, type[Policy]] = {
    "random": Random,
    "round-robin": RoundRobin,
    "jsq": Shortest,
    "jsq-d": ShortestOf,
    "jiq": Idle,
    "jbt": Below,
    "threshold": Threshold,
    "learning-threshold": LearningThreshold,
    "total-threshold": TotalThreshold,
    "sparsified-jiq": SparsifiedIdle,
    "sujsq-det": SujsqDet,
    "sujsq-exp": SujsqExp,
    "aujsq-det": AujsqDet,
    "aujsq-exp": AujsqExp,
    "stale-jsq": Stale,
}


@dataclass
class Result:
    """What a run showed. Lengths of arrays follow the largest length seen."""

    servers: int
    span: float  # s, from warm-up to the end
    end: float  # s, the end of the run
    present_time: list[float]  # [j]: servers with j tasks, integrated over the span
    moved_time: float  # tasks out of balance, integrated over the span
    max_tasks: int  # at one server
    arrivals: int  # after warm-up, lost ones included
    lost_after: int  # of these
    departures: int  # after warm-up
    sent: Counter[str]  # messages by kind, after warm-up
    waits: list[float]  # s, before service
    responses: list[float]  # s
    tasks: dict[str, int]  # arrived (the start state included), finished, present, lost
    announcements: int
    changes: int  # of the threshold, announced or not
    last_change: float  # s, 0 if none
    level_time: dict[int, float]  # s spent at each threshold, over the whole run
    events: int  # arrivals and departures, the whole run
    snapshots: list[list[int]]  # servers with at least j tasks, at the times asked for
    choices: list[int] = field(default_factory=list)
    history: list[tuple[float, str, int]] = field(default_factory=list)
    task_waits: list[float] = field(default_factory=list)  # by task, nan if lost or not begun
    lengths: list[int] = field(default_factory=list)  # at the end
    seconds: float = field(default=0.0, compare=False)  # of CPU time, in the loop alone

    @property
    def mean_tasks(self) -> float:
        """Tasks per server."""
        return sum(j * t for j, t in enumerate(self.present_time)) / (self.servers * self.span)

    @property
    def law(self) -> list[float]:
        """Fraction of servers with exactly j tasks."""
        return [t / (self.servers * self.span) for t in self.present_time]

    @property
    def occupancy(self) -> list[float]:
        """Fraction of servers with at least i tasks, i = 1, 2, ..."""
        law = self.law
        return [sum(law[i:]) for i in range(1, len(law))]

    @property
    def imbalance(self) -> float:
        """Tasks per server out of balance."""
        return self.moved_time / (self.servers * self.span)

    @property
    def share(self) -> dict[int, float]:
        """Of all tasks at all times, the fraction at a server with x tasks in all."""
        all_time = sum(j * t for j, t in enumerate(self.present_time))
        return {j: j * t / all_time for j, t in enumerate(self.present_time) if j * t > 0}

    @property
    def mean_neighbours(self) -> float:
        return sum(s * (x - 1) for x, s in self.share.items())

    def quantile_neighbours(self, p: float) -> int:
        """The least number of neighbours that a fraction p of all tasks does not exceed."""
        reached = 0.0
        for x, s in sorted(self.share.items()):
            reached += s
            if reached >= p:
                return x - 1
        return max(self.share) - 1

    def utility(self, of_share: Callable[[float], float] = math.log) -> float:
        """Mean over tasks and time of a function of 1/x, x the tasks at the task's server."""
        return sum(s * of_share(1 / x) for x, s in self.share.items())

    @property
    def messages(self) -> dict[str, float]:
        """Per task, by kind; all five kinds."""
        return {kind: self.sent[kind] / self.arrivals for kind in KINDS}

    @property
    def messages_per_task(self) -> float:
        return sum(self.messages.values())

    @property
    def mean_wait(self) -> float:
        return sum(self.waits) / len(self.waits)

    @property
    def mean_response(self) -> float:
        return sum(self.responses) / len(self.responses)

    def quantile(self, p: float, of: str = "responses") -> float:
        """The sample quantile of "waits" or "responses"."""
        values = sorted(getattr(self, of))
        return values[min(int(p * len(values)), len(values) - 1)]

    @property
    def threshold_time(self) -> dict[int, float]:
        """Fraction of time at each threshold, over the whole run."""
        return {level: t / self.end for level, t in self.level_time.items()}

    @property
    def throughput(self) -> float:
        return self.departures / self.span

    @property
    def lost(self) -> float:
        """Fraction of arrivals."""
        return self.lost_after / self.arrivals


def exponential(mean: float = 1.0) -> Callable[[random.Random], float]:
    """Sizes of an exponential law."""
    return lambda rng: -mean * math.log(1.0 - rng.random())


def poisson(
    rate: float, service: Callable[[random.Random], float], rng: random.Random
) -> Iterator[tuple[float, float]]:
    """Tasks (arrival, size) of a Poisson stream that does not end."""
    now = 0.0
    while True:
        now -= math.log(1.0 - rng.random()) / rate
        yield now, service(rng)


def piecewise(
    starts: Sequence[float],
    rates: Sequence[float],
    end: float,
    service: Callable[[random.Random], float],
    rng: random.Random,
) -> Iterator[tuple[float, float]]:
    """Tasks of a Poisson stream with rate rates[i] from starts[i] to the next start, or the end.

    Each interval on its own: memorylessness lets the clock restart at every change.
    """
    for start, stop, rate in zip(starts, [*starts[1:], end], rates, strict=True):
        now = start
        while rate > 0:
            now -= math.log(1.0 - rng.random()) / rate
            if now >= stop:
                break
            yield now, service(rng)


def simulate(
    policy: str | Policy,
    *,
    servers: int,
    discipline: str = "fcfs",
    workers: int = 1,
    limit: int | None = None,
    rate: float | None = None,
    service: Callable[[random.Random], float] | None = None,
    given: Iterable[tuple[float, float]] | None = None,
    count: int | None = None,
    duration: float | None = None,
    warm_up: float = 0.0,
    start: Sequence[int] | None = None,
    seed: int = 0,
    choices: Sequence[int] | None = None,
    updates: Iterable[Strike] | None = None,
    unit: float = 1.0,
    watch: Sequence[float] = (),
    record: bool = False,
    **params: object,
) -> Result:
    """Run one replication.

    Parameters
    ----------
    policy, params
        A name of `POLICIES` and its parameters, or an object.
    servers, discipline, workers, limit
        "pool" (all tasks at once) or "fcfs" with so many workers each; at most `limit` tasks.
    rate, service
        Poisson arrivals in tasks per second over all servers, and how to draw a size in
        seconds (exponential of mean 1 if not given).
    given
        Instead: tasks (arrival, size), ascending.
    count, duration
        The run ends with this many arrivals (then at the last of them), or at this time (s).
        With neither, and given tasks, when all have left.
    warm_up
        Time (s) from which to average.
    start
        Tasks at each server at time 0, with fresh sizes; none if not given.
    choices
        Where each task went, decided elsewhere; AssertionError where the policy forbids it.
    updates
        When which servers updated, ascending, decided elsewhere.
    unit
        The mean service time (s), in which a policy's delta is meant.
    watch
        Ascending times (s) at which to note how many servers have at least j tasks.
    record
        Keep choices, events and the wait of every task.
    """
    # Two generators, so that all policies meet the same tasks for a seed.
    tasks_rng, rng = random.Random(f"{seed} tasks"), random.Random(f"{seed} choices")
    clock_rng, coins_rng = random.Random(f"{seed} clocks"), random.Random(f"{seed} coins")
    rule = POLICIES[policy](**params) if isinstance(policy, str) else policy
    draw = service or exponential()
    if given is None:
        if rate is None or (count is None and duration is None):
            raise ValueError("neither given tasks nor a rate with a count or a duration")
        given = poisson(rate, draw, tasks_rng) if rate > 0 else ()
    tasks = iter(given)
    horizon = NEVER if duration is None else duration
    most = NEVER if count is None else count
    room = NEVER if limit is None else limit
    at_once = NEVER if discipline == "pool" else workers

    fleet = Fleet(start if start is not None else [0] * servers)
    if fleet.size != servers or max(fleet.lengths) > room:
        raise ValueError("the start state does not fit the servers")
    waiting: list[deque[tuple[float, float, int]]] = [deque() for _ in range(servers)]
    ends: list[tuple[float, int, int]] = []  # (time, order, server) of all tasks in service
    order = 0
    for server, length in enumerate(fleet.lengths):
        for i in range(length):
            size = draw(tasks_rng)
            if i < at_once:
                heapq.heappush(ends, (size, order, server))
                order += 1
            else:
                waiting[server].append((-1.0, size, -1))  # its wait is nobody's business

    rule.begin(fleet)
    if updates is None:
        updates = strikes(rule, servers, unit, clock_rng)
    clocks = iter(updates)
    strike = next(clocks, None)

    begun = sum(fleet.lengths)
    lengths, having = fleet.lengths, fleet.having
    choose, chosen = rule.choose, rule.chosen
    tells_joining, tells_leaving = rule.tells_joining, rule.tells_leaving
    learns, coins = type(rule).learn is not Policy.learn, rule.coins

    # Of the span, present_time[j] is up to date to since[j], moved_time to moved_since: each is
    # touched only when what it integrates changes. Before warm_up nothing is added.
    present_time, since = [0.0] * len(having), [warm_up] * len(having)
    moved_time, moved_since, moved = 0.0, warm_up, fleet.imbalance()
    level, level_since, level_time = rule.level, 0.0, {}
    changes, last_change = 0, 0.0
    arrived = finished = lost = max_tasks = 0
    arrivals = departures = lost_after = joining = leaving = answers = updating = 0  # after warm_up
    waits: list[float] = []
    responses: list[float] = []
    task_waits: list[float] = []
    picked: list[int] = []
    history: list[tuple[float, str, int]] = []
    snapshots: list[list[int]] = []
    to_watch = deque(watch)
    warm = False

    clock = time.process_time()
    next_task = next(tasks, None)
    now = 0.0
    while True:
        arrival = NEVER if next_task is None else next_task[0]
        leaves = bool(ends) and ends[0][0] <= arrival
        at = ends[0][0] if leaves else arrival
        while strike is not None and (strike[0] < at or (strike[0] == at and not leaves)):
            if strike[0] > horizon or (at == NEVER and horizon == NEVER):
                break
            for server in strike[1]:
                cost = rule.update(fleet, server)
                if strike[0] >= warm_up:
                    updating += cost
            strike = next(clocks, None)
        if at > horizon or at == NEVER:
            break
        while to_watch and to_watch[0] < at:
            snapshots.append(list(fleet.at_least))
            to_watch.popleft()
        if not warm and at >= warm_up:
            warm = True
            max_tasks = max(lengths)
            arrivals = departures = lost_after = joining = leaving = answers = 0
        now = at

        if leaves:
            server = heapq.heappop(ends)[2]
            finished += 1
            departures += 1
            j = lengths[server]
            if now > warm_up:
                present_time[j] += len(having[j]) * (now - since[j])
                present_time[j - 1] += len(having[j - 1]) * (now - since[j - 1])
                moved_time += moved * (now - moved_since)
                since[j] = since[j - 1] = moved_since = now
            length = fleet.remove(server)
            if length >= at_once:
                came, size, task = waiting[server].popleft()
                heapq.heappush(ends, (now + size, order, server))
                order += 1
                if came >= warm_up:
                    waits.append(now - came)
                    responses.append(now - came + size)
                if record and task >= 0:
                    task_waits[task] = now - came
            if coins:
                leaving += rule.says_idle(server, length, coins_rng)
            elif tells_leaving(length):
                leaving += 1
            moved = fleet.imbalance()
            if record:
                history.append((now, "depart", server))
            continue

        size = next_task[1]
        next_task = next(tasks, None)
        if choices is None:
            server = choose(fleet, rng)
        else:
            server = choices[arrived]
            if not rule.allows(fleet, server):
                raise AssertionError(
                    f"task {arrived} at {now} may not go to server {server}, which has "
                    f"{lengths[server]} tasks; tasks at all servers: {lengths}"
                )
        chosen(server)
        arrived += 1
        arrivals += 1
        j = lengths[server]
        if record:
            picked.append(server)
            history.append((now, "lose" if j >= room else "arrive", server))
            task_waits.append(0.0 if j < min(room, at_once) else math.nan)
        if j >= room:
            lost += 1
            lost_after += 1
            rule.lost(server)
        else:
            if learns:
                rule.look(fleet)
            if j + 2 > len(present_time):
                present_time.append(0.0)
                since.append(max(warm_up, now))
            if now > warm_up:
                present_time[j] += len(having[j]) * (now - since[j])
                present_time[j + 1] += len(having[j + 1]) * (now - since[j + 1])
                moved_time += moved * (now - moved_since)
                since[j] = since[j + 1] = moved_since = now
            length = fleet.add(server)
            if length > max_tasks:
                max_tasks = length
            if length <= at_once:
                heapq.heappush(ends, (now + size, order, server))
                order += 1
                if warm:
                    waits.append(0.0)
                    responses.append(size)
            else:
                waiting[server].append((now, size, arrived - 1))
            if tells_joining(length):
                joining += 1
            moved = fleet.imbalance()
            if learns and rule.learn(fleet):
                changes += 1
                answers += rule.answers(fleet)
                level_time[level] = level_time.get(level, 0.0) + now - level_since
                level, level_since, last_change = rule.level, now, now
        if arrived >= most:
            horizon = now
            break

    seconds = time.process_time() - clock
    end = now if horizon == NEVER else horizon
    for j, servers_with_j in enumerate(having[: len(present_time)]):
        present_time[j] += len(servers_with_j) * max(end - since[j], 0.0)
    moved_time += moved * max(end - moved_since, 0.0)
    if level is not None:
        level_time[level] = level_time.get(level, 0.0) + end - level_since
    while to_watch and to_watch[0] <= end:
        snapshots.append(list(fleet.at_least))
        to_watch.popleft()
    sent = Counter(
        join=joining,
        leave=leaving,
        answer=answers,
        probe=2 * rule.probes * arrivals,
        update=updating,
    )
    return Result(
        servers=servers,
        span=end - warm_up,
        end=end,
        present_time=present_time,
        moved_time=moved_time,
        max_tasks=max_tasks,
        arrivals=arrivals,
        lost_after=lost_after,
        departures=departures,
        sent=sent,
        waits=waits,
        responses=responses,
        tasks={
            "arrived": arrived + begun,
            "finished": finished,
            "present": fleet.total,
            "lost": lost,
        },
        announcements=changes if rule.announces else 0,
        changes=changes,
        last_change=last_change,
        level_time=level_time,
        events=arrived + finished,
        snapshots=snapshots,
        choices=picked,
        history=history,
        task_waits=task_waits,
        lengths=lengths,
        seconds=seconds,
    )
