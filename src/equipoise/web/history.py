"""The last ten minutes, a sample a second, so that a page opened later shows what was before.

A ring of fixed size, the same for any number of servers; rates, means and quantiles are
differences of what is in it, and are made where they are shown. Of the servers it keeps what was
counted every ten seconds of the last minute: 32 bytes for each server and time, 2.3 MB at 10,000.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..live.reading import Reading

EVERY = 1.0  # s
KEPT = 601  # samples: ten minutes, and where the first second of them began
SNAPSHOT = 10.0  # s between two of `Minute`
MINUTE = 60.0
TOGETHER = 10.0  # s, within which workers notice the same


class History:
    """Samples of a dispatcher; each has a number, counted from 0."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept, self.count = kept, 0
        self.names: tuple[str, ...] = ()
        self._at = np.zeros(kept)
        self._values = np.zeros((kept, 0))
        self._buckets = np.zeros((kept, 0), np.int64)

    def add(self, reading: Reading) -> bool:
        """Keep a sample; the oldest is dropped for it. Return whether it has a new column.

        So it is when another policy has a threshold and the one before had none.
        """
        if not self.names:
            self._buckets = np.zeros((self.kept, len(reading.buckets)), np.int64)
        new = [name for name in reading.values if name not in self.names]
        if new:
            self.names += tuple(new)
            self._values = np.hstack([self._values, np.full((self.kept, len(new)), np.nan)])
        row = self.count % self.kept
        self._at[row] = reading.at
        self._values[row] = [reading.values.get(name, np.nan) for name in self.names]
        self._buckets[row] = reading.buckets
        self.count += 1
        return bool(new)

    def since(self, number: int) -> dict[str, Any]:
        """Return the samples from that number on, those that are still there, by column.

        `first` is the number of the first of them, `at` their times, `values` by metric, None where
        there was no such one, `buckets` of the response time, a list for each bucket.
        """
        first = min(max(number, self.count - self.kept, 0), self.count)
        rows = np.arange(first, self.count) % self.kept
        columns = self._values[rows].T.tolist()
        return {
            "first": first,
            "at": np.round(self._at[rows], 3).tolist(),
            "values": {
                name: [_short(value) for value in column]
                for name, column in zip(self.names, columns, strict=True)
            },
            "buckets": self._buckets[rows].T.tolist(),
        }

    def change(self, name: str, seconds: float) -> float:
        """Return by how much a counter has grown in the last so many seconds; 0 at first."""
        if self.count < 2:
            return 0.0
        last = (self.count - 1) % self.kept
        rows = np.arange(max(0, self.count - self.kept), self.count) % self.kept
        then = rows[self._at[rows] >= self._at[last] - seconds - EVERY / 2][0]
        column = self.names.index(name)
        return float(self._values[last, column] - self._values[then, column])

    @property
    def bytes(self) -> int:
        """What it takes."""
        return self._at.nbytes + self._values.nbytes + self._buckets.nbytes


def _short(value: float) -> float | int | None:
    if value != value:
        return None
    return int(value) if value == int(value) else round(value, 6)


class Snapshot(NamedTuple):
    """What was counted of every server at a time."""

    at: float
    row: dict[str, int]  # shared by those that are of the same servers
    counts: np.ndarray  # float64[n, columns]


class Minute:
    """What was counted of each server during the last minute."""

    def __init__(self) -> None:
        self._kept: deque[Snapshot] = deque()

    def due(self, at: float) -> bool:
        """Whether it is time for a snapshot."""
        return not self._kept or at - self._kept[-1].at >= SNAPSHOT - EVERY / 2

    def add(self, at: float, names: Sequence[str], counts: np.ndarray) -> None:
        """Keep a snapshot, and none that is older than a minute before it."""
        before = self._kept[-1].row if self._kept else {}
        row = before if tuple(before) == tuple(names) else {n: i for i, n in enumerate(names)}
        self._kept.append(Snapshot(at, row, counts))
        while self._kept[0].at < at - MINUTE - EVERY / 2:
            self._kept.popleft()

    def change(self, at: float, name: str, now: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return over how many seconds a server was watched, and by how much its counts grew.

        At most a minute and a snapshot; None before a second has passed. A server that was taken in
        anew begins anew, since its counts do.
        """
        for kept in self._kept:
            row = kept.row.get(name)
            if row is not None and (now >= kept.counts[row]).all():
                return (at - kept.at, now - kept.counts[row]) if at - kept.at >= EVERY / 2 else None
        return None

    @property
    def bytes(self) -> int:
        """What its numbers take, names aside."""
        return sum(kept.counts.nbytes for kept in self._kept)


class Happened(NamedTuple):
    """An event, and the worker that tells it; None where it is told by all, or there is but one."""

    time: float
    text: str
    worker: int | None = None


class Told(NamedTuple):
    """An event, or several of a kind in a row."""

    time: float  # of the last one, s since 1970
    text: str
    times: int = 1
    since: float = 0.0  # the first one's time
    workers: tuple[int, ...] = ()  # who tell it


class Events:
    """The last events, newest last. A threshold that moves to and fro is one of them.

    So a threshold that is learnt anew again and again pushes no other event out of the list. What
    several workers tell within `TOGETHER` seconds is one event, too.
    """

    def __init__(self, most: int = 100) -> None:
        self.told: deque[Told] = deque(maxlen=most)
        self._seen: Any = None

    def add(self, events: Sequence[Any]) -> None:
        """Take what is new of events (`time`, `text`, `worker`); the list may have lost its first.

        The objects must be the same ones each time.
        """
        new = []
        for event in reversed(events):
            if event is self._seen:
                break
            new.append(event)
        if not new:
            return
        self._seen = new[0]
        for event in reversed(new):
            worker = getattr(event, "worker", None)
            if worker is None:
                self._tell(event.time, event.text)
            elif not self._join(event.time, event.text, worker):
                self.told.append(Told(event.time, event.text, 1, event.time, (worker,)))

    def _join(self, time: float, text: str, worker: int) -> bool:
        """Add a worker to those that told it just now, if another did; say whether one did."""
        for i, last in reversed(list(enumerate(self.told))):
            if last.text == text and abs(time - last.since) <= TOGETHER and last.workers:
                if worker in last.workers:
                    return False
                self.told[i] = last._replace(workers=tuple(sorted((*last.workers, worker))))
                return True
        return False

    def _tell(self, time: float, text: str) -> None:
        last = self.told[-1] if self.told else None
        if last is not None and _moved(text) and _moved(last.text):
            start, end = last.text.split(" -> ")[0], text.split(" -> ")[-1]
            self.told[-1] = Told(time, f"{start} -> {end}", last.times + 1, last.since)
        else:
            self.told.append(Told(time, text, 1, time))


def _moved(text: str) -> bool:
    return text.startswith("threshold ")
