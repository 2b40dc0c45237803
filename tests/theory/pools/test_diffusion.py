"""Diffusion limits: known means, exact laws of the processes, and the chain at finite n."""

import math

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.theory.pools.diffusion import (
    autocorrelation,
    extrapolate,
    ornstein_uhlenbeck,
    reflected,
    spread,
    whole_load,
)
from equipoise.theory.pools.pairs import pair_law

KNOWN = [
    (1, 0.65322, 0.7883, 1.30643),
    (2, 0.83512, 1.4131, 2.50536),
    (3, 0.96056, 1.9868, 3.84225),
]


@pytest.mark.parametrize(("k", "missing", "square", "push"), KNOWN)
def test_whole_loads_have_the_known_means(k, missing, square, push):
    limit = whole_load(k)

    assert limit.missing == limit.beyond == pytest.approx(missing, abs=3e-5)
    assert limit.beyond_square == pytest.approx(square, abs=1.001e-4)
    assert limit.push == pytest.approx(push, abs=(k + 1) * 3e-5)
    assert limit.error < 1e-6
    assert limit.square_error < 1e-5


def test_extrapolation_is_exact_for_polynomials():
    def value(e):
        return 3 - 2 * e + 5 * e**2 + e**3

    limit, error = extrapolate([value(e) for e in (1, 0.5, 0.25, 0.125, 0.0625)])

    assert limit == pytest.approx(3, abs=1e-13)
    assert error < 1e-12


def test_paths_between_whole_loads_are_ornstein_uhlenbeck():
    """Variance lam, correlation e^-s; errors from 4000 independent paths."""
    paths, times = 4000, np.array([0.0, 0.5, 1.5])
    z = ornstein_uhlenbeck(2.5, times, np.random.default_rng(1), paths)

    for k, t in enumerate(times):
        square, product = z[:, k] ** 2, z[:, 0] * z[:, k]
        assert square.mean() == pytest.approx(2.5, abs=4 * square.std() / math.sqrt(paths))
        assert product.mean() == pytest.approx(
            2.5 * autocorrelation(t), abs=4 * product.std() / math.sqrt(paths)
        )


def test_paths_from_a_point_relax_to_rest():
    z = ornstein_uhlenbeck(2.5, [1.0], np.random.default_rng(2), 4000, start=6.0)[:, 0]

    assert z.mean() == pytest.approx(6 / math.e, abs=4 * z.std() / math.sqrt(4000))
    assert z.var() == pytest.approx(2.5 * (1 - math.exp(-2)), rel=4 * math.sqrt(2 / 4000))


@pytest.mark.parametrize("level", [1, 3])
def test_reflected_paths_have_the_means_of_the_extrapolated_chain(level):
    """At times 6 to 11, of 3000 paths, each averaged; within 4 errors and 3 % for the step.

    Without the least value within a step the reflection would be off by 0.58 sqrt(2 K dt), 20 %.
    """
    paths, limit = 3000, whole_load(level)
    drawn = reflected(level, np.arange(6, 12.0), np.random.default_rng(3), paths, dt=0.02)
    free = (drawn.beyond - drawn.missing) ** 2

    for values, known in (
        (drawn.missing, limit.missing),
        (drawn.beyond, limit.beyond),
        (drawn.beyond**2, limit.beyond_square),
        (free, level),
        ((drawn.push[:, -1:] - drawn.push[:, :1]) / 5, limit.push),
    ):
        means = values.mean(axis=1)
        error = means.std(ddof=1) / math.sqrt(paths)
        assert means.mean() == pytest.approx(known, abs=4 * error + 0.03 * known)


def test_reflected_paths_never_miss_less_than_nothing_and_are_pushed_upwards_only():
    drawn = reflected(2, np.linspace(0, 2, 81), np.random.default_rng(4), 50, start=(0.5, 1.0))

    assert drawn.missing.min() >= 0
    assert drawn.beyond.min() >= 0
    assert np.diff(drawn.push, axis=1).min() >= 0
    assert drawn.missing[:, 0].tolist() == [0.5] * 50
    assert drawn.push[:, 0].tolist() == [0.0] * 50


def test_without_a_push_the_pools_beyond_decay():
    """From far away M = 50 nothing is pushed, so Q = Q(0) e^(-(K+1) t)."""
    drawn = reflected(1, [0.5], np.random.default_rng(5), 3, start=(50.0, 2.0), dt=1e-4)

    assert drawn.push.max() == 0
    assert drawn.beyond == pytest.approx(2 * math.exp(-1), rel=1e-3)


def test_the_same_seed_draws_the_same_paths():
    one, two = (reflected(2, [1.0], np.random.default_rng(6), 5) for _ in range(2))

    assert one.missing.tolist() == two.missing.tolist()


def test_the_spread_is_normal_away_from_whole_loads_and_exact_near_them():
    far, near, half = spread(1600, 2.5), spread(400, 3.0), spread(400, 2.9)
    law = pair_law(400, 3.0)

    assert far.tasks == far.distance == pytest.approx(math.sqrt(2.5 / 1600))
    assert not far.whole_felt
    assert near.whole_felt
    assert near.misplaced == pytest.approx(law.missing / 400, rel=1e-10)
    assert near.distance == pytest.approx(
        math.sqrt(law.missing_square + law.beyond_square) / 400, rel=1e-10
    )
    assert half.deviations == pytest.approx(0.1 / math.sqrt(2.9 / 400))
    assert 0 < half.misplaced < near.misplaced


def test_the_spread_of_a_large_fleet_is_that_of_a_smaller_one_scaled():
    small, large = spread(3333, 3.0), spread(4 * 3333, 3.0)

    assert large.distance == pytest.approx(small.distance / 2, rel=2e-3)
    assert large.misplaced * math.sqrt(4 * 3333) == pytest.approx(whole_load(3).missing, rel=0.02)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: whole_load(0), "level = 0 must be a whole number >= 1"),
        (lambda: reflected(1, [1.0], np.random.default_rng(1), dt=0),
         "dt = 0 must be a number > 0, in mean service times"),
        (lambda: reflected(1, [1.0], np.random.default_rng(1), start=(-1, 0)),
         "start: M and Q must be >= 0"),
        (lambda: spread(0, 2.5), "servers = 0 must be a whole number >= 1"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(ask, said):
    with pytest.raises(EquipoiseError) as caught:
        ask()

    assert str(caught.value) == said
