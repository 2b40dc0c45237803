"""Exact equilibria of small slotted systems, from their transition probabilities.

Independent of the package. A slot: a tasks arrive and all join one queue, chosen by power of d
choices on the lengths at its beginning (ties uniform); then every server serves with its own
probability. Lengths are cut at `top`, tasks beyond it vanish. Two queues: one sparse linear system.
More: the leading eigenvector of one slot, applied axis by axis without a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.sparse import coo_array, eye_array
from scipy.sparse.linalg import LinearOperator, eigs, splu


def binomial(most: int, mean: float) -> np.ndarray:
    """Probabilities of 0 .. most tasks in a slot, Binomial(most, mean/most)."""
    p = mean / most
    return np.array([math.comb(most, k) * p**k * (1 - p) ** (most - k) for k in range(most + 1)])


@dataclass(frozen=True)
class Slotted:
    """An equilibrium, and what the identity of heavy traffic speaks of."""

    law: np.ndarray  # float64[top + 1, ...], an axis per queue
    mu: np.ndarray  # float64[n]
    arrivals: np.ndarray  # float64[k]
    choice: np.ndarray  # float64[n, top + 1, ...]: who gets the tasks

    @property
    def lengths(self) -> np.ndarray:
        return np.indices(self.law.shape)

    def mean(self, values: np.ndarray) -> float:
        """Mean of a function of the lengths, given as an array like the law."""
        return float(np.sum(self.law * values))

    @property
    def means(self) -> list[float]:
        return [self.mean(q) for q in self.lengths]

    @property
    def total(self) -> float:
        return self.mean(self.lengths.sum(axis=0))

    @property
    def apart(self) -> float:
        """E ||q_perp||^2: squared differences from the mean length of the moment."""
        q = self.lengths
        return self.mean(((q - q.mean(axis=0)) ** 2).sum(axis=0))

    @property
    def edge(self) -> float:
        """The mass of states with a full queue."""
        full = (self.lengths == self.law.shape[0] - 1).any(axis=0)
        return float(self.law[full].sum())

    def over_a_slot(self, value: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
        """Mean of a function of (lengths after the slot, unused service of the slot), per state."""
        q = self.lengths
        found = 0.0
        for server, tasks in product(range(len(self.mu)), range(len(self.arrivals))):
            weight = self.law * self.choice[server] * self.arrivals[tasks]
            came = q.copy()
            came[server] += tasks
            for served in product((0, 1), repeat=len(self.mu)):
                s = np.array(served).reshape(-1, *[1] * self.law.ndim)
                chance = np.prod(np.where(served, self.mu, 1 - self.mu))
                after = np.maximum(came - s, 0)
                found += chance * float(np.sum(weight * value(after, after - came + s)))
        return found

    @property
    def unused(self) -> float:
        return self.over_a_slot(lambda after, u: u.sum(axis=0))

    @property
    def unused_square(self) -> float:
        """E u_S^2."""
        return self.over_a_slot(lambda after, u: u.sum(axis=0) ** 2)

    @property
    def cross(self) -> float:
        """E[q'_S u_S]."""
        return self.over_a_slot(lambda after, u: after.sum(axis=0) * u.sum(axis=0))


def choices(n: int, d: int, top: int) -> np.ndarray:
    """Who gets the tasks, float64[n, top + 1, ...]: the shortest of d of n, ties uniform."""
    q = np.indices((top + 1,) * n)
    share = np.zeros(q.shape)
    sets = list(combinations(range(n), d))
    for one in sets:
        shortest = q[list(one)].min(axis=0)
        least = np.array([q[i] == shortest if i in one else np.zeros_like(q[0]) for i in range(n)])
        share += least / least.sum(axis=0) / len(sets)
    return share


def slotted(mu: Sequence[float], arrivals: np.ndarray, d: int, top: int) -> Slotted:
    """The equilibrium of power of d choices with Bernoulli(mu) services."""
    rates = np.array(mu, dtype=float)
    choice = choices(len(rates), d, top)
    solve = _by_matrix if len(rates) == 2 else _by_iteration
    law = solve(rates, arrivals, choice)
    return Slotted(law / law.sum(), rates, arrivals, choice)


def _by_matrix(mu: np.ndarray, arrivals: np.ndarray, choice: np.ndarray) -> np.ndarray:
    shape = choice.shape[1:]
    q = np.indices(shape).reshape(len(mu), -1)
    here = np.arange(q.shape[1])
    rows, columns, values = [], [], []
    for server, tasks in product(range(len(mu)), range(len(arrivals))):
        came = q.copy()
        came[server] += tasks
        for served in product((0, 1), repeat=len(mu)):
            after = np.clip(came - np.array(served)[:, None], 0, shape[0] - 1)
            chance = arrivals[tasks] * np.prod(np.where(served, mu, 1 - mu))
            rows.append(np.ravel_multi_index(tuple(after), shape))
            columns.append(here)
            values.append(chance * choice[server].ravel())
    slot = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(here.size, here.size),
    ).tocsc()
    balance = (eye_array(here.size, format="csc") - slot).tocsc()
    # the empty state's probability set to 1; its own equation follows from the others
    rest = splu(balance[1:, 1:].tocsc()).solve(-balance[1:, [0]].toarray().ravel())
    return np.concatenate(([1.0], rest)).reshape(shape)


def _by_iteration(mu: np.ndarray, arrivals: np.ndarray, choice: np.ndarray) -> np.ndarray:
    shape = choice.shape[1:]

    def slot(flat: np.ndarray) -> np.ndarray:
        law = flat.reshape(shape)
        after = np.zeros(shape)
        for server in range(len(mu)):
            moved = np.moveaxis(after, server, 0)
            sent = np.moveaxis(law * choice[server], server, 0)
            for tasks, chance in enumerate(arrivals):
                kept = shape[0] - tasks
                moved[tasks:] += chance * sent[:kept]
                moved[-1] += chance * sent[kept:].sum(axis=0)
        for server, rate in enumerate(mu):
            moved = np.moveaxis(after, server, 0)
            left = rate * moved
            moved -= left
            moved[:-1] += left[1:]
            moved[0] += left[0]
        return after.ravel()

    size = math.prod(shape)
    start = np.exp(-np.indices(shape).sum(axis=0) / 4.0).ravel()
    _, vectors = eigs(
        LinearOperator((size, size), slot, dtype=float), k=1, v0=start, ncv=40, tol=1e-12
    )
    return vectors[:, 0].real.reshape(shape)
