"""Both ends of the proxy's wire for tests: scripted servers, raw clients, their own framing.

Nothing here uses the code under test: heads are split by hand and chunks are read one by one.
"""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from live.dispatching import Fleet

from equipoise.live.limits import Limits
from equipoise.live.proxy import Proxy, require_live

END = b"\r\n\r\n"


class Seen(NamedTuple):
    """A request as a server saw it."""

    method: str
    target: str
    fields: list  # (name in lower case, value), in order
    body: bytes

    def field(self, name):
        """The only value of a field; None if there is none."""
        values = [value for key, value in self.fields if key == name]
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def names(self):
        return [name for name, _ in self.fields]


class Answer(NamedTuple):
    """A response as a client saw it."""

    status: int
    fields: list
    body: bytes
    whole: bool  # it ended where it said

    field = Seen.field
    names = Seen.names


def split(head):
    """The first line and the fields of a head."""
    first, *lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    pairs = [line.split(":", 1) for line in lines]
    return first, [(name.lower(), value.strip(" \t")) for name, value in pairs]


async def read_chunked(reader):
    """The data of a chunked body."""
    data = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        data += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return data


async def read_answer(reader, *, to_head=False, interim=False):
    """The next response; 1xx are passed over unless `interim`."""
    while True:
        first, fields = split(await reader.readuntil(END))
        status = int(first.split(" ")[1])
        if interim or status >= 200:
            break
    given = dict(fields)
    if to_head or status < 200 or status in (204, 304):
        return Answer(status, fields, b"", True)
    body = b""
    try:
        if given.get("transfer-encoding") == "chunked":
            body = await read_chunked(reader)
        elif "content-length" in given:
            body = await reader.readexactly(int(given["content-length"]))
        else:
            body = await reader.read()
    except (asyncio.IncompleteReadError, ConnectionError) as cut:
        return Answer(status, fields, getattr(cut, "partial", body), False)
    return Answer(status, fields, body, True)


class Link:
    """A server's side of one connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body=b"", status="200 OK", *fields):
        head = "".join(f"{line}\r\n" for line in [f"HTTP/1.1 {status}", *fields])
        await self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def reset(self):
        reset(self.writer)

    def close(self):
        self.writer.close()


def reset(writer):
    """Close so that the other side gets a reset."""
    sock = writer.get_extra_info("socket")
    with suppress(OSError):
        sock = socket.socket(fileno=socket.dup(sock.fileno()))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    writer.transport.abort()


async def echo(seen, link):
    """Answer with the body that came, or the target."""
    await link.answer(seen.body or seen.target.encode())


class Raw(NamedTuple):
    """A server's behaviour on a connection, from its first byte on."""

    serve: object  # serve(reader, writer)


class Backend:
    """A server on a free port of 127.0.0.1 that answers by `behave(seen, link)`.

    The connection is kept unless it returns False.
    """

    def __init__(self, behave=echo):
        self.behave = behave
        self.records = True  # what comes
        self.seen = []
        self.connections = 0
        self.received = b""
        self.port = 0
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=1 << 22
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    async def _serve(self, reader, writer):
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        link = Link(reader, writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while not isinstance(self.behave, Raw):
                head = await reader.readuntil(END)
                self.received += head if self.records else b""
                first, fields = split(head)
                given = dict(fields)
                body = b""
                if given.get("expect") == "100-continue":
                    if self.behave is not echo:
                        await self.behave(Seen(*first.split(" ")[:2], fields, b""), link)
                    await link.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                if given.get("transfer-encoding") == "chunked":
                    body = await read_chunked(reader)
                elif "content-length" in given:
                    body = await reader.readexactly(int(given["content-length"]))
                seen = Seen(*first.split(" ")[:2], fields, body)
                if self.records:
                    self.received += body
                    self.seen.append(seen)
                if await self.behave(seen, link) is False:
                    break
            if isinstance(self.behave, Raw):
                await self.behave.serve(reader, writer)
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.wait_for(writer.wait_closed(), 1.0)
        writer.transport.abort()
        self._tasks.discard(asyncio.current_task())


class Talk:
    """A client's connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, request, **how):
        """Send a request and return its response."""
        self.writer.write(request)
        return await read_answer(self.reader, **how)

    async def get(self, target="/", *fields):
        lines = [f"GET {target} HTTP/1.1", "Host: test", *fields, "", ""]
        return await self.ask("\r\n".join(lines).encode())

    async def post(self, body, target="/", *fields):
        lines = [f"POST {target} HTTP/1.1", "Host: test", *fields]
        lines += [f"Content-Length: {len(body)}", "", ""]
        return await self.ask("\r\n".join(lines).encode() + body)

    async def closed(self):
        """Whether the other side closes, without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 5) == b""
        except ConnectionError:
            return True

    def reset(self):
        reset(self.writer)

    def close(self):
        self.writer.close()

    async def end(self):
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


class Stage(NamedTuple):
    """A proxy between clients and servers."""

    proxy: Proxy
    fleet: Fleet
    backends: list
    port: int
    talks: list

    async def talk(self, **how):
        """Connect as a client."""
        talk = Talk(*await asyncio.open_connection("127.0.0.1", self.port, **how))
        self.talks.append(talk)
        return talk

    async def settle(self):
        """Wait until nothing is under way; say so if that does not come."""
        await until(lambda: self.fleet.settled() and not self.proxy.figures().under_way)


async def until(condition, seconds=5.0):
    """Wait for a condition to become true."""
    for _ in range(int(seconds / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it has not come true")


@asynccontextmanager
async def stage(*behaviours, servers=1, policy="jsq", limit=None, fleet=Fleet, **limits):
    """A proxy in front of servers; at the end nothing may be left of anything."""
    backends = [Backend(behave) for behave in behaviours or [echo] * servers]
    for backend in backends:
        await backend.start()
    places = {chr(97 + i): ("127.0.0.1", b.port) for i, b in enumerate(backends)}
    fleet = fleet(places, policy, limit=limit)
    proxy = Proxy(fleet, Limits(**limits))
    _, port = await proxy.start()
    scene = Stage(proxy, fleet, backends, port, [])
    try:
        yield scene
        for talk in scene.talks:
            talk.close()
        await scene.settle()
    finally:
        for talk in scene.talks:
            await talk.end()
        await proxy.close()
        for backend in backends:
            await backend.stop()
    figures = proxy.figures()
    assert (figures.clients, figures.queued, figures.under_way) == (0, 0, 0)
    assert (figures.open, figures.idle) == (0, 0)
    assert fleet.settled()
    assert fleet.logged == figures.requests


def run(scenario, seconds=30.0):
    """Run a coroutine on the dispatcher's own kind of loop, for so long at most."""

    async def bounded():
        return await asyncio.wait_for(scenario, seconds)

    return require_live().run(bounded())
