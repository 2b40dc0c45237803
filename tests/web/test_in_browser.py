"""The dashboard in a real browser, before a dispatcher that serves, fails, stops and comes back."""

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress

import pytest
from live.wire import Backend as Server
from live.wire import Talk, echo, run, until
from web.browser import CHROMIUM, browser
from web.test_dashboard import config

from equipoise.live.fleet import Event
from equipoise.live.health import State
from equipoise.live.serve import Service
from equipoise.web.dashboard import dashboard

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

ROWS = (
    "[...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
)
H1 = "document.querySelector('h1').innerText"


@asynccontextmanager
async def dispatcher(before, admin=0, **more):
    """A dispatcher before servers, with its page."""
    given = [(chr(97 + i), server.port) for i, server in enumerate(before)]
    running = Service(config(given, **more), pages=dashboard)
    if admin:
        running.config = running.config.model_copy(
            update={"admin": running.config.admin.model_copy(update={"listen": admin})}
        )
    await running.start()
    try:
        yield running
    finally:
        await running.stop(0.0)


@asynccontextmanager
async def started(*behaviours):
    servers = [Server(behave) for behave in behaviours]
    for server in servers:
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            with suppress(asyncio.CancelledError):
                await server.stop()


@asynccontextmanager
async def load(port, clients=3):
    """Clients that ask one request after another, whatever comes."""

    async def ask():
        talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
        try:
            while True:
                await talk.get()
                await asyncio.sleep(0.01)
        finally:
            await talk.end()

    tasks = [asyncio.create_task(ask()) for _ in range(clients)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def number(text):
    """The number that a text begins with."""
    return float(text.split()[0].replace(",", ""))


def test_it_shows_a_server_that_fails_and_comes_back_and_a_dispatcher_that_stops():
    async def go():
        async with started(echo, echo, echo) as servers, browser() as chromium:
            async with dispatcher(servers) as running, load(running.address[1]):
                address = running.admin_address
                url = f"http://127.0.0.1:{address[1]}/"
                tab = await chromium.tab(url)
                await tab.becomes(f"{H1} === 'All 3 servers serve.'")
                await tab.becomes("document.querySelector('#f-requests').innerText > '1'")
                first = await tab.value("equipoise.past.at.length")
                await tab.becomes(f"equipoise.past.at.length > {first} + 1")

                await servers[1].stop()
                await until(lambda: running.fleet.state("b") is not State.UP)
                await tab.becomes(f"{H1}.startsWith('2 of 3 servers serve: b is')")
                failed = await tab.value(ROWS)
                marked = await tab.value("document.querySelectorAll('#bars .column').length")
                level = await tab.value("document.querySelector('h1').dataset.level")
                running.fleet.events.append(Event(time.time(), "<img src=x onerror=stop()>"))
                await servers[1].start()
                await until(lambda: running.fleet.state("b") is State.UP)
                await tab.becomes(f"{H1} === 'All 3 servers serve.'")
                events = await tab.text("#events")
                images = await tab.value("document.images.length")
                quiet = tab.said()
                asked = set(tab.asked())
            await tab.becomes("document.body.classList.contains('stale')", 12)
            late = await tab.text(".live")
            async with dispatcher(servers, f"127.0.0.1:{address[1]}"):
                await tab.becomes("!document.body.classList.contains('stale')")
                await tab.becomes("document.querySelector('#x-up').innerText.length < 12")
                again = await tab.value("equipoise.past.first + equipoise.past.at.length")
                now = await tab.text(".live")
            return url, failed, marked, level, events, images, quiet, asked, late, again, now

    url, failed, marked, level, events, images, quiet, asked, late, again, now = run(go(), 60)
    assert [row[0].splitlines()[0] for row in failed] == ["a", "b", "c"]
    assert failed[1][1].startswith(("down for", "ejected for"))
    assert failed[0][1].startswith("serving for")
    assert marked == 1
    assert level == "watch"
    assert "b is up" in events.splitlines()[1]
    assert "<img src=x onerror=stop()>" in events
    assert images == 0, "words are words"
    assert quiet == []
    assert {address.split("?")[0] for address in asked} <= {url, url + "history"} | {
        address for address in asked if address.startswith("data:")
    }
    assert late.startswith("The dispatcher does not answer: no answer since ")
    assert again < 20, "what another dispatcher had counted is gone"
    assert ":" in now
    assert "answer" not in now


def test_numbers_on_it_are_those_of_the_metrics():
    """Five requests that do not end: in flight, at the servers, in the page and in /metrics."""

    async def go():
        over = asyncio.Event()

        async def hang(seen, link):
            if seen.target == "/hang":
                await over.wait()
            await link.answer(b"x")

        async with started(hang, hang) as servers, dispatcher(servers) as running:
            talks = [
                Talk(*await asyncio.open_connection("127.0.0.1", running.address[1]))
                for _ in range(5)
            ]
            waiting = [asyncio.create_task(talk.get("/hang")) for talk in talks]
            await until(lambda: running.proxy.figures().under_way == 5)
            async with browser() as chromium:
                tab = await chromium.tab(f"http://127.0.0.1:{running.admin_address[1]}/")
                await tab.becomes("document.querySelector('#f-flight').innerText.startsWith('5')")
                labels = await tab.value(
                    "[...document.querySelectorAll('#bars .value')].map(t => +t.textContent)"
                )
                told = await tab.value("document.querySelector('#bars').ariaLabel")
                rows = await tab.value(ROWS)
                threshold = await tab.text("#r-threshold")
                metrics = await tab.value("fetch('metrics').then(r => r.text())")
                q = await tab.value(
                    "[0.5, 0.99, 0.25].map(q => equipoise.quantile(q, [2, 0, 6, 2, 0], "
                    "[0.1, 0.2, 0.4, 0.8]).value)"
                )
                none = await tab.value("equipoise.quantile(0.5, [0, 0], [1])")
                beyond = await tab.value("equipoise.quantile(0.5, [0, 3], [1]).value")
                texts = await tab.value(
                    "[0, 0.000123, 0.0456, 1.5, 300].map(s => equipoise.duration(s).join(' '))"
                )
            over.set()
            await asyncio.gather(*waiting)
            for talk in talks:
                await talk.end()
        return labels, told, rows, threshold, metrics, q, none, beyond, texts

    labels, told, rows, threshold, metrics, q, none, beyond, texts = run(go(), 60)
    slots = {
        line.split('"')[1]: int(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("equipoise_server_slots{")
    }
    assert "\nequipoise_proxy_under_way 5\n" in metrics
    assert sorted(labels) == sorted(slots.values()) == [2, 3]
    assert {row[0].splitlines()[0]: int(row[2]) for row in rows} == slots
    assert told == f"Tasks at 2 servers: {slots['a']}, {slots['b']}. Threshold 1."
    assert threshold == "threshold 1"
    # by hand: rank 5 of 10 is the third of six between 0.2 and 0.4; rank 9.9 lies 1.9/2 into the
    # next; rank 2.5 half a sixth into the first
    assert q == pytest.approx([0.2 + 0.2 * 3 / 6, 0.4 + 0.4 * 1.9 / 2, 0.2 + 0.2 * 0.5 / 6])
    assert none is None
    assert beyond == 1, "the last bound there is"
    assert texts == ["0 µs", "123 µs", "45.6 ms", "1.50 s", "5.00 min"]


def test_it_fits_a_phone_and_a_desk_by_day_and_night():
    """No scrolling sideways, whatever the names; text that can be told from its ground."""

    async def go():
        async with started(*[echo] * 3) as servers:
            names = ["a-rather-long-name-of-a-server.example", "b", "c"]
            listed = [
                {"name": name, "address": f"127.0.0.1:{server.port}", "limit": 9}
                for name, server in zip(names, servers, strict=True)
            ]
            found = {}
            async with (
                dispatcher(servers, servers=listed) as running,
                load(running.address[1]),
                browser() as chromium,
            ):
                url = f"http://127.0.0.1:{running.admin_address[1]}/"
                for width in (1280, 360):
                    for dark in (False, True):
                        tab = await chromium.tab(url, width, 800, dark, width < 500)
                        await tab.becomes("document.querySelectorAll('#response .line').length > 1")
                        found[width, dark] = await tab.value(
                            "({wide: document.documentElement.scrollWidth, "
                            "paper: getComputedStyle(document.body).backgroundColor, "
                            "ink: getComputedStyle(document.querySelector('h1')).color, "
                            "columns: [...document.querySelectorAll('thead th')]"
                            ".filter(th => th.offsetWidth).length, "
                            "least: Math.min(...[...document.querySelectorAll('body *')]"
                            ".filter(e => e.innerText && e.offsetWidth)"
                            ".map(e => parseFloat(getComputedStyle(e).fontSize)))})"
                        )
                        found[width, dark]["said"] = tab.said()
                        await tab.close()
        return found

    def brightness(colour):
        return sum(float(part) for part in colour.strip("rgb()").split(",")[:3]) / 3

    found = run(go(), 60)
    for (width, dark), seen in found.items():
        assert seen["wide"] == width
        assert seen["said"] == []
        assert seen["least"] >= 11.5
        assert (brightness(seen["paper"]) < 60) is dark
        assert abs(brightness(seen["paper"]) - brightness(seen["ink"])) > 150
        assert seen["columns"] == (5 if width < 500 else 7)


@pytest.mark.slow
def test_a_thousand_servers_do_it_no_harm():
    async def go():
        many = [{"name": f"node-{i}", "address": f"127.0.0.1:{i + 1}"} for i in range(1000)]
        async with (
            dispatcher([], servers=many, health={"check": "none"}) as running,
            browser() as chromium,
        ):
            taken = [running.fleet.choose() for _ in range(1700)]
            tab = await chromium.tab(f"http://127.0.0.1:{running.admin_address[1]}/", 360, 800)
            await tab.becomes(f"{H1} === 'All 1,000 servers serve.'")
            await tab.becomes("document.querySelector('#bars .bar') !== null")
            bars = await tab.value("document.querySelectorAll('#bars g:not(.above)').length")
            nodes = await tab.value("document.querySelectorAll('*').length")
            rows = await tab.value("document.querySelectorAll('#table tbody tr').length")
            await tab.value(
                "(() => { const f = document.querySelector('#find'); f.value = 'node-77';"
                "f.dispatchEvent(new Event('input')); })()"
            )
            await tab.becomes("document.querySelectorAll('#table tbody tr').length === 11")
            said = tab.said()
            for slot in taken:
                running.fleet.not_sent(slot, "client_aborted")
        return bars, nodes, rows, said

    bars, nodes, rows, said = run(go(), 60)
    assert 40 < bars <= 100, "neighbours are drawn as one"
    assert rows == 40
    assert nodes < 3000
    assert said == []


@pytest.mark.slow
def test_it_asks_nothing_while_nobody_looks():
    async def go():
        async with (
            started(echo) as servers,
            dispatcher(servers) as running,
            browser() as chromium,
        ):
            tab = await chromium.tab(f"http://127.0.0.1:{running.admin_address[1]}/")
            await tab.becomes("equipoise.past.at.length > 0")
            await tab.value(
                "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
                "document.dispatchEvent(new Event('visibilitychange'))"
            )
            await asyncio.sleep(0.3)
            before = len(tab.asked())
            await asyncio.sleep(2.5)
            hidden = len(tab.asked()) - before
            kept = await tab.value("equipoise.past.at.length")
            await tab.value(
                "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
                "document.dispatchEvent(new Event('visibilitychange'))"
            )
            await tab.becomes(f"equipoise.past.at.length >= {kept} + 2", 0.6)
            gaps = json.loads(
                await tab.value(
                    "JSON.stringify(equipoise.past.at.map((t, i, all) => i ? t - all[i - 1] : 1))"
                )
            )
            return hidden, gaps, await tab.text(".live")

    hidden, gaps, live = run(go(), 60)
    assert hidden == 0
    assert max(gaps) < 1.5, "what it missed is there"
    assert "no answer" not in live
