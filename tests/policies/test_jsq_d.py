"""jsq-d: which servers are asked, who of them is taken, what it costs."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from policies.play import Play, even

from equipoise.errors import PolicyError
from equipoise.policies import resolve
from equipoise.policies.probing import draw_server


def drawn(play):
    """The servers asked for one task, in order."""
    d = play.state.par.d
    fleet, coins = play.world.fleet, play.world.choice_rng
    return tuple(int(draw_server(play.state.probing, fleet.size, coins, i)) for i in range(d))


@pytest.mark.parametrize(
    ("n", "d"),
    [(5, 1), (5, 2), (7, 2), (6, 3), (4, 3), (3, 2), (4, 4), (2, 2)],
)
def test_any_d_different_servers_are_asked_in_any_order_equally_often(n, d):
    """Drawn again when they repeat (2 d <= n), dealt off a shuffled deck beyond that."""
    play = Play(f"jsq-d(d={d})", [0] * n)
    assert len(play.state.probing.drawn) == (n if 2 * d > n else d)

    asked = Counter(drawn(play) for _ in range(60 * len(list(permutations(range(n), d)))))

    assert set(asked) == set(permutations(range(n), d))
    assert len(asked) == 1 or even(list(asked.values()))


def test_with_replacement_every_sequence_of_servers_is_equally_likely():
    play = Play("jsq-d(d=3, replacement=true)", [0] * 4)

    asked = Counter(drawn(play) for _ in range(6400))

    assert set(asked) == set(product(range(4), repeat=3))
    assert even(list(asked.values()))


def test_more_may_be_asked_than_there_are_only_with_replacement():
    resolve("jsq-d(d=3, replacement=true)").check(2)

    with pytest.raises(PolicyError, match="d = 3 is more than the 2 servers there are; use d <= 2"):
        resolve("jsq-d(d=3)").check(2)


def test_many_questions_with_replacement_take_no_memory():
    state, _ = resolve("jsq-d").policy.init(
        np.zeros(4, np.int64), np.ones(4), None, d=10**12, replacement=True
    )

    assert state.probing.drawn.size <= 4


def test_where_servers_were_lost_the_remaining_ones_are_asked():
    """A live dispatcher starts it again on those that are up."""
    play = Play("jsq-d(d=5)", [3, 1, 2])

    assert play.state.par.d == 3
    assert play.come() == 1


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_shortest_of_those_asked_is_taken(d):
    play = Play(f"jsq-d(d={d})", [0] * 5)

    for _ in play.events(500, load=3, seed=d):
        before, coins = play.lengths, play.world.choice_rng.copy()
        deck = play.state.probing.drawn.copy()
        asked = drawn(play)
        play.world.choice_rng[:], play.state.probing.drawn[:] = coins, deck

        assert before[play.choose()] == min(before[s] for s in asked)


@pytest.mark.parametrize("written", ["jsq-d(d=2)", "jsq-d(d=3)", "jsq-d(d=3, replacement=true)"])
def test_ties_are_uniform(written):
    play = Play(written, [1] * 4)

    chosen = Counter(play.choose() for _ in range(4000))

    assert sorted(chosen) == [0, 1, 2, 3]
    assert even(list(chosen.values()))


def test_ties_among_some_are_uniform_and_the_longer_ones_wait_their_chance():
    """d = 3 of 4 with lengths 0, 0, 1, 9: the last two are never the shortest of three."""
    play = Play("jsq-d(d=3)", [0, 0, 1, 9])

    chosen = Counter(play.choose() for _ in range(3000))

    assert sorted(chosen) == [0, 1]
    assert even(list(chosen.values()))


def test_two_of_n_are_taken_as_often_as_pairs_without_a_shorter_one():
    """Lengths 0 < 1 < 2 < 3: shares 3/6, 2/6, 1/6, 0 of the pairs."""
    play, tasks = Play("jsq-d(d=2)", [0, 1, 2, 3]), 6000

    chosen = Counter(play.choose() for _ in range(tasks))

    for server, pairs in enumerate((3, 2, 1, 0)):
        p = pairs / 6
        assert abs(chosen[server] - tasks * p) <= 4 * (tasks * p * (1 - p)) ** 0.5


@pytest.mark.parametrize(
    ("written", "d"), [("jsq-d(d=1)", 1), ("jsq-d", 2), ("jsq-d(d=4)", 4),
                       ("jsq-d(d=7, replacement=true)", 7)]
)  # fmt: skip
def test_each_task_costs_d_questions_and_d_answers_and_nothing_else(written, d):
    play = Play(written, [1] * 5)

    tasks = sum(what == "come" for what, _ in play.events(400, load=2, seed=5))

    assert play.counted("probe") == 2 * d * tasks
    assert play.world.count.sum() == 2 * d * tasks


def test_all_asked_is_jsq():
    play = Play("jsq-d(d=4)", [2, 0, 1, 1])

    before = play.lengths
    for what, server in play.events(500, load=2, seed=9):
        assert what == "go" or before[server] == min(before)
        before = play.lengths
