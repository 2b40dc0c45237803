"""One answer with all that is known; what it warns of; what it refuses."""

import dataclasses
import doctest
import importlib
import math

import numpy as np
import pytest
from scipy.stats import poisson

from equipoise.errors import EquipoiseError, PolicyError
from equipoise.theory import pools
from equipoise.theory.pools import describe


def test_a_newcomer_learns_which_threshold_and_how_long_it_takes():
    answer = describe(7.3, 200)

    assert (answer.best_level, answer.final_level) == (7, 7)
    assert answer.settled == pytest.approx(math.log(7.3 / 0.3), abs=3e-3)
    assert answer.alpha == pytest.approx(10 / 11)
    assert answer.best_alpha == pytest.approx(0.1 + 0.9 * 7.3 / 8)
    assert answer.messages == pytest.approx(1)
    assert answer.memory == 2
    assert answer.learning.announcements == 7 * 200
    assert answer.rest_distance == pytest.approx(0, abs=1e-12)
    assert answer.finite_distance == pytest.approx(answer.spread.distance)
    assert answer.path.times[0] == 0


def test_with_an_alpha_for_the_load_the_time_is_bounded():
    answer = describe(5.5, 500, alpha=0.925, start=9)

    assert answer.settling.bound == pytest.approx(6.646391, abs=1e-6)
    assert answer.settled == pytest.approx(2.097, abs=2e-3)
    assert answer.path.times[-1] >= answer.settling.bound
    assert answer.equilibria.possible == (5,)
    assert answer.warnings == ()


def test_a_threshold_that_is_wrong_is_called_so():
    high, low = describe(2.5, 100, "threshold", level=4), describe(5.5, 100, "threshold", level=3)

    assert high.warnings == ("level = 4 is too high for a load of 2.5: use level = 2",)
    assert low.warnings == ("level = 3 is too low for a load of 5.5: use level = 5",)
    assert high.rest.theta == pytest.approx(0.2359891571)
    assert (high.on_arrival, high.on_departure) == pytest.approx((0.62241735, 0.37758265))
    assert high.rest_distance > 0.3
    assert describe(2.5, 100, "threshold").level == 2


def test_a_load_near_a_whole_number_is_warned_of_with_the_rate_of_changes():
    answer = describe(2.9, 100, alpha=0.97)

    assert answer.changes == pytest.approx(10.68, rel=0.05)  # simulated
    assert answer.learning_messages == pytest.approx(answer.changes / 2.9)
    assert answer.warnings[0] == (
        f"load 2.9 is 0.59 standard deviations (sqrt(load/n) = 0.17) from 3: the threshold goes "
        f"back and forth, {answer.changes:.3g} times per mean service time; more servers, or a "
        "larger step with the load in its middle, calm it"
    )


def test_several_levels_are_warned_of():
    answer = describe(5.9, 5000, alpha=0.8, start=9, level=9)

    assert answer.final_level == 6
    assert any("may settle at any of 5, 6" in line for line in answer.warnings)


def test_a_level_that_is_hardly_held_is_warned_of():
    """Published as left within 25 time units at 5000 pools: theta - alpha = 0.0076."""
    answer = describe(5.9, 500, alpha=0.9, start=9, level=9)

    assert answer.equilibria.margin == pytest.approx(0.00757968, abs=1e-6)
    assert any("level 6 is held by only 0.0076" in line for line in answer.warnings)


def test_a_load_that_crosses_whole_numbers_all_the_time_is_warned_of():
    answer = describe(pools.Sinusoid(5, 1.2, 2), 100, horizon=20)

    assert answer.crossings > 10
    assert f"passes a multiple of step = 1 {answer.crossings} times in 20" in answer.warnings[0]
    assert answer.load is None
    assert answer.rest is None
    assert answer.messages is None
    assert describe(pools.Sinusoid(5, 1.2, 2), 100, step=2, horizon=20).crossings == 2


@pytest.mark.parametrize(
    ("policy", "messages", "distance"),
    [
        ("jsq", 1, 0),
        ("jsq-d", 4, math.dist([0.97172444, 0.83234539, 0.51803348, 0.16433334, 0.01348756],
                               [1, 1, 0.5, 0, 0])),
        ("random", 0, math.dist(poisson.sf(range(30), 2.5), [1, 1, 0.5] + 27 * [0])),
    ],
)  # fmt: skip
def test_other_policies_are_described_beside_it(policy, messages, distance):
    answer = describe(2.5, 100, policy)

    assert answer.messages == messages
    assert answer.rest_distance == pytest.approx(distance, abs=1e-7)
    assert answer.path.levels is None
    assert answer.path.tasks == pytest.approx(answer.path.offered, abs=1e-8)
    assert answer.final_level is None


def test_losses_are_known_where_pools_hold_one_task_more_than_they_need():
    loss = pools.pair_law(20, 2.5).loss

    assert describe(2.5, 20, "jsq", limit=3).loss == loss
    assert describe(2.5, 20, "threshold", limit=3).loss == loss
    assert describe(2.5, 20, "jsq-d", limit=3).loss is None
    assert "tasks will be lost" in describe(2.5, 20, "threshold", level=2, limit=2).warnings[0]


def test_the_total_count_scheme_is_described_too():
    answer = describe(5.5, 100, rule="total", step=2)

    assert (answer.alpha, answer.final_level) == (None, 4)
    assert answer.settled == pytest.approx(answer.settling.bound, abs=5e-3)
    assert answer.changes == pytest.approx(pools.total_changes(100, 5.5, 2))


@pytest.mark.slow
def test_service_in_phases_has_the_same_rest_and_other_times():
    answer = describe(2.5, 100, service=pools.Coxian((2.0, 0.5), (0.25,)))

    assert answer.final_level == 2
    assert answer.changes is None
    assert answer.settled > math.log(5)
    assert answer.path.tasks[-1] == pytest.approx(answer.path.offered[-1], abs=1e-3)


def test_times_can_be_chosen():
    assert describe(2.5, 100, times=[1.0, 2.0]).path.times.tolist() == [1, 2]
    assert describe(2.5, 100, horizon=3).path.times[-1] == 3


def test_an_answer_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe(2.5, 100, "jsq").load = 3


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (EquipoiseError, {"load": 0}, "load = 0 must be a number > 0, in tasks per pool"),
        (EquipoiseError, {"servers": 0}, "servers = 0 must be a whole number >= 1"),
        (EquipoiseError, {"step": 0}, "step = 0 must be a whole number >= 1"),
        (PolicyError, {"alpha": 1.5}, "alpha = 1.5 must be between 0 and 1, both excluded"),
        (PolicyError, {"alpha": 0}, "alpha = 0 must be between 0 and 1, both excluded"),
        (PolicyError, {"alpha": 0.99}, "alpha = 0.99 >= 1 - 1/n = 0.99 for 100 servers"),
        (PolicyError, {"servers": 1}, "one server leaves nothing to balance or learn"),
        (PolicyError, {"alpha": 0.9, "max_load": 5}, "alpha and max_load say the same thing twice"),
        (PolicyError, {"policy": "jiq"}, "policy = 'jiq' is not known here; known are: threshold"),
        (PolicyError, {"policy": "threshold", "level": 5, "limit": 4}, "level = 5 is above limit"),
        (PolicyError, {"policy": "threshold", "load": pools.Sinusoid(3, 1, 1)}, "level: missing;"),
        (PolicyError, {"start": 9, "limit": 4}, "start: 9 tasks at a pool are above limit = 4"),
        (PolicyError, {"policy": "random", "service": pools.Coxian((2, 1), (0.5,))},
         "the limit of random is known here for exponential service only"),
        (PolicyError, {"rule": "basic"}, "rule = 'basic' is unknown"),
        (EquipoiseError, {"times": [2, 1]}, "times must ascend from 0 on"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(kind, arguments, said):
    with pytest.raises(kind) as caught:
        describe(**{"load": 2.5, "servers": 100, **arguments})

    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["equipoise.theory.pools", "equipoise.theory.pools.describe"])
def test_the_examples_do_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name))

    assert result.attempted > 0
    assert result.failed == 0


def test_every_name_that_is_offered_exists():
    for name in pools.__all__:
        assert getattr(pools, name) is not None
    assert np.isfinite(pools.balanced(2.5)).all()
