"""MSER-5: it finds a planted transient, leaves a stationary series alone, and owns up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.stats import Truncation, mser5


def naive(series):
    """The definition, one truncation point after the other."""
    count = len(series) // 5
    means = [sum(series[5 * j : 5 * j + 5]) / 5 for j in range(count)]
    scores = []
    for d in range(count // 2 + 1):
        rest = means[d:]
        mean = sum(rest) / len(rest)
        scores.append(sum((z - mean) ** 2 for z in rest) / len(rest) ** 2)
    return 5 * scores.index(min(scores)), scores


@given(st.lists(st.floats(-100, 100), min_size=10, max_size=120))
def test_it_is_the_minimum_of_the_marginal_standard_error(series):
    drop, scores = naive(series)

    found = mser5(series).drop

    assert scores[found // 5] == pytest.approx(scores[drop // 5], rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(-1e9, 1e9), max_size=200))
def test_it_leaves_out_fives_and_at_most_half(series):
    found = mser5(series)

    assert found.drop % 5 == 0
    assert found.drop <= len(series) / 2


@pytest.mark.parametrize("length", [50, 200, 400])
def test_a_planted_step_is_cut_off_where_it_ends(length):
    rng = np.random.default_rng(1)
    series = rng.normal(size=2000)
    series[:length] += 20

    assert mser5(series) == Truncation(length, settled=True)


def test_a_decaying_transient_is_cut_off_once_it_is_lost_in_the_noise():
    """From empty like 1 - e^{-t/100}: at the cut the bias left is below the noise."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        series = 5 * (1 - np.exp(-np.arange(4000) / 100)) + rng.normal(0, 0.5, 4000)

        found = mser5(series)

        assert found.settled
        assert 100 <= found.drop <= 1000
        assert 5 * math.exp(-found.drop / 100) < 1
        assert abs(series[found.drop :].mean() - 5) < abs(series.mean() - 5) / 2


def test_a_stationary_series_loses_little():
    rng = np.random.default_rng(3)
    found = [mser5(rng.normal(size=2000)) for _ in range(200)]

    # Noise alone moves the least value: by a quarter of the series in one of ten.
    assert np.median([f.drop for f in found]) <= 200
    assert np.mean([f.settled for f in found]) > 0.95


@pytest.mark.parametrize(
    "series",
    [np.arange(1000.0), -np.exp(-np.arange(1000) / 1000), np.sqrt(np.arange(600))],
)
def test_a_series_that_still_moves_is_not_settled(series):
    found = mser5(series)

    assert not found.settled
    assert found.drop == len(series) // 10 * 5


def test_a_change_in_the_second_half_is_not_a_warm_up():
    """The known limit of the rule, stated so that nobody relies on it to detect instability."""
    assert mser5(np.repeat([0.0, 1.0], [600, 400])) == Truncation(0, settled=True)
    assert mser5(np.exp(np.arange(200) / 20)) == Truncation(0, settled=True)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e12, -1e-300])
def test_a_constant_series_is_settled_from_the_start(value):
    assert mser5([value] * 103) == Truncation(0, settled=True)


@pytest.mark.parametrize("length", [0, 1, 9])
def test_a_series_too_short_for_two_batches_is_not_settled(length):
    assert mser5([1.0] * length) == Truncation(0, settled=False)


def test_a_huge_transient_costs_no_digits():
    """At 1e9 against noise of 1e-3, squares about zero would keep none of the noise."""
    rng = np.random.default_rng(4)
    series = 7 + 1e-3 * rng.normal(size=1000)
    series[:100] = 1e9

    assert 100 <= mser5(series).drop <= 300


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="nan or infinity"):
        mser5([1.0] * 20 + [math.nan])
