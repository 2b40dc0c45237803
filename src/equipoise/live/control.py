"""Changing what runs, through a socket in the file system that only its own user may use.

    -> {"command": "add", "address": "10.0.0.3:8000", "limit": 50}
    <- {"ok": true, "answer": {"name": "10.0.0.3:8000", "state": "up", ..}}
    -> {"command": "remove", "name": "web9"}
    <- {"ok": false, "error": "no server is called 'web9'; there are: web1, web2"}

A JSON object a line, each answered by one; several may follow on a connection. A socket in the
file system cannot be reached from another machine, nor by a page in a browser as a port can. Its
mode is 0600, and the kernel is asked who it is that connects: another user than ours or root is
refused, whatever the mode has become.

A socket left by a process that is dead is taken over; one that answers is not. At the end ours is
removed, if it is still ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import EquipoiseError
from ..scenario.mistakes import shown, translate
from .checks import check
from .config import LONGEST_SOCKET, ServerPart, split_address
from .health import State
from .reload import Reload, at_address, take_in

if TYPE_CHECKING:
    from .serve import Service

MOST_LINE = 1 << 16  # bytes of a command
MOST_TALKING = 16  # connections
PATIENCE = 30.0  # s for a command to come
COMMANDS: dict[str, tuple[str, ...]] = {  # and what each may say
    "servers": (),
    "status": (),
    "add": ("address", "name", "speed", "limit"),
    "remove": ("name",),
    "limit": ("name", "limit"),
    "reload": (),
}
Command = Mapping[str, Any]


class Commands:
    """What a running service can be told.

    Parameters
    ----------
    service
        What runs.
    reload
        Has its file read anew; None if it has none.
    """

    def __init__(self, service: Service, reload: Reload | None = None) -> None:
        self.service, self.reload = service, reload

    async def __call__(self, command: Command) -> Any:
        """Do what is asked; return the answer, for JSON.

        Raises
        ------
        EquipoiseError
            If it cannot be done; nothing has changed then.
        """
        name = checked(command)
        given = {key: value for key, value in command.items() if key != "command"}
        if name == "servers":
            return self.service.fleet.status()["servers"]
        if name == "status":
            return self.service.status()
        if name == "add":
            return await self._add(given)
        if name == "remove":
            return self._remove(given["name"])
        if name == "limit":
            return self._limit(given["name"], given.get("limit"))
        if self.reload is None:
            raise EquipoiseError("it was started without a file; there is nothing to read anew")
        return await self.reload()

    async def _add(self, given: dict[str, Any]) -> Any:
        server, fleet = written(given), self.service.fleet
        self._check_new(server)
        rules = fleet.rules
        wrong = None
        if rules.check != "none":
            wrong = await check(rules, *split_address(server.address))
            self._check_new(server)
        take_in(self.service, server, wrong)
        fleet.note(f"added {server.name} by hand")
        return self._said(server.name)

    def _check_new(self, server: ServerPart) -> None:
        """Refuse a server that is there, unless it is on its way out."""
        fleet = self.service.fleet
        there = at_address(fleet, server.address)
        if there is not None and fleet.state(there.name) is not State.DRAINING:
            raise EquipoiseError(f"{server.address} is there already, as server '{there.name}'")

    def _remove(self, name: str) -> Any:
        fleet = self.service.fleet
        fleet.remove(name)
        fleet.note(f"removed {name} by hand")
        left = fleet.slots(name) if name in fleet.backends else 0
        return {"name": name, "state": "draining" if left else "gone", "slots": left}

    def _limit(self, name: str, limit: int | None) -> Any:
        fleet = self.service.fleet
        backend = fleet.backends.get(name)
        speed = backend.speed if backend is not None else 1.0
        fleet.tune(name, speed=speed, limit=limit)
        fleet.note(f"limit of {name} is {'none' if limit is None else limit}, by hand")
        return self._said(name)

    def _said(self, name: str) -> Any:
        fleet = self.service.fleet
        condition, backend = fleet.health.of[name], fleet.backends[name]
        return {
            "name": name,
            "address": backend.address,
            "state": str(condition.state),
            "why": condition.why,
            "speed": backend.speed,
            "limit": backend.limit,
        }


def checked(command: Command) -> str:
    """Return the name of a command whose form is right.

    Raises
    ------
    EquipoiseError
        If it is unknown, or says what it may not.
    """
    name = command.get("command")
    if not isinstance(name, str) or name not in COMMANDS:
        raise EquipoiseError(f"no command is called {shown(name)}; there are {', '.join(COMMANDS)}")
    for key in command:
        if key != "command" and key not in COMMANDS[name]:
            known = ", ".join(COMMANDS[name]) or "nothing"
            raise EquipoiseError(f"{name} is told {known}, not {shown(key)}")
    if name in ("remove", "limit") and not isinstance(command.get("name"), str):
        raise EquipoiseError(f"{name}: say which server, by its name")
    limit = command.get("limit")
    whole = isinstance(limit, int) and not isinstance(limit, bool)
    if name == "limit" and limit is not None and not (whole and limit >= 1):
        raise EquipoiseError(f"limit = {shown(limit)}: give a whole number from 1, or none")
    return name


def written(given: Mapping[str, Any]) -> ServerPart:
    """Return a server as it would be written in the file.

    Raises
    ------
    EquipoiseError
        A line for each mistake.
    """
    try:
        return ServerPart.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        raise EquipoiseError(str(translate(error, ServerPart, "", {}))) from None


class Control:
    """Listens at a path and has commands done.

    Parameters
    ----------
    path
        Of the socket.
    do
        Called with each command; what it returns is the answer, an `EquipoiseError` the refusal.
    """

    def __init__(
        self, path: str | os.PathLike[str], do: Callable[[Command], Awaitable[Any]]
    ) -> None:
        self.path, self.do = Path(path), do
        self._server: asyncio.AbstractServer | None = None
        self._mark: tuple[int, int] | None = None
        self._talking: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen.

        Raises
        ------
        EquipoiseError
            If the path cannot be had.
        """
        sock = bind(self.path)
        try:
            self._mark = _inode(self.path)
            self._server = await asyncio.start_unix_server(self._talk, sock=sock, limit=MOST_LINE)
        except BaseException:
            sock.close()
            self._unlink()
            raise

    async def close(self) -> None:
        """Stop listening, cut who is talking, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        self._unlink()
        for task in list(self._talking):
            task.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)
        await self._server.wait_closed()

    def _unlink(self) -> None:
        if self._mark is not None and _inode(self.path) == self._mark:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._mark = None

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        try:
            if len(self._talking) > MOST_TALKING:
                await _send(writer, _refusal("too many are talking already; try again"))
            elif (user := _user(writer)) not in (os.geteuid(), 0):
                await _send(writer, _refusal(f"user {user} may not; it answers its own user"))
            else:
                while await self._once(reader, writer):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self._talking.discard(task)
            writer.transport.abort()

    async def _once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Do one command; whether another may follow."""
        try:
            async with asyncio.timeout(PATIENCE):
                line = await reader.readline()
        except ValueError:  # of streams: the line is longer than its limit
            await _send(writer, _refusal(f"a command has at most {MOST_LINE} bytes"))
            return False
        if not line.endswith(b"\n"):
            return False
        answer = await self._answer(line)
        async with asyncio.timeout(PATIENCE):
            await _send(writer, answer)
        return True

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            command = json.loads(line)
        except (ValueError, RecursionError):
            return _refusal("a command is a JSON object in one line")
        if not isinstance(command, dict):
            return _refusal("a command is a JSON object in one line")
        try:
            return {"ok": True, "answer": await self.do(command)}
        except EquipoiseError as error:
            return _refusal(str(error))


def bind(path: Path) -> socket.socket:
    """Return a socket bound to a path, mode 0600; take the path from a process that is dead.

    Raises
    ------
    EquipoiseError
        If another process answers there, or the path cannot be had.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise EquipoiseError(f"control: {too_long(path)}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(sock.fileno(), 0o600)  # Linux makes the file with it, so it never is wider
        try:
            sock.bind(str(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _take_over(path)
            sock.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        sock.close()
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise EquipoiseError(f"control: cannot listen at {path}: {why}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _take_over(path: Path) -> None:
    """Remove the socket of a process that is dead."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise EquipoiseError(f"control: {path} is there and no socket; name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except TimeoutError:
            pass  # its queue is full, so it lives
    raise EquipoiseError(
        f"control: another process answers at {path}; stop it, or name another path"
    )


def too_long(path: object) -> str:
    """Say that a path does not fit into a socket's address."""
    return f"{path} is longer than the {LONGEST_SOCKET} bytes that a socket's path may have"


def ask(path: str | os.PathLike[str], command: Command, seconds: float = 60.0) -> Any:
    """Have a command done by the dispatcher that listens at `path`; return its answer.

    Raises
    ------
    EquipoiseError
        If nobody answers, in `seconds`, or it refuses.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise EquipoiseError(too_long(path))
    data = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(seconds)
        try:
            sock.connect(os.fspath(path))
            sock.sendall(json.dumps(command).encode() + b"\n")
            while not data.endswith(b"\n") and (part := sock.recv(1 << 16)):
                data += part
        except OSError as error:
            raise EquipoiseError(f"{path}: {_why(error, seconds)}") from None
    try:
        answer = json.loads(data)
    except ValueError:
        raise EquipoiseError(f"{path}: no answer came; it may be stopping") from None
    if not answer["ok"]:
        raise EquipoiseError(answer["error"])
    return answer["answer"]


def _why(error: OSError, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, FileNotFoundError):
        return 'no such socket; a dispatcher makes it that has control = ".." in [admin]'
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there any more"
    if isinstance(error, PermissionError):
        return "no permission; the dispatcher answers its own user and root"
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _user(writer: asyncio.StreamWriter) -> int:
    """Return the user at the other end, as the kernel says."""
    size = struct.calcsize("3i")
    given = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", given)[1])


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refusal(why: str) -> dict[str, Any]:
    return {"ok": False, "error": why}


async def _send(writer: asyncio.StreamWriter, answer: Any) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()
