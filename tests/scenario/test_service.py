"""Laws of service time: samples against closed-form moments and quantiles."""

import math

import numpy as np
import pytest
from scipy import stats

from equipoise.scenario import (
    BoundedPareto,
    Coxian,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    PhaseType,
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
    (  # hypoexponential after the first phase in a quarter of the cases
        Coxian(rates=(2.0, 0.5), probabilities=(0.25,)),
        1.0,
        2 * (1 / 4 + 0.25 * (1 / 0.25 + 1 / (2 * 0.5))) - 1,
        lambda x: (
            0.75 * (1 - np.exp(-2 * x))
            + 0.25 * (1 - (2 * np.exp(-0.5 * x) - 0.5 * np.exp(-2 * x)) / 1.5)
        ),
    ),
    (Coxian(rates=(2.0,) * 3, probabilities=(1, 1)), 1.5, 1 / 3, stats.gamma(3, scale=0.5).cdf),
    (  # the chain that goes back: a geometric number of visits makes it exponential again
        PhaseType(initial=(0.5, 0.5), generator=((-2.0, 1.0), (1.0, -2.0))),
        1.0,
        1.0,
        stats.expon().cdf,
    ),
    (
        PhaseType(initial=(0.3, 0.7), generator=((-4.0, 0.0), (0.0, -0.5))),
        0.3 / 4 + 0.7 * 2,
        2 * (0.3 / 16 + 0.7 * 4) / (0.3 / 4 + 0.7 * 2) ** 2 - 1,
        lambda x: 1 - 0.3 * np.exp(-4 * x) - 0.7 * np.exp(-0.5 * x),
    ),
    (
        BoundedPareto(index=1.5, least=0.5, largest=50.0),
        1.5 * 0.5**1.5 * (50**-0.5 - 0.5**-0.5) / -0.5 / (1 - 0.01**1.5),
        None,
        lambda x: (1 - (0.5 / x) ** 1.5) / (1 - 0.01**1.5),
    ),
    (  # with least 1: E S = ln 20 / 0.95, E S^2 = (20 - 1) / 0.95
        BoundedPareto(index=1.0, ratio=20.0, mean=3.0),
        3.0,
        19 / 0.95 / (math.log(20) / 0.95) ** 2 - 1,
        lambda x: (1 - (3 * 0.95 / math.log(20)) / x) / 0.95,
    ),
    (
        BoundedPareto(index=2.0, least=1.0, largest=10.0),
        2 * (1 - 0.1) / 0.99,
        2 * math.log(10) / 0.99 / (1.8 / 0.99) ** 2 - 1,
        stats.truncpareto(2.0, 10.0).cdf,
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


def test_the_phases_of_a_coxian_law_carry_their_loads():
    """The loads of theory for (mu1, mu2, p) = (4, 0.25, 0.1875): 0.25 and 0.75 of the mean."""
    law = Coxian(rates=(4.0, 0.25), probabilities=(0.1875,))

    assert law.moments().mean == pytest.approx(1.0)
    # E S^2 = 2 e_1' G^-2 1 with G^-1 written out by hand
    inverse = np.array([[-1 / 4, -0.1875 / 0.25], [0, -1 / 0.25]])
    second = 2 * (inverse @ inverse).sum(axis=1)[0]
    assert law.moments().scv == pytest.approx(second - 1)


def test_a_phase_that_never_ends_by_itself_never_does():
    """Chances of a third each sum to less than 1 by rounding; the draw must not fall beyond."""
    third = 1 / 3
    row = (-1.0, third, third, third)
    law = PhaseType(
        initial=(1, 0, 0, 0),
        generator=(row, (0, -1.0, 0, 0), (0, 0, -1.0, 0), (0, 0, 0, -1.0)),
    )

    assert (law.phases.steps[0, 3:] == 1.0).all()
    assert law.moments().mean == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("index", "ratio", "scv"),
    [
        (1.5, 1000.0, 3 * (1000**0.5 - 1) * (1 - 1000**-1.5) / (3 * (1 - 1000**-0.5)) ** 2 - 1),
        (1.0 + 1e-13, 100.0, None),
        (2.0 - 1e-13, 100.0, None),
    ],
)
def test_a_bounded_pareto_law_has_its_moments_at_and_near_whole_indices(index, ratio, scv):
    law = BoundedPareto(index=index, ratio=ratio)
    exact = BoundedPareto(index=float(round(index, 6)), ratio=ratio)

    assert law.moments().mean == pytest.approx(1.0)
    assert law.moments().scv == pytest.approx(exact.moments().scv, rel=1e-9)
    if scv is not None:
        assert law.moments().scv == pytest.approx(scv)


def test_laws_with_a_hyphen_are_written_as_calls_too():
    from equipoise.scenario.flags import parse_service

    given = parse_service("phase-type(initial=[1, 0], generator=[[-2, 1], [0, -0.5]])")

    assert given["law"] == "phase-type"
    assert given["generator"] == [[-2, 1], [0, -0.5]]
    assert parse_service("bounded-pareto(index=1.5, ratio=1000)")["ratio"] == 1000
