"""The fluid limit of JSQ(d): n servers at rate 1, Poisson arrivals at rate n rho.

x[k] is the fraction of servers with at least k + 1 tasks. As n grows,

    dx_k/dt = rho (x_{k-1}^d - x_k^d) - (x_k - x_{k+1}),    x_{-1} = 1,

an arrival raising level k when all d samples have >= k tasks and not all have more than k. At rest

    x_k = rho^((d^(k+1) - 1) / (d - 1)),

so the fraction of long queues falls doubly exponentially once d >= 2. Sampling with or without
replacement has the same limit; finite systems are off by O(1/n).
Source: Vvedenskaya, Dobrushin, Karpelevich (1996); Mitzenmacher (2001), IEEE TPDS 12(10).
"""

from __future__ import annotations

import numpy as np

from ...errors import EquipoiseError, UnstableError
from .base import Limit


def drift(x: np.ndarray, rho: float, d: int = 2) -> np.ndarray:
    """Return dx/dt, shape (levels,), per mean service time. Levels above the last are empty."""
    below = np.concatenate(([1.0], x[:-1]))
    above = np.concatenate((x[1:], [0.0]))
    return rho * (below**d - x**d) - (x - above)


def rest_point(rho: float, levels: int = 64, d: int = 2) -> np.ndarray:
    """Return the only rest point, shape (levels,): x[k] servers with at least k + 1 tasks.

    Raises
    ------
    UnstableError
        If rho >= 1.
    EquipoiseError
        If rho < 0, levels < 1 or d < 1.
    """
    _check(rho, d)
    if levels < 1:
        raise EquipoiseError(f"levels = {levels} must be a whole number >= 1")
    k = np.arange(1, levels + 1, dtype=float)
    with np.errstate(over="ignore"):  # d^k beyond the largest double: the level is empty
        exponent = k if d == 1 else (float(d) ** k - 1) / (d - 1)
    return np.power(float(rho), exponent)


def mean_tasks(rho: float, d: int = 2) -> float:
    """Return the mean number of tasks per server at rest; raises as `rest_point`."""
    _check(rho, d)
    if d == 1:
        return rho / (1 - rho)
    return float(rest_point(rho, 1024, d).sum())


def mean_wait(rho: float, d: int = 2) -> float:
    """Return the mean wait at rest, in mean service times (Little's law); 0 < rho < 1."""
    if rho == 0:
        return 0.0
    return mean_tasks(rho, d) / rho - 1


def _check(rho: float, d: int) -> None:
    if not rho >= 0:
        raise EquipoiseError(f"rho = {rho} must be a number >= 0")
    if rho >= 1:
        raise UnstableError(f"rho = {rho} >= 1: work arrives faster than the servers can do it")
    if d < 1:
        raise EquipoiseError(f"d = {d} must be a whole number >= 1")


LIMIT = Limit("jsq-d", drift, rest_point, "Vvedenskaya et al. 1996; Mitzenmacher 2001")
