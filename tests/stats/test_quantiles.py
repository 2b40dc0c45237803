"""Quantiles of histograms: monotone, inside the bucket, covered by their intervals."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equipoise.stats import quantile, quantile_interval

fractions = st.floats(0, 1)


@st.composite
def histograms(draw):
    """Some counts, at least one of them not 0, and ascending edges."""
    counts = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
    assume(sum(counts) > 0)
    widths = draw(st.lists(st.floats(0.01, 10), min_size=len(counts), max_size=len(counts)))
    return counts, np.concatenate(([0.0], np.cumsum(widths)))


@given(histograms(), fractions, fractions)
def test_quantiles_grow_with_p(histogram, p, q):
    low, high = sorted((p, q))

    assert quantile(*histogram, low) <= quantile(*histogram, high) + 1e-9


@given(histograms(), fractions)
def test_a_fraction_p_of_the_histogram_lies_below_the_quantile(histogram, p):
    counts, edges = histogram

    value = quantile(counts, edges, p)

    below = np.interp(value, edges, np.concatenate(([0], np.cumsum(counts)))) / sum(counts)
    assert below == pytest.approx(p, abs=1e-9)


@given(histograms())
def test_the_extremes_are_the_ends_of_the_filled_buckets(histogram):
    counts, edges = histogram
    filled = np.flatnonzero(counts)

    assert quantile(counts, edges, 0) == edges[filled[0]]
    assert quantile(counts, edges, 1) == edges[filled[-1] + 1]


@given(histograms(), fractions, st.integers(2, 50))
def test_only_proportions_matter(histogram, p, factor):
    counts, edges = histogram

    assert quantile(np.multiply(counts, factor), edges, p) == pytest.approx(
        quantile(counts, edges, p)
    )


def test_values_inside_a_bucket_are_taken_as_spread_evenly():
    assert quantile([10, 0, 30], [0.0, 1.0, 2.0, 4.0], 0.25) == 1.0
    assert quantile([10, 0, 30], [0.0, 1.0, 2.0, 4.0], 0.625) == 3.0
    assert quantile([10, 0, 30], [0.0, 1.0, 2.0, 4.0], 0.125) == 0.5


def test_an_atom_is_its_own_quantile():
    """Half of the tasks do not wait at all."""
    counts, edges = [50, 50], [0.0, 0.0, 1.0]

    assert quantile(counts, edges, 0.3) == 0
    assert quantile(counts, edges, 0.75) == 0.5


def test_nothing_counted_has_no_quantile():
    assert math.isnan(quantile([0, 0], [0.0, 1.0, 2.0], 0.5))
    assert math.isnan(quantile_interval([[0, 0], [0, 0]], [0.0, 1.0, 2.0], 0.5).value)


def test_what_lies_beyond_the_last_edge_is_not_made_up():
    counts, edges = [90, 10], [0.0, 1.0, math.inf]

    assert quantile(counts, edges, 0.9) == 1.0
    assert math.isinf(quantile(counts, edges, 0.95))


def test_wrong_shapes_and_fractions_are_refused():
    with pytest.raises(ValueError, match=r"p = 1\.5"):
        quantile([1], [0.0, 1.0], 1.5)
    with pytest.raises(ValueError, match="2 buckets need 3 edges"):
        quantile([1, 2], [0.0, 1.0], 0.5)


def exponential_histograms(rng, runs, replications, tasks):
    """Fine log-spaced histograms of exponential times, and their edges."""
    edges = np.concatenate(([0.0], np.geomspace(1e-3, 30, 400)))
    samples = rng.exponential(size=(runs, replications, tasks))
    return [[np.histogram(row, edges)[0] for row in run] for run in samples], edges


@pytest.mark.parametrize("p", [0.5, 0.99])
def test_quantiles_of_an_exponential_are_covered_as_often_as_promised(p):
    rng = np.random.default_rng(1)
    runs, edges = exponential_histograms(rng, runs=1000, replications=8, tasks=2000)
    truth = -math.log(1 - p)

    hits = [abs((e := quantile_interval(run, edges, p)).value - truth) <= e.error for run in runs]

    allowed = 4 * math.sqrt(0.95 * 0.05 / len(hits)) + 0.005
    assert abs(np.mean(hits) - 0.95) < allowed


def test_dependence_within_replications_widens_the_interval():
    """All tasks of a replication slowed down by a factor of their own."""
    rng = np.random.default_rng(2)
    edges = np.concatenate(([0.0], np.geomspace(1e-3, 300, 400)))
    hits = []
    for _ in range(500):
        slow = rng.lognormal(0.0, 0.3, size=10)
        rows = [np.histogram(factor * rng.exponential(size=500), edges)[0] for factor in slow]
        estimate = quantile_interval(rows, edges, 0.5)
        hits.append(abs(estimate.value - truth_of_mixture(0.3)) <= estimate.error)

    assert 0.90 < np.mean(hits) < 0.98


def truth_of_mixture(sigma):
    """The median of a lognormal(0, sigma) times an exponential, by quadrature and bisection."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    factors, weights = np.exp(sigma * nodes), weights / weights.sum()
    low, high = 0.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        above = float(weights @ np.exp(-middle / factors))
        low, high = (middle, high) if above > 0.5 else (low, middle)
    return low


def test_one_histogram_has_a_quantile_and_no_error():
    estimate = quantile_interval([4, 4], [0.0, 1.0, 2.0], 0.5)

    assert estimate.value == 1.0
    assert math.isnan(estimate.error)
