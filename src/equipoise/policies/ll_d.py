"""Least work of d: ask d random servers how much work is left there, send to the least of them.

As jsq-d, but by the time a server still needs for the tasks it has, not by their number. That
needs task sizes, which nobody in front of real traffic knows: only kernels that know them run it.
It shows what knowing sizes would be worth. Ties are uniform.
Source: Harchol-Balter, Crovella, Murta (1999), JPDC 59(2), for least work; Hellemans, Bodas,
Van Houdt (2019), Performance analysis of workload dependent load balancing policies, POMACS 3(2).
"""

from __future__ import annotations

from typing import NamedTuple

from ..rng import below
from .base import Param, Policy, ask_work
from .probing import Probing, draw_server, make_probing
from .spec import PolicySpec, spec


class LlDParams(NamedTuple):
    d: int  # how many servers are asked


class LlDState(NamedTuple):
    par: LlDParams
    probing: Probing


def init(bounds, speeds, announcement, d=2, replacement=False, sampling="uniform"):
    probing = make_probing(speeds, d, replacement, sampling == "speed")
    return LlDState(LlDParams(probing.d), probing), 0


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


def check(servers, d, replacement, sampling):
    if d > servers and not replacement:
        return f"d = {d} is more than the {servers} servers there are; use d <= {servers}"
    return None


POLICY = Policy(
    "ll-d",
    init,
    choose,
    about="the least remaining work of d servers drawn at random",
    source="Hellemans, Bodas, Van Houdt 2019",
    cost="2d messages per task: d questions, d answers",
    memory=0,
    params={
        "d": Param(2, int, "servers asked per task", least=1, shown=True),
        "replacement": Param(False, bool, "whether one server may be drawn twice"),
        "sampling": Param("uniform", str, "how they are drawn", choices=("uniform", "speed")),
    },
    probes=True,
    needs=frozenset({"sizes"}),
    check=check,
)


def LlD(d: int = 2, replacement: bool = False, sampling: str = "uniform") -> PolicySpec:
    """Send to the least remaining work of `d` servers drawn at random."""
    return spec(POLICY, d=d, replacement=replacement, sampling=sampling)
