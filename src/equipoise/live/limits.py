"""Limits and timeouts of the proxy: nothing a peer does may cost more than this."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ..errors import EquipoiseError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes are in bytes, times in seconds.

    Raises
    ------
    EquipoiseError
        If a value makes no sense; one line for each.
    """

    head: int = 32 * 1024  # request line and headers, of requests and of responses; trailers too
    target: int = 8 * 1024  # what follows the method
    body: int = 1 << 30  # of a request; responses have no limit
    connections: int = 10_000  # of clients
    queue: int = 1024  # requests waiting while every server is full
    buffer: int = 64 * 1024  # kept for a peer that does not read, beyond one read of 256 KB
    idle_connections: int = 1024  # kept open to each server
    retries: int = 1  # further servers that are tried when that is safe

    connect_timeout: float = 3.0
    handshake_timeout: float = 10.0  # of TLS
    head_timeout: float = 10.0  # from the first byte of a request's head to its last
    first_byte_timeout: float = 60.0  # from the request's last byte to the response's first
    idle_timeout: float = 60.0  # without a byte in a body, either way
    total_timeout: float = 3600.0  # for an exchange, tunnels aside
    tunnel_timeout: float = 3600.0  # without a byte either way, after a switch of protocols
    queue_timeout: float = 5.0  # in the queue
    keep_alive_timeout: float = 75.0  # between two requests of a client
    server_keep_alive_timeout: float = (
        30.0  # of an idle connection to a server; keep it below theirs
    )
    linger_timeout: float = 2.0  # for a client to read why it was refused

    def __post_init__(self) -> None:
        mistakes = [mistake for field in fields(self) if (mistake := self._mistake(field.name))]
        if not mistakes and self.target > self.head:
            mistakes = [f"limits.target = {self.target} is more than limits.head = {self.head}"]
        if mistakes:
            raise EquipoiseError("\n".join(mistakes))

    def _mistake(self, name: str) -> str | None:
        value = getattr(self, name)
        if name.endswith("timeout"):
            good = isinstance(value, int | float) and not isinstance(value, bool)
            if not good or not (0 < value <= _LONGEST and math.isfinite(value)):
                return f"limits.{name} = {value!r}: give seconds, above 0 and at most {_LONGEST}"
            return None
        least, most = _RANGE.get(name, (1, 1 << 40))
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return f"limits.{name} = {value!r}: give a whole number from {least} to {most}"
        return None

    @property
    def round(self) -> float:
        """How often every connection's deadline is looked at; timeouts strike that much late."""
        times = [getattr(self, f.name) for f in fields(self) if f.name.endswith("timeout")]
        return min(1.0, max(0.02, min(times) / 4))


_LONGEST = 7 * 86_400
_RANGE = {
    "head": (256, 1 << 20),
    "target": (16, 1 << 20),
    "body": (0, 1 << 50),
    "connections": (1, 1 << 20),
    "queue": (0, 1 << 20),
    "buffer": (1024, 1 << 26),
    "idle_connections": (0, 1 << 16),
    "retries": (0, 16),
}
