"""Sampling laws made to carry a wanted load with as few looks as possible.

Three questions, by what the dispatcher knows:

1. Nothing about who is slow, one d for all tasks: `smallest_d`. lam_max grows with d, since
   C(j, d+1)/C(n, d+1) = C(j, d)/C(n, d) (j - d)/(n - d), so bisection finds it.
2. Nothing about who is slow, d free for every task: `fewest_looks`. A law that treats the servers
   alike is a mixture over d of uniform d-sets, so the best of all of them is a linear program in
   the chances of d. Without the free d = 1 its answer is two neighbouring d, because Pi is convex
   in d: the mixture of floor and ceiling has the least Pi(S) for every S among all with its mean.
3. Everything: then a single look carries any load below the capacity, if servers are drawn in
   proportion to their speeds (`draws.proportional`, any d; what d buys is delay). What remains
   open is which sets the dispatcher may look at (a rack, a zone) and what a look costs:
   `cheapest_law`, a linear program over the sets allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import EquipoiseError, UnstableError
from .binomials import share
from .draws import jsq_d, mixture
from .fleet import Fleet, as_fleet, check_rate
from .laws import Law, as_law, members_of, sampled, wrong_set
from .result import Stability

MOST_ROUNDS = 200
NOTHING = 1e-11  # a chance below this, in a solution of HiGHS, is none


def _asked(fleet: Fleet, rate: float, margin: float) -> float:
    """Return the rate to be carried: the given one may be at most 1 - margin of it."""
    if not 0 <= margin < 1:
        raise EquipoiseError(f"margin = {margin} must be at least 0 and less than 1")
    asked = check_rate(rate) / (1 - margin)
    if asked > fleet.capacity or (margin == 0 and asked == fleet.capacity):
        kept = f" with margin {margin:g}" if margin else ""
        raise UnstableError(
            f"rate = {rate:g}{kept} is more than the fleet can do: all servers together have speed "
            f"{fleet.capacity:g}; ask for less than {fleet.capacity * (1 - margin):.6g}"
        )
    return asked


def smallest_d(servers: Any, rate: float, *, margin: float = 0.0, replacement: bool = False) -> int:
    """Return the least d for which the shortest of d uniform draws carries a load.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time), one per server, or groups of (count, speed).
    rate
        Tasks per unit of time, all servers together.
    margin
        The rate must be at most (1 - margin) lam_max; with margin 0 it must be less than lam_max.
    replacement
        Whether one server may be drawn twice.

    Raises
    ------
    UnstableError
        If the rate, with its margin, is more than all servers together can do.
    EquipoiseError
        If speeds, rate or margin are not allowed.

    Examples
    --------
    >>> smallest_d([(80, 1.0), (20, 0.01)], rate=60)
    4
    """
    fleet = as_fleet(servers)
    asked = _asked(fleet, rate, margin)

    def carries(d: int) -> bool:
        lam_max = jsq_d(fleet, d, replacement=replacement).lam_max
        return lam_max > asked if margin == 0 else lam_max >= asked * (1 - 1e-12)

    high = 1
    # Distinct: d = n carries all. With replacement Pi(S) -> 0 for S other than all, so it ends too.
    while not carries(high):
        high = 2 * high if replacement else min(2 * high, fleet.size)
    low = high // 2  # does not carry, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if carries(middle) else (middle, high)
    return high


def fewest_looks(
    servers: Any, rate: float, *, margin: float = 0.05, one_is_free: bool = True
) -> tuple[dict[int, float], Stability]:
    """Return the law that carries a load with the fewest looks, knowing nothing of who is slow.

    Each task looks at d uniformly drawn distinct servers, d itself drawn: the least mean number of
    looks among all sampling laws that treat the servers alike.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time), one per server, or groups of (count, speed).
    rate
        Tasks per unit of time, all servers together.
    margin
        The rate is at most (1 - margin) of what the law carries; > 0, since the cheapest law lies
        on the boundary of what it is asked to carry.
    one_is_free
        A task that looks at one server need not ask its length, so d = 1 costs 0; else 1.

    Returns
    -------
    chances
        {d: probability}, for `mixture`; at most a few d.
    stability
        What it carries, asked at `rate`.

    Raises
    ------
    UnstableError
        If the rate, with its margin, is more than all servers together can do.
    EquipoiseError
        If speeds, rate or margin are not allowed, or the program is not solved.

    Examples
    --------
    >>> chances, s = fewest_looks([0.1, 0.2, 0.3, 0.9, 0.9], rate=2.09, one_is_free=False)
    >>> {d: round(p, 6) for d, p in chances.items()}, round(s.lam_max, 6)
    ({2: 0.863636, 3: 0.136364}, 2.2)
    """
    fleet = as_fleet(servers)
    if margin <= 0:
        raise EquipoiseError(f"margin = {margin} must be more than 0 and less than 1")
    asked = _asked(fleet, rate, margin)
    enough = smallest_d(fleet, rate, margin=margin)
    if enough == 1:
        return {1: 1.0}, mixture(fleet, {1: 1.0}, rate=rate)
    found = _best_chances(fleet, asked, min(enough + 1, fleet.size), one_is_free)
    if one_is_free:
        # At most `alone` of the tasks can look at one server only, and the others' d are two
        # neighbours (convexity again), so with a largest d of D a law costs (1 - alone)(D - 1) at
        # the least: no D beyond that of the law at hand can pay.
        alone = fleet.size * float(fleet.speeds[0]) / asked
        at_hand = sum(p * d for d, p in found.items() if d > 1)
        most = min(fleet.size, int(at_hand / (1 - alone)) + 2)
        if most > enough + 1:
            found = _best_chances(fleet, asked, most, one_is_free)
    return found, mixture(fleet, found, rate=rate)


def _best_chances(fleet: Fleet, asked: float, most: int, one_is_free: bool) -> dict[int, float]:
    """Return the cheapest chances of d = 1 .. most that carry the rate `asked`.

    A linear program with a row for every group that could overflow; rows are added as they are
    found to be violated, a handful in practice.
    """
    draws = np.arange(1, most + 1)
    costs = draws.astype(float)
    costs[0] = 0.0 if one_is_free else 1.0
    allowed = fleet.sums / asked  # Pi of the slowest groups may be at most this
    rows = [0]
    for _ in range(MOST_ROUNDS):
        solution = _solve_chances(fleet, draws, costs, allowed, rows)
        used = np.flatnonzero(solution > NOTHING)
        chances = {int(draws[k]): float(solution[k] / solution[used].sum()) for k in used}
        pi = sum(p * share(fleet.ends, fleet.size, d) for d, p in chances.items())
        over = np.asarray(pi) / allowed
        worst = int(np.argmax(over))
        if over[worst] <= 1 + 1e-10 or worst in rows:
            return chances
        rows.append(worst)
    raise EquipoiseError(
        f"no law was found in {MOST_ROUNDS} rounds; a fixed d for every task will do: smallest_d"
    )


def _solve_chances(
    fleet: Fleet, draws: np.ndarray, costs: np.ndarray, allowed: np.ndarray, rows: list[int]
) -> np.ndarray:
    """Minimise the mean cost over the chances of d, the given groups' ends not overflowing."""
    from scipy.optimize import linprog

    ends = fleet.ends[rows]
    table = np.stack([share(ends, fleet.size, int(d)) for d in draws], axis=1)
    solved = linprog(
        costs,
        A_ub=table / allowed[rows][:, None],
        b_ub=np.ones(len(rows)),
        A_eq=np.ones((1, draws.size)),
        b_eq=np.ones(1),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solved.status != 0:
        raise EquipoiseError(f"the linear program of the looks was not solved: {solved.message}")
    return np.maximum(solved.x, 0.0)


@dataclass(frozen=True, eq=False)
class Design:
    """A sampling law made to carry a load at the least cost."""

    law: Law
    cost: float  # mean cost of a task's looks; the number of looks if no costs were given
    stability: Stability  # what the law carries, asked at the wanted rate


def cheapest_law(
    servers: Any,
    rate: float,
    sets: Iterable[Any],
    *,
    costs: Sequence[float] | np.ndarray | None = None,
    margin: float = 0.05,
    least_share: float | Mapping[int, float] = 0.0,
) -> Design:
    """Return the cheapest sampling law on the given sets that carries a load.

    Minimises the mean cost of the set a task looks at, over all laws on `sets` that carry the load
    with its margin and give every server its least share of the looks: a linear program in what
    tasks of set T hand to server i of T, so the cost is the least possible.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time), one per server, or groups of (count, speed).
    rate
        Tasks per unit of time, all servers together.
    sets
        The sets a task may look at, each a collection of server numbers from 0.
    costs
        Of looking at each set, >= 0; its size if not given.
    margin
        The rate is at most (1 - margin) of what the law carries; 0 <= margin < 1.
    least_share
        Fraction of the tasks that look at a server, at the least: one number for all, or
        {server: fraction}. So that no server is forgotten.

    Raises
    ------
    UnstableError
        If the rate, with its margin, is more than the fleet, or the servers in `sets`, can do.
    EquipoiseError
        If sets, costs or shares are not allowed, or no law on these sets gives those shares.

    Examples
    --------
    Two racks, the second one far away, and a look at both dearer still:

    >>> racks = [(0, 1), (2, 3), (0, 1, 2, 3)]
    >>> made = cheapest_law([1, 1, 0.2, 0.2], 2.09, racks, costs=[2, 4, 20])
    >>> [(one, round(p, 6)) for one, p in made.law], round(made.cost, 6)
    ([((0, 1), 0.909091), ((2, 3), 0.090909)], 2.181818)
    """
    fleet = as_fleet(servers)
    asked = _asked(fleet, rate, margin)
    checked = _allowed(sets, fleet.size)
    sizes = np.array([len(one) for one in checked.sets], dtype=float)
    price = sizes if costs is None else np.asarray(costs, dtype=float)
    if price.shape != sizes.shape or not np.all(np.isfinite(price) & (price >= 0)):
        raise EquipoiseError(f"costs must be {sizes.size} numbers >= 0, one for each set")
    least = _least_shares(least_share, fleet.size)
    mu = fleet.each()
    seen = np.unique(checked.members)
    if mu[seen].sum() < asked * (1 - 1e-12):
        raise UnstableError(
            f"rate = {rate:g} with margin {margin:g} is more than the servers in these sets can "
            f"do, {mu[seen].sum() * (1 - margin):.6g}; allow sets with other servers"
        )
    handed = _handed(checked, mu / max(asked, 1e-300), price, least)
    chances = np.bincount(checked.owners, handed, len(checked.sets))
    pairs = [(one, p) for one, p in zip(checked.sets, chances, strict=True) if p > NOTHING]
    total = sum(p for _, p in pairs)
    law = as_law([(one, p / total) for one, p in pairs], fleet.size)
    return Design(law, float(price @ chances), sampled(fleet, law, rate=rate))


def _allowed(sets: Iterable[Any], servers: int) -> Law:
    """Return the sets that may be looked at, as a law of equal chances."""
    wrong: list[str] = []
    found: list[tuple[int, ...]] = []
    for written in sets:
        try:
            one = members_of(written)
        except TypeError:
            wrong.append(f"{written!r} is not a set of server numbers; write e.g. (0, 1)")
            continue
        wrong += wrong_set(one, servers)
        if tuple(sorted(one)) in found:
            wrong.append(f"the set {written!r} is allowed twice; once is enough")
        found.append(tuple(sorted(one)))
    if not found and not wrong:
        wrong.append("no sets are allowed; give at least one, e.g. [(0, 1)]")
    if wrong:
        raise EquipoiseError("\n".join(wrong))
    return Law(servers, tuple(found), np.full(len(found), 1 / len(found)))


def _least_shares(least_share: float | Mapping[int, float], size: int) -> np.ndarray:
    if isinstance(least_share, Mapping):
        least = np.zeros(size)
        for server, fraction in least_share.items():
            if not 0 <= server < size:
                raise EquipoiseError(f"least_share: no server {server}; they are 0 to {size - 1}")
            least[server] = fraction
    else:
        least = np.full(size, float(least_share))
    if not np.all((least >= 0) & (least <= 1)):
        raise EquipoiseError("least_share must be fractions from 0 to 1")
    return least


def _handed(allowed: Law, room: np.ndarray, price: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return the fraction of all tasks handed from each set to each of its servers, float64[m].

    `room` float64[n] is what a server can take, `least` float64[n] how often it must be seen.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    flows = allowed.members.size
    entries = np.arange(flows)
    take = csr_array((np.ones(flows), (allowed.members, entries)), shape=(room.size, flows))
    belongs = csr_array(
        (np.ones(flows), (allowed.owners, entries)), shape=(len(allowed.sets), flows)
    )
    holds = csr_array(
        (np.ones(flows), (allowed.members, allowed.owners)), shape=(room.size, len(allowed.sets))
    )
    wanted = np.flatnonzero(least > 0)
    looks = (holds @ belongs)[wanted]
    solved = linprog(
        price[allowed.owners],
        A_ub=vstack((take, -looks)) if wanted.size else take,
        b_ub=np.concatenate((room, -least[wanted])),
        A_eq=np.ones((1, flows)),
        b_eq=np.ones(1),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solved.status == 2:
        raise EquipoiseError(
            "no law on these sets gives every server its least share of the looks while it "
            "carries the load; lower least_share or allow more sets"
        )
    if solved.status != 0:
        raise EquipoiseError(f"the linear program of the law was not solved: {solved.message}")
    return np.maximum(solved.x, 0.0)
