"""`equipoise simulate`."""

import json

import pytest

from equipoise.report.results import Comparison

OWN = """
from equipoise.policies import Policy, ask
from equipoise.rng import below

def choose(state, fleet, rng):
    left = below(rng, fleet.size)
    right = left + 1 if left + 1 < fleet.size else 0
    return left if ask(fleet, left) <= ask(fleet, right) else right

NEIGHBOURS = Policy("neighbours", choose=choose, probes=True,
                    about="the shorter of two neighbours", cost="4 messages per task")
"""


def test_it_prints_every_estimate_with_its_interval(run, scenario):
    answer = run("simulate", "small.toml", "--policy", "jsq-d(d=3)")

    assert answer.status == 0
    assert answer.err == ""
    assert "jsq-d(d=3)" in answer.out
    for metric in ("mean_wait", "mean_response", "p99_response", "messages_per_task"):
        assert metric in answer.out


def test_the_json_has_the_one_policy(run, scenario):
    found = json.loads(run("simulate", "small.toml", "--policy", "jiq", "--json").out)

    assert [policy["label"] for policy in found["policies"]] == ["jiq"]
    assert found["differences"] == []


def test_the_csv_has_its_estimates(run, scenario):
    lines = run("simulate", "small.toml", "--policy", "jiq", "--csv").out.splitlines()

    assert lines[0] == "policy,metric,value,error,confidence"
    assert all(line.startswith("jiq,") for line in lines[1:])


def test_a_policy_of_the_users_own_runs_like_a_built_in_one(run, scenario, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    own = json.loads(run("simulate", "small.toml", "--policy", "own.py:NEIGHBOURS", "--json").out)
    both = run("compare", "small.toml", "--policies", "random,own.py:NEIGHBOURS", "--json")

    (policy,) = own["policies"]
    assert policy["messages"]["probe"] == 4
    assert [p["name"] for p in json.loads(both.out)["policies"]] == ["neighbours", "random"]


def test_the_example_of_the_documentation_is_that_policy(run, scenario, tmp_path):
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "own-policy.md").read_text(encoding="utf-8")
    (tmp_path / "neighbours.py").write_text(page.split("```python\n")[1].split("```")[0])
    answer = run("simulate", "small.toml", "--policy", "neighbours.py:NEIGHBOURS", "--json")

    assert json.loads(answer.out)["policies"][0]["messages"]["probe"] == 4


def test_one_replication_has_the_numbers_it_has_among_the_others(run, scenario):
    run("simulate", "small.toml", "--policy", "jiq", "--save", "all.json")
    whole = Comparison.load("all.json").policy.replications
    one = run("simulate", "small.toml", "--policy", "jiq", "--replication", 2, "--json")

    (policy,) = json.loads(one.out)["policies"]
    for metric, values in whole.items():
        assert policy["metrics"][metric]["value"] == values[2], metric


def test_it_runs_until_a_precision_is_reached(run, scenario):
    answer = run(
        "simulate", "small.toml", "--policy", "jiq", "--precision", 0.05,
        "--precision-of", "mean_wait", "--budget", 500_000, "--jobs", 1,
    )  # fmt: skip

    assert answer.status == 0
    assert "mean_wait was wanted to 5 %: " in answer.out
    assert "--precision 0.05 --precision-of mean_wait --budget 500000 --policy jiq" in answer.out
    assert "--jobs" not in answer.out  # the numbers are the same


@pytest.mark.parametrize("name", ["found.json", "found.nc"])
def test_what_was_saved_is_shown_again(run, scenario, name):
    first = run("simulate", "small.toml", "--policy", "jiq", "--save", name)
    again = run("simulate", "--show", name)

    assert first.status == again.status == 0
    assert again.out == first.out
    assert run("compare", "--show", name).out == first.out
    assert json.loads(run("simulate", "--show", name, "--json").out)["seed"] == 5


@pytest.mark.parametrize(
    "more", [["small.toml"], ["--load", 0.5], ["--policy", "jsq"], ["--seed", 2], ["--jobs", 2]]
)
def test_what_is_shown_is_not_run(run, scenario, more):
    answer = run("simulate", "--show", "found.json", *more)

    assert answer.status == 2
    assert f"--show takes a result that was saved; leave out {more[0]}" in " ".join(
        answer.err.split()
    )
