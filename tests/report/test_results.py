"""What is stored and told to other programs."""

import errno
import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from equipoise import Scenario, compare
from equipoise.errors import EquipoiseError
from equipoise.report import results
from equipoise.report.results import (
    METRICS,
    Comparison,
    Difference,
    PolicyResult,
    Simulation,
    held,
    write_atomic,
)
from equipoise.stats import Estimate

REFUSED = PolicyResult("jiq", "jiq", {}, 1, "", "", unstable="load = 1.2 >= 1")


def simulation(comparison):
    fields = {name: getattr(comparison, name) for name in Comparison.__dataclass_fields__}
    return Simulation(**{**fields, "policies": comparison.policies[:1], "differences": ()})


def test_json_has_the_keys_of_the_contract_and_no_others(pools):
    data = pools.to_json()

    assert set(data) == {"scenario", "seed", "version", "kernel", "policies", "differences"}
    jsq, learning = data["policies"][:2]
    shared = {"name", "label", "params", "memory_bits", "metrics", "messages", "tasks"}
    assert set(jsq) == shared | {"occupancy", "share"}
    assert set(learning) == shared | {"occupancy", "share", "threshold_time"}
    assert set(jsq["metrics"]["imbalance"]) == {"value", "error", "confidence"}
    assert set(jsq["messages"]) == {"join", "leave", "update", "answer", "probe"}
    assert set(jsq["tasks"]) == {"arrived", "finished", "present", "lost"}
    assert set(data["differences"][0]) == {"a", "b", "metric", "value", "error"}
    assert len(data["differences"]) == 5 * 4 / 2


def test_levels_are_integers_as_strings_and_empty_ones_are_left_out(pools):
    learning = replace(pools.policies[1], share={3: 0.25, 7: 0.75, 9: 0.0})
    told = replace(pools, policies=(learning,), differences=()).to_json()["policies"][0]

    assert told["share"] == {"3": 0.25, "7": 0.75}
    assert told["threshold_time"] == {"7": 0.25, "8": 0.75}
    assert told["occupancy"] == [1.0, 0.75, 0.25]


def test_a_refused_policy_gives_its_reason_and_no_metrics(pools):
    told = replace(pools, policies=(*pools.policies, REFUSED)).to_json()["policies"][-1]

    assert told == {
        "name": "jiq",
        "label": "jiq",
        "params": {},
        "memory_bits": 1,
        "unstable": "load = 1.2 >= 1",
    }


def test_nan_never_reaches_json(pools):
    odd = replace(
        pools.policies[0],
        params={"weights": np.array([1.0, math.nan]), "n": np.int64(3)},
        metrics={"imbalance": Estimate(1.0, math.nan), "p99_wait": Estimate(math.nan, math.nan)},
    )
    lone = replace(
        pools, policies=(odd,), differences=(Difference("a", "b", "imbalance", 1.0, math.nan),)
    )

    text = json.dumps(lone.to_json(), allow_nan=False)

    told = json.loads(text)
    assert told["policies"][0]["metrics"] == {
        "imbalance": {"value": 1.0, "error": None, "confidence": 0.95}
    }
    assert told["policies"][0]["params"] == {"weights": [1.0, None], "n": 3}
    assert told["differences"][0]["error"] is None


@pytest.mark.parametrize("name", ["c.json", "c.nc"])
def test_a_saved_comparison_comes_back_whole(queues, tmp_path, name):
    odd = replace(
        queues.policies[0],
        distribution={"response": (np.array([0.0, 1.0, math.inf]), np.array([2.0, 1.0]))},
    )
    saved = replace(queues, policies=(odd, *queues.policies[1:], REFUSED), notes=("short",),
                    numbers=(0, 1, 2, 3, 5, 7), left_out=0.14, interrupted=True)  # fmt: skip

    saved.save(tmp_path / name)
    back = Comparison.load(tmp_path / name)

    assert back.to_json() == saved.to_json()
    assert str(back) == str(saved)
    assert back.notes == ("short",)
    assert (back.numbers, back.left_out, back.interrupted) == ((0, 1, 2, 3, 5, 7), 0.14, True)
    assert back.page() == saved.page()
    for old, new in zip(saved.policies, back.policies, strict=True):
        assert (new.cost, new.source, new.unstable) == (old.cost, old.source, old.unstable)
        for name, runs in old.replications.items():
            np.testing.assert_array_equal(new.replications[name], runs)
    np.testing.assert_array_equal(
        back.policies[0].distribution["response"][0], [0.0, 1.0, math.inf]
    )
    assert back.policies[0].path.threshold is None
    np.testing.assert_array_equal(
        back.policies[1].path.threshold, queues.policies[1].path.threshold
    )


def test_a_saved_simulation_comes_back_as_one(pools, tmp_path):
    simulation(pools).save(tmp_path / "s.json")

    assert isinstance(Comparison.load(tmp_path / "s.json"), Simulation)


def test_the_output_of_json_can_be_loaded_and_shown(pools, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(pools.to_json()))

    back = Comparison.load(tmp_path / "c.json")

    assert back.to_json() == pools.to_json()
    assert back.rank_by == "imbalance"
    assert "learning-threshold" in str(back)
    assert "<figure" in back.page()


def test_a_comparison_can_be_shown_where_its_trace_is_not(pools, tmp_path):
    data = pools.to_json()
    data["scenario"]["arrivals"] = {"law": "trace", "file": "gone.csv", "time": "t"}
    (tmp_path / "c.json").write_text(json.dumps(data))

    back = Comparison.load(tmp_path / "c.json")

    assert back.scenario.name == "an hour"
    assert back.scenario.servers.count == 20
    assert back.to_json()["scenario"]["arrivals"]["file"] == "gone.csv"
    assert "jsq" in str(back)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("{]}", "not JSON"),
        ("[]", "not a saved"),
        ('{"seed": 1}', "policies"),
        ('{"seed": 1', "cut off after 10 bytes"),
        ('{"a": {"b": 1}', "cut off"),  # ends like a whole one
        ("CDF\x01", "cut off"),
        ('{"version": "9.1", "record": {"format": 99}}', "format 99, written by Equipoise 9.1"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(content, said, tmp_path):
    path = tmp_path / "c.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(EquipoiseError) as caught:
        Comparison.load(path)

    assert said in str(caught.value)
    assert "c.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_has_a_line_for_each_estimate(pools):
    lines = pools.to_csv().splitlines()

    assert lines[0] == "policy,metric,value,error,confidence"
    assert len(lines) == 1 + sum(len(p.metrics) for p in pools.policies)
    assert float(lines[1].split(",")[2]) == pools.policies[0].metrics["mean_tasks"].value


def test_pandas_is_tidy_and_in_rank_order(pools):
    frame = pools.to_pandas()

    assert list(frame.columns) == ["policy", "metric", "value", "error"]
    assert list(frame["policy"].unique()) == [p.label for p in pools.policies]
    found = frame[(frame.policy == "random") & (frame.metric == "imbalance")]
    assert found["error"].item() == pools["random"].metrics["imbalance"].error


def test_xarray_is_labelled_by_policy_replication_level_and_time(pools):
    data = pools.to_xarray()

    assert {"policy", "replication", "level", "time"} <= set(data.dims)
    np.testing.assert_array_equal(
        data["imbalance"].sel(policy="random"), pools["random"].replications["imbalance"]
    )
    assert data["occupancy"].sel(policy="jsq", level=2) == 0.75
    assert data["share"].sel(policy="jsq", level=7) == pools["jsq"].share[7]
    assert data["path_most"].dims == ("policy", "time")
    assert np.isnan(data["path_threshold"].sel(policy="jsq")).all()
    assert float(data["error"].sel(policy="jsq", metric="imbalance")) > 0


def test_a_policy_is_found_by_label_or_by_a_name_that_only_one_has(pools):
    twice = replace(
        pools, policies=(*pools.policies, replace(pools["threshold"], label="threshold(level=9)"))
    )

    assert pools["threshold"] is pools["threshold(level=8)"]
    with pytest.raises(EquipoiseError, match="several policies"):
        twice["threshold"]
    with pytest.raises(EquipoiseError, match="here are: jsq, learning"):
        pools["jsqd"]


def test_a_difference_can_be_asked_for_either_way_round(pools):
    there, back = pools.difference("jsq", "random"), pools.difference("random", "jsq")

    assert there.value == -back.value < 0
    assert there.error == back.error
    assert pools.difference("jsq", "nobody") is None


def test_repr_is_one_short_line(pools):
    assert repr(pools) == (
        "<Comparison 'an hour': 5 policies, 6 replications, "
        f"best by imbalance: jsq {pools['jsq'].metrics['imbalance']}>"
    )


def test_a_simulation_prints_each_estimate_with_its_unit(queues):
    one = simulation(queues)

    assert one["mean_wait"] is one.metrics["mean_wait"]
    assert ["mean_wait", *str(one["mean_wait"]).split()] == next(
        line.split()[:-1] for line in str(one).splitlines() if "mean_wait" in line
    )
    assert "mean_response" in repr(one)
    with pytest.raises(EquipoiseError, match="no metric 'wait' here; there are: mean_tasks"):
        one["wait"]


def test_every_metric_of_the_contract_has_a_name():
    assert len(METRICS) == 17
    assert all(name for name, _ in METRICS.values())


def test_values_are_held_until_the_next_one():
    at = held(np.array([-1.0, 0.0, 0.5, 2.0, 9.0]), np.array([0.0, 1.0, 2.0]), np.array([5, 6, 7]))

    np.testing.assert_array_equal(at, [math.nan, 5, 5, 7, 7])
    assert np.isnan(held(np.array([1.0]), np.array([]), np.array([]))).all()


# Over time.


def ran():
    """A real study of pools whose rate doubles half-way, threshold and jsq."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 50, "discipline": "pool"},
            "arrivals": {"law": "rates", "bin": 20.0, "rates": [100.0, 200.0]},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"replications": 2, "seed": 1},
        }
    )
    return compare(scenario, ["learning-threshold(alpha=0.9)", "jsq"])


@pytest.fixture(scope="module")
def study():
    return ran()


def test_the_path_says_how_many_came_and_how_many_were_there(study):
    """Poisson: 2000 and 4000 come, four standard errors; 2 and 4 a server stay (M/M/inf)."""
    for p in study:
        path = p.path
        early = path.times <= 20.0
        steps = np.diff(path.times, prepend=0.0)
        assert abs((path.rate * steps)[early].sum() - 2000) < 4 * math.sqrt(2000)
        assert abs((path.rate * steps)[~early].sum() - 4000) < 4 * math.sqrt(4000)
        np.testing.assert_allclose(path.total, path.mean * 50)
        settled = (path.times > 30.0) & (path.times <= 40.0)
        assert abs(path.total[settled].mean() - 200) < 4 * math.sqrt(2 * 200 / 10)


def test_occupancy_in_cells_adds_up_to_the_tasks_there(study):
    """Levels added up are the mean tasks per server, the area under the path."""
    for p in study:
        path = p.path
        assert path.cells[0] == 0
        assert path.cells[-1] == pytest.approx(40.0)
        assert path.occupancy.shape[0] == path.cells.size - 1
        assert (np.diff(path.occupancy, axis=1) <= 1e-12).all()
        for cell in (5, 30, 49):
            inside = (path.times > path.cells[cell]) & (path.times <= path.cells[cell + 1])
            assert path.occupancy[cell].sum() == pytest.approx(path.mean[inside].mean(), rel=0.1)


def test_series_are_arrays_with_labels(study, tmp_path):
    import xarray as xr

    data = study.to_xarray()

    assert data.path_occupancy.dims == ("policy", "cell", "level")
    jsq = study["jsq"].path
    np.testing.assert_array_equal(data.path_rate.sel(policy="jsq"), jsq.rate)
    np.testing.assert_array_equal(data.path_total.sel(policy="jsq"), jsq.total)
    shown = data.path_occupancy.sel(policy="jsq")
    np.testing.assert_allclose(shown[:, : jsq.occupancy.shape[1]], jsq.occupancy)
    assert data.cell.attrs["units"] == data.time.attrs["units"] == "s"
    study.save(tmp_path / "c.nc")
    read = xr.load_dataset(tmp_path / "c.nc", engine="scipy")
    for name in data.variables:
        np.testing.assert_array_equal(read[name], data[name])


@pytest.mark.parametrize("name", ["s.json", "s.nc"])
def test_what_a_study_found_over_time_comes_back(study, tmp_path, name):
    study.save(tmp_path / name)
    back = Comparison.load(tmp_path / name)

    for old, new in zip(study, back, strict=True):
        for series in ("times", "total", "rate", "cells", "occupancy"):
            np.testing.assert_array_equal(getattr(new.path, series), getattr(old.path, series))
    assert back.left_out == study.left_out
    assert back.numbers == (0, 1)


# Files.


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o640)

    write_atomic(path, "néw\n")

    assert path.read_bytes() == "néw\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.json"]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("old")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")

    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_link_is_followed_not_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    write_atomic(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["c.json", "c.nc"])
def test_a_full_disk_loses_nothing(queues, tmp_path, monkeypatch, name):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    queues.save(tmp_path / name)
    good = (tmp_path / name).read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EquipoiseError, match=r"cannot write .*: no space left on device") as told:
        replace(queues, seed=2).save(tmp_path / name)

    assert "\n" not in str(told.value)
    assert (tmp_path / name).read_bytes() == good
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_device_that_is_full_is_told_in_one_line(queues):
    with pytest.raises(EquipoiseError, match="cannot write /dev/full: no space left"):
        queues.save("/dev/full")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["c.json", "c.nc"])
def test_a_file_that_is_cut_off_is_told_in_one_line(queues, tmp_path, name, share):
    path = tmp_path / name
    queues.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])

    with pytest.raises(EquipoiseError, match="the file is cut off after") as told:
        Comparison.load(path)

    assert name in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["c.json", "c.nc"])
def test_a_file_of_a_later_format_is_told_in_one_line(queues, tmp_path, monkeypatch, name):
    monkeypatch.setattr(results, "FORMAT", 3)
    queues.save(tmp_path / name)

    with pytest.raises(EquipoiseError) as told:
        Comparison.load(tmp_path / name)

    assert str(told.value).endswith(
        "in format 3, written by Equipoise 0.1.0; this version reads formats up to 2: upgrade, "
        "or run it again"
    )


def test_a_file_of_the_first_format_is_read(queues, tmp_path):
    """It had no number, and paths without cells."""
    queues.save(tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text())
    for key in ("format", "numbers", "left_out", "interrupted"):
        del data["record"][key]
    for p in data["record"]["policies"]:
        del p["written"]
        p["path"] = {k: v for k, v in p["path"].items() if k in {"times", "mean", "least", "most"}}
    (tmp_path / "c.json").write_text(json.dumps(data))

    back = Comparison.load(tmp_path / "c.json")

    assert back.policies[0].path.total is None
    assert str(back) == str(queues)


def test_a_foreign_netcdf_file_is_told_in_one_line(tmp_path):
    import xarray as xr

    content = xr.Dataset({"x": ("t", [1.0, 2.0])}).to_netcdf(engine="scipy")
    (tmp_path / "c.nc").write_bytes(bytes(content))

    with pytest.raises(EquipoiseError, match=r"but not one that save\(\) wrote"):
        Comparison.load(tmp_path / "c.nc")


@pytest.mark.parametrize("name", ["c.csv", "c.parquet", "c.html", "c.H5"])
def test_a_name_that_promises_another_form_is_refused(queues, tmp_path, name):
    with pytest.raises(EquipoiseError, match=r"results are saved as \.json or \.nc"):
        queues.save(tmp_path / name)

    assert os.listdir(tmp_path) == []


def test_a_missing_directory_is_told_in_one_line(tmp_path):
    with pytest.raises(EquipoiseError, match=r"the directory .*nowhere does not exist"):
        write_atomic(tmp_path / "nowhere" / "a.html", "x")


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(EquipoiseError, match="it is a directory"):
        write_atomic(tmp_path, "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_told_in_one_line(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(EquipoiseError, match=r"cannot write .*: permission denied"):
        write_atomic(tmp_path / "a.html", "x")


def test_results_are_light_to_import():
    code = (
        "import sys, equipoise.report.results, equipoise.report.table, equipoise.report.page;"
        "heavy = ('scipy', 'pandas', 'xarray', 'matplotlib', 'rich');"
        "print([m for m in heavy if m in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"
