"""The dispatcher without sockets or clock: slots, generations, and what is known of each server."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, PolicyError, PolicyMismatch
from equipoise.live.core import Core, Known, Slot
from equipoise.policies import POLICIES, Policy, resolve
from equipoise.policies.levels import Bands, Levels
from equipoise.rng import below, make_rng

WRITTEN = [
    "random",
    "round-robin",
    "jsq",
    "jsq-d(d=2)",
    "jsq-d(d=3)",
    "jiq",
    "jbt(r=2)",
    "threshold(level=2)",
    "threshold(level=1, step=3)",
    "learning-threshold(alpha=0.6)",
    "learning-threshold(alpha=0.6, step=2)",
    "learning-threshold(alpha=0.6, rule=program)",
]
every_policy = pytest.mark.parametrize("policy", WRITTEN)


def refusal(act, *arguments, **given):
    """The one line that says what is wrong."""
    with pytest.raises(EquipoiseError) as caught:
        act(*arguments, **given)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


def known(core):
    """What the policy remembers of each server, by name: a level, a band, or None."""
    names = [server.name for server in core.servers]
    for part in core.world.state:
        if isinstance(part, Levels):
            return dict(zip(names, part.place[:, 1].tolist(), strict=True))
        if isinstance(part, Bands):
            ends, positions = part.end.tolist(), part.position.tolist()
            bands = [sum(position >= end for end in ends) for position in positions]
            return dict(zip(names, bands, strict=True))
    return dict.fromkeys(names)


def promised(core):
    """The most tasks that the dispatcher believes each server to have, as `known` says."""
    spec, level = core.spec, core.announcement
    if spec.policy.name == "jsq":
        return known(core)
    if spec.policy.name == "jiq":
        fewer_than = [1]
    elif spec.policy.name == "jbt":
        fewer_than = [spec.params["r"]]
    elif "step" in spec.params:
        fewer_than = [level, level + spec.params["step"]]
    else:
        fewer_than = []
    most = [m - 1 for m in fewer_than] + [2**50]
    return {name: most[band or 0] for name, band in known(core).items()}


class Agent:
    """A server that does its half itself and counts what it has received, from any dispatcher.

    It says (m, received), as it would on the wire.
    """

    def __init__(self, policy, params, announcement=0, length=0):
        self.policy, self.params, self.announcement = policy, params, announcement
        self.length, self.received, self.coins = length, 0, make_rng(1)

    def _say(self, tell):
        m = int(tell(self.length, self.announcement, self.params, self.coins))
        return m, self.received

    def start(self):
        self.length += 1
        self.received += 1
        return self._say(self.policy.tell_start)

    def finish(self):
        self.length -= 1
        return self._say(self.policy.tell_finish)

    def state(self, announcement):
        self.announcement = announcement
        return self._say(self.policy.tell_state)


def agents_of(core):
    return {
        server.name: Agent(core.spec.policy, core.world.state.par, core.announcement)
        for server in core.servers
    }


def announce(core, agents):
    """Let the policy learn; if it announces, every server answers in order."""
    value = core.adapt()
    if value is not None:
        for server in core.servers:
            core.heard(server.name, *agents[server.name].state(value))


# -- slots ------------------------------------------------------------------------------------


@every_policy
def test_a_slot_is_a_task_until_it_is_released(policy):
    core = Core(policy, "abc")

    slots = [core.choose() for _ in range(7)]

    assert sum(core.lengths().values()) == 7
    for slot in slots:
        before = core.lengths()[slot.server.name]
        assert core.finished(slot) is True
        assert core.lengths()[slot.server.name] == before - 1
    assert core.lengths() == {"a": 0, "b": 0, "c": 0}
    assert [server.slots for server in core.servers] == [0, 0, 0]


@every_policy
@pytest.mark.parametrize("first", ["finished", "not_sent"])
@pytest.mark.parametrize("again", ["finished", "not_sent"])
def test_a_slot_is_released_exactly_once(policy, first, again):
    core = Core(policy, "abc")
    slots = [core.choose() for _ in range(4)]

    assert getattr(core, first)(slots[2]) is True
    lengths, memory, said = core.lengths(), known(core), core.messages()
    assert getattr(core, again)(slots[2]) is False

    assert core.lengths() == lengths
    assert known(core) == memory
    assert core.messages() == said
    assert core.spurious == 1


def test_a_slot_says_where_it_is_and_whether_it_was_released():
    core = Core("jsq", ["web 1"])

    slot = core.choose()
    assert repr(slot) == "<slot at web 1, taken>"
    core.finished(slot)
    assert repr(slot) == "<slot at web 1, released>"


@every_policy
def test_no_server_up_is_no_slot(policy):
    core = Core(policy)

    assert core.choose() is None
    assert core.servers == ()
    assert core.lengths() == {}
    assert core.world is None

    core.joined("a")
    assert core.choose().server.name == "a"
    core.left("a")
    assert core.choose() is None


# -- a task that never arrived ----------------------------------------------------------------


@every_policy
def test_what_was_known_is_known_again_when_a_task_was_not_sent(policy):
    core = Core(policy, "abcd", seed=3)
    held = [core.choose() for _ in range(9)]
    core.finished(held.pop(4))
    before = known(core), core.lengths(), core.announcement

    slot = core.choose()
    if core.announcement != before[2]:
        pytest.skip("the threshold moved: another promise is wanted")
    core.not_sent(slot)

    assert (known(core), core.lengths(), core.announcement) == before


@pytest.mark.parametrize("policy", ["jsq", "jiq", "jbt(r=2)", "threshold(level=1, step=3)"])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_nothing_is_forgotten_however_tasks_that_were_not_sent_and_that_ended_alternate(
    policy, seed
):
    """A second task is on its way when the first ends; then it turns out never to have come.

    The server is as empty as it was, and the dispatcher must know it: a server whose token was
    lost would stand idle beside the others.
    """
    core, rng, held = Core(policy, "abc", seed=seed), random.Random(seed), []

    for _ in range(60):
        if held and rng.random() < 0.5:
            slot = held.pop(rng.randrange(len(held)))
            (core.not_sent if rng.random() < 0.5 else core.finished)(slot)
        else:
            held.append(core.choose())
    for slot in held:
        core.not_sent(slot)

    assert set(core.lengths().values()) == {0}
    assert set(known(core).values()) == {0}


# -- servers come and go ----------------------------------------------------------------------


def test_slots_of_a_former_life_no_longer_count():
    core = Core("jsq", "ab")
    slots = [core.choose() for _ in range(6)]
    old = [slot for slot in slots if slot.server.name == "a"]

    core.left("a")
    core.joined("a")
    new = [core.choose() for _ in range(2)]

    assert core.lengths() == {"b": 3, "a": 2}
    assert {slot.server.name for slot in new} == {"a"}
    assert core.finished(old[0]) is True
    assert core.not_sent(old[1]) is True
    assert core.lengths() == {"b": 3, "a": 2}
    assert core.servers[1].slots == 2
    assert core.servers[1].generation == 1
    assert core.spurious == 0

    for slot in new:
        core.finished(slot)
    assert core.lengths() == {"b": 3, "a": 0}


def test_a_release_after_its_server_left_touches_nobody():
    core = Core("jsq", "abc")
    slots = {slot.server.name: slot for slot in (core.choose() for _ in range(3))}

    core.left("b")  # c takes its place among the indices
    assert core.finished(slots["b"]) is True
    assert core.finished(slots["b"]) is False

    assert core.lengths() == {"a": 1, "c": 1}
    assert core.finished(slots["c"]) is True
    assert core.lengths() == {"a": 1, "c": 0}


@every_policy
def test_what_is_known_of_those_that_stay_survives_when_others_come_and_go(policy):
    core = Core(policy, "abcde", seed=5)
    held = [core.choose() for _ in range(12)]
    for _ in range(3):
        core.finished(held.pop(0))
    before, lengths, level = known(core), core.lengths(), core.announcement

    core.joined("f")
    core.left("f")

    assert core.lengths() == lengths
    assert core.announcement == level
    assert known(core) == before


def test_a_learnt_threshold_survives_even_when_all_servers_were_gone():
    core = Core("learning-threshold(alpha=0.6)", "abc")
    for _ in range(9):
        core.choose()
    learnt = core.announcement
    assert learnt > 0

    for name in "abc":
        core.left(name)
    assert core.announcement == learnt
    core.joined("d")

    assert core.announcement == learnt


def test_messages_are_counted_through_all_changes_of_the_fleet():
    core = Core("jsq", "ab")
    core.finished(core.choose())
    core.joined("c")
    core.finished(core.choose())
    core.left("a")
    core.finished(core.choose())

    assert core.messages() == {"join": 0, "leave": 3, "update": 0, "answer": 0, "probe": 0}

    probing = Core("jsq-d(d=2)", "ab")
    probing.choose()
    probing.joined("c")
    probing.choose()
    assert probing.messages()["probe"] == 8


def test_a_server_that_joins_is_known_as_far_as_it_is_told():
    core = Core("jsq", "ab")

    core.joined("fresh")
    core.joined("busy", length=7)
    core.joined("unheard", length=None)

    assert known(core) == {"a": 0, "b": 0, "fresh": 0, "busy": 7, "unheard": 65535}
    assert [core.choose().server.name in ("a", "b", "fresh") for _ in range(21)] == [True] * 21


def test_joining_twice_and_leaving_twice_are_refused():
    core = Core("jsq", "ab")

    assert refusal(core.joined, "a") == "server 'a' is up already; names must differ"
    assert refusal(Core, "jsq", ["x", "x"]) == "server 'x' is up already; names must differ"
    core.left("a")
    assert refusal(core.left, "a") == "no server called 'a' is up; up are: b"
    assert refusal(core.left, "z") == "no server called 'z' is up; up are: b"
    core.left("b")
    assert refusal(core.left, "b") == "no server called 'b' is up; up are: none"


def test_a_refused_join_changes_nothing():
    core = Core("jsq", "ab")
    core.choose()
    lengths, memory = core.lengths(), known(core)

    refusal(core.joined, "a")

    assert (core.lengths(), known(core)) == (lengths, memory)


# -- limit ------------------------------------------------------------------------------------


@every_policy
def test_no_server_takes_more_than_its_limit(policy):
    core, rng, held, lost = Core(policy, "abc", limit=2, seed=1), random.Random(1), [], 0

    for _ in range(300):
        if held and rng.random() < 0.4:
            core.finished(held.pop(rng.randrange(len(held))))
        elif (slot := core.choose()) is None:
            lost += 1
        else:
            held.append(slot)
        assert max(core.lengths().values()) <= 2
        assert sum(core.lengths().values()) == len(held)

    assert lost > 0


def test_a_task_that_found_no_room_leaves_no_trace():
    core = Core("jsq", "ab", limit=1)
    slots = [core.choose(), core.choose()]
    memory = known(core)

    assert core.choose() is None
    assert known(core) == memory
    assert core.lengths() == {"a": 1, "b": 1}

    core.finished(slots[0])
    assert core.choose().server is slots[0].server


# -- random schedules -------------------------------------------------------------------------

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ["choose"] * 5 + ["finished"] * 3 + ["not_sent", "again", "join", "leave", "rejoin"]
        ),
        st.integers(0, 10**6),
    ),
    min_size=40,
    max_size=60,
)


@every_policy
@settings(max_examples=40)
@given(script=actions, seed=st.integers(0, 2**32), limit=st.none() | st.integers(1, 4))
def test_lengths_are_the_slots_that_are_out_whatever_happens(policy, script, seed, limit):
    """Against a plain list of slots; never negative, never believed to be fewer, at last zero."""
    core = Core(policy, "abc", seed=seed, limit=limit)
    held, done, gone, spurious, names = [], [], [], 0, 0

    for what, pick in script:
        if what == "choose":
            slot = core.choose()
            if slot is not None:
                held.append(slot)
        elif what in ("finished", "not_sent") and held:
            slot = held.pop(pick % len(held))
            assert getattr(core, what)(slot) is True
            done.append(slot)
        elif what == "again" and done:
            assert core.finished(done[pick % len(done)]) is False
            spurious += 1
        elif what == "join":
            core.joined(f"new {names}", length=None if pick % 2 else 0)
            names += 1
        elif what == "leave" and core.servers:
            name = core.servers[pick % len(core.servers)].name
            core.left(name)
            gone.append(name)
        elif what == "rejoin" and gone:
            core.joined(gone.pop(pick % len(gone)))

        lengths, most = core.lengths(), promised(core) if core.servers else {}
        out = {server.name: 0 for server in core.servers}
        for slot in held:
            if slot.server.index >= 0 and slot.generation == slot.server.generation:
                out[slot.server.name] += 1
        assert lengths == out
        assert {server.name: server.slots for server in core.servers} == out
        assert all(most[name] >= length for name, length in lengths.items())
        assert core.spurious == spurious

    for slot in held:
        assert core.finished(slot) is True
    assert all(length == 0 for length in core.lengths().values())
    assert all(server.slots == 0 for server in core.servers)


# -- servers that tell themselves -------------------------------------------------------------


@every_policy
def test_with_instant_messages_agents_lead_to_the_choices_of_a_core_that_runs_both_halves(policy):
    alone = Core(policy, "abcdefg", seed=8)
    core = Core(policy, "abcdefg", seed=8, agents=True)
    agents, rng, held = agents_of(core), random.Random(8), []

    for _ in range(1500):
        if held and rng.random() < len(held) / (len(held) + 20):
            one, other = held.pop(rng.randrange(len(held)))
            alone.finished(one)
            core.finished(other)
            core.heard(other.server.name, *agents[other.server.name].finish())
        else:
            one, other = alone.choose(), core.choose()
            assert one.server.name == other.server.name
            core.heard(other.server.name, *agents[other.server.name].start())
            announce(core, agents)
            held.append((one, other))
        assert core.announcement == alone.announcement
        assert core.lengths() == alone.lengths()
        assert known(core) == known(alone)


def test_nothing_is_said_for_agents():
    core = Core("jsq", "ab", agents=True)

    core.finished(core.choose())

    assert sum(core.messages().values()) == 0
    assert sorted(known(core).values()) == [0, 1], "that a task has left is for its server to say"


def test_own_sends_since_the_message_was_made_are_added():
    core = Core("jsq", ["a"], agents=True)
    for _ in range(5):
        core.choose()

    core.heard("a", 2, 3)  # having received 3 it had fewer than 2; 2 more are on their way
    assert known(core) == {"a": 3}

    core.heard("a", 2, 5)
    assert known(core) == {"a": 1}


def test_hearing_a_message_again_changes_nothing():
    core = Core("threshold(level=2)", "ab", agents=True)
    for _ in range(6):
        core.choose()

    core.heard("a", 2, 3)
    once = known(core)
    core.heard("a", 2, 3)
    core.heard("a", 2, 3)

    assert known(core) == once


def test_silence_and_messages_of_servers_that_are_not_up_are_passed_over():
    core = Core("jsq", "ab", agents=True)
    core.choose()
    core.left("b")
    before = known(core)

    core.heard("a", 0, 1)
    core.heard("b", 1, 0)
    core.heard("nobody", 1, 0)

    assert known(core) == before


def test_a_promise_counts_from_when_its_server_joined_whoever_else_comes_and_goes():
    core = Core("jsq", "ab", agents=True)
    for _ in range(6):
        core.choose()  # three at each
    core.joined("c")

    core.heard("a", 4, 3)  # it has received 3 and has them all

    assert known(core) == {"a": 3, "b": 3, "c": 0}

    core.left("c")
    core.heard("b", 1, 3)
    assert known(core) == {"a": 3, "b": 0}


def test_a_promise_of_a_former_life_is_not_carried_into_the_next():
    core = Core("jsq", "ab", agents=True)
    for _ in range(6):
        core.choose()
    core.left("a")
    core.joined("a")

    core.choose()
    core.heard("a", 2, 1)

    assert known(core) == {"b": 3, "a": 1}


def test_a_task_not_sent_is_taken_back_from_what_was_promised():
    core = Core("jsq", "a", agents=True)
    slots = [core.choose() for _ in range(3)]
    core.heard("a", 2, 2)  # two received, one of them done; a third on its way
    assert known(core) == {"a": 2}

    core.not_sent(slots[2])

    assert known(core) == {"a": 1}


@pytest.mark.parametrize("state", ["up", "paused"])
def test_what_was_forgotten_may_be_anything_until_the_server_speaks(state):
    core = Core("jsq", "ab", agents=True)
    core.choose()
    core.forgot("a")
    if state == "paused":
        core.paused("a")
        core.resumed("a")

    assert core.known()["a"].most is None
    assert {core.choose().server.name for _ in range(10)} == {"b"}
    core.heard("a", 3, core.world.sent[core.server("a").index])
    assert core.known()["a"].most == 2
    with pytest.raises(EquipoiseError, match="no server called 'c' is up"):
        core.forgot("a", "c")
    assert core.known()["a"].most == 2


@pytest.mark.parametrize("paused", [False, True])
def test_after_a_restart_tasks_that_are_out_count_on_top_until_they_end_or_are_received(paused):
    core = Core("jsq", "a", agents=True)
    slots = [core.choose() for _ in range(5)]
    core.finished(slots.pop())
    core.heard("a", 2, 5)
    core.restarted("a", ended=1)  # one of which nobody knows if it is there
    assert core.known()["a"] == Known(4, None, 0.0)
    if paused:
        core.paused("a")

    core.heard("a", 1, 0)
    assert core.known()["a"].most == 5
    core.not_sent(slots[0])
    assert core.known()["a"][:2] == (3, 4)
    core.received(slots[1])
    assert core.known()["a"][:2] == (3, 3)
    core.finished(slots[1])
    assert core.known()["a"][:2] == (2, 3)
    gone = Slot(core.server("a"))
    gone.released = True
    core.received(gone)
    assert core.known()["a"][:2] == (2, 2)
    assert core.server("a").slots == 2


def test_messages_are_counted_by_kind_and_silence_is_not():
    core = Core("jiq", "ab", agents=True)

    core.heard("a", 1, 0, "leave")
    core.heard("a", 0, 0, "answer")
    core.heard("b", 1, 0, "answer")
    core.heard("b", 1, 0)
    core.heard("nobody", 1, 0, "join")
    core.asked("update")
    core.joined("c", length=None)

    assert core.messages() == {"join": 0, "leave": 1, "update": 1, "answer": 1, "probe": 0}


def test_with_agents_learning_waits_to_be_asked():
    core = Core("learning-threshold(alpha=0.6)", "abc", agents=True)

    core.choose()
    core.choose()
    assert core.announcement == 0

    core.choose()
    assert core.adapt() == 1  # of three yellow tokens one was left before this task
    assert core.adapt() is not None or core.announcement == 1

    assert Core("jsq", "ab", agents=True).adapt() is None
    assert Core("learning-threshold", agents=True).adapt() is None


@pytest.mark.parametrize(
    "policy", ["jsq", "jiq", "jbt(r=2)", "threshold(level=2)", "threshold(level=1, step=3)"]
)
@settings(max_examples=40)
@given(data=st.data())
def test_beliefs_are_never_below_the_truth_however_messages_travel(policy, data):
    """Tasks and messages take time; messages come late, twice, out of order, or never.

    What is believed includes the tasks still on their way, so it bounds what a server has.
    """
    core = Core(policy, "abc", agents=True, seed=data.draw(st.integers(0, 2**32)))
    agents, held, going = agents_of(core), [], []
    post = []  # (server, message), some heard more than once
    names = 0

    script = st.lists(
        st.tuples(
            st.sampled_from(("choose", "arrive", "finish", "lose", "hear", "hear", "fleet")),
            st.integers(0, 10**6),
        ),
        min_size=50,
        max_size=70,
    )
    for what, pick in data.draw(script):
        if what == "choose":
            going.append(core.choose())
        elif what == "arrive" and going:
            slot = going.pop(pick % len(going))
            if slot.server.index >= 0:
                name = slot.server.name
                post.append((name, agents[name].start()))
                held.append(slot)
        elif what == "finish" and held:
            slot = held.pop(pick % len(held))
            name = slot.server.name
            if slot.server.index >= 0:
                post.append((name, agents[name].finish()))
            core.finished(slot)
        elif what == "lose" and going:
            core.not_sent(going.pop(pick % len(going)))
        elif what == "hear" and post:
            name, message = post[pick % len(post)]
            if pick % 3:
                post.remove((name, message))
            core.heard(name, *message)
        elif what == "fleet" and pick % 2 and len(core.servers) > 1:
            core.left(core.servers[pick // 2 % len(core.servers)].name)
        elif what == "fleet":
            name = f"new {names}"
            names += 1
            core.joined(name)
            agents[name] = Agent(core.spec.policy, core.world.state.par, core.announcement)

        most = promised(core)
        for server in core.servers:
            assert agents[server.name].length <= most[server.name]
            assert core.lengths()[server.name] >= agents[server.name].length


# -- which policies ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, p in POLICIES.items() if "sizes" not in p.needs])
def test_every_policy_decides_live_from_its_name_or_table(name):
    params = {"threshold": {"level": 1}, "sampled": {"law": "0+1:0.7, 2:0.3"}}.get(name, {})

    core = Core({"name": name, **params}, "abc")

    assert core.choose().server.name in "abc"
    assert core.spec.label == resolve({"name": name, **params}).label


def test_a_policy_that_needs_what_a_dispatcher_cannot_see_is_refused():
    policy = Policy("sita", choose=lambda state, fleet, rng: 0, needs=frozenset({"sizes"}))

    with pytest.raises(PolicyMismatch) as caught:
        Core(policy, "abc")

    assert str(caught.value) == (
        "policy 'sita' must observe sizes, which a live dispatcher cannot see; simulate it instead"
    )


def test_a_users_policy_is_tried_before_it_decides(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from equipoise.policies import Policy\n\n"
        "MINE = Policy('mine', choose=lambda state, fleet, rng: fleet.size)\n"
    )

    with pytest.raises(PolicyError, match="choose returned a server that does not exist"):
        Core(f"{file}:MINE", "abc")


def test_a_server_that_does_not_exist_is_refused_at_the_choice_too():
    policy = Policy("mine", choose=lambda state, fleet, rng: fleet.size)
    core = Core(policy, "abc")

    assert "does not exist" in refusal(core.choose)


# -- from one seed ----------------------------------------------------------------------------


@every_policy
def test_the_same_seed_gives_the_same_servers(policy):
    def chosen(seed):
        core = Core(policy, "abcdefgh", seed=seed)
        return [core.choose().server.name for _ in range(40)]

    assert chosen(1) == chosen(1)
    assert chosen(np.random.SeedSequence(1)) == chosen(np.random.SeedSequence(1))
    assert policy == "round-robin" or chosen(1) != chosen(2)


def test_coins_go_on_when_the_fleet_changes():
    """The dispatcher starts again with its memory, not with its luck."""
    core = Core("random", map(str, range(50)))
    first = [core.choose().server.name for _ in range(20)]
    core.joined("new")
    core.left("new")

    assert [core.choose().server.name for _ in range(20)] != first


def test_draws_stay_within_the_fleet_as_it_shrinks_and_grows():
    core, coins = Core("random", "a"), make_rng(3)

    for step in range(200):
        if below(coins, 2) or len(core.servers) < 2:
            core.joined(f"s{step}")
        else:
            core.left(core.servers[below(coins, len(core.servers))].name)
        assert core.choose().server in core.servers
