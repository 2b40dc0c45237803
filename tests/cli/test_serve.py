"""`equipoise serve`: a dispatcher in a process of its own, before servers in this one."""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from equipoise.logs import read_log

CONFIG = """
listen = "127.0.0.1:0"
drain = 20.0
{servers}
[[policies]]
name = "threshold"
level = 1
[limits]
queue_timeout = 0.3
[health]
interval = 0.1
fall = 2
rise = 1
[admin]
listen = "127.0.0.1:0"
[log]
file = "access.log"
"""


class Handler(BaseHTTPRequestHandler):
    """Answers with its server's name; /slow when it is told to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/slow":
            self.server.asked.release()
            self.server.go.wait(20)
        body = self.server.name.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *what):
        pass


class Server(ThreadingHTTPServer):
    """A server on loopback, in a thread."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, name, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.name, self.go, self.asked = name, threading.Event(), threading.Semaphore(0)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def handle_error(self, request, client_address):
        """Checks connect and leave."""

    def stop(self):
        self.go.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def servers():
    made = {}

    def make(*names, port=0):
        for name in names:
            made[name] = Server(name, port)
        return made

    yield make
    for server in made.values():
        server.stop()


@pytest.fixture
def dispatcher(start, tmp_path):
    """Start a dispatcher before servers; give the process and what it listens on."""

    def make(servers, *options, text=CONFIG):
        tables = [
            f'[[servers]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\n'
            for name, port in servers.items()
        ]
        (tmp_path / "d.toml").write_text(text.format(servers="".join(tables)))
        process = start("serve", "d.toml", *options)
        line = process.stdout.readline()
        if not line:
            return process, "", 0, 0
        words = line.split()
        port = int(words[2].rstrip(",").rpartition(":")[2])
        admin = int(line.rpartition("127.0.0.1:")[2].partition("/")[0])
        return process, line, port, admin

    return make


def get(port, path="/"):
    """Return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def refuses(port):
    """Whether nobody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def ports(servers):
    return {name: server.server_address[1] for name, server in servers.items()}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_it_serves_and_shows_and_records_and_drains(servers, dispatcher, tmp_path):
    """One process from its line to its end, as an operator meets it."""
    made = servers("a", "b")
    process, line, port, admin = dispatcher(ports(made))
    assert line == (
        f"listening on 127.0.0.1:{port}, 2 servers, threshold(level=1); "
        f"dashboard http://127.0.0.1:{admin}/\n"
    )
    assert get(admin, "/")[1].startswith("<!doctype html>")
    answers = [get(port) for _ in range(20)]
    assert {status for status, _ in answers} == {200}
    assert {body for _, body in answers} == {"a", "b"}

    status = json.loads(get(admin, "/status")[1])
    assert sum(server["chosen"] for server in status["servers"]) == 20
    assert status["proxy"]["requests"] == 20
    assert "equipoise_server_chosen_total" in get(admin, "/metrics")[1]
    assert get(admin, "/health") == (200, "ok\n")

    os.rename(tmp_path / "access.log", tmp_path / "moved.log")
    process.send_signal(signal.SIGUSR1)
    until((tmp_path / "access.log").exists)

    # one request is under way when it is told to stop
    slow = []
    waiting = threading.Thread(target=lambda: slow.append(get(port, "/slow")))
    waiting.start()
    until(lambda: any(server.asked.acquire(blocking=False) for server in made.values()))
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readline() == "stopping; waiting at most 20 s for 1 under way\n"
    until(lambda: refuses(port))
    for server in made.values():
        server.go.set()
    waiting.join(20)

    assert slow[0][0] == 200
    assert process.wait(20) == 0
    assert process.stderr.read() == ""
    old, new = read_log(tmp_path / "moved.log"), read_log(tmp_path / "access.log")
    assert (old.account.used, new.account.used) == (20, 1)
    assert new.tasks.status.tolist() == [200]


def test_a_second_signal_cuts_what_is_left_and_says_so(servers, dispatcher):
    process, _, port, _ = dispatcher(ports(made := servers("a")))
    answers = []

    def ask():
        try:
            answers.append(get(port, "/slow")[0])
        except (OSError, http.client.HTTPException):
            answers.append("cut")

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert made["a"].asked.acquire(timeout=20)

    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("stopping; waiting")
    process.send_signal(signal.SIGINT)

    assert process.wait(20) == 1
    assert process.stderr.read() == "error: 1 request was cut, it had not ended\n"
    waiting.join(20)
    assert answers in ([503], ["cut"])


def test_a_server_that_dies_is_left_out_and_one_that_comes_back_is_used(servers, dispatcher):
    made = servers("a", "b")
    process, _, port, admin = dispatcher(ports(made))
    lost = made["a"].server_address[1]
    made["a"].stop()

    assert {get(port)[0] for _ in range(10)} == {200}, "what was not sent is tried elsewhere"
    said = process.stderr.readline()
    assert " a is " in said
    assert "connection refused" in said
    servers("a", port=lost)

    def up():
        status = json.loads(get(admin, "/status")[1])
        return all(server["state"] == "up" for server in status["servers"])

    until(up)
    assert {get(port)[1] for _ in range(30)} == {"a", "b"}


def test_servers_that_do_not_answer_are_named_one_by_one(dispatcher, servers):
    process, line, _, _ = dispatcher({"a": free_port(), "b": free_port()})

    assert line == ""
    assert process.wait(20) == 1
    assert process.stderr.read().splitlines() == [
        "error: server a cannot be used: its check failed: connection refused",
        "error: server b cannot be used: its check failed: connection refused",
        "error: no server answers; start one, or start with --wait",
    ]


def test_it_can_be_told_to_start_before_its_servers(dispatcher, servers):
    late = free_port()
    process, line, port, admin = dispatcher({"a": late}, "--wait")
    assert "1 server (0 up)" in line
    assert process.stderr.readline().startswith("server a is not up: its check failed")
    assert get(port)[0] == 503
    assert get(admin, "/health")[0] == 503

    servers("a", port=late)
    assert process.stderr.readline().endswith("a is up\n")
    assert get(port) == (200, "a")


@pytest.mark.parametrize("taken", ["listen", "admin"])
def test_an_address_that_is_taken_is_one_line_and_nothing_runs(servers, dispatcher, taken):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        old = 'listen = "127.0.0.1:0"'
        where = {"listen": old + "\ndrain", "admin": "[admin]\n" + old}[taken]
        text = CONFIG.replace(where, where.replace(":0", f":{port}"))
        process, line, _, _ = dispatcher(ports(servers("a")), text=text)

        assert line == ""
        assert process.wait(20) == 1
        (error,) = process.stderr.read().splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: address already in use" in error


def test_the_file_is_taken_up_at_a_signal_or_when_it_changes(servers, dispatcher, tmp_path):
    made = servers("a", "b")
    both = ports(made)
    process, _, port, _ = dispatcher({"a": both["a"]})
    file = tmp_path / "d.toml"
    assert get(port) == (200, "a")

    b = f'[[servers]]\nname = "b"\naddress = "127.0.0.1:{both["b"]}"\n[[policies]]'
    file.write_text(file.read_text().replace("[[policies]]", b))
    process.send_signal(signal.SIGHUP)
    said = [process.stderr.readline()[9:] for _ in range(2)]
    assert said == ["b is up\n", "reloaded: added b\n"]
    assert {get(port)[1] for _ in range(20)} == {"a", "b"}

    good = file.read_text()
    file.write_text(good.replace("level = 1", "level = -1").replace("fall", "fal"))
    process.send_signal(signal.SIGHUP)
    said = sorted(process.stderr.readline()[9:] for _ in range(2))
    assert said[0].startswith("not reloaded: d.toml: health.fal: unknown key")
    assert said[1].startswith("not reloaded: d.toml: policies")
    assert get(port)[0] == 200

    file.write_text("watch = true\n" + good.replace('"threshold"\nlevel = 1', '"jsq"'))
    process.send_signal(signal.SIGHUP)
    assert process.stderr.readline()[9:] == "reloaded: the policy is jsq\n"
    time.sleep(1.2)  # the first look, so that what follows is a change
    file.write_text(file.read_text().replace('"jsq"', '"jiq"'))
    while "jiq" not in (said := process.stderr.readline()):
        assert "nothing has changed" in said
    assert get(port)[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_servers_are_changed_from_the_command_line(servers, dispatcher, run, tmp_path):
    made = servers("a", "b")
    both = ports(made)
    text = CONFIG.replace("[log]", 'control = "c.sock"\n[log]')
    process, _, port, _ = dispatcher({"a": both["a"]}, text=text)

    def do(*words):
        answer = run("control", tmp_path / "c.sock", *words)
        assert (answer.status, answer.err) == (0, "")
        return answer.out

    address = f"127.0.0.1:{both['b']}"
    assert do("add", address, "--name", "b", "--limit", "7") == "b is up\n"
    assert {get(port)[1] for _ in range(20)} == {"a", "b"}
    assert do("limit", "b", "3") == "b has limit 3\n"
    rows = [line.split() for line in do("servers").splitlines()]
    assert rows == [
        ["server", "address", "state", "requests", "limit", "speed"],
        ["a", f"127.0.0.1:{both['a']}", "up", "0", "-", "1"],
        ["b", address, "up", "0", "3", "1"],
    ]
    assert do("limit", "b", "none") == "b has no limit\n"
    assert do("remove", "a") == "a is gone\n"
    assert {get(port)[1] for _ in range(5)} == {"b"}
    assert do("reload") == "reloaded: nothing has changed\n"
    (only,) = json.loads(do("servers", "--json"))
    assert (only["name"], only["limit"]) == ("b", None)

    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    answer = run("control", tmp_path / "c.sock", "servers")
    assert (answer.status, answer.out) == (1, "")
    assert "no such socket; a dispatcher makes it" in answer.err


def test_workers_end_when_their_parent_is_killed_and_finish_what_is_under_way(servers, dispatcher):
    made = servers("a")
    process, line, port, admin = dispatcher(ports(made), text="workers = 2\n" + CONFIG)
    assert "threshold(level=1), 2 workers; dashboard" in line
    pids = [worker["pid"] for worker in json.loads(get(admin, "/status")[1])["workers"]]
    assert len(set(pids)) == 2
    slow = []
    waiting = threading.Thread(target=lambda: slow.append(get(port, "/slow")))
    waiting.start()
    assert made["a"].asked.acquire(timeout=20)

    process.kill()
    process.wait(20)
    until(lambda: refuses(port))
    made["a"].go.set()
    waiting.join(20)

    assert slow[0][0] == 200
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 20)


def test_workers_drain_at_a_signal_and_reopen_the_log_at_another(servers, dispatcher, tmp_path):
    made = servers("a")
    process, _, port, _ = dispatcher(ports(made), text="workers = 2\n" + CONFIG)
    assert {get(port)[0] for _ in range(20)} == {200}
    until(lambda: len((tmp_path / "access.log").read_text().splitlines()) == 20)
    os.rename(tmp_path / "access.log", tmp_path / "moved.log")
    process.send_signal(signal.SIGUSR1)
    until((tmp_path / "access.log").exists)
    time.sleep(0.3)  # for the second worker to have opened it too
    assert {get(port)[0] for _ in range(10)} == {200}
    process.send_signal(signal.SIGHUP)
    assert process.stderr.readline()[9:] == "reloaded: nothing has changed\n"
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 0
    assert process.stderr.read() == "stopping\n"
    assert len((tmp_path / "moved.log").read_text().splitlines()) == 20
    assert read_log(tmp_path / "access.log").account.used == 10


# -- what it says before anything starts ---------------------------------------------------------


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "d.toml"
    path.write_text(CONFIG.format(servers='[[servers]]\naddress = "127.0.0.1:9"\n'))
    return path


def test_a_check_reads_everything_and_connects_to_nothing(run, config):
    answer = run("serve", "d.toml", "--check")

    assert (answer.status, answer.err) == (0, "")
    assert (
        answer.out == "d.toml is good: would listen on 127.0.0.1:0, 1 server, threshold(level=1)\n"
    )
    assert sorted(os.listdir(config.parent)) == ["d.toml"]


@pytest.mark.parametrize("option", [["--check"], []])
def test_every_mistake_gets_its_line(run, config, option):
    config.write_text(config.read_text().replace("interval", "intervall").replace("level", "lvl"))

    answer = run("serve", "d.toml", *option)

    assert (answer.status, answer.out) == (1, "")
    assert len(answer.lines) == 2
    assert "health.intervall: unknown key; did you mean 'interval'?" in answer.err
    assert "threshold has no parameter 'lvl'" in answer.err
    assert sorted(os.listdir(config.parent)) == ["d.toml"]


@pytest.mark.parametrize("missing", ["uvloop", "httptools"])
def test_without_the_extra_it_says_what_to_install(run, config, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)

    answer = run("serve", "d.toml")

    assert answer.status == 1
    assert answer.lines == [
        "error: the live dispatcher needs httptools and uvloop: pip install 'equipoise[live]'"
    ]
    assert run("serve", "d.toml", "--check").status == 0


def test_a_users_own_policy_is_tried_by_a_check(run, config):
    (config.parent / "mine.py").write_text(
        "from equipoise.policies import Policy\n"
        "MINE = Policy('mine', choose=lambda state, fleet, rng: fleet.size)\n"
    )
    table = 'name = "threshold"\nlevel = 1'
    config.write_text(config.read_text().replace(table, 'name = "mine.py:MINE"'))

    answer = run("serve", "d.toml", "--check")

    assert answer.status == 1
    assert "choose returned a server that does not exist" in answer.err
