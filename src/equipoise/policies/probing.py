"""Drawing the servers to ask: distinct ones uniformly, or in proportion to speed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below, uniform
from .alias import NO_ALIAS, Alias, draw_alias, make_alias

U = np.uintp


class Probing(NamedTuple):
    """How d servers are drawn, one after the other."""

    d: int
    replacement: bool  # whether a server may be drawn twice
    shuffle: bool  # distinct and uniform, more than half of the fleet: a shuffle, no redraws
    by_speed: bool
    scan: bool  # distinct and by speed, more than half: go through the fleet, no redraws
    drawn: np.ndarray  # int64[d], the servers drawn so far; all n servers where they are shuffled
    alias: Alias  # the law in proportion to speed; empty where uniform
    weight: np.ndarray  # float64[n], speeds; empty where not scanned


def make_probing(speeds: np.ndarray, d: int, replacement: bool, by_speed: bool) -> Probing:
    """Return how `d` of the servers with these speeds, float64[n], are drawn."""
    n = len(speeds)
    if not replacement:
        d = min(d, n)
    most = not replacement and 2 * d > n
    shuffle, scan = most and not by_speed, most and by_speed
    drawn = np.arange(0 if replacement else n if shuffle else d, dtype=np.int64)
    alias = make_alias(speeds) if by_speed else NO_ALIAS
    weight = np.array(speeds, float) if scan else np.zeros(0)
    return Probing(d, replacement, shuffle, by_speed, scan, drawn, alias, weight)


def draw_server(probing, size, rng, i):
    """Return the i-th server to ask, i = 0 .. d - 1; distinct from those before if it must be."""
    drawn = probing.drawn
    if probing.shuffle:
        j = i + below(rng, size - i)
        server = drawn[U(j)]
        drawn[U(j)] = drawn[U(i)]
        drawn[U(i)] = server
        return server
    if probing.scan:
        server = draw_rest(probing, size, rng, i)
        drawn[U(i)] = server
        return server
    while True:
        server = draw_alias(probing.alias, rng) if probing.by_speed else below(rng, size)
        if probing.replacement:
            return server
        if is_fresh(drawn, server, i):
            drawn[U(i)] = server
            return server


def is_fresh(drawn, server, i):
    """Whether a server is not among the first i drawn."""
    for j in range(i):  # noqa: SIM110  (a generator would not compile)
        if drawn[U(j)] == server:
            return False
    return True


def draw_rest(probing, size, rng, i):
    """Return a server not drawn yet, in proportion to speed among those that are left."""
    left = 0.0
    for server in range(size):
        if is_fresh(probing.drawn, server, i):
            left += probing.weight[U(server)]
    target, last = uniform(rng) * left, 0
    for server in range(size):
        if is_fresh(probing.drawn, server, i):
            last = server
            target -= probing.weight[U(server)]
            if target < 0.0:
                break
    return last
