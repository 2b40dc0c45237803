"""Tasks at once: against counting by hand, M/G/inf, and queues."""

import numpy as np
import pytest
from recorded import poisson, tasks_at

from equipoise.logs.concurrency import find_concurrency
from equipoise.logs.stream import Stream
from equipoise.logs.tasks import Tasks


def found(tasks):
    return find_concurrency(tasks, Stream.of(tasks))


def test_the_count_is_that_of_looking_at_every_moment():
    rng = np.random.default_rng(1)
    times, took = poisson(rng, 2.0, 400), np.round(rng.exponential(3.0, 400), 6)
    tasks = tasks_at(times, took)
    c = found(tasks)
    grid = np.linspace(0, c.edges[-1], 200_001)[:-1] + 1e-9
    start = tasks.arrival
    there = np.searchsorted(np.sort(start), grid, "right") - np.searchsorted(
        np.sort(start + tasks.duration), grid, "right"
    )

    assert c.counted == pytest.approx(there.mean(), rel=1e-3)
    assert c.most == there.max()
    each = there.reshape(500, -1)
    assert c.mean == pytest.approx(each.mean(axis=1), abs=0.05)
    assert (c.top >= each.max(axis=1)).all()
    assert c.top.max() == there.max()


def test_little_agrees_where_the_log_is_long():
    """M/G/inf: the mean is the load, 6; counts of 2000 s with service of 3 s have error 0.13."""
    rng = np.random.default_rng(2)
    c = found(tasks_at(poisson(rng, 2.0, 4000), rng.exponential(3.0, 4000)))

    assert c.agrees
    assert c.counted == pytest.approx(6.0, abs=4 * np.sqrt(2 * 6 * 3 / 2000))


def test_little_does_not_agree_where_durations_outlast_the_log():
    c = found(tasks_at(np.arange(100.0), np.full(100, 500.0)))

    assert not c.agrees
    assert c.counted == pytest.approx(50, abs=1)


def queued(rng, servers, rate, k, workers=1):
    """First come, first served: arrivals, waits and services of k tasks, by hand."""
    times, size = poisson(rng, rate, k), rng.exponential(1.0, k)
    place = rng.integers(0, servers, k)
    free = np.zeros((servers, workers))
    wait = np.zeros(k)
    for i in range(k):
        mine = free[place[i]]
        first = mine.argmin()
        begin = max(times[i], mine[first])
        wait[i] = begin - times[i]
        mine[first] = begin + size[i]
    zero = np.zeros(k, int)
    names = tuple(f"s{i}" for i in range(servers))
    return Tasks(
        times - times[0], wait + size, size, place.astype(np.int32), zero, zero, names, 1e9
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_servers_that_queue_show_how_many_they_serve_at_once(workers):
    tasks = queued(np.random.default_rng(3), 4, 2.8 * workers, 4000, workers)

    assert found(tasks).workers == workers


def test_servers_that_do_not_queue_have_no_bound():
    rng = np.random.default_rng(4)
    tasks = tasks_at(poisson(rng, 4.0, 4000), rng.exponential(1.0, 4000),
                     rng.integers(0, 4, 4000), ("a", "b", "c", "d"))  # fmt: skip

    assert found(tasks).workers is None
    assert found(tasks).most_at_server >= 5


def test_a_log_without_durations_has_none_to_count():
    assert found(tasks_at(np.arange(100.0))) is None
