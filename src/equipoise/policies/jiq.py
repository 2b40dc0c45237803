"""Join the idle queue: send to an idle server if one is known, else anywhere.

A server that runs empty says so, once; the dispatcher keeps one bit per server and uses it up.
At most one message per task, 1 - O(1/sqrt(n)) of one at any load.
Source: Badonnel and Burgess (2008); Lu et al. (2011), Join-Idle-Queue, Perf. Eval. 68(11).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .base import NO_PARAMS, Foresight, NoParams, Policy, Ranked, below_level
from .levels import Bands, demote, make_bands, set_band
from .spec import PolicySpec, spec
from .threshold import expect, foresee


class JiqState(NamedTuple):
    par: NoParams
    bands: Bands  # band 0: known idle; band 1: the rest


def init(bounds, speeds, announcement):
    return JiqState(NO_PARAMS, make_bands(np.asarray(bounds) >= 1, 2)), 0


def choose(state, fleet, rng):
    idle = state.bands.end[0]
    if idle > 0:
        return demote(state.bands, below(rng, idle))  # the token is used up
    return np.int32(below(rng, fleet.size))


def hear(state, server, bound):
    set_band(state.bands, server, 0 if bound <= 1 else 1)


def tell_finish(length, announcement, params, rng):
    return 1 if length == 0 else 0  # "I have fewer than 1 task"


def tell_state(length, announcement, params, rng):
    return 1 if length == 0 else 0


def choose_rank(state, ranks, rng):
    if below_level(ranks, 1) > 0:
        return ranks.size - 1  # idle ones are alike
    return below(rng, ranks.size)


POLICY = Policy(
    "jiq",
    init,
    choose,
    hear,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="an idle server if one is known, else a random one",
    source="Badonnel and Burgess 2008; Lu et al. 2011",
    cost="at most 1 message per task: a server says when it runs empty",
    memory=1,
    foresight=Foresight(foresee, expect),
    ranked=Ranked(choose_rank),
)


def Jiq() -> PolicySpec:
    """Send to a server known to be idle, else to a uniformly random one."""
    return spec(POLICY)
