"""How many more replications: enough, not far too many, never more than allowed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.stats import Estimate, needed, next_round, relative_error, t_interval
from equipoise.stats.precision import GROWTH, LEAST

errors = st.floats(1e-6, 1e6)
counts = st.integers(2, 10_000)


def test_the_relative_error_is_that_of_the_size():
    assert relative_error(Estimate(-4.0, 0.1)) == 0.025
    assert relative_error(Estimate(0.0, 0.0)) == 0  # nothing is ever lost: that is certain
    assert relative_error(Estimate(0.0, 0.1)) == math.inf
    assert relative_error(Estimate(4.0, math.nan)) == math.inf


def test_half_the_error_needs_four_times_the_replications():
    assert needed(0.02, 0.01, 16) == pytest.approx(64)


@given(errors, errors, counts, st.integers(0, 20_000))
def test_a_round_is_more_unless_precise_or_at_the_limit(reached, wanted, now, most):
    then = next_round(reached, wanted, now, most)

    if reached <= wanted or most <= now:
        assert then == now
    else:
        assert now < then <= min(most, GROWTH * now)


def test_what_can_never_be_precise_goes_on_to_the_limit():
    count = LEAST
    for _ in range(20):
        count = next_round(math.inf, 0.01, count, 500)

    assert count == 500


def test_stopping_by_precision_keeps_the_coverage_of_normal_means():
    """2000 studies, about 40 replications needed: four standard errors of .95 are .02."""
    rng = np.random.default_rng(3)
    held, used = 0, []
    for _ in range(2000):
        values = rng.normal(1.0, 0.063, LEAST)  # 0.02 = 1.96 .063 / sqrt(38)
        while True:
            estimate = t_interval(values)
            more = next_round(relative_error(estimate), 0.02, values.size, 10_000)
            if more == values.size:
                break
            values = np.append(values, rng.normal(1.0, 0.063, more - values.size))
        assert estimate.error <= 0.02 * estimate.value
        held += abs(estimate.value - 1.0) <= estimate.error
        used.append(values.size)

    assert 0.925 < held / 2000 < 0.97
    assert 36 < np.mean(used) < 46  # one and a half standard deviations, and 5 % to spare
