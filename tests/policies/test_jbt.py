"""jbt: a bit per server, set while it says that it has fewer than r tasks."""

from collections import Counter

import pytest
from policies.play import Play, colors, even


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_a_server_below_r_is_taken_while_there_is_one(r):
    play = Play(f"jbt(r={r})", [0, r, r + 2, 1, 0])

    before = play.lengths
    for what, server in play.events(1000, load=r, seed=r):
        if what == "come" and min(before) < r:
            assert before[server] < r
        before = play.lengths


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_the_servers_below_r_are_the_ones_that_are_known_to_be(r):
    play = Play(f"jbt(r={r})", [0, r, r + 2, 1, 0])

    for _ in play.events(1000, load=r, seed=r + 10):
        assert play.bands == colors(play.lengths, r)


@pytest.mark.parametrize("r", [1, 2, 3, 5])
@pytest.mark.parametrize("length", range(8))
def test_what_a_server_says_by_its_length(r, length):
    """On joining, r if it still has fewer; on leaving, r when it falls to r - 1; else nothing."""
    arriving, leaving = Play(f"jbt(r={r})", [length]), Play(f"jbt(r={r})", [length])

    assert arriving.said(arriving.come) == ([r] if length + 1 < r else [])
    if length > 0:
        assert leaving.said(leaving.go, 0) == ([r] if length == r else [])


@pytest.mark.parametrize("r", [1, 2, 4])
def test_at_most_two_messages_a_task(r):
    play, tasks = Play(f"jbt(r={r})", [0] * 6), 0

    for what, _ in play.events(1500, load=r, seed=6):
        tasks += what == "come"

    assert play.counted("join") <= tasks
    assert play.counted("leave") <= tasks
    assert play.world.count.sum() == play.counted("join") + play.counted("leave")


def test_with_r_1_it_chooses_as_jiq_does_and_says_as_much():
    jbt, jiq = Play("jbt(r=1)", [0, 1, 2, 0]), Play("jiq", [0, 1, 2, 0])

    assert list(jbt.events(1000, load=0.9, seed=7)) == list(jiq.events(1000, load=0.9, seed=7))
    assert jbt.world.count.tolist() == jiq.world.count.tolist()


def test_open_servers_are_drawn_uniformly_whatever_they_have_below_r():
    play = Play("jbt(r=3)", [0, 1, 2, 3, 7])

    chosen = Counter()
    for _ in range(3000):
        server = play.come()
        chosen[server] += 1
        play.world.length[:] = [0, 1, 2, 3, 7]
        play.policy.hear(play.state, server, 3)

    assert sorted(chosen) == [0, 1, 2]
    assert even(list(chosen.values()))


def test_where_nobody_is_open_all_are_drawn_uniformly():
    play = Play("jbt(r=2)", [2, 9, 4, 3])

    anyone = Counter(play.choose() for _ in range(4000))

    assert sorted(anyone) == [0, 1, 2, 3]
    assert even(list(anyone.values()))
