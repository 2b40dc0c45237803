"""The proxy between real sockets: what passes, what is added, who is chosen and when counted."""

import asyncio
import gzip
import random
import socket
import subprocess
import sys

import pytest
from live.dispatching import Fleet
from live.wire import END, Raw, read_answer, run, stage, until

from equipoise.errors import EquipoiseError
from equipoise.live.limits import Limits
from equipoise.live.proxy import Proxy


def noise(size, seed=1):
    """Bytes that no layer would produce."""
    return random.Random(seed).randbytes(size)


async def hang(seen, link):
    """Never answer."""
    await asyncio.sleep(60)


# -- what passes ------------------------------------------------------------------------------


def test_a_request_and_its_response_pass_with_what_is_added():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            answer = await talk.get("/a?b=%20c", "Accept: */*", "X-Odd:   spaced\t ")
            (seen,) = scene.backends[0].seen

            assert (answer.status, answer.body) == (200, b"/a?b=%20c")
            assert answer.field("via") == "1.1 equipoise"
            assert (seen.method, seen.target) == ("GET", "/a?b=%20c")
            assert seen.field("host") == "test"
            assert seen.field("accept") == "*/*"
            assert seen.field("x-odd") == "spaced"
            assert seen.field("x-forwarded-for") == "127.0.0.1"
            assert seen.field("forwarded") == "for=127.0.0.1;proto=http"
            assert seen.field("via") == "1.1 equipoise"
            assert seen.field("x-request-id") == answer.field("x-request-id") != ""

    run(scenario())


def test_request_ids_differ_and_one_that_came_is_kept():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            ids = [(await talk.get()).field("x-request-id") for _ in range(50)]
            given = await talk.get("/", "X-Request-Id: mine-1")
            bad = await talk.get("/", "X-Request-Id: not one id")

            assert len(set(ids)) == 50
            assert given.field("x-request-id") == "mine-1"
            assert scene.backends[0].seen[50].field("x-request-id") == "mine-1"
            assert bad.field("x-request-id") not in {*ids, "not one id"}
            assert scene.backends[0].seen[51].field("x-request-id") == bad.field("x-request-id")

    run(scenario())


def test_hop_by_hop_fields_end_here():
    async def behave(seen, link):
        await link.answer(
            b"x", "200 OK", "Connection: keep-alive, X-Private", "Keep-Alive: timeout=9",
            "X-Private: 1", "X-Public: 2", "Upgrade: h2c", "Proxy-Connection: x",
        )  # fmt: skip

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            answer = await talk.get(
                "/", "Connection: keep-alive, Secret, upgrade", "Secret: 1", "Keep-Alive: 5",
                "Proxy-Connection: x", "TE: trailers", "Upgrade: h2c", "Kept: yes",
                "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", "Proxy-Authorization: Basic eA==",
            )  # fmt: skip
            again = await talk.get()

            expected = {"host", "kept", "x-forwarded-for", "forwarded", "via", "x-request-id"}
            assert set(scene.backends[0].seen[0].names()) == expected
            assert set(answer.names()) == {"x-public", "content-length", "via", "x-request-id"}
            assert again.status == 200

    run(scenario())


def test_forwarded_addresses_are_added_to_those_that_came():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            await talk.get(
                "/", "X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 10.0.0.2", "Via: 1.1 other",
                "X_Forwarded_For: 6.6.6.6", "Connection: x-forwarded-for",
            )  # fmt: skip
            (seen,) = scene.backends[0].seen

            assert seen.field("x-forwarded-for") == "10.0.0.1, 10.0.0.2, 127.0.0.1"
            assert [v for n, v in seen.fields if n == "via"] == ["1.1 other", "1.1 equipoise"]
            assert "x_forwarded_for" not in seen.names()

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
@pytest.mark.parametrize("how", ["length", "chunked", "close"])
def test_bodies_pass_byte_by_byte_both_ways(size, how):
    body = gzip.compress(noise(size)) if size else b""
    back = noise(size, 2)

    async def behave(seen, link):
        fields = "Content-Encoding: gzip\r\nContent-Type: image/odd\r\n"
        if how == "length":
            await link.send(f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {size}\r\n\r\n".encode())
            await link.send(back)
        elif how == "chunked":
            await link.send(
                f"HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n".encode()
            )
            for piece in pieces(back):
                await link.send(b"%X;ext=1\r\n%b\r\n" % (len(piece), piece))
            await link.send(b"0\r\n\r\n")
        else:
            await link.send(f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode() + back)
            return False

    def pieces(data):
        cuts = random.Random(3)
        while data:
            cut = cuts.choice([1, 7, 1000, 100_000])
            yield data[:cut]
            data = data[cut:]

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk(limit=1 << 23)
            for _ in range(2):
                if how == "chunked":
                    talk.writer.write(
                        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    for piece in pieces(body):
                        talk.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                        await talk.writer.drain()
                    answer = await talk.ask(b"0\r\n\r\n")
                else:
                    answer = await talk.post(body)
                assert answer.whole
                assert answer.body == back
                assert answer.field("content-encoding") == "gzip"

            assert [seen.body for seen in scene.backends[0].seen] == [body, body]
            assert scene.fleet.records[-1].bytes_in >= len(body)
            assert scene.fleet.records[-1].bytes_out >= len(back)

    run(scenario())


def test_responses_without_a_body_leave_the_connection_usable():
    async def behave(seen, link):
        if seen.method == "HEAD":
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        elif seen.target == "/204":
            await link.send(b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n")
        elif seen.target == "/304":
            await link.send(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: a\r\n\r\n")
        else:
            await link.answer(b"body")

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            head = await talk.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", to_head=True)
            none, same, body = await talk.get("/204"), await talk.get("/304"), await talk.get("/")

            assert (head.status, head.field("content-length")) == (200, "1000")
            assert (none.status, none.field("content-length")) == (204, None)
            assert (same.status, same.field("etag")) == (304, "a")
            assert (body.status, body.body) == (200, b"body")
            assert scene.backends[0].connections == 1

    run(scenario())


def test_pipelined_requests_are_answered_in_order():
    async def behave(seen, link):
        await asyncio.sleep(0.02 if seen.target == "/1" else 0)
        await link.answer(seen.target.encode() + seen.body)

    chunked = b"POST /%d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = (
        b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
        + (chunked % 2 + b"3\r\nabc\r\n0\r\n\r\n")
        + b"POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ndef\r\n"
        + (chunked % 4 + b"3\r\nghi\r\n0\r\nX-Sum: 1\r\n\r\n")
        + b"GET /5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )

    async def scenario(cut):
        async with stage(behave, servers=2) as scene:
            talk = await scene.talk()
            for at in range(0, len(sent), cut):
                talk.writer.write(sent[at : at + cut])
                await asyncio.sleep(0)
            answers = [await read_answer(talk.reader) for _ in range(5)]

            assert [a.body for a in answers] == [b"/1", b"/2abc", b"/3def", b"/4ghi", b"/5"]
            assert answers[-1].field("connection") == "close"
            assert await talk.closed()

    for cut in (len(sent), 1, 50):
        run(scenario(cut))


def test_a_client_may_ask_before_it_sends():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            talk.writer.write(
                b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            )
            interim = await read_answer(talk.reader, interim=True)
            answer = await talk.ask(b"hello")

            assert (interim.status, answer.status, answer.body) == (100, 200, b"hello")
            assert (await talk.get()).status == 200

    run(scenario())


def test_a_server_may_decline_a_body_before_it_is_sent():
    async def decline(seen, link):
        await link.answer(b"too much", "413 Content Too Large")
        await asyncio.sleep(60)

    async def scenario():
        async with stage(decline) as scene:
            talk = await scene.talk()
            answer = await talk.ask(
                b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            )

            assert (answer.status, answer.body) == (413, b"too much")
            assert answer.field("connection") == "close"
            assert await talk.closed()
            assert scene.fleet.account() == {"ok": 1}

    run(scenario())


def test_early_hints_pass_to_those_who_know_them():
    async def behave(seen, link):
        await link.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await link.answer(b"x")

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            hint = await talk.ask(request, interim=True)
            answer = await read_answer(talk.reader)
            old = await scene.talk()
            direct = await old.ask(b"GET / HTTP/1.0\r\n\r\n", interim=True)

            assert (hint.status, hint.field("link")) == (103, "</a.css>")
            assert (answer.status, direct.status) == (200, 200)

    run(scenario())


def test_an_old_client_gets_what_it_understands():
    async def behave(seen, link):
        if seen.target == "/chunked":
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await link.send(b"5\r\nhello\r\n6;x\r\n world\r\n0\r\nX: y\r\n\r\n")
        else:
            await link.answer(seen.field("host").encode())

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            kept = await talk.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            chunked = await talk.ask(b"GET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            talk = await scene.talk()
            closed = await talk.ask(b"GET / HTTP/1.0\r\nHost: old\r\n\r\n")

            assert kept.body == f"127.0.0.1:{scene.backends[0].port}".encode()
            assert kept.field("connection") == "keep-alive"
            assert (chunked.body, chunked.field("transfer-encoding")) == (b"hello world", None)
            assert closed.body == b"old"
            assert await talk.closed()
            assert scene.backends[0].connections == 1

    run(scenario())


def test_a_response_that_ends_with_its_connection_gets_chunks_and_the_client_stays():
    async def behave(seen, link):
        await link.send(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nall of")
        await asyncio.sleep(0.01)
        await link.send(b" it")
        return False

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            for _ in range(2):
                answer = await talk.get()
                assert (answer.body, answer.whole) == (b"all of it", True)
                assert answer.field("transfer-encoding") == "chunked"
            old = await scene.talk()
            assert (await old.ask(b"GET / HTTP/1.0\r\n\r\n")).body == b"all of it"

    run(scenario())


def test_a_response_may_begin_while_the_request_still_comes():
    async def stream(reader, writer):
        await reader.readuntil(END)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while line := await reader.readuntil(b"\r\n"):
            writer.write(line + await reader.readexactly(int(line, 16) + 2))
            if line == b"0\r\n":
                break

    async def scenario():
        async with stage(Raw(stream)) as scene:
            talk = await scene.talk()
            talk.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            await talk.reader.readuntil(END)
            for part in (b"one", b"two", b"three"):
                talk.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                assert (await talk.reader.readuntil(b"\r\n")) == b"%x\r\n" % len(part)
                assert (await talk.reader.readuntil(b"\r\n")) == part + b"\r\n"
                assert scene.fleet.now["a"] == 1
            talk.writer.write(b"0\r\n\r\n")
            assert (await talk.reader.readuntil(END)) == b"0" + END
            assert await talk.closed()
            assert scene.fleet.account() == {"ok": 1}

    run(scenario())


# -- connections to servers -------------------------------------------------------------------


def test_no_more_connections_are_opened_than_requests_were_under_way():
    async def behave(seen, link):
        await asyncio.sleep(0.001)
        await link.answer(b"x")

    async def scenario():
        async with stage(*[behave] * 3) as scene:
            talks = [await scene.talk() for _ in range(20)]

            async def load(talk):
                for _ in range(15):
                    assert (await talk.get()).status == 200

            await asyncio.gather(*map(load, talks))
            for backend, name in zip(scene.backends, "abc", strict=True):
                assert backend.connections <= scene.fleet.peak[name]
            assert scene.proxy.figures().opened <= sum(scene.fleet.peak.values())
            assert sum(scene.fleet.chosen.values()) == 300

    run(scenario())


def test_idle_connections_to_servers_are_closed_in_time():
    async def scenario():
        async with stage(server_keep_alive_timeout=0.1) as scene:
            talk = await scene.talk()
            await talk.get()
            assert scene.proxy.figures().idle == 1
            await until(lambda: scene.proxy.figures().open == 0)
            assert (await talk.get()).status == 200

    run(scenario())


def test_bytes_that_a_server_sends_unasked_are_never_an_answer():
    """They would be taken for the response to the next request on that connection."""

    async def behave(seen, link):
        poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
        if seen.target == "/late":
            await link.answer(b"good")
            await asyncio.sleep(0.02)
            await link.send(poison)
        else:
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + poison)

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            for target in ("/at-once", "/late", "/at-once"):
                assert (await talk.get(target)).body == b"good"
                await asyncio.sleep(0.05)
            assert scene.backends[0].connections == 3

    run(scenario())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_that_is_not_there_is_passed_over(method):
    """Nothing was sent, so that even a POST may be tried elsewhere."""

    async def scenario():
        async with stage(echo_name("a"), echo_name("b"), policy="round-robin") as scene:
            await scene.backends[0].stop()
            for _ in range(4):
                talk = await scene.talk()
                answer = await talk.ask(
                    f"{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi".encode()
                )
                assert (answer.status, answer.body) == (200, b"b")
            account = scene.fleet.account()
            assert account["ok"] == 4
            assert account["not_sent"] >= 1
            assert scene.proxy.figures().retries == account["not_sent"]
            assert "connection refused" in scene.fleet.why[0]

    run(scenario())


def echo_name(name):
    async def behave(seen, link):
        await link.answer(name.encode())

    return behave


class Diary(Fleet):
    """A fleet that writes down what is called, in order."""

    def __init__(self, *arguments, **given):
        super().__init__(*arguments, **given)
        self.diary = []

    def choose(self, exclude=None):
        slot = super().choose(exclude)
        self.diary.append(("choose", slot and slot.server.name))
        return slot

    def finished(self, slot, outcome, seconds):
        self.diary.append((outcome, slot.server.name))
        super().finished(slot, outcome, seconds)

    def not_sent(self, slot, why):
        self.diary.append(("not sent", slot.server.name))
        super().not_sent(slot, why)


async def vanish_on_the_second(seen, link):
    """Answer once, then close the connection on the next request without a word."""
    if getattr(link, "asked", False):
        link.reset()
        return False
    link.asked = True
    await link.answer(b"ok")


def test_a_dead_pooled_connection_is_replaced_once_elsewhere_its_slot_released_first():
    async def scenario():
        async with stage(
            vanish_on_the_second, echo_name("b"), policy="round-robin", fleet=Diary
        ) as scene:
            talk = await scene.talk()
            while not any(name == "a" for _, name in scene.fleet.diary):
                await talk.get()
            if scene.fleet.diary[-1][1] == "a":
                await talk.get()
            del scene.fleet.diary[:]
            answer = await talk.get()

            assert (answer.status, answer.body) == (200, b"b")
            assert scene.fleet.diary[:3] == [("choose", "a"), ("not sent", "a"), ("choose", "b")]
            assert scene.fleet.records[-1].retries == 1

    run(scenario())


def test_a_dead_pooled_connection_to_the_only_server_is_replaced_by_a_new_one():
    async def scenario():
        async with stage(vanish_on_the_second) as scene:
            talk = await scene.talk()
            for _ in range(4):
                assert (await talk.get()).body == b"ok"
            assert scene.fleet.account() == {"ok": 4, "not_sent": 3}

    run(scenario())


def test_a_retry_takes_a_new_connection_and_closes_an_idle_one_for_it():
    """The idle ones may be as dead as the first; and there must not be more than requests."""

    async def behave(seen, link):
        await asyncio.sleep(0.01)
        return await vanish_on_the_second(seen, link)

    async def scenario():
        async with stage(behave) as scene:
            talks = [await scene.talk() for _ in range(5)]
            await asyncio.gather(*(talk.get() for talk in talks))
            assert scene.proxy.figures().idle == 5
            assert (await talks[0].get()).body == b"ok"
            await until(lambda: scene.proxy.figures().open == 4)

    run(scenario())


@pytest.mark.parametrize("body", [b"twice", b""])
def test_what_may_have_been_done_is_not_done_again(body):
    async def scenario():
        async def behave(seen, link):
            if seen.body != b"once":
                scene.fleet.core.joined("b")  # where it could be tried again
                link.reset()
                return False
            await link.answer(b"ok")

        async with stage(behave, echo_name("b")) as scene:
            scene.fleet.core.left("b")
            talk = await scene.talk()
            await talk.post(b"once")
            answer = await talk.post(body)

            assert answer.status == 502
            assert b"server a" in answer.body
            assert scene.proxy.figures().retries == 0
            assert scene.backends[1].seen == []
            scene.fleet.core.left("a")
            assert (await talk.get()).body == b"b"  # the client's connection is none the worse

    run(scenario())


def test_a_response_that_has_begun_is_cut_and_never_begun_again():
    async def behave(seen, link):
        kind = seen.target
        if kind == "/chunked":
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        elif kind == "/length":
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        elif kind == "/wrong":
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            await link.send(b"zz\r\n")
            await asyncio.sleep(1)
        else:
            await link.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asyncio.sleep(0.02)
        link.reset()
        return False

    async def scenario():
        async with stage(behave, behave) as scene:
            for target in ("/chunked", "/length", "/close", "/wrong"):
                talk = await scene.talk()
                answer = await talk.get(target)
                assert (answer.status, answer.whole) == (200, False), target
            old = await scene.talk()
            assert not (await old.ask(b"GET /close HTTP/1.0\r\n\r\n")).whole  # a reset
            await scene.settle()
            assert scene.fleet.account() == {"upstream_error": 5}
            assert {record.outcome for record in scene.fleet.records} == {"upstream_error"}

    run(scenario())


RESPONSES = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nX: ",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a switch nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "a long head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40_000 + b"\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_response_that_makes_no_sense_is_a_502_that_says_why(kind):
    async def behave(seen, link):
        await link.send(RESPONSES[kind])
        if kind not in ("nothing", "half a head"):
            await asyncio.sleep(5)
        return False

    async def scenario():
        async with stage(behave, retries=0) as scene:
            talk = await scene.talk()
            answer = await talk.get()

            assert (answer.status, answer.whole) == (502, True)
            assert answer.body.startswith(b"502 Bad Gateway: server a: it")
            assert scene.fleet.account() == {"upstream_error": 1}
            assert scene.fleet.records[0].why in answer.body.decode()

    run(scenario())


def test_a_server_that_closes_its_half_only_has_ended_the_exchange():
    async def behave(seen, link):
        if seen.target == "/silent":
            link.writer.write_eof()
        else:
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
            link.writer.write_eof()
        await asyncio.sleep(5)

    async def scenario():
        async with stage(behave, retries=0) as scene:
            talk = await scene.talk()
            assert (await talk.get("/silent")).status == 502
            answer = await talk.get("/begun")
            assert (answer.status, answer.body, answer.whole) == (200, b"half", False)

    run(scenario())


# -- slots ------------------------------------------------------------------------------------


def test_a_burst_at_one_instant_spreads_since_choices_count_at_once():
    async def slow(seen, link):
        await asyncio.sleep(0.1)
        await link.answer(b"x")

    async def scenario():
        async with stage(*[slow] * 10) as scene:
            talks = [await scene.talk() for _ in range(100)]
            await asyncio.gather(*(talk.get() for talk in talks))
            assert set(scene.fleet.peak.values()) == {10}

    run(scenario())


def test_a_stream_counts_until_its_last_byte():
    go = asyncio.Event()

    async def behave(seen, link):
        await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await go.wait()
        await link.send(b"1\r\nb\r\n0\r\n")
        await asyncio.sleep(0.05)
        await link.send(b"\r\n")

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            talk.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await talk.reader.readuntil(b"a\r\n")
            await asyncio.sleep(0.05)
            assert scene.fleet.now["a"] == 1
            go.set()
            await talk.reader.readuntil(b"b\r\n")
            assert scene.fleet.now["a"] == 1
            await talk.reader.readuntil(b"0\r\n\r\n")
            assert scene.fleet.account() == {"ok": 1}
            assert scene.fleet.records[0].service > 0.09  # sleeps end a little early

    run(scenario())


@pytest.mark.parametrize("when", ["silent", "streaming", "sending", "connecting", "waiting"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_frees_its_slot_at_once(when, how):
    async def behave(seen, link):
        if when == "streaming":
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await asyncio.sleep(60)

    async def scenario():
        async with stage(behave, limit=1) as scene:
            if when == "waiting":
                first = await scene.talk()
                first.writer.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
                await until(lambda: scene.fleet.now["a"] == 1)
            full = Full() if when == "connecting" else None
            if full:
                scene.fleet.addresses["a"] = full.address
            talk = await scene.talk()
            length = b"Content-Length: 9\r\n" if when == "sending" else b""
            talk.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n")
            if when == "streaming":
                await talk.reader.readuntil(b"half")
            expected = 2 if when == "waiting" else 1
            await until(lambda: scene.proxy.figures().under_way == expected)
            await asyncio.sleep(0.02)
            if how == "close":
                talk.close()
            else:
                talk.reset()
            await until(lambda: scene.proxy.figures().under_way == expected - 1, 1.0)
            last = scene.fleet.records[-1]
            assert last.outcome == "client_aborted"
            if when == "waiting":
                assert scene.proxy.figures().queued == 0
                assert scene.fleet.now["a"] == 1
            else:
                assert scene.fleet.settled()
                ends = {"connecting": "not_sent"}
                assert scene.fleet.account() == {ends.get(when, "client_aborted"): 1}
            if full:
                full.close()

    run(scenario())


class Full:
    """An address where connecting takes for ever: the queue of a listener who accepts nobody."""

    def __init__(self):
        self.sockets = [socket.socket() for _ in range(8)]
        listener = self.sockets[0]
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        self.address = listener.getsockname()
        for other in self.sockets[1:]:
            other.setblocking(False)
            other.connect_ex(self.address)

    def close(self):
        for each in self.sockets:
            each.close()


def test_a_connection_attempt_that_is_cancelled_from_outside_gives_its_slot_back():
    """CancelledError is not an Exception, and must not slip by."""

    async def scenario():
        async with stage() as scene:
            full = Full()
            scene.fleet.addresses["a"] = full.address
            talk = await scene.talk()
            answer = asyncio.create_task(talk.get())
            await until(lambda: scene.fleet.now["a"] == 1)
            (client,) = scene.proxy.clients
            client._connecting.cancel()
            answer = await answer
            full.close()

            assert answer.status == 502
            assert scene.fleet.account() == {"not_sent": 1}

    run(scenario())


# -- the queue --------------------------------------------------------------------------------


def test_requests_wait_in_order_for_a_server_that_is_full():
    async def slow(seen, link):
        await asyncio.sleep(0.01)
        await link.answer(seen.target.encode())

    async def scenario():
        async with stage(slow, limit=1) as scene:
            talks = [await scene.talk() for _ in range(6)]
            waiting = []
            for i, talk in enumerate(talks):
                waiting.append(asyncio.create_task(talk.get(f"/{i}")))
                await asyncio.sleep(0.001)
            answers = await asyncio.gather(*waiting)

            assert [a.status for a in answers] == [200] * 6
            assert [s.target for s in scene.backends[0].seen] == [f"/{i}" for i in range(6)]
            assert scene.fleet.peak["a"] == 1
            assert scene.fleet.records[-1].waited > 0.03

    run(scenario())


def test_a_client_that_sends_ahead_does_not_overtake_the_queue():
    async def slow(seen, link):
        await asyncio.sleep(0.03)
        await link.answer(b"x")

    async def scenario():
        async with stage(slow, limit=1) as scene:
            greedy, patient = await scene.talk(), await scene.talk()
            greedy.writer.write(
                b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in (1, 2))
            )
            await asyncio.sleep(0.01)
            await patient.get("/patient")
            await read_answer(greedy.reader)
            await read_answer(greedy.reader)

            assert [s.target for s in scene.backends[0].seen] == ["/1", "/patient", "/2"]

    run(scenario())


def test_a_full_queue_and_a_long_wait_are_503_that_say_so():
    async def scenario():
        async with stage(hang, limit=1, queue=1, queue_timeout=0.1) as scene:
            talks = [await scene.talk() for _ in range(3)]
            talks[0].writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: scene.fleet.now["a"] == 1)
            late = asyncio.create_task(talks[1].get())
            await until(lambda: scene.proxy.figures().queued == 1)
            refused = await talks[2].get()
            late = await late

            assert (refused.status, late.status) == (503, 503)
            assert b"the queue is full" in refused.body
            assert b"no server had room within 0.1 s" in late.body
            assert refused.field("retry-after") == "1"
            assert (refused.whole, late.whole) == (True, True)
            assert (await talks[2].get()).status == 503  # the connection goes on

    run(scenario())


def test_with_no_server_up_the_answer_is_503():
    async def scenario():
        async with stage(queue_timeout=0.1) as scene:
            scene.fleet.core.left("a")
            talk = await scene.talk()
            assert (await talk.get()).status == 503

    run(scenario())


def test_a_request_in_the_queue_is_served_when_a_server_joins():
    async def scenario():
        async with stage() as scene:
            scene.fleet.core.left("a")
            talk = await scene.talk()
            task = asyncio.create_task(talk.get())
            await until(lambda: scene.proxy.figures().queued == 1)
            scene.fleet.core.joined("a")
            for call in scene.fleet.calls:
                call()
            assert (await task).status == 200

    run(scenario())


# -- timeouts ---------------------------------------------------------------------------------


def test_a_server_that_cannot_be_reached_in_time_is_a_504():
    async def scenario():
        async with stage(connect_timeout=0.1, retries=1) as scene:
            full = Full()
            scene.fleet.addresses["a"] = full.address
            talk = await scene.talk()
            answer = await talk.get()
            full.close()

            assert answer.status == 504
            assert b"server a: it could not be reached within 0.1 s" in answer.body
            assert scene.fleet.account() == {"not_sent": 1}

    run(scenario())


def test_a_silent_server_is_a_504_and_is_not_asked_again():
    async def scenario():
        async with stage(hang, hang, first_byte_timeout=0.1) as scene:
            talk = await scene.talk()
            answer = await talk.get()

            assert answer.status == 504
            assert b"no answer within 0.1 s" in answer.body
            assert scene.fleet.account() == {"timeout": 1}
            assert sum(len(backend.seen) for backend in scene.backends) == 1

    run(scenario())


@pytest.mark.parametrize("which", ["idle_timeout", "total_timeout"])
def test_a_response_that_stops_is_cut(which):
    async def behave(seen, link):
        await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        for _ in range(50):
            await link.send(b"a")
            await asyncio.sleep(0.02 if which == "total_timeout" else 60)

    async def scenario():
        async with stage(behave, **{which: 0.2}) as scene:
            talk = await scene.talk()
            answer = await talk.get()

            assert (answer.status, answer.whole) == (200, False)
            assert scene.fleet.account() == {"timeout": 1}
            assert 0.2 <= scene.fleet.records[0].total < 0.5

    run(scenario())


def test_a_client_that_stops_sending_is_told_and_cut():
    async def scenario():
        async with stage(head_timeout=0.1, idle_timeout=0.1, keep_alive_timeout=0.3) as scene:
            head, body, idle = [await scene.talk() for _ in range(3)]
            head.writer.write(b"GET / HTTP/1.1\r\nHost")
            body.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            answers = await read_answer(head.reader), await read_answer(body.reader)

            assert [a.status for a in answers] == [408, 408]
            assert await head.closed()
            assert await body.closed()
            assert await idle.closed()
            assert scene.fleet.account() == {"client_aborted": 1}
            assert [seen.body for seen in scene.backends[0].seen] == []

    run(scenario())


def test_a_head_that_drips_in_ends_with_its_timeout_all_the_same():
    async def scenario():
        async with stage(head_timeout=0.2) as scene:
            talk = await scene.talk()

            async def drip():
                for byte in b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 100:
                    talk.writer.write(bytes([byte]))
                    await asyncio.sleep(0.01)

            task = asyncio.create_task(drip())
            answer = await asyncio.wait_for(read_answer(talk.reader), 1.0)
            task.cancel()

            assert answer.status == 408
            assert scene.fleet.chosen == {}

    run(scenario())


# -- limits and memory ------------------------------------------------------------------------


def test_a_client_that_does_not_read_keeps_memory_bounded():
    total = 64 << 20
    sent = 0

    async def behave(seen, link):
        nonlocal sent
        await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        for _ in range(total >> 16):
            await link.send(bytes(1 << 16))
            sent += 1 << 16

    async def scenario():
        async with stage(behave) as scene:
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", scene.port))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(narrow, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in range(20):  # a byte now and then
                await loop.sock_recv(narrow, 1)
                await asyncio.sleep(0.02)
            (client,) = scene.proxy.clients
            held = client.transport.get_write_buffer_size()

            assert held <= (64 + 256) << 10  # the mark, and one read beyond it
            assert sent < total // 4  # the rest is in the kernel's buffers
            assert scene.fleet.now["a"] == 1
            narrow.close()
            await scene.settle()
            assert scene.fleet.account() == {"client_aborted": 1}

    run(scenario())


def test_a_server_that_does_not_read_stops_the_client():
    size = 32 << 20

    async def scenario():
        go = asyncio.Event()

        async def serve(reader, writer):
            writer.transport.pause_reading()
            await go.wait()
            writer.transport.resume_reading()
            await reader.readuntil(END)
            await reader.readexactly(size)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await reader.read()

        async with stage(Raw(serve)) as scene:
            talk = await scene.talk()
            talk.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
            talk.writer.write(bytes(size))
            await asyncio.sleep(0.3)
            (upstream,) = scene.proxy.pools[scene.fleet.addresses["a"]].open
            assert upstream.transport.get_write_buffer_size() <= (64 + 256) << 10
            assert talk.writer.transport.get_write_buffer_size() > 8 << 20
            go.set()
            assert (await read_answer(talk.reader)).body == b"ok"

    run(scenario())


def test_a_client_that_sends_ahead_without_end_is_held_back():
    async def scenario():
        async with stage(hang) as scene:
            talk = await scene.talk()
            talk.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000_000)
            await asyncio.sleep(0.3)
            (client,) = scene.proxy.clients

            assert len(client._pending) <= (64 + 256) << 10
            assert talk.writer.transport.get_write_buffer_size() > 1 << 20
            talk.reset()  # noticed all the same
            await until(lambda: not scene.proxy.clients, 3.0)

    run(scenario())


def test_limits_are_kept_and_said():
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario():
        async with stage(body=10, head=1000, target=100) as scene:

            async def status(call, *arguments):
                talk = await scene.talk()
                answer = await getattr(talk, call)(*arguments)
                assert answer.status == 200 or await talk.closed()
                return answer.status

            assert await status("post", b"0123456789") == 200
            assert await status("post", b"0123456789+") == 413
            assert await status("ask", chunked + b"b\r\n0123456789+\r\n0\r\n\r\n") == 413
            assert await status("get", "/" + "a" * 200) == 414
            assert await status("get", "/", "X: " + "a" * 1000) == 431

    run(scenario())


def test_more_clients_than_allowed_are_told_so():
    async def scenario():
        async with stage(connections=2) as scene:
            two = [await scene.talk() for _ in range(2)]
            assert (await two[0].get()).status == 200
            third = await scene.talk()
            assert (await read_answer(third.reader)).status == 503
            assert await third.closed()
            assert (await two[1].get()).status == 200

    run(scenario())


def test_limits_that_make_no_sense_are_refused_one_line_each():
    with pytest.raises(EquipoiseError) as caught:
        Limits(head=0, idle_timeout=-1, queue=True, total_timeout=float("nan"))

    lines = str(caught.value).split("\n")
    assert [line.split(" ")[0] for line in lines] == [
        "limits.head", "limits.queue", "limits.idle_timeout", "limits.total_timeout",
    ]  # fmt: skip
    assert Limits(idle_timeout=1).round == 0.25
    assert lines[1] == "limits.queue = True: give a whole number from 0 to 1048576"


# -- starting and stopping --------------------------------------------------------------------


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httptools", None)

    with pytest.raises(EquipoiseError) as caught:
        Proxy(Fleet({"a": ("127.0.0.1", 1)}))

    assert str(caught.value) == (
        "the live dispatcher needs httptools and uvloop: pip install 'equipoise[live]'"
    )


def test_the_extra_is_not_loaded_before_it_is_needed():
    code = "import sys, equipoise.live.proxy; assert not {'uvloop', 'httptools'} & set(sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_port_in_use_is_one_line():
    async def scenario():
        async with stage() as scene:
            other = Proxy(scene.fleet)
            with pytest.raises(EquipoiseError) as caught:
                await other.start("127.0.0.1", scene.port)

            expected = f"cannot listen on 127.0.0.1:{scene.port}: address already in use; "
            assert str(caught.value).startswith(expected)
            await other.close()

    run(scenario())


def test_a_drain_finishes_what_is_under_way_and_accepts_nothing_more():
    async def behave(seen, link):
        await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        await asyncio.sleep(0.1)
        await link.send(b"cd")

    async def scenario():
        async with stage(behave) as scene:
            busy, idle = await scene.talk(), await scene.talk()
            await idle.get()
            answer = asyncio.create_task(busy.get())
            await until(lambda: scene.fleet.now["a"] == 1)
            drain = asyncio.create_task(scene.proxy.drain(5.0))
            assert await idle.closed()
            with pytest.raises(ConnectionError):
                await scene.talk()
            answer = await answer
            assert (answer.body, answer.whole) == (b"abcd", True)
            assert await busy.closed()
            assert await asyncio.wait_for(drain, 1.0) == 0

    run(scenario())


def test_a_drain_cuts_at_its_deadline_so_that_clients_can_tell():
    async def behave(seen, link):
        if seen.target == "/begun":
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        await asyncio.sleep(60)

    async def scenario():
        async with stage(behave, limit=2) as scene:
            talks = [await scene.talk() for _ in range(3)]
            for talk, target in zip(talks, ("/begun", "/silent", "/queued"), strict=True):
                talk.writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                await asyncio.sleep(0.02)
            assert await scene.proxy.drain(0.1) == 3
            begun = await read_answer(talks[0].reader)
            assert (begun.status, begun.whole) == (200, False)
            others = [await read_answer(talk.reader) for talk in talks[1:]]
            assert [answer.status for answer in others] == [503, 503]
            assert b"shutting down" in others[0].body
            assert [r.outcome for r in scene.fleet.records] == ["cut"] * 3
            assert scene.fleet.account() == {"cut": 2}

    run(scenario())


def test_the_record_of_an_exchange_says_what_happened():
    async def behave(seen, link):
        await asyncio.sleep(0.05)
        await link.answer(b"12345", "418 I'm a teapot")

    async def scenario():
        async with stage(behave) as scene:
            talk = await scene.talk()
            await talk.post(b"abc", "/tea")
            (record,) = scene.fleet.records

            assert record[1:10] == ("127.0.0.1", "POST", "/tea", 418, 3, 5, "a", "ok", 0)
            assert record.why == ""
            assert 0.04 <= record.first_byte <= record.service <= record.total < 1
            assert record.total == pytest.approx(record.waited + record.service, abs=1e-3)
            assert record.request_id == scene.backends[0].seen[0].field("x-request-id")

    run(scenario())


# -- between dispatchers and agents ---------------------------------------------------------------


def test_clients_cannot_speak_for_a_dispatcher():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            await talk.get("/", "Equipoise-Task: d.1 1", "equipoise_task: d.1 2")
            answer = await talk.get("/.well-known/%65quipoise")
            (seen,) = scene.backends[0].seen

            assert [name for name in seen.names() if "quipoise" in name] == []
            assert answer.status == 404

    run(scenario())
