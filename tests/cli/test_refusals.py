"""What makes no sense is refused, a line per mistake: what, where, and what would be right."""

import errno
import os
import re

import pytest

TRACE = """
[trace]
time = "TIME"
service = "took"
"""
ENDS = """
[trace]
end = "TIME"
service = "took"
"""


def refused(answer, *fragments, lines=1):
    """Assert that a command refused in so many lines, which have these fragments."""
    assert answer.status == 1, answer.err
    assert answer.out == ""
    assert len(answer.lines) == lines, answer.err
    assert all(line.startswith("error: ") for line in answer.lines)
    for fragment in fragments:
        assert fragment in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("old", "new", "fragments"),
    [
        ('name = "random"', 'name = "randon"', ["'randon'", "did you mean 'random'?"]),
        ("d = 2", "d = 9", ["d = 9", "4 servers"]),
        ("d = 2", "d = 0", ["d = 0", "a whole number >= 1"]),
        ("d = 2", "k = 2", ["'k'", "its parameters are: d, replacement"]),
        ("load = 0.7", "rate = -3.0", ["small.toml", "arrivals.rate", "-3"]),
        ("load = 0.7", "load = 1.2", ["load = 1.2 >= 1", "limit"]),
        ("load = 0.7", "load = nan", ["small.toml", "arrivals.load", "nan"]),
        ("mean = 1.0", "mean = -1.0", ["small.toml", "service.mean", "-1"]),
        ("mean = 1.0", "maen = 1.0", ["small.toml", "service.maen", "mean"]),
        ("tasks = 2000", "duration = -2.0", ["small.toml", "run.duration", "-2"]),
        ('law = "poisson"', 'law = "fish"', ["small.toml", "fish", "poisson"]),
        ("count = 4", "count = 0", ["small.toml", "servers.count", "at least 1"]),
        ("count = 4", "count = ", ["small.toml", "not TOML"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_scenario_is_refused_in_one_line(run, changed, tmp_path, old, new, fragments):
    changed(old, new)
    answer = run("compare", "small.toml", "--report", "page.html")

    refused(answer, *fragments)
    assert os.listdir(tmp_path) == ["small.toml"]


def test_every_mistake_of_a_scenario_gets_its_line(run, scenario):
    scenario.write_text(scenario.read_text().replace("= 4", "= 0").replace("0.7", "-0.7"))

    refused(run("compare", "small.toml"), "servers.count", "arrivals.load", lines=2)


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        (["--load", "1.2"], ["load = 1.2 >= 1"]),
        (["--rate", "-1"], ["rate", "-1"]),
        (["--load", "nan"], ["load", "nan"]),
        ([], ["load", "rate"]),
        (["--load", "0.5", "--service", "lognormol"], ["lognormol", "lognormal"]),
        (["--load", "0.5", "--service", "lognormal(mean=-1, scv=4)"], ["mean", "-1"]),
        (["--load", "0.5", "--duration", "-1"], ["duration", "-1"]),
        (["--load", "0.5", "--replications", "0"], ["replications", "at least 1"]),
        (["--load", "0.5", "--limit", "0"], ["limit", "at least 1"]),
        (["--load", "0.5", "--policies", "nosuch.py:MINE"], ["nosuch.py", "no such file"]),
        (["--load", "0.5", "--policies", "jsq(("], ["jsq(("]),
        (["--load", "0.5", "--policies", "jsq,jsq"], ["jsq is listed twice"]),
        (["--load", "0.5", "--policies", "jsq-d(d=5)"], ["d = 5", "4 servers"]),
        (["--load", "0.5", "--policies", "threshold"], ["threshold", "level"]),
        (
            ["--load", "0.5", "--policies", "jsq", "--rank-by", "beauty"],
            ["beauty", "mean_response"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_wrong_flags_are_refused_in_one_line(run, flags, fragments):
    refused(run("compare", "--servers", 4, *flags), *fragments)


@pytest.mark.parametrize(
    ("tables", "rows", "fragments"),
    [
        (TRACE, "when,took\n0,1\n", ["trace.csv", "TIME", "when"]),
        (TRACE, "TIME,took\n0,1\nsoon,1\n", ["trace.csv", "line 3", "soon"]),
        (TRACE, "TIME,took\n0,1\n5,1\n4,1\n", ["trace.csv", "line 4", "sort"]),
        (ENDS, "TIME,took\n1,0.1\n5,4.9\n", ["trace.csv", "line 3", "sort"]),
        (TRACE, "TIME,took\n0,1\n1,nan\n", ["trace.csv", "line 3", "nan"]),
        (TRACE, "TIME,took\n0,1\n1,-2\n", ["trace.csv", "line 3", "-2"]),
        (TRACE, "", ["trace.csv", "empty"]),
    ],
    ids=["column", "time", "back", "back after ends", "nan", "negative", "empty"],
)
def test_a_trace_that_makes_no_sense_is_refused_in_one_line(
    run, scenario, tmp_path, tables, rows, fragments
):
    scenario.write_text(scenario.read_text() + tables)
    (tmp_path / "trace.csv").write_text(rows)

    refused(run("compare", "small.toml", "--trace", "trace.csv"), *fragments)


def test_a_trace_that_is_not_text_is_refused_in_one_line(run, scenario, tmp_path):
    scenario.write_text(scenario.read_text() + TRACE)
    (tmp_path / "trace.csv").write_bytes(b"TIME,took\n0,1\n1,\xff\xfe\n")

    refused(run("compare", "small.toml", "--trace", "trace.csv"), "trace.csv", "line 3", "UTF-8")


def test_a_task_that_takes_no_time_is_allowed(run, scenario, tmp_path):
    text = scenario.read_text().replace("warm_up = 100.0", "warm_up = 0.0")
    scenario.write_text(text.replace("tasks = 2000\n", "") + TRACE)
    (tmp_path / "trace.csv").write_text("TIME,took\n0,1\n1,0\n2,1\n3,0.5\n")

    assert run("compare", "small.toml", "--trace", "trace.csv").status == 0


@pytest.mark.parametrize("command", [["compare"], ["simulate", "--policy", "jsq"]], ids=" ".join)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(run, command, tmp_path):
    (tmp_path / "empty.toml").touch()
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"\n')

    refused(run(*command, "nosuch.toml"), "nosuch.toml", "no such file")
    refused(run(*command, "."), ".", "directory")
    refused(run(*command, "empty.toml"), "empty.toml", "empty")
    refused(run(*command, "latin.toml"), "latin.toml", "line 1", "UTF-8")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused_in_one_line(run, scenario):
    scenario.chmod(0)

    refused(run("compare", "small.toml"), "small.toml", "permission")


OWN = """
from equipoise.policies import Policy
from equipoise.rng import below

def choose(state, fleet, rng):
    return {}

MINE = Policy("mine", choose=choose)
"""


@pytest.mark.parametrize(
    ("body", "fragments"),
    [
        ("fleet.size", ["does not exist", "0 to 3"]),
        ("-1", ["does not exist", "0 to 3"]),
        ("below(rng, 1 // 0)", ["line 6", "ZeroDivisionError"]),
        ("fleet.length[0]", ["line 6", "probes=True"]),
        ("nosuch", ["line 6", "NameError", "nosuch"]),
        ("id(fleet) * 0", ["own.py", "does not compile"]),  # though it runs
        ("", ["None"]),
        ("below(rng", ["own.py", "line", "SyntaxError"]),
    ],
)
@pytest.mark.parametrize(
    "command", [["compare", "--policies"], ["simulate", "--policy"]], ids=" ".join
)
def test_a_policy_of_the_users_own_that_fails_is_refused_in_one_line(
    run, tmp_path, command, body, fragments
):
    (tmp_path / "own.py").write_text(OWN.format(body))
    name, option = command
    answer = run(
        name, "--servers", 4, "--load", 0.5, "--tasks", 1000, option, "own.py:MINE"
    )  # fmt: skip

    refused(answer, "own.py", *fragments)


def test_a_file_without_the_policy_is_refused_with_those_it_has(run, tmp_path):
    (tmp_path / "own.py").write_text(OWN.format("0"))

    refused(run("simulate", "--servers", 4, "--load", 0.5, "--policy", "own.py:YOURS"), "MINE")


@pytest.mark.parametrize("command", [("compare",), ("simulate", "--policy", "jsq")])
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nosuch/found.nc", "the directory"),
        (".", "it is a directory"),
        ("found.csv", "results are saved as .json or .nc"),
    ],
)
def test_a_result_that_could_not_be_saved_is_refused_before_the_simulation(
    run, scenario, tmp_path, command, target, said
):
    answer = run(*command, "small.toml", "--tasks", 10**12, "--save", target)

    refused(answer, f"cannot write {target}", said)
    assert os.listdir(tmp_path) == ["small.toml"]


def test_an_answer_that_cannot_be_saved_in_the_end_is_printed_all_the_same(
    run, scenario, tmp_path, monkeypatch
):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "found.json").write_text("yesterday's")
    monkeypatch.setattr(os, "fsync", full)
    answer = run("compare", "small.toml", "--save", "found.json")

    assert answer.status == 1
    assert "jsq-d" in answer.out
    assert answer.lines == ["error: cannot write found.json: no space left on device"]
    assert (tmp_path / "found.json").read_text() == "yesterday's"


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        (["--precision", "2"], ["precision = 2", "e.g. 0.01 for 1 %"]),
        (["--budget", "100"], ["budget", "precision"]),
        (["--precision", "0.1", "--precision-of", "speed"], ["speed", "mean_response"]),
        (["--precision", "0.1", "--budget", "100", "--tasks", "80"], ["budget = 100", "80 tasks"]),
        (["--jobs", "0"], ["workers = 0", "at least 1"]),
        (["--show", "nosuch.json"], ["nosuch.json", "no such file"]),
    ],
)
def test_wrong_numbers_of_a_run_are_refused_in_one_line(run, flags, fragments):
    fleet = [] if "--show" in flags else ["--servers", 4, "--load", 0.5]

    refused(run("compare", *fleet, *flags), *fragments)


@pytest.mark.parametrize("target", [".", "nosuch/page.html"])
def test_a_page_that_could_not_be_written_is_refused_before_the_simulation(
    run, scenario, tmp_path, target
):
    refused(run("compare", "small.toml", "--report", target), f"cannot write {target}")
    assert not re.search("page", " ".join(os.listdir(tmp_path)))


def test_a_clock_that_would_not_strike_once_in_the_run(run):
    answer = run(
        *("simulate", "--servers", "4", "--load", "0.5", "--duration", "20"),
        *("--policy", "aujsq-det(delta=0.01)"),
    )

    refused(answer, "every 100 s, but the run is only 20 s long; take delta > 0.05")
