"""Whose turn it is to tell its state by the clock, one tick at a time, O(1) each.

With T the time between two updates of a server, 1/delta mean service times, and n servers:

    together, regular      all servers, ascending, at T, 2T, 3T, ...
    together, exponential  all servers, ascending, with gaps of Exp(T)
    own, regular           server k at kT/n + jT: tick i at iT/n is that of server i mod n, i >= 1
    own, exponential       each server at the points of its own Poisson stream: ticks with gaps of
                           Exp(T/n), each that of a uniformly random server

Regular ticks are products, not sums, so that the millionth is on time. At time 0 all is known and
nobody tells. A sweep of all servers costs O(n), once in T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..policies.base import Clock
from ..rng import ahead, below, exponential

ALL = -1  # the turn of every server


class Ticks(NamedTuple):
    """The clock of the updates."""

    next: np.ndarray  # float64[1], s; inf without a clock
    number: np.ndarray  # int64[1], of the next tick, from 1
    period: float  # s, T
    asked: int  # messages with which the dispatchers ask for each update
    rng: np.ndarray  # uint64[4]


def make_ticks(clock: Clock, period: float, asked: int, servers: int, rng: np.ndarray) -> Ticks:
    """Return a clock that stands at 0; `period` is the time between two updates of a server, s."""
    ticks = Ticks(np.zeros(1), np.zeros(1, np.int64), period, int(asked), rng)
    wind(ticks, 0.0, clock.together, clock.regular, servers)
    return ticks


def wind(ticks, now, together, regular, servers):
    """Set the time of the next tick, the one at `now` being done."""
    ticks.number[0] += 1
    share = 1 if together else servers
    if regular:
        ticks.next[0] = ticks.number[0] * ticks.period / share
    else:
        ticks.next[0] = now + exponential(ticks.rng) * (ticks.period / share)


def turn(ticks, together, regular, servers):
    """Return the server whose turn it is at the tick that has come, or ALL."""
    if together:
        return ALL
    if regular:
        return ticks.number[0] % servers
    return np.int64(below(ticks.rng, servers))


def foresee_turn(ticks, regular, servers):
    """Return the server whose turn it is at the next tick, of clocks that are not together."""
    if regular:
        return ticks.number[0] % servers
    return np.int64(ahead(ticks.rng)[0] * servers)
