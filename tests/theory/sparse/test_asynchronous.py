"""Asynchronous updates at rest, against published figures, generators and matrix exponentials."""

import math

import numpy as np
import pytest
from theory.sparse import independent

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import aujsq_det, aujsq_exp

DIGIT = 1.0001e-8  # one unit of the last digit

# load, delta: level, rate, mean tasks, mean wait, law of the lengths
EXP = {
    (0.5, 2.0): (0, 2.0, 0.5, 0.0, [0.5, 0.5]),
    (0.5, 0.5): (1, 0.68614066, 0.63564322, 0.27128645, [0.5, 0.36435678, 0.13564322]),
    (0.3, 0.2): (1, 1.67156334, 0.40428122, 0.34760407, [0.7, 0.19571878, 0.10428122]),
    (0.7, 0.7): (
        2,
        0.13908007,
        1.20769554,
        0.72527934,
        [0.3, 0.24258035, 0.40714376, 0.05027589],
    ),
    (0.7, 0.4): (
        3,
        0.22970950,
        1.64868868,
        1.35526955,
        [0.3, 0.15191154, 0.20085961, 0.29385747, 0.05337137],
    ),
    (0.9, 0.9): (
        3,
        0.40070631,
        2.40183120,
        1.66870133,
        [0.1, 0.10968187, 0.21431402, 0.44049515, 0.13550896],
    ),
    (0.9, 0.5): (
        5,
        0.25782674,
        3.58529879,
        2.98366533,
        [0.1, 0.05944304, 0.08687770, 0.13573971, 0.21314251, 0.33647106, 0.06832598],
    ),
    (0.8, 0.25): (
        7,
        0.02765360,
        3.90444335,
        3.88055419,
        [
            0.2,
            0.05445608,
            0.06485127,
            0.08140761,
            0.10219842,
            0.12830879,
            0.16110246,
            0.20229348,
            0.00538189,
        ],
    ),
    (0.9, 0.1): (24, 0.00572186, 15.05461102, 15.72734558, None),
}

# load, delta: level, rate, mean wait, law of the lengths
DET = {
    (0.5, 1.0): (0, 2.03090240, 0.0, [0.5, 0.5]),
    (0.5, 0.6): (1, 0.02915832, 0.02757713, [0.5, 0.48621144, 0.01378856]),
    (0.7, 0.7): (1, 0.68753038, 0.30977991, [0.3, 0.48315406, 0.21684594]),
    (0.7, 0.35): (
        2,
        0.30704384,
        0.72057477,
        [0.3, 0.27309569, 0.34940627, 0.07749803],
    ),
    (0.9, 0.45): (
        3,
        0.25645847,
        1.46756821,
        [0.1, 0.14736330, 0.26635884, 0.40438104, 0.08189682],
    ),
}


@pytest.mark.parametrize("case", EXP)
def test_random_times_come_to_the_known_rest_to_the_last_digit(case):
    level, rate, tasks, wait, law = EXP[case]
    rest = aujsq_exp(*case)

    assert rest.level == level
    assert rest.rate == pytest.approx(rate, abs=DIGIT)
    assert rest.mean_tasks == pytest.approx(tasks, abs=DIGIT)
    assert rest.mean_wait == pytest.approx(wait, abs=DIGIT)
    assert law is None or rest.lengths == pytest.approx(law, abs=DIGIT)


@pytest.mark.parametrize("case", DET)
def test_equal_gaps_come_to_the_known_rest_to_the_last_digit(case):
    level, rate, wait, law = DET[case]
    rest = aujsq_det(*case)

    assert rest.level == level
    assert rest.rate == pytest.approx(rate, abs=DIGIT)
    assert rest.mean_wait == pytest.approx(wait, abs=DIGIT)
    assert rest.lengths == pytest.approx(law, abs=DIGIT)


def cases(count, seed):
    """Random loads and update rates, loads at least 0.001 from those where levels change."""
    rng = np.random.default_rng(seed)
    while count:
        load, delta = rng.uniform(0.1, 0.95), rng.uniform(0.2, 2)
        special = 1 - (1 + delta) ** -np.arange(0.0, 40)
        if np.abs(special - load).min() >= 1e-3:
            count -= 1
            yield load, delta


def test_the_closed_form_is_that_of_the_generator_for_200_random_cases():
    for load, delta in cases(200, seed=6):
        m, nu = independent.rest(lambda m, nu: independent.exp_law(m, nu, delta), load)  # noqa: B023
        rest = aujsq_exp(load, delta)

        assert rest.level == m
        assert rest.rate == pytest.approx(nu, rel=1e-7)
        law, _ = independent.exp_law(m, nu, delta)
        assert rest.lengths == pytest.approx(law, abs=1e-10)


def test_the_closed_form_of_idle_servers_is_that_of_the_generator():
    for load, delta in cases(60, seed=7):
        found = aujsq_exp(load, delta, idle_only=True)
        if found.level > 12 or not 1e-3 < found.rate < 1e3:
            continue
        m, nu = independent.rest(
            lambda m, nu: independent.exp_law(m, nu, delta, idle_only=True),  # noqa: B023
            load,
        )
        law, _ = independent.exp_law(m, nu, delta, idle_only=True)

        assert found.level == m
        assert found.lengths == pytest.approx(law, abs=1e-10)
        assert found.messages() == pytest.approx(delta * (1 - load) / load, rel=1e-14)


@pytest.mark.parametrize("idle_only", [False, True])
def test_equal_gaps_are_those_of_the_matrix_exponential(idle_only):
    count = 0
    for load, delta in cases(40, seed=8):
        found = aujsq_det(load, delta, idle_only=idle_only)
        if found.level > 6 or not 1e-4 < found.rate < 1e3:
            continue
        law, idle = independent.det_law(found.level, found.rate, delta, idle_only)
        count += 1

        assert law[0] == pytest.approx(1 - load, abs=1e-10)
        assert found.lengths == pytest.approx(law, abs=1e-10)
        assert found.idle_told == pytest.approx(idle, abs=1e-10)
    assert count > 20


@pytest.mark.parametrize("case", [(0.7, 0.7), (0.9, 0.45), (0.5, 1.0)])
@pytest.mark.parametrize("idle_only", [False, True])
def test_equal_gaps_start_from_the_first_level_that_can_carry_the_load(case, idle_only):
    load, delta = case
    found = aujsq_det(load, delta, idle_only=idle_only)
    m, nu = independent.rest(lambda m, nu: independent.det_law(m, nu, delta, idle_only), load)

    assert (found.level, found.rate) == (m, pytest.approx(nu, rel=1e-7))


def test_what_is_sent_to_the_lowest_estimate_is_what_updates_leave_over():
    """nu A = lam - delta sum_{i < m} (m - i) pi(i), A those of estimate m: 0.25 at (0.5, 0.5)."""
    for load, delta in EXP:
        rest = aujsq_exp(load, delta)
        m, law = rest.level, rest.lengths
        _, part = independent.exp_law(m, rest.rate, delta)
        left = load - delta * sum((m - i) * law[i] for i in range(m))

        assert rest.rate * part == pytest.approx(left, abs=1e-10)
    rest = aujsq_exp(0.5, 0.5)
    assert rest.rate * independent.exp_law(1, rest.rate, 0.5)[1] == pytest.approx(0.25, abs=1e-10)


@pytest.mark.parametrize(
    ("case", "tasks"),
    [
        ((0.5, 0.5), 0.635633),
        ((0.7, 0.4), 1.648686),
        ((0.9, 0.5), 3.58442),
        ((0.8, 0.25), 3.90421),
    ],
)
def test_time_stepping_comes_to_the_same(case, tasks):
    assert aujsq_exp(*case).mean_tasks == pytest.approx(tasks, abs=1e-3)


@pytest.mark.parametrize("scheme", [aujsq_exp, aujsq_det])
@pytest.mark.parametrize("idle_only", [False, True])
@pytest.mark.parametrize("load", [0.05, 0.5, 0.95, 0.99])
@pytest.mark.parametrize("delta", [0.1, 0.77, 30.0])
def test_laws_are_laws_with_as_many_busy_as_there_is_load(scheme, idle_only, load, delta):
    if idle_only and load / (delta * (1 - load)) > 200:
        pytest.skip("hundreds of tasks at once")
    rest = scheme(load, delta, idle_only=idle_only)

    assert rest.lengths.min() >= -1e-12
    assert rest.lengths.sum() == pytest.approx(1, abs=1e-11)
    assert rest.lengths[0] == pytest.approx(1 - load, abs=1e-9)
    assert rest.error <= 1e-6


@pytest.mark.parametrize("delta", [0.5, 1.0])
@pytest.mark.parametrize("m", [2, 3])
def test_the_mean_length_has_a_vertical_tangent_below_the_loads_where_levels_change(delta, m):
    """It falls short like a power 1/m of the distance, and is smooth above."""
    edge = 1 - (1 + delta) ** -m
    there = aujsq_exp(edge, delta)
    below = [there.mean_tasks - aujsq_exp(edge - e, delta).mean_tasks for e in (1e-9, 1e-9 / 4**m)]
    above = [aujsq_exp(edge + e, delta).mean_tasks - there.mean_tasks for e in (1e-6, 2.5e-7)]

    assert there.rate == pytest.approx(0, abs=1e-9)
    assert below[0] / below[1] == pytest.approx(4, rel=0.05)
    assert above[0] / above[1] == pytest.approx(4, rel=0.05)
    assert above[0] < 1e-4


def test_where_levels_change_rounding_decides_nothing():
    """The same law as m with nu = 0 and as m - 1 with nu without bound."""
    for delta in (0.25, 0.5, 1.0, 3.0):
        for m in (1, 2, 3):
            edge = 1 - (1 + delta) ** -m
            laws = [aujsq_exp(edge + e, delta).mean_tasks for e in (-1e-15, 0.0, 1e-15)]

            assert max(laws) - min(laws) <= 1e-3


def test_nobody_waits_where_one_telling_brings_one_task():
    for load in (0.2, 0.5, 0.9):
        enough = load / (1 - load)
        assert aujsq_exp(load, enough).mean_wait == 0
        assert aujsq_exp(load, enough, idle_only=True).messages() == pytest.approx(1)
        assert aujsq_exp(load, enough * 0.99).mean_wait > 0
    assert math.isinf(aujsq_exp(0.5, 1.0).rate)


@pytest.mark.parametrize("scheme", [aujsq_exp, aujsq_det])
def test_what_makes_no_sense_is_told(scheme):
    for delta in (0, -0.5, math.inf, math.nan):
        with pytest.raises(EquipoiseError, match="delta"):
            scheme(0.5, delta)
    for load in (1, 2.0):
        with pytest.raises(UnstableError, match="faster than the servers"):
            scheme(load, 1.0)
    with pytest.raises(EquipoiseError, match="load = 0 must be"):
        scheme(0, 1.0)
