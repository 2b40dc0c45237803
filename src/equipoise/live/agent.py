"""A server's agent in an ASGI application, in two lines, and the stream that a dispatcher holds.

    from equipoise.live.agent import AgentMiddleware

    app = AgentMiddleware(app, limit=50)

The middleware counts requests from their start to the last byte of the response, or to the end of
the application's call if that comes first: an application that goes on after its client has left
is still at work. Beyond `limit` they are refused. `POST /.well-known/equipoise` is the stream
(`wire.py`); what is told on it is decided in `telling.py`.

A process counts its own tasks only. Where one application runs in several, put a sidecar in front.

The two sides of a stream end apart: a dispatcher that has not said anything for `SILENCE` seconds
has gone, whatever the connection says. A dispatcher that does not read costs `MOST_WAITING` bytes:
beyond them messages are left out, and when it has caught up it is told the state once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from ..policies import Policy, PolicySpec
from .telling import Agent, Link, Note, NotWelcome
from .wire import (
    BEAT,
    CONTENT_TYPE,
    MOST_LINE,
    ORCA,
    PATH,
    REFUSED,
    TASK,
    Beat,
    Hello,
    Message,
    Welcome,
    WireError,
    line,
    of_dispatcher,
)
from .wire import task as read_task

__all__ = ["Agent", "AgentMiddleware", "Link", "NotWelcome", "Stream"]

SILENCE = 5.0  # s without a line, after which a dispatcher has gone
MOST_WAITING = 64 * 1024  # bytes for a dispatcher that does not read
ENDING = 1.0  # s for the end of a stream to be written

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger("equipoise.agent")
_TASK, _ORCA, _REFUSED = (name.lower().encode() for name in (TASK, ORCA, REFUSED))


class Stream:
    """One dispatcher's stream, whatever carries it.

    Parameters
    ----------
    read
        Waits for some of what the dispatcher says; b"" is the end.
    write
        Waits until the dispatcher may be sent more.
    """

    def __init__(
        self,
        agent: Agent,
        read: Callable[[], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self.agent = agent
        self.link: Link | None = None
        self._read, self._write = read, write
        self._held = b""  # of a line that is not complete
        self._lines: deque[bytes] = deque()  # that have come
        self._out: list[bytes] = []  # lines to be written
        self._size = 0  # of them, bytes
        self._left_out = False  # some message, for want of space
        self._wake = asyncio.Event()

    async def greet(self, authorization: str | None) -> None:
        """Wait for the hello, and open the link.

        Raises
        ------
        NotWelcome
            If the dispatcher does not fit; nothing is open then.
        """
        if not self.agent.admits(authorization):
            raise NotWelcome(401, "the secret is another one, or was not said")
        try:
            async with asyncio.timeout(SILENCE):
                first = await self._line()
            said = of_dispatcher(first or b"")
        except TimeoutError:
            raise NotWelcome(408, f"no hello within {SILENCE:g} s") from None
        except WireError as error:
            raise NotWelcome(400, str(error)) from None
        if not isinstance(said, Hello):
            raise NotWelcome(400, "the first line is not a hello")
        self.link = self.agent.hello(said, self._put, self._ended)

    async def hold(self) -> None:
        """Carry lines both ways until either side ends the stream."""
        link = self.link
        assert link is not None
        loop = asyncio.get_running_loop()
        both = {loop.create_task(self._take_all(link)), loop.create_task(self._write_all(link))}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            link.close()
            for task in both:
                task.cancel()
            for found in await asyncio.gather(*both, return_exceptions=True):
                if isinstance(found, Exception) and not isinstance(found, OSError):
                    raise found

    # -- inside ---------------------------------------------------------------------------------

    async def _line(self) -> bytes | None:
        """Wait for a line; None if no more will come."""
        while not self._lines:
            data = await self._read()
            if not data:
                return None
            *lines, self._held = (self._held + data).split(b"\n")
            if len(self._held) > MOST_LINE:
                raise WireError(f"a line of more than {MOST_LINE} bytes")
            self._lines.extend(lines)
        return self._lines.popleft()

    async def _take_all(self, link: Link) -> None:
        try:
            while link.open:
                async with asyncio.timeout(SILENCE):
                    text = await self._line()
                if text is None:
                    return
                link.take(of_dispatcher(text))
        except TimeoutError:
            self._trouble(link, f"nothing was heard of it for {SILENCE:g} s")
        except WireError as error:
            self._trouble(link, str(error))

    async def _write_all(self, link: Link) -> None:
        loop, clock = asyncio.get_running_loop(), self.agent.clock
        beat = clock() + BEAT
        while link.open:
            now = clock()
            if now >= beat:
                beat = now + BEAT
                self._put(Beat(link.sequence))
                if _server_stops():
                    link.close("the server stops")
            link.due(now)
            if self._out:
                await self._write_out()
                continue
            timer = loop.call_later(max(0.0, min(beat, link.next) - now), self._wake.set)
            await self._wake.wait()
            self._wake.clear()
            timer.cancel()
        await self._write_out()

    async def _write_out(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        self._size = 0
        if data:
            await self._write(data)
        if self._left_out and not self._out and self.link is not None:
            self._left_out = False
            self.link.answer()

    def _put(self, said: Welcome | Message | Beat) -> None:
        if self._size > MOST_WAITING:
            if not isinstance(said, Beat):
                self._left_out = True
                self.agent.dropped += 1
            return
        text = line(said)
        self._size += len(text)
        self._out.append(text)
        self._wake.set()

    def _ended(self, why: str) -> None:
        self._wake.set()

    def _trouble(self, link: Link, why: str) -> None:
        self.agent.note(f"the stream of dispatcher {link.record.name} was ended: {why}")


class AgentMiddleware:
    """Makes an ASGI application a server that tells; put it outermost.

    Parameters
    ----------
    app
        An ASGI 3 application, under a server that runs on asyncio.
    policy, limit, workers, secret, orca
        As in `Agent`.
    uncounted
        Paths that are no tasks, e.g. "/health": neither counted nor refused.
    agent
        One that is there already, in place of the parameters before.

    Raises
    ------
    EquipoiseError
        As `Agent` does.
    """

    def __init__(
        self,
        app: App,
        policy: str | dict[str, Any] | Policy | PolicySpec | None = None,
        limit: int | None = None,
        *,
        workers: int | None = None,
        secret: str | None = None,
        orca: bool = True,
        uncounted: Iterable[str] = (),
        agent: Agent | None = None,
    ) -> None:
        self.app = app
        self.agent = agent or Agent(
            policy, limit=limit, workers=workers, secret=secret, orca=orca, note=_say
        )
        self.uncounted = frozenset(uncounted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one exchange, or the application's life."""
        kind = scope["type"]
        if kind == "http":
            path = scope["path"]
            if path.endswith(PATH) and path in (PATH, scope.get("root_path", "") + PATH):
                await self._hold(scope, receive, send)
            elif path in self.uncounted:
                await self.app(scope, receive, send)
            else:
                await self._count(scope, receive, send)
        elif kind == "websocket" and scope["path"] not in self.uncounted:
            await self._count_socket(scope, receive, send)
        elif kind == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    # -- inside ---------------------------------------------------------------------------------

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent = self.agent
        if not agent.started(_task(scope["headers"])):
            await _answer(send, 503, self._full(), self._refusal(), "http.response")
            return
        inside, trailers = True, False

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal inside, trailers
            kind = message["type"]
            if kind == "http.response.start":
                trailers = message.get("trailers", False)
                if agent.orca:
                    report = (_ORCA, agent.load())
                    message = {**message, "headers": [*message.get("headers", ()), report]}
            await send(message)
            if inside and _is_last(kind, message, trailers):
                inside = False
                agent.finished()

        try:
            await self.app(scope, receive, counted)
        finally:
            if inside:
                inside = False
                agent.finished()

    async def _count_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.agent.started(_task(scope["headers"])):
            await receive()  # websocket.connect
            if "websocket.http.response" in (scope.get("extensions") or {}):
                await _answer(send, 503, self._full(), self._refusal(), "websocket.http.response")
            else:
                await send({"type": "websocket.close", "code": 1013})  # try again later
            return
        try:
            await self.app(scope, receive, send)
        finally:
            self.agent.finished()

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def heard() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.agent.close()
            return message

        await self.app(scope, heard, send)

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be the stream."""
        if scope["method"] != "POST":
            await _answer(send, 405, "only POST", [(b"allow", b"POST")])
            return
        closing = []  # other versions of HTTP have no connection to close
        if scope.get("http_version", "1.1").startswith("1"):
            closing = [(b"connection", b"close")]
        more = True

        async def read() -> bytes:
            nonlocal more
            while more:
                message = await receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
                if body := message.get("body", b""):
                    return bytes(body)
            return b""

        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        stream = Stream(self.agent, read, write)
        said = [value for name, value in scope["headers"] if name == b"authorization"]
        try:
            await stream.greet(said[0].decode("latin-1") if len(said) == 1 else None)
        except NotWelcome as refusal:
            self.agent.note(f"a dispatcher is not welcome: {refusal.why}")
            await _answer(send, refusal.status, refusal.why, closing)
            return
        try:
            headers = [(b"content-type", CONTENT_TYPE.encode()), (b"cache-control", b"no-store")]
            headers += closing
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await stream.hold()
        finally:
            assert stream.link is not None
            stream.link.close()
        with contextlib.suppress(TimeoutError):  # whoever does not read is cut off
            async with asyncio.timeout(ENDING):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _full(self) -> str:
        return f"the server has its limit of {self.agent.limit} tasks"

    def _refusal(self) -> list[tuple[bytes, bytes]]:
        more = [(_ORCA, self.agent.load())] if self.agent.orca else []
        return [(b"retry-after", b"1"), (_REFUSED, b"full"), *more]


def _say(note: Note) -> None:
    _log.warning("%s", note.text)


def _task(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, int] | None:
    """Return whose task this is, and its number; None if nobody says, or it is said twice."""
    found = None
    for name, value in headers:
        if name == _TASK:
            if found is not None:
                return None
            found = value
    return None if found is None else read_task(found)


def _is_last(kind: str, message: MutableMapping[str, Any], trailers: bool) -> bool:
    """Whether a response is complete with this message."""
    if kind == "http.response.body":
        return not trailers and not message.get("more_body", False)
    if kind == "http.response.trailers":
        return not message.get("more_trailers", False)
    return kind == "http.response.pathsend" and not trailers


async def _answer(
    send: Send,
    status: int,
    why: str,
    fields: Iterable[tuple[bytes, bytes]] = (),
    kind: str = "http.response",
) -> None:
    """Answer with a line of text."""
    body = why.encode() + b"\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        *fields,
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


def _server_stops() -> bool:
    """Whether uvicorn is to stop: it tells the application only when all exchanges have ended."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))
