"""Which law do service times follow?

Six laws by maximum likelihood, the best by the Bayesian information criterion

    BIC = p log n - 2 log L,    p free parameters,

which, as n grows, finds the law of fewest parameters among those nearest to the truth:

    exponential       1   the mean
    lognormal         2   the mean and the variance of the logarithms
    erlang            2   a gamma law of whole shape >= 2
    hyperexponential  3   two kinds of tasks; by expectation and maximisation
    bounded-pareto    3   least and largest are those seen; the index solves
                          k / a + k r^-a log(r) / (1 - r^-a) = sum log(x / least),
                          r being largest over least (Aban, Meerschaert and Panorska 2006)
    coxian            3   two phases in a row, the second with chance p

A law that is another under a simpler name is told under that: a Coxian of two phases whose first
is the faster and p <= 1 - mu2 / mu1 is a hyperexponential, with p = 1 - mu2 / mu1 an exponential,
and one of equal rates and p = 1 an Erlang. Times that are all equal are deterministic.

How good the best one is says the Kolmogorov distance, the largest gap between the shares of times
below x, seen and by the law. The law stands if that is at most 1.63 / sqrt(n), its 1 % point, or
0.02, which does not matter for a simulation, and if its mean is that of the times. Else the times
themselves are the law: empirical, by their quantiles.

Logs round times. Equal ones are spread evenly over what is rounded to them, so that a law is not
refused for the clock's sake. Times of a log often depend on one another; standard errors are
widened by what batch means of the times find (`stats.batch_means`).

Source: Aban, Meerschaert and Panorska (2006), JASA 101(473); Schwarz (1978), Annals of Statistics
6(2); Asmussen, Nerman and Olsson (1996), Scandinavian Journal of Statistics 23(4), for EM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EquipoiseError
from ..stats import Estimate, batch_means, student
from .stream import step_of

LAWS = ("exponential", "lognormal", "erlang", "hyperexponential", "bounded-pareto", "coxian")
FEWEST = 30  # times that a law can be fitted to
CELLS = 3000  # times that the likelihood is computed of; more are put together by rank
KOLMOGOROV = 1.63  # / sqrt(n): a right law is further off once in a hundred times
NO_MATTER = 0.02  # a distance that makes no difference to a simulation
EQUAL = 1e-3  # two laws are one if their shares below x differ by less, everywhere
QUANTILES = 200  # of an empirical law
GRID = 512  # quantiles of a QQ plot


@dataclass(frozen=True)
class Law:
    """A law fitted to times."""

    name: str
    params: dict[str, Any]  # as in a scenario's [service] table
    errors: dict[str, Any]  # standard errors of the params; nan where there is none
    free: int  # parameters
    log_likelihood: float
    bic: float
    distance: float  # Kolmogorov's
    mean: float  # s
    scv: float

    @property
    def table(self) -> dict[str, Any]:
        """The [service] table of a scenario."""
        return {"law": self.name, **self.params}


@dataclass(frozen=True)
class ServiceFit:
    """What is known of service times."""

    law: Law  # the one to use
    why: str  # a sentence
    candidates: tuple[Law, ...]  # by BIC, the best first; the same law under two names once
    same: dict[str, str]  # names that came to a simpler one
    count: int
    mean: Estimate  # s, of the times, dependence taken into account
    scv: float  # of the times
    resolution: float  # s, of the clock; 0 where none was found
    widened: float  # what standard errors were multiplied by, for the dependence of times
    quantiles: np.ndarray  # float64[3, 512]: probability, time seen (s), time by the law (s)


def fit_service(times: np.ndarray, law: str = "best", laws: Sequence[str] = LAWS) -> ServiceFit:
    """Return the law of service times.

    Parameters
    ----------
    times
        Seconds, in order of arrival, float64[n]; nan where unknown.
    law
        "best", "empirical", or the name of a law to take whether it fits or not.

    Raises
    ------
    EquipoiseError
        If the name is none, or fewer than 30 times are known.
    """
    names = ("best", "empirical", "deterministic", *laws)
    if law not in names:
        raise EquipoiseError(f"no law to fit is called '{law}'; there are {', '.join(names)}")
    times = times[np.isfinite(times) & (times >= 0)]
    if times.size < FEWEST:
        raise EquipoiseError(
            f"only {times.size} service times are known; a law needs at least {FEWEST}, or give "
            "one: --service 'exponential(mean=0.1)'"
        )
    step = step_of(times)
    x = spread(times, step)
    mean = batch_means(times, np.ones(times.size))
    widened = _widened(times, mean)
    scv = float(x.var() / x.mean() ** 2) if x.mean() > 0 else 0.0
    if scv < 1e-6 or law == "deterministic":
        value = float(x.mean())
        off = 0.0 if scv < 1e-6 else _distance(x, lambda t: (t >= value) * 1.0)
        error = {"mean": mean.error / 2}
        found = Law("deterministic", {"mean": value}, error, 1, np.inf, -np.inf, off, value, 0.0)
        why = "all times are equal" if scv < 1e-6 else "asked for"
        return ServiceFit(found, why, (found,), {}, times.size, mean, scv, step, 1.0, _qq(x, x))
    cells, weights = _cells(x)
    wanted = laws if law in ("best", "empirical") else [law]
    fitted = [_fitted(name, x, cells, weights, widened) for name in wanted]
    candidates, same = _distinct([f for f in fitted if f is not None])
    empirical = _empirical(x, step)
    if law == "empirical" or not candidates:
        chosen, why = empirical, "asked for"
    elif law != "best":
        chosen, why = candidates[0], "asked for"
    else:
        chosen, why = _choose(candidates, empirical, x, mean)
    qq = _qq(x, quantiles_of(chosen, _grid()))
    return ServiceFit(chosen, why, candidates, same, times.size, mean, scv, step, widened, qq)


def _widened(times: np.ndarray, mean: Estimate) -> float:
    """Return how much wider the mean's error is for the dependence of times; 1 if not for sure.

    From 20 batches the ratio of independent times is above 1.5 once in a thousand.
    """
    single = student(19) * times.std() / np.sqrt(times.size)
    ratio = mean.error / single if times.size >= 200 and single > 0 else 1.0
    return ratio if ratio > 1.5 else 1.0


def _choose(
    candidates: Sequence[Law], empirical: Law, x: np.ndarray, mean: Estimate
) -> tuple[Law, str]:
    best = candidates[0]
    allowed = max(NO_MATTER, KOLMOGOROV / np.sqrt(x.size))
    off = abs(best.mean - x.mean())
    # for its own uncertainty the mean of heavy-tailed times says little against a law
    right_mean = off <= max(2 * mean.error, 0.02 * x.mean())
    if best.distance <= allowed and right_mean:
        return best, (
            f"least BIC; shares below any time are off by at most {100 * best.distance:.2g} % "
            f"({100 * allowed:.2g} % allowed)"
        )
    if best.distance > allowed:
        why = f"shares below some time are off by {100 * best.distance:.2g} %"
        why += f", {100 * allowed:.2g} % allowed"
    else:
        why = f"its mean is {best.mean:.4g} s where that of the times is {x.mean():.4g}"
    return empirical, f"no law fits: of {best.name}, the best of {len(candidates)}, {why}"


def spread(times: np.ndarray, step: float) -> np.ndarray:
    """Return times ascending, equal ones spread evenly over what is rounded to them, float64[n]."""
    x = np.sort(times)
    if step <= 0:
        positive = x[x > 0]
        return np.maximum(x, positive[0] / 2 if positive.size else 0.0)
    starts = np.flatnonzero(np.append(True, np.diff(x) > step / 2))
    sizes = np.diff(np.append(starts, x.size))
    inside = (np.arange(x.size) - np.repeat(starts, sizes) + 0.5) / np.repeat(sizes, sizes)
    low = np.maximum(x - step / 2, 0.0)
    return low + inside * (x + step / 2 - low)


def _cells(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times and weights of which the likelihood is that of all: means of neighbours."""
    if x.size <= CELLS:
        return x, np.ones(x.size)
    # a hundredth more of the times at either end in each cell, at most 1/1500 of all: within one
    # log densities differ so little that a million times' likelihood is off by less than 1, where
    # BIC counts 14 for a parameter
    ends = np.append(np.arange(100), 100 * 1.01 ** np.arange(np.log(x.size / 200) / np.log(1.01)))
    ends = ends.astype(int)
    edges = np.unique(np.concatenate([ends, np.linspace(0, x.size, 1501).astype(int),
                                      x.size - ends]))  # fmt: skip
    sums = np.add.reduceat(x, edges[:-1])
    weights = np.diff(edges).astype(float)
    return sums / weights, weights


# --- The laws: parameters in a space without bounds, their density and share below ---------------

Theta = np.ndarray


@dataclass(frozen=True)
class _Family:
    free: int
    estimate: Callable[[np.ndarray, np.ndarray], Theta | None]  # times, weights
    log_density: Callable[[Theta, np.ndarray], np.ndarray]
    below: Callable[[Theta, np.ndarray], np.ndarray]  # P(S <= x)
    params: Callable[[Theta], dict[str, Any]]
    moments: Callable[[Theta], tuple[float, float]]  # mean, scv


def _exponential_estimate(x: np.ndarray, w: np.ndarray) -> Theta:
    return np.array([np.log((w @ x) / w.sum())])


def _lognormal_estimate(x: np.ndarray, w: np.ndarray) -> Theta | None:
    if x[0] <= 0:
        return None
    log = np.log(x)
    mean = (w @ log) / w.sum()
    variance = (w @ (log - mean) ** 2) / w.sum()
    return np.array([mean, 0.5 * np.log(variance)]) if variance > 0 else None


def _lognormal_params(theta: Theta) -> dict[str, Any]:
    mean, scv = _lognormal_moments(theta)
    return {"mean": mean, "scv": scv}


def _lognormal_moments(theta: Theta) -> tuple[float, float]:
    variance = np.exp(2 * min(theta[1], 3.0))
    return float(np.exp(theta[0] + variance / 2)), float(np.expm1(variance))


def _lognormal_log_density(theta: Theta, x: np.ndarray) -> np.ndarray:
    z = (np.log(x) - theta[0]) / np.exp(theta[1])
    return -0.5 * z**2 - theta[1] - np.log(x) - 0.5 * np.log(2 * np.pi)


def _lognormal_below(theta: Theta, x: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    below: np.ndarray = ndtr((np.log(np.maximum(x, 1e-300)) - theta[0]) / np.exp(theta[1]))
    return below


def _erlang_estimate(x: np.ndarray, w: np.ndarray) -> Theta | None:
    """The whole shape of most likelihood: log k - digamma(k) = log mean - mean log, rounded."""
    from scipy.special import gammaln

    if x[0] <= 0:
        return None
    mean = (w @ x) / w.sum()
    logs = (w @ np.log(x)) / w.sum()
    gap = np.log(mean) - logs
    about = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)  # Minka's start
    if about < 1.2:
        return None  # an exponential
    shapes = np.arange(max(2, int(about * 0.9) - 1), int(about * 1.1) + 3)
    shapes = shapes[shapes <= 10_000]
    if not shapes.size:
        return None
    each = shapes * np.log(shapes / mean) + (shapes - 1) * logs - shapes - gammaln(shapes)
    return np.array([np.log(mean), float(shapes[each.argmax()])])


def _erlang_log_density(theta: Theta, x: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    k, rate = round(theta[1]), round(theta[1]) / np.exp(theta[0])
    density: np.ndarray = k * np.log(rate) + (k - 1) * np.log(x) - rate * x - gammaln(k)
    return density


def _erlang_below(theta: Theta, x: np.ndarray) -> np.ndarray:
    from scipy.special import gammainc

    k = round(theta[1])
    below: np.ndarray = gammainc(k, k / np.exp(theta[0]) * x)
    return below


def _hyper_unpack(theta: Theta) -> tuple[np.ndarray, np.ndarray]:
    p = 1 / (1 + np.exp(-theta[0]))
    return np.array([p, 1 - p]), np.exp(theta[1:])


def _hyper_estimate(x: np.ndarray, w: np.ndarray) -> Theta | None:
    """A few steps of expectation and maximisation from three starts, the best then climbed."""
    best, most = None, -np.inf
    total = w.sum()
    mean = (w @ x) / total
    scv = max(1.05, (w @ (x - mean) ** 2) / total / mean**2)
    for apart in (scv, 4 * scv, 1.0 + 0.2 * (scv - 1)):
        root = np.sqrt((apart - 1) / (apart + 1))
        p = np.array([(1 + root) / 2, (1 - root) / 2])
        means = mean / (2 * p)
        last = -np.inf
        for step in range(60):
            density = p / means * np.exp(-np.outer(x, 1 / means))
            both = np.maximum(density.sum(axis=1), 1e-300)
            log_likelihood = float(w @ np.log(both))
            part = w[:, None] * density / both[:, None]
            sizes = part.sum(axis=0)
            if (sizes < 1e-6 * total).any():
                break
            p, means = sizes / total, (x @ part) / sizes
            if step > 20 and log_likelihood - last < 1e-4:
                break
            last = log_likelihood
        if log_likelihood > most and (p > 1e-9).all():
            best, most = (p, means), log_likelihood
    if best is None:
        return None
    p, means = best
    theta = np.append(np.log(p[0] / p[1]), np.log(means))
    return _climbed(theta, _hyper_log_density, x, w)


def _climbed(
    theta: Theta, log_density: Callable[[Theta, np.ndarray], np.ndarray], x: np.ndarray,
    w: np.ndarray,
) -> Theta:  # fmt: skip
    """Return the top of the likelihood near theta, by a quasi-Newton method."""
    from scipy.optimize import minimize

    def cost(t: Theta) -> float:
        value = float(w @ log_density(t, x)) / w.sum()
        return -value if np.isfinite(value) else 1e10

    found = minimize(cost, theta, method="L-BFGS-B", bounds=[(-40, 40)] * theta.size)
    return np.asarray(found.x) if found.fun <= cost(theta) else theta


def _hyper_log_density(theta: Theta, x: np.ndarray) -> np.ndarray:
    p, means = _hyper_unpack(theta)
    logs = np.log(p / means) - np.outer(x, 1 / means)
    top: np.ndarray = logs.max(axis=1)
    return top + np.log(np.exp(logs - top[:, None]).sum(axis=1))


def _hyper_below(theta: Theta, x: np.ndarray) -> np.ndarray:
    p, means = _hyper_unpack(theta)
    below: np.ndarray = 1 - np.exp(-np.outer(x, 1 / means)) @ p
    return below


def _hyper_moments(theta: Theta) -> tuple[float, float]:
    p, means = _hyper_unpack(theta)
    mean = float(p @ means)
    return mean, float(2 * (p @ means**2)) / mean**2 - 1


def _hyper_params(theta: Theta) -> dict[str, Any]:
    p, means = _hyper_unpack(theta)
    first = float(p[0])
    return {"probabilities": [first, 1 - first], "means": means.tolist()}


def _pareto_estimate(x: np.ndarray, w: np.ndarray) -> Theta | None:
    from scipy.optimize import brentq

    least, largest = float(x[0]), float(x[-1])
    if not 0 < least < largest:
        return None
    logs = float(w @ np.log(x / least)) / w.sum()
    ratio = np.log(largest / least)

    def score(a: float) -> float:
        return 1 / a - ratio / np.expm1(min(a * ratio, 700.0)) - logs

    low, high = 1e-6, 100.0
    if score(low) <= 0 or score(high) >= 0:
        return None
    return np.array([np.log(brentq(score, low, high)), np.log(least), np.log(largest)])


def _pareto_log_density(theta: Theta, x: np.ndarray) -> np.ndarray:
    a, least, largest = np.exp(theta)
    log = np.log(a) + a * np.log(least) - (a + 1) * np.log(x)
    density: np.ndarray = log - np.log(-np.expm1(-a * np.log(largest / least)))
    return density


def _pareto_below(theta: Theta, x: np.ndarray) -> np.ndarray:
    a, least, largest = np.exp(theta)
    below = np.expm1(-a * np.log(np.maximum(x, least) / least))
    out: np.ndarray = np.minimum(below / np.expm1(-a * np.log(largest / least)), 1.0)
    return out


def _pareto_moments(theta: Theta) -> tuple[float, float]:
    a, least, largest = np.exp(theta)
    log = np.log(largest / least)

    def moment(j: int) -> float:
        power = log if abs(j - a) < 1e-9 else np.expm1((j - a) * log) / (j - a)
        return float(a * least**j * power / -np.expm1(-a * log))

    return moment(1), moment(2) / moment(1) ** 2 - 1


def _coxian_estimate(x: np.ndarray, w: np.ndarray) -> Theta | None:
    """From the moments of the times and from two other places; the best of them."""
    mean = (w @ x) / w.sum()
    starts = [
        np.array([np.log(2 / mean), np.log(1 / mean), 0.0]),
        np.array([np.log(2 / mean), np.log(2.2 / mean), 2.0]),
        np.array([np.log(4 / mean), np.log(0.5 / mean), -1.5]),
    ]
    tried = [_climbed(start, _coxian_log_density, x, w) for start in starts]
    return max(tried, key=lambda t: float(w @ _coxian_log_density(t, x)))


def _coxian_unpack(theta: Theta) -> tuple[float, float, float]:
    """Rates of both phases, the faster one first and never quite equal, chance of the second.

    One whose first phase is the slower, of rates a < b and chance p, is that of rates b, a and
    chance 1 - (1 - p) a / b.
    """
    one, two = np.exp(theta[:2])
    if one < two:
        chance = 1 - (1 - 1 / (1 + np.exp(-theta[2]))) * one / two
        return float(two), float(one) if two - one > 1e-6 * two else two * (1 - 1e-6), float(chance)
    if abs(one - two) < 1e-6 * one:
        two = one * (1 - 1e-6)
    return float(one), float(two), float(1 / (1 + np.exp(-theta[2])))


def _coxian_log_density(theta: Theta, x: np.ndarray) -> np.ndarray:
    one, two, p = _coxian_unpack(theta)
    # the second phase's part: one two (e^-two x - e^-one x) / (one - two), without cancellation
    slow = min(one, two)
    both = one * two * np.exp(-slow * x) * -np.expm1(-abs(one - two) * x) / abs(one - two)
    density = (1 - p) * one * np.exp(-one * x) + p * both
    return np.log(np.maximum(density, 1e-300))


def _coxian_below(theta: Theta, x: np.ndarray) -> np.ndarray:
    one, two, p = _coxian_unpack(theta)
    second = p * one / (one - two)  # weight of e^-two x in P(S > x)
    below: np.ndarray = 1 - (1 - second) * np.exp(-one * x) - second * np.exp(-two * x)
    return np.clip(below, 0.0, 1.0)


def _coxian_moments(theta: Theta) -> tuple[float, float]:
    one, two, p = _coxian_unpack(theta)
    mean = 1 / one + p / two
    square = 2 / one**2 + 2 * p / (one * two) + 2 * p / two**2
    return mean, square / mean**2 - 1


def _coxian_params(theta: Theta) -> dict[str, Any]:
    one, two, p = _coxian_unpack(theta)
    return {"rates": [one, two], "probabilities": [p]}


FAMILIES = {
    "exponential": _Family(
        1,
        _exponential_estimate,
        lambda t, x: -t[0] - x * np.exp(-t[0]),
        lambda t, x: -np.expm1(-x * np.exp(-t[0])),
        lambda t: {"mean": float(np.exp(t[0]))},
        lambda t: (float(np.exp(t[0])), 1.0),
    ),
    "lognormal": _Family(
        2, _lognormal_estimate, _lognormal_log_density, _lognormal_below, _lognormal_params,
        _lognormal_moments,
    ),
    "erlang": _Family(
        2, _erlang_estimate, _erlang_log_density, _erlang_below,
        lambda t: {"shape": round(t[1]), "mean": float(np.exp(t[0]))},
        lambda t: (float(np.exp(t[0])), 1 / round(t[1])),
    ),
    "hyperexponential": _Family(
        3, _hyper_estimate, _hyper_log_density, _hyper_below, _hyper_params, _hyper_moments
    ),
    "bounded-pareto": _Family(
        3, _pareto_estimate, _pareto_log_density, _pareto_below,
        lambda t: dict(zip(("index", "least", "largest"), np.exp(t).tolist(), strict=True)),
        _pareto_moments,
    ),
    "coxian": _Family(
        3, _coxian_estimate, _coxian_log_density, _coxian_below, _coxian_params, _coxian_moments
    ),
}  # fmt: skip
FIXED = {"erlang": (1,), "bounded-pareto": (1, 2)}  # places of theta without a standard error


def _fitted(
    name: str, x: np.ndarray, cells: np.ndarray, weights: np.ndarray, widened: float
) -> Law | None:
    family = FAMILIES[name]
    theta = family.estimate(cells, weights)
    if theta is None or not np.isfinite(theta).all():
        return None
    log_likelihood = float(weights @ family.log_density(theta, cells))
    mean, scv = family.moments(theta)
    if not np.isfinite([log_likelihood, mean, scv]).all():
        return None
    errors = _errors(name, theta, cells, weights, widened)
    return Law(
        name, family.params(theta), errors, family.free, log_likelihood,
        family.free * np.log(x.size) - 2 * log_likelihood,
        _distance(x, lambda t: family.below(theta, t)), mean, scv,
    )  # fmt: skip


def _errors(
    name: str, theta: Theta, x: np.ndarray, w: np.ndarray, widened: float
) -> dict[str, Any]:
    """Return standard errors of the params, from the outer product of the scores."""
    family = FAMILIES[name]
    free = [i for i in range(theta.size) if i not in FIXED.get(name, ())]
    step = 1e-4
    around = [(theta + step * e, theta - step * e) for e in np.eye(theta.size)[free]]
    scores = np.array(
        [(family.log_density(a, x) - family.log_density(b, x)) / (2 * step) for a, b in around]
    )
    information = (scores * w) @ scores.T
    try:
        covariance = np.linalg.inv(information) * widened**2
    except np.linalg.LinAlgError:
        covariance = np.full((len(free), len(free)), np.nan)

    def flat(params: dict[str, Any]) -> np.ndarray:
        return np.array([v for value in params.values() for v in np.atleast_1d(value)], float)

    slopes = np.array([(flat(family.params(a)) - flat(family.params(b))) / (2 * step)
                       for a, b in around])  # fmt: skip
    with np.errstate(invalid="ignore"):
        found = np.sqrt(np.einsum("ik,ij,jk->k", slopes, covariance, slopes))
    params, out, at = family.params(theta), {}, 0
    for key, value in params.items():
        size = np.atleast_1d(value).size
        some = found[at : at + size]
        some = np.where(some > 0, some, np.nan)
        out[key] = some.tolist() if isinstance(value, list) else float(some[0])
        at += size
    return out


def _distance(x: np.ndarray, below: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return Kolmogorov's distance between times, ascending, and a law."""
    every = max(1, x.size // 200_000)
    rank = np.arange(x.size)[::every]
    share = below(x[::every])
    gap = np.maximum(share - rank / x.size, (rank + 1) / x.size - share)
    return float(gap.max())


def _distinct(fitted: Sequence[Law]) -> tuple[tuple[Law, ...], dict[str, str]]:
    """Return each law once, the best by BIC first, and which names came to a simpler one."""
    kept: list[Law] = []
    same: dict[str, str] = {}
    for law in sorted(fitted, key=lambda f: (f.free, LAWS.index(f.name))):
        twin = next((k for k in kept if _one_law(k, law)), None)
        if twin is not None:
            same[law.name] = twin.name
        else:
            kept.append(law)
    return tuple(sorted(kept, key=lambda f: f.bic)), same


def _one_law(simple: Law, other: Law) -> bool:
    """Whether the other is the simple one: nowhere a share below x that differs."""
    x = simple.mean * np.logspace(-4, 2, 400)
    return bool(np.abs(below_of(simple, x) - below_of(other, x)).max() < EQUAL)


def simplest(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a law by its simplest name: many a Coxian of two phases is another law.

    P(S > x) of one with rates a, b and chance p is (1 - q) e^-ax + q e^-bx, q = p a / (a - b).
    """
    if name == "hyperexponential" and "probabilities" in params:
        p, means = np.array(params["probabilities"]), np.array(params["means"])
        if p.max() > 1 - 1e-9 or np.ptp(means) < 1e-9 * means.max():
            return "exponential", {"mean": float(p @ means)}
    if name != "coxian" or len(params["rates"]) != 2:
        return name, params
    (one, two), p = params["rates"], params["probabilities"][0]
    if p <= 1e-9:
        return "exponential", {"mean": 1 / one}
    if p >= 1 - 1e-9 and abs(one - two) < 1e-6 * one:
        return "erlang", {"shape": 2, "mean": 2 / one}
    if one == two:
        return name, params
    if one < two:
        p, one, two = 1 - (1 - p) * one / two, two, one
    q = p * one / (one - two)
    if abs(q - 1) < 1e-9:
        return "exponential", {"mean": 1 / two}
    if q < 1:
        return "hyperexponential", {"probabilities": [1 - q, q], "means": [1 / one, 1 / two]}
    return name, params


# --- Any law, fitted or given --------------------------------------------------------------------


def below_of(law: Law, x: np.ndarray) -> np.ndarray:
    """Return P(S <= x) of a fitted law, float64 like x."""
    p = law.params
    if law.name == "deterministic":
        return (x >= p["mean"]) * 1.0
    if law.name == "empirical":
        found: np.ndarray = np.interp(x, p["quantiles"], p["probabilities"])
        return found
    return FAMILIES[law.name].below(_theta(law), x)


def quantiles_of(law: Law, shares: np.ndarray) -> np.ndarray:
    """Return the times (s) below which these shares of tasks are, float64 like shares."""
    if law.name == "empirical":
        found: np.ndarray = np.interp(shares, law.params["probabilities"], law.params["quantiles"])
        return found
    x = law.mean * np.logspace(-9, 9, 20_001)
    below = np.maximum.accumulate(below_of(law, x))
    keep = np.append(True, np.diff(below) > 0)
    return np.exp(np.interp(shares, below[keep], np.log(x[keep])))


def _theta(law: Law) -> Theta:
    p = law.params
    if law.name == "exponential":
        return np.log([p["mean"]])
    if law.name == "lognormal":
        variance = np.log1p(p["scv"])
        return np.array([np.log(p["mean"]) - variance / 2, 0.5 * np.log(variance)])
    if law.name == "erlang":
        return np.array([np.log(p["mean"]), p["shape"]])
    if law.name == "hyperexponential":
        one, two = p["probabilities"]
        return np.append(np.log(one / two), np.log(p["means"]))
    if law.name == "bounded-pareto":
        return np.log([p["index"], p["least"], p["largest"]])
    chance = min(max(p["probabilities"][0], 1e-15), 1 - 1e-15)
    return np.append(np.log(p["rates"]), np.log(chance / (1 - chance)))


def _empirical(x: np.ndarray, step: float) -> Law:
    """The times by their quantiles, dense in the upper tail, with the times' own mean.

    Between two quantiles the law is uniform, so that its mean is that of their midpoints. Where
    times leave a gap that is a little off, and put right.
    """
    n = x.size
    tail = 1 - np.logspace(-2, np.log10(max(1.0 / n, 1e-6)), 40) if n > 200 else np.zeros(0)
    shares = np.unique(np.concatenate([np.linspace(0, 1, QUANTILES + 1), tail]))
    values = np.interp(shares, (np.arange(n) + 0.5) / n, x)
    values[0], values[-1] = x[0], x[-1]
    steps = np.diff(shares)
    values *= x.mean() / float(steps @ (values[1:] + values[:-1]) / 2)
    middle = (values[1:] + values[:-1]) / 2
    mean = float(steps @ middle)
    square = float(steps @ (values[1:] ** 2 + values[1:] * values[:-1] + values[:-1] ** 2) / 3)
    params = {"quantiles": values.tolist(), "probabilities": shares.tolist()}
    distance = _distance(x, lambda t: np.interp(t, values, shares))
    return Law("empirical", params, {}, 0, np.nan, np.nan, distance, mean, square / mean**2 - 1)


def _grid() -> np.ndarray:
    middle = (np.arange(GRID - 64) + 0.5) / (GRID - 64)
    return np.unique(np.concatenate([middle, 1 - np.logspace(-2.5, -5, 64)]))


def _qq(x: np.ndarray, by_law: np.ndarray) -> np.ndarray:
    """Return shares, times seen and times by the law, as far as there are times."""
    shares = _grid()
    seen = np.interp(shares, (np.arange(x.size) + 0.5) / x.size, x)
    if by_law.size == x.size and by_law is x:
        by_law = seen
    inside = (shares >= 0.5 / x.size) & (shares <= 1 - 0.5 / x.size)
    return np.array([shares, seen, by_law])[:, inside]
