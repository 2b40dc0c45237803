"""A wrong scenario gives one plain line per mistake: where, what, what would be right."""

import copy
import os

import pytest

from equipoise.errors import EquipoiseError, ScenarioError, UnstableError
from equipoise.scenario import Poisson, Rates, Run, Scenario, Servers

GOOD = {
    "servers": {"count": 4, "discipline": "pool"},
    "arrivals": {"law": "poisson", "load": 2.0},
    "service": {"law": "exponential", "mean": 1.0},
    "policies": [{"name": "jsq"}, {"name": "jsq-d", "d": 2}],
    "run": {"duration": 10.0},
}


def changed(key, value):
    """GOOD with one dotted key set, or taken out where the value is None."""
    tables = copy.deepcopy(GOOD)
    *path, last = key.split(".")
    table = tables
    for part in path:
        table = table.setdefault(part, {})
    if value is None:
        del table[last]
    else:
        table[last] = value
    return tables


RATES = {"law": "rates"}
SINUSOID = {"law": "sinusoid", "load": 2.0, "amplitude": 1.0, "period": 5.0}
PHASES = {"law": "phase-type", "initial": [1.0, 0.0], "generator": [[-1.0, 0.5], [0.0, -1.0]]}
WRONG = [
    (
        "servers",
        {"count": 1, "discipline": "ps", "curve": [1.0, 0.0]},
        "servers.curve #2 = 0.0: must be more than 0",
    ),
    (
        "servers",
        {"count": 1, "discipline": "ps", "curve": [-1.0]},
        "servers.curve #1 = -1.0: must be more than 0",
    ),
    (
        "servers",
        {"count": 1, "discipline": "ps", "curve": []},
        "servers.curve: needs at least 1 value",
    ),
    (
        "servers",
        {"count": 1, "discipline": "ps", "curve": "fast"},
        "servers.curve = 'fast': must be a list in brackets",
    ),
    (
        "arrivals",
        SINUSOID | {"amplitude": 3.0},
        "arrivals.amplitude: 3 is above the mean, load = 2, so the rate would fall below 0; it "
        "must be at most 2",
    ),
    (
        "arrivals",
        {"law": "sinusoid", "load": 2.0, "period": 5.0},
        "arrivals.amplitude: missing; how far the rate goes above and below its mean, e.g. "
        "amplitude = 0.3",
    ),
    ("arrivals", SINUSOID | {"period": 0.0}, "arrivals.period = 0.0: must be more than 0"),
    (
        "arrivals",
        SINUSOID | {"rate": 1.0},
        "arrivals: give either rate (tasks per second, all servers together) or load, not both",
    ),
    (
        "arrivals",
        RATES | {"bin": 1.0, "counts": [1.0, 2.0], "interpolation": "linear"},
        "arrivals.counts: a line goes through rates; give rates in their place",
    ),
    (
        "arrivals",
        RATES | {"bin": 1.0, "rates": [1.0], "interpolation": "linear"},
        "arrivals.rates: a line needs at least 2 rates",
    ),
    (
        "arrivals",
        RATES | {"times": [0.0, 1.0, 2.0], "rates": [1.0, 2.0], "interpolation": "linear"},
        "arrivals.times: 3 times for 2 rates; there must be as many, the last being the end",
    ),
    (
        "arrivals",
        RATES | {"bin": 1.0, "rates": [1.0], "interpolation": "cubic"},
        "arrivals.interpolation = 'cubic': must be 'steps' or 'linear'",
    ),
    (
        "arrivals.batch",
        0,
        "arrivals.batch = 0: 0 must be a whole number from 1 to 1000000, "
        '{law = "geometric", mean = 2.5}, or {values = [1, 10], probabilities = [0.9, 0.1]}',
    ),
    (
        "arrivals.batch",
        {"law": "geometric"},
        'arrivals.batch: give one of a whole number, {law = "geometric", mean = 2.5}, or '
        "{values = [1, 10], probabilities = [0.9, 0.1]}",
    ),
    (
        "arrivals.batch",
        {"law": "poisson", "mean": 2.0},
        "arrivals.batch.law = 'poisson': must be 'geometric'",
    ),
    (
        "arrivals.batch",
        {"law": "geometric", "mean": 0.5},
        "arrivals.batch.mean = 0.5: must be at least 1",
    ),
    (
        "arrivals.batch",
        {"values": [1, 0]},
        "arrivals.batch.values #2 = 0: must be at least 1",
    ),
    (
        "arrivals.batch",
        {"values": [1, 2], "probabilities": [0.5, 0.6]},
        "arrivals.batch.probabilities: their sum is 1.1; it must be 1",
    ),
    (
        "arrivals.batch",
        {"values": [1, 2], "probabilities": [1.0]},
        "arrivals.batch.probabilities: 1 probabilities for 2 values; there must be as many",
    ),
    (
        "service",
        {"law": "coxian"},
        "service.rates: missing; of the phases, per second, e.g. rates = [2.0, 0.5]",
    ),
    (
        "service",
        {"law": "coxian", "rates": [2.0, 0.5]},
        "service.probabilities: 0 for 2 rates; there must be 1, the chance to go on after each "
        "phase but the last",
    ),
    (
        "service",
        {"law": "coxian", "rates": [2.0, 0.0], "probabilities": [0.5]},
        "service.rates #2 = 0.0: must be more than 0",
    ),
    (
        "service",
        {"law": "coxian", "rates": [2.0, 1.0], "probabilities": [1.5]},
        "service.probabilities #1 = 1.5: must be at most 1",
    ),
    (
        "service",
        PHASES | {"generator": [[-1.0, 1.0]]},
        "service.generator: 1 row for 2 initial probabilities; there must be as many",
    ),
    (
        "service",
        PHASES | {"generator": [[-1.0, 1.0], [-1.0]]},
        "service.generator #2: 1 rates; the matrix is square, so it needs 2",
    ),
    (
        "service",
        PHASES | {"generator": [[-1.0, 2.0], [0.0, -1.0]]},
        "service.generator #1: the sum is 1; it must be at most 0, minus the rate of ending",
    ),
    (
        "service",
        PHASES | {"generator": [[-1.0, 0.5], [-0.1, -1.0]]},
        "service.generator #2: a rate to another phase is negative; it must be at least 0",
    ),
    (
        "service",
        PHASES | {"generator": [[0.0, 0.0], [0.0, -1.0]]},
        "service.generator #1: 0 on the diagonal; minus the rate of leaving must be below 0",
    ),
    (
        "service",
        PHASES | {"generator": [[-1.0, 1.0], [1.0, -1.0]]},
        "service.generator: from phase #1 the service never ends; some phase that follows must "
        "have a row whose sum is below 0",
    ),
    (
        "service",
        PHASES | {"initial": [0.5, 0.4]},
        "service.initial: their sum is 0.9; it must be 1",
    ),
    (
        "service",
        {"law": "bounded-pareto", "index": 1.5},
        "service: give either least and largest, or ratio (largest over least) and mean",
    ),
    (
        "service",
        {"law": "bounded-pareto", "index": 1.5, "least": 2.0, "largest": 1.0},
        "service.largest: 1 must be more than least = 2",
    ),
    (
        "service",
        {"law": "bounded-pareto", "index": 0.0, "ratio": 10.0},
        "service.index = 0.0: must be more than 0",
    ),
    (
        "service",
        {"law": "bounded-pareto", "index": 1.0, "ratio": 1.0},
        "service.ratio = 1.0: must be more than 1",
    ),
    ("servers.count", 0, "servers.count = 0: must be at least 1"),
    ("servers.count", 2.5, "servers.count = 2.5: must be a whole number"),
    ("servers.count", "4", "servers.count = '4': must be a whole number"),
    ("servers.count", True, "servers.count = True: must be a whole number"),
    ("servers.count", None, "servers.count: missing; how many servers, e.g. count = 20"),
    ("servers.cuont", 4, "servers.cuont: unknown key; did you mean 'count'?"),
    (
        "servers.discipline",
        "pol",
        "servers.discipline = 'pol': must be 'pool', 'fcfs', 'ps' or 'slotted'; "
        "did you mean 'pool'?",
    ),
    (
        "servers.workers",
        2,
        'servers.workers: only servers of discipline "fcfs" or "ps" have workers; '
        "a pool works on all its tasks",
    ),
    ("servers", 4, "servers = 4: must be a table"),
    ("servers", None, "servers: missing; add a [servers] table with count and discipline"),
    ("polices", [], "polices: unknown key; did you mean 'policies'?"),
    ("arrivals.load", -2.0, "arrivals.load = -2.0: must be more than 0"),
    ("arrivals.load", float("nan"), "arrivals.load = nan: must be a finite number"),
    ("arrivals.load", "2", "arrivals.load = '2': must be a number"),
    (
        "arrivals.rate",
        2.0,
        "arrivals: give either rate (tasks per second, all servers together) or load, not both",
    ),
    (
        "arrivals.law",
        "poison",
        "arrivals: no such law: 'poison'; it must be 'poisson', 'sinusoid', 'rates', "
        "'trace' or 'slots'"
        "; did you mean 'poisson'?",
    ),
    (
        "arrivals.law",
        None,
        "arrivals: law is missing; choose law = 'poisson', 'sinusoid', 'rates', 'trace' or 'slots'",
    ),
    (
        "arrivals",
        RATES | {"rates": [1.0, -1.0], "bin": 1.0},
        "arrivals.rates #2 = -1.0: must be at least 0",
    ),
    (
        "arrivals",
        RATES | {"rates": [1.0]},
        "arrivals.bin: missing; rates need bin (s) or times (s)",
    ),
    (
        "arrivals",
        RATES | {"bin": 5.0},
        "arrivals: give one of rates, counts or file; there is none of them",
    ),
    (
        "arrivals",
        RATES | {"rates": [1.0], "times": [0.0]},
        "arrivals.times: needs at least 2 values",
    ),
    (
        "arrivals",
        RATES | {"rates": [1.0, 2.0], "times": [0.0, 3.0]},
        "arrivals.times: 2 times for 2 rates; there must be one more than rates, the last "
        "being the end",
    ),
    (
        "arrivals",
        RATES | {"rates": [1.0, 2.0], "times": [0.0, 3.0, 2.0]},
        "arrivals.times: 2 follows 3; each time must be later than the last",
    ),
    (
        "arrivals",
        RATES | {"rates": [0.0, 0.0], "bin": 1.0},
        "arrivals: all rates are 0, so no task would ever come",
    ),
    (
        "arrivals",
        RATES | {"file": "no-such.csv", "bin": 1.0},
        "arrivals.file: no-such.csv: no such file",
    ),
    (
        "arrivals",
        {"law": "trace", "file": "t.csv", "end": "END"},
        "arrivals.end: an arrival is the end less the service time, so service.law must be "
        "'trace'",
    ),
    (
        "arrivals",
        {"law": "trace", "file": "t.csv", "time": "t", "scale": 1.5},
        "arrivals.scale = 1.5: must be a whole number",
    ),
    (
        "service",
        {"law": "trace", "column": "d"},
        "service.law: the times of a trace need its arrivals too; set arrivals.law = 'trace', or "
        "put the columns into a [trace] table and name the file with --trace",
    ),
    (
        "service",
        {"law": "hyperexponential", "scv": 0.5},
        "service.scv = 0.5: must be at least 1",
    ),
    (
        "service",
        {"law": "hyperexponential", "probabilities": [0.5, 0.4], "means": [1.0, 2.0]},
        "service.probabilities: their sum is 0.9; it must be 1",
    ),
    (
        "service",
        {"law": "empirical", "values": [1.0, -2.0]},
        "service.values: the least service time comes to -2 s; it must be at least 0",
    ),
    (
        "service",
        {"law": "empirical", "quantiles": [1.0, 3.0, 2.0]},
        "service.quantiles: quantiles must not fall",
    ),
    (
        "service",
        {"law": "erlang", "mean": 1.0},
        "service.shape: missing; a whole number, e.g. shape = 2",
    ),
    (
        "trace",
        {"end": "END"},
        "trace.service: missing; an arrival is the end less the service time",
    ),
    (
        "trace",
        {"time": "t", "service": {"constant": 0.1}},
        "trace.service: names no column; for a constant time use the law 'deterministic'",
    ),
    (
        "policies",
        [{"name": "jsq"}, {}],
        'policies #2.name: missing; say which policy, e.g. name = "jsq"',
    ),
    ("policies", [{"name": 3}], "policies #1.name: 3 must be a policy's name in quotes"),
    ("policies", "jsq", "policies = 'jsq': must be [[policies]] tables, one for each policy"),
    ("run.tasks", 10, "run.tasks: duration is given too; give one of them, the other follows"),
    (
        "run.start",
        "blanced",
        "run.start = 'blanced': must be 'empty', 'balanced' or a list of lengths"
        "; did you mean 'balanced'?",
    ),
    ("run.start", [1, 2], "run.start: 2 lengths for 4 servers; there must be one for each"),
    (
        "run.start",
        [1, 2, -1, 0],
        "run.start #3: -1 is no length; it must be a whole number, at least 0",
    ),
    (
        "run.warm_up",
        "atuo",
        "run.warm_up = 'atuo': must be 'auto' or a number of seconds, at least 0",
    ),
    ("run.warm_up", 10.0, "run.warm_up: 10 s leaves nothing of the 10 s to measure"),
    ("run.seed", -1, "run.seed = -1: must be at least 0"),
    ("name", 3, "name = 3: must be a text in quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "line"), WRONG, ids=[f"{k}={v}" for k, v, _ in WRONG])
def test_a_mistake_is_one_plain_line(key, value, line):
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(changed(key, value))

    assert str(caught.value) == line


def test_the_good_scenario_is_good():
    assert Scenario.from_dict(GOOD).servers.count == 4


def test_every_mistake_of_a_file_is_found_at_once(tmp_path):
    file = tmp_path / "chat.toml"
    file.write_text(
        """
        [servers]
        count = -3
        discpline = "pool"
        [arrivals]
        law = "poisson"
        load = 0
        [service]
        law = "lognormal"
        [[policies]]
        nme = "jsq"
        """
    )

    with pytest.raises(ScenarioError) as caught:
        Scenario.from_toml(file)

    assert str(caught.value).split("\n") == [
        f"{file}: servers.count = -3: must be at least 1",
        f'{file}: servers.discipline: missing; "pool" (all tasks at once), "fcfs" (first come, '
        'first served) or "ps" (shared)',
        f"{file}: servers.discpline: unknown key; did you mean 'discipline'?",
        f"{file}: arrivals.load = 0: must be more than 0",
        f"{file}: service.scv: missing; the squared coefficient of variation, e.g. scv = 4.0",
        f'{file}: policies #1.name: missing; say which policy, e.g. name = "jsq"',
    ]


def test_parts_made_in_python_speak_the_same_way():
    with pytest.raises(ScenarioError) as caught:
        Servers(count=0, discipline="fifo")

    assert str(caught.value).split("\n") == [
        "Servers: count = 0: must be at least 1",
        "Servers: discipline = 'fifo': must be 'pool', 'fcfs', 'ps' or 'slotted'",
    ]


@pytest.mark.parametrize(
    "make", [lambda: Poisson(), lambda: Rates(bin=1.0), lambda: Run(tasks="x")]
)
def test_no_text_of_pydantic_reaches_the_user(make):
    with pytest.raises(ScenarioError) as caught:
        make()

    text = str(caught.value)
    assert "pydantic" not in text
    assert "Input should" not in text
    assert "Value error" not in text
    assert "\n" not in text


def test_a_load_of_one_or_more_is_refused_without_a_limit():
    tables = changed("servers.discipline", "fcfs")
    tables["arrivals"]["load"] = 1.2

    with pytest.raises(UnstableError) as caught:
        Scenario.from_dict(tables)
    tables["servers"]["limit"] = 10
    limited = Scenario.from_dict(tables)

    assert str(caught.value) == (
        "load = 1.2 >= 1: work arrives faster than the servers can do it; lower the load, add "
        "servers, or set a limit"
    )
    assert limited.offered_load() == (1.2, 1.2, 1.2)


def test_a_rate_that_is_too_high_is_refused_by_the_load_it_makes():
    with pytest.raises(UnstableError, match=r"^load = 1\.5 >= 1"):
        Scenario.simple(servers=4, rate=3.0, service="exponential(mean=2.0)")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "the file is empty; `equipoise new` writes one to start from"),
        (b"\n# only a comment", None),
        (b"name = \n", "not TOML: Invalid value (at line 1, column 8)"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(tmp_path, content, line):
    file = tmp_path / "s.toml"
    file.write_bytes(content)

    with pytest.raises(ScenarioError) as caught:
        Scenario.from_toml(file)

    if line is None:
        assert f"{file}: servers: missing" in str(caught.value)
    else:
        assert str(caught.value) == f"{file}: {line}"


def test_broken_utf8_is_refused_with_its_line(tmp_path):
    file = tmp_path / "s.toml"
    file.write_bytes(b'name = "a"\n# caf\xe9\n')

    with pytest.raises(ScenarioError) as caught:
        Scenario.from_toml(file)

    assert str(caught.value).startswith(f"{file}, line 2: not UTF-8 text")


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    (tmp_path / "chat.toml").write_text("")

    with pytest.raises(ScenarioError) as missing:
        Scenario.from_toml(tmp_path / "chta.toml")
    with pytest.raises(ScenarioError) as folder:
        Scenario.from_toml(tmp_path)

    assert str(missing.value) == f"{tmp_path}/chta.toml: no such file; did you mean 'chat.toml'?"
    assert str(folder.value) == f"{tmp_path}: is a directory; name a file in it"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_is_refused(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("name = 'a'")
    file.chmod(0)

    with pytest.raises(EquipoiseError, match="no permission to read it"):
        Scenario.from_toml(file)


def test_windows_line_ends_are_read(tmp_path):
    file = tmp_path / "s.toml"
    text = '[servers]\ncount = 2\ndiscipline = "pool"\n[arrivals]\nlaw = "poisson"\nload = 1\n'
    file.write_bytes((text + '[service]\nlaw = "exponential"').replace("\n", "\r\n").encode())

    assert Scenario.from_toml(file).name == "s"
