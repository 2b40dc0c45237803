"""A binary heap of (time, item) in two arrays: the simulator's calendar, and whose turn is next.

`key[:size]` and `item[:size]` form a heap by time; both must have room for one more at a push.
When a departure is followed at once by the next start, `replace_first` does the work of a pop and
a push in one pass.
"""

from __future__ import annotations

import numpy as np

U = np.uintp


def push(key, item, size, time, task):
    """Add an event; the caller counts it."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if key[U(parent)] <= time:
            break
        key[U(hole)] = key[U(parent)]
        item[U(hole)] = item[U(parent)]
        hole = parent
    key[U(hole)] = time
    item[U(hole)] = task


def replace_first(key, item, size, time, task):
    """Put an event in the place of the earliest one."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size:
            child += int(key[U(child + 1)] < key[U(child)])
        if time <= key[U(child)]:
            break
        key[U(hole)] = key[U(child)]
        item[U(hole)] = item[U(child)]
        hole = child
    key[U(hole)] = time
    item[U(hole)] = task


def drop_first(key, item, size):
    """Remove the earliest event of `size`; the caller counts it."""
    last = size - 1
    if last > 0:
        replace_first(key, item, last, key[U(last)], item[U(last)])
