"""`equipoise agent`: a sidecar in a process of its own, before a server in this one."""

import http.client
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Handler(BaseHTTPRequestHandler):
    """Answers a GET when it may."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.release()
        if self.path == "/slow":
            self.server.go.wait(20)
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"yes")

    def log_message(self, *what):
        pass


class Server(ThreadingHTTPServer):
    """A server in a thread."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        """Some tasks are cut."""


@pytest.fixture
def server():
    made = Server(("127.0.0.1", 0), Handler)
    made.go, made.asked = threading.Event(), threading.Semaphore(0)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.go.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def sidecar(start, server):
    """Start a sidecar before the server; give the process, its line and both ports."""

    def make(*options):
        process = start(
            *("agent", "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"),
            *("--server", f"127.0.0.1:{server.server_address[1]}", *options),
        )
        line = process.stdout.readline()
        assert line, process.stderr.read()
        port = int(line.split(" for ")[0].rpartition(":")[2])
        status = int(line.rpartition("127.0.0.1:")[2].partition("/")[0])
        return process, line, port, status

    return make


def get(port, path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_it_serves_and_tells_and_drains(server, sidecar):
    """One process from its line to its end, as an operator meets it."""
    process, line, port, status = sidecar("--limit", "4", "--queue", "2", "--policy", "jiq")
    assert line == (
        f"listening on 127.0.0.1:{port} for 127.0.0.1:{server.server_address[1]}, at most 4 at "
        f"once and 2 waiting; status http://127.0.0.1:{status}/status\n"
    )
    assert [get(port) for _ in range(3)] == [(200, "yes")] * 3
    found = json.loads(get(status, "/status")[1])
    assert (found["started"], found["tasks"], found["limit"], found["policy"]) == (3, 0, 6, "jiq")
    assert "equipoise_agent_started_total 3" in get(status, "/metrics")[1]
    assert get(status, "/health") == (200, "ok\n")

    answers = []
    client = threading.Thread(target=lambda: answers.append(get(port, "/slow")))
    client.start()
    for _ in range(4):
        assert server.asked.acquire(timeout=10)
    process.send_signal(signal.SIGTERM)
    assert "waiting at most 30 s for 1 under way" in process.stderr.readline()
    server.go.set()
    client.join()

    assert answers == [(200, "yes")]
    assert process.wait(20) == 0


def test_a_second_signal_cuts_what_is_left(server, sidecar):
    process, _, port, _ = sidecar()
    answers = []
    client = threading.Thread(target=lambda: answers.append(get(port, "/slow")))
    client.start()
    assert server.asked.acquire(timeout=10)
    process.send_signal(signal.SIGTERM)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    client.join()

    assert answers[0][0] == 503
    assert process.wait(20) == 1
    assert process.stderr.read() == "error: 1 task was cut, it had not ended\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--limit", "0"], "--limit 0: must be at least 1"),
        (["--status", "127.0.0.1:8000"], "is that of --listen; the three must differ"),
        (["--secret-file", "nosuch"], "--secret-file nosuch: no such file or directory"),
        (["--policy", "nosuch"], "no policy is called 'nosuch'"),
        (["--policy", "random"], "policy 'random' has servers tell nothing"),
        (["--queue", "3"], "without --limit nothing waits here"),
    ],
)
def test_each_mistake_is_a_line(run, options, says):
    given = {"--listen": "127.0.0.1:8000", "--server": "127.0.0.1:1", "--status": "127.0.0.1:8001"}
    given |= dict([options])
    answer = run("agent", *[word for pair in given.items() for word in pair])

    assert answer.status == 1
    assert answer.out == ""
    assert len(answer.lines) == 1
    assert says in answer.err


def test_a_port_that_is_taken_is_a_line(run, server):
    taken = f"127.0.0.1:{server.server_address[1]}"
    for option, other in (("--listen", "--status"), ("--status", "--listen")):
        answer = run("agent", option, taken, other, "127.0.0.1:0", "--server", "127.0.0.1:1")
        assert answer.status == 1
        assert len(answer.lines) == 1
        assert f"cannot listen on {taken}: address already in use" in answer.err


def test_what_must_be_given_is_asked_for(run):
    answer = run("agent", "--listen", "127.0.0.1:0")

    assert answer.status == 2
    assert "--server" in answer.err
