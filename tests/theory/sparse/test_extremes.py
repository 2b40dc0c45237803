"""How much feedback is enough, and what is left of next to none."""

import math

import pytest
from exact import dm1_root
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import (
    SCHEMES,
    aujsq_det,
    aujsq_exp,
    no_waiting_delta,
    rare_updates,
    sujsq_det,
    sujsq_exp,
)
from equipoise.theory.sparse.extremes import round_robin_root, synchronous_wait

DIGIT = 1.0001e-8  # one unit of the last digit

# load: sigma, C, W_0
RARE = {
    0.3: (0.04088226, 7.26001927, 0.09679436),
    0.5: (0.20318787, 2.06317014, 0.33013453),
    0.7: (0.46699642, 0.83247364, 0.95790367),
    0.8: (0.62862980, 0.48686468, 1.77533005),
    0.9: (0.80689983, 0.21879551, 4.26123259),
    0.95: (0.90169511, 0.10440766, 9.25476560),
}


@pytest.mark.parametrize("load", RARE)
def test_the_wait_left_by_rare_synchronous_updates_is_the_known_one_to_the_last_digit(load):
    sigma, constant, wait = RARE[load]

    assert round_robin_root(load) == pytest.approx(sigma, abs=DIGIT)
    assert synchronous_wait(load) == pytest.approx((constant, wait), abs=DIGIT)
    for scheme in ("sujsq-det", "sujsq-exp"):
        left = rare_updates(scheme, load)
        assert (left.wait, left.slope) == (pytest.approx(wait, abs=DIGIT), 0)
        assert left.wait_at(0.01) == left.wait


@pytest.mark.parametrize(
    ("load", "delta", "wait"),
    [
        (0.5, 0.1, 0.27719813),
        (0.5, 0.02, 0.31893577),
        (0.7, 0.05, 0.81172188),
        (0.7, 0.01, 0.92458002),
    ],
)
def test_the_fixed_point_at_a_small_delta_is_the_known_one(load, delta, wait):
    assert sujsq_det(load, delta).mean_wait == pytest.approx(wait, abs=DIGIT)


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_the_wait_comes_to_what_is_left_in_proportion_to_delta(load):
    left = rare_updates("sujsq-det", load).wait
    short = [left - sujsq_det(load, delta).mean_wait for delta in (0.02, 0.01, 0.005)]

    assert short[0] / short[1] == pytest.approx(2, rel=0.04)
    assert short[1] / short[2] == pytest.approx(2, rel=0.02)


def test_random_gaps_come_to_the_same_as_equal_ones():
    rest = sujsq_exp(0.5, 0.02, periods=200)

    assert rest.mean_wait == pytest.approx(rare_updates("sujsq-exp", 0.5).wait, rel=0.1)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("idle_only", [False, True])
def test_rare_asynchronous_updates_let_the_wait_grow_as_one_over_delta(load, idle_only):
    """What is left out is of order 1, next to 1/delta."""
    grows = rare_updates("aujsq-exp", load, idle_only=idle_only)
    rest = aujsq_exp(load, 1e-4, idle_only=idle_only)

    assert math.isinf(grows.wait)
    assert grows.wait_at(1e-4) == pytest.approx(rest.mean_wait, rel=0.01)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_equal_gaps_let_it_grow_too_and_by_less(load):
    rest = aujsq_det(load, 0.005)
    grows = rare_updates("aujsq-det", load)

    assert grows.slope == load / 2
    assert grows.slope < rare_updates("aujsq-exp", load).slope
    assert grows.wait_at(0.005) == pytest.approx(rest.mean_wait, rel=0.02)
    assert rare_updates("aujsq-det", load, idle_only=True).slope == grows.slope


def test_equal_gaps_where_only_idle_servers_tell_come_to_the_same():
    rest = aujsq_det(0.5, 0.01, idle_only=True)

    assert rest.mean_wait * 0.01 == pytest.approx(0.25, rel=0.04)


@pytest.mark.parametrize(
    ("load", "delta"), [(0.5, 0.62750049), (0.7, 1.31331201), (0.9, 4.66079348)]
)
def test_equal_gaps_need_fewer_updates_for_no_wait_as_known_to_the_last_digit(load, delta):
    enough = no_waiting_delta("aujsq-det", load)

    assert enough == pytest.approx(delta, abs=DIGIT)
    assert enough < no_waiting_delta("sujsq-det", load) == load / (1 - load)
    assert enough * -math.expm1(-1 / enough) == pytest.approx(load, rel=1e-13)


@settings(max_examples=20)
@given(load=st.floats(0.02, 0.98))
def test_nobody_waits_from_the_threshold_on_and_somebody_below(load):
    for scheme, solve in (("aujsq-det", aujsq_det), ("aujsq-exp", aujsq_exp)):
        for idle_only in (False, True):
            enough = no_waiting_delta(scheme, load)
            assert solve(load, enough * 1.001, idle_only=idle_only).mean_wait <= 1e-9
            assert solve(load, enough * 0.99, idle_only=idle_only).mean_wait > 1e-8


def test_no_update_rate_is_enough_at_random_gaps():
    assert math.isinf(no_waiting_delta("sujsq-exp", 0.5))
    assert sujsq_exp(0.5, 5.0, periods=300).mean_wait > 1e-6


@given(load=st.floats(0.01, 0.999))
def test_the_root_is_that_of_d_m_1_and_solves_its_equation(load):
    sigma = round_robin_root(load)

    assert sigma == pytest.approx(dm1_root(load), rel=1e-7)
    assert sigma == pytest.approx(math.exp(-(1 - sigma) / load), rel=1e-10)
    assert synchronous_wait(load)[1] >= sigma / (1 - sigma) * (1 - 1e-9)


@pytest.mark.parametrize("load", [1e-6, 1e-3, 1 - 1e-9])
def test_extreme_loads_have_an_answer(load):
    assert 0 <= round_robin_root(load) < 1
    assert math.isfinite(rare_updates("sujsq-det", load).wait)
    assert math.isfinite(no_waiting_delta("aujsq-det", load))


def test_few_tasks_wait_for_one_another_by_chance():
    """Two tasks in neighbouring intervals of 1/lam overlap with a wait of lam^2 on average."""
    assert rare_updates("sujsq-det", 1e-3).wait == pytest.approx(1e-6, rel=1e-2)


def test_what_makes_no_sense_is_told():
    for call in (no_waiting_delta, rare_updates):
        with pytest.raises(EquipoiseError, match=r"no scheme is called 'jsq'; they are: sujsq-det"):
            call("jsq", 0.5)
        for scheme in SCHEMES:
            with pytest.raises(UnstableError):
                call(scheme, 1.0)
            with pytest.raises(EquipoiseError, match="load = -1"):
                call(scheme, -1)
    with pytest.raises(EquipoiseError, match="do not settle"):
        rare_updates("sujsq-det", 0.5, idle_only=True)
    with pytest.raises(EquipoiseError, match="delta = 0"):
        rare_updates("aujsq-det", 0.5).wait_at(0)
