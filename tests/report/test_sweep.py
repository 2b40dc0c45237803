"""Fleets of several sizes in front of the same traffic."""

import json

import pytest

from equipoise import EquipoiseError, Scenario, UnstableError, compare, sweep
from equipoise.report.variants import with_servers


@pytest.fixture(scope="module")
def queues():
    return Scenario.simple(servers=20, rate=9.0, tasks=20_000, replications=4, warm_up=50.0)


@pytest.fixture(scope="module")
def sizes(queues):
    """Sizes 8 (cannot do the work), 12 and 18."""
    return sweep(queues, ["random", "jsq"], servers=[8, 12, 18], kernel="events")


def test_a_size_is_compared_as_if_alone(queues, sizes):
    alone = compare(
        with_servers(queues, 12), ["random", "jsq"], rank_by="mean_response", kernel="events"
    )

    assert sizes[12].to_json()["policies"] == alone.to_json()["policies"]


def test_random_queues_respond_as_single_servers_do(sizes):
    """1 / (1 - 9 / n): 4 s with 12 servers, 2 s with 18."""
    for servers, expected in ((12, 4.0), (18, 2.0)):
        found = sizes.estimate(servers, "random")
        assert abs(found.value - expected) <= 2.5 * found.error


def test_a_size_that_cannot_do_the_work_says_so_in_its_place(sizes):
    assert list(sizes.comparisons) == [12, 18]
    assert "8 servers: not run: load = 1.125 >= 1" in str(sizes)
    with pytest.raises(EquipoiseError, match="no comparison with 8 servers: load = 1"):
        sizes[8]


def test_the_table_has_sizes_across_and_marks_the_best(sizes):
    lines = str(sizes).splitlines()
    head = next(i for i, line in enumerate(lines) if line.strip().startswith("policy"))

    assert lines[head].split() == ["policy", "8", "servers", "12", "servers", "18", "servers"]
    assert lines[head + 1].split()[0] == "jsq"
    assert lines[head + 1].count("*") == 2
    assert "Reading: jsq with 12 servers" in str(sizes)


def test_it_is_data_too(sizes):
    frame = sizes.to_pandas()
    data = sizes.to_xarray()
    (row,) = frame[
        (frame.servers == 18) & (frame.policy == "jsq") & (frame.metric == "mean_wait")
    ].itertuples()

    assert row.value == sizes[18]["jsq"].metrics["mean_wait"].value
    assert float(data.value.sel(servers=18, policy="jsq", metric="mean_wait")) == row.value
    assert f"18,jsq,mean_wait,{row.value!r}," in sizes.to_csv()
    assert json.loads(json.dumps(sizes.to_json(), allow_nan=False))["servers"] == [8, 12, 18]


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ([], "must be whole numbers, at least 1"),
        ([4, 0], "must be whole numbers, at least 1"),
        ([12, 12], "a size is named twice"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(queues, servers, words):
    with pytest.raises(EquipoiseError, match=words):
        sweep(queues, ["jsq"], servers=servers)


def test_where_no_size_can_do_the_work_each_says_why(queues):
    with pytest.raises(UnstableError) as refused:
        sweep(queues, ["jsq"], servers=[4, 8])

    assert len(str(refused.value).splitlines()) == 2
