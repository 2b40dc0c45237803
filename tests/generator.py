"""A Markov chain given by its rates, one after the other, and its stationary law."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve


class Generator:
    """Rates between states, which are numbered as they appear."""

    def __init__(self) -> None:
        self.number: dict[Hashable, int] = {}
        self.entries: list[tuple[int, int, float]] = []

    def go(self, here: Hashable, there: Hashable, rate: float) -> None:
        """Add a transition; rates of the same transition add up."""
        a, b = (self.number.setdefault(state, len(self.number)) for state in (here, there))
        self.entries += [(a, b, rate), (a, a, -rate)]

    def matrix(self) -> coo_array:
        """Return the generator, float64[states, states]."""
        rows, columns, rates = zip(*self.entries, strict=True)
        return coo_array((rates, (rows, columns)), shape=(len(self.number),) * 2)

    def stationary(self) -> dict:
        """Return the stationary law by state."""
        balance = self.matrix().T.tolil()
        balance[0] = np.ones(len(self.number))
        right = np.zeros(len(self.number))
        right[0] = 1.0
        return dict(zip(self.number, spsolve(balance.tocsc(), right), strict=True))
