"""Offered loads against closed forms, and against the definition by an ordinary integrator."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm

from equipoise.errors import EquipoiseError
from equipoise.theory.pools.offered_load import (
    EXPONENTIAL,
    Constant,
    Coxian,
    Curve,
    Piecewise,
    Sinusoid,
    Table,
    arrival_masses,
    as_rate,
    crossings,
    offered_load,
    phase_loads,
    resting_load,
)

TIMES = np.array([0.0, 0.3, 1.0, 4.0, 11.0])
TWO = Coxian((2.0, 0.5), (0.25,))
OTHER = Coxian((4.0, 0.25), (0.1875,))
THREE = Coxian((3.0, 3.0, 1.0), (0.5, 0.4))


def published(t):
    """The rate of the authors' time-varying run."""
    return np.select(
        [t < 2, t < 15, t < 20, t < 30, t < 33],
        [
            1.2 * t,
            2.4 + 0.3 * np.sin(2 * np.pi * t),
            2.4 + 0.172 * (t - 15) ** 2,
            np.full(np.shape(t), 6.7),
            6.7 - 3.7 / 9 * (t - 30) ** 2,
        ],
        3 + 0.3 * np.sin(2 * np.pi * (t - 3) / 10),
    )


def test_a_constant_rate_fills_like_one_minus_e_to_the_minus_t():
    assert offered_load(2.5, TIMES) == pytest.approx(2.5 * (1 - np.exp(-TIMES)), abs=1e-13)
    assert offered_load(2.5, TIMES, start=4.0) == pytest.approx(
        2.5 + 1.5 * np.exp(-TIMES), abs=1e-13
    )


@given(a=st.floats(1, 9), part=st.floats(-1, 1), w=st.floats(0.1, 20), mu=st.floats(0.3, 4))
def test_a_sinusoid_has_the_known_load(a, part, w, mu):
    b = a * part
    t = TIMES
    known = a / mu * (1 - np.exp(-mu * t)) + b * (
        mu * np.sin(w * t) - w * np.cos(w * t) + w * np.exp(-mu * t)
    ) / (mu**2 + w**2)

    assert offered_load(Sinusoid(a, b, w), t, Coxian((mu,))) == pytest.approx(known, abs=1e-11)


def test_a_phase_shifts_a_sinusoid():
    cosine = Sinusoid(5, 2, 3.0, phase=math.pi / 2)

    assert cosine.at(TIMES) == pytest.approx(5 + 2 * np.cos(3 * TIMES))


def test_a_piecewise_rate_fills_and_empties():
    rate = Piecewise([0, 1, 2.5], [4.0, 1.0])
    t = np.array([0.5, 1.0, 2.0, 2.5, 5.0])
    one, two = 4 * (1 - math.exp(-1)), 0.0
    two = 1 + (one - 1) * math.exp(-1.5)
    known = [4 * (1 - math.exp(-0.5)), one, 1 + (one - 1) * math.exp(-1), two, two * math.exp(-2.5)]

    assert offered_load(rate, t) == pytest.approx(known, abs=1e-13)
    assert rate.at(np.array([-1, 0, 0.99, 1, 2.5, 3])).tolist() == [0, 4, 4, 1, 0, 0]


def test_a_table_is_linear_between_its_points_and_constant_beyond():
    rate = Table([0, 2, 4], [0.0, 6.0, 3.0])
    t = np.array([1.0, 2.0, 9.0])
    ramp = 3 * (t[:2] - 1 + np.exp(-t[:2]))  # r' = 3 t - r
    later = solve_ivp(
        lambda s, r: rate.at(s) - r, (2, 9), [ramp[1]], rtol=1e-11, atol=1e-12, max_step=0.05
    )

    assert offered_load(rate, t) == pytest.approx([*ramp, later.y[0, -1]], abs=1e-9)
    assert rate.at(np.array([3.0, 10.0])).tolist() == [4.5, 3.0]


def test_a_curve_is_integrated_between_its_breaks():
    rate = Curve(published, breaks=np.array([2, 15, 20, 30, 33.0]), panel=0.05)
    known = [
        quad(lambda s, t=t: float(published(np.array(s))) * math.exp(s - t), 0, t, limit=800,
             points=[b for b in (2, 15, 20, 30, 33) if b < t])[0]
        for t in (1.0, 14.0, 19.0, 33.0, 45.0)
    ]  # fmt: skip

    assert offered_load(rate, [1.0, 14.0, 19.0, 33.0, 45.0]) == pytest.approx(known, abs=1e-8)


@pytest.mark.parametrize("service", [TWO, OTHER, THREE])
def test_phases_follow_their_linear_equations(service):
    rate = Sinusoid(4.5, 1.0, 3.0)
    first = np.eye(service.phases)[0]
    solved = solve_ivp(
        lambda t, r: r @ service.generator + rate.at(t) * first,
        (0, 11),
        np.zeros(service.phases),
        t_eval=TIMES,
        rtol=1e-11,
        atol=1e-12,
    )

    assert phase_loads(rate, TIMES, service) == pytest.approx(solved.y.T, abs=1e-8)


@pytest.mark.parametrize(
    ("service", "mean", "loads"),
    [(TWO, 1.0, [2.75, 2.75]), (OTHER, 1.0, [1.375, 4.125]), (EXPONENTIAL, 1.0, [5.5])],
)
def test_means_and_phase_loads_at_rest_are_the_known_ones(service, mean, loads):
    assert service.mean == pytest.approx(mean, rel=1e-15)
    assert 5.5 * service.phase_means == pytest.approx(loads, rel=1e-14)
    assert resting_load(5.5, service) == pytest.approx(5.5, rel=1e-14)
    assert phase_loads(5.5, [200.0], service)[0] == pytest.approx(loads, abs=1e-10)


def test_moments_are_those_of_the_sum_of_the_phases():
    """S = A + I B with P(I = 1) = p: E S^2 = 2/a^2 + p (2/(a b) + 2/b^2)."""
    a, b, p = 2.0, 0.5, 0.25
    square = 2 / a**2 + p * (2 / (a * b) + 2 / b**2)

    assert TWO.second_moment == pytest.approx(square, rel=1e-14)
    assert TWO.scv == pytest.approx(square - 1, rel=1e-14)
    assert Coxian((3.0,)).scv == pytest.approx(1.0, rel=1e-14)
    assert Coxian((2.0, 2.0), (1.0,)).scv == pytest.approx(0.5, rel=1e-14)  # Erlang


@pytest.mark.parametrize("service", [EXPONENTIAL, TWO, THREE])
def test_survival_is_the_matrix_exponential_summed(service):
    ages = np.array([[0.0, 0.01, 1.0], [3.0, 10.0, 40.0]])
    known = [[expm(service.generator * age)[0].sum() for age in row] for row in ages]

    assert service.survival(ages) == pytest.approx(np.array(known), rel=1e-11)


@pytest.mark.parametrize("service", [EXPONENTIAL, TWO])
@pytest.mark.parametrize("rate", [Constant(2.0), Piecewise([0.05, 0.13, 0.5], [3.0, 1.0])])
def test_what_came_in_a_step_is_what_its_definition_says(rate, service):
    edges = np.linspace(0, 0.4, 5)
    known = [
        quad(lambda s, b=b: float(rate.at(np.array(s))) * float(service.survival(np.array(b - s))),
             a, b, points=[0.05, 0.13])[0]
        for a, b in itertools.pairwise(edges)
    ]  # fmt: skip

    assert arrival_masses(rate, edges, service) == pytest.approx(known, abs=1e-9)


def test_crossings_of_multiples_are_counted():
    """rho of 5 + 1.2 sin 2t swings between 4.46 and 5.54: 4 times up to 5, then through it."""
    assert crossings(5.5, 60.0) == 5
    assert crossings(Sinusoid(5, 1.2, 2.0), 30.0, step=2) == 2
    assert crossings(Sinusoid(4.5, 1.0, 3.0), 30.0) == 4
    assert crossings(Sinusoid(5, 1.2, 2.0), 2 * math.pi * 10 / 2) >= 5 + 2 * 8


def test_numbers_and_functions_are_rates():
    assert as_rate(3).at(np.zeros(2)).tolist() == [3, 3]
    assert as_rate(lambda t: 1 + t).at(np.array([2.0])).tolist() == [3]
    assert as_rate(as_rate(3)) == as_rate(3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Constant(-1), "rate = -1 must be a number >= 0"),
        (lambda: Sinusoid(1, 2, 1), "amplitude = 2 is above mean = 1: the rate would fall below 0"),
        (lambda: Sinusoid(1, 1, 0), "omega = 0 must be a number > 0"),
        (lambda: Piecewise([0, 1], [1, 2]),
         "2 edges for 2 rates; there must be one more than rates"),
        (lambda: Piecewise([0, 0], [1]), "edges must ascend"),
        (lambda: Table([0, 1], [1, -2]), "a rate = -2 must be a number >= 0"),
        (lambda: Table([0, 1], [1]), "2 times for 1 rates; there must be as many"),
        (lambda: Table([], []), "times must be numbers, at least one"),
        (lambda: Coxian(()), "mu = () must be one or more numbers > 0, a phase each"),
        (lambda: Coxian((1, 2)),
         "p = () must be 1 probabilities, one between each phase and the next"),
        (lambda: offered_load(1, [1, 0]), "times must ascend from 0 on"),
        (lambda: offered_load(lambda t: t - 1, [1]),
         "the arrival rate must be a number >= 0 at all times"),
        (lambda: as_rate("fast"), "load = 'fast' must be a number, a rate or a function of time"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(EquipoiseError) as caught:
        make()

    assert str(caught.value) == said
