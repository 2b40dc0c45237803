"""JSQ on sparse feedback: send to a server with the least estimate, and hear now and then.

The dispatcher keeps one estimate per server. It adds the tasks that it sends there; departures it
does not notice. At an update a server tells its length, and the estimate becomes that:

    a task comes         to a server with the least estimate, ties uniform; its estimate + 1
    a server updates     estimate <- length    (with idle_only: a server that is empty tells it,
                                                the others keep still and their estimates)

So an estimate is never below the length, with messages that take time too, since the driver adds
what was sent meanwhile. Choosing and hearing are those of jsq, which is told of every departure;
all members of the family differ in their clock alone:

    sujsq   synchronous: all servers together          det   regular, every 1/delta
    aujsq   asynchronous: each server on its own       exp   at exponential gaps of mean 1/delta

with time in mean service times. That is delta/lam messages per task, for lam tasks per server and
unit of time. With idle_only it is delta (1 - lam)/lam in a large fleet of queues, of which a
fraction 1 - lam is idle. Where the dispatcher has to ask (mode = push), delta/lam questions come
on top, whoever answers.
No one waits in the limit of many servers if delta >= lam/(1 - lam), and for aujsq-det already if
delta (1 - exp(-1/delta)) >= lam.
Source: van der Boor, Borst and van Leeuwaarden (2019), Hyper-scalable JSQ with sparse feedback,
POMACS 3(1), algorithm 1; asynchronous regular updates with exact threshold are derived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import Clock, Foresight, Param, Policy
from .jsq import choose, expect, foresee, hear
from .levels import Levels, make_levels
from .spec import PolicySpec, spec

SOURCE = "van der Boor, Borst and van Leeuwaarden 2019, algorithm 1"
DELTA = Param(1.0, float, "updates per server and mean service time", above=0, shown=True)
PARAMS = {
    "delta": DELTA,
    "idle_only": Param(False, bool, "only servers that are empty tell, the others keep still"),
    "mode": Param(
        "pull",
        str,
        "servers tell by their own clocks, or are asked, which is a message more",
        choices=("pull", "push"),
    ),
}


class EstimatesParams(NamedTuple):
    idle_only: bool


class EstimatesState(NamedTuple):
    par: EstimatesParams
    levels: Levels  # a server's level is its estimate


def init(bounds, speeds, announcement, delta=1.0, idle_only=False, mode="pull"):
    return EstimatesState(EstimatesParams(idle_only), make_levels(np.asarray(bounds))), 0


def tell_state(length, announcement, params, rng):
    if params.idle_only and length > 0:
        return 0
    return length + 1


def on_estimates(name: str, clock: Clock, about: str, source: str = SOURCE) -> Policy:
    """Return the member of the family that updates by this clock."""
    return Policy(
        name,
        init,
        choose,
        hear,
        tell_state=tell_state,
        about=f"a server with the least estimate; {about}",
        source=source,
        cost="delta/load messages per task (load: tasks per server and mean service time), about "
        "delta (1 - load)/load with idle_only; with mode=push delta/load questions on top",
        memory=32,
        params=PARAMS,
        clock=clock,
        foresight=Foresight(foresee, expect),
    )


def with_params(policy: Policy, delta: float, idle_only: bool, mode: str) -> PolicySpec:
    """Return a member of the family with its parameters, as its constructor does."""
    return spec(policy, delta=delta, idle_only=idle_only, mode=mode)
