"""An agent and a dispatcher that note when: what was told when it was true, and heard when.

The server of `server.py` has such an agent, where it has one. The dispatcher is `equipoise serve`
with this besides:

    python -m examples.live.noted dispatch.toml

Both say on their status address what they noted: /told and /heard are lists of [dispatcher,
sequence of its stream, s], s on the clock that all processes of a machine share. Their differences
are the delays of messages, made of everything between the event and the policy that hears of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from equipoise.live.admin import Answer, as_json
from equipoise.live.config import Config
from equipoise.live.hearing import Talk
from equipoise.live.proxy import require_live
from equipoise.live.serve import Service
from equipoise.live.sidecar import Desk
from equipoise.live.telling import Agent, Link
from equipoise.live.wire import Hello, Message, task


class Noted(Agent):
    """An agent that is told when each task really came and left."""

    def __init__(self) -> None:
        super().__init__()
        self.event: float | None = None  # when that happened which it tells of
        self.told: list[tuple[str, int, float]] = []

    def came(self, at: float, header: bytes | None) -> None:
        """A task came; `header` is the value of `Equipoise-Task`."""
        self.event = at
        self.started(None if header is None else task(header))
        self.event = None

    def went(self, at: float) -> None:
        """A task left."""
        self.event = at
        self.finished()
        self.event = None

    def hello(
        self, said: Hello, send: Callable[[Any], None], end: Callable[[str], None] | None = None
    ) -> Link:
        """Open a stream, and note what is told on it."""

        def noted(line: Any) -> None:
            if isinstance(line, Message):
                at = perf_counter() if self.event is None else self.event
                self.told.append((said.dispatcher, line.sequence, at))
            send(line)

        return super().hello(said, noted, end)

    def desk(self) -> Desk:
        """Return what listens on the status address."""
        return Desk(self, {"/status": lambda: as_json(self.status()), "/told": self._told})

    def _told(self) -> Answer:
        return Answer("application/json", json.dumps(self.told))


def note(service: Service) -> list[tuple[str, int, float]]:
    """Have a dispatcher with agents note when it heard each message; return the list."""
    heard: list[tuple[str, int, float]] = []
    service.admin.pages["/heard"] = lambda: Answer("application/json", json.dumps(heard))
    hearing = service.fleet.hearing
    assert hearing is not None
    hear = hearing.line

    def noted(talk: Talk, text: bytes, now: float, wall: float) -> None:
        before = talk.sequence
        hear(talk, text, now, wall)
        if talk.sequence != before:
            heard.append((talk.ear.dispatcher, talk.sequence, perf_counter()))

    hearing.line = noted
    return heard


async def main(path: str) -> None:
    """Serve until SIGTERM."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = Service(Config.from_toml(path))
    note(service)
    await service.start()
    print(service.line(), flush=True)
    await stop.wait()
    await service.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=require_live().new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
