"""The generator against its authors' own, and its laws."""

import numpy as np
from scipy import stats

from equipoise.compile import kernel
from equipoise.rng import below, exponential, make_rng, uniform, word

LEVEL = 6.3e-5  # as often wrong as four standard errors


def fill_uniform(rng, out):
    for i in range(out.size):
        out[i] = uniform(rng)


def fill_exponential(rng, out):
    for i in range(out.size):
        out[i] = exponential(rng)


def fill_below(rng, n, out):
    for i in range(out.size):
        out[i] = below(rng, n)


def drawn(fill, *arguments, count=400_000, seed=7):
    out = np.zeros(count)
    kernel(fill)(make_rng(seed), *arguments, out)
    return out


def test_words_are_those_of_xoshiro256_plus_plus():
    """From the state 1, 2, 3, 4, by the C program of Blackman and Vigna."""
    rng = np.array([1, 2, 3, 4], np.uint64)
    expected = [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
        14011001112246962877,
        12406186145184390807,
        15849039046786891736,
        10450023813501588000,
    ]

    assert [word(rng) for _ in expected] == [(w >> 11, w & 255) for w in expected]


def test_uniform_draws_are_uniform():
    found = drawn(fill_uniform)

    assert found.min() >= 0
    assert found.max() < 1
    assert stats.kstest(found, "uniform").pvalue > LEVEL
    assert stats.kstest((found * 2**20) % 1, "uniform").pvalue > LEVEL  # the lower bits too


def test_exponential_draws_are_exponential():
    """In the middle and in the tail, where the ziggurat's base layer ends at 7.697."""
    found = drawn(fill_exponential, count=2_000_000)

    assert stats.kstest(found, "expon").pvalue > LEVEL
    far = found[found > 7.69711747013104972]
    assert abs(far.size - 2e6 * np.exp(-7.69711747013104972)) < 4 * np.sqrt(far.size)
    assert stats.kstest(far - 7.69711747013104972, "expon").pvalue > LEVEL
    cells = np.bincount(np.minimum(found * 40, 400).astype(int), minlength=401)
    edges = np.append(np.arange(401) / 40, np.inf)
    assert stats.chisquare(cells, 2e6 * -np.diff(np.exp(-edges))).pvalue > LEVEL


def test_whole_numbers_below_n_are_equally_likely():
    for n in (1, 2, 3, 7, 1000):
        found = drawn(fill_below, n).astype(int)

        assert stats.chisquare(np.bincount(found, minlength=n)).pvalue > LEVEL if n > 1 else True
        assert found.min() >= 0
        assert found.max() == n - 1


def test_draws_that_follow_each_other_are_independent():
    found = drawn(fill_uniform)

    for lag in (1, 2, 5):
        assert abs(np.corrcoef(found[lag:], found[:-lag])[0, 1]) < 4 / np.sqrt(found.size)


def test_streams_of_one_seed_have_nothing_in_common():
    children = np.random.SeedSequence(1).spawn(5)
    states = [make_rng(child) for child in children]

    assert len({tuple(state) for state in states}) == 5
    assert (make_rng(np.random.SeedSequence(3)) == make_rng(3)).all()
