"""A small listener for whoever looks after the dispatcher: /metrics, /status, /health. GET only.

    /metrics   what is counted, for Prometheus
    /status    the same and more, as one JSON object
    /health    200 while the dispatcher takes requests and a server is up, else 503

and what else it is given, the dashboard for one. One request a connection. It is not meant to be
reached from outside: there is no password.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from ..errors import EquipoiseError

MOST_HEAD = 8192  # bytes
PATIENCE = 5.0  # s for a request to come, and for its answer to be read
JSON_TYPE = "application/json"


class Answer(NamedTuple):
    """What a page says."""

    type: str  # of its content
    body: str
    status: int = 200
    fields: tuple[tuple[str, str], ...] = ()  # further ones of the head


@dataclass(frozen=True)
class Asked:
    """A page that is told its query, as a mapping of names to the last value of each."""

    answer: Callable[[Mapping[str, str]], Answer | Awaitable[Answer]]


Page = Callable[[], Answer | Awaitable[Answer]] | Asked


class Site(NamedTuple):
    """Pages from elsewhere, and what keeps their data."""

    pages: Mapping[str, Page]  # by path
    tick: Callable[[], None]  # called many times a second while the dispatcher runs

    def shown(self, there: str) -> str:
        """Say what to look at first, at an address."""
        return f"dashboard {there}/" if "/" in self.pages else f"status {there}/status"


class Admin:
    """Serves pages by their path."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self._server: asyncio.Server | None = None
        self._talking: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the address, with the port that was free.

        Raises
        ------
        EquipoiseError
            If the address cannot be had.
        """
        try:
            self._server = await asyncio.start_server(self._talk, host, port, limit=MOST_HEAD)
        except OSError as error:
            number = error.errno or 0
            what = os.strerror(number).lower() if number > 0 else str(error)
            raise EquipoiseError(f"admin: cannot listen on {host}:{port}: {what}") from None
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening, and cut who is still reading."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._talking):
            task.cancel()
        for task in list(self._talking):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._server.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._serve(head, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._talking.discard(task)
            writer.transport.abort()

    async def _serve(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request, whose head has come."""
        method, path = _request(head)
        answer = self._answer(method, path)
        if not isinstance(answer, Answer):
            async with asyncio.timeout(PATIENCE):
                answer = await answer
        await self._reply(writer, answer, head_only=method == "HEAD")

    async def _reply(
        self, writer: asyncio.StreamWriter, answer: Answer, *, head_only: bool = False
    ) -> None:
        """Write an answer, and close."""
        async with asyncio.timeout(PATIENCE):
            writer.write(_response(answer, head_only))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def _answer(self, method: str, path: str) -> Answer | Awaitable[Answer]:
        path, _, query = path.partition("?")
        page = self.pages.get(path)
        if not method:
            return Answer("text/plain", "not an HTTP request\n", 400)
        if method not in ("GET", "HEAD"):
            return Answer("text/plain", "only GET\n", 405)
        if page is None:
            return Answer("text/plain", f"there are {', '.join(self.pages)}\n", 404)
        return page.answer(dict(parse_qsl(query))) if isinstance(page, Asked) else page()


def as_json(value: Any, *, compact: bool = False) -> Answer:
    """Return a page that is a JSON object; `compact`: for programs, not to be read."""
    if compact:
        return Answer(JSON_TYPE, json.dumps(value, separators=(",", ":")))
    return Answer(JSON_TYPE, json.dumps(value, indent=1) + "\n")


def _request(head: bytes) -> tuple[str, str]:
    """Return method and path, "" if that is no request."""
    parts = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    good = len(parts) == 3 and parts[2].startswith("HTTP/1.") and parts[1].startswith("/")
    return (parts[0], parts[1]) if good else ("", "")


def _response(answer: Answer, head_only: bool) -> bytes:
    body = answer.body.encode()
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.type}\r\nContent-Length: {len(body)}\r\n"
        + ("Allow: GET, HEAD\r\n" if answer.status == 405 else "")
        + "".join(f"{name}: {value}\r\n" for name, value in answer.fields)
        + "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if head_only else body)
