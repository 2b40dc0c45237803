"""A server that works on one task at a time, first come first served, each for an exponential time.

`python -m examples.live.server --mean 0.010 --seed 1` listens on 127.0.0.1 and a free port, which
it prints. A GET is a task. `X-Service` tells how long it really took, s: from when it came, or the
one before it had left, to when it left. That includes what the operating system adds to a sleep, so
a replay of these times is a replay of what happened. `X-Mean` is the mean of that server. A task
may say itself how long it takes, `X-Work`, s; then no time is drawn for it. `X-Wait` is how long it
waited here, s, and with `--name` it is told which server did it, `X-Server`.

GET /empty asks for no work: it is answered after 5 ms, beside the tasks, and `X-Service` is all the
time that it was here. The pause is there because answering after a sleep takes longer than
answering at once, and tasks are answered after a sleep.

With `--agent` the server tells dispatchers how it is (`noted.py`), at a second port, which is
printed behind the first.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import random
import re
import signal
import threading
from time import perf_counter, sleep
from typing import Any

PAUSE = 0.005  # s
BODY = b"done\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
WORK, TASK = (
    re.compile(rb"\r\n%b:[ \t]*([^\r]*)" % name, re.IGNORECASE)
    for name in (b"x-work", b"equipoise-task")
)


class Worker:
    """Does tasks in the order they come, in a thread that sleeps: an event loop's timers are
    1 ms too coarse.
    """

    def __init__(self, mean: float, seed: int, *, empty: bool = False) -> None:
        self.mean, self.coins, self.empty = mean, random.Random(seed), empty
        # when it came, how long it takes if that is said, and where the answer goes; None: no more
        self.tasks: queue.SimpleQueue[tuple[float, float | None, Connection] | None]
        self.tasks = queue.SimpleQueue()
        self.loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        ended = 0.0
        while (task := self.tasks.get()) is not None:
            came, work, connection = task
            began = max(came, ended)
            if work is None:
                work = PAUSE if self.empty else self.coins.expovariate(1 / self.mean)
            if (left := began + work - perf_counter()) > 0:
                sleep(left)
            ended = perf_counter()
            took = ended - (came if self.empty else began)
            counted = not self.empty
            self.loop.call_soon_threadsafe(
                connection.answer, began - came, took, ended if counted else None
            )


class Connection(asyncio.Protocol):
    """One connection; requests have no body."""

    def __init__(self, worker: Worker, idler: Worker, fields: bytes, agent: Any) -> None:
        self.worker, self.idler, self.fields, self.agent = worker, idler, fields, agent
        self.had = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.had += data
        while (end := self.had.find(b"\r\n\r\n")) >= 0:
            head, self.had = self.had[:end], self.had[end + 4 :]
            came = perf_counter()
            if head.startswith(b"GET /empty "):
                self.idler.tasks.put((came, None, self))
                continue
            if self.agent is not None:
                task = TASK.search(head)
                self.agent.came(came, task and task[1])
            work = WORK.search(head)
            self.worker.tasks.put((came, work and float(work[1]), self))

    def answer(self, waited: float, seconds: float, left: float | None) -> None:
        """Answer a task that took so long, and left then, if it is one that is counted."""
        if self.agent is not None and left is not None:
            self.agent.went(left)
        if not self.transport.is_closing():
            service = b"X-Service: %.6f\r\nX-Wait: %.6f\r\n" % (seconds, waited)
            self.transport.write(OK + service + self.fields + b"\r\n" + BODY)


async def main(mean: float, seed: int, name: str, agent: bool) -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    worker, idler = Worker(mean, seed), Worker(mean, seed, empty=True)
    teller = desk = None
    if agent:
        from .noted import Noted

        teller = Noted()
        desk = teller.desk()
    fields = b"X-Mean: %r\r\n" % mean
    if name:
        fields += b"X-Server: %b\r\n" % name.encode()
    server = await loop.create_server(
        lambda: Connection(worker, idler, fields, teller), "127.0.0.1", 0
    )
    ports = [server.sockets[0].getsockname()[1]]
    if desk is not None:
        ports.append((await desk.start("127.0.0.1", 0))[1])
    print(*ports, flush=True)
    await stop.wait()
    server.close()
    if desk is not None:
        await desk.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mean", type=float, required=True, help="of a task's time, s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="", help="said in answers")
    parser.add_argument("--agent", action="store_true", help="tell dispatchers how it is")
    given = parser.parse_args()
    asyncio.run(main(given.mean, given.seed, given.name, given.agent))
