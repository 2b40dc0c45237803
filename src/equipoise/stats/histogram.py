"""Counts of times in buckets of equal ratio: quantiles of any number of waits in bounded memory.

The bucket of a time is read off the bits of its double: 64 buckets an octave, 1.6 % wide at the
most, no logarithm. Exact zeros (tasks that did not wait) have a bucket of their own. In the
unit of the caller the buckets reach from 2^-30 to 2^34; what lies outside goes to the ends.
"""

from __future__ import annotations

import numpy as np

from ..compile import bits_of

LOWEST, HIGHEST, PER_OCTAVE = -30, 34, 64
_SHIFT = 52 - 6
_OFFSET = (1023 + LOWEST) * PER_OCTAVE
BUCKETS = (HIGHEST - LOWEST) * PER_OCTAVE + 1  # one more for zero


def bucket(value: float) -> int:
    """Return the bucket of a time >= 0, from 0 (exactly zero, or less) to BUCKETS - 1."""
    if value <= 0.0:
        return 0
    index = (bits_of(value) >> _SHIFT) - _OFFSET + 1
    return max(1, min(index, BUCKETS - 1))


def edges() -> np.ndarray:
    """Return the boundaries, float64[BUCKETS + 1]: bucket i holds [edges[i], edges[i + 1])."""
    inner = np.arange((HIGHEST - LOWEST) * PER_OCTAVE + 1)
    octave, part = np.divmod(inner, PER_OCTAVE)
    return np.concatenate(([0.0], (1 + part / PER_OCTAVE) * 2.0 ** (octave + LOWEST)))
