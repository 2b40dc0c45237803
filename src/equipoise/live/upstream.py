"""Connections to servers, kept open between requests, and the reading of responses.

A connection serves one client at a time. When a response is complete and both sides may go on, the
connection goes back to its server's pool, from which the latest is taken first; a new one is opened
only if none is idle, so there are never more of them than requests under way at that server. Bytes
that come from a server unasked end the connection: they could be taken for the next response.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, cast

from .framing import CHUNKED, UNTIL_CLOSE, Chunks, Refusal, Response, read_response
from .limits import Limits
from .tunnel import agreed
from .wire import REFUSED

if TYPE_CHECKING:
    from .proxy import Client

_AT_HEAD = -3
_FULL = b"\r\n" + REFUSED.lower().encode() + b": full\r\n"


class Upstream(asyncio.Protocol):
    """One connection to a server."""

    __slots__ = (
        "chunks",
        "client",
        "heard",
        "held",
        "keep",
        "left",
        "pool",
        "read_paused",
        "since",
        "to_head",
        "transport",
        "used",
        "wraps",
        "write_paused",
    )
    transport: asyncio.Transport

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.client: Client | None = None  # whose request is under way
        self.used = False  # for an earlier request
        self.since = 0.0  # idle since
        self.write_paused = False
        self.read_paused = False
        self.held = b""  # of a head that is not complete
        self.left = _AT_HEAD  # of the response's body: its bytes, CHUNKED or UNTIL_CLOSE
        self.heard = False  # a byte of this response
        self.keep = False
        self.to_head = False
        self.wraps = False  # the client gets chunks where the server sends until it closes
        self.chunks: Chunks | None = None

    def begin(self, client: Client, *, to_head: bool) -> None:
        """Serve a client's request from here on."""
        self.client = client
        self.left = _AT_HEAD
        self.heard = False
        self.to_head = to_head

    def give_up(self) -> None:
        """Leave the client, and close without waiting for anything."""
        self.client = None
        self.transport.abort()

    def pause(self, paused: bool) -> None:
        """Read no more from the server, or again."""
        if paused is not self.read_paused and not self.transport.is_closing():
            self.read_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # -- called by the event loop -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.pool.limits.buffer)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:
            self.transport.abort()
            return
        try:
            if self.left == _AT_HEAD:
                self._head(client, data)
            else:
                client.heard_of_server()
                self._body(client, data)
        except Refusal as refusal:
            self.give_up()
            client.server_lost(self, f"its response is wrong: {refusal.why}", wrong=True)

    def eof_received(self) -> None:
        # A server that closes only its half has ended the connection, as far as we are concerned.
        self._ended(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pool.open.discard(self)
        self._ended(exc)

    def pause_writing(self) -> None:
        self.write_paused = True
        if self.client is not None:
            self.client.gate()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.client is not None:
            self.client.gate()

    # -- inside -------------------------------------------------------------------------------

    def _ended(self, exc: Exception | None) -> None:
        client = self.client
        if client is None:
            self.pool.forget(self)
            return
        if self.left == UNTIL_CLOSE and exc is None:
            self.keep = False
            if self.wraps:
                client.pass_on(b"0\r\n\r\n", 0)
            self._complete(client)
            return
        self.client = None
        self.transport.abort()
        client.server_lost(self, "it closed the connection" if exc is None else f"{exc}")

    def _head(self, client: Client, data: bytes) -> None:
        self.heard = True
        if self.held:
            data, self.held = self.held + data, b""
        pool = self.pool
        last = pool.last
        if last is not None and not self.to_head and data.startswith(pool.last_head):
            self._begin_body(client, last, data)  # the same bytes mean the same
            return
        most = pool.limits.head
        while True:
            end = data.find(b"\r\n\r\n", 0, most) + 4
            if end < 4:
                if len(data) >= most:
                    raise Refusal(502, f"its head is longer than {most} bytes")
                self.held = data
                return
            response = read_response(data, end, to_head=self.to_head)
            if response.status >= 200:
                break
            if response.status == 101:
                offer = client.request.upgrade if client.request is not None else b""
                if not agreed(response.upgrade, offer):
                    raise Refusal(502, "it switches to a protocol that nobody asked for")
                client.switch(self, response, data)
                return
            client.interim(response, data)
            data = data[end:]
            if not data:
                return
        if response.status == 503 and _FULL in data[:end].lower():
            self._refused(client, response, data)
            return
        if not self.to_head:
            pool.last, pool.last_head = response, data[:end]
        self._begin_body(client, response, data)

    def _refused(self, client: Client, response: Response, data: bytes) -> None:
        """The server has no room; it is told to the client if nobody else takes the request."""
        whole = 0 <= response.length == len(data) - response.end
        keep = whole and response.keep_alive and client.body_done
        self.client = None
        if not client.refused():
            self.client = client
            self._begin_body(client, response, data)
        elif keep:
            self.pool.give(self)
        else:
            self.transport.abort()

    def _begin_body(self, client: Client, response: Response, data: bytes) -> None:
        self.keep = response.keep_alive
        body = data[response.end :]
        length = response.length
        if length >= 0:
            if len(body) >= length:
                if len(body) > length:
                    body, self.keep = body[:length], False
                client.answer(response, data, body, length)
                self._complete(client)
            else:
                self.left = length - len(body)
                client.answer(response, data, body, length)
            return
        self.left = length
        modern = client.modern
        self.wraps = length == UNTIL_CLOSE and modern
        if length == CHUNKED:
            self.chunks = Chunks(self.pool.limits, status=502, decode=not modern)
        client.answer(response, data, b"", CHUNKED if modern else UNTIL_CLOSE)
        if body:
            self._body(client, body)

    def _body(self, client: Client, data: bytes) -> None:
        left = self.left
        if left > 0:
            if len(data) < left:
                self.left = left - len(data)
                client.pass_on(data, len(data))
                return
            if len(data) > left:
                data, self.keep = data[:left], False
            client.pass_on(data, len(data))
            self._complete(client)
        elif left == CHUNKED:
            assert self.chunks is not None
            data, rest = self.chunks.feed(data)
            if data:
                client.pass_on(data, len(data))
            if rest is not None:
                if rest:
                    self.keep = False
                self._complete(client)
        elif self.wraps:
            client.pass_on(b"%x\r\n%b\r\n" % (len(data), data), len(data))
        else:
            client.pass_on(data, len(data))

    def _complete(self, client: Client) -> None:
        """Give the connection back, then tell the client: it may need one at once."""
        self.client = None
        self.chunks = None
        if self.keep and client.body_done:
            self.pool.give(self)
        else:
            self.transport.abort()
        client.answered()


class Pool:
    """The connections to one address."""

    def __init__(self, address: tuple[str, int], limits: Limits) -> None:
        self.address = address
        self.limits = limits
        self.idle: list[Upstream] = []  # the latest last
        self.open: set[Upstream] = set()
        self.opened = 0  # ever
        self.connecting = 0
        self.last: Response | None = None  # read on any of them, not to a HEAD
        self.last_head = b""

    def connect(self) -> asyncio.Task[Upstream]:
        """Begin to open a connection; the task ends with OSError if the server is not reached."""
        self.connecting += 1  # not in the task: one that is cancelled early never begins
        task = asyncio.get_running_loop().create_task(self._connect())
        task.add_done_callback(self._connected)
        return task

    async def _connect(self) -> Upstream:
        loop = asyncio.get_running_loop()
        _, upstream = await loop.create_connection(lambda: Upstream(self), *self.address)
        return upstream

    def _connected(self, task: asyncio.Task[Upstream]) -> None:
        self.connecting -= 1
        if task.cancelled() or task.exception() is not None:
            return  # uvloop closes what it had begun, and may not say connection_lost
        self.opened += 1
        if not task.result().transport.is_closing():
            self.open.add(task.result())

    def take(self) -> Upstream | None:
        """Return an idle connection, the one used last; None if there is none."""
        while self.idle:
            upstream = self.idle.pop()
            if not upstream.transport.is_closing():
                return upstream
        return None

    def give(self, upstream: Upstream) -> None:
        """Take a connection back."""
        transport = upstream.transport
        full = len(self.idle) >= self.limits.idle_connections
        # a server that answered before it read the request may never read the rest
        if full or transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()
            return
        upstream.pause(False)
        upstream.used = True
        upstream.since = monotonic()
        self.idle.append(upstream)

    def forget(self, upstream: Upstream) -> None:
        """A connection has ended."""
        if upstream in self.idle:
            self.idle.remove(upstream)
        upstream.transport.abort()

    def drop_oldest(self) -> None:
        """Close the connection that has been idle longest."""
        if self.idle:
            self.idle.pop(0).transport.abort()

    def expire(self, now: float) -> None:
        """Close what has been idle for too long."""
        before = now - self.limits.server_keep_alive_timeout
        while self.idle and self.idle[0].since < before:
            self.drop_oldest()

    def close(self) -> None:
        """Close what is idle."""
        while self.idle:
            self.drop_oldest()
