"""How pools are filled: shares x, occupancy q, the balanced state; and what is refused.

    x[j]  fraction of pools with exactly j tasks, j = 0..B           sum x = 1
    q[i]  fraction of pools with at least i tasks, i = 0..B          q[0] = 1, x[j] = q[j] - q[j+1]
    u     tasks per pool = sum_{i>=1} q[i] = sum_j j x[j]

All pools work at rate 1 on every task they have: a pool with j tasks loses one at rate j. Time is
in mean service times, `load` (lam) in tasks offered per pool.
Source: Goldsztajn et al. 2022, section 2.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import EquipoiseError, PolicyError


def occupancy_of(shares: np.ndarray) -> np.ndarray:
    """Return q, float64[..., levels], from the shares x, float64[..., levels]."""
    return np.cumsum(shares[..., ::-1], axis=-1)[..., ::-1]


def shares_of(occupancy: np.ndarray) -> np.ndarray:
    """Return x, float64[..., levels], from the occupancy q, float64[..., levels]."""
    above = np.concatenate((occupancy[..., 1:], np.zeros_like(occupancy[..., :1])), axis=-1)
    return occupancy - above


def mean_tasks(occupancy: np.ndarray) -> Any:
    """Return u, tasks per pool, from the occupancy q, float64[..., levels]."""
    return occupancy[..., 1:].sum(axis=-1)


def balanced(load: float, levels: int | None = None) -> np.ndarray:
    """Return the balanced occupancy q* of `load` tasks per pool, float64[levels].

    q*[i] = 1 up to floor(load), load - floor(load) one above, 0 beyond: eq. (1) of Goldsztajn et
    al. 2022. With a load that varies, q*(rho(t)) at the offered load rho(t). `levels` counts level
    0 and must leave room for the load; by default floor(load) + 2.
    """
    if not (math.isfinite(load) and load >= 0):
        raise EquipoiseError(f"load = {load} must be a number >= 0, in tasks per pool")
    least = math.ceil(load) + 1
    levels = math.floor(load) + 2 if levels is None else levels
    if levels < least:
        raise EquipoiseError(f"levels = {levels} cannot hold load = {load:g}; use {least} or more")
    return np.clip(load + 1 - np.arange(levels), 0.0, 1.0)


def distance(occupancy: np.ndarray, load: Any) -> np.ndarray:
    """Return the Euclidean distance of q from q*(load), float64[...].

    `occupancy` is float64[..., levels], `load` a number or float64[...], in tasks per pool. Levels
    beyond the last count as empty in q, not in q*.
    """
    load = np.asarray(load, dtype=float)
    levels = max(occupancy.shape[-1], math.ceil(load.max(initial=0.0)) + 2)
    ideal = np.clip(load[..., None] + 1 - np.arange(levels), 0.0, 1.0)
    short = levels - occupancy.shape[-1]
    widths = [(0, 0)] * (occupancy.ndim - 1) + [(0, short)]
    return np.sqrt(((np.pad(occupancy, widths) - ideal) ** 2).sum(axis=-1))


def shares_from(start: Any) -> np.ndarray:
    """Return the shares x, float64[highest level + 1], of a start.

    `start` is one of
        "empty"         nobody has a task
        a number        as many tasks per pool, balanced: 9 is 9 at every pool, 2.5 is 2 or 3
        {9: 0.25, ...}  the fraction of pools by the tasks they have; fractions add to 1
        float64[levels] the shares x themselves

    Raises
    ------
    EquipoiseError
        If it is none of these, or fractions are negative or do not add to 1 within 1e-9.
    """
    if isinstance(start, str):
        if start != "empty":
            raise EquipoiseError(f"start = '{start}' must be 'empty', a number or shares by level")
        return np.ones(1)
    if isinstance(start, Mapping):
        levels = [whole(level, "a level of the start", 0) for level in start]
        shares = np.zeros(max(levels, default=0) + 1)
        for level, part in zip(levels, start.values(), strict=True):
            shares[level] += float(part)
    elif np.ndim(start) == 0:
        shares = shares_of(balanced(float(start)))
    else:
        shares = np.asarray(start, dtype=float)
    if shares.ndim != 1 or not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise EquipoiseError("start: the fractions of pools by level must be numbers >= 0")
    if abs(shares.sum() - 1) > 1e-9:
        raise EquipoiseError(
            f"start: the fractions of pools add to {shares.sum():.9g}; they must add to 1"
        )
    return shares / shares.sum()


def whole(value: Any, name: str, least: int) -> int:
    """Return `value` as an int, or say that `name` must be a whole number >= `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = int(value) if isinstance(value, float) and value.is_integer() else least - 1
    if number < least:
        raise EquipoiseError(f"{name} = {value} must be a whole number >= {least}")
    return number


def check_load(load: float) -> float:
    """Return `load`, tasks per pool, > 0 and finite."""
    if not (math.isfinite(load) and load > 0):
        raise EquipoiseError(
            f"load = {load:g} must be a number > 0, in tasks per pool; without tasks there is "
            "nothing to balance"
        )
    return float(load)


def check_level(level: Any, step: Any = 1, limit: int | None = None) -> tuple[int, int]:
    """Return (level, step), whole, both within what a pool can hold.

    A threshold above the pool's `limit` never fills, and a pool can be full below l + step.
    """
    level, step = whole(level, "level", 0), whole(step, "step", 1)
    if limit is not None and level > whole(limit, "limit", 1):
        raise PolicyError(
            f"level = {level} is above limit = {limit}: no pool can ever reach the threshold; use "
            f"a level of at most {limit}"
        )
    return level, step


def check_alpha(alpha: float, servers: int | None = None) -> float:
    """Return `alpha`, strictly between 0 and 1, and below 1 - 1/n if `servers` = n is known."""
    if not 0 < alpha < 1:
        raise PolicyError(
            f"alpha = {alpha:g} must be between 0 and 1, both excluded: the threshold goes down "
            "when at most this fraction of the pools has reached it"
        )
    if servers is None:
        return float(alpha)
    if whole(servers, "servers", 1) < 2:
        raise PolicyError("one server leaves nothing to balance or learn; use 2 or more")
    most = 1 - 1 / servers
    if alpha >= most:
        raise PolicyError(
            f"alpha = {alpha:.4g} >= 1 - 1/n = {most:.4g} for {servers} servers: an increase would "
            "be undone at once; use a smaller alpha"
        )
    return float(alpha)
