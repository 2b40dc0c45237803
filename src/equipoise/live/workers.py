"""Several processes on one address: each a dispatcher of its own, one parent that looks after them.

    parent    admin and control sockets, signals, the configuration
      | one socket pair each, lines of JSON both ways
    worker 0 .. n-1    python -m equipoise.live.workers FD: a `Service` on a SO_REUSEPORT socket

A worker is a dispatcher in the papers' sense: the kernel gives it a share of the connections, it
has its own memory and coins (the seed's children), and knows of the others' tasks only what
servers tell. A server's `limit` is shared out, so that all together keep to it.

A new process is started, and not a copy of this one (fork): an event loop and threads do not
survive copying. The parent binds the address without listening on it, so that it has the port and
nobody else does. What a worker is told comes over its socket pair, which is also how it knows that
the parent lives: when that ends, however the parent did, it drains and ends too. A worker that
ends otherwise is started anew, after a pause that doubles while it goes on ending soon;
connections that the kernel had given it and it had not accepted are lost with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EquipoiseError
from ..policies.user import try_plain
from . import reading
from .access_log import AccessLog
from .admin import Admin, Answer, Page, Site, as_json
from .config import Config, split_address
from .control import Command, Commands, Control, checked
from .core import warm_up
from .fleet import MOST_EVENTS, Event
from .health import State
from .metrics import CONTENT_TYPE
from .proxy import require_live
from .reload import changes, fixed, kept
from .serve import TICK, Pages, Service, no_pages, shown
from .tls import listening

MOST_LINE = 1 << 24  # bytes of a message; a status of 10^4 servers is about 8 MB
START = 60.0  # s for a worker to be ready
ANSWER = 3.0  # s for a worker to answer what is asked of all
GRACE = 5.0  # s after a drain's deadline, before a worker is killed
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # s before a worker that has ended is started anew
STEADY = 10.0  # s; one that has lasted so long is started anew after the first pause
Do = Callable[[dict[str, Any]], Awaitable[Any]]


class Channel:
    """One end of a socket pair, over which each side asks and tells the other.

        {"id": 7, "ask": {"command": ..}}
            answered by {"re": 7, "answer": ..} or {"re": 7, "error": ..}
        {"tell": {..}}
            not answered

    Parameters
    ----------
    do
        Called with what is asked here; `EquipoiseError` is passed on.
    hear
        Called with what is told here.
    """

    def __init__(self, sock: socket.socket, do: Do, hear: Callable[[dict[str, Any]], None]) -> None:
        self.sock, self.do, self.hear = sock, do, hear
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0

    async def open(self) -> None:
        """Take hold of the socket."""
        self._reader, self._writer = await asyncio.open_unix_connection(
            sock=self.sock, limit=MOST_LINE
        )

    async def run(self) -> None:
        """Do what the other side asks until it ends."""
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):
            pass
        finally:
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(EquipoiseError("the worker has ended"))
            self._writer.transport.abort()

    async def ask(self, command: Mapping[str, Any], seconds: float) -> Any:
        """Ask the other side; return its answer.

        Raises
        ------
        EquipoiseError
            If it refuses, or does not answer in time.
        """
        self._number += 1
        number = self._number
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "ask": dict(command)})
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            raise EquipoiseError(f"a worker did not answer within {seconds:g} s") from None
        finally:
            del self._asked[number]

    def tell(self, what: Mapping[str, Any]) -> None:
        """Tell the other side."""
        self._send({"tell": dict(what)})

    async def flush(self) -> None:
        """Wait until what was sent has gone out."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        """End it, when what was sent has gone out."""
        self._writer.close()

    async def first(self) -> dict[str, Any]:
        """Return what is told first, before `run`; {} if the other side has ended."""
        line = await self._reader.readline()
        return json.loads(line)["tell"] if line else {}

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._writer.transport.is_closing():
            raise EquipoiseError("the worker has ended")
        self._writer.write(json.dumps(message).encode() + b"\n")

    def _take(self, message: dict[str, Any]) -> None:
        if "tell" in message:
            self.hear(message["tell"])
        elif "ask" in message:
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            future = self._asked.get(message["re"])
            if future is not None and not future.done():
                if "error" in message:
                    future.set_exception(EquipoiseError(message["error"]))
                else:
                    future.set_result(message["answer"])

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            answer = {"re": message["id"], "answer": await self.do(message["ask"])}
        except EquipoiseError as error:
            answer = {"re": message["id"], "error": str(error)}
        with contextlib.suppress(EquipoiseError):  # nobody waits for it any more
            self._send(answer)


def share(limit: int | None, index: int, workers: int) -> int | None:
    """Return a worker's part of a server's limit; all parts together are the limit."""
    if limit is None:
        return None
    return limit // workers + (index < limit % workers)


def config_of(config: Config, index: int) -> Config:
    """Return what a worker goes by: the parent's admin and control are not its own."""
    servers = tuple(
        server.model_copy(update={"limit": share(server.limit, index, config.workers)})
        for server in config.servers
    )
    return config.model_copy(update={"servers": servers, "admin": None, "watch": False})


# -- a worker ------------------------------------------------------------------------------------


class Work:
    """What a worker process does: a service, and what the parent asks of it."""

    def __init__(self, sock: socket.socket) -> None:
        self.channel = Channel(sock, self.do, lambda told: None)
        self.stopping = asyncio.Event()
        self.cutting = asyncio.Event()
        self.deadline: float | None = None
        self.service: Service | None = None

    async def run(self) -> None:
        """Serve until the parent says so, or ends."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            loop.add_signal_handler(number, _leave_to_parent)
        await self.channel.open()
        first = await self.channel.first()
        if not first:
            return
        talking = loop.create_task(self.channel.run())
        talking.add_done_callback(lambda task: self._stop())
        try:
            await self._serve(first)
        except EquipoiseError as error:
            with contextlib.suppress(EquipoiseError):
                self.channel.tell({"failed": str(error)})
        finally:
            await self.channel.flush()
            self.channel.close()
            await asyncio.wait({talking}, timeout=GRACE)

    async def do(self, asked: dict[str, Any]) -> Any:
        """Do what the parent asks."""
        name, service = asked["command"], self.service
        if name == "stop":
            self.deadline = asked["deadline"]
            (self.cutting if self.stopping.is_set() else self.stopping).set()
            return None
        if service is None:
            raise EquipoiseError("the worker is not ready yet")
        if name == "metrics":
            return service.metrics()
        if name == "health":
            return service.healthy
        if name == "reading":
            return reading.told(service, asked["what"], asked["start"])
        if name == "reopen":
            return service.reopen_log()
        if name == "take":
            new = config_of(Config.from_dict(asked["config"]), self.index)
            return await self.reload.take(new, told=False)
        return await self.commands(asked)

    async def _serve(self, first: dict[str, Any]) -> None:
        config = Config.from_dict(first["config"])
        self.index = int(first["index"])
        seed = None
        if config.seed is not None:
            seed = np.random.SeedSequence(config.seed).spawn(config.workers)[self.index]
        service = Service(config_of(config, self.index), self._happened, seed=seed)
        self.reload = service.reload
        self.commands = Commands(service, service.reload)
        host, port = first["listen"]
        sockets = await listening(host, port, reuse_port=True, listen=False)
        starting = asyncio.create_task(service.start(wait=first["wait"], sockets=sockets))
        stopped = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        self.service = service
        for command in first["journal"]:
            with contextlib.suppress(EquipoiseError):  # the file has it by now
                await self.commands(command)
        self.channel.tell({"ready": _not_up(service)})
        await self.stopping.wait()
        cut = await self._drain(service)
        with contextlib.suppress(EquipoiseError):
            self.channel.tell({"cut": cut})

    async def _drain(self, service: Service) -> int:
        draining = asyncio.create_task(service.stop(self.deadline))
        cutting = asyncio.create_task(self.cutting.wait())
        await asyncio.wait({draining, cutting}, return_when=asyncio.FIRST_COMPLETED)
        cutting.cancel()
        if draining.done():
            return draining.result()
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
        return await service.stop(0.0)

    def _happened(self, event: Event) -> None:
        if self.service is not None:
            with contextlib.suppress(EquipoiseError):  # the parent is gone
                self.channel.tell({"event": [event.time, event.text]})

    def _stop(self) -> None:
        self.stopping.set()


def _leave_to_parent() -> None:
    """It tells us what follows from a signal."""


def _not_up(service: Service) -> list[tuple[str, str]]:
    return [
        (name, condition.why)
        for name, condition in service.fleet.health.of.items()
        if condition.state is not State.UP
    ]


def main(fd: int) -> None:
    """Be a worker, on the socket pair's end that was handed down."""
    uvloop = require_live()
    sock = socket.socket(fileno=fd)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def work() -> None:
            await Work(sock).run()

        runner.run(work())


# -- the parent ----------------------------------------------------------------------------------


class Worker:
    """A worker as the parent sees it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.pid = 0
        self.restarts = 0
        self.channel: Channel | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.ready: asyncio.Future[list[list[str]]] | None = None
        self.talking: asyncio.Task[None] | None = None
        self.cut = 0  # requests

    @property
    def runs(self) -> bool:
        """Whether it answers."""
        ready = self.ready
        return (
            ready is not None
            and ready.done()
            and not ready.cancelled()
            and (ready.exception() is None)
        )


class Workers:
    """Runs `config.workers` processes, and looks after them. Used as a `Service` is.

    Parameters
    ----------
    config
        Checked already.
    on_event
        Called with each `Event` of a worker's fleet, and of the workers themselves.
    pages
        Gives further pages of the admin listener; not called where there is none.
    path
        The file it was read from, to be read anew; None if there is none.
    """

    def __init__(
        self,
        config: Config,
        on_event: Callable[[Event], None] | None = None,
        pages: Pages | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        require_live()
        self.config = config
        spec = config.spec
        if spec.written:
            try_plain(spec, len(config.servers))
        # so that the workers find it compiled
        warm_up(spec, agents=config.agents is not None)
        if config.log is not None:
            AccessLog(config.log.file, config.log.most_waiting).close()  # it can be written
        self.tls = config.tls.load() if config.tls is not None else None
        self.reload = None if path is None else ReloadAll(self, path)
        self.workers = [Worker(index) for index in range(config.workers)]
        own: dict[str, Page] = {
            "/metrics": self._metrics,
            "/status": self._status,
            "/health": self._health,
        }
        self.site = pages(self) if pages and config.admin else Site({}, no_pages)
        self.admin = Admin({**self.site.pages, **own})
        self.control: Control | None = None
        self.address = self.admin_address = ("", 0)
        self.events: list[Event] = []
        self.journal: list[dict[str, Any]] = []  # what was changed by hand
        self._on_event = on_event
        self._wait = False
        self._stopping = False
        self._held: list[socket.socket] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._held_tasks: set[asyncio.Task[Any]] = set()

    async def start(self, *, wait: bool = False) -> None:
        """Take the addresses, then start the workers; return when all are ready.

        Raises
        ------
        EquipoiseError
            If an address cannot be had, or a worker cannot start; nothing runs then.
        """
        self._wait = wait
        host, port = split_address(self.config.listen)
        try:
            try:
                self._held = await listening(host, port, reuse_port=True, listen=False)
            except OSError as error:
                why = os.strerror(error.errno).lower() if error.errno else str(error)
                raise EquipoiseError(
                    f"cannot listen on {host}:{port}: {why}; choose another address, or stop what "
                    "has it"
                ) from None
            self.address = (host, self._held[0].getsockname()[1])
            _check_free(self._held)
            if self.config.admin is not None:
                self.admin_address = await self.admin.start(
                    *split_address(self.config.admin.listen)
                )
                if self.config.admin.control is not None:
                    self.control = Control(self.config.admin.control, self.command)
                    await self.control.start()
            await asyncio.gather(*(self._spawn(worker) for worker in self.workers))
            await self._all_ready()
        except BaseException:
            await self._give_up()
            raise
        self._wait = True  # one that is started anew serves whoever comes up
        self._keeping = [asyncio.create_task(self._keep(worker)) for worker in self.workers]
        ticking = asyncio.create_task(self._tick())
        self._held_tasks.add(ticking)
        ticking.add_done_callback(self._held_tasks.discard)

    async def stop(self, deadline: float | None = None) -> int:
        """Have all drained and ended; return how many requests were cut.

        Called again it cuts at once.
        """
        again, self._stopping = self._stopping, True
        for task in self._keeping:
            if not again:
                task.cancel()
        deadline = self.config.drain if deadline is None else deadline
        await asyncio.gather(*(self._end(worker, deadline) for worker in self.workers))
        await self._close()
        return sum(worker.cut for worker in self.workers)

    def line(self) -> str:
        """Return the one line that says what is running."""
        count = len(self.config.servers)
        down = {name for worker in self.workers for name, _ in _ready(worker)}
        servers = f"{count} server{'s' * (count != 1)}"
        if down:
            servers += f" ({count - len(down)} up)"
        with_tls = " with TLS" if self.tls is not None else ""
        text = f"listening on {shown(self.address)}{with_tls}, {servers}, "
        text += f"{self.config.spec.label}, {len(self.workers)} workers"
        if self.config.admin is not None:
            there = f"http://{shown(self.admin_address)}"
            text += f"; {self.site.shown(there)}"
        return text

    def troubles(self) -> list[str]:
        """Return a line for each thing that is not as it should be."""
        down = {name: why for worker in self.workers for name, why in _ready(worker)}
        lines = [f"server {name} is not up: {why}" for name, why in down.items()]
        if self.tls is not None and (warning := self.tls.warning()):
            lines.append(warning)
        return lines

    async def under_way(self) -> int:
        """Return how many requests are not answered yet."""
        statuses = await self.ask_all({"command": "status"})
        return sum(status["proxy"]["under_way"] for _, status in statuses)

    def reopen_log(self) -> None:
        """Have the access log opened anew, by its name."""
        task = asyncio.get_running_loop().create_task(self.ask_all({"command": "reopen"}))
        self._held_tasks.add(task)
        task.add_done_callback(self._held_tasks.discard)

    def note(self, text: str, at: float | None = None) -> None:
        """Tell what has happened."""
        event = Event(time.time() if at is None else at, text)
        self.events = [*self.events[1 - MOST_EVENTS :], event]
        if self._on_event is not None:
            self._on_event(event)

    @property
    def stopping(self) -> bool:
        """Whether all are drained."""
        return self._stopping

    async def ask(self, worker: Worker, command: Command, seconds: float = ANSWER) -> Any:
        """Ask one worker that runs; return its answer.

        Raises
        ------
        EquipoiseError
            If it refuses, does not answer in time, or has ended.
        """
        return await _channel(worker).ask(command, seconds)

    async def ask_all(self, command: Command, seconds: float = ANSWER) -> list[tuple[Worker, Any]]:
        """Ask all workers that run; return the answers of those that gave one."""
        workers = [worker for worker in self.workers if worker.runs]
        answers = await asyncio.gather(
            *(_channel(worker).ask(command, seconds) for worker in workers), return_exceptions=True
        )
        found = []
        for worker, answer in zip(workers, answers, strict=True):
            if not isinstance(answer, BaseException):
                found.append((worker, answer))
            elif not isinstance(answer, EquipoiseError):
                raise answer
        return found

    # -- what can be told ------------------------------------------------------------------------

    async def command(self, command: Command) -> Any:
        """Do what is asked through the control socket, everywhere.

        Raises
        ------
        EquipoiseError
            If it cannot be done.
        """
        name = checked(command)
        if name == "status":
            return await self.status()
        if name == "servers":
            return (await self.status())["servers"]
        if name == "reload":
            if self.reload is None:
                raise EquipoiseError("it was started without a file; there is nothing to read anew")
            return await self.reload()
        limit, count = command.get("limit"), len(self.workers)
        if isinstance(limit, int) and limit < count:
            raise EquipoiseError(f"limit = {limit}: give at least {count}, 1 for each worker")
        answers = await self._everywhere(command)
        self.journal.append(dict(command))
        answer = merged([answer for _, answer in answers])
        by_hand = {"add": "added", "remove": "removed", "limit": "limited"}[name]
        self.note(f"{by_hand} {answer['name']} by hand")
        return answer

    async def _everywhere(self, command: Command) -> list[tuple[Worker, Any]]:
        """Have a change made by all workers; if one refuses, say so."""
        workers = [worker for worker in self.workers if worker.runs]
        if not workers:
            raise EquipoiseError("no worker runs; try again")
        answers = await asyncio.gather(
            *(
                _channel(worker).ask(_shared(command, worker.index, len(self.workers)), START)
                for worker in workers
            ),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return list(zip(workers, answers, strict=True))

    # -- what can be seen ------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """Return all that is known, of all workers together, and a little of each."""
        answers = await self.ask_all({"command": "status"})
        found = merged([status for _, status in answers]) if answers else {"servers": []}
        for worker, status in answers:
            for event in status.get("events", ()):
                event["worker"] = worker.index
        events = [event for _, status in answers for event in status.get("events", ())]
        told = {(e["time"], f"worker {e['worker']}: {e['text']}") for e in events}
        mine = [{"time": round(e.time, 3), "text": e.text} for e in self.events]
        events += [event for event in mine if (event["time"], event["text"]) not in told]
        found["events"] = sorted(events, key=lambda e: e["time"])[-MOST_EVENTS:]
        known = {worker.index: status for worker, status in answers}
        found["workers"] = [self._one(worker, known.get(worker.index)) for worker in self.workers]
        return found

    @staticmethod
    def _one(worker: Worker, status: dict[str, Any] | None) -> dict[str, Any]:
        more = {}
        if status is not None:
            proxy = status["proxy"]
            more = {key: proxy[key] for key in ("clients", "under_way", "requests")}
            more["threshold"] = status["threshold"]
        return {
            "worker": worker.index,
            "pid": worker.pid,
            "runs": status is not None,
            "restarts": worker.restarts,
            **more,
        }

    async def _status(self) -> Answer:
        return as_json(await self.status())

    async def _metrics(self) -> Answer:
        pages = {w.index: text for w, text in await self.ask_all({"command": "metrics"})}
        own = [
            "# HELP equipoise_worker_up 1 if the worker answers",
            "# TYPE equipoise_worker_up gauge",
            *(f'equipoise_worker_up{{worker="{w.index}"}} {int(w.index in pages)}'
              for w in self.workers),
            "# HELP equipoise_worker_restarts_total times that the worker was started anew",
            "# TYPE equipoise_worker_restarts_total counter",
            *(f'equipoise_worker_restarts_total{{worker="{w.index}"}} {w.restarts}'
              for w in self.workers),
        ]  # fmt: skip
        return Answer(CONTENT_TYPE, labelled(pages) + "\n".join(own) + "\n")

    async def _health(self) -> Answer:
        answers = await self.ask_all({"command": "health"})
        good = any(answer for _, answer in answers) and not self._stopping
        return Answer("text/plain", "ok\n" if good else "no\n", 200 if good else 503)

    # -- processes -------------------------------------------------------------------------------

    async def _spawn(self, worker: Worker) -> None:
        """Start a worker's process, and tell it what it is to do."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        worker.ready = loop.create_future()
        worker.channel = Channel(ours, _nothing, lambda told: self._heard(worker, told))
        try:
            worker.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "equipoise.live.workers", str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent
            )  # fmt: skip
        finally:
            theirs.close()
        worker.pid = worker.process.pid
        await worker.channel.open()
        worker.channel.tell(
            {
                "config": self.config.model_dump(mode="json"),
                "index": worker.index,
                "wait": self._wait,
                "listen": [self.address[0], self.address[1]],
                "journal": [
                    _shared(command, worker.index, len(self.workers)) for command in self.journal
                ],
            }
        )
        worker.talking = task = loop.create_task(worker.channel.run())
        self._held_tasks.add(task)
        task.add_done_callback(self._held_tasks.discard)

    def _heard(self, worker: Worker, told: dict[str, Any]) -> None:
        ready = worker.ready
        if "event" in told:
            at, text = told["event"]
            self.note(f"worker {worker.index}: {text}", at)
        elif "cut" in told:
            worker.cut += told["cut"]
        elif ready is not None and not ready.done():
            if "ready" in told:
                ready.set_result(told["ready"])
            else:
                ready.set_exception(EquipoiseError(told["failed"]))

    async def _all_ready(self) -> None:
        """Wait until all workers are ready; raise what the first one that is not has said."""
        waiting = [asyncio.ensure_future(self._is_ready(worker)) for worker in self.workers]
        try:
            await asyncio.gather(*waiting)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _is_ready(self, worker: Worker) -> None:
        assert worker.ready is not None
        assert worker.process is not None
        assert worker.talking is not None
        some: set[asyncio.Future[Any]] = {worker.ready, worker.talking}
        await asyncio.wait(some, timeout=START, return_when=asyncio.FIRST_COMPLETED)
        if worker.talking.done():  # its last words have come by now
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.process.wait(), GRACE)
        if worker.ready.done():
            worker.ready.result()
        elif worker.process.returncode is not None:
            how = ended_how(worker.process.returncode)
            raise EquipoiseError(f"worker {worker.index} {how} before it was ready")
        else:
            raise EquipoiseError(f"worker {worker.index} was not ready within {START:g} s")

    async def _keep(self, worker: Worker) -> None:
        """Start a worker anew whenever it ends."""
        pause, began = 0.0, time.monotonic()
        while True:
            assert worker.process is not None
            code = await worker.process.wait()
            if worker.ready is not None and not worker.ready.done():
                worker.ready.cancel()
            lasted = time.monotonic() - began
            again = pause > 0 and lasted < STEADY
            pause = min(2 * pause, LONGEST_PAUSE) if again else FIRST_PAUSE
            why = ""
            if worker.ready is not None and not worker.ready.cancelled():
                error = worker.ready.exception()
                why = "" if error is None else f" ({' '.join(str(error).split())})"
            worker.ready = None
            self.note(
                f"worker {worker.index}, process {worker.pid}, {ended_how(code)}{why}; another is "
                f"started in {pause:g} s"
            )
            await asyncio.sleep(pause)
            worker.restarts += 1
            began = time.monotonic()
            try:
                await self._spawn(worker)
            except OSError as error:  # no memory, or too many processes
                self.note(f"worker {worker.index} cannot be started: {error}")

    async def _end(self, worker: Worker, deadline: float) -> None:
        """Have a worker drained; kill it if it does not end."""
        process, channel = worker.process, worker.channel
        if process is None or channel is None:
            return
        if worker.runs:
            with contextlib.suppress(EquipoiseError):
                await channel.ask({"command": "stop", "deadline": deadline}, ANSWER)
        elif process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), deadline + GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()
            self.note(f"worker {worker.index}, process {worker.pid}, had to be killed")
        if worker.talking is not None:  # its last word is how many it has cut
            await asyncio.wait({worker.talking}, timeout=GRACE)

    async def _tick(self) -> None:
        while True:
            self.site.tick()
            await asyncio.sleep(TICK)

    async def _give_up(self) -> None:
        """Nothing is to be left of a start that failed."""
        self._stopping = True
        for worker in self.workers:
            if worker.process is not None and worker.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    worker.process.terminate()
        for worker in self.workers:
            if worker.process is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(worker.process.wait(), GRACE)
                if worker.process.returncode is None:
                    worker.process.kill()
                    await worker.process.wait()
            if worker.ready is not None and worker.ready.done() and not worker.ready.cancelled():
                worker.ready.exception()  # it has been told, or another's has
        await self._close()

    async def _close(self) -> None:
        await self.admin.close()
        if self.control is not None:
            await self.control.close()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for task in list(self._held_tasks):
            task.cancel()
        await asyncio.gather(*self._held_tasks, return_exceptions=True)
        for sock in self._held:
            sock.close()


class ReloadAll:
    """Reads the file anew and has all workers take it up."""

    def __init__(self, workers: Workers, path: str | os.PathLike[str]) -> None:
        self.workers, self.path = workers, Path(path)
        self._one = asyncio.Lock()

    async def __call__(self) -> list[str]:
        """Return what was done, in lines, told as events too.

        Raises
        ------
        EquipoiseError
            A line for each mistake, told as events too; nothing has changed then.
        """
        async with self._one:
            workers = self.workers
            try:
                lines = await self._take(Config.from_toml(self.path))
            except EquipoiseError as error:
                for line in str(error).splitlines():
                    workers.note(f"not reloaded: {line}")
                raise
            for line in lines:
                workers.note(line)
            return lines

    async def _take(self, new: Config) -> list[str]:
        workers = self.workers
        old = workers.config
        said = fixed(old, new)
        new = kept(new, old)
        if new.log is not None and new.log != old.log:
            AccessLog(new.log.file, new.log.most_waiting).close()  # it can be written
        answers = await workers._everywhere(
            {"command": "take", "config": new.model_dump(mode="json")}
        )
        workers.config = new
        workers.tls = new.tls.load() if new.tls is not None else None
        touched = changes(old.servers, new.servers)
        spoken_of = {
            word
            for server in [*touched.added, *touched.removed, *touched.tuned,
                           *(new for _, new in touched.renamed)]
            for word in (server.name, server.address)
        }  # fmt: skip
        workers.journal = [
            command
            for command in workers.journal
            if not spoken_of & {command.get("name"), command.get("address")}
        ]
        return [*answers[0][1][:1], *said]


async def _nothing(asked: dict[str, Any]) -> Any:
    raise EquipoiseError("workers ask nothing of their parent")


def _channel(worker: Worker) -> Channel:
    assert worker.channel is not None
    return worker.channel


def _ready(worker: Worker) -> list[list[str]]:
    assert worker.ready is not None
    return worker.ready.result()


def _shared(command: Command, index: int, workers: int) -> dict[str, Any]:
    """Return a command as it is for one worker."""
    given = dict(command)
    if isinstance(given.get("limit"), int):
        given["limit"] = share(given["limit"], index, workers)
    return given


def _check_free(held: Sequence[socket.socket]) -> None:
    """See that nobody else listens there: one who shares the port too would get a part.

    Raises
    ------
    EquipoiseError
        If somebody does.
    """
    for sock in held:
        place = sock.getsockname()
        with socket.socket(sock.family, socket.SOCK_STREAM) as probe:
            probe.settimeout(0.5)
            host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place[0], place[0])
            with contextlib.suppress(OSError):
                probe.connect((host, place[1], *place[2:]))
                raise EquipoiseError(
                    f"cannot listen on {shown((place[0], place[1]))}: another process shares it "
                    "already; choose another address, or stop what has it"
                )


def ended_how(code: int) -> str:
    """Say how a process has ended."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return "has ended" if code == 0 else f"has ended with status {code}"


# -- many as one ---------------------------------------------------------------------------------

FIRST = frozenset({"name", "address", "policy", "speed", "ends", "certificate", "file"})
LARGEST = frozenset({"up_seconds", "generation"})
SMALLEST = frozenset({"for_seconds", "unheard_seconds", "heard_seconds"})
MIDDLE = frozenset({"threshold", "skew_seconds"})


def merged(parts: Sequence[Any], key: str = "") -> Any:
    """Return one status of several: counts are added, what is one for all is kept.

    Times are the longest or the shortest, thresholds the middle one, means are weighted by what
    they are means of; lists of servers are joined by name.
    """
    parts = [part for part in parts if part is not None] or [None]
    first = parts[0]
    if isinstance(first, dict):
        return _merged_tables(parts)
    if isinstance(first, list):
        return _merged_lists(parts)
    if isinstance(first, bool):
        return any(parts)
    if isinstance(first, str):
        return _most_frequent([part for part in parts if part] or [""])
    if first is None or key in FIRST:
        return first
    if key in LARGEST:
        return max(parts)
    if key in SMALLEST:
        return min(parts)
    if key in MIDDLE:
        return statistics.median_low(parts)
    return sum(parts)


def _merged_tables(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    keys = dict.fromkeys(key for part in parts for key in part)
    found = {key: merged([part.get(key) for part in parts], key) for key in keys}
    if "mean_seconds" in found:
        weighed = [(_weight(part), part["mean_seconds"]) for part in parts]
        total = sum(weight for weight, mean in weighed if mean is not None)
        found["mean_seconds"] = (
            sum(weight * mean for weight, mean in weighed if mean is not None) / total
            if total
            else None
        )
    if found.get("agent") and "most" in found:  # each tells of all tasks there, whoever sent them
        known = [part["most"] for part in parts if part.get("most") is not None]
        found["most"] = statistics.median_low(known) if known else None
    if "limit" in found and any(part.get("limit") is None for part in parts):
        found["limit"] = None
    return found


def _weight(part: dict[str, Any]) -> int:
    count = part["exchanges"] if "exchanges" in part else part["outcomes"]["ok"]
    return int(count)


def _merged_lists(parts: Sequence[list[Any]]) -> list[Any]:
    if not all(isinstance(one, dict) and "name" in one for part in parts for one in part):
        return parts[0]
    names: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for one in part:
            names.setdefault(one["name"], []).append(one)
    return [_merged_tables(same) for same in names.values()]


def _most_frequent(texts: Sequence[str]) -> str:
    return max(texts, key=texts.count)


def labelled(pages: Mapping[int, str]) -> str:
    """Return the metrics of several workers as one page, each value labelled with its worker.

    There are no sums: Prometheus would count everything twice when it makes its own.
    """
    heads: dict[str, list[str]] = {}
    lines: dict[str, list[str]] = {}
    for index, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("#"):
                _, kind, family, _ = line.split(" ", 3)
                if index == next(iter(pages)) or family not in lines:
                    heads.setdefault(family, [])
                    if line not in heads[family]:
                        heads[family].append(line)
                if kind == "TYPE":
                    lines.setdefault(family, [])
                continue
            name, _, rest = line.partition("{")
            if rest:
                lines[family].append(f'{name}{{worker="{index}",{rest}')
            else:
                name, _, value = line.partition(" ")
                lines[family].append(f'{name}{{worker="{index}"}} {value}')
    found = [line for family in heads for line in [*heads[family], *lines[family]]]
    return "".join(f"{line}\n" for line in found)


if __name__ == "__main__":
    main(int(sys.argv[1]))
