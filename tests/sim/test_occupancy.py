"""The occupancy kernel against exact chains, the memoryless kernel, and its own promises."""

import math
import tracemalloc

import exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import assert_law, assert_mean, assert_same, cut, run
from scipy.stats import poisson

from equipoise import EquipoiseError, Scenario, compare, resolve, simulate
from equipoise.policies import POLICIES
from equipoise.policies.steps import MESSAGES
from equipoise.rng import make_rng
from equipoise.sim.occupancy import make_counted, make_occupancy
from equipoise.sim.run import MANY_SERVERS, pick_kernel, replicate
from equipoise.sim.tally import tally_of

COUNTED = [name for name, policy in POLICIES.items() if policy.ranked]


# -- exact values ----------------------------------------------------------------------------


def chain_of(policy, servers, rate, **how):
    spec = resolve(policy)
    given = {name: value for name, value in spec.params.items() if value is not None}
    return exact.chain(spec.policy.name, servers, rate, **how, **given)


def assert_chain(runs, truth, levels):
    """Means, occupancy, imbalance and messages are those of the chain."""
    assert_mean(runs["mean_tasks"], truth.mean_tasks)
    assert_mean(runs["imbalance"], truth.imbalance)
    assert_mean(runs["mean_neighbours"], truth.mean_neighbours)
    for i in range(levels):
        assert_mean(runs.at_least(i + 1, truth.servers), truth.occupancy[i])
    for kind in MESSAGES:
        assert_mean(runs.messages(kind), truth.messages[kind], bias=2e-4)


@pytest.mark.parametrize(
    ("policy", "servers"),
    [
        ("random", 2),
        ("jsq", 3),
        ("jsq-d(d=2)", 3),
        ("jsq-d(d=2, replacement=true)", 3),
        ("jiq", 3),
        ("jbt(r=3)", 3),
        ("threshold(level=1)", 2),
        ("threshold(level=1, step=2)", 3),
        ("learning-threshold(alpha=0.45)", 2),
    ],
)
def test_queues_agree_with_their_chains(policy, servers):
    rate = 0.7 * servers
    scenario = Scenario.simple(
        servers=servers, rate=rate, tasks=20_000, warm_up=300.0, replications=40
    )

    truth = chain_of(policy, servers, rate, cap=32)
    runs = run(scenario, policy, "occupancy")

    assert_chain(runs, truth, levels=4)
    assert_mean(runs["mean_wait"], truth.mean_wait, bias=1e-4)
    assert_mean(runs["mean_response"], truth.mean_wait + 1, bias=1e-4)
    assert_mean(runs["throughput"], rate)


@pytest.mark.parametrize(
    "policy",
    [
        "random",
        "jsq",
        "jsq-d(d=2)",
        "jiq",
        "jbt(r=3)",
        "threshold(level=2)",
        "threshold(level=1, step=3)",
        "learning-threshold(alpha=0.45)",
        "learning-threshold(alpha=0.45, rule=program)",
        "learning-threshold(alpha=0.3, step=2)",
    ],
)
def test_pools_agree_with_their_chains(policy):
    scenario = Scenario.simple(
        servers=2, discipline="pool", rate=5.0, tasks=20_000, warm_up=20.0, replications=40
    )

    truth = chain_of(policy, 2, 5.0, workers=math.inf, cap=20)
    runs = run(scenario, policy, "occupancy")

    assert_chain(runs, truth, levels=5)
    assert_mean(runs["mean_response"], 1.0)
    if policy.startswith("learning"):
        assert_mean(runs.changes() / runs.time, truth.changes, bias=1e-3)
        assert_mean(runs.announcements() / runs.time, truth.changes, bias=1e-3)
        for level, fraction in truth.level_time.items():
            if fraction > 0.01:
                assert_mean(runs.level_time(level), fraction, bias=3e-4)


@pytest.mark.parametrize(
    ("policy", "workers"),
    [
        ("random", 1),
        ("jsq", 2),
        ("jsq-d(d=2)", 1),
        ("jiq", 1),
        ("jbt(r=2)", 2),
        ("threshold(level=1)", 1),
        ("threshold(level=4)", 1),
        ("learning-threshold(alpha=0.6)", 2),
    ],
)
def test_limits_lose_as_many_as_their_chains(policy, workers):
    scenario = Scenario.simple(
        servers=3, rate=4.0, workers=workers, limit=3, tasks=20_000, warm_up=20.0, replications=40
    )

    truth = chain_of(policy, 3, 4.0, workers=workers, cap=3)
    runs = run(scenario, policy, "occupancy")

    assert_chain(runs, truth, levels=3)
    assert_mean(runs["lost"], truth.edge)
    assert_mean(runs["mean_wait"], truth.mean_wait)
    assert runs["max_tasks"].max() == 3
    assert all(r.arrived == r.finished + r.present + r.lost for r in runs.records)


@pytest.mark.parametrize("workers", [1, 3, 12])
def test_one_server_of_many_workers_waits_as_erlang_says(workers):
    """Its waits are drawn when a task comes: their mean, and the quantiles of what was drawn."""
    scenario = Scenario.simple(
        servers=1, load=0.8, workers=workers, tasks=50_000, warm_up=300.0, replications=40
    )

    runs = run(scenario, "random", "occupancy")

    rate = 0.8 * workers
    wait = exact.mmc_wait(workers, rate)
    assert_mean(runs["mean_wait"], wait)
    assert_mean(runs["mean_response"], wait + 1)
    assert_mean(runs["p99_wait"], exact.mmc_wait_quantile(workers, rate, 0.99), bias=0.02)
    if workers == 1:
        for p, metric in ((0.5, "p50_response"), (0.99, "p99_response")):
            assert_mean(runs[metric], exact.mm1_response_quantile(0.8, p), bias=0.02)


def test_a_table_of_speeds_has_the_product_form_of_its_birth_and_death_chain():
    """Servers under random are alone: P(k) is in proportion to the product of rate / r(j)."""
    table = np.array([0.0, 0.7, 1.9, 1.3, 2.25, math.pi])  # neither whole nor increasing
    size, rate, levels = 40, 1.25, 200
    spec = resolve("random")
    state, _ = spec.policy.ranked.init(size, **spec.params)
    kernel = make_occupancy(spec.policy, False, False)
    curve = table[np.minimum(np.arange(levels), table.size - 1)]
    found = []
    for seed in range(24):
        tally = tally_of(np.array([size]), levels, 0)
        world = make_counted(size, None, 0, *(make_rng(100 * seed + i) for i in range(4)))
        for until in (50.0, 2000.0):
            assert kernel(world, state, tally, curve, rate * size, 1, until, 2**62) == 0
            if until == 50.0:
                tally.area[:] = 0
        found.append(tally.area / 1950.0 / size)

    weights = np.cumprod(np.append(1.0, rate / curve[1:]))
    tails = (weights / weights.sum())[::-1].cumsum()[::-1]
    for i in range(1, 9):
        assert_mean([each[i] for each in found], tails[i])


def test_servers_that_share_have_the_product_form_of_their_curve():
    """The same chain from a scenario: at most 4 tasks share, at these speeds, and the rest wait."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 40, "discipline": "ps", "workers": 4, "curve": [0.7, 1.1, 2.25]},
            "arrivals": {"law": "poisson", "rate": 50.0},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"tasks": 100_000, "warm_up": 50.0, "replications": 24},
        }
    )

    runs = run(scenario, "random", "occupancy")

    speeds = np.append([0.7, 1.1], np.full(200, 2.25))
    weights = np.cumprod(np.append(1.0, 1.25 / speeds))
    tails = (weights / weights.sum())[::-1].cumsum()[::-1]
    for i in range(1, 9):
        assert_mean(runs.at_least(i, 40), tails[i])
    assert_mean(runs["mean_response"], tails[1:].sum() / 1.25)


def test_the_number_of_tasks_in_pools_is_poisson_at_every_moment_of_changing_traffic():
    """From empty at rates of 4, 0 and 9 for 1 s each, it has mean n rho(t) whatever is sent."""
    end, n = 2.6, 300
    scenario = Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": "pool"},
            "arrivals": {"law": "rates", "bin": 1.0, "rates": [4.0 * n, 0.0, 9.0 * n]},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"duration": end, "replications": 2000, "warm_up": 0.0},
        }
    )

    rho = 4 * (math.exp(1 - end) - math.exp(-end)) + 9 * (1 - math.exp(2 - end))
    for policy in ("jsq-d", "threshold(level=3)"):
        runs = run(scenario, policy, "occupancy", rows=1)

        assert_law([r.present for r in runs.records], poisson(n * rho))


# -- the memoryless kernel -------------------------------------------------------------------


def both(scenario, policy):
    return run(scenario, policy, "occupancy"), run(scenario, policy, "memoryless")


def assert_alike(runs, others, metric):
    other = others[metric]
    assert_same(runs[metric], other.mean(), other.std(ddof=1) / math.sqrt(other.size))


def assert_alike_at(runs, others, level, n):
    other = others.at_least(level, n)
    error = other.std(ddof=1) / math.sqrt(other.size)
    assert_same(runs.at_least(level, n), other.mean(), error)


@pytest.mark.parametrize(
    ("policy", "workers"),
    [
        ("random", 1),
        ("jsq-d(d=3)", 1),
        ("jsq-d(d=2)", 3),
        ("jsq", 1),
        ("jiq", 3),
        ("jbt(r=2)", 1),
        ("threshold(level=1)", 1),
        ("learning-threshold(max_load=2)", 1),
    ],
)
def test_500_queues_are_as_in_the_memoryless_kernel(policy, workers):
    """The seed differs: the same seed gives both kernels the same times of arrivals."""
    load = 0.7 if policy == "random" else 0.9  # M/M/1 at 0.9 takes 400 s to settle
    how = {"load": load, "workers": workers, "tasks": 150_000 * workers, "warm_up": 60.0}
    scenario = Scenario.simple(servers=500, **how, start="balanced", replications=16)
    runs = run(scenario, policy, "occupancy")
    others = run(scenario.with_run(seed=2), policy, "memoryless")

    for metric in ("mean_tasks", "mean_wait", "mean_response", "imbalance", "mean_neighbours"):
        assert_alike(runs, others, metric)
    for metric in ("p99_wait", "p50_response", "p99_response", "messages_per_task"):
        assert_alike(runs, others, metric)
    for level in (1, 2, 3, 5, 10):
        assert_alike_at(runs, others, level, 500)
    for kind in MESSAGES:
        said = others.messages(kind)
        assert_same(runs.messages(kind), said.mean(), said.std(ddof=1) / 4)


@pytest.mark.parametrize(
    "policy",
    [
        "random",
        "jsq-d(d=2)",
        "jsq",
        "jiq",
        "threshold(level=2)",
        "threshold(level=4, step=2)",
        "learning-threshold(alpha=0.85)",
        "learning-threshold(alpha=0.85, rule=program)",
        "learning-threshold(alpha=0.9, step=2)",
    ],
)
def test_500_pools_are_as_in_the_memoryless_kernel(policy):
    """From empty, so that the path of a threshold that learns is among what is compared."""
    scenario = Scenario.simple(
        servers=500, discipline="pool", load=2.5, duration=12.0, warm_up=0.0, replications=100
    )
    runs = run(scenario, policy, "occupancy", rows=6)
    others = run(scenario.with_run(seed=2), policy, "memoryless", rows=6)

    for metric in ("mean_tasks", "imbalance", "mean_neighbours", "messages_per_task"):
        assert_alike(runs, others, metric)
    for level in (1, 2, 3, 5):
        assert_alike_at(runs, others, level, 500)
    for kind in MESSAGES:
        said = others.messages(kind)
        assert_same(runs.messages(kind), said.mean(), said.std(ddof=1) / 10)
    if policy.startswith("learning"):
        for metric in ("announcements", "threshold_changes", "last_change"):
            assert_alike(runs, others, metric)
        for moment in range(6):
            path, other = (
                np.array([r.path["threshold"][moment] for r in each.records])
                for each in (runs, others)
            )
            assert_same(path, other.mean(), other.std(ddof=1) / 10)


# -- what holds of every run -----------------------------------------------------------------


def counted_scenario(discipline, rates=False, limit=None, warm_up=0.0, n=6):
    arrivals = {"law": "poisson", "rate": 5.0}
    if rates:
        arrivals = {"law": "rates", "times": [0, 20, 33, 80, 130], "rates": [4, 0, 9, 3]}
    return Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": discipline} | ({"limit": limit} if limit else {}),
            "arrivals": arrivals,
            "service": {"law": "exponential", "mean": 0.9},
            "run": {"warm_up": warm_up, "duration": 125.0},
        }
    )


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from(COUNTED),
    st.sampled_from(["fcfs", "pool"]),
    st.booleans(),
    st.sampled_from([None, 3]),
    st.sampled_from([0.0, 31.0]),
)
def test_the_path_does_not_depend_on_how_a_run_is_cut(
    rows, stretches, policy, discipline, rates, limit, warm_up
):
    spec = resolve(policy if policy != "threshold" else "threshold(level=1)")

    with cut(rows=1, stretches=1):
        scenario = counted_scenario(discipline, rates, limit)
        one = replicate(scenario, spec, 3, kernel="occupancy")
    with cut(rows + 1, stretches):
        scenario = counted_scenario(discipline, rates, limit, warm_up)
        other = replicate(scenario, spec, 3, kernel="occupancy")

    for record in (one, other):
        assert record.arrived == record.finished + record.present + record.lost
    assert (one.arrived, one.finished, one.lost) == (other.arrived, other.finished, other.lost)
    assert one.messages.sum(axis=0).tolist() == other.messages.sum(axis=0).tolist()
    assert one.waits.sum() == other.waits.sum()
    assert one.sums.sum(axis=0) == pytest.approx(other.sums.sum(axis=0), rel=1e-9)
    assert sum(row.sum() for row in one.area) == pytest.approx(
        sum(row.sum() for row in other.area), rel=1e-9
    )


def test_the_levels_grow_as_they_are_needed():
    """A start of 400 tasks at one server, and a burst that no level was made for."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 1, "discipline": "fcfs"},
            "arrivals": {"law": "rates", "times": [0, 1000, 1001, 9000], "rates": [0.1, 5000, 0]},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"duration": 9000.0, "start": [400]},
        }
    )

    record = replicate(scenario, resolve("jsq"), 0, kernel="occupancy")

    assert max(row.size for row in record.area) > 4000
    assert record.present == 0
    assert record.finished == record.arrived > 4800


@pytest.mark.parametrize("policy", ["jsq-d", "learning-threshold", "jsq"])
def test_a_thousand_million_pools_take_no_memory_and_no_time(policy):
    scenario = Scenario.simple(
        servers=10**9, discipline="pool", load=2.5, tasks=100_000, start="balanced", replications=1
    )

    tracemalloc.start()
    found = simulate(scenario, policy, kernel="occupancy")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 50e6
    tasks = found.policies[0].tasks
    assert tasks["arrived"] - tasks["finished"] == tasks["present"]
    assert tasks["present"] == pytest.approx(2.5e9, rel=1e-5)


# -- which kernel ----------------------------------------------------------------------------


def fleet(servers, service="exponential", **how):
    return Scenario.simple(servers=servers, load=0.5, service=service, tasks=1000, **how)


def test_auto_counts_where_it_is_exact_and_cheaper():
    jsq, own_way = resolve("jsq"), resolve("round-robin")

    assert pick_kernel(fleet(MANY_SERVERS), "auto", [jsq]) == "occupancy"
    assert pick_kernel(fleet(MANY_SERVERS - 1), "auto", [jsq]) == "memoryless"
    assert pick_kernel(fleet(MANY_SERVERS), "auto", [jsq, own_way]) == "memoryless"
    assert pick_kernel(fleet(MANY_SERVERS, "deterministic"), "auto", [jsq]) == "events"
    comparison = compare(fleet(MANY_SERVERS, replications=1), ["jsq", "jiq"])
    assert comparison.kernel == "occupancy"
    assert "occupancy kernel" in str(comparison)


def test_what_cannot_be_counted_is_refused_in_one_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from equipoise.policies import Policy\n"
        "FIRST = Policy('first', choose=lambda state, fleet, rng: 0)\n"
    )
    waiting = Scenario.from_dict(
        {
            "servers": {"count": 2, "discipline": "fcfs", "limit": 1, "queue": 3},
            "arrivals": {"law": "poisson", "load": 0.5},
            "service": {"law": "exponential", "mean": 1.0},
        }
    )
    unequal = Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", "speeds": [1, 2]},
            "arrivals": {"law": "poisson", "load": 0.5},
            "service": {"law": "exponential", "mean": 1.0},
        }
    )

    for scenario, policy, said in [
        (fleet(3), "round-robin", "policy 'round-robin' has no form for the occupancy kernel"),
        (fleet(3), f"{file}:FIRST", "policy 'first' has no form for the occupancy kernel"),
        (fleet(3, "deterministic"), "jsq", "the occupancy kernel needs exponential service"),
        (waiting, "jsq", "the occupancy kernel needs messages that take no time and no queue"),
        (unequal, "jsq", "the occupancy kernel needs servers that are alike"),
    ]:
        with pytest.raises(EquipoiseError, match=said) as refused:
            simulate(scenario, policy, kernel="occupancy")
        assert "\n" not in str(refused.value)
    with pytest.raises(EquipoiseError, match=r"no kernel is called 'occupancy\(step=1\)'"):
        simulate(fleet(3), "jsq", kernel="occupancy(step=1)")
