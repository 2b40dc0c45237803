"""How much of the start of a run to leave out: MSER-5.

A run starts from a state that steady state would rarely show, and its first observations
bias the mean. Leaving out d of them removes bias and adds variance; MSER leaves out as many
as make the marginal standard error of what remains least,

    MSER(d) = sum_{j > d} (z_j - mean_{j > d} z)^2 / (k - d)^2,

with z_1..z_k the means of successive fives, which smooths the rule. Only the first half may
be left out: near the end the sum has few terms and is small by luck. When the least value
sits at that limit the transient fills half of the run and more, and the run is too short.
The rule sees transients that die out; of a run whose second half differs from its first, or
that grows without bound faster than linearly, it says nothing.
Source: White (1997), An effective truncation heuristic for bias reduction in simulation
output, Simulation 69(6); Franklin and White (2008), Stationarity tests and MSER-5, WSC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

BATCH = 5


@dataclass(frozen=True)
class Truncation:
    """What to leave out at the start of a series.

    Attributes
    ----------
    drop
        Observations to leave out, a multiple of five, at most half of the series.
    settled
        False when the series is too short to say: its warm-up may not be over.
    """

    drop: int
    settled: bool


def mser5(series: ArrayLike) -> Truncation:
    """Find the warm-up of a series of observations taken at equal steps.

    The observations should be averages over a step of time (or a number of tasks), not
    single rare events: a long row of equal values looks settled.

    Parameters
    ----------
    series
        float64[k], in order. Up to four at the end are not used when k is not a multiple
        of five; fewer than ten are never settled.

    Returns
    -------
    Truncation
        With `settled` False when the rule would leave out all it may, half of the series.

    Raises
    ------
    ValueError
        If a value is not finite.
    """
    values = np.asarray(series, dtype=np.float64).ravel()
    if not np.all(np.isfinite(values)):
        raise ValueError("the warm-up of a series with nan or infinity in it cannot be found")
    count = values.size // BATCH
    if count < 2:
        return Truncation(0, settled=False)
    means = values[: count * BATCH].reshape(count, BATCH).mean(axis=1)
    most = count // 2
    # Sums from the end, of values centred on the settled part: no digits are lost to a
    # transient that is large beside the noise.
    centred = means - means[most:].mean()
    sums = np.cumsum(centred[::-1])[::-1][: most + 1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1][: most + 1]
    kept = count - np.arange(most + 1)
    scores = np.maximum(squares - sums**2 / kept, 0.0) / kept**2
    # Differences below the rounding of a constant series are none; the earliest point wins.
    rounding = (1e-13 * float(np.abs(means).max())) ** 2
    best = int(np.flatnonzero(scores <= scores.min() + rounding)[0])
    return Truncation(best * BATCH, settled=best < most)
