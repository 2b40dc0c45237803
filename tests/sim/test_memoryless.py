"""The memoryless kernel against closed forms; small systems are in test_chains.py."""

import math

import exact
import pytest
from runs import POLICIES, assert_mean, run

from equipoise import EquipoiseError, Scenario, simulate
from equipoise.policies import resolve
from equipoise.sim import memoryless
from equipoise.sim.run import MemorylessDriver, pick_kernel


def queues(servers=1, **how):
    return Scenario.simple(servers=servers, **{"warm_up": 300.0, "replications": 40, **how})


@pytest.mark.parametrize("workers", [1, 3, 12])
def test_one_server_of_many_workers_waits_as_erlang_says(workers):
    scenario = queues(load=0.8, workers=workers, tasks=50_000)

    runs = run(scenario, "random", "memoryless")

    rate = 0.8 * workers
    wait = exact.mmc_wait(workers, rate)
    assert_mean(runs["mean_wait"], wait)
    assert_mean(runs["mean_response"], wait + 1)
    assert_mean(runs["mean_tasks"], rate * (wait + 1))
    assert_mean(runs["p99_wait"], exact.mmc_wait_quantile(workers, rate, 0.99), bias=0.02)


@pytest.mark.parametrize("limit", [1, 4])
def test_one_pool_loses_as_erlang_says(limit):
    scenario = queues(discipline="pool", load=2.5, limit=limit, tasks=20_000, warm_up=20.0)

    runs = run(scenario, "random", "memoryless")

    lost = exact.erlang_b(limit, 2.5)
    assert_mean(runs["lost"], lost)
    assert_mean(runs["mean_tasks"], 2.5 * (1 - lost))


@pytest.mark.parametrize("servers", [10, 100])
def test_round_robin_waits_as_erlang_arrivals(servers):
    scenario = queues(servers, load=0.7, tasks=200_000, warm_up=100.0)

    runs = run(scenario, "round-robin", "memoryless")

    assert_mean(runs["mean_wait"], exact.round_robin_wait(servers, 0.7))


def test_random_queues_are_m_m_1():
    scenario = queues(50, load=0.8, tasks=200_000)

    runs = run(scenario, "random", "memoryless")

    assert_mean(runs["mean_wait"], 4.0)
    for i in (1, 2, 5, 10):
        assert_mean(runs.at_least(i, 50), 0.8**i)
    for p, metric in ((0.5, "p50_response"), (0.99, "p99_response")):
        assert_mean(runs[metric], exact.mm1_response_quantile(0.8, p), bias=0.02)


@pytest.mark.parametrize("d", [2, 5])
def test_power_of_d_choices_is_near_its_limit(d):
    """The fraction of servers with at least i tasks, up to the 1/n that n is from infinity."""
    scenario = queues(2000, load=0.7, tasks=300_000, warm_up=40.0, replications=12)

    runs = run(scenario, f"jsq-d(d={d})", "memoryless")

    for i, q in enumerate(exact.jsq_d_tail(0.7, d)[:3]):
        assert_mean(runs.at_least(i + 1, 2000), q, bias=2 / 2000)
    assert_mean(runs["mean_wait"], exact.jsq_d_wait(0.7, d), bias=6 / 2000)


@pytest.mark.parametrize("mean", [0.001, 1.0, 3600.0])
def test_a_unit_of_time_is_only_a_unit(mean):
    """In service times of an hour all is as in seconds, 3600 times as slow."""
    scenario = Scenario.simple(
        servers=5,
        load=0.8,
        service=f"exponential(mean={mean})",
        tasks=2000,
        warm_up=0.0,
        replications=4,
    )
    plain = Scenario.simple(servers=5, load=0.8, tasks=2000, warm_up=0.0, replications=4)

    runs, in_seconds = run(scenario, "jsq"), run(plain, "jsq")

    for metric in ("mean_wait", "mean_response", "p99_response", "p99_wait"):
        assert runs[metric] == pytest.approx(mean * in_seconds[metric], rel=1e-6)
    for metric in ("mean_tasks", "imbalance", "messages_per_task", "utility"):
        assert runs[metric] == pytest.approx(in_seconds[metric], rel=1e-6)
    assert runs["throughput"] == pytest.approx(in_seconds["throughput"] / mean, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_work_is_done_as_fast_as_it_comes(policy):
    """Each queue is busy for its load, whoever sends it tasks, and Little's law holds."""
    scenario = queues(10, load=0.85, tasks=100_000)

    runs = run(scenario, policy, "memoryless")

    # What is there at the end has not been done: tasks of 300 000 that are measured.
    assert_mean(runs.at_least(1, 10), 0.85, bias=1e-4)
    assert_mean(runs["throughput"], 8.5, bias=1e-3)
    response = 10 * runs["mean_tasks"] / runs["throughput"]
    assert runs["mean_response"] == pytest.approx(response, rel=0.02)
    assert_mean(runs["mean_response"] - runs["mean_wait"], 1.0, bias=1e-3)


def test_it_runs_what_is_exponential_only():
    steady = Scenario.simple(servers=2, load=0.5, service="deterministic")
    free = Scenario.simple(servers=2, load=0.5)

    assert (pick_kernel(steady), pick_kernel(free)) == ("events", "memoryless")
    with pytest.raises(EquipoiseError, match="needs exponential service"):
        pick_kernel(steady, "memoryless")
    with pytest.raises(EquipoiseError, match="no kernel is called 'exact'; use auto, memoryless"):
        simulate(free, "jsq", kernel="exact")


def test_a_policy_that_knows_every_length_needs_no_list_of_tasks(monkeypatch):
    """The exact chain again, departures drawn through the policy's index."""
    monkeypatch.setattr(memoryless, "MANY", 1)
    scenario = Scenario.simple(
        servers=2, discipline="pool", rate=5.0, tasks=20_000, warm_up=20.0, replications=40
    )
    driver = MemorylessDriver(scenario, resolve("jsq"), 0, 0)
    driver.run(50.0, 10**6)

    truth = exact.chain("jsq", 2, 5.0, workers=math.inf, cap=20)
    runs = run(scenario, "jsq", "memoryless")

    assert driver.tasks.server.size == 0
    assert_mean(runs["mean_tasks"], truth.mean_tasks)
    assert_mean(runs["imbalance"], truth.imbalance)
    for i in range(5):
        assert_mean(runs.at_least(i + 1, 2), truth.occupancy[i])
    assert_mean(runs.messages("leave"), truth.messages["leave"], bias=2e-4)


@pytest.mark.parametrize(
    "scenario",
    [
        {"discipline": "fcfs", "load": 0.5},
        {"discipline": "pool", "load": 0.5, "limit": 3},
        {"discipline": "pool", "load": 40_000.0},  # fuller than its levels are told apart
    ],
)
def test_tasks_are_listed_where_a_policy_cannot_know_all(scenario):
    scenario = Scenario.simple(servers=10_000, duration=1.0, replications=1, **scenario)
    policy = resolve("jsq").policy

    assert not memoryless.knows_all(scenario, policy, scenario.start_lengths())
