"""The generator against its authors' own, and its laws."""

import numpy as np
import pytest
from scipy import stats

from equipoise.compile import kernel
from equipoise.rng import (
    SOON,
    ahead,
    below,
    erlang,
    exponential,
    exponential_soon,
    log_poisson,
    make_rng,
    make_soon,
    normal,
    peek,
    poisson,
    uniform,
    uniform_soon,
    word,
)

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


def fill_poisson(rng, mean, out):
    for i in range(out.size):
        out[i] = poisson(rng, mean)


def fill_erlang(rng, phases, out):
    for i in range(out.size):
        out[i] = erlang(rng, phases)


def fill_normal(rng, out):
    for i in range(out.size):
        out[i] = normal(rng)


@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.7, 9.99, 10.0, 12.5, 40.0, 1000.0])
def test_poisson_numbers_follow_their_law(mean):
    found = drawn(fill_poisson, mean).astype(int)

    law = stats.poisson(mean)
    least, most = int(law.ppf(1e-5)), int(law.isf(1e-5))
    expected = found.size * law.pmf(np.arange(least, most + 1))
    expected[0], expected[-1] = found.size * law.cdf(least), found.size * law.sf(most - 1)
    seen = np.bincount(np.clip(found, least, most) - least, minlength=expected.size)
    assert stats.chisquare(seen, expected).pvalue > LEVEL if mean else not found.any()


@pytest.mark.parametrize("mean", [1e6, 1e9, 1e13])
def test_poisson_numbers_of_large_means_follow_their_law(mean):
    """Spread over whole numbers the law is continuous; scipy's has 13 digits at these means."""
    found = drawn(fill_poisson, mean, count=1_000_000)

    scale = np.sqrt(mean)
    spread = found + np.random.default_rng(1).random(found.size) - 0.5
    # Cornish and Fisher: the law of the standardized number up to terms of order 1/mean
    standard = (spread - mean) / scale
    normal_ = standard - (standard**2 - 1) / (6 * scale)
    assert stats.kstest(normal_, "norm").pvalue > LEVEL
    assert abs(found.mean() - mean) < 4 * scale / 1000
    assert abs(found.var() / mean - 1) < 4 * np.sqrt(2 / found.size)


@pytest.mark.parametrize("k", [0, 1, 7, 15, 16, 1000, 10**6, 10**9])
def test_the_logarithm_of_a_poisson_probability_is_scipys(k):
    for mean in (0.9 * k + 0.1, k + 1.0, 1.5 * k + 3):
        assert log_poisson(float(k), mean) == pytest.approx(
            stats.poisson(mean).logpmf(k), rel=1e-9, abs=1e-6
        )


@pytest.mark.parametrize("phases", [1, 2, 15, 16, 100, 10_000])
def test_sums_of_exponentials_are_erlang(phases):
    assert stats.kstest(drawn(fill_erlang, phases), stats.gamma(phases).cdf).pvalue > LEVEL


def test_normal_draws_are_normal():
    assert stats.kstest(drawn(fill_normal), "norm").pvalue > LEVEL


def test_the_new_draws_are_the_same_in_plain_python():
    for fill, *given in (fill_poisson, 3.0), (fill_poisson, 1e6), (fill_erlang, 20), (fill_normal,):
        plain = np.zeros(50)
        fill(make_rng(7), *given, plain)

        assert plain == pytest.approx(drawn(fill, *given, count=50), rel=1e-14)


def test_what_is_ahead_is_what_will_be_drawn_and_nothing_is_drawn():
    look = kernel(lambda rng: ahead(rng))
    plain, compiled, later = make_rng(3), make_rng(3), make_rng(3)

    seen, seen_too = ahead(plain), look(compiled)

    assert seen == seen_too == tuple(uniform(later) for _ in range(6))
    assert list(plain) == list(compiled) == list(make_rng(3))


def play_soon(soon, out):
    """Two kinds of draws in turn, and before each what the word after four others will give."""
    for i in range(out.shape[0]):
        out[i, 0] = peek(soon, 4)
        out[i, 1] = exponential_soon(soon) if i % 3 == 2 else uniform_soon(soon)


def test_what_is_held_ahead_is_drawn_one_word_a_draw_and_can_be_looked_at_before():
    """Thirty thousand draws: the rare branches of the ziggurat take more words, from elsewhere."""
    plain, compiled = np.zeros((30_000, 2)), np.zeros((30_000, 2))

    play_soon(make_soon(make_rng(5)), plain)
    kernel(play_soon)(make_soon(make_rng(5)), compiled)

    assert (plain == compiled).all()
    uniforms = np.arange(30_000) % 3 != 2
    seen, came = plain[:-4, 0][uniforms[4:]], plain[4:, 1][uniforms[4:]]
    assert (seen == came).all()
    assert stats.kstest(plain[~uniforms, 1], "expon").pvalue > LEVEL
    assert stats.kstest(plain[uniforms, 1], "uniform").pvalue > LEVEL
    rng = make_rng(5)
    first = [uniform(rng) for _ in range(SOON)]
    assert plain[:12, 0].tolist() == first[4:]


def test_no_word_is_drawn_twice():
    """Held ones and those from beyond: together they are the generator's, each of them once."""
    soon, rng = make_soon(make_rng(6)), make_rng(6)

    taken = [number for _ in range(40) for number in (uniform_soon(soon), uniform(soon.state))]

    left = [uniform_soon(soon) for _ in range(SOON)]
    every = [uniform(rng) for _ in range(len(taken) + SOON)]
    assert sorted(taken + left) == sorted(every)
