"""What a fleet does between two updates, in closed form.

y[i, j] is the fraction of servers with i tasks whose estimate is j >= i. Without updates the
dispatcher fills the servers like vessels, from the lowest estimate up: level m, the lowest that is
held, lasts until each of its servers has had one task,

    tau = w(m) / lam,      w(m) = sum_i y(i, m),

and since all are equally likely to be next, the task of each comes at a time uniform on (0, tau).
Servers with higher estimates get none. So after s <= tau, with D(s) the law of what is left of i
tasks served one after the other at rate 1, and R(s) the same with one task more at a uniform time,

    level m      (1 - s/tau) D(s) y(., m) with estimate m, (s/tau) R(s) y(., m) with estimate m + 1,
    the others   D(s) y(., j).

Both are closed forms. Let p_k be the Poisson probabilities of mean s, P_k = sum_{l >= k} p_l. D(s)
takes i to i - k with probability p_k, k < i, and to 0 with P_i. For R(s), given that k services
were on offer in (0, s), the number of them before the task is uniform on 0..k. If k <= i none is
wasted: i + 1 - k tasks are left. If k > i one is left when the task came after all k, of chance
1/(k + 1), else none. So R(s) takes i to i + 1 - k with probability p_k, k <= i, and to 1 with
another

    sum_{k > i} p_k / (k + 1) = P_{i+2} / s.

Integrals over time follow from s p_k(s) = (k + 1) p_{k+1}(s) and int_0^t p_k(s) ds = P_{k+1}(t).
Nothing here has an error but rounding.
Source: the model is van der Boor et al. 2019, sections 3 and 4.1; the closed forms are worked out
here and checked against time-stepping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

NOTHING = 1e-16  # a fraction of servers that is none: filled in no time, dropped from the top


@dataclass(frozen=True, eq=False)
class Passage:
    """A fleet after a while without updates."""

    state: np.ndarray  # float64[lengths, estimates]
    area: np.ndarray  # float64[lengths], time spent at each length, mean over servers
    level_times: tuple[tuple[float, int], ...]  # (since when, lowest estimate), ascending


def fill(state: np.ndarray, load: float, duration: float) -> Passage:
    """Return what becomes of a fleet in `duration` mean service times without updates.

    Parameters
    ----------
    state
        float64[lengths, estimates], y[i, j] as above, of sum 1. Not changed.
    load
        Tasks per server and mean service time, > 0; 1 and more are fine for a while.
    duration
        Mean service times, >= 0.
    """
    level = _lowest(state)
    held = trimmed(state[:, level:])  # from the lowest estimate that is held upwards
    area = np.zeros(1)
    level_times = [(0.0, level)]
    left = float(duration)
    while left > 0:
        # where all have one estimate they are all servers, without the rounding: the same matrices
        weight = float(held[:, 0].sum()) if held.shape[1] > 1 else 1.0
        tau = weight / load
        span = min(tau, left)
        held, spent = _interval(held, span, tau)
        area = padded(area, spent.size)
        area[: spent.size] += spent
        if tau > left:
            break
        passed = 1 + _lowest(held[:, 1:])
        held, level = held[:, passed:], level + passed
        left -= span
        if left <= 1e-14 * duration:  # a period that ends with a level reaches no new one
            break
        level_times.append((duration - left, level))
    state = np.hstack((np.zeros((held.shape[0], level)), held))
    return Passage(state, area, tuple(level_times))


def _interval(held: np.ndarray, span: float, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the state `span` <= tau after its first estimate became the lowest; time per length.

    The matrices cover the lengths that are held, not all up to the estimate: in a long period
    the level rises far above them.
    """
    lengths, estimates = held.shape
    before = np.zeros((lengths + 1, max(estimates, 2)))
    before[:lengths, :estimates] = held
    low = before[:, 0]
    law = poisson(span, lengths + 4)
    part, serve = span / tau, law.served

    after = serve @ before
    after[:, 0] *= 1 - part
    after[:, 1] += part * (law.received @ low)
    spent = law.served_area @ before.sum(axis=1) + law.exchanged_area @ low / tau
    return trimmed(after), spent


class Poisson:
    """The Poisson law of mean `time`, and the matrices made of it: columns from, rows to."""

    def __init__(self, time: float, size: int) -> None:
        from scipy.special import gammainc, gammaln, xlogy  # wanted only here

        k = np.arange(size)
        self.time = time
        self.size = size - 3  # of the matrices: they look up to three further
        self.at = np.exp(xlogy(k, time) - gammaln(k + 1) - time)  # p_k
        self.tail = np.ones(size)  # P_k
        self.tail[1:] = gammainc(k[1:], time)

    def by_services(self, values: np.ndarray) -> np.ndarray:
        """Return the matrix that takes i to i - k with weight values[k], k < i; row 0 is empty."""
        i = np.arange(self.size)
        k = i[None, :] - i[:, None]
        matrix = np.where(k >= 0, values[np.maximum(k, 0)], 0.0)
        matrix[0] = 0.0
        return matrix

    def by_services_and_one(self, values: np.ndarray) -> np.ndarray:
        """Return the matrix that takes i to i + 1 - k with weight values[k], k <= i."""
        matrix = np.zeros((self.size, self.size))
        # the last length cannot be left upwards, and is held by none with the lowest estimate
        matrix[:, :-1] = self.by_services(values)[:, 1:]
        return matrix

    @cached_property
    def served(self) -> np.ndarray:
        """D(t)."""
        matrix = self.by_services(self.at)
        matrix[0] = self.tail[: self.size]
        return matrix

    @cached_property
    def received(self) -> np.ndarray:
        """R(t), t > 0."""
        n, tail = self.size, self.tail
        matrix = self.by_services_and_one(self.at)
        after_all = tail[2 : n + 2] / self.time
        matrix[1] += after_all
        matrix[0] = tail[1 : n + 1] - after_all
        return matrix

    @cached_property
    def served_area(self) -> np.ndarray:
        """int_0^t D(s) ds."""
        i, n, tail = np.arange(self.size), self.size, self.tail
        matrix = self.by_services(tail[1:])
        matrix[0] = self.time * tail[:n] - i * tail[1 : n + 1]
        return matrix

    @cached_property
    def exchanged_area(self) -> np.ndarray:
        """int_0^t s (R(s) - D(s)) ds."""
        i, n, t, tail = np.arange(self.size), self.size, self.time, self.tail
        moments = np.arange(1, n + 2) * tail[2:]  # int_0^t s p_k(s) ds
        matrix = self.by_services_and_one(moments) - self.by_services(moments)
        matrix[1] += t * tail[2 : n + 2] - (i + 2) * tail[3 : n + 3]
        matrix[0] = (
            (t * t * tail[1 : n + 1] - (i + 1) * (i + 2) * tail[3 : n + 3]) / 2
            - (t * tail[2 : n + 2] - (i + 2) * tail[3 : n + 3])
            - (t * t * tail[:n] - i * (i + 1) * tail[2 : n + 2]) / 2
        )
        return matrix


@lru_cache(maxsize=16)
def poisson(time: float, size: int) -> Poisson:
    """Return the law of mean `time`, made once for levels that last equally long."""
    return Poisson(time, size)


def lengths_of(state: np.ndarray) -> np.ndarray:
    """Return the fraction of servers at each length, float64[lengths]."""
    return state.sum(axis=1)


def synchronised(state: np.ndarray) -> np.ndarray:
    """Return the state after all servers have told their lengths: every estimate is true."""
    return np.diag(lengths_of(state))


def idle_told(state: np.ndarray) -> np.ndarray:
    """Return the state after the idle servers have said so: their estimates are 0."""
    new = state.copy()
    new[0] = 0.0
    new[0, 0] = state[0].sum()
    return new


def trimmed(state: np.ndarray) -> np.ndarray:
    """Return the state without the lengths and estimates at the top that no server has."""
    rows = np.flatnonzero(state.sum(axis=1) > NOTHING)[-1] + 1
    columns = np.flatnonzero(state.sum(axis=0) > NOTHING)[-1] + 1
    return state[:rows, :columns]


def padded(law: np.ndarray, size: int) -> np.ndarray:
    """Return a law with zeros behind it up to `size` lengths, a copy."""
    return np.concatenate((law, np.zeros(max(0, size - law.size))))


def _lowest(state: np.ndarray) -> int:
    """Return the lowest estimate that any servers have."""
    return int(np.argmax(state.sum(axis=0) > NOTHING))
