"""Quantiles from counts in buckets, with intervals.

A histogram holds any number of waits in bounded memory; inside a bucket they are taken as
spread evenly, so a quantile is at most one bucket's width from that of the sample.

The interval is Woodruff's: find how uncertain the fraction at or below the quantile is, which is
a ratio over replications like any other, and read the quantiles at both ends of it. Tasks
of one replication depend on each other; this asks only that replications do not.
Source: Woodruff (1952), Confidence intervals for medians and other position measures,
J. Amer. Statist. Assoc. 47(260).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from equipoise.stats.intervals import Estimate, ratio_interval


def quantile(counts: ArrayLike, edges: ArrayLike, p: float) -> float:
    """Return the value that a fraction p of what was counted does not exceed.

    Parameters
    ----------
    counts
        How many (or how much weight) in each bucket, [B], >= 0.
    edges
        Bucket i runs from edges[i] to edges[i + 1], float64[B + 1], ascending. Equal edges
        make an atom; an infinite last edge makes a bucket for whatever is larger.
    p
        0 <= p <= 1.

    Returns
    -------
    float
        In the unit of `edges`. nan when nothing was counted, infinity when it lies in an
        unbounded bucket.

    Raises
    ------
    ValueError
        If p is out of range or there is not one edge more than counts.
    """
    heights = np.asarray(counts, dtype=np.float64)
    bounds = np.asarray(edges, dtype=np.float64)
    if not 0 <= p <= 1:
        raise ValueError(f"p = {p} is not a fraction between 0 and 1")
    if bounds.shape != (heights.size + 1,):
        raise ValueError(f"{heights.size} buckets need {heights.size + 1} edges, not {bounds.size}")
    filled = np.flatnonzero(heights)
    if filled.size == 0:
        return math.nan
    reached = np.cumsum(heights[filled])
    target = p * reached[-1]
    at = min(int(np.searchsorted(reached, target)), filled.size - 1)
    bucket = filled[at]
    low, high = float(bounds[bucket]), float(bounds[bucket + 1])
    if math.isinf(high):
        return math.inf
    before = reached[at - 1] if at > 0 else 0.0
    share = (target - before) / heights[bucket]
    return low + (high - low) * min(max(float(share), 0.0), 1.0)


def quantile_interval(
    counts: ArrayLike, edges: ArrayLike, p: float, confidence: float = 0.95
) -> Estimate:
    """Estimate a quantile from the histograms of independent replications (or batches).

    Parameters
    ----------
    counts
        One histogram per replication, [R, B]. The value is the quantile of all together;
        with R = 1 the error is nan.
    edges
        Shared by all, float64[B + 1], ascending.
    p
        0 <= p <= 1.
    confidence
        0 < confidence < 1.

    Raises
    ------
    ValueError
        As `quantile`, or if `counts` is not a table of at least one row.
    """
    table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError("counts must be one histogram per replication")
    pooled = table.sum(axis=0)
    value = quantile(pooled, edges, p)
    if not math.isfinite(value):
        return Estimate(value, math.nan, confidence)
    below = [_fraction_below(row, edges, value) * row.sum() for row in table]
    spread = ratio_interval(below, table.sum(axis=1), confidence).error
    if math.isnan(spread):
        return Estimate(value, math.nan, confidence)
    low = quantile(pooled, edges, max(p - spread, 0.0))
    high = quantile(pooled, edges, min(p + spread, 1.0))
    return Estimate(value, (high - low) / 2, confidence)


def _fraction_below(counts: np.ndarray, edges: ArrayLike, value: float) -> float:
    """The fraction at or below `value`, linear inside its bucket: the inverse of `quantile`."""
    bounds = np.asarray(edges, dtype=np.float64)
    total = counts.sum()
    if total == 0:
        return 0.0
    bucket = min(int(np.searchsorted(bounds, value, side="right")) - 1, counts.size - 1)
    width = bounds[bucket + 1] - bounds[bucket]
    inside = (value - bounds[bucket]) / width if width > 0 else 1.0  # an atom counts whole
    return float((counts[:bucket].sum() + counts[bucket] * min(inside, 1.0)) / total)
