"""The laws and the published figures of tests/sim/test_pools.py, with many more runs."""

import math

import pytest
from runs import POLICIES, assert_law, assert_mean, assert_same, run
from scipy import stats
from scipy.integrate import quad
from sim.test_pools import LAWS, RATE, SERVERS, SETTLING, pools, settle

pytestmark = pytest.mark.slow
both_kernels = pytest.mark.parametrize("kernel", ["memoryless", "events"])
TIMES = (0.25, 0.5, 1.0, 2.0)


def totals_at(service, policy, kernel, replications=6_000):
    """Tasks present at `TIMES`, int64[R, 4], from empty."""
    scenario = pools(service, replications=replications)
    totals = run(scenario, policy, kernel, rows=1, stretches=8, chunk=128).totals(SERVERS)
    return totals[:, [round(4 * t) - 1 for t in TIMES]]


@both_kernels
@pytest.mark.parametrize("policy", POLICIES)
def test_from_empty_the_number_of_tasks_is_poisson(policy, kernel):
    """At every time; and at two times together it is what M/M/infinity says."""
    totals = totals_at("exponential", policy, kernel)

    means = [RATE * (1 - math.exp(-t)) for t in TIMES]
    for i, mean in enumerate(means):
        assert_law(totals[:, i], stats.poisson(mean))
    # Those who are still there after s are e^-s of them: cov(N(t), N(t + s)) = e^-s mean(t).
    for i, j in ((0, 1), (1, 2), (2, 3), (0, 3)):
        product = (totals[:, i] - means[i]) * (totals[:, j] - means[j])
        assert_mean(product, math.exp(TIMES[i] - TIMES[j]) * means[i])


@pytest.mark.parametrize("service", LAWS)
@pytest.mark.parametrize("policy", ["random", "jsq", "threshold(level=1)"])
def test_from_empty_it_is_poisson_for_any_service(policy, service):
    totals = totals_at(service, policy, "events")

    for i, t in enumerate(TIMES):
        present, _ = quad(LAWS[service], 0.0, t, points=[min(t, 1.0)])
        assert_law(totals[:, i], stats.poisson(RATE * present))


@both_kernels
@pytest.mark.parametrize("row", SETTLING)
@pytest.mark.parametrize("rule", ["program", "tokens"])
def test_a_learning_threshold_settles_as_published(row, rule, kernel):
    """2000 runs: only the reference's own error is left. Both rules see the same."""
    _, share, changes, last = SETTLING[row]

    runs = settle(row, rule, kernel, replications=2000)

    for level, figure in share.items():
        assert_same(runs.level_time(level), *figure)
    assert_same(runs.changes(), *changes)
    assert_same(runs["last_change"], *last)


@pytest.mark.parametrize("row", SETTLING)
def test_the_two_rules_of_the_learning_threshold_differ_by_little(row):
    """From the same seeds most runs change alike, the others by a few changes.

    2000 runs, mean changes under the program's rule and under the token rule:
        n = 500   5.107, 5.107     no run differs
        n = 100   115.98, 115.58   32 % of runs differ; by 0.40 +- 0.10 on average
        n = 400   18.544, 18.537    1 % of runs differ
    The token rule written as green >= (1 - alpha) n gives 71 at n = 100, where (1 - .97) 100 > 3
    in floating point; with the counts after the task it gives 89.
    """
    program = settle(row, "program", replications=2000)
    tokens = settle(row, "tokens", replications=2000)

    differ = program.changes() - tokens.changes()
    assert (differ != 0).mean() < 0.4
    assert abs(differ.mean()) < 0.01 * program.changes().mean()
    for level in SETTLING[row][1]:
        assert_mean(program.level_time(level) - tokens.level_time(level), 0.0, bias=5e-4)
