"""TLS on the clients' side: certificates judged, handshakes bounded, the rest as without it."""

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import time
from calendar import timegm
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from live.dispatching import Fleet
from live.test_reload import scene
from live.wire import Backend, Talk, echo, run, until

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.live.config import Config
from equipoise.live.limits import Limits
from equipoise.live.proxy import Proxy
from equipoise.live.tls import load, validity

FILES = Path(__file__).parent / "tls"
CERTIFICATE, KEY = str(FILES / "certificate.pem"), str(FILES / "key.pem")


def trusting(*names, alpn=("http/1.1",), most=None):
    """A client's context that trusts these certificates and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names or ("certificate.pem",):
        context.load_verify_locations(FILES / name)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if most is not None:
        context.maximum_version = most
    return context


def sockets():
    """How many this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


@asynccontextmanager
async def secured(behave=echo, tls=None, **limits):
    """A proxy that speaks TLS, before one server; at the end nothing may be left."""
    backend = Backend(behave)
    before = sockets()
    await backend.start()
    fleet = Fleet({"a": ("127.0.0.1", backend.port)})
    proxy = Proxy(fleet, Limits(**limits))
    _, port = await proxy.start(tls=tls or load(CERTIFICATE, KEY))
    talks = []

    async def talk(context=None, **how):
        context = context or trusting()
        made = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost", **how
        )
        talks.append(Talk(*made))
        return talks[-1]

    proxy.talk, proxy.port, proxy.fleet, proxy.backend = talk, port, fleet, backend
    try:
        yield proxy
        await until(lambda: fleet.settled() and not proxy.figures().under_way)
    finally:
        for one in talks:
            await one.end()
        await proxy.close()
        await backend.stop()
    await until(lambda: sockets() <= before)
    figures = proxy.figures()
    assert (figures.clients, figures.shaking, figures.open) == (0, 0, 0)
    assert fleet.settled()
    assert fleet.logged == figures.requests


# -- requests ----------------------------------------------------------------------------------


def test_requests_over_tls_are_served_and_servers_are_told_so():
    async def scenario():
        async with secured() as proxy:
            talk = await proxy.talk()
            answers = [await talk.get(f"/{i}") for i in range(3)]
            await talk.get("/", "X-Forwarded-Proto: http", "X_Forwarded-Proto: http")
            shown = talk.writer.get_extra_info("ssl_object")
            assert shown.selected_alpn_protocol() == "http/1.1"
            assert [a.body for a in answers] == [b"/0", b"/1", b"/2"]
            for seen in proxy.backend.seen:
                assert seen.field("x-forwarded-proto") == "https"
                assert seen.field("forwarded") == "for=127.0.0.1;proto=https"
                assert "x_forwarded-proto" not in seen.names()
            assert proxy.figures().accepted == 1

    run(scenario())


def test_in_the_clear_what_a_proxy_before_us_says_of_tls_is_kept():
    from live.wire import stage

    async def scenario():
        async with stage() as plain:
            talk = await plain.talk()
            await talk.get("/", "X-Forwarded-Proto: https")
            (seen,) = plain.backends[0].seen
            assert seen.field("x-forwarded-proto") == "https"
            assert seen.field("forwarded") == "for=127.0.0.1;proto=http"

    run(scenario())


def test_large_bodies_pass_both_ways_and_a_slow_reader_is_waited_for():
    body = bytes(range(256)) * 20_000  # 5 MB

    async def scenario():
        async with secured() as proxy:
            talk = await proxy.talk(limit=1 << 24)
            talk.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            talk.writer.write(body)
            await talk.writer.drain()
            await asyncio.sleep(0.1)
            answer = await talk.ask(b"")
            assert answer.body == body
            assert answer.whole

    run(scenario())


def test_what_comes_together_with_the_end_of_the_handshake_is_not_lost():
    """Bytes in one packet with the client's Finished, from a client that does its TLS by hand."""

    async def scenario():
        async with secured() as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(1 << 16))
            tls.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
            writer.write(outgoing.read())
            got = b""
            while b"/first" not in got:
                incoming.write(await reader.read(1 << 16))
                with suppress(ssl.SSLWantReadError):
                    while True:
                        got += tls.read(1 << 16)
            assert got.startswith(b"HTTP/1.1 200 OK")
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    run(scenario())


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_frees_its_slot(how):
    async def hang(seen, link):
        await asyncio.sleep(60)

    async def scenario():
        async with secured(hang) as proxy:
            talk = await proxy.talk()
            talk.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: proxy.fleet.now["a"] == 1)
            getattr(talk, how)()
            await until(lambda: proxy.fleet.now["a"] == 0)
            assert proxy.fleet.records[-1].outcome == "client_aborted"

    run(scenario())


def test_old_versions_are_refused_and_the_newest_can_be_demanded():
    async def scenario():
        async with secured(tls=load(CERTIFICATE, KEY, "1.3")) as proxy:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await proxy.talk(trusting(most=ssl.TLSVersion.TLSv1_2))
            talk = await proxy.talk()
            assert talk.writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            assert (await talk.get()).status == 200
            assert proxy.figures().not_shaken == 1
        async with secured() as proxy:
            talk = await proxy.talk(trusting(most=ssl.TLSVersion.TLSv1_2))
            assert talk.writer.get_extra_info("ssl_object").version() == "TLSv1.2"

    run(scenario())


# -- those who do not speak it -------------------------------------------------------------------


def test_plain_http_on_a_tls_port_is_cut_and_does_not_hurt():
    async def scenario():
        async with secured() as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            with suppress(ConnectionError):
                got = await asyncio.wait_for(reader.read(), 5)
            assert b"HTTP" not in got
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
            await until(lambda: proxy.figures().not_shaken == 1)
            assert (await (await proxy.talk()).get()).status == 200

    run(scenario())


def test_tls_on_a_plain_port_is_a_400_and_does_not_hurt():
    from live.wire import stage

    async def scenario():
        async with stage() as plain:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(
                    "127.0.0.1", plain.port, ssl=trusting(), server_hostname="localhost"
                )
            talk = await plain.talk()
            assert (await talk.get()).status == 200

    run(scenario())


def test_a_handshake_that_does_not_end_is_ended():
    async def scenario():
        async with secured(handshake_timeout=0.2) as proxy:
            opened = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(5)]
            opened[0][1].write(b"\x16\x03\x01")
            await until(lambda: proxy.figures().shaking == 5)
            for reader, writer in opened:
                with suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()
            assert proxy.figures().shaking == 0
            assert proxy.figures().not_shaken == 5

    run(scenario())


def test_handshakes_count_among_the_connections():
    async def scenario():
        async with secured(connections=2) as proxy:
            opened = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(2)]
            await until(lambda: proxy.figures().shaking == 2)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await proxy.talk()
            for _, writer in opened:
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()
            await until(lambda: proxy.figures().shaking == 0)
            assert (await (await proxy.talk()).get()).status == 200

    run(scenario())


def test_a_drain_breaks_off_handshakes_and_finishes_requests():
    async def slow(seen, link):
        await asyncio.sleep(0.1)
        await link.answer(b"done")

    async def scenario():
        async with secured(slow) as proxy:
            talk = await proxy.talk()
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            asking = asyncio.create_task(talk.get())
            await until(lambda: proxy.fleet.now["a"] == 1 and proxy.figures().shaking == 1)
            assert await proxy.drain(5.0) == 0
            assert (await asking).body == b"done"
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    run(scenario())


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "key", "line"),
    [
        ("none.pem", "key.pem", "none.pem: no such file or directory"),
        ("certificate.pem", "none.pem", "none.pem: no such file or directory"),
        ("README.md", "key.pem", "README.md: is no certificate in PEM"),
        ("key.pem", "key.pem", "key.pem: is no certificate in PEM"),
        ("certificate.pem", "README.md", "README.md: is no private key in PEM"),
        ("certificate.pem", "", "certificate.pem: is no private key in PEM"),
        ("certificate.pem", "other-key.pem", "does not belong to the certificate"),
        ("certificate.pem", "encrypted-key.pem", "the key has a password; give one without"),
        ("broken.pem", "key.pem", "cannot be used"),
        (".", "key.pem", "is a directory"),
    ],
)
def test_wrong_files_are_one_line_before_anything_starts(tmp_path, certificate, key, line):
    for file in FILES.iterdir():
        shutil.copy(file, tmp_path)
    text = (FILES / "certificate.pem").read_text()
    (tmp_path / "broken.pem").write_text(text[:200] + "????" + text[204:])
    tables = {
        "listen": "127.0.0.1:0",
        "servers": [{"address": "127.0.0.1:9"}],
        "policies": [{"name": "jsq"}],
        "tls": {"certificate": certificate, **({"key": key} if key else {})},
    }

    with pytest.raises(ConfigError) as caught:
        Config.from_dict(tables, base=tmp_path, source="d.toml")

    (said,) = str(caught.value).splitlines()
    assert said.startswith("d.toml: tls")
    assert line in said


def test_chain_and_key_may_be_in_one_file(tmp_path):
    both = tmp_path / "both.pem"
    both.write_text((FILES / "key.pem").read_text() + (FILES / "certificate.pem").read_text())

    assert load(str(both), str(both)).ends == load(CERTIFICATE, KEY).ends


@pytest.mark.parametrize("name", ["certificate.pem", "expired.pem", "early.pem"])
def test_the_time_of_a_certificate_is_that_which_openssl_reads(name):
    found = load(str(FILES / name), KEY)

    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl here")
    printed = subprocess.run(
        [openssl, "x509", "-noout", "-dates", "-in", FILES / name],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    times = [
        timegm(time.strptime(line.partition("=")[2], "%b %d %H:%M:%S %Y GMT"))
        for line in printed.splitlines()
    ]
    assert [found.begins, found.ends] == times


def test_a_certificate_that_is_not_valid_or_soon_will_not_be_is_told():
    assert load(CERTIFICATE, KEY).warning(1.8e9) == ""
    expired = load(str(FILES / "expired.pem"), KEY)
    assert expired.warning().endswith("expired.pem: the certificate has expired, on 2020-02-01")
    assert expired.warning(expired.ends - 86_400).endswith("the certificate expires on 2020-02-01")
    early = load(str(FILES / "early.pem"), KEY)
    assert early.warning(1.8e9).endswith("the certificate is not valid before 2100-01-01")


@pytest.mark.parametrize("cut", [1, 10, 40, 100])
def test_what_is_no_certificate_has_no_time(cut):
    der = ssl.PEM_cert_to_DER_cert((FILES / "certificate.pem").read_text())

    with pytest.raises((ValueError, IndexError)):
        validity(der[:cut])


# -- while it runs -------------------------------------------------------------------------------


def test_a_certificate_is_renewed_without_a_connection_lost(tmp_path):
    for name in ("certificate", "key"):
        shutil.copy(FILES / f"{name}.pem", tmp_path / f"my-{name}.pem")
    table = '[tls]\ncertificate = "my-certificate.pem"\nkey = "my-key.pem"'

    async def connect(s, name):
        made = await asyncio.open_connection(
            *s.service.address, ssl=trusting(name), server_hostname="localhost"
        )
        s.talks.append(Talk(*made))
        return s.talks[-1]

    async def scenario():
        async with scene(tmp_path, health=table) as s:
            old = await connect(s, "certificate.pem")
            assert (await old.get()).status == 200
            shutil.copy(FILES / "other-key.pem", tmp_path / "my-key.pem")
            with pytest.raises(EquipoiseError, match="does not belong to the certificate"):
                await s.reload()
            await connect(s, "certificate.pem")
            shutil.copy(FILES / "other-certificate.pem", tmp_path / "my-certificate.pem")
            (line,) = await s.reload()
            assert line.startswith("reloaded: the certificate is ")
            assert (await old.get()).status == 200, "its handshake was before"
            assert (await (await connect(s, "other-certificate.pem")).get()).status == 200
            with pytest.raises(ssl.SSLError):
                await connect(s, "certificate.pem")
            s.write("ab")
            lines = await s.reload()
            assert lines[1].startswith("[tls], whether it is there, cannot change while it runs")
            assert (await (await connect(s, "other-certificate.pem")).get()).status == 200

    run(scenario())


def test_an_expired_certificate_starts_and_is_an_event(tmp_path):
    shutil.copy(FILES / "expired.pem", tmp_path)
    shutil.copy(FILES / "key.pem", tmp_path)

    async def scenario():
        table = '[tls]\ncertificate = "expired.pem"\nkey = "key.pem"'
        async with scene(tmp_path, health=table) as s:
            assert "the certificate has expired" in s.events[-1]
            assert "with TLS" in s.service.line()
            status = s.service.status()["tls"]
            assert status["ends"] == timegm((2020, 2, 1, 0, 0, 0))
            page = s.service._metrics().body
            assert f"equipoise_certificate_end_seconds {status['ends']:.0f}\n" in page

    run(scenario())


def test_the_port_speaks_to_anybodys_client():
    """openssl's own, if it is there."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl here")

    async def scenario():
        async with secured() as proxy:
            process = await asyncio.create_subprocess_exec(
                openssl, "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-quiet",
                "-verify_return_error", "-CAfile", CERTIFICATE, "-servername", "localhost",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            process.stdin.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    got = await process.stdout.read()
            process.stdin.close()
            await process.wait()
            assert got.startswith(b"HTTP/1.1 200 OK")
            assert got.endswith(b"/hello")

    run(scenario())


def test_a_connection_reset_during_the_handshake_leaves_nothing():
    async def scenario():
        async with secured() as proxy:
            for _ in range(20):
                sock = socket.create_connection(("127.0.0.1", proxy.port))
                sock.sendall(b"\x16\x03\x01\x02\x00\x01")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            await until(lambda: proxy.figures().not_shaken == 20)
            await until(lambda: proxy.figures().shaking == 0)

    run(scenario())
