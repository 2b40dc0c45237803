"""Fluid limits, one file each, in `LIMITS` under the name of their policy."""

from __future__ import annotations

from . import jsq_d
from .base import Limit

LIMITS: dict[str, Limit] = {limit.policy: limit for limit in (jsq_d.LIMIT,)}

__all__ = ["LIMITS", "Limit"]
