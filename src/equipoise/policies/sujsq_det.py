"""JSQ on sparse feedback, synchronous and regular: all servers tell their lengths every 1/delta.

The estimates, their invariant and the cost are those of estimates.py. Between two updates the least
estimate rises like water: a server whose length was below it gets exactly one task per level. As
delta -> 0 the mean wait tends to a constant, a little more than that of round robin.
Source: van der Boor et al. (2019), section 4.
"""

from __future__ import annotations

from .base import Clock
from .estimates import on_estimates, with_params
from .spec import PolicySpec

POLICY = on_estimates(
    "sujsq-det",
    Clock(together=True, regular=True),
    "all servers tell their lengths together, every 1/delta",
)


def SujsqDet(delta: float = 1.0, idle_only: bool = False, mode: str = "pull") -> PolicySpec:
    """JSQ on estimates; all servers tell their lengths every 1/`delta` mean service times."""
    return with_params(POLICY, delta, idle_only, mode)
