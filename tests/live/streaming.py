"""A dispatcher's side of a stream on a real connection, for tests of agents."""

import asyncio
import time

from live.wire import Answer, split

from equipoise.live.wire import PATH, Beat, Hello, Message, Welcome, line, of_agent


def hello(policy="jsq", name="d.1", **changed):
    """A first line."""
    said = Hello("0.1.0", name, policy, {}, 0, None, time.time())
    return said._replace(**changed)


class Ear:
    """A stream that is open; `lines` are all that have come, beats aside."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.lines, self.beats, self.ended = [], 0, asyncio.Event()
        self.whole = False  # it was ended, not cut
        self.task = asyncio.create_task(self._read())

    def say(self, said):
        data = line(said)
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def messages(self, count):
        """Wait for so many messages in all; return them as (m, received, kind)."""
        async with asyncio.timeout(5):
            while len(self.lines) < count + 1:
                await asyncio.sleep(0.002)
        assert isinstance(self.lines[0], Welcome)
        return [(said.m, said.received, said.kind) for said in self.lines[1:]]

    async def close(self):
        self.task.cancel()
        self.writer.transport.abort()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _read(self):
        held = b""
        try:
            while True:
                size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
                held += (await self.reader.readexactly(size + 2))[:-2]
                if not size:
                    self.whole = True
                    return
                *whole, held = held.split(b"\n")
                for text in whole:
                    said = of_agent(text)
                    if isinstance(said, Beat):
                        self.beats += 1
                    else:
                        assert isinstance(said, Welcome | Message)
                        self.lines.append(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()


async def listen(port, said=None, *fields, first=None):
    """Open a stream; return an `Ear`, or the answer of an agent that does not welcome."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"POST {PATH} HTTP/1.1", "Host: agent", "Transfer-Encoding: chunked", *fields, "", ""]
    data = line(said or hello()) if first is None else first
    writer.write("\r\n".join(head).encode() + b"%x\r\n%b\r\n" % (len(data), data))
    head = await reader.readuntil(b"\r\n\r\n")
    first, given = split(head)
    if " 200 " not in first:
        body = await reader.readexactly(int(dict(given)["content-length"]))
        writer.transport.abort()
        return Answer(int(first.split()[1]), given, body, True)
    assert dict(given)["transfer-encoding"] == "chunked"
    assert dict(given)["content-type"] == "application/x-ndjson"
    return Ear(reader, writer)
