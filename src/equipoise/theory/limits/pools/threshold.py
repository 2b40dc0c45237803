"""The fluid limit of the threshold policy on pools, l = level, h = l + step.

x[k] is the fraction of pools with at least k + 1 tasks, q(0) = 1, q(i) = x[i - 1]. As n grows,

    dq(i)/dt = rho p_i - i (q(i) - q(i+1)),

    q(l) < 1             p_i = (q(i-1) - q(i)) / (1 - q(l)),  i <= l
    q(l) = 1, q(h) < 1   p_l = min(1, l (1 - q(l+1)) / rho),
                         p_i = (1 - p_l) (q(i-1) - q(i)) / (1 - q(h)),  l < i <= h
    q(h) = 1             p_h = min(1, h (1 - q(h+1)) / rho),
                         p_i = (1 - p_h) (q(i-1) - q(i)),  i > h

and all other p_i = 0. It jumps where q(l) or q(h) reaches 1, so it is not for an ordinary solver:
`path` is pools/fluid.py.
Source: Goldsztajn et al. 2022, section 3, eq. (2); steps beyond 1: Goldsztajn et al. 2025.
"""

from __future__ import annotations

import numpy as np

from ...pools import fluid
from ...pools.stationary import rest_point as resting
from ..base import Limit
from .levels import check_levels, cut, drift_of, start_of, with_all


def drift(x: np.ndarray, rho: float, level: int, step: int = 1) -> np.ndarray:
    """Return dx/dt, shape (levels,), per mean service time; all of x is exact, 1 means 1.

    There must be at least level + step levels.
    """
    q, h = np.append(with_all(x), 0.0), level + step
    share = q[:-2] - q[1:-1]  # at i - 1, for i = 1, 2, ...
    chosen = np.zeros(len(x))
    if q[level] < 1:
        chosen[:level] = share[:level] / (1 - q[level])
        return drift_of(x, rho, chosen)
    full, ceiling = (level, h) if q[h] < 1 else (h, len(x))
    back = min(1.0, full * (1 - q[full + 1]) / rho)
    chosen[full:ceiling] = (1 - back) * share[full:ceiling] / (1 - q[h] if q[h] < 1 else 1.0)
    if full:
        chosen[full - 1] = back
    return drift_of(x, rho, chosen)


def rest_point(rho: float, levels: int = 64, level: int = 1, step: int = 1) -> np.ndarray:
    """Return the rest point, shape (levels,): a cut Poisson law, see pools/stationary.py."""
    return cut(resting(rho, level, step).occupancy, check_levels(levels))


def path(start: np.ndarray, times: np.ndarray, rho: float, level: int, step: int = 1) -> np.ndarray:
    """Return the trajectory, shape (times, levels): see pools/fluid.py."""
    return cut(fluid.threshold(rho, times, level, step, start_of(start)).occupancy, len(start))


LIMIT = Limit(
    "threshold", drift, rest_point, "Goldsztajn et al. 2022", discipline="pool", path=path
)
