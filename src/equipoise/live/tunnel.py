"""What follows a switch of protocols (WebSocket and others): bytes both ways until both sides end.

A client offers it by `Connection: upgrade` and `Upgrade: websocket`, in a request without a body.
The offer is passed on, and only where the server answers 101 and names a protocol that was offered
does the connection become a tunnel. Anything else is an ordinary response. What a client sends
ahead is held, at most a buffer of it, until it is known which it is. Upgrades to HTTP itself
(`h2c`) are never offered: requests would pass inside that nobody has read.

The task lasts as long as the tunnel, and its slot with it. A side that ends its half only has the
other go on, for at most `limits.idle_timeout` without a byte; before that it is
`limits.tunnel_timeout`. Where one side cannot take any more, nothing is read from the other.
"""

from __future__ import annotations

import asyncio
import re
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dispatch import Outcome
    from .proxy import Client
    from .upstream import Upstream

# Upgrades that are not passed on: HTTP in another form, and TLS, which ends here.
NEVER = (b"h2c", b"h2", b"http", b"http2", b"h3", b"tls")
_PROTOCOL = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64})(?:/[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64})?"
)


def offered(value: bytes) -> bytes:
    """Return the protocols of an Upgrade field that may be offered to a server, b"" if none."""
    kept = []
    for token in value.split(b","):
        match = _PROTOCOL.fullmatch(token.strip(b" \t"))
        if match is not None and match[1].lower() not in NEVER:
            kept.append(match[0])
    return b", ".join(kept)


def agreed(answer: bytes, offer: bytes) -> bool:
    """Whether a server switches to protocols that were offered."""
    asked = {token.strip(b" \t").lower() for token in offer.split(b",")}
    given = [token.strip(b" \t").lower() for token in answer.split(b",")]
    return bool(answer) and all(token in asked for token in given)


class Side(asyncio.Protocol):
    """One end of a tunnel; what comes in is written to the other."""

    __slots__ = ("ended", "full", "other", "transport", "tunnel")
    other: Side

    def __init__(self, tunnel: Tunnel, transport: asyncio.Transport) -> None:
        self.tunnel, self.transport = tunnel, transport
        self.ended = False  # it sends no more
        self.full = False  # it takes no more for now

    def data_received(self, data: bytes) -> None:
        tunnel = self.tunnel
        if not tunnel.over:
            tunnel.passed(self, len(data))
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        return self.tunnel.half_ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.tunnel.lost(self, exc)

    def pause_writing(self) -> None:
        self.full = True
        self.tunnel.gate(self.other)

    def resume_writing(self) -> None:
        self.full = False
        self.tunnel.gate(self.other)


class Tunnel:
    """Joins a client's connection and a server's; both are told when theirs is lost.

    Parameters
    ----------
    client, upstream
        Whose transports they are from now on.
    paused
        Whether the client, and the server, cannot take any more right now.
    """

    def __init__(self, client: Client, upstream: Upstream, paused: tuple[bool, bool]) -> None:
        self.client, self.upstream = client, upstream
        self.over = False
        self.here, self.there = Side(self, client.transport), Side(self, upstream.transport)
        self.here.other, self.there.other = self.there, self.here
        self.here.full, self.there.full = paused
        self._unwritten = (0, 0)  # when that was looked at last
        self._wait = client.proxy.limits.tunnel_timeout
        client.deadline = monotonic() + self._wait
        client.transport.set_protocol(self.here)
        upstream.transport.set_protocol(self.there)
        self.gate(self.here)
        self.gate(self.there)

    def passed(self, side: Side, size: int) -> None:
        """So many bytes have come from a side."""
        client = self.client
        client.deadline = monotonic() + self._wait
        if side is self.here:
            client.bytes_in += size
        else:
            client.bytes_out += size

    def gate(self, side: Side) -> None:
        """Read from a side only if the other can take it."""
        shut = side.other.full
        transport = side.transport
        if transport.is_closing() or self.over:
            return
        holder: Client | Upstream = self.client if side is self.here else self.upstream
        if holder.read_paused is not shut:
            holder.read_paused = shut
            if shut:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def half_ended(self, side: Side) -> bool:
        """A side sends no more; whether its connection is to stay open for the other half."""
        if self.over:
            return False
        side.ended = True
        other = side.other
        if other.ended:
            self._end("ok", "")
            return False
        if not (side.transport.can_write_eof() and other.transport.can_write_eof()):
            self._end("ok", "")  # TLS has no halves
            return False
        other.transport.write_eof()
        self._wait = self.client.proxy.limits.idle_timeout
        self.client.deadline = monotonic() + self._wait
        return True

    def lost(self, side: Side, exc: Exception | None) -> None:
        """A connection has ended."""
        if not self.over:
            if side is self.here:
                why = "it closed the connection" if exc is None else str(exc)
                self._end("client_aborted", why)
            elif exc is None or side.ended:
                self._end("ok", "")
            else:
                self._end("upstream_error", f"the server: {exc}")
        holder: Client | Upstream = self.client if side is self.here else self.upstream
        holder.connection_lost(exc)

    def expire(self) -> None:
        """Its deadline has passed; one side may still be reading, slowly, what came before."""
        here, there = self.here.transport, self.there.transport
        sizes = here.get_write_buffer_size(), there.get_write_buffer_size()
        before, self._unwritten = self._unwritten, sizes
        if any(0 < size != was for size, was in zip(sizes, before, strict=True)):
            self.client.deadline = monotonic() + self._wait
            return
        self._end("cut", f"not a byte either way for {self._wait:g} s")

    def _end(self, outcome: Outcome, why: str) -> None:
        """Release the slot; what was written goes out, then both connections are closed."""
        self.over = True
        if outcome == "ok":
            self.there.transport.close()
        else:
            self.there.transport.abort()
        self.client.tunnel_over(outcome, why)
