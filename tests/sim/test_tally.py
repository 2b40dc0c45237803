"""What a kernel keeps of its run, against a count of all servers after every event."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.sim import tally as t

moves = st.lists(
    st.tuples(st.integers(0, 7), st.booleans(), st.floats(0, 3, width=16)), max_size=80
)
starts = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def follow(start, script):
    """Yield (tally, lengths, time since the event before) just before every event, and at the end.

    Servers rise and fall as the script says; one with no task does not fall.
    """
    lengths = np.array(start)
    tally = t.make_tally(lengths, int(lengths.max()) + len(script) + 4, 0)
    now = 0.0
    for server, up, step in [*script, (0, True, 1.0)]:
        server %= lengths.size
        now += step
        t.pass_time(tally, now, lengths.size)
        yield tally, lengths.copy(), step
        if up:
            lengths[server] += 1
            t.risen(tally, lengths[server], lengths.size)
        elif lengths[server] > 0:
            t.fallen(tally, lengths[server], lengths.size)
            lengths[server] -= 1


def out_of_balance(lengths):
    """Tasks that would have to move to even out: half the distance to the balanced state."""
    total, n = int(lengths.sum()), lengths.size
    even = np.sort(total // n + (np.arange(n) < total % n))
    return np.abs(np.sort(lengths) - even).sum() / 2


@given(starts, moves)
def test_imbalance_is_the_number_of_tasks_that_would_have_to_move(start, script):
    integral = 0.0
    for tally, lengths, step in follow(start, script):
        integral += step * out_of_balance(lengths)

        assert tally.sums[t.UNEVEN] == pytest.approx(integral)
        assert tally.number[t.TOTAL] == lengths.sum()
        assert tally.number[t.BALANCED] == lengths.sum() // lengths.size
        above = np.maximum(lengths - lengths.sum() // lengths.size - 1, 0).sum()
        assert tally.number[t.ABOVE] == above


@given(starts, moves)
def test_areas_are_integrals_of_the_servers_with_at_least_so_many_tasks(start, script):
    integral, tallest = np.zeros(200), 0
    for tally, lengths, step in follow(start, script):
        at_least = (lengths[:, None] >= np.arange(200)).sum(axis=0)
        tallest = max(tallest, lengths.max())
        integral += step * at_least

        assert tally.least.tolist() == at_least[: tally.least.size].tolist()
        assert tally.number[t.TALLEST] == tallest
    t.settle(tally)
    assert tally.area == pytest.approx(integral[: tally.area.size])
    assert tally.now[t.BEGAN] == tally.now[t.NOW]


@given(starts, moves, st.integers(0, 80))
def test_a_tally_that_grew_goes_on_as_before(start, script, when):
    lengths = np.array(start)
    ample = t.make_tally(lengths, 300, 0)
    grown = t.make_tally(lengths, int(lengths.max()) + 4, 0)
    now = 0.0
    for server, up, step in script:
        if grown.number[t.TALLEST] + 3 >= grown.least.size:
            grown = t.grown(grown, grown.least.size + 3)
        server %= lengths.size
        now += step
        for tally in (ample, grown):
            t.pass_time(tally, now, lengths.size)
            if up:
                t.risen(tally, lengths[server] + 1, lengths.size)
            elif lengths[server] > 0:
                t.fallen(tally, lengths[server], lengths.size)
        lengths[server] += 1 if up else -int(lengths[server] > 0)
    for tally in (ample, grown):
        t.settle(tally)

    k = grown.area.size
    assert grown.area.tolist() == ample.area[:k].tolist()
    assert not ample.area[k:].any()
    assert grown.number.tolist() == ample.number.tolist()
    assert grown.sums.tolist() == ample.sums.tolist()


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 2, width=16)), max_size=30))
def test_thresholds_are_timed_from_change_to_change(changes):
    tally = t.make_tally(np.array([0, 1]), 10, 3)
    spent, value, now = np.zeros(10), 3, 0.0
    for new, step in changes:
        spent[value] += step
        value, now = new, now + step
        t.pass_time(tally, now, 2)
        t.announced(tally, new)
    t.pass_time(tally, now + 0.5, 2)
    spent[value] += 0.5
    t.settle(tally)

    assert tally.thresholds == pytest.approx(spent)
    assert tally.now[t.LAST_CHANGE] == now


def test_values_out_of_range_share_the_places_at_the_ends():
    """A user's policy may announce any whole number; nothing is written elsewhere."""
    tally = t.make_tally(np.array([0, 1]), 10, -3)
    for now, value in ((1.0, -7), (3.0, 10**9), (7.0, 4)):
        t.pass_time(tally, now, 2)
        t.announced(tally, value)
    t.pass_time(tally, 15.0, 2)
    t.settle(tally)

    assert tally.thresholds.tolist() == [3.0, 0, 0, 0, 8.0, 0, 0, 0, 0, 4.0]


def test_a_batch_is_booked_like_its_tasks_one_by_one():
    one, other = (t.make_tally(np.array([0, 1, 3]), 40, 0) for _ in range(2))
    for tally in (one, other):
        t.pass_time(tally, 2.0, 3)
    for length in range(2, 20):
        t.risen(one, length, 3)
    t.risen_by(other, 19, 18, 3)
    for tally in (one, other):
        t.pass_time(tally, 5.0, 3)
        t.settle(tally)

    for mine, its in zip(one, other, strict=True):
        assert np.array_equal(mine, its, equal_nan=True)


def test_waits_are_counted_and_summed_apart_from_tasks_that_start_at_once():
    tally = t.make_tally(np.array([0]), 8, 0)

    t.started_at_once(tally)
    t.started_at_once(tally)
    t.waited(tally, 0.25)
    t.responded(tally, 1.5)
    t.settle(tally)

    assert tally.sums.tolist() == [0.0, 0.25, 1.5, 3, 1]
    assert (tally.waits[0], tally.waits.sum(), tally.responses.sum()) == (2, 3, 1)
