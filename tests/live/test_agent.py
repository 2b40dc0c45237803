"""The agent without I/O: what it tells is what one dispatcher alone would have told itself."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.live.agent import Agent, NotWelcome
from equipoise.live.core import Core
from equipoise.live.telling import MOST_DISPATCHERS, MOST_GAPS, Received
from equipoise.live.wire import Announce, Ask, Hello, Message, Over, Welcome
from equipoise.policies import POLICIES, Policy
from equipoise.rng import SERVERS_SEED, make_rng, seeds

# one of each policy whose servers tell something, and variants where parameters matter
TOLD = [
    *("jsq", "sed", "jiq", "sparsified-jiq(p=0.4)", "jbt(r=2)", "jbt(r=3)"),
    *("threshold(level=2)", "threshold(level=1, step=3)", "threshold(level=0)"),
    *("learning-threshold(alpha=0.6)", "learning-threshold(alpha=0.6, step=2, level=4)"),
    "learning-threshold(alpha=0.6, rule=program)",
    *("total-threshold", "total-threshold(step=2)"),
    *("sujsq-det", "sujsq-exp", "aujsq-det", "aujsq-det(idle_only=true)"),
    *("aujsq-exp", "aujsq-exp(mode=push)", "stale-jsq"),
]
told = pytest.mark.parametrize("policy", TOLD)


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def hello(spec, name="d.1", announcement=0, period=None, **changed):
    """A dispatcher's first line for this policy."""
    said = Hello("0.1.0", name, spec.policy.name, dict(spec.params), announcement, period, 0.0)
    return said._replace(**changed)


def test_every_policy_that_is_told_something_is_tried_here():
    tried = {text.partition("(")[0] for text in TOLD}

    assert tried == {name for name, policy in POLICIES.items() if policy.tells}


class Linked:
    """A core with agents, every message heard at once: what instant messages would be."""

    def __init__(self, policy, names, seed):
        self.core = Core(policy, names, seed=seed, agents=True)
        self.coins = make_rng(seeds(seed, 0)[SERVERS_SEED])  # those of a core that is alone
        self.number = 0
        self.agents, self.links, self.sent = {}, {}, {}
        self.said = Counter()  # by kind, silence and what is said at a hello aside
        self.greeting = False
        self.lives = itertools.count()
        for name in names:
            self.link(name)

    def link(self, name):
        agent = self.agents[name] = Agent(wall=lambda: 0.0)
        agent.coins = self.coins
        self.sent[name] = 0
        said = hello(self.core.spec, f"d.{next(self.lives)}", self.core.announcement, 1.0)
        self.greeting = True
        self.links[name] = agent.hello(said, lambda line: self.hear(name, line))
        self.greeting = False

    def hear(self, name, line):
        if isinstance(line, Message):
            self.core.heard(name, line.m, line.received)
            self.said[line.kind] += line.m > 0 and not self.greeting

    def choose(self):
        slot = self.core.choose()
        name = slot.server.name
        self.sent[name] += 1
        self.agents[name].started((self.links[name].record.name, self.sent[name]))
        value = self.core.adapt()
        if value is not None and self.core.spec.policy.announces:
            self.number += 1
            for server in self.core.servers:
                self.links[server.name].announce(value, self.number)
        return slot

    def finished(self, slot):
        self.core.finished(slot)
        self.agents[slot.server.name].finished()

    def update(self, name):
        link = self.links[name]
        if link.spec.params.get("mode") == "push":
            link.ask()
        else:
            link.next = 0.0
            link.due(1.0)

    def joined(self, name):
        self.core.joined(name)
        self.link(name)

    def left(self, name):
        self.core.left(name)
        self.links.pop(name).close()


def script(seed, events, most):
    """Starts, finishes, updates, joins and leaves; what they refer to is drawn as they come."""
    coins = random.Random(seed)
    for _ in range(events):
        yield coins.random(), coins.random(), coins.random() < most


@told
def test_choices_are_those_of_a_dispatcher_alone_when_messages_are_instant(policy):
    """4000 events: tasks, updates by the clock, servers that leave and come with nothing there.

    When servers come or go a dispatcher alone looks at its own lengths, and knows more than it was
    told. So those with a clock update just before; and none leave where servers keep still at times.
    """
    most = 0.0 if policy.startswith("sparsified") or "idle_only" in policy else 0.01
    alone = Core(policy, "abcde", seed=5)
    linked = Linked(policy, "abcde", 5)
    pairs, up, free, choices = [], list("abcde"), list("fg"), []
    for kind, which, rare in script(3, 4000, most):
        for name in up if rare and alone.spec.policy.clock is not None else ():
            alone.update(name)
            linked.update(name)
        if rare and kind < 0.5 and len(up) > 3:
            name = up.pop(int(which * len(up)))
            free.append(name)
            alone.left(name)
            linked.left(name)
            pairs = [pair for pair in pairs if pair[0].server.name != name]
        elif rare and free:
            name = free.pop(0)
            up.append(name)
            alone.joined(name)
            linked.joined(name)
        elif alone.spec.policy.clock is not None and kind < 0.2:
            name = up[int(which * len(up))]
            alone.update(name)
            linked.update(name)
        elif kind < 0.6 and len(pairs) < 20 or not pairs:
            pair = alone.choose(), linked.choose()
            pairs.append(pair)
            choices.append([slot.server.name for slot in pair])
        else:
            pair = pairs.pop(int(which * len(pairs)))
            alone.finished(pair[0])
            linked.finished(pair[1])

    assert len(choices) > 1000
    assert [one for one, _ in choices] == [other for _, other in choices]
    assert linked.core.lengths() == alone.lengths()
    assert linked.core.announcement == alone.announcement
    assert linked.core.changes == alone.changes
    counted = Counter(alone.messages())
    if "push" in policy:  # the question is the dispatcher's
        counted["update"] //= 2
    assert linked.said == counted
    assert {name: agent.length for name, agent in linked.agents.items() if name in up} == (
        alone.lengths()
    )
