"""An open load: GET requests at the points of a Poisson stream, whatever becomes of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

CONNECTIONS = 64  # opened beforehand; more when all are busy
PATIENCE = 30.0  # s for what is under way at the end


class Request(NamedTuple):
    """One request that was answered."""

    sent: float  # s since the load began
    took: float  # s
    status: int
    service: float  # s, as the server said; 0 where it did not
    mean: float  # s, that of the server, likewise
    wait: float  # s, before the server began, likewise
    server: str  # its name, likewise


def poisson(rate: float, duration: float, seed: int) -> list[float]:
    """Return the points of a Poisson stream, s."""
    coins, at, times = random.Random(seed), 0.0, []
    while (at := at + coins.expovariate(rate)) < duration:
        times.append(at)
    return times


class Connection(asyncio.Protocol):
    """One connection, used for one request at a time."""

    def __init__(self, load: Load) -> None:
        self.load, self.had, self.sent = load, b"", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self, request: bytes) -> None:
        """Send a request."""
        self.sent = perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.had += data
        head, found, body = self.had.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        if len(body) < int(fields[b"content-length"]):
            return
        self.had = b""
        service, mean, wait = (
            float(fields.get(name, b"0")) for name in (b"x-service", b"x-mean", b"x-wait")
        )
        server = fields.get(b"x-server", b"").decode("latin-1")
        self.load.answered(self, int(lines[0].split()[1]), service, mean, wait, server)

    def connection_lost(self, error: Exception | None) -> None:
        self.load.lost(self)


class Load:
    """Requests at given times, to one address."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self.host, self.port = host, port
        self.request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
        self.free: list[Connection] = []
        self.busy: set[Connection] = set()
        self.done: list[Request] = []
        self.failed = 0

    async def run(
        self, times: Sequence[float], work: Sequence[float] = (), *, began: float | None = None
    ) -> list[Request]:
        """Send a request at each of the times, s; return those that were answered, as sent.

        Parameters
        ----------
        work
            What each of them says that it takes, s; left out, they say nothing.
        began
            When the times begin, on the clock of `perf_counter`; when connections are there if left
            out.
        """
        for _ in range(CONNECTIONS):
            self.free.append(await self._connect())
        self.began = perf_counter() if began is None else began
        for i, at in enumerate(times):
            wait = at - (perf_counter() - self.began)
            if wait > 0:
                await asyncio.sleep(wait)
            connection = self.free.pop() if self.free else await self._connect()
            self.busy.add(connection)
            field = f"X-Work: {work[i]!r}\r\n".encode() if work else b""
            connection.send(b"%b%b\r\n" % (self.request, field))
        end = perf_counter() + PATIENCE
        while self.busy and perf_counter() < end:
            await asyncio.sleep(0.01)
        self.failed += len(self.busy)
        for connection in [*self.free, *self.busy]:
            connection.transport.abort()
        self.free, self.busy = [], set()
        return sorted(self.done)

    def answered(self, connection: Connection, status: int, *said: Any) -> None:
        """An answer has come whole; the server said service, mean, wait and its name."""
        took = perf_counter() - connection.sent
        self.done.append(Request(connection.sent - self.began, took, status, *said))
        self.busy.discard(connection)
        self.free.append(connection)

    def lost(self, connection: Connection) -> None:
        """A connection was closed."""
        if connection in self.busy:
            self.busy.discard(connection)
            self.failed += 1
        elif connection in self.free:
            self.free.remove(connection)

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), self.host, self.port)
        return connection
