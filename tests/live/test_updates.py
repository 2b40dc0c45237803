"""The clock of a policy in real time, against the counts and gaps that it should have."""

import numpy as np
import pytest

from equipoise.live.updates import ALL, Updates
from equipoise.policies.base import Clock


def turns_until(updates, end, servers, step):
    """Return (time, turn) of all turns, looking every `step` seconds."""
    found, now = [], 0.0
    while now < end:
        now += step
        found += [(now, turn) for turn in updates.due(now, servers)]
    return found


def test_together_and_regular_is_all_servers_every_period():
    found = turns_until(Updates(Clock(True, True), 0.5, 0.0), 10.0, 7, 0.01)

    assert [turn for _, turn in found] == [ALL] * len(found)
    assert len(found) in (19, 20)
    assert np.diff([now for now, _ in found]) == pytest.approx(0.5, abs=0.011)


def test_apart_and_regular_is_each_server_once_a_period():
    found = turns_until(Updates(Clock(False, True), 0.5, 0.0), 10.0, 5, 0.001)

    assert [turn for _, turn in found][:10] == [1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    mine = [now for now, turn in found if turn == 2]
    assert np.diff(mine) == pytest.approx(0.5, abs=0.002)


@pytest.mark.parametrize("together", [True, False])
def test_exponential_gaps_have_the_mean_and_spread_of_a_poisson_stream(together):
    servers, period, end = 4, 0.1, 200.0
    found = turns_until(Updates(Clock(together, False), period, 0.0, 3), end, servers, 0.0005)

    expected = end / period * (1 if together else servers)
    assert abs(len(found) - expected) < 4 * expected**0.5
    gaps = np.diff([now for now, _ in found])
    mean = period / (1 if together else servers)
    assert gaps.std() == pytest.approx(mean, rel=4 * (2 / len(gaps)) ** 0.5 + 0.01)
    if not together:
        counts = np.bincount([turn for _, turn in found], minlength=servers)
        assert abs(counts - expected / servers).max() < 4 * (expected / servers) ** 0.5


@pytest.mark.parametrize("clock", [Clock(t, r) for t in (True, False) for r in (True, False)])
def test_what_was_slept_through_is_made_up_for_once(clock):
    updates = Updates(clock, 0.01, 0.0)

    found = updates.due(1000.0, 5)

    assert len(found) == (1 if clock.together else 5)
    assert 1000.0 < updates.next < 1001.0


def test_nobody_up_is_nobodys_turn_and_time_goes_on():
    updates = Updates(Clock(False, True), 0.5, 0.0)

    assert updates.due(100.0, 0) == []
    assert 100.0 < updates.next <= 100.5
