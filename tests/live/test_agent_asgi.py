"""The middleware: what it counts, before a server that is made up and before uvicorn."""

import asyncio
import contextlib
import itertools

import pytest
import uvicorn
from live.streaming import hello, listen
from live.wire import Talk, run, until

from equipoise.errors import EquipoiseError
from equipoise.live import agent as agent_module
from equipoise.live.agent import AgentMiddleware
from equipoise.live.wire import PATH, Ask, Message, Welcome, line, of_agent
from examples.live.agent_app import app as example

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]}
BODY = {"type": "http.response.body", "body": b"yes"}


class Exchange:
    """One exchange of an application with a server that is made up."""

    def __init__(self, app, *, task=None, **scope):
        self.scope = {"type": "http", "method": "GET", "path": "/", "headers": [], **scope}
        if task is not None:
            self.scope["headers"] = [*self.scope["headers"], (b"equipoise-task", task)]
        self.app, self.sent, self.said = app, [], asyncio.Queue()
        self.full = asyncio.Event()  # set: the client reads
        self.full.set()

    async def send(self, message):
        await self.full.wait()
        self.sent.append(message)

    def body(self, data=b"", more=True):
        self.said.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def leave(self):
        self.said.put_nowait({"type": "http.disconnect"})

    def start(self):
        self.task = asyncio.create_task(self.app(self.scope, self.said.get, self.send))
        return self

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    @property
    def text(self):
        return b"".join(m.get("body", b"") for m in self.sent[1:])

    def lines(self):
        """What a dispatcher has been told."""
        return [of_agent(text) for text in self.text.split(b"\n")[:-1]]


async def simple(scope, receive, send):
    await send(START)
    await send(BODY)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


# -- what is counted ----------------------------------------------------------------------------


def test_a_task_is_there_from_its_start_to_the_last_byte():
    async def scenario():
        seen = []

        async def app(scope, receive, send):
            seen.append(middle.agent.length)
            await send(START)
            await send({**BODY, "more_body": True})
            seen.append(middle.agent.length)
            await send(BODY)
            seen.append(middle.agent.length)  # what it does now is no longer the task

        middle = AgentMiddleware(app)
        exchange = Exchange(middle, task=b"d.1 1").start()
        await exchange.task

        assert seen == [1, 1, 0]
        assert middle.agent.spurious == 0
        assert middle.agent.received("d.1") == 1
        assert exchange.sent[1:] == [{**BODY, "more_body": True}, BODY]

    run(scenario())


@pytest.mark.parametrize("how", ["raises", "returns", "leaves", "cancelled", "sending fails"])
def test_a_task_that_ends_otherwise_is_released_exactly_once(how):
    async def scenario():
        async def app(scope, receive, send):
            await send(START)
            if how == "raises":
                raise RuntimeError("the application")
            if how == "leaves":
                while (await receive())["type"] != "http.disconnect":
                    pass
                await send(BODY)
            if how == "cancelled":
                await asyncio.sleep(60)
            if how == "sending fails":
                exchange.send = None

        middle = AgentMiddleware(app)
        exchange = Exchange(middle).start()
        if how == "sending fails":

            async def broken(message):
                raise OSError("gone")

            exchange.send = broken
        await settle()
        if how == "cancelled":
            assert middle.agent.length == 1
            exchange.task.cancel()
        if how == "leaves":
            assert middle.agent.length == 1
            exchange.body(b"a part")
            exchange.leave()
        await asyncio.gather(exchange.task, return_exceptions=True)

        assert (middle.agent.length, middle.agent.count, middle.agent.spurious) == (0, 1, 0)

    run(scenario())


def test_an_application_that_goes_on_after_its_client_has_left_is_still_at_work():
    async def scenario():
        go = asyncio.Event()

        async def app(scope, receive, send):
            assert (await receive())["type"] == "http.disconnect"
            await go.wait()

        middle = AgentMiddleware(app, limit=1)
        exchange = Exchange(middle).start()
        exchange.leave()
        await settle()
        assert middle.agent.length == 1
        other = Exchange(middle).start()
        await other.task
        assert other.status == 503
        go.set()
        await exchange.task
        assert middle.agent.length == 0

    run(scenario())


@pytest.mark.parametrize(
    "messages",
    [
        [{**START, "trailers": True}, BODY, {"type": "http.response.trailers", "headers": []}],
        [START, {"type": "http.response.pathsend", "path": "/x"}],
        [START, {**BODY, "more_body": True}, {"type": "http.response.body"}],
    ],
    ids=["trailers", "a file", "an empty end"],
)
def test_the_last_message_of_a_response_is_known(messages):
    async def scenario():
        seen = []

        async def app(scope, receive, send):
            for message in messages:
                seen.append(middle.agent.length)
                await send(message)
            seen.append(middle.agent.length)

        middle = AgentMiddleware(app)
        await Exchange(middle).start().task

        assert seen == [1] * len(messages) + [0]

    run(scenario())


def test_beyond_the_limit_a_request_is_refused_and_may_go_elsewhere():
    async def scenario():
        go = asyncio.Event()

        async def app(scope, receive, send):
            await go.wait()
            await simple(scope, receive, send)

        middle = AgentMiddleware(app, limit=2)
        first, second = Exchange(middle).start(), Exchange(middle).start()
        await settle()
        third = Exchange(middle, task=b"d.1 1").start()
        await third.task

        assert third.status == 503
        assert third.headers[b"equipoise-refused"] == b"full"
        assert third.headers[b"retry-after"] == b"1"
        assert b"utilization=1.000000" in third.headers[b"endpoint-load-metrics"]
        assert third.text == b"the server has its limit of 2 tasks\n"
        assert int(third.headers[b"content-length"]) == len(third.text)
        assert (middle.agent.length, middle.agent.refused) == (2, 1)
        assert middle.agent.received("d.1") == 1
        go.set()
        await asyncio.gather(first.task, second.task)
        assert {first.status, second.status} == {200}
        assert middle.agent.length == 0

    run(scenario())


def test_responses_carry_a_load_report_unless_it_is_switched_off():
    async def scenario():
        on = Exchange(AgentMiddleware(simple, workers=4)).start()
        off = Exchange(AgentMiddleware(simple, orca=False)).start()
        await asyncio.gather(on.task, off.task)

        report = b"TEXT application_utilization=0.250000,named_metrics.queue=1"
        assert on.headers == {b"x-own": b"1", b"endpoint-load-metrics": report}
        assert off.sent == [START, BODY]
        assert START["headers"] == [(b"x-own", b"1")], "the application's own is not touched"

    run(scenario())


def test_paths_that_are_no_tasks_are_neither_counted_nor_refused():
    async def scenario():
        middle = AgentMiddleware(simple, limit=1, uncounted=["/health"])
        middle.agent.started()
        well, full = Exchange(middle, path="/health").start(), Exchange(middle).start()
        await asyncio.gather(well.task, full.task)

        assert (well.status, full.status) == (200, 503)
        assert middle.agent.count == 1

    run(scenario())


@pytest.mark.parametrize(
    ("values", "received"),
    [([b"d.1 1"], 1), ([b"d.1 1", b"d.1 2"], 0), ([b"d.1"], 0), ([b"d.1 x"], 0), ([], 0)],
)
def test_a_task_is_the_dispatchers_that_says_so_once(values, received):
    async def scenario():
        middle = AgentMiddleware(simple)
        fields = [(b"equipoise-task", value) for value in values]
        await Exchange(middle, headers=[(b"host", b"x"), *fields]).start().task

        assert middle.agent.received("d.1") == received
        assert middle.agent.count == 1

    run(scenario())


def test_a_web_socket_is_a_task_for_as_long_as_it_is_served():
    async def scenario():
        async def app(scope, receive, send):
            await receive()
            await send({"type": "websocket.accept"})
            await receive()

        middle = AgentMiddleware(app, limit=1)
        first = Exchange(middle, type="websocket").start()
        first.said.put_nowait({"type": "websocket.connect"})
        await settle()
        assert middle.agent.length == 1
        answers = {}
        for extension in ({}, {"websocket.http.response": {}}):
            other = Exchange(middle, type="websocket", extensions=extension).start()
            other.said.put_nowait({"type": "websocket.connect"})
            await other.task
            answers[len(extension)] = other.sent
        first.said.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await first.task

        assert answers[0] == [{"type": "websocket.close", "code": 1013}]
        assert answers[1][0]["status"] == 503
        assert (b"equipoise-refused", b"full") in answers[1][0]["headers"]
        assert (middle.agent.length, middle.agent.count, middle.agent.refused) == (0, 1, 2)

    run(scenario())


def test_an_applications_life_passes_and_its_end_ends_the_streams():
    async def scenario():
        heard = []

        async def app(scope, receive, send):
            if scope["type"] != "lifespan":
                return
            for _ in range(2):
                heard.append((await receive())["type"])
                await send({"type": heard[-1] + ".complete"})

        middle = AgentMiddleware(app)
        stream = await opened(middle)
        life = Exchange(middle, type="lifespan").start()
        life.said.put_nowait({"type": "lifespan.startup"})
        await settle()
        assert not stream.task.done()
        life.said.put_nowait({"type": "lifespan.shutdown"})
        await asyncio.wait_for(asyncio.gather(life.task, stream.task), 3)

        assert heard == ["lifespan.startup", "lifespan.shutdown"]
        assert [message["type"] for message in life.sent] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]
        assert stream.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}

    run(scenario())


def test_a_limit_that_makes_no_sense_is_refused_when_the_application_is_made():
    with pytest.raises(EquipoiseError, match="limit = 0"):
        AgentMiddleware(simple, limit=0)


# -- the stream ---------------------------------------------------------------------------------


async def opened(middle, said=None, **scope):
    """Open a stream; wait until the dispatcher is welcome."""
    stream = Exchange(middle, method="POST", path=PATH, **scope).start()
    stream.body(line(said or hello()))
    await until(lambda: stream.text or stream.task.done())
    return stream


def test_a_dispatcher_hears_of_tasks_on_its_stream():
    async def scenario():
        middle = AgentMiddleware(simple)
        stream = await opened(middle)
        assert stream.headers[b"content-type"] == b"application/x-ndjson"
        await Exchange(middle, task=b"d.1 1").start().task
        stream.body(line(Ask()))
        await until(lambda: len(stream.lines()) == 4)
        stream.body(more=False)
        await asyncio.wait_for(stream.task, 5)

        welcome, *messages = stream.lines()
        assert isinstance(welcome, Welcome)
        assert [(m.m, m.received, m.kind) for m in messages] == [
            (1, 0, "answer"),
            (1, 1, "leave"),
            (1, 1, "answer"),
        ]
        assert middle.agent.links == ()
        assert middle.agent.count == 1, "the stream is no task"

    run(scenario())


def test_lines_may_come_in_any_pieces():
    async def scenario():
        middle = AgentMiddleware(simple)
        stream = Exchange(middle, method="POST", path=PATH).start()
        for byte in line(hello()) + line(Ask()):
            stream.body(bytes([byte]))
        await until(lambda: len(stream.lines()) == 3)
        stream.leave()
        await asyncio.wait_for(stream.task, 5)

    run(scenario())


@pytest.mark.parametrize(
    ("first", "fields", "status", "says"),
    [
        (line(hello()), [], 401, b"the secret"),
        (line(hello()), [(b"authorization", b"Bearer no")], 401, b"the secret"),
        (line(hello()), [(b"authorization", b"Bearer s")] * 2, 401, b"the secret"),
        (b"{}\n", [(b"authorization", b"Bearer s")], 400, b"none of announce"),
        (b"\xff\n", [(b"authorization", b"Bearer s")], 400, b"not a JSON object"),
        (line(Ask()), [(b"authorization", b"Bearer s")], 400, b"not a hello"),
        (line(hello("nosuch")), [(b"authorization", b"Bearer s")], 409, b"no policy"),
        (b"x" * 20_000, [(b"authorization", b"Bearer s")], 400, b"a line of more than"),
    ],
)
def test_whoever_does_not_fit_is_told_in_a_line(first, fields, status, says):
    async def scenario():
        middle = AgentMiddleware(simple, secret="s")
        stream = Exchange(middle, method="POST", path=PATH, headers=fields).start()
        stream.body(first)
        await asyncio.wait_for(stream.task, 5)

        assert stream.status == status
        assert says in stream.text
        assert stream.text.count(b"\n") == 1
        assert "not welcome" in middle.agent.notes[-1].text
        assert middle.agent.links == ()

    run(scenario())


def test_only_post_is_a_stream_and_the_application_never_sees_it():
    async def scenario():
        middle = AgentMiddleware(None)
        got = Exchange(middle, path=PATH).start()
        await got.task
        assert (got.status, got.headers[b"allow"]) == (405, b"POST")
        under = Exchange(middle, path="/api" + PATH, root_path="/api").start()
        await under.task
        assert under.status == 405

    run(scenario())


def test_other_paths_of_that_end_are_the_applications():
    async def scenario():
        exchange = Exchange(AgentMiddleware(simple), path="/other" + PATH).start()
        await exchange.task

        assert exchange.status == 200

    run(scenario())


def test_there_is_a_sign_of_life_and_a_dispatcher_without_one_has_gone(monkeypatch):
    """Half-open: the connection stands, and nothing comes."""
    monkeypatch.setattr(agent_module, "SILENCE", 0.3)
    monkeypatch.setattr(agent_module, "BEAT", 0.1)

    async def scenario():
        middle = AgentMiddleware(simple)
        stream = await opened(middle)
        lively = await opened(middle, hello(name="e.1"))
        for _ in range(8):
            await asyncio.sleep(0.1)
            lively.body(b'{"beat": 1}\n')

        assert stream.task.done()
        assert not lively.task.done()
        assert 1 <= stream.text.count(b"beat") <= 3
        assert lively.text.count(b"beat") >= 4
        assert "nothing was heard of it for 0.3 s" in middle.agent.notes[-1].text
        assert [link.record.name for link in middle.agent.links] == ["e.1"]
        lively.leave()
        await asyncio.wait_for(lively.task, 5)

    run(scenario())


def test_a_hello_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(agent_module, "SILENCE", 0.05)

    async def scenario():
        stream = Exchange(AgentMiddleware(simple), method="POST", path=PATH).start()
        await asyncio.wait_for(stream.task, 5)
        assert stream.status == 408

    run(scenario())


def test_garbage_in_the_middle_ends_the_stream():
    async def scenario():
        middle = AgentMiddleware(simple)
        stream = await opened(middle)
        stream.body(b'{"over": "all"}\n')
        await asyncio.wait_for(stream.task, 5)

        assert "over: a list" in middle.agent.notes[-1].text
        assert middle.agent.links == ()

    run(scenario())


def test_a_reader_that_is_slow_costs_a_bounded_buffer_and_is_told_the_state_when_it_reads():
    async def scenario():
        middle = AgentMiddleware(simple)
        stream = await opened(middle)
        stream.full.clear()  # it stops reading
        for i in range(4000):
            middle.agent.started(("d.1", i + 1))
            middle.agent.finished()
            if i % 100 == 0:
                await settle()
        waiting = middle.agent.dropped
        assert waiting > 2000
        stream.full.set()
        await until(lambda: stream.lines()[-1].kind == "answer" and len(stream.lines()) > 10)

        told = stream.lines()[1:]
        assert len(told) + middle.agent.dropped == 4002, "the first and the last are answers"
        assert sum(len(line(message)) for message in told) < 80_000
        assert told[-1] == Message(1, 4000, 4002, "answer")
        gaps = [b.sequence - a.sequence - 1 for a, b in itertools.pairwise(told)]
        assert sum(gaps) == middle.agent.dropped
        stream.leave()
        await asyncio.wait_for(stream.task, 5)

    run(scenario())


def test_an_announcement_whose_answer_was_left_out_is_answered_in_the_end():
    """Else the dispatcher would wait for its number for ever."""

    async def scenario():
        middle = AgentMiddleware(simple)
        said = hello("learning-threshold", params={"alpha": 0.6})
        stream = await opened(middle, said)
        stream.full.clear()
        (link,) = middle.agent.links
        for i in range(3000):
            link.announce(i, i + 1)
        await settle()
        stream.full.set()
        await until(lambda: stream.lines()[-1].number == 3000)
        stream.leave()
        await asyncio.wait_for(stream.task, 5)

    run(scenario())


# -- uvicorn ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def served(app, **config):
    """uvicorn on a free port; at the end it must stop by itself, streams or not."""
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="error", ws="none", lifespan="off", **config
        )
    )
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, 3)  # not by the silence of whoever listens


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_under_uvicorn_a_dispatcher_hears_of_every_task(http):
    async def scenario():
        async def app(scope, receive, send):
            assert (await receive())["body"] == b"work"
            await simple(scope, receive, send)

        middle = AgentMiddleware(app, limit=5, secret="s3cret")
        async with served(middle, http=http) as port:
            refused = await listen(port)
            assert (refused.status, refused.body[:10]) == (401, b"the secret")
            ear = await listen(port, hello(), "Authorization: Bearer s3cret")
            talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
            for i in range(50):
                answer = await talk.post(b"work", "/", f"Equipoise-Task: d.1 {i + 1}")
                assert answer.status == 200
                assert "utilization=0.200000" in answer.field("endpoint-load-metrics")
            told = await ear.messages(51)
            ear.say(Ask())
            last = (await ear.messages(52))[-1]
            await talk.end()

            assert told == [(1, 0, "answer"), *((1, i + 1, "leave") for i in range(50))]
            assert last == (1, 50, "answer")
            assert middle.agent.length == 0
        # uvicorn has stopped although the stream was open
        await asyncio.wait_for(ear.ended.wait(), 5)
        await ear.close()

    run(scenario())


@pytest.mark.parametrize("http", ["httptools", "h11"])
@pytest.mark.parametrize("when", ["before the answer", "amid the answer", "amid the body"])
def test_under_uvicorn_a_client_that_leaves_is_released_once(http, when):
    async def scenario():
        async def app(scope, receive, send):
            while (await receive()).get("more_body"):
                pass
            if when == "amid the answer":
                await send(START)
                await send({**BODY, "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass

        middle = AgentMiddleware(app)
        async with served(middle, http=http) as port:
            ear = await listen(port)
            talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
            length = 4 if when == "amid the body" else 2
            head = (
                f"POST / HTTP/1.1\r\nHost: x\r\nEquipoise-Task: d.1 1\r\nContent-Length: {length}"
            )
            talk.writer.write(head.encode() + b"\r\n\r\nab")
            await until(lambda: middle.agent.length == 1)
            if when == "amid the answer":
                await talk.reader.readuntil(b"yes")
            talk.reset()
            assert (await ear.messages(2))[1:] == [(1, 1, "leave")]

            assert (middle.agent.length, middle.agent.spurious) == (0, 0)
            await talk.end()
            await ear.close()
            await until(lambda: middle.agent.links == ())

    run(scenario())


def test_under_uvicorn_the_limit_holds_whatever_is_sent():
    """60 clients at once before an application that may have three."""

    async def scenario():
        most, now = 0, 0

        async def app(scope, receive, send):
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            await simple(scope, receive, send)

        middle = AgentMiddleware(app, limit=3)
        async with served(middle) as port:

            async def client():
                talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
                found = [await talk.get() for _ in range(5)]
                await talk.end()
                return found

            many = await asyncio.gather(*[client() for _ in range(60)])
        answers = [answer for one in many for answer in one]
        taken = [answer for answer in answers if answer.status == 200]
        refused = [answer for answer in answers if answer.status == 503]

        assert len(taken) + len(refused) == 300
        assert most == 3
        assert len(taken) == middle.agent.count
        assert {answer.field("equipoise-refused") for answer in refused} == {"full"}
        assert middle.agent.length == 0

    run(scenario())


def test_the_example_answers_and_listens():
    async def scenario():
        async with served(example) as port:
            ear = await listen(port, hello("jiq"))
            talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
            answer = await talk.get("/", "Equipoise-Task: d.1 1")
            assert (answer.status, answer.body) == (200, b"done\n")
            assert answer.field("endpoint-load-metrics").startswith("TEXT application_utilization")
            assert await ear.messages(2) == [(1, 0, "answer"), (1, 1, "leave")]
            assert ear.lines[0].limit == 20
            await talk.end()
            await ear.close()

    run(scenario())
