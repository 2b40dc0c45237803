"""Rates that change: what is expected, what is drawn, and what the load is."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from equipoise.errors import UnstableError
from equipoise.scenario import Scenario


def scenario(arrivals, discipline="pool", mean=1.0, **run):
    return Scenario.from_dict(
        {
            "servers": {"count": 4, "discipline": discipline},
            "arrivals": arrivals,
            "service": {"law": "exponential", "mean": mean},
            "run": run,
        }
    )


SINE = {"law": "sinusoid", "rate": 40.0, "amplitude": 30.0, "period": 5.0, "phase": 1.0}
LINE = {"law": "rates", "times": [0, 2, 3, 10], "rates": [0, 90, 0, 50], "interpolation": "linear"}


def sine(t):
    return 40 + 30 * np.sin(2 * math.pi * t / 5 + 1)


def line(t):
    return np.interp(t, [0, 2, 3, 10], [0, 90, 0, 50])


def drawn(found, end, seed):
    """All times of a stream before `end`, float64[k] s."""
    stream = found.task_stream(*np.random.SeedSequence(seed).spawn(2))
    times = []
    while not times or (times[-1].size and times[-1][-1] < end):
        times.append(stream.block()[0])
    every = np.concatenate(times)
    return every[every < end]


@pytest.mark.parametrize(("arrivals", "rate"), [(SINE, sine), (LINE, line)])
def test_tasks_come_at_the_rate_of_every_moment(arrivals, rate):
    """Counts in cells against the integral of the rate, all runs together, and their variance."""
    runs, cells = 300, np.linspace(0, 10, 41)
    found = scenario(arrivals, duration=10.0)
    counts = np.array([np.histogram(drawn(found, 10.0, [3, run]), cells)[0] for run in range(runs)])
    means = np.array([quad(rate, a, b, points=[2, 3])[0] for a, b in pairwise(cells)])

    z = (counts.sum(axis=0) - runs * means) / np.sqrt(runs * means)
    assert np.abs(z).max() < 4
    assert stats.chi2(means.size).sf((z**2).sum()) > 1e-3
    # Poisson: the variance of each cell is its mean (error of a variance: sqrt(2 / runs))
    spread = counts.var(axis=0, ddof=1) / means
    assert abs(spread.mean() - 1) < 4 * math.sqrt(2 / runs / means.size) + 0.01
    np.testing.assert_allclose(np.diff(found.flow.expected(cells)), means, rtol=1e-9)
    at = np.array([0.0, 1.7, 2.5, 9.99])
    np.testing.assert_allclose(found.flow.rate(at), rate(at), rtol=1e-12)


def test_the_end_of_a_line_is_the_end_of_the_traffic():
    found = scenario(LINE)
    times = drawn(found, np.inf, 5)

    assert found.horizon == found.traffic_end == 10.0
    assert times.max() <= 10.0
    assert found.flow.rate(np.array([10.0, 11.0])).tolist() == [0.0, 0.0]
    assert found.flow.expected(np.array([10.0, 50.0])).tolist() == pytest.approx([310.0, 310.0])


def test_a_line_may_stand_in_a_file(tmp_path):
    (tmp_path / "r.csv").write_text("time,rate\n0,0\n2,90\n3,0\n10,50\n")
    (tmp_path / "b.csv").write_text("rate\n1\n3\n")
    found = scenario({"law": "rates", "file": str(tmp_path / "r.csv"), "interpolation": "linear"})
    even = scenario(
        {"law": "rates", "file": str(tmp_path / "b.csv"), "bin": 2, "interpolation": "linear"}
    )

    assert np.array_equal(found.arrivals.table, scenario(LINE).arrivals.table)
    assert even.traffic_end == 2.0
    assert even.flow.rate(np.array([1.0]))[0] == 2.0
    assert Scenario.from_dict(found.to_dict()).arrivals.rates == (0, 90, 0, 50)


def test_the_load_of_a_sinusoid_is_known_over_cycles_and_over_parts_of_one():
    """load = rate * mean service / servers = rate / 8 here."""
    long = scenario(SINE, mean=0.5, duration=50.0)
    whole = scenario(SINE, mean=0.5)  # as many tasks as there are by default
    part = scenario(SINE, mean=0.5, duration=0.25)  # 2 pi / 5 * .25 + 1 is just below pi / 2

    assert long.offered_load() == pytest.approx((5.0, 1.25, 8.75))
    assert whole.offered_load() == pytest.approx((5.0, 1.25, 8.75))
    assert whole.run.tasks == 1_000_000
    mean = quad(sine, 0, 0.25)[0] / 0.25 / 8
    assert part.offered_load() == pytest.approx((mean, sine(0) / 8, sine(0.25) / 8))
    crest = scenario(SINE, mean=0.5, duration=2.0)
    assert crest.offered_load()[2] == pytest.approx(8.75)
    assert crest.offered_load()[1] == pytest.approx(min(sine(0), sine(2.0)) / 8)


def test_an_amplitude_of_load_is_a_load():
    found = scenario({"law": "sinusoid", "load": 3.0, "amplitude": 1.0, "period": 2.0}, mean=0.5)

    # load 1 is 8 tasks per second
    assert found.flow.rate(np.array([0.5]))[0] == pytest.approx(32.0)
    doubled = scenario(
        {"law": "sinusoid", "load": 3.0, "amplitude": 1.0, "period": 2.0, "scale": 2}, mean=0.5
    )
    assert doubled.flow.rate(np.array([0.5]))[0] == pytest.approx(64.0)


def test_a_line_offers_a_mean_a_least_and_a_most():
    found = scenario(LINE, mean=0.4)  # load is rate / 10

    assert found.offered_load() == pytest.approx((310 / 10 / 10, 0.0, 9.0))
    assert scenario(LINE, mean=0.4, duration=1.0).offered_load() == pytest.approx((2.25, 0.0, 4.5))


@pytest.mark.parametrize("arrivals", [SINE, LINE])
def test_the_table_for_drawing_has_the_mean_of_each_piece(arrivals):
    found = scenario(arrivals, duration=10.0)
    starts, rates = found.rate_table()

    assert starts.size == rates.size == 500
    rate = sine if arrivals is SINE else line
    assert rates[100] == pytest.approx(quad(rate, 2.0, 2.02)[0] / 0.02)
    assert rates.sum() * 0.02 == pytest.approx(quad(rate, 0, 10, points=[2, 3])[0])


def test_a_balanced_start_is_the_load_at_time_0():
    found = scenario({**SINE, "phase": math.pi / 2}, start="balanced")

    assert found.start_lengths().tolist() == [18, 18, 17, 17]  # 70 in all


def test_a_sinusoid_whose_mean_is_too_much_is_refused():
    sinusoid = {"law": "sinusoid", "load": 1.0, "amplitude": 0.5, "period": 2.0}
    with pytest.raises(UnstableError, match="load = 1 >= 1"):
        scenario(sinusoid, "fcfs", duration=10.0)

    peak = {"law": "sinusoid", "load": 0.9, "amplitude": 0.5, "period": 2.0}
    assert scenario(peak, "fcfs").offered_load()[2] == pytest.approx(1.4)
