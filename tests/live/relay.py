"""A TCP relay between a dispatcher and an agent's stream that can do anything to what passes."""

import asyncio
import random
from contextlib import suppress

from live.wire import END, reset


class Relay:
    """Listens on a free port of 127.0.0.1 and connects to `port` for each connection.

    What comes from the agent is taken apart into lines, which can be lost, doubled and mixed up.
    """

    def __init__(self, port, seed=1):
        self.target, self.port = port, 0
        self.luck = random.Random(seed)
        self.delay = 0.0  # s, both ways
        self.hold = False  # nothing passes, and nobody is told
        self.overtaken = self.twice = self.missing = 0.0
        self.replay = None  # lines that answer for the agent, on the next connection
        self.lines = []  # of the agent, on the last connection
        self.connections = 0
        self._writers, self._tasks = set(), set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self):
        """Reset all connections."""
        for writer in list(self._writers):
            reset(writer)

    async def _serve(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        other = None
        try:
            replay, self.replay = self.replay, None
            if replay is not None:
                await self._answer(reader, writer, replay)
                return
            there, other = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(other)
            self.lines = []
            both = [
                asyncio.create_task(self._pass(reader, other)),
                asyncio.create_task(self._lines(there, writer)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            for each in (writer, other):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()
                    with suppress(OSError):
                        await each.wait_closed()

    async def _answer(self, reader, writer, lines):
        """Be the agent for a moment, with what it said once."""
        await reader.readuntil(END)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for text in lines:
            writer.write(_chunk(text))
        await writer.drain()
        await asyncio.sleep(0.2)

    async def _pass(self, reader, writer):
        """To the agent, as it comes."""
        while data := await reader.read(65_536):
            self._later(writer, data)

    async def _lines(self, reader, writer):
        """From the agent, line by line."""
        head = await reader.readuntil(END)
        self._later(writer, head)
        first = True
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            data = await reader.readexactly(size)
            await reader.readexactly(2)
            for text in data.splitlines(keepends=True):
                self.lines.append(text)
                self._line(writer, text, first)
                first = False
        self._later(writer, b"0\r\n\r\n")
        await asyncio.sleep(self.delay + 0.01)

    def _line(self, writer, text, first):
        luck, message = self.luck, b'"m"' in text
        if message and luck.random() < self.missing:
            return
        if message and luck.random() < self.twice:
            self._later(writer, _chunk(text), luck.random() * 0.05)
        more = luck.random() * 0.05 if not first and luck.random() < self.overtaken else 0.0
        self._later(writer, _chunk(text), more)

    def _later(self, writer, data, more=0.0):
        if self.hold:
            return
        if self.delay + more:
            loop = asyncio.get_running_loop()
            loop.call_later(self.delay + more, self._write, writer, data)
        else:
            self._write(writer, data)

    def _write(self, writer, data):
        if not writer.transport.is_closing() and not self.hold:
            writer.write(data)


def _chunk(text):
    return b"%x\r\n%b\r\n" % (len(text), text)
