"""What a kernel keeps of its run, in O(1) an event: occupancy, imbalance, thresholds, waits.

`least[i]` is the number of servers with at least i tasks. With b the beginning of a stretch and t
its end, the integral of least[i] is least[i](t) (t - b), less x - b for each rise at a time x, plus
x - b for each fall: one addition an event. The time-averaged occupancy q(i), the shares of tasks
by company, and the largest length all follow from it.

Imbalance is half of sum_i |q(i) - q*(i)|, q* the balanced state of the same total: with
K = total // n it is the number of tasks beyond level K + 1, plus those at level K + 1 in excess of
total - n K, over n. Both change by O(1) an event, K only when the total crosses a multiple of n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import near
from ..stats.histogram import BUCKETS, bucket
from .store import longer

U = np.uintp

# tally.now: where a kernel stands
NOW, PENDING, THRESHOLD_SINCE, LAST_CHANGE, BEGAN = range(5)
# tally.number: integers of the same kind
TOTAL, BALANCED, ABOVE, ARRIVED, FINISHED, LOST, TALLEST, THRESHOLD, SHORT, EXCESS = range(10)
# tally.sums: what is added up over a stretch; all else follows from counts and areas at its ends
UNEVEN, WAITS, RESPONSES, WAITED, RESPONDED = range(5)
NO_TIME = -1.0  # the arrival stamp of tasks that were there at the start: their waits are not known


@near(now=5, number=10, sums=5)
class Tally(NamedTuple):
    """Counts of where the servers stand, and sums over the stretch being run."""

    now: np.ndarray  # float64[5], see the names above
    number: np.ndarray  # int64[10], see the names above
    least: np.ndarray  # int64[levels], servers with at least i tasks
    area: np.ndarray  # float64[levels], integral of `least` over the row, see above
    sums: np.ndarray  # float64[5], see the names above
    waits: np.ndarray  # int64[buckets], tasks by wait
    responses: np.ndarray  # int64[buckets], tasks by response
    thresholds: np.ndarray  # float64[levels], time at each announced value


def make_tally(lengths: np.ndarray, levels: int, announcement: int) -> Tally:
    """Return the tally of a run that starts at time 0 with these lengths, int[n]."""
    return tally_of(np.bincount(lengths), levels, announcement)


def tally_of(counts: np.ndarray, levels: int, announcement: int) -> Tally:
    """Return the same from the number of servers with 0, 1, .. tasks, int64[k], k <= levels."""
    n, total = int(counts.sum()), int(counts @ np.arange(counts.size))
    least = np.zeros(levels, np.int64)
    least[: counts.size] = counts[::-1].cumsum()[::-1]
    balanced = total // n
    number = np.zeros(10, np.int64)
    number[TOTAL], number[BALANCED] = total, balanced
    number[ABOVE] = least[balanced + 2 :].sum()
    number[EXCESS] = least[balanced + 1] - (total - n * balanced)
    number[TALLEST], number[THRESHOLD] = np.flatnonzero(counts).max(), announcement
    now = np.zeros(5)
    now[PENDING] = np.nan
    return Tally(
        now,
        number,
        least,
        np.zeros(levels),
        np.zeros(5),
        np.zeros(BUCKETS, np.int64),
        np.zeros(BUCKETS, np.int64),
        np.zeros(levels),
    )


def grown(tally: Tally, levels: int) -> Tally:
    """Return the same tally with room for more levels."""
    return tally._replace(
        least=longer(tally.least, levels, 0),
        area=longer(tally.area, levels, 0.0),
        thresholds=longer(tally.thresholds, levels, 0.0),
    )


def pass_time(tally, now, size):
    """Go on to `now`: the imbalance was constant until then."""
    number = tally.number
    tally.sums[UNEVEN] += (now - tally.now[NOW]) * (number[ABOVE] + max(number[EXCESS], 0))
    tally.now[NOW] = now


def excess(tally, size):
    """Return the servers with more than K tasks, less those that need to have more."""
    number, balanced = tally.number, tally.number[BALANCED]
    return tally.least[U(balanced + 1)] - (number[TOTAL] - size * balanced)


def risen(tally, length, size):
    """Book that a server now has `length` tasks, one more than before."""
    number, least = tally.number, tally.least
    i, now = U(length), tally.now
    tally.area[i] -= now[NOW] - now[BEGAN]
    least[i] += 1
    if length > number[TALLEST]:
        number[TALLEST] = length
    balanced = number[BALANCED]
    # no branches: they would be guessed wrong half the time
    number[ABOVE] += int(length >= balanced + 2)
    number[EXCESS] -= int(length != balanced + 1)
    number[TOTAL] += 1
    if number[TOTAL] >= size * (balanced + 1):
        number[BALANCED] = balanced + 1
        number[ABOVE] -= least[U(balanced + 2)]
        number[EXCESS] = excess(tally, size)


def risen_by(tally, length, tasks, size):
    """Book that a server now has `length` tasks, so many of them new."""
    number, least, area = tally.number, tally.least, tally.area
    elapsed = tally.now[NOW] - tally.now[BEGAN]
    for i in range(length - tasks + 1, length + 1):
        area[U(i)] -= elapsed
        least[U(i)] += 1
    number[TALLEST] = max(number[TALLEST], length)
    number[ABOVE] += max(0, min(tasks, length - number[BALANCED] - 1))
    number[TOTAL] += tasks
    while number[TOTAL] >= size * (number[BALANCED] + 1):
        number[BALANCED] += 1
        number[ABOVE] -= least[U(number[BALANCED] + 1)]
    number[EXCESS] = excess(tally, size)


def fallen(tally, length, size):
    """Book that a server has one task fewer than `length` now."""
    number, least = tally.number, tally.least
    i, now = U(length), tally.now
    tally.area[i] += now[NOW] - now[BEGAN]
    least[i] -= 1
    balanced = number[BALANCED]
    number[ABOVE] -= int(length >= balanced + 2)
    number[EXCESS] += int(length != balanced + 1)
    number[TOTAL] -= 1
    if number[TOTAL] < size * balanced:
        number[BALANCED] = balanced - 1
        number[ABOVE] += least[U(balanced + 1)]
        number[EXCESS] = excess(tally, size)


def passed(tally, length, elapsed, brink):
    """Book that a server has one task fewer than `length`, one of many to change at this time.

    `elapsed` is the time since BEGAN, `brink` is BALANCED + 2; returns what to take off ABOVE.
    `all_fallen` books the rest.
    """
    i = U(length)
    tally.area[i] += elapsed
    tally.least[i] -= 1
    return int(length >= brink)


def all_fallen(tally, gone, size):
    """Book that `gone` tasks in all have left at this time, each of them `passed`."""
    number = tally.number
    number[TOTAL] -= gone
    while number[TOTAL] < size * number[BALANCED]:
        number[ABOVE] += tally.least[U(number[BALANCED] + 1)]
        number[BALANCED] -= 1
    number[EXCESS] = excess(tally, size)


def announced(tally, value):
    """Book that another value is in force from now on; far values share the last place."""
    now, number = tally.now, tally.number
    at = max(0, min(number[THRESHOLD], tally.thresholds.size - 1))
    tally.thresholds[U(at)] += now[NOW] - now[THRESHOLD_SINCE]
    now[THRESHOLD_SINCE] = now[NOW]
    now[LAST_CHANGE] = now[NOW]
    number[THRESHOLD] = value


def waited(tally, wait):
    """Book the wait of a task that starts."""
    tally.sums[WAITS] += wait
    tally.waits[U(bucket(wait))] += 1


def started_at_once(tally):
    """Book a task that did not wait."""
    tally.waits[0] += 1


def responded(tally, response):
    """Book the response of a task that has finished."""
    tally.sums[RESPONSES] += response
    tally.responses[U(bucket(response))] += 1


def settle(tally):
    """Bring every integral up to now, at the end of a stretch; the next begins."""
    now = tally.now[NOW]
    elapsed = now - tally.now[BEGAN]
    for i in range(tally.number[TALLEST] + 2):
        tally.area[i] = max(0.0, tally.area[i] + tally.least[i] * elapsed)
    tally.now[BEGAN] = now
    at = max(0, min(tally.number[THRESHOLD], tally.thresholds.size - 1))
    tally.thresholds[at] += now - tally.now[THRESHOLD_SINCE]
    tally.now[THRESHOLD_SINCE] = now
    waited = responded = 0
    for i in range(tally.waits.size):  # here, since Python would hold up the other replications
        waited += tally.waits[U(i)]
        responded += tally.responses[U(i)]
    tally.sums[WAITED], tally.sums[RESPONDED] = waited, responded
