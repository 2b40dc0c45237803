"""Streams of requests, spoilt at random, through the proxy: whoever reads on must see the same."""

import asyncio
import random
from contextlib import suppress

import httptools
from live.readers import sloppy, strict
from live.wire import Raw, reset, stage

SEEDS = [
    b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /%d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST /%d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1;a=b\r\nx\r\nb\r\nhello world\r\n0\r\nSum: 1\r\n\r\n",
    b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 45\r\n\r\n"
    b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n",
    b"DELETE /%d HTTP/1.1\r\nHost: x\r\nConnection: X-Extra\r\nX-Extra: 1\r\n\r\n",
]
LINES = [
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"content-length : 5\r\n",
    b"Content-Length: 5\n", b"Content-Length:\t+5\r\n", b"Content-Length: 5, 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
    b"Transfer-Encoding\t: chunked\r\n", b"Transfer-Encoding: x, chunked\r\n",
    b" Transfer-Encoding: chunked\r\n", b"X: y\rTransfer-Encoding: chunked\r\n",
    b"X: y\nTransfer-Encoding: chunked\r\n", b"Transfer_Encoding: chunked\r\n",
    b"Connection: Content-Length\r\n", b"Connection: Transfer-Encoding\r\n", b"Host: y\r\n",
    b"Expect: 100-continue\r\n", b"\r\n", b"\n", b"\0", b"X: \xff\r\n",
]  # fmt: skip
BYTES = [b"\r", b"\n", b"\r\n", b" ", b"\t", b"\0", b":", b"0", b"5", b"\x0b", b";", b"a", b"\x7f"]


def mutant(luck, number):
    """A few requests in one stream, with up to four faults."""
    parts = [luck.choice(SEEDS) % (number * 10 + i) for i in range(luck.randrange(1, 4))]
    data = b"".join(parts)
    for _ in range(luck.randrange(5)):
        kind, at = luck.randrange(5), luck.randrange(len(data))
        if kind == 0:
            data = data[:at] + luck.choice(BYTES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + luck.randrange(1, 4) :]
        elif kind == 2:
            data = data[:at] + luck.choice(BYTES) + data[at + 1 :]
        elif kind == 3:
            ends = [i + 2 for i in range(len(data) - 1) if data[i : i + 2] == b"\r\n"] or [at]
            at = luck.choice(ends)
            data = data[:at] + luck.choice(LINES) + data[at:]
        else:
            end = luck.randrange(at, min(len(data), at + 30))
            data = data[:end] + data[at:end] + data[end:]
    return data


class Recorder:
    """A server that answers what llhttp sees, and keeps every byte, connection by connection."""

    def __init__(self):
        self.streams = []

    async def serve(self, reader, writer):
        stream, self.target = [b"", []], None
        self.streams.append(stream)
        parser = None

        class Events:
            def on_url(self, url):
                self.url = url

            def on_message_complete(self):
                stream[1].append(self.url)
                body = b"%d" % len(stream[1])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

        parser = httptools.HttpRequestParser(Events())
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                stream[0] += data
                parser.feed_data(data)  # an error is the test's failure


async def ask(port, data, cuts):
    """Send a stream, cut in pieces; return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        for start, end in cuts:
            writer.write(data[start:end])
            if len(cuts) > 1:
                await asyncio.sleep(0)
        with suppress(TimeoutError, ConnectionError):
            while part := await asyncio.wait_for(reader.read(1 << 16), 0.02):
                got += part
                if b"Connection: close" in part:
                    break
    finally:
        reset(writer)
        with suppress(OSError):
            await writer.wait_closed()
    return got


async def fuzz(cases, seed):
    """Send `cases` mutants; return what was found: (streams, records, answers)."""
    luck = random.Random(seed)
    recorder = Recorder()
    async with stage(Raw(recorder.serve), head_timeout=5.0) as scene:
        answers = 0

        async def some(numbers):
            nonlocal answers
            for number in numbers:
                data = mutant(luck, number)
                cut = luck.randrange(len(data))
                cuts = luck.choice([[(0, len(data))], [(0, cut), (cut, len(data))]])
                got = await ask(scene.port, data, cuts)
                answers += got.count(b"HTTP/1.1 200 OK")

        await asyncio.gather(*(some(range(i, cases, 8)) for i in range(8)))
        await scene.settle()
        return recorder.streams, scene.fleet.records, answers


def agree(streams, records):
    """Check that every reader sees in each stream the requests that the proxy meant to send."""
    seen, left = [], 0
    for data, by_llhttp in streams:
        requests, incomplete = strict(data)
        assert sloppy(data) == (requests, incomplete), data
        assert [target for _, target, _ in requests] == by_llhttp, data
        seen += [target.decode("latin-1") for _, target, _ in requests]
        left += incomplete
    meant = [r.target for r in records if r.server is not None]
    surely = [r.target for r in records if r.outcome == "ok"]
    assert not set(seen) - set(meant)
    assert not set(surely) - set(seen)
    assert len(surely) <= len(seen) <= len(meant)
    return len(seen), left
