"""What the limits of pools share: departures, and the way from levels to occupancy and back."""

from __future__ import annotations

import numpy as np

from ....errors import EquipoiseError
from ...pools.states import shares_of


def drift_of(x: np.ndarray, rho: float, chosen: np.ndarray) -> np.ndarray:
    """Return rho p_i - i (q(i) - q(i+1)), float64[levels], p_i = `chosen`[i - 1].

    A pool with i tasks loses one at rate i. Levels above the last are empty.
    """
    i = np.arange(1, len(x) + 1)
    return rho * chosen - i * (x - np.append(x[1:], 0.0))


def with_all(x: np.ndarray) -> np.ndarray:
    """Return q(0..levels): x after the 1 of level 0."""
    return np.concatenate(([1.0], x))


def start_of(x: np.ndarray) -> np.ndarray:
    """Return the shares of pools by level, float64[levels + 1], that x says."""
    return shares_of(with_all(np.asarray(x, dtype=float)))


def cut(occupancy: np.ndarray, levels: int) -> np.ndarray:
    """Return x, float64[..., levels], of q(0..), with empty levels at its end if q has fewer."""
    missing = max(0, levels + 1 - occupancy.shape[-1])
    padded = np.pad(occupancy, [(0, 0)] * (occupancy.ndim - 1) + [(0, missing)])
    return padded[..., 1 : levels + 1]


def check_levels(levels: int) -> int:
    if levels < 1:
        raise EquipoiseError(f"levels = {levels} must be a whole number >= 1")
    return levels
