"""Asynchronous updates: each server tells in its own time, so the fleet has a point of rest.

At rest all estimates are m or m + 1. A server that has told a lower length is filled up to m in no
time; those of estimate m get tasks at rate nu each, those of m + 1 none. m and nu follow from the
load: pi(0) = 1 - lam.

*aujsq-exp* (each server tells at rate delta). If delta >= lam/(1 - lam) nobody waits: m = 0,
nu = 1/(1/lam - 1 - 1/delta), pi = (1 - lam, lam). Else, with s = 1/(1 + delta) and
r = 1/(1 + delta + nu), m = floor(-log(1 - lam)/log(1 + delta)) >= 1 and nu is the root of

    1 - lam = s^(m+1) + delta^2 s^2 r^(m-1) / ((1 + nu)(delta + nu)),

whose right side falls in nu from s^m to s^(m+1). With a = delta s/(1 + nu),

    pi(m+1) = nu a
    pi(i)   = a [ (1 + nu) s^(m+1-i) - r^(m+1-i) + r^(m-i) ],               2 <= i <= m
    pi(1)   = a [ r^(m-1) + (1 + nu) s^m - s r^(m-1) delta/(delta + nu) ].

Where lam = 1 - (1 + delta)^(-m), m >= 2, nu grows without bound from below and starts again at 0
from above: there the mean length has a vertical tangent, and finite fleets need very long to come
near the limit.

*aujsq-exp where only idle servers tell.* Each telling brings J = lam/(delta (1 - lam)) tasks on
average, which is one message per J tasks; so m = floor(J), and the task beyond m comes in a part
J - m of the cycles: delta r^m/(delta + nu) = m + 1 - J with r = 1/(1 + nu). Per server and mean
service time there are phi = delta (1 - lam) tellings, and

    pi(m+1) = phi (1 - r)
    pi(i)   = phi (1 - r^(m+2-i) + r^(m+1-i)),                              2 <= i <= m
    pi(1)   = phi (1 + nu r^m/(delta + nu)).

*aujsq-det* (each server tells every T = 1/delta). The law is the mean over a cycle of T that starts
at m tasks and estimate m or, if a server kept m + 1 tasks through the last one, at m + 1 and m + 1:
probabilities e^-T (1 - e^(-nu T)) to come there from the first (m >= 1), e^-T to stay. With p_k and
P_k as in `filling`, i tasks of estimate m become after t

    i - k       of estimate m,      probability e^(-nu t) p_k(t), k < i
    0           of estimate m,      e^(-nu t) P_i(t)
    i + 1 - k   of estimate m + 1,  (1 - e^(-nu t)) p_k(t), k <= i
    1           of estimate m + 1,  another int_0^t nu e^(-nu r) P_{i+1}(r) e^(-(t - r)) dr
    0           of estimate m + 1,  the rest.

Nobody waits if and only if lam <= delta (1 - e^(-1/delta)). Where only idle servers tell, a cycle
may start at any state. Then more than one m may answer to the same load if delta is small: a server
is looked at when its m tasks are done or up to T later, so a higher level can do less work. The
lowest is given, to which empty servers come.

Source: van der Boor et al. 2019, section 5, for aujsq-exp; its closed form, and all of the rest, is
worked out here and checked against generators, time-stepping and simulation. That the point of rest
is the only one where all servers tell has been seen from several starts and not been proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .base import Equilibrium, check_delta, check_load
from .filling import Poisson

LARGEST_RATE = 1e9  # a nu beyond is the next level's nu = 0


@dataclass(frozen=True, eq=False)
class RestPoint(Equilibrium):
    """The equilibrium of a scheme whose servers tell each in its own time."""

    level: int  # m, the lowest estimate; all estimates are m or m + 1
    rate: float  # nu, tasks to each server of estimate m per mean service time; may be inf


def aujsq_exp(load: float, delta: float, *, idle_only: bool = False) -> RestPoint:
    """Return the point of rest if each server tells at rate `delta`, in closed form.

    Parameters
    ----------
    load
        Tasks per server and mean service time, 0 < load < 1.
    delta
        Updates per server and mean service time, > 0.
    idle_only
        Whether only idle servers tell.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If load <= 0 or delta <= 0.

    Examples
    --------
    >>> rest = aujsq_exp(0.5, 0.5)
    >>> rest.level, round(rest.rate, 8), round(rest.mean_wait, 8)
    (1, 0.68614066, 0.27128645)
    """
    load, delta = check_load(load), check_delta(delta)
    if delta * (1 - load) >= load:  # one telling brings at most one task
        spare = 1 - load - load / delta
        level, rate = 0, load / spare if spare > 0 else math.inf
        lengths = np.array([1 - load, load])
    elif idle_only:
        level, rate, lengths = _exp_idle(load, delta)
    else:
        level, rate, lengths = _exp_all(load, delta)
    error = 1e-14 * (level + 1) ** 2 / load
    return RestPoint(
        "aujsq-exp", load, delta, idle_only, lengths, 1 - load, error, "closed form", level, rate
    )


def _exp_all(load: float, delta: float) -> tuple[int, float, np.ndarray]:
    s = 1 / (1 + delta)

    def surplus(m: int, nu: float) -> float:
        """Return pi(0) - (1 - lam) for a level and a rate."""
        r = 1 / (1 + delta + nu)
        kept = s ** (m + 1) + delta**2 * s**2 * r ** (m - 1) / ((1 + nu) * (delta + nu))
        return kept - (1 - load)

    m = max(1, math.floor(-math.log1p(-load) / math.log1p(delta)))
    m, nu = _level_and_rate(m, surplus)
    r, a = 1 / (1 + delta + nu), delta * s / (1 + nu)
    lengths = np.empty(m + 2)
    i = np.arange(2, m + 1)
    lengths[2 : m + 1] = a * ((1 + nu) * s ** (m + 1 - i) - r ** (m + 1 - i) + r ** (m - i))
    lengths[m + 1] = nu * a
    lengths[1] = a * (r ** (m - 1) + (1 + nu) * s**m - s * r ** (m - 1) * delta / (delta + nu))
    lengths[0] = 1 - load
    return m, nu, lengths


def _exp_idle(load: float, delta: float) -> tuple[int, float, np.ndarray]:
    tasks = load / (delta * (1 - load))  # that one telling brings

    def surplus(m: int, nu: float) -> float:
        """Return m + 1 - J, wanted, less than what a level and a rate give."""
        return delta * (1 + nu) ** -m / (delta + nu) - (m + 1 - tasks)

    m, nu = _level_and_rate(math.floor(tasks), surplus)
    r, phi = 1 / (1 + nu), delta * (1 - load)
    lengths = np.empty(m + 2)
    i = np.arange(2, m + 1)
    lengths[2 : m + 1] = phi * (1 - r ** (m + 2 - i) + r ** (m + 1 - i))
    lengths[m + 1] = phi * (1 - r)
    lengths[1] = phi * (1 + nu * r**m / (delta + nu))
    lengths[0] = 1 - load
    return m, nu, lengths


def aujsq_det(load: float, delta: float, *, idle_only: bool = False) -> RestPoint:
    """Return the point of rest if each server tells every 1/delta, their turns spread evenly.

    Exact but for rounding and the root nu. Parameters and errors as in `aujsq_exp`.

    Examples
    --------
    >>> rest = aujsq_det(0.7, 0.7)
    >>> rest.level, round(rest.rate, 8), round(rest.mean_wait, 8)
    (1, 0.68753038, 0.30977991)
    """
    load, delta = check_load(load), check_delta(delta)
    time = 1 / delta

    def surplus(m: int, nu: float) -> float:
        """Return pi(0) - (1 - lam) for a level and a rate."""
        return float(_cycle(m, nu, time, idle_only)[0][0]) - (1 - load)

    busy = _busy_idle if idle_only else _busy_all
    level = 0
    while busy(level + 1, time) <= load:
        level += 1
    level, rate = _level_and_rate(level, surplus)
    lengths, idle = _cycle(level, rate, time, idle_only)
    error = 1e-12 * (level + 1) ** 2 / load
    return RestPoint(
        "aujsq-det",
        load,
        delta,
        idle_only,
        lengths,
        idle,
        error,
        "mean over an exact cycle",
        level,
        rate,
    )


def _busy_all(level: int, time: float) -> float:
    """Return the part of servers busy if every `time` all are filled up to `level`, nu = 0."""
    from scipy.special import gammainc

    return float(1 - gammainc(level, time) + level / time * gammainc(level + 1, time))


def _busy_idle(level: int, time: float) -> float:
    """Return the same if a server is filled up to `level` when found idle, looked at every `time`.

    It is found idle at the first look after its `level` tasks are done, so a cycle has
    sum_{k >= 0} P(not done at k T) looks.
    """
    from scipy.special import gammaincc

    last = math.ceil((level + 40 * math.sqrt(level) + 40) / time)
    looks = 1 + gammaincc(level, time * np.arange(1, last + 1)).sum()
    return float(level / (looks * time))


def _level_and_rate(level: int, surplus: Callable[[int, float], float]) -> tuple[int, float]:
    """Return (level, nu) with surplus(level, nu) = 0, which falls from >= 0 at nu = 0.

    At the loads where one level ends and the next begins rounding decides which it is: no zero
    beyond LARGEST_RATE means the next level and nu = 0.
    """
    from scipy.optimize import brentq

    if surplus(level, 0.0) <= 0 and level > 0:
        return level, 0.0
    high = 1.0
    while surplus(level, high) > 0:
        high *= 4
        if high > LARGEST_RATE:
            return level + 1, 0.0
    low = 0.0 if high == 1 else high / 4
    return level, float(brentq(lambda nu: surplus(level, nu), low, high, xtol=1e-300, rtol=1e-15))


def _cycle(m: int, nu: float, time: float, idle_only: bool) -> tuple[np.ndarray, float]:
    """Return the law of the lengths over a cycle, and the part found idle at its end."""
    law = Poisson(time, m + 5)  # matrices for 0..m + 1 tasks
    starts = np.arange(m + 1) if idle_only else np.array([m])
    at_end, area = _last_alone(starts, nu, time)
    if idle_only:
        kept, told, idle = _idle_starts(law, m, nu, at_end)
    else:
        stays = law.at[0] * -math.expm1(-nu * time) + (at_end[0] if m == 0 else 0.0)
        last = stays / (1 - law.at[0] + stays)
        kept, told = np.zeros(m + 2), np.zeros(m + 2)
        kept[m], told[m + 1] = 1 - last, last
        idle = float(_idle_part(law, nu, starts, at_end, kept) + law.served[0] @ told)

    # int_0^t e^(-nu s) p_k(s) ds, and the same of 1 - e^(-nu s)
    k = np.arange(m + 2)
    faster = Poisson((1 + nu) * time, m + 5)
    none_came = faster.tail[1 : m + 3] * (1 + nu) ** -(k + 1.0)
    one_came = law.tail[1 : m + 3] - none_came
    lengths = law.served_area @ told
    lengths += law.by_services(none_came) @ kept + law.by_services_and_one(one_came) @ kept
    lengths[1] += area @ kept[starts]
    lengths /= time
    lengths[0] = 1 - lengths[1:].sum()
    return lengths, idle


def _idle_part(
    law: Poisson, nu: float, starts: np.ndarray, at_end: np.ndarray, kept: np.ndarray
) -> float:
    """Return the part that ends a cycle idle having started it with estimate m."""
    none = math.exp(-nu * law.time)
    ends = none * law.tail[starts] + (1 - none) * law.tail[starts + 1] - at_end
    return float(ends @ kept[starts])


def _idle_starts(
    law: Poisson, m: int, nu: float, at_end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return how cycles start where only idle servers tell: laws of (i, m), (i, m + 1); part idle.

    A server starts at (m, m) and is looked at until it is found idle, when it starts again. So the
    law is that of the expected number of starts in between, of which one was found idle. Tasks only
    become fewer, but for the last: triangular equations.
    """
    from scipy.linalg import solve_triangular

    none = math.exp(-nu * law.time)
    served = law.served
    kept, told = np.zeros(m + 2), np.zeros(m + 2)
    kept[m] = 1.0
    if m > 0:
        left = np.eye(m) - none * served[1 : m + 1, 1 : m + 1]
        kept[1 : m + 1] = solve_triangular(left, kept[1 : m + 1])
    came = (1 - none) * law.by_services_and_one(law.at) @ kept
    came[1] += at_end @ kept[: m + 1]
    told[1:] = solve_triangular(np.eye(m + 1) - served[1:, 1:], came[1:])
    looks = kept.sum() + told.sum()
    return kept / looks, told / looks, float(1 / looks)


def _last_alone(starts: np.ndarray, nu: float, time: float) -> tuple[np.ndarray, np.ndarray]:
    """Return what i tasks add to the state of one task by finishing before the last one comes.

    For each i in `starts`: int_0^T nu e^(-nu r) P_{i+1}(r) e^(-(T - r)) dr, and its integral over
    T, by Gauss's rule on intervals that double from 1/(1 + nu) to 2: to rounding.
    """
    from scipy.special import gammainc

    edges = [0.0]
    while edges[-1] < time:
        edges.append(min(time, edges[-1] + min(2.0, max(edges[-1], 1 / (1 + nu)))))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    r = (np.array(edges[:-1])[:, None] + half * (nodes + 1)).ravel()
    density = (half * weights).ravel() * nu * np.exp(-nu * r)
    done = gammainc(starts[:, None] + 1, r[None, :])
    left = np.exp(r - time)
    return done @ (density * left), done @ (density * (1 - left))
