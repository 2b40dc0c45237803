"""Draw i with probability proportional to weight[i], in O(1): the alias method.

Every place i keeps a weight below the mean and fills up with one alias; a draw picks a place and
then one of its two. Source: Walker (1977); Vose (1991), IEEE Trans. Softw. Eng. 17(9).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import kernel
from ..rng import TWO_53, word

U = np.uintp


class Alias(NamedTuple):
    """A law on 0 .. n - 1."""

    keep: np.ndarray  # float64[n], probability that place i gives i
    other: np.ndarray  # int32[n], what it gives else


NO_ALIAS = Alias(np.zeros(0), np.zeros(0, np.int32))


def make_alias(weights: np.ndarray) -> Alias:
    """Return the law proportional to `weights`, float64[n], each >= 0, not all 0."""
    scaled = np.asarray(weights, float) * (len(weights) / np.sum(weights))
    keep, other = np.ones(len(weights)), np.arange(len(weights), dtype=np.int32)
    _filler()(scaled, keep, other, np.empty(len(weights), np.int64))
    return Alias(keep, other)


@cache
def _filler() -> Any:
    return kernel(_fill)


def _fill(scaled, keep, other, stack):
    """Vose's two stacks, the small ones from the left of one array, the large from the right."""
    n = scaled.size
    small, large = 0, n
    for i in range(n):
        if scaled[i] < 1.0:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < n:
        small -= 1
        i, j = stack[small], stack[large]
        keep[i], other[i] = scaled[i], j
        scaled[j] -= 1.0 - scaled[i]
        if scaled[j] < 1.0:
            large += 1
            stack[small] = j
            small += 1


def draw_alias(alias, rng):
    """Return an index drawn from the law: one word of the generator for place and coin."""
    place = word(rng)[0] * TWO_53 * alias.keep.size
    i = int(place)
    return i if place - i < alias.keep[U(i)] else np.int64(alias.other[U(i)])
