"""Fleets: read as speeds or as groups, kept as groups, servers numbered as given."""

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.theory.stability import as_fleet


def test_speeds_and_groups_describe_the_same_fleet():
    listed = as_fleet([1.0, 0.2, 1.0, 0.2, 0.2])
    grouped = as_fleet([(2, 1.0), (3, 0.2)])

    for fleet in (listed, grouped, as_fleet(np.array([[2, 1.0], [1, 0.2], [2, 0.2]]))):
        assert fleet.speeds.tolist() == [0.2, 1.0]
        assert fleet.counts.tolist() == [3, 2]
        assert fleet.size == 5
        assert fleet.capacity == pytest.approx(2.6)


def test_servers_of_groups_are_numbered_in_the_order_given():
    fleet = as_fleet([(2, 1.0), (3, 0.2), (1, 1.0), (2, 0.2)])

    slow = fleet.members(fleet.given_speeds <= 0.2)

    assert slow.tolist() == np.flatnonzero(fleet.each() == 0.2).tolist() == [2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("servers", "line"),
    [
        ([], "a fleet needs at least one server"),
        ([1.0, 0.0], "server 1: speed = 0 must be a finite number > 0"),
        ([-2.0], "server 0: speed = -2 must be a finite number > 0"),
        ([1.0, float("nan")], "server 1: speed = nan must be a finite number > 0"),
        ([1.0, float("inf")], "server 1: speed = inf must be a finite number > 0"),
        (
            ["fast"],
            "a fleet is a list of speeds, one per server, or a list of (count, speed) groups",
        ),
        ([(3, 1.0), (2, 0.0)], "group 1: speed = 0 must be a finite number > 0"),
        ([(0, 1.0)], "group 0: count = 0 must be a whole number >= 1"),
        ([(2.5, 1.0)], "group 0: (2.5, 1.0) is not (count, speed); write e.g. (90, 1.0)"),
        ([(2, 1.0, 3)], "group 0: (2, 1.0, 3) is not (count, speed); write e.g. (90, 1.0)"),
        ([(2**60, 1.0)], f"{2**60} servers are too many; at most 2^53 can be counted"),
    ],
)
def test_a_wrong_fleet_gets_one_clear_line(servers, line):
    with pytest.raises(EquipoiseError) as refused:
        as_fleet(servers)

    assert str(refused.value) == line
