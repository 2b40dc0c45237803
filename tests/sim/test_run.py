"""A run is the same however it is cut, where its arrays had to grow, on any number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import POLICIES, assert_mean, cut, run

from equipoise import EquipoiseError, Scenario, compare, resolve
from equipoise.scenario import TaskStream
from equipoise.sim import events, memoryless, tally
from equipoise.sim import run as sim_run
from equipoise.sim.run import Interrupted, replicate
from equipoise.stats.histogram import BUCKETS

KERNELS = ["memoryless", "events"]
both_kernels = pytest.mark.parametrize("kernel", KERNELS)


def outcome(record):
    """All that a run leaves behind, its rows and stretches added up: exact numbers, and others."""

    def whole(rows):
        total = np.zeros(max(row.size for row in rows))
        for row in rows:
            total[: row.size] += row
        return np.trim_zeros(total, "b")

    def counts(table, first):
        full = np.zeros(BUCKETS, int)
        full[first : first + table.shape[1]] = table.sum(axis=0)
        return full.tolist()

    exact = {
        "tasks": (record.arrived, record.finished, record.present, record.lost),
        "events": record.events,
        "messages": record.messages.sum(axis=0).tolist(),
        "waits": counts(record.waits, record.first_bucket[0]),
        "responses": counts(record.responses, record.first_bucket[1]),
        "last change": record.last_change,
        "trail": record.trail.tolist(),
    }
    about = np.concatenate(
        [record.sums.sum(axis=0), whole(record.area), whole(record.thresholds), record.ends[-1:]]
    )
    return exact, about


def assert_same_run(one, other):
    (exact, about), (exact_too, about_too) = outcome(one), outcome(other)
    assert exact == exact_too
    assert about == pytest.approx(about_too, rel=1e-9)


def a_scenario(discipline, *, tasks=None, rates=False, limit=None, start="empty", warm_up=0.0):
    """Few servers, about 600 tasks, with pauses in the traffic if there are rates."""
    arrivals = {"law": "poisson", "rate": 5.0}
    if rates:
        arrivals = {"law": "rates", "times": [0, 20, 33, 80, 130], "rates": [4, 0, 9, 3]}
    return Scenario.from_dict(
        {
            "servers": {"count": 6, "discipline": discipline} | ({"limit": limit} if limit else {}),
            "arrivals": arrivals,
            "service": {"law": "exponential", "mean": 0.9},
            "run": {"warm_up": warm_up, "start": start}
            | ({"tasks": tasks} if tasks else {"duration": 125.0}),
        }
    )


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from(KERNELS),
    st.sampled_from(POLICIES),
    st.sampled_from(["fcfs", "pool"]),
    st.booleans(),
    st.sampled_from([0.0, 31.0]),
)
def test_the_path_does_not_depend_on_how_a_run_is_cut(
    rows, stretches, kernel, policy, discipline, rates, warm_up
):
    """Not into rows and stretches, nor by a warm-up, which is a row of its own."""
    spec = resolve(policy)

    with cut(rows=1, stretches=1):
        one = replicate(a_scenario(discipline, rates=rates), spec, 3, kernel=kernel, trail=500)
    with cut(rows + 1, stretches):
        scenario = a_scenario(discipline, rates=rates, warm_up=warm_up)
        other = replicate(scenario, spec, 3, kernel=kernel, trail=500)

    assert one.events > 900
    assert len(other.ends) == rows + 1
    assert_same_run(one, other)


@both_kernels
@pytest.mark.parametrize("policy", ["jsq", "learning-threshold(alpha=0.6)"])
def test_a_run_counted_in_tasks_is_the_beginning_of_a_longer_one(kernel, policy):
    spec = resolve(policy)
    with cut(rows=4, stretches=3):
        by_tasks = replicate(a_scenario("fcfs", tasks=500), spec, 0, kernel=kernel)
    end = by_tasks.ends[-1]
    with cut(rows=1, stretches=1):
        # The run ends with the arrival of its last task: just after it nothing has changed.
        by_time = a_scenario("fcfs").with_run(duration=float(end) * (1 + 1e-12))
        by_time = replicate(by_time, spec, 0, kernel=kernel)

    assert by_tasks.arrived == by_time.arrived == 500
    assert_same_run(by_tasks, by_time)


@both_kernels
def test_every_stretch_of_a_run_counted_in_tasks_has_its_share_of_them(kernel):
    with cut(rows=7, stretches=3):
        record = replicate(a_scenario("fcfs", tasks=500), resolve("jiq"), 0, kernel=kernel)

    came = record.sums[:, sim_run.ARRIVALS]
    assert came.sum() == 500
    assert set(came) == {500 // 21, 500 // 21 + 1}
    assert record.row_of.tolist() == [row for row in range(7) for _ in range(3)]


@both_kernels
def test_a_run_of_fewer_tasks_than_stretches_has_fewer_stretches(kernel):
    record = replicate(a_scenario("pool", tasks=30), resolve("jiq"), 0, kernel=kernel)

    assert record.sums.shape == (30, 10)
    assert (record.sums[:, sim_run.ARRIVALS] == 1).all()
    assert len(record.ends) == record.row_of.max() + 1 <= 30


@both_kernels
def test_a_warm_up_is_left_out_to_the_second(kernel):
    """What is measured begins where the warm-up ends; the tasks of both are reported."""
    runs = run(a_scenario("fcfs", warm_up=25.0), "jsq", kernel, rows=5, stretches=2)
    whole = run(a_scenario("fcfs"), "jsq", kernel, rows=1)

    assert runs.first == 1
    assert runs.time == pytest.approx(100.0)
    assert [r.ends[0] for r in runs.records] == pytest.approx([25.0] * 8)
    assert runs.result.tasks == whole.result.tasks
    later = [r.sums[r.row_of >= 1, sim_run.ARRIVALS].sum() for r in runs.records]
    assert_mean(later, 500.0)


@both_kernels
def test_a_warm_up_as_long_as_the_run_is_refused(kernel):
    scenario = a_scenario("fcfs", tasks=100, warm_up=1000.0)

    with pytest.raises(EquipoiseError, match="as long as the run of 100 tasks"):
        replicate(scenario, resolve("jsq"), 0, kernel=kernel)


@both_kernels
def test_rates_that_end_before_enough_tasks_came_end_the_run(kernel):
    scenario = a_scenario("fcfs", rates=True, tasks=5000)

    record = replicate(scenario, resolve("jsq"), 0, kernel=kernel)

    assert 500 < record.arrived < 900
    assert record.arrived == record.finished + record.present
    assert record.ends[-1] <= 130.0


@both_kernels
def test_a_threshold_far_above_all_lengths_is_reported_as_it_is(kernel):
    scenario = a_scenario("fcfs").with_run(start="empty", duration=40.0)

    runs = run(scenario, "learning-threshold(alpha=0.6, level=300)", kernel, rows=2)

    reported = runs.result.threshold_time
    assert 300 in reported
    assert sum(reported.values()) == pytest.approx(1.0)
    assert len(reported) > 150  # down at every arrival: some 200 of them


# --- Seeds ---------------------------------------------------------------------------------------


@both_kernels
def test_a_replication_is_decided_by_the_seed_and_its_number(kernel):
    def trail(seed, replication):
        scenario = a_scenario("fcfs").with_run(seed=seed)
        return outcome(replicate(scenario, resolve("jsq-d"), replication, kernel=kernel))[0]

    assert trail(1, 2) == trail(1, 2)
    assert trail(1, 2) != trail(1, 3)
    assert trail(1, 2) != trail(2, 2)


@both_kernels
def test_the_number_of_threads_does_not_change_the_numbers(kernel):
    scenario = a_scenario("fcfs").with_run(replications=5)

    one = compare(scenario, ["jsq", "random"], kernel=kernel, workers=1)
    three = compare(scenario, ["jsq", "random"], kernel=kernel, workers=3)

    for policy in ("jsq", "random"):
        assert one[policy].metrics == three[policy].metrics
        assert one[policy].tasks == three[policy].tasks


def test_events_bring_all_policies_the_same_tasks():
    """Common random numbers: in pools even the tasks present at any time are the same."""
    runs = [run(a_scenario("pool"), policy, "events", rows=5, stretches=4) for policy in POLICIES]

    for other in runs[1:]:
        assert (other.totals(6) == runs[0].totals(6)).all()
        assert other.result.tasks == runs[0].result.tasks


def test_a_run_can_be_stopped_between_two_stretches():
    done = []

    with pytest.raises(Interrupted):
        replicate(
            a_scenario("fcfs"),
            resolve("jsq"),
            0,
            kernel="memoryless",
            on_progress=done.append,
            stopped=lambda: len(done) == 7,
        )

    assert sum(done) == pytest.approx(7 / 500)


# --- Arrays that grow ----------------------------------------------------------------------------


def crowded(discipline):
    """Thousands of tasks at a few servers: more than there is room for at first."""
    return Scenario.from_dict(
        {
            "servers": {"count": 9, "discipline": discipline},
            "arrivals": {"law": "rates", "bin": 1.0, "rates": [900.0] * 6 + [5.0] * 10},
            "service": {"law": "exponential", "mean": 6.0 if discipline == "pool" else 0.001},
            "run": {"duration": 16.0, "warm_up": 0.0, "start": [0, 0, 2, 90, 0, 0, 1, 0, 0]},
        }
    )


@both_kernels
@pytest.mark.parametrize("policy", ["random", "jsq", "learning-threshold(alpha=0.7)"])
@pytest.mark.parametrize("discipline", ["pool", "fcfs"])
def test_arrays_that_have_to_grow_give_the_path_of_ample_ones(
    kernel, policy, discipline, monkeypatch
):
    """Levels, slots in service, waiting nodes and blocks of tasks."""
    scenario, spec = crowded(discipline), resolve(policy)
    if discipline == "fcfs":  # slow servers: the tasks wait
        scenario = scenario.model_copy(
            update={"service": scenario.service.model_copy(update={"mean": 0.02})}
        )
    ample = replicate(scenario, spec, 0, kernel=kernel, trail=20_000)

    make_tally, grown = tally.make_tally, []
    monkeypatch.setattr(
        tally,
        "make_tally",
        lambda lengths, levels, value: make_tally(lengths, int(lengths.max()) + 4, value),
    )
    for module, name in (
        (memoryless, "more_slots"),
        (memoryless, "more_waiting"),
        (events, "more_event_slots"),
    ):
        wanted = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *tasks, f=wanted, n=name: (grown.append(n), f(*tasks))[1]
        )
    for module, name in ((memoryless, "make_tasks"), (events, "make_event_tasks")):
        monkeypatch.setattr(module, name, tight(getattr(module, name)))
    block = TaskStream.block
    monkeypatch.setattr(TaskStream, "block", lambda stream: block(stream, 17))
    tight_run = replicate(scenario, spec, 0, kernel=kernel, trail=20_000)

    assert ample.present + ample.finished > 5000
    assert set(grown) >= (
        {"more_event_slots"}
        if kernel == "events"
        else {"more_slots"}
        if discipline == "pool"
        else {"more_waiting"}
    )
    assert_same_run(ample, tight_run)


def tight(make):
    """The same tasks with no slot and no node to spare."""

    def made(*arguments):
        tasks = make(*arguments)
        counts = tasks.counts
        if hasattr(tasks, "stamp"):  # memoryless: slots in service, and nodes that wait
            slots, nodes = int(counts[0]) + 1, int(tasks.waiting.free[0]) + 1
            tasks = tasks._replace(server=tasks.server[:slots].copy())
            if tasks.stamp.size:
                next_ = tasks.waiting.next[:nodes].copy()
                next_[-1] = -1
                waiting = tasks.waiting._replace(
                    next=next_, beyond=tasks.waiting.beyond[:nodes].copy()
                )
                tasks = tasks._replace(stamp=tasks.stamp[:slots].copy(), waiting=waiting)
            return tasks
        slots = int(counts[1]) + 1
        next_ = tasks.next[:slots].copy()
        next_[-1] = -1
        names = ("server", "arrival", "size", "key", "item")
        shorter = {name: getattr(tasks, name)[:slots].copy() for name in names}
        calendar = tasks.calendar
        if calendar is not None:
            far = {name: getattr(calendar, name)[:slots].copy() for name in ("far", "far_time")}
            calendar = calendar._replace(time=shorter["size"], link=next_, **far)
        return tasks._replace(next=next_, calendar=calendar, **shorter)

    return made
