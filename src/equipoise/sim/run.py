"""One replication of one policy, from a scenario to a record of what happened.

A run is cut into `ROWS` rows of `STRETCHES` stretches each, equal in time or in tasks. Rows hold
everything (occupancy, histograms, messages), so that a warm-up can be left out afterwards, by whole
rows; stretches hold sums, for the warm-up rule and for drawing. Cutting does not change the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import EquipoiseError, PolicyMismatch
from ..policies.spec import PolicySpec, parse
from ..policies.steps import CHANGES
from ..scenario import Scenario
from ..stats.histogram import edges
from . import tally as t
from .driver import Runner
from .events import EventsDriver
from .leap import LeapDriver, change_rate, leap_error, read_step
from .memoryless import MemorylessDriver
from .occupancy import OccupancyDriver
from .slotted import SlottedDriver

ROWS, STRETCHES = 50, 10
ANY = 2**62  # no bound on the number of tasks
MOST_CROSSED = 0.1  # tasks a server in the time of a message, for a policy that learns
# the columns of Record.sums: integrals and sums over a stretch, in seconds and tasks
TIME, TASKS, UNEVEN, WAITS, WAITED, RESPONSES, RESPONDED, ARRIVALS, DEPARTURES, LOSSES = range(10)
SUMS = 10

DRIVERS: dict[str, Callable[..., Runner]] = {
    "memoryless": MemorylessDriver,
    "events": EventsDriver,
    "occupancy": OccupancyDriver,
    "leap": LeapDriver,
    "slotted": SlottedDriver,
}


MANY_SERVERS = 50_000  # from here on "auto" counts servers: cheaper for every policy it knows


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
    if name not in ("auto", *DRIVERS) or (name != wanted and name != "leap"):
        raise EquipoiseError(f"no kernel is called '{wanted}'; use auto, {', '.join(DRIVERS)}")
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
        clocked = [spec.label for spec in specs if spec.policy.clock is not None]
        if clocked:
            raise PolicyMismatch(
                f"policy '{clocked[0]}' hears from servers by the clock, which slotted time does "
                "not model; use fcfs servers"
            )
        return "slotted"
    if name in ("occupancy", "leap"):
        _refuse_uncounted(scenario, name, specs)
        return name if name == "occupancy" else f"leap(step={read_step(wanted, scenario, specs)!r})"
    why_not = _not_memoryless(scenario)
    if name == "memoryless" and why_not:
        raise EquipoiseError(f"the memoryless kernel {why_not}; use events")
    if sized and scenario.servers.curve is not None:
        raise PolicyMismatch(
            f"policy '{sized[0]}' must observe the work left, which is no time where the speed of "
            "a server depends on how many share it; remove servers.curve"
        )
    if sized and scenario.dispatchers.own:
        raise PolicyMismatch(
            f"policy '{sized[0]}' must observe the work left at a server, which dispatchers that "
            'hear = "own" do not know; let them hear = "all"'
        )
    if name == "memoryless" and sized:
        raise PolicyMismatch(
            f"policy '{sized[0]}' must observe sizes, which the memoryless kernel does not know; "
            "use events"
        )
    if name == "auto":
        name = "events" if sized or why_not else "memoryless"
        counted = specs and uncounted(scenario) is None
        if name == "memoryless" and counted and scenario.servers.count >= MANY_SERVERS:
            name = "occupancy" if all(spec.policy.ranked for spec in specs) else name
    return name


def uncounted(scenario: Scenario) -> str | None:
    """Return what a kernel of counts would need that this scenario lacks, None if nothing."""
    if not scenario.memoryless:
        return "exponential service and Poisson arrivals; use events"
    if scenario.messages.law is not None or scenario.servers.queue:
        return "messages that take no time and no queue at the dispatcher; use events"
    if scenario.dispatchers.several:
        return "one dispatcher; use memoryless or events"
    if not scenario.servers.identical:
        return "servers that are alike, without speeds; use memoryless"
    assert scenario.flow is not None
    if scenario.flow.changes or scenario.batch is not None:
        return "tasks that come one by one, at rates that are constant by pieces; use memoryless"
    return None


def _refuse_uncounted(scenario: Scenario, kernel: str, specs: Sequence[PolicySpec]) -> None:
    """Refuse what a kernel of counts cannot run.

    Raises
    ------
    EquipoiseError
        With the reason, and which kernel can.
    """
    lacking = uncounted(scenario)
    if lacking:
        raise EquipoiseError(f"the {kernel} kernel needs {lacking}")
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


def _not_memoryless(scenario: Scenario) -> str | None:
    """Return why the memoryless kernel cannot run a scenario, or None."""
    if not scenario.memoryless:
        return "needs exponential service and Poisson arrivals"
    if scenario.servers.queue:
        return "keeps no queue at the dispatcher"
    if scenario.messages.law is not None:
        return "does not know messages that take time"
    if scenario.dispatchers.own:
        return "does not know which dispatcher sent a task"
    return None


def warnings_of(scenario: Scenario, spec: PolicySpec) -> list[str]:
    """Return what has to be said of a policy's results in this scenario, a sentence each.

    A policy that learns from messages judges its value by what was true a delay ago. Where more
    than 0.1 tasks come to a server in that time it hunts: measured on pools, 0.055 is harmless,
    0.55 hunts, 1.65 is meaningless.
    """
    law = scenario.messages.law
    if law is None or not spec.policy.learns:
        return []
    rate = scenario.offered_load()[0] * scenario.servers.capacity / scenario.mean_service
    delay = law.moments().mean
    crossed = rate / scenario.servers.count * delay
    if crossed <= MOST_CROSSED:
        return []
    return [
        f"{spec.label} learns from messages that take {delay:g} s, in which {crossed:.3g} tasks "
        f"come to a server: above {MOST_CROSSED} what it learns is not to be trusted"
    ]


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
    name, given = parse(kernel)
    driver = DRIVERS[name](scenario, spec, replication, trail, **given)
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


def _stretches(scenario: Scenario, driver: Runner) -> Iterator[tuple[int, float, int, float]]:
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
    assert scenario.run.tasks is not None
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


@dataclass
class _Book:
    """Collects rows and stretches while a driver runs; turns the kernel's time into seconds."""

    driver: Runner
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
        least = tally.least[1 : tally.number[t.TALLEST] + 2]
        mean, threshold = tally.number[t.TOTAL] / n, tally.number[t.THRESHOLD]
        now = tally.now[t.NOW] * self.driver.unit
        shortest, longest = int(np.count_nonzero(least == n)), int(np.count_nonzero(least))
        self.path.append((now, mean, shortest, longest, threshold))

    def _totals(self) -> np.ndarray:
        """Return what has come together since the row began, float64[SUMS]; counts since time 0."""
        # one array of a list: the other replications wait while Python runs
        tally, unit = self.driver.tally, self.driver.unit
        number, sums = tally.number.tolist(), tally.sums.tolist()
        tasks = float(tally.area[1 : number[t.TALLEST] + 2].sum())
        waited, responded = self.driver.waited()
        return np.array(
            [
                float(tally.now[t.NOW]) * unit,
                tasks * unit,
                sums[t.UNEVEN] * unit,
                sums[t.WAITS] * unit,
                waited,
                sums[t.RESPONSES] * unit,
                responded,
                number[t.ARRIVED],
                number[t.FINISHED],
                number[t.LOST],
            ],
            float,
        )

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
            present=int(number[t.TOTAL]) + driver.held(),
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
