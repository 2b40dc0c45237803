"""The access log: what is written is what our own reader of logs reads, and nothing ever waits."""

import json
import math
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.live.access_log import AccessLog, Stamps, line_of
from equipoise.live.dispatch import Exchange
from equipoise.logs import read_log


def exchange(at=1_700_000_000.25, server="web 1", status=200, **more):
    values = {
        "arrived": at,
        "client": "127.0.0.1",
        "method": "GET",
        "target": "/a?b=c",
        "status": status,
        "bytes_in": 3,
        "bytes_out": 12345,
        "server": server,
        "outcome": "ok",
        "retries": 0,
        "waited": 0.0004,
        "first_byte": 0.01,
        "service": 0.0123456,
        "total": 0.0127891,
        "request_id": "0a-1",
        "why": "",
        **more,
    }
    return Exchange(**values)


def until(true, seconds=5.0):
    """Wait for something; fail when it does not come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_is_written_is_read_as_it_was(tmp_path):
    rng = np.random.default_rng(1)
    times = 1_700_000_000 + np.cumsum(rng.exponential(0.01, 3000))
    services = rng.exponential(0.02, 3000)
    servers = rng.integers(0, 3, 3000)
    log = AccessLog(tmp_path / "a.log")
    for at, service, server in zip(times.tolist(), services.tolist(), servers, strict=True):
        log(exchange(at, f"s{server}", 200, service=service, total=service + 0.0005))
    log.close()

    found = read_log(tmp_path / "a.log")

    assert (found.format.name, found.account.used, found.notes) == ("envoy", 3000, ())
    assert log.written == 3000
    tasks = found.tasks
    assert tasks.first == pytest.approx(times[0], abs=2e-6)
    assert tasks.arrival == pytest.approx(times - times[0], abs=4e-6)
    assert tasks.service == pytest.approx(services, abs=1e-6)
    assert tasks.duration == pytest.approx(services + 0.0005, abs=1e-6)
    assert [tasks.servers[s] for s in tasks.server] == [f"s{s}" for s in servers]
    assert set(tasks.status) == {200}
    assert set(tasks.size) == {12345}


def test_lines_of_several_processes_do_not_get_mixed(tmp_path):
    """Long lines, many at a time, from three processes that write to one file."""
    code = (
        "import sys\n"
        "from equipoise.live.access_log import AccessLog\n"
        "from equipoise.live.dispatch import Exchange\n"
        "log = AccessLog(sys.argv[1], 10**6)\n"
        "for i in range(3000):\n"
        "    log(Exchange(1.7e9, 'x', 'GET', '/' + sys.argv[2] * (i % 900), 200, 0, i, 'a', 'ok',\n"
        "                 0, 0.0, 0.1, 0.1, 0.1, 'id', ''))\n"
        "log.close(60.0)\n"
    )
    path = tmp_path / "a.log"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), letter]) for letter in "abc"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for letter in "abc":
        sizes = [
            line["bytes_sent"] for line in lines
            if line["path"] == "/" + letter * (line["bytes_sent"] % 900) and len(line["path"]) > 1
        ]  # fmt: skip
        assert sizes == [i for i in range(3000) if i % 900]
    assert len(lines) == 9000


def test_a_request_that_reached_no_server_is_read_as_such(tmp_path):
    log = AccessLog(tmp_path / "a.log")
    log(exchange())
    log(exchange(server=None, status=503, service=0.0, outcome="unavailable"))
    log(exchange(server="web 2", status=502, service=0.0, outcome="upstream_error", why="refused"))
    log.close()

    found = read_log(tmp_path / "a.log")

    assert found.account.used == 2
    assert [entry.count for entry in found.account.skipped.values()] == [1]
    assert math.isnan(found.tasks.service[1])


@pytest.mark.parametrize("target", ['/"quoted"', "/back\\slash", "/\x01\x7f", "/\xe4", "/" * 8000])
def test_whatever_a_client_sends_stays_one_line_of_json(target):
    line = line_of(exchange(target=target, method='G"ET'), Stamps())

    assert line.count("\n") == 1
    assert line.isascii()
    assert json.loads(line)["path"] == target


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.0, "2023-11-14T22:13:20.000000Z"),
        (1_700_000_000.999_999_6, "2023-11-14T22:13:20.999999Z"),
    ],
)
def test_stamps(at, text):
    assert Stamps()(at) == text


def test_a_moved_file_is_written_until_it_is_opened_anew(tmp_path):
    path, moved = tmp_path / "a.log", tmp_path / "a.log.1"
    log = AccessLog(path)
    log(exchange(target="/1"))
    until(lambda: log.written == 1)
    os.rename(path, moved)
    log(exchange(target="/2"))
    until(lambda: log.written == 2)

    log.reopen()
    until(path.exists)
    log(exchange(target="/3"))
    log.close()

    assert [json.loads(line)["path"] for line in moved.read_text().splitlines()] == ["/1", "/2"]
    assert [json.loads(line)["path"] for line in path.read_text().splitlines()] == ["/3"]


def test_writing_never_waits_and_what_is_too_much_is_dropped_and_counted(tmp_path):
    """A pipe that nobody reads is the slowest of disks."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(pipe, most_waiting=2000)

    began = time.perf_counter()
    for _ in range(20_000):
        log(exchange(target="/" * 500))
    took = time.perf_counter() - began

    assert took < 2.0
    assert log.dropped > 10_000
    os.set_blocking(reader, True)
    rest = iter(lambda: os.read(reader, 1 << 16), b"")
    drained = threading.Thread(target=lambda: [None for _ in rest])
    drained.start()
    log.close(30.0)
    drained.join(30.0)
    os.close(reader)
    assert log.written + log.dropped == 20_000


def test_a_disk_that_is_full_loses_lines_and_nothing_else():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    log = AccessLog("/dev/full")
    for _ in range(10):
        log(exchange())
    until(lambda: log.dropped == 10)

    assert log.trouble
    log(exchange())
    log.close()
    assert (log.written, log.dropped) == (0, 11)


def test_a_log_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(EquipoiseError, match="the access log cannot be written: Is a directory"):
        AccessLog(tmp_path)
