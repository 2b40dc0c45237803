"""jsq: the shortest of all, ties uniform, every departure told."""

from collections import Counter

import pytest
from policies.play import Play, even

from equipoise.policies.levels import MOST_LEVELS
from equipoise.rng import make_rng, uniform


def test_every_task_goes_to_a_server_with_the_fewest_tasks():
    play = Play("jsq", [4, 0, 2, 2, 7, 1])

    before = play.lengths
    for what, server in play.events(1500, load=3, seed=1):
        if what == "come":
            assert before[server] == min(before)
        before = play.lengths


def test_its_memory_is_the_lengths_themselves():
    play = Play("jsq", [4, 0, 2, 2, 7, 1])

    for _ in play.events(1500, load=3, seed=2):
        assert play.state.levels.place[:, 1].tolist() == play.lengths


def test_ties_are_uniform():
    play = Play("jsq", [1, 0, 0, 2, 0, 0])

    chosen = Counter()
    for _ in range(4000):
        server = play.come()
        play.go(server)
        chosen[server] += 1

    assert sorted(chosen) == [1, 2, 4, 5]
    assert even(list(chosen.values()))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_departure_tells_the_length_that_is_left_and_an_arrival_nothing(length):
    """Fewer than m, m being one more than what is left."""
    play = Play("jsq", [length])

    assert play.said(play.go, 0) == [length]
    assert play.said(play.come) == []
    assert play.counted("leave") == 1
    assert play.counted("join") == 0


def test_a_task_that_is_lost_changes_nothing_that_is_known():
    play = Play("jsq", [2, 2, 2], limit=2)

    for _ in range(20):
        assert play.come() < 0
        assert play.state.levels.place[:, 1].tolist() == play.lengths == [2, 2, 2]


def test_a_server_of_unknown_length_is_taken_only_after_all_that_are_known():
    play = Play("jsq", [0, 0, 0], bounds=[5, 2**40, 3])

    chosen = [play.choose() for _ in range(50)]

    assert chosen[:2] == [2, 2]  # at most 3, then 4 tasks, against at most 5
    assert set(chosen) == {0, 2}
    assert play.state.levels.place[1, 1] == MOST_LEVELS - 1

    play.policy.hear(play.state, 1, 1)  # it says: I have none

    assert play.choose() == 1


def test_what_it_knows_is_what_it_would_hear():
    """A kernel that keeps no lengths books a departure at once; its message changes nothing."""
    play = Play("jsq", [4, 0, 2, 2, 7, 1])
    policy, state, rng = play.policy, play.state, make_rng(3)

    for _ in range(500):
        server, length = policy.knows.join(state, None, rng)
        assert length == state.levels.place[server, 1]
        server, length = policy.knows.leave(state, uniform(rng) * state.levels.place[:, 1].sum())
        before = [array.tolist() for array in state.levels]
        policy.hear(state, server, policy.tell_finish(length - 1, 0, state.par, rng))

        assert [array.tolist() for array in state.levels] == before


def test_without_places_it_draws_the_same_servers():
    """A kernel that lists neither lengths nor tasks asks for nobody's place: half the memory."""
    policy = Play("jsq", [4, 0, 2, 2, 7, 1]).policy
    whole, rng = Play("jsq", [4, 0, 2, 2, 7, 1]).state, make_rng(3)
    lean, rng_too = policy.knows.lean(Play("jsq", [4, 0, 2, 2, 7, 1]).state), make_rng(3)
    assert lean.levels.place.nbytes == 0

    for _ in range(500):
        came = policy.knows.join(whole, None, rng)
        assert policy.knows.join(lean, None, rng_too) == came
        target = uniform(rng) * whole.levels.place[:, 1].sum()
        uniform(rng_too)
        assert policy.knows.leave(lean, target) == policy.knows.leave(whole, target)

    for name in ("order", "end", "low"):
        assert getattr(lean.levels, name).tolist() == getattr(whole.levels, name).tolist()
