"""The threshold policy: fill every server to l tasks, then to h = l + step, then anywhere.

The dispatcher keeps two tokens per server: green says "fewer than l tasks", yellow "fewer than
h", so green implies yellow. A task goes to a uniformly random green server, else to a yellow one,
else to any, and the token it used is discarded (a server picked by its green token keeps its
yellow one). A server tells

    after a start    green if it still has fewer than l, yellow if l < length < h, strictly;
    after a finish   green when it falls to l - 1, yellow when it falls to h - 1.

Invariant: green tokens = servers with fewer than l tasks, yellow = with fewer than h. At most 2
messages per task, exactly 1 on average for pools whose load is at most h.
Source: Goldsztajn, Borst, van Leeuwaarden, Mukherjee, Whiting, Self-Learning Threshold-Based Load
Balancing, INFORMS J. Computing 34(1), 2022, section 2; steps beyond 1: Goldsztajn, Borst,
van Leeuwaarden, Learning and Balancing Unknown Loads, Math. Oper. Res. 50(2), 2025.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .base import REQUIRED, Foresight, OnlyParams, Param, Policy, Ranked, at_least
from .levels import Bands, demote, expect_band, foresee_token, make_bands, set_band
from .spec import PolicySpec, spec


class ThresholdParams(NamedTuple):
    level: int
    step: int


class ThresholdState(NamedTuple):
    par: ThresholdParams
    bands: Bands  # band 0: green, fewer than l tasks; band 1: yellow only, fewer than h; band 2


def color(bounds, level, step):
    """Return the bands of servers that have at most bounds[s] tasks."""
    bounds = np.asarray(bounds)
    return make_bands((bounds >= level).astype(np.int64) + (bounds >= level + step), 3)


def init(bounds, speeds, announcement, level=1, step=1):
    return ThresholdState(ThresholdParams(level, step), color(bounds, level, step)), level


def take_token(bands, rng):
    """Use up a token, green before yellow; return its server, or any server if there is none."""
    green = bands.end[0]
    if green > 0:
        return demote(bands, below(rng, green))
    yellow = bands.end[1]
    if yellow > 0:
        return demote(bands, below(rng, yellow))
    return np.int32(below(rng, bands.size))


def choose(state, fleet, rng):
    return take_token(state.bands, rng)


def keep_token(bands, server, bound, level, step):
    """Book a server's promise of fewer than `bound` tasks."""
    if bound <= level:
        set_band(bands, server, 0)
    elif bound <= level + step:
        set_band(bands, server, 1)
    else:
        set_band(bands, server, 2)


def hear(state, server, bound):
    keep_token(state.bands, server, bound, state.par.level, state.par.step)


def tell_start(length, announcement, params, rng):
    level, high = announcement, announcement + params.step
    if length < level:
        return level
    # strictly: a server that reached l through its green token still has its yellow one
    return high if level < length < high else 0


def tell_finish(length, announcement, params, rng):
    level, high = announcement, announcement + params.step
    if length == level - 1:
        return level
    return high if length == high - 1 else 0


def tell_state(length, announcement, params, rng):
    level, high = announcement, announcement + params.step
    if length < level:
        return level
    return high if length < high else 0


def foresee(state, fleet, rng):
    return foresee_token(state.bands, rng)


def expect(state, server):
    expect_band(state.bands, server)


def init_ranked(size, level=1, step=1):
    return OnlyParams(ThresholdParams(level, step)), level


def rank_of_token(ranks, level, step, rng):
    """Return a uniformly random rank among servers below `level`, else below h, else of all."""
    longer = at_least(ranks, level)
    if longer == ranks.size:
        longer = at_least(ranks, level + step)
        if longer == ranks.size:
            longer = 0
    return longer + below(rng, ranks.size - longer)


def choose_rank(state, ranks, rng):
    return rank_of_token(ranks, state.par.level, state.par.step, rng)


POLICY = Policy(
    "threshold",
    init,
    choose,
    hear,
    tell_start=tell_start,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="a server with fewer than level tasks, else fewer than level + step, else any",
    source="Goldsztajn et al. 2022, section 2",
    cost="at most 2 messages per task; 1 on average on pools loaded up to level + step",
    memory=2,
    params={
        "level": Param(REQUIRED, int, "the threshold l; best near the load", least=0, shown=True),
        "step": Param(1, int, "from the threshold to the higher one, h = l + step", least=1),
    },
    foresight=Foresight(foresee, expect),
    ranked=Ranked(choose_rank, init_ranked),
)


def Threshold(level: int, step: int = 1) -> PolicySpec:
    """Fill every server to `level` tasks, then to `level + step`, then send anywhere."""
    return spec(POLICY, level=level, step=step)
