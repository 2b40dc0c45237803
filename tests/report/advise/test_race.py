"""Decisions from paired differences: what is worse, what is the same, what is open."""

import numpy as np
import pytest

from equipoise import Scenario
from equipoise.report.advise.race import (
    FIRST,
    LEAST,
    OPEN,
    SAME,
    WORSE,
    first_replications,
    fitted,
    verdict,
)


def judge(differences, margin, chance=0.05):
    leader = np.zeros(len(differences))
    return verdict("x", np.array(differences, float), leader, margin, chance).kind


def test_a_difference_surely_above_the_margin_is_worse():
    assert judge([5.0, 5.1, 4.9, 5.0], margin=1) == WORSE


def test_a_difference_surely_below_the_margin_is_a_tie():
    assert judge([0.1, 0.2, 0.0, 0.1], margin=1) == SAME


def test_a_difference_that_is_sure_but_does_not_matter_is_never_worse():
    assert judge([0.5, 0.5, 0.5, 0.5], margin=1) == SAME


def test_what_is_not_sure_is_open():
    assert judge([9.0, -8.0, 7.0, -6.0], margin=1) == OPEN


def test_the_same_in_every_run_is_a_tie_even_without_a_margin():
    assert judge([0.0, 0.0, 0.0], margin=0.0) == SAME


def test_what_is_equal_is_called_worse_as_rarely_as_stated():
    """Half of the chance, 2.5 %: the interval has two sides. Four standard errors of 4000 tests."""
    rng = np.random.default_rng(1)
    wrong = sum(judge(rng.normal(size=8), margin=0.0) == WORSE for _ in range(4000)) / 4000

    assert abs(wrong - 0.025) <= 4 * (0.025 * 0.975 / 4000) ** 0.5


def test_what_is_at_the_margin_is_called_a_tie_as_rarely_as_stated():
    rng = np.random.default_rng(2)
    wrong = sum(judge(1 + rng.normal(size=8), margin=1.0) == SAME for _ in range(4000)) / 4000

    assert abs(wrong - 0.025) <= 4 * (0.025 * 0.975 / 4000) ** 0.5


@pytest.mark.parametrize("budget", [1e5, 1e6, 1e8])
def test_the_first_round_takes_half_of_the_budget_at_most(budget):
    scenario, _ = fitted(Scenario.simple(servers=10, load=0.7), 10, budget)
    count = first_replications(scenario, 10, budget)

    assert LEAST <= count <= FIRST
    assert count * 10 * scenario.run.tasks <= 0.5 * budget + 10 * count


def test_a_length_that_was_asked_for_stays_where_there_is_room():
    asked = Scenario.simple(servers=10, load=0.7, tasks=12_345)

    scenario, notes = fitted(asked, 10, 1e7)

    assert scenario.run.tasks == 12_345
    assert notes == []


def test_traffic_too_long_for_the_budget_is_cut_and_said():
    rates = {"law": "rates", "bin": 100.0, "rates": [10.0, 20.0, 10.0]}
    asked = Scenario.from_dict(
        {
            "servers": {"count": 5, "discipline": "pool"},
            "arrivals": rates,
            "service": {"law": "exponential", "mean": 1.0},
        }
    )  # 4000 tasks

    scenario, (note,) = fitted(asked, 10, 80_000)  # half of it is room for 1000 a replication

    assert scenario.run.duration == 75.0
    assert note.startswith("Only the first 75 s of 300 s are simulated")
