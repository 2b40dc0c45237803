"""A kernel driven by hand, in stretches: what stands at every server between them.

The package's own results average over time; growth, and laws of the total, want its value at
moments. Here also an arrival rate may be more than the servers can do, which a scenario refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.policies import resolve
from equipoise.policies.alias import make_alias
from equipoise.scenario import Scenario
from equipoise.sim import run as sim_run
from equipoise.sim import tally


class Drive:
    """One replication of a scenario under a policy, standing at a moment."""

    def __init__(
        self,
        scenario: Scenario,
        policy: Any,
        replication: int = 0,
        *,
        kernel: str = "memoryless",
        rate: float | None = None,
    ) -> None:
        self.driver = sim_run.DRIVERS[kernel](scenario, resolve(policy), replication, 0)
        self.slotted = kernel == "slotted"
        if rate is not None and self.slotted:  # tasks per slot
            values, chances = scenario.arrivals.pmf(rate)
            self.driver.tasks = self.driver.tasks._replace(
                arriving=make_alias(chances), tasks=values.astype(np.int64)
            )
        elif rate is not None:  # tasks per second
            assert kernel == "memoryless"
            pieces = self.driver.pieces
            pieces.base[:] = pieces.most[:] = rate * self.driver.unit
        self.driver.compile()

    def to(self, time: float) -> int:
        """Go on to a time (s, slots); return the tasks present then."""
        self.driver.run(float(time), sim_run.ANY)
        return self.total

    def totals(self, start: float, end: float, points: int) -> np.ndarray:
        """Return the tasks present at so many evenly spaced times, int64[points]."""
        return np.array([self.to(t) for t in np.linspace(start, end, points + 1)[1:]])

    @property
    def total(self) -> int:
        return int(self.driver.tally.number[tally.TOTAL])

    @property
    def lengths(self) -> np.ndarray:
        """Tasks at each server, int32[n]."""
        return self.driver.world.length.copy()

    @property
    def area(self) -> float:
        """Tasks present, summed over time since the beginning, tasks s."""
        return float(self.driver.tally.area[1:].sum()) * self.driver.unit

    def take_sums(self) -> np.ndarray:
        """Return the slotted kernel's own sums (slotted.py) and start them anew."""
        return self.driver.extra()


def slotted(speeds, mean: float, jobs: str = "poisson", service: str = "bernoulli", **more):
    """A slotted scenario: servers of these mean services, so many tasks a slot."""
    arrivals = {"law": "slots", "jobs": jobs, "mean": mean}
    if "trials" in more:
        arrivals["trials"] = more.pop("trials")
    return Scenario.from_dict(
        {
            "servers": {"discipline": "slotted", "speeds": list(speeds)},
            "arrivals": arrivals,
            "service": {"law": "slots", "jobs": service} if isinstance(service, str) else service,
            "run": more or {"tasks": 1000},
        }
    )


def queues(speeds, rate: float, **more):
    """Queues of these speeds, Poisson arrivals, exponential service of mean 1 s at speed 1."""
    servers = {"discipline": "fcfs", "speeds": list(speeds)}
    for key in ("workers", "limit"):
        if key in more:
            servers[key] = more.pop(key)
    return Scenario.from_dict(
        {
            "servers": servers,
            "arrivals": {"law": "poisson", "rate": rate},
            "service": {"law": "exponential", "mean": 1.0},
            "run": more or {"tasks": 1000},
        }
    )
