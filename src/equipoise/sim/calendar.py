"""The future-event set: what comes first of many, in coarse buckets with a heap behind them.

Time is cut into buckets of a width of about 4 mean gaps between events, `head.size` of them in a
circle. The events of the current bucket stand in a small array sorted by time, last first, so that
taking the first is one step; those of later buckets lie in unsorted lists, one link an event; the
next bucket is sorted when its turn comes. So an event costs O(1): an addition to a list, and a
place in an insertion sort of about 4.

What does not fit there goes into a binary heap: events beyond the last bucket, and events for the
current one when it is full. The first of all is the lesser of the array's and the heap's; a tail
too heavy for the buckets, or a width that is far off, leaves the events to the heap, at its cost.
The width is looked at again after as many steps as there are buckets, and all is sorted into new
ones where it has come to differ twofold from 4 gaps.

The bucket of a time is floor(time / width): monotone, so rounding cannot reorder anything.
Source: Brown (1988), Calendar queues, CACM 31(10); Tang, Goh and Thng (2005), Ladder queue,
ACM TOMACS 15(3), from which comes to sort one bucket only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import outline
from ..policies.heap import drop_first, push
from .store import NOBODY, longer

U = np.uintp
GAPS = 4.0  # mean gaps in a bucket
SORTED = 24  # most events in the array of the current bucket
NEAR, FAR, LISTED, CURRENT, STEPS, TAKEN_OUT = range(6)
WIDTH, INVERSE, MARK = range(3)


class Calendar(NamedTuple):
    """Events by time; `time` and `link` belong to the items and are kept by whoever has them."""

    time: np.ndarray  # float64[items], when, s
    link: np.ndarray  # int32[items], the next one in its list
    head: np.ndarray  # int32[buckets], a power of two; the first of each list, NOBODY if empty
    near_time: np.ndarray  # float64[24], those of the current bucket, the first one last
    near: np.ndarray  # int32[24], whose
    far_time: np.ndarray  # float64[items], a heap
    far: np.ndarray  # int32[items]
    count: np.ndarray  # type: ignore[assignment]  # int64[6], see the names above
    scale: np.ndarray  # float64[3]: width s; its inverse; when counting of events began, s


def make_calendar(
    time: np.ndarray,
    link: np.ndarray,
    gap: float,
    pending: int,
    first: np.ndarray | tuple[int, ...] = (),
) -> Calendar:
    """Return a calendar of the items of these arrays.

    Parameters
    ----------
    time, link
        float64[items], int32[items]; `book` writes to both.
    gap, pending
        The mean time between two events, s, and how many there are at a time, as far as is known.
        The width follows the gaps; the number of buckets stays: far more events go to the heap.
    first
        int[k], the items that are there at the start, by time. They stand in the heap until the
        first is taken; then all are sorted into buckets.
    """
    buckets = 1 << max(6, int(pending).bit_length())
    width = GAPS * gap
    made = Calendar(
        time,
        link,
        np.full(buckets, NOBODY, np.int32),
        np.zeros(SORTED),
        np.zeros(SORTED, np.int32),
        np.zeros(time.size),
        np.zeros(time.size, np.int32),
        np.zeros(6, np.int64),
        np.array([width, 1.0 / width, 0.0]),
    )
    if len(first):
        made.far[: len(first)] = first
        made.far_time[: len(first)] = time[made.far[: len(first)]]  # sorted times are a heap
        made.count[FAR], made.count[STEPS] = len(first), buckets
    return made


def more_items(calendar: Calendar, time: np.ndarray, link: np.ndarray) -> Calendar:
    """Return the same calendar of more items: longer copies of its arrays."""
    return calendar._replace(
        time=time,
        link=link,
        far_time=longer(calendar.far_time, time.size, 0.0),
        far=longer(calendar.far, time.size, 0),
    )


def first_time(calendar):
    """Return when the first event is; inf if there is none."""
    near, far = calendar.count[NEAR], calendar.count[FAR]
    first = calendar.near_time[U(near - 1)] if near > 0 else np.inf
    if far > 0:
        first = min(first, calendar.far_time[0])
    return first


def book(calendar, time, item):
    """Add an event."""
    calendar.time[U(item)] = time
    count = calendar.count
    if count[NEAR] == 0:  # then no list holds any
        count[CURRENT] = bucket_of(calendar, time)
    place(calendar, time, item)


def place(calendar, time, item):
    """Put an event into the current bucket, a list or the heap."""
    count = calendar.count
    bucket = bucket_of(calendar, time)
    ahead = bucket - count[CURRENT]
    if ahead <= 0:
        insert(calendar, time, item)
    elif ahead < calendar.head.size:
        here = U(bucket & (calendar.head.size - 1))
        calendar.link[U(item)] = calendar.head[here]
        calendar.head[here] = item
        count[LISTED] += 1
    else:
        push(calendar.far_time, calendar.far, count[FAR], time, item)
        count[FAR] += 1


def bucket_of(calendar, time):
    """Return the number of the bucket of a time; very late ones share the last."""
    return np.int64(min(time * calendar.scale[INVERSE], 2.0**62))


def insert(calendar, time, item):
    """Sort an event into the current bucket, or leave it to the heap if that is full."""
    near_time, near, count = calendar.near_time, calendar.near, calendar.count
    hole = count[NEAR]
    if hole >= SORTED:
        push(calendar.far_time, calendar.far, count[FAR], time, item)
        count[FAR] += 1
        return
    count[NEAR] = hole + 1
    while hole > 0 and near_time[U(hole - 1)] < time:
        near_time[U(hole)] = near_time[U(hole - 1)]
        near[U(hole)] = near[U(hole - 1)]
        hole -= 1
    near_time[U(hole)], near[U(hole)] = time, item


def take_first(calendar):
    """Take the first event out; return whose it is."""
    count = calendar.count
    near = count[NEAR]
    if count[FAR] > 0 and (near == 0 or calendar.far_time[0] < calendar.near_time[U(near - 1)]):
        item = np.int64(calendar.far[0])
        drop_first(calendar.far_time, calendar.far, count[FAR])
        count[FAR] -= 1
    else:
        near -= 1
        item = np.int64(calendar.near[U(near)])
        count[NEAR] = near
        if near == 0 and count[LISTED] > 0:
            advance(calendar)
    count[TAKEN_OUT] += 1
    count[STEPS] += 1
    if count[STEPS] >= calendar.head.size:
        look_at_width(calendar, calendar.time[U(item)])
    return item


def advance(calendar):
    """Go on to the next bucket that holds anything, and sort it; some list is not empty."""
    count, mask = calendar.count, calendar.head.size - 1
    current = count[CURRENT] + 1
    while calendar.head[U(current & mask)] == NOBODY:
        current += 1
    count[STEPS] += current - count[CURRENT] - 1
    count[CURRENT] = current
    item = np.int64(calendar.head[U(current & mask)])
    calendar.head[U(current & mask)] = NOBODY
    while item != NOBODY:
        following = np.int64(calendar.link[U(item)])
        insert(calendar, calendar.time[U(item)], item)
        count[LISTED] -= 1
        item = following


def look_at_width(calendar, now):
    """Compare the width with the gaps since the last look; sort all anew if it is far off."""
    count, scale = calendar.count, calendar.scale
    if count[TAKEN_OUT] == 1:  # the events of the start still lie in the heap
        count[STEPS] = 0
        renew(calendar, scale[WIDTH], now)
        return
    gap = (now - scale[MARK]) / count[TAKEN_OUT]
    count[STEPS], count[TAKEN_OUT], scale[MARK] = 0, 0, now
    if gap > 0.0 and not 0.5 * scale[WIDTH] <= GAPS * gap <= 2.0 * scale[WIDTH]:
        renew(calendar, GAPS * gap, now)


@outline
def renew(calendar, width, now):
    """Sort all events into buckets of another width; the current one is that of `now`."""
    count, scale = calendar.count, calendar.scale
    waiting = np.int64(NOBODY)  # all of them as one list
    for bucket in range(calendar.head.size):
        item = np.int64(calendar.head[U(bucket)])
        calendar.head[U(bucket)] = NOBODY
        while item != NOBODY:
            following = np.int64(calendar.link[U(item)])
            calendar.link[U(item)] = waiting
            waiting, item = item, following
    for i in range(count[NEAR]):
        item = np.int64(calendar.near[U(i)])
        calendar.link[U(item)] = waiting
        waiting = item
    for i in range(count[FAR]):
        item = np.int64(calendar.far[U(i)])
        calendar.link[U(item)] = waiting
        waiting = item
    count[NEAR], count[FAR], count[LISTED] = 0, 0, 0
    scale[WIDTH], scale[INVERSE] = width, 1.0 / width
    count[CURRENT] = bucket_of(calendar, now)
    while waiting != NOBODY:
        following = np.int64(calendar.link[U(waiting)])
        place(calendar, calendar.time[U(waiting)], waiting)
        waiting = following
    if count[NEAR] == 0 and count[LISTED] > 0:
        advance(calendar)
