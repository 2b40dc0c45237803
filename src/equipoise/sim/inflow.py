"""What the memoryless kernels share: how tasks come, and updates by the clock.

Tasks come at a rate that may change, perhaps several at once.
A kernel draws candidates at a rate that is never exceeded on the piece of time it is in, and keeps
one with probability rate(t) / that: thinning (Lewis and Shedler 1979), exact, with no step of time.
The uniform number that chose an arrival among all events decides that too, so it costs no draw.

With batches the rates are those of batches. A batch is drawn when it comes; its tasks then come
one by one in no time, and `left` counts those still to come, so that a run can stop between two.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import hurry, outline
from ..policies.alias import NO_ALIAS, Alias, draw_alias, make_alias
from ..policies.base import Policy
from ..policies.dispatchers import steps_of
from ..policies.steps import UPDATE
from ..rng import exponential
from ..scenario import Batch, Flow
from .ticks import foresee_turn, turn, wind

U = np.uintp
START, BASE, SLOPE, AMPLITUDE, OMEGA, PHASE = range(6)


class Inflow(NamedTuple):
    """The rate on the piece of time being run, and the law of batches."""

    rate: np.ndarray  # float64[6], see the names above; time in the kernel's unit
    size: Alias  # over the places of `tasks`
    tasks: np.ndarray  # int64[k], how many come at once
    spread: float  # 1 / log(1 / (1 - p)) of a geometric batch of mean 1 / p, else 0
    left: np.ndarray  # int64[1], tasks of this batch still to come


def make_inflow(batch: Batch | None) -> Inflow:
    """Return an inflow that stands before its first piece."""
    size, tasks, spread = NO_ALIAS, np.zeros(0, np.int64), 0.0
    if batch is not None and batch.mean is not None:
        p = 1 / batch.mean
        spread = -1 / math.log1p(-p) if p < 1 else 0.0
    if batch is not None and spread == 0.0:
        tasks, chances = batch.table if batch.mean is None else (np.ones(1, np.int64), np.ones(1))
        size = make_alias(chances)
    return Inflow(np.zeros(6), size, tasks, spread, np.zeros(1, np.int64))


def rate_at(inflow, t):
    """Return the rate at time t, on the piece being run."""
    piece = inflow.rate
    rate = piece[BASE] + piece[SLOPE] * (t - piece[START])
    if piece[AMPLITUDE] > 0.0:
        rate += piece[AMPLITUDE] * math.sin(piece[OMEGA] * t + piece[PHASE])
    return rate


def draw_batch(inflow, rng):
    """Return how many tasks come at once."""
    if inflow.spread > 0.0:  # the whole part of an exponential is geometric
        return 1 + np.int64(exponential(rng) * inflow.spread)
    return inflow.tasks[U(draw_alias(inflow.size, rng))]


class Switches(NamedTuple):
    """What a scenario uses; the rest is not compiled in."""

    queue: bool = False  # tasks may wait
    limited: bool = False
    unequal: bool = False  # servers have speeds
    varying: bool = False  # the rate changes within a piece
    batched: bool = False
    several: bool = False  # dispatchers


@cache
def make_tick(policy: Policy, tracked: bool, several: bool = False) -> Any:
    """Return tick(world, ticks, at): the updates by the clock that are due at a time."""
    update = steps_of(policy, several, tracked).update
    assert policy.clock is not None
    expect = policy.foresight.hear
    together, regular = policy.clock.together, policy.clock.regular

    def look(world, ticks, size):
        soon = foresee_turn(ticks, regular, size)
        hurry(world.length, U(soon))
        expect(world.state, soon)

    def look_nowhere(world, ticks, size):
        """All tell at once, or to several memories."""

    look_ahead = look_nowhere if together or several else look

    @outline
    def sweep(world, ticks):
        """All servers tell their state."""
        for server in range(world.length.size):
            world.count[UPDATE] += ticks.asked
            update(world, server)

    def tick(world, ticks, at):
        size = world.length.size
        if together:
            sweep(world, ticks)
        else:
            world.count[UPDATE] += ticks.asked
            update(world, turn(ticks, together, regular, size))
        wind(ticks, at, together, regular, size)
        look_ahead(world, ticks, size)

    return tick


def no_tick(world, ticks, at):
    """The tick of a policy without a clock."""


class Pieces:
    """The pieces of a flow, one after the other, in the unit of a kernel."""

    def __init__(self, flow: Flow, unit: float, batch: Batch | None) -> None:
        """`unit` is in seconds; rates are those of batches."""
        scale = unit / (1.0 if batch is None else batch.expected)
        self.starts = flow.edges[:-1] / unit
        self.ends = flow.edges[1:] / unit
        self.most = flow.most * scale
        self.base, self.slope = flow.base * scale, flow.slope * scale * unit
        self.wave = (flow.amplitude * scale, flow.omega * unit, flow.phase)
        self.now = 0

    @property
    def over(self) -> bool:
        """Whether no more tasks come."""
        return self.now >= self.base.size

    def begin(self, inflow: Inflow) -> tuple[float, float]:
        """Put the piece that is being run into `inflow`; return its largest rate, and its end."""
        if self.over:
            return 0.0, np.inf
        i = self.now
        inflow.rate[:] = (self.starts[i], self.base[i], self.slope[i], *self.wave)
        return float(self.most[i]), float(self.ends[i])
