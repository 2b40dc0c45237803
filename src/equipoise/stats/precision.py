"""How many replications a wanted precision takes.

Replications are added, a round at a time, until the half-width of the interval is at most a wanted
fraction of the mean. That is Chow and Robbins's rule: as the fraction goes to 0 the interval holds
the truth as often as one of fixed size. What it costs before that is bounded by looking late
and seldom: a deviation that happens to come out small stops a run too early, so the first look
is after `LEAST` replications, and each round is the one that should be the last, 5 % more than the
deviation seen so far asks for, at most twice as many as there are. Measured on normal means,
4000 studies each, 95 % intervals, over the ratio of replications needed to those of the first
look from 1/4 to 4: first look after 8, 93.2 to 95.3 % hold the truth; after 16, 94.1 to 95.0 %. On
means as skewed as a gamma law of shape 4: 90.5 to 93.1 %, and 92.6 to 94.3 %.
Source: Chow and Robbins (1965), On the asymptotic theory of fixed-width sequential confidence
intervals for the mean, Ann. Math. Statist. 36(2); Law (2015), Simulation Modeling and Analysis,
5th ed., section 9.4.1.
"""

from __future__ import annotations

import math

from equipoise.stats.intervals import Estimate

LEAST = 16  # replications before the first look
SPARE = 1.05  # more than needed by what was seen: the next look should be the last
GROWTH = 2  # times as many replications after a round, at most


def relative_error(estimate: Estimate) -> float:
    """Return the half-width over the size of the value; 0 for what is certain.

    Infinity where there is no interval, or where the value is 0 and the interval is not: no
    fraction of 0 is wide enough.
    """
    if estimate.error == 0:
        return 0.0
    if not (math.isfinite(estimate.value) and math.isfinite(estimate.error)):
        return math.inf
    return estimate.error / abs(estimate.value) if estimate.value != 0 else math.inf


def needed(reached: float, wanted: float, replications: int) -> float:
    """Return how many replications the deviation seen so far asks for; may be infinite.

    Parameters
    ----------
    reached
        `relative_error` after so many replications.
    wanted
        What it should be, > 0.
    replications
        How many there are.
    """
    return replications * (reached / wanted) ** 2


def next_round(reached: float, wanted: float, replications: int, most: int) -> int:
    """Return how many replications there should be at the next look, at most `most`.

    The same number as now when the precision is reached or no more are allowed.
    """
    if reached <= wanted or most <= replications:
        return replications
    grown = min(SPARE * needed(reached, wanted, replications), GROWTH * replications)
    return min(most, max(replications + 1, math.ceil(grown)))
