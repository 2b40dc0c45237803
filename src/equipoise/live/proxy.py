"""The data path: an HTTP/1.1 reverse proxy that streams both ways and leaks nothing.

    client -> Client (one per connection) -> Upstream (pooled, one per connection) -> server
                         |
                         '- choose, started, finished | not_sent: `Dispatch`

A client's requests are served one after the other; what it sends ahead waits. For each the fleet is
asked for a slot at once, when the head is complete, and the slot is released when the last byte of
the response has been passed on, or on the one way out that applies: `Client._release` forgets the
slot as it hands it over, so there is no second time. A failure before the response has begun is
answered with 502, 503 or 504 and a line that says why; after that the connection is cut, so that
the client can tell: short of its Content-Length, or without the last chunk, or (HTTP/1.0, where
the end of the connection is the end of the body) by a reset.

A request is tried again, on another server, only if none of it was written to a connection, or if
doing it twice is harmless (GET, HEAD, OPTIONS, PUT, DELETE), all of it is still at hand and the
server has not answered a byte. A client that shuts its sending side has gone, as for nginx and
Envoy. Where a server takes up an offer to speak another protocol (WebSocket), what follows is
passed on both ways until it ends: `tunnel.py`.

Cost: no task, future or timer per request. Heads are relayed as the bytes that came, with what must
be cut and added; every connection has one deadline, an attribute, and is looked at once a round
(`Wheel`), so that a new deadline costs one assignment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import OrderedDict
from email.utils import formatdate
from http import HTTPStatus
from math import inf
from time import monotonic, time
from typing import Any, NamedTuple, cast

from ..errors import EquipoiseError
from .core import Slot
from .dispatch import STALE, Dispatch, Door, Exchange, Outcome
from .framing import (
    CHUNKED,
    UNTIL_CLOSE,
    Chunks,
    Refusal,
    Request,
    RequestReader,
    Response,
    incomplete,
)
from .limits import Limits
from .tls import Listener, Tls, listening
from .tunnel import Tunnel
from .upstream import Pool, Upstream
from .wire import REFUSED

# What a client connection is doing; up to _HEAD it has no request under way.
_IDLE, _HEAD, _QUEUED, _CONNECTING, _SENT, _ANSWER, _CLOSING, _LINGERING = range(8)

_VIA = b"Via: 1.1 equipoise\r\n"
_FULL = REFUSED.encode() + b": full\r\n"  # the request may be sent elsewhere, whatever it asks for
_STALE = 1.0  # s: a used connection that ends within this had been closed by the server before
_MOST_DISCARDED = 1 << 20  # bytes from a client that was refused, before it is cut
_ALLOW = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
_TCP_INFO = getattr(socket, "TCP_INFO", None)  # Linux; elsewhere a timeout must do
_ENDED = (7, 8)  # TCP_CLOSE, TCP_CLOSE_WAIT
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Figures(NamedTuple):
    """What a proxy has done and has open."""

    clients: int  # connections
    queued: int
    under_way: int  # requests, the queued ones included
    accepted: int  # connections ever
    requests: int  # ever
    refused: int  # of them
    retries: int
    opened: int  # connections to servers, ever
    open: int
    idle: int  # of the open ones
    tunnels: int  # of the requests under way: WebSocket and its like
    shaking: int  # connections in a TLS handshake
    not_shaken: int  # handshakes that failed, ever


class Proxy:
    """Listens, and serves its clients by what `dispatch` chooses.

    Parameters
    ----------
    dispatch
        Chooses servers and counts.
    limits
        Sizes and times that nobody may exceed.
    door
        Counts requests before they are chosen a server for, where somebody wants that.
    refusals
        Servers may say that they are full (`REFUSED`): keep what is needed to try another.

    Raises
    ------
    EquipoiseError
        If the extra `live` is not installed.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        limits: Limits | None = None,
        door: Door | None = None,
        *,
        refusals: bool = False,
    ) -> None:
        require_live()
        self.dispatch = dispatch
        self.refusals = refusals
        self.door = door
        self.limits = limits or Limits()
        self.clients: set[Client] = set()
        self.pools: dict[tuple[str, int], Pool] = {}
        self.queue: OrderedDict[Client, None] = OrderedDict()
        self.draining = False
        self.accepted = self.requests = self.refused = self.retries = 0
        self.not_shaken = 0  # handshakes that failed
        self.tls: Tls | None = None  # in force; read at each connection
        self._opened = 0  # by pools that are gone
        self._servers: list[asyncio.Server | Listener] = []
        self._wheel = Wheel(self.limits.round, self._expire_pools)
        self._ids = os.urandom(6).hex().encode() + b"-"
        self._call_due = False
        self._empty: asyncio.Event | None = None
        dispatch.on_freed(self._freed)

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        backlog: int = 1024,
        tls: Tls | None = None,
    ) -> tuple[str, int]:
        """Listen, on one more address if called again; return it, with the port that was free.

        `tls`: speak TLS there, as `Proxy.tls` says from then on.

        Raises
        ------
        EquipoiseError
            If the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        self.loop = loop
        try:
            if tls is not None:
                self.tls = tls
                for one in [sock] if sock else await listening(host, port, backlog):
                    one.listen(backlog)
                    self._servers.append(Listener(self, one))
            else:
                where = {"sock": sock} if sock is not None else {"host": host, "port": port}
                server = await loop.create_server(self.client, backlog=backlog, **where)
                self._servers.append(server)
        except OSError as error:
            raise EquipoiseError(
                f"cannot listen on {host}:{port}: {_reason(error)}; choose another address, or "
                "stop what has it"
            ) from None
        self._wheel.start(loop)
        bound = self._servers[-1].sockets[0].getsockname()
        return bound[0], bound[1]

    async def drain(self, deadline: float = 30.0) -> int:
        """Accept nothing more, let what is under way finish for `deadline` s, then cut it.

        Returns
        -------
        int
            How many exchanges were cut.
        """
        self.draining = True
        self._empty = asyncio.Event()
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.drain()
        if self.clients:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), deadline)
        self._wheel.stop()
        cut = sum(client.cut_off() for client in list(self.clients))
        for pool in self.pools.values():
            pool.close()
        if self.clients:
            with contextlib.suppress(TimeoutError):  # let them read why
                await asyncio.wait_for(self._empty.wait(), min(0.2, self.limits.linger_timeout))
        for client in list(self.clients):
            client.transport.abort()
        while self.clients or any(pool.open for pool in self.pools.values()):
            await asyncio.sleep(0.001)  # until the event loop has said so to each
        for server in self._servers:
            await server.wait_closed()
        return cut

    async def close(self) -> None:
        """Stop at once: what is under way is cut."""
        await self.drain(0.0)

    def close_idle(self, address: tuple[str, int]) -> None:
        """Close the idle connections to a server, e.g. one that has left."""
        if address in self.pools:
            self.pools[address].close()

    def limit(self, limits: Limits) -> None:
        """Keep other limits from now on; a timeout that runs already ends when it was to end."""
        self.limits = limits
        self._wheel.turn_in(limits.round)
        for pool in self.pools.values():
            pool.limits = limits
        for client in self.clients:
            client.limit(limits)

    def figures(self) -> Figures:
        """Return what was done so far and what is open now."""
        pools = self.pools.values()
        return Figures(
            clients=len(self.clients),
            queued=len(self.queue),
            under_way=sum(client.under_way for client in self.clients),
            accepted=self.accepted,
            requests=self.requests,
            refused=self.refused,
            retries=self.retries,
            opened=self._opened + sum(pool.opened for pool in pools),
            open=sum(len(pool.open) for pool in pools),
            idle=sum(len(pool.idle) for pool in pools),
            tunnels=sum(client.tunnel is not None for client in self.clients),
            shaking=self._shaking(),
            not_shaken=self.not_shaken,
        )

    # -- for clients --------------------------------------------------------------------------

    def pool(self, address: tuple[str, int]) -> Pool:
        """Return the connections to an address."""
        pool = self.pools.get(address)
        if pool is None:
            pool = self.pools[address] = Pool(address, self.limits)
        return pool

    def joined(self, client: Client) -> bool:
        """A client has connected; False if there are too many."""
        self.accepted += 1
        self.clients.add(client)
        self._wheel.join(client)
        return len(self.clients) <= self.limits.connections and not self.draining

    def client(self, *, secure: bool = False) -> Client:
        """Return the protocol of a client's connection, over TLS if it is secure."""
        return Client(self, secure=secure)

    @property
    def full(self) -> bool:
        """Whether no more connections are taken."""
        open_ = len(self.clients) + self._shaking()
        return open_ >= self.limits.connections or self.draining

    def left(self, client: Client) -> None:
        """A client's connection has ended."""
        self.clients.discard(client)
        self._wheel.leave(client)
        if self._empty is not None and not self.clients:
            self._empty.set()

    def next_id(self) -> bytes:
        """Return a request id that no other has."""
        return self._ids + b"%x" % self.requests

    # -- inside -------------------------------------------------------------------------------

    def _shaking(self) -> int:
        return sum(len(one.shaking) for one in self._servers if isinstance(one, Listener))

    def _freed(self) -> None:
        """A place may have become free: serve the queue, but not inside of whoever freed it."""
        if self.queue and not self._call_due:
            self._call_due = True
            self.loop.call_soon(self._serve_queue)

    def _serve_queue(self) -> None:
        self._call_due = False
        while self.queue:
            client = next(iter(self.queue))
            slot = client.choose()
            if slot is None:
                return
            self.queue.pop(client, None)
            client.send_to(slot)

    def _expire_pools(self, now: float) -> None:
        for address, pool in list(self.pools.items()):
            pool.expire(now)
            if not pool.open and not pool.connecting:
                self._opened += pool.opened
                del self.pools[address]
        if self.queue:  # in case nobody said that there is room
            self._freed()


class Wheel:
    """Looks at every deadline once a round, a part of them at each tick.

    A connection stays in its part for life, so that setting a deadline is an assignment; the price
    is that deadlines strike up to a round late. 10^4 connections cost 1 ms a round.
    """

    PARTS = 8

    def __init__(self, seconds: float, each_round: Any) -> None:
        self._tick_every = seconds / self.PARTS
        self._parts: list[set[Client]] = [set() for _ in range(self.PARTS)]
        self._at = 0
        self._each_round = each_round
        self._timer: asyncio.TimerHandle | None = None

    def turn_in(self, seconds: float) -> None:
        """Take so long for a round from the next tick on."""
        self._tick_every = seconds / self.PARTS

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Turn from now on."""
        if self._timer is None:
            self._loop = loop
            self._timer = loop.call_later(self._tick_every, self._tick)

    def stop(self) -> None:
        """Turn no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self, client: Client) -> None:
        """Look at a client's deadline from now on."""
        client.part = self._at - 1  # the part that has just had its turn
        self._parts[client.part].add(client)

    def leave(self, client: Client) -> None:
        """Look at it no more."""
        self._parts[client.part].discard(client)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._tick_every, self._tick)
        now = monotonic()
        part = self._parts[self._at]
        self._at = (self._at + 1) % self.PARTS
        for client in list(part):
            if now > client.deadline or now > client.until:
                client.expire(now)
            elif client.read_paused:
                client.look()
        if not self._at:
            self._each_round(now)


class Client(asyncio.Protocol):
    """One client's connection, and the exchange under way on it."""

    __slots__ = (
        "_added",
        "_arrived",
        "_began",
        "_body",
        "_chunks",
        "_connecting",
        "_discarded",
        "_first_byte",
        "_fresh",
        "_full",
        "_handed",
        "_id",
        "_inside",
        "_keep",
        "_kept_bytes",
        "_left",
        "_limits",
        "_peer",
        "_pending",
        "_reader",
        "_reading",
        "_secure",
        "_slot",
        "_state",
        "_status",
        "_tries",
        "_unwritten",
        "_upstream",
        "_usual",
        "_write_paused",
        "body_done",
        "bytes_in",
        "bytes_out",
        "deadline",
        "modern",
        "part",
        "proxy",
        "read_paused",
        "request",
        "transport",
        "tunnel",
        "until",
    )
    transport: asyncio.Transport

    def __init__(self, proxy: Proxy, *, secure: bool = False) -> None:
        self.proxy = proxy
        self._secure = secure  # over TLS
        self.part = 0  # of the wheel
        self.deadline = inf  # for what it is doing now, on the monotonic clock
        self.until = inf  # for the exchange under way
        self._limits = proxy.limits
        self._reader = RequestReader(proxy.limits, secure=secure)
        self._state = _IDLE
        self._pending = b""  # come, not yet looked at
        self._reading = False  # within _read
        self.read_paused = False
        self._write_paused = False
        self._unwritten = 0  # in the transport when it was last looked at
        self._discarded = 0  # bytes of a client that was refused
        self.request: Request | None = None
        self._inside = False  # counted at the door
        self.tunnel: Tunnel | None = None
        self._clear()

    def limit(self, limits: Limits) -> None:
        """Keep other limits from now on."""
        self._limits = limits
        self._reader.limit(limits)

    def _clear(self) -> None:
        """Be ready for the next exchange."""
        self.request = None
        if self.tunnel is not None:
            self.tunnel.over = True
            self.tunnel = None
        self.modern = True  # speaks HTTP/1.1
        self.until = inf
        self._slot: Slot | None = None
        self._upstream: Upstream | None = None
        self._connecting: asyncio.Task[Upstream] | None = None
        # The body so far, while it may have to be written (again); None once it is gone.
        self._body: list[bytes] | None = []
        self._kept_bytes = 0
        self._left = 0  # of the request's body, or CHUNKED
        self._chunks: Chunks | None = None
        self.body_done = True
        self._fresh = False  # use no pooled connection
        self._full = False  # the answer is that the server has no room
        self._tries = 0
        self._status = 0
        self.bytes_in = self.bytes_out = 0
        self._handed = self._first_byte = 0.0

    @property
    def under_way(self) -> bool:
        """Whether there is a request that is not answered yet."""
        return self.request is not None

    # -- called by the event loop -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._limits.buffer)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else "unknown"
        node = f'"[{self._peer}]"' if ":" in self._peer else self._peer
        scheme = "https" if self._secure else "http"
        self._added = f"Forwarded: for={node};proto={scheme}\r\n".encode() + _VIA
        if self._secure:
            self._added += b"X-Forwarded-Proto: https\r\n"
        chain = b"X-Forwarded-For: " + self._peer.encode() + b"\r\n"
        self._usual = chain + self._added + b"X-Request-Id: "
        self.deadline = monotonic() + self._limits.keep_alive_timeout
        if not self.proxy.joined(self):
            self._refuse(503, "no more connections are taken", None)

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == _LINGERING:
            self._discarded += len(data)
            if self._discarded > _MOST_DISCARDED:
                self.transport.abort()
        elif state == _CLOSING:
            pass
        elif state <= _HEAD:
            if self._pending:
                seen = len(self._pending)
                data, self._pending = self._pending + data, b""
                self._read(data, seen)
            else:
                self._read(data, 0)
        elif not self.body_done:
            self._take_body(data)
        else:
            self._pending += data
            self.gate()

    def eof_received(self) -> None:
        self._gone("it closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone("it closed the connection" if exc is None else f"{exc}")
        self._state = _CLOSING
        self.proxy.left(self)

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._upstream is not None:
            self._upstream.pause(True)

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._upstream is not None:
            self._upstream.pause(False)
        elif self._state <= _HEAD and self._pending:
            data, self._pending = self._pending, b""
            self._read(data, 0)
        self.gate()

    def gate(self) -> None:
        """Read from the client only if what it sends has somewhere to go."""
        upstream = self._upstream
        if self.body_done:
            shut = len(self._pending) > self._limits.buffer
        elif upstream is None:
            shut = self._kept_bytes > self._limits.buffer
        else:
            shut = upstream.write_paused
        if shut is not self.read_paused and not self.transport.is_closing():
            self.read_paused = shut
            if shut:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def look(self) -> None:
        """Nothing is read, so the event loop would not say if the client has left: ask."""
        if _TCP_INFO is not None and not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            if sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] in _ENDED:
                self._gone("it closed the connection")
                self.transport.abort()

    # -- requests -----------------------------------------------------------------------------

    def _read(self, data: bytes, seen: int) -> None:
        """Take up the requests in `data`, one after the other, until one must be waited for."""
        self._reading = True
        while self._state <= _HEAD and not self._write_paused:
            if data.startswith(b"\r\n"):  # left over by a client that ends bodies with it
                data, seen = data[2:], 0
            if not data:
                break
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                if refusal := incomplete(data, seen, self._limits):
                    self._refuse(refusal.status, refusal.why, data)
                elif self._state == _IDLE:
                    self._state = _HEAD
                    self.deadline = monotonic() + self._limits.head_timeout
                break
            self._accept(data[:end], data[end:])
            data, self._pending = self._pending, b""
            seen = 0
        self._pending = data
        self._reading = False

    def _accept(self, head: bytes, rest: bytes) -> None:
        """Take up one request; what is not of it is left in `_pending`."""
        self._pending = rest
        self._began = now = monotonic()
        self._arrived = time()
        try:
            request = self._reader.read(head)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.why, head)
            return
        if request.private:
            self._refuse(404, "that is not for clients", head)
            return
        proxy = self.proxy
        proxy.requests += 1
        self.request = request
        self.modern = request.minor == 1
        self._keep = request.keep_alive
        self._id = request.request_id or proxy.next_id()
        self.until = now + self._limits.total_timeout
        self._state = _QUEUED
        door = proxy.door
        full = door is not None and not door.came(request.task)
        self._inside = door is not None and not full
        if request.length:
            self.body_done = False
            self._left = request.length
            if request.length == CHUNKED:
                self._chunks = Chunks(self._limits, status=400, most=self._limits.body)
            if rest:
                self._pending = b""
                self._take_body(rest)
                if not self.under_way:  # it was refused
                    return
        if full:
            self._fail(503, "the server has all the tasks that it takes", more=_FULL)
            return
        slot = None if proxy.queue else self.choose()
        if slot is not None:
            self.send_to(slot)
        elif self.request is not None:
            self._wait(now)

    def _take_body(self, data: bytes) -> None:
        """Pass on, or keep, a part of the request's body."""
        rest: bytes | None = None
        left = self._left
        if left == CHUNKED:
            assert self._chunks is not None
            try:
                data, rest = self._chunks.feed(data)
            except Refusal as refusal:
                self._spoilt(refusal)
                return
        elif len(data) < left:
            self._left = left - len(data)
        else:
            data, rest = data[:left], data[left:]
        if rest is not None:
            self.body_done = True
            self._pending = rest
        if data:
            self.bytes_in += len(data)
            if self._body is not None:
                self._body.append(data)
                self._kept_bytes += len(data)
            upstream = self._upstream
            if upstream is not None:
                upstream.transport.write(data)
                if self._kept_bytes > self._limits.buffer:
                    self._body = None
        limits = self._limits
        if self._state == _SENT:
            self.deadline = monotonic() + (
                limits.first_byte_timeout if self.body_done else limits.idle_timeout
            )
        elif self._state == _ANSWER:
            self.deadline = monotonic() + limits.idle_timeout
        self.gate()

    def _spoilt(self, refusal: Refusal) -> None:
        """The body turns out to be wrong after its request was taken up."""
        self._withdraw("client_aborted")
        if self._state == _ANSWER:
            self._cut("client_aborted", refusal.why)
        else:
            self._refuse(refusal.status, refusal.why, None)

    def choose(self) -> Slot | None:
        """Ask the fleet for a slot; None if there is none, or the request was answered so."""
        try:
            return self.proxy.dispatch.choose()
        except EquipoiseError as error:
            self._leave_queue()
            self._fail(503, f"no server can be chosen: {error}")
            return None

    def _wait(self, now: float) -> None:
        """Wait for a place at some server."""
        proxy = self.proxy
        if len(proxy.queue) >= self._limits.queue:
            self._fail(503, "no server has room, and the queue is full")
            return
        self._state = _QUEUED
        self.deadline = now + self._limits.queue_timeout
        proxy.queue[self] = None

    def _leave_queue(self) -> None:
        self.proxy.queue.pop(self, None)

    # -- servers ------------------------------------------------------------------------------

    def send_to(self, slot: Slot) -> None:
        """Send the request to the slot's server."""
        self._slot = slot
        proxy = self.proxy
        address = proxy.dispatch.address(slot)
        pool = proxy.pools.get(address) or proxy.pool(address)
        if self._fresh:
            pool.drop_oldest()  # so that there are no more of them than requests
        elif (upstream := pool.take()) is not None:
            self._hand_to(upstream)
            return
        self._state = _CONNECTING
        self.deadline = monotonic() + self._limits.connect_timeout
        self._connecting = task = pool.connect()
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[Upstream]) -> None:
        if task is not self._connecting:  # it was not waited for
            if not task.cancelled() and task.exception() is None:
                task.result().transport.abort()
            return
        self._connecting = None
        error = ConnectionError("cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self._not_sent(502, f"it could not be reached: {_reason(error)}")
        elif task.result().transport.is_closing():
            self._not_sent(502, "it closed the connection")
        else:
            self._hand_to(task.result())

    def _not_sent(self, status: int, why: str) -> None:
        """The request has not reached its server: release the slot, try another."""
        slot, self._slot = self._slot, None
        assert slot is not None
        self.proxy.dispatch.not_sent(slot, why)
        self._try_again(slot, status, why, stale=False)

    def _try_again(self, slot: Slot, status: int, why: str, *, stale: bool) -> None:
        """Send the request to another server than that of the slot, which has been released."""
        name = slot.server.name
        why = f"server {name}: {why}"
        if self._tries >= self._limits.retries:
            self._fail(status, why, name)
            return
        self._tries += 1
        self.proxy.retries += 1
        self._fresh = True
        try:
            other = self.proxy.dispatch.choose(name)
            if other is None and stale:  # nothing is wrong with the server itself
                other = self.proxy.dispatch.choose()
        except EquipoiseError as error:
            other, why = None, f"{why}; and no other can be chosen: {error}"
        if other is None:
            self._fail(status, why, name)
        else:
            self.send_to(other)

    def _hand_to(self, upstream: Upstream) -> None:
        """Write the request, as far as it has come, to a connection."""
        request = self.request
        assert request is not None
        assert self._slot is not None
        assert self._body is not None
        upstream.begin(self, to_head=request.method == b"HEAD")
        self._upstream = upstream
        added = self.proxy.dispatch.started(self._slot)
        self._state = _SENT
        self._handed = now = monotonic()
        fields = added + self._fields(request)
        if request.upgrade:
            fields = b"Connection: upgrade\r\nUpgrade: %b\r\n%b" % (request.upgrade, fields)
        head = request.forward(fields)
        again = request.idempotent or self.proxy.refusals
        if self._body:
            upstream.transport.write(b"".join((head, *self._body)))
            if not again or self._kept_bytes > self._limits.buffer:
                self._body = None
        else:
            upstream.transport.write(head)
            if not again:
                self._body = None
        limits = self._limits
        if self.body_done and not self.read_paused:
            self.deadline = now + limits.first_byte_timeout
        else:
            self.deadline = now + limits.idle_timeout
            self.gate()

    def _fields(self, request: Request) -> bytes:
        """Return what is added to the request's head, and its empty line."""
        before = request.forwarded_for
        if before is None and request.request_id is None and request.host:
            return self._usual + self._id + b"\r\n\r\n"
        chain = self._peer.encode() if before is None else before + b", " + self._peer.encode()
        fields = [b"X-Forwarded-For: " + chain + b"\r\n", self._added]
        if request.request_id is None:
            fields.append(b"X-Request-Id: " + self._id + b"\r\n")
        if not request.host:
            host, port = self.proxy.dispatch.address(cast(Slot, self._slot))
            at = f"[{host}]" if ":" in host else host
            fields.append(f"Host: {at}:{port}\r\n".encode())
        fields.append(b"\r\n")
        return b"".join(fields)

    # -- responses: called by the connection to the server ------------------------------------

    def interim(self, response: Response, data: bytes) -> None:
        """Pass on a 1xx response, to those who know what that is."""
        request = self.request
        assert request is not None
        if self.modern and (response.status != 100 or request.expects):
            self.transport.write(response.forward(data, response.length) + b"\r\n")

    def answer(self, response: Response, data: bytes, body: bytes, framing: int) -> None:
        """Begin the response: its head, in `data`, and what has come of its body."""
        self._state = _ANSWER
        self._status = response.status
        now = monotonic()
        self._first_byte = now - self._handed
        self.deadline = now + self._limits.idle_timeout
        if response.length >= 0:
            framing = response.length
        if not self._keep or not self.body_done or framing == UNTIL_CLOSE or self.proxy.draining:
            self._keep = False
            end = b"Connection: close\r\n\r\n"
        else:
            end = b"\r\n" if self.modern else b"Connection: keep-alive\r\n\r\n"
        head = response.forward(data, framing)
        if not response.has_id:
            end = b"X-Request-Id: %b\r\n%b" % (self._id, end)
        if self.proxy.door is not None:
            end = self.proxy.door.fields() + end
        self.bytes_out = len(body)
        self.transport.write(b"".join((head, _VIA, end, body)))

    def switch(self, upstream: Upstream, response: Response, data: bytes) -> None:
        """The server speaks another protocol from here on; what has come of that is in `data`."""
        now = monotonic()
        self._state, self._status = _ANSWER, response.status
        self._first_byte = now - self._handed
        self.until = inf
        self._body = None
        upstream.client = None
        head = response.forward(data, response.length)
        end = b"Connection: upgrade\r\nUpgrade: %b\r\n\r\n" % response.upgrade
        if not response.has_id:
            end = b"X-Request-Id: %b\r\n%b" % (self._id, end)
        body, ahead = data[response.end :], self._pending
        self.bytes_out, self.bytes_in, self._pending = len(body), len(ahead), b""
        self.tunnel = Tunnel(self, upstream, (self._write_paused, upstream.write_paused))
        self.transport.write(b"".join((head, _VIA, end, body)))
        if ahead:
            upstream.transport.write(ahead)

    def tunnel_over(self, outcome: Outcome, why: str) -> None:
        """The tunnel has ended."""
        self._upstream = None
        self._keep = False
        self._over(outcome, why, self._release(outcome))

    def pass_on(self, data: bytes, size: int) -> None:
        """Pass on a part of the response's body; `size` of it came from the server."""
        self.bytes_out += size
        self.transport.write(data)

    def heard_of_server(self) -> None:
        """The server goes on with its response."""
        self.deadline = monotonic() + self._limits.idle_timeout

    def refused(self) -> bool:
        """The server has not let the request begin: send it to another, whatever its method.

        False if that cannot be: then its answer is to be passed on.
        """
        slot = self._slot
        assert slot is not None
        other = None
        if self._body is not None and self._tries < self._limits.retries:
            with contextlib.suppress(EquipoiseError):
                other = self.proxy.dispatch.choose(slot.server.name)
        if other is None:
            self._full = True
            return False
        self._upstream = None
        self._release("refused_full")
        self._tries += 1
        self.proxy.retries += 1
        self.send_to(other)
        return True

    def answered(self) -> None:
        """The last byte has been passed on."""
        self._upstream = None
        slot, self._slot = self._slot, None
        assert slot is not None
        now = monotonic()
        outcome: Outcome = "refused_full" if self._full else "ok"
        self.proxy.dispatch.finished(slot, outcome, now - self._handed)
        self._over(outcome, "", slot.server.name, None, now)

    def server_lost(self, upstream: Upstream, why: str, *, wrong: bool = False) -> None:
        """The connection to the server has ended, or brings what makes no sense (`wrong`)."""
        self._upstream = None
        slot = self._slot
        assert slot is not None
        name = slot.server.name
        if self._state == _ANSWER:
            self._cut("upstream_error", f"server {name}: {why}", self._release("upstream_error"))
            return
        unheard = not upstream.heard and not wrong
        if unheard and upstream.used and monotonic() - self._handed < _STALE:
            stale = True
            self._slot = None
            self.proxy.dispatch.not_sent(slot, STALE)
        else:
            stale = False
            self._release("upstream_error")
        request = self.request
        assert request is not None
        if unheard and self._body is not None and request.idempotent:
            self._try_again(slot, 502, why, stale=stale)
        else:
            self._fail(502, f"server {name}: {why}", name)

    # -- ways out -----------------------------------------------------------------------------

    def _release(self, outcome: Outcome) -> str | None:
        """Release the slot of a request that was written to a connection; return its server."""
        slot, self._slot = self._slot, None
        if slot is None:
            return None
        self.proxy.dispatch.finished(slot, outcome, monotonic() - self._handed)
        return slot.server.name

    def _withdraw(self, outcome: Outcome) -> str | None:
        """Leave the queue, or the server, wherever the request is; return the server."""
        if self._state == _QUEUED:
            self._leave_queue()
        if self._connecting is not None:
            task, self._connecting = self._connecting, None
            task.cancel()
            slot, self._slot = self._slot, None
            assert slot is not None
            self.proxy.dispatch.not_sent(slot, outcome)
            return slot.server.name
        if self._upstream is not None:
            upstream, self._upstream = self._upstream, None
            upstream.give_up()
        return self._release(outcome)

    def _gone(self, why: str) -> None:
        """The client has left."""
        if self.request is not None:
            server = self._withdraw("client_aborted")
            self._keep = False
            self._over("client_aborted", why, server)
        elif self._state <= _HEAD:
            self._state = _CLOSING

    def _refuse(self, status: int, why: str, head: bytes | None) -> None:
        """Answer a request that is not passed on, and close. `head`: what there is of it."""
        if self.request is None:
            self._clear()
            self._began, self._arrived = monotonic(), time()
            self.proxy.requests += 1
            self._id = self.proxy.next_id()
        self.proxy.refused += 1
        self._keep = self.body_done = False
        request = self.request
        self._respond(status, why, request is not None and request.method == b"HEAD")
        self._over("refused", why, None, head)

    def _fail(self, status: int, why: str, server: str | None = None, more: bytes = b"") -> None:
        """Answer for a server that did not; the client may go on. `more`: further fields."""
        request = self.request
        assert request is not None
        self._keep = self._keep and self.body_done and not self.proxy.draining
        self._respond(status, why, request.method == b"HEAD", more)
        outcomes = {502: "upstream_error", 504: "timeout", 503: "unavailable"}
        self._over(outcomes[status], why, server)

    def _respond(self, status: int, why: str, to_head: bool, more: bytes = b"") -> None:
        """Write a response of our own."""
        self._status = status
        text = f"{status} {HTTPStatus(status).phrase}: {why}\n".encode()
        more += b"Retry-After: 1\r\n" if status == 503 else _ALLOW if status == 405 else b""
        if self.proxy.door is not None:
            more += self.proxy.door.fields()
        if not self._keep:
            more += b"Connection: close\r\n"
        elif not self.modern:
            more += b"Connection: keep-alive\r\n"
        self.bytes_out = 0 if to_head else len(text)
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nDate: %b\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"Content-Length: %d\r\n%b%bX-Request-Id: %b\r\n\r\n%b"
            % (
                status,
                HTTPStatus(status).phrase.encode(),
                formatdate(usegmt=True).encode(),
                len(text),
                more,
                _VIA,
                self._id,
                b"" if to_head else text,
            )
        )

    def _cut(self, outcome: Outcome, why: str, server: str | None = None) -> None:
        """End a response that has begun so that the client can tell it is not complete."""
        if not self.modern and not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
        self._keep = False
        self._pending = b""
        self.body_done = True  # nothing is waited for
        self._over(outcome, why, server)

    def _over(
        self,
        outcome: str,
        why: str,
        server: str | None,
        head: bytes | None = None,
        now: float | None = None,
    ) -> None:
        """Note the exchange, then go on to the next or close."""
        if now is None:
            now = monotonic()
        record = self._record(outcome, why, server, head, now)
        keep = self._keep and not self.proxy.draining
        unread = not self.body_done
        self._clear()
        if self._inside:
            self._inside = False
            assert self.proxy.door is not None
            self.proxy.door.went()
        self.proxy.dispatch.log(record)
        if self.transport.is_closing() or (outcome == "client_aborted" and not record.status):
            self._state = _CLOSING
            self.transport.abort()
        elif not keep:
            self._close(unread)
        else:
            self._state = _IDLE
            self.deadline = now + self._limits.keep_alive_timeout
            if self._pending and not self._reading:
                data, self._pending = self._pending, b""
                self._read(data, 0)
            if self.read_paused:
                self.gate()

    def _record(
        self, outcome: str, why: str, server: str | None, head: bytes | None, now: float
    ) -> Exchange:
        request = self.request
        if request is not None:
            method, target = request.method, request.target
        else:
            method, _, target = (head or b"").partition(b"\r\n")[0][:256].partition(b" ")
            target = target.partition(b" ")[0]
        handed = self._handed
        return Exchange(
            self._arrived,
            self._peer,
            method.decode("latin-1"),
            target.decode("latin-1"),
            self._status,
            self.bytes_in,
            self.bytes_out,
            server,
            outcome,
            self._tries,
            (handed or now) - self._began,
            self._first_byte,
            now - handed if handed else 0.0,
            now - self._began,
            self._id.decode("latin-1"),
            why,
        )

    def _close(self, unread: bool) -> None:
        """Close when what was written has gone out.

        Closing on a client that is still sending resets the connection, and the answer may be
        lost: read on for a while, and throw it away.
        """
        limits = self._limits
        self._pending = b""
        if not unread and not self.read_paused:
            self._state = _CLOSING
            self.deadline = monotonic() + limits.idle_timeout
            self.transport.close()
            return
        self._state = _LINGERING
        self.body_done = True
        self.deadline = monotonic() + limits.linger_timeout
        self.gate()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def drain(self) -> None:
        """Close if nothing is under way."""
        if self._state == _IDLE:
            self._state = _CLOSING
            self.deadline = monotonic() + self._limits.idle_timeout
            self.transport.close()

    def cut_off(self) -> bool:
        """Cut whatever is under way; whether there was something."""
        busy = self.request is not None
        if busy:
            server = self._withdraw("cut")
            if self._state == _ANSWER:
                self._cut("cut", "the dispatcher is shutting down", server)
            else:
                self._keep = False
                self._respond(503, "the dispatcher is shutting down", False)
                self._over("cut", "the dispatcher is shutting down", server)
        else:
            self.transport.abort()
        return busy

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        state, limits = self._state, self._limits
        if self.tunnel is not None:
            self.tunnel.expire()
        elif state in (_IDLE, _ANSWER, _CLOSING) and now <= self.until and self._reads():
            self.deadline = now + limits.idle_timeout
        elif state == _IDLE:
            self.drain()
        elif state == _HEAD:
            self._refuse(408, f"no complete head within {limits.head_timeout:g} s", self._pending)
        elif state == _QUEUED:
            self._leave_queue()
            more = b"" if self.proxy.door is None else _FULL
            self._fail(503, f"no server had room within {limits.queue_timeout:g} s", more=more)
        elif state == _CONNECTING:
            assert self._connecting is not None
            task, self._connecting = self._connecting, None
            task.cancel()
            self._not_sent(504, f"it could not be reached within {limits.connect_timeout:g} s")
        elif state in (_SENT, _ANSWER):
            self._expire_exchange(now)
        else:
            self.transport.abort()

    def _reads(self) -> bool:
        """Whether the client, though slowly, has read since this was asked last."""
        before, self._unwritten = self._unwritten, self.transport.get_write_buffer_size()
        return 0 < self._unwritten != before

    def _expire_exchange(self, now: float) -> None:
        """Say whose silence has ended the exchange, and end it."""
        limits = self._limits
        upstream = self._upstream
        assert upstream is not None
        request = self.request
        assert request is not None
        unasked = request.expects and not self.bytes_in and not upstream.heard  # no 100 yet
        slow_client = self._write_paused or not (self.body_done or upstream.write_paused or unasked)
        if now > self.until:
            why = f"not done within {limits.total_timeout:g} s"
        elif self._state == _ANSWER or slow_client:
            why = f"not a byte for {limits.idle_timeout:g} s"
        else:
            why = f"no answer within {limits.first_byte_timeout:g} s"
        outcome: Outcome = "client_aborted" if slow_client else "timeout"
        server = self._withdraw(outcome)
        if self._state == _ANSWER:
            self._cut(outcome, f"{'client' if slow_client else f'server {server}'}: {why}", server)
            self.transport.abort()
        elif slow_client:
            self._refuse(408, f"the body has not come: {why}", None)
        else:
            self._fail(504, f"server {server}: {why}", server)


def _reason(error: BaseException) -> str:
    """Say briefly why a connection was not made."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def require_live() -> Any:
    """Return uvloop; the event loops of the dispatcher are its.

    Raises
    ------
    EquipoiseError
        If the extra `live` is not installed.
    """
    try:
        import httptools  # noqa: F401
        import uvloop
    except ImportError:
        raise EquipoiseError(
            "the live dispatcher needs httptools and uvloop: pip install 'equipoise[live]'"
        ) from None
    return uvloop
