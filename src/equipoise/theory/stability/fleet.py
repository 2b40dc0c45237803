"""A fleet of unequal servers, kept as groups of equal speed, slowest first.

Every question about stability turns on sums over the slowest servers, so a fleet is reduced once
to its distinct speeds (ascending) and their counts. A million equal servers then cost as much as
one, and a million different speeds one sort.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import EquipoiseError

MOST_SERVERS = 2**53  # counts must be exact as doubles


@dataclass(frozen=True, eq=False)
class Fleet:
    """Servers and their speeds; made by `as_fleet`, which checks them.

    A server's speed is the work it does when it never lacks any: tasks per unit of time, that is
    workers divided by the mean time of a task; in slotted time, the mean potential service of a
    slot.
    """

    speeds: np.ndarray  # float64[G], distinct, ascending, > 0
    counts: np.ndarray  # int64[G], servers of each speed
    given_speeds: np.ndarray  # float64[k], per server or per group, in the order given
    given_counts: np.ndarray | None  # int64[k], None if one server each

    @cached_property
    def ends(self) -> np.ndarray:
        """Servers up to and including each group, int64[G]; the last is the size of the fleet."""
        return np.cumsum(self.counts)

    @cached_property
    def sums(self) -> np.ndarray:
        """Speed up to and including each group, float64[G], tasks per unit of time."""
        return np.cumsum(self.speeds * self.counts)

    @cached_property
    def size(self) -> int:
        """How many servers there are."""
        return int(self.counts.sum())

    @property
    def capacity(self) -> float:
        """The speed of all servers together, tasks per unit of time: no policy can carry more."""
        return float(self.sums[-1])

    def members(self, chosen: np.ndarray) -> np.ndarray:
        """Return the numbers of the servers in the given entries, int64[m], ascending from 0.

        `chosen` is bool[k] over the speeds or groups as they were given; the servers of the first
        group are numbered first.
        """
        if self.given_counts is None:
            return np.flatnonzero(chosen)
        ends = np.cumsum(self.given_counts)
        picked = np.flatnonzero(chosen)
        counts = self.given_counts[picked]
        skipped = ends[picked] - np.cumsum(counts)  # servers left out before each picked group
        return np.arange(counts.sum()) + np.repeat(skipped, counts)

    def each(self) -> np.ndarray:
        """Return the speed of every server in the order given, float64[n]."""
        if self.given_counts is None:
            return self.given_speeds
        return np.repeat(self.given_speeds, self.given_counts)


def as_fleet(servers: Fleet | Sequence[float] | np.ndarray | Iterable[tuple[int, float]]) -> Fleet:
    """Return the fleet that was written.

    Parameters
    ----------
    servers
        Speeds, one per server (`[0.2, 1.0, 1.0]`), or groups of (count, speed)
        (`[(90, 1.0), (10, 0.2)]`; an array of two columns is read so too), or a `Fleet`. Speeds
        are in tasks per unit of time.

    Raises
    ------
    EquipoiseError
        If there is no server, a speed is not a finite number > 0, or a count is not a whole
        number >= 1; the line names the first server or group that is wrong.
    """
    if isinstance(servers, Fleet):
        return servers
    if not isinstance(servers, np.ndarray):
        servers = list(servers)
    if len(servers) == 0:
        raise EquipoiseError("a fleet needs at least one server")
    grouped = servers.ndim == 2 if isinstance(servers, np.ndarray) else np.ndim(servers[0]) == 1
    if grouped:
        return _from_groups(servers)
    try:
        given = np.asarray(servers, dtype=float)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    if given.ndim != 1:
        raise EquipoiseError(
            "a fleet is a list of speeds, one per server, or a list of (count, speed) groups"
        )
    _check_speeds(given, "server")
    speeds, counts = np.unique(given, return_counts=True)
    return Fleet(speeds, counts.astype(np.int64), given, None)


def _from_groups(groups: Any) -> Fleet:
    counts: list[int] = []
    speeds: list[float] = []
    for number, group in enumerate(groups):
        try:
            count, speed = group
            counts.append(_whole(count))
            speeds.append(float(speed))
        except (TypeError, ValueError):
            raise EquipoiseError(
                f"group {number}: {group!r} is not (count, speed); write e.g. (90, 1.0)"
            ) from None
        if counts[-1] < 1:
            raise EquipoiseError(f"group {number}: count = {count} must be a whole number >= 1")
    if sum(counts) > MOST_SERVERS:
        raise EquipoiseError(f"{sum(counts)} servers are too many; at most 2^53 can be counted")
    given = np.array(speeds)
    _check_speeds(given, "group")
    size = np.array(counts, dtype=np.int64)
    distinct, where = np.unique(given, return_inverse=True)
    merged = np.zeros(distinct.size, dtype=np.int64)
    np.add.at(merged, where, size)
    return Fleet(distinct, merged, given, size)


def _whole(value: Any) -> int:
    if isinstance(value, float | np.floating):
        if value != int(value):
            raise ValueError
        return int(value)
    return operator.index(value)


def _check_speeds(speeds: np.ndarray, what: str) -> None:
    wrong = ~((speeds > 0) & np.isfinite(speeds))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise EquipoiseError(
            f"{what} {first}: speed = {speeds[first]:g} must be a finite number > 0"
        )


def check_rate(rate: float) -> float:
    """Return an arrival rate (tasks per unit of time, all servers together) if it is one."""
    if not (np.isfinite(rate) and rate >= 0):
        raise EquipoiseError(
            f"rate = {rate} must be a finite number >= 0 of tasks per unit of time"
        )
    return float(rate)


def check_draws(d: int, size: int, replacement: bool = False) -> int:
    """Return the number of servers drawn if it is allowed."""
    try:
        d = operator.index(d)
    except TypeError:
        raise EquipoiseError(f"d = {d} must be a whole number >= 1") from None
    if d < 1:
        raise EquipoiseError(f"d = {d} must be a whole number >= 1")
    if d > size and not replacement:
        raise EquipoiseError(f"d = {d} is more than the {size} servers there are; use d <= {size}")
    return d
