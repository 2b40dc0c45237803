"""Updates by the clock in the memoryless kernels, against chains of lengths and what is known.

The policy here has a bit per server, "known to be idle", set by an update of a server that is idle
and used up by the next task, which goes to such a server, else anywhere. Lengths and bits together
are a Markov chain between the ticks of a regular clock, and with an exponential one throughout.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from generator import Generator
from runs import assert_mean, run
from scipy.sparse import coo_array
from scipy.sparse.linalg import expm_multiply

from equipoise import Scenario
from equipoise.policies import POLICIES
from equipoise.policies.base import Clock, Policy
from equipoise.policies.spec import spec as make_spec
from equipoise.policies.steps import MESSAGES
from equipoise.report.measure import warm_up_rows
from equipoise.report.run import run_all
from equipoise.rng import below
from equipoise.sim import run as sim_run
from equipoise.sim.run import replicate

LAM, CAP = 0.55, 11  # tasks per server; lengths in the chains: longer ones are rarer than errors
UPDATE = MESSAGES.index("update")


class BitParams(NamedTuple):
    delta: float


class BitState(NamedTuple):
    par: BitParams
    idle: np.ndarray  # int64[n], 1 where known to be idle


def init(bounds, speeds, announcement, delta=1.0, mode="pull"):
    return BitState(BitParams(delta), (np.asarray(bounds) < 1).astype(np.int64)), 0


def choose(state, fleet, rng):
    known = state.idle.sum()
    if known == 0:
        return below(rng, fleet.size)
    which = below(rng, known)
    for server in range(fleet.size):
        which -= state.idle[server]
        if which < 0:
            break
    state.idle[server] = 0
    return server


def hear(state, server, bound):
    state.idle[server] = 1 if bound <= 1 else 0


def tell_idle(length, announcement, params, rng):
    return 1 if length == 0 else 0


def tell_length(length, announcement, params, rng):
    return length + 1


CLOCKS = {
    "together, regular": Clock(True, True),
    "together, exponential": Clock(True, False),
    "own, regular": Clock(False, True),
    "own, exponential": Clock(False, False),
}
POLICY = {
    (name, full): Policy(
        f"bit {i} {full}", init, choose, hear,
        tell_state=tell_length if full else tell_idle, clock=clock,
    )
    for i, (name, clock) in enumerate(CLOCKS.items())
    for full in (False, True)
}  # fmt: skip
every_clock = pytest.mark.parametrize("clock", CLOCKS)
shared_or_not = pytest.mark.parametrize("discipline", ["fcfs", "ps"])


def two_servers(discipline, n=2, **run_):
    return Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": discipline},
            "arrivals": {"law": "poisson", "load": LAM},
            "service": {"law": "exponential", "mean": 3.0},
            "run": {"warm_up": 60.0, "replications": 24, "duration": 9000.0, **run_},
        }
    )


def states():
    return [(x, y, a, b) for x in range(CAP) for y in range(CAP) for a in (0, 1) for b in (0, 1)]


def without_updates():
    """The chain of two servers and their bits between updates; numbered like `states`."""
    chain = Generator()
    for state in states():
        chain.go(state, state, 0.0)
    for x, y, a, b in states():
        here, known = (x, y, a, b), a + b
        if x + 1 < CAP and (a or not known):
            chain.go(here, (x + 1, y, 0, b), 2 * LAM / (known or 2))
        if y + 1 < CAP and (b or not known):
            chain.go(here, (x, y + 1, a, 0), 2 * LAM / (known or 2))
        if x:
            chain.go(here, (x - 1, y, a, b), 1.0)
        if y:
            chain.go(here, (x, y - 1, a, b), 1.0)
    return chain


def updated(state, servers):
    """Where a tick leads: a server that is idle says so, the others keep still."""
    x, y, a, b = state
    return x, y, int(a or (0 in servers and x == 0)), int(b or (1 in servers and y == 0))


@cache
def exact(name, delta):
    """(mean tasks per server, messages per task) in equilibrium; regular clocks: over a period."""
    clock, chain = CLOCKS[name], without_updates()
    turns = [(0, 1)] if clock.together else [(1,), (0,)]
    order = states()
    tasks = np.array([(x + y) / 2 for x, y, _, _ in order])
    idle = np.array([[x == 0, y == 0] for x, y, _, _ in order], float)
    if not clock.regular:
        for state in order:
            for servers in turns:
                chain.go(state, updated(state, servers), delta)
        law = np.array(list(chain.stationary().values()))
        return float(law @ tasks), float(delta * (law @ idle).sum() / (2 * LAM))
    generator = chain.matrix().tocsc().T
    number = {state: i for i, state in enumerate(order)}
    jumps = [
        coo_array(
            (np.ones(len(order)),
             ([number[updated(state, servers)] for state in order], range(len(order)))),
            shape=(len(order),) * 2,
        ).tocsc()
        for servers in turns
    ]  # fmt: skip
    gap = 1 / delta / len(turns)
    law = np.zeros(len(order))
    law[number[0, 0, 1, 1]] = 1.0
    pieces = 32  # of Simpson's rule, on each gap
    for _ in range(40):  # periods, to equilibrium
        held, messages = 0.0, 0.0
        for jump, servers in zip(jumps, turns, strict=True):
            path = expm_multiply(generator, law, start=0.0, stop=gap, num=pieces + 1)
            weights = np.ones(pieces + 1)
            weights[1:-1:2], weights[2:-1:2] = 4, 2
            held += gap / pieces / 3 * float(weights @ (path @ tasks))
            messages += float(path[-1] @ idle[:, list(servers)].sum(axis=1))
            law = jump @ path[-1]
    return held * delta, messages * delta / (2 * LAM)


def runs_of(scenario, spec, rows=2):
    """All replications: (mean tasks per server, messages per task), float64[R] each."""
    before = sim_run.ROWS, sim_run.STRETCHES
    sim_run.ROWS, sim_run.STRETCHES = rows, 1
    try:
        [records] = run_all(scenario, [spec], kernel="memoryless", progress=None, workers=None)
        first, _ = warm_up_rows(scenario, records)
    finally:
        sim_run.ROWS, sim_run.STRETCHES = before
    kept = [r.sums[r.row_of >= first].sum(axis=0) for r in records]
    n = scenario.servers.count
    tasks = [sums[sim_run.TASKS] / sums[sim_run.TIME] / n for sums in kept]
    said = [r.messages[first:, UPDATE].sum() for r in records]
    each = [m / sums[sim_run.ARRIVALS] for m, sums in zip(said, kept, strict=True)]
    return np.array(tasks), np.array(each)


@shared_or_not
@every_clock
@pytest.mark.parametrize("delta", [0.4, 2.0])
def test_two_servers_that_update_are_their_chain(discipline, clock, delta):
    spec = make_spec(POLICY[clock, False], delta=delta, mode="pull")
    mean, messages = exact(clock, delta)

    tasks, each = runs_of(two_servers(discipline), spec)

    assert_mean(tasks, mean, bias=2e-4)  # of the chains' cap
    assert_mean(each, messages)


def test_regular_clocks_differ_from_exponential_ones_by_more_than_errors():
    """Else the test above would not tell them apart; the counts below tell together from own."""
    for who in ("together", "own"):
        regular = exact(f"{who}, regular", 0.4)[0]
        exponential = exact(f"{who}, exponential", 0.4)[0]
        assert exponential - regular > 0.03


@shared_or_not
@pytest.mark.parametrize(
    ("clock", "updates"), [("together, regular", 5 * 24), ("own, regular", 124)]
)
@pytest.mark.parametrize(("mode", "price"), [("pull", 1), ("push", 2)])
def test_regular_updates_come_on_time(discipline, clock, updates, mode, price):
    """24.8 periods of 5 servers: at T, 2T, ..; or the i-th at i T / 5. Cuts at ticks do not count
    them twice."""
    delta = 0.8  # per mean service time of 3 s: T = 3.75 s
    scenario = two_servers(discipline, 5, warm_up=0.0, duration=24.8 * 3.75 + 0.01)
    spec = make_spec(POLICY[clock, True], delta=delta, mode=mode)

    record = replicate(scenario, spec, 0, kernel="memoryless")

    assert record.messages[:, UPDATE].sum() == price * updates


@pytest.mark.parametrize("clock", ["together, exponential", "own, exponential"])
def test_exponential_updates_are_poisson(clock):
    """The variance of the count tells together (n^2 per tick) from each on its own (n)."""
    scenario = two_servers("fcfs", 4, warm_up=0.0, duration=300.0, replications=200)
    spec = make_spec(POLICY[clock, True], delta=0.5, mode="pull")

    records = [replicate(scenario, spec, r, kernel="memoryless") for r in range(200)]

    counts = np.array([r.messages[:, UPDATE].sum() for r in records], float)
    assert_mean(counts, 4 * 0.5 * 100)
    size = 16 if "together" in clock else 4
    assert_mean((counts - 200) ** 2, 50 * size)


@shared_or_not
@every_clock
def test_the_path_does_not_depend_on_how_a_run_is_cut(discipline, clock, monkeypatch):
    scenario = two_servers(discipline, 3, warm_up=0.0, duration=600.0, start=[4, 0, 1])
    spec = make_spec(POLICY[clock, False], delta=0.7, mode="pull")

    def ends(record):
        said = record.messages.sum(axis=0).tolist()
        return record.arrived, record.finished, record.present, record.path["mean"][-1], said

    whole = replicate(scenario, spec, 0, kernel="memoryless")
    monkeypatch.setattr(sim_run, "ROWS", 23)
    monkeypatch.setattr(sim_run, "STRETCHES", 7)
    parts = replicate(scenario, spec, 0, kernel="memoryless")

    assert ends(whole) == ends(parts)
    assert whole.arrived > 200


def test_a_clock_does_not_move_the_coins_of_arrivals_and_departures():
    """Pools: the number of tasks does not depend on the policy, and so on its clock."""
    scenario = two_servers("pool", 3, warm_up=0.0, duration=200.0, replications=1)
    spec = make_spec(POLICY["own, exponential", True], delta=5.0, mode="pull")

    ticking = replicate(scenario, spec, 0, kernel="memoryless")
    plain = replicate(scenario, make_spec(POLICIES["random"]), 0, kernel="memoryless")

    assert ticking.path["mean"].tolist() == plain.path["mean"].tolist()
    assert run(scenario, "random", "memoryless").records[0].arrived == plain.arrived
