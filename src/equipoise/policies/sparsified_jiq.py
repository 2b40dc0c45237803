"""JIQ with fewer messages: a server that runs empty says so with probability p.

Choosing and hearing are those of jiq: a server that is known to be idle, else a random one. A bit
that is set is true; one that is clear says nothing, for an idle server may have kept still. p = 1
is jiq, p = 0 is random once the servers that were idle at the start are taken. With many servers
at load lam, b = (1 - p) lam/(1 - p lam):

    P(i tasks at a server) = lam (1 - b) b^(i-1), i >= 1,    mean wait (1 - p) lam/(1 - lam),
    messages per task p (1 - lam)/(1 - p lam).

Source: the sparsified version of JIQ that van der Boor et al. (2019) compare with. The law above is
derived; whether they thin out the messages in just this way is not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import uniform
from .base import Param, Policy
from .jiq import choose, hear, tell_state
from .levels import Bands, make_bands
from .spec import PolicySpec, spec


class SparsifiedParams(NamedTuple):
    p: float


class SparsifiedState(NamedTuple):
    par: SparsifiedParams
    bands: Bands  # band 0: known idle; band 1: the rest


def init(bounds, speeds, announcement, p=0.5):
    return SparsifiedState(SparsifiedParams(p), make_bands(np.asarray(bounds) >= 1, 2)), 0


def tell_finish(length, announcement, params, rng):
    return 1 if length == 0 and uniform(rng) < params.p else 0


POLICY = Policy(
    "sparsified-jiq",
    init,
    choose,
    hear,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="an idle server if one is known, else a random one; a server that runs empty says so "
    "with probability p",
    source="van der Boor, Borst and van Leeuwaarden 2019, as a baseline",
    cost="at most p messages per task on average; p (1 - load)/(1 - p load) in large fleets of "
    "queues",
    memory=1,
    params={
        "p": Param(
            0.5, float, "how often a server that runs empty says so", least=0, most=1, shown=True
        )
    },
)


def SparsifiedJiq(p: float = 0.5) -> PolicySpec:
    """Jiq where a server that runs empty says so with probability `p`, 0 <= p <= 1."""
    return spec(POLICY, p=p)
