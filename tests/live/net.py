"""Dispatchers and agents in one process, in a time of its own, on wires that can do anything.

Lines and tasks are events with a time: they can be late, lost, doubled, out of order. Whoever asks
for the truth gets it from the agents' own counts of tasks, and from what the net itself has moved.
"""

import heapq
import itertools
import json
import random

from equipoise.live.agent import Agent
from equipoise.live.core import Core
from equipoise.live.hearing import Hearing
from equipoise.live.wire import (
    Beat,
    Hello,
    Message,
    Welcome,
    WireError,
    line,
    of_dispatcher,
    task,
)
from equipoise.policies.levels import Bands, Levels
from equipoise.policies.steps import make_world
from equipoise.rng import make_rng


class Net:
    """Virtual time, and the events in it."""

    def __init__(self, seed=1):
        self.now = 100.0
        self.luck = random.Random(seed)
        self._events, self._numbers = [], itertools.count()
        self.hosts, self.sides, self.checks = {}, [], []

    def at(self, time, call, *arguments):
        heapq.heappush(self._events, (time, next(self._numbers), call, arguments))

    def after(self, seconds, call, *arguments):
        self.at(self.now + seconds, call, *arguments)

    def run(self, seconds):
        """Let so much time pass; after every event everything is checked."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, call, arguments = heapq.heappop(self._events)
            call(*arguments)
            for check in self.checks:
                check()
        self.now = end


class Host:
    """A server with its agent."""

    def __init__(self, net, name, **given):
        self.net, self.name, self.given = net, name, given
        self.generations, self.wires, self.tasks = 0, [], {}
        self.up = False
        net.hosts[name] = self
        self.boot()

    def boot(self):
        net = self.net
        self.agent = Agent(
            clock=lambda: net.now, wall=lambda: net.now, seed=self.generations, **self.given
        )
        self.generations += 1
        self.up = True
        self._turn(self.agent)

    def _turn(self, agent):
        if agent is self.agent and self.up:
            agent.due(self.net.now)
            self.net.after(0.05, self._turn, agent)

    def kill(self, *, reset=True):
        """The process dies: its tasks with it, its connections too, if anyone is told."""
        self.up = False
        tasks, self.tasks = self.tasks, {}
        for job in tasks.values():
            job.died(reset)
        for wire in list(self.wires):
            wire.close("connection reset")

    @property
    def length(self):
        return len(self.tasks)


class Wire:
    """One stream between a dispatcher and an agent."""

    def __init__(self, net, side, host):
        self.net, self.side, self.host = net, side, host
        self.faults = side.faults.get(host.name, side.faults["*"])
        self.open, self.last, self.held = True, net.now, []
        self.to_agent = self.to_dispatcher = net.now  # when what was sent last arrives
        self.link = self.talk = None
        self.record = []  # lines of the agent
        self.sent = itertools.count()
        self.newest, self.promise = 0, None  # of what was delivered: sequence, and m - received
        host.wires.append(self)
        self.talk = side.hearing.opened(host.name, self, net.now)

    # what the dispatcher says
    def say(self, data):
        if self.open and not self.faults.get("half-open"):
            self.to_agent = max(self.to_agent, self.net.now + self._delay())
            self.net.at(self.to_agent, self._hear, data)

    def _hear(self, data):
        if not (self.open and self.host.up):
            return
        said = of_dispatcher(data.rstrip(b"\n"))
        if isinstance(said, Hello):
            if replays := self.faults.get("replay"):  # a cache on the way: it answers for the agent
                for i, old in enumerate(replays.pop()):
                    self.net.after(0.1 * i, self._deliver, old)
                self.net.after(0.1 * i + 0.1, self.close)
                return
            self.link = self.host.agent.hello(said, self._send, self.close)
            self._beat()
        elif self.link is not None:
            self.link.take(said)

    def _beat(self):
        if self.open and self.host.up:
            self._send(Beat(self.link.sequence))
            self.net.after(1.0, self._beat)

    # what the agent says
    def _send(self, said):
        data = line(said)[:-1]
        self.record.append(data)
        if self.faults.get("half-open"):
            return
        luck, faults = self.net.luck, self.faults
        if isinstance(said, Message):
            number = next(self.sent)
            if number and luck.random() < faults.get("missing", 0):
                return
            if luck.random() < faults.get("twice", 0):
                self.net.after(self._delay() + luck.random(), self._deliver, data)
        due = self.net.now + self._delay()
        if luck.random() < faults.get("overtaken", 0) and not isinstance(said, Welcome):
            due += luck.random() * 0.5  # later lines do not wait for it
        else:
            due = self.to_dispatcher = max(self.to_dispatcher, due)
        self.net.at(due, self._deliver, data)

    def _delay(self):
        return self.faults.get("delay", 0.0) + self.net.luck.random() * self.faults.get("jitter", 0)

    def _deliver(self, data, again=False):
        if not self.open and self.faults.get("late") and not again:
            self.net.after(1.0, self._deliver, data, True)
            return
        if not self.open and not again:
            return
        self.last = self.net.now
        if self.talk is None:
            return
        if self.open and b'"m"' in data:
            found = json.loads(data)
            if found["sequence"] > self.newest:
                self.newest = found["sequence"]
                self.promise = found["m"] - found["received"] if found["m"] else self.promise
        try:
            self.side.hearing.line(self.talk, data, self.net.now, self.net.now)
        except WireError as error:
            self.close(str(error))

    def close(self, why="cut", *, refused=False):
        if not self.open:
            return
        self.open = False
        self.host.wires.remove(self)
        if self.link is not None:
            self.link.close()
        self.side.hearing.closed(self.talk, why, refused=refused)
        self.net.after(0.1, self.side.connect, self.host.name, self)


class Side:
    """A dispatcher: core, hearing, and its wires."""

    def __init__(self, net, policy, hosts, *, name="d0", period=None, seed=1, unheard=3.0):
        self.net, self.faults, self.wires, self.events = net, {"*": {}}, {}, []
        self.core = Core(policy, seed=seed, agents=True)
        self.hearing = Hearing(
            self.core, name, unheard=unheard, period=period, note=self.events.append
        )
        self.period, self.alive, self.jobs = period, True, set()
        self.hearing.on_join = lambda name: self.connect(name, None)
        self.hearing.on_leave = lambda name: self.wires.pop(name).close("it has left")
        for host in hosts:
            self.core.joined(host, length=None)
            self.hearing.joined(host, net.now)
        net.sides.append(self)
        self._tick()

    def connect(self, name, before):
        if not self.alive or self.wires.get(name) is not before or name not in self.hearing.ears:
            return
        host = self.net.hosts[name]
        if host.up:
            self.wires[name] = Wire(self.net, self, host)
        else:
            self.hearing.failed(name, "connection refused")
            self.net.after(0.1, self.connect, name, before)

    def _tick(self):
        if not self.alive:
            return
        now = self.core.now = self.net.now
        for wire in list(self.wires.values()):
            if now - wire.last > self.hearing.unheard:
                wire.close("nothing was heard")
        self.hearing.tick(now)
        self.net.after(0.05, self._tick)

    def ask(self):
        for name in self.hearing.ears:
            self.hearing.ask(name, self.net.now)

    def send(self, **how):
        """Send a task where the policy says."""
        self.hearing.learn()
        slot = self.core.choose()
        if slot is not None:
            self.jobs.add(job := Job(self, slot, **how))
            return job
        return None

    def die(self):
        """The process ends: its connections close, and servers go on with its tasks."""
        self.alive = False
        for wire in list(self.wires.values()):
            wire.close("gone")
        self.net.sides.remove(self)


class Job:
    """A task on its way, at its server, or back."""

    def __init__(self, side, slot, *, way=0.002, service=1.0, abort=None):
        self.side, self.slot, self.net = side, slot, side.net
        self.host = self.net.hosts[slot.server.name]
        self.state = "going"
        field = side.hearing.started(slot)
        self.task = task(field.split(b": ")[1].strip()) if field else None
        self.service = service
        self.net.after(way, self._arrive)
        if abort is not None:
            self.net.after(abort, self._abort)

    def _arrive(self):
        if self.state != "going":
            return
        if not self.host.up:
            self._end(came=False)
        elif self.host.agent.started(self.task):
            self.state = "there"
            self.host.tasks[self] = self
            self.net.after(self.service, self._finish)
        else:
            self._end(came=True)

    def _finish(self):
        if self.host.tasks.pop(self, None) is not None:
            self.host.agent.finished()
            if self.state == "there":
                self._end(came=True)

    def _abort(self):
        """The client leaves: a task on its way never comes, one that is there goes on."""
        if self.state in ("going", "there"):
            self._end(came=False, stays=True)

    def died(self, told):
        if self.state == "there" and told:
            self._end(came=False)
        elif self.state == "there":
            self.net.after(15.0, self._abort)  # the dispatcher's patience

    def _end(self, *, came, stays=False):
        self.state = "over"
        self.side.jobs.discard(self)
        if self.side.alive:
            self.side.hearing.ended(self.slot, came=came, stays=stays)


def beliefs(core):
    """The band or level of each server that is up, in the dispatcher's memory."""
    return _index(core.world.state, core.servers)


def truth(core, lengths):
    """The same for a dispatcher that sees these lengths."""
    policy, up = core.spec.policy, core.servers
    world = make_world(
        policy,
        dict(core.spec.params),
        [lengths[server.name] for server in up],
        announcement=core.announcement,
        choice_rng=make_rng(1),
        server_rng=make_rng(2),
    )
    return _index(world.state, up)


def _index(state, up):
    for part in state:
        if isinstance(part, Levels):
            return {server.name: int(part.place[server.index, 1]) for server in up}
        if isinstance(part, Bands):
            ends = part.end.tolist()
            return {
                server.name: sum(int(part.position[server.index]) >= end for end in ends)
                for server in up
            }
    raise AssertionError("no index in this memory")


def never_below(net, side):
    """A check: no server has more tasks than the dispatcher believes, and no count is negative."""

    def check():
        if not side.alive:
            return
        for name, known in side.core.known().items():
            host, ear = net.hosts[name], side.hearing.ears[name]
            assert known.most is None or known.most >= host.length, f"{name}: {known}"
            assert known.tasks >= 0
            server = side.core.server(name)
            assert server.slots >= 0
            assert server.sent >= ear.received >= 0
            wire = side.wires.get(name)
            if wire and wire.open and wire.promise is not None and not ear.unheard:
                assert server.promise == wire.promise, f"{name}: not the newest that was heard"

    return check
