"""Trajectories: against Euler's method, against where they end, within the error they state."""

import numpy as np
import pytest
from theory.sparse import independent

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import SCHEMES, equilibrium, sujsq_det, trajectory

START = [0.2, 0.1, 0.0, 0.4, 0.3]


def euler_with(updates, end, tell, load, steps_per_time=4000):
    """The lengths at `end` by Euler's method, all servers telling at `updates`."""
    y, now = np.diag(START), 0.0
    for moment in [*updates, end]:
        span = moment - now
        if span > 0:
            y = independent.euler(y, load, span, max(1, round(span * steps_per_time)))
        if moment in updates:
            y = tell(y)
        size = np.flatnonzero(y.sum(axis=1) + y.sum(axis=0))[-1] + 1
        y, now = y[:size, :size], moment
    return y.sum(axis=1)


@pytest.mark.parametrize("idle_only", [False, True])
def test_synchronous_trajectories_are_those_of_eulers_method(idle_only):
    tell = independent.idle_told if idle_only else independent.synchronised
    path = trajectory(
        "sujsq-det", START, [0.7, 1.25, 3.1], load=0.8, delta=0.8, idle_only=idle_only
    )

    for time, lengths in zip(path.times, path.lengths, strict=True):
        updates = [u for u in (1.25, 2.5) if u <= time]
        other = euler_with(updates, time, tell, 0.8)
        size = max(lengths.size, other.size)
        off = np.pad(lengths, (0, size - lengths.size)) - np.pad(other, (0, size - other.size))
        assert np.abs(off).max() <= 3e-4


@pytest.mark.parametrize("idle_only", [False, True])
def test_random_updates_are_followed_at_the_times_given(idle_only):
    tell = independent.idle_told if idle_only else independent.synchronised
    updates = [0.3, 0.5, 2.2]
    path = trajectory(
        "sujsq-exp", START, [1.0, 3.0], load=0.8, delta=1.0, updates=updates, idle_only=idle_only
    )

    for time, lengths in zip(path.times, path.lengths, strict=True):
        other = euler_with([u for u in updates if u <= time], time, tell, 0.8)
        size = max(lengths.size, other.size)
        off = np.pad(lengths, (0, size - lengths.size)) - np.pad(other, (0, size - other.size))
        assert np.abs(off).max() <= 3e-4


@pytest.mark.parametrize("idle_only", [False, True])
def test_asynchronous_trajectories_are_those_of_eulers_method_within_their_error(idle_only):
    path = trajectory("aujsq-exp", START, [0.5, 2.0], load=0.8, delta=0.6, idle_only=idle_only)

    for time, lengths in zip(path.times, path.lengths, strict=True):
        other = [
            independent.euler(np.diag(START), 0.8, time, round(steps * time), 0.6, idle_only)
            for steps in (1000, 2000)
        ]
        best = (2 * other[1] - other[0]).sum(axis=1)
        assert np.abs(lengths - best[: lengths.size]).max() <= path.error
        assert np.abs(lengths - best[: lengths.size]).max() <= 2e-4
    assert path.error <= 3e-3


@pytest.mark.parametrize("scheme", ["aujsq-exp", "aujsq-det"])
@pytest.mark.parametrize("idle_only", [False, True])
def test_the_stated_error_covers_what_a_much_shorter_step_changes(scheme, idle_only):
    call = {"load": 0.7, "delta": 0.5, "idle_only": idle_only}
    times = [0.3, 1.1, 4.0, 9.7]
    long = trajectory(scheme, START, times, step=0.08, **call)
    short = trajectory(scheme, START, times, step=0.01, **call)
    levels = min(long.lengths.shape[1], short.lengths.shape[1])

    off = np.abs(long.lengths[:, :levels] - short.lengths[:, :levels]).max()
    assert off <= long.error
    assert short.error < long.error / 4


@pytest.mark.parametrize("start", [[1.0], [0, 0, 0, 1.0]])
@pytest.mark.parametrize(
    ("scheme", "load", "delta", "idle_only"),
    [
        ("aujsq-exp", 0.5, 0.5, False),
        ("aujsq-exp", 0.7, 0.4, False),
        ("aujsq-exp", 0.7, 0.4, True),
        ("aujsq-exp", 0.9, 0.5, False),
        ("aujsq-det", 0.5, 0.6, False),
        ("aujsq-det", 0.7, 0.7, True),
        ("aujsq-det", 0.7, 0.35, False),
        ("aujsq-det", 0.7, 0.35, True),
        ("aujsq-det", 0.9, 0.45, False),
        ("sujsq-det", 0.7, 0.35, False),
        ("sujsq-det", 0.5, 0.5, True),
    ],
)
def test_fleets_go_where_they_come_to_rest(scheme, load, delta, idle_only, start):
    """To 1e-3 in the mean number of tasks, from empty servers and from full ones."""
    rest = equilibrium(scheme, load, delta, idle_only=idle_only)
    end = (200 if load < 0.9 else 300) / delta * delta
    path = trajectory(
        scheme, start, [end // (1 / delta) / delta], load=load, delta=delta,
        idle_only=idle_only, step=0.1,
    )  # fmt: skip
    there = rest.lengths if scheme.startswith("a") else rest.lengths_at_updates

    mean = there @ np.arange(there.size)
    assert path.mean_tasks[0] == pytest.approx(mean, abs=1e-3)


@pytest.mark.slow
def test_a_fleet_near_a_load_where_levels_change_goes_there_slowly():
    rest = equilibrium("aujsq-exp", 0.8, 0.25)
    path = trajectory("aujsq-exp", [1.0], [100.0, 600.0], load=0.8, delta=0.25, step=0.1)

    assert path.mean_tasks[1] == pytest.approx(rest.mean_tasks, abs=1e-3)
    assert path.mean_tasks[1] == pytest.approx(3.90421, abs=1e-3)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("idle_only", [False, True])
def test_trajectories_start_where_they_are_told_and_keep_all_servers(scheme, idle_only):
    updates = [0.4, 1.9] if scheme == "sujsq-exp" else None
    path = trajectory(
        scheme, START, [0.0, 0.5, 3.0], load=0.6, delta=1.1, idle_only=idle_only, updates=updates
    )

    assert path.lengths[0, :5] == pytest.approx(START, abs=1e-15)
    assert path.lengths.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-11)
    assert path.busy[0] == pytest.approx(0.8, abs=1e-12)
    assert path.lengths.min() >= -path.error


def test_the_time_of_an_update_is_after_it_and_periods_repeat_at_rest():
    rest = sujsq_det(0.7, 0.35)
    times = np.array([1, 2, 3, 40]) / 0.35
    path = trajectory("sujsq-det", rest.lengths_at_updates, times, load=0.7, delta=0.35)

    for lengths in path.lengths:
        assert lengths == pytest.approx(rest.lengths_at_updates, abs=1e-11)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0}, "delta = 0 must be"),
        ({"load": 0}, "load = 0 must be"),
        ({"start": [0.5, 0.4]}, "sum 1"),
        ({"times": [2.0, 1.0]}, "times must be a list of numbers that ascends"),
        ({"times": []}, "times must"),
        ({"times": [-1.0]}, "times must"),
        ({"step": 0}, "step = 0 must"),
        ({"step": 1e-9}, "take a longer one"),
        ({"scheme": "jiq"}, "no scheme is called 'jiq'"),
        ({"scheme": "sujsq-exp"}, "give their times"),
        ({"scheme": "sujsq-exp", "updates": [2, 1]}, "updates must"),
        ({"updates": [1.0]}, "aujsq-exp has its own updates"),
    ],
)
def test_what_makes_no_sense_is_told(change, message):
    call = {"scheme": "aujsq-exp", "start": [1.0], "times": [1.0], "load": 0.5, "delta": 1.0}
    with pytest.raises(EquipoiseError, match=message):
        trajectory(**(call | change))


def test_more_load_than_servers_can_do_is_unstable():
    with pytest.raises(UnstableError):
        trajectory("sujsq-det", [1.0], [1.0], load=1.2, delta=1.0)
