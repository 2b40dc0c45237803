"""Running policies: the same numbers on any workers, one replication alone, Ctrl-C, precision."""

import sys
import threading
import time

import joblib
import numpy as np
import pytest
from runs import cut

from equipoise import (
    EquipoiseError,
    PolicyError,
    Scenario,
    ScenarioError,
    compare,
    simulate,
)
from equipoise.report import parallel, precise
from equipoise.report.parallel import Workers
from equipoise.report.results import Comparison

OWN = """
from equipoise.policies import Policy
from equipoise.rng import below

def choose(state, fleet, rng):
    return below(rng, fleet.size)

MINE = Policy("mine", choose=choose)
"""


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick():
    """Cut runs into 60 stretches instead of 500: short ones take a tenth of the time."""
    with cut(rows=12, stretches=5):
        yield


def queues(**run):
    run = {"tasks": 2000, "replications": 5, "seed": 3, **run}
    return Scenario.simple(servers=3, load=0.7, **run)


def same(one, other):
    """The two found the same about every policy, to the last digit."""
    assert one.to_json()["policies"] == other.to_json()["policies"]
    for a, b in zip(one.policies, other.policies, strict=True):
        for metric, values in a.replications.items():
            np.testing.assert_array_equal(values, b.replications[metric])
        np.testing.assert_array_equal(a.path.total, b.path.total)


# Workers.


@pytest.fixture
def cores(monkeypatch):
    """Say that there are so many cores."""

    def say(count):
        monkeypatch.setattr(parallel, "available_cores", lambda: count)

    return say


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_the_numbers_do_not_depend_on_the_workers(cores, workers):
    cores(8)
    alone = compare(queues(), ["jsq", "random"], workers=1)

    same(alone, compare(queues(), ["jsq", "random"], workers=workers))


def test_replications_run_at_the_same_time(cores, monkeypatch):
    """Two that wait for each other would never end one after the other."""
    cores(2)
    meet = threading.Barrier(2, timeout=30)
    replicate = parallel.replicate

    def met(*arguments, **options):
        meet.wait()
        return replicate(*arguments, **options)

    monkeypatch.setattr(parallel, "replicate", met)

    assert simulate(queues(replications=2), "jsq", workers=2).replications == 2


def test_more_workers_than_cores_are_as_many_as_cores_and_told(cores):
    cores(2)
    found = simulate(queues(), "jsq", workers=9)

    assert found.notes == ("9 workers were asked for, but there are 2 cores here: 2 ran.",)
    same(found, simulate(queues(), "jsq"))
    assert Workers.asked(None).count == 2
    assert Workers.asked(2).note is None


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_no_workers_are_refused(workers):
    with pytest.raises(EquipoiseError, match="must be a whole number, at least 1"):
        simulate(queues(), "jsq", workers=workers)


@pytest.mark.slow
def test_a_named_backend_of_joblib_runs_the_replications(tmp_path, monkeypatch):
    """In processes of their own, a user's policy too; their threads would share memory."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    policies = ["jsq-d(d=3)", "own.py:MINE"]
    told = []

    with cut(rows=50, stretches=10), joblib.parallel_config(backend="loky", n_jobs=2):
        assert not Workers.asked(None).near
        there = compare(queues(replications=2), policies, progress=lambda *a: told.append(a))

    with cut(rows=50, stretches=10):  # as in the other processes
        same(compare(queues(replications=2), policies), there)
    assert [done for done, _ in told] == [0.25, 0.5, 0.75, 1.0]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert Workers.asked(None).near


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_need_no_joblib(cores, monkeypatch, workers):
    cores(2)
    monkeypatch.setitem(sys.modules, "joblib", None)  # an import would raise
    monkeypatch.setattr(parallel, "_named_backend_is_near", lambda: True)

    assert simulate(queues(), "jsq", workers=workers).replications == 5


def test_the_end_of_a_replication_on_threads_is_heard_of_and_not_looked_for(cores, monkeypatch):
    """Whoever looks from time to time sees it late: joblib does every 10 ms."""
    cores(2)

    def asleep(seconds):
        raise AssertionError("it sleeps and looks")

    monkeypatch.setattr(time, "sleep", asleep)

    assert simulate(queues(), "jsq", workers=2).replications == 5


def test_ctrl_c_on_threads_keeps_what_is_finished_and_stops_the_others(cores, monkeypatch):
    cores(2)
    interrupt_after(monkeypatch, 6)
    found = compare(queues(), ["jsq", "random"], workers=2)

    assert found.interrupted
    assert 2 <= found.replications <= 3


def test_progress_is_one_bar_over_everything():
    told = []
    compare(queues(), ["jsq", "random"], progress=lambda done, what: told.append((done, what)))

    shares = [done for done, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert {what for _, what in told} == {"jsq", "random"}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_replication_raises_ends_the_run(tmp_path, workers):
    (tmp_path / "own.py").write_text(OWN.replace("below(rng, fleet.size)", "fleet.size"))

    with pytest.raises(PolicyError, match="does not exist"):
        simulate(queues(), f"{tmp_path}/own.py:MINE", workers=workers)


# One replication alone.


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_a_replication_redone_alone_has_the_same_numbers(kernel, tmp_path):
    whole = compare(queues(tasks=20_000), ["jsq-d(d=3)", "random"], kernel=kernel)
    assert whole.left_out > 0  # the start is empty: something is left out of each

    for r in range(5):
        alone = whole.redo(r, "jsq-d")
        assert alone.numbers == (r,)
        for metric, values in whole["jsq-d"].replications.items():
            assert alone[metric].value == values[r], metric
    again = simulate(whole.scenario, "jsq-d(d=3)", kernel=kernel, replication=0)
    np.testing.assert_array_equal(again.policy.path.total, whole["jsq-d"].path.total)
    whole.save(tmp_path / "c.nc")
    same(Comparison.load(tmp_path / "c.nc").redo(4, "random"), whole.redo(4, "random"))
    assert "replication 4 alone, seed 3" in str(whole.redo(4, "random"))
    assert whole.redo(0, "random").to_xarray().replication.item() == 0


def test_the_policy_redone_may_be_the_users_own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    found = simulate(queues(), f"{tmp_path}/own.py:MINE")

    assert found.redo(2)["mean_wait"].value == found.policy.replications["mean_wait"][2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replication": -1}, "replication = -1: must be a whole number; the first is"),
        ({"replication": 1.5}, "replication = 1.5: must be a whole number"),
        ({"leave_out": 1.0}, "leave_out = 1.0: must be a share of the run"),
    ],
)
def test_a_replication_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(EquipoiseError, match=said):
        simulate(queues(), "jsq", **options)


def test_a_run_by_precision_has_no_replication_of_a_length_known_before():
    with pytest.raises(EquipoiseError, match="finds its length on the way"):
        simulate(queues(precision=0.1), "jsq", replication=1)


# Ctrl-C.


def interrupt_after(monkeypatch, replications):
    """Raise KeyboardInterrupt in place of a replication, after so many."""
    replicate, begun = parallel.replicate, []

    def until(*arguments, **options):
        begun.append(arguments[2])
        if len(begun) > replications:
            raise KeyboardInterrupt
        return replicate(*arguments, **options)

    monkeypatch.setattr(parallel, "replicate", until)


def test_ctrl_c_keeps_the_replications_that_are_finished_for_all_policies(monkeypatch):
    whole = compare(queues(), ["jsq", "random"])
    interrupt_after(monkeypatch, 7)
    found = compare(queues(), ["jsq", "random"], workers=1)

    assert found.interrupted
    assert (found.replications, found.numbers) == (3, (0, 1, 2))
    assert "3 of 5 replications" in str(found)
    assert found.notes[0].startswith("Interrupted: 3 of 5 replications were finished")
    messages = whole["random"].replications["messages_per_task"][:3]
    np.testing.assert_array_equal(found["random"].replications["messages_per_task"], messages)
    assert found.to_xarray().sizes["replication"] == 3


def test_ctrl_c_before_any_is_finished_is_raised(monkeypatch):
    interrupt_after(monkeypatch, 1)

    with pytest.raises(KeyboardInterrupt):
        compare(queues(), ["jsq", "random"], workers=1)


def test_ctrl_c_stops_a_search_for_precision_with_what_it_has(monkeypatch):
    interrupt_after(monkeypatch, 20)
    found = simulate(queues(precision=0.001), "jsq", workers=1)

    assert found.interrupted
    assert found.replications == 20
    assert found.notes[0].startswith("Interrupted: 20 replications were finished")


# Precision.


def test_replications_are_added_until_the_interval_is_narrow_enough():
    found = compare(queues(precision=0.02), ["jsq", "random"])

    errors = [p.metrics["mean_response"] for p in found]
    assert max(e.error / e.value for e in errors) <= 0.02
    assert found.replications > precise.LEAST
    assert found.scenario.run.tasks == 2000  # the length that was given
    assert found.notes == (
        f"mean_response was wanted to 2 %: {found.replications} replications of 2000 tasks each.",
    )
    fewer = simulate(queues(replications=precise.LEAST), "random")["mean_response"]
    assert fewer.error / fewer.value > 0.02  # more were needed


def test_a_run_by_precision_is_the_same_on_any_workers_and_again(cores):
    cores(4)
    one = simulate(queues(precision=0.03), "jsq", workers=1)

    same(one, simulate(queues(precision=0.03), "jsq", workers=4))
    same(one, simulate(one.scenario.with_run(precision=None), "jsq"))


def test_a_length_left_open_is_found():
    """The start of M/M/1 at load .95 is seen for some 1600 mean service times."""
    scenario = Scenario.simple(
        servers=1, load=0.95, precision=0.05, precision_of="mean_wait", seed=2
    )
    found = simulate(scenario, "random")

    run = found.scenario.run
    assert run.tasks > precise.FIRST_TASKS
    assert run.replications == found.replications <= precise.FEW * precise.LEAST
    assert found["mean_wait"].error <= 0.05 * found["mean_wait"].value
    assert abs(found["mean_wait"].value - 19) <= 2 * found["mean_wait"].error


def test_any_metric_can_be_the_one_that_has_to_be_precise():
    wide = simulate(queues(precision=0.05), "random")
    narrow = simulate(queues(precision=0.05, precision_of="p99_wait"), "random")

    assert narrow["p99_wait"].error <= 0.05 * narrow["p99_wait"].value
    assert wide.replications < narrow.replications


def test_what_the_budget_has_no_room_for_is_told_with_what_there_is():
    found = simulate(queues(precision=0.001, budget=50_000), "jsq")

    assert found.replications == 25
    assert found["mean_response"].error > 0
    (note,) = found.notes
    assert note.startswith("mean_response was wanted to 0.1 %, but is known to ")
    assert "after 25 replications of 2000 tasks, all that budget = 50000 allows; about " in note


def test_the_task_count_it_names_would_do():
    """A budget twice as large as the one it names is not spent."""
    short = simulate(queues(precision=0.01, budget=100_000), "jsq")
    enough = int(short.notes[0].rpartition("about ")[2].partition(" ")[0])
    found = simulate(queues(precision=0.01, budget=2 * enough), "jsq")

    assert found["mean_response"].error <= 0.01 * found["mean_response"].value


def test_replications_are_not_kept_without_end(monkeypatch):
    monkeypatch.setattr(precise, "MOST", 20)
    found = simulate(queues(precision=0.001), "jsq")

    assert found.replications == 20
    assert "more are not kept; take replications" in found.notes[0]


def test_what_is_always_zero_is_precise_and_what_is_not_measured_is_refused():
    found = simulate(queues(precision=0.01, precision_of="messages_per_task"), "random")

    assert found.replications == precise.LEAST
    with pytest.raises(EquipoiseError, match="'lost' was asked for, but it was not measured here"):
        simulate(queues(precision=0.01, precision_of="lost"), "random")
    with pytest.raises(EquipoiseError, match="no metric is called 'speed'"):
        simulate(queues(precision=0.01, precision_of="speed"), "random")


def test_a_budget_for_less_than_two_replications_is_refused():
    with pytest.raises(ScenarioError, match=r"run\.budget = 3000: not enough for two replications"):
        simulate(queues(precision=0.01, budget=3000), "jsq")


def test_a_trace_is_repeated_until_the_policies_are_precise():
    """Rates that change have a length of their own: replications are added to it."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 4, "discipline": "pool"},
            "arrivals": {"law": "rates", "bin": 10.0, "rates": [4.0, 12.0, 8.0]},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"precision": 0.05, "seed": 1},
        }
    )
    found = simulate(scenario, "random")

    assert found["imbalance"].error <= 0.05 * found["imbalance"].value
    assert "replications of 30 s each." in found.notes[0]


# Too short.


def test_a_run_too_short_for_a_warm_up_says_what_would_help():
    scenario = Scenario.simple(servers=100, load=0.9, tasks=1000, replications=4)
    found = simulate(scenario, "random")

    (note,) = found.notes
    assert note == (
        "random had not settled in half of the run: its means may still drift; run longer, "
        'e.g. tasks = 4000, or start = "balanced"'
    )
    timed = Scenario.simple(servers=100, load=0.9, duration=10.0, replications=4)
    told = simulate(timed, "random").notes[0]
    assert told.endswith('run longer, e.g. duration = 40, or start = "balanced"')
