"""What the dispatcher believes of agents, on wires that lose, hold, double and mix up lines.

One dispatcher's beliefs are checked against the truth after every event: no server ever has more
tasks than it is believed to have. When all has come to rest every belief is the truth itself. Then
each defence is taken out, and the same checks fail.
"""

import math
from collections import Counter

import pytest
from live.net import Host, Job, Net, Side, Wire, beliefs, never_below, truth

from equipoise.live import telling
from equipoise.live.core import Core
from equipoise.live.hearing import MOST_UNSETTLED, Hearing
from equipoise.live.wire import MOST_OVER, Beat, Message, Welcome, WireError, line, of_dispatcher

POLICIES = ["jsq", "jiq", "threshold(level=2)", "learning-threshold(alpha=0.6)"]
NAMES = "abcd"


# -- chaos --------------------------------------------------------------------------------------


def killed(net, side):
    """A server dies and is started again, twice."""
    host = net.hosts["a"]
    for at in (2.0, 6.0):
        net.after(at, host.kill)
        net.after(at + 1.0, host.boot)


def killed_silently(net, side):
    """The same, and nobody is told that its connections have ended: tasks hang."""
    host = net.hosts["a"]
    net.after(2.0, lambda: host.kill(reset=False))
    net.after(2.0, host.boot)


def cut(net, side):
    """Streams are cut again and again."""

    def one():
        wire = side.wires.get(net.luck.choice(NAMES))
        if wire is not None:
            wire.close("cut")
        if net.now < 110:
            net.after(0.3, one)

    net.after(1.0, one)


def half_open(net, side):
    """For five seconds nothing passes between the dispatcher and one agent."""
    faults = side.faults["a"] = {}
    side.wires["a"].faults = faults
    net.after(2.0, faults.update, {"half-open": True})
    net.after(7.0, faults.clear)


def everywhere(**faults):
    def begin(net, side):
        side.faults["*"].update(faults)
        net.after(8.0, side.faults["*"].clear)

    return begin


def late(net, side):
    """Lines of a stream that has been cut come when the next one is open."""
    side.faults["*"].update(late=True, delay=0.2)
    cut(net, side)


def replayed(net, side):
    """After a restart something on the way answers with what the last generation said."""
    host = net.hosts["a"]

    def again():
        old = list(side.wires["a"].record)
        host.kill()
        side.faults["a"] = {"replay": old}
        host.boot()

    net.after(3.0, again)
    net.after(6.0, again)


CHAOS = {
    "nothing": lambda net, side: None,
    "killed": killed,
    "killed silently": killed_silently,
    "cut": cut,
    "half-open": half_open,
    "delayed": everywhere(delay=1.0, jitter=0.3),
    "overtaken": everywhere(overtaken=0.5, delay=0.05),
    "twice": everywhere(twice=0.5),
    "missing": everywhere(missing=0.3),
    "late": late,
    "replayed": replayed,
}


def play(fault, policy="jsq", *, seed=1, aborts=0.15, hold=False, unheard=3.0, rate=10.0):
    """Ten seconds of traffic under a fault, then rest; return net and dispatcher."""
    net = Net(seed)
    for name in NAMES:
        Host(net, name)
    side = Side(net, policy, NAMES, seed=seed, unheard=unheard)
    net.checks.append(never_below(net, side))
    traffic(net, side, aborts, rate)
    CHAOS[fault](net, side)
    net.run(40.0)
    return net, side


def traffic(net, side, aborts=0.15, rate=10.0, until=110.0):
    """Tasks that overtake each other on their way, some of whose clients leave."""
    luck = net.luck

    def arrival():
        if net.now < until and side.alive:
            abort = luck.random() * 0.4 if luck.random() < aborts else None
            side.send(way=luck.random() * 0.1, service=luck.expovariate(1.0), abort=abort)
            net.after(luck.expovariate(rate), arrival)

    net.after(0.5, arrival)


def at_rest(net, side):
    """Nothing is left of anything, and every belief is right."""
    core = side.core
    assert not any(host.length for host in net.hosts.values())
    assert set(core.lengths().values()) == {0}
    assert [server.slots for server in core.servers] == [0] * len(core.servers)
    assert core.spurious == 0
    for ear in side.hearing.ears.values():
        assert not ear.out
        assert not ear.carried
        assert ear.received == ear.issued
        assert not ear.over
        assert not ear.said
    assert beliefs(core) == truth(core, {name: host.length for name, host in net.hosts.items()})
    for name, known in core.known().items():
        assert known.tasks == 0, name


@pytest.mark.parametrize("fault", CHAOS)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_belief_is_ever_false_and_all_are_right_again_at_rest(policy, fault):
    net, side = play(fault, policy)

    at_rest(net, side)
    assert side.core.announcement <= 4 * 10.0 / len(NAMES), "it does not run away"
