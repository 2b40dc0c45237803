"""Round-robin: the servers in turn, or each as often as its speed says.

The dispatcher remembers whose turn it is; nobody tells it anything. Each server sees every
n-th task, so a queue is Erlang_n/M/1 under Poisson arrivals: mean wait sigma / (1 - sigma) with
sigma = (n lam / (n lam + 1 - sigma))^n, which tends to D/M/1 as n grows.

Weighted, the k-th turn of a server of speed s is due at (k - 1/2) / s and turns are taken in the
order they are due (stride scheduling), so that a fast server's turns are spread evenly.
Source of the weights: Waldspurger and Weihl (1995), Stride Scheduling, MIT TM-528.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import Param, Policy
from .heap import replace_first
from .spec import PolicySpec, spec


class RoundRobinParams(NamedTuple):
    weighted: bool


class RoundRobinState(NamedTuple):
    par: RoundRobinParams
    turn: np.ndarray  # int64[1], the server that is next; unweighted
    due: np.ndarray  # float64[n], a heap of when turns are due; weighted
    whose: np.ndarray  # int32[n], whose turn that is
    pace: np.ndarray  # float64[n], from one turn of a server to its next


def init(bounds, speeds, announcement, weighted=False):
    pace = 1.0 / np.asarray(speeds, float) if weighted else np.zeros(0)
    whose = np.argsort(pace, kind="stable").astype(np.int32)  # sorted times are a heap
    turn = np.zeros(1, np.int64)
    return RoundRobinState(RoundRobinParams(weighted), turn, pace[whose] / 2, whose, pace), 0


def choose(state, fleet, rng):
    if state.par.weighted:
        server = np.int64(state.whose[0])
        due = state.due[0] + state.pace[np.uintp(server)]
        replace_first(state.due, state.whose, fleet.size, due, server)
        return server
    server = state.turn[0]
    state.turn[0] = server + 1 if server + 1 < fleet.size else 0
    return server


POLICY = Policy(
    "round-robin",
    init,
    choose,
    about="the servers in turn, equally often or as their speed says",
    source="folklore; Erlang_n/M/1, which tends to D/M/1",
    cost="no messages",
    memory=0,
    params={"weighted": Param(False, bool, "whether as often as its speed says")},
)


def RoundRobin(weighted: bool = False) -> PolicySpec:
    """Send tasks to the servers in turn, equally often or as their speed says."""
    return spec(POLICY, weighted=weighted)
