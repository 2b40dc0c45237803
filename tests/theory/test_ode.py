"""Integration against equations whose solutions are known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.theory.ode import trajectory


def decay(x):
    return -x


@given(
    start=st.lists(st.floats(-5, 5), min_size=1, max_size=4),
    steps=st.lists(st.floats(1e-3, 3), min_size=1, max_size=6),
)
def test_decay_is_exponential(start, steps):
    times = np.cumsum(steps)

    path = trajectory(decay, np.array(start), times)

    assert path.shape == (times.size, len(start))
    assert np.abs(path - np.exp(-times)[:, None] * start).max() <= 1e-8


def test_a_circle_closes():
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])

    path = trajectory(lambda x: turn @ x, np.array([0.0, 1.0]), 2 * math.pi * np.arange(1, 6))

    assert np.abs(path - [0.0, 1.0]).max() <= 1e-8


def test_growth_with_a_bound_follows_the_logistic_curve():
    times = np.linspace(0, 12, 25)

    path = trajectory(lambda x: x * (1 - x), np.array([0.01]), times)

    assert np.abs(path[:, 0] - 1 / (1 + 99 * np.exp(-times))).max() <= 1e-8


def test_at_time_0_it_is_at_its_start():
    start = np.array([0.3, 0.2])

    assert np.array_equal(trajectory(decay, start, [0.0]), [start])
    assert np.array_equal(trajectory(decay, start, [0.0, 1.0])[0], start)


def test_whole_numbers_will_do_and_the_start_is_left_alone():
    start = np.array([1, 2])

    path = trajectory(decay, start, [0, 1])

    assert path[1] == pytest.approx(np.exp(-1) * start, abs=1e-8)
    assert start.tolist() == [1, 2]


@pytest.mark.parametrize(
    "times",
    [
        [],
        [-1.0, 0.0],
        [2.0, 1.0],
        [0.0, 1.0, 0.5],
        [0.0, 0.0],
        [math.nan],
        [0.0, math.nan],
        [0.0, math.inf],
    ],
)
def test_times_that_do_not_ascend_from_0_are_refused(times):
    with pytest.raises(EquipoiseError) as caught:
        trajectory(decay, np.array([1.0]), np.array(times))

    assert str(caught.value) == "times must ascend from 0 on"


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_an_integration_that_fails_says_where_it_stopped():
    """x' = x^2 from 1 is 1/(1 - t): there is nothing at t = 1 and beyond."""
    with pytest.raises(EquipoiseError) as caught:
        trajectory(lambda x: x**2, np.array([1.0]), np.array([0.5, 2.0]))

    assert str(caught.value).startswith("the integration stopped at t = ")
    assert "\n" not in str(caught.value)
