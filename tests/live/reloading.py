"""Load under reloads, servers that come and go, and clients that leave; an account of it all."""

import asyncio
import gc
import os
import random
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from live.wire import Backend, Talk, until

from equipoise.live.config import Config
from equipoise.live.control import Control, ask
from equipoise.live.core import warm_up
from equipoise.live.serve import Service

NAMES = "abcdef"
POLICIES = ["jsq", "threshold(level=2)", "jiq", "learning-threshold(alpha=0.3)", "round-robin"]


class Found(NamedTuple):
    """What came of it."""

    answers: Counter  # what each request came to, for its client
    outcomes: Counter  # as the fleet counts them, of servers that are gone too
    chosen: Counter  # of each server
    reloads: int
    changes: int  # through control
    objects: list  # known to the garbage collector: after a fifth, at the end
    left: dict  # of sockets and tasks, at the end
    spurious: int


def sockets():
    """How many this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


def write(file, ports, names, policy, turn):
    tables = "".join(
        f'[[servers]]\nname = "{name}"\naddress = "127.0.0.1:{ports[name]}"\n'
        f"speed = {1 + (turn + i) % 3}\n"
        for i, name in enumerate(names)
    )
    file.write_text(
        f'listen = "127.0.0.1:0"\nseed = 1\n{tables}[[policies]]\nname = "{policy}"\n'
        f"[health]\ninterval = 0.2\npenalty = 0.0\n[limits]\nqueue = {1000 + turn % 7}\n"
    )


async def load(folder, requests, *, every, clients=16, seed=1):
    """Send so many requests while the file changes every so many seconds; return what came of it.

    Two servers stay throughout; of two more the file says in turns that they are there, and two
    more are added and removed through the control socket.
    """
    for policy in POLICIES:  # what is compiled stays, and is no leak
        warm_up(policy)
    answers, outcomes, chosen, objects = Counter(), Counter(), Counter(), []
    at_first = sockets()
    tasks_before = len(asyncio.all_tasks())

    def behaviour(name):
        async def behave(seen, link):
            if seen.target.endswith("/slow"):
                await asyncio.sleep(0.02)
            await link.answer(name.encode() + seen.target.encode() + seen.body)

        return behave

    servers = {name: Backend(behaviour(name)) for name in NAMES}
    for server in servers.values():
        server.records = False
        await server.start()
    ports = {name: server.port for name, server in servers.items()}
    file, path = folder / "d.toml", folder / "c.sock"
    write(file, ports, "abcd", POLICIES[0], 0)
    service = Service(Config.from_toml(file), path=file)
    await service.start()
    control = Control(path, service.command)
    await control.start()
    gone = service.fleet.on_gone
    fleet = service.fleet

    def count(backend):
        outcomes.update(backend.outcomes)
        outcomes["not_sent"] += backend.not_sent
        chosen[backend.name] += backend.chosen

    def noted(backend):
        count(backend)
        gone(backend)

    fleet.on_gone = noted
    over = False
    reloads = changes = 0

    async def reloading():
        nonlocal reloads
        while not over:
            await asyncio.sleep(every)
            reloads += 1
            names = ["ab", "abc", "abcd", "abd"][reloads % 4]
            write(file, ports, names, POLICIES[reloads % len(POLICIES)], reloads)
            await service.reload()

    async def changing():
        nonlocal changes
        luck = random.Random(seed)
        there = set()
        while not over:
            await asyncio.sleep(every * luck.random())
            name = luck.choice("ef")
            if name in there:
                command = {"command": "remove", "name": name}
            else:
                command = {"command": "add", "name": name, "address": f"127.0.0.1:{ports[name]}"}
            await asyncio.to_thread(ask, path, command)
            there ^= {name}
            changes += 1

    async def client(numbers):
        luck = random.Random(seed * 1000 + numbers.start)
        talk = None
        for number in numbers:
            if talk is None:
                talk = Talk(*await asyncio.open_connection(*service.address))
            if luck.random() < 0.1:
                await leave(talk, number, luck)
                answers["left"] += 1
                talk = None
            else:
                what = await one(talk, number, luck)
                answers[what] += 1
                if what != "right":
                    await talk.end()
                    talk = None
            if number == requests // 5:
                gc.collect()
                objects.append(len(gc.get_objects()))
        if talk is not None:
            await talk.end()

    async def one(talk, number, luck):
        body = luck.randbytes(2000) if luck.random() < 0.3 else b""
        target = f"/{number}" + ("/slow" if luck.random() < 0.02 else "")
        try:
            async with asyncio.timeout(20):
                answer = await (talk.post(body, target) if body else talk.get(target))
        except (ConnectionError, asyncio.IncompleteReadError):
            return "no answer"
        except TimeoutError:
            return "lost"
        if answer.status != 200:
            return str(answer.status)
        wanted = target.encode() + body
        return (
            "right" if answer.body[:1].decode() in NAMES and answer.body[1:] == wanted else "wrong"
        )

    async def leave(talk, number, luck):
        whole = b"POST /%d/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" % number
        whole += bytes(900)
        cut = luck.choice([luck.randrange(40), luck.randrange(80, len(whole)), len(whole)])
        talk.writer.write(whole[:cut])
        await asyncio.sleep(luck.choice([0, 0.001, 0.005]))
        if luck.random() < 0.5:
            talk.reset()
        await talk.end()

    disturbing = [asyncio.create_task(reloading()), asyncio.create_task(changing())]
    await asyncio.gather(*(client(range(i, requests, clients)) for i in range(clients)))
    over = True
    await asyncio.gather(*disturbing)
    await until(lambda: not service.proxy.figures().under_way)
    await until(lambda: not any(fleet.core.lengths().values()))
    await until(lambda: not service.proxy.clients)
    gc.collect()
    objects.append(len(gc.get_objects()))
    for backend in fleet.backends.values():
        assert fleet.slots(backend.name) == 0
        count(backend)
    known = set(fleet.core._servers)
    assert known == set(fleet.backends), "of servers that are gone nothing is kept"
    await control.close()
    assert await service.stop(5.0) == 0
    figures = service.proxy.figures()
    left = {"clients": figures.clients, "open": figures.open, "queued": figures.queued}
    for server in servers.values():
        await server.stop()
    await until(lambda: len(asyncio.all_tasks()) <= tasks_before)
    with suppress(AssertionError):
        await until(lambda: sockets() <= at_first)
    left |= {
        "sockets": sockets() - at_first,
        "tasks": len(asyncio.all_tasks()) - tasks_before,
        "checks": len(service.checks._tasks),
        "slots": sum(fleet.core.lengths().values()),
    }
    spurious = fleet.core.spurious
    return Found(answers, outcomes, chosen, reloads, changes, objects, left, spurious)


def check(found, requests):
    """Every request of a client that stayed was answered, by a server; nothing is left."""
    assert set(found.answers) == {"right", "left"}, found.answers
    assert sum(found.answers.values()) == requests
    assert 0.08 * requests < found.answers["left"] < 0.12 * requests
    assert found.left == dict.fromkeys(found.left, 0)
    assert found.spurious == 0
    assert sum(found.chosen.values()) == sum(found.outcomes.values()), "each slot ended once"
    assert found.outcomes["ok"] >= found.answers["right"]
    assert found.outcomes["upstream_error"] == found.outcomes["timeout"] == 0
    assert set(found.chosen) == set(NAMES), "each had its time"
