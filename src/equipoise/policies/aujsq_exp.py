"""JSQ on sparse feedback, asynchronous: each server tells its length at its own exponential gaps.

The estimates, their invariant and the cost are those of estimates.py; the gaps have mean 1/delta.
As delta -> 0 the mean wait grows without bound, like (-log(1 - load) - load)/(load delta).
Source: van der Boor et al. (2019), section 5.
"""

from __future__ import annotations

from .base import Clock
from .estimates import on_estimates, with_params
from .spec import PolicySpec

POLICY = on_estimates(
    "aujsq-exp",
    Clock(together=False, regular=False),
    "each server tells its length at its own exponential gaps",
)


def AujsqExp(delta: float = 1.0, idle_only: bool = False, mode: str = "pull") -> PolicySpec:
    """JSQ on estimates; each server tells its length at rate `delta` per mean service time."""
    return with_params(POLICY, delta, idle_only, mode)
