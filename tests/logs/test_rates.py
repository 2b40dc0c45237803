"""Rates over time, against known ones and against what others compute."""

import numpy as np
import pytest
from recorded import poisson, tasks_at
from scipy import stats

from equipoise.logs.rates import best_width, find_rates, poisson_interval
from equipoise.logs.stream import Stream
from equipoise.logs.tables import Counts


@pytest.mark.parametrize("count", [0, 1, 7, 400])
def test_intervals_are_exact(count):
    """Garwood: at the ends of the interval so few, or so many, have chance 2.5 %."""
    low, high = (float(end[0]) for end in poisson_interval(np.array([count])))

    assert stats.poisson.cdf(count, high) == pytest.approx(0.025, rel=1e-6)
    if count:
        assert stats.poisson.sf(count - 1, low) == pytest.approx(0.025, rel=1e-6)
    else:
        assert low == 0


def test_intervals_hold_the_rate_as_often_as_they_say_with_batches_too():
    """500 streams of batches of 3: 95 % hold it, within four standard errors."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(500):
        batches = rng.poisson(100)
        low, high = poisson_interval(np.array([3.0 * batches]), dispersion=3.0)
        held += low[0] <= 300 <= high[0]

    # exact intervals of 100 are a little wide: 95.5 %
    assert abs(held / 500 - 0.955) < 4 * np.sqrt(0.05 / 500)


def test_a_constant_rate_is_called_constant_and_a_wave_is_not():
    rng = np.random.default_rng(2)
    constant = sum(
        find_rates(Stream.of(tasks_at(poisson(rng, 10.0, 3000)))).constant for _ in range(100)
    )
    wave = poisson(rng, 20.0, 40_000)
    wave = wave[rng.random(wave.size) < 0.5 + 0.3 * np.sin(2 * np.pi * wave / 500)]
    found = find_rates(Stream.of(tasks_at(wave)))

    assert constant >= 99
    assert not found.constant
    middle = (np.arange(found.rate.size) + 0.5) * found.width
    truth = 10 + 6 * np.sin(2 * np.pi * (middle + wave[0]) / 500)
    inside = (found.low <= truth) & (truth <= found.high)
    assert inside[:-1].mean() > 0.85
    assert 5 <= found.width <= 120


def test_bins_are_nearly_the_best_ones():
    """The integrated squared error of the rate, known here, at the chosen width and at others."""
    rng = np.random.default_rng(3)
    times = poisson(rng, 20.0, 40_000)
    times = times[rng.random(times.size) < 0.5 + 0.3 * np.sin(2 * np.pi * times / 500)]
    stream = Stream.of(tasks_at(times))
    grid = np.arange(0, stream.span - 1, 0.5)
    truth = 10 + 6 * np.sin(2 * np.pi * (grid + times[0]) / 500)

    def error(width):
        rates = stream.dense(width) / width
        return ((rates[np.minimum((grid / width).astype(int), rates.size - 1)] - truth) ** 2).mean()

    assert error(best_width(stream)) < 1.3 * min(error(w) for w in (2, 5, 10, 15, 20, 30, 60, 120))


def test_counts_are_those_of_the_tasks():
    rng = np.random.default_rng(4)
    times = poisson(rng, 3.0, 5000)
    found = find_rates(Stream.of(tasks_at(times)), width=60.0)
    expected = np.histogram(times - times[0], np.arange(found.counts.size + 1) * 60.0)[0]

    assert found.counts.tolist() == expected.tolist()
    assert found.mean == pytest.approx(5000 / (times[-1] - times[0]), rel=1e-3)


def test_the_shape_of_a_day_is_found_with_its_error():
    """Ten days of counts by 5 minutes, twice as many from 9 to 17 UTC as at other hours."""
    rng = np.random.default_rng(5)
    first = 1_709_640_000 + 900  # 12:15
    at = first + 300 * np.arange(2880)
    busy = (at % 86400 >= 9 * 3600) & (at % 86400 < 17 * 3600)
    counts = Counts(float(first), 300.0, rng.poisson(np.where(busy, 600, 300)).astype(float))
    daily = find_rates(Stream.of(counts)).daily
    hours = np.arange(24)
    truth = np.where((hours >= 9) & (hours < 17), 2.0, 1.0)

    assert daily.days == 9
    # 9 or 10 hours of 3600 or 7200 tasks each
    assert np.abs(daily.rate - truth).max() < 4 * np.sqrt(7200 / 9) / 3600
    assert (np.abs(daily.rate - truth) <= daily.error).mean() > 0.75


def test_a_short_log_has_no_shape_of_a_day():
    rng = np.random.default_rng(6)

    assert find_rates(Stream.of(tasks_at(poisson(rng, 0.1, 5000)))).daily is None
    slow = tasks_at(poisson(rng, 0.01, 5000), first=0.0)  # on a clock of its own
    assert find_rates(Stream.of(slow)).daily is None
