"""The sidecar between real sockets: what it counts, refuses, keeps waiting and tells."""

import asyncio
import contextlib
import json
from typing import NamedTuple

import pytest
from live.streaming import Ear, hello, listen
from live.wire import Backend, Talk, echo, read_answer, run, until
from prometheus_client.parser import text_string_to_metric_families

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.live.agent import Agent
from equipoise.live.sidecar import One, Settings, Sidecar
from equipoise.live.wire import PATH, Ask


class Scene(NamedTuple):
    """A sidecar before a server."""

    sidecar: Sidecar
    server: Backend
    port: int
    status: int
    talks: list

    @property
    def agent(self):
        return self.sidecar.agent

    async def talk(self):
        """Connect as a dispatcher does for its tasks."""
        self.talks.append(Talk(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.talks[-1]

    async def get(self, path):
        """Ask the status address."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.status)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await read_answer(reader)
        writer.transport.abort()
        return answer


@contextlib.asynccontextmanager
async def stage(behave=echo, **settings):
    """A sidecar before a server; at the end nothing may be left of anything."""
    server = Backend(behave)
    await server.start()
    sidecar = Sidecar(
        Settings(
            listen="127.0.0.1:0",
            server=f"127.0.0.1:{server.port}",
            status="127.0.0.1:0",
            **settings,
        )
    )
    await sidecar.start()
    scene = Scene(sidecar, server, sidecar.address[1], sidecar.status_address[1], [])
    try:
        yield scene
        for talk in scene.talks:
            talk.close()
        await until(lambda: not sidecar.agent.length and not sidecar.one.busy)
    finally:
        for talk in scene.talks:
            await talk.end()
        await sidecar.stop(0.0)
        await server.stop()
    assert sidecar.agent.spurious == 0
    assert sidecar.agent.links == ()
    figures = sidecar.proxy.figures()
    assert (figures.clients, figures.queued, figures.open) == (0, 0, 0)


class Gate:
    """A server's behaviour: every request waits until it is let go."""

    def __init__(self):
        self.waiting, self.go = 0, asyncio.Semaphore(0)

    async def __call__(self, seen, link):
        self.waiting += 1
        await self.go.acquire()
        self.waiting -= 1
        await link.answer(b"done")


def test_a_dispatcher_hears_of_every_task_and_the_server_sees_only_the_task():
    async def scenario():
        async with stage(limit=5) as scene:
            ear = await listen(scene.status)
            talk = await scene.talk()
            for i in range(20):
                answer = await talk.post(b"work", "/do", f"Equipoise-Task: d.1 {i + 1}")
                assert (answer.status, answer.body) == (200, b"work")
                assert answer.field("endpoint-load-metrics") == (
                    "TEXT application_utilization=0.200000,named_metrics.queue=1"
                )
            told = await ear.messages(21)
            ear.say(Ask())
            assert (await ear.messages(22))[-1] == (1, 20, "answer")

            assert told == [(1, 0, "answer"), *((1, i + 1, "leave") for i in range(20))]
            assert ear.lines[0].limit == 5
            for seen in scene.server.seen:
                assert "equipoise-task" not in seen.names()
                assert seen.body == b"work"
            await ear.close()

    run(scenario())


def test_tasks_that_wait_here_are_part_of_the_length_and_the_next_is_refused():
    async def scenario():
        gate = Gate()
        async with stage(gate, limit=2, queue=3) as scene:
            ear = await listen(scene.status, hello("jsq"))
            talks = [await scene.talk() for _ in range(6)]
            asked = []
            for i, talk in enumerate(talks[:5]):
                asked.append(asyncio.create_task(talk.get("/", f"Equipoise-Task: d.1 {i + 1}")))
                await until(lambda: scene.agent.length == len(asked))
            await until(lambda: gate.waiting == 2)
            refused = await talks[5].post(b"abc", "/", "Equipoise-Task: d.1 6")

            assert ear.lines[0].limit == 5
            assert (refused.status, refused.field("equipoise-refused")) == (503, "full")
            assert refused.field("retry-after") == "1"
            assert (scene.agent.length, scene.sidecar.one.busy) == (5, 2)
            assert scene.agent.received("d.1") == 6
            # its connection is still good, since the body had come
            assert (await talks[5].get("/", "Equipoise-Task: d.1 7")).status == 503
            for _ in asked:
                gate.go.release()
            assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
            assert [m for m, _, kind in await ear.messages(8) if kind == "leave"] == [5, 4, 3, 2, 1]
            await ear.close()

    run(scenario())


@pytest.mark.parametrize("where", ["at the server", "in the queue", "amid its body"])
def test_a_task_whose_dispatcher_gives_up_is_released_once(where):
    async def scenario():
        gate = Gate()
        async with stage(gate, limit=1, queue=1) as scene:
            ear = await listen(scene.status)
            first, second = await scene.talk(), await scene.talk()
            if where == "in the queue":
                asyncio.create_task(first.get()).add_done_callback(lambda task: task.exception())
                await until(lambda: gate.waiting == 1)
            length = 9 if where == "amid its body" else 0
            second.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nEquipoise-Task: d.1 1\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (length, b"abc"[:length])
            )
            await until(lambda: scene.agent.received("d.1") == 1)
            before = scene.agent.length
            second.reset()
            await until(lambda: scene.agent.length == before - 1)

            assert (await ear.messages(2))[-1] == (before, 1, "leave")
            gate.go.release(), gate.go.release()
            await ear.close()

    run(scenario())


def test_a_server_that_is_not_there_is_told_of_and_counted():
    async def scenario():
        async with stage() as scene:
            await scene.server.stop()
            talk = await scene.talk()
            answer = await talk.get("/", "Equipoise-Task: d.1 1")
            await scene.server.start()

            assert answer.status == 502
            assert answer.field("equipoise-refused") is None
            assert scene.agent.received("d.1") == 1
            assert scene.sidecar.one.not_reached == 1
            assert (await talk.get()).status == 200, "and used again when it is"

    run(scenario())


def test_what_is_refused_for_its_form_leaves_nothing_behind():
    async def scenario():
        async with stage(limit=1) as scene:
            for wrong in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
            ):
                talk = await scene.talk()
                answer = await talk.ask(wrong)
                assert answer.status in (400, 404)
            assert scene.agent.length == 0
            assert scene.server.seen == []

    run(scenario())


def test_a_bad_head_after_a_good_one_is_no_second_end():
    async def scenario():
        async with stage() as scene:
            other, talk = await scene.talk(), await scene.talk()
            assert (await talk.get()).status == 200
            assert (await talk.ask(b"what\r\n\r\n")).status == 400
            assert (await other.get()).status == 200
            assert scene.agent.spurious == 0

    run(scenario())


def test_the_stream_is_not_on_the_address_of_the_tasks_nor_tasks_on_that_of_the_stream():
    async def scenario():
        async with stage() as scene:
            assert (await listen(scene.port)).status == 404
            assert (await scene.get("/other")).status == 404
            assert (await scene.get(PATH)).status == 404

    run(scenario())


@pytest.mark.parametrize(
    ("field", "status"),
    [("X: 1", 401), ("Authorization: Bearer no", 401), ("authorization:Bearer s3cret", 200)],
)
def test_the_secret_is_asked_for(tmp_path, field, status):
    (tmp_path / "secret").write_text("s3cret\n")

    async def scenario():
        async with stage(secret_file=str(tmp_path / "secret")) as scene:
            found = await listen(scene.status, hello(), field)
            if status == 200:
                assert isinstance(found, Ear)
                await found.close()
                await until(lambda: scene.agent.links == ())
            else:
                assert (found.status, found.field("connection")) == (status, "close")
                assert "not welcome" in scene.agent.notes[-1].text

    run(scenario())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"POST {PATH} HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{{}}\n", 400),
        (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, x\r\n\r\n", 400),
        (f"POST {PATH} HTTP/1.1\r\n\r\n", 400),
        (f"PUT {PATH} HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ("what\r\n\r\n", 400),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(head, status):
    async def scenario():
        async with stage() as scene:
            reader, writer = await asyncio.open_connection("127.0.0.1", scene.status)
            writer.write(head.encode())
            answer = await read_answer(reader)
            writer.transport.abort()

            assert answer.status == status
            assert answer.body.count(b"\n") == 1

    run(scenario())


def test_status_and_metrics_say_what_is_there():
    async def scenario():
        gate = Gate()
        async with stage(gate, limit=1, queue=1, policy="jsq") as scene:
            ear = await listen(scene.status, hello(name="d.1"))
            talks = [await scene.talk() for _ in range(3)]
            asked = [asyncio.create_task(talk.get()) for talk in talks[:2]]
            await until(lambda: gate.waiting == 1 and scene.agent.length == 2)
            await talks[2].get("/", "Equipoise-Task: d.1 1")
            status = json.loads((await scene.get("/status")).body)
            page = await scene.get("/metrics")
            families = text_string_to_metric_families(page.body.decode())
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for family in families
                for sample in family.samples
            }

            assert (status["tasks"], status["at_server"], status["limit"]) == (2, 1, 2)
            assert (status["refused"], status["policy"]) == (1, "jsq")
            (dispatcher,) = status["dispatchers"]
            assert dispatcher["name"] == "d.1"
            assert dispatcher["open"] is True
            assert dispatcher["received"] == 1
            assert samples["equipoise_agent_tasks",] == 2
            assert samples["equipoise_agent_at_server",] == 1
            assert samples["equipoise_agent_refused_total",] == 1
            assert samples["equipoise_agent_streams",] == 1
            assert samples["equipoise_agent_messages_total", "answer"] == 2
            assert samples["equipoise_proxy_queued",] == 1
            assert (await scene.get("/health")).status == 200
            gate.go.release(), gate.go.release()
            await asyncio.gather(*asked)
            await ear.close()

    run(scenario())


def test_while_it_drains_dispatchers_hear_of_what_ends():
    async def scenario():
        gate = Gate()
        async with stage(gate) as scene:
            ear = await listen(scene.status)
            talk = await scene.talk()
            asked = asyncio.create_task(talk.get("/", "Equipoise-Task: d.1 1"))
            await until(lambda: gate.waiting == 1)
            stopping = asyncio.create_task(scene.sidecar.stop(5.0))
            await until(lambda: scene.sidecar.proxy.draining)
            assert (await scene.get("/health")).status == 503
            gate.go.release()
            cut = await stopping

            assert (await asked).status == 200
            assert cut == 0
            assert (await ear.messages(2))[-1] == (1, 1, "leave")
            await asyncio.wait_for(ear.ended.wait(), 3)
            assert ear.whole
            await ear.close()

    run(scenario())


def test_what_is_not_done_at_the_deadline_is_cut_and_counted():
    async def scenario():
        gate = Gate()
        async with stage(gate) as scene:
            talk = await scene.talk()
            asked = asyncio.create_task(talk.get())
            await until(lambda: gate.waiting == 1)
            assert await scene.sidecar.stop(0.05) == 1
            assert (await asked).status == 503

    run(scenario())


def test_an_address_that_is_taken_leaves_nothing_running():
    async def scenario():
        async with stage() as scene:
            for key, says in (("listen", "cannot listen on"), ("status", "--status: cannot")):
                taken = Sidecar(
                    Settings(
                        **{"listen": "127.0.0.1:0", "status": "127.0.0.1:0"}
                        | {key: f"127.0.0.1:{scene.port}"},
                        server="127.0.0.1:1",
                    )
                )
                with pytest.raises(EquipoiseError, match=says):
                    await taken.start()

    run(scenario())


GOOD = {"listen": "127.0.0.1:8000", "server": "127.0.0.1:9000", "status": "127.0.0.1:8001"}


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"status": "127.0.0.1:8000"}, ["--status 127.0.0.1:8000 is that of --listen"]),
        ({"server": "127.0.0.1:8000"}, ["--server 127.0.0.1:8000 is that of --listen"]),
        ({"server": "127.0.0.1:0"}, ["port 0 is no server's"]),
        ({"listen": "8000"}, ["--listen 8000: write it as HOST:PORT"]),
        ({"server": "http://a:1"}, ["is a URL"]),
        ({"limit": 0}, ["--limit 0: must be at least 1"]),
        ({"workers": 0}, ["--workers 0: must be at least 1"]),
        ({"limit": 1, "queue": -1}, ["--queue -1: must be from 0"]),
        ({"queue": 5}, ["without --limit nothing waits here"]),
        ({"drain": -1.0}, ["--drain -1"]),
        ({"drain": float("nan")}, ["--drain nan"]),
        ({"policy": "jsqq"}, ["--policy jsqq: no policy is called 'jsqq' (did you mean 'jsq'?)"]),
        ({"policy": "random"}, ["has servers tell nothing"]),
        ({"secret_file": "nosuch"}, ["--secret-file nosuch: no such file"]),
        ({"limit": 0, "policy": "x", "secret_file": "/"}, ["--limit", "--secret-file", "--policy"]),
    ],
)
def test_each_mistake_gets_a_line(changed, lines):
    Settings(**GOOD)
    with pytest.raises(ConfigError) as caught:
        Settings(**{**GOOD, **changed})

    found = str(caught.value).splitlines()
    assert len(found) == len(lines)
    for line, says in zip(found, lines, strict=True):
        assert says in line


@pytest.mark.parametrize("text", ["", " \n", "two words", "caf\u00e9"])
def test_a_secret_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "secret").write_text(text)
    with pytest.raises(ConfigError, match="--secret-file"):
        Settings(**GOOD, secret_file=str(tmp_path / "secret"))


def test_a_slot_is_released_once():
    one = One(Agent(), ("127.0.0.1", 1), 2)
    first, second = one.choose(), one.choose()
    assert one.choose() is None
    assert one.choose("127.0.0.1:1") is None, "there is no other"
    one.finished(first, "ok", 0.1)
    one.finished(first, "ok", 0.1)

    assert one.busy == 1
    one.not_sent(second, "refused")
    assert one.busy == 0
