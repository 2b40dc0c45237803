"""C(j, d) / C(n, d) without forming a binomial: the share of d-sets that lie in j of n servers.

With x = j + 1 and y = x - d, Stirling's series gives log j! - log (j - d)! as

    d log x - (y - 1/2) log(y / x) - d + r(x) - r(y),    r(x) = log Gamma(x) minus its main part,

and the same with n in place of j is subtracted term by term, so that no large logarithms cancel
(lgamma alone is off by 2e-9 at n = 10^6). Relative error below 1e-12 for d up to 1000 at any n,
and for larger d wherever the ratio is not itself astronomically small.
"""

from __future__ import annotations

import math

import numpy as np

PRODUCT = 16  # up to this d the plain product of d ratios is exact enough and as quick

# log Gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2), x = 0 .. 31 (0 never used); the series after.
_SMALL = np.array(
    [0.0]
    + [
        math.lgamma(x) - ((x - 0.5) * math.log(x) - x + 0.5 * math.log(2 * math.pi))
        for x in range(1, 32)
    ]
)


def _remainder(x: np.ndarray) -> np.ndarray:
    inverse = 1 / x
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return np.where(x < 32, _SMALL[np.minimum(x, 31).astype(np.int64)], series)


def _log_falling(x: np.ndarray, d: int) -> np.ndarray:
    """log[(x - 1)! / (x - 1 - d)!] - d log x, for x = j + 1 > d, float64."""
    y = x - d
    # log(y / x), by whichever form keeps its digits
    shrink = np.where(2 * d < x, np.log1p(-d / x), np.log(y / x))
    return -(y - 0.5) * shrink - d + _remainder(x) - _remainder(y)


def log_share(j: np.ndarray, n: int, d: int) -> np.ndarray:
    """Return log[C(j, d) / C(n, d)] for whole 0 <= j <= n, float64 like `j`; -inf where j < d."""
    j = np.asarray(j, dtype=float)
    x = np.maximum(j, d) + 1
    top = np.array(n + 1.0)
    value = _log_falling(x, d) - _log_falling(top, d) + d * np.log(x / top)
    return np.where(j < d, -np.inf, np.minimum(value, 0.0))


def share(j: np.ndarray, n: int, d: int, replacement: bool = False) -> np.ndarray:
    """Return the probability that d uniform draws from n servers all fall into j given ones.

    Distinct draws: C(j, d)/C(n, d); with replacement: (j/n)^d. `j` whole, 0 <= j <= n; float64.
    Both are convex in j and in d, and 1 at j = n.
    """
    j = np.asarray(j, dtype=float)
    if replacement:
        return (j / n) ** d
    if d <= PRODUCT:
        product = np.ones_like(j)
        for i in range(d):
            product *= np.maximum(j - i, 0.0) / (n - i)
        return product
    return np.where(j == n, 1.0, np.exp(log_share(j, n, d)))
