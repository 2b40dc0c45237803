"""Service laws: densities against scipy, families and parameters against draws of known ones."""

import numpy as np
import pytest
from scipy import integrate, stats

from equipoise.errors import EquipoiseError
from equipoise.logs import laws
from equipoise.logs.laws import FAMILIES, below_of, fit_service, quantiles_of, simplest, spread
from equipoise.scenario import (
    BoundedPareto,
    Coxian,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
)

THETAS = {
    "exponential": [np.log(0.3)],
    "lognormal": [-1.0, 0.2],
    "erlang": [np.log(0.3), 3.0],
    "hyperexponential": [1.2, np.log(0.1), np.log(2.0)],
    "bounded-pareto": np.log([1.3, 0.05, 40.0]),
    "coxian": [np.log(9.0), np.log(4.0), 1.5],
}
TRUTHS = {
    "exponential": Exponential(mean=0.2),
    "lognormal": Lognormal(mean=0.2, scv=np.e - 1),
    "erlang": Erlang(mean=0.2, shape=3),
    "hyperexponential": Hyperexponential(mean=0.2, scv=4.0),
    "bounded-pareto": BoundedPareto(index=1.3, mean=0.2, ratio=1000),
    "coxian": Coxian(rates=(10.0, 4.0), probabilities=(0.9,)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_densities_shares_and_moments_belong_together(name):
    family, theta = FAMILIES[name], np.array(THETAS[name], float)
    least, largest = (0.05, 40.0) if name == "bounded-pareto" else (0.0, np.inf)

    def integral(j, upto):
        points = {"points": [0.01, 0.1, 0.5]} if np.isfinite(upto) else {}
        return integrate.quad(
            lambda x: x**j * np.exp(family.log_density(theta, np.array([x]))[0]),
            max(least, 1e-12), upto, limit=400, **points,
        )[0]  # fmt: skip

    for x in (0.06, 0.4, 1.7):
        assert family.below(theta, np.array([x]))[0] == pytest.approx(integral(0, x), abs=1e-6)
    one, two = integral(1, largest), integral(2, largest)
    assert family.moments(theta) == pytest.approx((one, two / one**2 - 1), rel=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_family_and_its_parameters_are_found(name):
    truth = TRUTHS[name]
    x = truth.sample(np.random.default_rng(7), 10_000)
    found = fit_service(x)
    mean, scv = truth.moments()

    assert found.law.name == name
    assert found.law.distance < 1.63 / 100
    assert found.law.mean == pytest.approx(mean, abs=4 * np.sqrt(scv / 10_000) * mean)
    for key, value in truth.model_dump(exclude_none=True).items():
        if key not in ("law", "shape") and key in found.law.params:
            off = np.abs(np.array(found.law.params[key]) - value)
            assert (off <= 4 * np.nan_to_num(np.array(found.law.errors[key]), nan=1e9)).all(), key
    if name == "erlang":
        assert found.law.params["shape"] == 3


def test_maximum_likelihood_of_a_lognormal_is_scipys():
    x = stats.lognorm.rvs(0.7, scale=0.3, size=2500, random_state=1)
    found = fit_service(x, "lognormal").law
    shape, _, scale = stats.lognorm.fit(x, floc=0)

    assert found.mean == pytest.approx(stats.lognorm.mean(shape, scale=scale), rel=1e-6)
    assert found.log_likelihood == pytest.approx(
        stats.lognorm.logpdf(x, shape, scale=scale).sum(), rel=1e-9
    )


@pytest.mark.parametrize("name", ["exponential", "lognormal", "hyperexponential"])
def test_standard_errors_are_those_of_many_fits(name):
    """60 fits of 1000 times: their spread is known to a tenth, so within four of those."""
    rng, fits = np.random.default_rng(8), []
    for _ in range(60):
        fits.append(fit_service(TRUTHS[name].sample(rng, 1000), name).law)
    key = "means" if name == "hyperexponential" else "mean"
    values = np.array([np.atleast_1d(f.params[key])[-1] for f in fits])
    stated = np.array([np.atleast_1d(f.errors[key])[-1] for f in fits])

    assert np.median(stated) == pytest.approx(values.std(ddof=1), rel=4 / np.sqrt(2 * 60))


@pytest.mark.parametrize(
    ("rates", "chance", "name"),
    [
        ([4.0, 1.0], 0.3, "hyperexponential"),
        ([4.0, 1.0], 0.75, "exponential"),
        ([4.0, 1.0], 0.9, "coxian"),
        ([1.0, 4.0], 0.9, "coxian"),
        ([4.0, 1.0], 0.0, "exponential"),
        ([4.0, 4.0], 1.0, "erlang"),
    ],
)
def test_a_coxian_is_told_under_its_simplest_name(rates, chance, name):
    """Judged by its share of times below x, which the chain itself gives."""
    found, params = simplest("coxian", {"rates": rates, "probabilities": [chance]})
    x = np.linspace(0.01, 6, 50)

    assert found == name
    if found != "coxian":
        one, two = rates
        direct = [
            1 - np.exp(-one * t) - integrate.quad(
                lambda s, t=t: chance * one * np.exp(-one * s) * np.exp(-two * (t - s)), 0, t
            )[0] for t in x]  # fmt: skip
        law = laws.Law(found, params, {}, 0, 0, 0, 0, 1.0, 1.0)
        assert below_of(law, x) == pytest.approx(direct, abs=1e-6)


def test_a_coxian_that_is_hyperexponential_is_reported_as_that():
    # q = p a / (a - b) = 0.4: means 0.1 with chance 0.6 and 1 with chance 0.4
    truth = Coxian(rates=(10.0, 1.0), probabilities=(0.36,))
    found = fit_service(truth.sample(np.random.default_rng(9), 10_000))

    assert found.law.name == "hyperexponential"
    assert found.same == {"coxian": "hyperexponential"}
    assert sorted(found.law.params["means"]) == pytest.approx([0.1, 1.0], rel=0.1)


def test_what_fits_no_law_is_empirical_and_keeps_its_mean_and_scv():
    truth = Empirical(quantiles=(0.1, 0.2, 0.9, 1.0), probabilities=(0, 0.5, 0.5001, 1))
    x = truth.sample(np.random.default_rng(10), 5000)
    found = fit_service(x)
    again = Empirical(**found.law.params)

    assert found.law.name == "empirical"
    assert found.why.startswith("no law fits: of ")
    assert again.moments().mean == pytest.approx(x.mean(), rel=1e-3)
    assert again.moments().scv == pytest.approx(x.var() / x.mean() ** 2, rel=1e-2)


def test_equal_times_are_deterministic():
    found = fit_service(np.full(100, 0.25)).law

    assert (found.name, found.params) == ("deterministic", {"mean": 0.25})


@pytest.mark.parametrize("name", ["exponential", "lognormal", "hyperexponential"])
def test_times_rounded_to_milliseconds_still_show_their_law(name):
    x = np.round(TRUTHS[name].sample(np.random.default_rng(11), 10_000), 3)
    found = fit_service(x)

    assert found.law.name == name
    assert found.resolution == 0.001


def test_equal_times_are_spread_over_what_is_rounded_to_them():
    x = spread(np.array([0.0, 0.002, 0.002, 0.002, 0.001]), 0.001)

    assert x == pytest.approx([0.00025, 0.001, 0.0016667, 0.002, 0.0023333], abs=1e-6)


def test_errors_are_wider_where_times_depend_on_one_another():
    rng = np.random.default_rng(12)
    slow = np.repeat(rng.exponential(1.0, 200), 50) * rng.exponential(0.1, 10_000)
    single = fit_service(rng.permutation(slow), "exponential")
    found = fit_service(slow, "exponential")

    assert single.widened == 1.0
    # a mean of 200 groups of 50: var = (1/200) var(group means), by hand sqrt(26.5) = 5 times
    assert 2 < found.widened < 8
    assert found.law.errors["mean"] == pytest.approx(
        found.widened * single.law.errors["mean"], rel=1e-6
    )


def test_many_times_are_put_together_without_loss():
    rng = np.random.default_rng(13)
    x = np.sort(TRUTHS["hyperexponential"].sample(rng, 200_000))
    cells, weights = laws._cells(x)

    assert cells.size <= 3500
    assert weights.sum() == x.size
    assert weights @ cells == pytest.approx(x.sum())
    for name, family in FAMILIES.items():
        theta = np.array(THETAS[name], float)
        if name == "bounded-pareto":
            theta[1:] = np.log(x[[0, -1]])
        whole = family.log_density(theta, x).sum()
        assert weights @ family.log_density(theta, cells) == pytest.approx(whole, abs=0.5), name


@pytest.mark.parametrize("name", FAMILIES)
def test_quantiles_are_the_inverse_of_shares(name):
    x = TRUTHS[name].sample(np.random.default_rng(14), 2000)
    law = fit_service(x, name).law
    shares = np.array([0.01, 0.5, 0.9, 0.999])

    assert below_of(law, quantiles_of(law, shares)) == pytest.approx(shares, abs=1e-3)


def test_too_few_times_and_unknown_laws_are_refused():
    with pytest.raises(EquipoiseError, match="only 7 service times are known; a law needs"):
        fit_service(np.append(np.ones(7), np.nan))
    with pytest.raises(EquipoiseError, match="no law to fit is called 'weibull'; there are best"):
        fit_service(np.ones(100), "weibull")
