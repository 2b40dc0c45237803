"""JSQ on stale lengths: the server that was shortest at the last update, whatever was sent since.

What a balancer does that polls its servers and believes the figures until the next poll. Updates
are those of sujsq-det, all servers together every 1/delta; the dispatcher does not count its own
sends, so that for a whole period every task goes to the few servers that were shortest: the herd.
What it believes falls below the lengths, on purpose: it is the baseline that shows what counting
one's own sends is worth (estimates.py). Two exceptions come from the driver, which adds own sends
to whatever is heard: a message that took time has those added that were sent meanwhile, and a
task that never reached its server has all of them counted there until the next update.
Source: Mitzenmacher (2000), How useful is old information?, IEEE TPDS 11(1), the model of periodic
updates with choice among all servers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import NO_PARAMS, Clock, Foresight, NoParams, Policy
from .estimates import DELTA
from .jsq import expect, foresee, hear, tell_state
from .levels import Levels, lowest, make_levels
from .spec import PolicySpec, spec


class StaleState(NamedTuple):
    par: NoParams
    levels: Levels  # a server's level is the length it told last


def init(bounds, speeds, announcement, delta=1.0):
    return StaleState(NO_PARAMS, make_levels(np.asarray(bounds))), 0


def choose(state, fleet, rng):
    return lowest(state.levels, rng)


POLICY = Policy(
    "stale-jsq",
    init,
    choose,
    hear,
    tell_state=tell_state,
    about="a server that was shortest when all told their lengths last, every 1/delta; own sends "
    "are not counted",
    source="Mitzenmacher 2000, periodic updates",
    cost="delta/load messages per task (load: tasks per server and mean service time)",
    memory=32,
    params={"delta": DELTA},
    clock=Clock(together=True, regular=True),
    foresight=Foresight(foresee, expect),
)


def StaleJsq(delta: float = 1.0) -> PolicySpec:
    """JSQ on lengths told every 1/delta mean service times, own sends not counted: it herds."""
    return spec(POLICY, delta=delta)
