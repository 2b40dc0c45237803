"""The fluid limit of sending at random to pools: every pool is a queue M/M/inf of its own.

x[k] is the fraction of pools with at least k + 1 tasks:

    dx_k/dt = rho (x_{k-1} - x_k) - (k + 1) (x_k - x_{k+1}),    x_{-1} = 1,

at rest P(Poisson(rho) > k), for any number of pools and any service of mean 1.
"""

from __future__ import annotations

import numpy as np

from ...pools.stationary import random_rest
from ..base import Limit
from . import jsq_d
from .levels import check_levels, cut


def drift(x: np.ndarray, rho: float) -> np.ndarray:
    """Return dx/dt, shape (levels,), per mean service time. Levels above the last are empty."""
    return jsq_d.drift(x, rho, 1)


def rest_point(rho: float, levels: int = 64) -> np.ndarray:
    """Return the tails of Poisson(rho), shape (levels,); raises EquipoiseError if rho <= 0."""
    return cut(random_rest(rho), check_levels(levels))


LIMIT = Limit("random", drift, rest_point, "Erlang 1917 (M/M/inf)", discipline="pool")
