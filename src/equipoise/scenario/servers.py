"""The servers: how many, and how they work on their tasks.

    pool   a server works on all its tasks at once, each at full speed
    fcfs   first come, first served: `workers` tasks in service, the others wait

With a `limit`, a task sent to a server that has that many already is lost.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from equipoise.scenario.base import Part, Whole
from equipoise.scenario.mistakes import mistake


class Servers(Part):
    """`count` identical servers of one discipline."""

    count: Annotated[Whole, Field(ge=1)]
    discipline: Literal["pool", "fcfs"]
    workers: Annotated[Whole, Field(ge=1)] = 1  # tasks in service at once; fcfs only
    limit: Annotated[Whole, Field(ge=1)] | None = None  # most tasks at a server; None: no limit

    @model_validator(mode="after")
    def _fits(self) -> Servers:
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

    @property
    def capacity(self) -> int:
        """Work done per second at most, in seconds of service; for pools, the servers counted."""
        return self.count * self.workers
