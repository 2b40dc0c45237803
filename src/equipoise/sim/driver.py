"""What the drivers of all kernels have in common: the world, the tally, seeds, and growing."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ..compile import NumbaError, first_reason
from ..errors import EquipoiseError, PolicyError
from ..policies.dispatchers import Several, make_dispatchers
from ..policies.spec import PolicySpec
from ..policies.steps import make_world
from ..policies.user import out_of_range
from ..rng import POLICY_SEED, SERVERS_SEED, SPLIT_SEED, dispatcher_seeds, make_rng, seeds
from ..scenario import Scenario
from . import tally as t
from .store import NEEDS_LEVELS, NO_SUCH_SERVER, REACHED

MOST_LEVELS = 65_536  # the time at announced values beyond is not told apart


class Runner:
    """Drives a kernel through a scenario, stretch by stretch."""

    unit = 1.0  # s in one unit of the kernel's time
    kernel: Any
    world: Any
    tasks: Any

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        self.scenario, self.spec = scenario, spec
        servers = scenario.servers
        self.queue = servers.discipline != "pool"
        self.workers = servers.at_once
        self.streams = seeds(scenario.run.seed, replication)
        self.size = servers.count
        self.limited = servers.limit is not None
        self.seconds = 0.0

    def start(self, counts: np.ndarray, announcement: int) -> None:
        """Begin the tally with so many servers of 0, 1, .. tasks."""
        announced = max(0, min(announcement, MOST_LEVELS))
        tallest = max(counts.size - 1, int(2 * self.scenario.offered_load()[2]), announced)
        self.tally = t.tally_of(counts, 64 + 2 * tallest, announcement)
        self.started = int(self.tally.number[t.TOTAL])

    def waited(self) -> tuple[int, int]:
        """Return of how many tasks the waits, and the responses, were added up."""
        return int(self.tally.sums[t.WAITED]), int(self.tally.sums[t.RESPONDED])

    def trail(self) -> np.ndarray:
        """The first events, if they were asked for and the kernel notes them (events.py)."""
        return np.zeros(0, np.int32)

    def held(self) -> int:
        """Tasks waiting at the dispatcher now."""
        return 0

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
            raise PolicyError(out_of_range(where, self.size))

    def run(self, until: float, most: int) -> None:
        """Go on to time `until`, s, or until `most` tasks have come."""
        raise NotImplementedError


class Driver(Runner):
    """Of the kernels that follow each server: with the world in which the policy meets them.

    `world` is that of one dispatcher, or of several the `Dispatchers` that stand in its place.
    """

    several: Several | None = None
    owners: np.ndarray | None = None  # of the tasks of the start, where dispatchers count their own

    def __init__(
        self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int = 0
    ) -> None:
        super().__init__(scenario, spec, replication)
        servers = scenario.servers
        self.lengths = scenario.start_lengths()
        self.speeds = None if servers.identical else servers.speed_of
        fleet: dict[str, Any] = {
            "server_rng": make_rng(self.streams[SERVERS_SEED]),
            "limit": servers.limit,
            "speeds": servers.speed_of,
            "workers": 1 if servers.discipline == "ps" else self.workers,  # r(k) = 1 for k >= 1
        }
        if scenario.dispatchers.several:
            self.several = self._dispatchers(fleet)
            self.world = self.several.world
        else:
            self.world = make_world(
                spec.policy,
                dict(spec.params),
                self.lengths,
                choice_rng=make_rng(self.streams[POLICY_SEED]),
                tracked=self.limited
                or servers.discipline == "slotted"
                or scenario.messages.law is not None,
                **fleet,
            )
        self.start(np.bincount(self.lengths), int(self.world.announcement[0]))

    def _dispatchers(self, fleet: dict[str, Any]) -> Several:
        """Return the dispatchers of a scenario that has several."""
        dispatchers, split = self.scenario.dispatchers, self.streams[SPLIT_SEED]
        if dispatchers.own:
            generator = np.random.default_rng(split.spawn(1)[0])
            self.owners = generator.integers(0, dispatchers.count, int(self.lengths.sum()))
        coins = dispatcher_seeds(self.streams[POLICY_SEED], dispatchers.count)
        return make_dispatchers(
            self.spec.policy,
            dict(self.spec.params),
            self.lengths,
            choice_rngs=[make_rng(seed) for seed in coins],
            coins=make_rng(split),
            owners=self.owners,
            **fleet,
        )


class ByRates(Runner):
    """Of the kernels without memory, in mean service times: through the pieces of a rate table."""

    def take_rates(self) -> None:
        """Begin with the first piece."""
        self.unit = self.scenario.mean_service
        starts, rates = self.scenario.rate_table()
        end = self.scenario.traffic_end / self.unit
        self.ends = np.append(starts[1:], end * self.unit) / self.unit
        self.rates = rates * self.unit
        self.piece = 0

    def run(self, until: float, most: int) -> None:
        until /= self.unit
        while True:
            over = self.piece >= self.rates.size
            rate = 0.0 if over else float(self.rates[self.piece])
            end = np.inf if over else float(self.ends[self.piece])
            if over and until == np.inf:
                return  # no more traffic and no more time asked for
            code = self.go(rate, end, until, most)
            if code == REACHED:
                if self.arrived() >= most or until <= end:
                    return
                self.piece += 1
                self.tally.now[t.PENDING] = np.nan  # drawn at the old rate; memory is not needed
            else:
                self.grow(code)

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        """Run at a rate that holds until `end`; return the kernel's code."""
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
