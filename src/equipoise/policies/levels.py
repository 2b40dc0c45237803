"""Servers kept in order of what is known of them: draw from the lowest, move, all in O(1).

`Levels` holds every server in one array sorted by level, with the level beside the position:

    order   3 7 1 | 0 4 | 2 6 5          end of level 0, 1, 2: 3, 5, 8
    level     0      1      2

Raising a server swaps it with the last of its level and moves the boundary; so does lowering.
`Bands` is the same with two or three levels: the band follows from the position, which
saves the level's own store (8 bytes a server instead of 12), and all servers change band at
once by moving a boundary: how a new threshold takes hold in O(1).

Nearly every policy is one sentence on these: send to a uniformly random server of the lowest
non-empty level. Indices inside are unsigned (`U`): it saves the wrap-around of negative ones,
7 % of the whole loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import hurry, near
from ..rng import ahead, below

U = np.uintp
MOST_LEVELS = 65_536  # a server known to be longer counts as this long: order is lost only there


@near(low=1)
class Levels(NamedTuple):
    """All servers sorted by level. Levels run from 0 to `end.size - 2` and saturate there."""

    order: np.ndarray  # int32[n], servers, lowest level first
    # int32[n, 2], position and level of each server, side by side; int32[0, 2], half of the memory
    # less, where only the lowest are raised and drawn ones lowered: these come from `order`
    place: np.ndarray
    end: np.ndarray  # int32[levels + 1], end[i]: how many servers have a level <= i
    low: np.ndarray  # int64[1], the lowest level that is not empty


def make_levels(level: np.ndarray, most: int = MOST_LEVELS) -> Levels:
    """Return the index of servers with these levels, int[n], each >= 0."""
    # int32 from the start: at a million servers the temporary arrays are most of what init takes
    level = np.minimum(level, most - 1).astype(np.int32)
    order = np.argsort(level, kind="stable").astype(np.int32)
    place = np.empty((level.size, 2), np.int32)
    place[order, 0] = np.arange(level.size, dtype=np.int32)
    place[:, 1] = level
    end = np.cumsum(np.bincount(level, minlength=most + 1)).astype(np.int32)
    return Levels(order, place, end, np.array([level.min()], np.int64))


def lowest(levels, rng):
    """Return a uniformly random server of the lowest non-empty level."""
    return levels.order[U(below(rng, levels.end[U(levels.low[0])]))]


def raise_lowest(levels, rng):
    """Move a uniformly random server of the lowest non-empty level one level up.

    Return it and its level then. What is where is known: nothing that was written is read again.
    """
    order, place, end = levels.order, levels.place, levels.end
    level = levels.low[0]
    last = end[U(level)] - 1
    here = below(rng, last + 1)
    server = order[U(here)]
    if level >= end.size - 2:
        return server, level
    other = order[U(last)]
    order[U(here)] = other
    order[U(last)] = server
    if place.size > 0:
        place[U(other), 0] = here
        place[U(server), 0] = last
        place[U(server), 1] = level + 1
    end[U(level)] = last
    if last == 0:
        levels.low[0] = level + 1
    return server, level + 1


def lower_drawn(levels, target):
    """Move a server one level down that is drawn in proportion to its level.

    `target` is uniform on 0 .. the sum of all levels: servers are counted from the lowest level
    on, each as often as its level says. Costs a step per level that is not empty. Return the server
    and its level until then.
    """
    order, place, end, low = levels.order, levels.place, levels.end, levels.low[0]
    level, first, count = low, np.int64(0), np.int64(end[U(low)])
    while target >= level * count and first + count < order.size:
        target -= level * count
        first += count
        level += 1
        count = end[U(level)] - first
    here = first + min(int(target / max(level, 1)), count - 1)
    server, other = order[U(here)], order[U(first)]
    order[U(here)] = other
    order[U(first)] = server
    if place.size > 0:
        place[U(other), 0] = here
        place[U(server), 0] = first
        place[U(server), 1] = level - 1
    end[U(level - 1)] = first + 1
    if low >= level:
        levels.low[0] = level - 1
    return server, level


def foresee_lowest(levels, rng):
    """Return the server that `raise_lowest` will draw; ask for what this and the next one touch."""
    soon, later = ahead(rng)[:2]
    order, count = levels.order, levels.end[U(levels.low[0])]
    hurry(order, U(int(later * count)))
    server = order[U(int(soon * count))]
    hurry(levels.place, 2 * U(server))
    hurry(levels.place, 2 * U(order[U(count - 1)]))  # who will have to make room
    return server


def expect_move(levels, server):
    """Ask for where a server stands: it may have to move soon."""
    hurry(levels.place, 2 * U(server))


def raise_one(levels, server):
    """Move a server one level up."""
    set_level(levels, server, levels.place[U(server), 1] + 1)


def lower_one(levels, server):
    """Move a server one level down; it must be above level 0."""
    set_level(levels, server, levels.place[U(server), 1] - 1)


def set_level(levels, server, level):
    """Move a server to a level, or to the nearest there is."""
    to = max(0, min(level, levels.end.size - 2))
    move_in(levels.order, levels.place, levels.end, levels.low, server, to, 0, 0, 0)


def move_in(order, place, end, low, server, to, kind, start, base):
    """Move a server to level `to` among its kind, a swap for each level on the way.

    The kind stands in `order` from position `start` on and has its boundaries in `end` from `base`
    on; `low[kind]` is its lowest level that is not empty.
    """
    here, level = np.int64(place[U(server), 0]), np.int64(place[U(server), 1])
    if level > to:
        while level > to:
            level -= 1
            first = np.int64(end[U(base + level)])
            other = order[U(first)]
            order[U(here)] = other
            place[U(other), 0] = here
            order[U(first)] = server
            end[U(base + level)] = first + 1
            here = first
        low[U(kind)] = min(low[U(kind)], to)
    else:
        while level < to:
            last = np.int64(end[U(base + level)]) - 1
            other = order[U(last)]
            order[U(here)] = other
            place[U(other), 0] = here
            order[U(last)] = server
            end[U(base + level)] = last
            if last == start and low[U(kind)] == level:
                low[U(kind)] = level + 1
            here = last
            level += 1
    place[U(server), 0] = here
    place[U(server), 1] = to


def without_places(levels: Levels) -> Levels:
    """Return the same index, no longer fit for more than `raise_lowest` and `lower_drawn`."""
    return levels._replace(place=np.empty((0, 2), np.int32))


class Bands(NamedTuple):
    """All servers in two or three bands, band 0 first."""

    order: np.ndarray  # int32[n], servers, band 0 first
    position: np.ndarray  # int32[n], where each server stands in `order`
    end: np.ndarray  # int64[bands], end[b]: how many servers are in bands 0 .. b; the last is n
    size: int  # n


def make_bands(band: np.ndarray, bands: int) -> Bands:
    """Return the index of servers in these bands, int or bool[n], each below `bands`."""
    band = np.asarray(band, np.int64)
    order = np.argsort(band, kind="stable").astype(np.int32)
    position = np.empty(band.size, np.int32)
    position[order] = np.arange(band.size)
    end = np.cumsum(np.bincount(band, minlength=bands)).astype(np.int64)
    return Bands(order, position, end, band.size)


def band_at(bands, position):
    """Return the band of whoever stands at a position."""
    band = 0
    while position >= bands.end[U(band)]:
        band += 1
    return band


def demote(bands, position):
    """Move whoever stands at a position to the next band; return that server."""
    order, end = bands.order, bands.end
    band = band_at(bands, position)
    server = order[U(position)]
    last = end[U(band)] - 1
    other = order[U(last)]
    order[U(position)] = other
    bands.position[U(other)] = position
    order[U(last)] = server
    bands.position[U(server)] = last
    end[U(band)] = last
    return server


def promote(bands, server):
    """Move a server to the band before its own."""
    order, end = bands.order, bands.end
    here = bands.position[U(server)]
    before = band_at(bands, here) - 1
    first = end[U(before)]
    other = order[U(first)]
    order[U(here)] = other
    bands.position[U(other)] = here
    order[U(first)] = server
    bands.position[U(server)] = first
    end[U(before)] = first + 1


def foresee_token(bands, rng):
    """Return the server whose token `demote` will use up, or any; ask for what that will touch.

    A token is drawn from the first band that is not empty; the last band has none.
    """
    soon, later = ahead(rng)[:2]
    count = bands.end[0]
    if count == 0 and bands.end.size > 2:
        count = bands.end[1]
    if count == 0:
        return np.int32(int(soon * bands.size))
    hurry(bands.order, U(int(later * count)))
    server = bands.order[U(int(soon * count))]
    hurry(bands.position, U(server))
    hurry(bands.position, U(bands.order[U(count - 1)]))  # who will have to make room
    return server


def expect_band(bands, server):
    """Ask for where a server stands: it may have to move soon."""
    hurry(bands.position, U(server))


def set_band(bands, server, band):
    """Move a server to a band, a swap for each boundary on the way."""
    now = band_at(bands, bands.position[U(server)])
    while now > band:
        promote(bands, server)
        now -= 1
    while now < band:
        demote(bands, bands.position[U(server)])
        now += 1
