"""stale-jsq: the lengths of the last update, own sends not counted: the herd."""

from collections import Counter

from exact_estimates import estimates
from policies.play import Play, assert_mean, queues


def test_it_goes_by_the_lengths_of_the_last_update():
    play = Play("stale-jsq", [3, 0, 2, 0])

    chosen = Counter(play.come() for _ in range(40))

    assert set(chosen) == {1, 3}
    assert play.levels == [3, 0, 2, 0]
    play.update()
    assert play.levels == play.lengths
    assert {play.come() for _ in range(10)} == {2}


def test_what_it_believes_falls_below_the_lengths():
    """The bound that every other policy on levels keeps; it is broken on purpose."""
    play = Play("stale-jsq", [0, 0])

    play.come()

    assert max(play.lengths) == 1
    assert play.levels == [0, 0]


def test_a_task_that_found_no_room_makes_it_count_what_it_sent():
    play = Play("stale-jsq", [1, 2], limit=3)

    assert [play.come() for _ in range(3)] == [0, 0, -1]
    assert play.levels == [3, 2]
    assert play.come() == 1


def test_queues_agree_with_their_chain():
    truth = estimates(2, 0.6, together=True, regular=True, delta=0.8, counted=False, cap=16)

    runs = [
        queues("stale-jsq(delta=0.8)", 2, 0.6, time=1300.0, warm_up=50.0, seed=seed)
        for seed in range(16)
    ]

    assert truth.edge < 3e-5
    assert_mean([run.mean_tasks for run in runs], truth.mean_tasks, bias=1e-4)
    assert_mean([run.messages["update"] for run in runs], 0.8 / 0.6)


def test_it_herds_where_counting_ones_own_sends_would_not():
    """Twenty servers, an update every two mean services: the same news, and the same price."""
    herd, counted = (
        queues(policy, 20, 0.8, time=400.0, warm_up=40.0, seed=1)
        for policy in ("stale-jsq(delta=0.5)", "sujsq-det(delta=0.5)")
    )

    assert herd.mean_wait > 3 * counted.mean_wait
    assert herd.most > 2 * counted.most
