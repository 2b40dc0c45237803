"""Several dispatchers before servers that tell: a short form of tests/verify/test_live_agents.py.

All in one process, so that it says nothing of how long anything takes.
"""

import asyncio
import tomllib
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from live.wire import run, until

from equipoise.live.config import Config
from equipoise.live.serve import Service
from examples.live import many
from examples.live.load import Load, poisson
from examples.live.noted import Noted, note
from examples.live.server import Connection, Worker

MEAN = 0.002  # s
TASKS, SECONDS = 600, 1.5


class Seen(NamedTuple):
    """What there is at the end: lists by dispatcher, then by server."""

    answers: list
    dispatchers: list  # their status
    heard: list
    agents: list  # their status
    told: list


@asynccontextmanager
async def server(seed):
    """One of the example's servers with its agent; gives the agent and both ports."""
    agent, workers = Noted(), (Worker(MEAN, seed), Worker(MEAN, seed, empty=True))
    connection = partial(Connection, *workers, b"X-Server: %d\r\n" % seed, agent)
    listener = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    desk = agent.desk()
    _, port = await desk.start("127.0.0.1", 0)
    try:
        yield agent, (listener.sockets[0].getsockname()[1], port)
    finally:
        listener.close()
        await desk.close()
        for worker in workers:
            worker.tasks.put(None)


@asynccontextmanager
async def dispatcher(number, ports):
    """One of two dispatchers before servers with these ports; gives it and what it heard."""
    told = many.configuration(many.Run(2, "agents", "threshold(level=1)", 0.0, 1), ports, number)
    service = Service(Config.from_dict(tomllib.loads(told)))
    heard = note(service)
    await service.start()
    try:
        yield service, heard
    finally:
        await service.stop()


async def served():
    """Send tasks to two dispatchers before three servers; return all that is to be seen."""
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(server(i)) for i in range(3)]
        agents, ports = zip(*places, strict=True)
        both = [await stack.enter_async_context(dispatcher(k, ports)) for k in range(2)]
        loads = [Load(*service.address, "/") for service, _ in both]
        times = [poisson(TASKS / 2 / SECONDS, SECONDS, seed) for seed in range(2)]
        answers = await asyncio.gather(
            *(load.run(at, [MEAN] * len(at)) for load, at in zip(loads, times, strict=True))
        )
        await until(lambda: sum(len(a.told) for a in agents) == sum(len(h) for _, h in both))
        return Seen(
            answers,
            [service.status() for service, _ in both],
            [heard for _, heard in both],
            [agent.status() for agent in agents],
            [agent.told for agent in agents],
        )


@pytest.fixture(scope="module")
def seen():
    return run(served())


def test_every_task_is_answered_and_nothing_is_left(seen):
    tasks = [task for some in seen.answers for task in some]

    assert len(tasks) == sum(len(poisson(TASKS / 2 / SECONDS, SECONDS, seed)) for seed in range(2))
    assert {task.status for task in tasks} == {200}
    assert {task.server for task in tasks} == {"0", "1", "2"}
    assert [*many.wrong(seen.dispatchers, len(tasks))] == []
    assert [*many.wrong_agents(seen.agents, len(tasks))] == []


def test_every_message_is_counted_at_both_ends_and_takes_time(seen):
    """A token is told to both dispatchers: when a server falls to no task, and to one."""
    kinds = ("leave", "answer")  # that of one who has just come is an answer
    counted = [sum(one["messages"][kind] for one in seen.dispatchers) for kind in kinds]
    delays = many.delays(seen.told, seen.heard)

    assert counted == [sum(one["messages"][kind] for one in seen.agents) for kind in kinds]
    assert counted[1] == 6
    assert len(delays) == sum(counted) == sum(len(some) for some in seen.told)
    assert np.all(delays > 0)


def test_what_is_wrong_at_rest_is_said(seen):
    """The checks that the measurement stands on."""
    tasks = sum(len(some) for some in seen.answers)
    one, *others = seen.dispatchers
    first, *rest = one["servers"]
    stuck = {**one, "servers": [{**first, "slots": 1}, *rest]}
    lost = {**seen.agents[0], "dispatchers": []}

    assert [*many.wrong([stuck, *others], tasks)] == ["dispatcher 0 still counts 1 at server 0"]
    assert [*many.wrong(seen.dispatchers, tasks + 1)] != []
    assert [*many.wrong_agents([lost, *seen.agents[1:]], tasks)] != []
