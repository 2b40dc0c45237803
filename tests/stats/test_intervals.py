"""Intervals: closed forms, and how often they hold the truth on laws where it is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from equipoise.stats import (
    Estimate,
    batch_means,
    paired,
    ratio_interval,
    student,
    t_interval,
)

numbers = st.floats(-1e6, 1e6)


def ar1(rng, runs, length, phi):
    """Stationary first-order autoregressions of mean 0 and variance 1, [runs, length]."""
    noise = rng.normal(size=(runs, length)) * math.sqrt(1 - phi**2)
    noise[:, 0] /= math.sqrt(1 - phi**2)
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=1)


def assert_covers(hits, confidence, allowance=0.0):
    """The fraction of hits is the confidence, within four standard errors."""
    error = math.sqrt(confidence * (1 - confidence) / len(hits))
    assert abs(np.mean(hits) - confidence) < 4 * error + allowance


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.6397, 0.0249), "0.640 +- 0.025"),
        (Estimate(0.5, 0.0996), "0.50 +- 0.10"),
        (Estimate(12345.0, 123.0), "12340 +- 120"),
        (Estimate(5.0, 9.96), "5 +- 10"),
        (Estimate(-3.14159, 0.99999), "-3.1 +- 1.0"),
        (Estimate(1.25e-7, 3.3e-9), "0.0000001250 +- 0.0000000033"),
        (Estimate(4.0, 0.0), "4 +- 0"),
        (Estimate(1.23456, math.nan), "1.235 +- nan"),
    ],
)
def test_an_estimate_is_printed_to_the_second_digit_of_its_error(estimate, text):
    assert str(estimate) == text


@pytest.mark.parametrize(
    ("freedom", "confidence", "table"),
    [(1, 0.95, 12.7062), (7, 0.95, 2.3646), (19, 0.95, 2.0930), (9, 0.99, 3.2498)],
)
def test_student_quantiles_are_those_of_the_printed_tables(freedom, confidence, table):
    assert student(freedom, confidence) == pytest.approx(table, abs=5e-5)


@pytest.mark.parametrize(("freedom", "confidence"), [(0, 0.95), (5, 0.0), (5, 1.0), (5, math.nan)])
def test_student_refuses_what_has_no_interval(freedom, confidence):
    with pytest.raises(ValueError, match="no Student interval"):
        student(freedom, confidence)


def test_a_mean_of_three_has_the_interval_computed_by_hand():
    estimate = t_interval([1.0, 2.0, 3.0])

    assert estimate.value == 2
    assert estimate.error == pytest.approx(4.302652730 / math.sqrt(3))


@given(st.lists(numbers, min_size=2, max_size=20), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_mean_interval_is_that_of_scipy(values, confidence):
    estimate = t_interval(values, confidence)

    half = stats.t.ppf(0.5 + confidence / 2, len(values) - 1)
    scale = np.std(values, ddof=1) / math.sqrt(len(values))
    assert estimate.value == pytest.approx(np.mean(values))
    assert estimate.error == pytest.approx(half * scale)
    assert estimate.confidence == confidence


def test_one_replication_has_a_value_and_no_error():
    for estimate in (t_interval([2.0]), ratio_interval([6.0], [3.0]), paired([5.0], [3.0])):
        assert estimate.value == 2
        assert math.isnan(estimate.error)


def test_no_replications_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        t_interval([])


def test_a_mean_of_exponentials_is_covered_as_often_as_promised():
    """Means of 200 exponentials: nearly normal, as a simulated mean is."""
    rng = np.random.default_rng(1)
    means = rng.exponential(size=(4000, 8, 200)).mean(axis=2)

    hits = [abs((e := t_interval(row)).value - 1) <= e.error for row in means]

    assert_covers(hits, 0.95)


def test_the_jackknife_of_a_ratio_agrees_with_its_formula():
    over, under = np.array([3.0, 5.0, 8.0]), np.array([1.0, 2.0, 4.0])
    without = np.array([13 / 6, 11 / 5, 8 / 3])
    deviation = math.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum())

    estimate = ratio_interval(over, under)

    assert estimate.value == pytest.approx(16 / 7)
    assert estimate.error == pytest.approx(4.302652730 * deviation)


@given(st.lists(numbers, min_size=2, max_size=20))
def test_a_ratio_to_equal_denominators_is_the_mean(values):
    mean = t_interval(values)
    ratio = ratio_interval(np.multiply(values, 3.0), np.full(len(values), 3.0))

    scale = max(map(abs, values))
    assert ratio.value == pytest.approx(mean.value, abs=1e-9 * scale)
    assert ratio.error == pytest.approx(mean.error, abs=1e-6 * scale)


def test_a_ratio_that_is_the_same_in_all_replications_is_certain():
    estimate = ratio_interval([2.0, 4.0, 10.0], [1.0, 2.0, 5.0])

    assert estimate.value == 2
    assert estimate.error == pytest.approx(0, abs=1e-12)


def test_a_ratio_to_nothing_is_nan():
    nothing = ratio_interval([1.0, 2.0], [0.0, 0.0])
    only_one = ratio_interval([1.0, 2.0], [0.0, 4.0])

    assert math.isnan(nothing.value)
    assert math.isnan(nothing.error)
    assert only_one.value == 0.75
    assert math.isnan(only_one.error)


def test_a_ratio_of_means_is_covered_as_often_as_promised():
    """Numerator and denominator vary by 10 and 20 % and depend on each other."""
    rng = np.random.default_rng(2)
    under = rng.gamma(25.0, 1 / 25.0, size=(4000, 10))
    over = 2 * under * rng.gamma(100.0, 1 / 100.0, size=(4000, 10))

    ratios = [ratio_interval(a, b) for a, b in zip(over, under, strict=True)]
    hits = [abs(e.value - 2) <= e.error for e in ratios]

    assert_covers(hits, 0.95, allowance=0.005)


@pytest.mark.parametrize("pieces", [20, 65, 400])
def test_batch_means_keep_the_total_however_the_run_was_cut(pieces):
    rng = np.random.default_rng(3)
    weights = rng.uniform(1, 2, pieces)
    sums = weights * rng.normal(5, 1, pieces)

    estimate = batch_means(sums, weights)

    assert estimate.value == pytest.approx(sums.sum() / weights.sum())
    assert estimate.error > 0


def test_batch_means_of_equal_pieces_are_student_intervals_of_their_means():
    series = np.random.default_rng(4).normal(size=400)

    batched = batch_means(series, np.ones(400), batches=20)

    expected = t_interval(series.reshape(20, 20).mean(axis=1))
    assert batched.value == pytest.approx(expected.value)
    assert batched.error == pytest.approx(expected.error)


def test_fewer_pieces_than_batches_are_taken_one_by_one():
    assert batch_means([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]).error == pytest.approx(
        t_interval([1.0, 2.0, 3.0]).error
    )


def test_batch_means_of_a_correlated_run_cover_as_often_as_promised():
    """AR(1) with correlation time 10 over 4000 steps. Taken as independent, 40 % would."""
    runs = ar1(np.random.default_rng(5), runs=1500, length=4000, phi=0.9)

    batched = [batch_means(run, np.ones(run.size)) for run in runs]
    naive = [t_interval(run) for run in runs]

    assert_covers([abs(e.value) <= e.error for e in batched], 0.95, allowance=0.015)
    assert np.mean([abs(e.value) <= e.error for e in naive]) < 0.5


def test_pieces_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="2 sums, but 3 weights"):
        batch_means([1.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="batches = 1"):
        batch_means([1.0, 2.0], [1.0, 1.0], batches=1)
    with pytest.raises(ValueError, match="2 numerators, but 1"):
        ratio_interval([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([1.0, 2.0], [1.0])


def test_what_two_policies_share_cancels_in_their_difference():
    rng = np.random.default_rng(6)
    shared = rng.normal(10, 5, size=12)
    a, b = shared + rng.normal(0, 0.1, 12), shared + 1 + rng.normal(0, 0.1, 12)

    difference = paired(a, b)

    assert difference.value == pytest.approx(-1, abs=difference.error * 2)
    assert difference.error < 0.05 * t_interval(a).error


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=20))
def test_a_difference_changes_sign_with_its_order(pairs):
    a, b = zip(*pairs, strict=True)

    assert paired(a, b).value == pytest.approx(-paired(b, a).value)
    assert paired(a, b).error == pytest.approx(paired(b, a).error)
