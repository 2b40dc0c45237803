"""How much feedback is enough that nobody waits, and what is left of it when there is next to none.

*Enough.* With synchronous updates at equal gaps, and with asynchronous ones at random times, waits
vanish if and only if delta >= lam/(1 - lam); with asynchronous ones at equal gaps if and only if
lam <= delta (1 - e^(-1/delta)), which asks for less. Which servers tell makes no difference: those
who are busy have one task, and say what is known. If all servers tell after one random gap, some
gaps are long and no delta is enough. A finite fleet at the edge waits of order n^(-1/2).

*delta -> 0, synchronous.* The mean wait tends to a constant, for equal and for random gaps: every
server gets one task in each interval of length D = 1/lam, at a time uniform on it. With sigma the
root in (0, 1) of sigma = e^(-D (1 - sigma)) and e = e^(-D), the law at the starts of intervals is
P(X = i) = C sigma^i, i >= 1, and

    C (1 - e - e/sigma) = (1 - e)(1 - C sigma/(1 - sigma)),       W_0 = lam C sigma/(1 - sigma)^2,

a little more than round robin's sigma/(1 - sigma). W = W_0 - O(delta) for equal gaps.

*delta -> 0, asynchronous.* The waits grow like 1/delta:

    aujsq-exp   delta W -> (-log(1 - lam) - lam)/lam,        idle servers only  lam/(2 (1 - lam))
    aujsq-det   delta W -> lam/2,                            idle servers only  lam/2.

Source: that the wait tends to a constant or grows without bound is in van der Boor et al. 2019,
sections 1 and 2, that it vanishes for a high enough delta in Proposition 4.11; the constants and
aujsq-det are worked out here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import EquipoiseError
from .base import check_load, check_scheme


@dataclass(frozen=True)
class RareUpdates:
    """What a scheme comes to as delta tends to 0; time in mean service times."""

    scheme: str
    load: float
    idle_only: bool
    wait: float  # the limit of the mean wait; inf if it grows without bound
    slope: float  # the limit of delta times the mean wait; 0 if the wait has a limit

    def wait_at(self, delta: float) -> float:
        """Return the leading term at `delta`: where the mean wait goes, not where it is."""
        if not delta > 0:
            raise EquipoiseError(f"delta = {delta} must be more than 0")
        return self.wait if self.slope == 0 else self.slope / delta


def no_waiting_delta(scheme: str, load: float) -> float:
    """Return the least update rate with which nobody waits in a fleet without end; inf if none is.

    The same whether all servers tell or only idle ones.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If the scheme is unknown or load <= 0.

    Examples
    --------
    >>> no_waiting_delta("sujsq-det", 0.5), round(no_waiting_delta("aujsq-det", 0.5), 8)
    (1.0, 0.62750049)
    """
    scheme, load = check_scheme(scheme), check_load(load)
    if scheme == "sujsq-exp":
        return math.inf
    most = load / (1 - load)
    if scheme != "aujsq-det":
        return most
    from scipy.optimize import brentq

    # T = 1/delta solves (1 - e^-T)/T = lam; the left side falls from 1, and is > lam at 1/most
    return 1 / brentq(
        lambda time: -math.expm1(-time) / time - load,
        1 / most,
        1 / load,
        xtol=1e-300,
        rtol=1e-15,
    )


def round_robin_root(load: float, servers: int | None = None) -> float:
    """Return sigma, the part of tasks that wait under round robin: D/M/1, or Erlang_n/M/1.

    The root in (0, 1) of sigma = e^(-(1 - sigma)/lam), or of
    sigma = (n lam/(n lam + 1 - sigma))^n for n servers. Raises as `rare_updates`.
    """
    from scipy.optimize import brentq

    load = check_load(load)

    def surplus(u: float) -> float:
        """Return how far u = log sigma lies above the log of the right side."""
        if servers is None:
            return u - math.expm1(u) / load
        return u + servers * math.log1p(-math.expm1(u) / (servers * load))

    # u = 0 is a root too, but not the one: between the two u lies above
    low = -1 / load if servers is None else -servers * math.log1p(1 / (servers * load))
    return math.exp(brentq(surplus, low, (load - 1) / 2, xtol=1e-300, rtol=1e-15, maxiter=2000))


def rare_updates(scheme: str, load: float, *, idle_only: bool = False) -> RareUpdates:
    """Return what a scheme comes to as delta tends to 0.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If the scheme is unknown, load <= 0, or all tell at once but only the idle: then the levels
        swing without end, and no limit is known.

    Examples
    --------
    >>> round(rare_updates("sujsq-det", 0.7).wait, 8)
    0.95790367
    """
    scheme, load = check_scheme(scheme), check_load(load)
    if scheme.startswith("sujsq"):
        if idle_only:
            raise EquipoiseError(
                f"what becomes of {scheme} as delta tends to 0 where only idle servers tell is not "
                f"known: its levels do not settle"
            )
        return RareUpdates(scheme, load, idle_only, synchronous_wait(load)[1], 0.0)
    if scheme == "aujsq-det":
        slope = load / 2
    elif idle_only:
        slope = load / (2 * (1 - load))
    else:
        slope = (-math.log1p(-load) - load) / load
    return RareUpdates(scheme, load, idle_only, math.inf, slope)


def synchronous_wait(load: float) -> tuple[float, float]:
    """Return C and W_0 as defined above: the law's constant, and the mean wait as delta -> 0."""
    sigma, gone = round_robin_root(load), math.exp(-1 / load)
    x = sigma / load  # e/sigma = e^-x
    per_x = -math.expm1(-x) / x if x > 0 else 1.0
    first = (1 - gone) / (per_x / load - math.exp(-x) + (1 - gone) / (1 - sigma))  # C sigma
    constant = first / sigma if sigma > 0 else math.inf  # sigma underflows at loads below 1/745
    return constant, load * first / (1 - sigma) ** 2
