"""Synchronous updates: the period map and where it leads, against published figures and Euler."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.sparse import independent

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import (
    level_bound,
    long_run_bound,
    period,
    sujsq_det,
    sujsq_exp,
    water_level,
)
from equipoise.theory.sparse.filling import fill, idle_told

# load, delta: mean tasks, mean wait, the law at updates, when the levels start
TABLE = {
    (0.5, 1.0): (0.5, 0.0, [0.5, 0.5], [0]),
    (0.5, 0.95): (0.50937406, 0.01874813, [0.50617200, 0.47897351, 0.01485449], [0, 1.012344]),
    (0.5, 0.5): (0.57827510, 0.15655020, [0.52267889, 0.36914281, 0.10817830], [0, 1.045358]),
    (0.5, 0.25): (
        0.61005290,
        0.22010579,
        [0.51082885, 0.36655384, 0.10681826, 0.01579905],
        [0, 1.021658, 2.776423],
    ),
    (0.7, 0.7): (0.91646556, 0.30923652, [0.31437215, 0.44609476, 0.23953309], [0, 0.449103]),
    (0.7, 0.35): (
        1.02266062,
        0.46094375,
        [0.31032559, 0.41111652, 0.20843057, 0.06760209, 0.00252523],
        [0, 0.443322, 1.473954, 2.802343],
    ),
    (0.9, 0.9): (
        1.66227521,
        0.84697245,
        [0.13844043, 0.27741430, 0.36226676, 0.22187850],
        [0, 0.153823, 0.615884],
    ),
    (0.9, 0.45): (
        1.91919807,
        1.13244230,
        [0.12467004, 0.25660281, 0.28049109, 0.23606063, 0.10217543],
        [0, 0.138522, 0.562159, 1.297452],
    ),
}
DIGIT = 1.0001e-8  # one unit of the last digit


@pytest.mark.parametrize("case", TABLE)
def test_the_equilibrium_is_the_known_one_to_the_last_digit(case):
    tasks, wait, law, starts = TABLE[case]
    rest = sujsq_det(*case)

    assert rest.settled
    assert rest.error < 1e-10
    assert rest.mean_tasks == pytest.approx(tasks, abs=DIGIT)
    assert rest.mean_wait == pytest.approx(wait, abs=DIGIT)
    assert rest.lengths_at_updates == pytest.approx(law, abs=DIGIT)
    assert [level for _, level in rest.level_times] == list(range(len(starts)))
    assert [since for since, _ in rest.level_times] == pytest.approx(starts, abs=1.0001e-6)


@pytest.mark.parametrize(
    ("case", "tasks"),
    [
        ((0.5, 0.5), 0.578229),
        ((0.7, 0.7), 0.916457),
        ((0.7, 0.35), 1.022562),
        ((0.9, 0.45), 1.919078),
    ],
)
def test_time_stepping_comes_to_the_same(case, tasks):
    assert sujsq_det(*case).mean_tasks == pytest.approx(tasks, abs=1e-3)


# idle servers only: by time-stepping
@pytest.mark.parametrize(
    ("case", "wait", "messages"), [((0.5, 0.5), 0.18609, 0.53), ((0.7, 0.7), 0.50368, 0.36)]
)
def test_idle_servers_only_come_to_what_time_stepping_comes_to(case, wait, messages):
    rest = sujsq_det(*case, idle_only=True)

    assert rest.settled
    assert rest.mean_wait == pytest.approx(wait, abs=2e-4)
    assert rest.messages() == pytest.approx(messages, abs=5e-3)


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_idle_servers_that_tell_often_enough_cost_one_message_per_task_and_nobody_waits(load):
    rest = sujsq_det(load, load / (1 - load), idle_only=True)

    assert rest.mean_wait <= 1e-12
    assert rest.messages() == pytest.approx(1, abs=1e-12)
    assert rest.messages("push") == pytest.approx(1 + 1 / (1 - load), abs=1e-12)


@pytest.mark.parametrize(
    ("load", "delta", "idle_only"),
    [(0.5, 0.5, False), (0.7, 0.35, False), (0.9, 0.45, False), (0.5, 0.5, True), (0.7, 0.7, True)],
)
def test_eulers_method_stays_where_the_fixed_point_is(load, delta, idle_only):
    """To 3e-4 of the period map, and half the step halves the difference."""
    rest = sujsq_det(load, delta, idle_only=idle_only)
    tell = independent.idle_told if idle_only else independent.synchronised
    there = rest.at_updates

    def off(steps):
        end = tell(independent.euler(there, load, 1 / delta, steps))
        end[: there.shape[0], : there.shape[1]] -= there
        return np.abs(end).max()

    coarse, fine = off(4000), off(8000)
    assert fine <= 3e-4
    assert 1.7 <= coarse / fine <= 2.3


def test_the_period_map_is_that_of_eulers_method_from_any_law():
    law = np.array([0.1, 0.2, 0.4, 0.1, 0.2])
    one = period(law, 0.8, 0.4)
    end = independent.euler(np.diag(law), 0.8, 2.5, 8000).sum(axis=1)

    assert end[: one.lengths.size] == pytest.approx(one.lengths, abs=3e-4)


@pytest.mark.parametrize("start", [[1.0], [0, 0, 0, 0, 0, 0, 1.0], [0.7, 0, 0, 0, 0.3]])
@pytest.mark.parametrize("case", [(0.7, 0.35), (0.5, 0.95)])
def test_other_starts_come_to_the_same_fixed_point(case, start):
    """Seen, not proved."""
    law = start
    for _ in range(400):
        law = period(law, *case).lengths
    there = sujsq_det(*case).lengths_at_updates

    assert law[: there.size] == pytest.approx(there, abs=1e-9)
    assert law[there.size :].sum() <= 1e-9


def test_a_congested_fleet_comes_to_no_waits_where_updates_are_frequent_enough():
    """From 10 tasks at every server, at load 0.5 and delta = 1."""
    law, long = [0.0] * 10 + [1.0], {}
    for k in range(1, 51):
        law = period(law, 0.5, 1.0).lengths
        long[k] = law[2:].sum()

    assert long[20] == pytest.approx(0.218, abs=1e-3)
    assert long[30] == pytest.approx(2.1e-3, abs=1e-4)
    assert long[40] == pytest.approx(1.7e-5, abs=1e-6)
    assert long[50] == pytest.approx(1.3e-7, abs=1e-8)


@pytest.mark.parametrize("idle_only", [False, True])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.95])
def test_waits_vanish_from_the_threshold_on_and_grow_linearly_below_it(load, idle_only):
    enough = load / (1 - load)
    waits = [
        sujsq_det(load, enough * (1 + x), idle_only=idle_only).mean_wait
        for x in (0.5, 0.0, -1e-3, -2e-3)
    ]

    assert max(waits[:2]) <= 1e-12
    assert 0 < waits[2] < waits[3]
    assert waits[3] / waits[2] == pytest.approx(2, rel=0.02)


@given(
    parts=st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda x: sum(x) > 1e-3),
    load=st.floats(0.05, 0.99),
    time=st.floats(0, 20),
)
def test_the_water_level_is_the_highest_that_what_came_can_fill(parts, load, time):
    law = np.array(parts) / sum(parts)
    level = water_level(law, load, time)
    i = np.arange(law.size)

    def poured(m):
        return np.maximum(m - i, 0) @ law

    first = np.argmax(law > 0)
    assert level == first or poured(level) <= load * time + 1e-9
    assert poured(level + 1) > load * time - 1e-9


@given(
    parts=st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda x: sum(x) > 1e-3),
    load=st.floats(0.05, 0.99),
    delta=st.floats(0.1, 3),
)
def test_levels_last_as_long_as_their_servers_take_tasks_and_stay_below_the_bound(
    parts, load, delta
):
    law = np.array(parts) / sum(parts)
    one = period(law, load, delta)
    whole = np.concatenate((np.cumsum(law), np.ones(200)))

    for (since, level), (until, _) in zip(one.level_times, one.level_times[1:], strict=False):
        assert until - since == pytest.approx(whole[level] / load, abs=1e-9)
        assert water_level(law, load, (since + until) / 2) == level
    last = one.level_times[-1][1]
    first = one.level_times[0][1]
    assert last <= max(first, level_bound(law @ np.arange(law.size), load, delta) + 1e-9)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("delta", [0.02, 0.3, 2.0])
def test_the_mean_length_at_updates_obeys_the_bound_for_every_delta(load, delta):
    rest = sujsq_det(load, delta)
    mean = rest.lengths_at_updates @ np.arange(rest.lengths_at_updates.size)

    assert mean <= long_run_bound(load, delta) < math.inf
    assert rest.level_times[-1][1] <= level_bound(mean, load, delta)
    assert rest.lengths_at_updates.size - 1 <= rest.level_times[-1][1] + 1


@pytest.mark.parametrize("delta", [0.02, 0.5, 3.0, 60.0])
@pytest.mark.parametrize("load", [0.1, 0.6, 0.95, 0.999])
def test_at_rest_as_many_servers_are_busy_as_there_is_load(load, delta):
    rest = sujsq_det(load, delta)

    assert rest.lengths.sum() == pytest.approx(1, abs=1e-10)
    assert rest.lengths[0] == pytest.approx(1 - load, abs=1e-10)


@pytest.mark.parametrize(("load", "delta"), [(0.7, 0.3), (0.9, 0.45), (0.95, 2.0), (0.3, 0.1)])
def test_idle_servers_alone_carry_the_load_and_the_fleet_goes_there(load, delta):
    """Plain iteration from another start than the solver's."""
    rest = sujsq_det(load, delta, idle_only=True)
    state = np.diag([1.0])
    for _ in range(1200):
        state = idle_told(fill(state, load, 1 / delta).state)

    assert rest.settled
    assert rest.lengths[0] == pytest.approx(1 - load, abs=1e-9)
    rows, columns = rest.at_updates.shape
    assert state[:rows, :columns] == pytest.approx(rest.at_updates, abs=1e-4)


def test_levels_swing_where_idle_servers_alone_tell_rarely():
    rest = sujsq_det(0.7, 0.1, idle_only=True)

    assert not rest.settled
    assert rest.error > 0
    assert rest.lengths[0] == pytest.approx(0.3, abs=0.02)
    assert rest.mean_wait > 3 * sujsq_det(0.7, 0.1).mean_wait


def test_random_gaps_agree_with_a_simulation():
    """At load 0.5, delta 1 a fleet of 2000 was seen to wait 0.1065, 95 % interval +- 0.0117."""
    rest = sujsq_exp(0.5, 1.0, periods=4000, seed=5)

    assert abs(rest.mean_wait - 0.1065) <= 4 * math.hypot(rest.error / 2, 0.0117 / 1.96)
    assert rest.error < 0.006


@pytest.mark.parametrize("idle_only", [False, True])
def test_random_gaps_leave_as_many_idle_as_the_load_asks_and_wait_longer_than_equal_ones(idle_only):
    rest = sujsq_exp(0.7, 0.7, idle_only=idle_only, periods=1500, seed=3)

    assert rest.lengths[0] == pytest.approx(0.3, abs=0.005)
    assert rest.idle_told == pytest.approx(0.3, abs=1e-15)
    assert rest.mean_wait > sujsq_det(0.7, 0.7, idle_only=idle_only).mean_wait + rest.error


def test_random_gaps_are_the_same_for_the_same_seed_and_their_errors_cover_other_seeds():
    runs = [sujsq_exp(0.6, 1.0, periods=300, seed=seed) for seed in range(10)]
    mean = np.mean([run.mean_wait for run in runs])

    assert sujsq_exp(0.6, 1.0, periods=300, seed=3).mean_wait == runs[3].mean_wait
    assert all(abs(run.mean_wait - mean) <= 2 * run.error for run in runs)
    spread = np.std([run.mean_wait for run in runs], ddof=1)
    assert np.mean([run.error for run in runs]) / 2 == pytest.approx(spread, rel=0.7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sujsq_det(0.5, 0), "delta = 0 must be more than 0"),
        (lambda: sujsq_det(0.5, -1), "delta = -1 must be"),
        (lambda: sujsq_det(0.5, math.nan), "delta = nan must be"),
        (lambda: sujsq_det(0.0, 1), "load = 0 must be"),
        (lambda: sujsq_det("much", 1), "load = 'much' must be a number"),
        (lambda: sujsq_exp(0.5, 1, periods=0), "periods = 0 must be a whole number >= 1"),
        (lambda: period([0.5, 0.6], 0.5, 1), "sum 1"),
        (lambda: period([-0.5, 1.5], 0.5, 1), "parts >= 0"),
        (lambda: period([], 0.5, 1), "sum 1"),
        (lambda: water_level([1.0], 0.5, -1), "time = -1"),
        (lambda: level_bound(-1, 0.5, 1), "mean_tasks = -1"),
    ],
)
def test_what_makes_no_sense_is_told(call, message):
    with pytest.raises(EquipoiseError, match=message):
        call()


@pytest.mark.parametrize("load", [1.0, 1.5, math.inf])
def test_more_load_than_servers_can_do_is_unstable(load):
    for call in (sujsq_det, sujsq_exp, long_run_bound):
        with pytest.raises(UnstableError, match="faster than the servers"):
            call(load, 1.0)
