"""The events kernel against closed forms and against the memoryless one."""

import math

import exact
import numpy as np
import pytest
from runs import POLICIES, assert_mean, run

from equipoise import Scenario, simulate
from equipoise.policies.steps import MESSAGES
from equipoise.stats.intervals import student

# scv: the variance over the squared mean
LAWS = {
    "deterministic": 0.0,
    "erlang(shape=2)": 0.5,
    "hyperexponential(probabilities=[0.75, 0.25], means=[0.4, 2.8])": (
        2 * (0.75 * 0.4**2 + 0.25 * 2.8**2) - 1
    ),
    "lognormal(mean=1, scv=2)": 2.0,
    "exponential": 1.0,
}
every_law = pytest.mark.parametrize("service", LAWS)


def one_server(service="exponential", **how):
    return Scenario.simple(
        servers=1, service=service, **{"warm_up": 300.0, "replications": 40, **how}
    )


@every_law
def test_one_queue_waits_as_pollaczek_and_khinchine_say(service):
    runs = run(one_server(service, load=0.7, tasks=40_000), "random", "events")

    wait = exact.pollaczek_khinchine(0.7, 1.0, LAWS[service])
    assert_mean(runs["mean_wait"], wait)
    assert_mean(runs["mean_response"], wait + 1)
    assert_mean(runs["mean_tasks"], 0.7 * (wait + 1))
    assert_mean(runs.at_least(1, 1), 0.7)


@pytest.mark.parametrize(
    ("service", "scv"),
    [
        ("deterministic(mean=250)", 0.0),
        ("erlang(shape=2, mean=250)", 0.5),
        ("hyperexponential(mean=250, scv=3)", 3.0),
        ("lognormal(mean=250, scv=2)", 2.0),
    ],
)
def test_service_in_other_units_waits_longer_in_proportion(service, scv):
    scenario = one_server(service, load=0.6, tasks=20_000, warm_up=30_000.0)

    runs = run(scenario, "random", "events")

    assert_mean(runs["mean_wait"], exact.pollaczek_khinchine(0.6 / 250, 250.0, scv))


@pytest.mark.parametrize("workers", [2, 5])
def test_many_workers_wait_as_erlang_says(workers):
    runs = run(one_server(load=0.8, workers=workers, tasks=50_000), "random", "events")

    rate = 0.8 * workers
    assert_mean(runs["mean_wait"], exact.mmc_wait(workers, rate))
    assert_mean(runs["p99_wait"], exact.mmc_wait_quantile(workers, rate, 0.99), bias=0.02)


@every_law
@pytest.mark.parametrize("kind", ["pool", "as many workers as the limit"])
def test_losses_depend_on_the_mean_size_only(service, kind):
    """Erlang's B, which Sevastyanov showed to hold for any law."""
    how = {"discipline": "pool"} if kind == "pool" else {"workers": 4}
    scenario = one_server(service, rate=2.5, limit=4, tasks=20_000, warm_up=20.0, **how)

    runs = run(scenario, "random", "events")

    assert_mean(runs["lost"], exact.erlang_b(4, 2.5))
    assert_mean(runs["mean_tasks"], 2.5 * (1 - exact.erlang_b(4, 2.5)))


@every_law
def test_a_pool_responds_in_one_service_time(service):
    scenario = Scenario.simple(
        servers=3, discipline="pool", load=4, service=service, tasks=20_000, warm_up=50.0
    ).with_run(replications=40)

    runs = run(scenario, "jsq-d", "events")

    assert_mean(runs["mean_response"], 1.0)
    assert_mean(runs["mean_tasks"], 4.0)
    truth = {"deterministic": 1.0, "exponential": math.log(2)}
    if service in truth:
        assert_mean(runs["p50_response"], truth[service], bias=0.02)  # a bucket is 1.6 % wide


# --- The same means as the memoryless kernel -----------------------------------------------------

FULL_POOLS = "pools with a limit"
SERVERS = {
    "queues": {"load": 0.85},
    "pools": {"discipline": "pool", "load": 4.3},
    "queues with a limit": {"load": 1.1, "workers": 2, "limit": 4},
    FULL_POOLS: {"discipline": "pool", "load": 2.5, "limit": 3},
}


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        *((policy, kind) for policy in POLICIES for kind in SERVERS if kind != FULL_POOLS),
        ("jsq-d", FULL_POOLS),
        ("learning-threshold(alpha=0.6)", FULL_POOLS),
    ],
)
def test_exponential_service_has_the_means_of_the_memoryless_kernel(policy, kind):
    scenario = Scenario.simple(
        servers=20, tasks=20_000, warm_up=60.0, replications=30, **SERVERS[kind]
    )

    one = run(scenario.with_run(seed=2), policy, "memoryless")
    other = run(scenario.with_run(seed=3), policy, "events")

    shared = set(one.result.replications) & set(other.result.replications)
    shared -= {"max_tasks", "last_change", "p99_neighbours"}  # not means
    assert len(shared) >= 7 + ("queues" in kind) * 2 + ("limit" in kind)
    for metric in shared:
        difference = one[metric] - other[metric]
        # A quantile is read off buckets of 1.6 %; the rest is exact in both.
        assert_mean(difference, 0.0, bias=0.02 if metric.startswith("p") else 1e-9)
    for kind_ in MESSAGES:
        assert_mean(one.messages(kind_) - other.messages(kind_), 0.0, bias=1e-9)
    for tasks in range(1, 6):
        assert_mean(one.at_least(tasks, 20) - other.at_least(tasks, 20), 0.0, bias=1e-9)


# --- Intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_quantiles_of_m_m_1_lie_inside_their_intervals(kernel):
    """Four standard errors wide, and a bucket's 1.6 %."""
    scenario = Scenario.simple(servers=1, load=0.5, tasks=100_000, warm_up=100.0, replications=20)

    found = simulate(scenario, "random", kernel=kernel).metrics

    truth = {
        "p50_response": exact.mm1_response_quantile(0.5, 0.5),
        "p99_response": exact.mm1_response_quantile(0.5, 0.99),
        "p99_wait": exact.mmc_wait_quantile(1, 0.5, 0.99),
        "mean_wait": 1.0,
        "mean_response": 2.0,
    }
    for metric, value in truth.items():
        error = found[metric].error / student(19)
        assert 0 < error < 0.02 * value
        assert abs(found[metric].value - value) < 4 * error + 0.002 * value


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_one_replication_is_cut_into_batches(kernel):
    scenario = Scenario.simple(servers=1, load=0.5, tasks=400_000, warm_up=100.0, replications=1)

    result = simulate(scenario, "random", kernel=kernel).policy

    assert result.replications == {}
    truth = {
        "mean_wait": 1.0,
        "mean_response": 2.0,
        "mean_tasks": 1.0,
        "throughput": 0.5,
        "p50_response": exact.mm1_response_quantile(0.5, 0.5),
        "p99_response": exact.mm1_response_quantile(0.5, 0.99),
        "p99_wait": exact.mmc_wait_quantile(1, 0.5, 0.99),
    }
    for metric, value in truth.items():
        error = result.metrics[metric].error / student(19)  # twenty batches
        assert 0 < error < 0.05 * value
        assert abs(result.metrics[metric].value - value) < 4 * error + 0.002 * value


def test_a_warm_up_by_rule_leaves_out_the_way_up_from_empty():
    scenario = Scenario.simple(servers=50, load=0.8, tasks=1000 * 40, replications=60)

    by_rule = simulate(scenario, "random")
    none = simulate(scenario.with_run(warm_up=0.0), "random")

    assert 40 < by_rule.warm_up < 450
    assert not by_rule.notes
    # The way up takes some 90 s: that much of 1000 s at half of the tasks is missing.
    error = by_rule["mean_tasks"].error / student(59)
    assert abs(by_rule["mean_tasks"].value - 4.0) < 4 * error + 0.02
    assert none["mean_tasks"].value < 3.9


def test_a_run_too_short_to_forget_its_start_says_so():
    scenario = Scenario.simple(servers=50, load=0.9, tasks=100 * 45, replications=20)

    [note] = simulate(scenario, "random").notes

    assert "random had not settled in half of the run" in note


# --- Traces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scale", [1, 4])
@pytest.mark.parametrize("kind", ["queues", "pools", "queues with a limit"])
def test_a_replay_conserves_its_tasks(policy, scale, kind, tmp_path):
    """Arrived = finished + present + lost, whatever becomes of them."""
    rng = np.random.default_rng(3)
    at, took = rng.uniform(0, 60, 700), rng.lognormal(-1, 1, 700)
    rows = [f"{a:.6f},{b:.6f}" for a, b in zip(np.sort(at), took, strict=True)]
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(["at,took", *rows]) + "\n")
    servers = {
        "queues": {"discipline": "fcfs"},
        "pools": {"discipline": "pool"},
        "queues with a limit": {"discipline": "fcfs", "limit": 3, "workers": 2},
    }[kind]
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 8, **servers},
            "arrivals": {"law": "trace", "file": str(file), "time": "at", "scale": scale},
            "service": {"law": "trace", "column": "took"},
            "run": {"replications": 3, "start": [2, 0, 1, 0, 0, 3, 0, 0], "duration": 50.0},
        }
    )

    result = simulate(scenario, policy).policy

    tasks = result.tasks
    assert tasks["arrived"] == tasks["finished"] + tasks["present"] + tasks["lost"]
    expected = 3 * (scale * np.count_nonzero(at - at.min() <= 50.0) + 6)
    # Copies move by up to 5 s: those of the last 5 s may come too late.
    late = 3 * (scale - 1) * np.count_nonzero((at - at.min() > 45.0) & (at - at.min() <= 50.0))
    assert expected - late <= tasks["arrived"] <= expected
    assert tasks["lost"] == 0 or "limit" in kind
    if "limit" in kind and (scale == 4 or policy == "random"):
        assert tasks["lost"] > 0
    assert tasks["present"] > 0


def test_of_a_given_trace_only_the_choices_differ(tmp_path):
    """Round-robin makes none: all replications are the same run."""
    file = tmp_path / "trace.csv"
    file.write_text("at,took\n" + "".join(f"{i / 3},{1 + i % 5}\n" for i in range(300)))
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 7, "discipline": "fcfs"},
            "arrivals": {"law": "trace", "file": str(file), "time": "at"},
            "service": {"law": "trace", "column": "took"},
            "run": {"replications": 4},
        }
    )

    turns, coins = simulate(scenario, "round-robin"), simulate(scenario, "random")

    assert turns.given == coins.given == "traffic"
    assert turns["mean_wait"].error == pytest.approx(0, abs=1e-12)
    assert coins["mean_wait"].error > 0
    assert turns.policy.tasks["arrived"] == coins.policy.tasks["arrived"] == 1200
