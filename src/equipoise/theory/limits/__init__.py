"""Fluid limits, one file each, under the name of their policy.

`LIMITS` are those of servers that work on one task at a time, `POOL_LIMITS` those of pools, which
work on all their tasks at once. `rho` is the load: a fraction of capacity, or tasks per pool.
"""

from __future__ import annotations

from . import jsq_d, pools
from .base import Limit

LIMITS: dict[str, Limit] = {limit.policy: limit for limit in (jsq_d.LIMIT,)}
POOL_LIMITS: dict[str, Limit] = {
    limit.policy: limit
    for limit in (pools.random.LIMIT, pools.jsq.LIMIT, pools.jsq_d.LIMIT, pools.threshold.LIMIT)
}

__all__ = ["LIMITS", "POOL_LIMITS", "Limit"]
