"""Taking up a changed configuration while requests are under way: all of it, or nothing.

The new file is read and checked as a whole; whatever can fail (a policy that does not compile, a
log that cannot be opened, servers of which none answers) is done before the first thing is changed.
What is wrong is told, a line for each mistake, and the dispatcher goes on as it was. Nothing that a
request under way needs is ever taken away: a server that is no longer listed gets nothing new and
leaves with its last request, one with another name or speed stays what it is, another policy starts
from what is known of every server.

What counts is what the file says *now* against what it said *before*. So a server that was added or
removed by hand stays so until the file speaks of it.

What cannot change while running (`FIXED`) is named in a line and left.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EquipoiseError
from ..policies import PolicySpec
from ..policies.user import try_plain
from .access_log import AccessLog
from .checks import check
from .config import Config, ServerPart, split_address
from .core import warm_up
from .fleet import Backend, Fleet
from .health import Rules, State

if TYPE_CHECKING:
    from .serve import Service

# where in the file, and how to read it there
FIXED: tuple[tuple[str, Callable[[Config], object]], ...] = (
    ("listen", lambda config: config.listen),
    ("admin.listen", lambda config: config.admin and config.admin.listen),
    ("admin.control", lambda config: config.admin and config.admin.control),
    ("[tls], whether it is there,", lambda config: None if config.tls is None else "there"),
    ("[agents]", lambda config: config.agents),
    ("workers", lambda config: config.workers),
    ("seed", lambda config: config.seed),
)
LOOK = 1.0  # s between two looks at the file


class Changes(NamedTuple):
    """What a list of servers has that another had not."""

    added: list[ServerPart]
    removed: list[ServerPart]
    renamed: list[tuple[str, ServerPart]]  # from which name
    tuned: list[ServerPart]  # speed, limit or where its agent is

    def __str__(self) -> str:
        named = {
            "added": [server.name for server in self.added],
            "removed": [server.name for server in self.removed],
            "renamed": [f"{old} to {new.name}" for old, new in self.renamed],
            "changed": [server.name for server in self.tuned],
        }
        return "; ".join(f"{what} {_some(names)}" for what, names in named.items() if names)


def changes(old: Sequence[ServerPart], new: Sequence[ServerPart]) -> Changes:
    """Return how two lists of servers differ; a server is where it listens."""
    before = {server.address.lower(): server for server in old}
    after = {server.address.lower() for server in new}
    found = Changes([], [s for s in old if s.address.lower() not in after], [], [])
    for server in new:
        was = before.get(server.address.lower())
        if was is None:
            found.added.append(server)
            continue
        if was.name != server.name:
            found.renamed.append((was.name, server))
        if (was.speed, was.limit, was.agent) != (server.speed, server.limit, server.agent):
            found.tuned.append(server)
    return found


def fixed(old: Config, new: Config) -> list[str]:
    """Return a line for each thing that the new configuration cannot change."""
    return [
        f"{where} cannot change while it runs{'' if was is None else f': it stays {was}'}; start "
        "anew for it"
        for where, read in FIXED
        if (was := read(old)) != read(new)
    ]


class Reload:
    """Brings a running service to what a file says.

    Parameters
    ----------
    service
        What runs.
    path
        The file; its last good state is `service.config`. "" if there is none to read.
    """

    def __init__(self, service: Service, path: str | os.PathLike[str]) -> None:
        self.service, self.path = service, Path(path)
        self._one = asyncio.Lock()

    async def __call__(self) -> list[str]:
        """Read the file anew and take it up; return what was done, in lines, told as events too.

        Raises
        ------
        EquipoiseError
            A line for each mistake, told as events too; nothing has changed then.
        """
        fleet = self.service.fleet
        try:
            new = Config.from_toml(self.path)
        except EquipoiseError as error:
            for line in str(error).splitlines():
                fleet.note(f"not reloaded: {line}")
            raise
        return await self.take(new)

    async def take(self, new: Config, *, told: bool = True) -> list[str]:
        """Take up a configuration; return what was done, in lines, told as events if `told`.

        Raises
        ------
        EquipoiseError
            If it cannot be, a line for each reason; nothing has changed then.
        """
        async with self._one:
            fleet = self.service.fleet
            try:
                lines = await self._take(new)
            except EquipoiseError as error:
                for line in str(error).splitlines() if told else ():
                    fleet.note(f"not reloaded: {line}")
                raise
            for line in lines if told else ():
                fleet.note(line)
            return lines

    async def _take(self, new: Config) -> list[str]:
        """Take up a configuration."""
        service = self.service
        old, fleet = service.config, service.fleet
        spec, servers = new.spec, changes(old.servers, new.servers)
        other_policy = spec != fleet.core.spec or new.period != old.period
        log: AccessLog | None = None
        loop = asyncio.get_running_loop()
        if other_policy:  # in a thread: it may have to be compiled
            await loop.run_in_executor(None, _tried, spec, len(new.servers))
        tls = new.tls.load() if new.tls is not None else None
        rules = new.health.rules()
        answers = await asyncio.gather(*(_ask(rules, server) for server in servers.added))
        # from here on nothing is waited for
        _check_names(fleet, servers)
        self._check_somebody(servers, answers)
        if new.log is not None and new.log != old.log:
            log = AccessLog(new.log.file, new.log.most_waiting)
        done: list[str] = []
        if other_policy:
            _govern(fleet, new, log)
            done.append(f"the policy is {spec.label}")
        # from here on nothing fails
        said = fixed(old, new)
        if any(servers):
            done.append(str(servers))
        if rules != fleet.rules:
            service.rule(rules)
            done.append("other rules of health")
        _apply(service, servers, answers)
        limits = new.proxy_limits()
        if tls is not None and service.tls is not None:
            if tls.mark != service.tls.mark or new.tls != old.tls:
                done.append(f"the certificate is {tls.certificate}")
            service.show(tls)
        if limits != service.proxy.limits:
            service.proxy.limit(limits)
            done.append("other limits")
        if new.log != old.log:
            service.log_to(log)
            done.append(f"the access log is {new.log.file}" if new.log else "no access log")
        if new.drain != old.drain:
            done.append(f"drain = {new.drain:g}")
        service.config = kept(new, old)
        return [f"reloaded: {'; '.join(done) or 'nothing has changed'}", *said]

    def _check_somebody(self, servers: Changes, answers: Sequence[str]) -> None:
        """Refuse what would leave no server up, where there is one now."""
        fleet = self.service.fleet
        leaving = {server.address.lower() for server in servers.removed}
        up = [b for n, b in fleet.backends.items() if fleet.state(n) is State.UP]
        staying = [backend for backend in up if backend.address.lower() not in leaving]
        if not up or staying or "" in answers:
            return
        lines = [
            f"server {server.name} cannot be used: {wrong}"
            for server, wrong in zip(servers.added, answers, strict=True)
        ]
        raise EquipoiseError("\n".join([*lines, "no server would be up; the former ones stay"]))


def take_in(service: Service, server: ServerPart, wrong: str | None = None) -> None:
    """Have a server as it is written, whatever of it is there already; `wrong` as `check` found.

    Raises
    ------
    EquipoiseError
        If its name is that of another server, which is not on its way out.
    """
    fleet = service.fleet
    there = at_address(fleet, server.address)
    other = fleet.backends.get(server.name)
    if other is not None and other is not there:
        _make_way(service, other)
    if there is None:
        service.add(server.backend(), wrong)
        return
    if there.name != server.name:
        service.rename(there.name, server.name)
    fleet.restore(server.name)
    fleet.tune(server.name, speed=server.speed, limit=server.limit)
    fleet.tells_at(server.name, server.tells_at)


def _make_way(service: Service, backend: Backend) -> None:
    """Let a server that is on its way out go on under another name."""
    fleet, name = service.fleet, backend.name
    if fleet.state(name) is not State.DRAINING:
        raise EquipoiseError(
            f"server '{name}' is there already, at {backend.address}; names must differ"
        )
    free = f"{name}:{backend.address}"
    while free in fleet.backends:
        free += ":"
    service.rename(name, free)


def _govern(fleet: Fleet, new: Config, log: AccessLog | None) -> None:
    try:
        fleet.govern(new.spec, new.period)
    except Exception as error:  # a user's own, on this many servers
        if log is not None:
            log.close()
        if isinstance(error, EquipoiseError):
            raise
        raise EquipoiseError(f"policy '{new.spec.label}' cannot start: {error}") from error


def _check_names(fleet: Fleet, servers: Changes) -> None:
    """Refuse names that are those of servers which the file does not know."""
    leaving = {server.address.lower() for server in servers.removed}
    leaving |= {new.address.lower() for _, new in servers.renamed}
    for server in [*servers.added, *(new for _, new in servers.renamed)]:
        other = fleet.backends.get(server.name)
        if other is None or other.address.lower() == server.address.lower():
            continue
        if other.address.lower() not in leaving and fleet.state(other.name) is not State.DRAINING:
            raise EquipoiseError(
                f"server '{server.name}' is there already, at {other.address}; remove it first, or "
                "choose another name"
            )


def _apply(service: Service, servers: Changes, answers: Sequence[str]) -> None:
    fleet = service.fleet
    for server in servers.removed:
        there = at_address(fleet, server.address)
        if there is not None:
            fleet.remove(there.name)
    # names may have been swapped: first none has one of its new ones
    moving = [
        (there, new) for _, new in servers.renamed if (there := at_address(fleet, new.address))
    ]
    for i, (there, _) in enumerate(moving):
        service.rename(there.name, f"{there.name} #{i}")
    for there, new in moving:
        if new.name in fleet.backends:
            _make_way(service, fleet.backends[new.name])
        service.rename(there.name, new.name)
    for server in servers.tuned:
        there = at_address(fleet, server.address)
        if there is not None:
            fleet.tune(there.name, speed=server.speed, limit=server.limit)
            fleet.tells_at(there.name, server.tells_at)
    for server, wrong in zip(servers.added, answers, strict=True):
        take_in(service, server, wrong)


def at_address(fleet: Fleet, address: str) -> Backend | None:
    """Return the server at an address."""
    wanted = address.lower()
    return next((b for b in fleet.backends.values() if b.address.lower() == wanted), None)


async def _ask(rules: Rules, server: ServerPart) -> str:
    return "" if rules.check == "none" else await check(rules, *split_address(server.address))


def _tried(spec: PolicySpec, servers: int) -> None:
    """Compile a policy; one of a user's own is tried first."""
    if spec.written:
        try_plain(spec, servers)
    warm_up(spec)


def kept(new: Config, old: Config) -> Config:
    """Return the new configuration with what stays of the old one."""
    stays: dict[str, Any] = {"listen": old.listen, "seed": old.seed, "workers": old.workers}
    if (old.tls is None) is not (new.tls is None):
        stays["tls"] = old.tls
    if old.admin is None or new.admin is None:
        stays["admin"] = old.admin
    else:
        there = {"listen": old.admin.listen, "control": old.admin.control}
        stays["admin"] = new.admin.model_copy(update=there)
    return new.model_copy(update=stays)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} servers"


class Watch:
    """Looks at files each second, and has a call made when what they say has changed.

    A change counts when two looks in a row see the same, so that no file is read half-written.

    Parameters
    ----------
    files
        Called at each look; gives the files to look at.
    call
        Made when one has changed; what it refuses has been told by then.
    seconds
        Between two looks.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        call: Callable[[], Awaitable[object]],
        seconds: float = LOOK,
    ) -> None:
        self.files, self.call, self.seconds = files, call, seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        files = list(self.files())
        taken, before = [_said(file) for file in files], [_mark(file) for file in files]
        moving = False
        while True:
            await asyncio.sleep(self.seconds)
            files = list(self.files())
            marks = [_mark(file) for file in files]
            if marks != before:
                before, moving = marks, True
                continue
            if not moving:
                continue
            moving = False
            said = [_said(file) for file in files]
            if said == taken or b"" in said:  # one that is gone is on its way, or says so at SIGHUP
                continue
            taken = said
            with contextlib.suppress(EquipoiseError):
                await self.call()


def _mark(file: Path) -> tuple[int, int, int]:
    """Return what changes when a file is written or replaced."""
    try:
        status = file.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _said(file: Path) -> bytes:
    """Return what stands for a file's content, b"" if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""
