"""Random: every task goes to a uniformly random server, or to one in proportion to its speed.

Nothing is remembered and nothing is told, so each of n queues is an M/M/1 queue of its own
(theory: mean wait lam / (1 - lam) service times), and each of n pools an M/M/infinity one. Uniform
sending carries only n times what the slowest server does; weighted by speed it carries everything.
"""

from __future__ import annotations

from typing import NamedTuple

from ..rng import below
from .alias import NO_ALIAS, Alias, draw_alias, make_alias
from .base import Param, Policy, Ranked
from .spec import PolicySpec, spec


class RandomParams(NamedTuple):
    weighted: bool


class RandomState(NamedTuple):
    par: RandomParams
    alias: Alias  # the law in proportion to speed, empty where sending is uniform


def init(bounds, speeds, announcement, weighted=False):
    alias = make_alias(speeds) if weighted else NO_ALIAS
    return RandomState(RandomParams(weighted), alias), 0


def choose(state, fleet, rng):
    if state.par.weighted:
        return draw_alias(state.alias, rng)
    return below(rng, fleet.size)


def init_ranked(size, weighted=False):
    return RandomState(RandomParams(weighted), NO_ALIAS), 0


def choose_rank(state, ranks, rng):
    return below(rng, ranks.size)  # in proportion to speed too: exchangeable servers are alike


def tail(state, share, size):
    return share


POLICY = Policy(
    "random",
    init,
    choose,
    about="a random server, uniform or in proportion to speed",
    source="folklore; the M/M/1 baseline",
    cost="no messages",
    memory=0,
    params={"weighted": Param(False, bool, "whether in proportion to speed")},
    ranked=Ranked(choose_rank, init_ranked, tail=tail),
)


def Random(weighted: bool = False) -> PolicySpec:
    """Send every task to a random server, uniform or in proportion to speed."""
    return spec(POLICY, weighted=weighted)
