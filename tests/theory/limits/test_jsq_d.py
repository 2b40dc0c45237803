"""The fluid limit of jsq-d: its rest point is one, is the right one, and everything goes there."""

import numpy as np
import pytest
from exact import chain
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.limits import LIMITS
from equipoise.theory.limits.jsq_d import drift, mean_tasks, mean_wait, rest_point
from equipoise.theory.ode import trajectory

loads = st.floats(0.0, 0.99)


@given(rho=loads, d=st.integers(1, 12))
def test_the_rest_point_has_no_drift(rho, d):
    x = rest_point(rho, levels=2000 if d == 1 else 64, d=d)

    assert np.abs(drift(x, rho, d)).max() <= 1e-14 + (rho**2000 if d == 1 else 0)


@given(rho=loads, d=st.integers(1, 12), levels=st.integers(1, 80))
def test_the_rest_point_is_a_tail_that_starts_at_the_load(rho, d, levels):
    """As many servers are busy as there is work; long queues are rare, and rarer for larger d."""
    x = rest_point(rho, levels, d)

    assert x.shape == (levels,)
    assert x[0] == pytest.approx(rho, rel=1e-15)
    assert np.all(np.diff(x) <= 0)
    assert np.all((x >= 0) & (x <= 1))
    assert np.all(rest_point(rho, levels, d + 1) <= x)


def test_with_d_1_queues_are_geometric():
    assert rest_point(0.5, 5, d=1) == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.03125])
    assert mean_tasks(0.5, d=1) == 1.0
    assert mean_wait(0.9, d=1) == pytest.approx(9.0, rel=1e-14)


def test_levels_beyond_the_largest_double_are_empty_and_warn_of_nothing():
    x = rest_point(0.999, levels=5000, d=3)

    assert x[-1] == 0.0
    assert np.isfinite(x).all()


# Mean waits per mean service time, as published to eight digits.
TABLE = {
    0.5: (0.26568604, 0.12524414, 0.03125000),
    0.7: (0.61445377, 0.35684220, 0.16809254),
    0.9: (1.61405738, 1.02785597, 0.63288124),
    0.95: (2.38304600, 1.53513348, 0.98877220),
}


@pytest.mark.parametrize("rho", TABLE)
def test_mean_waits_are_the_known_ones_to_the_last_digit(rho):
    waits = [mean_wait(rho, d) for d in (2, 3, 5)]

    assert waits == pytest.approx(TABLE[rho], abs=5.0001e-9)


@given(rho=st.floats(0.01, 0.99), d=st.integers(2, 8))
def test_mean_tasks_are_the_sum_of_the_tail_and_agree_with_littles_law(rho, d):
    assert mean_tasks(rho, d) == pytest.approx(rest_point(rho, 200, d).sum(), rel=1e-12)
    assert mean_wait(rho, d) == pytest.approx(mean_tasks(rho, d) / rho - 1, rel=1e-12, abs=1e-12)


def test_nobody_waits_where_nothing_comes():
    assert mean_tasks(0.0) == 0.0
    assert mean_wait(0.0) == 0.0
    assert rest_point(0.0, 3).tolist() == [0.0, 0.0, 0.0]


@given(
    rho=st.floats(0, 2),
    d=st.integers(1, 6),
    parts=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_tasks_come_at_the_load_and_leave_every_busy_server_at_rate_1(rho, d, parts):
    """Summed over levels the drift is arrivals minus departures, but for those beyond the last."""
    x = np.sort(parts)[::-1]

    assert drift(x, rho, d).sum() == pytest.approx(rho * (1 - x[-1] ** d) - x[0], abs=1e-12)


def test_the_drift_is_that_of_large_finite_systems():
    """From a state of 2000 servers, the rates at which levels are gained and lost, one by one."""
    n, rho, d = 2000, 0.9, 2
    x = np.array([0.8, 0.45, 0.1, 0.0])
    lengths = np.sort((np.arange(n) < n * x[:, None]).sum(axis=0))
    at_least = np.array([(lengths >= k).mean() for k in range(6)])

    up = [rho * (at_least[k] ** d - at_least[k + 1] ** d) for k in range(4)]
    down = [(lengths == k + 1).mean() for k in range(4)]

    assert drift(x, rho, d) == pytest.approx(np.array(up) - np.array(down), abs=1e-12)


@pytest.mark.parametrize("start", [np.zeros(40), np.r_[np.ones(3), np.zeros(37)], np.full(40, 0.3)])
@pytest.mark.parametrize(("rho", "d"), [(0.5, 2), (0.9, 2), (0.9, 3), (0.5, 1)])
def test_trajectories_tend_to_the_rest_point(rho, d, start):
    """From empty, from three tasks everywhere, and from forty at three servers of ten."""
    path = trajectory(lambda x: drift(x, rho, d), start, np.array([0.0, 400.0]))

    assert np.array_equal(path[0], start)
    assert path[1] == pytest.approx(rest_point(rho, 40, d), abs=1e-8)


def test_from_empty_queues_only_grow():
    path = trajectory(lambda x: drift(x, 0.9, 2), np.zeros(30), np.linspace(0, 20, 81))

    assert np.all(np.diff(path, axis=0) >= -1e-9)
    assert np.all(path <= rest_point(0.9, 30, 2) + 1e-9)


def test_finite_systems_approach_the_limit():
    """Exact means of 2 and 3 servers, with replacement: above the limit, the fewer the farther."""
    limit = mean_tasks(0.7, d=2)
    two, three = (
        chain("jsq-d", servers=n, rate=0.7 * n, d=2, replacement=True, cap=30).mean_tasks
        for n in (2, 3)
    )

    assert limit < three < two


@pytest.mark.parametrize("function", [rest_point, mean_tasks, mean_wait])
@pytest.mark.parametrize(
    ("kind", "rho", "d", "said"),
    [
        (UnstableError, 1.0, 2, "rho = 1.0 >= 1: work arrives faster than the servers can do it"),
        (UnstableError, 1.2, 2, "rho = 1.2 >= 1: work arrives faster than the servers can do it"),
        (EquipoiseError, -0.1, 2, "rho = -0.1 must be a number >= 0"),
        (EquipoiseError, float("nan"), 2, "rho = nan must be a number >= 0"),
        (EquipoiseError, 0.5, 0, "d = 0 must be a whole number >= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(function, kind, rho, d, said):
    with pytest.raises(kind) as caught:
        function(rho, d=d)

    assert str(caught.value) == said


def test_fewer_than_one_level_is_refused():
    with pytest.raises(EquipoiseError, match="levels = 0 must be a whole number >= 1"):
        rest_point(0.5, levels=0)


def test_it_is_registered_under_the_name_of_its_policy():
    limit = LIMITS["jsq-d"]

    assert limit.policy == "jsq-d"
    assert limit.drift is drift
    assert limit.rest_point is rest_point
    assert limit.source
