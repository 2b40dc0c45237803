"""n servers behind one dispatcher, any arrivals, any service law: one event after the other.

Tasks come as a stream of (arrival time, size) that the caller supplies in blocks, the same for
every policy, so that policies differ in their choices alone (common random numbers). Each task
in the system holds a slot; those in service have their departure in the calendar, those waiting
stand in a list per server, first come first served. Departures at the instant of an arrival go
first. Time is in seconds.

As in memoryless.py the path does not depend on how a run is cut into calls.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, give_back, kernel, near, nearby
from ..policies.base import Policy, book_work
from ..policies.heap import drop_first, push, replace_first
from ..policies.spec import PolicySpec
from ..policies.steps import OUT_OF_RANGE, make_steps
from ..scenario import Scenario, SlotService, TaskStream, TraceService
from .driver import ARRIVALS_SEED, SERVICE_SEED, START_SEED, Driver
from .store import (
    NEEDS_LEVELS,
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

U = np.uintp
PENDING_EVENTS, FREE, TAKEN, TRAIL = range(4)


@near(counts=4)
class Events(NamedTuple):
    """The tasks of an event-driven system, and what is to come."""

    server: np.ndarray  # int32[slots], where each task is
    arrival: np.ndarray  # float64[slots], when it came, NO_TIME for tasks of the start state
    size: np.ndarray  # float64[slots], its service time, s
    next: np.ndarray  # int32[slots], the task waiting behind it, or the next free slot
    head: np.ndarray  # int32[n], first task waiting at each server, NOBODY if none
    tail: np.ndarray  # int32[n], last task waiting
    key: np.ndarray  # float64[slots], the calendar: times of departure, a heap
    item: np.ndarray  # int32[slots], whose
    counts: np.ndarray  # int64[4]: events pending; first free slot; tasks taken; trail written
    speed: np.ndarray  # float64[n], speed of each server (empty if all are 1)
    trail: (
        np.ndarray
    )  # int32[k], the first k events: server of an arrival, -1 - server of a departure


@cache
def make_events(policy: Policy, limited: bool, unequal: bool = False) -> Any:
    """Return the kernel of one policy, with a limit or not, servers of speed 1 or unequal ones.

    Pools are servers of many workers.

    run(world, tasks, tally, times, sizes, ended, workers, until, most) takes tasks from the block
    `times`, `sizes` (s), beginning at counts[TAKEN], until time `until` (s, events at that instant
    included) or until `most` tasks have arrived. It returns REACHED, NEEDS_TASKS when the block is
    used up and `ended` is false, or what must grow outside before the next call.
    """
    arrive, depart, *_ = make_steps(policy, limited)
    learns, sized = policy.learns, "sizes" in policy.needs

    def events(world, tasks, tally, times, sizes, ended, workers, until, most):
        whole = world, tasks, tally
        world, tasks, tally = nearby(world), nearby(tasks), nearby(tally)
        times, sizes = borrow(times), borrow(sizes)
        n, levels = world.length.size, tally.least.size
        number, counts = tally.number, tasks.counts
        key, item = tasks.key, tasks.item
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
            coming = times[U(taken)] if taken < times.size else np.inf
            leaving = key[0] if pending > 0 else np.inf
            at = min(coming, leaving)
            if at > until:
                pass_time(tally, until, n)
                break
            pass_time(tally, at, n)
            if sized:
                world.fleet.now[0] = at
            if coming < leaving:  # a task arrives
                size = sizes[U(taken)]
                taken += 1
                server = arrive(world)
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                number[ARRIVED] += 1
                if counts[TRAIL] < tasks.trail.size:
                    tasks.trail[counts[TRAIL]] = server if server >= 0 else -1 - server
                    counts[TRAIL] += 1
                if limited and server < 0:
                    number[LOST] += 1
                    continue
                length = world.length[U(server)]
                risen(tally, length, n)
                if sized:
                    book_work(world.fleet, server, length - 1, size)
                if unequal:
                    size /= tasks.speed[U(server)]
                task = counts[FREE]
                counts[FREE] = tasks.next[U(task)]
                tasks.server[U(task)] = server
                tasks.arrival[U(task)] = at
                if length <= workers:
                    push(key, item, pending, at + size, task)
                    pending += 1
                    started_at_once(tally)
                else:
                    tasks.size[U(task)] = size
                    tasks.next[U(task)] = NOBODY
                    if length == workers + 1:
                        tasks.head[U(server)] = task
                    else:
                        tasks.next[U(tasks.tail[U(server)])] = task
                    tasks.tail[U(server)] = task
                if learns and world.announcement[0] != number[THRESHOLD]:
                    announced(tally, world.announcement[0])
            else:  # the task with the earliest departure is done
                task = np.int64(item[0])
                server = np.int64(tasks.server[U(task)])
                length = np.int64(world.length[U(server)])
                number[FINISHED] += 1
                if counts[TRAIL] < tasks.trail.size:
                    tasks.trail[counts[TRAIL]] = -1 - server
                    counts[TRAIL] += 1
                if sized:
                    book_work(world.fleet, server, length, 0.0)
                    if length == 1:  # nothing is left but rounding
                        world.fleet.work[server] = 0.0
                depart(world, server)
                fallen(tally, length, n)
                if tasks.arrival[U(task)] != NO_TIME:
                    responded(tally, at - tasks.arrival[U(task)])
                if length > workers:  # the first one waiting starts
                    starting = np.int64(tasks.head[U(server)])
                    tasks.head[U(server)] = tasks.next[U(starting)]
                    if tasks.arrival[U(starting)] != NO_TIME:
                        waited(tally, at - tasks.arrival[U(starting)])
                    replace_first(key, item, pending, at + tasks.size[U(starting)], starting)
                else:
                    drop_first(key, item, pending)
                    pending -= 1
                tasks.next[U(task)] = counts[FREE]
                counts[FREE] = task
        counts[TAKEN], counts[PENDING_EVENTS] = taken, pending
        settle(tally)
        give_back(whole[0], world)
        give_back(whole[1], tasks)
        give_back(whole[2], tally)
        return code

    events.__name__ = f"events_{policy.name.replace('-', '_')}"
    return kernel(events)


def make_event_tasks(
    lengths: np.ndarray,
    sizes: np.ndarray,
    workers: int,
    trail: int = 0,
    speeds: np.ndarray | None = None,
) -> Events:
    """Return the tasks of servers with these lengths, int[n]; `sizes` float64[sum of lengths], s.

    `speeds`, float64[n], where they differ; a task of size x takes x / speed.

    The first `workers` tasks of each server are in service from time 0, the rest wait.
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
    started = started[np.argsort(size[started], kind="stable")]  # sorted times are a heap
    key, item = np.zeros(slots), np.zeros(slots, np.int32)
    key[: started.size], item[: started.size] = size[started], started
    free = used if used < slots else NOBODY
    counts = np.array([started.size, free, 0, 0], np.int64)
    arrival = np.full(slots, NO_TIME)
    kept = np.zeros(trail, np.int32)
    return Events(server, arrival, size, next_, head, tail, key, item, counts, speed, kept)


def more_event_slots(tasks: Events) -> Events:
    """Return the same tasks with twice the slots, the new ones free."""
    old = tasks.server.size
    next_ = longer(tasks.next, 2 * old, 0)
    next_[old:] = np.arange(old + 1, 2 * old + 1)
    next_[-1] = tasks.counts[FREE]
    tasks.counts[FREE] = old
    return tasks._replace(
        next=next_,
        server=longer(tasks.server, 2 * old, 0),
        arrival=longer(tasks.arrival, 2 * old, NO_TIME),
        size=longer(tasks.size, 2 * old, 0.0),
        key=longer(tasks.key, 2 * old, 0.0),
        item=longer(tasks.item, 2 * old, 0),
    )


class EventsDriver(Driver):
    """Drives events.py, in seconds, feeding it blocks of the scenario's tasks."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication, trail)
        self.kernel = make_events(spec.policy, self.limited, self.speeds is not None)
        self.stream: TaskStream = scenario.task_stream(
            self.streams[ARRIVALS_SEED], self.streams[SERVICE_SEED]
        )
        generator = np.random.default_rng(self.streams[START_SEED])
        sizes = start_sizes(scenario, int(self.lengths.sum()), generator)
        self.tasks = make_event_tasks(self.lengths, sizes, self.workers, trail, self.speeds)
        self.times = self.sizes = np.zeros(0)
        self.ended = False

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
                self.tasks.counts[TAKEN] = 0
            elif code == NEEDS_SLOTS:
                self.tasks = more_event_slots(self.tasks)
            else:
                self.grow(code)

    def trail(self) -> np.ndarray:
        return self.tasks.trail[: self.tasks.counts[TRAIL]]


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
