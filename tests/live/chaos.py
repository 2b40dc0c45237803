"""Clients that leave, servers that fail and are killed, and an account of every request."""

import asyncio
import gc
import random
import resource
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from live.dispatching import Fleet
from live.wire import read_answer, stage, until

FAILURES = ["close", "reset", "hang", "half close", "cut short", "cut in chunks", "garbage"]
ABORTS = ["in the head", "in the body", "server silent", "in the answer"]


class Brief(Fleet):
    """A fleet that keeps counts and no records, so that only a leak makes memory grow."""

    def __init__(self, *arguments, **given):
        super().__init__(*arguments, **given)
        self.outcomes = Counter()
        self.odd = []  # records that contradict themselves

    def log(self, record):
        self.logged += 1
        self.outcomes[record.outcome] += 1
        fine = record.total >= record.service >= record.first_byte >= 0 and record.waited >= 0
        if not fine or (record.outcome == "ok") is not (not record.why):
            self.odd.append(record)

    def not_sent(self, slot, why):
        super().not_sent(slot, why)
        del self.why[:]


class Found(NamedTuple):
    """What came of it."""

    answers: Counter  # what each request came to, for its client
    outcomes: Counter  # as logged
    slots: dict  # how slots ended
    done: bytearray  # how often each request was done by a server
    objects: list  # known to the garbage collector: after a fifth, at the end
    resident: list  # MB, at the same times
    retries: int


async def chaos(requests, kills, *, clients=32, seed=1):
    """Send so many requests through the proxy to four servers, and kill one so many times."""
    done = bytearray(requests)
    answers = Counter()
    objects, resident = [], []

    def measure():
        gc.collect()
        objects.append(len(gc.get_objects()))
        with open("/proc/self/statm") as file:
            resident.append(int(file.read().split()[1]) * resource.getpagesize() / 2**20)

    async def serve(seen, link):
        number, what = seen.target[1:].replace("-", " ").split("/")
        done[int(number)] += 1
        if what == "close":
            return False
        if what == "reset":
            link.reset()
            return False
        if what == "hang":
            await asyncio.sleep(1.0)
            return False
        if what == "half close":
            link.writer.write_eof()
            await asyncio.sleep(0.05)
            return False
        if what == "cut short":
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return False
        if what == "cut in chunks":
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal")
            link.reset()
            return False
        if what == "garbage":
            await link.send(b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n")
            return False
        if what in ("server silent", "in the answer"):
            if what == "in the answer":
                await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            await asyncio.sleep(0.05)
            return False
        body = number.encode() + seen.body
        if int(number) % 3:
            await link.answer(body)
        else:
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await link.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    async def client(scene, numbers):
        luck = random.Random(seed * 1000 + numbers.start)
        talk = None
        for number in numbers:
            if talk is None:
                talk = await scene.talk()
            draw = luck.random()
            if draw < 0.1:
                await leave(talk, number, luck.choice(ABORTS), luck)
                answers["left"] += 1
                whole = False
            else:
                what = luck.choice(FAILURES) if draw < 0.11 else "ok"
                result, whole = await ask(talk, number, what, luck)
                answers[result] += 1
            if not whole:
                scene.talks.remove(talk)
                await talk.end()
                talk = None
            if number == requests // 5:
                measure()

    async def killer(scene):
        luck = random.Random(seed)
        for i in range(kills):
            await until(lambda i=i: sum(answers.values()) > (i + 0.5) * requests / kills, 600)
            victim = luck.choice(scene.backends)
            await victim.stop()
            await asyncio.sleep(luck.choice([0.0, 0.05, 0.2]))
            await victim.start()

    async with stage(
        *[serve] * 4, fleet=Brief, policy="jsq", limit=12, first_byte_timeout=0.3, idle_timeout=0.5
    ) as scene:
        for backend in scene.backends:
            backend.records = False
        share = [range(i, requests, clients) for i in range(clients)]
        killing = asyncio.create_task(killer(scene))
        await asyncio.gather(*(client(scene, numbers) for numbers in share))
        await killing
        await scene.settle()
        await until(lambda: all(len(b._tasks) <= 64 for b in scene.backends))
        measure()
        assert not scene.fleet.odd
        retries = scene.proxy.figures().retries
    slots = scene.fleet.account()
    return Found(answers, scene.fleet.outcomes, slots, done, objects, resident, retries)


def message(number, what, body):
    method = b"POST" if body is not None else b"GET"
    size = b"Content-Length: %d\r\n" % len(body) if body is not None else b""
    head = b"%b /%d/%b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method, number, what.encode(), size)
    return head + (body or b"")


async def ask(talk, number, what, luck):
    """Send a request and read its answer to the end; return what it was, and if all is well."""
    body = luck.randbytes(luck.choice([0, 10, 5000])) if luck.random() < 0.3 else None
    try:
        talk.writer.write(message(number, what.replace(" ", "-"), body))
        answer = await asyncio.wait_for(read_answer(talk.reader), 10.0)
    except (asyncio.IncompleteReadError, ConnectionError):
        return "no answer", False
    except TimeoutError:
        return "lost", False
    if answer.status == 200:
        if not answer.whole:
            return "cut", False
        right = answer.body == b"%d" % number + (body or b"")
        return "answered" if right else "wrong", answer.field("connection") != "close"
    explained = answer.whole and answer.body.startswith(b"%d " % answer.status)
    known = answer.status in (502, 503, 504) and explained
    return str(answer.status) if known else "odd", answer.field("connection") != "close"


async def leave(talk, number, when, luck):
    """Begin a request and leave, with a reset or quietly."""
    whole = message(number, when.replace(" ", "-"), None)
    if when == "in the head":
        talk.writer.write(whole[: luck.randrange(len(whole))])
    elif when == "in the body":
        whole = message(number, "ok", bytes(1000))
        talk.writer.write(whole[: -luck.randrange(1, 1000)])
    else:
        talk.writer.write(whole)
        if when == "in the answer":
            with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                await asyncio.wait_for(talk.reader.readuntil(b"half"), 0.5)
    await asyncio.sleep(luck.choice([0, 0.001, 0.005]))
    if luck.random() < 0.5:
        talk.reset()


def check(found, requests):
    """Nothing was lost, invented or done twice; every slot is back."""
    total = sum(found.answers.values())
    assert total == requests
    known = {"answered", "left", "cut", "502", "503", "504"}
    assert set(found.answers) <= known, found.answers
    assert 0.08 * requests < found.answers["left"] < 0.12 * requests
    assert found.answers["answered"] > 0.85 * requests
    assert found.outcomes["ok"] >= found.answers["answered"]
    assert sum(found.slots.values()) <= requests + found.retries


async def posts(requests, kills, *, clients=16):
    """Send POSTs only, while servers are killed; return how often each was done."""
    done = bytearray(requests)
    count = 0

    async def serve(seen, link):
        done[int(seen.target[1:])] += 1
        await link.answer(b"x")

    async def client(scene, numbers):
        nonlocal count
        talk = await scene.talk()
        for number in numbers:
            answer = await talk.post(b"body", f"/{number}")
            assert answer.status in (200, 502)
            count += 1

    async with stage(*[serve] * 3) as scene:
        share = [range(i, requests, clients) for i in range(clients)]
        load = asyncio.gather(*(client(scene, numbers) for numbers in share))
        for i in range(kills):
            await until(lambda i=i: count > (i + 0.5) * requests / kills)
            await scene.backends[i % 3].stop()
            await scene.backends[i % 3].start()
        await load
    return done
