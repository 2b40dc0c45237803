"""sparsified-jiq: jiq where a server that runs empty may keep still."""

import math

import exact
import pytest
from policies.play import Play, assert_mean, queues

from equipoise import SparsifiedJiq
from equipoise.errors import PolicyError


def test_a_server_that_runs_empty_says_so_with_probability_p():
    play = Play("sparsified-jiq(p=0.3)", [0], seed=3)

    said = 0
    for _ in range(4000):
        play.come()
        said += play.said(play.go, 0) == [1]

    assert abs(said - 1200) < 4 * math.sqrt(4000 * 0.3 * 0.7)
    assert play.counted("leave") == play.world.count.sum() == said


def test_it_never_speaks_otherwise():
    play = Play("sparsified-jiq(p=1)", [2])

    assert play.said(play.go, 0) == []
    assert play.said(play.come) == []


def test_a_bit_that_is_set_is_true_and_a_clear_one_says_nothing():
    play, kept_still = Play("sparsified-jiq(p=0.5)", [0, 2, 0, 1, 0]), 0

    for _ in play.events(1500, load=0.8, seed=1):
        known = [band == 0 for band in play.bands]
        assert all(play.lengths[s] == 0 for s in range(5) if known[s])
        kept_still += any(play.lengths[s] == 0 and not known[s] for s in range(5))
    assert kept_still > 300


def test_a_known_idle_server_is_taken_first():
    play = Play("sparsified-jiq", [0, 1, 0, 3])

    assert {play.come(), play.come()} == {0, 2}
    assert {play.choose() for _ in range(60)} == {0, 1, 2, 3}


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_queues_agree_with_their_chain(p):
    wait, messages = exact.sparsified(2, 0.6, p)

    runs = [
        queues(f"sparsified-jiq(p={p})", 2, 0.6, time=1500.0, warm_up=50.0, seed=seed)
        for seed in range(12)
    ]

    assert_mean([run.mean_wait for run in runs], wait, bias=1e-4)
    assert_mean([run.messages["leave"] for run in runs], messages, bias=1e-3)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_probability_outside_0_to_1_is_refused(p):
    with pytest.raises(PolicyError) as caught:
        SparsifiedJiq(p)

    assert str(caught.value) == f"sparsified-jiq: p = {p} must be a number >= 0 and <= 1"
