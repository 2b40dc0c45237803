"""Metrics, read by Prometheus's own parser; the admin listener; checks; all on loopback."""

import asyncio
import json
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from equipoise.errors import EquipoiseError
from equipoise.live.admin import Admin, Answer, as_json
from equipoise.live.checks import Checks, check
from equipoise.live.dispatch import Exchange
from equipoise.live.fleet import Backend, Fleet
from equipoise.live.health import Rules
from equipoise.live.metrics import render


class Log(NamedTuple):
    written: int
    dropped: int


class Figures(NamedTuple):
    clients: int
    opened: int


def busy_fleet(policy="threshold(level=1)"):
    fleet = Fleet(
        policy,
        [Backend("a", "127.0.0.1", 1), Backend('b"\\\n', "127.0.0.1", 2)],
        Rules(check="none"),
        seed=1,
    )
    slots = [fleet.choose() for _ in range(6)]
    for slot in slots[:3]:
        fleet.started(slot)
        fleet.finished(slot, "ok", 0.02)
    fleet.finished(slots[3], "timeout", 1.0)
    fleet.log(Exchange(0.0, "", "", "", 200, 0, 0, "a", "ok", 1, 0, 0, 0, 0.5, "", ""))
    fleet.log(Exchange(0.0, "", "", "", 503, 0, 0, None, "unavailable", 0, 0, 0, 0, 0.5, "", ""))
    return fleet


def read(text):
    """{(name, labels as a frozen set): value}, and the families by name."""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (sample.name.removeprefix("equipoise_"), frozenset(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    return values, families


def test_what_prometheus_reads_is_what_was_counted():
    fleet = busy_fleet()
    values, families = read(render(fleet, Figures(7, 9), Log(5, 1)))

    def total(name, **labels):
        wanted = labels.items()
        return sum(v for (n, have), v in values.items() if n == name and wanted <= have)

    assert total("server_chosen_total") == 6
    assert total("server_slots") == 2
    assert total("server_length") == 3, "a failed task counts for a while"
    assert total("server_outcomes_total", outcome="ok") == 3
    assert total("server_outcomes_total", outcome="timeout") == 1
    assert total("server_failures_total") == 1
    assert total("server_duration_seconds_count") == 3
    assert total("server_duration_seconds_sum") == pytest.approx(0.06)
    assert total("server_duration_seconds_bucket", le="0.01") == 0
    assert total("server_duration_seconds_bucket", le="0.025") == 3
    assert total("server_duration_seconds_bucket", le="+Inf") == 3
    assert total("server_state", state="up") == 2
    assert total("server_responses_total", status="2xx") == 1
    assert total("unserved_total", outcome="unavailable") == 1
    assert total("request_duration_seconds_count") == 2
    assert total("retries_total") == 1
    assert total("threshold") == 1
    assert total("messages_total", kind="leave") == fleet.core.messages()["leave"]
    assert total("tokens", colour="yellow") == fleet.core.tokens()["yellow"]
    assert total("policy_info", policy="threshold(level=1)") == 1
    assert (total("proxy_clients"), total("proxy_opened_total")) == (7, 9)
    assert (total("log_lines_total"), total("log_dropped_total")) == (5, 1)
    assert {family.type for family in families.values()} == {"gauge", "counter", "histogram"}


def test_names_of_servers_may_hold_anything():
    values, _ = read(render(busy_fleet()))

    assert ("server_slots", frozenset({("server", 'b"\\\n')})) in values


def test_a_policy_without_threshold_or_tokens_shows_none():
    names = {name for name, _ in read(render(busy_fleet("random")))[0]}

    assert "threshold" not in names
    assert "tokens" not in names


# -- the listener -----------------------------------------------------------------------------


async def talk(port, request):
    """Send bytes; return status, head and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    data = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head, body


def asked(*requests):
    """The answers of a listener with two pages."""

    async def go():
        down = Answer("text/plain", "x", 503)
        admin = Admin({"/status": lambda: as_json({"a": [1]}), "/no": lambda: down})
        _, port = await admin.start("127.0.0.1", 0)
        try:
            return [await talk(port, request) for request in requests]
        finally:
            await admin.close()

    return asyncio.run(go())


def test_pages_are_answered_by_their_path():
    status, missing, down, head = asked(
        b"GET /status?x=1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /etc/passwd HTTP/1.1\r\n\r\n",
        b"GET /no HTTP/1.0\r\n\r\n",
        b"HEAD /status HTTP/1.1\r\n\r\n",
    )

    assert status[0] == 200
    assert json.loads(status[2]) == {"a": [1]}
    assert b"application/json" in status[1]
    assert (missing[0], missing[2]) == (404, b"there are /status, /no\n")
    assert down[0] == 503
    assert head[2] == b""
    assert head[1] == status[1]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /status HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /status\r\n\r\n", 400),
        (b"GET http://a/status HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 0),
    ],
)
def test_anything_but_a_get_is_refused(request_, status):
    ((found, _, _),) = asked(request_)

    assert found == status


def test_an_address_that_is_taken_is_one_line():
    async def go():
        admin = Admin({})
        _, port = await admin.start("127.0.0.1", 0)
        try:
            with pytest.raises(EquipoiseError, match=r"cannot listen on .*: address already"):
                await Admin({}).start("127.0.0.1", port)
        finally:
            await admin.close()

    asyncio.run(go())


# -- checks -----------------------------------------------------------------------------------


def check_of(answer, **rules):
    """What a check says of a server that answers so; None: it accepts and is silent."""

    async def serve(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            if answer is None:
                await asyncio.sleep(5)
            writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.transport.abort() if answer is None else writer.close()
            over.set()

    async def go():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await check(Rules(**rules), "127.0.0.1", port)
        finally:
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait_for(over.wait(), 5)
            await asyncio.sleep(0.01)  # until what was closed is gone

    over = asyncio.Event()
    return asyncio.run(go())


def test_a_connection_is_enough_where_that_is_what_is_checked():
    assert check_of(None, check="tcp") == ""


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", ""),
        (b"HTTP/1.0 301 Moved\r\n\r\n", ""),
        (b"HTTP/1.1 503 Unavailable\r\n\r\n", "its check was answered with status 503"),
        (b"HTTP/1.1 404\r\n\r\n", "its check was answered with status 404"),
        (b"", "its check was not answered"),
        (b"SSH-2.0-OpenSSH\r\n", "its check was not answered in HTTP"),
        (b"x" * 100_000, "its check was not answered in HTTP"),
        (None, "its check took more than 0.2 s"),
    ],
    ids=lambda value: "",
)
def test_a_get_must_be_answered_well_and_in_time(answer, wrong):
    assert check_of(answer, check="http", path="/health", timeout=0.2) == wrong


def test_a_server_that_is_not_there_is_said_to_refuse():
    async def go():
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await check(Rules(), "127.0.0.1", port)

    assert "refused" in asyncio.run(go()).lower()


def test_servers_are_asked_again_and_again_until_they_are_forgotten():
    async def go():
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        told = []
        checks = Checks(Rules(interval=0.02), lambda *what: told.append(what))
        for name in "ab":
            checks.watch(name, "127.0.0.1", port)
        await asyncio.sleep(0.3)
        checks.forget("a")
        until = len(told)
        await asyncio.sleep(0.1)
        await checks.close()
        server.close()
        ended = len(told)
        await asyncio.sleep(0.05)  # and what was closed is gone
        return told, until, ended

    told, until, ended = asyncio.run(go())
    assert set(told) == {("a", True, ""), ("b", True, "")}
    assert until >= 10
    assert {name for name, _, _ in told[until:]} == {"b"}
    assert len(told) == ended
