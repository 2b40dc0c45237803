"""The tasks of a run: their law, and that they do not depend on how they are asked for."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from equipoise.scenario import Flow, Rates, Scenario, Servers
from equipoise.scenario.stream import TaskStream, copied, poisson_times
from equipoise.scenario.trace import Recording


def everything(stream, most=65536):
    """All tasks of a stream, taken in blocks of at most `most`."""
    times, sizes = [], []
    while True:
        some, their = stream.block(most)
        if len(some) == 0:
            return np.concatenate([*times, some]), np.concatenate([*sizes, their])
        assert len(some) == len(their) <= most
        times.append(some)
        sizes.append(their)


def rates_scenario(**rates):
    return Scenario.from_dict(
        {
            "servers": {"count": 3, "discipline": "pool"},
            "arrivals": {"law": "rates", **rates},
            "service": {"law": "exponential", "mean": 0.5},
        }
    )


def seeds(seed):
    return np.random.SeedSequence(seed).spawn(2)


EDGES = np.array([0.0, 1.0, 1.5, 4.0, 4.25, 10.0])
RATES = np.array([2.0, 0.0, 5.0, 80.0, 0.0])
FLOW = Flow(EDGES, RATES, np.zeros(5))


def test_arrivals_in_each_interval_are_poisson_and_independent():
    """Chi-square of the counts in cells that split, join and ignore the intervals of the rate."""
    cells = np.array([0.0, 0.5, 1.25, 1.5, 2.0, 4.1, 4.2, 10.0])
    integral = np.concatenate(([0], np.cumsum(RATES * np.diff(EDGES))))
    means = np.diff(np.interp(cells, EDGES, integral))
    runs = 4000
    counts = np.array(
        [
            np.histogram(np.concatenate(list(poisson_times(FLOW, rng))), cells)[0]
            for rng in (np.random.default_rng([7, run]) for run in range(runs))
        ]
    )

    busy = means > 0
    assert (counts[:, ~busy] == 0).all()
    for cell in np.flatnonzero(busy):
        top = int(stats.poisson.ppf(0.999, means[cell]))
        seen = np.bincount(np.minimum(counts[:, cell], top + 1), minlength=top + 2)
        expected = runs * np.append(
            stats.poisson.pmf(np.arange(top + 1), means[cell]), stats.poisson.sf(top, means[cell])
        )
        rare = expected < 5
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        assert stats.chisquare(seen, expected).pvalue > 1e-4
    correlation = np.corrcoef(counts[:, busy].T)
    assert np.abs(correlation - np.eye(busy.sum())).max() < 4.5 / np.sqrt(runs)


def test_arrivals_inside_an_interval_are_uniform():
    rng = np.random.default_rng(3)
    times = np.concatenate(list(poisson_times(FLOW._replace(base=1000 * RATES), rng)))
    inside = times[(times > 1.5) & (times < 4.0)]

    assert stats.kstest((inside - 1.5) / 2.5, "uniform").pvalue > 1e-3


def test_intervals_of_a_constant_rate_are_exponential_across_chunks():
    scenario = Scenario.simple(servers=10, load=0.8, service="deterministic(value=2)")
    stream = scenario.task_stream(*seeds(1))
    times = np.concatenate([stream.block()[0] for _ in range(4)])

    assert len(times) == 4 * 65536
    assert stats.kstest(np.diff(times), stats.expon(scale=1 / 4.0).cdf).pvalue > 1e-3


@given(most=st.integers(1, 400), seed=st.integers(0, 99))
def test_the_tasks_do_not_depend_on_the_size_of_blocks(most, seed):
    scenario = rates_scenario(bin=2.0, counts=[100, 0, 300])

    whole = everything(scenario.task_stream(*seeds(seed)))
    cut = everything(scenario.task_stream(*seeds(seed)), most)

    assert np.array_equal(whole[0], cut[0])
    assert np.array_equal(whole[1], cut[1])


def test_streams_of_other_seeds_are_others():
    scenario = rates_scenario(bin=2.0, counts=[1000])
    arrivals, service = seeds(1)
    other, another = seeds(2)

    base = everything(scenario.task_stream(arrivals, service))
    later = everything(scenario.task_stream(other, service))
    sizes = everything(scenario.task_stream(arrivals, another))

    assert not np.array_equal(base[0], later[0])
    assert np.array_equal(base[0], sizes[0])
    assert not np.array_equal(base[1], sizes[1])


def test_a_long_stream_takes_little_memory():
    scenario = Scenario.simple(servers=10, load=0.8)
    stream = scenario.task_stream(*seeds(1))
    stream.block()
    tracemalloc.start()
    for _ in range(40):
        stream.block()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 8 * 2**20  # 40 blocks would be 42 MB


def test_scale_multiplies_the_rates():
    once, thrice = (rates_scenario(bin=2.0, counts=[4, 2], scale=k) for k in (1, 2.5))

    assert once.rate_table()[1].tolist() == [2, 1]
    assert thrice.rate_table()[1].tolist() == [5, 2.5]


RECORDING = Recording(
    np.sort(np.random.default_rng(5).uniform(0, 1000, 3000).round(3)),
    np.random.default_rng(6).exponential(1.0, 3000),
)


@pytest.mark.parametrize("scale", [1, 2, 50])
def test_a_scaled_trace_has_every_task_as_often_and_near_where_it_was(scale):
    chunks = list(copied(RECORDING, scale, 5.0, np.random.default_rng(1)))
    times = np.concatenate([times for times, _ in chunks])
    sizes = np.concatenate([sizes for _, sizes in chunks])

    assert (np.diff(times) >= 0).all()
    assert np.array_equal(np.sort(sizes), np.sort(np.repeat(RECORDING.sizes, scale)))
    order = np.lexsort((times, sizes))  # the copies of a task together, the first one leading
    copies = times[order].reshape(-1, scale)
    originals = RECORDING.times[np.argsort(RECORDING.sizes)]
    assert np.array_equal(copies[:, 0], originals)
    moved = (copies - originals[:, None])[:, 1:]
    if scale > 1:
        assert moved.min() >= 0
        assert moved.max() < 5
        assert stats.kstest(moved.ravel() / 5, "uniform").pvalue > 1e-3


def trace_scenario(tmp_path, **changes):
    path = tmp_path / "t.csv"
    rows = zip(RECORDING.times, RECORDING.sizes, strict=True)
    path.write_text("t,d\n" + "\n".join(f"{time},{size}" for time, size in rows))
    arrivals = {"law": "trace", "file": "t.csv", "time": "t", "scale": 3}
    tables = {
        "servers": {"count": 3, "discipline": "pool"},
        "arrivals": arrivals,
        "service": {"law": "trace", "column": "d"},
    }
    return Scenario.from_dict(tables | changes, base=tmp_path)


def test_replications_of_a_trace_meet_the_same_traffic(tmp_path):
    scenario = trace_scenario(tmp_path)

    first = everything(scenario.task_stream(*seeds(1)), 1000)
    second = everything(scenario.task_stream(*seeds(2)))
    reseeded = everything(scenario.with_run(seed=2).task_stream(*seeds(1)))

    assert len(first[0]) == 9000
    assert np.array_equal(first, second)
    assert not np.array_equal(first, reseeded)


def test_a_trace_that_is_not_kept_gives_the_same_tasks(tmp_path, monkeypatch):
    kept = everything(trace_scenario(tmp_path).task_stream(*seeds(1)))
    monkeypatch.setattr("equipoise.scenario.model.KEPT", 0)
    made = everything(trace_scenario(tmp_path).task_stream(*seeds(1)))

    assert np.array_equal(kept, made)


def test_all_arrivals_of_a_trace_come_before_its_horizon(tmp_path):
    for scale in (1, 3):
        arrivals = {"law": "trace", "file": "t.csv", "time": "t", "scale": scale}
        scenario = trace_scenario(tmp_path, arrivals=arrivals)
        times, _ = everything(scenario.task_stream(*seeds(1)))

        assert times[0] == 0
        assert times[-1] < scenario.horizon


def test_given_arrivals_may_have_service_times_from_a_law(tmp_path):
    scenario = trace_scenario(tmp_path, service={"law": "lognormal", "mean": 2.0, "scv": 1.0})

    first = everything(scenario.task_stream(*seeds(1)))
    second = everything(scenario.task_stream(*seeds(2)))

    assert scenario.given == "arrivals"
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])
    assert abs(first[1].mean() - 2.0) < 4 * 2.0 / np.sqrt(9000)


def test_a_block_of_no_tasks_cannot_be_asked_for():
    with pytest.raises(ValueError, match="at least 1 task"):
        TaskStream([]).block(0)


def test_rates_may_be_given_in_four_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text("# per 2 s\ncount\n4\n0\n6\n")
    (tmp_path / "rates.csv").write_text("time,rate\n0,2\n2,0\n4,3\n6,0\n")
    ways = [
        Rates(bin=2.0, rates=(2, 0, 3)),
        Rates(bin=2.0, counts=(4, 0, 6)),
        Rates(times=(0, 2, 4, 6), rates=(2, 0, 3)),
        Rates(file="counts.csv", bin=2.0),
        Rates(file="rates.csv"),
    ]

    for way in ways:
        edges, rates = way.table
        assert edges.tolist() == [0, 2, 4, 6]
        assert rates.tolist() == [2, 0, 3]
        again = Rates(**way.inlined())
        assert again.file is None
        assert again.table[1].tolist() == [2, 0, 3]


def test_servers_know_their_capacity():
    assert Servers(count=3, discipline="fcfs", workers=4).capacity == 12
