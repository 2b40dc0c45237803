"""JSQ on estimates, by every clock: estimates stay above lengths, queues are as their chains."""

from collections import Counter

import pytest
from exact_estimates import estimates
from hypothesis import given
from hypothesis import strategies as st
from policies.play import Play, assert_mean, even, queues

from equipoise import AujsqExp, SujsqDet
from equipoise.errors import PolicyError
from equipoise.policies import POLICIES, resolve

CLOCKS = {  # together, regular
    "sujsq-det": (True, True),
    "sujsq-exp": (True, False),
    "aujsq-det": (False, True),
    "aujsq-exp": (False, False),
}
every_clock = pytest.mark.parametrize("name", CLOCKS)
starts = st.lists(st.integers(0, 5), min_size=2, max_size=6)
# what happens next: a task comes, one leaves a server that has some, a server updates
events = st.lists(
    st.tuples(st.sampled_from(["come", "come", "go", "update"]), st.integers(0, 99)),
    min_size=10,
    max_size=80,
)


def play_out(play, script):
    """Follow a script; yield after each event."""
    for what, pick in script:
        busy = [server for server, length in enumerate(play.lengths) if length]
        if what == "come":
            play.come()
        elif what == "update":
            play.update(pick % len(play.lengths))
        elif busy:
            play.go(busy[pick % len(busy)])
        yield


@every_clock
def test_its_clock_is_the_one_of_its_name(name):
    clock = POLICIES[name].clock

    assert (clock.together, clock.regular) == CLOCKS[name]


@pytest.mark.parametrize("policy", ["sujsq-det", "sujsq-det(idle_only=true)"])
@given(start=starts, script=events)
def test_an_estimate_is_never_below_the_length(policy, start, script):
    play = Play(policy, start)

    for _ in play_out(play, script):
        assert all(x <= e for x, e in zip(play.lengths, play.levels, strict=True))


def late(start, script, counted):
    """Follow a script where a message takes 3 events; yield (lengths, estimates) after each.

    `counted` says whether the dispatcher adds what it sent meanwhile.
    """
    play, post = Play("sujsq-det", start), []
    play.steps = play.steps._replace(
        update=lambda world, server: post.append(
            (3, server, int(world.length[server]) + 1, int(world.sent[server]))
        )
    )
    for _ in play_out(play, script):
        post = [(wait - 1, *rest) for wait, *rest in post]
        for _, server, m, received in [message for message in post if message[0] == 0]:
            if counted:
                play.steps.hear_from(play.world, server, m, received)
            else:
                play.policy.hear(play.state, server, m)
        post[:] = [message for message in post if message[0] > 0]
        yield play.lengths, play.levels


@given(start=starts, script=events)
def test_nor_is_it_with_late_messages_to_which_own_sends_are_added(start, script):
    for lengths, levels in late(start, script, counted=True):
        assert all(x <= e for x, e in zip(lengths, levels, strict=True))


def test_late_messages_without_own_sends_would_put_it_below():
    script = [("update", 0), ("come", 0), ("come", 0), ("come", 0)]

    *_, (lengths, levels) = late([0, 0], script, counted=False)
    assert any(x > e for x, e in zip(lengths, levels, strict=True))


def test_the_least_estimate_is_taken_ties_uniform_and_departures_are_not_noticed():
    start, chosen = [2, 0, 1, 0, 0], Counter()
    play = Play("sujsq-det", start)
    for _ in range(3000):
        chosen[play.choose()] += 1
        play.update()  # no task was placed: the lengths are as before
    assert sorted(chosen) == [1, 3, 4]
    assert even(list(chosen.values()))

    play = Play("sujsq-det", [0, 1])
    assert play.said(play.come) == []
    assert play.said(play.go, 0) == []
    assert (play.lengths, play.levels) == ([0, 1], [1, 1])


@pytest.mark.parametrize(
    ("policy", "said", "known"),
    [
        ("aujsq-exp", [2, 1, 4], [1, 0, 3]),
        ("aujsq-exp(idle_only=true)", [1], [2, 0, 4]),
    ],
)
def test_an_update_tells_the_length_or_only_that_there_is_none(policy, said, known):
    play = Play(policy, [2, 1, 4])
    for server in (0, 1, 2):
        play.go(server)
    assert play.levels == [2, 1, 4]

    assert play.said(play.update) == said
    assert play.levels == known
    assert play.counted("update") == len(said) == play.world.count.sum()


@every_clock
def test_queues_agree_with_their_chain(name):
    """Two servers at load .6, .8 updates per unit of time; in sixteen runs of the plain steps."""
    together, regular = CLOCKS[name]
    truth = estimates(2, 0.6, together=together, regular=regular, delta=0.8, cap=13)

    runs = [
        queues(f"{name}(delta=0.8)", 2, 0.6, time=1300.0, warm_up=50.0, seed=seed)
        for seed in range(16)
    ]

    assert truth.edge < 3e-5
    assert_mean([run.mean_tasks for run in runs], truth.mean_tasks, bias=1e-4)
    assert_mean([run.mean_wait for run in runs], truth.mean_wait, bias=2e-4)
    assert_mean([run.messages["update"] for run in runs], 0.8 / 0.6)


@every_clock
def test_queues_that_tell_only_when_idle_agree_with_their_chain(name):
    together, regular = CLOCKS[name]
    truth = estimates(2, 0.4, together=together, regular=regular, delta=1.5, idle_only=True, cap=15)

    runs = [
        queues(f"{name}(delta=1.5, idle_only=true)", 2, 0.4, time=1300.0, warm_up=50.0, seed=seed)
        for seed in range(16)
    ]

    assert truth.edge < 2e-4
    assert_mean([run.mean_tasks for run in runs], truth.mean_tasks, bias=1e-3)
    assert_mean([run.messages["update"] for run in runs], truth.updates, bias=1e-3)


@pytest.mark.parametrize("policy", ["aujsq-det(delta=0.5, idle_only=true)", "stale-jsq(delta=0.5)"])
def test_unequal_servers_are_not_overrun_close_to_their_capacity(policy):
    """Speeds 1 and 0.2 at 92 % of what they do; round robin would need a slow speed of 0.55."""
    run = queues(policy, 2, 0.55, time=6000.0, warm_up=0.0, seed=1, speeds=[1.0, 0.2])

    assert run.most < 150


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("sujsq-det(delta=0)", "sujsq-det: delta = 0.0 must be a number > 0"),
        ("aujsq-exp(delta=-1)", "aujsq-exp: delta = -1.0 must be a number > 0"),
        ("sujsq-exp(mode=poll)", "sujsq-exp: mode = 'poll' must be 'pull' or 'push'"),
        ("stale-jsq(delta=0)", "stale-jsq: delta = 0.0 must be a number > 0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(written, said):
    with pytest.raises(PolicyError) as caught:
        resolve(written)

    assert str(caught.value) == said


def test_the_label_says_what_differs():
    assert str(SujsqDet()) == "sujsq-det(delta=1)"
    assert str(AujsqExp(0.5, idle_only=True)) == "aujsq-exp(delta=0.5, idle_only=true)"
