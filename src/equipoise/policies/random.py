"""Random: every task goes to a uniformly random server.

Nothing is remembered and nothing is told, so each of n queues is an M/M/1 queue of its own
(theory: mean wait lam / (1 - lam) service times), and each of n pools an M/M/infinity one.
"""

from __future__ import annotations

from ..rng import below
from .base import Policy
from .spec import PolicySpec, spec


def choose(state, fleet, rng):
    return below(rng, fleet.size)


POLICY = Policy(
    "random",
    choose=choose,
    about="a uniformly random server",
    source="folklore; the M/M/1 baseline",
    cost="no messages",
    memory=0,
)


def Random() -> PolicySpec:
    """Send every task to a uniformly random server."""
    return spec(POLICY)
