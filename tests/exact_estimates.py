"""Exact values of a few queues behind a dispatcher that goes by estimates, from their chains.

A state is (length, estimate) of each server. Between updates it is a Markov chain in time; the
updates are jumps of the chain where they are exponential, and a map applied once per period where
they are regular. Independent of the package and of `reference.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from exact import _stationary
from scipy.sparse import coo_array
from scipy.stats import poisson

Server = tuple[int, int]  # length, estimate
State = tuple[Server, ...]


@dataclass(frozen=True)
class Known:
    """What the stationary law gives."""

    mean_tasks: float  # per server
    mean_wait: float  # in mean service times, by Little's law
    occupancy: np.ndarray  # float64[cap]: fraction of servers with at least i tasks, i = 1, 2, ...
    updates: float  # messages per task, one each
    edge: float  # fraction of tasks that came to a server at the cap; lost


def estimates(
    servers: int,
    load: float,
    *,
    together: bool,
    regular: bool,
    delta: float,
    idle_only: bool = False,
    counted: bool = True,
    cap: int = 12,
) -> Known:
    """Solve queues of rate 1, `load` tasks per server and unit of time.

    `counted` says whether the dispatcher adds its own sends; without, it is stale-jsq. At `cap`
    tasks, or at an estimate of `cap`, a task is lost: `edge` shows what that does.
    """

    def told(server: Server) -> Server:
        return server if idle_only and server[0] > 0 else (server[0], server[0])

    def arranged(state: State) -> State:
        """Servers that update in turn stand in the order of their turns; others have no order."""
        return state if regular and not together else tuple(sorted(state))

    def tick(state: State) -> State:
        if together:
            return arranged(tuple(map(told, state)))
        return (*state[1:], told(state[0]))

    rate = load * servers
    numbers: dict[State, int] = {}
    todo: deque[State] = deque()
    rows, columns, rates, lost = [], [], [], []

    def number(state: State) -> int:
        if state not in numbers:
            numbers[state] = len(numbers)
            todo.append(state)
        return numbers[state]

    def go(here: int, state: State, speed: float) -> None:
        rows.append(here), columns.append(number(arranged(state))), rates.append(speed)

    number(((0, 0),) * servers)
    ticked = {}
    while todo:
        state = todo.popleft()
        here = numbers[state]
        least = min(estimate for _, estimate in state)
        tied = [k for k, (_, estimate) in enumerate(state) if estimate == least]
        for k, (length, estimate) in enumerate(state):
            others = state[:k], state[k + 1 :]
            if k in tied:
                speed = rate / len(tied)
                if max(length, estimate) == cap:
                    lost.append((here, speed))
                else:
                    new = (length + 1, estimate + counted)
                    go(here, (*others[0], new, *others[1]), speed)
            if length > 0:
                go(here, (*others[0], (length - 1, estimate), *others[1]), 1.0)
            if not regular and not together:
                go(here, (*others[0], told(state[k]), *others[1]), delta)
        if not regular and together:
            go(here, tick(state), delta)
        if regular:
            ticked[here] = number(tick(state))

    size = len(numbers)
    gap = 1 / delta if together else 1 / delta / servers
    if regular:
        law, at_ticks = _periodic(size, rows, columns, rates, ticked, gap)
    else:
        law = at_ticks = _stationary(size, rows, columns, rates)
    lengths = np.array([[length for length, _ in state] for state in numbers])
    mean = float(law @ lengths.sum(axis=1))
    edge = sum(float(law[i]) * speed for i, speed in lost) / rate
    telling = lengths[:, : servers if together or not regular else 1]
    speaking = (telling == 0) if idle_only else np.ones(telling.shape)
    per_tick = float(at_ticks @ speaking.sum(axis=1))
    ticks = 1 / gap if regular else delta
    return Known(
        mean_tasks=mean / servers,
        mean_wait=mean / (rate * (1 - edge)) - 1,
        occupancy=np.array([law @ (lengths >= i).mean(axis=1) for i in range(1, cap + 1)]),
        updates=per_tick * ticks / rate,
        edge=edge,
    )


def _periodic(size, rows, columns, rates, ticked, gap):
    """Return the law over time, and that just before an update, when updates come every `gap`.

    The chain's exponential by uniformization: at `most` times per unit of time it jumps or stays.
    """
    flows = coo_array((rates, (rows, columns)), shape=(size, size)).tocsr()
    out = np.asarray(flows.sum(axis=1)).ravel()
    most = float(out.max())
    terms = int(poisson.isf(1e-15, most * gap)) + 2
    chance = poisson.pmf(np.arange(terms), most * gap)
    later = poisson.sf(np.arange(terms), most * gap) / most
    flows = flows.T.tocsr()
    target = np.array([ticked[i] for i in range(size)])

    law = np.zeros(size)
    law[0] = 1.0
    for _ in range(5000):
        after = np.bincount(target, law, size)
        ended, spent, now = np.zeros(size), np.zeros(size), after
        for k in range(terms):
            ended += chance[k] * now
            spent += later[k] * now
            now = now + (flows @ now - out * now) / most
        if np.abs(ended - law).sum() < 1e-12:
            return spent / gap, ended
        law = ended
    raise AssertionError("no periodic law found")
