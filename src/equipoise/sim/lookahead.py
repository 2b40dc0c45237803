"""What the memoryless kernel asks of memory ahead of time.

A task that leaves a random one of a million servers touches four or five cache lines that no cache
holds, one after the other: which slot, whose it is, how long its line, who is the next. Each takes
0.1 us to come. But what happens next hangs on random numbers that are held before they are drawn
(`rng.Soon`, two for an event), so lines are asked for early: first the slot, some events later,
when that is there, what its server needs.

For such a guess to hold, the random number must stand for the same slot when its turn comes. The
number of tasks in service changes all the time, so a number is drawn from a frame that is a little
wider, and stays as it is until tasks no longer fit or fill it too badly. Who draws a place of the
frame where nobody is draws again: an event in a hundred. This is exact, like any uniformization.

Asking changes nothing and draws nothing. A wrong guess (a slot may have moved) costs a line that is
asked for in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compile import hurry
from ..policies.base import Policy, foresee_nothing, silent
from ..rng import peek
from .waiting import hurry_line

U = np.uintp
SLOT, SERVER = 8, 4  # events ahead at which these are asked for


def frame_of(tasks):
    """Return how wide to draw for so many tasks in service, an int or int64[rows]."""
    return tasks + tasks // 64 + 1


def fit_frame(frame, row, tasks):
    """Make the frame of a row fit this number of tasks, if it does not."""
    room = frame[U(row)] - tasks
    if room < 0 or room > 2 + tasks // 32:
        frame[U(row)] = frame_of(tasks)


class Lookahead(NamedTuple):
    """Plain functions that a kernel calls in large fleets."""

    before_event: Callable[..., Any]  # (world, tasks, rate), before an event is handled
    after_arrival: Callable[..., Any]  # (world, tasks, workers), after a task was placed


def coin(tasks, events):
    """Return the uniform number that will say what happens, so many events from now."""
    return peek(tasks.rng, 2 * events - 1)


def make_lookahead(policy: Policy, queue: bool, unequal: bool) -> Lookahead:
    """Return what to ask for; with `unequal`, slots stand in rows by speed."""
    sight = policy.foresight
    choose, hear = sight.choose, sight.hear
    heard = policy.tell_finish is not silent

    def slot_at(tasks, coin, rate, reach):
        """Return the slot that a number on [0, 1) stands for; any, if for an arrival."""
        return np.int64(max(0.0, coin * reach - rate))

    def slot_in_rows(tasks, coin, rate, reach):
        rest, row, rows = max(0.0, coin * reach - rate), 0, tasks.filled.size
        while row < rows - 1 and rest >= tasks.frame[U(row)] * tasks.fastest[U(row)]:
            rest -= tasks.frame[U(row)] * tasks.fastest[U(row)]
            row += 1
        width = tasks.server.size // rows
        return row * width + min(np.int64(rest / tasks.fastest[U(row)]), width - 1)

    slot_of = slot_in_rows if unequal else slot_at

    def events(world, tasks, rate):
        reach = rate
        if unequal:
            for row in range(tasks.filled.size):
                reach += tasks.frame[U(row)] * tasks.fastest[U(row)]
        else:
            reach += tasks.frame[0]
        slot = U(slot_of(tasks, coin(tasks, SLOT), rate, reach))
        hurry(tasks.server, slot)
        if queue:
            hurry(tasks.stamp, slot)
        last = tasks.server.size - 1
        slot = U(min(slot_of(tasks, coin(tasks, SERVER), rate, reach), last))
        server = np.int64(tasks.server[slot])
        hurry(world.length, U(server))
        if heard:
            hear(world.state, server)
        if queue:
            hurry_line(tasks.waiting, server, 0)

    def arrivals(world, tasks, workers):
        server = np.int64(choose(world.state, world.fleet, world.choice_rng))
        if server < 0 or server >= world.length.size:
            return  # a user's policy may foresee anything
        hurry(world.length, U(server))
        if queue:
            hurry_line(tasks.waiting, server, np.int64(world.length[U(server)]) - workers)

    def arrivals_unforeseen(world, tasks, workers):
        """Nobody knows where the next task goes."""

    return Lookahead(events, arrivals_unforeseen if choose is foresee_nothing else arrivals)
