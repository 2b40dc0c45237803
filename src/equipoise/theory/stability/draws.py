"""Power of d choices on unequal servers: how much load it carries, and which servers hold it back.

Tasks whose d draws all fall among a set S of servers can go nowhere else; that is a fraction
Pi(S) of the tasks, and S can do mu(S) per unit of time. So

    stable if lam Pi(S) < mu(S) for every S with Pi(S) > 0, unstable if lam Pi(S) > mu(S) for one,
    lam_max = min_S mu(S) / Pi(S),

the drift of sum q_i^2 / 2 being  -int_0^inf [mu(S_x) - lam Pi(S_x)] dx, S_x = {i : q_i > x}.
For uniform draws Pi(S) depends on the size j of S alone, C(j, d)/C(n, d) without replacement and
(j/n)^d with, so the j slowest servers are the worst set of their size. Within a group of equal
speed Pi is convex in j and mu linear, so Pi/mu is quasi-convex, largest at an end of the group:
only whole groups need be looked at, and the answer costs O(groups) after one sort. By the same
convexity rate Pi(S) - mu(S), the growth beyond the boundary, is largest there.

Weighted draws with replacement, server i with probability w_i: Pi(S) = w(S)^d. For a fixed w(S)
the worst set takes its servers in the order of mu_i / w_i (w^d is a maximum of lines in w(S), and
for one line the worst set is {i : mu_i / w_i below its slope}), so only those prefixes matter.
With w proportional to the speeds Pi(S) = (mu(S)/mu_all)^d <= mu(S)/mu_all: nothing is lost. Nor
is it with successive draws without replacement, whose every draw falls into S with at most that
probability.

The set that is looked at decides, not what is compared there: with the queue lengths replaced by
expected delays q_i/mu_i (sed) or by work left (ll-d), the same drift argument with
sum mu_i (q_i/mu_i)^2 or the squared work gives the same region.

Slotted time (all tasks of a slot to one queue; mu_i the mean potential service of a slot) and
continuous time (Poisson arrivals, independent sizes of any law with a mean; mu_i = workers over
mean size) are alike: only the mean rates enter, since both have the same fluid limit.

Source: Hurtado-Lange, Maguluri, Throughput and delay optimality of power-of-d choices in
inhomogeneous load balancing systems, Oper. Res. Lett. 49(4), 2021, section 3, Theorem 1 and
section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .binomials import share
from .fleet import Fleet, as_fleet, check_draws, check_rate
from .result import Stability

TIE = 1e-12  # sets this close (relative) are equally tight; the largest of them is the bottleneck


def jsq_d(
    servers: Any, d: int = 2, *, replacement: bool = False, rate: float | None = None
) -> Stability:
    """Return how much load the shortest of `d` uniformly drawn servers carries.

    d = 1 is random, d = n is join the shortest queue. Costs O(n log n) time and O(n) memory for n
    speeds (0.2 s for 10^6), O(k log k) for k groups, whatever d.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time), one per server, or groups of (count, speed).
    d
        How many servers are drawn, >= 1, and at most their number if they are distinct.
    replacement
        Whether one server may be drawn twice.
    rate
        Tasks per unit of time, all servers together, if the answer is wanted for one.

    Raises
    ------
    EquipoiseError
        If a speed is not > 0, or d or the rate is not allowed.

    Examples
    --------
    >>> print(jsq_d([(90, 1.0), (10, 0.2)], d=2).verdict)
    jsq-d(d=2) carries load 1 of 1 (92 tasks per unit of time): no capacity is lost
    >>> round(jsq_d([0.1, 0.2, 0.3, 0.9, 0.9], d=2).lam_max, 12)
    2.0
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size, replacement)
    rule = f"jsq-d(d={d}, replacement)" if replacement else f"jsq-d(d={d})"
    shares = share(fleet.ends, fleet.size, d, replacement)
    return slowest(rule, fleet, shares, rate, "Hurtado-Lange and Maguluri 2021, Theorem 1")


def random(servers: Any, *, weights: Any = None, rate: float | None = None) -> Stability:
    """Return how much load sending each task to one random server carries.

    Uniform: n times the slowest speed. With `weights`: min_i mu_i / w_i, the weights scaled to sum
    to 1; in proportion to the speeds nothing is lost. Parameters and errors as `weighted`.
    """
    fleet = as_fleet(servers)
    if weights is not None:
        return weighted(fleet, weights, d=1, rate=rate, rule="random(weighted)")
    shares = fleet.ends / fleet.size
    return slowest("random", fleet, shares, rate, "every server must carry its own share")


def jsq(servers: Any, *, rate: float | None = None, rule: str = "jsq") -> Stability:
    """Return how much load looking at all servers carries: all of it.

    So do the least work and the shortest expected delay among all servers (`rule` names them).
    Parameters and errors as `jsq_d`.
    """
    fleet = as_fleet(servers)
    shares = np.zeros(fleet.speeds.size)
    shares[-1] = 1.0
    return slowest(rule, fleet, shares, rate, "every task sees every server")


def mixture(servers: Any, chances: Mapping[int, float], *, rate: float | None = None) -> Stability:
    """Return how much load is carried when the number of distinct uniform draws is itself random.

    Parameters
    ----------
    chances
        {d: probability that a task looks at d servers}, summing to 1 within 1e-9. These are all
        the sampling laws that treat the servers alike.

    Raises
    ------
    EquipoiseError
        If the probabilities are not >= 0 with sum 1, or a d is not allowed; else as `jsq_d`.

    Examples
    --------
    >>> round(mixture([0.1, 0.2, 0.3, 0.9, 0.9], {2: 0.5, 3: 0.5}).lam_max, 12)
    2.4
    """
    fleet = as_fleet(servers)
    if not chances or any(not p >= 0 for p in chances.values()):
        raise EquipoiseError("the chances of a mixture must be probabilities >= 0")
    total = sum(chances.values())
    if abs(total - 1) > 1e-9:
        raise EquipoiseError(f"the chances of a mixture sum to {total:.12g}, not 1")
    shares = np.zeros(fleet.speeds.size)
    for d, chance in chances.items():
        shares += chance / total * share(fleet.ends, fleet.size, check_draws(d, fleet.size))
    shares[-1] = 1.0
    named = ", ".join(f"{d}: {p:.3g}" for d, p in chances.items() if p > 0)
    return slowest(
        f"jsq-d(d={{{named}}})", fleet, shares, rate, "Theorem 1 with Pi averaged over d"
    )


def weighted(
    servers: Any,
    weights: Any,
    d: int = 2,
    *,
    rate: float | None = None,
    rule: str | None = None,
) -> Stability:
    """Return how much load the shortest of `d` servers carries, drawn by weight with replacement.

    With d = 1 it is weighted random sending. With weights proportional to the speeds nothing is
    lost; this says what is lost when the weights are wrong.

    Parameters
    ----------
    servers
        Speeds, one per server, or groups of (count, speed).
    weights
        Of each server, or of one server of each group, > 0, in the order of `servers`; any scale.
    d
        How many draws, >= 1.

    Raises
    ------
    EquipoiseError
        If the weights are not as many as the speeds or groups, or not > 0; else as `jsq_d`.

    Examples
    --------
    A server of half the speed that is drawn as if it were whole:

    >>> weighted([0.5, 1.0, 1.0], [1, 1, 1], d=2).lam_max
    2.5
    >>> weighted([0.5, 1.0, 1.0], [1, 1, 1], d=1).lam_max
    1.5
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size, replacement=True)
    try:
        given = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    if given.shape != fleet.given_speeds.shape:
        wanted = fleet.given_speeds.size
        what = "servers" if fleet.given_counts is None else "groups"
        raise EquipoiseError(f"weights must be {wanted} numbers, one for each of the {what}")
    wrong = ~((given > 0) & np.isfinite(given))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise EquipoiseError(f"weight {first} = {given[first]:g} must be a finite number > 0")
    order = np.argsort(fleet.given_speeds / given, kind="stable")
    counts = np.ones(given.size) if fleet.given_counts is None else fleet.given_counts
    carried = np.cumsum((counts * given)[order])
    speeds = np.cumsum((counts * fleet.given_speeds)[order])
    shares = (carried / carried[-1]) ** d
    tight = _tightest(shares, speeds)
    chosen = np.zeros(given.size, dtype=bool)
    chosen[order[: tight + 1]] = True
    members = fleet.members(chosen)
    name = _name(members.size, fleet.size, fleet.given_speeds[chosen], "slowest for their weight")
    return answer(
        rule or f"jsq-d(d={d}, weighted, replacement)",
        fleet,
        shares,
        speeds,
        tight,
        (members, name),
        rate,
        "Pi(S) = w(S)^d in the drift argument of Theorem 1",
    )


def proportional(
    servers: Any, d: int = 2, *, replacement: bool = False, rate: float | None = None
) -> Stability:
    """Return how much load the shortest of `d` servers carries, drawn in proportion to the speeds.

    All of it, for every fleet and d, with replacement or by successive draws without. Parameters
    and errors as `jsq_d`.
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size, replacement)
    # With replacement Pi(S) = (mu(S)/mu_all)^d; without it is less for all S but the whole fleet.
    # Neither can bind, so only the whole fleet is left.
    shares = np.zeros(fleet.speeds.size)
    shares[-1] = 1.0
    rule = f"jsq-d(d={d}, by speed{', replacement' if replacement else ''})"
    reason = "Pi(S) <= mu(S)/mu_all for every S when draws are in proportion to speed"
    return slowest(rule, fleet, shares, rate, reason)


def capacity_by_d(servers: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the shortest of d distinct uniform draws carries, for d = 1 .. `most`.

    For the picture of capacity against d: one pass over the groups for each d, fewer as d grows,
    0.3 s for 10^6 different speeds and most = 100.

    Returns
    -------
    lam_max
        float64[most], tasks per unit of time, never falling with d.
    slow
        int64[most], the size of the bottleneck: this many of the slowest servers.

    Raises
    ------
    EquipoiseError
        As `jsq_d`; `most` is checked as a d is.
    """
    fleet = as_fleet(servers)
    most = check_draws(most, fleet.size)
    ends, sums = fleet.ends.astype(float), fleet.sums
    size, capacity = float(fleet.size), float(sums[-1])
    shares = np.ones(ends.size)
    best, slow = np.empty(most), np.empty(most, dtype=np.int64)
    for d in range(1, most + 1):
        shares *= np.maximum(ends - (d - 1), 0.0) / (size - (d - 1))
        tight = _tightest(shares, sums)
        best[d - 1] = sums[tight] / shares[tight]
        slow[d - 1] = int(ends[tight])
        # Pi falls as d grows, so a set that could carry the whole capacity never binds again.
        binding = shares * capacity > sums * (1 - 1e-9)
        binding[-1] = True
        if 2 * np.count_nonzero(binding) < binding.size:
            ends, sums, shares = ends[binding], sums[binding], shares[binding]
    return best, slow


def slowest(
    rule: str, fleet: Fleet, shares: np.ndarray, rate: float | None, reason: str
) -> Stability:
    """Return the answer for a law that treats servers alike: Pi of the slowest groups, float64[G].

    `shares` must come from a Pi(j) that is convex in the number j of servers.
    """
    sums = fleet.sums
    tight = _tightest(shares, sums)
    chosen = fleet.given_speeds <= fleet.speeds[tight]
    count = int(fleet.ends[tight])
    name = _name(count, fleet.size, fleet.speeds[[0, tight]], "slowest")
    members = fleet.members(chosen)
    return answer(rule, fleet, shares, sums, tight, (members, name), rate, reason)


def answer(
    rule: str,
    fleet: Fleet,
    shares: np.ndarray,
    speeds: np.ndarray,
    tight: int,
    bottleneck: tuple[np.ndarray, str],
    rate: float | None,
    reason: str,
) -> Stability:
    """Return the answer from the candidate sets: Pi and mu of each, and which one is tight."""
    lam_max = float(speeds[tight] / shares[tight])

    def excess(rate: float) -> float:
        return max(0.0, float(np.max(rate * shares - speeds)))

    members, name = bottleneck
    return Stability(
        rule=rule,
        size=fleet.size,
        capacity=float(speeds[-1]),
        lam_max=lam_max,
        lam_upper=lam_max,
        bottleneck=members,
        bottleneck_speed=float(speeds[tight]),
        bottleneck_share=float(shares[tight]),
        bottleneck_name=name,
        reason=reason,
        rate=None if rate is None else check_rate(rate),
        excess=excess,
    )


def _tightest(shares: np.ndarray, speeds: np.ndarray) -> int:
    """Return the candidate with the least speed per share, the last one among ties."""
    tightness = shares / speeds
    return int(np.flatnonzero(tightness >= tightness.max() * (1 - TIE))[-1])


def _name(count: int, size: int, speeds: np.ndarray, which: str) -> str:
    least, most = float(speeds.min()), float(speeds.max())
    span = f"speed {least:.3g}" if least == most else f"speeds {least:.3g} to {most:.3g}"
    if count == size:
        return f"all {size} servers ({span})" if size > 1 else f"the one server ({span})"
    if count == 1:
        return f"the {which.replace('their', 'its')} of {size} servers ({span})"
    return f"the {count} {which} of {size} servers ({span})"
