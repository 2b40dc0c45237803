"""`equipoise advise`, and `compare` with logs and several sizes, as typed."""

import json
import tomllib

import pytest
from runs import cut

from equipoise.errors import ConfigError
from equipoise.live.config import Config
from equipoise.policies import resolve
from equipoise.report.advise.configure import configuration
from equipoise.scenario import Scenario


@pytest.fixture(scope="module", autouse=True)
def _coarse():
    """Short runs need no path of 500 points, which would take most of their time."""
    with cut(rows=21, stretches=2):
        yield


@pytest.fixture
def trace(tmp_path):
    """Two hundred tasks, ten a second, of half a second each on average."""
    path = tmp_path / "trace.csv"
    rows = "".join(f"{i / 10},{0.1 + 0.2 * (i % 5)}\n" for i in range(200))
    path.write_text("time,duration\n" + rows)
    return path


SMALL = ("--budget", "200000", "--policies", "jsq,random,round-robin")


def test_the_answer_names_a_policy_its_gain_its_cost_and_the_next_step(run, scenario):
    answer = run("advise", scenario, "--current", "random", *SMALL, "-o", "advised.toml")
    labels = [line[:13].strip() for line in answer.out.splitlines()[3:]]

    assert answer.status == 0
    assert labels[0] == "Use"
    for label in ("Instead of", "Costs", "Because", "Would change", "Wrote", "Same again"):
        assert label in labels
    assert "Use          jsq\n" in answer.out
    assert "Same again   equipoise advise" in answer.out
    assert answer.err == ""


def test_the_configuration_is_written(run, scenario, tmp_path):
    run("advise", scenario, *SMALL, "-o", "advised.toml")

    assert tomllib.loads((tmp_path / "advised.toml").read_text())["policies"] == [{"name": "jsq"}]


def test_the_answer_is_also_json_and_a_page(run, scenario, tmp_path):
    answer = run("advise", scenario, *SMALL, "--json", "--report", "advice.html")

    assert json.loads(answer.out)["advised"]["label"] == "jsq"
    assert (tmp_path / "advice.html").stat().st_size > 10_000


def test_a_log_is_replayed_and_what_was_assumed_is_said(run, trace):
    answer = run("advise", trace, "--servers", "4", *SMALL)

    assert answer.status == 0
    assert "trace.csv     4 servers (pool)     offered 1.25" in answer.out
    assert answer.err.startswith("note: A server is taken to work on all its tasks at once")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--goal", "speed=1"), "error: goal: no metric 'speed' to reach"),
        (("--sees", "all"), "error: sees = 'all': a dispatcher can see messages"),
        (("--memory", "-1"), "error: memory = -1: must be a number, at least 0"),
        (("--current", "jsqq"), "error: no policy is called 'jsqq' (did you mean 'jsq'?)"),
        (("-o", "no/where.toml"), "error: cannot write no/where.toml: the directory"),
    ],
)
def test_what_makes_no_sense_is_one_line(run, scenario, arguments, words):
    answer = run("advise", scenario, *arguments)

    assert answer.status == 1
    assert answer.out == ""
    assert len(answer.lines) == 1
    assert answer.err.startswith(words)


def test_limits_that_nobody_keeps_name_each_limit_and_whom_it_excludes(run, scenario):
    answer = run(
        "advise", scenario, "--policies", "jsq,jsq-d", "--memory", "2", "--messages-per-task", "1"
    )

    assert answer.status == 1
    assert answer.lines == [
        "error: no policy keeps all limits",
        "error: memory = 2 excludes jsq (keeps 32 bits per server)",
        "error: messages_per_task = 1 excludes jsq-d(d=2) (takes 4 messages per task)",
    ]


def test_a_log_without_durations_asks_for_a_law(run, tmp_path):
    (tmp_path / "plain.csv").write_text("time,server\n0,a\n1,b\n")

    answer = run("advise", "plain.csv")

    assert answer.status == 1
    assert answer.lines == [
        "error: plain.csv: does not say how long tasks took; give a law of the service time, e.g. "
        "--service 'lognormal(mean=0.2, scv=4)'"
    ]


@pytest.mark.parametrize(
    "arguments", [("--kernel", "memoryless"), ("--precision", "0.1"), ("--policies", ",")]
)
def test_options_that_do_not_belong_are_usage(run, scenario, arguments):
    assert run("advise", scenario, *arguments).status == 2


def test_compare_puts_sizes_across_for_a_log(run, trace):
    answer = run("compare", trace, "--servers", "3,6", "--policies", "jsq,random")

    assert answer.status == 0
    assert "3 servers" in answer.out
    assert "6 servers" in answer.out
    assert "--servers 3,6 --policies jsq,random --seed 1" in answer.out


def test_compare_puts_sizes_across_for_a_scenario(run, scenario):
    answer = run("compare", scenario, "--servers", "4,8", "--csv")

    assert answer.out.startswith("servers,policy,metric,value,error,confidence\n4,")
    assert "\n8,jsq-d(d=2),mean_wait," in answer.out


def test_a_log_is_simulated_as_a_scenario_is(run, trace):
    answer = run("simulate", trace, "--servers", "4", "--discipline", "fcfs", "--policy", "jsq")

    assert answer.status == 0
    assert "4 servers (fcfs, 1 worker each)" in answer.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "trace.csv", "--servers", "3,6", "--save", "x.json"),
        ("compare", "--servers", "3,6", "--load", "0.5"),
        ("compare", "--servers", "3,many", "--rate", "2"),
        ("compare", "trace.csv", "--servers", "3", "--load", "0.5"),
        ("simulate", "trace.csv", "--servers", "3,6", "--policy", "jsq"),
        ("compare", "small.toml", "--format", "haproxy"),
    ],
)
def test_what_contradicts_itself_is_usage(run, trace, scenario, arguments):
    assert run(*arguments).status == 2


@pytest.mark.parametrize("policy", ["threshold(level=1)", "sujsq-det(delta=0.7)", "jsq-d"])
def test_the_dispatcher_takes_the_file_once_addresses_are_filled_in(policy):
    """Nothing else is missing from it, the time a policy's clock counts in included."""
    text = configuration(Scenario.simple(servers=2, load=0.7), resolve(policy), ["advised"])
    with pytest.raises(ConfigError, match="fill in addresses"):
        config_of(text)
    text = text.replace("# addresses", "addresses")

    assert config_of(text).spec.label == resolve(policy).label


def config_of(text):
    return Config.from_dict(tomllib.loads(text))
