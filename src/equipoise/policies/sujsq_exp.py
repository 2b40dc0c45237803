"""JSQ on sparse feedback, synchronous: all servers tell their lengths at exponential gaps.

The estimates, their invariant and the cost are those of estimates.py; the gaps have mean 1/delta.
Long gaps cost more than short ones save: tasks wait longer than under sujsq-det at the same cost.
Source: van der Boor et al. (2019), section 4.
"""

from __future__ import annotations

from .base import Clock
from .estimates import on_estimates, with_params
from .spec import PolicySpec

POLICY = on_estimates(
    "sujsq-exp",
    Clock(together=True, regular=False),
    "all servers tell their lengths together, at exponential gaps",
)


def SujsqExp(delta: float = 1.0, idle_only: bool = False, mode: str = "pull") -> PolicySpec:
    """JSQ on estimates; all servers tell their lengths together, at rate `delta`."""
    return with_params(POLICY, delta, idle_only, mode)
