"""From a file of either kind to a scenario."""

import pytest

from equipoise import TraceError
from equipoise.report.traffic import is_scenario, scenario_of, traffic_of

LINE = (
    '10.0.0.1 - - [01/Jan/2024:00:00:{second:02d} +0000] "GET / HTTP/1.1" 200 5 "-" "x" '
    "{request:.3f} {upstream}\n"
)


@pytest.fixture
def log(tmp_path):
    """Five requests that end at 10, 11, .. s; one of them without a time upstream."""
    path = tmp_path / "access.log"
    upstream = ["0.500", "1.000", "-", "0.250", "2.000"]
    lines = [
        LINE.format(second=10 + i, request=2.5, upstream=text) for i, text in enumerate(upstream)
    ]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("time,duration,server\n0,1.5,a\n1,,b\n2,0.5,a\n")
    return path


def test_every_task_of_a_log_comes_when_it_came_and_takes_what_it_took(log):
    """It ends at 10 + i s after 2.5 s; where the time upstream is not known, all of it counts."""
    scenario = scenario_of(log, servers=3)

    assert scenario.recording.times.tolist() == [0, 1, 2, 3, 4]
    assert scenario.recording.sizes.tolist() == [0.5, 1, 2.5, 0.25, 2]
    assert scenario.servers.count == 3
    assert scenario.servers.discipline == "pool"
    assert scenario.given == "traffic"


def test_the_servers_are_those_that_the_log_names(table):
    traffic = traffic_of(table, discipline="fcfs")

    assert traffic.scenario.servers.count == 2
    assert traffic.scenario.servers.discipline == "fcfs"
    assert traffic.scenario.recording.sizes.tolist() == [1.5, 0.5]
    assert "1 of 3 tasks have no time and are left out." in traffic.notes


def test_a_service_law_takes_the_place_of_recorded_times(table):
    scenario = scenario_of(table, service="exponential(mean=2)")

    assert scenario.given == "arrivals"
    assert scenario.mean_service == 2
    assert scenario.recording.times.tolist() == [0, 1, 2]


def test_counts_become_a_stream_of_these_rates(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(
        "timestamp,value\n2024-01-01 00:00:00,60\n2024-01-01 00:01:00,120\n2024-01-01 00:02:00,0\n"
    )

    scenario = scenario_of(path, servers=4, service="exponential(mean=1)")

    assert scenario.arrivals.table[1].tolist() == [1, 2, 0]


def test_a_log_without_times_asks_for_a_law_in_one_line(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("time,server\n0,a\n1,b\n")

    with pytest.raises(TraceError) as refused:
        scenario_of(path)

    assert str(refused.value) == (
        f"{path}: does not say how long tasks took; give a law of the service time, e.g. "
        "--service 'lognormal(mean=0.2, scv=4)'"
    )


def test_a_log_that_names_no_servers_asks_how_many(log):
    with pytest.raises(TraceError, match=r"names no servers; say how many .*--servers 12"):
        scenario_of(log)


def test_a_scenario_is_told_by_its_name_or_its_servers(tmp_path, log):
    scenario = tmp_path / "mine.txt"
    scenario.write_text('name = "x"\n[servers]  # three\ncount = 3\n')

    assert is_scenario(scenario)
    assert is_scenario("nothing.toml")
    assert not is_scenario(log)
