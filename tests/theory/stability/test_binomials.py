"""Ratios of binomials, against whole numbers."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.theory.stability.binomials import log_share, share


def error(j, n, d):
    """Relative error against exact fractions; the ratio must be a double that is not tiny."""
    exact = Fraction(comb(j, d), comb(n, d))
    if exact < Fraction(1, 10**280):
        return 0.0
    return abs(float(Fraction(float(share(np.array([j]), n, d)[0])) / exact - 1))


@given(st.data())
def test_ratios_are_exact_to_ten_digits_for_every_d(data):
    n = data.draw(st.integers(1, 1500))
    d = data.draw(st.integers(1, n))
    j = data.draw(st.integers(d, n))

    assert error(j, n, d) < 1e-10


@pytest.mark.parametrize("d", [2, 17, 100, 1000])
@pytest.mark.parametrize("missing", [1, 1000, 100_000, 900_000])
def test_a_million_servers_lose_no_digits(d, missing):
    n, j = 10**6, 10**6 - missing
    exact = Fraction(1)
    for i in range(d):
        exact *= Fraction(j - i, n - i)
    if exact > Fraction(1, 10**280):
        assert float(share(np.array([j]), n, d)[0]) == pytest.approx(float(exact), rel=1e-11)


def test_nothing_overflows_where_the_ratio_itself_is_no_double():
    with np.errstate(all="raise", under="ignore"):
        assert share(np.array([5000]), 10**6, 4000)[0] == 0.0
        assert log_share(np.array([5000.0]), 10**6, 4000)[0] < -20_000


def test_fewer_than_d_servers_hold_no_draw_and_all_hold_every_draw():
    for d in (1, 3, 40):
        assert share(np.array([0, d - 1]), 100, d).tolist() == [0.0, 0.0]
        assert share(np.array([100]), 100, d).tolist() == [1.0]


def test_with_replacement_it_is_a_power():
    assert share(np.array([3, 10]), 10, 3, replacement=True).tolist() == [
        pytest.approx(0.027),
        1.0,
    ]
