"""Pools: the number of tasks is Poisson whatever the policy, and the authors' own figures."""

import math

import numpy as np
import pytest
from runs import POLICIES, assert_law, assert_mean, assert_same, run
from scipy import stats
from scipy.integrate import quad

from equipoise import Scenario
from equipoise.sim.run import ARRIVALS

SERVERS, RATE = 4, 12.0  # lam = 3 tasks per server and mean service time
both_kernels = pytest.mark.parametrize("kernel", ["memoryless", "events"])
every_policy = pytest.mark.parametrize("policy", POLICIES)


def pools(service="exponential", **run_):
    return Scenario.simple(
        servers=SERVERS,
        discipline="pool",
        rate=RATE,
        service=service,
        duration=2.0,
        **{"warm_up": 0.0, "replications": 400, **run_},
    )


@both_kernels
@every_policy
def test_from_empty_the_number_of_tasks_is_poisson(policy, kernel):
    """Of mean n lam (1 - e^-t) at every time t, under every policy: pools never wait."""
    totals = run(pools(), policy, kernel, rows=1, stretches=4, chunk=128).totals(SERVERS)

    for i, t in enumerate((0.5, 1.0, 1.5, 2.0)):
        assert_law(totals[:, i], stats.poisson(RATE * (1 - math.exp(-t))))


# Each with how much of its tasks is still there after a time.
LAWS = {
    "deterministic": lambda t: float(t < 1),
    "erlang(shape=2)": stats.gamma(2, scale=0.5).sf,
    "hyperexponential(probabilities=[0.75, 0.25], means=[0.4, 2.8])": (
        lambda t: 0.75 * math.exp(-t / 0.4) + 0.25 * math.exp(-t / 2.8)
    ),
    "lognormal(mean=1, scv=2)": stats.lognorm(math.sqrt(math.log(3)), scale=3**-0.5).sf,
}


@pytest.mark.parametrize("service", LAWS)
@pytest.mark.parametrize("policy", ["jsq", "learning-threshold(alpha=0.6)"])
def test_from_empty_it_is_poisson_for_any_service(policy, service):
    """Of mean rate x integral of P(size > s) up to t: the M/G/infinity system."""
    totals = run(pools(service), policy, rows=1, stretches=4, chunk=128).totals(SERVERS)

    for i, t in enumerate((0.5, 1.0, 1.5, 2.0)):
        present, _ = quad(LAWS[service], 0.0, t, points=[min(t, 1.0)])
        assert_law(totals[:, i], stats.poisson(RATE * present))


@both_kernels
@pytest.mark.parametrize("policy", ["jsq-d", "threshold(level=1)"])
def test_tasks_of_the_start_die_out_one_by_one(policy, kernel):
    """Of 20 tasks at the start those left are binomial, and those that came Poisson."""
    scenario = pools(start=[0, 15, 2, 3])

    totals = run(scenario, policy, kernel, rows=1, stretches=2, chunk=128).totals(SERVERS)

    for i, t in enumerate((1.0, 2.0)):
        left, came = 20 * math.exp(-t), RATE * (1 - math.exp(-t))
        assert_mean(totals[:, i], left + came)
        assert_mean((totals[:, i] - left - came) ** 2, left * (1 - math.exp(-t)) + came)


def test_tasks_of_the_start_take_whole_service_times():
    """Sizes of 1 s: all 20 are there just before 1 s, and none of them after."""
    scenario = pools("deterministic", start=[0, 15, 2, 3])

    runs = run(scenario, "round-robin", rows=1, stretches=20, chunk=128)

    totals = runs.totals(SERVERS)
    assert_law(totals[:, 8] - 20, stats.poisson(RATE * 0.9))
    assert_law(totals[:, 9], stats.poisson(RATE * 1.0))
    assert_law(totals[:, 12], stats.poisson(RATE * 1.0))


@both_kernels
def test_a_balanced_start_is_the_load_offered_spread_evenly(kernel):
    scenario = Scenario.simple(
        servers=4, discipline="pool", load=2.6, start="balanced", duration=1e-9, warm_up=0.0
    )

    runs = run(scenario, "jsq", kernel, rows=1)

    assert (runs.totals(4) == 10).all()
    assert runs["imbalance"] == pytest.approx(0)
    assert {r.arrived for r in runs.records} == {10}


@pytest.mark.parametrize("start", ["empty", [5, 40, 0, 11]])
def test_a_response_is_a_service_time_from_any_start(start):
    """Time in service over tasks done: also where the number of tasks drifts."""
    runs = run(pools(start=start), "jsq", "memoryless", rows=1)

    # A ratio: its mean is off by one over the tasks done, 15 from empty.
    assert_mean(runs["mean_response"], 1.0, bias=0.1)
    assert_mean(runs["mean_tasks"] * SERVERS - runs["throughput"], 0.0)


# --- Rates that change, and stop ----------------------------------------------------------------


@both_kernels
@pytest.mark.parametrize("policy", ["random", "threshold(level=1)"])
def test_arrivals_follow_their_rates_and_pause_where_the_rate_is_zero(policy, kernel):
    """Poisson counts in every interval, whether or not a stretch ends where the rate changes."""
    rates, edges = [6.0, 0.0, 30.0, 0.0, 2.5], [0.0, 1.0, 1.75, 2.0, 3.5, 5.0]
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 3, "discipline": "fcfs"},
            "arrivals": {"law": "rates", "times": edges, "rates": rates},
            "service": {"law": "exponential", "mean": 0.8},
            "run": {"duration": 6.0, "warm_up": 0.0, "replications": 400},
        }
    )

    runs = run(
        scenario, policy, kernel, rows=1, stretches=24, chunk=128
    )  # a quarter of a second each

    came = np.array([record.sums[:, ARRIVALS] for record in runs.records])
    for rate, start, end in zip(rates, edges[:-1], edges[1:], strict=True):
        here = came[:, round(4 * start) : round(4 * end)].sum(axis=1)
        if rate:
            assert_law(here.astype(int), stats.poisson(rate * (end - start)))
        else:
            assert not here.any()
    assert not came[:, 20:].any()  # nothing comes after the end of the table
    both = came[:, :5].sum(axis=1) * came[:, 7:8].sum(axis=1)
    assert_mean(both, 6.0 * 7.5)  # separate intervals are independent


@both_kernels
def test_pools_follow_rates_that_change(kernel):
    """Mean and law at every time: the integral of rate(s) e^-(t - s)."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 4, "discipline": "pool"},
            "arrivals": {"law": "rates", "times": [0, 0.7, 1.1, 2.0], "rates": [10, 0, 40]},
            "service": {"law": "exponential"},
            "run": {"duration": 3.0, "warm_up": 0.0, "replications": 400},
        }
    )

    totals = run(scenario, "jsq", kernel, rows=1, stretches=6, chunk=128).totals(4)

    for i, t in enumerate((0.5, 1.0, 1.5, 2.0, 2.5, 3.0)):
        mean = sum(
            rate * (math.exp(min(end, t) - t) - math.exp(min(start, t) - t))
            for start, end, rate in ((0, 0.7, 10), (1.1, 2.0, 40))
        )
        assert_law(totals[:, i], stats.poisson(mean))


# --- The authors' figures ------------------------------------------------------------------------


# n, lam, alpha, horizon; then by an independent program, 200 runs: share of time at each l,
# changes, last change, each with its standard error.
SETTLING = {
    "n = 500": (
        (500, 5.5, 0.925, 10.0),
        {
            0: (0.02004, 7e-5),
            1: (0.02513, 1e-4),
            2: (0.03395, 2e-4),
            3: (0.05085, 3e-4),
            4: (0.1107, 0.0015),
            5: (0.7593, 0.0016),
        },
        (5.09, 0.03),
        (2.419, 0.017),
    ),
    "n = 100": (
        (100, 2.9, 0.97, 12.0),
        {0: (0.0359, 3e-4), 1: (0.0827, 0.0011), 2: (0.7892, 0.0038), 3: (0.0923, 0.0037)},
        (116.1, 2.7),
        (11.52, 0.04),
    ),
    "n = 400": (
        (400, 2.9, 0.97, 12.0),
        {0: (0.0352, 1e-4), 1: (0.0630, 4e-4), 2: (0.8477, 0.0035), 3: (0.0542, 0.0034)},
        (19.2, 0.9),
        (9.23, 0.21),
    ),
}


def settle(row, rule, kernel="memoryless", replications=150):
    """Run a row of `SETTLING`; the threshold is 0 at first and everything is empty."""
    (servers, lam, alpha, horizon), *_ = SETTLING[row]
    scenario = Scenario.simple(
        servers=servers,
        discipline="pool",
        load=lam,
        duration=horizon,
        warm_up=0.0,
        replications=replications,
    )
    return run(scenario, f"learning-threshold(alpha={alpha}, rule={rule})", kernel, rows=1)


@pytest.mark.parametrize("row", SETTLING)
@pytest.mark.parametrize("rule", ["program", "tokens"])
def test_a_learning_threshold_settles_as_published(row, rule):
    """The rule of the authors' program; and the token rule, which at these n does the same.

    2000 runs of each rule:             changes           last change       share of time at lam's l
        n = 500   program, tokens    5.100, 5.099 (10)   2.394, 2.394 (5)   .7617, .7617 (4)
        n = 100                      115.3, 114.9 (8)    11.59, 11.60 (1)   .7893, .7892 (13)
        n = 400                      18.54, 18.52 (28)   9.357, 9.357 (69)  .8509, .8509 (11)
    One rule looks before the task is placed and allows one server more, the other after it.
    """
    _, share, changes, last = SETTLING[row]

    runs = settle(row, rule)

    for level, figure in share.items():
        assert_same(runs.level_time(level), *figure)
    assert_same(runs.changes(), *changes)
    assert_same(runs.announcements(), *changes)
    assert_same(runs["threshold_changes"], *changes)
    assert_same(runs["last_change"], *last)


# The authors' 15 runs: share of tasks by company, with the standard deviation of single runs.
SHARES = {
    "threshold(level=10)": {9: (0.00183, 0.0007), 10: (0.47631, 0.074), 11: (0.52185, 0.074)},
    "jsq": {9: (0.00217, 0.0007), 10: (0.48957, 0.074), 11: (0.50826, 0.074)},
}
TASKS = {"threshold(level=10)": (10.496, 0.079), "jsq": (10.482, 0.114)}


@pytest.mark.parametrize("policy", SHARES)
def test_tasks_share_their_pools_as_published(policy):
    scenario = Scenario.simple(
        servers=500,
        discipline="pool",
        load=10.5,
        start="balanced",
        duration=5.0,
        warm_up=0.0,
        replications=60,
    )

    runs = run(scenario, policy, rows=1)

    at_least = [runs.at_least(x, 500) for x in range(8, 14)]
    for x, (value, deviation) in SHARES[policy].items():
        share = x * (at_least[x - 8] - at_least[x - 7]) / runs["mean_tasks"]
        assert_same(share, value, deviation / math.sqrt(15))
        assert runs.result.share[x] == pytest.approx(share.mean(), rel=0.02)
        assert 0.5 < share.std() / deviation < 2
    assert runs.result.share.get(12, 0.0) < 0.0005
    mean, deviation = TASKS[policy]
    assert_same(runs["mean_tasks"], mean, deviation / math.sqrt(15))
