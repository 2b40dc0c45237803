"""Servers of unequal speed in continuous time, in both kernels, against what is known exactly."""

from functools import cache

import exact
import numpy as np
import pytest
from drive import Drive, queues
from runs import assert_mean, run

from equipoise import simulate
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate
from equipoise.theory import stability

TWO, THREE = (0.5, 1.5), (0.4, 1.0, 1.6)

# written, speeds, rate, policy of the exact chain and its parameters
CASES = {
    "jsq, two": ("jsq", TWO, 1.5, "jsq", {}),
    "sed, two": ("sed", TWO, 1.5, "sed", {}),
    "random, two": ("random(weighted=true)", TWO, 1.2, "random", {"weight": TWO}),
    "jsq-d, two": (
        "jsq-d(sampling=speed, replacement=true)", TWO, 1.5, "jsq-d",
        {"weight": TWO, "replacement": True},
    ),
    "jsq, three": ("jsq", THREE, 2.0, "jsq", {}),
    "sed, three": ("sed", THREE, 2.0, "sed", {}),
    "jsq-d, three": ("jsq-d", THREE, 1.8, "jsq-d", {}),
    "jsq-d by speed, three": (
        "jsq-d(sampling=speed)", THREE, 1.8, "jsq-d", {"weight": THREE},
    ),
    "jsq-d by speed with replacement, three": (
        "jsq-d(sampling=speed, replacement=true)", THREE, 1.8, "jsq-d",
        {"weight": THREE, "replacement": True},
    ),
}  # fmt: skip


@cache
def chain(case):
    _, speeds, rate, policy, params = CASES[case]
    found = exact.unequal(policy, speeds, rate, 90 if len(speeds) == 2 else 26, **params)
    assert found.edge < 1e-4
    return found


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize("case", CASES)
def test_lengths_are_those_of_the_exact_chain(case, kernel):
    written, speeds, rate, _, _ = CASES[case]
    scenario = queues(speeds, rate, duration=4000.0, warm_up=200.0, replications=24, seed=11)
    truth = chain(case)

    runs = run(scenario, written, kernel)

    bias = 30 * truth.edge
    assert_mean(runs["mean_tasks"], truth.mean_tasks, bias)
    assert_mean(runs["mean_response"], truth.mean_tasks * len(speeds) / rate, bias)
    for tasks in (1, 2, 4):
        assert_mean(runs.at_least(tasks, len(speeds)), truth.at_least(tasks), bias)


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_each_server_has_its_own_mean(kernel):
    """Sampled at moments far apart: per server, what the totals cannot tell."""
    truth = chain("sed, three")
    means = []
    for replication in range(8):
        drive = Drive(queues(THREE, 2.0, seed=3), "sed", replication, kernel=kernel)
        drive.to(200.0)
        seen = []
        for t in range(210, 4210, 10):
            drive.to(float(t))
            seen.append(drive.lengths)
        means.append(np.mean(seen, axis=0))

    for server in range(3):
        assert_mean([mean[server] for mean in means], truth.means[server])


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_workers_of_unequal_servers_all_work_at_its_speed(kernel):
    truth = exact.unequal("jsq", TWO, 2.8, 60, workers=2)
    scenario = queues(TWO, 2.8, workers=2, duration=3000.0, warm_up=200.0, replications=16)

    runs = run(scenario, "jsq", kernel)

    assert_mean(runs["mean_tasks"], truth.mean_tasks, 30 * truth.edge)


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_a_limit_loses_what_the_chain_loses(kernel):
    truth = exact.unequal("jsq", TWO, 2.5, 4)
    full = float(truth.law[4, 4])
    scenario = queues(TWO, 2.5, limit=4, duration=3000.0, warm_up=50.0, replications=16)

    runs = run(scenario, "jsq", kernel)

    assert_mean(runs["lost"], full)
    assert_mean(runs["mean_tasks"], truth.mean_tasks)


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_a_pool_of_unequal_servers_is_as_many_m_m_infinity_queues(kernel):
    """Random: rate lam/n each, tasks at speed s, so mean lam/(n s)."""
    scenario = Scenario.from_dict(
        {
            "servers": {"discipline": "pool", "speeds": [0.5, 1.0, 2.0]},
            "arrivals": {"law": "poisson", "rate": 6.0},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"duration": 600.0, "warm_up": 30.0, "replications": 16},
        }
    )

    runs = run(scenario, "random", kernel)

    assert_mean(runs["mean_tasks"], 2 * (1 / 0.5 + 1 + 1 / 2) / 3)


def test_a_fast_server_alone_is_an_m_d_1_queue():
    """Deterministic sizes at speed 4: mean wait lam m^2/(2 (1 - lam m)), m = 1/4 s."""
    scenario = Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", "speeds": [4.0]},
            "arrivals": {"law": "poisson", "rate": 3.0},
            "service": {"law": "deterministic", "mean": 1.0},
            "run": {"tasks": 30_000, "warm_up": 100.0, "replications": 16},
        }
    )

    assert_mean(run(scenario, "random")["mean_wait"], exact.pollaczek_khinchine(3.0, 0.25, 0.0))


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize("policy", ["jsq", "sed", "jsq-d(sampling=speed)"])
def test_speeds_of_one_are_equal_servers_said_otherwise(kernel, policy):
    said = queues([1.0] * 10, 9.0, tasks=20_000, warm_up=50.0, replications=8, seed=4)
    plain = Scenario.simple(
        servers=10, rate=9.0, tasks=20_000, warm_up=50.0, replications=8, seed=5
    )

    a, b = run(said, policy, kernel)["mean_tasks"], run(plain, policy, kernel)["mean_tasks"]

    error = np.hypot(a.std(ddof=1), b.std(ddof=1)) / np.sqrt(8)
    assert abs(a.mean() - b.mean()) < 4 * error


def test_the_order_of_speeds_does_not_matter_to_the_law():
    groups = queues([0.25] * 5 + [1.75] * 5, 8.0, tasks=20_000, warm_up=50.0, replications=8)
    mixed = queues([0.25, 1.75] * 5, 8.0, tasks=20_000, warm_up=50.0, replications=8, seed=9)

    a, b = run(groups, "sed")["mean_tasks"], run(mixed, "sed")["mean_tasks"]

    assert abs(a.mean() - b.mean()) < 4 * np.hypot(a.std(ddof=1), b.std(ddof=1)) / np.sqrt(8)


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_many_speeds_are_served_as_well_as_few(kernel):
    """A hundred different speeds: what is finished is what came."""
    speeds = np.linspace(0.2, 1.8, 100)
    scenario = queues(speeds.tolist(), 80.0, tasks=50_000, replications=2)

    record = replicate(scenario, resolve("jsq"), 0, kernel=kernel)

    assert record.arrived == record.finished + record.present
    assert record.present < 1000


def grows(speeds, policy, lam, end, kernel, replications, points=None, make=queues):
    """Growth of the total over the second half, one for each run, tasks per unit of time."""
    found = []
    for replication in range(replications):
        scenario = make(speeds, min(lam, 0.5 * sum(speeds)))
        drive = Drive(scenario, policy, replication, kernel=kernel, rate=lam)
        half = drive.to(end / 2)
        found.append((drive.to(end) - half) / (end / 2))
    return np.array(found)


def assert_grows(found, growth):
    """Within four standard errors of the runs, plus 2 %."""
    error = found.std(ddof=1) / np.sqrt(found.size)
    assert abs(found.mean() - growth) <= 4 * error + 0.02 * growth, (
        f"{found.mean():.5g} +- {error:.2g}, but {growth:.5g}"
    )


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        ("jsq-d", lambda speeds, lam: stability.jsq_d(speeds, 2, rate=lam)),
        ("random", lambda speeds, lam: stability.random(speeds, rate=lam)),
        ("jsq", lambda speeds, lam: stability.jsq(speeds, rate=lam)),
        ("sed", lambda speeds, lam: stability.jsq(speeds, rate=lam)),
        (
            "sampled(law={0+1:0.5, 2+3+4:0.5})",
            lambda speeds, lam: stability.sampled(speeds, {(0, 1): 0.5, (2, 3, 4): 0.5}, rate=lam),
        ),
    ],
)
def test_beyond_the_boundary_the_total_grows_as_theory_says(policy, answer):
    speeds = [0.1, 0.2, 0.3, 0.9, 0.9]
    lam = 1.1 * answer(speeds, None).lam_max

    found = grows(speeds, policy, lam, 40_000.0, "memoryless", 10)

    assert_grows(found, answer(speeds, lam).growth)


@pytest.mark.parametrize(
    ("policy", "lam"), [("jsq-d", 1.8), ("random", 0.45), ("jsq-d(sampling=speed)", 2.16)]
)
def test_below_the_boundary_the_mean_does_not_depend_on_the_length_of_the_run(policy, lam):
    speeds = [0.1, 0.2, 0.3, 0.9, 0.9]
    short, long = (
        run(
            queues(speeds, lam, duration=length, warm_up=1000.0, replications=10, seed=seed),
            policy,
        )["mean_tasks"]
        for length, seed in ((11_000.0, 1), (101_000.0, 2))
    )

    error = np.hypot(short.std(ddof=1), long.std(ddof=1)) / np.sqrt(10)
    assert abs(short.mean() - long.mean()) <= 4 * error


def test_a_new_start_below_the_boundary_empties_the_longest_queues():
    """Ten thousand tasks at the slowest server are gone where theory says stable."""
    drive = Drive(queues([0.5, 1.0, 1.0], 2.2, start=[1000, 0, 0], tasks=10**6), "jsq-d")

    assert drive.total == 1000
    assert max(drive.to(t) for t in (20_000.0, 21_000.0, 22_000.0)) < 300


def test_simulate_runs_what_is_stable_on_unequal_servers():
    found = simulate(queues([0.5, 1.5], 1.4, tasks=20_000, replications=4), "sed")

    assert found["mean_response"].value < 3.0
