"""Tasks that share their server equally: who is done next, O(log) an event.

A server whose curve is r(k) gives each of the k tasks in service the speed r(k)/k (in a fleet of
unequal speeds sizes are divided by the speed of the server first). Its *virtual time* V runs at
that pace: while V rises by x, each of its tasks gets x seconds of work done. A task of size x that
enters at V leaves when V reaches V + x, whoever comes or goes meanwhile: its finish does not
change, only the pace does.

Per server the finishes stand in a skew heap (Sleator and Tarjan 1986, SIAM J. Comput. 15(1)) whose
nodes are the task slots: O(log k) amortised, no memory but two links a slot. Over servers a
tournament tree holds when each is done next by its present pace. A server's key changes at each of
its arrivals and departures; going up stops where a node's winner stays the same, so a change that
does not concern the first place costs O(1) on average.

V starts again from 0 whenever a server runs empty, and is set to the finish of each task that
leaves, so that rounding does not add up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .store import NOBODY, longer

U = np.uintp


class Sharing(NamedTuple):
    """The virtual time of every server, and its tasks in service."""

    clock: np.ndarray  # float64[n], V, s
    since: np.ndarray  # float64[n], when V was that, s
    root: np.ndarray  # int32[n], the task that leaves next, NOBODY if there is none
    left: np.ndarray  # int32[slots], links of the heaps
    right: np.ndarray  # int32[slots]
    finish: np.ndarray  # float64[slots], V at which each task leaves
    due: np.ndarray  # float64[2 size], the tree: when servers lose their next task, s
    pace: np.ndarray  # float64[k], r(1), ..., r(k), the last one for more tasks too


def make_sharing(
    n: int,
    server: np.ndarray,
    sizes: np.ndarray,
    serving: np.ndarray,
    slots: int,
    curve: np.ndarray,
) -> Sharing:
    """Return `n` servers that begin to share at time 0, with room for so many tasks.

    Parameters
    ----------
    server
        int[k], where each of the tasks 0 .. k - 1 is.
    sizes
        float64[k], how much work each is, s at the server's speed.
    serving
        bool[k], whether it is in service; the others wait.
    curve
        float64[m], r(1), ..., r(m).
    """
    root, left, right = (np.full(size, NOBODY, np.int32) for size in (n, slots, slots))
    finish = np.zeros(slots)
    finish[: sizes.size] = sizes
    tasks = np.flatnonzero(serving)
    tasks = tasks[np.lexsort((sizes[tasks], server[tasks]))]
    where = server[tasks]
    first = np.ones(tasks.size, bool)
    first[1:] = where[1:] != where[:-1]
    root[where[first]] = tasks[first]
    left[tasks[:-1][~first[1:]]] = tasks[1:][~first[1:]]  # a chain by finish is a heap
    count = np.bincount(where, minlength=n)
    due = np.full(n, np.inf)
    some = count > 0
    rate = curve[np.minimum(count[some], curve.size) - 1] / count[some]
    due[some] = finish[root[some]] / rate
    zeros = np.zeros(n)
    return Sharing(zeros, zeros.copy(), root, left, right, finish, _tree(due), curve)


def _tree(due: np.ndarray) -> np.ndarray:
    """Return the tournament tree of these times, float64[n]: node i has children 2i, 2i + 1."""
    size = 1 << max(0, int(due.size - 1).bit_length())
    tree = np.full(2 * size, np.inf)
    tree[size : size + due.size] = due
    while size > 1:
        size //= 2
        tree[size : 2 * size] = tree[2 * size : 4 * size].reshape(-1, 2).min(axis=1)
    return tree


def more_sharing(sharing: Sharing, slots: int) -> Sharing:
    """Return the same with room for more tasks."""
    return sharing._replace(
        left=longer(sharing.left, slots, NOBODY),
        right=longer(sharing.right, slots, NOBODY),
        finish=longer(sharing.finish, slots, 0.0),
    )


def first_due(sharing):
    """Return the server that loses its next task first; of several the lowest."""
    due, size, node = sharing.due, sharing.due.size >> 1, 1
    while node < size:
        node *= 2
        node += int(due[U(node)] > due[U(node + 1)])
    return node - size


def enter(sharing, server, before, task, size, now):
    """Put a task of `size` s into service at a server that had `before` tasks in service."""
    if before == 0:
        sharing.clock[U(server)] = 0.0
    else:
        elapsed = now - sharing.since[U(server)]
        sharing.clock[U(server)] += elapsed * pace_of(sharing, before)
    sharing.since[U(server)] = now
    add(sharing, server, task, size)


def add(sharing, server, task, size):
    """Put a task of `size` s into service at a server whose virtual time is up to date."""
    sharing.finish[U(task)] = sharing.clock[U(server)] + size
    sharing.left[U(task)] = NOBODY
    sharing.right[U(task)] = NOBODY
    sharing.root[U(server)] = merged(sharing, sharing.root[U(server)], task)


def leave(sharing, server, now):
    """Take the task out that leaves a server next, at the time it does; return it."""
    task = np.int64(sharing.root[U(server)])
    sharing.clock[U(server)] = sharing.finish[U(task)]
    sharing.since[U(server)] = now
    left, right = np.int64(sharing.left[U(task)]), np.int64(sharing.right[U(task)])
    sharing.root[U(server)] = merged(sharing, left, right)
    return task


def merged(sharing, one, other):
    """Return the root of the skew heap of two: down the right links, swapping the children."""
    left, right, finish = sharing.left, sharing.right, sharing.finish
    a, b = np.int64(one), np.int64(other)
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if finish[U(b)] < finish[U(a)]:
        a, b = b, a
    root = a
    while True:
        rest = np.int64(right[U(a)])
        right[U(a)] = left[U(a)]
        if rest == NOBODY:
            left[U(a)] = b
            return root
        if finish[U(b)] < finish[U(rest)]:
            rest, b = b, rest
        left[U(a)] = rest
        a = rest


def pace_of(sharing, serving):
    """Return the speed of each task at a server with `serving` >= 1 in service."""
    return sharing.pace[U(min(serving, sharing.pace.size) - 1)] / serving


def set_due(sharing, server, serving, now):
    """Book when a server with `serving` tasks in service loses the next of them."""
    due = sharing.due
    time = np.inf
    if serving > 0:
        left = sharing.finish[U(sharing.root[U(server)])] - sharing.clock[U(server)]
        time = now + max(0.0, left) / pace_of(sharing, serving)
    node = server + (due.size >> 1)
    due[U(node)] = time
    node >>= 1
    while node >= 1:
        least = min(due[U(2 * node)], due[U(2 * node + 1)])
        if due[U(node)] == least:
            break
        due[U(node)] = least
        node >>= 1
