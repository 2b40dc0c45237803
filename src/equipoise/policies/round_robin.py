"""Round-robin: the servers in turn.

The dispatcher remembers whose turn it is; nobody tells it anything. Each server sees every
n-th task, so a queue is Erlang_n/M/1 under Poisson arrivals: mean wait sigma / (1 - sigma) with
sigma = (n lam / (n lam + 1 - sigma))^n, which tends to D/M/1 as n grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import NO_PARAMS, NoParams, Policy
from .spec import PolicySpec, spec


class RoundRobinState(NamedTuple):
    par: NoParams
    turn: np.ndarray  # int64[1], the server that is next


def init(bounds, speeds, announcement):
    return RoundRobinState(NO_PARAMS, np.zeros(1, np.int64)), 0


def choose(state, fleet, rng):
    server = state.turn[0]
    state.turn[0] = server + 1 if server + 1 < fleet.size else 0
    return server


POLICY = Policy(
    "round-robin",
    init,
    choose,
    about="the servers in turn",
    source="folklore; Erlang_n/M/1, which tends to D/M/1",
    cost="no messages",
    memory=0,
)


def RoundRobin() -> PolicySpec:
    """Send tasks to the servers in turn."""
    return spec(POLICY)
