"""Dispatchers, sidecars and servers over real connections, and between them a relay that spoils."""

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import pytest
from live import chaos
from live.net import beliefs, truth
from live.relay import Relay
from live.test_together import Real
from live.wire import Backend as Server
from live.wire import Talk, run, until

from equipoise.live.config import Config
from equipoise.live.serve import Service
from equipoise.live.sidecar import Settings, Sidecar


async def brief(seen, link):
    """A task of a few milliseconds, by the luck of its number."""
    await asyncio.sleep(random.Random(seen.target).expovariate(200))
    await link.answer(b"done")


class Place:
    """A server, its sidecar, and the relay on the way to its agent."""

    def __init__(self, behave=brief, limit=None):
        self.server, self.limit = Server(behave), limit
        self.server.records = False
        self.ports = (0, 0)

    async def start(self):
        await self.server.start()
        await self.boot()
        self.relay = Relay(self.ports[1])
        await self.relay.start()

    async def boot(self):
        listen, status = (f"127.0.0.1:{port}" for port in self.ports)
        server = f"127.0.0.1:{self.server.port}"
        self.sidecar = Sidecar(
            Settings(listen=listen, server=server, status=status, limit=self.limit)
        )
        await self.sidecar.start()
        self.ports = self.sidecar.address[1], self.sidecar.status_address[1]

    async def restart(self):
        await self.sidecar.stop(0.0)
        await self.boot()

    async def stop(self):
        await self.relay.stop()
        await self.sidecar.stop(0.0)
        await self.server.stop()


def config(places, policy, unheard=3.0, **more):
    return Config.from_dict(
        {
            "listen": "127.0.0.1:0",
            "seed": 1,
            "servers": [
                {
                    "name": chr(97 + i),
                    "address": f"127.0.0.1:{place.ports[0]}",
                    "agent": f"127.0.0.1:{place.relay.port}",
                }
                for i, place in enumerate(places)
            ],
            "policies": [policy if isinstance(policy, dict) else {"name": policy}],
            "health": {"check": "none", "penalty": 0.05, "failures": 0},
            "agents": {"unheard": unheard},
            **more,
        }
    )


@asynccontextmanager
async def scene(policy="jsq", servers=3, dispatchers=1, behave=brief, limit=None, **given):
    places = [Place(behave, limit) for _ in range(servers)]
    for place in places:
        await place.start()
    services = [Service(config(places, policy, **given)) for _ in range(dispatchers)]
    for service in services:
        await service.start()
    try:
        yield places, services
    finally:
        for service in services:
            await service.stop(0.0)
        for place in places:
            await place.stop()


async def load(service, tasks=10**9, *, clients=8, aborts=0.1, seed=1, until=None):
    """Send so many tasks, or until it is enough, some of whose clients leave; return statuses."""
    luck, found = random.Random(seed), []
    port = service.address[1]

    async def client(numbers):
        talk = None
        for number in numbers:
            if until is not None and until.is_set():
                break
            talk = talk or Talk(*await asyncio.open_connection("127.0.0.1", port))
            what = asyncio.ensure_future(talk.get(f"/{number}"))
            try:
                leaves = luck.random() < aborts
                patience = luck.random() * 0.004 if leaves else 5.0
                found.append((await asyncio.wait_for(what, patience)).status)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                found.append(0)
                talk.reset()
                talk = None
        if talk is not None:
            await talk.end()

    await asyncio.gather(*(client(range(i, tasks, clients)) for i in range(clients)))
    return found


def rests(service, places):
    """Whether nothing is left of anything, and every belief is right."""
    core, hearing = service.fleet.core, service.fleet.hearing
    lengths = {chr(97 + i): place.sidecar.agent.length for i, place in enumerate(places)}
    return (
        not any(lengths.values())
        and set(core.lengths().values()) == {0}
        and all(server.slots == 0 for server in core.servers)
        and core.spurious == 0
        and all(
            ear.state == "open"
            and not (ear.out or ear.carried or ear.over or ear.said)
            and ear.received == ear.issued
            for ear in hearing.ears.values()
        )
        and beliefs(core) == truth(core, lengths)
    )


async def cut(places):
    luck = random.Random(1)
    for _ in range(15):
        luck.choice(places).relay.cut()
        await asyncio.sleep(0.1)


async def half_open(places):
    places[0].relay.hold = True
    await asyncio.sleep(2.0)
    places[0].relay.hold = False


async def spoilt(places):
    for place in places:
        place.relay.overtaken, place.relay.twice, place.relay.missing = 0.3, 0.3, 0.1
    await asyncio.sleep(1.0)


async def delayed(places):
    for place in places:
        place.relay.delay = 1.0
    await asyncio.sleep(5.0)


async def restarted(places):
    for _ in range(3):
        await asyncio.sleep(0.3)
        await places[0].restart()


async def replayed(places):
    """After a restart a cache on the way answers with what the last generation said."""
    place = places[0]
    for _ in range(2):
        await asyncio.sleep(0.4)
        old = list(place.relay.lines)
        await place.sidecar.stop(0.0)
        place.relay.replay = old
        await place.boot()


async def nothing(places):
    await asyncio.sleep(0.5)


FAULTS = [
    nothing,
    cut,
    half_open,
    spoilt,
    pytest.param(delayed, marks=pytest.mark.slow),
    restarted,
    pytest.param(replayed, marks=pytest.mark.slow),
]
POLICIES = ["jsq", pytest.param({"name": "threshold", "level": 2}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_all_beliefs_are_right_again_at_rest(fault, policy):
    async def scenario():
        async with scene(policy, unheard=3.0 if fault is delayed else 1.2) as (places, services):
            (service,) = services
            enough = asyncio.Event()
            going = asyncio.ensure_future(load(service, until=enough))
            await asyncio.sleep(0.1)
            await fault(places)
            enough.set()
            statuses = await going
            await until(lambda: rests(service, places), 12.0)
            return statuses, service.fleet.status()

    statuses, status = run(scenario(), 60.0)
    assert set(statuses) <= {0, 200, 502, 503}
    assert statuses.count(200) > 0.8 * len(statuses) > 100
    assert status["spurious_releases"] == 0
    if fault is spoilt:
        assert status["agents"]["dropped"]["out of order"] > 10
        assert status["agents"]["gaps"] > 10
    if fault in (restarted, replayed):
        assert status["agents"]["restarts"] >= 2
    if fault is nothing:
        assert set(statuses) == {0, 200}


def test_every_slot_comes_back_where_no_agent_ever_answers(monkeypatch):
    """Clients that leave, servers that fail, are killed, ejected and come back; all are unheard."""

    class Unheard(Real):
        unheard = 0.2

        def settled(self):
            carried = [ear.carried or ear.out for ear in self.hearing.ears.values()]
            return super().settled() and not any(carried)

    monkeypatch.setattr(chaos, "Brief", Unheard)

    found = run(chaos.chaos(1000, kills=3), seconds=60)

    chaos.check(found, 1000)


def test_two_dispatchers_on_one_agent_each_end_with_the_truth():
    async def scenario():
        async with scene("jsq", dispatchers=2) as (places, services):
            await asyncio.gather(*(load(s, 300, seed=i) for i, s in enumerate(services)))
            for service in services:
                await until(lambda service=service: rests(service, places))
            links = [len(place.sidecar.agent.links) for place in places]
            return links, services[0].fleet.hearing.name, services[1].fleet.hearing.name

    links, one, other = run(scenario())
    assert links == [2, 2, 2]
    assert one != other


def test_a_dispatcher_that_is_started_again_begins_with_what_agents_tell():
    async def hold(seen, link):
        await asyncio.sleep(1.0)
        await link.answer(b"done")

    async def scenario():
        async with scene("jsq", behave=hold, servers=2) as (places, services):
            (first,) = services
            going = asyncio.ensure_future(load(first, 6, clients=6, aborts=0.0))
            await until(lambda: sum(place.sidecar.agent.length for place in places) == 6)
            second = Service(config(places, "jsq"))
            await second.start()
            believed = beliefs(second.fleet.core)
            await going
            await until(lambda: rests(second, places))
            await second.stop()
            return believed

    assert run(scenario()) == {"a": 3, "b": 3}


def test_a_full_server_refuses_and_another_takes_the_task_whatever_its_method():
    """Two dispatchers without a view of each other before servers that take two tasks each."""
    release = []

    async def hold(seen, link):
        event = asyncio.Event()
        release.append(event)
        await event.wait()
        await link.answer(seen.body)

    async def scenario():
        async with scene("jiq", servers=2, behave=hold, limit=1) as (places, services):
            (service,) = services
            port, fleet = service.address[1], service.fleet
            talks = [Talk(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(3)]
            direct = Talk(*await asyncio.open_connection("127.0.0.1", places[0].ports[0]))
            beside = asyncio.ensure_future(direct.post(b"beside"))  # nobody's
            await until(lambda: len(release) == 1)
            answers = [asyncio.ensure_future(talks[0].post(b"first"))]
            await until(lambda: len(release) == 2)
            third = await talks[1].post(b"third")
            for event in release:
                event.set()
            first = await answers[0]
            await beside
            await until(lambda: rests(service, places))
            outcomes = {n: dict(b.outcomes) for n, b in fleet.backends.items()}
            failures = sum(b.failures for b in fleet.backends.values())
            for talk in [*talks, direct]:
                await talk.end()
            return first, third, outcomes, failures, fleet.retries

    first, third, outcomes, failures, retries = run(scenario())
    assert (first.status, first.body) == (200, b"first")
    assert third.status == 503
    assert third.field("equipoise-refused") == "full"
    assert third.field("retry-after") == "1"
    assert outcomes["b"]["ok"] == 1
    assert outcomes["a"]["refused_full"] >= 1
    assert failures == 0
    assert retries >= 1


def test_what_clients_say_of_tasks_is_not_passed_on():
    seen = []

    async def note(request, link):
        seen.append(request)
        await link.answer(b"x")

    async def scenario():
        server = Server(note)
        await server.start()
        place = Place()
        await place.start()
        text = config([place], "jsq").model_dump()
        text["servers"] = [
            {"address": f"127.0.0.1:{server.port}", "agent": f"127.0.0.1:{place.relay.port}"}
        ]
        service = Service(Config.from_dict({k: v for k, v in text.items() if v is not None}))
        await service.start()
        talk = Talk(*await asyncio.open_connection("127.0.0.1", service.address[1]))
        await talk.get("/", "Equipoise-Task: me 7")
        refused = await talk.get("/.well-known/equipoise")
        await talk.end()
        name = service.fleet.hearing.ears[next(iter(service.fleet.backends))].dispatcher
        await service.stop()
        await place.stop()
        await server.stop()
        return name, refused.status

    name, status = run(scenario())
    assert seen[0].field("equipoise-task") == f"{name} 1"
    assert status == 404
    assert len(seen) == 1


def test_states_and_metrics_say_what_is_heard():
    async def scenario():
        async with scene("jiq", servers=2, unheard=1.2) as (places, services):
            (service,) = services
            before = service.status()
            for place in places:
                place.relay.hold = True
            await until(lambda: service.fleet.hearing.deaf, 5.0)
            after, page = service.status(), service._metrics().body
            with suppress(OSError):
                await places[0].relay.stop()
            return before, after, page

    before, after, page = run(scenario())
    assert before["agents"]["open"] == 2
    assert before["agents"]["deaf"] is False
    assert before["agents"]["messages"]["answer"] == 2
    one = before["servers"][0]["agent"]
    assert one["state"] == "open"
    assert one["messages"] == 1
    assert abs(one["skew_seconds"]) < 0.5
    assert after["agents"]["deaf"] is True
    assert after["agents"]["unheard"] == 2
    assert after["servers"][0]["agent"]["state"] == "unheard"
    assert "equipoise_deaf 1\n" in page
    assert "equipoise_unheard_servers 2\n" in page
    assert 'equipoise_server_unheard{server="a"} 1\n' in page


@pytest.mark.parametrize(
    ("policy", "questions"),
    [({"name": "aujsq-exp", "mode": "push"}, 2), ({"name": "sujsq-exp"}, 2), ("sujsq-det", 1)],
    ids=str,
)
def test_updates_come_by_whoevers_clock_and_are_counted(policy, questions):
    """50 ms between two updates of a server: 2 servers in 1 s make 40, with questions 80."""

    async def scenario():
        async with scene(policy, servers=2, mean_service=0.05) as (_, services):
            core = services[0].fleet.core
            before = core.messages()["update"]
            await asyncio.sleep(1.0)
            return core.messages()["update"] - before

    assert abs(run(scenario()) / questions - 40) < 4 * 40**0.5
