"""Offered load: tasks that would be in service if each were served from its arrival on.

Tasks come at rate lam(t) per pool and are served at once, so whatever the dispatcher does, the
number in n pools started empty is Poisson with mean n rho(t),

    rho(t) = int_0^t lam(s) P(S > t - s) ds.

Coxian service: phase k ends at rate mu_k and phase k + 1 follows with probability p_k,

    r_1' = lam(t) - mu_1 r_1,     r_{k+1}' = p_k mu_k r_k - mu_{k+1} r_{k+1},     rho = sum_k r_k.

Integrals are Gauss-Legendre sums on panels that are short against rate and service, cut where the
rate jumps: exact to rounding for rates that are smooth in between.
Source: Goldsztajn, Borst, van Leeuwaarden 2025, section 2, for the setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...errors import EquipoiseError
from .states import whole

NODES, WEIGHTS = (0.5 * v for v in np.polynomial.legendre.leggauss(8))
NODES = NODES + 0.5  # on [0, 1]
MOST_PANELS = 2_000_000


class Rate(Protocol):
    """An arrival rate per pool, in tasks per mean service time."""

    @property
    def breaks(self) -> np.ndarray:
        """float64[k], ascending: where it is not smooth."""
        ...

    @property
    def panel(self) -> float:
        """A time in which it changes little, between breaks; inf if it is constant or linear."""
        ...

    def at(self, times: np.ndarray) -> np.ndarray:
        """Return the rate at `times`, float64 of the same shape."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same rate for ever."""

    rate: float  # tasks per pool and mean service time
    breaks: np.ndarray = field(default_factory=lambda: np.empty(0), init=False, repr=False)
    panel: float = field(default=math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        _nonnegative(self.rate, "rate")

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.full(np.shape(times), float(self.rate))


@dataclass(frozen=True)
class Sinusoid:
    """mean + amplitude sin(omega t + phase), omega in radians per mean service time."""

    mean: float
    amplitude: float
    omega: float
    phase: float = 0.0
    breaks: np.ndarray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def __post_init__(self) -> None:
        _nonnegative(self.mean, "mean")
        if not abs(self.amplitude) <= self.mean:
            raise EquipoiseError(
                f"amplitude = {self.amplitude:g} is above mean = {self.mean:g}: the rate would "
                "fall below 0"
            )
        if not (math.isfinite(self.omega) and self.omega > 0):
            raise EquipoiseError(f"omega = {self.omega:g} must be a number > 0")

    @property
    def panel(self) -> float:
        return 1 / self.omega

    def at(self, times: np.ndarray) -> np.ndarray:
        return self.mean + self.amplitude * np.sin(self.omega * np.asarray(times) + self.phase)


@dataclass(frozen=True, eq=False)
class Piecewise:
    """rates[i] from edges[i] to edges[i + 1]; nothing comes before the first or after the last."""

    edges: Sequence[float]  # ascending, one more than rates
    rates: Sequence[float]
    panel: float = field(default=math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        edges = _ascending(self.edges, "edges")
        if len(edges) != len(self.rates) + 1:
            raise EquipoiseError(
                f"{len(edges)} edges for {len(self.rates)} rates; there must be one more than rates"
            )
        for rate in self.rates:
            _nonnegative(rate, "a rate")

    @property
    def breaks(self) -> np.ndarray:
        return np.asarray(self.edges, dtype=float)

    def at(self, times: np.ndarray) -> np.ndarray:
        where = np.searchsorted(self.breaks, times, side="right")
        return np.concatenate(([0.0], np.asarray(self.rates, dtype=float), [0.0]))[where]


@dataclass(frozen=True, eq=False)
class Table:
    """Linear between (times[i], rates[i]); constant before the first and after the last."""

    times: Sequence[float]
    rates: Sequence[float]
    panel: float = field(default=math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(_ascending(self.times, "times")) != len(self.rates):
            raise EquipoiseError(
                f"{len(self.times)} times for {len(self.rates)} rates; there must be as many"
            )
        for rate in self.rates:
            _nonnegative(rate, "a rate")

    @property
    def breaks(self) -> np.ndarray:
        return np.asarray(self.times, dtype=float)

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.interp(times, self.breaks, np.asarray(self.rates, dtype=float))


@dataclass(frozen=True, eq=False)
class Curve:
    """Any rate: a function of float64 arrays, smooth between `breaks`.

    `panel` is a time in which it changes little: about the period over 6.
    """

    function: Callable[[np.ndarray], np.ndarray]
    breaks: np.ndarray = field(default_factory=lambda: np.empty(0))
    panel: float = 0.25

    def at(self, times: np.ndarray) -> np.ndarray:
        rates = np.asarray(self.function(np.asarray(times, dtype=float)), dtype=float)
        rates = np.broadcast_to(rates, np.shape(times))
        if rates.size and not (np.isfinite(rates).all() and rates.min() >= 0):
            raise EquipoiseError("the arrival rate must be a number >= 0 at all times")
        return rates


def as_rate(rate: Any) -> Rate:
    """Return a rate: a number is a constant one, a function a `Curve`."""
    if isinstance(rate, int | float | np.number):
        return Constant(float(rate))
    if hasattr(rate, "at"):
        return rate
    if callable(rate):
        return Curve(rate)
    raise EquipoiseError(f"load = {rate!r} must be a number, a rate or a function of time")


@dataclass(frozen=True)
class Coxian:
    """Service in phases 1..K: phase k lasts Exp(mu[k]), then k + 1 with probability p[k]."""

    mu: tuple[float, ...] = (1.0,)
    p: tuple[float, ...] = ()  # one fewer than mu

    def __post_init__(self) -> None:
        if not self.mu or not all(math.isfinite(m) and m > 0 for m in self.mu):
            raise EquipoiseError(f"mu = {self.mu} must be one or more numbers > 0, a phase each")
        if len(self.p) != len(self.mu) - 1 or not all(0 <= p <= 1 for p in self.p):
            raise EquipoiseError(
                f"p = {self.p} must be {len(self.mu) - 1} probabilities, one between each phase and "
                "the next"
            )

    @property
    def phases(self) -> int:
        """How many phases there are."""
        return len(self.mu)

    @property
    def generator(self) -> np.ndarray:
        """G, float64[K, K]: rates between phases, and out of service."""
        g = -np.diag(np.asarray(self.mu, dtype=float))
        for k, p in enumerate(self.p):
            g[k, k + 1] = p * self.mu[k]
        return g

    @property
    def phase_means(self) -> np.ndarray:
        """Mean time spent in each phase, float64[K]; phase loads at rest are lam times this."""
        return -np.linalg.solve(self.generator.T, _first(self.phases))

    def survival(self, ages: np.ndarray) -> np.ndarray:
        """Return P(S > age), like `ages`, float64 of any shape."""
        if self.phases == 1:
            return np.exp(-self.mu[0] * ages)
        from scipy.linalg import expm  # wanted only for service in phases

        kinds, kind = np.unique(np.round(ages, 13), return_inverse=True)
        left = expm(self.generator * kinds[:, None, None])[:, 0, :].sum(axis=1)
        return left[kind].reshape(np.shape(ages))

    @property
    def mean(self) -> float:
        """E S."""
        return float(self.phase_means.sum())

    @property
    def second_moment(self) -> float:
        """E S^2 = 2 e_1' G^-2 1."""
        g = self.generator
        return float(2 * np.linalg.solve(g, np.linalg.solve(g, np.ones(self.phases)))[0])

    @property
    def scv(self) -> float:
        """Squared coefficient of variation, Var S / (E S)^2."""
        return self.second_moment / self.mean**2 - 1


EXPONENTIAL = Coxian()


def phase_loads(
    rate: Any, times: np.ndarray, service: Coxian = EXPONENTIAL, start: Any = 0.0
) -> np.ndarray:
    """Return the tasks per pool in each phase, float64[k, K], at ascending `times` >= 0.

    Parameters
    ----------
    rate
        A number, a `Rate`, or a function of time; tasks per pool and unit of time.
    start
        Tasks per pool at time 0: a number, all in phase 1, or one for each phase.

    Raises
    ------
    EquipoiseError
        If the times are not ascending from 0 on, or a rate is negative.
    """
    rate, times = as_rate(rate), check_times(times)
    r = np.zeros(service.phases)
    r[: np.size(start)] = start
    edges = _panels(rate, times, 0.5 / max(service.mu))
    widths = np.diff(edges)
    came = rate.at(edges[:-1, None] + widths[:, None] * NODES) * (widths[:, None] * WEIGHTS)
    kinds, kind = np.unique(np.round(widths, 13), return_inverse=True)
    stay, age = _propagators(service, kinds)
    loads, at = np.empty((len(times), service.phases)), np.searchsorted(edges, times)
    reached = {int(i): k for k, i in enumerate(at)}
    for i in range(len(edges)):
        if i in reached:
            loads[reached[i]] = r
        if i < len(widths):
            r = r @ stay[kind[i]] + came[i] @ age[kind[i]]
    return loads


def offered_load(
    rate: Any, times: np.ndarray, service: Coxian = EXPONENTIAL, start: Any = 0.0
) -> np.ndarray:
    """Return rho, float64[k], tasks per pool at ascending `times`; parameters of `phase_loads`."""
    return phase_loads(rate, times, service, start).sum(axis=1)


def resting_load(rate: float, service: Coxian = EXPONENTIAL) -> float:
    """Return the offered load at a constant rate: rate times the mean service time."""
    return float(rate) * service.mean


def arrival_masses(rate: Any, edges: np.ndarray, service: Coxian = EXPONENTIAL) -> np.ndarray:
    """Return what came in each interval and is in service at its end, float64[k], per pool.

    int lam(s) P(S > end - s) ds over [edges[i], edges[i + 1]]; the intervals must be short against
    `panel` of the rate and the service.
    """
    rate, edges = as_rate(rate), np.asarray(edges, dtype=float)
    breaks = np.asarray(rate.breaks, dtype=float)
    cuts = np.union1d(edges, breaks[(breaks > edges[0]) & (breaks < edges[-1])])
    parent = np.searchsorted(edges, cuts[:-1], side="right") - 1
    widths = np.diff(cuts)[:, None]
    when = cuts[:-1, None] + widths * NODES
    left = service.survival(edges[parent + 1][:, None] - when)
    mass = (rate.at(when) * left * (widths * WEIGHTS)).sum(axis=1)
    return np.bincount(parent, mass, minlength=len(edges) - 1)


def crossings(rate: Any, horizon: float, step: int = 1, service: Coxian = EXPONENTIAL) -> int:
    """Return how often rho passes a multiple of `step` in [0, horizon], started empty."""
    rate = as_rate(rate)
    panel = min(rate.panel, min(1 / m for m in service.mu)) / 20
    count = min(200_000, max(200, math.ceil(horizon / panel)))
    loads = offered_load(rate, np.linspace(0, horizon, count + 1), service)
    return int(np.abs(np.diff(np.floor(loads / whole(step, "step", 1)))).sum())


def check_times(times: Any) -> np.ndarray:
    """Return `times`, float64[k], finite and ascending from 0 on."""
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if (
        times.ndim != 1
        or not times.size
        or not np.isfinite(times).all()
        or times[0] < 0
        or (np.diff(times) <= 0).any()
    ):
        raise EquipoiseError("times must ascend from 0 on")
    return times


def _panels(rate: Rate, times: np.ndarray, most: float) -> np.ndarray:
    """Edges from 0 to the last time, through all times and breaks, no farther apart than `most`."""
    most = min(most, rate.panel)
    if times[-1] / most > MOST_PANELS:
        raise EquipoiseError(
            f"{times[-1]:g} mean service times of a rate that changes within {most:.1e} are too "
            "many to integrate; take a shorter time"
        )
    breaks = np.asarray(rate.breaks, dtype=float)
    edges = np.union1d(np.union1d([0.0], times), breaks[(breaks > 0) & (breaks < times[-1])])
    counts = np.maximum(1, np.ceil(np.diff(edges) / most)).astype(int)
    parts = [
        np.linspace(a, b, k, endpoint=False)
        for a, b, k in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return np.concatenate([*parts, edges[-1:]])


def _propagators(service: Coxian, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e^{G h}, float64[k, K, K]) and (row 1 of e^{G (h - s)} at the nodes, float64[k, 8, K])."""
    spans = widths[:, None] * np.concatenate(([1.0], 1 - NODES))
    if service.phases == 1:
        powers = np.exp(-service.mu[0] * spans)[..., None, None]
    else:
        from scipy.linalg import expm  # wanted only for service in phases

        powers = expm(service.generator * spans[..., None, None])
    return powers[:, 0], powers[:, 1:, 0, :]


def _first(size: int) -> np.ndarray:
    return np.eye(size)[0]


def _nonnegative(value: float, name: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise EquipoiseError(f"{name} = {value:g} must be a number >= 0")


def _ascending(values: Sequence[float], name: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if (
        array.ndim != 1
        or not len(array)
        or not np.isfinite(array).all()
        or (np.diff(array) <= 0).any()
    ):
        raise EquipoiseError(f"{name} must ascend")
    return array
