"""One replication of one policy, from a scenario to a record of what happened.

A run is cut into `ROWS` rows of `STRETCHES` stretches each, equal in time or in tasks. Rows hold
everything (occupancy, histograms, messages), so that a warm-up can be left out afterwards, by whole
rows; stretches hold sums, for the warm-up rule and for drawing. Cutting does not change the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from ..compile import NumbaError, first_reason
from ..errors import EquipoiseError, PolicyError, PolicyMismatch
from ..policies.spec import PolicySpec
from ..policies.steps import CHANGES, World, make_world
from ..policies.user import out_of_range
from ..rng import make_rng
from ..scenario import Scenario, SlotArrivals, SlotService, TaskStream, TraceService
from ..stats.histogram import edges
from . import tally as t
from .events import TAKEN, TRAIL, make_event_tasks, make_events, more_event_slots
from .memoryless import make_memoryless, make_tasks, more_nodes, more_slots
from .slotted import make_slotted, make_slotted_tasks
from .store import NEEDS_LEVELS, NEEDS_NODES, NEEDS_SLOTS, NEEDS_TASKS, NO_SUCH_SERVER, REACHED

ROWS, STRETCHES = 50, 10
MOST_LEVELS = 65_536  # the time at announced values beyond is not told apart
ANY = 2**62  # no bound on the number of tasks
ALL_AT_ONCE = 2**31 - 1  # workers of a pool
KERNELS = ("memoryless", "events", "slotted")
# the columns of Record.sums: integrals and sums over a stretch, in seconds and tasks
TIME, TASKS, UNEVEN, WAITS, WAITED, RESPONSES, RESPONDED, ARRIVALS, DEPARTURES, LOSSES = range(10)
SUMS = 10
ARRIVALS_SEED, SERVICE_SEED, POLICY_SEED, SERVERS_SEED, START_SEED = range(5)


class Interrupted(Exception):
    """The run was asked to stop between two stretches."""


@dataclass(frozen=True)
class Record:
    """What one replication did. Times in s; `ROWS` rows, fewer if there were fewer tasks."""

    sums: np.ndarray  # float64[stretches, 10], columns as named above
    row_of: np.ndarray  # int64[stretches], the row each stretch belongs to
    ends: np.ndarray  # float64[rows], when each row ended, s
    area: list[np.ndarray]  # each row: float64[levels], integral of servers with >= i tasks, s
    waits: np.ndarray  # uint32[rows, used buckets]
    responses: np.ndarray  # uint32[rows, used buckets]
    first_bucket: tuple[int, int]  # where the used buckets of waits and responses begin
    unit: float  # s; the histograms are in this unit
    thresholds: list[np.ndarray]  # each row: float64[levels], time at each announced value, s
    messages: np.ndarray  # int64[rows, 7], counts in each row, as in steps.py
    path: dict[str, np.ndarray]  # "times", "mean", "least", "most", "threshold" at stretch ends
    arrived: int  # tasks of the start included
    finished: int
    present: int
    lost: int
    last_change: float | None  # s, None if the threshold never moved
    events: int
    seconds: float  # that the kernel took, compilation not counted
    extra: np.ndarray  # float64[rows, k], sums of the slotted kernel (slotted.py), else k = 0
    trail: np.ndarray  # int32[k], the first events if they were asked for (events.py)

    def edges(self) -> np.ndarray:
        """Return the boundaries of all buckets, float64[buckets + 1], s."""
        return edges() * self.unit


def pick_kernel(scenario: Scenario, wanted: str = "auto", specs: Sequence[PolicySpec] = ()) -> str:
    """Return the kernel that runs a scenario: the cheaper memoryless one where it is exact.

    Raises
    ------
    EquipoiseError
        If the wanted one is unknown or cannot run this scenario or these policies.
    """
    sized = [spec.label for spec in specs if "sizes" in spec.policy.needs]
    if wanted not in ("auto", *KERNELS):
        raise EquipoiseError(f"no kernel is called '{wanted}'; use auto, {', '.join(KERNELS)}")
    slotted = scenario.servers.discipline == "slotted"
    if wanted != "auto" and slotted != (wanted == "slotted"):
        raise EquipoiseError(
            f"the {wanted} kernel cannot run this scenario: slotted servers take the slotted "
            "kernel, and only they do"
        )
    if slotted:
        if sized:
            raise PolicyMismatch(
                f"policy '{sized[0]}' must observe sizes; in slotted time tasks have none"
            )
        return "slotted"
    if wanted == "memoryless" and not scenario.memoryless:
        raise EquipoiseError(
            "the memoryless kernel needs exponential service and Poisson arrivals; use events"
        )
    if wanted == "memoryless" and sized:
        raise PolicyMismatch(
            f"policy '{sized[0]}' must observe sizes, which the memoryless kernel does not know; "
            "use events"
        )
    if wanted == "auto":
        return "memoryless" if scenario.memoryless and not sized else "events"
    return wanted


def seeds(seed: int, replication: int) -> list[np.random.SeedSequence]:
    """Return the streams of a replication: arrivals, service, policy, servers, start state."""
    return np.random.SeedSequence(seed, spawn_key=(replication,)).spawn(5)


def replicate(
    scenario: Scenario,
    spec: PolicySpec,
    replication: int,
    *,
    kernel: str,
    on_progress: Callable[[float], None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    trail: int = 0,
) -> Record:
    """Run one replication, alone and repeatable from the scenario's seed.

    Parameters
    ----------
    kernel
        "memoryless" or "events", as `pick_kernel` says.
    on_progress
        Called with the fraction done since the last call.
    stopped
        Asked between stretches; `Interrupted` is raised when it says yes.

    Raises
    ------
    PolicyError
        If the policy names a server that does not exist, or raises.
    """
    drivers = {"memoryless": _Memoryless, "events": _Events, "slotted": _Slotted}
    driver = drivers[kernel](scenario, spec, replication, trail)
    driver.compile()
    book = _Book(driver)
    for row, until, most, share in _stretches(scenario, driver):
        if stopped():
            raise Interrupted
        book.begin_stretch(row)
        driver.run(until, most)
        book.end_stretch()
        if on_progress:
            on_progress(share)
    return book.record()


def _stretches(scenario: Scenario, driver: Any) -> Iterator[tuple[int, float, int, float]]:
    """Yield (row, until s, most tasks, share of the run) for each stretch."""
    horizon, warm_up = scenario.horizon, scenario.run.warm_up
    given = warm_up != "auto" and float(warm_up) > 0  # the warm-up is then a row of its own
    first = 0
    if given:
        for i in range(1, STRETCHES + 1):
            yield 0, float(warm_up) * i / STRETCHES, ANY, 0.0
        first = 1
    count = (ROWS - first) * STRETCHES
    if horizon is not None:
        start = float(warm_up) if given else 0.0
        for i in range(count):
            until = start + (horizon - start) * (i + 1) / count
            yield first + i // STRETCHES, min(until, horizon), ANY, 1 / count
        return
    done = driver.arrived()
    left = scenario.run.tasks - done
    if left <= 0:
        raise EquipoiseError(
            f"run.warm_up = {warm_up:g} s is as long as the run of {scenario.run.tasks} tasks; "
            "take a shorter warm-up or more tasks"
        )
    before = done
    for i in range(count):
        most = done + left * (i + 1) // count
        if most > before:
            yield first + i // STRETCHES, np.inf, most, (most - before) / left
            before = most


class _Driver:
    """What the two kernels have in common: the world, the tally, and growing."""

    unit = 1.0  # s in one unit of the kernel's time

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        self.scenario, self.spec = scenario, spec
        servers = scenario.servers
        self.queue = servers.discipline != "pool"
        self.workers = servers.workers if self.queue else ALL_AT_ONCE
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
            speeds=servers.speed_of,
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
            raise _explained(self.spec, error) from error
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


class _Memoryless(_Driver):
    """Drives memoryless.py, in mean service times, through the pieces of a rate table."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication)
        self.unit = scenario.mean_service
        self.kernel = make_memoryless(
            spec.policy, self.queue, self.limited, self.speeds is not None
        )
        rng = make_rng(self.streams[ARRIVALS_SEED])
        self.tasks = make_tasks(self.lengths, self.workers, self.queue, rng, self.speeds)
        starts, rates = scenario.rate_table()
        end = scenario.traffic_end / self.unit
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
            code = self.call(rate, self.workers, min(until, end), most)
            if code == REACHED:
                if self.arrived() >= most or until <= end:
                    return
                self.piece += 1
                self.tally.now[t.PENDING] = np.nan  # drawn at the old rate; memory is not needed
            elif code == NEEDS_SLOTS:
                self.tasks = more_slots(self.tasks)
            elif code == NEEDS_NODES:
                self.tasks = more_nodes(self.tasks)
            else:
                self.grow(code)


class _Events(_Driver):
    """Drives events.py, in seconds, feeding it blocks of the scenario's tasks."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication)
        self.kernel = make_events(spec.policy, self.limited, self.speeds is not None)
        self.stream: TaskStream = scenario.task_stream(
            self.streams[ARRIVALS_SEED], self.streams[SERVICE_SEED]
        )
        generator = np.random.default_rng(self.streams[START_SEED])
        sizes = _start_sizes(scenario, int(self.lengths.sum()), generator)
        self.tasks = make_event_tasks(self.lengths, sizes, self.workers, trail, self.speeds)
        self.times = self.sizes = np.zeros(0)
        self.ended = False

    def run(self, until: float, most: int) -> None:
        while True:
            if until == np.inf and self.ended and self.tasks.counts[TAKEN] == self.times.size:
                return
            code = self.call(self.times, self.sizes, self.ended, self.workers, until, most)
            if code == REACHED:
                return
            if code == NEEDS_TASKS:
                times, sizes = self.stream.block()
                # the kernel is compiled for writable arrays; the blocks are views to be read only
                self.times, self.sizes = np.array(times), np.array(sizes)
                self.ended = not self.times.size
                self.tasks.counts[TAKEN] = 0
            elif code == NEEDS_SLOTS:
                self.tasks = more_event_slots(self.tasks)
            else:
                self.grow(code)

    def trail(self) -> np.ndarray:
        return self.tasks.trail[: self.tasks.counts[TRAIL]]


class _Slotted(_Driver):
    """Drives slotted.py; a slot is a second."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication)
        self.kernel = make_slotted(spec.policy)
        arrivals, service = scenario.arrivals, scenario.service
        assert isinstance(arrivals, SlotArrivals)
        assert isinstance(service, SlotService)
        self.tasks = make_slotted_tasks(
            arrivals,
            float(scenario.rate_table()[1][0]),
            service,
            scenario.servers.speed_of,
            self.lengths,
            make_rng(self.streams[ARRIVALS_SEED]),
            make_rng(self.streams[SERVICE_SEED]),
        )

    def extra(self) -> np.ndarray:
        sums: np.ndarray = self.tasks.sums.copy()
        self.tasks.sums[:] = 0
        return sums

    def run(self, until: float, most: int) -> None:
        while (code := self.call(until, most)) != REACHED:
            self.grow(code)


def _start_sizes(scenario: Scenario, k: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the times that the tasks of the start state still take: float64[k], s.

    Whole service times: exact for exponential service, which has no memory; else the tasks of the
    start are taken to begin at time 0.
    """
    if k == 0:
        return np.zeros(0)
    if isinstance(scenario.service, TraceService):
        sizes = scenario.recording.sizes
        assert sizes is not None
        return generator.choice(sizes, k)
    assert not isinstance(scenario.service, SlotService)
    return scenario.service.sample(generator, k)


@dataclass
class _Book:
    """Collects rows and stretches while a driver runs; turns the kernel's time into seconds."""

    driver: Any
    sums: list[np.ndarray] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    path: list[tuple[float, ...]] = field(default_factory=list)
    said: Any = 0  # messages counted up to the end of the last row
    before: Any = 0  # running totals at the end of the last stretch

    def begin_stretch(self, row: int) -> None:
        """Go on in this row, or close the last one and begin this."""
        if self.row_of and row != self.row_of[-1]:
            self._close_row()
        self.row_of.append(row)

    def end_stretch(self) -> None:
        """Take over what the stretch summed up, and start its sums anew."""
        tally, n = self.driver.tally, self.driver.lengths.size
        totals = self._totals()
        self.sums.append(totals - self.before)
        self.before = totals
        least = tally.least[1:]
        mean, threshold = tally.number[t.TOTAL] / n, tally.number[t.THRESHOLD]
        now = tally.now[t.NOW] * self.driver.unit
        shortest, longest = int(np.count_nonzero(least == n)), int(np.count_nonzero(least))
        self.path.append((now, mean, shortest, longest, threshold))

    def _totals(self) -> np.ndarray:
        """Return what has come together since the row began, float64[10]; counts since time 0."""
        tally, unit = self.driver.tally, self.driver.unit
        number, sums = tally.number, tally.sums
        totals = np.empty(SUMS)
        totals[TIME] = tally.now[t.NOW] * unit
        totals[TASKS] = tally.area[1:].sum() * unit
        totals[UNEVEN] = sums[t.UNEVEN] * unit
        totals[[WAITS, WAITED]] = sums[t.WAITS] * unit, tally.waits.sum()
        totals[[RESPONSES, RESPONDED]] = sums[t.RESPONSES] * unit, tally.responses.sum()
        totals[[ARRIVALS, DEPARTURES, LOSSES]] = number[[t.ARRIVED, t.FINISHED, t.LOST]]
        return totals

    def _close_row(self) -> None:
        tally, count, unit = self.driver.tally, self.driver.world.count, self.driver.unit
        used = int(np.flatnonzero(tally.area).max(initial=0)) + 1
        self.rows.append(
            {
                "end": tally.now[t.NOW] * unit,
                "area": tally.area[:used] * unit,
                "waits": tally.waits.astype(np.uint32),
                "responses": tally.responses.astype(np.uint32),
                "thresholds": np.trim_zeros(tally.thresholds, "b") * unit,
                "messages": count - self.said,
                "extra": self.driver.extra(),
            }
        )
        self.said = count.copy()
        for array in (tally.area, tally.waits, tally.responses, tally.thresholds, tally.sums):
            array[:] = 0
        self.before = self._totals()

    def record(self) -> Record:
        """Close the last row and return all of it."""
        self._close_row()
        driver = self.driver
        number, now = driver.tally.number, driver.tally.now
        column = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        waits, first_wait = _trimmed(column["waits"])
        responses, first_response = _trimmed(column["responses"])
        times, mean, least, most, threshold = (np.array(x) for x in zip(*self.path, strict=True))
        moved = driver.world.count[CHANGES] > 0
        start = int(driver.lengths.sum())
        return Record(
            sums=np.array(self.sums),
            row_of=_dense(self.row_of),
            ends=np.array(column["end"]),
            area=column["area"],
            waits=waits,
            responses=responses,
            first_bucket=(first_wait, first_response),
            unit=driver.unit,
            thresholds=column["thresholds"],
            messages=np.array(column["messages"]),
            path={"times": times, "mean": mean, "least": least, "most": most}
            | ({"threshold": threshold} if driver.spec.policy.learns else {}),
            arrived=int(number[t.ARRIVED]) + start,
            finished=int(number[t.FINISHED]),
            present=int(number[t.TOTAL]),
            lost=int(number[t.LOST]),
            last_change=float(now[t.LAST_CHANGE]) * driver.unit if moved else None,
            events=int(number[t.ARRIVED] + number[t.FINISHED]),
            seconds=driver.seconds,
            extra=np.array(column["extra"]),
            trail=driver.trail(),
        )


def _dense(rows: list[int]) -> np.ndarray:
    """Number the rows that were used 0, 1, 2, ...; a short run leaves some out."""
    return np.unique(rows, return_inverse=True)[1]


def _trimmed(histograms: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Return the columns that hold anything, and where they begin: most buckets are empty."""
    table = np.array(histograms)
    used = np.flatnonzero(table.any(axis=0))
    if not used.size:
        return table[:, :0], 0
    return np.ascontiguousarray(table[:, used[0] : used[-1] + 1]), int(used[0])


def _explained(spec: PolicySpec, error: Exception) -> Exception:
    """Return a user's mistake as one line; anything else as it is."""
    own = spec.policy.choose.__module__.partition(".")[0] == "equipoise"
    if own or isinstance(error, EquipoiseError):
        return error
    where = spec.written or spec.policy.name
    if isinstance(error, NumbaError):
        return PolicyError(f"{where} does not compile: {first_reason(error)}")
    said = " ".join(str(error).split())
    return PolicyError(f"{where} raised {type(error).__name__}{said and ': ' + said}")
