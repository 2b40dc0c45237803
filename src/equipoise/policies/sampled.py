"""Join the shortest of a set of servers that is drawn from any law on sets.

What jsq-d does with all sets of d servers, for sets that are given: racks, zones, a ring of
neighbours, or a new server that few tasks should look at. Nothing is remembered; each task asks
every server of its set, ties are uniform.

A law carries the load lam if lam times the probability that the set lies inside S is less than
what S can do, for every set S of servers (theory/stability).
Source: Hurtado-Lange and Maguluri (2021), Oper. Res. Lett. 49(4), section 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..rng import below
from .alias import Alias, draw_alias, make_alias
from .base import NO_PARAMS, REQUIRED, NoParams, Param, Policy, ask
from .law import law_sets, law_text
from .spec import PolicySpec, spec


class SampledState(NamedTuple):
    par: NoParams
    alias: Alias  # the law on sets
    first: np.ndarray  # int64[sets + 1], where the members of each set begin
    member: np.ndarray  # int64[members of all sets]


def init(bounds, speeds, announcement, law=""):
    sets = law_sets(law)
    n = len(bounds)
    # where servers have gone, the sets are what is left of them; an empty one asks anyone
    inside = [[s for s in members if s < n] or list(range(n)) for members in sets]
    first = np.concatenate(([0], np.cumsum([len(members) for members in inside])))
    member = np.concatenate(inside).astype(np.int64)
    alias = make_alias(np.array(list(sets.values())))
    return SampledState(NO_PARAMS, alias, first.astype(np.int64), member), 0


def choose(state, fleet, rng):
    drawn = draw_alias(state.alias, rng)
    first, last = state.first[np.uintp(drawn)], state.first[np.uintp(drawn + 1)]
    best = state.member[np.uintp(first)]
    shortest, tied = ask(fleet, best), 1
    for i in range(first + 1, last):
        server = state.member[np.uintp(i)]
        length = ask(fleet, server)
        if length < shortest:
            best, shortest, tied = server, length, 1
        elif length == shortest:
            tied += 1
            if below(rng, tied) == 0:
                best = server
    return best


def check(servers, law):
    top = max(max(members) for members in law_sets(law))
    if top >= servers:
        return f"the law names server {top}; there are {servers}, from 0 to {servers - 1}"
    return None


POLICY = Policy(
    "sampled",
    init,
    choose,
    about="the shortest of a set of servers drawn from a given law",
    source="Hurtado-Lange and Maguluri 2021, section 5",
    cost="2 messages per server asked",
    memory=0,
    params={
        "law": Param(
            REQUIRED,
            str,
            "sets of servers and their probabilities, as 0+1:0.7, 2:0.3",
            shown=True,
            reads=law_text,
        )
    },
    probes=True,
    check=check,
)


def Sampled(law: Any) -> PolicySpec:
    """Send to the shortest of a set drawn from `law`, e.g. `{(0, 1): 0.7, (2,): 0.3}`."""
    return spec(POLICY, law=law)
