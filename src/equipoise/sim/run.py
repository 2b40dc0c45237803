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
from ..policies.spec import PolicySpec, parse
from ..policies.steps import CHANGES, make_world
from ..policies.user import out_of_range
from ..rng import make_rng
from ..scenario import Scenario, SlotArrivals, SlotService, TaskStream, TraceService
from ..stats.histogram import edges
from . import tally as t
from .events import TAKEN, TRAIL, make_event_tasks, make_events, more_event_slots
from .leap import asked_each, change_rate, leap_error, make_leap, make_leaping, read_step
from .leap import grown as more_levels
from .memoryless import make_memoryless, make_tasks, more_nodes, more_slots
from .occupancy import make_counted, make_occupancy, speed_curve
from .slotted import make_slotted, make_slotted_tasks
from .store import NEEDS_LEVELS, NEEDS_NODES, NEEDS_SLOTS, NEEDS_TASKS, NO_SUCH_SERVER, REACHED

ROWS, STRETCHES = 50, 10
MOST_LEVELS = 65_536  # the time at announced values beyond is not told apart
ANY = 2**62  # no bound on the number of tasks
ALL_AT_ONCE = 2**31 - 1  # workers of a pool
KERNELS = ("memoryless", "events", "occupancy", "leap", "slotted")
MANY_SERVERS = 50_000  # from here on "auto" counts servers: cheaper for every policy it knows
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
    """Return the kernel that runs a scenario: the cheapest one that is exact.

    That is `memoryless` where it is exact, and from 50,000 servers on `occupancy` where it is and
    every policy has a form of counts; else `events`. An error is accepted only by name: "leap", or
    "leap(step=0.005)", steps in mean service times; it is returned with its step.

    Raises
    ------
    EquipoiseError
        If the wanted one is unknown or cannot run this scenario or these policies.
    """
    name = wanted.partition("(")[0].strip()
    if name not in ("auto", *KERNELS) or (name != wanted and name != "leap"):
        raise EquipoiseError(f"no kernel is called '{wanted}'; use auto, {', '.join(KERNELS)}")
    sized = [spec.label for spec in specs if "sizes" in spec.policy.needs]
    slotted = scenario.servers.discipline == "slotted"
    if name != "auto" and slotted != (name == "slotted"):
        raise EquipoiseError(
            f"the {name} kernel cannot run this scenario: slotted servers take the slotted "
            "kernel, and only they do"
        )
    if slotted:
        if sized:
            raise PolicyMismatch(
                f"policy '{sized[0]}' must observe sizes; in slotted time tasks have none"
            )
        return "slotted"
    if name not in ("auto", "events") and not scenario.memoryless:
        raise EquipoiseError(
            f"the {name} kernel needs exponential service and Poisson arrivals; use events"
        )
    if name == "memoryless" and sized:
        raise PolicyMismatch(
            f"policy '{sized[0]}' must observe sizes, which the memoryless kernel does not know; "
            "use events"
        )
    if name in ("occupancy", "leap"):
        _refuse_uncounted(scenario, name, specs)
    if name == "leap":
        return f"leap(step={read_step(wanted, scenario, specs)!r})"
    if name != "auto":
        return name
    if not scenario.memoryless or sized:
        return "events"
    counted = (
        bool(specs) and scenario.servers.identical and all(spec.policy.ranked for spec in specs)
    )
    return "occupancy" if counted and scenario.servers.count >= MANY_SERVERS else "memoryless"


def _refuse_uncounted(scenario: Scenario, kernel: str, specs: Sequence[PolicySpec]) -> None:
    """Refuse what a kernel of counts cannot run.

    Raises
    ------
    EquipoiseError
        With the reason, and which kernel can.
    """
    if not scenario.servers.identical:
        raise EquipoiseError(
            f"the {kernel} kernel needs servers that are alike, without speeds; use memoryless"
        )
    for spec in specs:
        ranked = spec.policy.ranked
        if ranked is None:
            raise PolicyMismatch(
                f"policy '{spec.label}' has no form for the {kernel} kernel, which knows how many "
                "servers have how many tasks, not which; use memoryless"
            )
        if kernel == "leap" and ranked.tail is None:
            raise PolicyMismatch(
                f"policy '{spec.label}' cannot leap: its choice hangs on the few servers below a "
                "level, which come and go within a step; use occupancy"
            )


def stated_error(scenario: Scenario, kernel: str, specs: Sequence[PolicySpec]) -> str | None:
    """Return the error of a kernel in words, None where it is exact."""
    name, given = parse(kernel)
    if name != "leap":
        return None
    changes = max(change_rate(scenario, spec) for spec in specs)
    step = float(given["step"])
    return f"leaps of {step:g} mean service times: {leap_error(step, changes)}"


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
        As `pick_kernel` says.
    on_progress
        Called with the fraction done since the last call.
    stopped
        Asked between stretches; `Interrupted` is raised when it says yes.

    Raises
    ------
    PolicyError
        If the policy names a server that does not exist, or raises.
    """
    driver = _driver(scenario, spec, replication, kernel, trail)
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


def _driver(
    scenario: Scenario, spec: PolicySpec, replication: int, kernel: str, trail: int
) -> _Driver:
    """Return what drives the kernel of this name."""
    name, given = parse(kernel)
    if name == "leap":
        return _Leap(scenario, spec, replication, trail, float(given["step"]))
    drivers: dict[str, Any] = {
        "memoryless": _Memoryless,
        "events": _Events,
        "occupancy": _Occupancy,
        "slotted": _Slotted,
    }
    made: _Driver = drivers[name](scenario, spec, replication, trail)
    return made


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
    """What all kernels have in common: the run, the tally, and growing."""

    unit = 1.0  # s in one unit of the kernel's time

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        self.scenario, self.spec = scenario, spec
        servers = scenario.servers
        self.queue = servers.discipline != "pool"
        self.workers = servers.workers if self.queue else ALL_AT_ONCE
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
        return int(self.tally.waits.sum()), int(self.tally.responses.sum())

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
            raise PolicyError(out_of_range(where, self.size))

    kernel: Any
    tasks: Any
    world: Any

    def run(self, until: float, most: int) -> None:
        """Go on to time `until`, s, or until `most` tasks have come."""
        raise NotImplementedError


class _Servers(_Driver):
    """The kernels that follow each server: the world in which the policy meets them."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        super().__init__(scenario, spec, replication)
        servers = scenario.servers
        self.lengths = scenario.start_lengths()
        self.speeds = None if servers.identical else servers.speed_of
        self.world = make_world(
            spec.policy,
            dict(spec.params),
            self.lengths,
            choice_rng=make_rng(self.streams[POLICY_SEED]),
            server_rng=make_rng(self.streams[SERVERS_SEED]),
            limit=servers.limit,
            tracked=self.limited or servers.discipline == "slotted",
            speeds=servers.speed_of,
            workers=self.workers,
        )
        self.start(np.bincount(self.lengths), int(self.world.announcement[0]))


class _ByRates(_Driver):
    """The kernels without memory, in mean service times: through the pieces of a rate table."""

    def take_rates(self) -> None:
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


class _Memoryless(_ByRates, _Servers):
    """Drives memoryless.py."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication)
        self.take_rates()
        self.kernel = make_memoryless(
            spec.policy, self.queue, self.limited, self.speeds is not None
        )
        rng = make_rng(self.streams[ARRIVALS_SEED])
        self.tasks = make_tasks(self.lengths, self.workers, self.queue, rng, self.speeds)

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        return self.call(rate, self.workers, min(until, end), most)

    def grow(self, code: int) -> None:
        if code == NEEDS_SLOTS:
            self.tasks = more_slots(self.tasks)
        elif code == NEEDS_NODES:
            self.tasks = more_nodes(self.tasks)
        else:
            super().grow(code)


class _Counts(_ByRates):
    """What occupancy.py and leap.py have in common: no servers, only how many are alike."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        super().__init__(scenario, spec, replication)
        self.take_rates()
        assert spec.policy.ranked is not None
        self.tasks, self.first = spec.policy.ranked.init(self.size, **spec.params)
        self.start(scenario.start_counts(), self.first)
        self.see_levels()

    def see_levels(self) -> None:
        self.curve = speed_curve(self.tally.least.size, self.workers)

    def grow(self, code: int) -> None:
        super().grow(code)
        self.see_levels()


class _Occupancy(_Counts):
    """Drives occupancy.py."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication)
        self.kernel = make_occupancy(spec.policy, self.queue, self.limited)
        which = (ARRIVALS_SEED, POLICY_SEED, SERVERS_SEED, SERVICE_SEED)
        generators = (make_rng(self.streams[i]) for i in which)
        self.world = make_counted(self.size, scenario.servers.limit, self.first, *generators)

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        return self.call(self.curve, rate, self.workers, min(until, end), most)


class _Leap(_Counts):
    """Drives leap.py."""

    def __init__(
        self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int, step: float
    ) -> None:
        super().__init__(scenario, spec, replication)
        self.step = step
        self.kernel = make_leap(spec.policy, self.queue, self.limited)
        asked = asked_each(spec.policy, self.tasks, self.size)
        rng, limit = make_rng(self.streams[ARRIVALS_SEED]), scenario.servers.limit
        self.world = make_leaping(self.size, limit, asked, self.tally.least.size, rng)

    def waited(self) -> tuple[int, int]:
        number = self.tally.number
        followed = int(number[t.ARRIVED] - number[t.LOST]) if self.queue else 0
        return followed, followed

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        return self.call(self.curve, rate, self.step, self.workers, end, until, most)

    def grow(self, code: int) -> None:
        super().grow(code)
        self.world = more_levels(self.world, self.tally.least.size)


class _Events(_Servers):
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


class _Slotted(_Servers):
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
        tally, n = self.driver.tally, self.driver.size
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
        totals[[WAITS, RESPONSES]] = sums[[t.WAITS, t.RESPONSES]] * unit
        totals[[WAITED, RESPONDED]] = self.driver.waited()
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
            arrived=int(number[t.ARRIVED]) + driver.started,
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
