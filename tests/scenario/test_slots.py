"""Laws per slot: their means, their variances, and what is refused."""

import numpy as np
import pytest

from equipoise.errors import ScenarioError, UnstableError
from equipoise.scenario import Scenario, SlotArrivals, SlotService


def scenario(arrivals=None, service=None, servers=None):
    return Scenario.from_dict(
        {
            "servers": {"discipline": "slotted", "speeds": [0.3, 0.6], **(servers or {})},
            "arrivals": {"law": "slots", **(arrivals or {"jobs": "bernoulli", "mean": 0.5})},
            "service": {"law": "slots", **(service or {"jobs": "bernoulli"})},
        }
    )


@pytest.mark.parametrize(
    ("jobs", "mean", "variance"),
    [
        ({"jobs": "bernoulli"}, 0.3, 0.21),
        ({"jobs": "bernoulli"}, 1.0, 0.0),
        ({"jobs": "binomial", "trials": 8}, 2.1, 2.1 * (1 - 2.1 / 8)),
        ({"jobs": "binomial", "trials": 1000}, 990.0, 9.9),
        ({"jobs": "poisson"}, 2.5, 2.5),
        ({"jobs": "poisson"}, 800.0, 800.0),
        ({"jobs": "poisson"}, 0.001, 0.001),
        ({"jobs": "geometric"}, 1.5, 1.5 + 1.5**2),
        ({"jobs": "geometric"}, 0.01, 0.01 + 0.0001),
        ({"jobs": "deterministic"}, 3.0, 0.0),
    ],
    ids=str,
)
def test_a_law_has_the_mean_asked_for_and_its_variance(jobs, mean, variance):
    values, chances = SlotArrivals(law="slots", mean=mean, **jobs).pmf(mean)

    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert (chances >= 0).all()
    assert chances @ values == pytest.approx(mean, rel=1e-9)
    assert chances @ (values - mean) ** 2 == pytest.approx(variance, rel=1e-6, abs=1e-12)


def test_a_table_has_its_own_mean():
    found = scenario({"jobs": "table", "values": [0, 4], "probabilities": [0.9, 0.1]})

    assert found.rate_table()[1].tolist() == pytest.approx([0.4])
    assert found.offered_load()[0] == pytest.approx(0.4 / 0.9)


def test_a_load_is_part_of_what_the_servers_can_finish():
    found = scenario({"jobs": "poisson", "load": 0.5})

    assert found.rate_table()[1].tolist() == pytest.approx([0.45])
    assert found.mean_service == 1.0


ROWS = [
    {"probability": 0.3, "services": [1, 2]},
    {"probability": 0.7, "services": [0, 0]},
]


@pytest.mark.parametrize(
    ("service", "variance"),
    [
        ({"jobs": "bernoulli"}, 0.3 * 0.7 + 0.6 * 0.4),
        ({"jobs": "binomial", "trials": 2}, 0.3 * 0.85 + 0.6 * 0.7),
        ({"jobs": "poisson"}, 0.9),
        ({"jobs": "geometric"}, 0.3 * 1.3 + 0.6 * 1.6),
        # given a good slot (0.75) means are 0.4 and 0.8
        ({"jobs": "bernoulli", "up": 0.75}, 0.75 * (0.24 + 0.16) + 0.75 * 0.25 * 1.2**2),
        ({"rows": ROWS}, 0.3 * 9 - 0.9**2),
    ],
    ids=str,
)
def test_the_variance_of_all_services_together_counts_what_servers_share(service, variance):
    found = SlotService(law="slots", **service)

    assert found.total_variance(np.array([0.3, 0.6])) == pytest.approx(variance)


def test_rows_say_the_means():
    found = scenario(service={"rows": ROWS})

    assert found.service.row_means().tolist() == pytest.approx([0.3, 0.6])
    assert Scenario.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("part", "tables", "fragment"),
    [
        ("arrivals", {"jobs": "bernoulli", "mean": 1.5}, 'more than jobs = "bernoulli" can have'),
        ("arrivals", {"jobs": "binomial", "trials": 2, "mean": 3}, "more than trials = 2"),
        ("arrivals", {"jobs": "binomial", "mean": 0.3}, "trials"),
        ("arrivals", {"jobs": "poisson", "trials": 3, "mean": 0.3}, "trials"),
        ("arrivals", {"jobs": "deterministic", "mean": 0.5}, "not a whole number"),
        ("arrivals", {"jobs": "poisson"}, "give either mean"),
        ("arrivals", {"jobs": "poisson", "mean": 0.1, "load": 0.1}, "give either mean"),
        ("arrivals", {"jobs": "poisson", "mean": -0.1}, "arrivals.mean"),
        ("arrivals", {"jobs": "fish", "mean": 0.1}, "arrivals.jobs"),
        ("arrivals", {"jobs": "table", "values": [0, 1]}, "needs values and probabilities"),
        (
            "arrivals",
            {"jobs": "table", "values": [0, 1], "probabilities": [0.5, 0.4]},
            "sum to 0.9; they must sum to 1",
        ),
        (
            "arrivals",
            {"jobs": "table", "values": [0, 1], "probabilities": [1.0]},
            "1 for 2 values",
        ),
        (
            "arrivals",
            {"jobs": "table", "values": [0, -1], "probabilities": [0.5, 0.5]},
            "arrivals.values",
        ),
        ("service", {"jobs": "bernoulli", "up": 0.5}, "a mean of 1.2 is more than"),
        ("service", {"jobs": "bernoulli", "up": 0.0}, "service.up"),
        ("service", {"up": 1.0}, "service.jobs: missing"),
        ("service", {"jobs": "bernoulli", "rows": ROWS}, "service.rows: say it all"),
        ("service", {"rows": [{"probability": 0.9, "services": [1, 2]}]}, "sum to 0.9"),
        ("service", {"rows": [{"probability": 1.0, "services": [1]}]}, "1 services for 2 servers"),
        ("service", {"rows": [{"probability": 1.0, "services": [1, 2]}]}, "has speed 0.3"),
        ("servers", {"limit": 4}, "slotted servers have no limit"),
        ("servers", {"workers": 2}, "slotted servers have no limit and no workers"),
        ("servers", {"discipline": "fcfs"}, 'must be "slots" where servers.discipline'),
    ],
    ids=str,
)
def test_what_no_law_can_be_is_refused(part, tables, fragment):
    with pytest.raises(ScenarioError) as refused:
        scenario(**{part: tables})

    assert fragment in str(refused.value)


def test_other_laws_in_slotted_time_are_refused():
    with pytest.raises(ScenarioError, match='must be "slots"'):
        Scenario.from_dict(
            {
                "servers": {"discipline": "slotted", "count": 2},
                "arrivals": {"law": "poisson", "load": 0.5},
                "service": {"law": "exponential", "mean": 1.0},
            }
        )


def test_a_load_above_the_capacity_is_refused():
    with pytest.raises(UnstableError, match=r"load = 1\.11111 >= 1"):
        scenario({"jobs": "poisson", "mean": 1.0})
