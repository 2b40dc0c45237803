"""Laws of service time: samples against closed-form moments and quantiles."""

import math

import numpy as np
import pytest
from scipy import stats

from equipoise.scenario import (
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
)

K = 200_000
HYPER = Hyperexponential(mean=2.0, scv=4.0)
P = (1 + math.sqrt(3 / 5)) / 2  # balanced means for scv 4
# Each law with its mean, its scv, and its distribution function written independently.
LAWS = [
    (Exponential(mean=2.0), 2.0, 1.0, stats.expon(scale=2.0).cdf),
    (Erlang(shape=3, mean=1.5), 1.5, 1 / 3, stats.gamma(3, scale=0.5).cdf),
    (
        HYPER,
        2.0,
        4.0,
        lambda x: 1 - P * np.exp(-x * P) - (1 - P) * np.exp(-x * (1 - P)),
    ),
    (
        Hyperexponential(probabilities=(0.2, 0.3, 0.5), means=(5.0, 1.0, 0.2)),
        1.4,
        2 * (0.2 * 25 + 0.3 + 0.5 * 0.04) / 1.4**2 - 1,
        lambda x: 1 - 0.2 * np.exp(-x / 5) - 0.3 * np.exp(-x) - 0.5 * np.exp(-5 * x),
    ),
    (
        Lognormal(mean=3.0, scv=2.0),
        3.0,
        2.0,
        stats.lognorm(math.sqrt(math.log(3)), scale=3 / math.sqrt(3)).cdf,
    ),
    (
        Empirical(quantiles=(1.0, 2.0, 4.0), constant=0.5, factor=2.0),
        0.5 + 2 * (0.5 * 1.5 + 0.5 * 3.0),
        None,
        lambda x: np.interp(x, [2.5, 4.5, 8.5], [0, 0.5, 1]),
    ),
    (
        Empirical(quantiles=(0.0, 1.0, 11.0), probabilities=(0.0, 0.9, 1.0)),
        0.9 * 0.5 + 0.1 * 6,
        None,
        lambda x: np.interp(x, [0, 1, 11], [0, 0.9, 1]),
    ),
]


@pytest.mark.parametrize(("law", "mean", "scv", "cdf"), LAWS, ids=[repr(law[0]) for law in LAWS])
def test_samples_follow_their_law(law, mean, scv, cdf):
    x = law.sample(np.random.default_rng(1), K)

    assert law.moments().mean == pytest.approx(mean, rel=1e-12)
    assert abs(x.mean() - mean) < 4 * x.std() / math.sqrt(K)
    assert stats.kstest(x, cdf).pvalue > 1e-3
    if scv is not None:
        assert law.moments().scv == pytest.approx(scv, rel=1e-12)
    squares = x**2
    second = law.moments().mean ** 2 * (1 + law.moments().scv)
    assert abs(squares.mean() - second) < 4 * squares.std() / math.sqrt(K)


def test_deterministic_times_are_all_equal():
    x = Deterministic(value=0.25).sample(np.random.default_rng(1), 5)

    assert x.tolist() == [0.25] * 5
    assert Deterministic(mean=0.25).moments() == (0.25, 0.0)


def test_empirical_values_are_drawn_alike():
    law = Empirical(values=(1.0, 1.0, 4.0), factor=0.5)
    x = law.sample(np.random.default_rng(1), K)

    assert set(x) == {0.5, 2.0}
    assert abs((x == 2.0).mean() - 1 / 3) < 4 * math.sqrt(2 / 9 / K)
    assert law.moments().mean == pytest.approx(1.0)
    assert law.moments().scv == pytest.approx(0.5)


def test_an_scv_of_one_makes_the_hyperexponential_exponential():
    _, means = Hyperexponential(mean=3.0, scv=1.0).kinds

    assert means == pytest.approx([3.0, 3.0])


def test_balanced_means_bring_the_same_work_in_both_kinds():
    probabilities, means = HYPER.kinds

    assert probabilities[0] * means[0] == pytest.approx(probabilities[1] * means[1])


def test_empirical_quantiles_may_come_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.csv").write_text("# tokens\nprobability,quantile\n0,10\n0.5,20\n1,90")

    law = Empirical(file="q.csv", constant=0.05, factor=0.02)

    assert law.moments().mean == pytest.approx(0.05 + 0.02 * (0.5 * 15 + 0.5 * 55))
    assert law.inlined()["quantiles"] == [10, 20, 90]
