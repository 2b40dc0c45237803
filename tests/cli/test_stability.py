"""`equipoise stability`."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from equipoise.scenario import Scenario

FLEET = """
[servers]
discipline = "fcfs"
groups = [{count = 80, speed = 1.0}, {count = 20, speed = 0.01}]
[arrivals]
law = "poisson"
load = 0.9
[service]
law = "exponential"
mean = 1.0
[[policies]]
name = "jsq-d"
[[policies]]
name = "sed"
"""


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    return path


def test_a_scenarios_policies_get_a_verdict_each(run, fleet):
    answer = run("stability", "fleet.toml")

    assert answer.status == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert (
        "jsq-d(d=2): UNSTABLE: load 90 % of the capacity, carries only 6.5 %: queues grow for ever"
        in lines
    )
    assert "sed: stable: load 90 % of the capacity, carries up to 100 %" in lines
    assert max(map(len, lines)) <= 100
    assert "--picture stability.svg draws capacity against d" in lines[-1]


def test_speeds_alone_do_without_a_file(run):
    answer = run("stability", "--speeds", "90x1,10x0.2", "--d", 2)

    assert answer.status == 0
    assert "90 x 1 + 10 x 0.2 (100 servers, fcfs)" in answer.out
    assert "jsq-d(d=2): loses nothing: it carries all of 92 tasks per s" in answer.out


def test_another_load_or_rate_than_the_scenarios_can_be_asked_about(run, fleet):
    low = run("stability", "fleet.toml", "--load", 0.05, "--d", 2)
    rate = run("stability", "fleet.toml", "--rate", 4.01, "--policy", "jsq-d")

    assert "jsq-d(d=2): stable: load 5 % of the capacity" in low.out
    assert rate.out == low.out


def test_the_json_is_one_object(run, fleet):
    found = json.loads(run("stability", "fleet.toml", "--json").out)

    assert found["capacity"] == pytest.approx(80.2)
    assert [policy["label"] for policy in found["policies"]] == ["jsq-d(d=2)", "sed"]
    assert found["policies"][0]["bottleneck"]["servers"] == [[80, 99]]


@pytest.mark.parametrize("name", ["s.svg", "s.png"])
def test_a_picture_is_written_where_it_is_asked_for(run, fleet, tmp_path, name):
    answer = run("stability", "fleet.toml", "--picture", name)

    assert answer.status == 0
    assert answer.out.splitlines()[-1].split() == ["Picture", name]
    assert (tmp_path / name).stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--speeds", "3x0,1"], "'3x0': a speed must be a number > 0"),
        (["--speeds", "2x-1"], "'2x-1': a speed must be a number > 0"),
        (["--speeds", "0x1"], "'0x1': a group needs at least one server"),
        (["--speeds", "fast"], "'fast' should read like 10x0.2"),
        (["--speeds", "1,,2"], "'' should read like 10x0.2"),
        (["--speeds", "1,nan"], "'nan': a speed must be a number > 0"),
        (["--speeds", "4x1", "--d", "5"], "d = 5 is more than the 4 servers there are; use d <= 4"),
        (["--speeds", "4x1", "--d", "0"], "d = 0 must be a whole number >= 1"),
        (["--speeds", "4x1", "--load", "-1"], "load = -1 must be a finite number >= 0"),
        (["--speeds", "4x1", "--rate", "inf"], "rate = inf must be a finite number >= 0"),
        (["--speeds", "4x1", "--policy", "jsqd"], "no policy is called 'jsqd' (did you mean"),
        (["--speeds", "4x1", "--policy", "sampled"], "sampled needs law, a word: sets of servers"),
        (
            ["--speeds", "4x1", "--policy", "sampled(law={0+1:0.5,2:0.3})"],
            "the probabilities of the law sum to 0.8; they must sum to 1",
        ),
        (
            ["--speeds", "4x1", "--policy", "sampled(law={:0.5,2:0.5})"],
            "a set is empty; every set must name a server",
        ),
        (
            ["--speeds", "4x1", "--policy", "sampled(law={0+9:1})"],
            "the law names server 9; there are 4, from 0 to 3",
        ),
        (
            ["--speeds", "4x1", "--policy", "sampled(law={0+1:-1,2:2})"],
            "a probability of -1 must lie between 0 and 1",
        ),
        (["--speeds", "4x1", "--d", "2", "--policy", "jsq-d"], "jsq-d(d=2) is listed twice"),
        (["--speeds", "4x1", "--picture", "s.gif"], "a picture's name must end in .svg, .png"),
        (["--speeds", "4x1", "--picture", "no/s.svg"], "does not exist; make it first"),
        (["none.toml"], "none.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_refused_in_one_line(run, tmp_path, arguments, fragment):
    answer = run("stability", *arguments)

    assert answer.status == 1, answer.out
    assert answer.out == ""
    assert len(answer.lines) == 1, answer.err
    assert answer.lines[0].startswith("error: ")
    assert fragment in answer.err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("speed = 0.01", "speed = 0.0", "servers.groups"),
        ("speed = 0.01", "speed = -2", "servers.groups"),
        ("count = 20", "count = 0", "servers.groups"),
        ("load = 0.9", "load = 1.1", "load = 1.1 >= 1"),
        ('name = "jsq-d"', 'name = "jsq-d"\nd = 101', "d = 101 is more than the 100 servers"),
        ('name = "sed"', 'name = "sampled"\nlaw = [{servers = [], probability = 1.0}]', "empty"),
    ],
)
@pytest.mark.parametrize("command", ["stability", "compare"])
def test_a_wrong_fleet_is_refused_in_one_line(run, fleet, command, old, new, fragment):
    assert FLEET.count(old) == 1
    fleet.write_text(FLEET.replace(old, new))
    answer = run(command, "fleet.toml")

    assert answer.status == 1
    assert len(answer.lines) == 1, answer.err
    assert fragment in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fleet.toml", "--speeds", "4x1"],
        ["--speeds", "4x1", "--load", "0.5", "--rate", "1"],
        ["--speeds", "4x1", "--policies", ","],
    ],
)
def test_a_wrong_command_line_says_how_to_ask(run, arguments):
    answer = run("stability", *arguments)

    assert answer.status == 2
    assert answer.out == ""


def test_simulate_refuses_an_unstable_policy_with_the_reason_in_one_line(run, fleet):
    answer = run("simulate", "fleet.toml", "--policy", "random")

    assert answer.status == 1
    assert len(answer.lines) == 1
    assert "random: unstable at load 0.9" in answer.err
    assert "the 20 slowest of 100 servers (speed 0.01)" in answer.err


def test_a_law_may_be_written_as_tables_too(run, fleet):
    fleet.write_text(
        FLEET.replace(
            'name = "sed"',
            'name = "sampled"\nlaw = [{servers = [0, 1], probability = 0.5}, '
            "{servers = [80], probability = 0.5}]",
        )
    )

    assert len(Scenario.from_toml(fleet).policies) == 2
    assert "sampled(law={0+1:0.5, 80:0.5}): UNSTABLE" in run("stability", "fleet.toml").out


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "commands" / "stability.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```text\n\$ equipoise (stability .*?)\n(.*?)\n```$", PAGE, re.DOTALL | re.M)


@pytest.mark.parametrize(("line", "answer"), SHOWN, ids=[line for line, _ in SHOWN])
def test_the_answers_on_the_page_are_those_that_are_given(run, monkeypatch, line, answer):
    monkeypatch.chdir(ROOT)

    assert run(*shlex.split(line)).out.rstrip() == answer


def test_the_page_shows_three_fleets():
    assert len(SHOWN) == 3


@pytest.mark.parametrize(
    ("example", "label", "stable", "load"),
    [
        # two of 36 small boxes of 48: 36 35/(48 47) of the tasks for 72 of 168
        ("gpu-boxes", "jsq-d(d=2)", False, 72 / 168 / (36 * 35 / (48 * 47))),
        ("gpu-boxes", "jsq-d(d=2, sampling=speed)", True, 1.0),
        ("slow-tenth", "random", False, 100 * 0.2 / 92),
        ("slow-tenth", "jsq-d(d=2)", True, 1.0),
        ("new-server", "sampled(law={0+1:0.33, 1+2:0.33, 2+3:0.33, 4:0.01})", False, 4 / 0.99 / 5),
        ("new-server", "jsq-d(d=2)", True, 1.0),
    ],
)
def test_what_the_examples_are_about_by_hand(run, monkeypatch, example, label, stable, load):
    monkeypatch.chdir(ROOT)
    found = json.loads(run("stability", f"examples/{example}.toml", "--json").out)
    policy = next(one for one in found["policies"] if one["label"] == label)

    assert policy["stable"] is stable
    assert policy["load_max"] == pytest.approx(load)
