"""The events kernel before a judge: the slow simulator of tests/reference.py.

It follows the choices that the kernel made, refuses the first one that the policy's own sentence
forbids, and works out waits, messages and averages from lengths alone.
"""

import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import cut

from equipoise import Scenario, resolve
from equipoise.policies.steps import ANNOUNCEMENTS, CHANGES, MESSAGES
from equipoise.sim import run as sim_run
from equipoise.sim.run import replicate

BY_SPEED = ("weighted", "sampling")  # the reference knows equal servers only

POLICIES = [
    "random",
    "round-robin",
    "jsq",
    "jsq-d(d=2)",
    "jsq-d(d=4)",
    "jsq-d(d=3, replacement=true)",
    "jiq",
    "jbt(r=2)",
    "jbt(r=4)",
    "threshold(level=0)",
    "threshold(level=2)",
    "threshold(level=1, step=3)",
    "learning-threshold(alpha=0.7)",
    "learning-threshold(alpha=0.5, step=2)",
    "learning-threshold(alpha=0.7, level=5)",
    "learning-threshold(alpha=0.7, rule=program)",
    "learning-threshold(alpha=0.5, step=2, rule=program)",
]
SERVERS = {
    "queues": {"discipline": "fcfs"},
    "two workers": {"discipline": "fcfs", "workers": 2},
    "pools": {"discipline": "pool"},
    "queues with a limit": {"discipline": "fcfs", "limit": 3},
    "pools with a limit": {"discipline": "pool", "limit": 2},
}


def write(path, tasks):
    """A trace of (arrival s, size s), to the last digit."""
    lines = ["at,took", *(f"{at!r},{took!r}" for at, took in tasks)]
    path.write_text("\n".join(lines) + "\n")
    return path


def replay(path, policy, servers, duration, **how):
    """Run the events kernel on a trace; return its record."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": servers, **how},
            "arrivals": {"law": "trace", "file": str(path), "time": "at"},
            "service": {"law": "trace", "column": "took"},
            "run": {"duration": duration, "warm_up": 0.0, "replications": 1},
        }
    )
    with cut(rows=3, stretches=2):
        return replicate(scenario, resolve(policy), 0, kernel="events", trail=100_000)


def choices(record):
    """Where each task went."""
    return [int(server) for server in record.trail[: record.events] if server >= 0]


def judge(record, tasks, policy, servers, duration, **how):
    """Follow a record's choices and compare everything that was measured."""
    spec = resolve(policy)
    params = {k: v for k, v in spec.params.items() if v is not None and k not in BY_SPEED}
    went = choices(record)
    found = reference.simulate(
        spec.policy.name,
        servers=servers,
        given=tasks,
        choices=went,
        duration=duration,
        record=True,
        **how,
        **params,
    )

    sums = record.sums.sum(axis=0)
    counts = record.messages.sum(axis=0)
    assert len(went) == len(tasks)
    assert {name: getattr(record, name) for name in found.tasks} == found.tasks
    assert {kind: counts[i] for i, kind in enumerate(MESSAGES)} == {
        kind: found.sent[kind] for kind in MESSAGES
    }
    assert counts[ANNOUNCEMENTS] == counts[CHANGES] == found.announcements
    assert (record.last_change or 0.0) == found.last_change

    assert sums[sim_run.TIME] == pytest.approx(duration)
    assert sums[sim_run.UNEVEN] == pytest.approx(found.moved_time)
    area = np.zeros(len(found.present_time) + 1)
    for row in record.area:
        area[: row.size] += row[: area.size]
    assert area[1:-1] == pytest.approx(
        [sum(found.present_time[i:]) for i in range(1, len(found.present_time))]
    )
    assert sums[sim_run.TASKS] == pytest.approx(area[1:].sum())

    if how["discipline"] == "fcfs":
        assert sums[sim_run.WAITED] == len(found.waits)
        assert sums[sim_run.WAITS] == pytest.approx(sum(found.waits))
        assert record.waits.sum() == len(found.waits)
        if record.first_bucket[0] == 0:
            assert record.waits[:, 0].sum() == found.waits.count(0.0)
    if record.present == 0:  # the judge knows a response when service begins
        assert sums[sim_run.RESPONDED] == len(found.responses)
        assert sums[sim_run.RESPONSES] == pytest.approx(sum(found.responses))
    if found.level_time and spec.policy.learns:
        spent = np.zeros(max(max(found.level_time) + 1, *(row.size for row in record.thresholds)))
        for row in record.thresholds:
            spent[: row.size] += row
        for level, time in enumerate(spent):
            assert time == pytest.approx(found.level_time.get(level, 0.0))
    return found


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_choice_is_one_that_the_rule_allows(policy, kind, tmp_path):
    """And waits, messages and averages are what follows from the choices."""
    how, servers = SERVERS[kind], 7
    rng = np.random.default_rng(5)
    k = 1500
    at = rng.exponential(1 / 9.0, k).cumsum() * 0.9  # from idle to crowded and back, twice
    tasks = list(zip(map(float, at - at[0]), map(float, rng.exponential(1.0, k)), strict=True))
    tasks = [(t, size * (1 + math.sin(t / 12))) for t, size in tasks]
    end = float(at[-1]) + 400.0

    record = replay(write(tmp_path / "trace.csv", tasks), policy, servers, end, **how)
    found = judge(record, tasks, policy, servers, end, **how)

    assert record.present == 0
    assert [int(event) for event in record.trail[: record.events]] == [
        -1 - server if what == "depart" else server for _, what, server in found.history
    ]
    assert found.max_tasks > 1
    if "limit" in how:
        assert record.lost > 20
    if policy.startswith("learning"):
        assert found.announcements > 5


# Times and sizes on a grid: tasks that come and leave at the same instant are the rule.
few_tasks = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), min_size=1, max_size=40)


@settings(max_examples=60)
@given(
    few_tasks,
    st.integers(2, 4),
    st.sampled_from(POLICIES),
    st.sampled_from(list(SERVERS)),
    st.integers(0, 30),
)
def test_tasks_that_come_and_leave_together_are_judged_alike(
    tmp_path_factory, ticks, servers, policy, kind, end
):
    """A task that ends when another comes has left before it."""
    spec, how = resolve(policy), SERVERS[kind]
    if spec.policy.check and spec.policy.check(servers, **spec.params):
        return
    first = min(at for at, _ in ticks)
    tasks = sorted((0.25 * (at - first), 0.25 * size) for at, size in ticks)
    tasks = [(at, size or 0.125) for at, size in tasks]
    duration = max(tasks[-1][0], 0.25 * end) + 0.0625

    path = write(tmp_path_factory.mktemp("ties") / "trace.csv", tasks)
    record = replay(path, policy, servers, duration, **how)

    judge(record, tasks, policy, servers, duration, **how)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_start_state_is_part_of_the_history(policy, tmp_path):
    """Tasks of one size: those of the start leave after one time, or wait for their turn."""
    start, servers, size = [0, 1, 4, 2, 0, 3, 1], 7, 1.0
    tasks = [(0.13 * i, size) for i in range(60)]
    how = {"discipline": "fcfs", "workers": 2}
    path = write(tmp_path / "trace.csv", tasks)
    scenario = Scenario.from_dict(
        {
            "servers": {"count": servers, **how},
            "arrivals": {"law": "trace", "file": str(path), "time": "at"},
            "service": {"law": "trace", "column": "took"},
            "run": {"duration": 30.0, "warm_up": 0.0, "start": start},
        }
    )
    spec = resolve(policy)
    params = {k: v for k, v in spec.params.items() if v is not None and k not in BY_SPEED}

    record = replicate(scenario, spec, 0, kernel="events", trail=1000)
    found = reference.simulate(
        spec.policy.name,
        servers=servers,
        given=tasks,
        choices=choices(record),
        duration=30.0,
        start=start,
        service=lambda rng: size,
        **how,
        **params,
    )

    sums = record.sums.sum(axis=0)
    assert {name: getattr(record, name) for name in found.tasks} == found.tasks
    assert record.arrived == 71
    assert sums[sim_run.UNEVEN] == pytest.approx(found.moved_time)
    assert sums[sim_run.TASKS] == pytest.approx(
        sum(j * time for j, time in enumerate(found.present_time))
    )
    # Of the tasks of the start no wait is known, and no response: they came before.
    assert sums[sim_run.WAITED] == sums[sim_run.RESPONDED] == 60
    late = [wait for wait in found.waits if wait > 0]
    assert sums[sim_run.WAITS] == pytest.approx(sum(late))
    assert [record.messages[:, i].sum() for i in range(len(MESSAGES))] == [
        found.sent[kind] for kind in MESSAGES
    ]
