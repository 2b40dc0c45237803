"""Messages that take time: nothing changes where they take none, and what is late stays true."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_mean, cut, run

from equipoise import Scenario, resolve
from equipoise.policies.steps import ANNOUNCEMENTS, ANSWER, CHANGES, MESSAGES, make_world
from equipoise.rng import make_rng
from equipoise.scenario.messages import Messages
from equipoise.sim import events, mail
from equipoise.sim.mail import DRAWN, IN_FLIGHT
from equipoise.sim.run import pick_kernel, replicate, warnings_of


def scenario(delay=0.0, **how):
    run_keys = {key: how.pop(key) for key in ("tasks", "duration", "seed", "start") if key in how}
    service = how.pop("service", {"law": "exponential"})
    load = how.pop("load", 0.8)
    return Scenario.from_dict(
        {
            "servers": {"count": 20, "discipline": "fcfs", **how},
            "arrivals": {"law": "poisson", "load": load},
            "service": service,
            "messages": {"delay": delay},
            "run": {"warm_up": 0.0, "replications": 1, **run_keys},
        }
    )


def same_path(one, other):
    assert one.trail.tolist() == other.trail.tolist()
    assert one.messages.sum(axis=0).tolist() == other.messages.sum(axis=0).tolist()
    assert one.sums.sum(axis=0) == pytest.approx(other.sums.sum(axis=0), rel=1e-9)
    assert one.last_change == other.last_change
    assert (one.responses.sum(axis=0) == other.responses.sum(axis=0)).all()


class NoTime:
    """A law of delays that are all 0: the mail is there, and everything arrives at once."""

    def sample(self, generator, k):
        return np.zeros(k)


@dataclasses.dataclass
class Instant:
    """In the place of a [messages] table."""

    law: NoTime = dataclasses.field(default_factory=NoTime)


@pytest.mark.parametrize(
    ("policy", "servers"),
    [
        ("jsq", {"load": 0.9}),
        ("jiq", {"limit": 2, "load": 1.1}),
        ("threshold(level=2)", {"discipline": "pool", "load": 2.5}),
        ("learning-threshold(alpha=0.6)", {"discipline": "pool", "load": 2.5}),
    ],
)
def test_delays_of_zero_change_nothing(policy, servers):
    """The same seed, the same path: choices, messages, announcements, times."""
    one = scenario(duration=300.0, **servers)
    other = one.model_copy(update={"messages": Instant()})
    assert one.messages.law is None

    without = replicate(one, resolve(policy), 0, kernel="events", trail=50_000)
    within = replicate(other, resolve(policy), 0, kernel="events", trail=50_000)

    assert without.events > 9000
    assert without.messages.sum() > 2000
    if "learning" in policy:
        assert without.messages.sum(axis=0)[CHANGES] > 10
    same_path(without, within)


def test_a_delay_of_zero_in_a_file_is_no_delay():
    assert Messages(delay=0.0).law is None
    assert Messages(delay=0.5).law.moments().mean == 0.5
    assert pick_kernel(scenario()) == "memoryless"
    assert pick_kernel(scenario(0.5)) == "events"


DELAYS = [0.3, {"law": "exponential", "mean": 0.3}]
every_delay = pytest.mark.parametrize("delay", DELAYS, ids=["constant", "exponential"])


@every_delay
@pytest.mark.parametrize("policy", ["jiq", "learning-threshold(alpha=0.6)"])
def test_the_path_does_not_depend_on_how_a_run_is_cut(policy, delay, monkeypatch):
    """Nor on the room that letters have at first, nor on how many delays are drawn at a time."""
    one = scenario(delay, duration=300.0, load=0.9)
    spec = resolve(policy)

    with cut(rows=1, stretches=1):
        whole = replicate(one, spec, 0, kernel="events", trail=50_000)
    grown, make, more = [], mail.make_mail, mail.more_mail
    monkeypatch.setattr(events, "make_mail", lambda n, value, room, m: make(n, value, 1, m))
    monkeypatch.setattr(events, "more_mail", lambda m: (grown.append(1), more(m))[1])
    monkeypatch.setattr(events, "BLOCK", 1)
    with cut(rows=13, stretches=7):
        pieces = replicate(one, spec, 0, kernel="events", trail=50_000)

    assert len(grown) > 3
    same_path(whole, pieces)


@every_delay
def test_delays_leave_the_tasks_alone(delay):
    """Round-robin hears nothing: messages that take time change nothing for it."""
    without = replicate(
        scenario(duration=300.0), resolve("round-robin"), 0, kernel="events", trail=50_000
    )
    within = replicate(
        scenario(delay, duration=300.0), resolve("round-robin"), 0, kernel="events", trail=50_000
    )

    same_path(without, within)


@every_delay
def test_messages_are_counted_when_they_are_sent(delay):
    """jsq: one for each departure, on its way or not; jiq: one each time a server runs empty."""
    one = scenario(delay, duration=300.0)

    jsq = replicate(one, resolve("jsq"), 0, kernel="events", trail=50_000)
    jiq = replicate(one, resolve("jiq"), 0, kernel="events", trail=50_000)

    counted = dict(zip(MESSAGES, jsq.messages.sum(axis=0), strict=False))
    assert counted == {"join": 0, "leave": jsq.finished, "update": 0, "answer": 0, "probe": 0}
    length, emptied = np.zeros(20, int), 0
    for event in jiq.trail:
        server = event if event >= 0 else -1 - event
        length[server] += 1 if event >= 0 else -1
        emptied += event < 0 and length[server] == 0
    counted = dict(zip(MESSAGES, jiq.messages.sum(axis=0), strict=False))
    assert counted == {"join": 0, "leave": emptied, "update": 0, "answer": 0, "probe": 0}


# --- One step at a time, in plain Python ---------------------------------------------------------


class Office:
    """A world whose messages are delivered when the test says so."""

    def __init__(self, policy, lengths, seed=0):
        self.spec = resolve(policy)
        self.world = make_world(
            self.spec.policy,
            dict(self.spec.params),
            np.array(lengths),
            choice_rng=make_rng(seed),
            server_rng=make_rng(seed + 1),
        )
        n = len(lengths)
        self.mail = mail.make_mail(n, int(self.world.announcement[0]), 4096)
        self.steps = mail.make_mail_steps(self.spec.policy)
        self.now = 0.0

    def arrive(self, delays):
        self._draw(delays)
        return self.steps.arrive(self.world, self.mail, self.now)

    def depart(self, server, delays):
        self._draw(delays)
        self.steps.depart(self.world, self.mail, server, self.now)

    def deliver(self, delays):
        if self.mail.counts[IN_FLIGHT]:
            self._draw(delays)
            self.now = max(self.now, float(self.mail.due[0]))
            self.steps.deliver(self.world, self.mail, self.now)

    def _draw(self, delays):
        self.mail.counts[DRAWN] = 0
        needed = 2 * self.world.length.size + 4
        self.mail = self.mail._replace(delay=np.resize(np.array(delays), needed))

    def bound(self, server):
        """The most tasks that the dispatcher believes a server to have, inf if it does not say."""
        state = self.world.state
        if self.spec.policy.name == "jsq":
            return int(state.levels.place[server, 1])
        band = int(np.searchsorted(state.bands.end, state.bands.position[server], side="right"))
        if self.spec.policy.name == "jiq":
            return [0, np.inf][band]
        value, step = int(self.world.announcement[0]), state.par.step
        return [value - 1, value + step - 1, np.inf][band]


delays = st.lists(st.sampled_from([0.0, 0.1, 0.5, 2.0, 7.0]), min_size=1, max_size=7)
scripts = st.lists(
    st.tuples(st.sampled_from(["arrive", "arrive", "depart", "deliver"]), st.integers(0), delays),
    max_size=60,
)
POLICIES = ["jsq", "jiq", "threshold(level=2)", "learning-threshold(alpha=0.6, step=2)"]


@pytest.mark.parametrize("policy", POLICIES)
@given(st.lists(st.integers(0, 4), min_size=3, max_size=6), st.integers(0, 999), scripts)
def test_what_is_believed_of_a_server_is_never_below_the_truth(policy, lengths, seed, script):
    """Own sends added, a promise about the past holds now, whatever it crossed on its way."""
    office = Office(policy, lengths, seed)
    for what, which, drawn in script:
        office.now += 0.25
        some = np.flatnonzero(office.world.length)
        if what == "arrive":
            office.arrive(drawn)
        elif what == "depart" and some.size:
            office.depart(int(some[which % some.size]), drawn)
        else:
            office.deliver(drawn)

        for server, length in enumerate(office.world.length):
            assert length <= office.bound(server)


@given(st.lists(st.integers(0, 4), min_size=3, max_size=6), st.integers(0, 999), scripts)
def test_announcements_go_out_one_at_a_time(lengths, seed, script):
    """Until every server has answered or acknowledged the value stays; then all know it."""
    office = Office("learning-threshold(alpha=0.6)", lengths, seed)
    n, count = len(lengths), office.world.count
    for what, which, drawn in script:
        office.now += 0.25
        before, value = int(office.mail.awaited[0]), int(office.world.announcement[0])
        some = np.flatnonzero(office.world.length)
        if what == "arrive":
            office.arrive(drawn)
            if office.world.announcement[0] != value:
                assert before == 0
        elif what == "depart" and some.size:
            office.depart(int(some[which % some.size]), drawn)
        else:
            office.deliver(drawn)

        assert 0 <= office.mail.awaited[0] <= n
        if office.mail.awaited[0] == 0:
            assert (office.mail.known == office.world.announcement[0]).all()
        assert count[ANNOUNCEMENTS] == count[CHANGES]
        assert count[ANSWER] <= n * count[ANNOUNCEMENTS]


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=60))
def test_letters_arrive_in_the_order_of_their_times_then_as_posted(script):
    box, waiting, posted = mail.make_mail(1, 0, 64), [], 0
    for due in script:
        if due is not None:
            mail.post(box, float(due), posted, 0, posted)
            waiting.append((due, posted))
            posted += 1
        elif waiting:
            letter = mail.take_first(box)
            first = min(waiting)
            waiting.remove(first)
            assert (box.server[letter], box.promise[letter]) == (first[1], first[1])

    assert box.counts[IN_FLIGHT] == len(waiting)


# --- What delays do ------------------------------------------------------------------------------

STEPS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)  # s, in mean service times too


def rising(make, policy, metric):
    """The mean of the metric at each delay rises by more than four of its paired errors."""
    found = [run(make(delay), policy, "events")[metric] for delay in STEPS]
    for one, other in pairwise(found):
        rise = other - one
        assert rise.mean() > 4 * rise.std(ddof=1) / np.sqrt(rise.size)
    return [float(values.mean()) for values in found]


@pytest.mark.slow
def test_the_wait_of_jiq_rises_with_the_delay():
    """One hundred queues at load 0.8, with the same tasks at every delay."""

    def make(delay):
        return scenario(delay, count=100, tasks=200_000).with_run(replications=30, warm_up=50.0)

    waits = rising(make, "jiq", "mean_wait")
    # measured: 1.98 at a delay of 1 where own sends are added (1.45 where they are not)
    assert abs(waits[4] - 1.98) < 0.1


@pytest.mark.slow
def test_the_imbalance_of_the_threshold_policy_rises_with_the_delay():
    """Five hundred pools at load 2.5, level 2."""

    def make(delay):
        one = scenario(delay, count=500, discipline="pool", load=2.5, duration=120.0)
        return one.with_run(replications=20, warm_up=20.0, start="balanced")

    rising(make, "threshold(level=2)", "imbalance")


def test_late_messages_make_jiq_wait_longer():
    """One step of the above, quick enough for every day."""

    def make(delay):
        return scenario(delay, tasks=10_000).with_run(replications=12, warm_up=50.0)

    waits = [run(make(delay), "jiq", "events")["mean_wait"] for delay in (0.0, 0.3)]
    rise = waits[1] - waits[0]
    assert rise.mean() > 4 * rise.std(ddof=1) / np.sqrt(rise.size)


def test_with_endless_delays_jiq_knows_no_one_and_is_random():
    """Once its first tokens are used up: the wait of M/M/1 at load 0.6 is 1.5."""
    one = scenario(1e6, tasks=60_000, load=0.6).with_run(replications=20, warm_up=300.0)

    assert_mean(run(one, "jiq", "events")["mean_wait"], 1.5)


def test_learning_from_messages_that_are_too_late_warns():
    """From 0.1 tasks a server in the time that a message takes."""
    pools = {"discipline": "pool", "load": 2.5}
    learning = resolve("learning-threshold")

    assert warnings_of(scenario(0.03, **pools), learning) == []
    assert warnings_of(scenario(0.0, **pools), learning) == []
    assert warnings_of(scenario(3.0, **pools), resolve("jiq")) == []
    [warning] = warnings_of(scenario(0.05, **pools), learning)
    assert "0.125 tasks come to a server" in warning
    assert "learning-threshold" in warning
