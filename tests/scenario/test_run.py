"""How long and how often: what goes together, and what a wrong value is told."""

import pytest

from equipoise.errors import ScenarioError
from equipoise.scenario.run import Run


def test_precision_has_a_budget_and_a_metric_of_its_own():
    run = Run(precision=0.01, precision_of="mean_wait", budget=1_000_000)

    assert (run.precision, run.precision_of, run.budget) == (0.01, "mean_wait", 1_000_000)
    assert Run(precision=0.01, tasks=1000).tasks == 1000  # of each replication
    assert Run().precision is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"precision": 0}, "precision = 0: must be a fraction of the value, above 0 and below 1"),
        ({"precision": 1.0}, "precision = 1.0: must be a fraction"),
        ({"precision": -0.1}, "precision = -0.1: must be a fraction"),
        ({"precision": float("nan")}, "precision = nan: must be a fraction"),
        ({"precision": "1 %"}, "must be a number"),
        ({"budget": 1000}, "budget: belongs to precision, which is not given"),
        ({"precision_of": "mean_wait"}, "precision_of: belongs to precision"),
        ({"precision": 0.1, "budget": 0}, "budget = 0: must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(values, said):
    with pytest.raises(ScenarioError) as refused:
        Run(**values)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
