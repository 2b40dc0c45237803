"""Switches of protocols: what is offered, what passes, how it ends, and the slot each time."""

import asyncio
import random
from contextlib import suppress

import pytest
from live.test_reload import scene
from live.test_tls import secured
from live.wire import END, Raw, read_answer, reset, run, split, stage, until

from equipoise.live.tunnel import agreed, offered

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
OFFER = (
    b"GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Server:
    """Switches at once, then does as it is told."""

    def __init__(self, then=None, answer=SWITCH):
        self.then, self.answer = then or self.echo, answer
        self.heads, self.ends = [], []

    async def echo(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()

    async def serve(self, reader, writer):
        with suppress(ConnectionError):
            while True:
                try:
                    self.heads.append(await reader.readuntil(END))
                except asyncio.IncompleteReadError:
                    return
                writer.write(self.answer)
                if b" 101 " in self.answer:
                    await self.then(reader, writer)
                    self.ends.append("end")
                    return

    def fields(self, at=-1):
        return split(self.heads[at])[1]


async def switched(talk):
    """Offer, and read the 101; return its fields."""
    answer = await talk.ask(OFFER, interim=True)
    assert answer.status == 101
    return answer


async def at_rest(client, what):
    """Wait until a count changes no more: the kernel's buffers are full too; return it."""
    before = -1
    while (now := getattr(client, what)) != before or not now:
        before = now
        await asyncio.sleep(0.15)
    return now


def outcome(scene):
    record = scene.fleet.records[-1]
    return record.outcome, record.status


# -- what is offered ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "offer"),
    [
        (b"websocket", b"websocket"),
        (b"WebSocket", b"WebSocket"),
        (b"foo/2, websocket", b"foo/2, websocket"),
        (b"h2c", b""),
        (b"H2C", b""),
        (b"h2c, websocket", b"websocket"),
        (b"HTTP/2.0, TLS/1.0, IRC/6.9", b"IRC/6.9"),
        (b"", b""),
        (b"a b", b""),
        (b"websocket;x", b""),
        (b"a/b/c", b""),
        (b"x" * 65, b""),
    ],
)
def test_what_may_be_offered(value, offer):
    assert offered(value) == offer


def test_only_what_was_offered_is_agreed_on():
    assert agreed(b"WebSocket", b"websocket")
    assert agreed(b"b", b"a, b")
    assert not agreed(b"", b"websocket")
    assert not agreed(b"websocket, h2c", b"websocket")
    assert not agreed(b"websocket", b"")


def test_the_offer_is_passed_on_and_frames_pass_both_ways():
    server = Server()

    async def scenario():
        async with stage(Raw(server.serve)) as s:
            talk = await s.talk()
            answer = await switched(talk)
            assert answer.field("upgrade") == "websocket"
            assert answer.field("connection") == "upgrade"
            assert answer.field("via") == "1.1 equipoise"
            assert answer.field("x-request-id")
            for size in (1, 125, 70_000):
                frame = random.Random(size).randbytes(size)
                talk.writer.write(frame)
                assert await talk.reader.readexactly(size) == frame
            assert s.fleet.now["a"] == 1
            assert s.proxy.figures().tunnels == s.proxy.figures().under_way == 1
            talk.writer.write_eof()
            assert await talk.reader.read() == b""
            await s.settle()
            assert outcome(s) == ("ok", 101)
            record = s.fleet.records[-1]
            assert record.bytes_in == record.bytes_out == 1 + 125 + 70_000

    run(scenario())
    fields = dict(server.fields())
    assert (fields["connection"], fields["upgrade"]) == ("upgrade", "websocket")
    assert fields["sec-websocket-key"] == "dGhlIHNhbXBsZSBub25jZQ=="
    assert fields["x-forwarded-for"] == "127.0.0.1"


def test_a_pooled_connection_becomes_a_tunnel_and_never_goes_back():
    server = Server(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def scenario():
        async with stage(Raw(server.serve)) as s:
            talk = await s.talk()
            assert (await talk.get()).body == b"ok"
            assert s.proxy.figures().idle == 1
            server.answer = SWITCH
            await switched(talk)
            assert s.backends[0].connections == 1
            talk.writer.write(b"hi")
            assert await talk.reader.readexactly(2) == b"hi"
            talk.close()
            await s.settle()
            assert s.proxy.figures().idle == 0

    run(scenario())


@pytest.mark.parametrize(
    "lines",
    [
        b"Upgrade: websocket\r\n",  # Connection does not say so
        b"Connection: upgrade\r\n",  # to what?
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n",
    ],
)
def test_what_is_no_offer_is_an_ordinary_request(lines):
    async def scenario():
        async with stage() as s:
            talk = await s.talk()
            body = b"abc" if b"Length" in lines else b""
            answer = await talk.ask(b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n" + body)
            assert answer.status == 200
            names = s.backends[0].seen[0].names()
            assert not {"upgrade", "connection", "http2-settings"} & set(names)

    run(scenario())


def test_an_old_client_offers_nothing():
    async def scenario():
        async with stage() as s:
            talk = await s.talk()
            await talk.ask(OFFER.replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert "upgrade" not in s.backends[0].seen[0].names()

    run(scenario())


@pytest.mark.parametrize("body", [b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_an_offer_with_a_body_is_refused_and_nothing_reaches_a_server(body):
    async def scenario():
        async with stage() as s:
            talk = await s.talk()
            answer = await talk.ask(OFFER[:-2] + body + b"\r\nabc")
            assert answer.status == 400
            assert b"must have no body" in answer.body
            assert await talk.closed()
            assert s.backends[0].connections == 0

    run(scenario())


# -- what servers answer -------------------------------------------------------------------------


def test_a_server_that_declines_gives_an_ordinary_response_and_the_client_goes_on():
    async def scenario():
        async with stage() as s:
            talk = await s.talk()
            answer = await talk.ask(OFFER)
            assert (answer.status, answer.body) == (200, b"/chat")
            assert (await talk.get("/next")).body == b"/next"
            assert s.proxy.figures().tunnels == 0

    run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        SWITCH.replace(b"Upgrade: websocket\r\n", b""),
        SWITCH.replace(b"websocket", b"h2c"),
        SWITCH.replace(b"websocket", b"websocket, h2c"),
    ],
)
def test_a_switch_to_what_was_not_offered_is_a_502(answer):
    async def scenario():
        async with stage(Raw(Server(answer=answer).serve)) as s:
            got = await (await s.talk()).ask(OFFER)
            assert got.status == 502
            assert b"it switches to a protocol that nobody asked for" in got.body

    run(scenario())


def test_a_switch_that_nobody_asked_for_is_a_502():
    async def scenario():
        async with stage(Raw(Server().serve)) as s:
            assert (await (await s.talk()).get()).status == 502

    run(scenario())


def test_what_a_client_sends_ahead_passes_only_after_the_switch():
    """And if there is none it is a request like any other, never bytes to that server."""
    gate = asyncio.Event()
    server = Server()

    async def held(reader, writer):
        server.heads.append(await reader.readuntil(END))
        early = b""
        with suppress(TimeoutError):
            early = await asyncio.wait_for(reader.read(1), 0.1)
        assert early == b""
        gate.set()
        writer.write(SWITCH + b"first")
        await server.echo(reader, writer)

    async def scenario():
        async with stage(Raw(held)) as s:
            talk = await s.talk()
            talk.writer.write(OFFER + b"ahead")
            await gate.wait()
            assert (await read_answer(talk.reader, interim=True)).status == 101
            assert await talk.reader.readexactly(10) == b"firstahead"
            talk.close()
        async with stage() as s:
            talk = await s.talk()
            talk.writer.write(OFFER + b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_answer(talk.reader)).body == b"/chat"
            assert (await read_answer(talk.reader)).body == b"/second"

    run(scenario())


def test_what_is_sent_ahead_is_bounded():
    async def silent(reader, writer):
        await reader.readuntil(END)
        await asyncio.sleep(60)

    async def scenario():
        async with stage(Raw(silent), buffer=4096) as s:
            talk = await s.talk()
            talk.writer.write(OFFER)
            talk.writer.write(bytes(1 << 24))
            (client,) = s.proxy.clients
            await until(lambda: client.read_paused)
            await asyncio.sleep(0.1)
            assert len(client._pending) <= 4096 + 2 * (256 << 10)  # it is looked at after a read
            talk.reset()

    run(scenario())


# -- how it ends ---------------------------------------------------------------------------------


def test_a_client_that_ends_its_half_still_gets_the_rest():
    async def late(reader, writer):
        data = await reader.read()
        await asyncio.sleep(0.05)
        writer.write(b"you said " + data)

    async def scenario():
        async with stage(Raw(Server(late).serve)) as s:
            talk = await s.talk()
            await switched(talk)
            talk.writer.write(b"bye")
            talk.writer.write_eof()
            assert await talk.reader.read() == b"you said bye"
            await s.settle()
            assert outcome(s) == ("ok", 101)

    run(scenario())


def test_a_server_that_ends_its_half_still_gets_the_rest():
    got = []

    async def quick(reader, writer):
        writer.write(b"bye")
        writer.write_eof()
        got.append(await reader.read())

    async def scenario():
        async with stage(Raw(Server(quick).serve)) as s:
            talk = await s.talk()
            await switched(talk)
            assert await talk.reader.read() == b"bye"
            assert s.fleet.now["a"] == 1
            talk.writer.write(b"last words")
            talk.writer.write_eof()
            await s.settle()
            assert got == [b"last words"]
            assert outcome(s) == ("ok", 101)

    run(scenario())


def test_a_client_that_resets_frees_its_slot_and_the_server_sees_it_end():
    server = Server()

    async def scenario():
        async with stage(Raw(server.serve)) as s:
            talk = await s.talk()
            await switched(talk)
            talk.reset()
            await s.settle()
            assert outcome(s) == ("client_aborted", 101)
            await until(lambda: s.proxy.figures().open == 0)

    run(scenario())


def test_a_server_that_resets_is_its_own_fault_and_the_client_sees_it_end():
    async def vanish(reader, writer):
        await reader.read(1)
        reset(writer)

    async def scenario():
        async with stage(Raw(Server(vanish).serve)) as s:
            talk = await s.talk()
            await switched(talk)
            talk.writer.write(b"x")
            assert await talk.closed()
            await s.settle()
            assert outcome(s) == ("upstream_error", 101)

    run(scenario())


def test_silence_ends_it_and_is_nobodys_fault():
    async def scenario():
        async with stage(Raw(Server().serve), tunnel_timeout=0.3, total_timeout=0.1) as s:
            talk = await s.talk()
            await switched(talk)
            for _ in range(5):  # longer than total_timeout, and than tunnel_timeout in all
                await asyncio.sleep(0.12)
                talk.writer.write(b"x")
                assert await talk.reader.readexactly(1) == b"x"
            assert await talk.closed()
            await s.settle()
            assert outcome(s) == ("cut", 101)
            assert s.fleet.records[-1].why == "not a byte either way for 0.3 s"

    run(scenario())


def test_half_a_tunnel_lasts_no_longer_than_a_silent_body():
    async def quick(reader, writer):
        writer.write_eof()
        await reader.read()

    async def scenario():
        async with stage(Raw(Server(quick).serve), idle_timeout=0.2) as s:
            talk = await s.talk()
            await switched(talk)
            assert await talk.reader.read() == b""
            await s.settle()
            assert outcome(s) == ("cut", 101)

    run(scenario())


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_side_that_does_not_read_stops_the_other(who):
    go = asyncio.Event()
    sent = 48 << 20  # more than the kernel keeps

    async def flood(reader, writer):
        writer.write(bytes(sent))
        await writer.drain()
        await reader.read()

    async def deaf(reader, writer):
        await go.wait()
        got = 0
        while got < sent and (data := await reader.read(1 << 16)):
            got += len(data)
        writer.write(b"%d" % got)

    async def scenario():
        server = Server(flood if who == "client" else deaf)
        async with stage(Raw(server.serve), buffer=4096) as s:
            talk = await s.talk(limit=4096)
            await switched(talk)
            (client,) = s.proxy.clients
            tunnel = client.tunnel
            if who == "server":
                talk.writer.write(bytes(sent))
                assert await at_rest(client, "bytes_in") < sent
                assert tunnel.there.full
                assert client.read_paused
                assert tunnel.there.transport.get_write_buffer_size() < 1 << 20
                go.set()
                assert await talk.reader.readexactly(8) == b"%d" % sent
            else:
                assert await at_rest(client, "bytes_out") < sent
                assert tunnel.here.full
                assert tunnel.upstream.read_paused
                assert len(await talk.reader.readexactly(sent)) == sent
            talk.close()

    run(scenario())


def test_a_client_that_leaves_while_nothing_is_read_from_it_is_noticed():
    async def deaf(reader, writer):
        await asyncio.sleep(60)

    async def scenario():
        async with stage(Raw(Server(deaf).serve), buffer=4096, head_timeout=0.2) as s:
            talk = await s.talk()
            await switched(talk)
            (client,) = s.proxy.clients
            talk.writer.write(bytes(32 << 20))
            await until(lambda: client.read_paused)
            talk.reset()
            await s.settle()
            assert outcome(s) == ("client_aborted", 101)

    run(scenario())


def test_a_drain_cuts_tunnels_at_its_deadline_and_counts_them():
    async def scenario():
        async with stage(Raw(Server().serve)) as s:
            talks = [await s.talk() for _ in range(3)]
            for talk in talks:
                await switched(talk)
            draining = asyncio.create_task(s.proxy.drain(0.3))
            await asyncio.sleep(0.1)
            talks[0].writer.write(b"still")
            assert await talks[0].reader.readexactly(5) == b"still"
            talks[2].writer.write_eof()
            assert await draining == 2
            for talk in talks:
                assert await talk.closed()
            assert [r.outcome for r in s.fleet.records] == ["ok", "cut", "cut"]
            assert len(s.fleet.records) == 3, "each is noted once"

    run(scenario())


def test_tunnels_go_on_through_a_reload_and_their_server_leaves_with_the_last(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab") as s:
            s.servers["a"].behave = s.servers["b"].behave = Raw(Server().serve)
            talks = [await s.talk() for _ in range(2)]
            for talk in talks:
                await switched(talk)
            s.write("b", policy='name = "round-robin"', health="[limits]\nbuffer = 5000")
            await s.reload()
            assert s.fleet.slots("a") == 1
            for talk in talks:
                talk.writer.write(b"on")
                assert await talk.reader.readexactly(2) == b"on"
                talk.writer.write_eof()
                assert await talk.reader.read() == b""
            await until(lambda: "a" not in s.fleet.backends)

    run(scenario())


def test_a_tunnel_over_tls_passes_and_ends():
    async def scenario():
        async with secured(Raw(Server().serve)) as proxy:
            talk = await proxy.talk()
            await switched(talk)
            frame = random.Random(1).randbytes(300_000)
            talk.writer.write(frame)
            assert await talk.reader.readexactly(len(frame)) == frame
            talk.close()
            await until(proxy.fleet.settled)
            assert proxy.fleet.records[-1].outcome == "ok"

    run(scenario())


def test_many_tunnels_that_end_in_every_way_leave_nothing():
    async def odd(reader, writer):
        how = await reader.read(1)
        if how == b"r":
            reset(writer)
        elif how == b"h":
            writer.write_eof()
            await reader.read()
        elif how == b"e":
            await Server.echo(None, reader, writer)

    async def one(s, luck):
        talk = await s.talk()
        await switched(talk)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            talk.writer.write(luck.choice([b"r", b"h", b"e", b"c"]) + luck.randbytes(1000))
            if luck.random() < 0.5:
                await asyncio.wait_for(talk.reader.read(100), 1)
            luck.choice([talk.reset, talk.close, talk.writer.write_eof])()
            if not talk.writer.is_closing():
                with suppress(TimeoutError):
                    await asyncio.wait_for(talk.reader.read(), 1)

    async def scenario():
        luck = random.Random(1)
        async with stage(Raw(Server(odd).serve), idle_timeout=0.5) as s:
            for _ in range(10):
                await asyncio.gather(*(one(s, luck) for _ in range(20)))
            await s.settle()
            assert len(s.fleet.records) == 200
            assert s.proxy.figures().tunnels == 0

    run(scenario())
