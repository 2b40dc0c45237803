"""`equipoise serve`: proxy, fleet, checks and admin listener, started and stopped together.

Nothing is half-started: what can fail (the extra, the policy, the log, both addresses, servers of
which none answers) fails before the first request is taken, with a line that says what, and what
had been started by then is stopped again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EquipoiseError
from ..policies.user import try_plain
from .access_log import AccessLog
from .admin import Admin, Answer, Page, Site, as_json
from .checks import Checks, check
from .config import Config, split_address
from .control import Commands, Control
from .core import warm_up
from .fleet import Backend, Event, Fleet
from .health import Rules, State
from .metrics import CONTENT_TYPE, render
from .proxy import Proxy, require_live
from .reload import Reload, Watch
from .streams import Streams
from .tls import Tls

if TYPE_CHECKING:
    from .workers import ReloadAll, Workers

ANSWERS = 1.0  # s that agents may take to tell their states before requests are taken
TICK = 0.05  # s, how late the end of a penalty or of an ejection may be noticed
Say = Callable[[str], None]
Pages = Callable[["Service | Workers"], Site]


def nothing(text: str) -> None:
    """Say nothing."""


def no_pages() -> None:
    """Keep no data of pages."""


class Service:
    """A dispatcher that runs in the current event loop.

    Parameters
    ----------
    config
        Checked already.
    path
        The file it was read from, to be read anew; None if there is none.
    seed
        Of the policy's coins, in place of the configuration's.
    on_event
        Called with each `Event` of the fleet.
    pages
        Gives further pages of the admin listener; not called where there is none.
    """

    def __init__(
        self,
        config: Config,
        on_event: Callable[[Event], None] | None = None,
        pages: Pages | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        seed: np.random.SeedSequence | None = None,
    ) -> None:
        require_live()
        self.config = config
        spec = config.spec
        if spec.written:
            try_plain(spec, len(config.servers))
        warm_up(spec, agents=config.agents is not None)
        self.log = AccessLog(config.log.file, config.log.most_waiting) if config.log else None
        coins: int | np.random.SeedSequence
        if seed is not None:
            coins = seed
        elif config.seed is not None:
            coins = config.seed
        else:
            coins = np.random.SeedSequence()
        self.fleet = Fleet(
            spec,
            config.backends(),
            config.health.rules(),
            seed=coins,
            period=config.period,
            unheard=None if config.agents is None else config.agents.unheard,
            log=self.log,
            on_event=on_event,
        )
        self.proxy = Proxy(
            self.fleet, config.proxy_limits(), refusals=self.fleet.hearing is not None
        )
        self.streams: Streams | None = None
        if self.fleet.hearing is not None and config.agents is not None:
            secret = config.agents.secret()
            self.streams = Streams(self.fleet.hearing, self.fleet.agent_of, secret=secret)
        self.checks = Checks(self.fleet.rules, self.fleet.checked)
        own: dict[str, Page] = {
            "/metrics": self._metrics,
            "/status": self._status,
            "/health": self._health,
        }
        self.site = pages(self) if pages and config.admin else Site({}, no_pages)
        self.admin = Admin({**self.site.pages, **own})
        self.tls = config.tls.load() if config.tls is not None else None
        self._warned = ""  # of the certificate
        self.reload = Reload(self, path or "")
        self.command = Commands(self, None if path is None else self.reload)
        self.control: Control | None = None
        self.address = self.admin_address = ("", 0)
        self._timer: asyncio.TimerHandle | None = None
        self._daily: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Future[None]] = set()  # logs
        self.fleet.on_gone = self._gone

    async def start(
        self, *, wait: bool = False, sockets: Sequence[socket.socket] | None = None
    ) -> None:
        """Check the servers once, then listen.

        Parameters
        ----------
        wait
            Start even if no server answers yet.
        sockets
            To listen on, bound already; else what the configuration says.

        Raises
        ------
        EquipoiseError
            If no server answers, or an address cannot be had; nothing runs then.
        """
        try:
            await self._ask_all()
            if not wait and State.UP not in self.fleet.health.states():
                raise EquipoiseError(self._nobody())
            if self.streams is not None:
                self.streams.start()
                await self.streams.ready(ANSWERS)
            if self.config.admin is not None:
                self.admin_address = await self.admin.start(
                    *split_address(self.config.admin.listen)
                )
                if self.config.admin.control is not None:
                    self.control = Control(self.config.admin.control, self.command)
                    await self.control.start()
            if sockets is None:
                self.address = await self.proxy.start(
                    *split_address(self.config.listen), tls=self.tls
                )
            for sock in sockets or ():
                self.address = await self.proxy.start(sock=sock, tls=self.tls)
        except BaseException:
            await self.close_admin()
            await self.proxy.close()
            if self.streams is not None:
                await self.streams.close()
            self.close_log()
            raise
        self._watch_all()
        self._tick()
        self._look_at_certificate()

    async def stop(self, deadline: float | None = None) -> int:
        """Take no more requests, wait for those under way, stop; return how many were cut.

        Parameters
        ----------
        deadline
            How long to wait, s; as configured if absent.
        """
        cut = await self.proxy.drain(self.config.drain if deadline is None else deadline)
        for timer in (self._timer, self._daily):
            if timer is not None:
                timer.cancel()
        await self.checks.close()
        if self.streams is not None:
            await self.streams.close()
        await self.close_admin()
        self.close_log()
        await asyncio.gather(*self._closing)
        return cut

    # -- while it runs: see reload.py -----------------------------------------------------------

    def add(self, backend: Backend, wrong: str | None = None) -> None:
        """Take in a server; `wrong` is what a check of it has found, None if there was none."""
        self.fleet.add(backend)
        if wrong is not None:
            self.fleet.checked(backend.name, not wrong, wrong)
        self.checks.watch(backend.name, backend.host, backend.port)

    def rename(self, name: str, new: str) -> None:
        """Call a server otherwise."""
        self.fleet.rename(name, new)
        backend = self.fleet.backends[new]
        self.checks.forget(name)
        self.checks.watch(new, backend.host, backend.port)

    def rule(self, rules: Rules) -> None:
        """Judge and check servers by other rules."""
        self.fleet.rule(rules)
        self.checks.rule(rules)
        self._watch_all()

    def show(self, tls: Tls) -> None:
        """Show that certificate to clients that connect from now on."""
        self.tls = self.proxy.tls = tls
        self._look_at_certificate()

    def log_to(self, log: AccessLog | None) -> None:
        """Write the access log there from now on, or nowhere."""
        old, self.log = self.log, log
        self.fleet.record(log)
        if old is not None:  # it may have to wait for the disk
            closing = asyncio.get_running_loop().run_in_executor(None, old.close)
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def reopen_log(self) -> None:
        """Open the access log anew, by its name."""
        if self.log is not None:
            self.log.reopen()

    async def close_admin(self) -> None:
        """Answer those no more who look after it."""
        await self.admin.close()
        if self.control is not None:
            await self.control.close()

    def close_log(self) -> None:
        """Write what the access log still has."""
        if self.log is not None:
            self.log.close()

    def line(self) -> str:
        """Return the one line that says what is running."""
        states = list(self.fleet.health.states())
        up = sum(state is State.UP for state in states)
        servers = f"{len(states)} server{'s' * (len(states) != 1)}"
        if up < len(states):
            servers += f" ({up} up)"
        with_tls = " with TLS" if self.tls is not None else ""
        text = f"listening on {shown(self.address)}{with_tls}, {servers}, "
        text += self.fleet.core.spec.label
        if self.config.admin is not None:
            there = f"http://{shown(self.admin_address)}"
            text += f"; {self.site.shown(there)}"
        return text

    def troubles(self) -> list[str]:
        """Return a line for each thing that is not as it should be."""
        lines = [
            f"server {name} is not up: {condition.why}"
            for name, condition in self.fleet.health.of.items()
            if condition.state is not State.UP
        ]
        if self.tls is not None and (warning := self.tls.warning()):
            lines.append(warning)
        return lines

    async def under_way(self) -> int:
        """Return how many requests are not answered yet."""
        return self.proxy.figures().under_way

    @property
    def healthy(self) -> bool:
        """Whether requests are taken and a server is up."""
        return State.UP in self.fleet.health.states() and not self.proxy.draining

    def metrics(self) -> str:
        """Return what is counted, for Prometheus."""
        return render(self.fleet, self.proxy.figures(), self.log, self.tls)

    # -- inside -------------------------------------------------------------------------------

    def _look_at_certificate(self) -> None:
        """Tell, once for each thing, that it has expired or soon will; look again each day."""
        if self._daily is not None:
            self._daily.cancel()
        if self.tls is None:
            return
        warning = self.tls.warning()
        if warning != self._warned and warning:
            self.fleet.note(warning)
        self._warned = warning
        self._daily = asyncio.get_running_loop().call_later(86_400.0, self._look_at_certificate)

    def _watch_all(self) -> None:
        for name, backend in self.fleet.backends.items():
            self.checks.watch(name, backend.host, backend.port)

    def _gone(self, backend: Backend) -> None:
        """A server has left for good."""
        self.checks.forget(backend.name)
        self.proxy.close_idle((backend.host, backend.port))

    async def _ask_all(self) -> None:
        rules = self.fleet.rules
        if rules.check == "none":
            return
        backends = list(self.fleet.backends.values())
        found = await asyncio.gather(*(check(rules, b.host, b.port) for b in backends))
        for backend, wrong in zip(backends, found, strict=True):
            self.fleet.checked(backend.name, not wrong, wrong)

    def _nobody(self) -> str:
        lines = [
            f"server {name} cannot be used: {self.fleet.health.of[name].why}"
            for name in self.fleet.backends
        ]
        return "\n".join([*lines, "no server answers; start one, or start with --wait"])

    def _tick(self) -> None:
        updates, delay = self.fleet.updates, TICK
        if updates is not None:
            delay = min(delay, max(0.0005, updates.next - time.monotonic()))
        self._timer = asyncio.get_running_loop().call_later(delay, self._tick)
        self.fleet.tick()
        self.site.tick()

    def _metrics(self) -> Answer:
        return Answer(CONTENT_TYPE, self.metrics())

    def _status(self) -> Answer:
        return as_json(self.status())

    def _health(self) -> Answer:
        good = self.healthy
        return Answer("text/plain", "ok\n" if good else "no\n", 200 if good else 503)

    def status(self) -> dict[str, Any]:
        """Return all that is known, as text, numbers, lists and dicts."""
        found = {"draining": self.proxy.draining, **self.fleet.status()}
        found["proxy"] = self.proxy.figures()._asdict()
        if self.tls is not None:
            found["tls"] = {
                "certificate": self.tls.certificate,
                "ends": self.tls.ends,
                "warning": self.tls.warning(),
            }
        if self.log is not None:
            log = self.log
            found["log"] = {
                "file": log.path,
                "written": log.written,
                "dropped": log.dropped,
                "trouble": log.trouble,
            }
        return found


def shown(address: tuple[str, int]) -> str:
    """Return HOST:PORT."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(
    config: Config,
    *,
    path: str | os.PathLike[str] | None = None,
    wait: bool = False,
    say: Say = nothing,
    note: Say = nothing,
    pages: Pages | None = None,
) -> int:
    """Run a dispatcher until SIGTERM or SIGINT, then drain; a second signal cuts what is left.

    SIGHUP has the file read anew, SIGUSR1 opens the access log anew.

    Parameters
    ----------
    path
        The file that `config` was read from; without it nothing is reloaded.
    wait
        Start even if no server answers yet.
    say, note
        Called with the line that says what runs; with what happens afterwards.
    pages
        As in `Service`.

    Returns
    -------
    int
        Exchanges that were cut because the deadline of draining had passed.

    Raises
    ------
    EquipoiseError
        If it cannot start.
    """
    uvloop = require_live()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, path, wait, say, note, pages))


async def _serve(
    config: Config,
    path: str | os.PathLike[str] | None,
    wait: bool,
    say: Say,
    note: Say,
    pages: Pages | None,
) -> int:
    loop = asyncio.get_running_loop()
    told, again = asyncio.Event(), asyncio.Event()
    started = False

    def stop() -> None:
        (again if told.is_set() else told).set()

    def happened(event: Event) -> None:
        if started:
            note(f"{time.strftime('%H:%M:%S', time.localtime(event.time))} {event.text}")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    service = _made(config, happened, pages, path)
    reloading = Reloading(service, path)
    loop.add_signal_handler(signal.SIGHUP, reloading.ask)
    loop.add_signal_handler(signal.SIGUSR1, service.reopen_log)
    starting = loop.create_task(service.start(wait=wait))
    if await _first(starting, told) is not starting:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    await starting
    started = True
    for line in service.troubles():
        note(line)
    say(service.line())
    reloading.start()
    await told.wait()
    await reloading.close()
    under_way, drain = await service.under_way(), service.config.drain
    waits = f"; waiting at most {drain:g} s for {under_way} under way" if under_way else ""
    stopping = loop.create_task(service.stop())
    note(f"stopping{waits}")
    if await _first(stopping, again) is not stopping:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        return await service.stop(0.0)
    return await stopping


def _made(
    config: Config,
    happened: Callable[[Event], None],
    pages: Pages | None,
    path: str | os.PathLike[str] | None,
) -> Service | Workers:
    """Return what is to run: one dispatcher in this process, or several in their own."""
    if config.workers == 1:
        return Service(config, happened, pages, path=path)
    from .workers import Workers

    return Workers(config, happened, pages, path=path)


class Reloading:
    """Reloads a service at a signal, and where it is to, when the file has changed."""

    def __init__(self, service: Service | Workers, path: str | os.PathLike[str] | None) -> None:
        self.service, self.reload = service, None if path is None else service.reload
        self._asked, self._running = False, False  # before it runs
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: Watch | None = None

    def start(self) -> None:
        """Reload from now on, and at once if that was asked before."""
        self._running = True
        if self.reload is not None:
            self._watch = Watch(self._files, self.reload)
            self._watch.start()
        if self._asked:
            self.ask()

    def ask(self) -> None:
        """Have the file read anew; whether it was good is told as an event."""
        self._asked = True
        if self._running and self.reload is not None:
            task = asyncio.get_running_loop().create_task(self._reload(self.reload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Reload no more."""
        self._running = False
        if self._watch is not None:
            await self._watch.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reload(self, reload: Reload | ReloadAll) -> None:
        with contextlib.suppress(EquipoiseError):  # told as an event
            await reload()

    def _files(self) -> list[Path]:
        """Return what is looked at."""
        if self.reload is None or not self.service.config.watch:
            return []
        tls = self.service.config.tls
        more = [] if tls is None else [Path(tls.certificate), Path(tls.key or tls.certificate)]
        return [self.reload.path, *more]


async def _first(task: asyncio.Task[Any], event: asyncio.Event) -> object:
    """Wait for a task or an event; return which came first."""
    waiting = asyncio.get_running_loop().create_task(event.wait())
    done, _ = await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return task if task in done else event
