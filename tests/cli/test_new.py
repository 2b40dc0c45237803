"""`equipoise new`."""

import os

import pytest

from equipoise.scenario import Scenario


@pytest.mark.parametrize("kind", ["pool", "fcfs"])
def test_what_it_writes_is_a_scenario_with_policies_that_can_be_compared(run, tmp_path, kind):
    answer = run("new", "mine.toml", "--kind", kind)

    assert answer.status == 0
    assert "equipoise compare mine.toml" in answer.out
    scenario = Scenario.from_toml(tmp_path / "mine.toml")
    assert scenario.servers.discipline == kind
    compared = run("compare", "mine.toml", "--tasks", 3000, "--replications", 2)
    assert compared.status == 0, compared.err
    for policy in scenario.policies:
        assert policy["name"] in compared.out


def test_without_a_name_it_is_scenario_toml(run, tmp_path):
    assert run("new").status == 0
    assert (tmp_path / "scenario.toml").exists()


def test_a_dash_prints_it(run, tmp_path):
    answer = run("new", "-", "--kind", "fcfs")

    assert 'discipline = "fcfs"' in answer.out
    assert os.listdir(tmp_path) == []


def test_a_file_that_exists_is_left_alone(run, tmp_path):
    (tmp_path / "mine.toml").write_text("precious")
    answer = run("new", "mine.toml")

    assert answer.status == 1
    assert answer.lines == [
        "error: mine.toml exists already; choose another name, or - to print it"
    ]
    assert (tmp_path / "mine.toml").read_text() == "precious"


@pytest.mark.parametrize("file", [".", "nosuch/mine.toml"])
def test_a_place_that_cannot_be_written_is_refused_in_one_line(run, file):
    answer = run("new", file)

    assert answer.status == 1
    assert len(answer.lines) == 1
    assert file in answer.err
