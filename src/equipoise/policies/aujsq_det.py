"""JSQ on sparse feedback, asynchronous and regular: each server tells its length every 1/delta.

The estimates, their invariant and the cost are those of estimates.py; the servers' moments are
spread. News come in all the time, so nobody waits in large fleets if delta (1 - exp(-1/delta)) >=
load, a smaller delta than the other schemes need; but as delta -> 0 the mean wait grows without
bound, like load/(2 delta).
Source: van der Boor et al. (2019), who name the scheme; its limit is derived.
"""

from __future__ import annotations

from .base import Clock
from .estimates import on_estimates, with_params
from .spec import PolicySpec

POLICY = on_estimates(
    "aujsq-det",
    Clock(together=False, regular=True),
    "each server tells its length every 1/delta, in turn",
)


def AujsqDet(delta: float = 1.0, idle_only: bool = False, mode: str = "pull") -> PolicySpec:
    """JSQ on estimates; each server tells its length `delta` times a mean service time, in turn."""
    return with_params(POLICY, delta, idle_only, mode)
