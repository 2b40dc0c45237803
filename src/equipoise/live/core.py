"""The dispatcher without sockets or clock: which server next, and what is known of each.

The core runs the very functions that were simulated, by the address of one state record, so a
decision costs well under 2.5 us up to ten thousand servers. Alone it runs both halves of the policy
from its own starts and finishes, which is all there is to know with one dispatcher; with `agents`
the servers run their half and their messages come in through `heard`. A policy with a clock is
driven by whoever keeps time: alone by `update`, with `agents` by what the servers send at their
updates.

Every choice takes a *slot*, released exactly once: by `finished` when the last byte has passed or
the task has failed there, or by `not_sent` when it never reached the server. Releasing again does
nothing and says so. A slot belongs to a generation of its server: what left and came back starts
from zero, and the slots of its former life no longer touch its counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compile import by_address, keep_view
from ..errors import EquipoiseError, PolicyMismatch
from ..policies import Policy, PolicySpec, resolve
from ..policies.base import UNKNOWN
from ..policies.steps import MESSAGES, OUT_OF_RANGE, UPDATE, World, make_steps, make_world
from ..policies.user import out_of_range, try_plain
from ..rng import make_rng


@dataclass(eq=False, slots=True)
class Server:
    """A server as the dispatcher knows it; `index` is its place among those that are up."""

    name: str
    speed: float = 1.0
    index: int = -1  # -1 while it is not up
    generation: int = 0  # how often it has left
    slots: int = 0  # taken and not released, of this generation


class Slot:
    """A task on its way to, or at, a server."""

    __slots__ = ("generation", "released", "server")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.generation = server.generation
        self.released = False

    def __repr__(self) -> str:
        state = "released" if self.released else "taken"
        return f"<slot at {self.server.name}, {state}>"


class Core:
    """One dispatcher's decisions. Not for several threads at once.

    Parameters
    ----------
    policy
        As `equipoise.compare` takes it: "threshold(level=8)", a constructor's result, a `Policy`.
    servers
        Names of those that are up at first.
    seed
        Of the dispatcher's and the servers' coins.
    limit
        Most tasks at a server; `choose` gives None where the chosen one is full.
    agents
        The servers tell; then call `adapt` after the messages of a start were heard.
    """

    def __init__(
        self,
        policy: str | dict[str, Any] | Policy | PolicySpec,
        servers: Iterable[str] = (),
        *,
        seed: int | np.random.SeedSequence = 0,
        limit: int | None = None,
        agents: bool = False,
    ) -> None:
        self.spec = resolve(policy)
        self.limit, self.agents = limit, agents
        if needs := " and ".join(sorted(self.spec.policy.needs - {"speeds"})):
            raise PolicyMismatch(
                f"policy '{self.spec.label}' must observe {needs}, which a live dispatcher cannot "
                "see; simulate it instead"
            )
        if not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(seed)
        self._rngs = [make_rng(child) for child in seed.spawn(2)]
        self._servers: dict[str, Server] = {}
        self._up: list[Server] = []
        self._announcement: int | None = None
        self._count = np.zeros(7, np.int64)  # what was counted in earlier worlds
        self.spurious = 0  # releases of slots that were released already
        self._world: World | None = None
        names = list(servers)
        if self.spec.written and names:
            try_plain(self.spec, len(names))
        for name in names:
            self._add(name, 1.0)
        self._rebuild({}, {}, {})

    # -- servers come and go ------------------------------------------------------------------

    def joined(self, name: str, *, speed: float = 1.0, length: int | None = 0) -> None:
        """Take a server into service.

        Parameters
        ----------
        length
            Its tasks now, as far as known: 0 for a fresh one, None for one that nobody asked yet.

        Raises
        ------
        EquipoiseError
            If it is up already.
        """
        lengths, bounds, sent = self._lengths(), self._bounds(), self._sent()
        self._add(name, speed)
        lengths[name] = length or 0
        bounds[name] = UNKNOWN if length is None else length
        self._rebuild(lengths, bounds, sent)

    def left(self, name: str) -> None:
        """Take a server out of service; its slots stay valid to release and count no more.

        Raises
        ------
        EquipoiseError
            If it is not up.
        """
        server = self._servers.get(name)
        if server is None or server.index < 0:
            raise EquipoiseError(f"no server called '{name}' is up; up are: {self._names()}")
        lengths, bounds, sent = self._lengths(), self._bounds(), self._sent()
        self._up.remove(server)
        server.index, server.slots = -1, 0
        server.generation += 1
        self._rebuild(lengths, bounds, sent)

    # -- tasks --------------------------------------------------------------------------------

    def choose(self) -> Slot | None:
        """Take a slot at the server that the policy chooses; None if it is full, or none is up."""
        if not self._up:
            return None
        index = self._arrive(self._address)
        if index < 0:
            if index == OUT_OF_RANGE:
                raise EquipoiseError(out_of_range(self.spec.label, len(self._up)))
            return None
        server = self._up[index]
        server.slots += 1
        return Slot(server)

    def finished(self, slot: Slot) -> bool:
        """Release a slot whose task has left its server; False if it was released before."""
        server = self._release(slot)
        if server is not None and server.index >= 0:
            self._depart(self._address, server.index)
        return server is not None

    def not_sent(self, slot: Slot) -> bool:
        """Release a slot whose task never reached its server; False if it was released before."""
        server = self._release(slot)
        if server is not None and server.index >= 0:
            self._take_back(self._address, server.index)
        return server is not None

    def heard(self, name: str, m: int, received: int) -> None:
        """Hear a server's message: when it had received `received` tasks it had fewer than `m`.

        `received` counts tasks of this dispatcher since the server joined. Silence (m = 0) and
        messages of servers that are not up are ignored.
        """
        server = self._servers.get(name)
        if m > 0 and server is not None and server.index >= 0:
            self._hear_from(self._address, server.index, m, received)

    def update(self, name: str | None = None) -> None:
        """Let a server, or all in the order of their index, tell its state as at an update.

        For policies with a clock, called by whoever keeps time; alone the state of a server is
        what this dispatcher has there. One that is not up is ignored.

        Raises
        ------
        EquipoiseError
            With agents: there the servers keep time themselves, and `heard` takes what they say.
        """
        if self.agents:
            raise EquipoiseError("with agents the servers update by themselves; pass on to heard")
        asked = int(self.spec.params.get("mode") == "push")  # a question for each update
        given = self._servers.get(name) if name is not None else None
        for server in self._up if name is None else [given]:
            if server is not None and server.index >= 0:
                self._count[UPDATE] += asked
                self._update(self._address, server.index)

    def adapt(self) -> int | None:
        """With agents: let the policy learn; return a new announcement, None if nothing changed."""
        world = self._world
        if world is None or not self.spec.policy.learns:
            return None
        before = int(world.announcement[0])
        now = int(self._adapt(self._address))
        return None if now == before else now

    # -- what can be seen ---------------------------------------------------------------------

    @property
    def announcement(self) -> int:
        """The announcement in force: the threshold, for policies that have one."""
        return int(self._world.announcement[0]) if self._world else self._announcement or 0

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers that are up, by index."""
        return tuple(self._up)

    def lengths(self) -> dict[str, int]:
        """Return the tasks that this dispatcher has at each server."""
        return self._lengths()

    def messages(self) -> dict[str, int]:
        """Return the messages counted so far, by kind."""
        count = self._count + (self._world.count if self._world else 0)
        return {kind: int(count[i]) for i, kind in enumerate(MESSAGES)}

    @property
    def world(self) -> World | None:
        """The memory of policy and dispatcher; for tests and for looking, not for changing."""
        return self._world

    # -- inside -------------------------------------------------------------------------------

    def _add(self, name: str, speed: float) -> None:
        server = self._servers.setdefault(name, Server(name))
        if server.index >= 0:
            raise EquipoiseError(f"server '{name}' is up already; names must differ")
        server.speed = speed
        server.index = len(self._up)
        self._up.append(server)

    def _release(self, slot: Slot) -> Server | None:
        """Mark a slot released; None if it was before, else its server (if gone, index -1)."""
        if slot.released:
            self.spurious += 1
            return None
        slot.released = True
        server = slot.server
        if slot.generation != server.generation:
            return _GONE
        server.slots -= 1
        return server

    def _names(self) -> str:
        return ", ".join(server.name for server in self._up) or "none"

    def _lengths(self) -> dict[str, int]:
        length = self._world.length if self._world else ()
        return {server.name: int(length[server.index]) for server in self._up}

    def _bounds(self) -> dict[str, int]:
        """The most tasks each server can have: what it last promised and what was sent since.

        Where this dispatcher runs both halves its own count is the length itself.
        """
        world = self._world
        if world is None or not self.agents:
            return self._lengths()
        return {s.name: int(world.promise[s.index] + world.sent[s.index]) - 1 for s in self._up}

    def _sent(self) -> dict[str, int]:
        """The tasks sent to each server since it joined."""
        sent = self._world.sent if self._world else ()
        return {server.name: int(sent[server.index]) for server in self._up}

    def _rebuild(
        self, lengths: dict[str, int], bounds: dict[str, int], sent: dict[str, int]
    ) -> None:
        """Start the policy again on the servers that are up, with the announcement in force."""
        if self._world is not None:
            self._announcement = self.announcement
            self._count += self._world.count
        for index, server in enumerate(self._up):
            server.index = index
        if not self._up:
            self._world = None
            return
        spec, names = self.spec, [server.name for server in self._up]
        self._world = make_world(
            spec.policy,
            dict(spec.params),
            np.array([lengths.get(name, 0) for name in names]),
            bounds=np.array([bounds.get(name, 0) for name in names]),
            speeds=np.array([server.speed for server in self._up]),
            announcement=self._announcement,
            limit=self.limit,
            choice_rng=self._rngs[0],
            server_rng=self._rngs[1],
        )
        # a server counts what it received since it joined, whoever else comes and goes
        self._world.sent[:] = [sent.get(name, 0) for name in names]
        self._world.promise[:] -= self._world.sent
        self._record = keep_view(self._world)  # the record and the world live as long as each other
        self._address = self._record.ctypes.data
        steps = make_steps(spec.policy, True)
        self._arrive = by_address(steps.send if self.agents else steps.arrive, self._world)
        self._depart = by_address(steps.left if self.agents else steps.depart, self._world, 1)
        self._take_back = by_address(steps.take_back if self.agents else steps.undo, self._world, 1)
        self._update = by_address(steps.update, self._world, 1)
        self._hear_from = by_address(steps.hear_from, self._world, 3)
        self._adapt = by_address(steps.learn, self._world)


_GONE = Server("gone")
