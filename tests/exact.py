"""Exact values, from closed forms and from small Markov chains solved as linear equations.

Independent of the package and of `reference.py`: rules are given as probabilities, messages
by the token table of the threshold policy's authors, laws by numpy and scipy.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

# --- One station -----------------------------------------------------------------------------


def erlang_b(servers: int, offered: float) -> float:
    """Fraction of tasks lost in M/M/c/c (M/G/c/c too), `offered` = arrival rate x mean size."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked


def erlang_c(servers: int, offered: float) -> float:
    """Fraction of tasks that wait in M/M/c, offered < servers."""
    blocked = erlang_b(servers, offered)
    return servers * blocked / (servers - offered * (1 - blocked))


def mmc_wait(servers: int, rate: float, mean: float = 1.0) -> float:
    """Mean wait in M/M/c (s): tasks at `rate` per second, sizes of `mean` seconds."""
    return erlang_c(servers, rate * mean) / (servers / mean - rate)


def mmc_wait_quantile(servers: int, rate: float, p: float, mean: float = 1.0) -> float:
    """Quantile of the wait in M/M/c (s): P(W > t) = C exp(-(c/mean - rate) t)."""
    waits = erlang_c(servers, rate * mean)
    return max(0.0, math.log(waits / (1 - p)) / (servers / mean - rate))


def mm1_response_quantile(rate: float, p: float, mean: float = 1.0) -> float:
    """Quantile of wait and service together in M/M/1 (s): exponential."""
    return -math.log(1 - p) / (1 / mean - rate)


def pollaczek_khinchine(rate: float, mean: float, scv: float) -> float:
    """Mean wait in M/G/1 (s); scv is the variance of the sizes over their mean squared."""
    load = rate * mean
    return load / (1 - load) * mean * (1 + scv) / 2


def dm1_root(load: float) -> float:
    """Probability that a task waits in D/M/1: the root of s = exp(-(1 - s)/load) in (0, 1)."""
    return brentq(lambda s: math.exp(-(1 - s) / load) - s, 0.0, 1 - (1 - load) / 2, xtol=1e-15)


def dm1_wait(load: float) -> float:
    """Mean wait in D/M/1, in mean sizes: round robin over infinitely many servers."""
    root = dm1_root(load)
    return root / (1 - root)


def round_robin_wait(servers: int, load: float) -> float:
    """Mean wait under round robin with Poisson arrivals: Erlang_n/M/1, in mean sizes."""
    rate = servers * load
    root = brentq(
        lambda s: (rate / (rate + 1 - s)) ** servers - s, 0.0, 1 - (1 - load) / 4, xtol=1e-15
    )
    return root / (1 - root)


# --- Infinitely many servers -----------------------------------------------------------------


def jsq_d_tail(load: float, d: int) -> list[float]:
    """Fraction of servers with at least i tasks, i = 1, 2, ..., under JSQ(d), d >= 2."""
    tail, i = [], 1
    while (value := load ** ((d**i - 1) / (d - 1))) > 1e-18:
        tail.append(value)
        i += 1
    return tail


def jsq_d_wait(load: float, d: int) -> float:
    """Mean wait under JSQ(d), in mean sizes."""
    return sum(jsq_d_tail(load, d)) / load - 1


@dataclass(frozen=True)
class PoolLaw:
    """The stationary law of tasks per pool under a fixed threshold, infinitely many pools."""

    lowest: int
    rate: float  # r, of the Poisson law that is cut to lowest, lowest + 1, ...
    pi: np.ndarray  # float64[k]: fractions of pools with lowest + i tasks

    @property
    def q(self) -> np.ndarray:
        """Fraction of pools with at least i tasks, i = lowest + 1, ..., lowest + k - 1."""
        return self.pi[::-1].cumsum()[::-1][1:]

    def at(self, tasks: int) -> float:
        i = tasks - self.lowest
        return float(self.pi[i]) if 0 <= i < self.pi.size else 0.0

    @property
    def mean(self) -> float:
        return float(self.pi @ (self.lowest + np.arange(self.pi.size)))


def threshold_law(lam: float, level: int, step: int = 1, beyond: int = 60) -> PoolLaw:
    """The Poisson law of mean `lam` after it is cut to the range that the threshold leaves.

    {0..l} when l > lam, {l..h} when l <= lam <= h, {h, h + 1, ...} when h < lam; the last is
    cut again at h + beyond.
    """
    high = level + step
    if level > lam:
        lowest, highest = 0, level
    elif lam <= high:
        lowest, highest = level, high
    else:
        lowest, highest = high, high + beyond
    j = np.arange(lowest, highest + 1)
    factorials = np.array([math.lgamma(k + 1) for k in j])

    def law(log_rate: float) -> np.ndarray:
        weights = j * log_rate - factorials
        weights = np.exp(weights - weights.max())
        return weights / weights.sum()

    root = brentq(lambda x: float(law(x) @ j) - lam, -50.0, 50.0, xtol=1e-14)
    return PoolLaw(lowest, math.exp(root), law(root))


def threshold_messages(lam: float, level: int, step: int = 1) -> tuple[float, float]:
    """Messages per task on joining and on leaving, infinitely many pools in equilibrium."""
    law, high = threshold_law(lam, level, step), level + step
    if level > lam:
        leave = level * law.at(level) / lam
        return 1 - leave, leave
    if lam <= high:
        join = law.rate * sum(law.at(j) for j in range(level, high - 1)) / lam
        return join, 1 - join
    return 0.0, high * law.at(high) / lam


# --- Small systems, by generator -------------------------------------------------------------

Lengths = tuple[int, ...]
Said = dict[str, float]  # messages, by kind


@dataclass(frozen=True)
class Chain:
    """The stationary law of a few servers under a policy, and what follows from it."""

    servers: int
    rate: float  # tasks per second, all servers
    lengths: list[Lengths]  # of each state
    levels: list[int]  # threshold in each state, 0 if there is none
    law: np.ndarray  # float64[states]
    edge: float  # fraction of tasks that came to a server at the cap; lost
    messages: Said  # per task
    changes: float  # changes of the threshold per second
    workers: float  # tasks in service at once at a server, infinity for pools

    def mean(self, of_lengths) -> float:
        """The stationary mean of a function of the lengths."""
        return float(self.law @ np.array([of_lengths(x) for x in self.lengths], dtype=float))

    @property
    def mean_tasks(self) -> float:
        """Tasks per server."""
        return self.mean(sum) / self.servers

    @property
    def mean_wait(self) -> float:
        """Seconds, of the tasks that were not lost, by Little's law."""
        waiting = self.mean(lambda x: sum(max(q - self.workers, 0) for q in x))
        return waiting / (self.rate * (1 - self.edge))

    @property
    def occupancy(self) -> np.ndarray:
        """Fraction of servers with at least i tasks, i = 1, 2, ..."""
        table = np.array(self.lengths)
        levels = range(1, int(table.max()) + 1)
        return np.array([self.law @ (table >= i).mean(axis=1) for i in levels])

    @property
    def imbalance(self) -> float:
        """Mean tasks per server out of balance, from the definition by occupancies."""

        def moved(x: Lengths) -> float:
            n, total = len(x), sum(x)
            distance = 0.0
            for i in range(1, max(x) + 1):
                balanced = min(max(total - n * (i - 1), 0), n)
                distance += abs(sum(q >= i for q in x) - balanced)
            return distance / 2

        return self.mean(moved) / self.servers

    @property
    def mean_neighbours(self) -> float:
        """Other tasks at the server of a task, over all tasks and time."""
        return self.mean(lambda x: sum(q * (q - 1) for q in x)) / self.mean(sum)

    @property
    def level_time(self) -> dict[int, float]:
        """Fraction of time at each threshold."""
        spent: dict[int, float] = defaultdict(float)
        for level, weight in zip(self.levels, self.law, strict=True):
            spent[level] += float(weight)
        return dict(spent)


def chain(
    policy: str,
    servers: int,
    rate: float,
    *,
    workers: float = 1,
    cap: int = 60,
    **params,
) -> Chain:
    """Solve `servers` servers of rate 1 per task in service, tasks arriving at `rate`.

    workers = math.inf makes pools. `cap` is the most tasks at a server: a limit, or a
    truncation, whose effect shows in `edge`. Servers are kept in ascending order of length,
    except under round-robin, where they stand in the order of their turns.
    """
    place = _placements(policy, params)
    ordered = policy == "round-robin"
    learns = policy == "learning-threshold"
    first = ((0,) * servers, params.get("level", 0))
    numbers, todo = {first: 0}, deque([first])
    rows, columns, rates = [], [], []
    said: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def go(source: int, lengths: Lengths, level: int, speed: float) -> None:
        state = (lengths if ordered else tuple(sorted(lengths)), level)
        if state not in numbers:
            numbers[state] = len(numbers)
            todo.append(state)
        rows.append(source)
        columns.append(numbers[state])
        rates.append(speed)

    while todo:
        state = todo.popleft()
        here, (lengths, level) = numbers[state], state
        for at, probability in place(lengths, level):
            speed = rate * probability
            said["probe"].append((here, speed * _probes(policy, params)))
            if lengths[at] == cap:
                said["edge"].append((here, speed))
                go(here, (*lengths[1:], lengths[0]) if ordered else lengths, level, speed)
                continue
            after = (*lengths[:at], lengths[at] + 1, *lengths[at + 1 :])
            if _tells_joining(policy, params, lengths[at], level):
                said["join"].append((here, speed))
            new = _learnt(params, lengths, after, level) if learns else level
            if policy == "total-threshold":  # that of the last task, announced to nobody
                new = _of_total(params, lengths)
            if new != level and not learns:
                said["changes"].append((here, speed))
            elif new != level:
                answers = sum(q < new + params.get("step", 1) for q in after)
                said["answer"].append((here, speed * answers))
                said["changes"].append((here, speed))
            go(here, (*after[1:], after[0]) if ordered else after, new, speed)
        for at, length in enumerate(lengths):
            if length == 0:
                continue
            speed = float(min(length, workers))
            if _tells_leaving(policy, params, length, level):
                said["leave"].append((here, speed))
            go(here, (*lengths[:at], length - 1, *lengths[at + 1 :]), level, speed)

    law = _stationary(len(numbers), rows, columns, rates)
    flow = {kind: sum(float(law[i]) * speed for i, speed in terms) for kind, terms in said.items()}
    kinds = ("join", "leave", "update", "answer", "probe")
    states = list(numbers)
    return Chain(
        servers=servers,
        rate=rate,
        lengths=[lengths for lengths, _ in states],
        levels=[level for _, level in states],
        law=law,
        edge=flow.get("edge", 0.0) / rate,
        messages={kind: flow.get(kind, 0.0) / rate for kind in kinds},
        changes=flow.get("changes", 0.0),
        workers=workers,
    )


def _stationary(size, rows, columns, rates) -> np.ndarray:
    """The law that a generator leaves unchanged, on its only closed class of states."""
    flows = coo_array((rates, (rows, columns)), shape=(size, size)).tocsr()
    _, label = connected_components(flows, directed=True, connection="strong")
    leaving = label[np.asarray(rows)] != label[np.asarray(columns)]
    closed = np.setdiff1d(label, label[np.asarray(rows)[leaving]])
    assert closed.size == 1, "more than one closed class"
    inside = np.flatnonzero(label == closed[0])
    flows = flows[inside][:, inside].tocoo()
    k = inside.size
    law = np.zeros(size)
    if k == 1:
        law[inside] = 1.0
        return law
    out = np.asarray(flows.sum(axis=1)).ravel()
    balance = flows.T.tocsc() - csc_array((out, (np.arange(k), np.arange(k))), shape=(k, k))
    # One equation follows from the others: set the weight of the first state to 1 instead.
    weights = np.concatenate(
        ([1.0], splu(csc_array(balance[1:, 1:])).solve(-balance[1:, [0]].toarray().ravel()))
    )
    law[inside] = weights / weights.sum()
    return law


def _placements(policy: str, params):
    """For a state, pairs (position of a server, probability that it is chosen)."""

    def uniform(positions: list[int]) -> Iterator[tuple[int, float]]:
        return ((at, 1 / len(positions)) for at in positions)

    def best_of(draws: list[Lengths], lengths: Lengths) -> Iterator[tuple[int, float]]:
        for drawn in draws:
            least = min(lengths[at] for at in drawn)
            tied = [at for at in drawn if lengths[at] == least]
            for at in tied:
                yield at, 1 / len(tied) / len(draws)

    def place(lengths: Lengths, level: int):
        everyone = list(range(len(lengths)))
        if policy == "random":
            return uniform(everyone)
        if policy == "round-robin":
            return uniform([0])
        if policy == "jsq":
            return uniform([at for at in everyone if lengths[at] == min(lengths)])
        if policy == "jsq-d":
            d = params.get("d", 2)
            if params.get("replacement", False):
                return best_of(list(product(everyone, repeat=d)), lengths)
            return best_of(list(combinations(everyone, d)), lengths)
        if policy in ("jiq", "jbt"):
            r = 1 if policy == "jiq" else params["r"]
            return uniform([at for at in everyone if lengths[at] < r] or everyone)
        if policy == "total-threshold":
            level = _of_total(params, lengths)
        high = level + params.get("step", 1)
        green = [at for at in everyone if lengths[at] < level]
        yellow = [at for at in everyone if level <= lengths[at] < high]
        return uniform(green or yellow or everyone)

    return place


def _probes(policy: str, params) -> int:
    """Questions and answers of one task."""
    return 2 * params.get("d", 2) if policy == "jsq-d" else 0


def _tells_joining(policy: str, params, before: int, level: int) -> bool:
    """Does a server with `before` tasks send a message when another joins it?"""
    if policy == "jbt":
        return before + 1 < params["r"]
    if policy == "total-threshold":
        return False
    if policy.endswith("threshold"):
        high = level + params.get("step", 1)
        by_green, by_yellow = before < level, level <= before < high
        return (by_green and before + 1 < level) or (by_yellow and before + 1 < high)
    return False


def _tells_leaving(policy: str, params, before: int, level: int) -> bool:
    """Does a server with `before` tasks send a message when one of them leaves?"""
    if policy in ("jsq", "total-threshold"):
        return True
    if policy in ("jiq", "jbt"):
        return before == (1 if policy == "jiq" else params["r"])
    if policy.endswith("threshold"):
        return before in (level, level + params.get("step", 1))
    return False


def _of_total(params, lengths: Lengths) -> int:
    """The tasks per server, rounded down to a multiple of the step."""
    step = params.get("step", 1)
    return step * (sum(lengths) // (step * len(lengths)))


def _learnt(params, before: Lengths, after: Lengths, level: int) -> int:
    """The threshold after a task was placed."""
    alpha, step, n = params["alpha"], params.get("step", 1), len(before)
    if params.get("rule", "tokens") == "tokens":
        if sum(q < level + step for q in before) <= 1:
            return level + step
        if level >= step and sum(q >= level for q in before) <= alpha * n:
            return level - step
        return level
    if all(q >= level + step for q in after):
        level += step
    if level >= step and sum(q >= level for q in after) <= alpha * n + 1:
        level -= step
    return level


# --- Messages that are left out ------------------------------------------------------------------


def sparsified(servers: int, load: float, p: float, cap: int = 40) -> tuple[float, float]:
    """Mean wait (mean sizes) and messages per task of sparsified JIQ, `load` tasks per server.

    A state is, of each server, its length, or -1 for an idle one that is known to be.
    """
    first = (-1,) * servers
    numbers, todo = {first: 0}, deque([first])
    rows, columns, rates, said = [], [], [], []

    def go(state: Lengths, at: int, value: int, speed: float) -> None:
        new = tuple(sorted((*state[:at], value, *state[at + 1 :])))
        if new not in numbers:
            numbers[new] = len(numbers)
            todo.append(new)
        rows.append(numbers[state]), columns.append(numbers[new]), rates.append(speed)

    while todo:
        state = todo.popleft()
        known = [at for at, length in enumerate(state) if length < 0]
        for at, length in enumerate(state):
            if length < cap and (at in known or not known):
                go(state, at, max(length, 0) + 1, load * servers / len(known or state))
            if length == 1:
                said.append((numbers[state], p))
                go(state, at, -1, p)
                go(state, at, 0, 1 - p)
            elif length > 1:
                go(state, at, length - 1, 1.0)
    law = _stationary(len(numbers), rows, columns, rates)
    present = sum(w * sum(max(q, 0) for q in x) for x, w in zip(numbers, law, strict=True))
    messages = sum(float(law[i]) * speed for i, speed in said)
    return present / (load * servers) - 1, messages / (load * servers)


# --- Servers of unequal speed ----------------------------------------------------------------


@dataclass(frozen=True)
class Unequal:
    """The stationary law of a few servers of unequal speed."""

    law: np.ndarray  # float64[cap + 1, ...], an axis per server

    @property
    def lengths(self) -> np.ndarray:
        return np.indices(self.law.shape)

    @property
    def means(self) -> list[float]:
        """Tasks at each server."""
        return [float((self.law * q).sum()) for q in self.lengths]

    @property
    def mean_tasks(self) -> float:
        """Tasks per server."""
        return sum(self.means) / self.law.ndim

    def at_least(self, tasks: int) -> float:
        """Fraction of servers with at least so many tasks."""
        return float(np.mean([(self.law * (q >= tasks)).sum() for q in self.lengths]))

    @property
    def edge(self) -> float:
        """The mass of states with a server at the cap."""
        full = (self.lengths == self.law.shape[0] - 1).any(axis=0)
        return float(self.law[full].sum())


def unequal(policy: str, speeds, rate: float, cap: int, workers: int = 1, **params) -> Unequal:
    """Solve servers of these speeds, exponential sizes of mean 1, tasks arriving at `rate`.

    Policies: jsq, sed, random, jsq-d; `weight` gives the chance of each server to be drawn first
    (the same for all if absent), `replacement` whether it may be drawn again. A task at a server
    with `cap` tasks is lost: `edge` shows what that does.
    """
    speeds = np.array(speeds, float)
    n, shape = speeds.size, (cap + 1,) * speeds.size
    q = np.indices(shape).reshape(n, -1)
    here = np.arange(q.shape[1])
    share = _shares(policy, speeds, q, params)
    rows, columns, rates = [], [], []
    for i in range(n):
        step = (cap + 1) ** (n - 1 - i)
        can = q[i] < cap
        rows.append(here[can]), columns.append(here[can] + step)
        rates.append(rate * share[i][can])
        can = q[i] > 0
        rows.append(here[can]), columns.append(here[can] - step)
        rates.append(speeds[i] * np.minimum(q[i][can], workers))
    rows, columns, rates = map(np.concatenate, (rows, columns, rates))
    flows = csc_array(coo_array((rates, (rows, columns)), shape=(here.size,) * 2))
    out = np.asarray(flows.sum(axis=1)).ravel()
    balance = flows.T.tocsc() - csc_array((out, (here, here)), shape=flows.shape)
    weights = np.concatenate(
        ([1.0], splu(csc_array(balance[1:, 1:])).solve(-balance[1:, [0]].toarray().ravel()))
    )
    return Unequal((weights / weights.sum()).reshape(shape))


def _shares(policy: str, speeds: np.ndarray, q: np.ndarray, params) -> np.ndarray:
    """Return the chance of each server in each state, float64[n, states]."""
    n = speeds.size
    if policy == "random":
        weight = np.array(params.get("weight", np.ones(n)), float)
        return np.broadcast_to((weight / weight.sum())[:, None], q.shape)
    badness = (q + 1) / speeds[:, None] if policy == "sed" else q.astype(float)
    draws = _draws(n, params) if policy == "jsq-d" else {tuple(range(n)): 1.0}
    share = np.zeros(q.shape)
    for drawn, chance in draws.items():
        asked = list(set(drawn))
        least = badness[asked].min(axis=0)
        best = np.zeros(q.shape)
        best[asked] = np.isclose(badness[asked], least, rtol=1e-12, atol=0)
        share += chance * best / best.sum(axis=0)
    return share


def _draws(n: int, params) -> dict[tuple[int, ...], float]:
    """The sequences of servers drawn one after the other, and their chances."""
    weight = np.array(params.get("weight", np.ones(n)), float)
    found = {}
    for drawn in product(range(n), repeat=params.get("d", 2)):
        if not params.get("replacement", False) and len(set(drawn)) < len(drawn):
            continue
        chance, left = 1.0, weight.sum()
        for server in drawn:
            chance *= weight[server] / left
            left -= 0.0 if params.get("replacement", False) else weight[server]
        found[drawn] = chance
    return found
