"""The answer: numbers that fit together, and a sentence that a manager understands."""

import doctest

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.theory import heavy_traffic, stability
from equipoise.theory.stability import design, draws, laws, policies, polytope

SLOW = stability.jsq_d([(80, 1.0), (20, 0.01)], 2)


def test_the_numbers_fit_together():
    found = SLOW.at(4.0)

    assert found.load == pytest.approx(4 / 80.2)
    assert found.utilisation == pytest.approx(4 / found.lam_max)
    assert found.distance == pytest.approx(found.lam_max - 4)
    assert found.loss == pytest.approx(100 * (1 - found.lam_max / 80.2))
    assert found.lam_max == pytest.approx(found.bottleneck_speed / found.bottleneck_share)
    assert found.stable
    assert found.growth == found.bottleneck_growth == 0


def test_nothing_is_said_at_a_rate_that_was_not_asked_about_or_on_the_boundary():
    assert SLOW.stable is SLOW.load is SLOW.growth is SLOW.distance is SLOW.utilisation is None
    assert SLOW.at(SLOW.lam_max).stable is None
    assert SLOW.at(SLOW.lam_max * 1.001).stable is False
    assert SLOW.at(0.0).stable


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            SLOW,
            "jsq-d(d=2) carries load 0.065 of 1 (5.211 tasks per s; loses 93.5 % of the capacity); "
            "bottleneck: the 20 slowest of 100 servers (speed 0.01), which must take 3.84 % of the "
            "tasks with 0.249 % of the speed",
        ),
        (
            stability.jsq_d([1.0, 2.0], 2, rate=2.4),
            "stable at load 0.8 (2.4 tasks per s); jsq-d(d=2) carries load 1 of 1 (3 tasks per s): "
            "no capacity is lost",
        ),
        (
            stability.jsq([1.0, 2.0], rate=3.3),
            "unstable at load 1.1 (3.3 tasks per s): the queues grow by 0.3 per s; jsq carries "
            "load 1 of 1 (3 tasks per s): no capacity is lost",
        ),
        (
            stability.jsq([1.0, 2.0], rate=3.0),
            "on the boundary at load 1 (3 tasks per s); jsq carries load 1 of 1 (3 tasks per s): "
            "no capacity is lost",
        ),
        (
            stability.sampled([1.0, 1.0, 1.0], {(0,): 0.6, (1, 2): 0.4}),
            "sampled(2 sets) carries load 0.556 of 1 (1.667 tasks per s; loses 44.4 % of the "
            "capacity); bottleneck: server 0 of 3, which must take 60 % of the tasks with 33.3 % "
            "of the speed",
        ),
        (
            stability.tokens([1.0, 1.0, 0.2], 1, rate=2.0, rule="jiq"),
            "not known whether stable at load 0.909 (2 tasks per s); jiq carries load 0.545 of 1 "
            "for certain (1.2 tasks per s); from there to 1 it is not known",
        ),
    ],
)
def test_the_verdict_is_one_line(found, sentence):
    assert found.describe("s") == sentence
    assert found.verdict == sentence.replace("per s", "per unit of time")


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(EquipoiseError, match="must be a finite number >= 0"):
        SLOW.at(float("nan"))


@pytest.mark.parametrize("fleet", [[(90, 1.0), (10, 0.2)], np.repeat([1.0, 0.2], [90, 10])])
def test_a_tenth_of_the_servers_at_a_fifth_of_the_speed(fleet):
    """Random loses 78 %; two choices lose nothing: 10 slow servers are seldom looked at alone."""
    assert stability.random(fleet).lam_max == pytest.approx(20)
    assert stability.jsq_d(fleet, 2).lam_max == pytest.approx(92)


def test_boxes_of_eight_and_of_two():
    """With 2 boxes of 8 among 18 of 2, d = 2 loses 14 %, d = 3 still 3 %, d = 4 nothing."""
    fleet = [(2, 8.0), (18, 2.0)]

    two, three = stability.jsq_d(fleet, 2), stability.jsq_d(fleet, 3)

    assert two.lam_max == pytest.approx(36 * (20 * 19) / (18 * 17))
    assert three.lam_max == pytest.approx(36 * (20 * 19 * 18) / (18 * 17 * 16))
    assert (round(two.loss), round(three.loss)) == (14, 3)
    assert two.bottleneck.tolist() == three.bottleneck.tolist() == list(range(2, 20))
    assert stability.jsq_d(fleet, 4).optimal
    assert stability.smallest_d(fleet, 50.0) == 3
    assert stability.smallest_d(fleet, 51.0) == 4


@pytest.mark.parametrize(
    "module", [stability, design, draws, laws, policies, polytope, heavy_traffic]
)
def test_examples_in_the_documentation_are_true(module):
    assert doctest.testmod(module).failed == 0
