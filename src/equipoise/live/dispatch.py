"""What the proxy asks of the fleet: where a request goes, and what it is told of its way.

The proxy moves bytes; whoever implements `Dispatch` decides, counts and keeps records. Every slot
that `choose` gives comes back exactly once, by `finished` or by `not_sent`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from .core import Slot

Outcome = Literal["ok", "client_aborted", "upstream_error", "timeout", "cut", "refused_full"]
"""How a request ended at a server.

ok: the whole response came (whatever its status). client_aborted: the client left, or stopped
sending or reading. upstream_error: the connection was lost, or the response makes no sense.
timeout: the server was silent for too long. cut: the dispatcher ended it, at a drain's deadline, or
because nothing came through a tunnel for too long. refused_full: the server's agent did not let it
begin, for want of room.
"""


STALE = "the connection had been closed before"
NO_FAULT: tuple[str, ...] = (STALE, "client_aborted", "cut")
"""Reasons of `not_sent` for which the server is not to blame."""


class Exchange(NamedTuple):
    """One finished request and its answer, for the access log and the metrics."""

    arrived: float  # when its head was complete, seconds since 1970
    client: str  # address
    method: str
    target: str
    status: int  # of the answer begun; 0 if none was
    bytes_in: int  # of the request's body, as framed
    bytes_out: int  # of the response's body, as framed
    server: str | None  # the last one tried
    outcome: str  # as in `Outcome`; refused: a bad request; unavailable: no server could take it
    retries: int
    waited: float  # seconds until it was handed to a connection: queue, connect, retries
    first_byte: float  # seconds from there to the server's first byte
    service: float  # seconds from there to the last byte
    total: float  # seconds in all
    request_id: str
    why: str  # what went wrong, in words; empty if nothing did


class Dispatch(Protocol):
    """Chooses servers and keeps count; called from the event loop, must not block."""

    def choose(self, exclude: str | None = None) -> Slot | None:
        """Take a slot, at another server than `exclude`; None: nobody is up, or all are full."""

    def address(self, slot: Slot) -> tuple[str, int]:
        """Return the host and port of the slot's server."""

    def started(self, slot: Slot) -> bytes:
        """The request is being written to a connection; return lines to add to its head."""

    def finished(self, slot: Slot, outcome: Outcome, seconds: float) -> None:
        """Release the slot; `seconds` from `started` to the last byte or the failure."""

    def not_sent(self, slot: Slot, why: str) -> None:
        """Release the slot of a request that never reached its server.

        Also after `started`, where the connection turned out to have been closed before.
        """

    def on_freed(self, call: Callable[[], None]) -> None:
        """Have `call` called whenever a place may have become free."""

    def log(self, record: Exchange) -> None:
        """Take note of an exchange that is over."""


class Door(Protocol):
    """Counts the requests of a proxy from their head to their end, those that wait among them."""

    def came(self, task: bytes | None) -> bool:
        """A request has come, with this `Equipoise-Task`; False: it is refused, for want of room.

        It is counted until `went`, unless it is refused.
        """

    def went(self) -> None:
        """One that was counted has ended, however."""

    def fields(self) -> bytes:
        """Return lines that are added to the head of every response."""
