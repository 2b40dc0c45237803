"""Power of d choices: ask d random servers for their lengths, send to the shortest of them.

Nothing is remembered; each task costs d questions and d answers. The d servers are distinct
unless `replacement = true` (what the published mean-field tables use: at n = 10, load 0.9, d = 2
the mean is 2.80 tasks per server with and 2.68 without). Ties are uniform among the servers asked.

On unequal servers uniform sampling can lose capacity: the j slowest servers alone are asked by a
fraction C(j, d) / C(n, d) of the tasks, whatever they can do (theory/stability). With
`sampling = "speed"` servers are drawn in proportion to speed, one after the other, and nothing
is lost at any d.
Limit: theory/limits/jsq_d.py.
Source: Vvedenskaya, Dobrushin, Karpelevich (1996); Mitzenmacher (2001), IEEE TPDS 12(10); for
unequal servers Hurtado-Lange and Maguluri (2021), Oper. Res. Lett. 49(4).
"""

from __future__ import annotations

import numpy as np

from ..compile import hurry
from ..rng import ahead, below
from .base import Foresight, Policy, Ranked, ask
from .probing import (
    PARAMS,
    ProbingParams,
    ProbingState,
    check,
    draw_server,
    init,
    probing_alike,
)
from .spec import PolicySpec, spec

U = np.uintp


def choose(state, fleet, rng):
    if state.par.d == 2 and not (state.probing.by_speed or state.probing.shuffle):
        return shorter_of_two(state, fleet, rng)
    best = draw_server(state.probing, fleet.size, rng, 0)
    shortest, tied = ask(fleet, best), 1
    for i in range(1, state.par.d):
        server = draw_server(state.probing, fleet.size, rng, i)
        length = ask(fleet, server)
        if length < shortest:
            best, shortest, tied = server, length, 1
        elif state.probing.by_speed and length == shortest and server != best:
            # uniform draws come in random order, so the first of the shortest is a fair choice;
            # the first drawn by speed is likely to be fast, so here ties need a coin
            tied += 1
            if below(rng, tied) == 0:
                best = server
    return best


def init_ranked(size, d=2, replacement=False, sampling="uniform"):
    probing = probing_alike(size, d, replacement)
    return ProbingState(ProbingParams(probing.d), probing), 0


def choose_rank(state, ranks, rng):
    """The shortest of the servers drawn has the largest rank."""
    ranks.asked[0] += 2 * state.par.d
    last = draw_server(state.probing, ranks.size, rng, 0)
    for i in range(1, state.par.d):
        last = max(last, draw_server(state.probing, ranks.size, rng, i))
    return last


def tail(state, share, size):
    """All d servers drawn are among those."""
    probability = share
    for i in range(1, state.par.d):
        if state.probing.replacement:
            probability *= share
        else:
            probability *= max(0.0, share * size - i) / (size - i)
    return probability


def shorter_of_two(state, fleet, rng):
    """The same for two servers drawn uniformly, without a list of those drawn."""
    one, two = below(rng, fleet.size), below(rng, fleet.size)
    while two == one and not state.probing.replacement:
        two = below(rng, fleet.size)
    return two if ask(fleet, two) < ask(fleet, one) else one


def foresee(state, fleet, rng):
    """Of the task after the next, for two drawn uniformly; ask for the lengths of one further."""
    if state.par.d != 2 or state.probing.by_speed or state.probing.shuffle:
        return 0
    length, size = fleet.length, fleet.size
    _, _, one, two, third, fourth = ahead(rng)
    hurry(length, U(int(third * size)))
    hurry(length, U(int(fourth * size)))
    a, b = int(one * size), int(two * size)
    return a + (b - a) * int(length[U(b)] < length[U(a)])  # no branch: it would be a coin


POLICY = Policy(
    "jsq-d",
    init,
    choose,
    about="the shortest of d servers drawn at random",
    source="Vvedenskaya et al. 1996; Mitzenmacher 2001",
    cost="2d messages per task: d questions, d answers",
    memory=0,
    params=PARAMS,
    probes=True,
    check=check,
    foresight=Foresight(foresee),
    ranked=Ranked(choose_rank, init_ranked, tail=tail),
)


def JsqD(d: int = 2, replacement: bool = False, sampling: str = "uniform") -> PolicySpec:
    """Send to the shortest of `d` servers drawn at random, uniformly or in proportion to speed."""
    return spec(POLICY, d=d, replacement=replacement, sampling=sampling)
