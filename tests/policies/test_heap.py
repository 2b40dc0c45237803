"""The heap of departures against Python's own."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.compile import kernel
from equipoise.policies.heap import drop_first, push, replace_first

times = st.floats(0, 10, width=16)
scripts = st.lists(st.tuples(st.sampled_from(["push", "drop", "replace"]), times), max_size=120)


@given(scripts)
def test_events_come_in_the_order_of_their_times(script):
    """After any pushes, drops and replacements the first is the earliest, with its own item."""
    key, item = np.zeros(121), np.zeros(121, np.int32)
    size, theirs, when = 0, [], {}
    for number, (what, time) in enumerate(script):
        when[number] = time
        if what == "push" or not theirs:
            push(key, item, size, time, number)
            size += 1
            heapq.heappush(theirs, time)
        elif what == "drop":
            drop_first(key, item, size)
            size -= 1
            heapq.heappop(theirs)
        else:
            replace_first(key, item, size, time, number)
            heapq.heapreplace(theirs, time)

        assert size == len(theirs)
        assert sorted(key[:size]) == sorted(theirs)
        assert all(when[int(i)] == k for k, i in zip(key[:size], item[:size], strict=True))
        assert size == 0 or key[0] == theirs[0]
        assert all(key[(i - 1) // 2] <= key[i] for i in range(1, size))


def test_compiled_it_sorts_a_hundred_thousand():
    def sort(times, key, item):
        for i in range(times.size):
            push(key, item, i, times[i], i)
        for i in range(times.size):
            times[i] = key[0]
            drop_first(key, item, times.size - i)

    drawn = np.random.default_rng(1).exponential(size=100_000)
    found = drawn.copy()
    kernel(sort)(found, np.zeros(100_000), np.zeros(100_000, np.int32))

    assert found.tolist() == sorted(drawn)
