"""The fluid limit of JSQ(d) on pools: Poisson arrivals at rate n rho, n pools, service of mean 1.

x[k] is the fraction of pools with at least k + 1 tasks. As n grows,

    dx_k/dt = rho (x_{k-1}^d - x_k^d) - (k + 1) (x_k - x_{k+1}),    x_{-1} = 1,

as for single servers (limits/jsq_d.py) but for the rate at which tasks end. It has one rest point,
which every start tends to: the equation is cooperative and fixes the mass (pools/stationary.py).
Source: the drift, Mukherjee, Borst, van Leeuwaarden, Whiting (2016); rest point worked out here.
"""

from __future__ import annotations

import numpy as np

from ...pools.stationary import jsq_d_rest
from ..base import Limit
from .levels import check_levels, cut, drift_of, with_all


def drift(x: np.ndarray, rho: float, d: int = 2) -> np.ndarray:
    """Return dx/dt, shape (levels,), per mean service time. Levels above the last are empty."""
    power = with_all(x) ** d
    return drift_of(x, rho, power[:-1] - power[1:])


def rest_point(rho: float, levels: int = 64, d: int = 2) -> np.ndarray:
    """Return the rest point, shape (levels,); EquipoiseError if rho <= 0, d or levels < 1."""
    return cut(jsq_d_rest(rho, d), check_levels(levels))


LIMIT = Limit("jsq-d", drift, rest_point, "Mukherjee et al. 2016", discipline="pool")
