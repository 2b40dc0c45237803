"""Requests made to be read in two ways, and clients that play for time: refused, nothing passed on.

Each refusal says its status, the connection is closed, and no server hears of it, nor of what came
after it on the same connection.
"""

import asyncio

import pytest
from live.mutants import agree, fuzz
from live.test_framing import BAD_CHUNKS, REFUSED
from live.wire import END, read_answer, run, stage

AFTER = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte by byte"])
def test_a_doubtful_head_is_refused_the_connection_closed_and_nothing_forwarded(whole):
    async def scenario():
        async with stage() as scene:
            for kind, (head, status) in REFUSED.items():
                if status == 413 or (not whole and len(head) > 1000):
                    continue
                talk = await scene.talk()
                sent = head + AFTER * 2
                if whole:
                    talk.writer.write(sent)
                else:
                    for byte in sent:
                        talk.writer.write(bytes([byte]))
                        await asyncio.sleep(0)
                answer = await read_answer(talk.reader)
                assert (answer.status, answer.whole) == (status, True), kind
                assert answer.field("connection") == "close", kind
                assert await talk.closed(), kind
                talk.close()
            assert scene.fleet.chosen == {}
            assert scene.backends[0].connections == 0
            assert {record.outcome for record in scene.fleet.records} == {"refused"}

    run(scenario())


@pytest.mark.parametrize("kind", BAD_CHUNKS)
@pytest.mark.parametrize("together", [True, False])
def test_a_wrong_chunk_is_refused_and_what_follows_it_never_seen(kind, together):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario():
        async with stage(idle_timeout=0.3) as scene:
            talk = await scene.talk()
            if together:
                talk.writer.write(head + BAD_CHUNKS[kind] + AFTER)
            else:
                talk.writer.write(head)
                await asyncio.sleep(0.01)
                talk.writer.write(BAD_CHUNKS[kind] + AFTER)
            answer = await read_answer(talk.reader)

            assert answer.status == 400
            assert await talk.closed()
            await scene.settle()
            assert scene.backends[0].seen == []
            assert b"smuggled" not in scene.backends[0].received
            if together:
                assert scene.backends[0].received == b""  # not even the head
                assert scene.fleet.chosen == {}

    run(scenario())


def test_a_request_inside_a_body_stays_a_body():
    """Two readings of the length is what smuggling lives on; here there is one."""

    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            answer = await talk.post(AFTER)
            chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(AFTER), AFTER)
            again = await talk.ask(
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
            )

            assert answer.body == again.body == AFTER
            assert [seen.target for seen in scene.backends[0].seen] == ["/", "/"]

    run(scenario())


def test_a_response_cannot_be_split_by_what_a_client_sends():
    async def scenario():
        async with stage() as scene:
            talk = await scene.talk()
            answer = await talk.get("/", "X-Request-Id: a%0d%0aSet-Cookie:b=c", "X: \xe9")

            assert "set-cookie" not in answer.names()
            assert answer.status == 200

    run(scenario())


def test_many_slow_clients_are_cut_and_leave_room():
    """Slow-loris: heads that never end. The time for a head is counted from its first byte."""

    async def scenario():
        async with stage(head_timeout=0.3, connections=40) as scene:
            slow = [await scene.talk() for _ in range(39)]

            async def drip(talk):
                for i in range(100):
                    talk.writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n" if not i else b"X: y\r\n")
                    await asyncio.sleep(0.02)

            tasks = [asyncio.create_task(drip(talk)) for talk in slow]
            await asyncio.sleep(0.01)
            good = await scene.talk()
            assert (await good.get()).status == 200
            answers = await asyncio.gather(*(read_answer(talk.reader) for talk in slow))
            for task in tasks:
                task.cancel()
            assert {answer.status for answer in answers} == {408}
            assert sum(scene.fleet.chosen.values()) == 1

    run(scenario())


def test_a_slow_body_is_cut_and_the_server_rid_of_it():
    async def scenario():
        async with stage(idle_timeout=0.2, total_timeout=0.6) as scene:
            for chunked in (True, False):
                talk = await scene.talk()
                how = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 1000"
                talk.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + how + END)

                async def drip(talk=talk, chunked=chunked):
                    for _ in range(100):
                        talk.writer.write(b"1\r\na\r\n" if chunked else b"a")
                        await asyncio.sleep(0.02)

                task = asyncio.create_task(drip())
                answer = await asyncio.wait_for(read_answer(talk.reader), 2.0)
                task.cancel()
                assert answer.status == 408
            await scene.settle()
            assert scene.fleet.account() == {"client_aborted": 2}

    run(scenario())


def test_spoilt_streams_are_read_alike_by_whoever_is_behind():
    streams, records, answers = run(fuzz(600, seed=1))

    seen, _ = agree(streams, records)
    refused = sum(record.outcome == "refused" for record in records)
    assert seen > 150  # the test is not empty
    assert answers > 150
    assert refused > 150
