"""Shortest expected delay: send to a server with the least (length + 1) / speed.

What JSQ does on equal servers, for unequal ones: the dispatcher keeps every length as under jsq
and knows the speeds. Servers are kept by speed and length (segments.py) where there are at most
16 speeds, a choice then costs O(speeds); else in a tournament tree (tree.py), O(log n).
Ties are uniform. It looks at this task alone: sending to a faster server later is not weighed.
Source: Banawan and Zahorjan (1989), INFOCOM; Selen, Adan, Kapodistria (2016), EJOR 249(2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import NO_PARAMS, NoParams, Policy
from .segments import Segments, make_segments, quickest, raise_segment, set_segment
from .spec import PolicySpec, spec
from .tree import Tree, least, make_tree, set_key

FEW_SPEEDS = 16


class SedState(NamedTuple):
    par: NoParams
    few: bool  # whether `segments` are used; else `tree`, `length` and `speed`
    segments: Segments
    tree: Tree
    length: np.ndarray  # int64[n], own sends counted
    speed: np.ndarray  # float64[n]


def init(bounds, speeds, announcement):
    bounds, speeds = np.asarray(bounds, np.int64), np.array(speeds, float)
    few = np.unique(speeds).size <= FEW_SPEEDS
    one = np.zeros(1, np.int64)
    segments = make_segments(bounds, speeds) if few else make_segments(one, np.ones(1))
    tree = make_tree(np.ones(1) if few else (bounds + 1) / speeds)
    return SedState(NO_PARAMS, few, segments, tree, bounds.copy(), speeds), 0


def choose(state, fleet, rng):
    if state.few:
        server = np.int64(quickest(state.segments, rng))
        raise_segment(state.segments, server)
    else:
        server = np.int64(least(state.tree, rng))
        set_length(state, server, state.length[server] + 1)
    return server


def set_length(state, server, length):
    state.length[server] = length
    set_key(state.tree, server, (length + 1) / state.speed[server])


def hear(state, server, bound):
    if state.few:
        set_segment(state.segments, server, bound - 1)
    else:
        set_length(state, server, bound - 1)


def tell_finish(length, announcement, params, rng):
    return length + 1


def tell_state(length, announcement, params, rng):
    return length + 1


POLICY = Policy(
    "sed",
    init,
    choose,
    hear,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="a server with the shortest expected delay, (length + 1) / speed",
    source="Banawan and Zahorjan 1989",
    cost="1 message per task: every departure is told",
    memory=32,
    needs=frozenset({"speeds"}),
)


def Sed() -> PolicySpec:
    """Send every task to a server with the least (length + 1) / speed."""
    return spec(POLICY)
