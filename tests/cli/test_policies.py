"""`equipoise policies`."""

import json

import pytest

from equipoise.policies import POLICIES

OWN = """
from equipoise.policies import Policy
from equipoise.rng import below

def init(bounds, speeds, announcement, reach=2):
    raise AssertionError("only asked for facts")

def choose(state, fleet, rng):
    return below(rng, fleet.size)

MINE = Policy("mine", init, choose, about="what mine does", source="a napkin", cost="nothing")
"""


def test_the_list_tells_what_each_policy_does_needs_costs_and_comes_from(run):
    answer = run("policies")

    assert answer.status == 0
    text = " ".join(answer.out.split())
    for policy in POLICIES.values():
        assert f" {policy.name}" in f" {text}"
        for fact in (policy.about, policy.cost, policy.source):
            assert fact
            assert fact in text
    assert "Ties are broken uniformly" in text
    assert "without replacement unless replacement=true" in text
    assert max(map(len, answer.out.splitlines())) <= 88


def test_one_policy_is_told_with_its_parameters(run):
    answer = run("policies", "threshold")

    assert answer.status == 0
    assert "threshold(level=..., step=1)" in answer.out
    assert "the threshold l" in answer.out
    assert "jsq-d" not in answer.out


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("random", "the speeds of the servers if weighted=true"),
        ("jsq-d", "the speeds of the servers if sampling=speed, to ask servers for their lengths"),
        ("sed", "the speeds of the servers, messages from the servers"),
        ("ll-d", "the sizes of the tasks (simulation only), to ask servers for their work left"),
    ],
)
def test_what_a_policy_must_see_is_told(run, name, needs):
    assert needs in " ".join(run("policies", name).out.split())


def test_the_json_has_every_fact_of_every_policy(run):
    found = json.loads(run("policies", "--json").out)

    assert [policy["name"] for policy in found] == list(POLICIES)
    keys = {"name", "about", "parameters", "memory_bits", "cost", "probes", "announces", "needs"}
    assert all(policy.keys() == keys | {"clock", "source"} for policy in found)
    jsq_d = next(policy for policy in found if policy["name"] == "jsq-d")
    assert jsq_d["parameters"]["d"]["default"] == 2
    assert jsq_d["probes"] is True


def test_a_policy_of_the_users_own_is_told_like_the_others(run, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    answer = run("policies", "mine.py:MINE")

    assert answer.status == 0
    assert "mine(reach=2)" in answer.out
    assert "what mine does" in answer.out
    assert "a napkin" in answer.out


def test_an_unknown_policy_is_refused_in_one_line_with_those_there_are(run):
    answer = run("policies", "treshold")

    assert answer.status == 1
    assert answer.out == ""
    assert len(answer.lines) == 1
    assert "'treshold'" in answer.err
    assert "did you mean 'threshold'?" in answer.err
