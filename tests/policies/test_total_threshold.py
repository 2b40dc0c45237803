"""total-threshold: the threshold is the tasks per server, rounded down to a multiple of step."""

from collections import Counter

import pytest
from policies.play import Play, even


def level_of(lengths, step):
    return sum(lengths) // len(lengths) // step * step


@pytest.mark.parametrize("step", [1, 2, 5])
def test_it_sends_below_l_then_below_h_then_anywhere(step):
    play, seen = Play(f"total-threshold(step={step})", [4, 0, 2, 2, 7, 1]), Counter()

    before = play.lengths
    for what, server in play.events(2500, load=3.3, seed=1):
        if what == "come":
            low = level_of(before, step)
            below = [bound for bound in (low, low + step) if min(before) < bound]
            assert before[server] < below[0]
            assert play.level == low
            seen[below[0] - low] += 1
        before = play.lengths

    assert seen[0] > 50 or step == 5
    assert seen[step] > 50


def test_a_server_is_drawn_uniformly_among_all_that_have_fewer_than_l():
    """Not only among the shortest: that is what sets it apart from jsq."""
    start = [0, 1, 1, 6, 0, 5, 4, 7]  # 3 per server: below 3 are 0, 1, 2 and 4
    chosen = Counter(Play("total-threshold", start, seed=seed).choose() for seed in range(1200))

    assert sorted(chosen) == [0, 1, 2, 4]
    assert even(list(chosen.values()))


def test_its_memory_is_the_lengths_and_their_sum():
    play = Play("total-threshold(step=2)", [4, 0, 2, 2, 7, 1])

    for _ in play.events(1500, load=3, seed=2):
        assert play.levels == play.lengths
        assert play.state.known[1] == sum(play.lengths)


def test_every_departure_is_told_and_the_threshold_to_nobody():
    play = Play("total-threshold", [0] * 5)

    came = gone = 0
    for what, _ in play.events(3000, load=2.5, seed=3):
        came, gone = came + (what == "come"), gone + (what == "go")

    assert play.counted("leave") == gone > 1000
    assert play.counted("changes") > 20
    assert {play.counted(k) for k in ("join", "answer", "update", "probe", "announcements")} == {0}


def test_a_task_that_found_no_room_is_not_counted():
    play = Play("total-threshold", [2, 2, 2], limit=2)

    for _ in range(20):
        assert play.come() < 0
        assert play.levels == play.lengths == [2, 2, 2]
        assert play.state.known[1] == 6


def test_a_server_of_unknown_length_adds_nothing_until_it_speaks():
    play = Play("total-threshold", [0, 0, 0], bounds=[3, 2**40, 3])

    assert play.level == 3
    assert {play.choose() for _ in range(30)} == {0, 2}

    play.policy.hear(play.state, 1, 2)  # it says: I have at most one

    assert play.state.known[1] == 3 + 3 + 30 + 1
    assert play.choose() == 1


def test_the_threshold_settles_at_the_load_rounded_down():
    """Pools at load 4.5, n = 400: the total is Poisson(1800), 4 n and 5 n are five sd away."""
    play, levels = Play("total-threshold", [4, 5] * 200), Counter()

    for _ in play.events(6000, load=4.5, seed=4):
        levels[play.level] += 1

    assert set(levels) == {4}
    assert sum(length in (4, 5) for length in play.lengths) > 380
