"""The fluid limit of JSQ on pools: tasks go to the lowest level there is.

x[k] is the fraction of pools with at least k + 1 tasks, q(0) = 1, q(i) = x[i - 1]. With m the
highest level that all pools have reached, q(m) = 1 > q(m + 1), as n grows

    dq(i)/dt = rho p_i - i (q(i) - q(i+1)),
    p_m = min(1, m (1 - q(m+1)) / rho),    p_{m+1} = 1 - p_m,    all others 0:

tasks that end at level m are made good first. At rest it is the balanced state: all pools have
floor(rho), and rho - floor(rho) of them one more. The threshold policy with l = floor(rho) does the
same for two bits per pool.
Source: Mukherjee et al. (2016); Goldsztajn et al. 2022, section 3.
"""

from __future__ import annotations

import numpy as np

from ...pools import fluid
from ...pools.states import balanced, check_load
from ..base import Limit
from .levels import check_levels, cut, drift_of, start_of, with_all


def drift(x: np.ndarray, rho: float) -> np.ndarray:
    """Return dx/dt, shape (levels,), per mean service time; all of x is exact, 1 means 1."""
    q = np.append(with_all(x), 0.0)
    m = int(np.flatnonzero(q >= 1)[-1])
    chosen = np.zeros(len(x) + 1)
    back = min(1.0, m * (1 - q[m + 1]) / rho)
    if m:
        chosen[m - 1] = back
    chosen[m] = 1 - back
    return drift_of(x, rho, chosen[:-1])


def rest_point(rho: float, levels: int = 64) -> np.ndarray:
    """Return the balanced state, shape (levels,); raises EquipoiseError if rho <= 0."""
    return cut(balanced(check_load(rho)), check_levels(levels))


def path(start: np.ndarray, times: np.ndarray, rho: float) -> np.ndarray:
    """Return the trajectory, shape (times, levels): see pools/fluid.py."""
    return cut(fluid.jsq(rho, times, start_of(start)).occupancy, len(start))


LIMIT = Limit("jsq", drift, rest_point, "Mukherjee et al. 2016", discipline="pool", path=path)
