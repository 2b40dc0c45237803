"""Tasks that come in batches: how many, how often, and all at one instant."""

import math

import numpy as np
import pytest
from scipy import stats

from equipoise.scenario import Batch, Scenario

GEOMETRIC = {"law": "geometric", "mean": 2.5}
TABLE = {"values": [1, 4, 10], "probabilities": [0.5, 0.3, 0.2]}


def scenario(batch, **arrivals):
    return Scenario.from_dict(
        {
            "servers": {"count": 10, "discipline": "fcfs"},
            "arrivals": {**(arrivals or {"law": "poisson", "rate": 5.0}), "batch": batch},
            "service": {"law": "erlang", "shape": 2},
        }
    )


def law(batch):
    """The chances of 1, 2, .. tasks, float64[60]."""
    k = np.arange(1, 61)
    if batch == GEOMETRIC:
        return stats.geom(1 / 2.5).pmf(k)
    if batch == TABLE:
        return 0.5 * (k == 1) + 0.3 * (k == 4) + 0.2 * (k == 10)
    return (k == batch).astype(float)


@pytest.mark.parametrize("batch", [3, GEOMETRIC, TABLE])
def test_batches_have_their_law_and_come_as_often_as_they_must(batch):
    found = scenario(batch)
    stream = found.task_stream(*np.random.SeedSequence(4).spawn(2))
    times = np.concatenate([stream.block()[0] for _ in range(6)])
    points, tasks = np.unique(times[times < times[-1]], return_counts=True)
    expected = law(batch)
    mean = expected @ np.arange(1, 61)

    assert found.batch.expected == pytest.approx(mean)
    assert (np.diff(times) >= 0).all()
    gaps = np.diff(points)
    assert stats.kstest(gaps, stats.expon(scale=mean / 5.0).cdf).pvalue > 1e-3
    seen = np.bincount(tasks, minlength=61)[1:61]
    many = expected * tasks.size > 5
    assert not seen[expected == 0].any()
    if many.sum() > 1:
        scaled = expected[many] / expected[many].sum() * seen[many].sum()
        assert stats.chisquare(seen[many], scaled).pvalue > 1e-3
    rate = tasks.sum() / points[-1]
    error = 5.0 * math.sqrt((1 + tasks.var() / mean**2) / points.size)
    assert abs(rate - 5.0) < 4 * error


def test_a_load_counts_tasks_not_batches():
    assert scenario(4).offered_load()[0] == pytest.approx(0.5)


def test_one_task_is_no_batch():
    assert scenario(1).batch is None
    assert scenario(1.0).batch is None
    plain, one = (found.task_stream(*np.random.SeedSequence(4).spawn(2)).block()[0] for found in (
        scenario(None), scenario(1)))  # fmt: skip
    assert np.array_equal(plain, one)


@pytest.mark.parametrize("batch", [3, GEOMETRIC, TABLE, {"values": [2, 4]}])
def test_what_is_written_is_read_again(batch):
    found = scenario(batch)
    written = found.to_dict()

    assert Scenario.from_dict(written) == found
    assert written["arrivals"]["batch"] == batch


@pytest.mark.parametrize(
    "arrivals",
    [
        {"law": "sinusoid", "rate": 5.0, "amplitude": 2.0, "period": 7.0},
        {"law": "rates", "bin": 100.0, "rates": [5.0, 9.0]},
        {"law": "rates", "bin": 100.0, "rates": [5.0, 9.0],
         "interpolation": "linear"},
    ],
)  # fmt: skip
def test_changing_rates_may_bring_batches(arrivals):
    found = scenario(3, **arrivals)
    times = found.task_stream(*np.random.SeedSequence(9).spawn(2)).block(30000)[0]
    _, tasks = np.unique(times, return_counts=True)

    assert (tasks[:-1] == 3).all()
    end = times[-1] if arrivals["law"] == "sinusoid" else found.traffic_end
    expected = float(found.flow.expected(np.array(end)))
    assert abs(times.size - expected) < 4 * math.sqrt(3 * expected)


def test_the_tasks_do_not_depend_on_the_size_of_blocks():
    whole = scenario(GEOMETRIC).task_stream(*np.random.SeedSequence(4).spawn(2))
    parts = scenario(GEOMETRIC).task_stream(*np.random.SeedSequence(4).spawn(2))
    times = np.concatenate([whole.block()[0] for _ in range(3)])
    pieces = np.concatenate([parts.block(777)[0] for _ in range(300)])
    k = min(times.size, pieces.size)

    assert np.array_equal(times[:k], pieces[:k])


def test_a_batch_may_be_made_in_python():
    assert Batch(tasks=3).expected == 3
    assert Batch(values=(1, 3)).expected == 2
