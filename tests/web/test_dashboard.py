"""The page and its data, as the admin listener gives them; no browser here."""

import asyncio
import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from live.wire import Backend as Server
from live.wire import Talk, echo, run
from web.test_history import Service as Still
from web.test_history import in_metrics, work

from equipoise.live.admin import Admin, Answer, Asked
from equipoise.live.config import Config
from equipoise.live.fleet import Backend
from equipoise.live.metrics import render
from equipoise.live.serve import Service
from equipoise.web.dashboard import MOST, ROWS, Dashboard, dashboard, groups, page
from equipoise.web.figures import FIGURES
from equipoise.web.view import One


class Reader(HTMLParser):
    """The page's attributes, and what is inside its scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.attributes, self.inside = [], {"script": [], "style": []}
        self.now = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.now = tag

    def handle_endtag(self, tag):
        self.now = None

    def handle_data(self, data):
        if self.now in self.inside:
            self.inside[self.now].append(data)


def config(places, admin=True, **more):
    given = {
        "listen": "127.0.0.1:0",
        "seed": 1,
        "servers": [{"name": name, "address": f"127.0.0.1:{port}"} for name, port in places],
        "policies": [{"name": "threshold", "level": 1}],
        "health": {"interval": 0.1, "rise": 1, "fall": 2},
        **more,
    }
    return Config.from_dict({**given, **({"admin": {"listen": "127.0.0.1:0"}} if admin else {})})


def answered(data, **query):
    return json.loads(data.answer({name: str(value) for name, value in query.items()}).body)


# -- the page -----------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere():
    read = Reader(page().body)
    loaded = [
        (tag, name, value)
        for tag, name, value in read.attributes
        if name in ("src", "href", "srcset", "action", "data", "poster")
    ]

    assert {value for _, _, value in loaded if not value.startswith("data:")} == {
        "metrics",
        "status",
        "health",
    }, "links to pages beside it"
    assert [len(inside) for inside in read.inside.values()] == [1, 1]
    addresses = set(re.findall(r"https?://[^\s\"')]+", page().body))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a language"
    assert "url(" not in re.sub(r"url\(#\w+\)", "", read.inside["style"][0])
    assert "@import" not in page().body


def test_nothing_else_may_run_in_it():
    read = Reader(page().body)
    policy = dict(page().fields)["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    for tag in ("script", "style"):
        digest = hashlib.sha256(read.inside[tag][0].encode()).digest()
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert not any(name.startswith("on") or name == "style" for _, name, _ in read.attributes)


def test_every_number_says_which_metric_it_is():
    read = Reader(page().body)
    shown = [value for _, name, value in read.attributes if name == "data-figure"]
    titles = [value for _, name, value in read.attributes if name == "title"]

    assert sorted(shown) == sorted(figure.key for figure in FIGURES)
    assert len(titles) == len(shown)
    assert all("In /metrics: " in title for title in titles)
    assert page().body.count("<dt>") == len(FIGURES)


def test_every_metric_that_the_page_names_is_there():
    names = set()
    for policy in ("threshold(level=1)", "sujsq-det(delta=1.0)"):
        service = Still(0)
        period = 0.1 if policy.startswith("s") else None
        service.fleet = type(service.fleet)(
            policy, [Backend("a", "127.0.0.1", 1, limit=5)], service.fleet.rules, period=period
        )
        service.fleet.core.update() if period else None
        names |= {name for name, _ in in_metrics(service)}
    told = {name for figure in FIGURES for name in re.findall(r"equipoise_(\w+)", figure.formula)}

    assert len(told) > 15
    assert told <= names, told - names


# -- its data -----------------------------------------------------------------------------------


def test_what_was_is_told_from_the_number_that_is_asked_for():
    data = Dashboard(One(Still()))
    for _ in range(5):
        data.sample()
    whole = answered(data)
    rest = answered(data, since=3, start=whole["start"])

    assert whole["samples"]["first"] == 0
    assert len(whole["samples"]["at"]) == 5
    assert rest["samples"]["first"] == 3
    assert rest["samples"]["at"] == whole["samples"]["at"][3:]
    assert rest["samples"]["values"]["threshold"] == [1, 1]


@pytest.mark.parametrize("since", ["", "-1", "x", "1.5", "٣", "9" * 4000, "0x1"])
def test_any_other_number_is_answered_too(since):
    data = Dashboard(One(Still()))
    data.sample()
    found = answered(data, since=since, start=data.start)

    assert found["samples"]["at"] == [] if since.startswith("9") else [0]


def test_a_page_of_an_earlier_start_gets_everything():
    data = Dashboard(One(Still()))
    for _ in range(3):
        data.sample()

    assert answered(data, since=2, start="another")["samples"]["first"] == 0


def test_servers_are_told_with_rates_of_the_last_minute():
    service = Still()
    data = Dashboard(One(service))
    clock = [100.0]
    service.fleet._clock = lambda: clock[0]
    service.fleet.began = 100.0
    data.sample()
    work(service.fleet, 8, 4)
    clock[0] += 20.0
    found = answered(data)["servers"]
    rows = {row["name"]: row for row in found["rows"]}

    assert found["states"] == {"up": 3}
    for name, backend in service.fleet.backends.items():
        assert rows[name]["rate"] == pytest.approx(backend.started / 20.0)
        assert rows[name]["failures"] == backend.failures
        assert rows[name]["slots"] == service.fleet.slots(name)
        assert rows[name].get("mean") == (0.02 if backend.outcomes["ok"] else None)
    assert sum(row["failures"] for row in found["rows"]) == 2, "the timeout and the status"


def test_a_thousand_servers_are_told_in_groups_and_the_worst_by_name():
    service = Still(1000)
    service.fleet.health.checked("s777", False, service.fleet.now, "no answer")
    for _ in range(3):
        service.fleet.health.checked("s500", False, service.fleet.now, "no answer")
    taken = [service.fleet.choose() for _ in range(1500)]
    for slot in taken:
        service.fleet.started(slot)
    data = Dashboard(One(service))
    data.sample()
    answer = data.answer({})
    found = json.loads(answer.body)["servers"]
    one = answered(data, find="S77")["servers"]

    assert len(found["groups"]) == MOST
    assert sum(group["count"] for group in found["groups"]) == 1000
    assert sum(group["slots"] for group in found["groups"]) == 1500
    assert found["groups"][50]["states"] == {"up": 9, "down": 1}
    assert len(found["rows"]) == ROWS
    assert found["rows"][0]["name"] == "s500"
    assert found["rows"][0]["why"] == "no answer"
    assert {row["slots"] for row in found["rows"][1:]} == {2}, "then the fullest"
    assert len(answer.body) < 60_000
    assert one["found"] == 11
    assert {row["name"] for row in one["rows"]} == {"s77"} | {f"s77{i}" for i in range(10)}


@pytest.mark.parametrize("servers", [101, 199, 250, 1000])
def test_groups_are_even_and_hold_everybody(servers):
    names = [str(i) for i in range(servers)]
    found = groups(names, ["up"] * servers, list(range(servers)))
    sizes = {group["count"] for group in found}

    assert len(found) == MOST
    assert max(sizes) - min(sizes) <= 1
    assert [found[0]["first"], found[-1]["last"]] == ["0", str(servers - 1)]
    assert sum(group["slots"] for group in found) == servers * (servers - 1) // 2


def test_however_many_look_it_is_put_together_once_a_sample():
    data = Dashboard(One(Still()))
    data.sample()
    before = data.now
    calls = []
    data.now = lambda find: calls.append(find) or before(find)
    for _ in range(10):
        data.answer({})
    for i in range(40):
        data.answer({"find": str(i)})

    assert calls.count("") == 1
    assert len(data._made) <= 16


def test_a_sample_is_taken_every_second_and_never_caught_up_with():
    service, now = Still(), [0.0]
    data = Dashboard(One(service), clock=lambda: now[0])
    taken = []
    data.sample = lambda: taken.append(now[0])
    for _ in range(200):  # ten seconds, every 50 ms
        now[0] += 0.05
        data.tick()
    regular = len(taken)
    now[0] += 30.0  # it was busy
    for _ in range(20):
        now[0] += 0.05
        data.tick()

    assert regular == 11, "at once, and then each second"
    assert len(taken) in (regular + 1, regular + 2)


# -- as the admin listener serves it ------------------------------------------------------------


def test_pages_that_want_the_query_are_told_it():
    seen = []

    def asked(query):
        seen.append(dict(query))
        return Answer("text/plain", "x", fields=(("X-Test", "1"),))

    async def go():
        admin = Admin({"/a": Asked(asked), "/b": lambda: Answer("text/plain", "y")})
        _, port = await admin.start("127.0.0.1", 0)
        talks = [Talk(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(3)]
        targets = ["/a?since=3&find=a%20b&since=4", "/a", "/b?since=3"]
        found = [await talk.get(target) for talk, target in zip(talks, targets, strict=True)]
        await asyncio.gather(*(talk.end() for talk in talks))
        await admin.close()
        return found

    found = run(go())
    assert seen == [{"since": "4", "find": "a b"}, {}]
    assert [answer.body for answer in found] == [b"x", b"x", b"y"]
    assert [answer.field("x-test") for answer in found] == ["1", "1", None]


def test_it_is_what_the_service_counts():
    """Page, data and metrics of one dispatcher, by their addresses."""

    async def go():
        servers = [Server(echo) for _ in range(2)]
        for server in servers:
            await server.start()
        running = Service(config([("a", servers[0].port), ("b", servers[1].port)]), pages=dashboard)
        await running.start()
        client = Talk(*await asyncio.open_connection("127.0.0.1", running.address[1]))
        for _ in range(20):
            assert (await client.get()).status == 200
        await asyncio.sleep(1.2)
        found = {}
        for target in ("/", "/history", "/metrics", "/status", "/nothing"):
            talk = Talk(*await asyncio.open_connection("127.0.0.1", running.admin_address[1]))
            found[target] = await talk.get(target)
            await talk.end()
        line = running.line()
        await client.end()
        await running.stop()
        for server in servers:
            await server.stop()
        return found, line, running.admin_address[1]

    found, line, port = run(go())
    data = json.loads(found["/history"].body)
    last = {name: column[-1] for name, column in data["samples"]["values"].items()}
    metrics = found["/metrics"].body.decode()
    assert line.endswith(f"; dashboard http://127.0.0.1:{port}/")
    assert found["/"].body.decode() == page().body
    assert found["/"].field("content-security-policy").startswith("default-src 'none'")
    assert found["/nothing"].body == b"there are /, /history, /metrics, /status, /health\n"
    assert last["proxy_requests_total"] == last["server_started_total"] == 20
    assert "\nequipoise_proxy_requests_total 20\n" in metrics
    assert sum(column[-1] for column in data["samples"]["buckets"]) == 20
    assert data["health"]["words"] == "All 2 servers serve."
    assert json.loads(found["/status"].body)["policy"] == data["policy"]


def test_without_an_admin_address_there_is_no_page_and_nothing_is_sampled():
    called = []
    running = Service(config([("a", 1)], admin=False), pages=called.append)

    assert called == []
    assert running.site.pages == {}
    assert "dashboard" not in running.line()


def test_a_service_without_pages_shows_its_status():
    running = Service(config([("a", 1)]))

    assert running.line().endswith("/status")
    assert "/" not in running.admin.pages
    assert "equipoise_up_seconds" in render(running.fleet)
