"""Least work of d: ask d random servers how much work is left there, send to the least of them.

As jsq-d, but by the time a server still needs for the tasks it has, not by their number. That
needs task sizes, which nobody in front of real traffic knows: only kernels that know them run it.
It shows what knowing sizes would be worth. Ties are uniform.
Source: Harchol-Balter, Crovella, Murta (1999), JPDC 59(2), for least work; Hellemans, Bodas,
Van Houdt (2019), Performance analysis of workload dependent load balancing policies, POMACS 3(2).
"""

from __future__ import annotations

from ..rng import below
from .base import Policy, ask_work
from .probing import PARAMS, check, draw_server, init
from .spec import PolicySpec, spec


def choose(state, fleet, rng):
    best = draw_server(state.probing, fleet.size, rng, 0)
    least, tied = ask_work(fleet, best), 1
    for i in range(1, state.par.d):
        server = draw_server(state.probing, fleet.size, rng, i)
        work = ask_work(fleet, server)
        if work < least:
            best, least, tied = server, work, 1
        elif work == least and server != best:  # idle ones: a fair choice among them
            tied += 1
            if below(rng, tied) == 0:
                best = server
    return best


POLICY = Policy(
    "ll-d",
    init,
    choose,
    about="the least remaining work of d servers drawn at random",
    source="Hellemans, Bodas, Van Houdt 2019",
    cost="2d messages per task: d questions, d answers",
    memory=0,
    params=PARAMS,
    probes=True,
    needs=frozenset({"sizes"}),
    check=check,
)


def LlD(d: int = 2, replacement: bool = False, sampling: str = "uniform") -> PolicySpec:
    """Send to the least remaining work of `d` servers drawn at random."""
    return spec(POLICY, d=d, replacement=replacement, sampling=sampling)
