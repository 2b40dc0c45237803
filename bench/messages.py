"""Table: microseconds of CPU time that a status message of an agent costs the dispatcher."""

from __future__ import annotations

import asyncio
import socket
import time
from statistics import median

from bench.timing import goal
from equipoise.live.core import Core
from equipoise.live.hearing import Hearing
from equipoise.live.streams import Streams
from equipoise.live.wire import Message, Welcome, line

POLICIES = ("jsq", "jiq", "threshold(level=8)", "learning-threshold", "aujsq-exp")
SERVERS = 100
BATCH, BATCHES = 2000, 15


def time_messages() -> None:
    """Print what a message takes from the bytes on, one in a packet, and through a socket."""
    print(f"{'us of CPU time':<27}{'from its bytes':>16}{'from its socket':>18}")
    dearest = 0.0
    for policy in POLICIES:
        inside, outside = asyncio.run(_message(policy))
        print(f"{policy:<27}{inside:>16.2f}{outside:>18.2f}", flush=True)
        dearest = max(dearest, outside)
    print(goal("us for a message, the system's share included", dearest, 30.0, most=True))


async def _message(policy: str) -> tuple[float, float]:
    """Return us for a message, decoded from its chunk; and from the socket, less the writing."""
    loop = asyncio.get_running_loop()
    names = [str(i) for i in range(SERVERS)]
    core = Core(policy, agents=True)
    hearing = Hearing(core, "bench", period=1.0)
    for name in names:
        core.joined(name, length=None)
        hearing.joined(name, loop.time())
    agents: dict[int, socket.socket] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        streams = Streams(hearing, lambda name: server.getsockname())
        streams.start()
        for i in range(SERVERS):
            agents[i], _ = await loop.sock_accept(server)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for i, agent in agents.items():
        agent.send(head + _chunk(line(Welcome("0", f"g.{i}", None, time.time()))))
    while hearing.counts()["open"] < SERVERS:
        await asyncio.sleep(0.001)
    try:
        inside = _inside(streams, names)
        outside = await _outside(loop, streams, agents)
    finally:
        await streams.close()
        for agent in agents.values():
            agent.close()
    return inside, outside


def _inside(streams: Streams, names: list[str]) -> float:
    """Take messages as a connection does, without one."""
    held = [streams._callers[name].stream for name in names]
    costs, sequence = [], 0
    for _ in range(BATCHES):
        packets = []
        for _ in range(BATCH // SERVERS):
            sequence += 1
            said = _chunk(line(Message(1 + sequence % 9, 0, sequence, "leave")))
            packets += [(stream, said) for stream in held if stream is not None]
        began = time.process_time()
        for stream, said in packets:
            stream.data_received(said)
        costs.append((time.process_time() - began) / len(packets))
    return median(costs) * 1e6


async def _outside(
    loop: asyncio.AbstractEventLoop, streams: Streams, agents: dict[int, socket.socket]
) -> float:
    """Write messages and wait until they are heard; what the writing costs is taken off."""
    costs, sequence = [], 10**6
    spare, other = socket.socketpair()
    hearing = streams.hearing
    with spare, other:
        for _ in range(BATCHES):
            sequence += 1
            said = _chunk(line(Message(1 + sequence % 9, 0, sequence, "leave")))
            before = sum(ear.messages for ear in hearing.ears.values())
            began = time.process_time()
            for _ in agents:
                spare.send(said)
            writing = time.process_time() - began
            other.recv(1 << 20)
            began = time.process_time()
            for agent in agents.values():
                agent.send(said)
            while sum(ear.messages for ear in hearing.ears.values()) < before + len(agents):
                await asyncio.sleep(0)
            costs.append((time.process_time() - began - writing) / len(agents))
    return max(0.0, median(costs)) * 1e6


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
