"""When the tasks that wait came, in order: a ring for each server, and a list for what is beyond.

Every server has `room` places of one array side by side, so that a task that comes and one that
goes touch one cache line each, wherever in the line of its server it stands; where that is, the
length of the server says, and `first`. Those beyond the ring stand in a list that goes round:
`last` names the last one, and behind the last comes the first. When the first of the ring goes,
the first of the list takes over its place, which by then is the last of the ring.

All servers have the same room, a power of two. It doubles when a 32nd of a task a server stands in
lists, whose memory is three lines, one after the other; provided that rings of that size would be
at least an eighth full: memory follows the number of tasks, also where few servers have them all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import hurry, near
from .store import NOBODY, longer
from .tally import NO_TIME

U = np.uintp
MOST_ROOM = 128  # `first` is a byte
LEAST_NODES = 16
FEW = 32  # servers to a task in a list
LINE = 8  # times in a cache line
AT_ONCE = 2**14  # servers: temporary arrays are memory, too


@near(free=1)
class Waiting(NamedTuple):
    """When those that wait at each of n servers came."""

    since: np.ndarray  # float64[n * room], the rings
    first: np.ndarray  # uint8[n], where in its ring the first one stands
    room: int
    last: np.ndarray  # int32[n], the last node of those beyond the ring, if there are any
    next: np.ndarray  # int32[nodes], the node behind, or the next free one
    beyond: np.ndarray  # float64[nodes], when that task came
    free: np.ndarray  # int64[1], the first free node, NOBODY if none: one must be there to line up


def place_of(waiting, server, i):
    """Return the place of the i-th in the ring of a server."""
    first = np.int64(waiting.first[U(server)])
    return U(server * waiting.room + ((first + i) & (waiting.room - 1)))


def line_up(waiting, server, before, at):
    """Put a task that came at `at` behind the `before` ones that wait at a server."""
    if before < waiting.room:
        waiting.since[place_of(waiting, server, before)] = at
        return
    node = waiting.free[0]
    waiting.free[0] = waiting.next[U(node)]
    waiting.beyond[U(node)] = at
    if before == waiting.room:
        waiting.next[U(node)] = node
    else:
        last = waiting.last[U(server)]
        waiting.next[U(node)] = waiting.next[U(last)]
        waiting.next[U(last)] = node
    waiting.last[U(server)] = node


def leave_line(waiting, server, tasks):
    """Take out the first of the `tasks` that wait at a server; return when it came."""
    place = place_of(waiting, server, 0)
    since = waiting.since[place]
    waiting.first[U(server)] = (np.int64(waiting.first[U(server)]) + 1) & (waiting.room - 1)
    if tasks > waiting.room:
        last = waiting.last[U(server)]
        node = np.int64(waiting.next[U(last)])
        waiting.next[U(last)] = waiting.next[U(node)]
        waiting.since[place] = waiting.beyond[U(node)]
        waiting.next[U(node)] = waiting.free[0]
        waiting.free[0] = node
    return since


def hurry_line(waiting, server, i):
    """Ask for the cache line with the place of the i-th of a server, before it is needed."""
    if waiting.room <= LINE:  # it holds the whole ring
        hurry(waiting.since, U(server * waiting.room))
        hurry(waiting.first, U(server))
    else:
        hurry(waiting.since, place_of(waiting, server, i))


def make_waiting(tasks: np.ndarray) -> Waiting:
    """Return the lines of servers where so many tasks, int[n], wait; when they came is unknown."""
    n, room = tasks.size, 1
    while crowded(tasks, room, int(np.maximum(tasks - room, 0).sum())):
        room *= 2
    beyond = np.maximum(tasks - room, 0)
    used = int(beyond.sum())
    nodes = max(LEAST_NODES, n // FEW, 2 * used)
    next_ = np.arange(1, nodes + 1, dtype=np.int32)
    next_[-1] = NOBODY
    last = np.full(n, NOBODY, np.int32)
    some, ends = beyond > 0, np.cumsum(beyond)
    last[some] = ends[some] - 1
    next_[last[some]] = (ends - beyond)[some]
    return Waiting(
        on_lines(n * room), np.zeros(n, np.uint8), room, last, next_,
        np.full(nodes, NO_TIME), np.array([used], np.int64),
    )  # fmt: skip


def crowded(tasks: np.ndarray, room: int, beyond: int) -> bool:
    """Whether rings of twice the room are called for, with so many tasks beyond them."""
    n = tasks.size
    return room < MOST_ROOM and FEW * beyond > n and 4 * int(tasks.sum()) >= n * room


def on_lines(size: int) -> np.ndarray:
    """Return unknown times, float64[size], that begin with a cache line: no ring straddles two."""
    room = np.full(size + LINE, NO_TIME)
    first = -room.ctypes.data % (8 * LINE) // 8
    return room[first : first + size]


def more_waiting(waiting: Waiting, tasks: np.ndarray) -> Waiting:
    """Return the same lines, of so many tasks, int[n], with nodes that are free again.

    Rings of twice the room take their tasks out of the lists; where they are not called for, there
    are twice the nodes.
    """
    beyond = int(np.maximum(tasks - waiting.room, 0).sum())
    if crowded(tasks, waiting.room, beyond):
        return _wider(waiting, tasks)
    old = waiting.next.size
    next_ = longer(waiting.next, 2 * old, 0)
    next_[old:] = np.arange(old + 1, 2 * old + 1)
    next_[-1] = waiting.free[0]
    waiting.free[0] = old
    return waiting._replace(next=next_, beyond=longer(waiting.beyond, 2 * old, NO_TIME))


def _wider(waiting: Waiting, tasks: np.ndarray) -> Waiting:
    """Return the same lines in rings of twice the room, all of which begin at their first place."""
    n, room = waiting.last.size, waiting.room
    since = on_lines(2 * n * room)
    old, rings = waiting.since.reshape(n, room), since.reshape(n, 2 * room)
    for begin in range(0, n, AT_ONCE):
        some = np.arange(begin, min(begin + AT_ONCE, n))
        for i in range(room):
            rings[some, i] = old[some, (waiting.first[some] + i) & (room - 1)]
    for i in range(room, 2 * room):
        some = np.flatnonzero(tasks > i)
        if not some.size:
            break
        last = waiting.last[some]
        node = waiting.next[last]
        rings[some, i] = waiting.beyond[node]
        waiting.next[last] = waiting.next[node]
        waiting.next[node] = np.append(node[1:], waiting.free[0])
        waiting.free[0] = node[0]
    return waiting._replace(since=since, first=np.zeros(n, np.uint8), room=2 * room)
