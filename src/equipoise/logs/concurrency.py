"""How many tasks were there at once, counted, and by Little's law.

Counted: a task is there from its arrival for its duration. Little: the mean number is the rate
times the mean duration, in the long run. Over a log of finite length the two differ by what is cut
off at its ends: tasks that ended after it, and tasks that were there before it began, of which a
log may know nothing. A large difference says that the log is too short for its durations, or that
arrivals or durations are not what they seem.

If no server was ever seen with more than c tasks in service, where tasks that do not queue would
often have made it more, c is how many it works on at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .stream import Stream
from .tasks import Tasks

PIECES = 500  # of the time, for the picture
SURE = 20.0  # tasks that would have found a server fuller, before a bound is believed


@dataclass(frozen=True)
class Concurrency:
    """Tasks there at once, all servers together."""

    counted: float  # mean over the log
    little: float  # rate times mean duration
    most: int
    edges: np.ndarray  # float64[k + 1], s
    mean: np.ndarray  # float64[k], over each piece
    top: np.ndarray  # float64[k], most in each piece
    workers: int | None  # the most in service at a server, where that is a bound; else None
    most_at_server: int | None  # the most ever in service at one; None where servers are unnamed

    @property
    def agrees(self) -> bool:
        """Whether both are within a tenth."""
        return abs(self.counted - self.little) <= 0.1 * self.little


def find_concurrency(tasks: Tasks, stream: Stream) -> Concurrency | None:
    """Return what a log's durations say about tasks at once; None where it has hardly any."""
    took = np.where(np.isnan(tasks.duration), tasks.service, tasks.duration)
    known = np.isfinite(took) & (took >= 0)
    if known.sum() < 2 or known.mean() < 0.5 or stream.span <= 0:
        return None
    start, took = tasks.arrival[known], took[known]
    end = np.minimum(start + took, stream.span)
    edges = np.linspace(0.0, stream.span, PIECES + 1)
    area = _area(start, end, edges)
    mean = area / np.diff(edges)
    times, level = _levels(start, end)
    little = float(stream.total / stream.span * took.mean())
    workers, most = _workers(tasks, stream)
    return Concurrency(
        float(area.sum() / stream.span), little, int(level.max(initial=0)), edges, mean,
        _tops(times, level, edges), workers, most,
    )  # fmt: skip


def _levels(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return moments, ascending, and the tasks there from each on; ends come before arrivals."""
    times = np.concatenate([start, end])
    steps = np.concatenate([np.ones(start.size, np.int64), -np.ones(end.size, np.int64)])
    instant = end <= start  # a task of no duration was there all the same
    order = np.lexsort((np.concatenate([np.zeros(start.size), np.where(instant, 1, -1)]), times))
    return times[order], np.cumsum(steps[order])


def _area(start: np.ndarray, end: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the task seconds in each piece, float64[k]: sum of (min(end, e) - min(start, e))."""
    upto = np.zeros(edges.size)
    for sign, times in ((1.0, np.sort(end)), (-1.0, np.sort(start))):
        sums = np.append(0.0, np.cumsum(times))
        place = np.searchsorted(times, edges, side="right")
        upto += sign * (sums[place] + edges * (times.size - place))
    return np.diff(upto)


def _tops(times: np.ndarray, level: np.ndarray, edges: np.ndarray) -> np.ndarray:
    place = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, edges.size - 2)
    top = np.zeros(edges.size - 1)
    np.maximum.at(top, place, level)
    before = np.searchsorted(times, edges[:-1], side="left") - 1
    carried = np.where(before >= 0, level[np.maximum(before, 0)], 0)
    return np.maximum(top, carried)


def _workers(tasks: Tasks, stream: Stream) -> tuple[int | None, int | None]:
    """Return the bound on tasks in service at a server, if there is one, and the most ever seen."""
    if not tasks.servers:
        return None, None
    known = np.isfinite(tasks.service) & (tasks.server >= 0)
    if known.sum() < 100:
        return None, None
    took = np.where(np.isnan(tasks.duration), tasks.service, tasks.duration)[known]
    service, server = tasks.service[known], tasks.server[known]
    end = tasks.arrival[known] + took
    start = end - service
    slack = 1e-6 + (stream.resolution if stream.resolution < 0.1 else 0.0)
    if stream.of_ends and stream.resolution >= 0.1:
        return None, None  # ends that are rounded say nothing about who was there at once
    most, expected = 0, []
    for i in range(len(tasks.servers)):
        mine = server == i
        if not mine.any():
            continue
        # what only seems to overlap for the clock's sake does not count
        _, level = _levels(start[mine], np.maximum(end[mine] - 2 * slack, start[mine]))
        most = max(most, int(level.max()))
        expected.append((mine.sum(), float(service[mine].sum() / stream.span)))
    from scipy.special import pdtrc

    beyond = sum(n * pdtrc(most - 1, load) for n, load in expected)
    return (most if beyond > SURE else None), most
