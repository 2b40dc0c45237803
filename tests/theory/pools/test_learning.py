"""Where and when a learning threshold settles, and what the learning costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, PolicyError
from equipoise.theory.pools import fluid
from equipoise.theory.pools.fluid import Change
from equipoise.theory.pools.learning import (
    alpha_for_bound,
    alpha_for_load,
    alpha_vanishing,
    best_level,
    cost_of,
    drop_load,
    equilibria,
    hysteresis,
    settling_bound,
    times_from_empty,
    total_settling,
    wanted_levels,
)
from equipoise.theory.pools.offered_load import Piecewise
from equipoise.theory.pools.stationary import rest_point

loads, alphas, steps = st.floats(0.1, 15), st.floats(0.3, 0.99), st.integers(1, 3)

BOUNDS = [  # load, alpha, tasks at the start, t0, t_eq
    (5.5, 0.925, 0, 0, math.log(11)),
    (5.5, 0.925, 9, 4.248495, 6.646391),
    (2.4, 0.9, 0, 0, math.log(6)),
    (2.4, 0.9, 9, 3.091042, 4.882802),
    (2.5, 10 / 11, 0, 0, math.log(5)),
    (2.5, 10 / 11, 9, 3.353407, 4.962845),
]


@pytest.mark.parametrize(("load", "alpha", "tasks", "t0", "bound"), BOUNDS)
def test_settling_bounds_are_the_known_ones(load, alpha, tasks, t0, bound):
    settling = settling_bound(load, alpha, tasks)

    assert settling.level == math.floor(load)
    assert settling.t0 == pytest.approx(t0, abs=1e-6)
    assert settling.bound == pytest.approx(bound, abs=1.1e-6)


def test_times_from_empty_are_the_known_ones():
    known = [(1, 0.200671), (2, 0.451985), (3, 0.788457), (4, 1.299283), (5, 2.397895)]

    assert times_from_empty(5.5) == tuple((k, pytest.approx(t, abs=1.001e-6)) for k, t in known)
    assert times_from_empty(5.5, 2) == tuple((k, pytest.approx(known[k - 1][1], abs=1e-6))
                                             for k in (2, 4))  # fmt: skip
    assert times_from_empty(0.7) == ()
    assert [k for k, _ in times_from_empty(3.0)] == [1, 2]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("start", ["empty", 4, 11, {0: 0.7, 14: 0.3}])
@pytest.mark.parametrize("load", [2.4, 5.5])
def test_no_fluid_path_settles_later_than_the_bound(load, start, step):
    alpha = min(0.98, 0.5 + 0.5 * load / (best_level(load, step) + step))
    shares = fluid.shares_from(start)
    settling = settling_bound(load, alpha, float(np.arange(len(shares)) @ shares), step)
    path = fluid.learning(load, [settling.bound + 5], alpha, step, start=start, dt=0.01)

    assert path.levels[-1] == settling.level
    assert path.last_change <= settling.bound + 0.01


def test_a_start_just_above_what_alpha_allows_takes_its_time():
    """0.925 x 6 = 5.55 < 5.8: u must fall to it first."""
    assert settling_bound(5.5, 0.925, 5.8).t0 == pytest.approx(math.log(0.3 / 0.05))
    assert settling_bound(5.5, 0.925, 5.55).t0 == 0


def test_where_nothing_is_known_the_bound_is_infinite():
    assert settling_bound(5.9, 0.8).bound == math.inf
    assert settling_bound(3.0, 0.9).t0 == 0
    assert settling_bound(3.0, 0.9).bound == math.inf


def test_the_time_of_a_fleet_spreads_like_its_mass():
    """sd(u) = sqrt(5 / n) as it passes 5 with slope 0.5; 200 runs at n = 500 had 0.24."""
    assert settling_bound(5.5, 0.925).spread(500, 5.5) == pytest.approx(0.2)
    assert settling_bound(3.0, 0.9).spread(500, 3.0) == math.inf


@given(load=loads, alpha=alphas, step=steps)
def test_possible_levels_are_within_the_bounds_and_hold_alpha(load, alpha, step):
    found = equilibria(load, alpha, step)

    assert found.lowest <= min(found.possible)
    assert max(found.possible) <= max(found.highest, best_level(load, step))
    assert all(level % step == 0 for level in found.possible)
    assert best_level(load, step) in found.possible
    for level, theta in zip(found.possible, found.thetas, strict=True):
        if level > load:
            assert theta >= alpha
            assert theta == rest_point(load, level, step).theta
    assert list(found.thetas) == sorted(found.thetas, reverse=True)


@given(load=loads, step=steps)
def test_an_alpha_for_the_load_leaves_one_level(load, step):
    found = equilibria(load, min(alpha_for_load(load, step), 0.9999), step)

    assert found.optimal
    assert [level for level in found.possible if level != load - step] == [best_level(load, step)]


@given(load=loads, more=st.floats(1.001, 3), step=steps)
def test_an_alpha_for_a_bound_leaves_at_most_one_step_too_much(load, more, step):
    found = equilibria(load, alpha_for_bound(load * more, step), step)

    assert max(found.possible) <= best_level(load, step) + step


def test_alphas_have_the_published_form():
    assert alpha_for_load(5.5) == pytest.approx(0.925)
    assert alpha_for_bound(10) == pytest.approx(10 / 11)
    assert alpha_vanishing(10_000) == pytest.approx(1 - 10_000**-0.4)


def test_hysteresis_is_as_published():
    """Load 5.9, alpha 0.8: the bound allows 5, 6, 7, the stationary law 5 and 6."""
    found = equilibria(5.9, 0.8)

    assert (found.lowest, found.highest, found.possible) == (5, 7, (5, 6))
    assert found.thetas[1] == pytest.approx(0.9075796843, abs=1e-10)
    assert rest_point(5.9, 7).theta == pytest.approx(0.40609970, abs=1e-8)
    assert found.margin == pytest.approx(0.1075796843)
    assert not found.optimal


def test_a_falling_load_leaves_a_level_where_theta_is_alpha():
    drop = drop_load(6, 0.8)

    assert rest_point(drop, 6).theta == pytest.approx(0.8, rel=1e-10)
    assert equilibria(drop + 1e-6, 0.8).possible == (5, 6)
    assert equilibria(drop - 1e-6, 0.8).possible == (5,)


def test_sweeps_up_and_down_differ_only_where_two_levels_are_possible():
    loads = np.linspace(4.6, 6.4, 37)
    rising, falling = hysteresis(loads, 0.8)
    drop = drop_load(6, 0.8)

    assert rising.tolist() == [max(0, math.ceil(load - 1e-12) - 1) for load in loads]
    for load, up, down in zip(loads, rising, falling, strict=True):
        assert (up < down) == (drop_load(up + 1, 0.8) <= load), (load, drop)


@pytest.mark.parametrize("load", [5.6, 5.75, 5.9])
def test_a_slow_sweep_in_the_fluid_limit_goes_the_ways_of_the_hysteresis(load):
    """Up from 5.2 and down from 6.4, with time to rest at each load."""
    rising, falling = hysteresis([load], 0.8)
    ends = []
    for first, level in ((5.2, 5), (6.4, 6)):
        rate = Piecewise([0, 15, 60], [first, load])
        path = fluid.learning(rate, [59.0], 0.8, level=level, start=first, dt=0.02)
        ends.append(int(path.levels[-1]))

    assert ends == [rising[0], falling[0]]


def test_the_total_count_scheme_settles_when_its_mass_does():
    assert total_settling(5.5).bound == pytest.approx(math.log(11))
    assert total_settling(5.5, 9).bound == pytest.approx(math.log(3.5 / 0.5))
    assert total_settling(5.5, 5.2).bound == 0
    assert total_settling(5.5, 0, 2).bound == pytest.approx(math.log(5.5 / 1.5))
    assert total_settling(3.0).bound == math.inf
    for start in ("empty", 9):
        path = fluid.learning(5.5, [9.0], 0.5, rule="total", start=start)
        settled = total_settling(5.5, 0 if start == "empty" else 9)
        assert path.levels[-1] == 5
        assert path.last_change == pytest.approx(settled.bound, abs=5e-3)


def test_changes_cost_an_announcement_to_all_and_an_answer_of_some():
    cost = cost_of([Change(0.1, 1, 1.0), Change(0.5, 0, 0.25)], 80)

    assert (cost.changes, cost.broadcasts, cost.announcements, cost.answers) == (2, 2, 160, 100)


def test_wanted_levels_follow_the_offered_load():
    rate = Piecewise([0, 20, 40], [5.5, 2.5])
    times = np.array([0.1, 15.0, 39.0])

    assert wanted_levels(rate, times).tolist() == [0, 5, 2]
    assert wanted_levels(rate, times, 2).tolist() == [0, 4, 2]


@pytest.mark.parametrize(
    ("kind", "ask", "said"),
    [
        (EquipoiseError, lambda: settling_bound(5.5, 0.9, -1),
         "tasks = -1 must be a number >= 0, per pool at the start"),
        (EquipoiseError, lambda: equilibria(0, 0.9),
         "load = 0 must be a number > 0, in tasks per pool; without tasks there is nothing to "
         "balance"),
        (PolicyError, lambda: equilibria(5.5, 1.0),
         "alpha = 1 must be between 0 and 1, both excluded: the threshold goes down when at most "
         "this fraction of the pools has reached it"),
        (EquipoiseError, lambda: equilibria(5.5, 0.9, 0), "step = 0 must be a whole number >= 1"),
        (EquipoiseError, lambda: alpha_vanishing(100, 1.0),
         "power = 1 must be between 0 and 1, both excluded"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(kind, ask, said):
    with pytest.raises(kind) as caught:
        ask()

    assert str(caught.value) == said
