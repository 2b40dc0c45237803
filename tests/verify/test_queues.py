"""Mean waits of many queues to within 1 %, and how often intervals hold the truth."""

import exact
import numpy as np
import pytest
from runs import cut, run

from equipoise import Scenario, simulate
from equipoise.stats.intervals import student

slow = pytest.mark.slow

# n, tasks a replication (8 of them), the metric, its value at load .9, and the bias that is known.
# Memoryless, 8 replications, found with the 95 % half-width, 2 to 4 s each on two cores:
#   random 9.021 +- .059, round-robin 4.230 +- .030, jsq-d 1.6144 +- .0047, and at n = 10
#   2.808 +- .010 with replacement, 2.688 +- .012 without.
WAITS = {
    "random": (100, 6_000_000, "mean_wait", 9.0, 0.0),
    "round-robin": (100, 6_000_000, "mean_wait", 4.22681, 0.0),
    "jsq-d": (2000, 4_000_000, "mean_wait", 1.61406 + 3.6 / 2000, 2 / 2000),
    "jsq-d(replacement=true)": (10, 2_000_000, "mean_tasks", 2.8003, 0.0),
    "jsq-d(replacement=false)": (10, 2_000_000, "mean_tasks", 2.6840, 0.0),
}


@pytest.mark.parametrize("kernel", ["memoryless", pytest.param("events", marks=slow)])
@pytest.mark.parametrize("policy", WAITS)
def test_the_mean_is_the_known_one_and_the_interval_one_per_cent(policy, kernel):
    servers, tasks, metric, value, bias = WAITS[policy]
    scenario = Scenario.simple(servers=servers, load=0.9, tasks=tasks, replications=8)

    found = simulate(scenario, policy, kernel=kernel)

    assert found.notes == ()
    estimate = found[metric]
    error = estimate.error / student(7)
    assert abs(estimate.value - value) <= 4 * error + bias
    assert estimate.error <= 0.01 * value


@slow
@pytest.mark.parametrize("servers", [10, 30, 100, 300, 1000])
def test_power_of_two_choices_comes_near_its_limit_like_one_over_n(servers):
    """3.6 / n above it at load .9, as far as 20 / n^2 and four standard errors tell."""
    scenario = Scenario.simple(
        servers=servers, load=0.9, tasks=4_000_000, warm_up=500.0, replications=8
    )

    found = simulate(scenario, "jsq-d")["mean_wait"]

    above = found.value - exact.jsq_d_wait(0.9, 2)
    assert abs(above - 3.6 / servers) <= 4 * found.error / student(7) + 1 / servers


@slow
@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize("replications", [1, 8])
def test_intervals_hold_the_truth_nineteen_times_in_twenty(kernel, replications):
    """Of 200 studies between 90 and 99 %: four standard errors of .95 are .06."""
    held = {"mean_wait": 0, "mean_response": 0, "mean_tasks": 0, "p50_response": 0, "p99_wait": 0}
    truth = {
        "mean_wait": 1.0,
        "mean_response": 2.0,
        "mean_tasks": 1.0,
        "p50_response": exact.mm1_response_quantile(0.5, 0.5),
        "p99_wait": exact.mmc_wait_quantile(1, 0.5, 0.99),
    }
    scenario = Scenario.simple(
        servers=1,
        load=0.5,
        tasks=20_000 if replications > 1 else 100_000,
        warm_up=50.0,
        replications=replications,
    )
    for seed in range(200):
        with cut(rows=21, stretches=1):
            found = simulate(scenario.with_run(seed=seed), "random", kernel=kernel).metrics
        for metric, value in truth.items():
            held[metric] += abs(found[metric].value - value) <= found[metric].error

    for metric, times in held.items():
        assert 178 <= times <= 200, f"{metric}: {times} of 200"


@slow
def test_replications_are_independent():
    """Their means spread as the interval says, and neighbours are not correlated."""
    scenario = Scenario.simple(servers=1, load=0.5, tasks=5_000, warm_up=50.0, replications=2000)

    waits = run(scenario, "random")["mean_wait"]

    lag = np.corrcoef(waits[1:], waits[:-1])[0, 1]
    assert abs(lag) < 4 / np.sqrt(2000)
