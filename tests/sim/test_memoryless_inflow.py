"""Arrivals whose rate changes, and batches, in both kernels, against what is known exactly."""

import math

import numpy as np
import pytest
from generator import Generator
from runs import assert_law, assert_mean, run
from scipy.integrate import quad, solve_ivp
from scipy.stats import nbinom, poisson

from equipoise import Scenario
from equipoise.policies import resolve
from equipoise.sim import run as sim_run
from equipoise.sim.run import replicate

both_kernels = pytest.mark.parametrize("kernel", ["memoryless", "events"])

# lam(t) = 4.5 + sin 3t tasks per server, of Goldsztajn et al. 2025
SINE = {"law": "sinusoid", "load": 4.5, "amplitude": 1.0, "period": 2 * math.pi / 3}
LINE = {"law": "rates", "times": [0, 1.5, 2.0, 5.0], "rates": [0, 90, 10, 70]}
LINE["interpolation"] = "linear"
GEOMETRIC = {"law": "geometric", "mean": 2.5}
TABLE = {"values": [1, 4, 10], "probabilities": [0.5, 0.3, 0.2]}


def a_scenario(servers, arrivals, mean=1.0, **run_):
    return Scenario.from_dict(
        {
            "servers": servers,
            "arrivals": arrivals,
            "service": {"law": "exponential", "mean": mean},
            "run": {"warm_up": 0.0, "replications": 60, **run_},
        }
    )


# --- Rates that change ---------------------------------------------------------------------------


def offered(t):
    """rho(t) of lam(t) = 4.5 + sin 3t from an empty start: rho' = lam - rho, solved by hand."""
    a, b, w = 4.5, 1.0, 3.0
    wave = math.sin(w * t) - w * math.cos(w * t) + w * math.exp(-t)
    return a * (1 - math.exp(-t)) + b * wave / (1 + w * w)


@both_kernels
def test_pools_hold_the_offered_load_at_every_moment(kernel):
    """The number of tasks at t is Poisson(n rho(t)), whoever sends them; 40 moments, 60 runs."""
    n = 100
    scenario = a_scenario({"count": n, "discipline": "pool"}, SINE, duration=10.0)

    totals = run(scenario, "jsq", kernel, rows=10, stretches=4).totals(n)

    times = np.linspace(0.25, 10.0, 40)
    rho = np.array([offered(t) for t in times])
    assert totals.shape == (60, 40)
    z = (totals.mean(axis=0) - n * rho) / np.sqrt(n * rho / 60)
    assert np.abs(z).max() < 4
    for i in (3, 20, 39):
        assert_law(totals[:, i], poisson(n * rho[i]))


@both_kernels
def test_pools_hold_what_straight_lines_offer(kernel):
    """Rates that jump in slope, fall, rise, and end; then nothing more comes."""
    scenario = a_scenario({"count": 7, "discipline": "pool"}, LINE, mean=0.5, duration=6.0)
    times = np.linspace(0.25, 6.0, 24)

    totals = run(scenario, "jsq", kernel, rows=8, stretches=3).totals(7)

    def rate(s):
        return float(np.interp(s, LINE["times"], LINE["rates"])) if s <= 5 else 0.0

    def present(t):  # points of lam(s) whose tasks are still there
        kinks = [p for p in (1.5, 2.0, 5.0) if p < t]
        return quad(lambda s: rate(s) * math.exp(-2 * (t - s)), 0, t, points=kinks or None)[0]

    means = np.array([present(t) for t in times])
    z = (totals.mean(axis=0) - means) / np.sqrt(means / 60)
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("discipline", ["fcfs", "ps"])
def test_a_queue_follows_a_changing_rate(discipline):
    """M(t)/M/1 by its forward equations; shared or not, the lengths have the same law."""
    wave = {"law": "sinusoid", "rate": 0.7, "amplitude": 0.6, "period": 9.0, "phase": 0.5}
    scenario = a_scenario(
        {"count": 1, "discipline": discipline}, wave, duration=18.0, replications=1500, seed=5
    )

    totals = run(scenario, "random", "memoryless", rows=6, stretches=2).totals(1)

    size = 80
    up, down = np.eye(size, k=-1) - np.eye(size), np.eye(size, k=1) - np.eye(size)
    up[-1, -1], down[0, 0] = 0.0, 0.0
    down[:, 0] = 0.0

    def flow(t, p):
        return (0.7 + 0.6 * math.sin(2 * math.pi * t / 9 + 0.5)) * (up @ p) + down @ p

    start = np.eye(size)[0]
    found = solve_ivp(flow, (0, 18), start, t_eval=np.linspace(1.5, 18, 12), rtol=1e-8, atol=1e-10)
    k = np.arange(size)
    means, squares = k @ found.y, k**2 @ found.y
    error = np.sqrt((squares - means**2) / 1500)
    assert np.abs((totals.mean(axis=0) - means) / error).max() < 4


def test_a_rate_that_falls_to_nothing_brings_nothing_then():
    """Amplitude and mean equal: near its bottom the sinusoid is nearly 0."""
    wave = {"law": "sinusoid", "rate": 100.0, "amplitude": 100.0, "period": 4.0}
    scenario = a_scenario({"count": 3, "discipline": "pool"}, wave, duration=40.0, replications=40)

    runs = run(scenario, "random", "memoryless", rows=1, stretches=400)

    came = np.array([r.sums[:, sim_run.ARRIVALS] for r in runs.records]).sum(axis=0)
    edges = np.linspace(0, 40, 401)
    mean = np.diff(100 * edges - 100 * 2 / math.pi * np.cos(math.pi * edges / 2)) * 40
    quiet = (edges[:-1] % 4 > 2.89) & (edges[:-1] % 4 < 3.01)
    assert came[quiet].sum() < mean[quiet].sum() + 4 * math.sqrt(mean[quiet].sum())
    assert (np.abs(came - mean) < 4.5 * np.sqrt(mean) + 3).all()


# --- Batches -------------------------------------------------------------------------------------


def moments(batch):
    """E X and E X^2 of the tasks of a batch."""
    if batch == GEOMETRIC:
        return 2.5, 2.5**2 + 2.5 * 1.5  # variance (1 - p) / p^2 with p = 1 / 2.5
    if batch == TABLE:
        return 3.7, 0.5 + 0.3 * 16 + 0.2 * 100
    return float(batch), float(batch) ** 2


@both_kernels
@pytest.mark.parametrize("batch", [3, GEOMETRIC, TABLE], ids=["3", "geometric", "table"])
def test_one_server_is_m_x_m_1(kernel, batch):
    """Mean stay (E X^2 + E X) / (2 E X) / (1 - load), in mean services: Chaudhry and Templeton."""
    scenario = a_scenario(
        {"count": 1, "discipline": "fcfs"}, {"law": "poisson", "load": 0.6, "batch": batch},
        mean=2.0, tasks=60_000, warm_up=500.0, replications=24,
    )  # fmt: skip

    runs = run(scenario, "random", kernel)

    one, two = moments(batch)
    stay = (two + one) / (2 * one) / (1 - 0.6)
    assert_mean(runs["mean_response"], 2.0 * stay)
    assert_mean(runs["mean_tasks"], 0.6 * stay)
    assert_mean(runs["mean_wait"], 2.0 * (stay - 1))


def test_shared_servers_take_batches_too():
    """The number of tasks has the law of M^X/M/1, and so the mean stay is the same."""
    scenario = a_scenario(
        {"count": 1, "discipline": "ps"}, {"law": "poisson", "load": 0.6, "batch": TABLE},
        tasks=60_000, warm_up=300.0, replications=24,
    )  # fmt: skip

    runs = run(scenario, "random", "memoryless")

    one, two = moments(TABLE)
    assert_mean(runs["mean_response"], (two + one) / (2 * one) / (1 - 0.6))


@both_kernels
def test_geometric_batches_in_pools_are_negative_binomial(kernel):
    """M^X/M/inf: log E z^N = lam int_0^inf E(1 + (z-1) e^-u)^X - 1 du, for geometric X of mean m
    lam log(1 + (1 - z)(m - 1)) / -(m - 1) m: a negative binomial of lam' = lam m / (m - 1)."""
    batch = {"law": "geometric", "mean": 3.0}
    scenario = a_scenario(
        {"count": 2, "discipline": "pool"}, {"law": "poisson", "rate": 6.0, "batch": batch},
        duration=1600.0, replications=4,
    )  # fmt: skip

    totals = run(scenario, "random", kernel, rows=1, stretches=200).totals(2)[:, 2:].ravel()

    # rate of batches 2, so the shape is 2 * 3 / 2 = 3 and the mean 6 = 3 (1 - p) / p
    assert_law(totals, nbinom(3, 1 / 3))


@both_kernels
def test_the_tasks_of_a_batch_are_dispatched_one_after_the_other(kernel):
    """Two servers under jsq, batches of three: each task goes to the shorter one at its turn."""
    load, cap = 0.7, 50
    chain = Generator()

    def after(x, y, tasks):
        """Where so many tasks lead from lengths x and y, with chances."""
        if tasks == 0:
            return {(x, y): 1.0}
        found: dict = {}
        for to_x, chance in ((True, 1.0 * (x < y) + 0.5 * (x == y)),
                             (False, 1.0 * (x > y) + 0.5 * (x == y))):  # fmt: skip
            if chance:
                for state, p in after(x + to_x, y + (not to_x), tasks - 1).items():
                    found[state] = found.get(state, 0.0) + p * chance
        return found

    for x in range(cap):
        for y in range(cap):
            for state, chance in after(x, y, 3).items():
                if max(state) < cap:
                    chain.go((x, y), state, 2 * load / 3 * chance)
            if x:
                chain.go((x, y), (x - 1, y), 1.0)
            if y:
                chain.go((x, y), (x, y - 1), 1.0)
    law = np.zeros((cap, cap))
    for state, chance in chain.stationary().items():
        law[state] = chance
    k = np.arange(cap)
    scenario = a_scenario(
        {"count": 2, "discipline": "fcfs"}, {"law": "poisson", "load": load, "batch": 3},
        tasks=60_000, warm_up=300.0, replications=24,
    )  # fmt: skip

    runs = run(scenario, "jsq", kernel)

    assert law[-1].sum() + law[:, -1].sum() < 1e-6
    assert_mean(runs["mean_tasks"], float(law.sum(axis=1) @ k))
    for i in (1, 3):
        assert_mean(runs.at_least(i, 2), float(law[i:].sum()))


# --- One path, nothing lost ----------------------------------------------------------------------


@pytest.mark.parametrize("discipline", ["pool", "fcfs", "ps"])
@pytest.mark.parametrize("arrivals", [SINE, LINE], ids=["sine", "line"])
def test_the_path_does_not_depend_on_how_a_run_is_cut(discipline, arrivals, monkeypatch):
    """By time, and by tasks in the middle of a batch."""
    batched = {**arrivals, "batch": TABLE}
    if discipline != "pool" and arrivals is SINE:
        batched |= {"load": 0.7, "amplitude": 0.2}
    until = {"duration": 40.0} if arrivals is SINE else {"tasks": 70}
    servers = {"count": 5, "discipline": discipline, "limit": 12}
    scenario = a_scenario(servers, batched, **until)
    spec = resolve("jsq-d")

    def ends(record):
        return record.arrived, record.finished, record.present, record.lost, record.path["mean"][-1]

    whole = replicate(scenario, spec, 1, kernel="memoryless")
    monkeypatch.setattr(sim_run, "ROWS", 17)
    monkeypatch.setattr(sim_run, "STRETCHES", 11)
    parts = replicate(scenario, spec, 1, kernel="memoryless")

    assert ends(whole) == ends(parts)
    assert whole.arrived == whole.finished + whole.present + whole.lost
    assert whole.arrived == 70 if "tasks" in until else whole.arrived > 80
    np.testing.assert_allclose(parts.sums.sum(axis=0), whole.sums.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_batches_find_room_when_arrays_must_grow():
    """Batches of thousands into servers that were made for few: levels, slots and nodes grow."""
    for discipline in ("pool", "fcfs", "ps"):
        arrivals = {"law": "poisson", "rate": 3000.0, "batch": 5000}
        servers = {"count": 3, "discipline": discipline, "limit": 4000}
        scenario = a_scenario(servers, arrivals, duration=20.0)

        record = replicate(scenario, resolve("jsq"), 0, kernel="memoryless")

        assert record.arrived % 5000 == 0
        assert record.arrived == record.finished + record.present + record.lost
        assert record.arrived > 20_000
