"""Streams to agents over real connections, before agents that do all that can be done wrong."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from live.wire import END, run, split, until

from equipoise.live import streams as module
from equipoise.live.core import Core
from equipoise.live.hearing import Hearing
from equipoise.live.streams import Streams
from equipoise.live.wire import MOST_LINE, Beat, Message, Welcome, line

WELCOME = Welcome("0.1.0", "g.1", None, 0.0)
FIRST = Message(1, 0, 1, "answer")
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


class Peer:
    """An agent by hand: `serve(peer, reader, writer)` is what it does on a connection."""

    def __init__(self, serve):
        self.serve, self.connections, self.heads, self.said = serve, 0, [], []
        self._tasks = set()

    async def start(self):
        self.server = await asyncio.start_server(self._talk, "127.0.0.1", 0, limit=1 << 20)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self):
        self.server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _talk(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        try:
            self.heads.append(await reader.readuntil(END))
            await self.serve(self, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.transport.abort()

    async def lines(self, reader):
        """Take what the dispatcher says, until it ends."""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            data = await reader.readexactly(size)
            assert await reader.readexactly(2) == b"\r\n"
            self.said += [json.loads(text) for text in data.splitlines()]


async def good(peer, reader, writer):
    writer.write(OK + chunk(line(WELCOME) + line(FIRST)))
    await peer.lines(reader)


def answering(data, *, linger=True):
    async def serve(peer, reader, writer):
        writer.write(data)
        if linger:
            await peer.lines(reader)

    return serve


@asynccontextmanager
async def heard(serve, *, unheard=3.0, secret=None, policy="jiq", period=None):
    """A dispatcher of one server whose agent does this."""
    peer = Peer(serve)
    await peer.start()
    core, events = Core(policy, agents=True), []
    hearing = Hearing(core, "d", unheard=unheard, period=period, note=events.append)
    core.now = asyncio.get_running_loop().time()
    core.joined("a", length=None)
    streams = Streams(hearing, lambda name: ("127.0.0.1", peer.port), secret=secret)
    hearing.joined("a", core.now)
    streams.start()
    try:
        yield peer, hearing, streams, events
    finally:
        await streams.close()
        await peer.stop()


def why_of(serve, **given):
    """What is said to be wrong with an agent that does this."""

    async def scenario():
        async with heard(serve, **given) as (_, hearing, _, events):
            await until(lambda: hearing.ears["a"].refused)
            return hearing.ears["a"].why, events

    return run(scenario())


def test_the_hello_says_who_asks_and_for_what_policy():
    async def scenario():
        async with heard(good, secret="xyzzy", policy="threshold(level=3)") as found:
            peer, hearing, streams, _ = found
            await streams.ready(2.0)
            await until(lambda: peer.said)
            assert hearing.ears["a"].state == "open"
            return peer

    peer = run(scenario())
    first, fields = split(peer.heads[0])
    assert first == "POST /.well-known/equipoise HTTP/1.1"
    assert ("authorization", "Bearer xyzzy") in fields
    assert ("transfer-encoding", "chunked") in fields
    hello = peer.said[0]
    assert (hello["hello"], hello["policy"], hello["dispatcher"]) == (1, "threshold", "d.1")
    assert hello["params"] == {"level": 3, "step": 1}
    assert (hello["announcement"], hello["period"]) == (3, None)


def test_without_a_secret_none_is_said():
    async def scenario():
        async with heard(good) as (peer, _, streams, _):
            await streams.ready(2.0)
            return peer.heads[0]

    assert b"uthorization" not in run(scenario())


def test_signs_of_life_are_given(monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.05)
    monkeypatch.setattr(module, "LOOK", 0.01)

    async def scenario():
        async with heard(good) as (peer, _, _, _):
            await until(lambda: {"beat": 1} in peer.said)

    run(scenario())


def test_a_line_may_come_in_any_pieces():
    data = OK + chunk(line(WELCOME)[:20]) + chunk(line(WELCOME)[20:] + line(FIRST)[:9])
    data += chunk(line(FIRST)[9:]) + chunk(line(Message(2, 0, 2, "answer")) + line(Beat()))

    async def serve(peer, reader, writer):
        for i in range(len(data)):
            writer.write(data[i : i + 1])
            await asyncio.sleep(0)
        await peer.lines(reader)

    async def scenario():
        async with heard(serve, policy="jsq") as (_, hearing, _, _):
            await until(lambda: hearing.ears["a"].messages == 2)
            return hearing.core.known()["a"].most

    assert run(scenario()) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", "there is no agent: 404 no"),
        (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 7\r\n\r\nthe key\r\n",
            "its agent refuses: 401 the key",
        ),
        (b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\nanother", "refuses: 409 another"),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999, "409 xxxx"),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\n\x1b[2J", "409 ?[2J"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "is there an agent"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "is there an agent"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not speak HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000, "its head is longer than 16384"),
        (OK + b"zz\r\n", "a chunk's size is not"),
        (OK + chunk(b"x" * (MOST_LINE + 1)), "a line of more than 16384"),
        (OK + chunk(b"not json\n"), "not a JSON object"),
        (OK + chunk(line(FIRST)), "before it has said hello"),
        (OK + chunk(line(WELCOME) + b'{"m": -1}\n'), "kind"),
        (
            OK + chunk(b'{"hello": 2, "version": "9.0", "generation": "g", "time": 0}\n'),
            "the agent, equipoise 9.0, speaks protocol 2 and this one speaks 1; run the same",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_agent_is_said_in_a_line_once(data, why):
    found, events = why_of(answering(data, linger=b"close" not in data and b"\n\nhe" not in data))

    assert why in found
    assert "\n" not in found
    assert [e for e in events if "clock" not in e] == [f"a is not heard: {found}"]


def test_an_agent_that_is_not_there_is_no_event_and_its_server_is_unheard_by_and_by():
    async def scenario():
        with socket.socket() as taken:  # nobody listens
            taken.bind(("127.0.0.1", 0))
            core, events = Core("jiq", agents=True), []
            hearing = Hearing(core, "d", unheard=0.3, note=events.append)
            loop = asyncio.get_running_loop()
            core.joined("a", length=None)
            streams = Streams(hearing, lambda name: taken.getsockname())
            hearing.joined("a", loop.time())
            streams.start()
            await until(lambda: "refused" in hearing.ears["a"].why)
            while not hearing.ears["a"].unheard:
                hearing.tick(loop.time())
                await asyncio.sleep(0.01)
            await streams.close()
            return events, hearing.status("a", loop.time())

    events, status = run(scenario())
    assert events == [
        "a was not heard for 0.3 s",
        "no server is heard: tasks go to servers at random",
    ]
    assert status["state"] == "unheard"
    assert status["why"] == "its agent could not be reached: connection refused"


def test_one_that_takes_no_connection_is_given_up(monkeypatch):
    async def scenario():
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            core = Core("jiq", agents=True)
            hearing = Hearing(core, "d")
            core.joined("a", length=None)
            streams = Streams(hearing, lambda name: full.getsockname(), connect_timeout=0.1)
            hearing.joined("a", 0.0)
            streams.start()
            await until(lambda: "no connection in time" in hearing.ears["a"].why)
            await streams.close()
            for one in waiting:
                one.close()

    run(scenario())


def test_a_silent_agent_is_called_again(monkeypatch):
    """Half-open: the connection is there and nothing comes."""
    monkeypatch.setattr(module, "LOOK", 0.02)

    async def scenario():
        async with heard(good, unheard=0.3) as (peer, hearing, _, _):
            await until(lambda: hearing.ears["a"].state == "open")
            await until(lambda: peer.connections >= 3)
            return hearing.ears["a"].why

    run(scenario())


def test_one_that_never_answers_is_called_again(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.02)

    async def scenario():
        async with heard(answering(b""), unheard=0.2) as (peer, hearing, _, _):
            await until(lambda: peer.connections >= 2)
            return hearing.ears["a"].why

    assert "silent for 0.2 s" in run(scenario())


def test_calls_are_further_and_further_apart():
    async def scenario():
        loop, times = asyncio.get_running_loop(), []

        async def shut(peer, reader, writer):
            times.append(loop.time())

        async with heard(shut) as (_, _, streams, _):
            streams.luck.random = lambda: 0.0
            await until(lambda: len(times) >= 5)
        return times

    times = run(scenario())
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[-4:] == pytest.approx([0.1, 0.2, 0.4, 0.8], rel=0.3)


def test_an_agent_that_does_not_read_is_left(monkeypatch):
    monkeypatch.setattr(module, "MOST_UNREAD", 4096)

    async def deaf(peer, reader, writer):
        if peer.connections == 1:
            writer.write(OK + chunk(line(WELCOME) + line(FIRST)))
            writer.transport.pause_reading()
            await asyncio.sleep(60)

    async def scenario():
        async with heard(deaf, unheard=30.0) as (_, hearing, _, _):
            await until(lambda: hearing.ears["a"].state == "open")
            said = 0
            while (talk := hearing.ears["a"].talk) is not None:
                talk.mouth.say(bytes(10_000))
                said += 1
            assert said < 2000  # the system keeps some megabytes itself
            return hearing.ears["a"].why

    assert "does not read" in run(scenario())


def test_a_clock_that_is_off_is_said_once_with_how_much():
    async def scenario():
        ahead = Welcome("0.1.0", "g.1", None, 4e9)

        async def serve(peer, reader, writer):
            writer.write(OK + chunk(line(ahead) + line(FIRST)))
            await asyncio.sleep(0.01)

        async with heard(serve) as (peer, _, _, events):
            await until(lambda: peer.connections >= 3)
            return events

    (said,) = run(scenario())
    assert said.startswith("the clock of a is ")
    assert said.endswith(" s ahead of this one's")


def test_a_server_that_leaves_takes_its_stream_along():
    async def scenario():
        async with heard(good) as (peer, hearing, streams, _):
            await streams.ready(2.0)
            hearing.core.left("a")
            hearing.left("a")
            await asyncio.sleep(0.3)
            assert not streams._callers
            return peer.connections

    assert run(scenario()) == 1


def test_nothing_is_left_when_streams_are_closed_while_they_connect():
    async def scenario():
        before = asyncio.all_tasks()
        async with heard(good) as (_, _, streams, _):
            await streams.close()
            await asyncio.sleep(0.05)
        await asyncio.sleep(0)
        return [task for task in asyncio.all_tasks() - before if "_accept" not in repr(task)]

    assert run(scenario()) == []
