"""The servers that a log names, and how fast they are.

If tasks have the same law everywhere and server i works at speed s_i, its times are those of a
server of speed 1 divided by s_i: their logarithms are shifted by -log s_i. So speeds are compared
by mean logarithms, which exist and are nearly normal however heavy the tail. Servers are one group
unless Q = sum (mean - mean of all)^2 / error^2 is beyond what chance makes of a chi-squared number;
else they are cut into the fewest groups, neighbours by mean, within which Q is not. Equal servers
are told apart once in a thousand logs. Groups whose speeds differ by less than 2 % are one. Speed 1
is the group with the most tasks.

A difference in times is a difference in speed only if the servers had the same requests and like
loads; what a log cannot show, a reader of the result must know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tasks import Tasks

LEAST_TIMES = 10  # of a server whose speed is asked about
LEAST_DIFFERENCE = 0.02
MOST_COMPARED = 400  # servers; of more, those with the most tasks are compared
DOUBT = 1e-3  # equal servers are told apart once in so many times
MOST_GROUPS = 8
BATCHES = 20


@dataclass(frozen=True)
class Server:
    """What is known of one."""

    tasks: int
    mean: float  # s, of its times; nan where none is known
    error: float  # s, half-width of the 95 % interval
    speed: float  # against its own fleet: exp(mean log of all - its mean log)
    speed_error: float  # half-width of the 95 % interval; nan where it has too few times
    group: int  # place in `Fleet.groups`


@dataclass(frozen=True)
class Group:
    """Servers whose speeds the data do not tell apart."""

    count: int
    speed: float
    error: float  # half-width of the 95 % interval; 0 for the group that others are measured by


@dataclass(frozen=True)
class Fleet:
    """The servers, in the order in which the log first names them, and their groups, slow first."""

    servers: tuple[Server, ...]
    groups: tuple[Group, ...]

    @property
    def identical(self) -> bool:
        """Whether no difference in speed is decided."""
        return len(self.groups) < 2

    @property
    def speeds(self) -> np.ndarray:
        """The speed of each server, that of its group, float64[servers]."""
        return np.array([self.groups[s.group].speed for s in self.servers])


def find_fleet(tasks: Tasks) -> Fleet | None:
    """Return the fleet that a log names; None where it names no server."""
    n = len(tasks.servers)
    if n == 0:
        return None
    work = tasks.work
    known = np.isfinite(work) & (work >= 0) & (tasks.server >= 0)
    counts = np.bincount(tasks.server[tasks.server >= 0], minlength=n)
    place = tasks.server[known]
    times = work[known]
    positive = times[times > 0]
    least = positive.min() / 2 if positive.size else 1.0
    logs = np.log(np.maximum(times, least))
    seen = np.bincount(place, minlength=n)
    mean, spread = _moments(place, times, seen, n)
    log_mean, log_spread = _moments(place, logs, seen, n)
    error = log_spread * _dependence(place, logs, log_mean)
    usable = np.flatnonzero((seen >= LEAST_TIMES) & (error > 0))
    usable = usable[np.argsort(-seen[usable], kind="stable")][:MOST_COMPARED]
    group_of = _groups(log_mean[usable], error[usable])
    groups, places = _named(usable, group_of, log_mean, error, counts, n)
    overall = float(logs.mean()) if logs.size else np.nan
    servers = tuple(
        Server(
            int(counts[i]), float(mean[i]), float(1.96 * spread[i]),
            float(np.exp(overall - log_mean[i])),
            float(1.96 * error[i] * np.exp(overall - log_mean[i])) if seen[i] >= LEAST_TIMES
            else np.nan,
            int(places[i]),
        )
        for i in range(n)
    )  # fmt: skip
    return Fleet(servers, groups)


def _moments(
    place: np.ndarray, values: np.ndarray, seen: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and their standard errors by server, float64[n] each; nan where unknown."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(place, values, minlength=n) / seen
        square = np.bincount(place, (values - mean[place]) ** 2, minlength=n)
        error = np.sqrt(square / (seen - 1) / seen)
    return mean, np.where(seen > 1, error, np.nan)


def _dependence(place: np.ndarray, logs: np.ndarray, mean: np.ndarray) -> float:
    """Return what standard errors are to be multiplied by, times in a row not being independent.

    From batches of the times of all servers in order of arrival; 1 where they do not show it.
    """
    if logs.size < 10 * BATCHES:
        return 1.0
    rest = logs - mean[place]
    first = np.arange(BATCHES) * rest.size // BATCHES
    sizes = np.diff(np.append(first, rest.size))
    batch = np.add.reduceat(rest, first) / sizes
    ratio = batch.std(ddof=1) / (rest.std() / np.sqrt(rest.size / BATCHES))
    return float(ratio) if ratio > 1.5 else 1.0


def _groups(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the group of each server, int64[k]: the fewest within which they do not differ."""
    from scipy.special import chdtrc

    k = mean.size
    if k < 2:
        return np.zeros(k, np.int64)
    order = np.argsort(mean)
    x, w = mean[order], 1 / error[order] ** 2
    x = x - x.mean()
    sums = [np.append(0.0, np.cumsum(w * x**j)) for j in range(3)]

    def within(end: int) -> np.ndarray:
        """Q of the servers from each first one up to `end`, float64[end]."""
        weight, one, two = (s[end] - s[:end] for s in sums)
        return np.maximum(two - one**2 / weight, 0.0)

    # cost[e]: the least Q of the first e servers in so many groups; cuts: where the last begins
    cost = np.array([0.0, *(within(end)[0] for end in range(1, k + 1))])
    cuts = [np.zeros(k + 1, np.int64)]
    while chdtrc(max(1, k - len(cuts)), cost[k]) < DOUBT and len(cuts) < min(MOST_GROUPS, k):
        more, cut = np.full(k + 1, np.inf), np.zeros(k + 1, np.int64)
        for end in range(len(cuts) + 1, k + 1):
            total = cost[:end] + within(end)
            total[: len(cuts)] = np.inf  # each group before has at least one server
            cut[end] = int(total.argmin())
            more[end] = total[cut[end]]
        cost = more
        cuts.append(cut)
    edges, end = [], k
    for cut in reversed(cuts):
        edges.append((int(cut[end]), end))
        end = int(cut[end])
    group = np.zeros(k, np.int64)
    kept: list[float] = []
    for first_, end in reversed(edges):
        here = float(w[first_:end] @ x[first_:end] / w[first_:end].sum())
        if not kept or here - kept[-1] > LEAST_DIFFERENCE:
            kept.append(here)
        group[order[first_:end]] = len(kept) - 1
    return group


def _named(
    usable: np.ndarray, group_of: np.ndarray, mean: np.ndarray, error: np.ndarray,
    counts: np.ndarray, n: int,
) -> tuple[tuple[Group, ...], np.ndarray]:  # fmt: skip
    """Return groups, the slowest first, and each server's; those not compared join the largest."""
    if not usable.size:
        return (Group(n, 1.0, 0.0),), np.zeros(n, np.int64)
    k = int(group_of.max()) + 1
    tasks = np.bincount(group_of, counts[usable], minlength=k)
    usual = int(tasks.argmax())
    weights = 1 / error[usable] ** 2
    weight = np.bincount(group_of, weights, minlength=k)
    middle = np.bincount(group_of, weights * mean[usable], minlength=k) / weight
    places = np.full(n, k - 1 - usual)
    places[usable] = k - 1 - group_of  # large logarithms of times are slow
    groups = []
    for g in reversed(range(k)):
        speed = float(np.exp(middle[usual] - middle[g]))
        apart = 0.0 if g == usual else 1.96 * speed * np.sqrt(1 / weight[g] + 1 / weight[usual])
        groups.append(Group(int((places == k - 1 - g).sum()), speed, float(apart)))
    return tuple(groups), places
