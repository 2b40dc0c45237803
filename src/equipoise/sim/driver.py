"""What the drivers of all kernels have in common: the world, the tally, seeds, and growing."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ..compile import NumbaError, first_reason
from ..errors import EquipoiseError, PolicyError
from ..policies.spec import PolicySpec
from ..policies.steps import World, make_world
from ..policies.user import out_of_range
from ..rng import make_rng
from ..scenario import Scenario
from . import tally as t
from .store import NEEDS_LEVELS, NO_SUCH_SERVER

MOST_LEVELS = 65_536  # the time at announced values beyond is not told apart
ARRIVALS_SEED, SERVICE_SEED, POLICY_SEED, SERVERS_SEED, START_SEED = range(5)


def seeds(seed: int, replication: int) -> list[np.random.SeedSequence]:
    """Return the streams of a replication: arrivals, service, policy, servers, start state."""
    return np.random.SeedSequence(seed, spawn_key=(replication,)).spawn(5)


class Driver:
    """Drives a kernel through a scenario, stretch by stretch."""

    unit = 1.0  # s in one unit of the kernel's time

    def __init__(
        self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int = 0
    ) -> None:
        self.scenario, self.spec = scenario, spec
        servers = scenario.servers
        self.queue = servers.discipline != "pool"
        self.workers = servers.at_once
        self.streams = seeds(scenario.run.seed, replication)
        self.lengths = scenario.start_lengths()
        self.seconds = 0.0
        limited = servers.limit is not None
        self.limited = limited
        self.speeds = None if servers.identical else servers.speed_of
        self.world: World = make_world(
            spec.policy,
            dict(spec.params),
            self.lengths,
            choice_rng=make_rng(self.streams[POLICY_SEED]),
            server_rng=make_rng(self.streams[SERVERS_SEED]),
            limit=servers.limit,
            tracked=limited or servers.discipline == "slotted",
            speeds=self.speeds,
            workers=self.workers,
        )
        announced = max(0, min(int(self.world.announcement[0]), MOST_LEVELS))
        tallest = max(int(self.lengths.max()), int(2 * scenario.offered_load()[2]), announced)
        levels = 64 + 2 * tallest
        self.tally = t.make_tally(self.lengths, levels, int(self.world.announcement[0]))

    def trail(self) -> np.ndarray:
        """The first events, if they were asked for and the kernel notes them (events.py)."""
        return np.zeros(0, np.int32)

    def arrived(self) -> int:
        """Tasks that have come so far, those of the start not counted."""
        return int(self.tally.number[t.ARRIVED])

    def call(self, *arguments: Any) -> int:
        """Run the kernel; turn what a user's policy raises into one line."""
        began = perf_counter()
        try:
            return int(self.kernel(self.world, self.tasks, self.tally, *arguments))
        except Exception as error:
            raise explained(self.spec, error) from error
        finally:
            self.seconds += perf_counter() - began

    def extra(self) -> np.ndarray:
        """Return sums that only this kernel keeps, and start them anew."""
        return np.zeros(0)

    def compile(self) -> None:
        """Compile the kernel, or find it on disk: a run to time 0 does nothing else."""
        self.run(0.0, 0)
        self.seconds = 0.0

    def grow(self, code: int) -> None:
        if code == NEEDS_LEVELS:
            self.tally = t.grown(self.tally, 2 * self.tally.least.size)
        elif code == NO_SUCH_SERVER:
            where = self.spec.written or self.spec.policy.name
            raise PolicyError(out_of_range(where, self.lengths.size))

    kernel: Any
    tasks: Any

    def run(self, until: float, most: int) -> None:
        """Go on to time `until`, s, or until `most` tasks have come."""
        raise NotImplementedError


def explained(spec: PolicySpec, error: Exception) -> Exception:
    """Return a user's mistake as one line; anything else as it is."""
    own = spec.policy.choose.__module__.partition(".")[0] == "equipoise"
    if own or isinstance(error, EquipoiseError):
        return error
    where = spec.written or spec.policy.name
    if isinstance(error, NumbaError):
        return PolicyError(f"{where} does not compile: {first_reason(error)}")
    said = " ".join(str(error).split())
    return PolicyError(f"{where} raised {type(error).__name__}{said and ': ' + said}")
