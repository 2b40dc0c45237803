"""Drawing the servers to ask: distinct ones uniformly, or in proportion to speed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below, uniform
from .alias import NO_ALIAS, Alias, draw_alias, make_alias
from .base import Param

U = np.uintp
PARAMS = {
    "d": Param(2, int, "servers asked per task", least=1, shown=True),
    "replacement": Param(False, bool, "whether one server may be drawn twice"),
    "sampling": Param("uniform", str, "how they are drawn", choices=("uniform", "speed")),
}


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


class ProbingParams(NamedTuple):
    d: int  # how many servers are asked


class ProbingState(NamedTuple):
    """The memory of a policy that asks d servers and keeps nothing."""

    par: ProbingParams
    probing: Probing


def init(bounds, speeds, announcement, d=2, replacement=False, sampling="uniform"):
    probing = make_probing(speeds, d, replacement, sampling == "speed")
    return ProbingState(ProbingParams(probing.d), probing), 0


def check(servers, d, replacement, sampling):
    """Why so many cannot be asked of a fleet, or None."""
    if d > servers and not replacement:
        return f"d = {d} is more than the {servers} servers there are; use d <= {servers}"
    return None


def make_probing(speeds: np.ndarray, d: int, replacement: bool, by_speed: bool) -> Probing:
    """Return how `d` of the servers with these speeds, float64[n], are drawn."""
    if not by_speed:
        return probing_alike(len(speeds), d, replacement)
    n = len(speeds)
    if not replacement:
        d = min(d, n)
    scan = not replacement and 2 * d > n
    drawn = np.arange(0 if replacement else d, dtype=np.int64)
    weight = np.array(speeds, float) if scan else np.zeros(0)
    return Probing(d, replacement, False, True, scan, drawn, make_alias(speeds), weight)


def probing_alike(n: int, d: int, replacement: bool) -> Probing:
    """Return how `d` of `n` servers are drawn uniformly, in memory O(d)."""
    if not replacement:
        d = min(d, n)
    shuffle = not replacement and 2 * d > n
    drawn = np.arange(0 if replacement else n if shuffle else d, dtype=np.int64)
    return Probing(d, replacement, shuffle, False, False, drawn, NO_ALIAS, np.zeros(0))


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
