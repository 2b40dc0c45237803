"""What follows from a scenario: loads, rates, start states, and other runs of the same."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

from equipoise.errors import ScenarioError
from equipoise.scenario import (
    Exponential,
    Poisson,
    Rates,
    Run,
    Scenario,
    Servers,
    Sinusoid,
    TraceColumns,
    template,
)


def scenario(**changes):
    parts = {
        "servers": Servers(count=4, discipline="fcfs", workers=2),
        "arrivals": Poisson(load=0.75),
        "service": Exponential(mean=2.0),
    }
    return Scenario(**(parts | changes))


POOLS = Servers(count=4, discipline="pool")
RAMP = Rates(bin=10.0, rates=(1.0, 3.0, 8.0))


def test_a_load_becomes_a_rate_of_all_servers_together():
    assert scenario().rate_table()[1].tolist() == [0.75 * 4 * 2 / 2.0]
    assert scenario(servers=POOLS).rate_table()[1].tolist() == [0.75 * 4 / 2.0]
    assert scenario(arrivals=Poisson(load=0.25, scale=2.0)).offered_load() == (0.5, 0.5, 0.5)


def test_a_rate_becomes_a_load():
    assert scenario(arrivals=Poisson(rate=3.0)).offered_load()[0] == pytest.approx(0.75)


def test_changing_rates_offer_a_mean_a_least_and_a_most():
    ramp = scenario(servers=POOLS, arrivals=RAMP)

    assert ramp.offered_load() == pytest.approx((2.0, 0.5, 4.0))
    assert ramp.horizon == 30
    assert ramp.with_run(duration=15.0).offered_load() == pytest.approx((2.5 / 3, 0.5, 1.5))
    assert ramp.with_run(duration=15.0).horizon == 15
    assert ramp.with_run(duration=60.0).offered_load() == ramp.offered_load()
    assert ramp.with_run(tasks=100).horizon is None


def test_the_kernels_are_told_what_they_must_know():
    assert scenario().memoryless
    assert scenario().stationary
    assert scenario().given is None
    assert scenario(arrivals=RAMP).memoryless
    assert not scenario(arrivals=RAMP).stationary
    assert not Scenario.simple(servers=2, load=0.5, service="erlang(shape=2)").memoryless


def test_the_start_may_be_empty_balanced_or_given():
    def lengths(**run):
        return scenario(servers=POOLS, arrivals=Poisson(load=2.3), run=Run(**run)).start_lengths()

    assert lengths().tolist() == [0, 0, 0, 0]
    assert lengths(start="balanced").tolist() == [3, 2, 2, 2]  # round(9.2)
    assert lengths(start=[3, 0, 0, 1]).tolist() == [3, 0, 0, 1]
    assert lengths(start=np.array([3, 0, 0, 1])).dtype == np.int64
    assert scenario(run=Run(start="balanced")).start_lengths().tolist() == [2, 2, 1, 1]


def test_a_run_without_a_length_gets_one_that_gives_way():
    default = scenario()
    many = scenario(servers=Servers(count=5000, discipline="fcfs"))

    assert default.run.tasks == 1_000_000
    assert many.run.tasks == 5_000_000
    assert default.with_run(duration=5.0).run.tasks is None
    assert default.with_run(seed=3).run.tasks == 1_000_000
    assert scenario(run=Run(duration=5.0)).with_run(tasks=7).run.duration is None


def test_another_run_leaves_the_rest_as_it_is():
    other = scenario().with_run(replications=2, seed=9, warm_up=3.0)

    assert other.run.replications == 2
    assert other.run.seed == 9
    assert other.run.warm_up == 3.0
    assert other.servers == scenario().servers


def test_a_wrong_run_is_refused():
    with pytest.raises(ScenarioError, match=r"run\.replications = 0: must be at least 1"):
        scenario().with_run(replications=0)
    with pytest.raises(ScenarioError, match=r"run\.sed: unknown key; did you mean 'seed'\?"):
        scenario().with_run(sed=2)


def test_a_scenario_survives_its_tables_and_pickling():
    ramp = scenario(arrivals=RAMP, policies=({"name": "jsq-d", "d": 2},), name="ramp")

    assert Scenario.from_dict(ramp.to_dict()) == ramp
    assert pickle.loads(pickle.dumps(ramp)) == ramp
    assert ramp.to_dict()["policies"] == [{"name": "jsq-d", "d": 2}]


def test_a_trace_takes_the_place_of_arrivals_and_service(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,took\n0,1\n1,2\n2,6\n")
    columns = TraceColumns(time="when", service="took", jitter=0.5)
    base = scenario(arrivals=Poisson(load=0.25, scale=2), trace=columns)

    replay = base.with_trace(path)

    assert replay.arrivals.scale == 2
    assert replay.arrivals.jitter == 0.5
    assert replay.mean_service == 3
    assert replay.run.tasks is None
    assert replay.horizon == 3.5
    assert replay.offered_load()[0] == pytest.approx(2 * 9 / 3.5 / 8)
    assert (replay.rate_table()[1].sum() * 3.5 / 500) == pytest.approx(6)
    assert replay.with_run(replications=1).recording is replay.recording


def test_a_trace_without_a_service_column_keeps_the_law(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when\n0\n1\n")

    replay = scenario(trace=TraceColumns(time="when")).with_trace(path)

    assert replay.service == Exponential(mean=2.0)
    assert replay.given == "arrivals"


def test_a_fractional_scale_cannot_multiply_a_trace(tmp_path):
    base = scenario(arrivals=Poisson(load=0.3, scale=1.5), trace=TraceColumns(time="t"))

    with pytest.raises(ScenarioError, match=r"^arrivals\.scale = 1\.5: must be a whole number$"):
        base.with_trace(tmp_path / "t.csv")


def test_a_few_numbers_make_a_scenario():
    simple = Scenario.simple(
        servers=100, discipline="pool", load=2.5, service="lognormal(mean=0.5, scv=4)",
        duration=20.0, replications=None, seed=7,
    )  # fmt: skip

    assert simple.name == "100 servers (pool), load 2.5, lognormal(mean=0.5, scv=4)"
    assert simple.service.moments() == (0.5, 4)
    assert simple.run == Run(duration=20.0, seed=7)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({"servers": 0, "load": 0.5}, "servers = 0: must be at least 1"),
        (
            {"servers": 3},
            "give either rate (tasks per second, all servers together) or load",
        ),
        ({"servers": 3, "load": -1}, "load = -1: must be more than 0"),
        ({"servers": 3, "load": 0.5, "sede": 1}, "sede: unknown key; did you mean 'seed'?"),
        (
            {"servers": 3, "load": 0.5, "service": "lognorml"},
            "service = 'lognorml': no such law; it must be 'exponential', 'deterministic', "
            "'erlang', 'hyperexponential', 'lognormal', 'coxian', 'phase-type', 'bounded-pareto' "
            "or 'empirical'; did you mean 'lognormal'?",
        ),
        (
            {"servers": 3, "load": 0.5, "service": "erlang(2)"},
            "service = 'erlang(2)': write a law with its parameters, e.g. lognormal(mean=1, scv=4)",
        ),
        (
            {"servers": 3, "load": 0.5, "service": "erlang(shape=2"},
            "service = 'erlang(shape=2': write a law with its parameters, e.g. "
            "lognormal(mean=1, scv=4)",
        ),
        (
            {"servers": 3, "load": 0.5, "service": "erlang(shape=open('x'))"},
            "service = 'erlang(shape=open('x'))': write a law with its parameters, e.g. "
            "lognormal(mean=1, scv=4)",
        ),
        (
            {"servers": 3, "load": 0.5, "service": "erlang(shape=0)"},
            "service.shape = 0: must be at least 1",
        ),
    ],
)
def test_wrong_flags_are_named_as_flags(flags, line):
    with pytest.raises(ScenarioError) as caught:
        Scenario.simple(**flags)

    assert str(caught.value) == line


@pytest.mark.parametrize("text", ["hyperexponential(probabilities=[0.5,0.5], means=[1,3])"])
def test_a_law_may_have_lists(text):
    assert Scenario.simple(servers=3, load=0.5, service=text).mean_service == 2


@pytest.mark.parametrize("kind", ["pool", "fcfs", "ps"])
def test_the_template_is_a_scenario(tmp_path, kind):
    file = tmp_path / "mine.toml"
    file.write_text(template(kind, "mine.toml"))

    made = Scenario.from_toml(file)

    assert made.name == "mine"
    assert made.servers.discipline == kind
    assert "learning-threshold" in [table["name"] for table in made.policies]


@pytest.mark.parametrize("law", [Sinusoid, Rates])
@pytest.mark.parametrize("kind", ["pool", "fcfs", "ps"])
def test_what_the_template_shows_as_comments_is_right_too(kind, law, tmp_path):
    """The commented tables, put in place of those above, make a scenario."""
    lines = template(kind).split("\n")
    starts = [i for i, line in enumerate(lines) if line == "# [arrivals]"]
    start = starts[[Sinusoid, Rates].index(law)]
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("# "))
    plain = [i for i, line in enumerate(lines) if line.startswith("[")]
    arrivals = lines.index("[arrivals]")
    after = next(i for i in plain if i > arrivals)
    swapped = lines[:arrivals] + [line[2:] for line in lines[start:stop]] + lines[after:]
    table = swapped.index("# [trace]")
    for i in range(table, table + 3):
        swapped[i] = swapped[i][2:]
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(swapped))

    made = Scenario.from_toml(file)

    assert isinstance(made.arrivals, law)
    assert made.trace == TraceColumns(time="TIMESTAMP", service="duration")


@pytest.mark.parametrize("kind", ["pool", "fcfs", "ps"])
def test_the_keys_the_template_shows_as_comments_are_right_too(kind, tmp_path):
    keys = ("limit", "workers", "curve", "batch")
    text = re.sub(rf"^# (?=({'|'.join(keys)}) = )", "", template(kind), flags=re.MULTILINE)
    file = tmp_path / "mine.toml"
    file.write_text(text)

    made = Scenario.from_toml(file)

    assert made.batch is not None
    assert made.servers.limit is not None
    assert (made.servers.curve is not None) == (kind == "ps")


def test_a_curve_may_be_a_word_of_a_command_line():
    made = Scenario.simple(servers=2, discipline="ps", curve="1,1.6,2", load=0.5)

    assert made.servers.curve == (1.0, 1.6, 2.0)
    with pytest.raises(ScenarioError, match="write the speeds with 1, 2"):
        Scenario.simple(servers=2, discipline="ps", curve="1;2", load=0.5)
    with pytest.raises(ScenarioError, match=r"^curve #2 = 0.0: must be more than 0$"):
        Scenario.simple(servers=2, discipline="ps", curve="1,0", load=0.5)


def test_a_template_of_no_kind_is_refused():
    with pytest.raises(
        ScenarioError, match="it must be 'pool', 'fcfs' or 'ps'; did you mean 'pool'"
    ):
        template("pol")


def test_nothing_heavy_is_imported():
    code = (
        "import sys, equipoise.scenario; "
        "print([m for m in ('pandas', 'scipy', 'matplotlib', 'numba') if m in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("start", ["empty", "balanced", [0, 4, 4, 1, 3, 0, 2]])
@pytest.mark.parametrize("limit", [None, 4])
def test_servers_by_length_are_those_of_the_lengths(start, limit):
    scenario = Scenario.simple(
        servers=7, discipline="pool", load=4.6, limit=limit, start=start, duration=1.0
    )

    lengths = scenario.start_lengths()

    assert scenario.start_counts().tolist() == np.bincount(lengths).tolist()
    balanced = [4] * 7 if limit else [5] * 4 + [4] * 3
    expected = {"empty": [0] * 7, "balanced": balanced}.get(str(start), start)
    assert lengths.tolist() == expected


def test_a_thousand_million_servers_are_no_list():
    scenario = Scenario.simple(servers=10**9, load=0.5, duration=1.0, start="balanced")

    assert scenario.servers.capacity == 10**9
    assert scenario.start_counts().tolist() == [500_000_000, 500_000_000]
