"""Servers that share their speed, or whose speed depends on their tasks, against exact laws.

With random sending each server is a birth and death process of its own: births at lam, deaths at
s r(k) with k tasks. How long a task stays is worked out from a chain of its own: where it stands
among the tasks at its server, until it leaves.
"""

import math
from functools import cache

import exact
import numpy as np
import pytest
from generator import Generator
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_law, assert_mean, run
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.linalg import expm_multiply, spsolve
from scipy.stats import poisson

from equipoise import EquipoiseError, Scenario
from equipoise.policies import resolve
from equipoise.sim import curved, memoryless, tally
from equipoise.sim import run as sim_run
from equipoise.sim.run import pick_kernel, replicate

BUMPY = (0.7, 1.9, 1.2, 2.5, 2.2)  # neither rising nor falling
LONG = tuple(np.round(np.linspace(0.06, 3.0, 40), 3))  # six octaves
THREE = (0.5, 1.0, 3.7)
MANY = tuple(np.round(np.geomspace(0.3, 9.0, 100), 4))  # more speeds than are told apart


def shared(speeds=(1.0,), load=0.8, curve=None, workers=None, limit=None, **run_):
    servers = {"discipline": "ps", "speeds": list(speeds)}
    for key, value in (("curve", curve), ("workers", workers), ("limit", limit)):
        if value is not None:
            servers[key] = value
    return Scenario.from_dict(
        {
            "servers": servers,
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": 2.0},
            "run": {"warm_up": 400.0, "replications": 24, "tasks": 60_000, **run_},
        }
    )


def speed(k, curve, workers):
    """r(k), read off its definition."""
    serving = min(k, workers or k)
    if curve is None:
        return 1.0 if k else 0.0
    return 0.0 if k == 0 else curve[min(serving, len(curve)) - 1]


def birth_death(lam, s=1.0, curve=None, workers=None, limit=1500):
    """The law of the number of tasks at a server, float64[limit + 1]; rates per mean service."""
    weights = [0.0]
    for k in range(1, limit + 1):
        weights.append(weights[-1] + math.log(lam / (s * speed(k, curve, workers))))
    law = np.exp(np.array(weights) - max(weights))
    return law / law.sum()


def tails(law):
    return law[::-1].cumsum()[::-1]


# --- Lengths -------------------------------------------------------------------------------------

CURVES = {
    "ps": (None, None, (1.0,), 0.8),
    "limited ps": (None, 3, (1.0,), 0.8),
    "bumpy": (BUMPY, None, (1.0,), 0.85),
    "bumpy, limited": (BUMPY, 3, (1.0,), 0.85),
    "bumpy, three speeds": (BUMPY, None, THREE, 0.25),
    "long, three speeds": (LONG, None, THREE, 0.25),
    "ps, a hundred speeds": (None, None, MANY, 0.07),
    "long, a hundred speeds": (LONG, None, MANY, 0.07),
}


@pytest.mark.parametrize("case", CURVES)
def test_lengths_follow_birth_and_death(case):
    curve, workers, speeds, load = CURVES[case]
    scenario = shared(speeds, load, curve, workers)
    full = 1.0 if curve is None else curve[min(workers or 99, len(curve)) - 1]
    lam = load * sum(speeds) * full / len(speeds)

    runs = run(scenario, "random", "memoryless")

    laws = [birth_death(lam, s, curve, workers) for s in speeds]
    at_least = np.mean([tails(law) for law in laws], axis=0)
    for i in (1, 2, 3, 5, 9):
        assert_mean(runs.at_least(i, len(speeds)), at_least[i])
    mean = float(at_least[1:].sum())
    assert_mean(runs["mean_tasks"], mean)
    assert_mean(runs["mean_response"], 2.0 * mean / lam)
    waiting = [np.maximum(np.arange(law.size) - (workers or law.size), 0) @ law for law in laws]
    assert_mean(runs["mean_wait"], 2.0 * float(np.mean(waiting)) / lam)


def test_rows_are_few_and_refusals_bounded():
    """A row for each rate where there are few; else octaves, every rate near the top of its row."""
    for curve, speeds, rows in ((None, None, 1), (BUMPY, None, 5), (BUMPY, THREE, 15)):
        r = np.array((0.0, *(curve or (1.0,))))
        given = None if speeds is None else np.array(speeds)
        assert curved.rate_rows(r, given)[2].size == rows

    r, s = np.array((0.0, *LONG)), np.array(MANY)
    kind, row, most = curved.rate_rows(r, s)
    table = row.reshape(-1, r.size)[kind]  # int[servers, tasks]
    rates = np.outer(s, r)[:, 1:]
    top = most[table[:, 1:]]
    assert most.size <= 12
    assert (table[:, 0] == -1).all()
    assert (rates <= top).all()
    assert (rates > 0.45 * top).all()


def test_a_curve_that_rises_like_a_pool_is_a_pool():
    scenario = shared((1.0,) * 8, 2.5 / 40, range(1, 41), tasks=40_000, warm_up=60.0)

    runs = run(scenario, "random", "memoryless", rows=2, stretches=1)

    law = poisson(2.5)
    for i in (1, 3, 6):
        assert_mean(runs.at_least(i, 8), law.sf(i - 1))
    assert_mean(runs["mean_response"], 2.0)


def test_a_curve_that_rises_to_three_is_three_workers():
    scenario = shared((1.0,), 0.8, (1.0, 2.0, 3.0))

    runs = run(scenario, "random", "memoryless")

    assert_mean(runs["mean_response"], 2 * (exact.mmc_wait(3, 2.4) + 1))
    assert not runs["mean_wait"].any()  # they share: nobody waits


def test_a_full_server_loses_what_comes():
    scenario = shared((1.0,) * 4, 0.9, BUMPY, limit=6)
    lam = 0.9 * 2.2

    runs = run(scenario, "random", "memoryless")

    law = birth_death(lam, curve=BUMPY, limit=6)
    assert_mean(runs["lost"], float(law[6]))
    assert_mean(runs["mean_tasks"], float(law @ np.arange(7)))


# --- How long a task stays -----------------------------------------------------------------------

MOST = 70  # tasks at a server, in the chains below: beyond it is rarer than any error here


@cache
def stay(lam, curve, workers):
    """Return (generator, start): the way of a task from where it comes to its end.

    States: in service with m others (m < MOST), then waiting with a ahead and b behind, a >= w.
    """
    w = workers or MOST
    waiting = [(a, b) for a in range(w, MOST) for b in range(MOST - a)]
    at = {("in", m): m for m in range(MOST)}
    at |= {state: MOST + i for i, state in enumerate(waiting)}
    entries = []

    def go(i, j, rate):
        entries.append((i, i, -rate))
        if j is not None:
            entries.append((i, at[j], rate))

    for m in range(MOST):
        rate = speed(m + 1, curve, workers)
        serving = min(m + 1, w)
        go(m, None, rate / serving)
        if m:
            go(m, ("in", m - 1), rate * (serving - 1) / serving)
        if m + 1 < MOST:
            go(m, ("in", m + 1), lam)
    for a, b in waiting:
        ahead = (a - 1, b) if a > w else ("in", a + b - 1)
        go(at[a, b], ahead, speed(a + b + 1, curve, workers))
        if (a, b + 1) in at:
            go(at[a, b], (a, b + 1), lam)
    rows, columns, rates = zip(*entries, strict=True)
    start = np.zeros(len(at))
    for k, chance in enumerate(birth_death(lam, 1.0, curve, workers, MOST - 1)):
        start[at["in", k] if k < w else at[k, 0]] += chance
    shape = (len(at), len(at))
    return coo_array((rates, (rows, columns)), shape=shape).tocsc(), start


@pytest.mark.parametrize(
    ("curve", "workers", "load"), [(None, None, 0.7), (BUMPY, None, 0.7), (None, 3, 0.7)]
)
def test_the_time_a_task_stays_has_its_law(curve, workers, load):
    """The share of long stays tells who leaves: one of those in service, uniformly, not the first.

    First come first served has the same mean, and other quantiles.
    """
    lam = load * (1.0 if curve is None else curve[-1])
    generator, start = stay(lam, curve, workers)
    scenario = shared((1.0,) * 10, load, curve, workers)

    runs = run(scenario, "random", "memoryless")

    mean = -spsolve(generator, np.ones(start.size)) @ start
    assert_mean(runs["mean_response"], 2.0 * float(mean))
    for p, metric in ((0.5, "p50_response"), (0.99, "p99_response")):

        def beyond(t, p=p):
            return float((expm_multiply(generator.T * t, start)).sum()) - (1 - p)

        quantile = 2.0 * brentq(beyond, 0.05, 60.0, rtol=1e-4)
        assert_mean(runs[metric], quantile, bias=0.01 * quantile)


def test_processor_sharing_spreads_the_times_as_known():
    """M/M/1-PS: variance (2 + load) / (2 - load) / (1 - load)^2 of the stay, in mean services.

    Coffman, Muntz and Trotter (1970), Waiting time distributions for processor-sharing systems.
    """
    load = 0.6
    scenario = shared((1.0,) * 10, load, tasks=200_000)
    runs = run(scenario, "random", "memoryless")

    squares = []
    for record in runs.records:
        edges = record.edges() / record.unit
        first = record.first_bucket[1]
        counts = record.responses[runs.first :].sum(axis=0)
        low, high = edges[first : first + counts.size], edges[first + 1 : first + counts.size + 1]
        squares.append(counts @ ((low**2 + low * high + high**2) / 3) / counts.sum())
    mean = 1 / (1 - load)
    variance = (2 + load) / (2 - load) * mean**2
    assert_mean(squares, variance + mean**2, bias=0.005 * mean**2)


# --- Policies that look --------------------------------------------------------------------------


@pytest.mark.parametrize(("speeds", "curve", "workers"), [((1.0, 1.0), BUMPY, None),
    ((0.5, 1.5), (1.0, 1.6, 2.0), None), ((0.5, 1.5), (1.0, 1.6, 2.0), 2)])  # fmt: skip
def test_two_servers_under_jsq_are_their_chain(speeds, curve, workers):
    load, cap = 0.7, 45
    full = curve[min(workers or 99, len(curve)) - 1]
    lam = load * sum(speeds) * full
    chain = Generator()

    for x in range(cap):
        for y in range(cap):
            to_x = 1.0 if x < y else 0.5 if x == y else 0.0
            if to_x and x + 1 < cap:
                chain.go((x, y), (x + 1, y), lam * to_x)
            if to_x < 1 and y + 1 < cap:
                chain.go((x, y), (x, y + 1), lam * (1 - to_x))
            if x:
                chain.go((x, y), (x - 1, y), speeds[0] * speed(x, curve, workers))
            if y:
                chain.go((x, y), (x, y - 1), speeds[1] * speed(y, curve, workers))
    law = np.zeros((cap, cap))
    for state, chance in chain.stationary().items():
        law[state] = chance
    k = np.arange(cap)
    scenario = shared(speeds, load, curve, workers)

    runs = run(scenario, "jsq", "memoryless")

    assert law[-1].sum() + law[:, -1].sum() < 1e-6
    mean = (law.sum(axis=1) @ k + law.sum(axis=0) @ k) / 2
    assert_mean(runs["mean_tasks"], float(mean))
    assert_mean(runs["mean_response"], 2.0 * float(mean) * 2 / lam)
    for i in (1, 2, 4):
        both = (law[i:].sum() + law[:, i:].sum()) / 2
        assert_mean(runs.at_least(i, 2), float(both))


# --- One path, nothing lost ----------------------------------------------------------------------


def outcome(record):
    last = record.path["mean"][-1]
    return record.arrived, record.finished, record.present, record.lost, float(last)


@pytest.mark.parametrize("policy", ["random", "jsq-d", "threshold(level=2)"])
@pytest.mark.parametrize(("curve", "workers", "limit"), [(None, None, None), (BUMPY, 4, 9)])
def test_the_path_does_not_depend_on_how_a_run_is_cut(policy, curve, workers, limit, monkeypatch):
    """Nor on arrays that have to grow; and no task is lost but those that are counted."""
    scenario = shared(
        THREE, 0.9, curve, workers, limit, tasks=None, duration=900.0, warm_up=0.0,
        start=[9, 0, 5],
    )  # fmt: skip
    spec = resolve(policy)
    whole = replicate(scenario, spec, 0, kernel="memoryless")
    monkeypatch.setattr(sim_run, "ROWS", 7)
    monkeypatch.setattr(sim_run, "STRETCHES", 13)
    grown = []
    make, more, make_tally = memoryless.make_shared_tasks, memoryless.more_stamps, tally.make_tally

    def tight(*arguments):
        tasks = make(*arguments)
        return tasks._replace(stamp=tasks.stamp[: int(tasks.end[0]) + 1].copy())

    monkeypatch.setattr(memoryless, "make_shared_tasks", tight)
    monkeypatch.setattr(memoryless, "more_stamps", lambda t: (grown.append(1), more(t))[1])
    monkeypatch.setattr(tally, "make_tally", lambda q, levels, v: make_tally(q, 13, v))
    parts = replicate(scenario, spec, 0, kernel="memoryless")

    assert outcome(whole) == pytest.approx(outcome(parts))
    assert grown
    assert whole.arrived == whole.finished + whole.present + whole.lost
    assert whole.arrived > 500
    assert (whole.lost > 0) == (limit is not None)
    assert parts.responses.sum() == whole.responses.sum()
    assert parts.waits.sum() == whole.waits.sum()
    np.testing.assert_allclose(parts.sums.sum(axis=0), whole.sums.sum(axis=0), rtol=1e-9, atol=1e-9)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 10**6)), max_size=250),
    st.lists(st.integers(0, 20), min_size=4, max_size=4),
)
def test_rings_hold_what_lists_would(workers, script, start):
    """Tasks in service in any order, those waiting in theirs, in blocks that move as they must."""
    tasks = curved.make_shared_tasks(np.array(start), np.array([0.0, 1.0]), np.zeros(4, np.uint64))
    tasks = tasks._replace(stamp=np.append(tasks.stamp, np.zeros(4096)))
    serving = [[tally.NO_TIME] * min(k, workers) for k in start]
    waiting = [[tally.NO_TIME] * (k - min(k, workers)) for k in start]
    for time, (server, comes, pick) in enumerate(script):
        held = len(serving[server]) + len(waiting[server])
        if comes:
            curved.came(tasks, server, held + 1, float(time))
            (serving if held < workers else waiting)[server].append(float(time))
        elif held:
            i = pick % len(serving[server])
            stamp = curved.gone(tasks, server, i, held)
            serving[server].remove(stamp)  # raises if it is not there
            if waiting[server]:
                assert curved.stamp_of(tasks, server, workers - 1) == waiting[server][0]
                serving[server].append(waiting[server].pop(0))
        for s in range(4):
            k, w = len(serving[s]), len(waiting[s])
            found = [curved.stamp_of(tasks, s, i) for i in range(k + w)] if k else []
            assert sorted(found[:k]) == sorted(serving[s])
            assert found[k:] == waiting[s]
    rooms = [1 << int(room) for room in tasks.room if room >= 0]
    assert sum(rooms) <= tasks.end[0]
    for s in range(4):
        held = len(serving[s]) + len(waiting[s])
        assert tasks.room[s] < 0 or held <= 1 << int(tasks.room[s])


def test_blocks_that_were_left_are_used_again():
    """A server that fills and empties for ever does not take more and more memory."""
    tasks = curved.make_shared_tasks(np.zeros(2, int), np.array([0.0, 1.0]), np.zeros(4, np.uint64))
    ends = []
    for _ in range(20):
        for k in range(100):
            curved.came(tasks, 0, k + 1, 1.0)
        for k in range(100, 0, -1):
            curved.gone(tasks, 0, 0, k)
        ends.append(int(tasks.end[0]))

    assert ends[0] == ends[-1] <= 256
    assert tasks.room[0] == curved.LEAST


def test_shared_servers_are_run_by_this_kernel_and_no_queue_is():
    assert pick_kernel(shared()) == "memoryless"
    queued = Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", "count": 2, "limit": 3, "queue": 4},
            "arrivals": {"law": "poisson", "load": 0.5},
            "service": {"law": "exponential"},
        }
    )
    with pytest.raises(EquipoiseError, match="the memoryless kernel keeps no queue at the disp"):
        pick_kernel(queued, "memoryless")


def test_the_number_of_tasks_under_ps_is_geometric():
    scenario = shared((1.0,) * 5, 0.5, tasks=None, duration=9000.0, replications=4)
    runs = run(scenario, "random", "memoryless", rows=1, stretches=150)

    totals = runs.totals(5)[:, 8:].ravel()  # every 60 s: 30 services, 15 relaxation times
    from scipy.stats import nbinom

    assert_law(totals, nbinom(5, 0.5))
