"""The answer to "how much load does this policy carry on this fleet?"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .fleet import check_rate


@dataclass(frozen=True, eq=False)
class Stability:
    """How much load a rule of sending carries on a fleet, and what holds it back.

    Rates are tasks per unit of time, all servers together (in slotted time: tasks per slot). Where
    the region is known, `lam_max` = `lam_upper`. Where it is not, every rate below `lam_max` is
    proved to be stable, every rate above `lam_upper` to be unstable, and nothing is said between.
    At the boundary itself nothing is said.
    """

    rule: str  # e.g. "jsq-d(d=2)"
    size: int  # servers
    capacity: float  # tasks per unit of time, all servers together
    lam_max: float  # tasks per unit of time; inf if no rate is too high
    lam_upper: float  # tasks per unit of time
    bottleneck: np.ndarray  # int64[m], ascending: the servers that overflow first; may be all
    bottleneck_speed: float  # tasks per unit of time, the bottleneck's servers together
    bottleneck_share: float  # fraction of the tasks that can go nowhere else
    bottleneck_name: str  # "the 10 slowest of 100 servers (speed 0.2)"
    reason: str  # the theorem or argument behind it, in a sentence
    rate: float | None = None  # tasks per unit of time at which it was asked
    excess: Callable[[float], float | None] = field(default=lambda rate: None, repr=False)

    def at(self, rate: float) -> Stability:
        """Return the same answer, asked at another arrival rate (tasks per unit of time)."""
        return replace(self, rate=check_rate(rate))

    @property
    def known(self) -> bool:
        """Whether the region is known, boundary apart."""
        return self.lam_upper <= self.lam_max

    @property
    def optimal(self) -> bool:
        """Whether every load that any policy can carry is carried, to 1e-9."""
        return self.lam_max >= self.capacity * (1 - 1e-9)

    @property
    def loss(self) -> float:
        """The capacity that is lost, in per cent; the most it can be where it is not known."""
        return 100 * max(0.0, 1 - self.lam_max / self.capacity)

    @property
    def load(self) -> float | None:
        """The rate as a fraction of the capacity, None if no rate was asked about."""
        return None if self.rate is None else self.rate / self.capacity

    @property
    def stable(self) -> bool | None:
        """Whether the queues settle at the rate; None if not asked, not known or on the boundary.

        Within 1e-12 of the boundary, relative, a rate counts as on it.
        """
        if self.rate is None:
            return None
        if self.rate < self.lam_max * (1 - 1e-12):
            return True
        return False if self.rate > self.lam_upper * (1 + 1e-12) else None

    @property
    def utilisation(self) -> float | None:
        """The rate as a fraction of `lam_max`, None if no rate was asked about."""
        return None if self.rate is None else self.rate / self.lam_max

    @property
    def distance(self) -> float | None:
        """From the rate to the boundary, `lam_max - rate`, tasks per unit of time; < 0 beyond."""
        return None if self.rate is None else self.lam_max - self.rate

    @property
    def growth(self) -> float | None:
        """Tasks by which all queues together grow per unit of time, in the long run.

        The largest of rate Pi(S) - mu(S) over all sets S of servers, 0 if stable; None if no rate
        was asked about or it is not known. The queues outside the growing sets stay finite, so
        this is the slope of the total, not a bound.
        """
        return None if self.rate is None else self.excess(self.rate)

    @property
    def bottleneck_growth(self) -> float | None:
        """The same for the bottleneck's own queues alone: rate Pi(S) - mu(S), at least.

        Less than `growth` when another set overflows too. None if no rate was asked about or the
        region is not known.
        """
        if self.rate is None or not self.known:
            return None
        return max(0.0, self.rate * self.bottleneck_share - self.bottleneck_speed)

    @property
    def verdict(self) -> str:
        """All of it in one line."""
        return self.describe()

    def describe(self, unit: str = "unit of time") -> str:
        """Return the verdict in one line, times spoken of in `unit` ("s", "slot")."""
        if np.isinf(self.lam_max):
            return f"{self.rule} carries any load: {self.reason}"
        carried = f"{self.rule} carries {self._carried(unit)}"
        if self.known and not self.optimal:
            carried += f"; bottleneck: {self.bottleneck_name}, {self._squeeze()}"
        if self.rate is None:
            return carried
        return f"{self._state(unit)}; {carried}"

    def _carried(self, unit: str) -> str:
        part = self.lam_max / self.capacity
        rates = f"{self.lam_max:.4g} tasks per {unit}"
        if not self.known:
            whole = f"{self.lam_upper / self.capacity:.3g}"
            if self.lam_max <= 0:
                return f"an unknown part of the load (no policy carries more than {whole})"
            return (
                f"load {part:.3g} of 1 for certain ({rates}); from there to {whole} it is not known"
            )
        if self.optimal:
            return f"load 1 of 1 ({rates}): no capacity is lost"
        return f"load {part:.3g} of 1 ({rates}; loses {self.loss:.3g} % of the capacity)"

    def _squeeze(self) -> str:
        """Why it overflows: what must go there against what it can do."""
        must, can = 100 * self.bottleneck_share, 100 * self.bottleneck_speed / self.capacity
        return f"which must take {must:.3g} % of the tasks with {can:.3g} % of the speed"

    def _state(self, unit: str) -> str:
        load = f"at load {self.load:.3g} ({self.rate:.4g} tasks per {unit})"
        if self.stable:
            return f"stable {load}"
        if self.stable is None:
            edge = "on the boundary" if self.known else "not known whether stable"
            return f"{edge} {load}"
        grown = "" if self.growth is None else f": the queues grow by {self.growth:.3g} per {unit}"
        return f"unstable {load}{grown}"
