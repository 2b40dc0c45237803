"""Both kernels against small systems solved exactly, state by state."""

import math

import exact
import pytest
from runs import assert_mean, run

from equipoise import Scenario, resolve
from equipoise.policies.steps import MESSAGES

both_kernels = pytest.mark.parametrize("kernel", ["memoryless", "events"])

QUEUES = [
    ("random", 2),
    ("round-robin", 2),
    ("jsq", 2),
    ("jsq", 3),
    ("jsq-d(d=2)", 3),
    ("jsq-d(d=2, replacement=true)", 3),
    ("jiq", 2),
    ("jiq", 3),
    ("jbt(r=2)", 2),
    ("jbt(r=3)", 3),
    ("threshold(level=1)", 2),
    ("threshold(level=1, step=2)", 3),
    ("learning-threshold(alpha=0.45)", 2),
]


def chain_of(policy, servers, rate, **how):
    spec = resolve(policy)
    given = {name: value for name, value in spec.params.items() if value is not None}
    return exact.chain(spec.policy.name, servers, rate, **how, **given)


def assert_chain(runs, truth, levels):
    """Means, occupancy, imbalance and messages are those of the chain."""
    assert_mean(runs["mean_tasks"], truth.mean_tasks)
    assert_mean(runs["imbalance"], truth.imbalance)
    assert_mean(runs["mean_neighbours"], truth.mean_neighbours)
    logs = truth.mean(lambda x: sum(q * math.log(q) for q in x if q)) / truth.mean(sum)
    assert_mean(runs["utility"], -logs)
    for i in range(levels):
        assert_mean(runs.at_least(i + 1, truth.servers), truth.occupancy[i])
        assert runs.result.occupancy[i] == pytest.approx(truth.occupancy[i], rel=0.05)
    for kind in MESSAGES:
        # Tasks that are there at the end have not said what they will: a few in 20 000.
        assert_mean(runs.messages(kind), truth.messages[kind], bias=2e-4)


@both_kernels
@pytest.mark.parametrize(("policy", "servers"), QUEUES)
def test_queues_agree_with_their_chains(policy, servers, kernel):
    rate = 0.7 * servers
    scenario = Scenario.simple(
        servers=servers, rate=rate, tasks=20_000, warm_up=300.0, replications=40
    )

    small = servers == 2 and not policy.startswith("learning")
    truth = chain_of(policy, servers, rate, cap=60 if small else 32)
    runs = run(scenario, policy, kernel)

    assert_chain(runs, truth, levels=4)
    assert_mean(runs["mean_wait"], truth.mean_wait)
    assert_mean(runs["mean_response"], truth.mean_wait + 1)
    assert_mean(runs["throughput"], rate)


POOLS = [
    "random",
    "round-robin",
    "jsq",
    "jsq-d(d=2)",
    "jiq",
    "jbt(r=3)",
    "threshold(level=2)",
    "threshold(level=1, step=3)",
    "learning-threshold(alpha=0.45)",
    "learning-threshold(alpha=0.45, rule=program)",
    "learning-threshold(alpha=0.3, step=2)",
]


@both_kernels
@pytest.mark.parametrize("policy", POOLS)
def test_pools_agree_with_their_chains(policy, kernel):
    scenario = Scenario.simple(
        servers=2, discipline="pool", rate=5.0, tasks=20_000, warm_up=20.0, replications=40
    )

    truth = chain_of(policy, 2, 5.0, workers=math.inf, cap=20)
    runs = run(scenario, policy, kernel)

    assert truth.edge < 1e-6
    assert_chain(runs, truth, levels=5)
    assert_mean(runs["mean_response"], 1.0)
    if policy.startswith("learning"):
        # The threshold of a start state is not yet forgotten in one run of 4000 s: 1 s of it.
        assert_mean(runs.changes() / runs.time, truth.changes, bias=1e-3)
        assert_mean(runs.announcements() / runs.time, truth.changes, bias=1e-3)
        for level, fraction in truth.level_time.items():
            if fraction > 0.01:
                assert_mean(runs.level_time(level), fraction, bias=3e-4)


@both_kernels
@pytest.mark.parametrize(
    ("policy", "workers"),
    [
        ("random", 1),
        ("round-robin", 1),
        ("jsq", 2),
        ("jsq-d(d=2)", 1),
        ("jiq", 1),
        ("jbt(r=2)", 2),
        ("threshold(level=1)", 1),
        ("threshold(level=4)", 1),
        ("learning-threshold(alpha=0.6)", 2),
    ],
)
def test_limits_lose_as_many_as_their_chains(policy, workers, kernel):
    """A task sent to a full server changes nothing, not even what the dispatcher knows."""
    scenario = Scenario.simple(
        servers=3,
        rate=4.0,
        workers=workers,
        limit=3,
        tasks=20_000,
        warm_up=20.0,
        replications=40,
    )

    truth = chain_of(policy, 3, 4.0, workers=workers, cap=3)
    runs = run(scenario, policy, kernel)

    assert_chain(runs, truth, levels=3)
    assert_mean(runs["lost"], truth.edge)
    assert_mean(runs["mean_wait"], truth.mean_wait)
    assert runs["max_tasks"].max() == 3
    assert all(r.arrived == r.finished + r.present + r.lost for r in runs.records)
