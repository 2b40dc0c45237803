"""`equipoise agent`: an agent for a server that is not Python, as a proxy in front of it.

    dispatchers -> sidecar: counts at the door, lets `limit` through, `queue` wait -> server
        |             |
        '-- stream ---' on the status address, which also has /status, /metrics and /health

It is the dispatcher's own proxy with one server behind it. A task is counted when its head has come
and until its last byte has passed, so that those that wait here belong to the length, as a server's
own queue does. Of `limit + queue` tasks the next is refused. Timeouts are left to the dispatcher:
what it gives up ends here, too.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, EquipoiseError
from .admin import Admin, Answer, as_json
from .agent import ENDING, Agent, NotWelcome, Stream
from .config import split_address
from .core import Server, Slot
from .dispatch import Exchange, Outcome
from .fleet import OUTCOMES
from .framing import CHUNKED, Chunks, Refusal, RequestReader
from .limits import Limits
from .metrics import CONTENT_TYPE, FIGURES, Page
from .proxy import Proxy, require_live
from .serve import Say, nothing, shown
from .telling import Note
from .wire import CONTENT_TYPE as LINES
from .wire import ORCA, PATH, WireError, read_secret
from .wire import task as read_task

MOST_QUEUE = 1 << 20
_DAY = 86_400.0
_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r]*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `equipoise agent` is told.

    Raises
    ------
    ConfigError
        A line for each mistake.
    """

    listen: str  # HOST:PORT, where tasks come
    server: str  # where they go
    status: str  # where dispatchers open their streams, and people look
    limit: int | None = None  # most tasks that the server is sent at once
    queue: int = 0  # tasks beyond it that wait here
    policy: str | None = None  # the only one that is told
    workers: int | None = None
    secret_file: str | None = None
    drain: float = 30.0  # s

    def __post_init__(self) -> None:
        wrong = [*self._addresses(), *self._numbers()]
        try:
            self.secret()
        except ConfigError as error:
            wrong.append(str(error))
        try:
            Agent(self.policy)
        except EquipoiseError as error:
            wrong.append(f"--policy {self.policy}: {error}")
        if wrong:
            raise ConfigError("\n".join(wrong))

    def secret(self) -> str | None:
        """Read the secret; None if there is none. Raises `ConfigError`."""
        try:
            return None if self.secret_file is None else read_secret(self.secret_file)
        except ConfigError as error:
            raise ConfigError(f"--secret-file {error}") from None

    def agent(self, note: Callable[[Note], None] | None = None) -> Agent:
        """Return the agent that these settings describe."""
        places = None if self.limit is None else self.limit + self.queue
        return Agent(
            self.policy,
            limit=places,
            workers=self.workers or self.limit,
            secret=self.secret(),
            note=note,
        )

    def _addresses(self) -> list[str]:
        wrong, seen = [], dict[tuple[str, int], str]()
        for name in ("listen", "server", "status"):
            text = getattr(self, name)
            try:
                host, port = split_address(text)
            except ValueError as error:
                wrong.append(f"--{name} {text}: {error}")
                continue
            if not port and name == "server":
                wrong.append(f"--server {text}: port 0 is no server's")
            first = seen.setdefault((host, port), name)
            if port and first != name:
                wrong.append(f"--{name} {text} is that of --{first}; the three must differ")
        return wrong

    def _numbers(self) -> list[str]:
        wrong = []
        for name in ("limit", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                wrong.append(f"--{name} {value}: must be at least 1")
        if not 0 <= self.queue <= MOST_QUEUE:
            wrong.append(f"--queue {self.queue}: must be from 0 to {MOST_QUEUE}")
        elif self.queue and self.limit is None:
            wrong.append(f"--queue {self.queue}: without --limit nothing waits here; give it, too")
        if not 0 <= self.drain < float("inf"):
            wrong.append(f"--drain {self.drain:g}: must be seconds, 0 or more")
        return wrong


class One:
    """`Dispatch` and `Door` of a proxy with one server behind it."""

    def __init__(self, agent: Agent, server: tuple[str, int], places: int | None) -> None:
        """`places`: most tasks that the server is sent at once."""
        self.agent, self.places = agent, places
        self.busy = 0  # tasks at the server
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.not_reached = 0
        self._server = Server(None, shown(server))
        self._where = server
        self._freed: list[Callable[[], None]] = []

    def came(self, task: bytes | None) -> bool:
        """Count a task; False if there is no room for it."""
        return self.agent.started(None if task is None else read_task(task))

    def went(self) -> None:
        """A task that was counted has ended."""
        self.agent.finished()

    def fields(self) -> bytes:
        """Return the load report."""
        return b"%b: %b\r\n" % (ORCA.encode(), self.agent.load())

    def choose(self, exclude: str | None = None) -> Slot | None:
        """Take a slot; there is no other server than one that is excluded."""
        if exclude is not None or (self.places is not None and self.busy >= self.places):
            return None
        self.busy += 1
        return Slot(self._server)

    def address(self, slot: Slot) -> tuple[str, int]:
        """Return the host and port of the server."""
        return self._where

    def started(self, slot: Slot) -> bytes:
        """The request is being written to a connection; nothing is added to it."""
        return b""

    def finished(self, slot: Slot, outcome: Outcome, seconds: float) -> None:
        """Release the slot."""
        self.outcomes[outcome] += 1
        self._release(slot)

    def not_sent(self, slot: Slot, why: str) -> None:
        """Release the slot of a request that never reached the server."""
        self.not_reached += 1
        self._release(slot)

    def on_freed(self, call: Callable[[], None]) -> None:
        """Have `call` called whenever a place may have become free."""
        self._freed.append(call)

    def log(self, record: Exchange) -> None:
        """Exchanges are the dispatcher's to record."""

    def _release(self, slot: Slot) -> None:
        if not slot.released:
            slot.released = True
            self.busy -= 1
            for call in self._freed:
                call()


class Desk(Admin):
    """The status address: pages, and the stream."""

    def __init__(self, agent: Agent, pages: dict[str, Callable[[], Answer]]) -> None:
        super().__init__(pages)
        self.agent = agent

    async def close(self) -> None:
        """Stop listening; streams that have been told to end may say so first."""
        if self._talking:
            await asyncio.wait(self._talking, timeout=ENDING)
        await super().close()

    async def _serve(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            request = RequestReader(Limits()).read(head)
        except Refusal as refusal:
            await self._reply(writer, Answer("text/plain", f"{refusal.why}\n", refusal.status))
            return
        if request.target != PATH.encode() or request.method != b"POST":
            await super()._serve(head, reader, writer)
            return
        stream = Stream(self.agent, _reads(request.length, reader), _writes(writer))
        said = _AUTHORIZATION.findall(head)
        try:
            await stream.greet(said[0].decode("latin-1") if len(said) == 1 else None)
        except NotWelcome as refusal:
            self.agent.note(f"a dispatcher is not welcome: {refusal.why}")
            await self._reply(writer, Answer("text/plain", f"{refusal.why}\n", refusal.status))
            return
        try:
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {LINES}\r\nCache-Control: no-store\r\n"
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
            )
            await stream.hold()
        finally:
            assert stream.link is not None
            stream.link.close()
        if writer.is_closing():  # the dispatcher has gone
            return
        async with asyncio.timeout(ENDING):
            writer.write(b"0\r\n\r\n")
            writer.close()
            await writer.wait_closed()


def _reads(length: int, reader: asyncio.StreamReader) -> Callable[[], Any]:
    """Return a function that waits for a part of a request's body, b"" at its end."""
    chunks = Chunks(Limits(), status=400, decode=True) if length == CHUNKED else None
    left = length

    async def read() -> bytes:
        nonlocal left
        while left:
            data = await reader.read(65_536)
            if not data:
                return b""
            if chunks is None:
                data = data[:left]
                left -= len(data)
                return data
            try:
                data, rest = chunks.feed(data)
            except Refusal as refusal:
                raise WireError(refusal.why) from None
            if rest is not None:
                left = 0
            if data:
                return data
        return b""

    return read


def _writes(writer: asyncio.StreamWriter) -> Callable[[bytes], Any]:
    async def write(data: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()

    return write


class Sidecar:
    """An agent and its proxy, which run in the current event loop."""

    def __init__(self, settings: Settings, note: Callable[[Note], None] | None = None) -> None:
        require_live()
        self.settings = settings
        self.agent = settings.agent(note)
        self.one = One(self.agent, split_address(settings.server), settings.limit)
        limits = Limits(
            head=256 * 1024,  # a head that the dispatcher took is taken here: it counts as received
            target=64 * 1024,
            body=1 << 50,
            connections=1 << 20,
            queue=settings.queue,
            first_byte_timeout=_DAY,
            idle_timeout=_DAY,
            total_timeout=7 * _DAY,
            queue_timeout=_DAY,
            keep_alive_timeout=300.0,  # longer than dispatchers keep theirs
            server_keep_alive_timeout=2.0,  # shorter than servers do: many give up after 5 s
        )
        self.proxy = Proxy(self.one, limits, self.one)
        self.desk = Desk(
            self.agent,
            {"/status": self._status, "/metrics": self._metrics, "/health": self._health},
        )
        self.address = self.status_address = ("", 0)

    async def start(self) -> None:
        """Listen.

        Raises
        ------
        EquipoiseError
            If an address cannot be had; nothing runs then.
        """
        try:
            try:
                self.status_address = await self.desk.start(*split_address(self.settings.status))
            except EquipoiseError as error:
                raise EquipoiseError(str(error).replace("admin:", "--status:")) from None
            self.address = await self.proxy.start(*split_address(self.settings.listen))
        except BaseException:
            await self.desk.close()
            await self.proxy.close()
            raise

    async def stop(self, deadline: float | None = None) -> int:
        """Take no more tasks, wait for those under way, stop; return how many were cut.

        Dispatchers hear of every task that ends meanwhile.
        """
        cut = await self.proxy.drain(self.settings.drain if deadline is None else deadline)
        self.agent.close()
        await self.desk.close()
        return cut

    def line(self) -> str:
        """Return the one line that says what is running."""
        settings = self.settings
        limit = "" if settings.limit is None else f", at most {settings.limit} at once"
        queue = f" and {settings.queue} waiting" if settings.queue else ""
        return (
            f"listening on {shown(self.address)} for {settings.server}{limit}{queue}; "
            f"status http://{shown(self.status_address)}/status"
        )

    # -- inside ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return all that is known, as text, numbers, lists and dicts."""
        return {
            "draining": self.proxy.draining,
            "server": self.settings.server,
            **self.agent.status(),
            "at_server": self.one.busy,
            "outcomes": dict(self.one.outcomes),
            "not_reached": self.one.not_reached,
            "proxy": self.proxy.figures()._asdict(),
        }

    def _status(self) -> Answer:
        return as_json(self.status())

    def _health(self) -> Answer:
        good = not self.proxy.draining
        return Answer("text/plain", "ok\n" if good else "no\n", 200 if good else 503)

    def _metrics(self) -> Answer:
        return Answer(CONTENT_TYPE, render(self.agent, self.one, self.proxy.figures()))


def render(agent: Agent, one: One, figures: Any) -> str:
    """Return the metrics of a sidecar as text that Prometheus reads."""
    page = Page()
    for name, kind, about, value in (
        ("tasks", "gauge", "tasks here, those that wait among them", agent.length),
        ("at_server", "gauge", "tasks that the server has been sent", one.busy),
        ("started_total", "counter", "tasks that were taken", agent.count),
        ("refused_total", "counter", "tasks refused for want of room", agent.refused),
        ("streams", "gauge", "dispatchers that listen", len(agent.links)),
        ("dropped_total", "counter", "messages that a slow reader was spared", agent.dropped),
        ("spurious_finishes_total", "counter", "should stay 0", agent.spurious),
        ("not_reached_total", "counter", "tasks that found no server", one.not_reached),
    ):
        page.family(f"agent_{name}", kind, about, [({}, value)])
    if agent.limit is not None:
        page.family("agent_limit", "gauge", "most tasks here", [({}, agent.limit)])
    page.family(
        "agent_messages_total",
        "counter",
        "messages to dispatchers, by kind",
        [({"kind": kind}, count) for kind, count in agent.messages.items()],
    )
    page.family(
        "agent_outcomes_total",
        "counter",
        "how tasks ended at the server",
        [({"outcome": outcome}, count) for outcome, count in one.outcomes.items()],
    )
    for name, (kind, about) in FIGURES.items():
        full = f"proxy_{name}" + ("_total" if kind == "counter" else "")
        page.family(full, kind, about, [({}, getattr(figures, name))])
    return page.text()


def run_sidecar(settings: Settings, *, say: Say = nothing, note: Say = nothing) -> int:
    """Run a sidecar until SIGTERM or SIGINT, then drain; a second signal cuts what is left.

    Parameters
    ----------
    say, note
        Called with the line that says what runs; with what happens afterwards.

    Returns
    -------
    int
        Tasks that were cut because the deadline of draining had passed.

    Raises
    ------
    EquipoiseError
        If it cannot start.
    """
    uvloop = require_live()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(settings, say, note))


async def _run(settings: Settings, say: Say, note: Say) -> int:
    loop = asyncio.get_running_loop()
    signals = asyncio.Semaphore(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.release)

    def happened(one: Note) -> None:
        note(f"{time.strftime('%H:%M:%S', time.localtime(one.time))} {one.text}")

    sidecar = Sidecar(settings, happened)
    await sidecar.start()
    say(sidecar.line())
    await signals.acquire()
    under_way = sidecar.proxy.figures().under_way
    waits = f"; waiting at most {settings.drain:g} s for {under_way} under way" if under_way else ""
    note(f"stopping{waits}")
    stopping = loop.create_task(sidecar.stop())
    again = loop.create_task(signals.acquire())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if stopping.done():
        return stopping.result()
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    return await sidecar.stop(0.0)
