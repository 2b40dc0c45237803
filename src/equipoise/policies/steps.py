"""The order of steps when a task comes or leaves, written once for every driver.

    arrival    choose; check the range; length + 1, sent + 1; tell_start, count, hear; adapt;
               if the announcement changed: announce
    departure  length - 1; tell_finish, count, hear
    announce   every server learns the new value and, ascending, tells its state

The caller places or removes the task itself. The simulator's kernels call `arrive` and `depart`
inlined; the live dispatcher calls the same two by the address of one state record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import near, outline
from .base import Blind, Fleet, Policy, SizedFleet, silent

JOIN, LEAVE, UPDATE, ANSWER, PROBE, ANNOUNCEMENTS, CHANGES = range(7)
MESSAGES = ("join", "leave", "update", "answer", "probe")
OUT_OF_RANGE = -(2**62)  # what `arrive` returns when a policy named a server that does not exist
NO_LIMIT = 2**31 - 1


@near(announcement=1, choice_rng=4, server_rng=4)
class World(NamedTuple):
    """Everything `arrive` and `depart` read and change, for n servers and one dispatcher."""

    state: Any  # the policy's memory
    fleet: Fleet | SizedFleet | Blind
    length: np.ndarray  # int32[n], tasks at each server
    sent: np.ndarray  # int64[n], tasks sent to each server so far (tracked drivers; else empty)
    promise: np.ndarray  # int64[n], last message minus tasks sent when it was made (likewise)
    count: np.ndarray  # type: ignore[assignment]  # int64[7], messages, announcements, changes
    announcement: np.ndarray  # int64[1], the value in force
    limit: np.ndarray  # int32[n], most tasks at each server (tracked drivers; else empty)
    choice_rng: np.ndarray  # uint64[4], the dispatcher's coins
    server_rng: np.ndarray  # uint64[4], the servers' coins


def make_world(
    policy: Policy,
    params: dict[str, Any],
    lengths: np.ndarray,
    *,
    choice_rng: np.ndarray,
    server_rng: np.ndarray,
    limit: int | np.ndarray | None = None,
    bounds: np.ndarray | None = None,
    speeds: np.ndarray | None = None,
    announcement: int | None = None,
    workers: int = 1,
    tracked: bool = True,
) -> World:
    """Return the world in which `policy` starts.

    Parameters
    ----------
    lengths
        int[n], tasks now at each server.
    bounds
        int64[n], the most tasks each can have as far as the dispatcher knows; `lengths` if absent.
    speeds, workers
        float64[n], 1 for all if absent; tasks in service at once, for policies that need sizes.
    limit
        Most tasks at a server, one number or int[n]; none if absent.
    tracked
        Keep what was sent and last promised, 16 bytes a server: needed wherever a task may fail to
        reach its server (a `limit`, live traffic) or messages take time.
    """
    length = np.array(lengths, np.int32)
    known = np.array(lengths if bounds is None else bounds, np.int64)
    speeds = np.ones(length.size) if speeds is None else speeds
    state, value = policy.init(known, speeds, announcement, **params)
    count = np.zeros(7, np.int64)
    n = length.size
    asked = count[PROBE : PROBE + 1]
    fleet: Fleet | SizedFleet | Blind = Blind(n)
    if "sizes" in policy.needs:
        work, since, now = np.zeros(n), np.zeros(n), np.zeros(1)
        pace, busy = np.array(speeds, float), np.array([workers], np.int64)
        fleet = SizedFleet(n, length, asked, work, since, now, pace, busy)
    elif policy.probes:
        fleet = Fleet(n, length, asked)
    return World(
        state,
        fleet,
        length,
        np.zeros(n if tracked else 0, np.int64),
        known + 1 if tracked else np.zeros(0, np.int64),
        count,
        np.array([value], np.int64),
        np.full(n if tracked else 0, NO_LIMIT if limit is None else limit, np.int32),
        choice_rng,
        server_rng,
    )


class Steps(NamedTuple):
    """The steps of one policy, plain functions of a `World`."""

    arrive: Callable[..., Any]  # (world) -> server; -1 - server if it was full and the task is lost
    depart: Callable[..., Any]  # (world, server)
    take_back: Callable[..., Any]  # (world, server): a task sent to it never reached it
    undo: Callable[..., Any]  # (world, server): the same where this driver runs both halves
    book: Callable[..., Any]  # (world, server): a task that nobody chose to send there
    place: Callable[..., Any]  # (world, server): the same where this driver runs both halves
    hear_from: Callable[..., Any]  # (world, server, m, received): a message that took time
    update: Callable[..., Any]  # (world, server): it tells its state, by the clock or at joining
    send: Callable[..., Any]  # (world) -> server: the dispatcher's half of an arrival, but `learn`
    left: Callable[..., Any]  # (world, server): the dispatcher's half of a departure
    learn: Callable[..., Any]  # (world) -> announcement, after the messages of a start were heard
    arrive_together: Callable[..., Any]  # (world, tasks) -> server: all of them go to one server
    say_start: Callable[..., Any]  # (world, server, value) -> m, a server's half, not counted,
    say_finish: Callable[..., Any]  # under the announcement that this server knows
    say_state: Callable[..., Any]
    told_start: Callable[..., Any]  # (world, server, length): it tells, at once, of a start
    told_finish: Callable[..., Any]  # (world, server, length): likewise of a finish
    learned: Callable[..., Any]  # (world): `learn`, and an announcement that arrives at once


@cache
def make_steps(policy: Policy, tracked: bool) -> Steps:
    """Return the steps that drive `policy`; `tracked` as in `make_world`."""
    choose, hear, adapt = policy.choose, policy.hear, policy.adapt
    tell_start, tell_finish, tell_state = policy.tell_start, policy.tell_finish, policy.tell_state
    learns, announces = policy.learns, policy.announces
    tells_starts, tells_finishes = tell_start is not silent, tell_finish is not silent

    def heard(world, server, m):
        """A message that arrives at once: sent and received are equal, so the bound is m."""
        if tracked:
            world.promise[server] = m - world.sent[server]
        hear(world.state, server, m)

    def unsend(world, server):
        """A task chosen for `server` is not sent: what the server last promised holds again."""
        world.sent[server] -= 1
        hear(world.state, server, world.promise[server] + world.sent[server])

    def take_back(world, server):
        world.length[server] -= 1
        unsend(world, server)

    def book(world, server):
        """The inverse of `take_back`: own sends added, what the server promised holds again."""
        world.sent[server] += 1
        world.length[server] += 1
        hear(world.state, server, world.promise[server] + world.sent[server])

    def place(world, server):
        """A policy that learns has chosen nothing, so it learns nothing from it."""
        book(world, server)
        told_start(world, server, world.length[server])

    def undo(world, server):
        """What the server told since was told with a task too many, so it tells its state."""
        take_back(world, server)
        m = tell_state(
            world.length[server], world.announcement[0], world.state.par, world.server_rng
        )
        if m > 0:
            heard(world, server, m)

    @outline
    def announce(world):
        world.count[ANNOUNCEMENTS] += 1
        for server in range(world.length.size):
            m = tell_state(
                world.length[server], world.announcement[0], world.state.par, world.server_rng
            )
            if m > 0:
                world.count[ANSWER] += 1
                heard(world, server, m)

    def send(world):
        server = choose(world.state, world.fleet, world.choice_rng)
        if server < 0 or server >= world.length.size:
            return OUT_OF_RANGE
        world.sent[server] += 1
        world.length[server] += 1
        if world.length[server] > world.limit[server]:
            take_back(world, server)
            return np.int64(-1 - server)
        return np.int64(server)

    def left(world, server):
        world.length[server] -= 1

    def learn(world):
        value = adapt(world.state)
        if value != world.announcement[0]:
            world.announcement[0] = value
            world.count[CHANGES] += 1
            if announces:
                world.count[ANNOUNCEMENTS] += 1
        return np.int64(value)

    def told_start(world, server, length):
        if tells_starts:  # else what would hear it is not compiled at all
            m = tell_start(length, world.announcement[0], world.state.par, world.server_rng)
            if m > 0:
                world.count[JOIN] += 1
                heard(world, server, m)

    def learned(world):
        if learns:
            value = adapt(world.state)
            if value != world.announcement[0]:
                world.announcement[0] = value
                world.count[CHANGES] += 1
                if announces:
                    announce(world)

    def started(world, server, length):
        """The end of an arrival: the server tells, the policy may learn and announce."""
        told_start(world, server, length)
        learned(world)

    def arrive(world):
        server = choose(world.state, world.fleet, world.choice_rng)
        if server < 0 or server >= world.length.size:
            return OUT_OF_RANGE
        length = world.length[np.uintp(server)] + 1
        if tracked:
            world.sent[server] += 1
            if length > world.limit[server]:
                unsend(world, server)
                return -1 - server
        world.length[np.uintp(server)] = length
        started(world, np.int64(server), length)  # of the type that a departure's has: one twin
        return np.int64(server)

    def arrive_together(world, tasks):
        """An arrival of several tasks at once: one choice, one message of the server."""
        server = choose(world.state, world.fleet, world.choice_rng)
        if server < 0 or server >= world.length.size:
            return OUT_OF_RANGE
        length = world.length[np.uintp(server)] + tasks
        world.length[np.uintp(server)] = length
        world.sent[server] += tasks
        if tasks > 1:  # the choice booked one; own sends added, what it promised holds again
            hear(world.state, server, world.promise[server] + world.sent[server])
        started(world, server, length)
        return np.int64(server)

    def told_finish(world, server, length):
        if tells_finishes:
            m = tell_finish(length, world.announcement[0], world.state.par, world.server_rng)
            if m > 0:
                world.count[LEAVE] += 1
                heard(world, server, m)

    def depart(world, server):
        length = world.length[np.uintp(server)] - 1
        world.length[np.uintp(server)] = length
        told_finish(world, server, length)

    def hear_from(world, server, m, received):
        """A message made when the server had received `received` tasks from this dispatcher."""
        world.promise[server] = m - received
        hear(world.state, server, m - received + world.sent[server])

    def update(world, server):
        m = tell_state(
            world.length[server], world.announcement[0], world.state.par, world.server_rng
        )
        if m > 0:
            world.count[UPDATE] += 1
            heard(world, server, m)

    def say_start(world, server, value):
        return tell_start(world.length[np.uintp(server)], value, world.state.par, world.server_rng)

    def say_finish(world, server, value):
        return tell_finish(world.length[np.uintp(server)], value, world.state.par, world.server_rng)

    def say_state(world, server, value):
        return tell_state(world.length[np.uintp(server)], value, world.state.par, world.server_rng)

    return Steps(
        arrive,
        depart,
        take_back,
        undo,
        book,
        place,
        hear_from,
        update,
        send,
        left,
        learn,
        arrive_together,
        say_start,
        say_finish,
        say_state,
        told_start,
        told_finish,
        learned,
    )


class KnownSteps(NamedTuple):
    """The steps of a policy that knows every length, where nothing else keeps them."""

    arrive: Callable[..., Any]  # (world) -> server, its tasks with this one
    depart: Callable[..., Any]  # (world, target) -> server, its tasks with this one


@cache
def make_known_steps(policy: Policy) -> KnownSteps:
    """Return the steps of a policy with `knows`, without a limit; `world.length` stays as it is."""
    assert policy.knows is not None
    tell_start, tell_finish, hear = policy.tell_start, policy.tell_finish, policy.hear
    join, leave = policy.knows.join, policy.knows.leave
    tells_starts = tell_start is not silent

    def arrive(world):
        server, length = join(world.state, world.fleet, world.choice_rng)
        if tells_starts:
            m = tell_start(length, world.announcement[0], world.state.par, world.server_rng)
            if m > 0:
                world.count[JOIN] += 1
                hear(world.state, server, m)
        return np.int64(server), np.int64(length)

    def depart(world, target):
        server, length = leave(world.state, target)
        m = tell_finish(length - 1, world.announcement[0], world.state.par, world.server_rng)
        world.count[LEAVE] += int(m > 0)  # what it says, `leave` has booked
        return np.int64(server), np.int64(length)

    return KnownSteps(arrive, depart)
