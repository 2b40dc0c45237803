"""Fleet and proxy together, before servers that fail, are killed and come back."""

import asyncio
from collections import Counter

from live import chaos
from live.wire import Backend as Server
from live.wire import Talk, echo, run, until

from equipoise.live.config import Config
from equipoise.live.fleet import Backend, Fleet
from equipoise.live.health import Rules, State
from equipoise.live.serve import Service


class Real(Fleet):
    """The fleet that serves, with the account that the proxy's tests ask for."""

    unheard = None  # as the fleet takes it

    def __init__(self, places, policy, limit=None):
        servers = [Backend(name, *place, limit=limit) for name, place in places.items()]
        rules = Rules(check="none", failures=4, back_off=0.05, back_off_most=0.2, penalty=0.05)
        super().__init__(policy, servers, rules, seed=1, unheard=self.unheard)
        self.logged, self.outcomes, self.odd = 0, Counter(), []

    def choose(self, exclude=None):
        self.tick()
        return super().choose(exclude)

    def log(self, record):
        super().log(record)
        self.logged += 1
        self.outcomes[record.outcome] += 1

    def settled(self):
        """Whether every slot came back, penalties too."""
        self.tick()
        servers = self.backends.values()
        return (
            self.core.spurious == 0
            and all(self.core.server(b.name).slots == 0 for b in servers)
            and all(b.chosen == b.not_sent + sum(b.outcomes.values()) for b in servers)
            and not any(self.core.lengths().values())
        )

    def account(self):
        ends = Counter()
        for backend in self.backends.values():
            ends.update(backend.outcomes)
            ends["not_sent"] += backend.not_sent
        return ends


def test_every_slot_comes_back_whatever_clients_and_servers_do(monkeypatch):
    """Ejections, recoveries, penalties and a limit per server among 2000 requests."""
    monkeypatch.setattr(chaos, "Brief", Real)

    found = run(chaos.chaos(2000, kills=6), seconds=60)

    chaos.check(found, 2000)


def service(servers, policy="jsq", **health):
    """A dispatcher before these servers, on a free port."""
    return Service(
        Config.from_dict(
            {
                "listen": "127.0.0.1:0",
                "seed": 1,
                "servers": [
                    {"name": chr(97 + i), "address": f"127.0.0.1:{server.port}"}
                    for i, server in enumerate(servers)
                ],
                "policies": [{"name": policy}],
                "health": {"interval": 0.05, "rise": 1, "fall": 2, **health},
            }
        )
    )


async def broken(seen, link):
    """Fail at once, and well at checks: those only connect."""
    await link.answer(b"no", "500 Internal Server Error")


async def slow(seen, link):
    """Take 5 ms."""
    await asyncio.sleep(0.005)
    await link.answer(b"yes")


async def asking(port, requests):
    """Ask one after the other on one connection; return the statuses."""
    talk = Talk(*await asyncio.open_connection("127.0.0.1", port))
    found = [(await talk.get()).status for _ in range(requests)]
    await talk.end()
    return found


async def served(behaviours, requests, clients, **given):
    """Serve so many requests before servers that behave so; return statuses and the fleet."""
    servers = [Server(behave) for behave in behaviours]
    for server in servers:
        await server.start()
    running = service(servers, **given)
    await running.start()
    many = [asking(running.address[1], requests // clients) for _ in range(clients)]
    statuses = [status for one in await asyncio.gather(*many) for status in one]
    await until(lambda: not any(running.fleet.slots(name) for name in running.fleet.backends))
    cut = await running.stop()
    for server in servers:
        await server.stop()
    assert cut == 0
    return statuses, running.fleet


def test_a_server_that_fails_at_once_does_not_attract_the_traffic():
    """Without the penalty it would be idle whenever anybody looks."""
    attracted, _ = run(served([broken, slow, slow], 600, 6, failures=0, penalty=0.0))
    kept_off, fleet = run(served([broken, slow, slow], 600, 6, failures=0, penalty=1.0))

    assert attracted.count(500) > 300
    assert kept_off.count(500) < 60
    assert fleet.backends["a"].statuses[5] == fleet.backends["a"].failures == kept_off.count(500)


def test_a_server_that_fails_again_and_again_is_ejected():
    statuses, fleet = run(served([broken, slow, slow], 600, 6, penalty=0.0, back_off=60.0))

    assert fleet.state("a") is State.EJECTED
    assert statuses.count(500) <= 5 + 6, "the fifth failure ejects; others were under way"
    assert statuses.count(200) == 600 - statuses.count(500)


def test_a_server_that_is_killed_costs_no_request_and_comes_back():
    async def scenario():
        servers = [Server(echo), Server(echo)]
        for server in servers:
            await server.start()
        running = service(servers, policy="jiq", penalty=0.0)
        await running.start()
        port = running.address[1]
        assert set(await asking(port, 40)) == {200}

        await servers[0].stop()
        during = await asking(port, 40)
        await until(lambda: running.fleet.state("a") is not State.UP)
        await servers[0].start()
        await until(lambda: running.fleet.state("a") is State.UP)
        before = running.fleet.backends["a"].chosen
        after = await asking(port, 40)
        chosen = running.fleet.backends["a"].chosen - before
        await running.stop()
        for server in servers:
            await server.stop()
        return during, after, chosen, running.fleet

    during, after, chosen, fleet = run(scenario())
    assert set(during) == set(after) == {200}
    assert chosen > 0
    assert fleet.core.spurious == 0
    assert set(fleet.core.lengths().values()) == {0}


def test_a_server_is_removed_under_load_without_a_failure():
    async def scenario():
        servers = [Server(slow), Server(slow)]
        for server in servers:
            await server.start()
        running = service(servers)
        await running.start()
        load = [asyncio.create_task(asking(running.address[1], 60)) for _ in range(4)]
        await until(lambda: running.fleet.backends["a"].chosen > 20)
        running.fleet.remove("a")
        seen = [running.fleet.slots("a")]
        await until(lambda: "a" not in running.fleet.backends)
        statuses = [status for one in await asyncio.gather(*load) for status in one]
        await running.stop()
        for server in servers:
            await server.stop()
        return seen, statuses

    seen, statuses = run(scenario())
    assert seen[0] > 0, "it was draining"
    assert set(statuses) == {200}


def test_a_policy_with_a_clock_is_driven_in_real_time():
    async def scenario():
        servers = [Server(echo), Server(echo)]
        for server in servers:
            await server.start()
        running = Service(
            Config.from_dict(
                {
                    "listen": "127.0.0.1:0",
                    "mean_service": 0.01,
                    "servers": [{"address": f"127.0.0.1:{server.port}"} for server in servers],
                    "policies": [{"name": "sujsq-det", "delta": 1.0}],
                }
            )
        )
        await running.start()
        before = running.fleet.core.messages()["update"]
        await asyncio.sleep(0.5)
        updates = running.fleet.core.messages()["update"] - before
        await running.stop()
        for server in servers:
            await server.stop()
        return updates

    assert 60 <= run(scenario()) <= 104, "two servers, every 10 ms, for half a second"
