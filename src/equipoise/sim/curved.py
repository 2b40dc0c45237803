"""n servers whose speed depends on how many tasks share them; exponential service.

A server of speed s with k tasks works at rate s r(k), for any curve r that is constant from some k
on. Its tasks in service, all k or the first `workers` of them, share that rate equally, so the one
that leaves is uniform among them, whatever came before.

State: one entry for each busy server, in rows by octave of its rate, or one row for each rate
where there are few (processor sharing of equal servers has one row). A row of k entries offers
events at k times its largest rate, and an event at a slower server is refused with the fitting
probability (uniformization), as in memoryless.py: exact, and O(1) but for the number of rows. A
change of length moves a server to another row if its rate changes octave.

When each task came stands in a block per server, a ring of 4, 8, 16, .. places in one large array;
a ring that is full moves to a block of twice the size, one that is nearly empty to one of half, and
blocks that were left are used again. The first min(k, workers) places are the tasks in service, in
no order; the rest wait in theirs. Whoever leaves has the first of the ring put into its place, so
the first one waiting joins those in service with nothing moved.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, kernel, outline
from ..policies.base import Policy
from ..policies.dispatchers import steps_of
from ..policies.steps import OUT_OF_RANGE
from ..rng import exponential, uniform
from .inflow import Inflow, Switches, draw_batch, make_inflow, make_tick, no_tick, rate_at
from .store import NEEDS_LEVELS, NEEDS_NODES, NO_SUCH_SERVER, NOBODY, REACHED, longer
from .tally import (
    ARRIVED,
    BALANCED,
    FINISHED,
    LOST,
    NO_TIME,
    NOW,
    PENDING,
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
from .ticks import Ticks

U = np.uintp
FEW_RATES = 16  # so many distinct ones have a row each
FEW_SPEEDS = 64  # so many distinct ones are told apart in the table of rows
LEAST = 2  # log2 of the smallest block
SIZES = 40  # of blocks, 2^0 to 2^39


class Shared(NamedTuple):
    """Servers that share their speed, and their tasks."""

    server: np.ndarray  # int32[rows * n], the busy servers of each row
    filled: np.ndarray  # int64[rows], how many
    most: np.ndarray  # float64[rows], the largest rate in each row
    place: np.ndarray  # int32[n], where in its row a busy server stands
    curve: np.ndarray  # float64[c], r(0) .. r(c - 1), constant from there on
    row: np.ndarray  # int32[classes * c], the row for each class of speed and number of tasks
    speed: np.ndarray  # float64[n], speed of each server (empty if all are 1)
    kind: np.ndarray  # int32[n], its class of speed (empty if all are 1)
    stamp: np.ndarray  # float64[places], when tasks came; in a free block, the next one
    block: np.ndarray  # int64[n], where the ring of each server begins
    first: np.ndarray  # int32[n], its first place
    room: np.ndarray  # int8[n], log2 of its size, NOBODY for none
    free: np.ndarray  # int64[sizes], the first free block of each size
    end: np.ndarray  # int64[1], places of `stamp` that were ever used
    rng: np.ndarray  # uint64[4], the coins of arrivals and departures
    inflow: Inflow
    ticks: Ticks | None = None  # of a policy that has a clock


@cache
def make_curved(policy: Policy, switches: Switches) -> Any:
    """Return the kernel of one policy.

    run(world, tasks, tally, rate, workers, until, most) is that of memoryless.py; `workers` tasks
    of a server share it, the others wait.
    """
    _, limited, unequal, varying, batched, several = switches
    arrive, depart, *_ = steps_of(policy, several, limited)
    learns, clocked = policy.learns, policy.clock is not None
    tick = make_tick(policy, limited, several) if clocked else no_tick

    def row_of(tasks, server, length):
        at = min(length, tasks.curve.size - 1)
        if unequal:
            at += np.int64(tasks.kind[U(server)]) * tasks.curve.size
        return np.int64(tasks.row[U(at)])

    def moved(tasks, server, before, length):
        """Put a server where it belongs now that it has `length` tasks."""
        size = tasks.place.size
        old, new = row_of(tasks, server, before), row_of(tasks, server, length)
        if old == new:
            return
        if old >= 0:
            tasks.filled[U(old)] -= 1
            last = tasks.server[U(old * size + tasks.filled[U(old)])]
            at = tasks.place[U(server)]
            tasks.server[U(old * size + at)] = last
            tasks.place[U(last)] = at
        if new >= 0:
            at = tasks.filled[U(new)]
            tasks.server[U(new * size + at)] = server
            tasks.place[U(server)] = at
            tasks.filled[U(new)] += 1

    def curved(world, tasks, tally, rate, workers, until, most):
        world, tasks, tally = borrow(world), borrow(tasks), borrow(tally)
        size, levels = world.length.size, tally.least.size
        number, now = tally.number, tally.now
        rows, last = tasks.filled.size, tasks.curve.size - 1
        code = REACHED
        while True:
            if number[ARRIVED] >= most:
                break
            if number[TALLEST] + 3 >= levels or number[BALANCED] + 3 >= levels:
                code = NEEDS_LEVELS
                break
            if tasks.end[0] + 2 * number[TALLEST] + 4 > tasks.stamp.size:
                code = NEEDS_NODES
                break
            at, drawn = now[NOW], -1.0  # the next task of a batch comes at once
            if not batched or tasks.inflow.left[0] == 0:
                total_rate = rate
                for row in range(rows):
                    total_rate += tasks.filled[row] * tasks.most[row]
                at = now[PENDING]
                if not at >= 0.0:
                    at = until
                    if total_rate > 0.0:
                        at = now[NOW] + exponential(tasks.rng) / total_rate
                if clocked:
                    turn_at = tasks.ticks.next[0]
                    if turn_at <= at and turn_at < until:
                        if total_rate > 0.0:
                            now[PENDING] = at
                        pass_time(tally, turn_at, size)
                        tick(world, tasks.ticks, turn_at)
                        continue
                if at >= until:
                    if total_rate > 0.0:
                        now[PENDING] = at
                    pass_time(tally, until, size)
                    break
                now[PENDING] = np.nan
                pass_time(tally, at, size)
                drawn = uniform(tasks.rng) * total_rate
            if drawn < rate:  # a task arrives
                if varying and drawn >= 0.0 and drawn >= rate_at(tasks.inflow, at):
                    continue  # not now: the rate is below its largest
                if batched:
                    if drawn >= 0.0:
                        tasks.inflow.left[0] = draw_batch(tasks.inflow, tasks.rng)
                    tasks.inflow.left[0] -= 1
                server = arrive(world)
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                number[ARRIVED] += 1
                if limited and server < 0:
                    number[LOST] += 1
                    continue
                length = np.int64(world.length[U(server)])
                risen(tally, length, size)
                came(tasks, server, length, at)
                moved(tasks, server, length - 1, length)
                if length <= workers:
                    started_at_once(tally)
                if learns and world.announcement[0] != number[THRESHOLD]:
                    announced(tally, world.announcement[0])
            else:  # a task of a random busy server is done
                rest = drawn - rate
                row = np.int64(0)
                while row < rows - 1:
                    offered = tasks.filled[U(row)] * tasks.most[U(row)]
                    if rest < offered:
                        break
                    rest -= offered
                    row += 1
                rest /= tasks.most[U(row)]
                slot = min(np.int64(rest), tasks.filled[U(row)] - 1)
                if slot < 0:
                    continue  # rounding, at the edge of a row with nobody in it
                refuse = (rest - slot) * tasks.most[U(row)]  # uniform below the largest
                server = np.int64(tasks.server[U(row * size + slot)])
                length = np.int64(world.length[U(server)])
                pace = tasks.curve[U(min(length, last))]
                if unequal:
                    pace *= tasks.speed[U(server)]
                if refuse >= pace:
                    continue
                serving = min(length, workers)
                which = min(np.int64(refuse / pace * serving), serving - 1)
                number[FINISHED] += 1
                depart(world, server)
                fallen(tally, length, size)
                stamp = gone(tasks, server, which, length)
                if stamp != NO_TIME:
                    responded(tally, at - stamp)
                if length > workers:  # the first one waiting joins
                    since = stamp_of(tasks, server, workers - 1)
                    if since != NO_TIME:
                        waited(tally, at - since)
                moved(tasks, server, length, length - 1)
        settle(tally)
        return code

    curved.__name__ = f"curved_{policy.name.replace('-', '_')}"
    return kernel(curved)


def place_of(tasks, server, i):
    """Return the place of the i-th task of a server's ring."""
    mask = (np.int64(1) << np.int64(tasks.room[U(server)])) - 1
    return U(tasks.block[U(server)] + ((tasks.first[U(server)] + i) & mask))


def stamp_of(tasks, server, i):
    """Return when the i-th task of a server's ring came."""
    return tasks.stamp[place_of(tasks, server, i)]


def came(tasks, server, length, at):
    """Put a task that comes now at the end of a server's ring, which then has `length`."""
    room = np.int64(tasks.room[U(server)])
    if room < 0:
        move_block(tasks, server, 0, LEAST)
    elif length > np.int64(1) << room:
        move_block(tasks, server, length - 1, room + 1)
    tasks.stamp[place_of(tasks, server, length - 1)] = at


def gone(tasks, server, i, length):
    """Take the i-th of the `length` tasks out of a server's ring; return when it came."""
    place = place_of(tasks, server, i)
    stamp = tasks.stamp[place]
    tasks.stamp[place] = tasks.stamp[place_of(tasks, server, 0)]
    room = np.int64(tasks.room[U(server)])
    tasks.first[U(server)] = (tasks.first[U(server)] + 1) & ((np.int64(1) << room) - 1)
    if room > LEAST and 4 * (length - 1) <= np.int64(1) << room:
        move_block(tasks, server, length - 1, room - 1)
    return stamp


@outline
def move_block(tasks, server, held, room):
    """Move the `held` tasks of a server to a block of 2^room places."""
    block = tasks.free[room]
    if block >= 0:
        tasks.free[room] = np.int64(tasks.stamp[block])
    else:
        block = tasks.end[0]
        tasks.end[0] += np.int64(1) << np.int64(room)
    for i in range(held):
        tasks.stamp[block + i] = stamp_of(tasks, server, i)
    old = np.int64(tasks.room[server])
    if old >= 0:
        tasks.stamp[tasks.block[server]] = np.float64(tasks.free[old])
        tasks.free[old] = tasks.block[server]
    tasks.block[server], tasks.first[server], tasks.room[server] = block, 0, room


def make_shared_tasks(
    lengths: np.ndarray,
    curve: np.ndarray,
    rng: np.ndarray,
    speeds: np.ndarray | None = None,
) -> Shared:
    """Return the tasks of servers with these lengths, int[n].

    `curve`, float64[c], is r(0) .. r(c - 1) with r(0) = 0, constant from there on; `speeds`,
    float64[n], where they differ.
    """
    n = lengths.size
    kind, row, most = rate_rows(curve, speeds)
    last, rows = curve.size - 1, most.size
    server, place = np.zeros((rows, n), np.int32), np.zeros(n, np.int32)
    filled = np.zeros(rows, np.int64)
    at = np.minimum(lengths, last) + (0 if speeds is None else kind.astype(np.int64) * curve.size)
    for i in range(rows):
        mine = np.flatnonzero(row[at] == i)
        filled[i] = mine.size
        server[i, : mine.size] = mine
        place[mine] = np.arange(mine.size)
    room = np.full(n, NOBODY, np.int8)
    some = lengths > 0
    room[some] = np.maximum(LEAST, np.ceil(np.log2(lengths[some]))).astype(np.int8)
    places = np.where(some, 1 << np.maximum(room, 0).astype(np.int64), 0)
    block = np.cumsum(places) - places
    end = int(places.sum())
    stamp = np.full(max(1024, 2 * end), NO_TIME)
    speed = np.zeros(0) if speeds is None else np.asarray(speeds, float)
    return Shared(
        server.ravel(), filled, most, place, np.asarray(curve, float), row, speed, kind,
        stamp, block, np.zeros(n, np.int32), room, np.full(SIZES, NOBODY, np.int64),
        np.array([end]), rng, make_inflow(None),
    )  # fmt: skip


def rate_rows(
    curve: np.ndarray, speeds: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (kind int32[n], row int32[classes * c], most float64[rows]); kind empty for None.

    A class is a speed where there are few, else an eighth of an octave, taken at its upper end:
    then at least 0.45 of the events in a row are good.
    """
    kind, upper = np.zeros(0, np.int64), np.ones(1)
    if speeds is not None:
        upper, kind = np.unique(np.asarray(speeds, float), return_inverse=True)
        if upper.size > FEW_SPEEDS:
            eighth = np.floor(8 * np.log2(speeds / upper[-1])).astype(np.int64)
            steps, kind = np.unique(eighth, return_inverse=True)
            upper = np.array([speeds[kind == i].max() for i in range(steps.size)])
    rates = np.outer(upper, curve)  # float64[classes, c]
    distinct, row = np.unique(rates[:, 1:], return_inverse=True)
    if distinct.size > FEW_RATES:
        octave = np.floor(np.log2(distinct / distinct[-1])).astype(np.int64)
        _, of = np.unique(octave, return_inverse=True)
        row = of[row]
        most = np.array([distinct[of == i].max() for i in range(of.max() + 1)])
    else:
        most = distinct
    table = np.full(rates.shape, NOBODY, np.int32)
    table[:, 1:] = row.reshape(upper.size, -1)
    return kind.astype(np.int32), table.ravel(), most


def more_stamps(tasks: Shared) -> Shared:
    """Return the same tasks with room for twice the stamps."""
    return tasks._replace(stamp=longer(tasks.stamp, 2 * tasks.stamp.size, NO_TIME))
