"""Whose turn it is to tell its state by the clock, for policies that have one, in real time.

The times are those of the simulator (`equipoise.sim.ticks`), with T the time between two updates of
a server and n those that are up:

    together   all servers, every T, or with gaps of Exp(T)
    own        each server every T, one every T/n; or a random one with gaps of Exp(T/n)

Time comes from outside. If it was not looked at for long, what was missed is made up for once, not
once for each update that was missed.
"""

from __future__ import annotations

import numpy as np

from ..policies.base import Clock
from ..rng import below, exponential, make_rng

ALL = -1  # the turn of every server


class Updates:
    """The clock of a policy's updates; it stands at `now` when it is made."""

    def __init__(
        self, clock: Clock, period: float, now: float, seed: np.random.SeedSequence | int = 0
    ) -> None:
        """`period` is T, s."""
        self.clock, self.period = clock, period
        self._rng = make_rng(seed)
        self._turn = 0
        self.next = now + self._gap(1)

    def due(self, now: float, servers: int) -> list[int]:
        """Return whose turns have come by `now`, of `servers` that are up: indices, or ALL."""
        turns: list[int] = []
        most = 1 if self.clock.together else servers
        while self.next <= now:
            if servers and len(turns) < most:
                turns.append(self._whose(servers))
            elif self.next < now - self.period:  # slept through: begin anew
                self.next = now
            self.next += self._gap(servers)
        return turns

    def _whose(self, servers: int) -> int:
        if self.clock.together:
            return ALL
        if self.clock.regular:
            self._turn = (self._turn + 1) % servers
            return self._turn
        return int(below(self._rng, servers))

    def _gap(self, servers: int) -> float:
        mean = self.period if self.clock.together else self.period / max(1, servers)
        return mean if self.clock.regular else float(exponential(self._rng)) * mean
