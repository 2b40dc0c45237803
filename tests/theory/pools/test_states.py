"""Shares, occupancy and the balanced state; what is refused, in which words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, PolicyError
from equipoise.theory.pools.states import (
    balanced,
    check_alpha,
    check_level,
    check_load,
    distance,
    mean_tasks,
    occupancy_of,
    shares_from,
    shares_of,
    whole,
)

parts = st.lists(st.floats(1e-3, 1), min_size=1, max_size=9).map(
    lambda weights: np.array(weights) / sum(weights)
)


@given(shares=parts)
def test_shares_and_occupancy_say_the_same(shares):
    q = occupancy_of(shares)

    assert shares_of(q) == pytest.approx(shares, abs=1e-15)
    assert q[0] == pytest.approx(1)
    assert mean_tasks(q) == pytest.approx(sum(j * x for j, x in enumerate(shares)))


def test_the_balanced_state_is_full_to_the_floor_and_has_the_rest_one_above():
    assert balanced(2.5).tolist() == [1, 1, 1, 0.5]
    assert balanced(3.0).tolist() == [1, 1, 1, 1, 0]
    assert balanced(0.25, levels=4).tolist() == [1, 0.25, 0, 0]
    assert balanced(0).tolist() == [1, 0]


@given(load=st.floats(0, 30))
def test_the_balanced_state_holds_the_load(load):
    assert mean_tasks(balanced(load)) == pytest.approx(load, abs=1e-12)
    assert distance(balanced(load), load) <= 1e-12


def test_distance_is_euclidean_and_counts_levels_that_one_side_lacks():
    q = np.array([[1.0, 1.0, 0.5], [1.0, 0.0, 0.0]])

    assert distance(q, [1.5, 2.0]) == pytest.approx([0.0, math.sqrt(2)])
    assert distance(q[:, :2], 1.5) == pytest.approx([0.5, math.hypot(1, 0.5)])


def test_a_start_is_empty_a_number_fractions_by_level_or_shares():
    assert shares_from("empty").tolist() == [1]
    assert shares_from(3).tolist() == [0, 0, 0, 1]
    assert shares_from(2.25).tolist() == [0, 0, 0.75, 0.25]
    assert shares_from({0: 0.5, 4: 0.5}).tolist() == [0.5, 0, 0, 0, 0.5]
    assert shares_from(np.array([0.25, 0.75])).tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("full", "start = 'full' must be 'empty', a number or shares by level"),
        ({1: 0.5}, "start: the fractions of pools add to 0.5; they must add to 1"),
        ({}, "start: the fractions of pools add to 0; they must add to 1"),
        ([0.5, 0.6], "start: the fractions of pools add to 1.1; they must add to 1"),
        ([1.5, -0.5], "start: the fractions of pools by level must be numbers >= 0"),
        ([math.nan, 1], "start: the fractions of pools by level must be numbers >= 0"),
        ({-1: 1.0}, "a level of the start = -1 must be a whole number >= 0"),
        (-1, "load = -1.0 must be a number >= 0, in tasks per pool"),
    ],
)
def test_a_start_that_is_none_is_refused(start, said):
    with pytest.raises(EquipoiseError) as caught:
        shares_from(start)

    assert str(caught.value) == said


@pytest.mark.parametrize("load", [0, -1, math.nan, math.inf])
def test_a_load_that_brings_nothing_is_refused(load):
    with pytest.raises(EquipoiseError) as caught:
        check_load(load)

    assert str(caught.value) == (
        f"load = {load:g} must be a number > 0, in tasks per pool; without tasks there is nothing "
        "to balance"
    )


@pytest.mark.parametrize(
    ("alpha", "servers", "said"),
    [
        (0, None, "alpha = 0 must be between 0 and 1, both excluded: the threshold goes down when "
                  "at most this fraction of the pools has reached it"),
        (1.5, 100, "alpha = 1.5 must be between 0 and 1, both excluded: the threshold goes down "
                   "when at most this fraction of the pools has reached it"),
        (0.99, 100, "alpha = 0.99 >= 1 - 1/n = 0.99 for 100 servers: an increase would be undone "
                    "at once; use a smaller alpha"),
        (0.5, 1, "one server leaves nothing to balance or learn; use 2 or more"),
    ],
)  # fmt: skip
def test_an_alpha_that_cannot_work_is_refused(alpha, servers, said):
    with pytest.raises(PolicyError) as caught:
        check_alpha(alpha, servers)

    assert str(caught.value) == said


def test_an_alpha_that_can_work_is_returned():
    assert check_alpha(0.98, 100) == 0.98
    assert check_alpha(0.999) == 0.999


@pytest.mark.parametrize(
    ("kind", "level", "step", "limit", "said"),
    [
        (EquipoiseError, -1, 1, None, "level = -1 must be a whole number >= 0"),
        (EquipoiseError, 2.5, 1, None, "level = 2.5 must be a whole number >= 0"),
        (EquipoiseError, 2, 0, None, "step = 0 must be a whole number >= 1"),
        (PolicyError, 4, 1, 3, "level = 4 is above limit = 3: no pool can ever reach the "
                               "threshold; use a level of at most 3"),
    ],
)  # fmt: skip
def test_a_threshold_that_makes_no_sense_is_refused(kind, level, step, limit, said):
    with pytest.raises(kind) as caught:
        check_level(level, step, limit)

    assert str(caught.value) == said


def test_whole_numbers_may_be_written_as_floats():
    assert whole(3.0, "servers", 1) == 3
    assert check_level(np.int64(2), 1, 2) == (2, 1)
