"""What a log becomes: a table of tasks, and an account of its lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

EXAMPLE = 160  # characters of a skipped line that are kept to show it


@dataclass(frozen=True)
class Tasks:
    """One row for each task, in order of arrival; 38 bytes a row.

    What a log does not tell is nan, or -1 for servers and sizes, or 0 for the status.
    """

    arrival: np.ndarray  # float64[k], s since the first arrival
    duration: np.ndarray  # float64[k], s from the arrival to the end, as the balancer saw it
    service: np.ndarray  # float64[k], s at the server
    server: np.ndarray  # int32[k], place in `servers`
    status: np.ndarray  # int16[k], HTTP status
    size: np.ndarray  # int64[k], bytes sent
    servers: tuple[str, ...] = ()  # in the order in which they were first met
    first: float = 0.0  # when the first task came, s since 1970, or on the log's own clock

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def work(self) -> np.ndarray:
        """The best that is known of service times, float64[k] s: at the server, else in all."""
        return np.where(np.isnan(self.service), self.duration, self.service)


@dataclass
class Skipped:
    """Lines skipped for one reason."""

    count: int = 0
    line: int = 0  # number of the first, from 1
    example: str = ""  # its text, cut


@dataclass
class Account:
    """What became of the lines of a log: read = used + all that were skipped."""

    read: int = 0
    used: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)  # by reason

    def skip(self, reason: str, line: int, text: bytes) -> None:
        """Count a line that was skipped; the first for a reason is its example."""
        entry = self.skipped.get(reason)
        if entry is None:
            plain = text[: 4 * EXAMPLE].decode("utf-8", "replace")
            shown = "".join(c if c.isprintable() else "?" for c in plain)
            entry = self.skipped[reason] = Skipped(0, line, shown[:EXAMPLE])
        entry.count += 1

    def lines(self) -> Iterable[str]:
        """Yield the account in words, a line for each reason."""
        yield f"{self.read:,} lines read, {self.used:,} used"
        for reason, entry in sorted(self.skipped.items(), key=lambda item: -item[1].count):
            yield f"{entry.count:,} skipped: {reason} (line {entry.line}: {entry.example})"


@dataclass
class Batch:
    """What one chunk of lines gave; columns as in `Tasks`, one row for each line used."""

    place: np.ndarray  # int64[k], which lines of the chunk
    arrival: np.ndarray  # float64[k], s since 1970, or on the log's own clock
    duration: np.ndarray  # float64[k]
    service: np.ndarray  # float64[k]
    server: list[bytes] | None  # b"" where no server is named; None: the format names none
    status: np.ndarray  # int16[k]
    size: np.ndarray  # int64[k]
    rejected: list[tuple[int, str]] = field(default_factory=list)  # (line of the chunk, reason)


class Codes(dict[bytes, int]):
    """Numbers for names, in the order in which they come."""

    def __missing__(self, name: bytes) -> int:
        if not name:
            return -1
        code = self[name] = len(self)
        return code


# Rows of a block. A column of eight bytes then has 32 MB, which the C library takes from and gives
# back to the system at once; small arrays, freed one by one, would stay with the process, so that
# a table would cost its memory twice. Pages that are never written cost nothing.
BLOCK = 2**22
KINDS = (np.float64, np.float64, np.float64, np.int32, np.int16, np.int64)


class Builder:
    """Puts batches together, naming servers by number."""

    def __init__(self) -> None:
        self.blocks: list[list[np.ndarray]] = []
        self.used = BLOCK  # rows of the last block
        self.codes = Codes()

    def add(self, batch: Batch) -> None:
        """Take over the rows of a batch."""
        if batch.server is None:
            server = np.full(batch.place.size, -1, np.int32)
        else:
            code = self.codes.__getitem__
            server = np.fromiter(map(code, batch.server), np.int32, len(batch.server))
        rows = (batch.arrival, batch.duration, batch.service, server, batch.status, batch.size)
        done, k = 0, batch.place.size
        while done < k:
            if self.used == BLOCK:
                self.blocks.append([np.empty(BLOCK, kind) for kind in KINDS])
                self.used = 0
            some = min(k - done, BLOCK - self.used)
            for column, values in zip(self.blocks[-1], rows, strict=True):
                column[self.used : self.used + some] = values[done : done + some]
            self.used += some
            done += some

    def tasks(self) -> Tasks:
        """Return all rows, in order of arrival; the builder is empty afterwards."""
        joined = [self._column(i) for i in range(len(KINDS))]
        self.blocks.clear()
        first = float(joined[0].min()) if joined[0].size else 0.0
        joined[0] -= first
        if (joined[0][1:] < joined[0][:-1]).any():
            order = np.argsort(joined[0], kind="stable")
            for i in range(len(joined)):  # one by one: two whole tables would be too much
                joined[i] = joined[i][order]
        names = tuple(name.decode("utf-8", "replace") for name in self.codes)
        arrival, duration, service, server, status, size = joined
        return Tasks(arrival, duration, service, server, status, size, names, first)

    def _column(self, i: int) -> np.ndarray:
        """Return a column of all blocks, which give theirs up."""
        parts = [block[i] for block in self.blocks]
        if parts:
            parts[-1] = parts[-1][: self.used]
        for block in self.blocks:
            block[i] = np.empty(0)  # no view, which would keep it all
        whole: np.ndarray = np.concatenate([np.zeros(0, KINDS[i]), *parts])
        return whole
