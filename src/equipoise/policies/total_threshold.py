"""The threshold that follows the number of tasks in the system.

With n servers, u = (tasks in the system)/n just before a task comes and h = l + step,

    l = step floor(u/step);    send below l if any, else below h if any, else anywhere,

uniformly among those servers. The dispatcher has to hear of every departure, so it knows all
lengths: it needs no tokens, and the servers need not know the threshold, which is never announced.
Servers are kept sorted by length (levels.py): those with fewer than l tasks stand first, and a
choice costs O(1). Under a load rho(t) of offered tasks per server that stays between two multiples
of `step`, l is the lower of them from a finite time on, in the limit of many servers.
One server at least has no more than u < h tasks, so "anywhere" is for when nothing is known. A
server whose length is not known counts neither among the tasks nor among the n until it speaks;
nor does one that has 65 535 tasks or more.
Source: Goldsztajn, Borst and van Leeuwaarden (2025), Learning and balancing unknown loads, Math.
Oper. Res. 50(2): the scheme that counts tasks; the exact rule is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .base import Foresight, Param, Policy
from .jsq import expect, tell_finish, tell_state
from .levels import Levels, U, make_levels, raise_one, set_level
from .spec import PolicySpec, spec


class TotalParams(NamedTuple):
    step: int


class TotalState(NamedTuple):
    par: TotalParams
    levels: Levels  # a server's level is its length, own sends counted
    known: np.ndarray  # int64[2]: the threshold of the last task; tasks at all servers


def init(bounds, speeds, announcement, step=1):
    levels = make_levels(np.asarray(bounds))
    tasks = np.array([tasks_at(levels, server) for server in range(len(bounds))], np.int64)
    state = TotalState(TotalParams(step), levels, np.array([0, tasks.sum()], np.int64))
    state.known[0] = threshold(state)
    return state, int(state.known[0])


def tasks_at(levels, server):
    """Return the length of a server, 0 if it stands on the last level: not known, or not told."""
    level = levels.place[U(server), 1]
    return np.int64(level if level < levels.end.size - 2 else 0)


def threshold(state):
    end, step = state.levels.end, state.par.step
    servers = max(np.int64(1), np.int64(end[U(end.size - 3)]))  # whose lengths are known
    return step * (state.known[1] // (servers * step))


def choose(state, fleet, rng):
    levels = state.levels
    low = threshold(state)
    state.known[0] = low
    candidates = np.int64(0)
    if low > 0:
        candidates = np.int64(levels.end[U(low - 1)])
    if candidates == 0:
        high = min(low + state.par.step, levels.end.size - 2)
        candidates = np.int64(levels.end[U(high - 1)])
    if candidates == 0:
        candidates = np.int64(levels.order.size)
    server = levels.order[U(below(rng, candidates))]
    state.known[1] -= tasks_at(levels, server)
    raise_one(levels, server)
    state.known[1] += tasks_at(levels, server)
    return server


def hear(state, server, bound):
    state.known[1] -= tasks_at(state.levels, server)
    set_level(state.levels, server, bound - 1)
    state.known[1] += tasks_at(state.levels, server)


def adapt(state):
    return state.known[0]


POLICY = Policy(
    "total-threshold",
    init,
    choose,
    hear,
    adapt,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="the threshold policy, its threshold being the tasks per server rounded down to a "
    "multiple of step",
    source="Goldsztajn, Borst and van Leeuwaarden 2025",
    cost="1 message per task: every departure is told",
    memory=32,
    foresight=Foresight(hear=expect),
    params={"step": Param(1, int, "the threshold is a multiple of it, and h = l + step", least=1)},
)


def TotalThreshold(step: int = 1) -> PolicySpec:
    """The threshold policy with a threshold from the number of tasks in the system."""
    return spec(POLICY, step=step)
