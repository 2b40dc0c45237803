"""How long tasks take when they are worked on, in seconds.

Each law has `moments()`, the mean (s) and the scv (squared coefficient of variation: the
variance over the squared mean), and `sample(generator, k)`, float64[k] in seconds.

    exponential        scv 1
    deterministic      scv 0
    erlang             sum of `shape` exponentials, scv 1 / shape
    hyperexponential   exponential of one of several means, scv >= 1
    lognormal          any scv > 0
    coxian, phase-type exponential phases (phases.py), any scv > 0
    bounded-pareto     a power law between two bounds: few tasks bring most of the work
    empirical          values or quantiles that were observed, mapped to constant + factor * x
    trace              the trace's own durations, or a linear combination of its columns
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from equipoise.scenario.base import Number, Part, Whole, base_folder, read_columns
from equipoise.scenario.mistakes import mistake
from equipoise.scenario.phases import Coxian, Moments, PhaseType
from equipoise.scenario.trace import check_combination

Positive = Annotated[Number, Field(gt=0)]
Nonnegative = Annotated[Number, Field(ge=0)]


class Exponential(Part):
    """Exponential times: memoryless, the usual yardstick."""

    law: Literal["exponential"] = "exponential"
    mean: Positive = 1.0  # s

    def moments(self) -> Moments:
        return Moments(self.mean, 1.0)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        return self.mean * generator.standard_exponential(k)


class Deterministic(Part):
    """Every task takes the same time, given as `value` or as `mean`; 1 s by default."""

    law: Literal["deterministic"] = "deterministic"
    value: Positive | None = None  # s
    mean: Positive | None = None  # s, another word for it

    @model_validator(mode="after")
    def _one_of_two(self) -> Deterministic:
        if self.value is not None and self.mean is not None:
            raise mistake("value is given too; they are the same thing, give one", "mean")
        return self

    def moments(self) -> Moments:
        given = self.value if self.value is not None else self.mean
        return Moments(1.0 if given is None else given, 0.0)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds, all equal."""
        return np.full(k, self.moments().mean)


class Erlang(Part):
    """The sum of `shape` exponential times: more regular than exponential."""

    law: Literal["erlang"] = "erlang"
    shape: Annotated[Whole, Field(ge=1)]
    mean: Positive = 1.0  # s

    def moments(self) -> Moments:
        return Moments(self.mean, 1.0 / self.shape)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        return self.mean / self.shape * generator.standard_gamma(self.shape, k)


class Hyperexponential(Part):
    """An exponential time whose mean is drawn first: more variable than exponential.

    Either `probabilities` and `means`, or `scv` >= 1 and `mean` (1 s by default); the latter
    make two kinds of tasks with balanced means: both kinds bring the same amount of work.
    """

    law: Literal["hyperexponential"] = "hyperexponential"
    probabilities: Annotated[tuple[Nonnegative, ...], Field(min_length=1)] | None = None
    means: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None  # s
    mean: Positive | None = None  # s
    scv: Annotated[Number, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Hyperexponential:
        explicit = self.probabilities is not None or self.means is not None
        if explicit == (self.scv is not None) or (explicit and self.mean is not None):
            raise mistake("give either mean and scv, or probabilities and means")
        if explicit:
            if self.probabilities is None or self.means is None:
                raise mistake("probabilities and means go together; one of them is missing")
            if len(self.probabilities) != len(self.means):
                raise mistake(
                    f"{len(self.means)} means for {len(self.probabilities)} probabilities; there "
                    "must be as many",
                    "means",
                )
            if abs(sum(self.probabilities) - 1) > 1e-9:
                raise mistake(
                    f"their sum is {sum(self.probabilities):g}; it must be 1", "probabilities"
                )
        return self

    @cached_property
    def kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """(probabilities, means in s), float64[kinds] each."""
        if self.probabilities is not None and self.means is not None:
            return np.array(self.probabilities), np.array(self.means)
        assert self.scv is not None
        mean = 1.0 if self.mean is None else self.mean
        # Balanced means, p m1 = (1 - p) m2 = mean / 2, where scv = 1 / (2 p (1 - p)) - 1.
        p = (1 + np.sqrt((self.scv - 1) / (self.scv + 1))) / 2
        return np.array([p, 1 - p]), np.array([mean / (2 * p), mean / (2 * (1 - p))])

    def moments(self) -> Moments:
        probabilities, means = self.kinds
        mean = float(probabilities @ means)
        return Moments(mean, float(2 * (probabilities @ means**2)) / mean**2 - 1)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        probabilities, means = self.kinds
        steps = np.cumsum(probabilities)[:-1]
        kind = np.searchsorted(steps, generator.random(k), side="right")
        return means[kind] * generator.standard_exponential(k)


class Lognormal(Part):
    """The exponential of a normal variable: a common fit to response sizes and run times."""

    law: Literal["lognormal"] = "lognormal"
    mean: Positive = 1.0  # s
    scv: Positive

    def moments(self) -> Moments:
        return Moments(self.mean, self.scv)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        variance = np.log1p(self.scv)  # of the logarithm
        normal = generator.standard_normal(k)
        return self.mean * np.exp(np.sqrt(variance) * normal - variance / 2)


class BoundedPareto(Part):
    """A power law: P(S > x) falls like x^-index between `least` and `largest` seconds.

    Either these two, or `mean` (1 s by default) and `ratio`, largest over least.
    """

    law: Literal["bounded-pareto"] = "bounded-pareto"
    index: Positive
    least: Positive | None = None  # s
    largest: Positive | None = None  # s
    mean: Positive | None = None  # s
    ratio: Annotated[Number, Field(gt=1)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> BoundedPareto:
        explicit = self.least is not None or self.largest is not None
        if explicit == (self.ratio is not None) or (explicit and self.mean is not None):
            raise mistake("give either least and largest, or ratio (largest over least) and mean")
        if explicit:
            if self.least is None or self.largest is None:
                raise mistake("least and largest go together; one of them is missing")
            if self.largest <= self.least:
                raise mistake(
                    f"{self.largest:g} must be more than least = {self.least:g}", "largest"
                )
        return self

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """(least, largest), s."""
        if self.least is not None and self.largest is not None:
            return self.least, self.largest
        assert self.ratio is not None
        least = (1.0 if self.mean is None else self.mean) / self._moment(1, self.ratio)
        return least, least * self.ratio

    def _moment(self, j: int, ratio: float) -> float:
        """Return E S^j where least is 1: a (r^(j-a) - 1) / (j - a) / (1 - r^-a)."""
        a, log = self.index, np.log(ratio)
        power = log if j == a else np.expm1((j - a) * log) / (j - a)
        return float(a * power / -np.expm1(-a * log))

    def moments(self) -> Moments:
        least, largest = self.bounds
        one, two = (self._moment(j, largest / least) for j in (1, 2))
        return Moments(least * one, two / one**2 - 1)

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds, by inversion."""
        least, largest = self.bounds
        below = -np.expm1(-self.index * np.log(largest / least))
        return least * (1 - generator.random(k) * below) ** (-1 / self.index)


class Empirical(Part):
    """What was observed: `constant + factor * x` seconds, x drawn from values or quantiles.

    One of
        values      each equally likely
        quantiles   the quantile function at `probabilities`, linear in between; without
                    probabilities at even steps from 0 to 1
        file        a CSV with a column `value`, or with columns `probability` and `quantile`
    The map makes seconds of something else, e.g. of tokens: 0.05 s and 0.02 s per token.
    """

    law: Literal["empirical"] = "empirical"
    values: Annotated[tuple[Number, ...], Field(min_length=1)] | None = None
    quantiles: Annotated[tuple[Number, ...], Field(min_length=2)] | None = None
    probabilities: Annotated[tuple[Number, ...], Field(min_length=2)] | None = None
    file: str | None = None
    constant: Number = 0.0  # s
    factor: Number = 1.0  # s per unit of x

    _base: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _usable(self, info: ValidationInfo) -> Empirical:
        self._base = base_folder(info)
        given = [key for key in ("values", "quantiles", "file") if getattr(self, key) is not None]
        if len(given) != 1:
            told = " and ".join(given) or "none of them"
            raise mistake(f"give one of values, quantiles or file; there is {told}")
        if self.probabilities is not None and self.quantiles is None:
            raise mistake("they belong to quantiles; remove them", "probabilities")
        key = given[0]
        probabilities, seconds = self.table
        if probabilities is not None:
            if len(probabilities) != len(seconds):
                raise mistake(
                    f"{len(probabilities)} probabilities for {len(seconds)} quantiles; there must "
                    "be as many",
                    "probabilities",
                )
            steps = np.diff(probabilities)
            if probabilities[0] != 0 or probabilities[-1] != 1 or (steps <= 0).any():
                raise mistake("probabilities must rise from 0 to 1", key)
            if (np.diff(self.observed[1]) < 0).any():
                raise mistake("quantiles must not fall", key)
        if seconds.min() < 0:
            raise mistake(
                f"the least service time comes to {seconds.min():g} s; it must be at least 0", key
            )
        if seconds.max() == 0:
            raise mistake("all service times come to 0 s", key)
        return self

    @cached_property
    def table(self) -> tuple[np.ndarray | None, np.ndarray]:
        """(probabilities float64[k] or None, seconds float64[k]); without the first, values."""
        probabilities, x = self.observed
        return probabilities, self.constant + self.factor * x

    @cached_property
    def observed(self) -> tuple[np.ndarray | None, np.ndarray]:
        """(probabilities float64[k] or None, x float64[k]), before the map."""
        if self.values is not None:
            return None, np.array(self.values)
        if self.quantiles is not None:
            x, given = np.array(self.quantiles), self.probabilities
            return np.linspace(0, 1, len(x)) if given is None else np.array(given), x
        columns = read_columns(self._base / str(self.file))
        if "value" in columns:
            return None, columns["value"]
        if "probability" in columns and "quantile" in columns:
            return columns["probability"], columns["quantile"]
        raise mistake(
            f"{self.file} has the columns {', '.join(columns)}; it needs value, or probability "
            "and quantile",
            "file",
        )

    def inlined(self) -> dict[str, Any]:
        """Return the table of a scenario's file, with numbers in place of a file's name."""
        tables = self.model_dump(mode="json", exclude_none=True)
        if self.file is not None:
            del tables["file"]
            probabilities, x = self.observed
            if probabilities is None:
                tables["values"] = x.tolist()
            else:
                tables |= {"probabilities": probabilities.tolist(), "quantiles": x.tolist()}
        return tables

    def moments(self) -> Moments:
        probabilities, x = self.table
        if probabilities is None:
            mean, square = x.mean(), (x**2).mean()
        else:  # uniform on each step: the mean of x^2 over [a, b] is (a^2 + a b + b^2) / 3
            weights, a, b = np.diff(probabilities), x[:-1], x[1:]
            mean = weights @ (a + b) / 2
            square = weights @ (a * a + a * b + b * b) / 3
        return Moments(float(mean), max(0.0, float(square / mean**2 - 1)))

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        probabilities, seconds = self.table
        if probabilities is None:
            return seconds[generator.integers(len(seconds), size=k)]
        return np.interp(generator.random(k), probabilities, seconds)


class TraceService(Part):
    """The tasks' own times, from the trace that gives their arrivals.

    `column` names a column of seconds; `columns` is a linear combination, such as
    {constant = 0.05, GeneratedTokens = 0.02}: 0.05 s and 0.02 s per token.
    """

    law: Literal["trace"] = "trace"
    column: str | None = None
    columns: Annotated[dict[str, float], BeforeValidator(check_combination)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> TraceService:
        if (self.column is None) == (self.columns is None):
            raise mistake(
                "give either column, the name of a column of seconds, or columns, e.g. "
                "{constant = 0.05, GeneratedTokens = 0.02}"
            )
        return self

    @property
    def seconds(self) -> str | dict[str, float]:
        """The column, or the coefficients by column, as `read_trace` takes them."""
        if self.columns is not None:
            return self.columns
        assert self.column is not None
        return self.column


Law = (
    Exponential
    | Deterministic
    | Erlang
    | Hyperexponential
    | Lognormal
    | Coxian
    | PhaseType
    | BoundedPareto
    | Empirical
)

# By the name a file gives them.
LAWS: dict[str, Any] = {
    "exponential": Exponential,
    "deterministic": Deterministic,
    "erlang": Erlang,
    "hyperexponential": Hyperexponential,
    "lognormal": Lognormal,
    "coxian": Coxian,
    "phase-type": PhaseType,
    "bounded-pareto": BoundedPareto,
    "empirical": Empirical,
}
