"""Messages per task, by kind, against the fluid limit and against a loop over the lengths."""

import exact
import numpy as np
import pytest
import reference
from runs import assert_mean, run

from equipoise import Scenario, resolve
from equipoise.policies.steps import MESSAGES
from equipoise.rng import ARRIVALS_SEED, SERVICE_SEED, seeds
from equipoise.scenario import TaskStream
from equipoise.sim.run import replicate

SERVERS = 2000


@pytest.mark.parametrize(
    ("lam", "level", "step"), [(2.5, 2, 1), (2.5, 4, 1), (2.5, 1, 1), (5.5, 4, 2)]
)
def test_a_threshold_on_pools_sends_what_the_fluid_limit_says(lam, level, step):
    """lam = 2.5: level 2: 1.000; 4: .622 joining, .378 leaving; 1: .508, all leaving."""
    scenario = Scenario.simple(
        servers=SERVERS,
        discipline="pool",
        load=lam,
        start="balanced",
        duration=80.0,
        warm_up=20.0,
        replications=16,
    )

    runs = run(scenario, f"threshold(level={level}, step={step})")

    join, leave = exact.threshold_messages(lam, level, step)
    # n is not infinite; step 2 at lam = 5.5 is the slowest to forget that.
    bias = 0.001 if step == 1 else 0.004
    assert_mean(runs.messages("join"), join, bias)
    assert_mean(runs.messages("leave"), leave, bias)
    for kind in ("update", "answer", "probe"):
        assert not runs.messages(kind).any()


@pytest.mark.parametrize(
    ("policy", "kind", "per_task"),
    [
        ("random", None, 0),
        ("round-robin", None, 0),
        ("jsq", "leave", 1),
        ("jsq-d(d=2)", "probe", 4),
        ("jsq-d(d=3, replacement=true)", "probe", 6),
    ],
)
def test_queues_send_as_many_messages_as_their_rule_asks_for(policy, kind, per_task):
    """Exactly, task by task: over a whole run from empty nothing is left to chance."""
    scenario = Scenario.simple(
        servers=SERVERS, load=0.9, tasks=100_000, warm_up=0.0, replications=3
    )

    runs = run(scenario, policy)

    for record in runs.records:
        counted = record.messages.sum(axis=0)
        tasks = record.finished if kind == "leave" else record.arrived
        assert [counted[i] for i in range(len(MESSAGES))] == [
            per_task * tasks if name == kind else 0 for name in MESSAGES
        ]


@pytest.mark.parametrize("servers", [3, 10, 30, 100, 300, 2000])
def test_an_idle_server_says_so_at_most_once_a_task(servers):
    """1 - O(1/sqrt n) messages: all but those tasks that find nobody known to be idle."""
    scenario = Scenario.simple(
        servers=servers, load=0.9, tasks=200_000, warm_up=100.0, replications=12
    )

    runs = run(scenario, "jiq")

    for record in runs.records:
        assert record.messages[:, :5].sum() <= record.arrived
    # Measured at n = 10, 30, 100, 300: 1 - m = .515, .249, .063, .0075.
    assert 1 - 2 / servers**0.5 < runs.messages("leave").mean() <= 1 + servers / 200_000
    assert not runs.messages("join").any()


@pytest.mark.parametrize(
    "policy", ["jbt(r=1)", "jbt(r=2)", "jbt(r=5)", "jiq", "threshold(level=1)"]
)
@pytest.mark.parametrize("discipline", ["fcfs", "pool"])
def test_messages_are_those_that_a_loop_over_the_lengths_counts(policy, discipline):
    """The loop follows the choices and looks at the length of each server that changes."""
    scenario = Scenario.simple(
        servers=40,
        discipline=discipline,
        load=0.9 if discipline == "fcfs" else 2.5,
        duration=200.0,
        warm_up=0.0,
    )
    spec = resolve(policy)
    streams = seeds(scenario.run.seed, 0)
    stream: TaskStream = scenario.task_stream(streams[ARRIVALS_SEED], streams[SERVICE_SEED])
    times, sizes = stream.block()
    here = times <= 200.0
    assert not here[-1]

    record = replicate(scenario, spec, 0, kernel="events", trail=100_000)
    choices = [int(server) for server in record.trail[: record.events] if server >= 0]
    loop = reference.simulate(
        spec.policy.name,
        servers=40,
        discipline=discipline,
        given=list(zip(times[here].tolist(), sizes[here].tolist(), strict=True)),
        choices=choices,
        duration=200.0,
        **spec.params,
    )

    counted = record.messages.sum(axis=0)
    assert {kind: counted[i] for i, kind in enumerate(MESSAGES)} == {
        kind: loop.sent[kind] for kind in MESSAGES
    }
    assert 0 < counted[: len(MESSAGES)].sum() <= 2 * record.arrived


def test_a_jbt_message_is_worth_one_task():
    """Where somebody is always known to be below r, every task uses up one message."""
    scenario = Scenario.simple(
        servers=SERVERS, load=0.9, tasks=1_000_000, warm_up=100.0, replications=8
    )

    runs = run(scenario, "jbt(r=2)")

    assert_mean(runs["messages_per_task"], 1.0, bias=1e-4)
    assert np.allclose(runs.messages("join") + runs.messages("leave"), runs["messages_per_task"])
    assert (runs.messages("join") > 0.2).all()
