"""The access log: a JSON object a line, which `equipoise.logs.read_log` reads as Envoy's.

The names are those of Envoy's operators, so that whatever reads its JSON reads this too; times are
in milliseconds as there, but with fractions. What Envoy has no name for stands behind.

Writing never holds up traffic: a record is put in a queue, and a thread formats and writes. Where
the disk is too slow for the traffic, or full, records are dropped and counted.

Rotation: move the file away, then have `reopen` called (`equipoise serve` does at SIGUSR1); until
then lines go to the moved file.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from ..errors import EquipoiseError
from .dispatch import Exchange

BATCH = 1000  # records that are formatted and written together
PIPE = 4096  # bytes that are written to a pipe as a whole
PAUSE = 0.1  # s that the thread waits before it writes a few


class Stamps:
    """Times as 2021-12-08T14:02:43.123456Z; what stands before the fraction is kept."""

    def __init__(self) -> None:
        self._second, self._text = -1, ""

    def __call__(self, at: float) -> str:
        second = int(at // 1)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{min(round((at - second) * 1e6), 999_999):06d}Z"


def line_of(record: Exchange, stamp: Stamps) -> str:
    """Return the line of a record, its end included."""
    reached = record.server is not None and record.service > 0
    return (
        json.dumps(
            {
                "start_time": stamp(record.arrived),
                "method": record.method,
                "path": record.target,
                "response_code": record.status,
                "bytes_received": record.bytes_in,
                "bytes_sent": record.bytes_out,
                "duration": round(record.total * 1e3, 3),
                "upstream_service_time": round(record.service * 1e3, 3) if reached else None,
                "upstream_host": record.server,
                "downstream_remote_address": record.client,
                "x-request-id": record.request_id,
                "outcome": record.outcome,
                "retries": record.retries,
                "waited": round(record.waited * 1e3, 3),
                "first_byte": round(record.first_byte * 1e3, 3) if reached else None,
                "why": record.why,
            },
            separators=(",", ":"),
        )
        + "\n"
    )


class AccessLog:
    """Writes records; call it with each.

    Parameters
    ----------
    path
        Lines are added to this file; "-" is stdout.
    most_waiting
        Records that may wait to be written; more are dropped.

    Raises
    ------
    EquipoiseError
        If the file cannot be opened.
    """

    def __init__(self, path: str | Path, most_waiting: int = 10_000) -> None:
        self.path, self.most_waiting = str(path), most_waiting
        self.written = self.dropped = 0
        self.trouble = ""  # why the last write failed, "" if it did not
        self._waiting: deque[Exchange] = deque()
        self._stamp = Stamps()
        self._wake = threading.Event()
        self._reopen = self._over = False
        self._file: IO[Any] | None = None
        try:
            self._file = self._opened()
        except OSError as error:
            raise EquipoiseError(
                f"{self.path}: the access log cannot be written: {error.strerror or error}"
            ) from None
        self._thread = threading.Thread(target=self._run, name="access log", daemon=True)
        self._thread.start()

    def __call__(self, record: Exchange) -> None:
        """Have a record written soon; never waits."""
        if len(self._waiting) >= self.most_waiting:
            self.dropped += 1
            return
        self._waiting.append(record)
        if len(self._waiting) >= BATCH and not self._wake.is_set():
            self._wake.set()

    def reopen(self) -> None:
        """Open the file anew, by its name, before the next line."""
        self._reopen = True
        self._wake.set()

    def close(self, patience: float = 5.0) -> None:
        """Write what waits and close the file; give up after `patience` s."""
        self._over = True
        self._wake.set()
        self._thread.join(patience)

    # -- in the thread ------------------------------------------------------------------------

    def _opened(self) -> IO[Any]:
        if self.path == "-":
            return sys.stdout
        # Not buffered: what is written together goes out in one call, whole lines, which the
        # operating system puts at the end of the file whoever else writes there.
        return open(self.path, "ab", buffering=0)

    def _run(self) -> None:
        while True:
            self._wake.wait(PAUSE)
            self._wake.clear()
            over, reopen = self._over, self._reopen
            while self._waiting:
                self._write(self._batch())
            if reopen:  # what was there before belongs to the old file
                self._reopen = False
                self._renew()
            if over:
                self._finish()
                return

    def _batch(self) -> list[Exchange]:
        count = min(BATCH, len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    def _write(self, records: Iterable[Exchange]) -> None:
        lines = [line_of(record, self._stamp) for record in records]
        try:
            if self._file is None:
                self._file = self._opened()
            _put(self._file, lines)
        except (OSError, ValueError) as error:
            self.dropped += len(lines)
            self.trouble = _said(error)
            self._renew()
        else:
            self.written += len(lines)
            self.trouble = ""

    def _renew(self) -> None:
        self._finish()
        self._file = None
        try:
            self._file = self._opened()
        except OSError as error:  # tried again at the next lines
            self.trouble = _said(error)

    def _finish(self) -> None:
        if self._file is not None and self._file is not sys.stdout:
            with contextlib.suppress(OSError, ValueError):
                self._file.close()


def _put(file: IO[Any], lines: Sequence[str]) -> None:
    """Write lines so that those of other processes do not come in between."""
    if isinstance(file, io.RawIOBase):
        data = memoryview("".join(lines).encode())
        while data:  # once, unless the disk is full
            data = data[file.write(data) :]
        return
    together: list[str] = []
    for line in lines:  # a pipe takes so many bytes at once
        if together and sum(map(len, together)) + len(line) > PIPE:
            file.write("".join(together))
            file.flush()
            together = []
        together.append(line)
    file.write("".join(together))
    file.flush()


def _said(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error)
