"""`equipoise simulate`."""

import json

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
