"""Arrays that kernels fill and that grow outside: why a kernel came back, and how to make room."""

from __future__ import annotations

import numpy as np

# What a kernel returns: it did what it was asked, or what it needs before it can go on.
REACHED, NEEDS_LEVELS, NEEDS_SLOTS, NEEDS_NODES, NEEDS_TASKS, NO_SUCH_SERVER, NEEDS_MAIL = range(7)
NOBODY = -1  # the end of a list of tasks


def longer(array: np.ndarray, size: int, fill: float) -> np.ndarray:
    """Return a copy of `array` with room for `size` entries, the new ones equal to `fill`."""
    more = np.full(size, fill, array.dtype)
    more[: array.size] = array
    return more
