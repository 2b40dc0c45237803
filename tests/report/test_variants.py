"""The same traffic in front of other servers, and more of it."""

import numpy as np
import pytest

from equipoise import EquipoiseError, Scenario, UnstableError
from equipoise.report.variants import with_delay, with_load, with_servers, without_one
from equipoise.scenario.trace import Recording

TABLES = {
    "servers": {"count": 10, "discipline": "fcfs"},
    "service": {"law": "exponential", "mean": 0.5},
}
LAWS = [
    {"law": "poisson", "load": 0.6},
    {"law": "poisson", "rate": 12.0},
    {"law": "sinusoid", "load": 0.6, "amplitude": 0.2, "period": 9.0},
    {"law": "rates", "bin": 10.0, "rates": [12.0, 8.0], "scale": 2.0},
]


def scenario(arrivals):
    return Scenario.from_dict({**TABLES, "arrivals": arrivals})


def rates(of):
    return of.flow.rate(np.array([1.0, 4.0, 11.0]))


@pytest.mark.parametrize("arrivals", LAWS, ids=lambda law: f"{law['law']}")
def test_another_number_of_servers_meets_the_same_tasks_per_second(arrivals):
    before = scenario(arrivals)

    after = with_servers(before, 20)

    assert after.servers.count == 20
    assert rates(after) == pytest.approx(rates(before))
    assert after.offered_load()[0] == pytest.approx(before.offered_load()[0] / 2)


@pytest.mark.parametrize("arrivals", LAWS, ids=lambda law: f"{law['law']}")
def test_more_load_is_more_tasks_per_second(arrivals):
    before = scenario(arrivals)

    assert rates(with_load(before, 1.2)) == pytest.approx(1.2 * rates(before))


def test_a_trace_under_more_load_runs_faster_and_stays_what_it_was():
    tables = {"law": "trace", "file": "none.csv", "time": "t"}
    recording = Recording(np.array([0.0, 1.0, 1.5, 4.0]), np.array([0.5, 1.0, 0.25, 2.0]))
    before = Scenario.from_dict(
        {**TABLES, "arrivals": tables, "service": {"law": "trace", "column": "s"}}
    ).with_recording(recording)

    after = with_load(before, 2.0)

    assert after.recording.times.tolist() == [0.0, 0.5, 0.75, 2.0]
    assert after.recording.sizes.tolist() == recording.sizes.tolist()
    assert before.recording.times.tolist() == recording.times.tolist()


def test_of_servers_that_differ_a_fastest_one_is_lost():
    groups = [{"count": 2, "speed": 1.0}, {"count": 2, "speed": 3.0}]
    before = Scenario.from_dict(
        {
            **TABLES,
            "servers": {"discipline": "fcfs", "groups": groups},
            "arrivals": {"law": "poisson", "load": 0.5},
        }
    )

    after = without_one(before)

    assert sorted(after.servers.speed_of) == [1, 1, 3]
    assert rates(after) == pytest.approx(rates(before))
    with pytest.raises(EquipoiseError, match="differ in speed"):
        with_servers(before, 5)


def test_there_is_no_fleet_without_its_only_server():
    one = Scenario.simple(servers=1, load=0.5)

    assert without_one(one) is None


def test_too_few_servers_are_refused():
    with pytest.raises(UnstableError, match=r"load = 1\.2 >= 1"):
        with_servers(scenario(LAWS[0]), 5)


def test_messages_are_made_to_take_time():
    assert with_delay(scenario(LAWS[0]), 0.25).messages.delay == 0.25
