"""threshold: the token table of its authors message by message, and the colors they stand for."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies.play import Play, colors, even

LEVELS_AND_STEPS = [(0, 1), (1, 1), (2, 1), (4, 1), (0, 3), (1, 2), (2, 2), (3, 3), (4, 2)]
by_level_and_step = pytest.mark.parametrize(("level", "step"), LEVELS_AND_STEPS)
lengths_around = pytest.mark.parametrize("length", range(10))


def threshold(level, step, lengths, **given):
    return Play(f"threshold(level={level}, step={step})", lengths, **given)


@by_level_and_step
@lengths_around
def test_messages_after_a_start_are_those_of_the_table(level, step, length):
    """One server: it is picked by its green token, else its yellow one, else by neither.

    Goldsztajn et al.'s table for j tasks before: green gives green if j + 1 < l, none if = l;
    yellow gives yellow if j + 1 < h, none if = h; no token, no message.
    """
    high = level + step
    play = threshold(level, step, [length])

    if length < level:
        expected = [level] if length + 1 < level else []
    elif length < high:
        expected = [high] if length + 1 < high else []
    else:
        expected = []
    assert play.said(play.come) == expected
    assert play.counted("join") == len(expected)
    assert play.counted("leave") == 0


@by_level_and_step
@pytest.mark.parametrize("length", range(1, 10))
def test_messages_after_a_finish_are_those_of_the_table(level, step, length):
    """From exactly h to h - 1 yellow, from exactly l to l - 1 green, else none."""
    high = level + step
    play = threshold(level, step, [length])

    expected = [high] if length == high else [level] if length == level else []
    assert play.said(play.go, 0) == expected
    assert play.counted("leave") == len(expected)
    assert play.counted("join") == 0


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_server_that_reaches_the_threshold_by_its_green_token_keeps_its_yellow_one(step):
    """So it says nothing: yellow on joining is for l < length < h, strictly.

    If it did speak at length l nothing would show but a wrong number of messages.
    """
    play = threshold(3, step, [2])

    assert play.said(play.come) == []
    assert play.bands == [1]


@by_level_and_step
def test_tokens_are_the_colors_of_the_true_lengths_after_every_event(level, step):
    """Green tokens = servers with fewer than l tasks, yellow ones = with fewer than h."""
    high = level + step
    play = threshold(level, step, [0, level, high, high + 3, 1, 0])

    for _ in play.events(1200, load=high, seed=level + 10 * step):
        green, yellow, _ = play.state.bands.end.tolist()
        assert green == sum(length < level for length in play.lengths)
        assert yellow == sum(length < high for length in play.lengths)
        assert play.bands == colors(play.lengths, level, high)


@given(
    level=st.integers(0, 5),
    step=st.integers(1, 4),
    lengths=st.lists(st.integers(0, 10), min_size=1, max_size=7),
    seed=st.integers(0, 2**32),
)
def test_green_before_yellow_before_any_from_whatever_start(level, step, lengths, seed):
    play, before = threshold(level, step, lengths, seed=seed), lengths
    assert play.bands == colors(lengths, level, level + step)

    for what, server in play.events(40, load=level + 1, seed=seed):
        if what == "come":
            best = min(colors(before, level, level + step))
            assert colors([before[server]], level, level + step) == [best]
        before = play.lengths


@by_level_and_step
def test_at_most_one_message_on_joining_and_one_on_leaving(level, step):
    play, before = threshold(level, step, [0] * 5), [0, 0]

    for what, _ in play.events(800, load=level + step, seed=3):
        now = [play.counted("join"), play.counted("leave")]
        assert now[0] - before[0] <= (what == "come")
        assert now[1] - before[1] <= (what == "go")
        assert play.world.count.sum() == sum(now)
        before = now


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [
        ([0, 1, 2, 3, 1, 9], [0, 1, 4]),  # green: fewer than 2, whatever below it
        ([2, 4, 3, 2, 9, 2], [0, 2, 3, 5]),  # yellow: 2 or 3
        ([4, 9, 5, 4], [0, 1, 2, 3]),  # neither: all
    ],
)
def test_a_token_is_drawn_uniformly_from_its_color(lengths, chosen):
    play = threshold(2, 2, lengths)
    count = Counter()

    for _ in range(800 * len(chosen)):
        server = play.come()
        count[server] += 1
        play.world.length[:] = lengths
        play.policy.hear(play.state, server, lengths[server] + 1)

    assert sorted(count) == chosen
    assert even(list(count.values()))


def test_with_level_0_no_token_is_ever_green():
    play = threshold(0, 1, [0, 1, 0, 2])

    for _ in play.events(300, load=1, seed=8):
        assert play.state.bands.end[0] == 0


@pytest.mark.parametrize(("level", "step"), [(2, 3), (1, 2), (3, 1)])
def test_a_lost_task_gives_its_token_back(level, step):
    """A limit among the levels that tokens stand for: what was known before is known after."""
    for limit in range(1, level + step + 2):
        play = threshold(level, step, [0] * 4, limit=limit)
        lost = 0
        for what, server in play.events(400, load=limit, seed=limit):
            lost += what == "come" and server < 0
            assert play.bands == colors(play.lengths, level, level + step)

        assert lost > 0
        assert max(play.lengths) <= limit


def test_what_it_announces_never_changes():
    play = threshold(2, 1, [0] * 5)

    list(play.events(500, load=4, seed=1))

    assert play.level == 2
    assert play.counted("announcements") == play.counted("changes") == play.counted("answer") == 0
