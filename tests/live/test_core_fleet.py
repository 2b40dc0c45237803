"""The core as its fleet changes: pauses, limits, retries elsewhere, and what it knows."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.play import even

from equipoise.errors import EquipoiseError
from equipoise.live.core import Core, Known, Slot, warm_up
from equipoise.policies import POLICIES
from equipoise.policies.levels import Bands, Levels

REQUIRED = {
    "threshold": {"level": 1},
    "sampled": {"law": "0+1:0.7, 0+1+2:0.3"},
}
WRITTEN = [
    {"name": name, **REQUIRED.get(name, {})}
    for name, policy in POLICIES.items()
    if "sizes" not in policy.needs
]
every_policy = pytest.mark.parametrize("policy", WRITTEN, ids=lambda table: table["name"])


def memory(core):
    """What the policy remembers of each server, or None."""
    for part in core.world.state:
        if isinstance(part, Levels):
            return part.place[:, 1].tolist()
        if isinstance(part, Bands):
            return [sum(p >= end for end in part.end) for p in part.position.tolist()]
    return None


# -- pauses -----------------------------------------------------------------------------------


@every_policy
def test_a_recovery_never_touches_live_slots(policy):
    core = Core(policy, "abc", seed=2)
    held = [core.choose() for _ in range(12)]
    before = core.lengths()

    core.paused("b")
    assert core.lengths() == {"a": before["a"], "c": before["c"]}
    assert all(core.choose().server.name != "b" for _ in range(20))
    gone = [slot for slot in held if slot.server.name == "b"]
    assert core.finished(gone[0]) is True
    core.resumed("b")

    assert core.lengths()["b"] == before["b"] - 1 == core.server("b").slots
    for slot in gone[1:]:
        assert core.finished(slot) is True
    assert core.lengths()["b"] == 0
    assert core.spurious == 0


def test_a_task_that_was_not_sent_comes_off_a_paused_server():
    core = Core("jsq", "ab", agents=True)
    slots = [core.choose() for _ in range(4)]
    mine = [slot for slot in slots if slot.server.name == "a"]

    core.paused("a")
    core.not_sent(mine[0])
    core.resumed("a")

    assert core.lengths()["a"] == 1
    core.heard("a", 1, 1)  # it received one, and that is done: nothing is on its way
    assert core.known()["a"].most == 0


def test_what_a_paused_server_says_is_remembered():
    core = Core("jsq", "ab", agents=True)
    for _ in range(6):
        core.choose()
    core.paused("a")

    core.heard("a", 1, 3)
    core.resumed("a")

    assert memory(core)[core.server("a").index] == 0


def test_pausing_and_resuming_what_is_not_there_is_refused():
    core = Core("jsq", "ab")
    core.paused("a")

    for act, name in ((core.paused, "a"), (core.resumed, "b"), (core.paused, "z")):
        with pytest.raises(EquipoiseError, match=f"no server called '{name}'"):
            act(name)
    with pytest.raises(EquipoiseError, match="'a' is paused; names must differ"):
        core.joined("a")


def test_a_paused_server_that_leaves_starts_from_zero():
    core = Core("jsq", "ab")
    slots = [core.choose() for _ in range(4)]

    core.paused("a")
    core.left("a")
    core.joined("a")

    assert core.lengths()["a"] == 0
    for slot in slots:
        assert core.finished(slot) is True
    assert core.lengths() == {"b": 0, "a": 0}


@every_policy
@settings(max_examples=25)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from("ccccffnpro"), st.integers(0, 10**6)), min_size=30, max_size=60
    ),
    limited=st.booleans(),
)
def test_counts_are_the_slots_that_are_out_whatever_happens(policy, moves, limited):
    """Never negative, never above a limit, and zero when all have come back."""
    core = Core(policy, limit=2 if limited else None, seed=7)
    for name in "abcde":
        core.joined(name)
    held, gone = [], set()
    for what, pick in moves:
        name = "abcde"[pick % 5]
        if what == "c":
            slot = core.choose(name if pick % 3 == 0 else None)
            if slot is not None:
                assert pick % 3 or slot.server.name != name
                held.append(slot)
        elif what == "o":
            slot = core.occupied(name)
            if slot is not None:
                held.append(slot)
        elif what in "fn" and held:
            slot = held.pop(pick % len(held))
            assert (core.finished if what == "f" else core.not_sent)(slot) is True
        elif what == "p" and name not in gone and len(gone) < 4:
            gone.add(name)
            core.paused(name)
        elif what == "r" and name in gone:
            gone.remove(name)
            core.resumed(name)
        out = Counter(slot.server.name for slot in held)
        assert {n: core.server(n).slots for n in "abcde"} == {n: out[n] for n in "abcde"}
        assert core.lengths() == {s.name: out[s.name] for s in core.servers}
        assert all(tasks >= 0 for tasks, _, _ in core.known().values())
    for slot in held:
        core.finished(slot)
    assert set(core.lengths().values()) <= {0}
    assert core.spurious == 0


# -- limits and retries -----------------------------------------------------------------------


@every_policy
def test_a_task_goes_where_there_is_room_and_nowhere_if_there_is_none(policy):
    core = Core(policy, seed=3)
    limits = {"a": 1, "b": 7, "c": 2}
    for name, limit in limits.items():
        core.joined(name, limit=limit)

    slots = [core.choose() for _ in range(10)]

    assert core.lengths() == limits
    assert core.choose() is None
    core.finished(next(slot for slot in slots if slot.server.name == "c"))
    assert core.choose().server.name == "c"
    assert core.choose() is None


def test_trying_full_servers_leaves_no_trace_in_the_memory():
    core = Core("jsq")
    core.joined("small", limit=1)
    core.joined("large")
    core.choose()
    core.choose()  # one each

    chosen = [core.choose().server.name for _ in range(5)]

    assert chosen == ["large"] * 5
    assert memory(core) == [1, 6]
    assert core.world.sent.tolist() == [1, 6]


def test_where_a_full_choice_is_to_be_lost_it_is():
    core = Core("round-robin", limit=1, other_if_full=False)
    for name in "ab":
        core.joined(name)
    first = core.choose()
    core.choose()
    core.finished(first)
    core.choose()

    assert core.choose() is None  # b's turn, and it is full


@every_policy
def test_a_retry_goes_to_another_server(policy):
    core = Core(policy, "abc", seed=4)

    for _ in range(60):
        assert core.choose(exclude="b").server.name != "b"

    core.paused("a")
    core.paused("c")
    assert core.choose(exclude="b") is None
    assert core.choose(exclude="nobody").server.name == "b"
    assert core.choose(exclude="a").server.name == "b"


def test_a_retry_elsewhere_leaves_the_excluded_server_as_it_was():
    core = Core("jsq", "ab")
    core.choose()
    core.choose()
    core.finished(Slot(core.server("a")))  # a is empty now

    assert core.choose(exclude="a").server.name == "b"
    assert core.lengths() == {"a": 0, "b": 2}
    assert core.choose().server.name == "a"


def test_a_tie_among_those_with_room_is_uniform():
    counts = Counter()
    for seed in range(400):
        core = Core("jsq", seed=seed)
        core.joined("full", limit=1)
        for name in "bcd":
            core.joined(name)
        for name in "bcd":
            core.occupied(name)
        core.occupied("full")
        counts[core.choose().server.name] += 1

    assert set(counts) == {"b", "c", "d"}
    assert even([counts[name] for name in "bcd"])


# -- from other balancers' bug reports -----------------------------------------------------------


@every_policy
def test_a_release_of_what_is_no_slot_of_ours_is_counted_and_does_nothing(policy):
    core, other = Core(policy, "abc"), Core(policy, "abc")
    slot = core.choose()
    theirs = other.choose()

    assert core.finished(theirs) is False
    assert core.not_sent(theirs) is False
    assert core.spurious == 2
    assert core.lengths()[slot.server.name] == 1
    assert sum(core.lengths().values()) == 1
    assert other.finished(theirs) is True


@pytest.mark.parametrize(
    "policy",
    ["jsq", "jiq", "threshold(level=1)", "learning-threshold", "total-threshold", "sujsq-det"],
)
def test_a_burst_at_one_instant_spreads(policy):
    """A hundred tasks before anything is heard: every choice counts before the next is made."""
    core = Core(policy, map(str, range(25)), seed=1)

    lengths = Counter(core.choose().server.name for _ in range(100))

    if policy in ("jsq", "sujsq-det"):
        assert set(lengths.values()) == {4}
    elif policy in ("learning-threshold", "total-threshold"):
        assert max(lengths.values()) - min(lengths.values()) <= 2
    else:  # each server gets its first task before any is sent at random
        assert len(lengths) == 25


def test_power_of_d_probes_distinct_servers_and_counts_each_choice_at_once():
    """With d = n it is jsq: a burst spreads evenly, which it does not where samples repeat."""
    core = Core("jsq-d(d=5)", "abcde", seed=1)

    assert set(Counter(core.choose().server.name for _ in range(50)).values()) == {10}


@pytest.mark.parametrize("d", [2, 3, 5])
def test_power_of_more_choices_than_servers_are_up_is_safe(d):
    core = Core(f"jsq-d(d={d})", "abcde", seed=1)
    for name in "abcd":
        core.paused(name)
        for _ in range(20):
            slot = core.choose()
            assert slot.server in core.servers
            core.finished(slot)

    assert [server.name for server in core.servers] == ["e"]


@pytest.mark.parametrize("policy", ["random", "jsq", "jsq-d(d=3)", "jiq", "threshold(level=1)"])
def test_ties_are_uniform(policy):
    core = Core(policy, "abcd", seed=5)
    counts = Counter()
    for _ in range(2000):
        slot = core.choose()
        counts[slot.server.name] += 1
        core.finished(slot)

    assert even([counts[name] for name in "abcd"])


# -- what is known ----------------------------------------------------------------------------


def test_of_a_server_that_this_dispatcher_counts_alone_all_is_known_now():
    core = Core("jsq", "ab")
    core.choose()
    core.now = 5.0

    assert sorted(core.known().values()) == [Known(0, 0, 5.0), Known(1, 1, 5.0)]


def test_what_an_agent_said_is_known_since_it_said_it():
    core = Core("jsq", agents=True)
    core.now = 1.0
    core.joined("a", length=None)
    for _ in range(3):
        core.choose()
    assert core.known()["a"] == Known(3, None, 1.0)

    core.now = 2.0
    core.heard("a", 2, 2)  # having received two it had fewer than two
    core.now = 3.0

    assert core.known()["a"] == Known(3, 2, 2.0)


def test_under_a_clock_lengths_are_known_since_the_last_update():
    core = Core("sujsq-det", "a")
    for _ in range(3):
        slot = core.choose()
    core.finished(slot)
    assert core.known()["a"] == Known(2, 3, 0.0)

    core.now = 4.0
    core.update()
    core.now = 5.0
    core.choose()

    assert core.known()["a"] == Known(3, 3, 4.0)


def test_tokens_are_counted_by_colour():
    threshold = Core("threshold(level=1)", "abcd")
    threshold.choose()

    assert threshold.tokens() == {"green": 3, "yellow": 1}
    assert Core("jiq", "abc").tokens() == {"green": 3}
    assert Core("jsq", "abc").tokens() == {}
    assert Core("jiq").tokens() == {}


def test_changes_of_a_learnt_threshold_are_counted_through_changes_of_the_fleet():
    core = Core("learning-threshold(alpha=0.6)", "abc")
    for _ in range(9):
        core.choose()
    learnt = core.changes
    core.paused("a")

    assert learnt == core.changes == core.announcement > 0


@every_policy
def test_warming_up_compiles_all_that_a_task_needs(policy):
    """So that the first request does not wait for the compiler."""
    warm_up(policy)

    core = Core(policy, "abcd")
    calls = [core._arrive, core._depart, core._take_back, core._book, core._place]
    assert all(call.signatures for call in calls)
