"""Join the shortest queue: send to a server with the fewest tasks, ties uniformly at random.

The dispatcher keeps every length: it adds the tasks it sends, and a server says when one has
left ("I have fewer than length + 1"), one message per task. Servers are kept sorted by length
(levels.py), so a choice costs O(1) at any n.
Source: Winston (1977); Weber (1978).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import NO_PARAMS, Foresight, Knows, NoParams, Policy, Ranked
from .levels import (
    Levels,
    expect_move,
    foresee_lowest,
    lower_drawn,
    make_levels,
    raise_lowest,
    set_level,
    without_places,
)
from .spec import PolicySpec, spec


class JsqState(NamedTuple):
    par: NoParams
    levels: Levels  # a server's level is its length, own sends counted


def init(bounds, speeds, announcement):
    return JsqState(NO_PARAMS, make_levels(np.asarray(bounds))), 0


def choose(state, fleet, rng):
    return raise_lowest(state.levels, rng)[0]


def join(state, fleet, rng):
    return raise_lowest(state.levels, rng)


def hear(state, server, bound):
    set_level(state.levels, server, bound - 1)


def leave(state, target):
    return lower_drawn(state.levels, target)


def lean(state):
    return state._replace(levels=without_places(state.levels))


def tell_finish(length, announcement, params, rng):
    return length + 1


def tell_state(length, announcement, params, rng):
    return length + 1


def foresee(state, fleet, rng):
    return foresee_lowest(state.levels, rng)


def expect(state, server):
    expect_move(state.levels, server)


def choose_rank(state, ranks, rng):
    return ranks.size - 1


POLICY = Policy(
    "jsq",
    init,
    choose,
    hear,
    tell_finish=tell_finish,
    tell_state=tell_state,
    knows=Knows(join, leave, lean),
    about="a server with the fewest tasks",
    source="Winston 1977; Weber 1978",
    cost="1 message per task: every departure is told",
    memory=32,
    foresight=Foresight(foresee, expect),
    ranked=Ranked(choose_rank),
)


def Jsq() -> PolicySpec:
    """Send every task to a server with the fewest tasks."""
    return spec(POLICY)
