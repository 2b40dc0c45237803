"""Several processes on one address: seen, told and ended as one."""

import asyncio
import json
import os
import signal
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from live.wire import Backend, Talk, run, until
from prometheus_client.parser import text_string_to_metric_families

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.live import workers as module
from equipoise.live.admin import Answer
from equipoise.live.config import Config
from equipoise.live.control import ask
from equipoise.live.workers import Channel, Workers, ended_how, labelled, merged, share

# -- parts of a whole ----------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_of_a_limit_are_the_limit_and_differ_by_one_at_most(workers):
    for limit in range(workers, 40):
        shares = [share(limit, index, workers) for index in range(workers)]

        assert sum(shares) == limit
        assert max(shares) - min(shares) <= 1
        assert min(shares) >= 1
    assert share(None, 0, workers) is None


def test_a_limit_that_cannot_be_shared_out_is_a_mistake():
    tables = {
        "listen": "127.0.0.1:0",
        "workers": 4,
        "servers": [{"address": "127.0.0.1:1", "limit": 3}, {"address": "127.0.0.1:2", "limit": 4}],
        "policies": [{"name": "jsq"}],
    }

    with pytest.raises(ConfigError) as caught:
        Config.from_dict(tables)
    assert str(caught.value) == (
        "servers #1.limit: 3 is less than workers = 4, among whom it is shared out"
    )


def test_many_statuses_are_one():
    def status(chosen, ok, mean, threshold, state, limit):
        return {
            "policy": "jsq",
            "draining": False,
            "threshold": threshold,
            "exchanges": ok,
            "mean_seconds": mean,
            "up_seconds": 10.0 * ok,
            "messages": {"join": 1, "leave": chosen},
            "servers": [
                {
                    "name": "a", "address": "x:1", "state": state, "why": "", "speed": 2.0,
                    "limit": limit, "chosen": chosen, "outcomes": {"ok": ok}, "mean_seconds": mean,
                    "most": None, "for_seconds": 5.0 + ok,
                }
            ],
        }  # fmt: skip

    one = merged(
        [
            status(3, 2, 1.0, 7, "up", 2),
            status(5, 6, 3.0, 9, "down", 3),
            status(1, 0, None, 8, "up", 2),
        ]
    )

    assert one["policy"] == "jsq"
    assert one["threshold"] == 8
    assert one["exchanges"] == 8
    assert one["mean_seconds"] == pytest.approx((2 * 1.0 + 6 * 3.0) / 8)
    assert one["up_seconds"] == 60.0
    assert one["messages"] == {"join": 3, "leave": 9}
    (a,) = one["servers"]
    assert (a["state"], a["speed"], a["limit"], a["chosen"]) == ("up", 2.0, 7, 9)
    assert (a["most"], a["for_seconds"]) == (None, 5.0)
    assert a["mean_seconds"] == pytest.approx(2.5)


def test_metrics_of_many_are_one_page_that_prometheus_reads():
    page = (
        "# HELP equipoise_x about x\n# TYPE equipoise_x gauge\nequipoise_x {}\n"
        "# HELP equipoise_y_total about y\n# TYPE equipoise_y_total counter\n"
        'equipoise_y_total{{server="a b",why="}}"}} {}\n'
    )
    text = labelled({0: page.format(1, 2), 1: page.format(3, 4)})

    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert text.count("# TYPE equipoise_x gauge") == 1
    assert [(s.labels, s.value) for s in families["equipoise_x"].samples] == [
        ({"worker": "0"}, 1.0),
        ({"worker": "1"}, 3.0),
    ]
    assert [
        (s.labels["worker"], s.labels["why"], s.value) for s in families["equipoise_y"].samples
    ] == [
        ("0", "}", 2.0),
        ("1", "}", 4.0),
    ]


def test_how_a_process_ended_is_said():
    assert ended_how(-9) == "was ended by SIGKILL"
    assert ended_how(0) == "has ended"
    assert ended_how(3) == "has ended with status 3"


def test_both_ends_of_a_channel_ask_and_tell():
    async def scenario():
        async def do(asked):
            if asked.get("fail"):
                raise EquipoiseError("no")
            if asked.get("slow"):
                await asyncio.sleep(5)
            return asked

        told = []
        pair = socket.socketpair()
        for sock in pair:
            sock.setblocking(False)
        one, two = Channel(pair[0], do, told.append), Channel(pair[1], do, told.append)
        await one.open()
        await two.open()
        running = [asyncio.create_task(end.run()) for end in (one, two)]
        assert await asyncio.gather(*(one.ask({"n": n}, 5) for n in range(50))) == [
            {"n": n} for n in range(50)
        ]
        assert await two.ask({"big": "x" * 1_000_000}, 5) == {"big": "x" * 1_000_000}
        with pytest.raises(EquipoiseError, match="no"):
            await one.ask({"fail": 1}, 5)
        with pytest.raises(EquipoiseError, match=r"did not answer within 0.05 s"):
            await one.ask({"slow": 1}, 0.05)
        two.tell({"hello": 1})
        await until(lambda: told == [{"hello": 1}])
        waiting = asyncio.create_task(one.ask({"slow": 1}, 5))
        await asyncio.sleep(0.02)
        two.close()
        with pytest.raises(EquipoiseError, match="the worker has ended"):
            await waiting
        await asyncio.gather(*running)

    run(scenario())


# -- processes -----------------------------------------------------------------------------------


class Scene:
    """Two workers before two servers, and their configuration."""

    def __init__(self, folder, servers):
        self.file, self.servers, self.events = folder / "d.toml", servers, []
        self.held = asyncio.Event()

    def write(self, names, policy="jsq", more="", listen="127.0.0.1:0"):
        tables = "".join(
            f'[[servers]]\nname = "{name}"\naddress = "127.0.0.1:{self.servers[name].port}"\n'
            for name in names
        )
        self.file.write_text(
            f'listen = "{listen}"\nworkers = 2\nseed = 1\ndrain = 10\n{tables}[[policies]]\n'
            f'name = "{policy}"\n[health]\ninterval = 0.1\n[admin]\nlisten = "127.0.0.1:0"\n'
            f'control = "c.sock"\n[log]\nfile = "access.log"\n{more}'
        )

    async def start(self, **how):
        self.workers = Workers(
            Config.from_toml(self.file),
            on_event=lambda event: self.events.append(event.text),
            path=self.file,
        )
        await self.workers.start(**how)

    async def get(self, target="/", port=None):
        """Ask on a connection of its own; return status and body."""
        talk = Talk(*await asyncio.open_connection("127.0.0.1", port or self.workers.address[1]))
        try:
            answer = await talk.get(target, "Connection: close")
            return answer.status, answer.body.decode()
        finally:
            await talk.end()

    async def many(self, count=40):
        return {await self.get() for _ in range(count)}

    async def page(self, path):
        return await self.get(path, self.workers.admin_address[1])

    def do(self, **command):
        return asyncio.to_thread(ask, self.file.parent / "c.sock", command)


@asynccontextmanager
async def two_workers(folder, names="abc", start="ab", **written):
    servers = {}
    scene = Scene(folder, servers)

    def behaviour(name):
        async def behave(seen, link):
            if seen.target == "/hold":
                await scene.held.wait()
            await link.answer(name.encode())

        return behave

    for name in names:
        servers[name] = Backend(behaviour(name))
        await servers[name].start()
    scene.write(start, **written)
    try:
        yield scene
    finally:
        scene.held.set()
        try:
            if hasattr(scene, "workers"):
                pids = [worker.pid for worker in scene.workers.workers if worker.pid]
                await scene.workers.stop(0.0)
                assert not any(alive(pid) for pid in pids)
        finally:
            for server in servers.values():
                await server.stop()


def alive(pid):
    """Whether a process of ours runs; one that has ended and was not asked about does not."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_workers_are_one_to_whoever_looks_and_tells(tmp_path):
    async def scenario():
        async with two_workers(tmp_path) as s:
            await s.start()
            port, admin = s.workers.address[1], s.workers.admin_address[1]
            assert s.workers.line() == (
                f"listening on 127.0.0.1:{port}, 2 servers, jsq, 2 workers; "
                f"status http://127.0.0.1:{admin}/status"
            )
            assert await s.many() == {(200, "a"), (200, "b")}

            status = json.loads((await s.page("/status"))[1])
            assert status["proxy"]["requests"] == 40
            assert sum(server["chosen"] for server in status["servers"]) == 40
            each = [worker["requests"] for worker in status["workers"]]
            assert sum(each) == 40
            assert min(each) > 0, "the kernel gives each a share"
            text = (await s.page("/metrics"))[1]
            families = {f.name: f for f in text_string_to_metric_families(text)}
            requests = families["equipoise_proxy_requests"].samples
            assert {sample.labels["worker"]: sample.value for sample in requests} == {
                "0": each[0],
                "1": each[1],
            }
            assert [x.value for x in families["equipoise_worker_up"].samples] == [1.0, 1.0]
            assert await s.page("/health") == (200, "ok\n")

            c = f"127.0.0.1:{s.servers['c'].port}"
            added = await s.do(command="add", address=c, name="c", limit=5)
            assert (added["state"], added["limit"]) == ("up", 5)
            assert await s.many() == {(200, "a"), (200, "b"), (200, "c")}
            assert [x["limit"] for x in await s.do(command="servers")] == [None, None, 5]
            with pytest.raises(EquipoiseError, match="at least 2, 1 for each worker"):
                await s.do(command="limit", name="c", limit=1)
            with pytest.raises(EquipoiseError, match="no server is called 'z'"):
                await s.do(command="remove", name="z")
            await s.do(command="remove", name="a")
            assert await s.many() == {(200, "b"), (200, "c")}
            gone = [e for e in (await s.do(command="status"))["events"] if "a is gone" in e["text"]]
            assert sorted((e["worker"], e["text"]) for e in gone) == [
                (0, "a is gone"),
                (1, "a is gone"),
            ]

            # one that is killed is started anew, and knows what was done by hand
            victim = s.workers.workers[0]
            killed = victim.pid
            os.kill(killed, signal.SIGKILL)
            await until(lambda: victim.pid != killed and victim.runs, 20)
            (line,) = [e for e in s.events if "SIGKILL" in e]
            assert line == (
                f"worker 0, process {killed}, was ended by SIGKILL; another is started in 0.1 s"
            )
            assert await s.many() == {(200, "b"), (200, "c")}
            status = json.loads((await s.page("/status"))[1])
            assert [x["name"] for x in status["servers"]] == ["b", "c"]
            assert [worker["restarts"] for worker in status["workers"]] == [1, 0]
            assert all(worker["requests"] > 0 for worker in status["workers"])

            s.write("bc", policy="jiq", more="[tls]\ncertificate = 3\n")
            with pytest.raises(EquipoiseError, match=r"tls\.certificate"):
                await s.do(command="reload")
            s.write("ab", policy="jiq")
            lines = await s.do(command="reload")
            assert lines == ["reloaded: the policy is jiq"]
            assert s.workers.config.spec.label == "jiq"
            assert await s.many() == {(200, "b"), (200, "c")}, "by hand, as before"
            s.write("b", policy="jiq", more="[limits]\nhead = 20000\n")
            await s.workers.reload()
            s.write("ba", policy="jiq", more="[limits]\nhead = 20000\n")
            await s.workers.reload()
            assert await s.many() == {(200, "a"), (200, "b"), (200, "c")}, "the file spoke of it"

            # a drain lets what is under way finish
            holding = [asyncio.create_task(s.get("/hold")) for _ in range(6)]
            await until(lambda: sum(len(x.seen) for x in s.servers.values()) > 0)
            for _ in range(100):
                if await s.workers.under_way() == 6:
                    break
            assert await s.workers.under_way() == 6
            stopping = asyncio.create_task(s.workers.stop())
            await asyncio.sleep(0.3)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            s.held.set()
            assert {status for status, _ in await asyncio.gather(*holding)} == {200}
            assert await stopping == 0

    run(scenario(), 60)
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert len({line["x-request-id"] for line in lines}) == len(lines)
    assert len(lines) >= 40 * 4
    assert not (tmp_path / "c.sock").exists()


@pytest.mark.slow
def test_a_second_word_cuts_what_is_left_and_counts_it(tmp_path):
    async def scenario():
        async with two_workers(tmp_path) as s:
            await s.start()
            holding = [asyncio.create_task(s.get("/hold")) for _ in range(8)]
            for _ in range(200):
                if await s.workers.under_way() == 8:
                    break
            stopping = asyncio.create_task(s.workers.stop())
            await asyncio.sleep(0.2)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            assert await s.workers.stop(0.0) == 8
            done = await asyncio.gather(*holding, return_exceptions=True)
            assert all(isinstance(one, Exception) or one[0] == 503 for one in done)

    run(scenario(), 40)


def test_a_start_that_fails_is_what_the_first_worker_says_and_leaves_nothing(tmp_path):
    async def scenario():
        async with two_workers(tmp_path) as s:
            for server in s.servers.values():
                await server.stop()
            with pytest.raises(EquipoiseError) as caught:
                await s.start()
            lines = str(caught.value).splitlines()
            assert lines == [
                "server a cannot be used: its check failed: connection refused",
                "server b cannot be used: its check failed: connection refused",
                "no server answers; start one, or start with --wait",
            ]
            assert not any(alive(worker.pid) for worker in s.workers.workers)
            assert not (tmp_path / "c.sock").exists()
            for server in s.servers.values():
                await server.start()

    run(scenario(), 40)


@pytest.mark.parametrize("reuse", [False, True])
def test_an_address_that_another_has_is_one_line(tmp_path, reuse):
    """Whoever shares the port would get a part of the connections."""

    async def scenario():
        with socket.socket() as busy:
            busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse)
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            async with two_workers(tmp_path, listen=f"127.0.0.1:{busy.getsockname()[1]}") as s:
                with pytest.raises(EquipoiseError, match="cannot listen on 127") as caught:
                    await s.start()
                assert ("shares it already" in str(caught.value)) is reuse
                assert not any(worker.pid for worker in s.workers.workers)

    run(scenario())


@pytest.mark.slow
def test_a_worker_that_keeps_ending_is_started_ever_more_slowly(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)

    async def scenario():
        async with two_workers(tmp_path) as s:
            await s.start()
            victim = s.workers.workers[1]
            for times in range(3):
                before = victim.pid
                os.kill(before, signal.SIGKILL)
                await until(lambda b=before: victim.pid != b, 20)
                assert victim.restarts == times + 1
            said = [e.rpartition("in ")[2] for e in s.events if "another is started" in e]
            assert said == ["0.05 s", "0.1 s", "0.2 s"]
            assert await s.page("/health") == (200, "ok\n"), "the other one serves"

    run(scenario(), 60)


def test_an_admin_page_may_take_its_time():
    from equipoise.live.admin import Admin

    async def scenario():
        async def page():
            await asyncio.sleep(0.01)
            return Answer("text/plain", "late")

        admin = Admin({"/late": page})
        host, port = await admin.start("127.0.0.1", 0)
        talk = Talk(*await asyncio.open_connection(host, port))
        assert (await talk.get("/late")).body == b"late"
        await talk.end()
        await admin.close()

    run(scenario())
