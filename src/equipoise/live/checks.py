"""Asking servers whether they are well: a connection, or a GET that is answered with 2xx or 3xx.

Each server is asked every `interval` seconds, the first time at once, the others spread over the
interval so that they are not all asked together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from .health import Rules

MOST_HEAD = 16 * 1024  # bytes of an answer's first line that are read


async def check(rules: Rules, host: str, port: int) -> str:
    """Ask a server once; return what is wrong, "" if it is well."""
    try:
        async with asyncio.timeout(rules.timeout):
            return await _ask(rules, host, port)
    except TimeoutError:
        return f"its check took more than {rules.timeout:g} s"
    except OSError as error:
        number = error.errno or 0
        return f"its check failed: {os.strerror(number).lower() if number > 0 else error}"


async def _ask(rules: Rules, host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port, limit=MOST_HEAD)
    try:
        if rules.check == "tcp":
            return ""
        named = f"[{host}]" if ":" in host else host
        request = f"GET {rules.path} HTTP/1.1\r\nHost: {named}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        try:
            line = await reader.readline()
        except ValueError:
            return "its check was not answered in HTTP"
        parts = line.split(None, 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            return "its check was not answered in HTTP" if line else "its check was not answered"
        status = int(parts[1])
        return "" if 200 <= status < 400 else f"its check was answered with status {status}"
    finally:
        writer.transport.abort()


class Checks:
    """The checks of all servers, a task for each."""

    def __init__(self, rules: Rules, tell: Callable[[str, bool, str], None]) -> None:
        """`tell` is called with (name, whether it is well, what is wrong)."""
        self.rules, self.tell = rules, tell
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watch(self, name: str, host: str, port: int) -> None:
        """Ask a server from now on, where anything is checked."""
        if self.rules.check != "none" and name not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[name] = loop.create_task(self._ask_again(name, host, port))

    def forget(self, name: str) -> None:
        """Ask a server no more."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def rule(self, rules: Rules) -> None:
        """Check by other rules, from the next `watch` on: those that were watched are forgotten."""
        self.rules = rules
        for name in list(self._tasks):
            self.forget(name)

    async def close(self) -> None:
        """End all checks."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _ask_again(self, name: str, host: str, port: int) -> None:
        # golden-ratio steps spread any number of servers evenly over the interval
        wait = self.rules.interval * ((len(self._tasks) * 0.6180339887) % 1.0)
        while True:
            wrong = await check(self.rules, host, port)
            self.tell(name, not wrong, wrong)
            await asyncio.sleep(wait)
            wait = self.rules.interval
