"""From simulated numbers to statements: warm-up, intervals, quantiles, precision.

Nothing here knows what was simulated. Every interval is a Student interval over things
that are independent (replications) or nearly so (batches of one long run).
"""

from equipoise.stats.intervals import (
    Estimate,
    batch_means,
    paired,
    ratio_interval,
    student,
    t_interval,
)
from equipoise.stats.precision import needed, next_round, relative_error
from equipoise.stats.quantiles import quantile, quantile_interval
from equipoise.stats.warmup import Truncation, mser5

__all__ = [
    "Estimate",
    "Truncation",
    "batch_means",
    "mser5",
    "needed",
    "next_round",
    "paired",
    "quantile",
    "quantile_interval",
    "ratio_interval",
    "relative_error",
    "student",
    "t_interval",
]
