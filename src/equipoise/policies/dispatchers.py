"""Several dispatchers in front of one fleet, each with its own memory, coins and sends.

Every task comes to one of m dispatchers, and each of them is one in the sense of the papers: it
knows of the others' tasks only what the servers tell. What that is, `hear` says:

    all   every server tells every dispatcher. A message counts all the tasks at the server, and
          the dispatcher adds the tasks that it has itself sent there since. The server half runs
          once per dispatcher, under the announcement of that dispatcher, and each message to each
          of them is counted.
    own   a dispatcher counts for itself: both halves run on the tasks that it has sent, as if
          nobody else's were there. No server needs to tell anything.

A promise is true when it is made, but with `all` another dispatcher's task may break it before the
server speaks again: no bound holds of a length, only of that length less the others' tasks since.
With instant messages (tests hold every policy to this):

    tokens     none is ever missing: a server that is green is green at every dispatcher. One that
               is false became so by another dispatcher's tasks, and its next message mends it
    levels     of jsq, sed and total-threshold: the length, less what others sent since a task
               left there; estimates of the sparse family are at least that, counted from an update
    own        all that holds of one dispatcher, of the tasks that are its own

The order of steps is that of steps.py. At an arrival, with dispatcher k: k chooses; the server
tells each, in order of their numbers; k may learn, and announces to the servers what is its own.

For one dispatcher nothing of this is compiled or run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import far, keep_view, view_like
from ..rng import below
from .base import Blind, Policy
from .steps import NO_LIMIT, OUT_OF_RANGE, PROBE, Steps, World, make_steps, make_world

U = np.uintp


@far
class Dispatchers(NamedTuple):
    """In the place of a `World`: n servers and m dispatchers, each with a world of its own.

    The worlds are reached by address, so one compilation serves every m. With `all` they share
    the lengths, the limit and what is known of sizes; in any case counters and the servers' coins.
    """

    length: np.ndarray  # int32[n], tasks at each server, whoever sent them
    fleet: Any  # of the first; with `all` of each
    count: np.ndarray  # type: ignore[assignment]  # int64[7], of all together
    announcement: np.ndarray  # int64[1], that of the first, which stands for all in tallies
    limit: np.ndarray  # int32[n], most tasks at each server, whoever sent them
    first: World  # tells the type of what stands at the addresses
    at: np.ndarray  # int64[m], the address of each world
    whose: np.ndarray  # int64[1], the dispatcher of the task that comes or leaves
    given: np.ndarray  # int64[k], of each task of a block, where they are drawn outside
    coins: np.ndarray  # uint64[4], who gets a task, where that is drawn here


class Several(NamedTuple):
    """What must live as long as its `world` is used: the worlds and the views of them."""

    world: Dispatchers
    worlds: tuple[World, ...]
    views: tuple[np.ndarray, ...]


def make_dispatchers(
    policy: Policy,
    params: dict[str, Any],
    lengths: np.ndarray,
    *,
    choice_rngs: Sequence[np.ndarray],
    server_rng: np.ndarray,
    coins: np.ndarray,
    owners: np.ndarray | None = None,
    limit: int | np.ndarray | None = None,
    speeds: np.ndarray | None = None,
    workers: int = 1,
) -> Several:
    """Return as many dispatchers as there are `choice_rngs`.

    Parameters
    ----------
    lengths
        int[n], tasks now at each server.
    choice_rngs, server_rng, coins
        uint64[4] each: of each dispatcher, of the servers, and who gets a task.
    owners
        int[sum of lengths], which dispatcher sent each task that is there, server by server; then
        each counts its own (`own`). None: all know all lengths (`all`).
    limit, speeds, workers
        As in `make_world`; the limit holds whoever sent the tasks.
    """
    length = np.array(lengths, np.int32)
    limits = np.full(length.size, NO_LIMIT if limit is None else limit, np.int32)
    count = np.zeros(7, np.int64)
    asked = count[PROBE : PROBE + 1]
    worlds: list[World] = []
    for k, rng in enumerate(choice_rngs):
        known: np.ndarray = length
        if owners is not None:
            mine = np.repeat(np.arange(length.size), length)[owners == k]
            known = np.bincount(mine, minlength=length.size)
        world = make_world(
            policy, params, known, choice_rng=rng, server_rng=server_rng, speeds=speeds,
            workers=workers,
        )  # fmt: skip
        fleet: Any = world.fleet
        if not isinstance(fleet, Blind):
            fleet = fleet._replace(asked=asked)
        if owners is None:
            if not isinstance(fleet, Blind):
                fleet = worlds[0].fleet if worlds else fleet._replace(length=length)
            world = world._replace(length=length, limit=limits)
        worlds.append(world._replace(count=count, fleet=fleet))
    first = worlds[0]
    views = tuple(keep_view(world) for world in worlds)
    at = np.array([view.ctypes.data for view in views], np.int64)
    whose, given = np.zeros(1, np.int64), np.zeros(0, np.int64)
    whole = Dispatchers(
        length, first.fleet, count, first.announcement, limits, first, at, whose, given, coins
    )
    return Several(whole, tuple(worlds), views)


class SharedSteps(NamedTuple):
    """The steps of one policy behind several dispatchers, plain functions of `Dispatchers`."""

    arrive: Callable[..., Any]  # (world) -> server; -1 - server if it was full and the task is lost
    depart: Callable[..., Any]  # (world, server); with `own` a task of dispatcher `whose`
    update: Callable[..., Any]  # (world, server): it tells each its state, by the clock


def one(world, k):
    """Return the world of a dispatcher."""
    return view_like(world.first, world.at[U(k)])


@cache
def make_shared_steps(policy: Policy, hear: str, drawn: bool = True) -> SharedSteps:
    """Return the steps that drive `policy` behind several dispatchers.

    `hear` as above; `drawn`: who gets a task is drawn at its arrival, else `whose` says so.
    """
    steps = make_steps(policy, True)
    send, take_back, learned = steps.send, steps.take_back, steps.learned
    told_start, told_finish = steps.told_start, steps.told_finish
    depart_one, update_one = steps.depart, steps.update

    def pick(world):
        if drawn:
            world.whose[0] = below(world.coins, world.at.size)
        return one(world, world.whose[0])

    def arrive_all(world):
        mine = pick(world)
        server = send(mine)
        if server < 0:
            return server
        length = np.int64(world.length[U(server)])
        for k in range(world.at.size):
            told_start(one(world, k), server, length)
        learned(mine)
        return server

    def depart_all(world, server):
        length = np.int64(world.length[U(server)]) - 1
        world.length[U(server)] = length
        for k in range(world.at.size):
            told_finish(one(world, k), server, length)

    def arrive_own(world):
        mine = pick(world)
        server = send(mine)
        if server == OUT_OF_RANGE:
            return server
        length = world.length[U(server)] + 1
        if length > world.limit[U(server)]:
            take_back(mine, server)
            return np.int64(-1 - server)
        world.length[U(server)] = length
        told_start(mine, server, mine.length[U(server)])
        learned(mine)
        return server

    def depart_own(world, server):
        world.length[U(server)] -= 1
        depart_one(one(world, world.whose[0]), server)

    def update(world, server):
        for k in range(world.at.size):
            update_one(one(world, k), server)

    if hear == "own":
        return SharedSteps(arrive_own, depart_own, update)
    return SharedSteps(arrive_all, depart_all, update)


def steps_of(policy: Policy, several: bool, tracked: bool) -> Steps | SharedSteps:
    """Return the steps of one dispatcher, or of several that hear all, where nothing is given."""
    return make_shared_steps(policy, "all") if several else make_steps(policy, tracked)
