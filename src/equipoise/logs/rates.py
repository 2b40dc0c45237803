"""How many tasks come per second, over time, and how sure that is.

Bins of a width W are as narrow as the log can tell apart: of widths people use, the one of least
expected squared error of the rates, estimated as Shimazaki and Shinomoto do, by (2 phi m - v) / W^2
where m and v are the mean and the variance of the counts and phi is their dispersion, 1 for single
tasks. A rate is called constant unless a chi-squared test of the counts says otherwise.

The interval of a bin is the exact one of Garwood for Poisson counts; where tasks come in batches,
of counts divided by phi. Where a log spans days, its shape over the hours of the day is told with
Student intervals over the days.

Source: Garwood (1936), Biometrika 28; Shimazaki and Shinomoto (2007), Neural Computation 19(6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..stats import student
from .stream import Stream

WIDTHS = tuple(
    w * scale
    for scale, widths in (
        (1e-3, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1.0, (1, 2, 5, 10, 15, 20, 30)),
        (60.0, (1, 2, 5, 10, 15, 20, 30)),
        (3600.0, (1, 2, 3, 4, 6, 12)),
        (86400.0, (1, 2, 7, 14, 28)),
    )
    for w in widths
)
MOST_BINS = 2000
FEWEST_BINS = 8  # that are worth choosing among
CHANGES = 1e-3  # a constant rate is said to change once in so many times
FEW_A_DAY = 240  # tasks; fewer have no shape of a day
DAY, HOUR = 86400.0, 3600.0
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Daily:
    """Tasks per second in the 24 hours of the day, UTC."""

    days: int
    rate: np.ndarray  # float64[24]
    error: np.ndarray  # float64[24], half-widths of Student intervals over days


@dataclass(frozen=True)
class Rates:
    """Tasks per second in bins; the last one may be cut short by the end of the log."""

    width: float  # s
    counts: np.ndarray  # float64[bins]
    rate: np.ndarray  # float64[bins], tasks/s
    low: np.ndarray  # float64[bins], tasks/s, of 95 % intervals
    high: np.ndarray  # float64[bins]
    mean: float  # tasks/s
    mean_low: float
    mean_high: float
    constant: bool
    p: float  # the chance of counts that vary so much at a constant rate, in the bins most against
    dispersion: float  # phi
    daily: Daily | None


def find_rates(stream: Stream, dispersion: float = 1.0, width: float | None = None) -> Rates:
    """Return the rates of a stream.

    Parameters
    ----------
    dispersion
        Of counts in short bins, >= 1: E B^2 / E B where tasks come in batches of B.
    width
        Of the bins (s); None: found from the data.
    """
    constant, p = _is_constant(stream, dispersion)
    chosen = width if width is not None else best_width(stream, dispersion)
    counts = stream.dense(chosen)
    lengths = np.full(counts.size, chosen)
    lengths[-1] = stream.span - (counts.size - 1) * chosen
    if counts.size > 1 and lengths[-1] < 0.05 * chosen:  # too short to say anything
        counts, lengths = counts[:-1], lengths[:-1]
    low, high = poisson_interval(counts, dispersion)
    whole = np.array([stream.total])
    mean_low, mean_high = poisson_interval(whole, dispersion)
    return Rates(
        chosen, counts, counts / lengths, low / lengths, high / lengths,
        stream.total / stream.span, float(mean_low[0] / stream.span),
        float(mean_high[0] / stream.span), constant, p, dispersion, _daily(stream),
    )  # fmt: skip


def poisson_interval(
    counts: np.ndarray, dispersion: float = 1.0, confidence: float = CONFIDENCE
) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact interval for the mean of Poisson counts, float64[k] each.

    With a dispersion, that of counts / dispersion, times it: as if batches were what is counted.
    """
    from scipy.special import gammaincinv

    beyond = (1 - confidence) / 2
    single = np.asarray(counts, float) / dispersion
    low = np.where(single > 0, gammaincinv(np.maximum(single, 1e-9), beyond), 0.0)
    return low * dispersion, gammaincinv(single + 1, 1 - beyond) * dispersion


def best_width(stream: Stream, dispersion: float = 1.0) -> float:
    """Return the width of bins (s) of least expected squared error, of those people use."""
    least = max(stream.resolution, stream.bins or 0.0)
    costs = {}
    for width in WIDTHS:
        bins = stream.span / width
        if width < least or not FEWEST_BINS <= bins <= MOST_BINS:
            continue
        if least and abs(width / least - round(width / least)) > 1e-9:
            continue
        counts = stream.dense(width)[: int(bins + 1e-9)]
        costs[width] = (2 * dispersion * counts.mean() - counts.var()) / width**2
    if not costs:
        return max(stream.span / FEWEST_BINS, least) if stream.total > 100 else stream.span
    return min(costs, key=costs.__getitem__)


def _is_constant(stream: Stream, dispersion: float) -> tuple[bool, float]:
    """Test the counts of about 10 and of about 100 bins; Bonferroni for two tests."""
    from scipy.special import chdtrc

    least = max(stream.resolution, stream.bins or 0.0)
    worst = 1.0
    for bins in (10, 100):
        width = stream.span / bins
        if least:
            width = max(1, int(width / least)) * least
        whole = int(stream.span / width + 1e-9)
        counts = stream.dense(width)[:whole]
        mean = counts.mean()
        if counts.size < 3 or mean < 5 * dispersion:  # too few for chi-squared
            continue
        square = float(((counts - mean) ** 2).sum() / (mean * dispersion))
        worst = min(worst, 2 * float(chdtrc(counts.size - 1, square)))
    return worst >= CHANGES, worst


def _daily(stream: Stream) -> Daily | None:
    """Return the shape of a day, of the hours that the log covers as a whole; None below 2 days."""
    if (
        not stream.daytime
        or stream.span < 2 * DAY
        or stream.total < FEW_A_DAY
        or (stream.bins or 0.0) > HOUR
    ):
        return None
    offset = (-stream.first) % HOUR  # s from the first task to the first full hour
    hours = int((stream.span - offset) / HOUR)
    if stream.times is not None:
        place = np.floor((stream.times - offset) / HOUR).astype(np.int64)
        inside = (place >= 0) & (place < hours)
        counts = np.bincount(place[inside], minlength=hours).astype(float)
    else:
        assert stream.bins is not None
        assert stream.counts is not None
        at = np.arange(stream.counts.size) * stream.bins
        place = np.floor((at - offset) / HOUR + 1e-9).astype(np.int64)
        inside = (place >= 0) & (place < hours)
        counts = np.bincount(place[inside], stream.counts[inside], minlength=hours)
    of_day = (int((stream.first + offset) // HOUR) + np.arange(hours)) % 24
    rate, error = np.full(24, np.nan), np.full(24, np.nan)
    for hour in range(24):
        seen = counts[of_day == hour] / HOUR
        if seen.size:
            rate[hour] = seen.mean()
        if seen.size > 1:
            error[hour] = student(seen.size - 1) * seen.std(ddof=1) / np.sqrt(seen.size)
    return Daily(hours // 24, rate, error)
