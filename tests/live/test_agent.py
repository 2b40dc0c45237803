"""The agent without I/O: what it tells is what one dispatcher alone would have told itself."""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.live.core import Core
from equipoise.live.telling import MOST_DISPATCHERS, MOST_GAPS, Agent, NotWelcome, Received
from equipoise.live.wire import Announce, Ask, Beat, Hello, Message, Over, Welcome, WireError
from equipoise.policies import POLICIES, resolve
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
    told. So those with a clock update just before; none leave where servers keep still at times.
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
        elif (kind < 0.6 and len(pairs) < 20) or not pairs:
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


# -- what has come ------------------------------------------------------------------------------

numbers = st.lists(st.integers(1, 40), max_size=60)


@given(numbers)
def test_numbers_are_counted_once_in_whatever_order_they_come(come):
    received, seen = Received(), set()
    for number in come:
        assert received.add(number) is (number not in seen)
        seen.add(number)

        assert received.count == len(seen)
        assert all(number in seen for number in range(1, received.base + 1))
        ranges = list(zip(received.starts, received.ends, strict=True))
        beyond = [n for first, last in ranges for n in range(first, last + 1)]
        assert beyond == sorted(n for n in seen if n > received.base)
        # no two ranges touch, so that each costs a gap
        assert all(end + 1 < start for (_, end), (start, _) in itertools.pairwise(ranges))


def test_a_number_that_never_comes_costs_no_memory():
    received = Received()
    for number in range(2, 10_000):
        received.add(number)

    assert (received.base, received.starts, received.ends) == (0, [2], [9999])


class Heard(list):
    """A dispatcher's ear: the lines, and how its stream ended."""

    ended = None

    def end(self, why):
        assert self.ended is None, "a stream ends once"
        self.ended = why

    def said(self):
        """What has come since this was asked last, as (m, received, kind)."""
        found = [(line.m, line.received, line.kind) for line in self if isinstance(line, Message)]
        self.clear()
        return found


def listen(agent, written="threshold(level=2)", name="d.1", **changed):
    """Open a stream; return the link and what is heard from now on."""
    heard = Heard()
    spec = resolve(written)
    level = spec.params.get("level", 0)
    link = agent.hello(
        hello(spec, name, **{"announcement": level, "time": agent.wall(), **changed}),
        heard.append,
        heard.end,
    )
    return link, heard


def test_a_dispatcher_is_welcomed_and_told_the_state():
    agent = Agent(limit=9, wall=lambda: 7.0)
    agent.started(("d.1", 1))
    _, heard = listen(agent)

    welcome, message = heard
    assert (welcome.limit, welcome.time) == (9, 7.0)
    assert welcome.generation.startswith(agent.generation)
    assert message == Message(2, 1, 1, "answer")


def test_silence_is_an_answer_too_and_is_not_counted():
    agent = Agent()
    agent.started()
    _, heard = listen(agent, "jiq")

    assert heard[1] == Message(0, 0, 1, "answer")
    assert sum(agent.messages.values()) == 0


def test_every_dispatcher_hears_of_every_task_with_its_own_count():
    agent = Agent()
    _, one = listen(agent, name="d.1")
    _, other = listen(agent, "jiq", name="e.1")
    one.said(), other.said()

    agent.started(("d.1", 1))
    agent.started(("e.1", 1))
    agent.started()
    agent.finished()
    agent.finished()
    agent.finished()

    # level 2, step 1: green after the first start, yellow never strictly between
    assert one.said() == [(2, 1, "join"), (3, 1, "leave"), (2, 1, "leave")]
    assert other.said() == [(1, 1, "leave")]


def test_two_dispatchers_have_an_announcement_each():
    agent = Agent()
    link, one = listen(agent, "learning-threshold(alpha=0.6)", announcement=0)
    _, other = listen(agent, "learning-threshold(alpha=0.6)", "e.1", announcement=5)
    one.said(), other.said()

    agent.started()
    link.take(Announce(3, 1))
    agent.started()

    assert one.said() == [(3, 0, "answer"), (3, 0, "join")]
    assert other.said() == [(5, 0, "join"), (5, 0, "join")]
    assert (link.announcement, link.number) == (3, 1)


def test_an_announcement_is_answered_with_its_number_even_by_silence():
    agent = Agent()
    link, heard = listen(agent, "learning-threshold(alpha=0.6)")
    for _ in range(9):
        agent.started()
    heard.clear()

    link.take(Announce(1, 1))
    link.take(Announce(1, 1))  # twice: answered twice

    assert [(line.m, line.number) for line in heard] == [(0, 1), (0, 1)]


def test_an_announcement_that_was_overtaken_is_nothing():
    agent = Agent()
    link, heard = listen(agent, "learning-threshold(alpha=0.6)")
    link.take(Announce(4, 2))
    heard.clear()

    link.take(Announce(9, 1))

    assert link.announcement == 4
    assert heard.said() == []


def test_a_task_that_was_over_before_it_came_is_received_once_and_told_of():
    agent = Agent()
    link, heard = listen(agent, "jsq")
    heard.clear()

    link.take(Over((1, 2)))
    assert heard.said() == [(1, 2, "answer")]
    link.take(Over((2,)))
    assert heard.said() == [], "nothing new"

    agent.started(("d.1", 1))  # it comes nevertheless
    assert agent.length == 1
    assert heard.said() == [(2, 2, "answer")], "the dispatcher has not added it"
    agent.finished()
    assert heard.said() == [(1, 2, "leave")]


def test_a_task_that_came_before_it_was_over_changes_nothing():
    agent = Agent()
    link, heard = listen(agent, "jsq")
    agent.started(("d.1", 1))
    heard.clear()

    link.take(Over((1,)))

    assert heard.said() == []
    assert (agent.length, agent.received("d.1")) == (1, 1)


def test_a_task_that_comes_twice_is_two_tasks_and_one_number():
    agent = Agent()
    _, heard = listen(agent, "jsq")
    agent.started(("d.1", 1))
    heard.clear()

    agent.started(("d.1", 1))

    assert heard.said() == [(3, 1, "answer")]
    assert (agent.length, agent.received("d.1")) == (2, 1)


@given(st.permutations(range(1, 8)), st.lists(st.booleans(), min_size=7, max_size=7))
def test_promises_hold_when_tasks_overtake_each_other(order, finishes):
    """m less the received plus what was sent is never below the length, whatever comes when."""
    agent = Agent()
    _, heard = listen(agent, "threshold(level=3)")
    sent = 7  # all are on their way
    for number, finish in zip(order, finishes, strict=True):
        agent.started(("d.1", number))
        if finish:
            agent.finished()
        last = [line for line in heard if isinstance(line, Message) and line.m][-1:]
        on_their_way = sent - agent.received("d.1")
        for message in last:
            assert message.m - message.received + sent > agent.length + on_their_way


def test_beyond_the_limit_a_task_is_received_and_not_counted():
    agent = Agent(limit=2)
    _, heard = listen(agent, "threshold(level=4)")
    _, other = listen(agent, "threshold(level=4)", "e.1")
    assert agent.started(("d.1", 1))
    assert agent.started(("d.1", 2))
    heard.clear(), other.clear()

    assert agent.started(("d.1", 3)) is False

    assert (agent.length, agent.refused, agent.received("d.1")) == (2, 1, 3)
    assert heard.said() == [(4, 3, "answer")]
    assert other.said() == [], "whose task it was hears"
    agent.finished()
    assert agent.started() is True


def test_a_finish_too_many_is_counted_and_does_nothing():
    agent = Agent()
    agent.finished()

    assert (agent.length, agent.spurious) == (0, 1)


# -- streams come and go ------------------------------------------------------------------------


def test_nothing_is_kept_for_a_stream_that_is_not_there_and_one_answer_makes_it_good():
    agent = Agent()
    link, heard = listen(agent, "jsq")
    first = heard[0].generation
    agent.started(("d.1", 1))
    link.close("cut")
    heard.clear()

    agent.started(("d.1", 2))
    agent.finished()
    assert heard == []
    assert heard.ended == "cut"

    _, again = listen(agent, "jsq")
    assert again[0].generation == first, "what was counted goes on"
    assert again.said() == [(2, 2, "answer")]


def test_a_second_stream_of_a_dispatcher_takes_the_place_of_the_first():
    agent = Agent()
    old, heard = listen(agent, "jsq")
    _, again = listen(agent, "jsq")
    heard.clear(), again.clear()

    agent.started()
    agent.finished()

    assert old.open is False
    assert "another stream" in heard.ended
    assert heard == []
    assert again.said() == [(1, 0, "leave")]
    assert len(agent.links) == 1
    old.close("late")  # does not touch the new one
    assert len(agent.links) == 1


def test_a_dispatcher_that_was_forgotten_finds_another_generation():
    """Else what it sent before would look as if it had never come."""
    time = Time()
    agent = Agent(clock=time)
    link, heard = listen(agent, "jsq", "gone")
    first = heard[0].generation
    agent.started(("gone", 1))
    link.close()
    for i in range(MOST_DISPATCHERS):
        time.now += 1
        agent.started((f"d.{i}", 1))

    assert len(agent.status()["dispatchers"]) == MOST_DISPATCHERS
    _, again = listen(agent, "jsq", "gone")
    assert again[0].generation != first
    assert again[1].received == 0


def test_those_that_listen_are_not_forgotten_and_more_are_not_welcome():
    agent = Agent()
    for i in range(MOST_DISPATCHERS):
        listen(agent, "jsq", f"d.{i}")
    agent.started(("stranger", 1))

    assert agent.length == 1
    assert agent.received("stranger") == 0
    with pytest.raises(NotWelcome, match="64 dispatchers") as caught:
        listen(agent, "jsq", "stranger")
    assert caught.value.status == 503


def test_too_many_gaps_begin_the_dispatcher_anew():
    agent = Agent()
    _, heard = listen(agent, "jsq")
    first = heard[0].generation
    for i in range(MOST_GAPS + 1):
        assert heard.ended is None
        agent.started(("d.1", 2 + 2 * i))

    assert "have not come" in agent.notes[-1].text
    assert heard.ended is not None
    assert agent.length == MOST_GAPS + 1
    _, again = listen(agent, "jsq")
    assert again[0].generation != first


def test_sequences_count_the_lines_of_a_stream():
    agent = Agent()
    link, heard = listen(agent, "jsq")
    agent.started()
    agent.finished()
    link.take(Ask())
    link.take(Beat())

    assert [line.sequence for line in heard[1:]] == [1, 2, 3]
    with pytest.raises(WireError, match="second hello"):
        link.take(link.hello)


# -- clocks -------------------------------------------------------------------------------------


def turns(policy, seconds, step=0.01, **changed):
    """When an agent tells its state by its own clock, in so many seconds."""
    time, start = Time(), Time().now
    agent = Agent(clock=time, wall=lambda: 50.0 + time.now, seed=3)
    _, heard = listen(agent, policy, period=1.0, **changed)
    heard.clear()
    found = []
    while time.now < start + seconds:
        time.now += step
        assert agent.next >= time.now - step
        agent.due(time.now)
        found += [time.now - start] * len(heard.said())
    return found


def test_regular_updates_of_ones_own_come_every_period_from_a_random_moment():
    found = turns("aujsq-det", 20.5)

    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    assert len(found) in (20, 21)
    assert gaps == pytest.approx([1.0] * len(gaps), abs=0.021)


def test_exponential_updates_of_ones_own_have_that_mean_and_its_spread():
    """1000 gaps of Exp(1) have mean 1 and standard deviation 1, each within four errors."""
    found = turns("aujsq-exp", 1000.0, 0.05)

    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1.0, abs=4 / 1000**0.5 + 0.025)
    assert variance**0.5 == pytest.approx(1.0, abs=4 * 2**0.5 / 1000**0.5 + 0.05)


@pytest.mark.parametrize("policy", ["sujsq-det", "stale-jsq"])
def test_updates_together_come_at_the_multiples_of_the_period_since_1970(policy):
    """The wall clock stands at 150.0 when the other stands at 100."""
    found = turns(policy, 3.5)

    assert found == pytest.approx([1.0, 2.0, 3.0], abs=0.011)


@pytest.mark.parametrize("policy", ["sujsq-exp", "aujsq-det(mode=push)", "jsq", "jiq"])
def test_where_the_dispatcher_keeps_time_the_agent_does_not(policy):
    assert turns(policy, 5.0) == []


def test_updates_that_were_slept_through_are_made_up_for_once():
    time = Time()
    agent = Agent(clock=time, seed=1)
    _, heard = listen(agent, "aujsq-det", period=1.0)
    heard.clear()
    time.now += 100.0
    agent.due(time.now)
    agent.due(time.now)

    assert len(heard.said()) == 1
    assert time.now < agent.next <= time.now + 1.0


def test_an_update_that_was_asked_for_is_counted_as_one():
    agent = Agent()
    link, heard = listen(agent, "sujsq-exp", period=1.0)
    heard.clear()
    link.take(Ask())

    assert heard.said() == [(1, 0, "update")]


def test_with_idle_only_a_busy_server_keeps_still():
    time = Time()
    agent = Agent(clock=time)
    _, heard = listen(agent, "aujsq-det(idle_only=true)", period=1.0)
    heard.clear()
    agent.started()
    time.now += 5.0
    agent.due(time.now)
    assert heard.said() == []

    agent.finished()
    time.now += 5.0
    agent.due(time.now)
    assert heard.said() == [(1, 0, "update")]


# -- who is welcome -----------------------------------------------------------------------------

OWN = """
import numpy as np
from equipoise.policies import Policy
from equipoise.rng import below

def choose(state, fleet, rng):
    return np.int64(below(rng, fleet.size))

def tell_finish(length, announcement, params, rng):
    return 1 // (length - 3) if length > 2 else length + 1

MINE = Policy("mine", choose=choose, tell_finish=tell_finish)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A policy of a user's, as "own.py:MINE"."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    return "own.py:MINE"


@pytest.mark.parametrize(
    ("pinned", "changed", "status", "says"),
    [
        (None, {"policy": "nosuch"}, 409, "no policy is called 'nosuch'"),
        (None, {"policy": "mine.py:X"}, 409, "--policy 'mine.py:X'"),
        (None, {"policy": "random", "params": {}}, 409, "has servers tell nothing"),
        (None, {"params": {"level": -1}}, 409, "level = -1 must be a whole number >= 0"),
        (None, {"params": {"level": [1]}}, 409, "level = .1. must be"),
        (None, {"params": {"levle": 1}}, 409, "did you mean 'level'"),
        (None, {"params": {}}, 409, "threshold needs level"),
        (None, {"policy": "aujsq-det", "params": {}}, 400, "its hello must say the period"),
        ("jiq", {}, 409, "there for jiq, not for 'threshold'"),
        ("threshold(level=3)", {}, 409, r"there for threshold\(level=3\), not for"),
        ("own.py:MINE", {"policy": "own.py:OTHER", "params": {}}, 409, "there for mine"),
    ],
)
def test_a_dispatcher_that_does_not_fit_is_told_why(own, pinned, changed, status, says):
    agent = Agent(pinned)
    with pytest.raises(NotWelcome, match=says) as caught:
        listen(agent, **changed)

    assert caught.value.status == status
    assert "\n" not in caught.value.why
    assert agent.links == ()


def test_a_pinned_policy_with_the_same_parameters_is_welcome():
    _, heard = listen(Agent("threshold(level=2, step=1)"))

    assert isinstance(heard[0], Welcome)


def test_a_users_policy_runs_where_it_is_pinned_and_its_failure_costs_no_task(own):
    agent = Agent(own)
    spec = resolve(own)
    heard = Heard()
    agent.hello(hello(spec, policy=own), heard.append, heard.end)
    for _ in range(6):
        agent.started()
    heard.clear()

    for _ in range(6):
        agent.finished()  # lengths 5, 4, 3: division by zero there

    assert heard.said() == [(1, 0, "leave")]
    assert "the policy failed" in heard.ended
    assert "ZeroDivisionError" in agent.notes[-1].text
    assert agent.length == 0


def test_clocks_and_versions_that_differ_are_noted_and_no_reason_to_refuse():
    notes = []
    agent = Agent(note=notes.append, wall=lambda: 1000.0)
    listen(agent, time=1000.9)
    assert notes == []

    listen(agent, time=998.5)
    listen(agent, "sujsq-det", period=2.0, time=1000.6, version="0.0.9")

    assert [note.text for note in notes] == [
        "the clock of dispatcher d.1 is 1.5 s behind",
        f"dispatcher d.1 is equipoise 0.0.9, this one {agent.version}; run the same version on "
        "both sides",
        "the clock of dispatcher d.1 is 0.6 s ahead",
    ]


@pytest.mark.parametrize(
    ("said", "good"),
    [
        ("Bearer s3cret", True),
        ("bearer  s3cret", True),
        ("Bearer s3cre", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer \xe9", False),
        ("", False),
        (None, False),
    ],
)
def test_the_secret_is_asked_for_where_there_is_one(said, good):
    assert Agent(secret="s3cret").admits(said) is good
    assert Agent().admits(said) is True


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"limit": 0}, "limit = 0 must be a whole number >= 1"),
        ({"limit": True}, "limit = True"),
        ({"workers": -1}, "workers = -1"),
        ({"secret": " "}, "the secret is empty"),
        ({"policy": "jsqq"}, "did you mean"),
        ({"policy": "random"}, "has servers tell nothing, so it needs no agents"),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused_in_a_line(given, says):
    with pytest.raises(EquipoiseError, match=says) as caught:
        Agent(**given)

    assert "\n" not in str(caught.value)


def test_load_reports_are_never_of_zero():
    agent = Agent(limit=4)
    assert agent.load() == b"TEXT application_utilization=0.000001,named_metrics.queue=0"
    agent.started()
    assert agent.load() == b"TEXT application_utilization=0.250000,named_metrics.queue=1"
    agent.workers = 1
    assert b"utilization=1.000000" in agent.load()
    assert Agent().load() == b"TEXT named_metrics.queue=0"


def test_an_agent_compiles_nothing_and_needs_none_of_the_extras(tmp_path):
    code = """
import sys
from equipoise.live.agent import AgentMiddleware
from equipoise.live.wire import Hello
from equipoise.policies import POLICIES, spec
from equipoise import compile
agent = AgentMiddleware(None).agent
for name, policy in POLICIES.items():
    if policy.tells:
        params = {"level": 2} if name == "threshold" else {}
        agent.hello(Hello("1", name, name, dict(spec(policy, **params).params), 0, 1.0, 0.0), id)
agent.started(("jsq", 1))
agent.finished()
agent.due(1e12)
assert compile.counters.hits == compile.counters.misses == 0
heavy = {"uvloop", "httptools", "pandas", "pydantic", "matplotlib", "click"} & set(sys.modules)
assert not heavy, heavy
"""
    where = {**os.environ, "EQUIPOISE_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=where)

    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())
