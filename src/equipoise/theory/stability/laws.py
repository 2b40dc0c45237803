"""Any sampling law: which sets of servers are looked at, and how often.

A law gives each set T of servers the probability pi(T) with which a task looks at it; the task
goes to the shortest queue in T. With Pi(S) = sum of pi(T) over T inside S,

    stable if lam Pi(S) < mu(S) for every S with Pi(S) > 0, unstable if lam Pi(S) > mu(S) for one,

in slotted and in continuous time alike (see `draws`). There are 2^n sets S, but by max-flow and
min-cut lam is carried exactly if the flow

    source -(lam pi(T))-> T -(no limit)-> every i in T -(mu_i)-> sink

fills all arcs from the source: each task could be handed to a server of its set without giving
any server too much. Two ways to the largest such lam, polynomial in servers and sets:

- `method="cut"`, Dinkelbach: start from lam = mu_all; while some S overflows take the worst one,
  the servers on the source side of the minimum cut, and set lam to mu(S)/Pi(S). lam falls every
  time and S shrinks, so at most n rounds; two in practice. Gives the bottleneck.
- `method="lp"`: maximise lam subject to that flow, by HiGHS; the bottleneck is read off the prices
  of the servers' capacities.

Source: Hurtado-Lange, Maguluri 2021, section 5, for the sufficient condition; necessity and
both algorithms are worked out here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .fleet import as_fleet, check_rate
from .maxflow import Network
from .result import Stability

SUM = 1e-9  # the probabilities of a law may miss 1 by this much; they are then scaled
TINY = 1e-15  # of a flow of 1: less is rounding
MOST_ROUNDS = 1000

Pairs = Mapping[Any, float] | Iterable[tuple[Any, float]]


@dataclass(frozen=True, eq=False)
class Law:
    """A sampling law, checked: which sets of servers (numbered from 0) are looked at, how often."""

    servers: int
    sets: tuple[tuple[int, ...], ...]  # each ascending, not empty, all different
    chances: np.ndarray  # float64[k], > 0, sum 1

    @cached_property
    def members(self) -> np.ndarray:
        """The servers of all sets one after the other, int64[m]."""
        return np.array([server for one in self.sets for server in one], dtype=np.int64)

    @cached_property
    def owners(self) -> np.ndarray:
        """The set each entry of `members` belongs to, int64[m]."""
        return np.repeat(np.arange(len(self.sets)), [len(one) for one in self.sets])

    @property
    def looks(self) -> float:
        """The mean number of servers a task looks at."""
        return float(self.chances @ [len(one) for one in self.sets])

    @property
    def shares(self) -> np.ndarray:
        """The probability with which each server is looked at, float64[servers]."""
        return np.bincount(self.members, self.chances[self.owners], self.servers)

    def inside(self, chosen: np.ndarray) -> float:
        """Return Pi(S): how often all that is looked at lies in S, bool[servers]."""
        outside = np.bincount(self.owners, ~chosen[self.members], len(self.sets))
        return math.fsum(self.chances[outside == 0])

    def __iter__(self) -> Any:
        return iter(zip(self.sets, self.chances.tolist(), strict=True))


def as_law(law: Law | Pairs, servers: int) -> Law:
    """Return the sampling law that was written.

    Parameters
    ----------
    law
        {set of servers: probability}, e.g. `{(0, 1): 0.7, (2,): 0.3}`, or the same as pairs; the
        servers are numbered from 0, a set is any collection of numbers (or one number). Sets of
        probability 0 are dropped.
    servers
        How many there are.

    Raises
    ------
    EquipoiseError
        One line for each mistake: an empty set, a server that is unknown or named twice, a set
        with two probabilities, a probability that is not a number >= 0, a sum other than 1.
    """
    if isinstance(law, Law):
        if law.servers != servers:
            raise EquipoiseError(f"the law is for {law.servers} servers, the fleet has {servers}")
        return law
    pairs = list(law.items()) if isinstance(law, Mapping) else list(law)
    wrong: list[str] = []
    found: dict[tuple[int, ...], float] = {}
    if not pairs:
        wrong.append("the law names no sets; write e.g. {(0, 1): 0.7, (2,): 0.3}")
    chances: list[float] = []
    for pair in pairs:
        try:
            written, chance = pair
            one = members_of(written)
        except (TypeError, ValueError):
            wrong.append(f"{pair!r} is not (set of server numbers, probability)")
            continue
        if not isinstance(chance, int | float | np.number) or not 0 <= chance < np.inf:
            wrong.append(f"set {_text(one)}: probability = {chance!r} must be a number >= 0")
            continue
        chance = float(chance)
        chances.append(chance)
        wrong += wrong_set(one, servers)
        key = tuple(sorted(one))
        if key in found:
            first = found[key]
            wrong.append(
                f"set {_text(key)} has two probabilities, {first:g} and {chance:g}; add them up"
            )
        found[key] = chance
    total = math.fsum(chances)
    if not wrong and abs(total - 1) > SUM:
        wrong.append(f"the probabilities of the law sum to {total:.12g}, not 1")
    if wrong:
        raise EquipoiseError("\n".join(wrong))
    kept = {one: chance for one, chance in found.items() if chance > 0}
    return Law(servers, tuple(kept), np.array(list(kept.values())) / total)


def members_of(written: Any) -> list[int]:
    """Return the server numbers of a set as it was written; TypeError if it is none."""
    if isinstance(written, int | np.integer):
        return [operator.index(written)]
    if isinstance(written, str):
        raise TypeError
    return [operator.index(server) for server in written]


def wrong_set(one: list[int], servers: int) -> list[str]:
    """Return what is wrong with a set of server numbers, a line each."""
    if not one:
        return ["the set {} is empty; a task must look at one server at least"]
    wrong = []
    for server in sorted(set(one)):
        if not 0 <= server < servers:
            known = f"the servers are 0 to {servers - 1}" if servers > 1 else "there is only 0"
            wrong.append(f"set {_text(one)}: no server {server}; {known}")
        if one.count(server) > 1:
            wrong.append(f"set {_text(one)} names server {server} twice")
    return wrong


def _text(one: Iterable[int]) -> str:
    return "{" + ", ".join(str(server) for server in one) + "}"


def sampled(
    servers: Any, law: Law | Pairs, *, rate: float | None = None, method: str = "cut"
) -> Stability:
    """Return how much load the shortest of a sampled set of servers carries.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time), one per server, or groups of (count, speed).
    law
        {set of servers: probability}, servers numbered from 0; see `as_law`.
    rate
        Tasks per unit of time, if the answer is wanted for one.
    method
        "cut" (Dinkelbach with minimum cuts) or "lp" (HiGHS). They agree to 1e-9; the first needs
        no scipy and is far quicker on large laws (0.8 s against 44 s for 10^4 sets of 3 among
        2000 servers).

    Raises
    ------
    EquipoiseError
        If speeds, law, rate or method are not allowed; a line for each mistake of the law.

    Examples
    --------
    A new server gets 1 % of the looks, alone, the others 99 % in pairs:

    >>> s = sampled([1.0, 1.0, 0.5], {(0, 1): 0.99, (2,): 0.01})
    >>> round(s.lam_max, 6), s.bottleneck.tolist()
    (2.020202, [0, 1])
    """
    fleet = as_fleet(servers)
    checked = as_law(law, fleet.size)
    mu = fleet.each()
    if method not in ("cut", "lp"):
        raise EquipoiseError(f"method = '{method}' must be 'cut' or 'lp'")
    tight = (_by_cuts if method == "cut" else _by_program)(mu, checked)
    speed, share = float(mu[tight].sum()), checked.inside(tight)
    lam_max = speed / share

    def excess(rate: float) -> float:
        if rate <= lam_max:
            return 0.0
        worst = overflow(mu, checked, rate)
        return max(0.0, rate * checked.inside(worst) - float(mu[worst].sum()))

    members = np.flatnonzero(tight)
    return Stability(
        rule=f"sampled({len(checked.sets)} sets)",
        size=fleet.size,
        capacity=float(mu.sum()),
        lam_max=lam_max,
        lam_upper=lam_max,
        bottleneck=members,
        bottleneck_speed=speed,
        bottleneck_share=share,
        bottleneck_name=_name(members, fleet.size),
        reason="Hurtado-Lange and Maguluri 2021, section 5; necessity by min-cut",
        rate=None if rate is None else check_rate(rate),
        excess=excess,
    )


def overflow(mu: np.ndarray, law: Law, rate: float) -> np.ndarray:
    """Return the smallest set with the largest rate Pi(S) - mu(S), bool[n]; empty if none is > 0.

    `mu` float64[n], `rate` tasks per unit of time. By one minimum cut, in units of the capacity.
    """
    whole = float(mu.sum())
    sets = len(law.sets)
    source, sink = 0, 1 + sets + law.servers
    network = Network(sink + 1, TINY)
    for number, chance in enumerate(law.chances.tolist()):
        network.add(source, 1 + number, rate / whole * chance)
    for number, server in zip(law.owners.tolist(), law.members.tolist(), strict=True):
        network.add(1 + number, 1 + sets + server, np.inf)
    for server, speed in enumerate(mu.tolist()):
        network.add(1 + sets + server, sink, speed / whole)
    network.send(source, sink)
    return np.array(network.reached(source)[1 + sets : sink])


def _by_cuts(mu: np.ndarray, law: Law) -> np.ndarray:
    """Return the bottleneck, bool[n], by Dinkelbach's iteration."""
    tight = np.ones(mu.size, dtype=bool)
    lam = float(mu.sum())
    for _ in range(MOST_ROUNDS):
        worse = overflow(mu, law, lam)
        share = law.inside(worse)
        if share == 0 or (better := float(mu[worse].sum()) / share) >= lam * (1 - 1e-13):
            return tight
        tight, lam = worse, better
    raise EquipoiseError(f"no bottleneck after {MOST_ROUNDS} cuts; the best bound is {lam:.12g}")


def _by_program(mu: np.ndarray, law: Law) -> np.ndarray:
    """Return the bottleneck, bool[n], from the linear program and its prices.

    Variables: what a task of set T hands to server i of T, and lam last, in units of the capacity.
    The dual is min y mu with sum_T pi(T) min_{i in T} y_i = 1, y >= 0, and every level set
    {y > c} of a solution is a bottleneck (the ratio mu(S)/Pi(S) is averaged over level sets).
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    flows, sets = law.members.size, len(law.sets)
    entries = np.arange(flows)
    balance = csr_array(
        (
            np.concatenate((np.ones(flows), -law.chances)),
            (
                np.concatenate((law.owners, np.arange(sets))),
                np.concatenate((entries, np.full(sets, flows))),
            ),
        ),
        shape=(sets, flows + 1),
    )
    capacity = csr_array((np.ones(flows), (law.members, entries)), shape=(mu.size, flows + 1))
    cost = np.zeros(flows + 1)
    cost[-1] = -1.0
    solved = linprog(
        cost,
        A_ub=capacity,
        b_ub=mu / mu.sum(),
        A_eq=balance,
        b_eq=np.zeros(sets),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solved.status != 0:
        raise EquipoiseError(f"the linear program of the law was not solved: {solved.message}")
    prices = -solved.ineqlin.marginals
    best = np.ones(mu.size, dtype=bool)
    least = float(solved.x[-1] * mu.sum())
    levels = np.unique(prices)
    for low in levels[:-1]:
        tight = prices > low
        share = law.inside(tight)
        if share > 0 and float(mu[tight].sum()) / share <= least * (1 + 1e-9):
            best = tight
            break
    ratio = float(mu[best].sum()) / max(law.inside(best), TINY)
    if abs(ratio - least) > 1e-8 * least:
        raise EquipoiseError(
            f"the linear program of the law was not solved: {least} against {ratio}"
        )
    return best


def _name(members: np.ndarray, size: int) -> str:
    if members.size == size:
        return f"all {size} servers"
    if members.size == 1:
        return f"server {members[0]} of {size}"
    if members.size <= 8:
        return "servers " + ", ".join(map(str, members[:-1])) + f" and {members[-1]} of {size}"
    return f"{members.size} of {size} servers"
