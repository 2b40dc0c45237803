"""Rest points: published values to the last digit, laws by scipy, messages by flow balance."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import poisson

from equipoise.errors import EquipoiseError
from equipoise.theory.pools.states import mean_tasks, shares_of
from equipoise.theory.pools.stationary import (
    cut_poisson,
    erlang_b,
    imbalance,
    jsq_d_rest,
    load_with,
    optimal_levels,
    random_rest,
    rest_point,
)

loads, levels, steps = st.floats(0.05, 30), st.integers(0, 40), st.integers(1, 5)


def digits(text):
    """The numbers of a line, and half a unit more than one unit of the last digit of each."""
    for word in text.split():
        yield float(word), 1.001 * 10.0 ** -len(word.partition(".")[2])


def agrees(values, text):
    pairs = list(digits(text))
    assert len(values) == len(pairs)
    return all(abs(v - known) <= unit for v, (known, unit) in zip(values, pairs, strict=True))


TOO_HIGH = [  # load, level, r, theta, q(1)...
    (2.5, 3, "6.487417775", "0.6146386611", "0.98649310 0.89886823 0.61463866"),
    (2.5, 4, "3.272204869", "0.2359891571", "0.95059836 0.78894608 0.52446640 0.23598916"),
    (3, 4, "4.960188356", "0.3951842581", "0.98433183 0.90661477 0.71386914 0.39518426"),
    (5.5, 6, "15.2877246", "0.6402342308",
     "0.99996389 0.99941187 0.99519228 0.97368965 0.89150808 0.64023423"),
    (5.5, 8, "6.449433892", "0.1472119736",
     "0.99801715 0.98522885 0.94399024 0.85533499 0.71239096 0.52800934 0.32981650 0.14721197"),
    (5.9, 6, "63.83877785", "0.9075796843",
     "0.99999999 0.99999937 0.99997970 0.99956109 0.99288016 0.90757968"),
]  # fmt: skip
TOO_LOW = [  # load, level, beta, pi(h), q(h+1)...
    (2.5, 0, "2.231611884", "0.268388116",
     "0.73161188 0.43214283 0.20937660 0.08509465 0.02962484 0.00899366"),
    (2.5, 1, "1.229933200", "0.6350333998",
     "0.36496660 0.10461705 0.02456391 0.00487190 0.00083526 0.00012600"),
    (3, 1, "2.149125800", "0.4254371",
     "0.57456290 0.26979028 0.10604161 0.03565831 0.01044788 0.00270783"),
    (5.5, 3, "4.225081600", "0.3187296",
     "0.68127040 0.41193869 0.22228061 0.10780620 0.04734824 0.01896603"),
    (5.5, 4, "2.263602088", "0.6472795825",
     "0.35272042 0.10852318 0.02955670 0.00721311 0.00159345 0.00032138"),
]  # fmt: skip
RIGHT = [  # load, level, step, r, pi(l)..., variance
    (5.5, 5, 1, "6", "0.5 0.5", "0.25"),
    (5.5, 4, 2, "12.94987437", "0.10893306 0.28213388 0.60893306", "0.46786612"),
    (5, 4, 2, "5.477225575", "0.32305532 0.35388937 0.32305532", "0.64611063"),
    (7.3, 6, 3, "6.719879057", "0.29687393 0.28499384 0.23939052 0.17874171", "1.16123127"),
    (10.5, 10, 2, "4.92820323", "0.61274047 0.27451905 0.11274047", "0.47548095"),
    (10.5, 9, 3, "10.97290629", "0.23850527 0.26170960 0.26106499 0.23872014", "1.20445082"),
]


@pytest.mark.parametrize(("load", "level", "r", "theta", "q"), TOO_HIGH)
def test_a_threshold_that_is_too_high_has_the_known_rest_point(load, level, r, theta, q):
    rest = rest_point(load, level)

    assert rest.regime == "too high"
    assert agrees([rest.rate], r)
    assert agrees([rest.theta], theta)
    assert agrees(rest.occupancy[1:], q)


@pytest.mark.parametrize(("load", "level", "beta", "full", "q"), TOO_LOW)
def test_a_threshold_that_is_too_low_has_the_known_rest_point(load, level, beta, full, q):
    rest, h = rest_point(load, level), level + 1

    assert rest.regime == "too low"
    assert agrees([rest.rate], beta)
    assert agrees([rest.shares[h]], full)
    assert agrees(rest.occupancy[h + 1 : h + 7], q)
    assert rest.rate == pytest.approx(load - h * rest.shares[h], abs=1e-14)


@pytest.mark.parametrize(("load", "level", "step", "r", "shares", "variance"), RIGHT)
def test_a_right_threshold_has_the_known_rest_point(load, level, step, r, shares, variance):
    rest = rest_point(load, level, step)

    assert rest.regime == "right"
    assert agrees([rest.rate], r)
    assert agrees(rest.shares[level:], shares)
    assert agrees([rest.variance], variance)


def test_two_levels_above_and_below_meet_in_closed_form():
    """Cut to 4..6 with mean 5: 1 + r/5 + r^2/30 balanced, so r^2 = 30."""
    assert rest_point(5, 4, 2).rate == pytest.approx(math.sqrt(30), rel=1e-12)


@given(load=loads, level=levels, step=steps)
def test_the_law_is_poisson_cut_to_its_range_with_the_load_as_mean(load, level, step):
    rest = rest_point(load, level, step)
    j = np.arange(len(rest.shares))
    assume(0 < rest.rate < 1e6)
    law = poisson.pmf(j, rest.rate) * (j >= rest.low)
    assume(law.sum() > 1e-200)

    assert rest.shares == pytest.approx(law / law.sum(), rel=1e-9, abs=1e-15)
    assert rest.shares @ j == pytest.approx(load, rel=1e-12)
    assert mean_tasks(rest.occupancy) == pytest.approx(load, rel=1e-12)


@given(load=loads, more=st.floats(0.02, 10))
def test_too_high_a_threshold_is_erlangs_loss_formula(load, more):
    level = math.ceil(load + more)
    rest = rest_point(load, level)

    assert rest.theta == pytest.approx(erlang_b(level, load / (1 - rest.theta)), rel=1e-8)
    assert load_with(level, rest.theta) == pytest.approx(load, rel=1e-10)


@given(load=loads)
def test_the_best_threshold_has_the_balanced_state(load):
    rest, level = rest_point(load, math.floor(load)), math.floor(load)

    assert rest.shares[level] == pytest.approx(1 - (load - level), abs=1e-12)
    assert rest.shares[level + 1] == pytest.approx(load - level, abs=1e-12)


def test_at_the_ends_of_the_range_all_pools_are_alike():
    low, high = rest_point(3, 3), rest_point(3, 2)

    assert (low.rate, low.shares.tolist()) == (0.0, [0, 0, 0, 1, 0])
    assert (high.rate, high.shares.tolist()) == (math.inf, [0, 0, 0, 1])
    assert low.messages == high.messages == (0.0, 1.0)
    assert low.missing_pools == math.inf
    assert high.missing_pools == 0


@given(load=loads, level=levels, step=steps)
def test_messages_are_as_many_as_tasks_unless_the_threshold_is_too_low(load, level, step):
    rest = rest_point(load, level, step)
    total = sum(rest.messages)

    assert min(rest.messages) >= -1e-12
    if rest.regime == "too low":
        assert total == pytest.approx(1 - rest.rate / load, abs=1e-9)
    else:
        assert total == pytest.approx(1, abs=1e-12)


@given(level=levels, step=st.integers(2, 5), part=st.floats(0.01, 0.99))
def test_messages_on_departure_are_what_the_tokens_say(level, step, part):
    """Green when a pool falls from l, yellow when it falls from h."""
    load = level + part * step
    rest = rest_point(load, level, step)
    falls = level * rest.shares[level] + (level + step) * rest.shares[level + step]

    assert rest.messages[1] == pytest.approx(falls / load, abs=1e-9)


MESSAGES = [  # load, level, step, on arrival, on departure
    (2.5, 2, 1, "0", "1"),
    (2.5, 4, 1, "0.62241735", "0.37758265"),
    (2.5, 1, 1, "0", "0.50802672"),
    (5.5, 4, 2, "0.25648535", "0.74351465"),
]


@pytest.mark.parametrize(("load", "level", "step", "before", "after"), MESSAGES)
def test_messages_have_the_known_values(load, level, step, before, after):
    rest = rest_point(load, level, step)

    assert agrees(rest.messages, f"{before} {after}") or rest.messages == (0.0, 1.0)


def test_few_pools_miss_tasks_at_the_boundary():
    assert rest_point(2.5, 2).missing_pools == pytest.approx(0.4 / 0.6, rel=1e-12)


@pytest.mark.parametrize(
    ("load", "step", "best"),
    [(2.5, 1, (2,)), (3, 1, (2, 3)), (0.4, 1, (0,)), (1, 1, (0, 1)), (5.5, 2, (4, 5)),
     (7.3, 3, (5, 6, 7)), (2.0, 3, (0, 1, 2))],
)  # fmt: skip
def test_the_best_thresholds_have_the_load_between_l_and_h(load, step, best):
    assert optimal_levels(load, step) == best


@pytest.mark.parametrize("load", [0.1, 2.5, 10.5, 200.0])
def test_random_sending_is_poisson(load):
    q = random_rest(load)

    assert q == pytest.approx(poisson.sf(np.arange(len(q)) - 1, load), abs=1e-14)
    assert imbalance(q) == pytest.approx(load, rel=1e-9)


@given(load=loads, d=st.integers(1, 9))
def test_more_choices_balance_better_with_the_same_mass(load, d):
    q, better = jsq_d_rest(load, d), jsq_d_rest(load, d + 1)

    assert mean_tasks(q) == pytest.approx(load, rel=1e-12)
    assert np.all(np.diff(q) <= 1e-15)
    assert imbalance(better) < imbalance(q)


@given(load=st.floats(0.1, 12), d=st.integers(2, 4))
def test_at_rest_jsq_d_has_no_drift(load, d):
    """Tasks that find level i - 1 reached at all d choices, against those that end at i."""
    q = jsq_d_rest(load, d)
    flow = load * (q[:-1] ** d - q[1:] ** d)[:-1]

    assert flow == pytest.approx(np.arange(1, len(q) - 1) * shares_of(q)[1:-1], abs=1e-12)


def test_levels_can_be_asked_for():
    assert jsq_d_rest(2.5, 2, levels=3) == pytest.approx(jsq_d_rest(2.5, 2)[:3])
    assert len(random_rest(2.5, levels=100)) == 100


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: cut_poisson(1.0, 2, 3), "mean = 1 must be in 2..3"),
        (lambda: cut_poisson(1.0, 2), "mean = 1 must be in 2.."),
        (lambda: load_with(3, 1.0), "theta = 1 must be between 0 and 1, both excluded"),
        (lambda: load_with(0, 0.5), "level = 0 must be a whole number >= 1"),
        (lambda: rest_point(2.5, 2, 0), "step = 0 must be a whole number >= 1"),
        (lambda: jsq_d_rest(2.5, 0), "d = 0 must be a whole number >= 1"),
        (lambda: optimal_levels(0), "load = 0 must be a number > 0, in tasks per pool; without "
                                    "tasks there is nothing to balance"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(ask, said):
    with pytest.raises(EquipoiseError) as caught:
        ask()

    assert str(caught.value) == said
