"""Single tasks, batches and rounded times, told apart: by streams of which the truth is known."""

import itertools

import numpy as np
import pytest
from recorded import in_batches, poisson, tasks_at

from equipoise.logs.bursts import DOUBT, find_bursts, ties_of
from equipoise.logs.stream import Stream, step_of
from equipoise.logs.tables import Counts


def found(times, **how):
    return find_bursts(Stream.of(tasks_at(times, **how)))


@pytest.mark.parametrize("seed", range(5))
def test_a_poisson_stream_a_batch_stream_and_a_rounded_stream_are_told_apart(seed):
    rng = np.random.default_rng(seed)
    single, batches = poisson(rng, 20.0, 10_000), in_batches(rng, 20.0, 10_000, mean=3.0)

    assert found(single).kind == "poisson"
    assert found(np.floor(single)).kind == "rounded"
    assert found(batches).kind == "batches"
    assert found(np.floor(batches)).kind == "batches"


def test_sparse_streams_are_told_apart_too():
    """One task in 30 ticks: nearly all ties are batches, or few are there by rounding."""
    rng = np.random.default_rng(1)
    single, batches = poisson(rng, 1 / 30, 10_000), in_batches(rng, 1 / 30, 10_000, mean=2.0)

    assert found(np.floor(single)).kind == "rounded"
    assert found(np.floor(batches)).kind == "batches"


def test_a_rate_that_changes_is_no_batch():
    """A minute of work in every hour, and a wave: ties are compared with their neighbourhood."""
    rng = np.random.default_rng(2)
    minutes = np.concatenate([3600 * h + rng.uniform(0, 60, 120) for h in range(34)])
    wave = poisson(rng, 40.0, 60_000)
    wave = wave[rng.random(wave.size) < (1 + np.sin(2 * np.pi * wave / 60)) / 2]

    for times in (minutes, wave):
        assert found(np.floor(times)).kind == "rounded"
        assert found(np.round(times, 6)).kind == "poisson"
        assert found(np.floor(times)).changes is not None


def test_the_error_is_the_one_that_is_stated():
    """400 streams without batches at a level of 1e-4 each: two false ones have chance 8e-4."""
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(200):
        times = poisson(rng, 2.0, 1000)
        false += found(times).kind == "batches"
        false += found(np.floor(times)).kind == "batches"

    assert DOUBT == 1e-4
    assert false <= 1


def test_the_p_values_of_ties_are_uniform_where_there_are_no_batches():
    """Kolmogorov's distance of 400 p-values to uniform; 1.95 / sqrt(400) is its 0.1 % point."""
    rng = np.random.default_rng(4)
    p = [ties_of(Stream.of(tasks_at(np.floor(poisson(rng, 5.0, 2000)))), 1.0).p for _ in range(400)]
    gap = np.abs(np.sort(p) - (np.arange(400) + 0.5) / 400).max()

    assert gap < 1.95 / 20 + 1 / 800


def test_expected_pairs_are_those_of_all_ways_to_fall_on_ticks():
    """3 and 2 tasks in two windows of two ticks: counted over all placements."""
    pairs = []
    for places in itertools.product(range(2), repeat=5):
        counts = np.bincount(np.add(places, [0, 0, 0, 2, 2]), minlength=4)
        pairs.append(int((counts * (counts - 1) // 2).sum()))
    stream = Stream(np.array([0.0, 0.1, 0.2, 2.0, 3.0]), None, None, 1.0, 0.0, 1.0)
    # at a rate of 5 tasks a tick a window has two ticks
    ties = ties_of(stream, 1.0)

    assert ties.expected == pytest.approx(np.mean(pairs))
    assert ties.pairs == 3


def test_batches_are_measured():
    rng = np.random.default_rng(5)
    sizes = rng.choice([1, 4], 5000, p=[0.75, 0.25])
    times = np.repeat(poisson(rng, 10.0, 5000), sizes)
    bursts = found(times)

    # E B^2 / E B = (0.75 + 0.25 * 16) / 1.75
    assert bursts.dispersion == pytest.approx(4.75 / 1.75, rel=0.05)
    assert bursts.batch_sizes[0] == (1, 4)
    assert bursts.batch_sizes[1] == pytest.approx((0.75, 0.25), abs=4 * np.sqrt(0.19 / 5000))
    assert bursts.batch_mean == pytest.approx(sizes.mean())


def test_batches_behind_a_rounded_clock_are_measured_by_their_dispersion():
    rng = np.random.default_rng(6)
    bursts = found(np.floor(in_batches(rng, 20.0, 60_000, mean=3.0)))

    # geometric batches of mean 3: E B^2 / E B = 5; from counts of 3000 ticks about 3 % error
    assert bursts.dispersion == pytest.approx(5.0, rel=0.2)
    assert bursts.batch_mean == pytest.approx(3.0, rel=0.15)
    assert bursts.batch_sizes is None


def test_what_comes_within_a_millisecond_is_a_batch_too():
    rng = np.random.default_rng(7)
    times = in_batches(rng, 5.0, 5000, mean=2.0)
    bursts = found(np.round(times + rng.uniform(0, 0.0005, times.size), 6))

    assert bursts.kind == "batches"
    assert 1e-4 < bursts.ties.tick <= 1e-3


def test_the_index_of_dispersion_is_variance_over_mean():
    rng = np.random.default_rng(8)
    times = in_batches(rng, 20.0, 20_000, mean=3.0)
    bursts = found(times)

    for scale in bursts.scales[:5]:
        counts = np.bincount(((times - times[0] + 5e-7) // scale.width).astype(int))[: scale.bins]
        assert scale.index == pytest.approx(counts.var() / counts.mean(), rel=1e-4)
        first, second = counts[: counts.size // 2 * 2].reshape(-1, 2).T
        total = (first + second).sum()
        assert scale.local == pytest.approx(((first - second) ** 2).sum() / total, rel=1e-3)


@pytest.mark.parametrize("step", [60.0, 1.0, 0.1, 0.01, 0.001])
def test_the_step_of_a_clock_is_found(step):
    rng = np.random.default_rng(9)
    times = 1.7e9 + np.cumsum(rng.exponential(7 * step, 500))

    assert step_of(np.round(times / step) * step) == step
    assert step_of(times + rng.uniform(0, 1e-5, 500)) == 0.0


def test_times_shorter_than_a_step_are_no_multiples_of_it():
    assert step_of(np.random.default_rng(1).uniform(1e-9, 3e-4, 500)) == 0.0


def test_arrivals_computed_from_rounded_ends_have_the_resolution_of_the_ends():
    """As nginx writes them: the end to 1 s, the duration to 1 ms."""
    rng = np.random.default_rng(10)
    times, took = poisson(rng, 20.0, 5000), np.round(rng.exponential(0.2, 5000), 3)
    tasks = tasks_at(np.floor(times + took) - took, service=took)
    stream = Stream.of(tasks)

    assert (stream.resolution, stream.of_ends) == (1.0, True)
    assert find_bursts(stream).kind == "rounded"


def test_few_tasks_say_nothing_and_wide_counts_little():
    rng = np.random.default_rng(11)
    counts = Counts(0.0, 300.0, rng.poisson(60, 500).astype(float))
    bursts = find_bursts(Stream.of(counts))

    assert found(poisson(rng, 1.0, 30)).kind == "few"
    assert bursts.kind == "counts"
    # 250 pairs of Poisson counts: standard error sqrt(2 / 250)
    assert bursts.scales[0].local == pytest.approx(1.0, abs=4 * np.sqrt(2 / 250))


def test_counts_by_the_second_are_tested_as_rounded_times_are():
    rng = np.random.default_rng(12)
    for times, kind in (
        (poisson(rng, 5.0, 20_000), "rounded"),
        (in_batches(rng, 5.0, 20_000, 3.0), "batches"),
    ):
        counts = np.bincount(np.floor(times).astype(int)).astype(float)

        assert find_bursts(Stream.of(Counts(0.0, 1.0, counts))).kind == kind


def test_deviations_are_in_standard_errors_at_every_scale():
    """Of 200 Poisson streams: mean square 1 at each scale; its error is sqrt(kurtosis / 200)."""
    rng = np.random.default_rng(13)
    each = [[s.deviation for s in found(poisson(rng, 1.0, 3000)).scales] for _ in range(200)]
    fewest = min(map(len, each))
    squares = np.array([deviations[:fewest] for deviations in each]) ** 2

    assert fewest >= 8
    off = np.abs(squares.mean(axis=0) - 1) / (squares.std(axis=0) / np.sqrt(200))
    assert off.max() < 4
