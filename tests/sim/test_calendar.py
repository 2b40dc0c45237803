"""The bucketed future-event set against Python's own heap, and a run on it against one on ours."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import cut

from equipoise import Scenario, resolve
from equipoise.sim import calendar as cal
from equipoise.sim import events
from equipoise.sim.run import replicate

gaps = st.one_of(st.floats(0, 10), st.sampled_from([0.0, 1.0]), st.floats(0, 1e6))
scripts = st.lists(st.one_of(st.none(), gaps), max_size=150)


@given(scripts, st.sampled_from([1e-6, 0.1, 1.0, 1e6]), st.lists(gaps, max_size=40))
def test_events_come_in_the_order_of_their_times(script, gap, start):
    """Whatever the width, in bursts and gaps, each with its own item."""
    first = sorted(start)
    time, link = np.zeros(200), np.zeros(200, np.int32)
    time[: len(first)] = first
    one = cal.make_calendar(time, link, gap, 4, tuple(range(len(first))))
    theirs, free, now = list(first), list(range(len(first), 200)), 0.0
    for wait in script:
        if wait is not None and free:
            item = free.pop()
            cal.book(one, now + wait, item)
            heapq.heappush(theirs, now + wait)
        elif theirs:
            item = cal.take_first(one)
            now = heapq.heappop(theirs)
            assert time[item] == now
            assert item not in free
            free.append(item)

        assert cal.first_time(one) == (theirs[0] if theirs else np.inf)
        kept = one.count[[cal.NEAR, cal.LISTED, cal.FAR]]
        assert kept.sum() == len(theirs)
        assert kept[0] > 0 or kept[1] == 0


@pytest.mark.parametrize("law", ["exponential", "pareto", "bursts"])
def test_the_width_follows_the_rate(law):
    """From a first guess a thousand times off, either way, to within a factor of 2 of 4 gaps."""
    rng, pending = np.random.default_rng(1), 200
    draw = {
        "exponential": rng.standard_exponential,
        "pareto": lambda: rng.pareto(2.2) + 0.1,
        "bursts": lambda: float(rng.integers(1, 3)),
    }[law]
    for guess in (1e-5, 10.0):
        one = cal.make_calendar(np.zeros(pending), np.zeros(pending, np.int32), guess, pending)
        for item in range(pending):
            cal.book(one, draw(), item)
        times = []
        for _ in range(20 * pending):
            item = cal.take_first(one)
            times.append(float(one.time[item]))
            cal.book(one, times[-1] + draw(), item)

        assert times == sorted(times)
        gap = (times[-1] - times[len(times) // 2]) / (len(times) // 2)
        if law != "bursts":
            assert 0.4 < one.scale[cal.WIDTH] / (4 * gap) < 2.5
            assert one.count[cal.FAR] < 0.4 * pending  # the rest is long in coming


@pytest.mark.parametrize("discipline", ["fcfs", "pool"])
@pytest.mark.parametrize("start", ["empty", [40, 0, 1] + 27 * [2]])
def test_a_run_on_buckets_is_the_run_on_a_heap(discipline, start, monkeypatch):
    """Also where the slots have to grow, and however it is cut."""
    one = Scenario.from_dict(
        {
            "servers": {"count": 30, "discipline": discipline},
            "arrivals": {"law": "poisson", "load": 0.95 if discipline == "fcfs" else 40.0},
            "service": {"law": "lognormal", "scv": 4.0},
            "run": {"duration": 50.0, "warm_up": 0.0, "start": start},
        }
    )
    records = []
    for least, rows in ((2**60, 1), (0, 1), (0, 9)):
        monkeypatch.setattr(events, "BUCKETED", least)
        with cut(rows=rows, stretches=rows):
            records.append(replicate(one, resolve("jsq-d"), 0, kernel="events", trail=10**6))

    heap, buckets, pieces = records
    assert heap.events > (2000 if discipline == "fcfs" else 50_000)
    for record in (buckets, pieces):
        assert record.trail.tolist() == heap.trail.tolist()
        assert record.sums.sum(axis=0) == pytest.approx(heap.sums.sum(axis=0), rel=1e-9)
        assert (record.responses.sum(axis=0) == heap.responses.sum(axis=0)).all()
