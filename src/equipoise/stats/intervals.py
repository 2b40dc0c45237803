"""Means and ratios of means with Student intervals.

With R independent replications of a mean, (mean - truth) / (s / sqrt R) follows Student's
law with R - 1 degrees of freedom when the replications are normal, which means over many
events nearly are. A ratio of two means (messages per task, tasks per task) is not a mean of
ratios: its interval is the jackknife's, which leaves each replication out in turn. One
long run is cut into a few long batches, which are then treated as replications.
Source: Law (2015), Simulation Modeling and Analysis, 5th ed., sections 9.4 and 9.5;
Miller (1974), The jackknife - a review, Biometrika 61(1), for ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Estimate:
    """A number and how far off it may be.

    Attributes
    ----------
    value
        The estimate, in the unit of what was averaged.
    error
        Half the width of the interval, same unit: nan when one replication or batch is all
        there is, 0 when the value is known for certain.
    confidence
        How often intervals made in this way hold the truth.
    """

    value: float
    error: float
    confidence: float = 0.95

    def __str__(self) -> str:
        """The value rounded to the second digit of its error: `0.640 +- 0.025`."""
        if not (math.isfinite(self.value) and math.isfinite(self.error)):
            return f"{self.value:.4g} +- {self.error:.2g}"
        if self.error == 0:
            return f"{self.value:.6g} +- 0"
        error = float(f"{self.error:.1e}")  # rounded first: .0996 is .10, not .100
        decimals = 1 - math.floor(math.log10(error))
        value = round(self.value, decimals)
        shown = max(decimals, 0)
        return f"{value:.{shown}f} +- {error:.{shown}f}"


def student(freedom: int, confidence: float = 0.95) -> float:
    """Return t such that |T| <= t with probability `confidence`, T of Student's law.

    Parameters
    ----------
    freedom
        Degrees of freedom, >= 1.
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        If either is out of its range.
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(f"no Student interval for freedom = {freedom}, confidence = {confidence}")
    from scipy.special import stdtrit  # 0.1 s, wanted only at the end of a run

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Estimate a mean from independent replications.

    Parameters
    ----------
    values
        One mean per replication, float64[R], R >= 1. With R = 1 the error is nan.
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        If there are no values.
    """
    values = _vector(values)
    count = values.size
    mean = float(values.mean())
    if count < 2:
        return Estimate(mean, math.nan, confidence)
    deviation = float(values.std(ddof=1))
    return Estimate(mean, student(count - 1, confidence) * deviation / math.sqrt(count), confidence)


def ratio_interval(
    numerators: ArrayLike, denominators: ArrayLike, confidence: float = 0.95
) -> Estimate:
    """Estimate E[numerator] / E[denominator] from independent replications.

    The value is the ratio of the sums, so that it agrees with totals printed beside it; the
    error is the jackknife's. nan where the denominators add up to 0, or would without one
    replication.

    Parameters
    ----------
    numerators, denominators
        One pair per replication, float64[R] each. With R = 1 the error is nan.
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        If there are no values, or not as many of one as of the other.
    """
    over, under = _vector(numerators), _vector(denominators)
    if over.size != under.size:
        raise ValueError(f"{over.size} numerators, but {under.size} denominators")
    count = over.size
    total = float(under.sum())
    value = float(over.sum()) / total if total != 0 else math.nan
    rest = total - under
    if count < 2 or total == 0 or np.any(rest == 0):
        return Estimate(value, math.nan, confidence)
    without = (over.sum() - over) / rest
    deviation = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    return Estimate(value, student(count - 1, confidence) * deviation, confidence)


def batch_means(
    sums: ArrayLike, weights: ArrayLike, batches: int = 20, confidence: float = 0.95
) -> Estimate:
    """Estimate a long-run mean from one run that was recorded in pieces.

    Neighbouring pieces are joined into `batches` long ones, which are taken as independent.
    Twenty long batches beat many short ones: what is lost in degrees of freedom is small
    (t = 2.09 instead of 1.96), and longer batches depend less on one another.

    Parameters
    ----------
    sums
        For each piece of the run, in order, what the mean is of, added up over the piece:
        an integral over time, or a sum over tasks; float64[b].
    weights
        Length of each piece in time, or its number of tasks; float64[b], >= 0.
    batches
        How many batches to make; all pieces one by one if there are fewer.
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        If there are no pieces, not as many weights as sums, or batches < 2.
    """
    parts, spans = _vector(sums), _vector(weights)
    if parts.size != spans.size:
        raise ValueError(f"{parts.size} sums, but {spans.size} weights")
    if batches < 2:
        raise ValueError(f"batches = {batches}; two are the least that give an interval")
    batches = min(batches, parts.size)
    first = np.arange(batches) * parts.size // batches  # sizes differ by one at most
    return ratio_interval(np.add.reduceat(parts, first), np.add.reduceat(spans, first), confidence)


def paired(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Estimate the mean of a - b where replication i of both met the same randomness.

    What both have in common cancels, so the interval is often much narrower than those of
    a and b alone.

    Parameters
    ----------
    a, b
        One value per replication, in the same order, float64[R].
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        If there are no values, or not as many of one as of the other.
    """
    first, second = _vector(a), _vector(b)
    if first.size != second.size:
        raise ValueError(f"{first.size} values cannot be paired with {second.size}")
    return t_interval(first - second, confidence)


def _vector(values: ArrayLike) -> NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64).ravel()
    if vector.size == 0:
        raise ValueError("an interval needs at least one value")
    return vector
