"""A scenario: servers, traffic, service times and the run, checked as a whole.

All times are in seconds, all rates in tasks per second for all servers together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from equipoise.errors import EquipoiseError, ScenarioError, TraceError, UnstableError
from equipoise.scenario.arrivals import Poisson, Rates, Sinusoid, TraceArrivals
from equipoise.scenario.base import Part
from equipoise.scenario.batch import Batch
from equipoise.scenario.dispatchers import Dispatchers, DispatchersTable
from equipoise.scenario.files import read_toml
from equipoise.scenario.flags import parse_curve, parse_service
from equipoise.scenario.flow import Flow
from equipoise.scenario.messages import Messages
from equipoise.scenario.mistakes import Mistake, Mistakes, shown, translate
from equipoise.scenario.run import Run
from equipoise.scenario.servers import Servers
from equipoise.scenario.service import Empirical, Exponential, Law, TraceService
from equipoise.scenario.slots import SlotArrivals, SlotService
from equipoise.scenario.stream import (
    CHUNK,
    Tasks,
    TaskSplit,
    TaskStream,
    at_random,
    copied,
    in_batches,
    poisson_times,
    with_sizes,
)
from equipoise.scenario.trace import Recording, TraceColumns, read_trace

BINS = 500  # rows of the rate table of a trace, or of a rate that changes all the time
KEPT = 2**22  # most tasks of a scaled trace that are kept (64 MB) rather than made again
JITTER = 0x6A6974746572  # "jitter": keeps its stream apart from those of the replications


def _tables(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("must be [[policies]] tables, one for each policy")
    wrong = []
    for i, table in enumerate(value):
        if not isinstance(table, Mapping):
            wrong.append(Mistake((i,), f'{shown(table)} must be a table, e.g. name = "jsq"'))
        elif "name" not in table:
            wrong.append(Mistake((i, "name"), 'missing; say which policy, e.g. name = "jsq"'))
        elif not isinstance(table["name"], str) or not table["name"].strip():
            wrong.append(
                Mistake((i, "name"), f"{shown(table['name'])} must be a policy's name in quotes")
            )
    if wrong:
        raise Mistakes(wrong)
    return tuple(dict(table) for table in value)


class Scenario(Part):
    """What is studied, complete and checked; frozen, so a change makes another one.

    Make one with `from_toml`, `from_dict`, `simple`, or from its parts:

    >>> Scenario(servers=Servers(count=100, discipline="fcfs"), arrivals=Poisson(load=0.9),
    ...          service=Exponential(mean=1.0))
    Scenario('scenario', 100 servers (fcfs), poisson arrivals, exponential service)
    """

    name: str = "scenario"
    servers: Servers
    arrivals: Annotated[
        Poisson | Sinusoid | Rates | TraceArrivals | SlotArrivals, Field(discriminator="law")
    ]
    service: Annotated[Law | TraceService | SlotService, Field(discriminator="law")]
    messages: Messages = Field(default_factory=Messages)
    dispatchers: DispatchersTable = Field(default_factory=Dispatchers)
    trace: TraceColumns | None = None
    policies: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_tables)] = ()
    run: Run = Field(default_factory=Run)

    _own_length: bool = PrivateAttr(default=True)  # False: the length of the run is our default

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        wrong = list(self._wrong_combinations())
        if wrong:
            raise Mistakes(wrong)
        waits = self.servers.discipline != "pool"
        endless = isinstance(self.arrivals, Poisson | Sinusoid | SlotArrivals)
        if endless and waits and self.servers.limit is None:
            if self.flow is None:
                load = self.offered_load()[0]
            else:  # in the long run, not over the run
                load = self.flow.spread(np.inf)[0] / self._unit_rate
            if load >= 1:
                raise UnstableError(
                    f"load = {load:.6g} >= 1: work arrives faster than the servers can do it; "
                    "lower the load, add servers, or set a limit"
                )
        if endless and self.run.duration is None and self.run.tasks is None:
            tasks = max(1_000_000, 1_000 * self.servers.count)
            object.__setattr__(self, "run", self.run.model_copy(update={"tasks": tasks}))
            self._own_length = False
        return self

    def _wrong_combinations(self) -> Iterable[Mistake]:
        yield from self._wrong_slots()
        if isinstance(self.service, TraceService) and not isinstance(self.arrivals, TraceArrivals):
            yield Mistake(
                ("service", "law"),
                "the times of a trace need its arrivals too; set arrivals.law = 'trace', or put "
                "the columns into a [trace] table and name the file with --trace",
            )
        if (
            isinstance(self.arrivals, TraceArrivals)
            and self.arrivals.end is not None
            and not isinstance(self.service, TraceService)
        ):
            yield Mistake(
                ("arrivals", "end"),
                "an arrival is the end less the service time, so service.law must be 'trace'",
            )
        start, servers = self.run.start, self.servers
        yield from self._wrong_dispatchers()
        if isinstance(start, tuple):
            if len(start) != servers.count:
                yield Mistake(
                    ("run", "start"),
                    f"{len(start)} lengths for {servers.count} servers; there must be one for each",
                )
            elif servers.limit is not None and max(start) > servers.limit:
                yield Mistake(
                    ("run", "start"),
                    f"a length of {max(start)} is above servers.limit = {servers.limit}",
                )

    def _wrong_slots(self) -> Iterable[Mistake]:
        """Slotted servers, arrivals and service go together, and the means must be possible."""
        arrivals, service, servers = self.arrivals, self.service, self.servers
        slotted = servers.discipline == "slotted"
        for name, part, kind in (
            ("arrivals", arrivals, SlotArrivals),
            ("service", service, SlotService),
        ):
            if isinstance(part, kind) != slotted:
                yield Mistake(
                    (name, "law"),
                    'must be "slots" where servers.discipline is "slotted", and only there',
                )
        if not (isinstance(arrivals, SlotArrivals) and isinstance(service, SlotService)):
            return
        if servers.limit is not None or servers.workers != 1:
            yield Mistake(("servers",), "slotted servers have no limit and no workers")
        if self.messages.law is not None:
            yield Mistake(("messages",), "in slotted time messages take no time; remove it")
        wrong = service.wrong_speeds(servers.speed_of)
        if wrong:
            yield Mistake(("service",), wrong)
        wrong = arrivals.wrong_mean(self._slot_mean(arrivals))
        if wrong:
            yield Mistake(("arrivals",), wrong)

    def _wrong_dispatchers(self) -> Iterable[Mistake]:
        if not self.dispatchers.several:
            return
        if self.servers.discipline == "slotted":
            yield Mistake(("dispatchers",), "in slotted time there is one dispatcher; remove it")
        if self.servers.queue:
            yield Mistake(
                ("servers", "queue"), "tasks wait at one dispatcher; remove it, or dispatchers"
            )
        if self.dispatchers.own and self.messages.law is not None:
            yield Mistake(
                ("messages",),
                'dispatchers that hear = "own" count for themselves, so that no message takes '
                'time; remove it, or hear = "all"',
            )

    def _slot_mean(self, arrivals: SlotArrivals) -> float:
        """Tasks per slot, all servers together."""
        own = arrivals.table_mean
        if own is not None:
            return own
        mean = arrivals.mean
        if mean is None:
            assert arrivals.load is not None
            mean = arrivals.load * self.servers.capacity
        return mean * arrivals.scale

    # Making one

    @classmethod
    def from_toml(
        cls, path: str | os.PathLike[str], trace: str | os.PathLike[str] | None = None
    ) -> Scenario:
        """Read a scenario from a TOML file; file names in it start from its folder.

        Parameters
        ----------
        path
            The file; without a name in it, the scenario is called like the file.
        trace
            A trace to replay in place of its arrivals and service, read as its [trace] table
            says; `scale` stays.

        Raises
        ------
        EquipoiseError
            `ScenarioError`, `TraceError` or `UnstableError`: a line for each mistake.
        """
        path = Path(path)
        tables = {"name": path.stem, **read_toml(path)}
        scenario = cls._checked(tables, path.parent, source=str(path))
        if trace is not None:
            try:
                scenario = scenario.with_trace(trace)
            except ScenarioError as error:
                raise ScenarioError(f"{path}: {error}") from None
        if isinstance(scenario.arrivals, TraceArrivals):
            scenario.recording  # noqa: B018  (what is wrong with a trace is said now, not later)
        return scenario

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], base: str | os.PathLike[str] = ".") -> Scenario:
        """Make a scenario from the tables of a file; file names in it start from `base`."""
        return cls._checked(dict(tables), Path(base))

    @classmethod
    def simple(
        cls,
        *,
        servers: int,
        discipline: str = "fcfs",
        load: float | None = None,
        rate: float | None = None,
        service: str = "exponential",
        workers: int | None = None,
        curve: Sequence[float] | str | None = None,
        limit: int | None = None,
        name: str | None = None,
        **run: Any,
    ) -> Scenario:
        """Make a scenario of Poisson arrivals from a few numbers, as from a command line.

        Parameters
        ----------
        servers, discipline, workers, curve, limit
            As in `Servers`; a curve may be text like "1,1.6,2".
        load, rate
            One of them, as in `Poisson`.
        service
            A law, with parameters like "lognormal(mean=1, scv=4)".
        run
            The keys of `Run` (duration, tasks, start, warm_up, replications, seed); those that
            are None count as not given.

        Raises
        ------
        ScenarioError, UnstableError
            A line for each mistake; the keys are the names of these parameters.
        """
        traffic = f"load {load:g}" if _is_plain(load) else f"rate {rate} tasks/s"
        tables = {
            "name": name or f"{servers} servers ({discipline}), {traffic}, {service}",
            "servers": _given(
                count=servers,
                discipline=discipline,
                workers=workers,
                limit=limit,
                curve=parse_curve(curve) if isinstance(curve, str) else curve,
            ),
            "arrivals": _given(law="poisson", load=load, rate=rate),
            "service": parse_service(service),
            "run": _given(**run),
        }
        try:
            return cls._checked(tables, Path("."))
        except ScenarioError as error:
            lines = str(error).replace("servers.count", "servers").split("\n")
            heads = ("servers.", "arrivals.", "run.")
            plain = [
                next((line[len(head) :] for head in heads if line.startswith(head)), line)
                for line in lines
            ]
            text = "\n".join(plain).replace("arrivals: give", "give")
            raise ScenarioError(text) from None

    def with_run(self, **changes: Any) -> Scenario:
        """Return the same scenario with another run, e.g. `with_run(replications=2, seed=7)`.

        A new `duration` takes the place of `tasks`, and the other way round; other keys are
        those of `Run`. Raises `ScenarioError`.
        """
        run = self._run_as_given()
        if changes.get("duration") is not None:
            run.pop("tasks", None)
        if changes.get("tasks") is not None:
            run.pop("duration", None)
        return self._with(run={**run, **changes})

    def with_trace(self, path: str | os.PathLike[str]) -> Scenario:
        """Return the scenario with a trace in place of its arrivals and, if given, its service.

        The [trace] table says what the columns mean; `scale` stays, and `path` starts from
        the current folder. Raises `ScenarioError` without such a table.
        """
        columns = self.trace
        if columns is None:
            raise ScenarioError(
                "trace: missing; a [trace] table says what the columns of the file mean, e.g. "
                'time = "TIMESTAMP" and service = "duration"'
            )
        old = self.arrivals
        jitter = columns.jitter
        if jitter is None and isinstance(old, TraceArrivals):
            jitter = old.jitter
        arrivals = _given(
            law="trace", file=os.fspath(path), time=columns.time, end=columns.end,
            dispatcher=columns.dispatcher, sort=columns.sort, scale=old.scale, jitter=jitter,
        )  # fmt: skip
        changes: dict[str, Any] = {"arrivals": arrivals, "run": self._run_as_given()}
        if columns.service is not None:
            key = "column" if isinstance(columns.service, str) else "columns"
            changes["service"] = {"law": "trace", key: columns.service}
        return self._with(**changes)

    def with_recording(self, recording: Recording) -> Scenario:
        """Return the scenario with these tasks in place of those that its trace's file holds.

        For tasks that come from elsewhere, such as an access log, or that were changed; the file
        is then only a name. The copies of a scaled trace are drawn anew.
        """
        scenario = self._with(run=self._run_as_given())
        scenario.__dict__.pop("_scaled", None)
        scenario.__dict__["recording"] = recording
        return scenario

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as a file would hold them: text, numbers, lists and dicts only.

        The tables that files hold are put in, so `from_dict` makes the same scenario of them
        anywhere; a trace alone stays a file, named as it was.
        """
        tables = self.model_dump(mode="json", exclude_none=True)
        if self.messages.law is None:
            del tables["messages"]
        if self.dispatchers == Dispatchers():
            del tables["dispatchers"]
        if not self.servers.queue:
            del tables["servers"]["queue"]
        if isinstance(self.arrivals, Rates):
            tables["arrivals"] = self.arrivals.inlined()
        if isinstance(self.service, Empirical):
            tables["service"] = self.service.inlined()
        return tables

    @classmethod
    def _checked(cls, tables: dict[str, Any], base: Path, source: str = "") -> Scenario:
        try:
            return cls.model_validate(tables, context={"base": base})
        except ValidationError as error:
            raise translate(error, cls, source) from None
        except EquipoiseError as error:
            if not source:
                raise
            raise type(error)(f"{source}: {error}") from None

    def _with(self, **changes: Any) -> Scenario:
        """Return a scenario with some parts replaced; those that stay are not read again."""
        parts = {name: getattr(self, name) for name in type(self).model_fields}
        scenario = self._checked({**parts, **changes}, Path("."))
        for name in ("recording", "_scaled"):
            same_seed = name == "recording" or scenario.run.seed == self.run.seed
            if "arrivals" not in changes and same_seed and name in self.__dict__:
                scenario.__dict__[name] = self.__dict__[name]
        return scenario

    def _run_as_given(self) -> dict[str, Any]:
        run = self.run.model_dump(exclude_unset=True)
        if not self._own_length:
            run.pop("tasks", None)
        return run

    # What follows from it

    @property
    def mean_service(self) -> float:
        """The mean service time (s), of the law or of the trace's tasks."""
        if isinstance(self.service, TraceService):
            assert self.recording.sizes is not None
            return float(self.recording.sizes.mean())
        if isinstance(self.service, SlotService):
            return 1.0  # a task is one unit of work
        return self.service.moments().mean

    @property
    def stationary(self) -> bool:
        """Whether the traffic has the same law at all times."""
        return isinstance(self.arrivals, Poisson | SlotArrivals)

    @property
    def memoryless(self) -> bool:
        """Whether the lengths and the time tell the future: exponential service, Poisson points."""
        return isinstance(self.service, Exponential) and self.flow is not None

    @cached_property
    def flow(self) -> Flow | None:
        """The rate of a Poisson stream over time, exactly, in tasks; None where it is no such."""
        if isinstance(self.arrivals, TraceArrivals | SlotArrivals):
            return None
        return self.arrivals.flow(self._unit_rate)

    @property
    def batch(self) -> Batch | None:
        """How many tasks come at once; None where they come one by one."""
        if isinstance(self.arrivals, TraceArrivals | SlotArrivals):
            return None
        batch = self.arrivals.batch
        return None if batch is None or batch.tasks == 1 else batch

    @property
    def given(self) -> str | None:
        """What all replications share: "traffic", "arrivals" (sizes differ), or None."""
        if not isinstance(self.arrivals, TraceArrivals):
            return None
        return "traffic" if isinstance(self.service, TraceService) else "arrivals"

    @property
    def horizon(self) -> float | None:
        """When the run ends (s), or None where `run.tasks` decides."""
        if self.run.duration is not None:
            return self.run.duration
        if self.run.tasks is not None:
            return None
        return self.traffic_end

    @property
    def traffic_end(self) -> float:
        """When the traffic ends (s); inf for a constant rate."""
        if isinstance(self.arrivals, Poisson | Sinusoid | SlotArrivals):
            return float("inf")
        if isinstance(self.arrivals, Rates):
            return float(self.arrivals.table[0][-1])
        spread = self.arrivals.jitter if self.arrivals.scale > 1 else 0.0
        return self.recording.end + spread

    def rate_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (starts, rates), float64[k] each: tasks/s in force from starts[i] (s) on.

        The rate of a trace is what came in each 1/500 of it, scale included. A rate that changes
        all the time is shown by its means over 1/500 of the run each: for drawing, while `flow`
        is exact. Before the end of the traffic every moment belongs to a row; after it the rate
        is 0.
        """
        if isinstance(self.arrivals, SlotArrivals):
            return np.zeros(1), np.array([self._slot_mean(self.arrivals)])
        flow = self.flow
        if flow is None:
            edges, counts, _ = self.binned
            return edges[:-1].copy(), counts / np.diff(edges)
        if not flow.changes:
            return flow.edges[:-1].copy(), flow.base.copy()
        end = min(self.horizon or np.inf, self.traffic_end)
        if end == np.inf:
            assert self.run.tasks is not None
            end = self.run.tasks / float(flow.base[0])
        edges = np.linspace(0.0, end, BINS + 1)
        return edges[:-1], np.diff(flow.expected(edges)) / np.diff(edges)

    def load_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (starts, loads), float64[k] each: the load offered from starts[i] (s) on.

        Tasks per server for pools, a fraction of what the servers can do for others.
        """
        starts, rates = self.rate_table()
        if isinstance(self.service, TraceService):
            edges, _, work = self.binned
            return starts, work / np.diff(edges) / self.servers.capacity
        return starts, rates * self.mean_service / self.servers.capacity

    def offered_load(self) -> tuple[float, float, float]:
        """Return the mean, the least and the most of the load over the run."""
        if self.flow is not None:
            end = min(self.horizon or np.inf, self.traffic_end)
            mean, least, most = self.flow.spread(end)
            return mean / self._unit_rate, least / self._unit_rate, most / self._unit_rate
        starts, loads = self.load_table()
        end = min(self.horizon or np.inf, self.traffic_end)
        if end == np.inf:
            return (float(loads[0]),) * 3
        inside = starts < end
        starts, loads = starts[inside], loads[inside]
        spans = np.diff(np.append(starts, end))
        return float(loads @ spans / spans.sum()), float(loads.min()), float(loads.max())

    def start_lengths(self) -> np.ndarray:
        """Return the tasks at each server at time 0, int64[count].

        "balanced" is the whole number of tasks nearest to the load offered at time 0, spread
        evenly, the first servers having one more where it does not divide.
        """
        if isinstance(self.run.start, tuple):
            return np.array(self.run.start, dtype=np.int64)
        counts = self.start_counts()
        return np.repeat(np.arange(counts.size)[::-1], counts[::-1])

    def start_counts(self) -> np.ndarray:
        """Return the servers that have 0, 1, .. tasks at time 0, int64[most + 1].

        The same as `start_lengths` in memory that does not depend on how many servers there are.
        """
        if isinstance(self.run.start, tuple):
            return np.bincount(self.run.start).astype(np.int64)
        count, total = self.servers.count, 0
        if self.run.start == "balanced":
            if self.flow is not None:
                load = float(self.flow.rate(np.zeros(1))[0]) / self._unit_rate
            else:
                load = float(self.load_table()[1][0])
            total = round(load * self.servers.capacity)
            if self.servers.limit is not None:
                total = min(total, count * self.servers.limit)
        low, more = divmod(total, count)
        counts = np.zeros(low + 1 + (more > 0), np.int64)
        counts[low] = count - more
        if more:
            counts[low + 1] = more
        return counts

    def task_stream(
        self, arrivals: np.random.SeedSequence, service: np.random.SeedSequence
    ) -> TaskStream:
        """Return the tasks of one replication, from the beginning.

        The streams of `arrivals` and `service` are used where the traffic is drawn and not
        given; the copies of a scaled trace are the same in all replications.
        """
        if isinstance(self.arrivals, TraceArrivals):
            chunks = self._recorded_chunks()
            assert not isinstance(self.service, SlotService)
            if not isinstance(self.service, TraceService):
                recorded = (times for times, _ in chunks)
                return TaskStream(
                    with_sizes(recorded, self.service, np.random.default_rng(service))
                )
            return TaskStream(chunks)
        assert not isinstance(self.service, TraceService | SlotService)
        assert not isinstance(self.arrivals, SlotArrivals)
        flow, batch = self.flow, self.batch
        assert flow is not None
        rng = np.random.default_rng(arrivals)
        if batch is None:
            times = poisson_times(flow, rng)
        else:
            mean = batch.expected
            points = flow._replace(
                base=flow.base / mean, slope=flow.slope / mean, amplitude=flow.amplitude / mean
            )
            some = max(1, int(CHUNK / mean))
            times = in_batches(poisson_times(points, rng, some), batch, rng)
        return TaskStream(with_sizes(times, self.service, np.random.default_rng(service)))

    @cached_property
    def recording(self) -> Recording:
        """The trace as it was recorded, before scale; read once. Raises `TraceError`."""
        assert isinstance(self.arrivals, TraceArrivals)
        return read_trace(
            self.arrivals.path,
            time=self.arrivals.time,
            end=self.arrivals.end,
            service=self.service.seconds if isinstance(self.service, TraceService) else None,
            dispatcher=self.arrivals.dispatcher,
            sort=self.arrivals.sort,
        )

    def task_split(self, seed: np.random.SeedSequence) -> TaskSplit:
        """Return which dispatcher each task of `task_stream` comes to.

        As the trace says, else at random.

        Raises
        ------
        TraceError
            If the trace names a dispatcher that the scenario does not have.
        """
        count, whose = self.dispatchers.count, None
        if isinstance(self.arrivals, TraceArrivals):
            whose = self.recording.dispatchers
        if whose is None:
            return TaskSplit(at_random(count, np.random.default_rng(seed)))
        assert isinstance(self.arrivals, TraceArrivals)
        if whose.max() >= count:
            raise TraceError(
                f"{self.arrivals.path}: a task came to dispatcher {whose.max()}, but the scenario "
                f"has {count}, numbered from 0; say dispatchers = {whose.max() + 1}"
            )
        numbers = Recording(self.recording.times, whose.astype(float))
        chunks = self._copies(numbers)  # in the order in which the tasks themselves come
        return TaskSplit(some.astype(np.int64) for _, some in chunks)

    def _copies(self, recording: Recording) -> Iterable[Tasks]:
        """The recorded tasks, each as often as `scale` says; the same from every call."""
        assert isinstance(self.arrivals, TraceArrivals)
        rng = np.random.default_rng(np.random.SeedSequence([self.run.seed, JITTER]))
        return copied(recording, self.arrivals.scale, self.arrivals.jitter, rng)

    def _recorded_chunks(self) -> Iterable[Tasks]:
        """The tasks of the trace, scale included; kept if they are few."""
        assert isinstance(self.arrivals, TraceArrivals)
        kept: list[Tasks] | None = self.__dict__.get("_scaled")
        if kept is not None:
            return kept
        chunks = self._copies(self.recording)
        if len(self.recording.times) * self.arrivals.scale > KEPT:
            return chunks
        kept = list(chunks)
        self.__dict__["_scaled"] = kept
        return kept

    @cached_property
    def binned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A trace in 500 bins: (edges float64[501] s, tasks float64[500], work float64[500] s)."""
        edges = np.linspace(0.0, self.traffic_end, BINS + 1)
        counts, work = np.zeros(BINS), np.zeros(BINS)
        for times, sizes in self._recorded_chunks():
            counts += np.histogram(times, edges)[0]
            if len(sizes):
                work += np.histogram(times, edges, weights=sizes)[0]
        return edges, counts, work

    @property
    def _unit_rate(self) -> float:
        """Tasks per second at load 1, all servers together."""
        return self.servers.capacity / self.mean_service

    def __repr__(self) -> str:
        return (
            f"Scenario({self.name!r}, {self.servers.count} servers ({self.servers.discipline}), "
            f"{self.arrivals.law} arrivals, {self.service.law} service)"
        )

    __str__ = __repr__


def _given(**values: Any) -> dict[str, Any]:
    """Return what is not None."""
    return {key: value for key, value in values.items() if value is not None}


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
