"""The control socket: who may use it, what it does, and what a wrong word gets."""

import asyncio
import json
import os
import socket
import stat
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from live.test_reload import scene
from live.wire import run, until

from equipoise.errors import EquipoiseError
from equipoise.live import control
from equipoise.live.control import Commands, Control, ask, bind
from equipoise.live.health import State


@asynccontextmanager
async def connected(path):
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def say(path, *lines):
    """Send lines on one connection; return what each is answered."""
    answers = []
    async with connected(path) as (reader, writer):
        for line in lines:
            writer.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            answers.append(json.loads(await reader.readline()))
    return answers


@asynccontextmanager
async def listening(folder, do):
    listener = Control(folder / "c.sock", do)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.close()
        assert not (folder / "c.sock").exists()


async def repeat(command):
    """Answer with the command."""
    if command.get("fail"):
        raise EquipoiseError("one\ntwo")
    return command


def test_only_our_own_user_can_open_it_from_the_first_moment(tmp_path):
    before = os.umask(0)
    try:
        sock = bind(tmp_path / "c.sock")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "c.sock").stat().st_mode) == 0o600
    sock.close()


def test_the_kernels_word_is_asked_for_who_connects(tmp_path, monkeypatch):
    """The mode of the file is not all there is: here another user has got through."""
    monkeypatch.setattr(control, "_user", lambda writer: 4242)

    async def scenario():
        path = tmp_path / "c.sock"
        async with listening(tmp_path, repeat), connected(path) as (reader, _):
            return json.loads(await reader.readline())

    assert run(scenario()) == {"ok": False, "error": "user 4242 may not; it answers its own user"}


def test_the_kernel_says_who_we_are(tmp_path):
    found = []

    async def scenario():
        async def note(reader, writer):
            found.append(control._user(writer))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_unix_server(note, tmp_path / "s")
        async with connected(tmp_path / "s") as (reader, _):
            await reader.read()
        server.close()

    run(scenario())
    assert found == [os.getuid()]


def test_commands_are_lines_and_each_is_answered(tmp_path):
    async def scenario():
        async with listening(tmp_path, repeat):
            return await say(
                tmp_path / "c.sock", {"a": 1}, b"[1]\n", b"{\n", b"[" * 60_000 + b"\n", {"fail": 1},
                {"b": 2},
            )  # fmt: skip

    wrong = {"ok": False, "error": "a command is a JSON object in one line"}
    assert run(scenario()) == [
        {"ok": True, "answer": {"a": 1}},
        wrong,
        wrong,
        wrong,
        {"ok": False, "error": "one\ntwo"},
        {"ok": True, "answer": {"b": 2}},
    ]


def test_a_line_without_end_and_a_silent_client_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "PATIENCE", 0.1)

    async def scenario():
        async with listening(tmp_path, repeat) as listener:
            (long,) = await say(tmp_path / "c.sock", b"x" * (control.MOST_LINE + 10))
            async with connected(tmp_path / "c.sock") as (reader, _):
                silent = await reader.read()
            async with AsyncExitStack() as many:
                for _ in range(17):
                    reader, _ = await many.enter_async_context(connected(tmp_path / "c.sock"))
                refused = json.loads(await reader.readline())
                await until(lambda: not listener._talking)
            return long, silent, refused

    long, silent, refused = run(scenario())
    assert long == {"ok": False, "error": "a command has at most 65536 bytes"}
    assert silent == b""
    assert refused["error"].startswith("too many are talking")


def test_a_socket_of_a_dead_process_is_taken_over_and_one_that_answers_is_not(tmp_path):
    path = tmp_path / "c.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    alive = bind(path)
    alive.listen(1)

    with pytest.raises(EquipoiseError, match=f"another process answers at {path}"):
        bind(path)
    assert path.exists()
    alive.close()
    (tmp_path / "file").write_text("precious")
    with pytest.raises(EquipoiseError, match="is there and no socket"):
        bind(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"
    with pytest.raises(EquipoiseError, match=r"control: cannot listen at .*no such file"):
        bind(tmp_path / "none" / "c.sock")
    with pytest.raises(EquipoiseError, match="longer than the 107 bytes"):
        bind(tmp_path / ("x" * 120))


def test_one_that_was_put_in_our_place_is_left(tmp_path):
    path = tmp_path / "c.sock"

    async def scenario():
        listener = Control(path, repeat)
        await listener.start()
        path.unlink()
        other = bind(path)
        await listener.close()
        assert path.exists()
        other.close()

    run(scenario())


def test_who_asks_in_vain_is_told_why(tmp_path):
    sock = bind(tmp_path / "c.sock")
    with pytest.raises(EquipoiseError, match="nobody listens there any more"):
        ask(tmp_path / "c.sock", {})
    sock.listen(1)
    with pytest.raises(EquipoiseError, match=r"no answer within 0.05 s"):
        ask(tmp_path / "c.sock", {}, 0.05)
    sock.close()
    with pytest.raises(EquipoiseError, match="no such socket; a dispatcher makes it"):
        ask(tmp_path / "d.sock", {})
    with pytest.raises(EquipoiseError, match="longer than the 107 bytes"):
        ask(tmp_path / ("x" * 120), {})


def test_without_permission_that_is_what_is_said():
    assert control._why(PermissionError(13, "x"), 1.0).startswith("no permission; the dispatcher")


def test_servers_are_added_limited_and_removed_by_hand(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            do = Commands(s.service, s.reload)
            address = f"127.0.0.1:{s.servers['c'].port}"
            added = await do({"command": "add", "address": address, "name": "c", "limit": 1})
            assert added == {
                "name": "c", "address": address, "state": "up", "why": "", "speed": 1.0, "limit": 1
            }  # fmt: skip
            await s.hold(4)
            assert s.fleet.core.lengths()["c"] == 1
            with pytest.raises(EquipoiseError, match="is there already, as server 'c'"):
                await do({"command": "add", "address": address, "name": "d"})
            with pytest.raises(EquipoiseError, match="server 'a' is there already"):
                await do({"command": "add", "address": "127.0.0.1:1", "name": "a"})
            assert (await do({"command": "limit", "name": "c"}))["limit"] is None
            assert s.fleet.backends["c"].limit is None
            found = await do({"command": "servers"})
            assert [one["name"] for one in found] == ["a", "b", "c"]
            assert await do({"command": "remove", "name": "c"}) == {
                "name": "c", "state": "draining", "slots": 1
            }  # fmt: skip
            again = await do({"command": "add", "address": address, "name": "c"})
            assert again["state"] == "up", "it had not left yet"
            assert s.fleet.core.lengths()["c"] == 1
            await do({"command": "remove", "name": "c"})
            s.held.set()
            await until(lambda: "c" not in s.fleet.backends)
            assert (await do({"command": "reload"})) == ["reloaded: nothing has changed"]
            assert (await do({"command": "status"}))["policy"] == "jsq"

    run(scenario())


def test_a_server_that_does_not_answer_is_added_and_waits(tmp_path):
    async def scenario():
        async with scene(tmp_path, "abc") as s:
            await s.servers["c"].stop()
            do = Commands(s.service)
            address = f"127.0.0.1:{s.servers['c'].port}"
            added = await do({"command": "add", "address": address})
            assert (added["state"], added["why"]) == ("new", "its check failed: connection refused")
            await s.servers["c"].start()
            await until(lambda: s.fleet.state(address) is State.UP)
            assert (await do({"command": "remove", "name": address}))["state"] == "gone"
            with pytest.raises(EquipoiseError, match="without a file"):
                await do({"command": "reload"})

    run(scenario())


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ({}, "no command is called None; there are servers, status, add, remove, limit, reload"),
        ({"command": "stop"}, "no command is called 'stop'"),
        ({"command": ["add"]}, "no command is called"),
        ({"command": "remove"}, "remove: say which server, by its name"),
        ({"command": "remove", "name": 3}, "remove: say which server, by its name"),
        ({"command": "remove", "name": "z"}, "no server is called 'z'; there are: a, b"),
        ({"command": "limit", "name": "z", "limit": 1}, "no server is called 'z'"),
        ({"command": "limit", "name": "a", "limit": 0}, "limit = 0: give a whole number from 1"),
        ({"command": "limit", "name": "a", "limit": True}, "limit = True: give a whole number"),
        ({"command": "servers", "name": "a"}, "servers is told nothing, not 'name'"),
        ({"command": "add", "adress": "a"}, "add is told address, name, speed, limit"),
        ({"command": "add"}, "address: missing"),
        ({"command": "add", "address": "a"}, "address = 'a': write it as HOST:PORT"),
        ({"command": "add", "address": "a:1", "speed": 0}, "speed = 0: must be more than 0"),
        ({"command": "add", "address": "a:1", "name": "a b"}, "name: 'a b': use letters"),
    ],
)
def test_a_wrong_word_is_one_line_and_changes_nothing(tmp_path, command, line):
    async def scenario():
        async with scene(tmp_path) as s:
            before = s.fleet.status()["servers"]
            with pytest.raises(EquipoiseError) as caught:
                await Commands(s.service, s.reload)(command)
            assert line in str(caught.value)
            assert "\n" not in str(caught.value)
            assert [b["name"] for b in before] == list(s.fleet.backends)

    run(scenario())


def test_a_service_that_cannot_have_its_socket_does_not_start(tmp_path):
    alive = bind(tmp_path / "c.sock")
    alive.listen(1)

    async def scenario():
        more = '[admin]\nlisten = "127.0.0.1:0"\ncontrol = "c.sock"'
        async with scene(tmp_path, health=more):
            pass

    with pytest.raises(EquipoiseError, match="another process answers at"):
        run(scenario())
    alive.close()
