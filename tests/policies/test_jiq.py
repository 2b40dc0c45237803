"""jiq: a bit per server, set when it runs empty and used up by the next task."""

from collections import Counter

import pytest
from policies.play import Play, colors, even


def test_an_idle_server_is_taken_while_there_is_one():
    play = Play("jiq", [0, 2, 0, 1, 0])

    before = play.lengths
    for what, server in play.events(1500, load=0.8, seed=1):
        if what == "come" and 0 in before:
            assert before[server] == 0
        before = play.lengths


def test_the_idle_servers_are_the_ones_that_are_known_to_be():
    play = Play("jiq", [0, 2, 0, 1, 0])

    for _ in play.events(1500, load=0.9, seed=2):
        assert play.bands == colors(play.lengths, 1)


def test_a_token_is_used_up_by_one_task():
    play = Play("jiq", [0, 0, 5])

    assert {play.come(), play.come()} == {0, 1}
    assert play.bands == [1, 1, 1]


def test_idle_servers_are_drawn_uniformly_and_all_servers_are_where_none_is_idle():
    idle, busy = Play("jiq", [0, 3, 0, 0]), Play("jiq", [1, 9, 2, 4])

    chosen = Counter()
    for _ in range(3000):
        server = idle.come()
        idle.go(server)
        chosen[server] += 1
    anyone = Counter(busy.choose() for _ in range(4000))

    assert sorted(chosen) == [0, 2, 3]
    assert even(list(chosen.values()))
    assert sorted(anyone) == [0, 1, 2, 3]
    assert even(list(anyone.values()))


@pytest.mark.parametrize(("length", "said"), [(1, [1]), (2, []), (5, [])])
def test_a_server_speaks_when_it_runs_empty_and_never_otherwise(length, said):
    play = Play("jiq", [length])

    assert play.said(play.go, 0) == said
    assert play.said(play.come) == []


def test_messages_are_the_times_a_server_ran_empty():
    play, empty = Play("jiq", [1] * 6), 0

    tasks = 0
    for what, server in play.events(2000, load=0.9, seed=4):
        empty += what == "go" and play.lengths[server] == 0
        tasks += what == "come"

    assert play.counted("leave") == play.world.count.sum() == empty
    assert empty <= tasks + 6
    assert empty > 100


def test_a_server_of_unknown_length_is_not_taken_for_idle():
    play = Play("jiq", [0, 0], bounds=[2**40, 0])

    assert play.bands == [1, 0]
    assert play.choose() == 1
