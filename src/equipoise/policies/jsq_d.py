"""Power of d choices: ask d random servers for their lengths, send to the shortest of them.

Nothing is remembered; each task costs d questions and d answers. The d servers are distinct
unless `replacement = true` (what the published mean-field tables use: at n = 10, load 0.9, d = 2
the mean is 2.80 tasks per server with and 2.68 without). The servers come in random order, so
the first of the shortest is a uniform choice among ties.
Limit: theory/limits/jsq_d.py.
Source: Vvedenskaya, Dobrushin, Karpelevich (1996); Mitzenmacher (2001), IEEE TPDS 12(10).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below
from .base import Param, Policy, ask
from .spec import PolicySpec, spec


class JsqDParams(NamedTuple):
    d: int  # how many servers are asked
    replacement: bool


class JsqDState(NamedTuple):
    par: JsqDParams
    drawn: np.ndarray  # int64[n or d], the servers asked so far; all servers where d is large


def init(bounds, speeds, announcement, d=2, replacement=False):
    n = len(bounds)
    if not replacement:
        d = min(d, n)
    # beyond half of the fleet redraws would pile up: shuffle instead
    size = 0 if replacement else n if 2 * d > n else d
    return JsqDState(JsqDParams(d, replacement), np.arange(size, dtype=np.int64)), 0


def draw(state, fleet, rng, i):
    """Return the i-th server to ask, i = 0 .. d - 1; distinct from those before if it must be."""
    drawn = state.drawn
    if state.par.replacement:
        return below(rng, fleet.size)
    if 2 * state.par.d > fleet.size:
        j = i + below(rng, fleet.size - i)
        server = drawn[np.uintp(j)]
        drawn[np.uintp(j)] = drawn[np.uintp(i)]
        drawn[np.uintp(i)] = server
        return server
    while True:
        server = below(rng, fleet.size)
        fresh = True
        for j in range(i):
            if drawn[np.uintp(j)] == server:
                fresh = False
        if fresh:
            drawn[np.uintp(i)] = server
            return server


def choose(state, fleet, rng):
    best = draw(state, fleet, rng, 0)
    shortest = ask(fleet, best)
    for i in range(1, state.par.d):
        server = draw(state, fleet, rng, i)
        length = ask(fleet, server)
        if length < shortest:
            best, shortest = server, length
    return best


def check(servers, d, replacement):
    if d > servers and not replacement:
        return f"d = {d} is more than the {servers} servers there are; use d <= {servers}"
    return None


POLICY = Policy(
    "jsq-d",
    init,
    choose,
    about="the shortest of d servers drawn at random",
    source="Vvedenskaya et al. 1996; Mitzenmacher 2001",
    cost="2d messages per task: d questions, d answers",
    memory=0,
    params={
        "d": Param(2, int, "servers asked per task", least=1, shown=True),
        "replacement": Param(False, bool, "whether one server may be drawn twice"),
    },
    probes=True,
    check=check,
)


def JsqD(d: int = 2, replacement: bool = False) -> PolicySpec:
    """Send to the shortest of `d` servers drawn at random, distinct unless `replacement`."""
    return spec(POLICY, d=d, replacement=replacement)
