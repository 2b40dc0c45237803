"""The limits of pools: no drift at rest, the drift of finite systems, and paths that follow it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.theory.limits import LIMITS, POOL_LIMITS
from equipoise.theory.limits.pools import jsq, jsq_d, random, threshold

PARAMS = {"random": {}, "jsq": {}, "jsq-d": {"d": 3}, "threshold": {"level": 2, "step": 2}}
every_limit = pytest.mark.parametrize("name", POOL_LIMITS)
loads = st.floats(0.2, 9)


def tail_of(lengths, levels=12):
    return np.array([(lengths > k).mean() for k in range(levels)])


def by_counting(lengths, load, chosen):
    """Drift of q(1..12) when a task goes to a pool of `chosen(lengths)`, [(length, part), ...]."""
    n, change = len(lengths), np.zeros(12)
    for length in lengths:
        if length:
            change[length - 1] -= length / n
    for length, part in chosen:
        change[length] += load * part
    return change


def test_all_are_registered_under_the_names_of_their_policies():
    assert set(POOL_LIMITS) == {"random", "jsq", "jsq-d", "threshold"}
    for name, limit in POOL_LIMITS.items():
        assert (limit.policy, limit.discipline) == (name, "pool")
        assert limit.source
    assert all(limit.discipline == "fcfs" for limit in LIMITS.values())


@every_limit
@given(load=st.floats(0.2, 9).filter(lambda x: abs(x - round(x)) > 1e-3))
def test_the_rest_point_has_no_drift(name, load):
    limit = POOL_LIMITS[name]
    x = limit.rest_point(load, 90, **PARAMS[name])
    x[x > 1 - 1e-13] = 1.0  # the balanced state is one by definition, not by rounding

    assert np.abs(limit.drift(x, load, **PARAMS[name])).max() <= 1e-8
    assert x.sum() == pytest.approx(load, rel=1e-9)


@every_limit
def test_paths_come_to_the_rest_point(name):
    limit, start = POOL_LIMITS[name], np.r_[np.ones(4), np.zeros(41)]
    path = limit.follow(start, np.array([0.0, 30.0]), 2.6, **PARAMS[name])

    assert path.shape == (2, 45)
    assert path[0] == pytest.approx(start, abs=1e-12)
    assert path[1] == pytest.approx(limit.rest_point(2.6, 45, **PARAMS[name]), abs=1e-5)


@every_limit
def test_paths_go_where_the_drift_points(name):
    """Central differences along the path, away from the moments where the drift jumps."""
    limit, params, h = POOL_LIMITS[name], PARAMS[name], 0.01
    start = tail_of(np.repeat([0, 1, 3, 6], [40, 20, 20, 20]), 45)
    for time in (0.1, 0.5, 3.0):
        before, x, after = limit.follow(start, np.array([time - h, time, time + h]), 2.6, **params)
        x = np.where(x > 1 - 1e-9, 1.0, x)

        assert (after - before) / (2 * h) == pytest.approx(
            limit.drift(x, 2.6, **params), abs=2e-3
        ), time


def test_jsq_d_drifts_as_in_a_finite_system():
    """2000 pools, two choices with replacement: every pair counted."""
    lengths = np.repeat([0, 1, 2, 5], [300, 700, 800, 200])
    share = [(j, (lengths == j).mean()) for j in (0, 1, 2, 5)]
    pairs = [(min(a, b), p * q) for a, p in share for b, q in share]

    assert jsq_d.drift(tail_of(lengths), 1.7, 2) == pytest.approx(
        by_counting(lengths, 1.7, pairs), abs=1e-12
    )
    assert random.drift(tail_of(lengths), 1.7) == pytest.approx(
        by_counting(lengths, 1.7, share), abs=1e-12
    )


def test_a_threshold_below_which_pools_are_drifts_as_in_a_finite_system():
    lengths = np.repeat([0, 1, 2, 5], [300, 700, 800, 200])
    below = [(0, 0.3), (1, 0.7)]

    assert threshold.drift(tail_of(lengths), 1.7, 2) == pytest.approx(
        by_counting(lengths, 1.7, below), abs=1e-12
    )
    assert threshold.drift(tail_of(lengths), 1.7, 0, 2) == pytest.approx(
        by_counting(lengths, 1.7, below), abs=1e-12
    )


def test_at_the_boundary_what_falls_off_is_made_good_first():
    """All at 2 or above, one of 2 in two finishing at rate 2: 1 of the load of 1.7 goes to 1s."""
    lengths = np.repeat([2, 3, 5], [500, 300, 200])
    sliding = [(1, 1.0 / 1.7), (2, 0.7 / 1.7)]
    known = by_counting(lengths, 1.7, sliding)

    assert threshold.drift(tail_of(lengths), 1.7, 2) == pytest.approx(known, abs=1e-12)
    assert jsq.drift(tail_of(lengths), 1.7) == pytest.approx(known, abs=1e-12)
    assert threshold.drift(tail_of(lengths), 1.7, 1) == pytest.approx(
        by_counting(lengths, 1.7, [(1, 1.0 / 1.7)] + [(j, 0.7 / 1.7 * p) for j, p in
                                                       ((2, 0.5), (3, 0.3), (5, 0.2))]),
        abs=1e-12,
    )  # fmt: skip


def test_a_boundary_that_cannot_be_held_is_left():
    lengths = np.repeat([2, 3], [500, 500])
    known = by_counting(lengths, 0.7, [(1, 1.0)])

    assert threshold.drift(tail_of(lengths), 0.7, 2) == pytest.approx(known, abs=1e-12)
    assert jsq.drift(tail_of(lengths), 0.7) == pytest.approx(known, abs=1e-12)


@given(load=loads, parts=st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_tasks_come_at_the_load_and_leave_at_rate_one_each(load, parts):
    x = np.r_[np.sort(parts)[::-1], np.zeros(3)]

    for name, limit in POOL_LIMITS.items():
        came = limit.drift(x, load, **PARAMS[name]).sum()
        assert came == pytest.approx(load - x.sum(), abs=1e-11), name


@every_limit
def test_levels_and_loads_that_make_no_sense_are_refused(name):
    limit = POOL_LIMITS[name]

    with pytest.raises(EquipoiseError, match="levels = 0 must be a whole number >= 1"):
        limit.rest_point(2.5, 0, **PARAMS[name])
    with pytest.raises(EquipoiseError, match="load = 0 must be a number > 0"):
        limit.rest_point(0.0, 9, **PARAMS[name])


def test_limits_of_single_servers_are_followed_the_same_way():
    x = LIMITS["jsq-d"].follow(np.zeros(30), np.array([1.0, 200.0]), 0.7, d=2)

    assert x[1] == pytest.approx(LIMITS["jsq-d"].rest_point(0.7, 30), abs=1e-8)
