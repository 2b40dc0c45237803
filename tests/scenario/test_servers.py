"""Servers of unequal speed: how they are written, and what is refused."""

import numpy as np
import pytest

from equipoise.errors import ScenarioError, UnstableError
from equipoise.scenario import Scenario


def scenario(servers, arrivals=None, **more):
    return Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", **servers},
            "arrivals": arrivals or {"law": "poisson", "load": 0.5},
            "service": {"law": "exponential", "mean": 2.0},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("servers", "speeds"),
    [
        ({"count": 3}, [1, 1, 1]),
        ({"speeds": [1.0, 0.5]}, [1, 0.5]),
        ({"groups": [{"count": 2, "speed": 1.0}, {"count": 1, "speed": 4}]}, [1, 1, 4]),
        ({"count": 2, "speeds": [3, 1]}, [3, 1]),
    ],
)
def test_the_count_follows_from_the_speeds(servers, speeds):
    found = scenario(servers)

    assert found.servers.count == len(speeds)
    assert found.servers.speed_of.tolist() == speeds
    assert found.servers.identical == ("speeds" not in servers and "groups" not in servers)


def test_capacity_counts_speeds_and_workers():
    found = scenario({"speeds": [1.0, 0.5], "workers": 4})

    assert found.servers.capacity == pytest.approx(6.0)
    # 6 s of work a second at 2 s a task: 3 tasks a second, half of them come
    assert found.rate_table()[1].tolist() == [1.5]
    assert found.offered_load() == pytest.approx((0.5, 0.5, 0.5))


def test_a_rate_is_a_load_by_what_the_servers_can_do():
    found = scenario({"speeds": [0.1, 1.9]}, {"law": "poisson", "rate": 0.8})

    assert found.offered_load()[0] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "servers", [{"speeds": [1.0, 0.5]}, {"groups": [{"count": 2, "speed": 0.25}]}]
)
def test_what_is_written_is_read_again(servers):
    found = scenario(servers)

    again = Scenario.from_dict(found.to_dict())

    assert again.to_dict() == found.to_dict()
    assert again.servers.speed_of.tolist() == found.servers.speed_of.tolist()


def test_a_million_servers_in_groups_are_read_quickly():
    found = scenario(
        {"groups": [{"count": 900_000, "speed": 1.0}, {"count": 100_000, "speed": 0.2}]}
    )

    assert found.servers.count == 10**6
    assert found.servers.capacity == pytest.approx(920_000.0)
    assert found.servers.speed_of.nbytes == 8 * 10**6


@pytest.mark.parametrize(
    ("servers", "fragment"),
    [
        ({"speeds": [1.0, 0.0]}, "servers.speeds"),
        ({"speeds": [1.0, -2.0]}, "servers.speeds"),
        ({"speeds": [1.0, float("nan")]}, "servers.speeds"),
        ({"speeds": [1.0, float("inf")]}, "servers.speeds"),
        ({"speeds": [1.0, "fast"]}, "servers.speeds"),
        ({"speeds": []}, "servers."),
        ({"groups": []}, "servers."),
        ({"groups": [{"count": 0, "speed": 1.0}]}, "servers.groups"),
        ({"groups": [{"count": -3, "speed": 1.0}]}, "servers.groups"),
        ({"groups": [{"count": 2.5, "speed": 1.0}]}, "servers.groups"),
        ({"groups": [{"count": 2}]}, "servers.groups"),
        ({"groups": [{"count": 2, "speed": 1.0, "sped": 1}]}, "servers.groups"),
        ({"count": 3, "speeds": [1.0]}, "servers.count: 3, but speeds make 1 servers"),
        (
            {"speeds": [1.0], "groups": [{"count": 1, "speed": 1.0}]},
            "servers.speeds: groups is given too; give one of them",
        ),
        ({}, "servers.count"),
    ],
    ids=str,
)
def test_speeds_that_make_no_sense_are_refused_in_one_line(servers, fragment):
    with pytest.raises(ScenarioError) as refused:
        scenario(servers)

    assert fragment in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_load_above_the_capacity_is_refused():
    with pytest.raises(UnstableError, match=r"load = 1\.25 >= 1"):
        scenario({"speeds": [1.0, 1.0]}, {"law": "poisson", "rate": 1.25})


def test_a_balanced_start_is_spread_evenly_whatever_the_speeds():
    found = scenario({"speeds": [1.0, 3.0]}, run={"start": "balanced"})

    assert found.start_lengths().tolist() == [1, 1]
    assert np.array_equal(found.start_lengths(), found.start_lengths())
