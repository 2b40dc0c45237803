"""Join below the threshold: send to a server known to have fewer than r tasks, else anywhere.

A server says "fewer than r" when a departure takes it to r - 1, and again after a task has come
if it still has fewer; the dispatcher keeps one bit per server and uses it up. At most two
messages per task. r = 1 chooses as JIQ does.
Source: Zhou, Wu, Tan, Sun, Shroff (2017), Designing low-complexity heavy-traffic delay-optimal
load balancing schemes, POMACS 1(2), with the threshold fixed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .base import Foresight, OnlyParams, Param, Policy, Ranked, at_least
from .levels import Bands, demote, make_bands, set_band
from .spec import PolicySpec, spec
from .threshold import expect, foresee


class JbtParams(NamedTuple):
    r: int


class JbtState(NamedTuple):
    par: JbtParams
    bands: Bands  # band 0: known to have fewer than r tasks; band 1: the rest


def init(bounds, speeds, announcement, r=2):
    return JbtState(JbtParams(r), make_bands(np.asarray(bounds) >= r, 2)), 0


def choose(state, fleet, rng):
    known = state.bands.end[0]
    if known > 0:
        return demote(state.bands, below(rng, known))  # it says so again if it still is below
    return np.int32(below(rng, fleet.size))


def hear(state, server, bound):
    set_band(state.bands, server, 0 if bound <= state.par.r else 1)


def tell_start(length, announcement, params, rng):
    return params.r if length < params.r else 0


def tell_finish(length, announcement, params, rng):
    return params.r if length == params.r - 1 else 0


def tell_state(length, announcement, params, rng):
    return params.r if length < params.r else 0


def init_ranked(size, r=2):
    return OnlyParams(JbtParams(r)), 0


def choose_rank(state, ranks, rng):
    longer = at_least(ranks, state.par.r)
    if longer == ranks.size:
        longer = 0
    return longer + below(rng, ranks.size - longer)


POLICY = Policy(
    "jbt",
    init,
    choose,
    hear,
    tell_start=tell_start,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="a server known to have fewer than r tasks, else a random one",
    source="Zhou et al. 2017, with a fixed threshold",
    cost="at most 2 messages per task: below r after a start, r - 1 after a finish",
    memory=1,
    params={"r": Param(2, int, "the threshold: below it a server is open", least=1, shown=True)},
    foresight=Foresight(foresee, expect),
    ranked=Ranked(choose_rank, init_ranked),
)


def Jbt(r: int = 2) -> PolicySpec:
    """Send to a server known to have fewer than `r` tasks, else to a uniformly random one."""
    return spec(POLICY, r=r)
