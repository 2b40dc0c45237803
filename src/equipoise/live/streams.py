"""The streams from the dispatcher to the agents of its servers, one connection each.

    POST /.well-known/equipoise     the body: lines to the agent; the response's: lines from it

What the lines mean is decided in `hearing.py`; here they are carried (`wire.py`, both bodies
chunked). A stream that ends, or on which nothing has come for as long as makes a server unheard, is
opened again, after 0.1 s at first and twice as long each time that it fails, up to 5 s, each less a
random part so that dispatchers do not come all together. Nothing waits without an end, and nothing
grows: a line that is too long ends the stream, and so does an agent that does not read.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Any, cast

from .framing import CHUNKED, Chunks, Refusal, Response, read_response
from .hearing import Hearing, Talk
from .limits import Limits
from .wire import BEAT, CONTENT_TYPE, MOST_LINE, PATH, WireError

BACK_OFF, BACK_OFF_MOST = 0.1, 5.0  # s
CONNECT = 3.0  # s for a connection to be made
LOOK = 0.2  # s between two looks at all streams
MOST_HEAD = 16 * 1024  # bytes of a response's head
MOST_WHY = 1024  # bytes of a refusal that are read
MOST_UNREAD = 64 * 1024  # bytes that an agent has not read yet
_LIMITS = Limits(head=MOST_HEAD)


class Streams:
    """Holds a stream to the agent of each server that `hearing` knows.

    Parameters
    ----------
    hearing
        Says what to say, and hears.
    where
        Returns the host and port of a server's agent, by the server's name.
    secret
        What agents ask for; one word of visible ASCII.
    """

    def __init__(
        self,
        hearing: Hearing,
        where: Callable[[str], tuple[str, int]],
        *,
        secret: str | None = None,
        connect_timeout: float = CONNECT,
    ) -> None:
        self.hearing, self.where = hearing, where
        self.secret, self.connect_timeout = secret, connect_timeout
        self.luck = random.Random()
        self.opened = 0  # connections ever
        self._callers: dict[str, Caller] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Open streams to all servers, and from now on to those that join."""
        self._loop = asyncio.get_running_loop()
        self.hearing.on_join, self.hearing.on_leave = self._watch, self._forget
        for name in self.hearing.ears:
            self._watch(name)
        self._look()

    async def ready(self, seconds: float) -> None:
        """Wait until every agent has told its state, or for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not all(
            ear.refused or (ear.talk is not None and ear.talk.sequence)
            for ear in self.hearing.ears.values()
        ):
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """End all streams."""
        self.hearing.on_join = self.hearing.on_leave = lambda name: None
        if self._timer is not None:
            self._timer.cancel()
        callers, self._callers = list(self._callers.values()), {}
        for caller in callers:
            caller.stop()
        await asyncio.gather(
            *(caller.connecting for caller in callers if caller.connecting is not None),
            return_exceptions=True,
        )

    def _watch(self, name: str) -> None:
        if self._loop is not None and name not in self._callers:
            self._callers[name] = caller = Caller(self, name, self._loop)
            caller.call()

    def _forget(self, name: str) -> None:
        caller = self._callers.pop(name, None)
        if caller is not None:
            caller.stop()

    def _look(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(LOOK, self._look)
        now = time.monotonic()
        for caller in list(self._callers.values()):
            if caller.stream is not None:
                caller.stream.look(now)


class Caller:
    """Opens the streams to one agent, one after the other."""

    def __init__(self, streams: Streams, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.streams, self.name, self._loop = streams, name, loop
        self.stream: Stream | None = None
        self.connecting: asyncio.Task[None] | None = None
        self._failures = 0  # in a row
        self._worked_at = 0.0  # when they were forgotten last
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def call(self) -> None:
        """Open a stream."""
        self._timer = None
        self.connecting = self._loop.create_task(self._connect())

    def stop(self) -> None:
        """End what there is, and open no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self.connecting is not None:
            self.connecting.cancel()
        if self.stream is not None:
            self.stream.close("the dispatcher ends it")

    def worked(self) -> None:
        """The agent has said something that makes sense; a second of it makes good a failure."""
        if (now := time.monotonic()) - self._worked_at > 1.0:
            self._failures, self._worked_at = 0, now

    def ended(self, stream: Stream) -> None:
        """A stream has ended: open another, not at once."""
        if self.stream is stream:
            self.stream = None
            self._again()

    def _again(self) -> None:
        if self._stopped or self._timer is not None:
            return
        wait = min(BACK_OFF_MOST, BACK_OFF * 2.0 ** min(self._failures, 16))
        self._failures += 1
        wait *= 1.0 - self.streams.luck.random() / 2
        self._timer = self._loop.call_later(wait, self.call)

    async def _connect(self) -> None:
        streams = self.streams
        host, port = streams.where(self.name)
        try:
            async with asyncio.timeout(streams.connect_timeout):
                _, stream = await self._loop.create_connection(
                    lambda: Stream(self, host, port), host, port
                )
        except OSError as error:  # TimeoutError is one
            streams.hearing.failed(self.name, f"its agent could not be reached: {_reason(error)}")
            self._again()
        else:
            streams.opened += 1
            if self._stopped:
                stream.close("the dispatcher ends it")
        finally:
            self.connecting = None


class Stream(asyncio.Protocol):
    """One connection to an agent. Implements `Mouth`."""

    transport: asyncio.Transport

    def __init__(self, caller: Caller, host: str, port: int) -> None:
        self._caller, self._hearing = caller, caller.streams.hearing
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._talk: Talk | None = None
        self._closed = False
        self._held = b""  # of the head, or of a line, that is not complete
        self._refusal: Response | None = None  # its head, if that is what comes
        self._chunks: Chunks | None = None  # of the response, once its head has come
        self._heard_at = self._beat_at = 0.0

    # -- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._heard_at = now = time.monotonic()
        self._beat_at = now + BEAT
        self._caller.stream = self
        secret = self._caller.streams.secret
        known = f"Authorization: Bearer {secret}\r\n" if secret is not None else ""
        self.transport.write(
            f"POST {PATH} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"{known}Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        self._talk = self._hearing.opened(self._caller.name, self, time.time())
        if self._talk is None:
            self.close("its server has left")

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        try:
            if self._chunks is not None:
                self._body(data)
            else:
                self._head(data)
        except Refusal as refusal:
            self.close(f"its agent's answer is wrong: {refusal.why}", refused=True)
        except WireError as error:
            self.close(f"its agent: {error}", refused=True)

    def eof_received(self) -> None:
        self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)

    # -- called by the hearing ------------------------------------------------------------------

    def say(self, data: bytes) -> None:
        """Write a line."""
        if self._closed:
            return
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            self.close("its agent does not read what it is told")

    def close(self, why: str, *, refused: bool = False) -> None:
        """End the stream; another is opened by and by."""
        if self._closed:
            return
        self._closed = True
        self.transport.abort()
        if self._talk is not None:
            self._hearing.closed(self._talk, why, refused=refused)
        self._caller.ended(self)

    def look(self, now: float) -> None:
        """Give a sign of life, and miss the other's."""
        if now - self._heard_at > self._hearing.unheard:
            self.close(f"its agent was silent for {self._hearing.unheard:g} s")
        elif now >= self._beat_at and self._talk is not None and self._talk.welcomed:
            self._beat_at = now + BEAT
            self._hearing.beat(self._talk)

    # -- inside ---------------------------------------------------------------------------------

    def _head(self, data: bytes) -> None:
        data, self._held = self._held + data, b""
        if self._refusal is not None:
            self._refused(data)
            return
        while True:
            end = data.find(b"\r\n\r\n", 0, MOST_HEAD) + 4
            if end < 4:
                if len(data) >= MOST_HEAD:
                    raise Refusal(502, f"its head is longer than {MOST_HEAD} bytes")
                self._held = data
                return
            response = read_response(data, end, to_head=False)
            data = data[end:]
            if response.status >= 200:
                break
        if response.status != 200:
            self._refusal = response
            self._refused(data)
        elif response.length != CHUNKED:
            raise Refusal(502, "it is no stream; is there an agent?")
        else:
            self._chunks = Chunks(_LIMITS, status=502, decode=True)
            if data:
                self._body(data)

    def _refused(self, data: bytes) -> None:
        """Say why the agent refuses, when it has said it or will not."""
        response = self._refusal
        assert response is not None
        length = response.length
        if 0 <= length <= len(data) or len(data) >= MOST_WHY:
            self._say_why(data)
        else:
            self._held = data

    def _say_why(self, data: bytes) -> None:
        assert self._refusal is not None
        status = self._refusal.status
        text = ""
        if self._refusal.length != CHUNKED:  # an agent's own is not
            text = data[:MOST_WHY].decode("utf-8", "replace").partition("\n")[0].strip()
        text = "".join(c if c.isprintable() else "?" for c in text[:200])
        what = "there is no agent" if status in (404, 405) else "its agent refuses"
        self.close(f"{what}: {status}{' ' if text else ''}{text}", refused=True)

    def _body(self, data: bytes) -> None:
        assert self._chunks is not None
        assert self._talk is not None
        data, rest = self._chunks.feed(data)
        if self._held:
            data, self._held = self._held + data, b""
        *lines, held = data.split(b"\n")
        if len(held) > MOST_LINE:
            raise WireError(f"a line of more than {MOST_LINE} bytes")
        self._held = held
        now, wall = self._heard_at, time.time()
        hear, talk = self._hearing.line, self._talk
        for text in lines:
            hear(talk, text, now, wall)
        self._caller.worked()
        if rest is not None:
            self.close("its agent has ended the stream")

    def _ended(self, exc: Exception | None = None) -> None:
        if self._closed:
            return
        if self._refusal is not None:
            self._say_why(self._held)
        else:
            self.close("its agent closed the connection" if exc is None else f"{exc}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    number: Any = error.errno or 0
    return os.strerror(number).lower() if number > 0 else str(error)
