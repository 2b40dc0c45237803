"""Stability by looking at all 2^n sets of servers, and random fleets and laws to try it on."""

from __future__ import annotations

from itertools import combinations

import numpy as np

Sets = dict[tuple[int, ...], float]


def over_sets(mu: np.ndarray, law: Sets) -> tuple[np.ndarray, np.ndarray]:
    """Pi(S) and mu(S) of all sets of servers, bit i of an index saying whether i belongs."""
    n = len(mu)
    pi, speed = np.zeros(1 << n), np.zeros(1 << n)
    for one, chance in law.items():
        pi[sum(1 << server for server in one)] += chance
    for server in range(n):
        inside = (np.arange(1 << n) >> server) & 1 == 1
        speed[inside] += mu[server]
        pi[inside] += pi[np.flatnonzero(inside) ^ (1 << server)]
    return pi, speed


def lam_max(mu: np.ndarray, law: Sets) -> float:
    pi, speed = over_sets(mu, law)
    return float(np.min(speed[pi > 0] / pi[pi > 0]))


def growth(mu: np.ndarray, law: Sets, rate: float) -> float:
    pi, speed = over_sets(mu, law)
    return float(np.max(rate * pi - speed))


def uniform_sets(n: int, d: int) -> Sets:
    sets = list(combinations(range(n), d))
    return dict.fromkeys(sets, 1 / len(sets))


def with_replacement(weights: np.ndarray, d: int) -> Sets:
    """The law of the sets seen in d draws with replacement, by going through them one by one."""
    found: Sets = {(): 1.0}
    for _ in range(d):
        after: Sets = {}
        for one, chance in found.items():
            for server, weight in enumerate(weights / weights.sum()):
                key = tuple(sorted({*one, server}))
                after[key] = after.get(key, 0.0) + chance * weight
        found = after
    return found


def successive(weights: np.ndarray, d: int) -> Sets:
    """The law of the sets seen in d draws by weight, what was drawn being left out."""
    found: Sets = {(): 1.0}
    for _ in range(d):
        after: Sets = {}
        for one, chance in found.items():
            left = [server for server in range(len(weights)) if server not in one]
            for server in left:
                key = tuple(sorted((*one, server)))
                part = weights[server] / weights[left].sum()
                after[key] = after.get(key, 0.0) + chance * part
        found = after
    return found


def random_speeds(rng: np.random.Generator, n: int) -> np.ndarray:
    """Speeds of three kinds: spread evenly, a few values with ties, far apart."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.random(n) + 0.01
    if kind == 1:
        return rng.integers(1, 4, n) * 0.1
    return rng.exponential(size=n) + 1e-3


def random_law(rng: np.random.Generator, n: int) -> Sets:
    found: Sets = {}
    for _ in range(int(rng.integers(1, 16))):
        one = tuple(np.flatnonzero(rng.random(n) < rng.random()).tolist()) or (0,)
        found[one] = float(rng.random()) + 1e-3
    total = sum(found.values())
    return {one: chance / total for one, chance in found.items()}
