"""What happens between two updates, against Euler's method and against conservation."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.sparse import independent

from equipoise.theory.sparse.filling import Poisson, fill, idle_told, synchronised

laws = st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda x: sum(x) > 1e-3)


def state_of(parts, seed):
    """A state in which estimates are at least the lengths, else arbitrary."""
    rng = np.random.default_rng(seed)
    size = len(parts)
    y = np.triu(rng.random((size, size))) * np.array(parts)[:, None]
    return y / y.sum()


@given(parts=laws, seed=st.integers(0, 99), load=st.floats(0.05, 2), time=st.floats(0, 12))
def test_servers_are_kept_and_tasks_come_and_go_at_their_rates(parts, seed, load, time):
    """Tasks at the end are those at the start, what came, less the time that servers were busy."""
    y = state_of(parts, seed)
    passage = fill(y, load, time)
    end = passage.state

    assert end.min() >= -1e-15
    assert end.sum() == pytest.approx(1, abs=1e-12)
    assert np.tril(end, -1).sum() == 0  # estimates are never too low
    assert passage.area.sum() == pytest.approx(time, abs=1e-11)
    before, after = (x.sum(axis=1) @ np.arange(len(x)) for x in (y, end))
    assert after == pytest.approx(before + load * time - passage.area[1:].sum(), abs=1e-10)


@given(parts=laws, seed=st.integers(0, 99), first=st.floats(0.01, 4), second=st.floats(0.01, 4))
def test_two_whiles_are_one(parts, seed, first, second):
    y = state_of(parts, seed)
    one, two = fill(y, 0.8, first + second), fill(fill(y, 0.8, first).state, 0.8, second)
    size = max(one.state.shape + two.state.shape)

    def whole(x):
        return np.pad(x, ((0, size - x.shape[0]), (0, size - x.shape[1])))

    assert np.abs(whole(one.state) - whole(two.state)).max() <= 1e-12


@pytest.mark.parametrize("time", [0.4, 1.3, 3.0])
def test_eulers_method_comes_to_the_same_and_half_the_step_halves_the_difference(time):
    y = state_of([0.3, 0.5, 0.7, 0.2], 3)
    exact = fill(y, 0.9, time).state

    def off(steps):
        near = independent.euler(y, 0.9, time, steps)
        near[: exact.shape[0], : exact.shape[1]] -= exact
        return np.abs(near).max()

    coarse, fine = off(1500), off(3000)
    assert fine <= 3e-4
    assert 1.7 <= coarse / fine <= 2.3


def test_the_time_at_each_length_is_the_integral_of_the_law():
    """By Gauss's rule over pieces in which no level changes."""
    y, load, time = state_of([0.4, 0.5, 0.3], 7), 0.7, 2.0
    passage = fill(y, load, time)
    edges = [since for since, _ in passage.level_times] + [time]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    area = np.zeros(12)
    for low, high in pairwise(edges):
        for node, weight in zip(nodes, weights, strict=True):
            law = fill(y, load, low + (high - low) * (node + 1) / 2).state.sum(axis=1)
            area[: law.size] += weight * (high - low) / 2 * law

    assert passage.area == pytest.approx(area[: passage.area.size], abs=1e-12)
    assert area[passage.area.size :].sum() <= 1e-12


@given(time=st.floats(1e-6, 60), i=st.integers(0, 20))
def test_a_task_at_a_uniform_time_is_a_mean_over_that_time(time, i):
    """R(s) against the mean over u of i tasks served for u, one more, all served for s - u."""
    law = Poisson(time, 25)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    mean = np.zeros(22)
    for node, weight in zip(nodes, weights, strict=True):
        u = time * (node + 1) / 2
        start = np.zeros(22)
        start[i] = 1.0
        moved = np.roll(Poisson(u, 25).served @ start, 1)
        mean += weight / 2 * (Poisson(time - u, 25).served @ moved)

    assert law.received[:, i] == pytest.approx(mean, abs=1e-9)


@given(parts=laws, seed=st.integers(0, 99))
def test_telling_moves_estimates_and_no_tasks(parts, seed):
    y = state_of(parts, seed)
    for tell, other in (
        (synchronised, independent.synchronised),
        (idle_told, independent.idle_told),
    ):
        new = tell(y)

        assert new.sum(axis=1) == pytest.approx(y.sum(axis=1), abs=1e-15)
        assert new == pytest.approx(other(y), abs=1e-15)
