"""What a fluid limit is: a drift, and a rest point where it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Limit:
    """The limit of one policy as the number of servers grows, per mean service time."""

    policy: str  # its name in POLICIES
    drift: Callable[..., np.ndarray]  # (x, rho, **params) -> dx/dt, float64[levels]
    rest_point: Callable[..., np.ndarray]  # (rho, levels, **params) -> x, float64[levels]
    source: str
