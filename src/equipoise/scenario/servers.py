"""The servers: how many, and how they work on their tasks.

    pool   a server works on all its tasks at once, each at full speed
    fcfs   first come, first served: `workers` tasks in service, the others wait
    ps     processor sharing: all tasks in service share the server equally; with `workers`, at
           most so many share and the others wait (limited processor sharing, as model servers
           do); with `curve`, the server's speed depends on how many share it
    slotted  time in slots of 1 s (slots.py): speed is the mean number finished in a slot

Servers may differ in speed: `groups` of so many of one speed, or `speeds`, one for each. A server
of speed 2 does the work of two of speed 1; the times of `service` are those at speed 1.
In general r(k), the work done per second by a server of speed 1 with k tasks, is k for a pool,
min(k, workers) for fcfs, and for ps curve[min(k, workers)], or 1 without a curve.

With a `limit`, a task sent to a server that has that many already is lost; with `queue` too, up
to that many such tasks wait at the dispatcher, in order, and are sent anew after a departure.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise.scenario.base import Number, Part, Whole
from equipoise.scenario.mistakes import mistake

Speed = Annotated[Number, Field(gt=0)]
ALL_AT_ONCE = 2**31 - 1  # workers of a pool


class Group(Part):
    """`count` servers of one speed."""

    count: Annotated[Whole, Field(ge=1)]
    speed: Speed


class Servers(Part):
    """The servers, all of one discipline; give `count`, `groups` or `speeds`."""

    count: Annotated[Whole, Field(ge=1)]
    groups: tuple[Group, ...] | None = None  # not together with speeds
    speeds: tuple[Speed, ...] | None = None
    discipline: Literal["pool", "fcfs", "ps", "slotted"]
    # most tasks in service at once; 1 for fcfs if not given, no bound for ps
    workers: Annotated[Whole, Field(ge=1)] | None = None
    curve: Annotated[tuple[Speed, ...], Field(min_length=1)] | None = None  # ps only, see above
    limit: Annotated[Whole, Field(ge=1)] | None = None  # most tasks at a server; None: no limit
    queue: Annotated[Whole, Field(ge=0)] = 0  # most tasks waiting at the dispatcher

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, tables: Any) -> Any:
        """Count the servers of groups or speeds, so that nobody has to say it twice."""
        if not isinstance(tables, dict):
            return tables
        if tables.get("workers") is None and tables.get("discipline") != "ps":
            tables = {**tables, "workers": 1}
        if "count" in tables:
            return tables
        groups, speeds = tables.get("groups"), tables.get("speeds")
        if isinstance(speeds, list | tuple) and speeds:
            return {**tables, "count": len(speeds)}
        if isinstance(groups, list | tuple) and groups:
            counts = [
                group.get("count") if isinstance(group, dict) else getattr(group, "count", None)
                for group in groups
            ]
            if all(isinstance(count, int) and count > 0 for count in counts):
                return {**tables, "count": sum(counts)}
            return {**tables, "count": 1}  # the mistake is in a group, and is said there
        return tables

    @model_validator(mode="after")
    def _fits(self) -> Servers:
        if self.groups is not None and self.speeds is not None:
            raise mistake("groups is given too; give one of them", "speeds")
        listed = self.count if self.identical else len(self.speed_of)
        if listed != self.count:
            which = "speeds" if self.speeds is not None else "groups"
            raise mistake(f"{self.count}, but {which} make {listed} servers; leave it out", "count")
        if self.discipline == "pool" and self.workers != 1:
            raise mistake(
                'only servers of discipline "fcfs" or "ps" have workers; a pool works on all its '
                "tasks",
                "workers",
            )
        if self.curve is not None and self.discipline != "ps":
            raise mistake(
                'only servers of discipline "ps" have a speed curve; set discipline = "ps" or '
                "remove it",
                "curve",
            )
        if self.queue and self.limit is None:
            raise mistake(
                "only tasks that find their server full wait at the dispatcher; give limit, the "
                "most tasks at a server, too",
                "queue",
            )
        if self.workers and self.limit is not None and self.limit < self.workers:
            raise mistake(
                f"{self.limit} leaves some of the {self.workers} workers idle for ever; "
                f"it must be at least {self.workers}",
                "limit",
            )
        return self

    @cached_property
    def speed_of(self) -> np.ndarray:
        """The speed of each server, float64[count]; 1 where nothing is said."""
        if self.speeds is not None:
            return np.array(self.speeds)
        if self.groups is not None:
            return np.repeat([g.speed for g in self.groups], [g.count for g in self.groups])
        return np.ones(self.count)

    @property
    def identical(self) -> bool:
        """Whether all servers have speed 1."""
        return self.groups is None and self.speeds is None

    @property
    def capacity(self) -> float:
        """Work done per second with many tasks, in seconds of service at speed 1.

        Of pools, per task: they do more the more they have.
        """
        speeds = float(self.count) if self.identical else float(self.speed_of.sum())
        return speeds * self.full_speed

    @property
    def at_once(self) -> int:
        """Most tasks in service at a server at once; 2^31 - 1 where there is no bound."""
        if self.discipline == "pool" or self.workers is None:
            return ALL_AT_ONCE
        return self.workers

    @property
    def full_speed(self) -> float:
        """What r(k) is for large k, of a server of speed 1; of a pool, per task."""
        if self.discipline == "ps":
            if self.curve is None:
                return 1.0
            return self.curve[min(self.at_once, len(self.curve)) - 1]
        return float(self.workers or 1)

    def speed_curve(self, most: int) -> np.ndarray:
        """Return r(0), ..., r(most) of a server of speed 1, float64[most + 1]; r(0) = 0."""
        k = np.arange(most + 1)
        serving = np.minimum(k, self.at_once)
        if self.discipline != "ps":
            return serving.astype(float)
        curve = np.array((0.0, *(self.curve or (1.0,))))
        return curve[np.minimum(serving, curve.size - 1)]
