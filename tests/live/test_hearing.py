"""What the dispatcher believes of agents, on wires that lose, hold, double and mix up lines.

One dispatcher's beliefs are checked against the truth after every event: no server ever has more
tasks than it is believed to have. When all has come to rest every belief is the truth itself. Then
each defence is taken out, and the same checks fail.
"""

import math
from collections import Counter

import pytest
from live.net import Host, Net, Side, beliefs, never_below, truth

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

    return begin


def late(net, side):
    """Lines of a stream that has been cut come when the next one is open."""
    side.faults["*"].update(late=True, delay=0.2)
    cut(net, side)


def replayed(net, side):
    """After a restart something on the way answers, twice, with what the last generation said."""
    host = net.hosts["a"]

    def again():
        old = list(side.wires["a"].record)
        host.kill()
        side.faults["a"] = {"replay": [old, old]}
        host.boot()

    net.after(3.0, again)
    net.after(6.0, again)


def at_once(net, side):
    """Tasks come before the first answer has."""
    side.faults["*"].update(delay=0.3)


def paused(net, side):
    """A server is taken out by checks again and again; its agent goes on telling."""

    def turn(out):
        (side.core.paused if out else side.core.resumed)("a")
        if net.now < 108 or out:
            net.after(0.4, turn, not out)

    net.after(1.0, turn, True)


CHAOS = {
    "paused": paused,
    "at once": at_once,
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
    CHAOS[fault](net, side)
    traffic(net, side, aborts, rate, begin=0.0 if fault == "at once" else 0.5)
    net.run(40.0)
    return net, side


def traffic(net, side, aborts=0.15, rate=10.0, until=110.0, begin=0.5):
    """Tasks that overtake each other on their way, some of whose clients leave."""
    luck = net.luck

    def arrival():
        if net.now < until and side.alive:
            abort = luck.random() * 0.4 if luck.random() < aborts else None
            side.send(way=luck.random() * 0.1, service=luck.expovariate(1.0), abort=abort)
            net.after(luck.expovariate(rate), arrival)

    net.after(begin, arrival)


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


@pytest.mark.slow
@pytest.mark.parametrize("fault", CHAOS)
def test_the_same_for_many_seeds(fault):
    for seed in range(2, 12):
        for policy in POLICIES:
            at_rest(*play(fault, policy, seed=seed))


@pytest.mark.parametrize("policy", ["aujsq-exp", "aujsq-det(idle_only=true)", "sujsq-det"])
@pytest.mark.parametrize("fault", ["nothing", "killed", "cut", "missing", "delayed"])
def test_with_a_clock_estimates_are_never_below_and_right_after_an_update(policy, fault):
    net = Net(3)
    for name in NAMES:
        Host(net, name)
    side = Side(net, policy, NAMES, period=0.5)
    net.checks.append(never_below(net, side))
    traffic(net, side)
    CHAOS[fault](net, side)
    net.run(40.0)

    at_rest(net, side)


def test_questions_by_the_dispatchers_clock_cost_a_message_more():
    net = Net(1)
    for name in NAMES:
        Host(net, name)
    side = Side(net, "aujsq-exp(mode=push)", NAMES, period=0.5)
    net.run(1.0)
    before = side.core.messages()

    for _ in range(10):
        side.ask()
        net.run(0.1)
    counted = side.core.messages()

    assert counted["update"] - before["update"] == 10 * 2 * len(NAMES)
    assert {kind: n for kind, n in counted.items() if kind != "update"} == {
        kind: n for kind, n in before.items() if kind != "update"
    }


@pytest.mark.parametrize(
    "policy",
    [
        *(*POLICIES, "sed", "jbt(r=2)", "threshold(level=1, step=3)", "total-threshold"),
        "learning-threshold(alpha=0.6, rule=program)",
    ],
)
def test_with_instant_messages_choices_are_those_of_a_dispatcher_alone(policy):
    """One that runs both halves itself, from the same seed and the same events."""
    net = Net(4)
    for name in NAMES:
        Host(net, name)
    side = Side(net, policy, NAMES, seed=9)
    net.run(0.5)
    alone, held = Core(policy, NAMES, seed=9), []

    for _ in range(400):
        if held and net.luck.random() < len(held) / (len(held) + 10):
            job, slot = held.pop(net.luck.randrange(len(held)))
            job._finish()
            alone.finished(slot)
        else:
            job, slot = side.send(way=0.0, service=1e9), alone.choose()
            assert job.slot.server.name == slot.server.name
            net.run(0.0)
            side.hearing.learn()
            held.append((job, slot))
        net.run(0.001)
        assert side.core.announcement == alone.announcement
    assert side.core.messages() == {
        kind: n + (len(NAMES) if kind == "answer" else 0) for kind, n in alone.messages().items()
    }


# -- two dispatchers ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["nothing", "killed", "cut", "delayed", "overtaken", "missing"])
@pytest.mark.parametrize("policy", POLICIES)
def test_two_dispatchers_of_the_same_servers_both_end_with_the_truth(policy, fault):
    net = Net(5)
    for name in NAMES:
        Host(net, name)
    sides = [Side(net, policy, NAMES, name=f"d{i}", seed=i) for i in range(2)]
    for side in sides:
        traffic(net, side)
        CHAOS[fault](net, side)
    net.run(40.0)

    for side in sides:
        at_rest(net, side)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_dispatcher_that_is_started_again_takes_nothing_over_and_leaves_nothing(policy):
    """Servers go on with the tasks of the one that is gone; the new one hears of them in m."""
    net = Net(7)
    for name in NAMES:
        Host(net, name)
    first = Side(net, policy, NAMES, name="first")
    traffic(net, first, rate=20.0)
    net.run(4.0)
    first.die()
    net.run(0.2)  # what was on its way is there
    assert any(host.length for host in net.hosts.values())
    second = Side(net, policy, NAMES, name="second")
    net.run(0.05)  # it has heard
    net.checks.append(never_below(net, second))
    if policy == "jsq":
        lengths = {name: host.length for name, host in net.hosts.items()}
        assert beliefs(second.core) == lengths
    traffic(net, second)
    net.run(40.0)

    at_rest(net, second)


def test_a_server_that_is_restarted_with_an_honest_zero_is_believed():
    net = Net(1)
    hosts = [Host(net, name) for name in "ab"]
    side = Side(net, "jsq", "ab")
    net.run(1.0)
    for _ in range(6):
        side.send(service=50.0)
    net.run(0.5)
    assert beliefs(side.core) == {"a": 3, "b": 3}

    hosts[0].kill()
    hosts[0].boot()
    net.run(1.0)

    assert beliefs(side.core) == {"a": 0, "b": 3}
    assert side.core.lengths() == {"a": 0, "b": 3}
    assert [side.send().slot.server.name for _ in range(3)] == ["a"] * 3


def test_a_restart_that_nobody_was_told_of_is_believed_when_tasks_have_had_their_time():
    """Tasks of the former life hang; for `unheard` seconds they may be on their way to the new."""
    net = Net(1)
    hosts = [Host(net, name) for name in "ab"]
    side = Side(net, "jsq", "ab")
    net.run(1.0)
    for _ in range(6):
        side.send(service=50.0)
    net.run(0.5)

    hosts[0].kill(reset=False)
    hosts[0].boot()
    net.run(1.0)
    assert side.core.known()["a"].most == 3
    net.run(3.0)
    assert side.core.known()["a"].most == 0
    assert side.core.known()["a"].tasks == 3, "they are still out, whatever becomes of them"


# -- unheard --------------------------------------------------------------------------------------


def shares(side, tasks):
    """Send so many tasks, one at a time; return how many each server got."""
    counts = Counter()
    for _ in range(tasks):
        job = side.send(service=0.001)
        counts[job.slot.server.name] += 1
        side.net.run(0.01)
    return counts


def deafen(net, side, names=NAMES):
    for name in names:
        side.wires[name].faults = side.faults[name] = {"half-open": True}


@pytest.mark.parametrize("policy", [*POLICIES, "sed", "jbt(r=2)", "total-threshold", "aujsq-exp"])
def test_when_no_server_is_heard_tasks_go_to_random_ones_and_that_is_said(policy):
    net = Net(1)
    for name in NAMES:
        Host(net, name)
    side = Side(net, policy, NAMES, period=1.0)
    net.run(1.0)
    for _ in range(3):  # so that beliefs differ
        side.send(service=1000.0)
    deafen(net, side)
    net.run(3.5)

    assert side.hearing.deaf
    assert side.hearing.counts()["unheard"] == len(NAMES)
    assert "no server is heard: tasks go to servers at random" in side.events
    announced, n = side.core.announcement, 2000
    counts = shares(side, n)
    error = math.sqrt(n * (1 / 4) * (3 / 4))
    assert all(abs(counts[name] - n / 4) < 4 * error for name in NAMES), counts
    if policy != "total-threshold":
        assert side.core.announcement == announced, "of nothing nothing is learnt"

    side.faults.update({name: {} for name in NAMES})
    net.run(4.0)
    assert not side.hearing.deaf
    known = {name: one.most for name, one in side.core.known().items()}
    lengths = {name: host.length for name, host in net.hosts.items()}
    if policy in ("jsq", "sed", "aujsq-exp"):
        assert known == lengths
    else:
        assert beliefs(side.core) == truth(side.core, lengths)


@pytest.mark.parametrize("policy", ["jsq", "jiq", "threshold(level=2)"])
def test_a_server_that_is_not_heard_is_chosen_last(policy):
    net = Net(1)
    for name in NAMES:
        Host(net, name)
    side = Side(net, policy, NAMES)
    net.run(1.0)
    deafen(net, side, "a")
    net.run(3.5)
    assert [ear.state for ear in side.hearing.ears.values()] == ["unheard", *["open"] * 3]

    counts = shares(side, 300)

    assert counts["a"] == 0
    assert not side.hearing.deaf


def test_a_stream_that_is_lost_for_less_voids_nothing():
    net = Net(1)
    for name in NAMES:
        Host(net, name)
    side = Side(net, "jsq", NAMES)
    net.run(1.0)
    for _ in range(6):
        side.send(service=100.0)
    net.run(0.1)
    before = beliefs(side.core)

    for name in NAMES:
        net.hosts[name].up = False  # cannot be reached, and does not die
        side.wires[name].close("cut")
    net.run(2.5)

    assert beliefs(side.core) == before
    assert side.hearing.counts()["open"] == 0


# -- one line after the other ---------------------------------------------------------------------


class Ends:
    """A stream of which nothing comes but what the test says."""

    def __init__(self, policy="jsq"):
        self.core, self.said, self.why, self.events = Core(policy, agents=True), [], [], []
        self.hearing = Hearing(self.core, "d", note=self.events.append)
        self.core.joined("a", length=None)
        self.hearing.joined("a", 0.0)
        self.ear = self.hearing.ears["a"]
        self.open()

    def open(self):
        self.talk = self.hearing.opened("a", self, 0.0)

    def say(self, data):
        self.said.append(of_dispatcher(data[:-1]))

    def close(self, why, *, refused=False):
        self.why.append(why)
        self.hearing.closed(self.talk, why, refused=refused)

    def hear(self, *lines, now=0.0):
        for said in lines:
            self.hearing.line(self.talk, line(said)[:-1], now, now)

    def send(self):
        slot = self.core.choose()
        return slot, self.hearing.started(slot)


HELLO = Welcome("0", "g", None, 0.0)


def test_tasks_are_numbered_from_the_hello_of_the_agent_on():
    ends = Ends()
    before, header = ends.send()
    assert header == b""
    ends.hear(HELLO, Message(1, 0, 1, "answer"))

    headers = [ends.send()[1] for _ in range(2)]

    assert headers == [b"Equipoise-Task: d.1 1\r\n", b"Equipoise-Task: d.1 2\r\n"]
    assert ends.core.known()["a"].most == 3
    ends.hear(Message(2, 1, 2, "leave"))
    assert ends.core.known()["a"].most == 3, "one of each kind is to come"
    ends.hearing.ended(before, came=True)
    assert ends.core.known()["a"].most == 2


def test_what_is_over_is_said_in_lines_of_bounded_length_and_again_on_the_next_stream():
    ends = Ends()
    ends.hear(HELLO)
    slots = [ends.send()[0] for _ in range(MOST_OVER + 10)]
    ends.close("cut")
    for slot in slots:
        ends.hearing.ended(slot, came=False)
    ends.said.clear()

    for _ in range(2):
        ends.open()
        ends.hear(HELLO)
        _, *overs = ends.said
        assert [len(over.numbers) for over in overs] == [MOST_OVER, 10]
        ends.said.clear()
    ends.hear(Message(1, len(slots), 1, "answer"))
    ends.open()
    ends.hear(HELLO)
    assert len(ends.said) == 1, "it has shown that it knows"


def test_an_agent_that_never_shows_what_it_has_received_is_begun_anew():
    ends = Ends()
    ends.hear(HELLO)
    for _ in range(MOST_UNSETTLED + 1):
        ends.hearing.ended(ends.send()[0], came=False, stays=True)

    assert ends.ear.dispatcher == "d.2"
    assert ends.hearing.restarts == 1
    assert not ends.ear.over
    assert not ends.ear.said
    assert len(ends.ear.carried) == MOST_UNSETTLED + 1
    ends.hearing.tick(10.0)
    assert not ends.ear.carried
    assert ends.core.lengths() == {"a": 0}


@pytest.mark.parametrize(
    ("received", "why"), [(3, "3 tasks, after 0, of 2 sent"), (0, "0 tasks, after 1, of 2 sent")]
)
def test_an_agent_that_counts_what_cannot_be_is_not_believed(received, why):
    ends = Ends()
    ends.hear(HELLO, Message(1, 0, 1, "answer"))
    for _ in range(2):
        ends.send()
    if not received:
        ends.hear(Message(2, 1, 2, "leave"))

    ends.hear(Message(1, received, 3, "leave"))

    assert ends.core.known()["a"].most is None
    assert why in ends.events[0]
    assert ends.hearing.dropped["false"] == 1
    assert len(ends.why) == 1


def test_another_generation_on_one_stream_is_a_restart():
    ends = Ends()
    ends.hear(HELLO, HELLO)
    assert ends.why == []

    ends.hear(HELLO._replace(generation="other"))

    assert ends.why == ["restarted"]


def test_a_generation_that_is_gone_is_not_heard_again():
    ends = Ends()
    ends.hear(HELLO)
    ends.open()
    ends.hear(HELLO._replace(generation="next"))
    ends.open()

    with pytest.raises(WireError, match="gone"):
        ends.hear(HELLO)


def test_a_message_before_the_hello_is_wrong():
    with pytest.raises(WireError, match="before it has said hello"):
        Ends().hear(Message(1, 0, 1, "answer"))


def test_a_sign_of_life_shows_that_messages_are_missing_and_the_question_is_not_repeated():
    ends = Ends()
    ends.hear(HELLO, Message(1, 0, 1, "answer"), Beat(1))
    assert len(ends.said) == 1

    ends.hear(Beat(3), Beat(3))

    assert len(ends.said) == 2
    assert ends.hearing.gaps == 2


def test_a_question_that_is_not_answered_ends_the_stream():
    ends = Ends()
    ends.hear(HELLO, Message(1, 0, 1, "answer"), Message(2, 0, 3, "leave"))
    for now in (1.0, 2.0, 3.0):
        ends.hear(Beat(), now=now)
        ends.hearing.tick(now)
    assert ends.why == []

    ends.hear(Beat(), now=3.5)
    ends.hearing.tick(3.5)

    assert ends.why == ["no answer within 3 s"]


def test_a_server_that_has_left_is_heard_no_more():
    ends = Ends()
    ends.hear(HELLO)
    slot, _ = ends.send()
    ends.hearing.left("a")
    ends.core.left("a")

    ends.hear(Message(1, 0, 1, "answer"))
    ends.hearing.failed("a", "late")
    ends.hearing.ask("a", 0.0)

    assert ends.hearing.dropped["old stream"] == 1
    assert ends.hearing.opened("a", ends, 0.0) is None
    assert ends.hearing.status("a", 0.0) == {}
    assert ends.hearing.ended(slot, came=True) is True
    assert ends.hearing.ended(slot, came=True) is False
    assert ends.core.spurious == 1


# -- one defence after the other is taken out -----------------------------------------------------


def no_sequence(patch):
    patch.setattr(Hearing, "_is_newer", lambda self, talk, said: True)


def no_generation(patch):
    """Whoever answers is taken for the agent that was there."""
    patch.setattr(Hearing, "_is_other", lambda self, ear, generation: False)
    patch.setattr(Hearing, "_is_possible", lambda self, ear, received: True)


def no_past(patch):
    patch.setattr(Hearing, "_remember", lambda self, ear: None)


def no_current(patch):
    """Lines of old streams are heard."""
    patch.setattr(Hearing, "_is_current", lambda self, talk: True)


def no_own_sends(patch):
    """A message is taken to know of all tasks that were sent."""
    heard = Core.heard

    def all_received(self, name, m, received, kind=None):
        server = self.server(name)
        self._save()
        heard(self, name, m, server.sent, kind)

    patch.setattr(Core, "heard", all_received)


def no_settling(patch):
    patch.setattr(Hearing, "_settle", lambda self, ear, number, slot: None)


def no_saying_again(patch):
    """What was said to be over is forgotten when it has been said."""
    flush = Hearing._flush

    def once(self, ear):
        flush(self, ear)
        ear.said.clear()

    patch.setattr(Hearing, "_flush", once)


def no_question(patch):
    patch.setattr(Hearing, "_miss", lambda self, talk, now: None)


def no_carrying(patch):
    """Tasks without numbers are taken to be counted by the server at once."""
    started = Hearing.started

    def not_carried(self, slot):
        found = started(self, slot)
        ear = self.ears[slot.server.name]
        if ear.carried.pop(slot, None) is not None:
            ear.out[slot] = 0
            self.core.received(slot)
        return found

    patch.setattr(Hearing, "started", not_carried)


def not_a_set(patch):
    """The agent says the highest number it has seen, not how many."""
    add = telling.Received.add

    def highest(self, number):
        new = add(self, number)
        self.count = max([self.base, *self.ends])
        return new

    patch.setattr(telling.Received, "add", highest)


def not_all_answered(patch):
    """The policy learns again before all have answered."""
    patch.setattr(Hearing, "_may_learn", lambda self: True)


def never_forgets(patch):
    patch.setattr(Hearing, "_forget", lambda self, ears: None)


DEFENCES = {
    no_sequence: ("overtaken", "jsq", 10),
    no_generation: ("killed", "jsq", 10),
    no_past: ("replayed", "jsq", 10),
    no_current: ("late", "jsq", 10),
    no_own_sends: ("delayed", "jsq", 10),
    no_settling: ("nothing", "jsq", 10),
    no_saying_again: ("late", "jsq", 60),
    no_question: ("missing", "jiq", 10),
    no_carrying: ("at once", "jiq", 20),
    not_a_set: ("nothing", "jsq", 60),
    not_all_answered: ("delayed", "learning-threshold(alpha=0.6)", 10),
}


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda defence: defence.__name__)
def test_without_a_defence_beliefs_become_false(monkeypatch, defence):
    fault, policy, rate = DEFENCES[defence]
    seeds = range(1, 6)
    for seed in seeds:
        sound(fault, policy, seed, rate)
    defence(monkeypatch)

    failed = 0
    for seed in seeds:
        try:
            sound(fault, policy, seed, rate)
        except AssertionError:
            failed += 1

    assert failed >= 2, "two of five runs, so that it is no accident"


def sound(fault, policy, seed, rate):
    net, side = play(fault, policy, seed=seed, rate=rate)
    at_rest(net, side)
    assert side.core.announcement <= 4 * rate / len(NAMES)


def test_without_forgetting_servers_that_are_not_heard_are_still_relied_on(monkeypatch):
    never_forgets(monkeypatch)

    with pytest.raises(AssertionError):
        test_when_no_server_is_heard_tasks_go_to_random_ones_and_that_is_said("jsq")
    with pytest.raises(AssertionError):
        test_a_server_that_is_not_heard_is_chosen_last("jsq")
