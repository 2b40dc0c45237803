"""random: every server alike, whatever it holds; nothing remembered, nothing said."""

from collections import Counter
from itertools import pairwise

from policies.play import Play, even


def test_every_server_is_as_likely_as_any_other_whatever_its_length():
    play = Play("random", [0, 50, 3, 0, 7, 1])

    chosen = Counter(play.choose() for _ in range(6000))

    assert sorted(chosen) == list(range(6))
    assert even(list(chosen.values()))


def test_one_choice_says_nothing_of_the_next():
    play = Play("random", [0] * 4)
    chosen = [play.choose() for _ in range(8001)]

    pairs = Counter(pairwise(chosen))

    assert len(pairs) == 16
    assert even(list(pairs.values()))


def test_nothing_is_said_and_nothing_remembered():
    play = Play("random", [2] * 5)

    said = [play.heard.copy() for _ in play.events(300, load=2, seed=1)]

    assert not any(said)
    assert play.world.count.tolist() == [0] * 7
    assert play.state.alias.keep.size == 0
