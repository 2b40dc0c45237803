"""Servers and their speeds from their times."""

import numpy as np
import pytest
from recorded import tasks_at

from equipoise.logs.fleet import find_fleet


def fleet_of(rng, speeds, k, servers=None):
    """The fleet of k tasks of lognormal size on servers of these speeds."""
    speeds = np.asarray(speeds, float)
    place = rng.integers(0, speeds.size, k) if servers is None else servers
    times = rng.lognormal(-1, 1, k) / speeds[place]
    names = [f"10.0.0.{i}:80" for i in range(speeds.size)]
    return find_fleet(tasks_at(np.arange(k), times, place, names))


def test_unequal_servers_are_told_apart_with_their_speeds():
    rng = np.random.default_rng(1)
    speeds = [1.0, 0.5, 1.0, 1.0, 0.5, 1.0, 0.8, 1.0, 0.8, 1.0]
    fleet = fleet_of(rng, speeds, 20_000)

    assert [g.count for g in fleet.groups] == [2, 2, 6]
    for group, truth in zip(fleet.groups, (0.5, 0.8, 1.0), strict=True):
        # half-widths are 1.96 standard errors: twice as much is four of them
        assert abs(group.speed - truth) <= 2.05 * group.error
    assert fleet.speeds == pytest.approx(speeds, rel=0.08)


def test_equal_servers_are_told_apart_once_in_a_thousand():
    """300 fleets of 20: three false ones have chance 0.004."""
    rng = np.random.default_rng(2)

    assert sum(not fleet_of(rng, np.ones(20), 2000).identical for _ in range(300)) <= 2


def test_differences_that_the_data_do_not_decide_are_not_told():
    fleet = fleet_of(np.random.default_rng(3), [1.0, 0.9], 60)

    assert fleet.identical
    assert fleet.speeds.tolist() == [1.0, 1.0]


def test_intervals_of_speeds_hold_the_truth():
    """Over 100 fleets, each against the mean of its own logarithms; 95 % within four errors."""
    rng, held = np.random.default_rng(4), 0
    for _ in range(100):
        fleet = fleet_of(rng, [1.0, 2.0], 800)
        held += abs(fleet.groups[0].speed * 2 - 1) <= 2 * fleet.groups[0].error or (
            abs(fleet.groups[1].speed / 2 - 1) <= fleet.groups[1].error / 2
        )

    assert held >= 95 - 4 * np.sqrt(100 * 0.05 * 0.95)


def test_a_server_with_few_tasks_joins_the_usual_ones():
    rng = np.random.default_rng(5)
    place = np.append(rng.integers(0, 3, 3000), [3, 3])
    fleet = fleet_of(rng, [1.0, 1.0, 0.5, 0.5], 3002, place)

    assert [g.count for g in fleet.groups] == [1, 3]
    assert np.isnan(fleet.servers[3].speed_error)
    assert fleet.speeds[3] == 1.0


def test_a_log_without_names_or_times_has_no_fleet_to_compare():
    named = find_fleet(tasks_at(np.arange(3.0), None, [0, 1, 0], ("a", "b")))

    assert find_fleet(tasks_at(np.arange(3.0))) is None
    assert named.identical
    assert [s.tasks for s in named.servers] == [2, 1]
