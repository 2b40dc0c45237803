"""What a fluid limit is: a drift, a way to follow it, and a rest point where it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ode import trajectory


@dataclass(frozen=True)
class Limit:
    """The limit of one policy as the number of servers grows, per mean service time."""

    policy: str  # its name in POLICIES
    drift: Callable[..., np.ndarray]  # (x, rho, **params) -> dx/dt, float64[levels]
    rest_point: Callable[..., np.ndarray]  # (rho, levels, **params) -> x, float64[levels]
    source: str
    discipline: str = "fcfs"  # what a server is: "fcfs", one task at a time, or "pool", all at once
    # (start, times, rho, **params) -> x, float64[k, levels]: where the drift jumps, its own way
    path: Callable[..., np.ndarray] | None = None

    def follow(self, start: np.ndarray, times: np.ndarray, rho: float, **params: Any) -> np.ndarray:
        """Return the trajectory from x(0) = `start` at ascending `times`, float64[k, levels]."""
        if self.path is not None:
            return self.path(start, times, rho, **params)
        return trajectory(lambda x: self.drift(x, rho, **params), start, times)
