"""n servers behind one dispatcher, any arrivals, any service law: one event after the other.

Tasks come as a stream of (arrival time, size) that the caller supplies in blocks, the same for
every policy, so that policies differ in their choices alone (common random numbers). Each task
in the system holds a slot. Time is in seconds.

What a scenario does not use is not compiled in:

    fcfs, pools   tasks in service have their departures in the calendar, those waiting stand in a
                  list per server, first come first served; pools are servers of many workers
    sharing       tasks in service share the server (sharing.py): processor sharing, limited or
                  with a speed curve
    limit         a task sent to a full server is lost
    held          .. or waits at the dispatcher, in order: one that comes while others wait goes
                  behind them; after every departure the first is chosen for anew, and when it finds
                  room the next one, until one finds its server full
    mail          messages take time (mail.py)
    clock         servers tell their state by the clock (ticks.py)
    several       dispatchers, each task coming to the one that the driver says, block by block; ..
    own           .. of which each counts its own tasks only

At one instant letters arrive first, in the order they were posted; then departures, updates by the
clock, arrivals. As in memoryless.py the path does not depend on how a run is cut into calls.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, give_back, kernel, near, nearby, outline
from ..policies.base import Policy, book_work
from ..policies.dispatchers import SharedSteps, make_shared_steps
from ..policies.heap import drop_first, push, replace_first
from ..policies.spec import PolicySpec
from ..policies.steps import OUT_OF_RANGE, UPDATE, Steps, make_steps
from ..rng import (
    ARRIVALS_SEED,
    CLOCK_SEED,
    DELAYS_SEED,
    SERVICE_SEED,
    SPLIT_SEED,
    START_SEED,
    make_rng,
)
from ..scenario import Scenario, SlotService, TaskStream, TraceService
from .calendar import Calendar, book, first_time, make_calendar, more_items, take_first
from .driver import Driver
from .mail import (
    BLOCK,
    DRAWN,
    IN_FLIGHT,
    Mail,
    MailSteps,
    make_mail,
    make_mail_steps,
    more_delays,
    more_mail,
)
from .sharing import (
    Sharing,
    add,
    enter,
    first_due,
    leave,
    make_sharing,
    more_sharing,
    set_due,
)
from .store import (
    NEEDS_LEVELS,
    NEEDS_MAIL,
    NEEDS_SLOTS,
    NEEDS_TASKS,
    NO_SUCH_SERVER,
    NOBODY,
    REACHED,
    longer,
)
from .tally import (
    ARRIVED,
    BALANCED,
    FINISHED,
    LOST,
    NO_TIME,
    NOW,
    TALLEST,
    THRESHOLD,
    announced,
    fallen,
    pass_time,
    responded,
    risen,
    settle,
    started_at_once,
    waited,
)
from .ticks import Ticks, make_ticks, turn, wind

U = np.uintp
BUCKETED = 100  # from so many tasks in service on buckets are cheaper than a heap: 1.1 times as
# fast on 100 queues, 1.5 on 500 pools of 5.5, 1.9 on 100,000; 0.9 on one queue
PENDING_EVENTS, FREE, TAKEN, TRAIL, HELD, FIRST_HELD, LAST_HELD, MOST_HELD, RETRY = range(9)


@near(counts=9)
class Events(NamedTuple):
    """The tasks of an event-driven system, and what is to come."""

    server: np.ndarray  # int32[slots], where each task is
    arrival: np.ndarray  # float64[slots], when it came, NO_TIME for tasks of the start state
    size: np.ndarray  # float64[slots], its service time, s
    next: np.ndarray  # int32[slots], the task waiting behind it, or the next free slot
    head: np.ndarray  # int32[n], first task waiting at each server, NOBODY if none
    tail: np.ndarray  # int32[n], last task waiting
    key: np.ndarray  # float64[slots], the heap: times of departure (empty where it is not used)
    item: np.ndarray  # int32[slots], whose
    counts: np.ndarray  # int64[9], see the names above
    speed: np.ndarray  # float64[n], speed of each server (empty if all are 1)
    trail: (
        np.ndarray
    )  # int32[k], the first k events: server of an arrival, -1 - server of a departure, and
    # -1 - n - server of an update by the clock, that of server n being one of all servers
    owner: np.ndarray | None = None  # int32[slots], which dispatcher sent each task
    calendar: Calendar | None = None  # what is not used is not there: it need not be compiled
    sharing: Sharing | None = None
    mail: Mail | None = None
    ticks: Ticks | None = None


class Switches(NamedTuple):
    """What a scenario uses; the rest is not compiled in."""

    limited: bool = False
    unequal: bool = False  # servers have speeds
    sharing: bool = False
    bucketed: bool = False  # the calendar is that of calendar.py, not a heap
    held: bool = False  # tasks may wait at the dispatcher
    mail: bool = False
    several: bool = False
    own: bool = False


@cache
def make_events(policy: Policy, switches: Switches) -> Any:
    """Return the kernel of one policy.

    run(world, tasks, tally, times, sizes, ended, workers, until, most) takes tasks from the block
    `times`, `sizes` (s), beginning at counts[TAKEN], until time `until` (s, events at that instant
    included) or until `most` tasks have arrived. It returns REACHED, NEEDS_TASKS when the block is
    used up and `ended` is false, or what must grow outside before the next call.
    """
    limited, unequal, sharing, bucketed, held, mailed, several, own = switches
    if mailed:
        arrive, depart, update, deliver = make_mail_steps(policy, several)
    elif several:
        hear = "own" if own else "all"
        arrive, depart, update, deliver = _at_once(make_shared_steps(policy, hear, drawn=False))
    else:
        arrive, depart, update, deliver = _at_once(make_steps(policy, limited))
    learns, sized, clock = policy.learns, "sizes" in policy.needs, policy.clock
    clocked = clock is not None
    together = clock is not None and clock.together
    regular = clock is not None and clock.regular
    sweeps = policy.announces or together

    def start(world, tasks, tally, server, task, size, at, workers, pending):
        """A task that was sent to `server` is there; return the events pending now."""
        length, n = world.length[U(server)], world.length.size
        risen(tally, length, n)
        if sized:
            book_work(world.fleet, server, length - 1, size)
        if unequal:
            size /= tasks.speed[U(server)]
        tasks.server[U(task)] = server
        if length <= workers:
            if sharing:
                enter(tasks.sharing, server, length - 1, task, size, at)
                set_due(tasks.sharing, server, length, at)
            elif bucketed:
                book(tasks.calendar, at + size, task)
            else:
                push(tasks.key, tasks.item, pending, at + size, task)
                pending += 1
            if held and at > tasks.arrival[U(task)]:
                waited(tally, at - tasks.arrival[U(task)])
            else:
                started_at_once(tally)
        else:
            tasks.size[U(task)] = size
            tasks.next[U(task)] = NOBODY
            if length == workers + 1:
                tasks.head[U(server)] = task
            else:
                tasks.next[U(tasks.tail[U(server)])] = task
            tasks.tail[U(server)] = task
        if learns and world.announcement[0] != tally.number[THRESHOLD]:
            announced(tally, world.announcement[0])
        return pending

    @outline
    def sweep(world, mail, ticks, at):
        """All servers tell their state."""
        for server in range(world.length.size):
            world.count[UPDATE] += ticks.asked
            update(world, mail, server, at)

    def note(tasks, what):
        """Keep an event of the trail."""
        if tasks.counts[TRAIL] < tasks.trail.size:
            tasks.trail[tasks.counts[TRAIL]] = what
            tasks.counts[TRAIL] += 1

    def hold(tasks, task, size):
        """Let a task wait at the dispatcher, behind the others."""
        counts = tasks.counts
        tasks.size[U(task)] = size
        tasks.next[U(task)] = NOBODY
        if counts[HELD] == 0:
            counts[FIRST_HELD] = task
        else:
            tasks.next[U(counts[LAST_HELD])] = task
        counts[LAST_HELD] = task
        counts[HELD] += 1

    def events(world, tasks, tally, times, sizes, ended, workers, until, most):
        whole = world, tasks, tally
        world, tasks, tally = nearby(world), nearby(tasks), nearby(tally)
        times, sizes = borrow(times), borrow(sizes)
        n, levels = world.length.size, tally.least.size
        number, counts = tally.number, tasks.counts
        mail, ticks = tasks.mail, tasks.ticks
        letters = n + 4 if sweeps else 4  # most that one event can post
        if several:
            letters *= world.at.size
        taken, pending = counts[TAKEN], counts[PENDING_EVENTS]
        code = REACHED
        while True:
            if number[ARRIVED] >= most:
                break
            if number[TALLEST] + 3 >= levels or number[BALANCED] + 3 >= levels:
                code = NEEDS_LEVELS
                break
            if counts[FREE] == NOBODY:
                code = NEEDS_SLOTS
                break
            if taken >= times.size and not ended:
                code = NEEDS_TASKS
                break
            if mailed and (
                mail.counts[IN_FLIGHT] + letters > mail.due.size
                or mail.counts[DRAWN] + 2 * letters > mail.delay.size
            ):
                code = NEEDS_MAIL
                break
            if held and counts[RETRY] > 0:  # a server lost a task just now: whoever is first tries
                counts[RETRY] -= 1
                server = arrive(world, mail, tally.now[NOW])
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                if server < 0:
                    counts[RETRY] = 0
                    continue
                task = counts[FIRST_HELD]
                counts[FIRST_HELD] = tasks.next[U(task)]
                counts[HELD] -= 1
                note(tasks, server)
                size = tasks.size[U(task)]
                at = tally.now[NOW]
                pending = start(world, tasks, tally, server, task, size, at, workers, pending)
                continue
            coming = times[U(taken)] if taken < times.size else np.inf
            if sharing:
                leaving = tasks.sharing.due[1]
            elif bucketed:
                leaving = first_time(tasks.calendar)
            else:
                leaving = tasks.key[0] if pending > 0 else np.inf
            at = min(coming, leaving)
            if clocked:
                at = min(at, ticks.next[0])
            if mailed and mail.counts[IN_FLIGHT] > 0:
                at = min(at, mail.due[0])
            if at > until:
                pass_time(tally, until, n)
                break
            pass_time(tally, at, n)
            if sized:
                world.fleet.now[0] = at
            if mailed and mail.counts[IN_FLIGHT] > 0 and mail.due[0] <= at:
                deliver(world, mail, at)
                continue
            if clocked and ticks.next[0] <= at and at < leaving:
                whose = turn(ticks, together, regular, n)
                note(tasks, -1 - n - (n if together else whose))
                if together:
                    sweep(world, mail, ticks, at)
                else:
                    world.count[UPDATE] += ticks.asked
                    update(world, mail, whose, at)
                wind(ticks, at, together, regular, n)
                continue
            if coming < leaving:  # a task arrives
                size = sizes[U(taken)]
                taken += 1
                if several:
                    world.whose[0] = world.given[U(taken - 1)]
                if held and counts[HELD] > 0:  # noqa: SIM108  (what is not used must not be compiled)
                    server = np.int64(-1)
                else:
                    server = arrive(world, mail, at)
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                number[ARRIVED] += 1
                if not held or server >= 0:
                    note(tasks, server if server >= 0 else -1 - server)
                if limited and server < 0 and not (held and counts[HELD] < counts[MOST_HELD]):
                    number[LOST] += 1
                    continue
                task = counts[FREE]
                counts[FREE] = tasks.next[U(task)]
                tasks.arrival[U(task)] = at
                if own:
                    tasks.owner[U(task)] = world.whose[0]
                if held and server < 0:
                    hold(tasks, task, size)
                else:
                    pending = start(world, tasks, tally, server, task, size, at, workers, pending)
            else:  # the task with the earliest departure is done
                if sharing:
                    server = first_due(tasks.sharing)
                    task = leave(tasks.sharing, server, at)
                elif bucketed:
                    task = take_first(tasks.calendar)
                    server = np.int64(tasks.server[U(task)])
                else:
                    task = np.int64(tasks.item[0])
                    server = np.int64(tasks.server[U(task)])
                length = np.int64(world.length[U(server)])
                number[FINISHED] += 1
                note(tasks, -1 - server)
                if sized:
                    book_work(world.fleet, server, length, 0.0)
                    if length == 1:  # nothing is left but rounding
                        world.fleet.work[server] = 0.0
                if own:
                    world.whose[0] = tasks.owner[U(task)]
                depart(world, mail, server, at)
                fallen(tally, length, n)
                if tasks.arrival[U(task)] != NO_TIME:
                    responded(tally, at - tasks.arrival[U(task)])
                if length > workers:  # the first one waiting starts
                    starting = np.int64(tasks.head[U(server)])
                    tasks.head[U(server)] = tasks.next[U(starting)]
                    if tasks.arrival[U(starting)] != NO_TIME:
                        waited(tally, at - tasks.arrival[U(starting)])
                    if sharing:
                        add(tasks.sharing, server, starting, tasks.size[U(starting)])
                    elif bucketed:
                        book(tasks.calendar, at + tasks.size[U(starting)], starting)
                    else:
                        ends = at + tasks.size[U(starting)]
                        replace_first(tasks.key, tasks.item, pending, ends, starting)
                elif not sharing and not bucketed:
                    drop_first(tasks.key, tasks.item, pending)
                    pending -= 1
                if sharing:
                    set_due(tasks.sharing, server, min(length - 1, workers), at)
                tasks.next[U(task)] = counts[FREE]
                counts[FREE] = task
                if held:
                    counts[RETRY] = counts[HELD]
        counts[TAKEN], counts[PENDING_EVENTS] = taken, pending
        settle(tally)
        give_back(whole[0], world)
        give_back(whole[1], tasks)
        give_back(whole[2], tally)
        return code

    events.__name__ = f"events_{policy.name.replace('-', '_')}"
    return kernel(events)


def _at_once(steps: Steps | SharedSteps) -> MailSteps:
    """Return the steps of messages that take no time, in the form of those that do."""
    arrive_now, depart_now, update_now = steps.arrive, steps.depart, steps.update

    def arrive(world, mail, at):
        return arrive_now(world)

    def depart(world, mail, server, at):
        depart_now(world, server)

    def update(world, mail, server, at):
        update_now(world, server)

    def deliver(world, mail, at):
        """Nothing is on its way."""

    return MailSteps(arrive, depart, update, deliver)


def make_event_tasks(
    lengths: np.ndarray,
    sizes: np.ndarray,
    workers: int,
    trail: int = 0,
    speeds: np.ndarray | None = None,
    curve: np.ndarray | None = None,
    held: int = 0,
    gap: float | None = None,
    pending: int = 0,
    owners: np.ndarray | None = None,
) -> Events:
    """Return the tasks of servers with these lengths, without mail or clock.

    Parameters
    ----------
    lengths, sizes
        int[n]; float64[sum of lengths], s: service times at speed 1.
    workers
        So many tasks of each server are in service from time 0, the rest wait.
    trail
        How many events to note.
    speeds
        float64[n], where they differ; a task of size x takes x / speed.
    curve
        float64[m], r(1), ..., r(m) of servers whose tasks share them; None where they do not.
    held
        Most tasks waiting at the dispatcher.
    gap, pending
        Of a bucketed calendar, see `make_calendar`; None where it is a heap.
    owners
        int[sum of lengths], which dispatcher sent each task; None where that does not matter.
    """
    n, used = lengths.size, int(lengths.sum())
    slots = max(1024, 2 * used)
    server = np.zeros(slots, np.int32)
    server[:used] = np.repeat(np.arange(n, dtype=np.int32), lengths)
    first = np.concatenate(([0], np.cumsum(lengths)))
    serving = np.arange(used) - np.repeat(first[:-1], lengths) < workers
    size = np.zeros(slots)
    speed = np.zeros(0) if speeds is None else np.array(speeds, float)
    size[:used] = sizes if speeds is None else sizes / speed[server[:used]]
    next_ = np.arange(1, slots + 1, dtype=np.int32)
    next_[-1] = NOBODY
    head, tail = (np.full(n, NOBODY, np.int32) for _ in range(2))
    some = lengths > workers
    if some.any():
        head[some] = first[:-1][some] + workers
        tail[some] = first[1:][some] - 1
        next_[tail[some]] = NOBODY
    started = np.flatnonzero(serving)
    started = started[np.argsort(size[started], kind="stable")]
    calendar = sharing = None
    key, item = np.zeros(0), np.zeros(0, np.int32)
    if curve is not None:
        sharing = make_sharing(n, server[:used], size[:used], serving, slots, curve)
    elif gap is not None:  # a task in service needs its time and its link for nothing else
        calendar = make_calendar(size, next_, gap, pending, started)
    else:
        key, item = np.zeros(slots), np.zeros(slots, np.int32)
        key[: started.size], item[: started.size] = size[started], started  # sorted: a heap
    counts = np.zeros(9, np.int64)
    counts[PENDING_EVENTS], counts[FREE] = started.size, used if used < slots else NOBODY
    counts[MOST_HELD] = held
    arrival = np.full(slots, NO_TIME)
    kept = np.zeros(trail, np.int32)
    owner = None
    if owners is not None:
        owner = np.zeros(slots, np.int32)
        owner[:used] = owners
    return Events(
        server, arrival, size, next_, head, tail, key, item, counts, speed, kept, owner, calendar,
        sharing,
    )  # fmt: skip


def more_event_slots(tasks: Events) -> Events:
    """Return the same tasks with twice the slots, the new ones free."""
    old = tasks.server.size
    next_ = longer(tasks.next, 2 * old, 0)
    next_[old:] = np.arange(old + 1, 2 * old + 1)
    next_[-1] = tasks.counts[FREE]
    tasks.counts[FREE] = old
    size = longer(tasks.size, 2 * old, 0.0)
    return tasks._replace(
        next=next_,
        server=longer(tasks.server, 2 * old, 0),
        arrival=longer(tasks.arrival, 2 * old, NO_TIME),
        size=size,
        key=longer(tasks.key, 2 * tasks.key.size, 0.0),
        item=longer(tasks.item, 2 * tasks.item.size, 0),
        owner=None if tasks.owner is None else longer(tasks.owner, 2 * old, 0),
        calendar=tasks.calendar and more_items(tasks.calendar, size, next_),
        sharing=tasks.sharing and more_sharing(tasks.sharing, 2 * old),
    )


class EventsDriver(Driver):
    """Drives events.py, in seconds, feeding it blocks of the scenario's tasks, and delays."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication, trail)
        servers, self.delays = scenario.servers, scenario.messages.law
        shares = servers.discipline == "ps"
        pending = round(scenario.offered_load()[2] * servers.count * (servers.workers or 1))
        pending = max(pending, int(np.minimum(self.lengths, self.workers).sum()))
        bucketed = not shares and pending >= BUCKETED
        switches = Switches(
            limited=self.limited,
            unequal=self.speeds is not None,
            sharing=shares,
            bucketed=bucketed,
            held=servers.queue > 0,
            mail=self.delays is not None,
            several=self.several is not None,
            own=self.owners is not None,
        )
        self.kernel = make_events(spec.policy, switches)
        self.stream: TaskStream = scenario.task_stream(
            self.streams[ARRIVALS_SEED], self.streams[SERVICE_SEED]
        )
        generator = np.random.default_rng(self.streams[START_SEED])
        sizes = start_sizes(scenario, int(self.lengths.sum()), generator)
        curve = np.array(servers.curve or (1.0,)) if shares else None
        self.tasks = make_event_tasks(
            self.lengths,
            sizes,
            self.workers,
            trail,
            self.speeds,
            curve,
            servers.queue,
            scenario.mean_service / pending if bucketed else None,
            pending,
            self.owners,
        )
        self._add_mail()
        self._add_clock()
        self.times = self.sizes = np.zeros(0)
        self.ended = False
        if self.several is not None:
            self.split = scenario.task_split(self.streams[SPLIT_SEED])

    def _add_mail(self) -> None:
        """Give the servers their mail, where messages take time."""
        self.delay_rng = np.random.default_rng(self.streams[DELAYS_SEED])
        n, m = self.lengths.size, self.scenario.dispatchers.count
        self.letters = m * (n + 4)  # most that one event can post
        if self.delays is not None:
            mail = make_mail(n, int(self.world.announcement[0]), max(1024, self.letters), m)
            self.tasks = self.tasks._replace(mail=mail)

    def _add_clock(self) -> None:
        """Start the clock of a policy that has one."""
        clock, params = self.spec.policy.clock, self.spec.params
        if clock is not None:
            period = self.scenario.mean_service / params["delta"]
            asked = int(params.get("mode", "pull") == "push") * self.scenario.dispatchers.count
            rng = make_rng(self.streams[CLOCK_SEED])
            ticks = make_ticks(clock, period, asked, self.lengths.size, rng)
            self.tasks = self.tasks._replace(ticks=ticks)

    def run(self, until: float, most: int) -> None:
        while True:
            if until == np.inf and self.ended and self.tasks.counts[TAKEN] == self.times.size:
                return
            code = self.call(self.times, self.sizes, self.ended, self.workers, until, most)
            if code == REACHED:
                return
            if code == NEEDS_TASKS:
                times, sizes = self.stream.block()
                # the kernel is compiled for writable arrays; the blocks are views to be read only
                self.times, self.sizes = np.array(times), np.array(sizes)
                self.ended = not self.times.size
                if self.several is not None:
                    given = self.split.take(self.times.size)
                    self.world = self.world._replace(given=given)
                self.tasks.counts[TAKEN] = 0
            elif code == NEEDS_SLOTS:
                self.tasks = more_event_slots(self.tasks)
            elif code == NEEDS_MAIL:
                assert self.tasks.mail is not None
                self.tasks = self.tasks._replace(mail=self._refilled(self.tasks.mail))
            else:
                self.grow(code)

    def _refilled(self, mail: Mail) -> Mail:
        """Return the mail with more room, or more delays, whichever was wanted."""
        if mail.counts[DRAWN] + 2 * self.letters > mail.delay.size:
            assert self.delays is not None
            drawn = self.delays.sample(self.delay_rng, max(BLOCK, 4 * self.letters))
            return more_delays(mail, drawn)
        return more_mail(mail)

    def trail(self) -> np.ndarray:
        return self.tasks.trail[: self.tasks.counts[TRAIL]]

    def held(self) -> int:
        return int(self.tasks.counts[HELD])


def start_sizes(scenario: Scenario, k: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the times that the tasks of the start state still take: float64[k], s.

    Whole service times: exact for exponential service, which has no memory; else the tasks of the
    start are taken to begin at time 0.
    """
    if k == 0:
        return np.zeros(0)
    if isinstance(scenario.service, TraceService):
        sizes = scenario.recording.sizes
        assert sizes is not None
        return generator.choice(sizes, k)
    assert not isinstance(scenario.service, SlotService)
    return scenario.service.sample(generator, k)
