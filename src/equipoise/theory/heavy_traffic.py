"""Heavy traffic in slotted time: the limit of the scaled queues, and what is exact before it.

Slots k = 0, 1, ...: a(k) tasks arrive (mean lam, variance var_a) and all join one queue chosen on
the lengths at the beginning of the slot, then s(k) are served (mean mu, covariance Sigma),

    q(k+1) = max(q(k) + a(k) - s(k), 0) = q(k) + a(k) - s(k) + u(k),      u = unused service.

eps = mu_all - lam is the capacity left over, v = 1' Sigma 1 the variance of all service together,
q_S, u_S sums over servers, q' = q(k+1).

*Exact* in equilibrium, for every policy that is stable (square the total's recursion and use
q'_i u_i = 0 and E u_S = eps):

    E q_S = (var_a + v + eps^2 - E u_S^2) / (2 eps) + E[q'_S u_S] / eps.

The first term alone is a lower bound, and exact for one pooled queue. The second is
n |E <u, q'_perp>| / eps <= n sqrt(E ||u||^2 E ||q_perp||^2) / eps, q_perp the part of q that is not
equal for all servers: unused service at one server while tasks wait at another.

*Limit* as eps -> 0, if the speeds lie inside the polytope M^(d) of power of d choices (jsq: d = n):
E ||q_perp||^r stays bounded for every r, and eps q tends to the same exponential variable in every
queue, of mean (var_a + v)/(2n), as if there were one pooled queue.

The second term is of order eps^(-1/2) at the most: the limit is right to a factor 1 + O(eps^(1/2)),
no better. Against exact values it is 3 % too low at eps = 0.05 for two servers under jsq, and less
than half the truth at eps = 0.2 for four servers under d = 2. So it is given as a limit, with its
eps, never as an estimate.

Source: Hurtado-Lange, Maguluri 2021, section 4, Propositions 3 and 4 (state-space collapse and the
limit); the identity and its bound are worked out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EquipoiseError, UnstableError
from .stability.fleet import as_fleet, check_draws
from .stability.polytope import in_polytope

MOST_LEVELS = 5_000_000  # of the pooled queue's chain
EDGE = 1e-17  # mass beyond the last level


@dataclass(frozen=True)
class HeavyTraffic:
    """The limit of eps q as the capacity left over, eps, tends to 0; not an estimate at any eps."""

    size: int  # servers
    arrival_variance: float  # tasks^2 per slot, in the limit
    service_variance: float  # 1' Sigma 1, tasks^2 per slot

    @property
    def mean(self) -> float:
        """Mean of the limit of eps q_i (exponential), the same for every i, tasks^2 per slot."""
        return self.total_mean / self.size

    @property
    def total_mean(self) -> float:
        """Mean of the limit of eps times the total (exponential), tasks^2 per slot."""
        return (self.arrival_variance + self.service_variance) / 2

    def tail(self, x: float | np.ndarray) -> Any:
        """Return the limit of P(eps q_S > x), x >= 0 in tasks^2 per slot; like `x`."""
        return np.exp(-np.maximum(x, 0.0) / self.total_mean)

    def total_at(self, eps: float) -> float:
        """Return the limit's mean over eps, in tasks: where E q_S goes, not where it is.

        Raises
        ------
        EquipoiseError
            If eps is not > 0.
        """
        return self.total_mean / _positive(eps)

    def describe(self, eps: float) -> str:
        """Return the limit in one line, labelled as what it is."""
        return (
            f"limit as eps -> 0 (here eps = {eps:g}): the total times eps is exponential with mean "
            f"{self.total_mean:.4g}; over eps that is {self.total_at(eps):.4g} tasks, not an "
            f"estimate: the true mean is higher or lower by a share of order sqrt(eps) at "
            f"most"
        )


def heavy_traffic(
    servers: Any,
    d: int,
    arrival_variance: float,
    service_covariance: Any = None,
) -> HeavyTraffic:
    """Return the heavy-traffic limit of power of d choices on a fleet in slotted time.

    Parameters
    ----------
    servers
        Mean potential services per slot, one per server, or groups of (count, mean).
    d
        Distinct servers looked at; their number for jsq.
    arrival_variance
        Of the tasks that arrive in a slot, >= 0; its limit as lam tends to the capacity. (With the
        variance at a given eps in its place, `total_at(eps)` is what is often quoted.)
    service_covariance
        Of the potential services of a slot: float64[n, n]; or float64[n], the variances of
        independent services; or one number, the variance of all services together. Not given:
        independent Bernoulli services, variances mu (1 - mu).

    Raises
    ------
    UnstableError
        If the speeds are not inside the polytope M^(d): then capacity is lost, or is about to be,
        and the limit is another.
    EquipoiseError
        If a mean is not > 0, d is not allowed, or a variance is not >= 0.

    Examples
    --------
    >>> limit = heavy_traffic([0.3, 0.6], 2, arrival_variance=0.495)
    >>> round(limit.total_mean, 6), round(limit.total_at(0.1), 6)
    (0.4725, 4.725)
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size)
    if fleet.size > 1 and not in_polytope(fleet, d, strictly=True):
        raise UnstableError(
            f"these speeds are not inside the polytope of d = {d}: the load at which queues grow "
            f"is not the capacity of all servers, or only just, and this limit does not hold; "
            f"use a larger d"
        )
    service = _service_variance(fleet.each(), service_covariance)
    return HeavyTraffic(fleet.size, _variance(arrival_variance, "arrival_variance"), service)


@dataclass(frozen=True)
class Identity:
    """The exact mean of the total in equilibrium, term by term, in tasks."""

    pooled: (
        float  # (var_a + v + eps^2 - E u_S^2) / (2 eps): a lower bound, exact for a pooled queue
    )
    apart: float  # E[q'_S u_S] / eps: service unused at one server while tasks wait at another

    @property
    def total(self) -> float:
        """E q_S, tasks."""
        return self.pooled + self.apart


def identity(
    arrival_variance: float,
    service_variance: float,
    eps: float,
    unused_square: float,
    cross: float,
) -> Identity:
    """Return the two terms of the exact mean of the total queue, at any eps.

    Parameters
    ----------
    arrival_variance, service_variance
        Of all arrivals and all potential services of a slot, tasks^2.
    eps
        Capacity left over, mu_all - lam > 0, tasks per slot.
    unused_square
        E u_S^2, the mean square of the unused service of a slot, tasks^2.
    cross
        E[q'_S u_S], tasks^2: unused service of a slot times the total at its end.

    Raises
    ------
    EquipoiseError
        If eps is not > 0 or a variance is not >= 0.
    """
    _positive(eps)
    spread = _variance(arrival_variance, "arrival_variance")
    spread += _variance(service_variance, "service_variance")
    return Identity((spread + eps**2 - unused_square) / (2 * eps), cross / eps)


def least_total(
    arrival_variance: float, service_variance: float, eps: float, most_service: float
) -> float:
    """Return a lower bound on E q_S for every policy, at any eps, in tasks.

    E u_S^2 <= `most_service` E u_S = `most_service` eps, where `most_service` is the most that all
    servers together can serve in a slot. Not less than 0. `pooled_queue` is sharper and needs the
    laws. Raises as `identity`.
    """
    first = identity(arrival_variance, service_variance, eps, most_service * eps, 0.0)
    return max(0.0, first.pooled)


def most_apart(size: int, eps: float, unused_norm: float, apart_norm: float) -> float:
    """Return an upper bound on the term `apart` of the identity, at any eps, in tasks.

    Parameters
    ----------
    size
        Servers.
    eps
        Capacity left over, > 0, tasks per slot.
    unused_norm
        E ||u||^2, tasks^2; with at most one service per server and slot it is eps.
    apart_norm
        E ||q_perp||^2, tasks^2, bounded as eps -> 0.

    Raises
    ------
    EquipoiseError
        If eps is not > 0.
    """
    return size * float(np.sqrt(unused_norm * apart_norm)) / _positive(eps)


def random_means(servers: Any, lam: float, arrival_variance: float) -> np.ndarray:
    """Return the exact mean queues under random sending (d = 1) with Bernoulli services.

    Each queue is alone: with probability 1/n it gets all tasks of the slot.
    E q_i = (var a_i + mu_i (1 - mu_i) + e_i^2 - e_i)/(2 e_i), e_i = mu_i - lam/n.

    Parameters
    ----------
    servers
        Mean services per slot, 0 < mu_i <= 1, one per server, or groups of (count, mean).
    lam
        Mean arrivals per slot, all together.
    arrival_variance
        Of the arrivals of a slot.

    Returns
    -------
    float64[n], tasks, in the order given.

    Raises
    ------
    UnstableError
        If lam/n >= mu_i for a server.
    EquipoiseError
        If a mean is not in (0, 1], or lam or the variance is not >= 0.

    Examples
    --------
    >>> random_means([0.3, 0.5, 0.6], 0.6, 0.48).round(8).tolist()
    [1.8, 0.46666667, 0.3]
    """
    mu = as_fleet(servers).each()
    if mu.max() > 1:
        raise EquipoiseError(f"mu = {mu.max():g} must be at most 1, one Bernoulli service per slot")
    if not lam >= 0:
        raise EquipoiseError(f"lam = {lam} must be a number >= 0")
    spare = mu - lam / mu.size
    if spare.min() <= 0:
        slow = int(np.argmin(spare))
        raise UnstableError(
            f"server {slow} gets lam/n = {lam / mu.size:g} tasks per slot and serves {mu[slow]:g}: "
            f"its queue grows; use lam < {mu.size * mu.min():g}"
        )
    square = _variance(arrival_variance, "arrival_variance") + lam**2
    own = square / mu.size - (lam / mu.size) ** 2
    return (own + mu * (1 - mu) + spare**2 - spare) / (2 * spare)


@dataclass(frozen=True)
class PooledQueue:
    """One queue with the arrivals and the services of all: the least total of every policy."""

    mean: float  # E q, tasks
    unused_square: float  # E u^2, tasks^2
    eps: float  # tasks per slot


def pooled_queue(arrivals: Any, services: Any) -> PooledQueue:
    """Return the exact equilibrium of one queue, q' = max(q + a - s, 0).

    For every policy and slot the total of the queues is at least this one, met by the same arrivals
    and services, so its mean is a lower bound.

    Parameters
    ----------
    arrivals, services
        Laws of the numbers of a slot, float64[k]: the probability of 0, 1, ..., k - 1; e.g. from
        `bernoulli_total`.

    Raises
    ------
    UnstableError
        If arrivals are not fewer than services, on average.
    EquipoiseError
        If a law is not one, or eps is so small that the chain has more than 5 million levels.
    """
    a, s = _law(arrivals, "arrivals"), _law(services, "services")
    eps = float(np.arange(s.size) @ s - np.arange(a.size) @ a)
    if eps <= 0:
        raise UnstableError(f"{-eps:g} more arrivals than services per slot: the queue grows")
    step = np.convolve(a, s[::-1])  # law of a - s; index 0 is -most
    most = s.size - 1
    up = a.size - 1
    if up == 0 or step[most + 1 :].sum() == 0:
        levels = 1
        law = np.ones(1)  # never more arrivals than services: always empty
    else:
        levels = _levels_wanted(step, most, up)
        law = _stationary(step, most, up, levels)
    mean = float(law @ np.arange(law.size))
    # u = max(s - a - q, 0)
    unused = sum(
        float(step[:most] @ np.maximum(most - np.arange(most) - q, 0.0) ** 2) * law[q]
        for q in range(min(levels, most))
    )
    return PooledQueue(mean, float(unused), eps)


def bernoulli_total(servers: Any) -> np.ndarray:
    """Return the law of the services of a slot, independent Bernoulli(mu_i), float64[n + 1].

    Raises
    ------
    EquipoiseError
        If a mean is not in (0, 1].
    """
    mu = as_fleet(servers).each()
    if mu.max() > 1:
        raise EquipoiseError(f"mu = {mu.max():g} must be at most 1, one Bernoulli service per slot")
    law = np.ones(1)
    for one in mu:
        law = np.convolve(law, (1 - one, one))
    return law


def _levels_wanted(step: np.ndarray, most: int, up: int) -> int:
    """Return how many levels hold all but EDGE of the mass: it decays as exp(-theta level)."""
    from scipy.optimize import brentq

    change = np.arange(step.size) - most

    def excess(theta: float) -> float:
        return float(step @ np.exp(theta * change)) - 1

    high = 1.0
    while excess(high) <= 0:
        high *= 2
    low = high
    while excess(low) >= 0 and low > 1e-12:
        low /= 2
    theta = float(brentq(excess, low, high, xtol=1e-15))
    levels = int(-np.log(EDGE) / theta) + most + up + 2
    if levels > MOST_LEVELS:
        raise EquipoiseError(
            f"the pooled queue needs {levels} levels to be exact, at most {MOST_LEVELS}; use a "
            f"larger eps, or the limit"
        )
    return levels


def _stationary(step: np.ndarray, most: int, up: int, levels: int) -> np.ndarray:
    """Return the law on 0 .. levels - 1: the banded balance equations of levels >= 1, scaled."""
    from scipy.linalg import solve_banded

    # For j >= 1: pi_j = sum_i pi_i P(a - s = j - i). With pi_0 = 1 these fix all others; the
    # equation of level 0 follows from them.
    size = levels - 1
    bands = np.zeros((most + up + 1, size))
    for change in range(-most, up + 1):  # row j, column i = j - change, on diagonal `change` below
        bands[most + change] = -step[most + change]
    bands[most] += 1.0
    right = np.zeros(size)
    reach = min(up, size)
    right[:reach] = step[most + 1 : most + 1 + reach]
    law = np.append(1.0, solve_banded((up, most), bands, right))
    law = np.maximum(law, 0.0)
    return law / law.sum()


def _service_variance(mu: np.ndarray, given: Any) -> float:
    if given is None:
        if mu.max() > 1:
            raise EquipoiseError(
                f"mu = {mu.max():g} > 1 is not the mean of one Bernoulli service; give "
                f"service_covariance"
            )
        return float(np.sum(mu * (1 - mu)))
    matrix = np.asarray(given, dtype=float)
    if matrix.ndim not in (0, 1, 2) or matrix.shape not in ((), (mu.size,), (mu.size, mu.size)):
        raise EquipoiseError(
            f"service_covariance has shape {matrix.shape}; it must be one number, {mu.size} "
            f"variances, or a {mu.size} x {mu.size} matrix"
        )
    return _variance(float(matrix.sum()), "service_covariance (its sum)")


def _variance(value: float, name: str) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise EquipoiseError(f"{name} = {value} must be a number >= 0")
    return float(value)


def _positive(eps: float) -> float:
    if not (np.isfinite(eps) and eps > 0):
        raise EquipoiseError(f"eps = {eps} must be more than 0: capacity left over, tasks per slot")
    return float(eps)


def _law(given: Any, name: str) -> np.ndarray:
    law = np.asarray(given, dtype=float)
    if law.ndim != 1 or law.size == 0 or not np.all(law >= 0) or abs(law.sum() - 1) > 1e-9:
        raise EquipoiseError(f"{name} must be probabilities of 0, 1, 2, ... that sum to 1")
    return law / law.sum()
