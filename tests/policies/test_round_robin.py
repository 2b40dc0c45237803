"""round-robin: the servers in turn, with no coin and no message."""

import numpy as np
import pytest
from policies.play import Play


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_servers_come_in_turn_whatever_their_lengths(n):
    play = Play("round-robin", [3] + [0] * (n - 1))

    chosen = [play.come() for _ in range(3 * n)]

    assert chosen == 3 * list(range(n))


def test_departures_do_not_change_whose_turn_it_is():
    play = Play("round-robin", [1] * 4)

    chosen = [server for what, server in play.events(200, load=1, seed=3) if what == "come"]

    assert chosen == [i % 4 for i in range(len(chosen))]


def test_no_coin_is_thrown_and_nothing_said():
    play = Play("round-robin", [1] * 4)
    before = play.world.choice_rng.copy()

    list(play.events(200, load=1, seed=3))

    assert np.array_equal(play.world.choice_rng, before)
    assert play.world.count.tolist() == [0] * 7


def test_a_full_server_loses_the_task_and_its_turn():
    play = Play("round-robin", [2, 0, 2], limit=2)

    assert [play.come() for _ in range(4)] == [-1, 1, -3, -1]
    assert play.lengths == [2, 1, 2]
