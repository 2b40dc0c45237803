"""Servers of few kinds, each kind sorted by level: the least of (level + 1) / speed in O(kinds).

One `Levels` (levels.py) for each kind, side by side in the same arrays: a kind stands in `order`
from `start[kind]` on and has a stretch of `width` boundaries in `end`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .levels import U, move_in

MOST_LEVELS = 16_384


class Segments(NamedTuple):
    """All servers by kind, and by level within a kind."""

    order: np.ndarray  # int32[n], kind by kind, lowest level first
    place: np.ndarray  # int32[n, 2], position and level of each server
    kind: np.ndarray  # int32[n]
    start: np.ndarray  # int64[kinds], where each kind begins in `order`
    end: np.ndarray  # int32[kinds * width], how far each level of each kind reaches
    low: np.ndarray  # int64[kinds], the lowest level of each kind that is not empty
    speed: np.ndarray  # float64[kinds]
    width: int


def make_segments(level: np.ndarray, speeds: np.ndarray) -> Segments:
    """Return the index of servers with these levels, int[n], and speeds, float64[n]."""
    speed, kind = np.unique(speeds, return_inverse=True)
    level = np.minimum(np.asarray(level, np.int64), MOST_LEVELS - 1)
    order = np.lexsort((level, kind)).astype(np.int32)
    place = np.empty((level.size, 2), np.int32)
    place[order, 0] = np.arange(level.size)
    place[:, 1] = level
    start = np.concatenate(([0], np.cumsum(np.bincount(kind))))[:-1]
    width = MOST_LEVELS + 1
    end = np.empty((speed.size, width), np.int32)
    low = np.empty(speed.size, np.int64)
    for i in range(speed.size):
        mine = level[kind == i]
        end[i] = start[i] + np.cumsum(np.bincount(mine, minlength=width))
        low[i] = mine.min()
    return Segments(order, place, kind.astype(np.int32), start, end.ravel(), low, speed, width)


def quickest(segments, rng):
    """Return a server with the least (level + 1) / speed, uniform among all that tie."""
    best, tied, chosen = np.inf, 0, 0
    for kind in range(segments.speed.size):
        low = segments.low[U(kind)]
        delay = (low + 1) / segments.speed[U(kind)]
        if delay > best:
            continue
        start = segments.start[U(kind)]
        here = segments.end[U(kind * segments.width + low)] - start
        tied = here if delay < best else tied + here
        best = delay
        pick = below(rng, tied)  # of the kinds that tie, each with the weight of its servers
        if pick < here:
            chosen = segments.order[U(start + pick)]
    return chosen


def raise_segment(segments, server):
    """Move a server one level up."""
    set_segment(segments, server, segments.place[U(server), 1] + 1)


def set_segment(segments, server, level):
    """Move a server to a level, or to the nearest there is."""
    kind = segments.kind[U(server)]
    move_in(
        segments.order,
        segments.place,
        segments.end,
        segments.low,
        server,
        max(0, min(level, segments.width - 2)),
        kind,
        segments.start[U(kind)],
        kind * segments.width,
    )
