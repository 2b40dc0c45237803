"""What the memoryless kernel asks of memory ahead of time.

A task that leaves a random one of a million servers touches four or five cache lines that no cache
holds, one after the other: which slot, whose it is, how long its line, who is the next. Each takes
0.1 us to come. But what happens next hangs on random numbers that can be read before they are
drawn (`rng.ahead`), and on what the present event will hardly change. So lines are asked for
two and three events early: first the slot, and when that is there, what its server needs.

Nothing here changes anything or draws. A guess that was wrong (two numbers are taken for an event,
and a few need more; a slot may have moved) costs a line that is asked for in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compile import hurry
from ..policies.base import Policy, foresee_nothing, silent
from ..rng import ahead
from .waiting import hurry_line

U = np.uintp


class Lookahead(NamedTuple):
    """Plain functions that a kernel calls in large fleets."""

    before_event: Callable[..., Any]  # (world, tasks, rate, busy), before an event is handled
    after_arrival: Callable[..., Any]  # (world, tasks, workers), after a task was placed


def make_lookahead(policy: Policy, queue: bool, unequal: bool, known: bool) -> Lookahead:
    """Return what to ask for; `known` as in `make_memoryless`."""
    sight = policy.foresight
    choose, hear, leave = sight.choose, sight.hear, sight.leave
    heard = policy.tell_finish is not silent

    def events(world, tasks, rate, busy):
        coming = ahead(tasks.rng)  # two for an event
        second, third = coming[3], coming[5]
        slot = U(max(0, int(third * (rate + busy) - rate)))  # 0 for an arrival
        hurry(tasks.server, slot)
        if queue:
            hurry(tasks.stamp, slot)
        server = np.int64(tasks.server[U(max(0, int(second * (rate + busy) - rate)))])
        hurry(world.length, U(server))
        if heard:
            hear(world.state, server)
        if queue:
            hurry_line(tasks.waiting, server, 0)

    def events_known(world, tasks, rate, busy):
        coming = ahead(tasks.rng)
        first, second = coming[1], coming[3]
        soon, later = first * (rate + busy) - rate, second * (rate + busy) - rate
        leave(world.state, max(0.0, soon), max(0.0, later))

    def events_in_rows(world, tasks, rate, busy):
        """Which slot it is takes a walk over the rows: not worth while."""

    def arrivals(world, tasks, workers):
        server = np.int64(choose(world.state, world.fleet, world.choice_rng))
        if server < 0 or server >= world.length.size:
            return  # a user's policy may foresee anything
        if not known:
            hurry(world.length, U(server))
        if queue:
            hurry_line(tasks.waiting, server, np.int64(world.length[U(server)]) - workers)

    def arrivals_unforeseen(world, tasks, workers):
        """Nobody knows where the next task goes."""

    return Lookahead(
        events_known if known else events_in_rows if unequal else events,
        arrivals_unforeseen if choose is foresee_nothing else arrivals,
    )
