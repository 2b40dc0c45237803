"""The servers: how many, and how they work on their tasks.

    pool   a server works on all its tasks at once, each at full speed
    fcfs   first come, first served: `workers` tasks in service, the others wait
    slotted  time in slots of 1 s (slots.py): speed is the mean number finished in a slot

Servers may differ in speed: `groups` of so many of one speed, or `speeds`, one for each. A server
of speed 2 does the work of two of speed 1; the times of `service` are those at speed 1.
With a `limit`, a task sent to a server that has that many already is lost.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise.scenario.base import Number, Part, Whole
from equipoise.scenario.mistakes import mistake

Speed = Annotated[Number, Field(gt=0)]


class Group(Part):
    """`count` servers of one speed."""

    count: Annotated[Whole, Field(ge=1)]
    speed: Speed


class Servers(Part):
    """The servers, all of one discipline; give `count`, `groups` or `speeds`."""

    count: Annotated[Whole, Field(ge=1)]
    groups: tuple[Group, ...] | None = None  # not together with speeds
    speeds: tuple[Speed, ...] | None = None
    discipline: Literal["pool", "fcfs", "slotted"]
    workers: Annotated[Whole, Field(ge=1)] = 1  # tasks in service at once; fcfs only
    limit: Annotated[Whole, Field(ge=1)] | None = None  # most tasks at a server; None: no limit

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, tables: Any) -> Any:
        """Count the servers of groups or speeds, so that nobody has to say it twice."""
        if not isinstance(tables, dict) or "count" in tables:
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
                'only servers of discipline "fcfs" have workers; a pool works on all its tasks',
                "workers",
            )
        if self.discipline == "fcfs" and self.limit is not None and self.limit < self.workers:
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
        """Work done per second at most, in seconds of service at speed 1; of pools, per task."""
        each = float(self.count) if self.identical else float(self.speed_of.sum())
        return each * self.workers
