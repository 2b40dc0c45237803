"""The page of several processes: their sums, their middle threshold, whoever does not answer."""

import asyncio
import json
import os
import signal
from types import SimpleNamespace

import pytest
from live.test_workers import Scene
from live.wire import Backend as Server
from live.wire import Talk, echo, run, until
from web.browser import CHROMIUM, browser
from web.test_history import Service as Still
from web.test_history import work

from equipoise.errors import EquipoiseError
from equipoise.live import reading
from equipoise.live.config import Config
from equipoise.live.fleet import Event, Fleet
from equipoise.live.workers import Workers
from equipoise.web.dashboard import Asking, dashboard
from equipoise.web.view import Joined, joined

H1 = "document.querySelector('h1').innerText"


class Processes:
    """Workers without processes: services in this one, which answer as over a channel."""

    def __init__(self, services):
        self.services = services
        self.workers = [
            SimpleNamespace(index=i, pid=100 + i, runs=True) for i in range(len(services))
        ]
        self.events, self.stopping = [], False
        self.mute, self.asked = set(), []
        self.config = SimpleNamespace(spec=services[0].fleet.core.spec)

    async def ask(self, worker, command):
        self.asked.append(command["what"])
        if worker.index in self.mute:
            await asyncio.sleep(3)
            raise EquipoiseError("a worker did not answer within 3 s")
        found = reading.told(self.services[worker.index], command["what"], command["start"])
        return json.loads(json.dumps(found))


def three(*policies):
    """Three dispatchers that have sent 5, 6 and 7 tasks to the same servers, and ended 2, 3, 4."""
    policies = policies or ("threshold(level=1)", "threshold(level=4)", "threshold(level=2)")
    services = [Still(policy=policy, seed=i) for i, policy in enumerate(policies)]
    for i, service in enumerate(services):
        work(service.fleet, 5 + i, 2 + i)
    return Processes(services)


async def answered(asking, **query):
    return json.loads((await asking.answer(query)).body)


def by_name(data):
    return {row["name"]: row for row in data["servers"]["rows"]}


def test_sums_are_those_of_all_workers_and_the_threshold_is_the_middle_one():
    processes = three()

    async def go():
        asking = Asking(Joined(processes))
        await asking.sample()
        return await answered(asking)

    data = run(go())
    last = {name: column[-1] for name, column in data["samples"]["values"].items()}
    fleets = [service.fleet for service in processes.services]
    slots = {name: sum(f.slots(name) for f in fleets) for name in ("s0", "s1", "s2")}
    assert data["threshold"] == last["threshold"] == 2
    assert data["workers"] == {"count": 3, "silent": [], "apart": 3}
    assert last["server_started_total"] == 5 + 6 + 7
    assert last["server_duration_seconds_count"] == 2 + 3 + 4
    assert last["servers_up"] == 3
    assert {name: row["slots"] for name, row in by_name(data).items()} == slots
    assert (last["least_slots"], last["most_slots"]) == (min(slots.values()), max(slots.values()))
    assert sum(slots.values()) == last["server_slots"] == 3 * 2
    assert data["health"]["words"].startswith("All 3 servers serve")


def test_rates_of_servers_are_those_of_all_workers():
    processes, now = three(), [100.0]

    async def go():
        asking = Asking(Joined(processes, clock=lambda: now[0]), clock=lambda: now[0])
        await asking.sample()
        for service in processes.services:
            work(service.fleet, 9, 6)
        now[0] += 20.0
        return await answered(asking)

    rows = by_name(run(go()))
    assert sum(row["rate"] for row in rows.values()) == pytest.approx(27 / 20, abs=0.002)
    assert sum(row["failures"] for row in rows.values()) == 3 * 2, "a timeout and a status each"


def test_a_worker_that_does_not_answer_stops_nobody_and_sums_stay():
    processes, now = three(), [100.0]

    async def go():
        asking = Asking(Joined(processes, clock=lambda: now[0]), clock=lambda: now[0])
        await asking.sample()
        processes.mute.add(1)
        loop = asyncio.get_running_loop()
        began, found = loop.time(), []
        for second in range(1, 6):
            now[0] = 100.0 + second
            await asking.sample()
            found.append(await answered(asking))
        took = loop.time() - began
        for _, task in asking.view._asking.values():
            task.cancel()
        return found, took

    found, took = run(go())
    assert took < 2.0, "0.4 s for each kind of question, once"
    for data in found:
        assert data["samples"]["values"]["server_started_total"][-1] == 18
    assert found[2]["workers"]["silent"] == []
    assert found[-1]["workers"]["silent"] == [1]
    assert found[-1]["health"]["level"] == "watch"
    assert "Worker 1 does not answer." in found[-1]["health"]["more"]
    assert found[-1]["health"]["words"].startswith("All 3 servers serve")


def test_what_a_process_that_ended_has_counted_stays_and_its_tasks_go():
    processes = three()

    async def go():
        asking = Asking(Joined(processes))
        view = asking.view
        await asking.sample()
        await answered(asking)
        processes.workers[2].runs = False
        await asking.sample()
        without = await answered(asking)
        processes.workers[2].runs, processes.workers[2].pid = True, 999
        processes.services[2] = Still(policy="threshold(level=2)", seed=9)
        work(processes.services[2].fleet, 4, 1)
        await asking.sample()
        again = await answered(asking)
        for worker in processes.workers:
            worker.runs = False
        await asking.sample()
        return without, again, await answered(asking), view.anew

    without, again, none, anew = run(go())

    def last(data, name):
        return data["samples"]["values"][name][-1]

    assert last(without, "server_started_total") == 18
    assert last(without, "server_slots") == 4
    assert sum(row["slots"] for row in by_name(without).values()) == 4
    assert without["workers"]["silent"] == [2]
    assert last(again, "server_started_total") == 18 + 4
    assert last(again, "server_slots") == 4 + 2
    assert again["workers"]["silent"] == []
    assert none["health"] == {"level": "bad", "words": "No worker answers.", "more": []}
    assert last(none, "server_started_total") == 22
    assert last(none, "proxy_under_way") == last(none, "servers_up") == 0
    assert anew == 3 + 1 + 1 + 3


def test_servers_are_asked_for_one_by_one_only_while_somebody_looks():
    processes, now = three(), [0.0]

    async def go():
        asking = Asking(Joined(processes, clock=lambda: now[0]), clock=lambda: now[0])
        seen = []
        for second in range(24):
            now[0] = float(second)
            await asking.sample()
            if second == 12:
                await asyncio.gather(*(answered(asking) for _ in range(5)))
                await answered(asking, find="s1")
            seen.append(processes.asked[::3])
            processes.asked.clear()
        return seen

    seen = run(go())
    assert [i for i, asked in enumerate(seen) if "counts" in asked] == [0, 10, 20]
    assert seen[12] == ["whole", "servers"], "once for all who look"
    assert [asked for asked in seen[13:15]] == [["servers"], ["servers"]]
    assert [i for i, asked in enumerate(seen) if asked == ["whole"]] == [
        *range(1, 10), 11, *range(15, 20), 21, 22, 23
    ]  # fmt: skip


def test_before_any_worker_has_answered_the_page_says_so():
    processes = three()
    for worker in processes.workers:
        worker.runs = False

    async def go():
        asking = Asking(Joined(processes))
        return await answered(asking)

    data = run(go())
    assert data["health"]["words"] == "No worker answers."
    assert data["samples"]["at"] == []


def test_what_several_workers_notice_is_one_event_and_thresholds_are_the_middle_ones(monkeypatch):
    policy = "learning-threshold(alpha=0.1)"
    processes = three(policy, policy, policy)
    text = "b is down: its check failed"
    processes.events += [
        Event(10.0, f"worker 0: {text}"),
        Event(10.2, f"worker 2: {text}"),
        Event(10.3, "worker 1: threshold 1 -> 2"),
        Event(11.0, "worker 1, process 7, was ended by SIGKILL; another is started in 0.1 s"),
        Event(12.0, f"worker 1: {text}"),
        Event(60.0, f"worker 0: {text}"),
    ]

    async def go():
        asking = Asking(Joined(processes))
        await asking.sample()
        await asking.sample()
        levels = {s.fleet: n for s, n in zip(processes.services, (3, 7, 5), strict=True)}
        monkeypatch.setattr(Fleet, "threshold", property(levels.get))
        await asking.sample()
        return await answered(asking)

    before = sorted(service.fleet.threshold for service in processes.services)[1]
    events = run(go())["events"]
    assert [(event["text"], event["workers"]) for event in events] == [
        (text, [0, 1, 2]),
        ("worker 1, process 7, was ended by SIGKILL; another is started in 0.1 s", []),
        (text, [0]),
        (f"threshold {before} -> 5", []),
    ]


def test_many_servers_are_told_in_parts_and_all_are_there():
    processes = Processes([Still(1234, seed=seed) for seed in (1, 2)])
    for service in processes.services:
        work(service.fleet, 900, 100)

    async def go():
        asking = Asking(Joined(processes))
        await asking.sample()
        return await answered(asking), asking.view.counts()

    data, (names, counted) = run(go())
    assert processes.asked.count("servers") == processes.asked.count("counts") == 2 * 3
    assert data["servers"]["count"] == 1234
    assert sum(group["slots"] for group in data["servers"]["groups"]) == 2 * (900 - 101)
    assert names == [f"s{i}" for i in range(1234)]
    assert counted[:, 0].sum() == 2 * 900


def row(**given):
    start = {"name": "a", "address": "x:1", "state": "up", "why": "", "for": 9.0, "slots": 1}
    return {**start, "limit": None, **given}


def test_a_server_is_as_most_workers_see_it():
    seen = joined(
        [
            row(limit=3, most=2, told=0.5),
            row(state="down", why="refused", slots=0, limit=3, most=1, told=0.1, **{"for": 2.0}),
            row(state="down", why="refused", slots=4, limit=2, most=6, told=0.2, **{"for": 3.0}),
        ]
    )

    assert seen == row(
        state="down", why="refused", slots=5, limit=8, most=9, told=0.5, **{"for": 3.0}
    )


def test_what_agents_tell_is_of_all_tasks_and_is_not_added_up():
    agent = {"state": "open", "heard_seconds": 0.5, "why": ""}
    unheard = {"state": "unheard", "heard_seconds": 9.0, "why": "no answer"}
    seen = joined(
        [
            row(slots=2, most=7, told=0.3, agent=agent),
            row(slots=3, most=6, told=0.1, agent={**agent, "heard_seconds": 0.1}),
            row(slots=1, agent=unheard),
        ]
    )

    assert (seen["slots"], seen["most"], seen["told"]) == (6, 6, 0.1)
    assert seen["agent"] == {**agent, "heard_seconds": 0.1}


# -- processes ----------------------------------------------------------------------------------


async def asked(workers, target):
    talk = Talk(*await asyncio.open_connection("127.0.0.1", workers.admin_address[1]))
    try:
        return (await talk.get(target)).body.decode()
    finally:
        await talk.end()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_real_workers_are_one_page_whatever_becomes_of_one(tmp_path):
    async def go():
        servers = {name: Server(echo) for name in "ab"}
        for server in servers.values():
            await server.start()
        scene = Scene(tmp_path, servers)
        scene.write("ab", "learning-threshold")
        workers = scene.workers = Workers(Config.from_toml(scene.file), pages=dashboard)
        await workers.start()
        found = {"line": workers.line()}
        try:
            await scene.many(40)
            async with browser() as chromium:
                tab = await chromium.tab(f"http://127.0.0.1:{workers.admin_address[1]}/")
                await tab.becomes(f"{H1} === 'All 2 servers serve.'", 20)
                await tab.becomes("equipoise.past.values.proxy_requests_total.at(-1) === 40", 20)
                found["facts"] = await tab.text("#facts")
                found["legend"] = await tab.text("#states")
                found["metrics"] = await asked(workers, "/metrics")
                stopped = workers.workers[0]
                os.kill(stopped.pid, signal.SIGSTOP)
                try:
                    sentence = "document.querySelector('#more').innerText"
                    await tab.becomes(f"{sentence} === 'Worker 0 does not answer.'", 20)
                    at = await tab.value("equipoise.past.first + equipoise.past.at.length")
                    await tab.becomes(
                        f"equipoise.past.first + equipoise.past.at.length > {at} + 2", 15
                    )
                    found["stale"] = await tab.value("document.body.classList.contains('stale')")
                finally:
                    os.kill(stopped.pid, signal.SIGCONT)
                await tab.becomes("document.querySelector('#more').hidden", 20)
                killed = stopped.pid
                os.kill(killed, signal.SIGKILL)
                await until(lambda: stopped.pid != killed and stopped.runs, 30)
                await tab.becomes("document.querySelector('#more').hidden", 20)
                await scene.many(10)
                await tab.becomes("equipoise.past.values.proxy_requests_total.at(-1) === 50", 20)
                found["least"] = await tab.value(
                    "Math.min(...equipoise.past.values.proxy_requests_total"
                    ".map((x, i, all) => i ? x - all[i - 1] : 0))"
                )
                found["events"] = await tab.text("#events")
                found["said"] = tab.said()
        finally:
            await workers.stop(0.0)
            for server in servers.values():
                await server.stop()
        return found

    found = run(go(), 120)
    assert "; dashboard http://127.0.0.1:" in found["line"]
    assert "2 workers" in found["facts"]
    assert "at each of 2 workers" in found["legend"]
    each = [
        int(line.split()[-1])
        for line in found["metrics"].splitlines()
        if line.startswith("equipoise_proxy_requests_total{")
    ]
    assert sum(each) == 40
    assert found["stale"] is False
    assert found["least"] == 0, "no sum falls when a process ends"
    assert "was ended by SIGKILL" in found["events"]
    assert found["said"] == []


def test_the_parent_of_workers_offers_the_page(tmp_path):
    """As its line says; without pages, or without an admin address, it has none."""
    config = {
        "listen": "127.0.0.1:0",
        "workers": 2,
        "servers": [{"address": "127.0.0.1:1"}],
        "policies": [{"name": "jsq"}],
    }
    admin = {"admin": {"listen": "127.0.0.1:0"}}
    with_page = Workers(Config.from_dict({**config, **admin}), pages=dashboard)
    bare = Workers(Config.from_dict({**config, **admin}))
    called = []
    unseen = Workers(Config.from_dict(config), pages=called.append)

    assert list(with_page.admin.pages) == ["/", "/history", "/metrics", "/status", "/health"]
    assert with_page.site.shown("http://x:1") == "dashboard http://x:1/"
    assert bare.site.shown("http://x:1") == "status http://x:1/status"
    assert "/" not in bare.admin.pages
    assert called == []
    assert unseen.site.pages == {}
