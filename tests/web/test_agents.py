"""The page where servers tell: who is heard, who is not, and who is heard again."""

import asyncio
import random

import pytest
from live.test_agents_together import Place
from live.test_agents_together import config as with_agents
from live.wire import run, until
from web.browser import CHROMIUM, browser
from web.test_in_browser import H1, ROWS, load

from equipoise.live.serve import Service
from equipoise.web.dashboard import Dashboard, dashboard
from equipoise.web.view import One

TABLE = "(() => { const t = document.querySelector('#table'); return t.offsetWidth; })()"
MAIN = "document.querySelector('#main').clientWidth"


async def brief(seen, link):
    await asyncio.sleep(random.Random(seen.target).expovariate(50))
    await link.answer(b"done")


def said(service, name):
    """Whether it is said why a server is not heard."""
    status = service.fleet.hearing.status(name, service.fleet.now)
    return status["state"] == "unheard" and status["why"]


async def stop(service, places):
    await service.stop(0.0)
    for place in places:
        await place.stop()


async def before(count, **given):
    """A dispatcher before servers with sidecars, relays between them."""
    places = [Place(brief) for _ in range(count)]
    for place in places:
        await place.start()
    policy = {"name": "threshold", "level": 2}
    config = with_agents(places, policy, admin={"listen": "127.0.0.1:0"}, **given)
    service = Service(config, pages=dashboard)
    await service.start()
    return places, service


def test_the_data_tell_who_is_heard():
    async def go():
        places, service = await before(2, unheard=1.2)
        data = Dashboard(One(service))
        data.sample()
        heard = data.now()
        places[1].relay.hold = True
        await until(lambda: said(service, "b"), 5.0)
        one = data.now()
        places[0].relay.hold = True
        await until(lambda: service.fleet.hearing.deaf and said(service, "a"), 5.0)
        none = data.now()
        for place in places:
            place.relay.hold = False
        await until(lambda: not any(e.unheard for e in service.fleet.hearing.ears.values()), 8.0)
        again = data.now()
        await stop(service, places)
        return heard, one, none, again

    heard, one, none, again = run(go(), 30)
    assert heard["agents"] == {"count": 2, "open": 2, "deaf": False}
    assert heard["health"]["level"] == "good"
    assert heard["servers"]["rows"][1]["agent"]["state"] == "open"
    assert one["agents"] == {"count": 2, "open": 1, "deaf": False}
    assert one["health"] == {
        "level": "watch",
        "words": "All 2 servers serve.",
        "more": ("b is not heard: its agent was silent for 1.2 s.",),
    }
    assert one["servers"]["rows"][1]["agent"]["state"] == "unheard"
    assert none["agents"] == {"count": 2, "open": 0, "deaf": True}
    assert none["health"]["level"] == "bad"
    assert none["health"]["words"] == (
        "All 2 servers serve, but none is heard: choices are random."
    )
    assert again["health"] == heard["health"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_server_that_is_not_heard_is_seen_to_be_and_to_be_heard_again():
    async def go():
        places, service = await before(3, unheard=1.5)
        found = {}
        async with load(service.address[1], 6), browser() as chromium:
            url = f"http://127.0.0.1:{service.admin_address[1]}/"
            wide = await chromium.tab(url)
            phone = await chromium.tab(url, 360, 800, phone=True)
            await wide.becomes(f"{H1} === 'All 3 servers serve.'")
            found["start"] = await wide.value(ROWS)
            places[1].relay.hold = True
            await wide.becomes(
                "document.querySelector('#more').innerText.startsWith('b is not heard')", 10
            )
            found["wide"] = await wide.value(ROWS)
            await phone.becomes("document.querySelector('#bars').textContent.includes('not heard')")
            found["phone"] = await phone.value(ROWS)
            found["fits"] = await phone.value(f"{TABLE} <= {MAIN}")
            for place in places:
                place.relay.hold = True
            await wide.becomes(f"{H1}.endsWith('but none is heard: choices are random.')", 10)
            found["title"] = await wide.value("document.title")
            for place in places:
                place.relay.hold = False
            await wide.becomes(f"{H1} === 'All 3 servers serve.'", 10)
            await wide.becomes("document.querySelector('#x-agents').innerText.includes('3 of 3')")
            found["events"] = await wide.text("#main")
            found["said"] = [*wide.said(), *phone.said()]
            found["labels"] = await wide.value("""(() => {
                const boxes = (what) => [...document.querySelectorAll('#bars ' + what)]
                    .map((e) => e.getBoundingClientRect());
                return boxes('.most').every((m) => boxes('.value').every((v) =>
                    m.right < v.left || m.left > v.right || m.top > v.bottom - 5
                    || m.bottom < v.top));
            })()""")
        await stop(service, places)
        return found

    found = run(go(), 90)
    assert {row[-1].split(" ")[0] for row in found["start"]} == {"heard"}
    assert found["wide"][1][-1] == "unheard: its agent was silent for 1.5 s"
    assert "agent unheard: its agent was silent for 1.5 s" in found["phone"][1][0]
    assert "agent" not in found["phone"][0][0]
    assert found["fits"]
    assert found["title"].startswith("✕ All 3 servers serve, but none is heard")
    assert "b is heard again" in found["events"]
    assert "no server is heard: tasks go to servers at random" in found["events"]
    assert found["labels"], "a number stands clear of its diamond"
    assert found["said"] == []
