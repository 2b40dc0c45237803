"""A server that works on one task at a time, first come first served, each for an exponential time.

`python -m examples.live.server --mean 0.010 --seed 1` listens on 127.0.0.1 and a free port, which
it prints. A GET is a task. `X-Service` tells how long it really took, s: from when it came, or the
one before it had left, to when it left. That includes what the operating system adds to a sleep, so
a replay of these times is a replay of what happened. `X-Mean` is the mean of that server.

GET /empty asks for no work: it is answered after 5 ms, beside the tasks, and `X-Service` is all the
time that it was here. The pause is there because answering after a sleep takes longer than
answering at once, and tasks are answered after a sleep.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import random
import signal
import threading
from time import perf_counter, sleep

PAUSE = 0.005  # s
BODY = b"done\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"


class Worker:
    """Does tasks in the order they come, in a thread that sleeps: an event loop's timers are
    1 ms too coarse.
    """

    def __init__(self, mean: float, seed: int, *, empty: bool = False) -> None:
        self.mean, self.coins, self.empty = mean, random.Random(seed), empty
        self.tasks: queue.SimpleQueue[tuple[float, Connection]] = queue.SimpleQueue()
        self.loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        ended = 0.0
        while True:
            came, connection = self.tasks.get()
            began = max(came, ended)
            work = PAUSE if self.empty else self.coins.expovariate(1 / self.mean)
            if (left := began + work - perf_counter()) > 0:
                sleep(left)
            ended = perf_counter()
            took = ended - (came if self.empty else began)
            self.loop.call_soon_threadsafe(connection.answer, took)


class Connection(asyncio.Protocol):
    """One connection; requests have no body."""

    def __init__(self, worker: Worker, idler: Worker) -> None:
        self.worker, self.idler, self.had = worker, idler, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.had += data
        while (end := self.had.find(b"\r\n\r\n")) >= 0:
            head, self.had = self.had[:end], self.had[end + 4 :]
            worker = self.idler if head.startswith(b"GET /empty ") else self.worker
            worker.tasks.put((perf_counter(), self))

    def answer(self, seconds: float) -> None:
        """Answer a task that took so long."""
        if not self.transport.is_closing():
            fields = b"X-Service: %.6f\r\nX-Mean: %r\r\n\r\n" % (seconds, self.worker.mean)
            self.transport.write(OK + fields + BODY)


async def main(mean: float, seed: int) -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    worker, idler = Worker(mean, seed), Worker(mean, seed, empty=True)
    server = await loop.create_server(lambda: Connection(worker, idler), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mean", type=float, required=True, help="of a task's time, s")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(main(given.mean, given.seed))
