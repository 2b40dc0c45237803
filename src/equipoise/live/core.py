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
from zero, and the slots of its former life no longer touch its counts. A server that is only
*paused* (it failed, it drains) gets nothing new and stays itself: its slots go on counting, and
when it resumes it has as many tasks as slots are still out.

A server may have a limit, the most tasks that it is sent. Where the policy's choice is full, or is
the one server that must not be chosen (a retry goes elsewhere), the policy chooses again while a
task is booked there on trial; what was booked is taken back afterwards, so that the policy's memory
is as if only the last choice had been made. After `TRIES` of them a random server with room gets
the task, whatever the policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..compile import by_address, keep_view
from ..errors import EquipoiseError, PolicyMismatch
from ..policies import Policy, PolicySpec, resolve
from ..policies.base import UNKNOWN
from ..policies.levels import Bands
from ..policies.steps import (
    ANSWER,
    CHANGES,
    JOIN,
    LEAVE,
    MESSAGES,
    NO_LIMIT,
    OUT_OF_RANGE,
    UPDATE,
    World,
    make_steps,
    make_world,
)
from ..policies.user import out_of_range, try_plain
from ..rng import POLICY_SEED, SERVERS_SEED, below, make_rng, seeds

TRIES = 32  # choices, before a server with room is taken whatever the policy
KINDS = {"join": JOIN, "leave": LEAVE, "update": UPDATE, "answer": ANSWER}  # of messages


class Server:
    """A server as the dispatcher knows it; `index` is its place among those that are up."""

    __slots__ = (
        *("core", "generation", "heard_at", "index", "length", "limit", "name", "paused"),
        *("promise", "sent", "slots", "speed"),
    )

    def __init__(self, core: Core | None, name: str) -> None:
        self.core, self.name = core, name
        self.speed = 1.0
        self.limit: int | None = None  # most tasks it is sent
        self.index = -1  # -1 while it is not up
        self.paused = False  # not up, but its slots count
        self.generation = 0  # how often it has left
        self.slots = 0  # taken and not released, of this generation
        # what the world knows of it, kept here while it is in none
        self.length = 0  # tasks there
        self.sent = 0  # tasks sent since it joined
        self.promise = 1  # its last message less the tasks sent when it was made
        self.heard_at = 0.0  # when that was, on the clock of `Core.now`

    def __repr__(self) -> str:
        state = "up" if self.index >= 0 else "paused" if self.paused else "gone"
        return f"<server {self.name}, {state}, {self.slots} slots>"


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


class Known(NamedTuple):
    """What is known of a server."""

    tasks: int  # that this dispatcher has there
    most: int | None  # it has at most so many, whoever sent them; None: nothing was ever heard
    since: float  # when it said so, own sends since then added; the present where the dispatcher
    # counts by itself


class Core:
    """One dispatcher's decisions. Not for several threads at once.

    Parameters
    ----------
    policy
        As `equipoise.compare` takes it: "threshold(level=8)", a constructor's result, a `Policy`.
    servers
        Names of those that are up at first.
    seed
        Of the dispatcher's and the servers' coins. A whole number gives the coins of the first
        replication of a simulation with that seed.
    limit
        Most tasks at a server, where `joined` says nothing else; `choose` gives None where all are
        full.
    agents
        The servers tell; then call `adapt` after the messages of a start were heard.
    other_if_full
        Where the policy's choice is full, take another server; else `choose` gives None there, as
        in the simulator, where that task is lost or waits even if another server has room.
    """

    def __init__(
        self,
        policy: str | dict[str, Any] | Policy | PolicySpec,
        servers: Iterable[str] = (),
        *,
        seed: int | np.random.SeedSequence = 0,
        limit: int | None = None,
        agents: bool = False,
        other_if_full: bool = True,
    ) -> None:
        self.spec = resolve(policy)
        self.limit, self.agents, self.other_if_full = limit, agents, other_if_full
        _check_needs(self.spec)
        streams = seed.spawn(7) if isinstance(seed, np.random.SeedSequence) else seeds(seed, 0)
        self._rngs = [make_rng(streams[POLICY_SEED]), make_rng(streams[SERVERS_SEED])]
        self._servers: dict[str, Server] = {}
        self._up: list[Server] = []
        self._announcement: int | None = None
        self._count = np.zeros(7, np.int64)  # what was counted in earlier worlds
        self.now = 0.0  # s, set by whoever keeps time; only `known` speaks of it
        self.spurious = 0  # releases of what was no slot, or had been released already
        self.displaced = 0  # tasks that went to a server which the policy did not choose
        self._world: World | None = None
        names = list(servers)
        if self.spec.written and names:
            try_plain(self.spec, len(names))
        for name in names:
            self._add(name, 1.0, limit, 0, 0)
        self._rebuild()

    # -- servers come and go ------------------------------------------------------------------

    def joined(
        self,
        name: str,
        *,
        speed: float = 1.0,
        length: int | None = 0,
        limit: int | None = None,
    ) -> None:
        """Take a server into service.

        Parameters
        ----------
        length
            Its tasks now, as far as known: 0 for a fresh one, None for one that nobody asked yet.
        limit
            Most tasks that it is sent; the core's own limit if absent.

        Raises
        ------
        EquipoiseError
            If it is up already, or paused.
        """
        self._check_absent(name)
        self._save()
        bound = UNKNOWN if length is None else length
        self._add(name, speed, self.limit if limit is None else limit, length or 0, bound)
        self._rebuild()

    def left(self, name: str) -> None:
        """Take a server out for good; its slots stay valid to release and count no more.

        Raises
        ------
        EquipoiseError
            If it is neither up nor paused.
        """
        server = self._known(name)
        if server.index >= 0:
            self._take_out(server)
        server.paused, server.slots = False, 0
        server.generation += 1

    def forgotten(self, name: str) -> None:
        """Keep nothing of a server that has left: its name may never come again.

        Slots of it that are still out stay valid to release. If it is there, nothing happens.
        """
        server = self._servers.get(name)
        if server is not None and server.index < 0 and not server.paused:
            del self._servers[name]

    def paused(self, name: str) -> None:
        """Send nothing more to a server; its slots go on counting until it resumes or leaves.

        Raises
        ------
        EquipoiseError
            If it is not up.
        """
        server = self._servers.get(name)
        if server is None or server.index < 0:
            raise EquipoiseError(f"no server called '{name}' is up; up are: {self._names()}")
        self._take_out(server)
        server.paused = True

    def resumed(self, name: str) -> None:
        """Send to a paused server again; it has the tasks whose slots are still out.

        Raises
        ------
        EquipoiseError
            If it is not paused.
        """
        server = self._servers.get(name)
        if server is None or not server.paused:
            raise EquipoiseError(f"no server called '{name}' is paused; up are: {self._names()}")
        self._save()
        server.paused, server.index = False, len(self._up)
        self._up.append(server)
        self._rebuild()

    def limited(self, name: str, limit: int | None) -> None:
        """Change the most tasks that a server is sent; None is no limit. What is there stays.

        Raises
        ------
        EquipoiseError
            If it is neither up nor paused.
        """
        server = self._known(name)
        server.limit = limit
        if self._world is not None and server.index >= 0:
            self._world.limit[server.index] = NO_LIMIT if limit is None else limit

    def renamed(self, name: str, new: str) -> None:
        """Call a server otherwise; its slots and all that is known of it stay.

        Raises
        ------
        EquipoiseError
            If there is no such server, or one of the new name.
        """
        server = self._servers.get(name)
        if server is None:
            raise EquipoiseError(f"no server is called '{name}'; up are: {self._names()}")
        self._check_absent(new)
        del self._servers[name]
        server.name = new
        self._servers[new] = server

    def sped(self, name: str, speed: float) -> None:
        """Change the speed of a server; the policy starts again with it.

        Raises
        ------
        EquipoiseError
            If it is neither up nor paused.
        """
        server = self._servers.get(name)
        if server is None or (server.index < 0 and not server.paused):
            raise EquipoiseError(f"no server called '{name}' is up; up are: {self._names()}")
        server.speed = speed
        if server.index >= 0:
            self._save()
            self._rebuild()

    def governed(self, policy: str | dict[str, Any] | Policy | PolicySpec) -> None:
        """Let another policy choose from now on, or the same one with other parameters.

        It starts from what is known of every server; slots, counts and coins go on. What was
        learnt stays if the policy is the same one and learns. Where it cannot start, the policy
        that was there goes on.

        Raises
        ------
        EquipoiseError
            If it needs what a live dispatcher cannot see; whatever a user's own policy raises.
        """
        before, learnt = self.spec, self._announcement
        spec = resolve(policy)
        _check_needs(spec)
        if self._world is not None:
            self._save()
            self._count += self._world.count
            learnt = self.announcement
            self._world = None
        same = spec.policy.name == before.policy.name and spec.policy.learns
        self.spec, self._announcement = spec, learnt if same else None
        try:
            self._rebuild()
        except Exception:
            self.spec, self._announcement, self._world = before, learnt, None
            self._rebuild()
            raise

    # -- tasks --------------------------------------------------------------------------------

    def choose(self, exclude: str | None = None) -> Slot | None:
        """Take a slot at the server that the policy chooses.

        Parameters
        ----------
        exclude
            A server that must not be chosen: where the task has failed before.

        Returns
        -------
        Slot
            None if no server is up that has room, `exclude` aside.
        """
        if not self._up:
            return None
        if exclude is not None:
            return self._choose_but(exclude)
        index = self._arrive(self._address)
        if index < 0:
            index = self._elsewhere(index)
            if index < 0:
                return None
        server = self._up[index]
        server.slots += 1
        return Slot(server)

    def finished(self, slot: Slot) -> bool:
        """Release a slot whose task has left its server; False if it was released before."""
        server = self._release(slot)
        if server is None:
            return False
        if server.index >= 0:
            self._depart(self._address, server.index)
        elif server.paused:
            server.length -= 1
        return True

    def not_sent(self, slot: Slot) -> bool:
        """Release a slot whose task never reached its server; False if it was released before."""
        server = self._release(slot)
        if server is None:
            return False
        self._never_came(server)
        return True

    def occupied(self, name: str) -> Slot | None:
        """Take a slot at a server without choosing it; None if it is not up.

        So that a server looks busier than it is: release it by `not_sent`. It may exceed the
        server's limit.
        """
        server = self._servers.get(name)
        if server is None or server.index < 0:
            return None
        self._place(self._address, server.index)
        server.slots += 1
        return Slot(server)

    def heard(self, name: str, m: int, received: int, kind: str | None = None) -> None:
        """Hear a server's message: when it had received `received` tasks it had fewer than `m`.

        `received` counts tasks of this dispatcher since the server joined. Silence (m = 0) and
        messages of servers that have left are ignored, and not counted. `kind` is one of `KINDS`,
        to be counted as; not counted if absent.
        """
        server = self._servers.get(name)
        if m <= 0 or server is None:
            return
        if server.index >= 0:
            self._hear_from(self._address, server.index, m, received)
        elif server.paused:
            server.promise = m - received
        else:
            return
        server.heard_at = self.now
        if kind is not None:
            self._count[KINDS[kind]] += 1

    def asked(self, kind: str) -> None:
        """Count a question to a server, by the kind of its answer."""
        self._count[KINDS[kind]] += 1

    def forgot(self, *names: str) -> None:
        """Forget what servers promised: they were not heard for too long to rely on it.

        Raises
        ------
        EquipoiseError
            If one is neither up nor paused; nothing is forgotten then.
        """
        servers = [self._known(name) for name in names]
        self._save()
        for server in servers:
            server.promise = UNKNOWN + 1 - server.sent
        if any(server.index >= 0 for server in servers):
            self._rebuild()

    def restarted(self, name: str, *, ended: int = 0) -> None:
        """A server counts anew what it receives, and what it promised is void.

        The slots that are out go on counting, as tasks that it has not received yet: whether they
        reached the present life or the one before, nobody knows. So do `ended` tasks whose slots
        were released, while they may be there still. So a slot then ends by `not_sent`, or by
        `received` and `finished`, one that was released by `received`, unless its task is sent
        from now on.

        Raises
        ------
        EquipoiseError
            If it is neither up nor paused.
        """
        server = self._known(name)
        self._save()
        server.length, server.sent = server.slots, server.slots + ended
        server.promise = UNKNOWN + 1 - server.sent
        if server.index >= 0:
            self._rebuild()

    def received(self, slot: Slot) -> None:
        """Count the slot's task as received by its server, so no longer on top of what it says.

        For a task that was sent without its server counting it; its slot ends, or has ended, by
        `finished`.
        """
        server = slot.server
        if slot.generation != server.generation:
            return
        if server.index >= 0:
            assert self._world is not None
            self._take_back(self._address, server.index)
            self._world.length[server.index] += 1  # it is there all the same
        else:
            server.sent -= 1

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
                server.heard_at = self.now

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

    def server(self, name: str) -> Server | None:
        """Return the server of that name; None if it never joined."""
        return self._servers.get(name)

    def lengths(self) -> dict[str, int]:
        """Return the tasks that this dispatcher has at each server."""
        return self._lengths()

    def messages(self) -> dict[str, int]:
        """Return the messages counted so far, by kind."""
        count = self._counted()
        return {kind: int(count[i]) for i, kind in enumerate(MESSAGES)}

    @property
    def changes(self) -> int:
        """How often what is announced has changed: the threshold, for policies that learn one."""
        return int(self._counted()[CHANGES])

    def tokens(self) -> dict[str, int]:
        """Return how many servers the dispatcher has a token of, by colour; {} if it keeps none."""
        for part in self._world.state if self._world else ():
            if isinstance(part, Bands):
                ends = part.end.tolist()
                if len(ends) == 2:
                    return {"green": ends[0]}
                return {"green": ends[0], "yellow": ends[1] - ends[0]}
        return {}

    @property
    def tells(self) -> bool:
        """Whether what is known of servers is what they told, rather than what was counted here."""
        return self.agents or self.spec.policy.clock is not None

    def known(self) -> dict[str, Known]:
        """Return what is known of each server that is up or paused, and since when."""
        self._save()
        tells = self.tells
        return {
            server.name: Known(
                server.length,
                self._most(server.promise + server.sent - 1) if tells else server.length,
                server.heard_at if tells else self.now,
            )
            for server in self._servers.values()
            if server.index >= 0 or server.paused
        }

    @property
    def world(self) -> World | None:
        """The memory of policy and dispatcher; for tests and for looking, not for changing."""
        return self._world

    # -- inside -------------------------------------------------------------------------------

    def _check_absent(self, name: str) -> None:
        server = self._servers.get(name)
        if server is not None and (server.index >= 0 or server.paused):
            state = "paused" if server.paused else "up already"
            raise EquipoiseError(f"server '{name}' is {state}; names must differ")

    def _add(self, name: str, speed: float, limit: int | None, length: int, bound: int) -> None:
        self._check_absent(name)
        server = self._servers.setdefault(name, Server(self, name))
        server.speed, server.limit = speed, limit
        server.length, server.sent, server.promise = length, 0, bound + 1
        server.heard_at = self.now
        server.index = len(self._up)
        self._up.append(server)

    def _take_out(self, server: Server) -> None:
        self._save()
        self._up.remove(server)
        server.index = -1
        self._rebuild()

    def _choose_but(self, exclude: str) -> Slot | None:
        """Choose with one server counted as full."""
        world, barred = self._world, self._servers.get(exclude)
        if world is None or barred is None or barred.index < 0:
            return self.choose()
        limit = world.limit[barred.index]
        world.limit[barred.index] = 0
        before, self.other_if_full = self.other_if_full, True
        try:
            return self.choose()
        finally:
            world.limit[barred.index] = limit
            self.other_if_full = before

    def _elsewhere(self, index: int) -> int:
        """Return the index of another server with room, where the task is now; -1 if none has."""
        world = self._world
        assert world is not None
        if not self.other_if_full or not (world.length < world.limit).any():
            self._raise_if_none(index)
            return -1
        tried: list[int] = []
        while index < 0 and len(tried) < TRIES:
            self._raise_if_none(index)
            tried.append(-1 - index)
            self._book(self._address, -1 - index)
            index = self._arrive(self._address)
        for full in tried:
            self._unbook(self._address, full)
        if index < 0:
            self._raise_if_none(index)
            room = np.flatnonzero(world.length < world.limit)
            index = int(room[below(self._rngs[0], room.size)])
            self._place(self._address, index)
        self.displaced += 1
        return index

    def _raise_if_none(self, index: int) -> None:
        if index == OUT_OF_RANGE:
            raise EquipoiseError(out_of_range(self.spec.label, len(self._up)))

    def _release(self, slot: Slot) -> Server | None:
        """Mark a slot released; None if it was before, else its server (if gone, index -1)."""
        server = slot.server
        if slot.released or server.core is not self:
            self.spurious += 1
            return None
        slot.released = True
        if slot.generation != server.generation:
            return _GONE
        server.slots -= 1
        return server

    def _never_came(self, server: Server) -> None:
        """Take a task back from what is counted at a server."""
        if server.index >= 0:
            self._take_back(self._address, server.index)
        elif server.paused:
            server.length -= 1
            server.sent -= 1

    def _known(self, name: str) -> Server:
        """Return a server that is up or paused; raise if there is none of that name."""
        server = self._servers.get(name)
        if server is None or (server.index < 0 and not server.paused):
            raise EquipoiseError(f"no server called '{name}' is up; up are: {self._names()}")
        return server

    def _names(self) -> str:
        return ", ".join(server.name for server in self._up) or "none"

    def _lengths(self) -> dict[str, int]:
        length = self._world.length.tolist() if self._world else []
        return dict(zip((server.name for server in self._up), length, strict=True))

    def _counted(self) -> np.ndarray:
        return self._count + (self._world.count if self._world else 0)

    @staticmethod
    def _most(bound: int) -> int | None:
        return bound if bound < UNKNOWN // 2 else None

    def _save(self) -> None:
        """Note what the world knows of each server that is up, before there is another world."""
        if self._world is None:
            return
        lengths, sent = self._world.length.tolist(), self._world.sent.tolist()
        promises = self._world.promise.tolist()
        for server in self._up:
            i = server.index
            server.length, server.sent, server.promise = lengths[i], sent[i], promises[i]

    def _rebuild(self) -> None:
        """Start the policy again on the servers that are up, with the announcement in force.

        The most tasks each can have is what it last promised and what was sent since; where this
        dispatcher runs both halves its own count is the length itself.
        """
        if self._world is not None:
            self._announcement = self.announcement
            self._count += self._world.count
        up = self._up
        for index, server in enumerate(up):
            server.index = index
        if not up:
            self._world = None
            return
        spec = self.spec
        by_promise = [self.agents or server.promise > UNKNOWN // 2 for server in up]
        self._world = make_world(
            spec.policy,
            dict(spec.params),
            np.array([server.length for server in up]),
            bounds=np.array(
                [
                    server.promise + server.sent - 1 if promised else server.length
                    for server, promised in zip(up, by_promise, strict=True)
                ]
            ),
            speeds=np.array([server.speed for server in up]),
            announcement=self._announcement,
            limit=np.array([NO_LIMIT if s.limit is None else s.limit for s in up]),
            choice_rng=self._rngs[0],
            server_rng=self._rngs[1],
        )
        # a server counts what it received since it joined, whoever else comes and goes
        self._world.sent[:] = [server.sent for server in up]
        self._world.promise[:] -= self._world.sent
        self._record = keep_view(self._world)  # the record and the world live as long as each other
        self._address = self._record.ctypes.data
        steps, world = make_steps(spec.policy, True), self._world
        alone = not self.agents
        self._arrive = by_address(steps.arrive if alone else steps.send, world)
        self._depart = by_address(steps.depart if alone else steps.left, world, 1)
        self._take_back = by_address(steps.undo if alone else steps.take_back, world, 1)
        self._place = by_address(steps.place if alone else steps.book, world, 1)
        self._book = by_address(steps.book, world, 1)
        self._unbook = by_address(steps.take_back, world, 1)
        self._update = by_address(steps.update, world, 1)
        self._hear_from = by_address(steps.hear_from, world, 3)
        self._adapt = by_address(steps.learn, world)


def _check_needs(spec: PolicySpec) -> None:
    if needs := " and ".join(sorted(spec.policy.needs - {"speeds"})):
        raise PolicyMismatch(
            f"policy '{spec.label}' must observe {needs}, which a live dispatcher cannot "
            "see; simulate it instead"
        )


_GONE = Server(None, "gone")


def warm_up(policy: str | dict[str, Any] | Policy | PolicySpec, *, agents: bool = False) -> None:
    """Have everything compiled that a core of this policy calls, so that no task waits for it."""
    core = Core(policy, ("a", "b"), limit=1, agents=agents)
    slots = [core.choose(), core.choose(exclude="a"), core.choose(), core.occupied("a")]
    for i, slot in enumerate(slot for slot in slots if slot is not None):
        (core.not_sent if i % 2 else core.finished)(slot)
    core._book(core._address, 0)  # whether a choice needs them is chance
    core._unbook(core._address, 0)
    if not agents:
        core.update()
        return
    core.heard("a", 1, 0)
    core.adapt()
