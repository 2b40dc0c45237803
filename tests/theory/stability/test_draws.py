"""Power of d choices: published-size tables, brute force, growth, weights, a million servers."""

import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from theory.stability import brute

from equipoise.errors import EquipoiseError
from equipoise.theory import stability

SLOW_AND_FAST = [0.1] * 5 + [0.9] * 5


@pytest.mark.parametrize(
    ("mu", "d", "lam_max", "slow", "capacity", "optimal"),
    [
        ([0.2, 0.4, 0.6, 0.8], 2, 2.0, 4, 2.0, True),
        ([0.1, 0.1, 0.4, 0.4], 2, 1.0, 4, 1.0, True),
        ([0.1, 0.2, 0.3, 0.9, 0.9], 2, 2.0, 3, 2.4, False),
        ([0.1, 0.2, 0.3, 0.9, 0.9], 3, 2.4, 5, 2.4, True),
        (SLOW_AND_FAST, 2, 2.25, 5, 5.0, False),
        (SLOW_AND_FAST, 3, 5.0, 10, 5.0, True),
        ([0.02, 0.02, 0.02, 1, 1, 1], 2, 0.3, 3, 3.06, False),
        ([0.25, 0.75], 1, 0.5, 1, 1.0, False),
    ],
)
def test_the_table_of_capacities(mu, d, lam_max, slow, capacity, optimal):
    found = stability.jsq_d(mu, d)

    assert found.lam_max == found.lam_upper == pytest.approx(lam_max, rel=1e-12)
    assert found.capacity == pytest.approx(capacity, rel=1e-12)
    assert found.bottleneck.tolist() == np.argsort(mu, kind="stable")[:slow].tolist()
    assert found.optimal is optimal
    assert found.lam_max == pytest.approx(
        brute.lam_max(np.array(mu), brute.uniform_sets(len(mu), d))
    )


@pytest.mark.parametrize(("rate", "growth"), [(1.9, 0.0), (2.1, 0.03), (2.3, 0.09)])
def test_growth_beyond_the_boundary(rate, growth):
    found = stability.jsq_d([0.1, 0.2, 0.3, 0.9, 0.9], 2, rate=rate)

    assert found.growth == pytest.approx(growth, abs=1e-12)
    assert found.bottleneck_growth == pytest.approx(growth, abs=1e-12)
    assert found.stable is (growth == 0)


def test_the_total_grows_faster_than_the_bottleneck_where_two_sets_overflow():
    found = stability.jsq_d([0.05, 0.3, 0.3, 2.0], 1, rate=2.0)

    assert found.bottleneck.tolist() == [0]
    assert found.bottleneck_growth == pytest.approx(0.45)
    assert found.growth == pytest.approx(0.45 + 0.2 + 0.2)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("replacement", [False, True])
def test_formula_equals_brute_force(seed, replacement):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    mu, d = brute.random_speeds(rng, n), int(rng.integers(1, min(n, 4) + 1))
    law = brute.with_replacement(np.ones(n), d) if replacement else brute.uniform_sets(n, d)
    exact = brute.lam_max(mu, law)

    found = stability.jsq_d(mu, d, replacement=replacement, rate=1.2 * exact)

    assert found.lam_max == pytest.approx(exact, rel=1e-9)
    assert found.growth == pytest.approx(brute.growth(mu, law, 1.2 * exact), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("d", [1, 2, 3])
def test_weighted_draws_equal_brute_force(seed, d):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    mu, weights = brute.random_speeds(rng, n), brute.random_speeds(rng, n)
    law = brute.with_replacement(weights, d)
    exact = brute.lam_max(mu, law)

    found = stability.weighted(mu, weights, d, rate=1.2 * exact)

    assert found.lam_max == pytest.approx(exact, rel=1e-9)
    assert found.growth == pytest.approx(brute.growth(mu, law, 1.2 * exact), rel=1e-9, abs=1e-12)
    assert mu[found.bottleneck].sum() == pytest.approx(found.bottleneck_speed)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("draw", [brute.with_replacement, brute.successive])
def test_draws_in_proportion_to_speed_lose_nothing(seed, draw):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    mu, d = brute.random_speeds(rng, n), int(rng.integers(1, min(n, 3) + 1))

    found = stability.proportional(mu, d, replacement=draw is brute.with_replacement)

    assert found.lam_max == pytest.approx(mu.sum(), rel=1e-12)
    assert brute.lam_max(mu, draw(mu, d)) == pytest.approx(mu.sum(), rel=1e-9)


def test_groups_and_single_speeds_give_the_same_answer():
    groups = [(70, 1.0), (20, 0.05), (10, 0.3)]
    for d in (1, 2, 3, 50, 100):
        listed = stability.jsq_d(stability.as_fleet(groups).each(), d, rate=20.0)
        grouped = stability.jsq_d(groups, d, rate=20.0)

        assert grouped.lam_max == pytest.approx(listed.lam_max, rel=1e-12)
        assert grouped.growth == pytest.approx(listed.growth, abs=1e-12)
        assert grouped.bottleneck.tolist() == listed.bottleneck.tolist()


def test_d_of_all_servers_is_jsq_and_of_one_is_random():
    mu = [0.3, 0.1, 0.9]

    assert stability.jsq_d(mu, 3).lam_max == stability.jsq(mu).lam_max == pytest.approx(1.3)
    assert stability.jsq_d(mu, 1).lam_max == stability.random(mu).lam_max == pytest.approx(0.3)
    assert stability.random(mu, weights=mu).lam_max == pytest.approx(1.3)


def test_capacity_by_d_is_jsq_d_for_every_d_and_never_falls():
    groups = [(60, 1.0), (30, 0.02), (10, 0.3)]

    lam_max, slow = stability.capacity_by_d(groups, 100)

    for d in (1, 2, 3, 4, 5, 10, 99, 100):
        found = stability.jsq_d(groups, d)
        assert lam_max[d - 1] == pytest.approx(found.lam_max, rel=1e-12)
        assert slow[d - 1] == found.bottleneck.size
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(lam_max))


def test_a_mixture_of_d_equals_brute_force():
    mu = np.array([0.1, 0.2, 0.3, 0.9, 0.9])
    law = {one: 0.3 * p for one, p in brute.uniform_sets(5, 2).items()}
    law |= {one: 0.7 * p for one, p in brute.uniform_sets(5, 1).items()}

    assert stability.mixture(mu, {2: 0.3, 1: 0.7}).lam_max == pytest.approx(brute.lam_max(mu, law))


FLEETS = """
import numpy as np
from equipoise.theory import stability

groups = [(700_000, 1.0), (200_000, 0.01), (100_000, 0.3)]
for d in range(2, 101):
    stability.jsq_d(groups, d)
stability.capacity_by_d(groups, 100)
speeds = np.random.default_rng(1).random(10**6) + 0.001
for d in (2, 100):
    stability.jsq_d(speeds, d)
stability.capacity_by_d(speeds, 100)
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_million_servers_take_less_than_200_megabytes():
    """In a process of their own: each d by itself and all of them, in groups and one by one."""
    printed = subprocess.run(
        [sys.executable, "-c", FLEETS], capture_output=True, text=True, check=True
    ).stdout

    assert float(printed) < 200


def test_a_million_servers_in_groups_agree_with_whole_numbers():
    from fractions import Fraction

    n, slow, d = 10**6, 200_000, 7
    pi = Fraction(1)
    for i in range(d):
        pi *= Fraction(slow - i, n - i)

    found = stability.jsq_d([(n - slow, 1.0), (slow, 1e-6)], d)

    assert found.lam_max == pytest.approx(float(Fraction(2, 10) / pi), rel=1e-9)
    assert found.bottleneck.size == slow
    assert found.bottleneck[0] == n - slow


def test_the_answer_comes_at_once_for_groups_of_any_size():
    started = time.process_time()

    found = stability.jsq_d([(10**6 - 10, 1.0), (10, 1e-9)], 10)

    assert found.lam_max == pytest.approx(10**6 - 10, rel=1e-9)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: stability.jsq_d([1.0, 2.0], 3),
            "d = 3 is more than the 2 servers there are; use d <= 2",
        ),
        (lambda: stability.jsq_d([1.0], 0), "d = 0 must be a whole number >= 1"),
        (lambda: stability.jsq_d([1.0], 1.5), "d = 1.5 must be a whole number >= 1"),
        (
            lambda: stability.jsq_d([1.0], 1, rate=-1),
            "rate = -1 must be a finite number >= 0 of tasks per unit of time",
        ),
        (
            lambda: stability.weighted([1.0, 1.0], [1.0]),
            "weights must be 2 numbers, one for each of the servers",
        ),
        (
            lambda: stability.weighted([(3, 1.0), (2, 0.5)], [1, 1, 1, 1, 1]),
            "weights must be 2 numbers, one for each of the groups",
        ),
        (
            lambda: stability.weighted([1.0, 1.0], [1.0, 0.0]),
            "weight 1 = 0 must be a finite number > 0",
        ),
        (
            lambda: stability.mixture([1.0, 1.0], {1: 0.5, 2: 0.4}),
            "the chances of a mixture sum to 0.9, not 1",
        ),
        (
            lambda: stability.mixture([1.0, 1.0], {1: 1.5, 2: -0.5}),
            "the chances of a mixture must be probabilities >= 0",
        ),
    ],
)
def test_what_is_not_allowed_gets_one_clear_line(call, line):
    with pytest.raises(EquipoiseError) as refused:
        call()

    assert str(refused.value) == line
