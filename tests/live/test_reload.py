"""A changed configuration is taken up under traffic, as a whole or not at all."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest
from live.wire import Backend as Server
from live.wire import Talk, run, until

from equipoise.errors import EquipoiseError
from equipoise.live.config import Config, ServerPart
from equipoise.live.health import State
from equipoise.live.limits import Limits
from equipoise.live.reload import Changes, Reload, Watch, changes, fixed, take_in
from equipoise.live.serve import Service


def part(address, name="", **more):
    return ServerPart(address=f"10.0.0.{address}:80", name=name, **more)


def test_what_two_lists_of_servers_differ_in():
    old = [part(1, "a"), part(2, "b"), part(3, "c"), part(4, "d"), part(5)]
    new = [part(2, "b"), part(3, "z"), part(4, "d", speed=2.0), part(6, "a"), part(5, limit=3)]

    assert changes(old, new) == Changes(
        added=[part(6, "a")],
        removed=[part(1, "a")],
        renamed=[("c", part(3, "z"))],
        tuned=[part(4, "d", speed=2.0), part(5, limit=3)],
    )
    assert changes(old, list(reversed(old))) == Changes([], [], [], [])


class Scene:
    """A service, its file, and servers that may be held up."""

    def __init__(self, folder, servers):
        self.file, self.servers = folder / "d.toml", servers
        self.held = asyncio.Event()
        self.events = []
        self.talks = []

    def write(self, names, policy='name = "jsq"', health="", more="", **fields):
        """Write the file with these servers; return its text."""
        tables = ""
        for name in names:
            port = self.servers[name.partition("/")[0]].port
            called = name.partition("/")[2] or name
            given = "".join(f"{key} = {value}\n" for key, value in fields.get(called, {}).items())
            tables += f'[[servers]]\nname = "{called}"\naddress = "127.0.0.1:{port}"\n{given}'
        text = (
            f'listen = "127.0.0.1:0"\n{more}\n{tables}[[policies]]\n{policy}\n'
            f"[health]\ninterval = 0.05\nrise = 1\npenalty = 0.0\n{health}\n"
        )
        self.file.write_text(text)
        return text

    async def start(self):
        self.service = Service(
            Config.from_toml(self.file), on_event=lambda event: self.events.append(event.text)
        )
        await self.service.start()
        self.fleet = self.service.fleet
        self.reload = Reload(self.service, self.file)

    async def talk(self):
        talk = Talk(*await asyncio.open_connection("127.0.0.1", self.service.address[1]))
        self.talks.append(talk)
        return talk

    async def hold(self, count):
        """Begin so many requests that servers hold until `held` is set; return their tasks."""
        before = sum(b.started for b in self.fleet.backends.values())
        talks = [await self.talk() for _ in range(count)]
        tasks = [asyncio.create_task(talk.get("/hold")) for talk in talks]
        await until(lambda: sum(b.started for b in self.fleet.backends.values()) == before + count)
        return tasks

    async def who(self, count=8):
        """Which servers answer."""
        talk = await self.talk()
        return {(await talk.get()).body.decode() for _ in range(count)}

    def settled(self):
        core = self.fleet.core
        return not any(core.lengths().values()) and core.spurious == 0


@asynccontextmanager
async def scene(folder, names="ab", start="ab", **written):
    servers = {}
    made = Scene(folder, servers)

    def behaviour(name):
        async def behave(seen, link):
            if seen.target == "/hold":
                await made.held.wait()
            await link.answer(name.encode())

        return behave

    for name in names:
        servers[name] = Server(behaviour(name))
        await servers[name].start()
    made.write(start, **written)
    try:
        await made.start()
    except BaseException:
        for server in servers.values():
            await server.stop()
        raise
    try:
        yield made
        made.held.set()
        await until(lambda: not made.service.proxy.figures().under_way)
        await until(made.settled)
    finally:
        for talk in made.talks:
            await talk.end()
        await made.service.stop(0.0)
        for server in servers.values():
            await server.stop()
    figures = made.service.proxy.figures()
    assert (figures.clients, figures.open, figures.idle) == (0, 0, 0)


def test_servers_come_and_go_and_what_is_under_way_ends_where_it_began(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            tasks = await s.hold(4)
            s.write("bc")
            lines = await s.reload()

            assert lines == ["reloaded: added c; removed a"]
            assert s.fleet.state("a") is State.DRAINING
            assert s.fleet.slots("a") == 2
            assert await s.who() == {"c"}, "b has two more"
            s.held.set()
            answers = [(await task).body for task in tasks]
            assert sorted(answers) == [b"a", b"a", b"b", b"b"]
            await until(lambda: "a" not in s.fleet.backends)
            await until(lambda: not s.service.proxy.pools[("127.0.0.1", s.servers["a"].port)].open)
            assert set(s.service.checks._tasks) == {"b", "c"}
            assert s.events[-1] == "a is gone"

    run(scenario())


def test_a_new_server_that_is_well_gets_traffic_at_once_and_one_that_is_not_waits(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            await s.servers["b"].stop()
            await s.servers["a"].stop()
            await until(lambda: State.UP not in s.fleet.health.states())
            s.write("abc")
            await s.reload()
            assert s.fleet.state("c") is State.UP
            assert await s.who() == {"c"}
            await s.servers["a"].start()
            await s.servers["b"].start()

    run(scenario())


def test_what_would_leave_nobody_up_is_refused(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            await s.servers["c"].stop()
            s.write("c")
            with pytest.raises(EquipoiseError) as caught:
                await s.reload()
            assert str(caught.value).splitlines() == [
                "server c cannot be used: its check failed: connection refused",
                "no server would be up; the former ones stay",
            ]
            assert await s.who() == {"a", "b"}
            await s.servers["c"].start()

    run(scenario())


def test_a_wrong_file_changes_nothing_and_each_mistake_is_an_event(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            before = s.service.config
            s.write("bc", health="risee = 2", more="drain = -1")
            with pytest.raises(EquipoiseError):
                await s.reload()

            assert [e.partition("d.toml: ")[2] for e in s.events if "not reloaded" in e] == [
                "drain = -1: must be at least 0",
                "health.risee: unknown key; did you mean 'rise'?",
            ]
            assert s.service.config is before
            assert await s.who() == {"a", "b"}

    run(scenario())


def test_a_log_that_cannot_be_opened_refuses_the_whole_file(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            (tmp_path / "folder").mkdir()
            s.write("abc", more="", health='[log]\nfile = "folder"')
            with pytest.raises(EquipoiseError, match="the access log cannot be written"):
                await s.reload()
            assert set(s.fleet.backends) == {"a", "b"}

    run(scenario())


def test_another_policy_knows_what_is_under_way_and_releases_it_once(tmp_path):
    """Three requests are held at each of two servers; jsq then finds the third server, empty."""

    async def scenario():
        async with scene(tmp_path, "abc", "abc", policy='name = "round-robin"') as s:
            tasks = await s.hold(6)
            assert s.fleet.core.lengths() == {"a": 2, "b": 2, "c": 2}
            fleet = s.fleet
            before = fleet.core.messages()
            s.write("abc", policy='name = "threshold"\nlevel = 3')
            assert await s.reload() == ["reloaded: the policy is threshold(level=3)"]
            assert fleet.core.lengths() == {"a": 2, "b": 2, "c": 2}
            assert fleet.core.tokens() == {"green": 3, "yellow": 0}
            assert fleet.threshold == 3
            more = await s.hold(3)
            assert fleet.core.lengths() == {"a": 3, "b": 3, "c": 3}, "each had one token"
            s.write("abc", policy='name = "jsq"')
            await s.reload()
            s.held.set()
            for task in [*tasks, *more]:
                assert (await task).status == 200
            await until(s.settled)
            assert fleet.core.spurious == 0
            assert sum(fleet.core.messages().values()) > sum(before.values())

    run(scenario())


def test_what_was_learnt_survives_another_parameter_but_not_another_policy(tmp_path):
    async def scenario():
        learning = 'name = "learning-threshold"\nalpha = 0.{}'
        async with scene(tmp_path, "ab", policy=learning.format(3)) as s:
            await s.hold(9)
            learnt = s.fleet.threshold
            assert learnt >= 2
            s.write("ab", policy=learning.format(4))
            await s.reload()
            assert s.fleet.core.spec.label == "learning-threshold(alpha=0.4)"
            assert s.fleet.threshold == learnt
            s.write("ab", policy='name = "threshold"\nlevel = 1')
            await s.reload()
            assert s.fleet.threshold == 1

    run(scenario())


def test_a_policy_with_a_clock_gets_its_clock(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab") as s:
            s.write("ab", policy='name = "sujsq-det"\ndelta = 1.0', more="mean_service = 0.01")
            await s.reload()
            before = s.fleet.core.messages()["update"]
            await until(lambda: s.fleet.core.messages()["update"] > before + 10)
            s.write("ab")
            await s.reload()
            assert s.fleet.updates is None

    run(scenario())


def test_a_server_with_another_name_keeps_its_requests_and_two_may_swap_theirs(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab") as s:
            tasks = await s.hold(5)
            lengths = s.fleet.core.lengths()
            s.write(["a/b", "b/a"])
            assert await s.reload() == ["reloaded: renamed a to b, b to a"]
            assert s.fleet.core.lengths() == {"a": lengths["b"], "b": lengths["a"]}
            assert s.fleet.slots("a") == lengths["b"]
            assert s.fleet.backends["a"].port == s.servers["b"].port
            s.held.set()
            await asyncio.gather(*tasks)
            assert {b.outcomes["ok"] for b in s.fleet.backends.values()} == {2, 3}
            assert set(s.service.checks._tasks) == {"a", "b"}

    run(scenario())


def test_a_name_may_move_to_another_address_while_the_former_server_drains(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            tasks = await s.hold(2)
            s.write(["c/a", "b"])
            await s.reload()
            assert s.fleet.backends["a"].port == s.servers["c"].port
            (old,) = [b for n, b in s.fleet.backends.items() if s.fleet.state(n) is State.DRAINING]
            assert old.port == s.servers["a"].port
            assert s.fleet.slots(old.name) == 1
            s.held.set()
            await asyncio.gather(*tasks)
            await until(lambda: len(s.fleet.backends) == 2)
            assert await s.who() == {"b", "c"}

    run(scenario())


def test_a_server_that_drains_can_be_taken_back_with_what_it_has(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab") as s:
            await s.hold(2)
            s.write("b")
            await s.reload()
            assert s.fleet.state("a") is State.DRAINING
            s.write("ab")
            await s.reload()
            assert s.fleet.state("a") is State.UP
            assert s.fleet.core.lengths()["a"] == 1

    run(scenario())


def test_speed_and_limit_change_in_place(tmp_path):
    async def scenario():
        sed = 'name = "sed"'
        async with scene(tmp_path, "ab", policy=sed) as s:
            await s.hold(4)
            s.write("ab", policy=sed, a={"speed": 9.0}, b={"limit": 1})
            assert await s.reload() == ["reloaded: changed a, b"]
            assert s.fleet.backends["b"].limit == 1
            assert s.fleet.core.lengths() == {"a": 2, "b": 2}, "what is there stays"
            await s.hold(4)
            assert s.fleet.core.lengths() == {"a": 6, "b": 2}

    run(scenario())


def test_rules_of_health_change_for_servers_that_are_there(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab", health="fall = 1") as s:
            await s.servers["a"].stop()
            await until(lambda: s.fleet.state("a") is State.DOWN)
            s.write("ab", health='check = "none"')
            await s.reload()
            assert s.fleet.state("a") is State.UP, "nobody checks"
            assert not s.service.checks._tasks
            s.write("ab", health="fall = 1")
            await s.reload()
            await until(lambda: s.fleet.state("a") is State.DOWN)
            await s.servers["a"].start()

    run(scenario())


def test_limits_change_for_connections_that_are_open(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab") as s:
            talk = await s.talk()
            assert (await talk.get("/" + "x" * 100)).status == 200
            s.write("ab", health="[limits]\ntarget = 64\nkeep_alive_timeout = 0.3")
            assert await s.reload() == ["reloaded: other limits"]
            assert s.service.proxy.limits == Limits(target=64, keep_alive_timeout=0.3)
            assert (await talk.get("/")).status == 200
            assert (await talk.get("/" + "x" * 100)).status == 414
            other = await s.talk()
            assert await other.closed(), "idle for too long by the new limit"

    run(scenario())


def test_the_access_log_moves_and_no_line_is_lost(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab", health='[log]\nfile = "one.log"') as s:
            await s.who(5)
            s.write("ab", health='[log]\nfile = "two.log"')
            await s.reload()
            await s.who(3)
            s.write("ab")
            await s.reload()
            await s.who(2)

    run(scenario())
    assert len((tmp_path / "one.log").read_text().splitlines()) == 5
    assert len((tmp_path / "two.log").read_text().splitlines()) == 3


def test_what_cannot_change_is_said_and_left(tmp_path):
    async def scenario():
        async with scene(tmp_path, "ab", more="seed = 1") as s:
            port = s.service.address[1]
            text = s.write("ab", more="seed = 2\ndrain = 1")
            s.file.write_text(
                text.replace('"127.0.0.1:0"', '"127.0.0.1:1"')
                + '[admin]\nlisten = "127.0.0.1:1234"\n'
            )
            lines = await s.reload()
            assert lines == [
                "reloaded: drain = 1",
                "listen cannot change while it runs: it stays 127.0.0.1:0; start anew for it",
                "admin.listen cannot change while it runs; start anew for it",
                "seed cannot change while it runs: it stays 1; start anew for it",
            ]
            assert s.events[-4:] == lines
            assert (s.service.config.drain, s.service.config.seed) == (1.0, 1)
            assert s.service.address[1] == port
            assert len(await s.reload()) == 4, "said as long as the file says it"

    run(scenario())


def test_what_was_done_by_hand_stays_until_the_file_speaks_of_it(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abcd") as s:
            by_hand = (
                Config.from_toml(s.file)
                .servers[0]
                .model_copy(update={"name": "c", "address": f"127.0.0.1:{s.servers['c'].port}"})
            )
            take_in(s.service, by_hand, "")
            s.fleet.remove("a")
            s.write("abd")
            await s.reload()
            assert set(s.fleet.backends) == {"b", "c", "d"}
            s.write(["a", "b", "d/c"])
            with pytest.raises(EquipoiseError, match="server 'c' is there already"):
                await s.reload()
            s.write("bcd", c={"speed": 2.0})
            await s.reload()
            assert set(s.fleet.backends) == {"b", "c", "d"}
            assert s.fleet.backends["c"].speed == 2.0
            s.write("bd")
            await s.reload()
            assert set(s.fleet.backends) == {"b", "d"}

    run(scenario())


def test_fixed_things_that_are_equal_are_not_spoken_of(tmp_path):
    async def scenario():
        async with scene(tmp_path) as s:
            assert fixed(s.service.config, s.service.config) == []
            assert await s.reload() == ["reloaded: nothing has changed"]

    run(scenario())


def test_a_file_is_taken_up_when_it_has_changed_and_once_it_is_whole(tmp_path):
    """Touching it is no change, a broken one is tried once, and one put in its place counts."""

    async def scenario():
        file, calls = tmp_path / "f", []
        file.write_text("one")

        async def call():
            calls.append(file.read_text())
            raise EquipoiseError("wrong")

        watch = Watch(lambda: [file], call, 0.02)
        watch.start()
        await asyncio.sleep(0.08)
        os.utime(file, (1, 1))
        await asyncio.sleep(0.1)
        assert calls == []
        file.write_text("two")
        await until(lambda: calls == ["two"])
        await asyncio.sleep(0.08)
        (tmp_path / "g").write_text("new")
        os.replace(tmp_path / "g", file)
        await until(lambda: calls == ["two", "new"])
        file.unlink()
        await asyncio.sleep(0.08)
        file.write_text("back")
        await until(lambda: len(calls) == 3)
        await watch.close()
        assert calls == ["two", "new", "back"]

    run(scenario())


def test_reloads_every_few_milliseconds_drop_no_request(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abcd", "abc") as s:
            statuses = []

            async def ask():
                talk = await s.talk()
                while turns < 12 or len(statuses) < 400:
                    statuses.append((await talk.get()).status)

            turns = 0
            load = [asyncio.create_task(ask()) for _ in range(4)]
            policies = ["jsq", "threshold(level=1)", "jiq", "round-robin"]
            while not all(task.done() for task in load):
                names = ["abcd", "bcd", "acd", "ab"][turns % 4]
                s.write(names, policy=f'name = "{policies[turns % 4]}"', a={"speed": 1.0 + turns})
                await s.reload()
                turns += 1
                await asyncio.sleep(0.003)
            await asyncio.gather(*load)
            assert len(statuses) >= 400
            assert set(statuses) == {200}

    run(scenario())
