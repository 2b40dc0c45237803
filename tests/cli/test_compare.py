"""`equipoise compare`: its three forms of answer, its page, and Ctrl-C."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from equipoise.report.results import Comparison

KEYS = {"name", "label", "params", "memory_bits", "metrics", "messages", "tasks", "occupancy"}


def test_the_table_has_every_policy_and_says_how_to_get_it_again(run, scenario):
    answer = run("compare", "small.toml")

    assert answer.status == 0
    assert answer.err == ""
    assert "random" in answer.out
    assert "jsq-d" in answer.out
    assert "+-" in answer.out
    assert "equipoise compare small.toml" in answer.out


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(run, scenario):
    first = run("compare", "small.toml", "--json").out
    again = run("compare", "small.toml", "--json").out
    other = run("compare", "small.toml", "--json", "--seed", 6).out

    assert json.loads(first)["policies"] == json.loads(again)["policies"]
    assert json.loads(first)["policies"] != json.loads(other)["policies"]


def test_the_json_keeps_its_contract(run, scenario):
    answer = run("compare", "small.toml", "--json")
    found = json.loads(answer.out)

    assert found.keys() == {"scenario", "seed", "version", "kernel", "policies", "differences"}
    assert found["seed"] == 5
    assert [p["name"] for p in found["policies"]] == ["jsq-d", "random"]
    for policy in found["policies"]:
        assert policy.keys() >= KEYS
        assert policy["messages"].keys() == {"join", "leave", "update", "answer", "probe"}
        tasks = policy["tasks"]
        assert tasks["arrived"] == tasks["finished"] + tasks["present"] + tasks["lost"]
        for estimate in policy["metrics"].values():
            assert estimate.keys() == {"value", "error", "confidence"}
        assert {"mean_wait", "mean_response", "p99_response"} <= policy["metrics"].keys()
    (difference,) = found["differences"]
    assert (difference["a"], difference["b"]) == ("jsq-d(d=2)", "random")
    assert difference["metric"] == "mean_response"
    assert difference["value"] < 0
    assert difference["error"] > 0


def test_the_csv_has_a_line_per_estimate(run, scenario):
    rows = list(csv.DictReader(io.StringIO(run("compare", "small.toml", "--csv").out)))

    assert rows[0].keys() == {"policy", "metric", "value", "error", "confidence"}
    assert {row["policy"] for row in rows} == {"jsq-d(d=2)", "random"}
    assert all(float(row["error"]) >= 0 for row in rows if row["value"])


def test_policies_of_the_command_line_take_the_place_of_the_scenarios(run, scenario):
    answer = run(
        "compare", "small.toml", "--json",
        "--policies", "jbt(r=2), jsq-d(d=3, replacement=true)", "--policies", "jiq",
    )  # fmt: skip
    labels = {policy["label"] for policy in json.loads(answer.out)["policies"]}

    assert labels == {"jbt(r=2)", "jsq-d(d=3, replacement=true)", "jiq"}


def test_flags_do_without_a_file(run):
    answer = run(
        "compare", "--servers", 3, "--discipline", "fcfs", "--rate", 2, "--workers", 2,
        "--limit", 5, "--service", "erlang(shape=2)", "--tasks", 2000, "--replications", 2,
        "--policies", "jsq,random", "--kernel", "events", "--json",
    )  # fmt: skip
    found = json.loads(answer.out)

    assert found["scenario"]["servers"] == {
        "count": 3, "discipline": "fcfs", "workers": 2, "limit": 5,
    }  # fmt: skip
    assert found["kernel"] == "events"
    assert "lost" in found["policies"][0]["metrics"]


def test_the_run_can_be_changed_and_what_ranks_too(run, scenario):
    answer = run(
        "compare", "small.toml", "--duration", 400, "--replications", 2, "--seed", 9,
        "--rank-by", "max_tasks", "--json",
    )  # fmt: skip
    found = json.loads(answer.out)

    assert found["seed"] == 9
    assert found["scenario"]["run"]["duration"] == 400
    assert "tasks" not in found["scenario"]["run"]
    assert found["scenario"]["run"]["replications"] == 2
    assert {d["metric"] for d in found["differences"]} == {"max_tasks"}


def test_the_page_is_one_file_without_references_to_others(run, scenario, tmp_path):
    answer = run("compare", "small.toml", "--report", "page.html")
    page = (tmp_path / "page.html").read_text()

    assert answer.status == 0
    assert "page.html" in answer.out
    assert sorted(os.listdir(tmp_path)) == ["page.html", "small.toml"]
    assert "jsq-d" in page
    assert 'src="http' not in page
    assert "<link" not in page


LONG = (
    "compare", "--servers", 1000, "--discipline", "fcfs", "--load", 0.9,
    "--policies", "jsq-d,random", "--report", "page.html",
)  # fmt: skip


@pytest.mark.parametrize("again", [1, 2], ids=["one Ctrl-C", "two"])
def test_ctrl_c_ends_a_long_comparison_at_once_and_leaves_no_file(run, start, tmp_path, again):
    assert run(*LONG, "--tasks", 2000, "--replications", 2).status == 0  # now it is compiled
    (tmp_path / "page.html").write_text("yesterday's")
    process = start(*LONG, "--tasks", 2_000_000_000)
    time.sleep(3)  # hours before its end
    assert process.poll() is None, process.communicate()

    begin = time.monotonic()
    for _ in range(again):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert time.monotonic() - begin < 5
    assert process.returncode in ((130,) if again == 1 else (130, -signal.SIGINT))
    assert out == ""
    assert err.strip() == ""
    assert os.listdir(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "yesterday's"


def test_ctrl_c_keeps_the_replications_that_are_finished(run, start, scenario, tmp_path):
    again = ("compare", "small.toml", "--report", "page.html")
    assert run(*again).status == 0  # now it is compiled
    process = start(*again, "--replications", 100_000, "--save", "kept.nc")
    time.sleep(5)  # a replication takes some 20 ms
    assert process.poll() is None, process.communicate()

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err.strip() == ""
    assert " of 100000 replications, seed 5" in out
    assert "Interrupted: " in out
    kept = Comparison.load(tmp_path / "kept.nc")
    assert kept.interrupted
    assert kept.replications > 1
    assert (tmp_path / "page.html").exists()


def test_ctrl_c_during_compilation_is_130_too(start, tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path_factory.mktemp("cold")))
    process = start(*LONG, "--tasks", 2_000_000_000)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == []


def test_progress_goes_to_a_terminal_and_leaves_the_answer_alone(scenario):
    master, terminal = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", "compare", "small.toml", "--tasks", "20000", "--json"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=scenario.parent,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        timeout=120,
    )
    os.close(terminal)
    shown = os.read(master, 1 << 20).decode()
    os.close(master)

    assert json.loads(done.stdout)["policies"]
    assert "jsq-d(d=2)" in shown
    assert "\x1b[?25h" in shown  # the cursor is back
