"""From a log to a scenario: what is put in comes out again, and nothing else does."""

import json
import re
import tomllib

import numpy as np
import pytest
from written import SECRETS, WRITERS, write_log

import equipoise
from equipoise.errors import EquipoiseError, ScenarioError, TraceError
from equipoise.report.fit import fit
from equipoise.scenario import Scenario

NOON = 1_709_640_000.0


def tasks_of(scenario, k, seed=1):
    """k tasks of a scenario: arrivals and sizes, s."""
    stream = scenario.task_stream(*np.random.SeedSequence(seed).spawn(2))
    blocks = [stream.block(k)]
    while sum(times.size for times, _ in blocks) < k and blocks[-1][0].size:
        blocks.append(stream.block(k))
    times, sizes = (np.concatenate(parts)[:k] for parts in zip(*blocks, strict=True))
    return times, sizes


def a_scenario(service="lognormal(mean=0.2, scv=1.5)", **more):
    """Six pools, two of them at half speed."""
    from equipoise.scenario.flags import parse_service

    return Scenario.from_dict(
        {
            "servers": {"speeds": [1.0, 0.5, 1.0, 1.0, 0.5, 1.0], "discipline": "pool"},
            "arrivals": {"law": "poisson", "rate": 20.0} | more,
            "service": parse_service(service),
        }
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """10,000 tasks of the scenario, written in three formats."""
    folder, scenario = tmp_path_factory.mktemp("logs"), a_scenario()
    times, sizes = tasks_of(scenario, 10_000)
    server = np.random.default_rng(2).integers(0, 6, 10_000)
    took = sizes / scenario.servers.speed_of[server]
    return {
        form: write_log(folder / f"{form}.log", form, NOON + times, took, server)
        for form in WRITERS
    }


@pytest.mark.parametrize("form", WRITERS)
def test_the_parameters_of_a_simulated_scenario_are_recovered(logs, form):
    f = fit(logs[form])
    found, rate = f.scenario, 20.0

    assert f.log.format.name == form
    # 10,000 Poisson tasks: the rate to 1 %
    assert f.rates.constant
    assert found.arrivals.rate == pytest.approx(rate, abs=4 * rate / 100)
    assert [(g.count) for g in found.servers.groups] == [2, 4]
    assert found.servers.groups[1].speed == 1.0
    slow = f.fleet.groups[0]
    assert abs(slow.speed - 0.5) <= 2.05 * slow.error
    assert found.service.law == "lognormal"
    for key, truth in (("mean", 0.2), ("scv", 1.5)):
        error = f.service.law.errors[key]
        # what rounding to 1 ms does to times of 200 ms is far below an error
        assert getattr(found.service, key) == pytest.approx(truth, abs=4 * error)
        assert error < 0.08 * truth
    assert found.servers.discipline == "pool"
    # offered: 20 tasks/s, a third of them on servers of half speed
    assert f.concurrency.counted == pytest.approx(20 * 0.2 * (4 / 6 + 2 * 2 / 6), rel=0.1)


@pytest.mark.parametrize("form", WRITERS)
def test_rates_that_change_are_recovered(tmp_path, form):
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 4, "discipline": "pool"},
            "arrivals": {"law": "rates", "bin": 300.0, "rates": [10.0, 30.0, 5.0]},
            "service": {"law": "exponential", "mean": 0.1},
        }
    )
    times, sizes = tasks_of(scenario, 13_000)
    server = np.random.default_rng(3).integers(0, 4, times.size)
    f = fit(write_log(tmp_path / "a.log", form, NOON + times, sizes, server), bin=300.0)

    assert f.scenario.arrivals.law == "rates"
    for found, truth in zip(f.scenario.arrivals.rates[:3], (10.0, 30.0, 5.0), strict=True):
        # ends written to 1 s move a second's tasks from one bin into the next
        assert found == pytest.approx(truth, abs=4 * np.sqrt(truth / 300) + 30 / 300)


@pytest.mark.parametrize("form", ["haproxy", "traefik"])
def test_batches_are_recovered(tmp_path, form):
    scenario = a_scenario("exponential(mean=0.05)", batch={"law": "geometric", "mean": 3.0})
    times, sizes = tasks_of(scenario, 12_000)
    server = np.random.default_rng(4).integers(0, 6, times.size)
    f = fit(write_log(tmp_path / "a.log", form, NOON + times, sizes, server))
    batch = f.scenario.batch

    assert f.bursts.kind == "batches"
    # 4000 batches of standard deviation sqrt(6): the mean to 0.04, rounded clocks join a few more
    assert batch.expected == pytest.approx(3.0, abs=4 * np.sqrt(6 / 4000) + 0.15)
    assert f.scenario.arrivals.rate == pytest.approx(20.0, abs=4 * 20 * np.sqrt(5 / 12_000))


def test_servers_that_queue_are_fcfs_with_their_workers(tmp_path):
    """Two workers each, service from the log's own upstream times, waits apart."""
    rng = np.random.default_rng(5)
    k, times = 4000, np.cumsum(rng.exponential(1 / 6.0, 4000))
    took, server = rng.exponential(1.0, k), rng.integers(0, 4, k)
    free, waited = np.zeros((4, 2)), np.zeros(k)
    for i in range(k):
        mine = free[server[i]]
        begin = max(times[i], mine.min())
        waited[i] = begin - times[i]
        mine[mine.argmin()] = begin + took[i]
    f = fit(write_log(tmp_path / "a.log", "traefik", NOON + times, took, server, waited))

    assert (f.scenario.servers.discipline, f.scenario.servers.workers) == ("fcfs", 2)
    assert f.scenario.service.law == "exponential"


@pytest.mark.parametrize("form", WRITERS)
def test_nothing_of_a_person_is_copied(logs, form, tmp_path):
    f = fit(logs[form])
    page, scenario, tasks = tmp_path / "p.html", tmp_path / "s.toml", tmp_path / "t.csv"
    f.page(page)
    f.save(scenario)
    f.save_tasks(tasks)
    text = [str(f), repr(f), f._repr_html_(), json.dumps(f.to_json())]
    text += [file.read_text() for file in (page, scenario, tasks)]

    for secret in SECRETS:
        assert not any(secret in t for t in text), secret
    assert any("server-1" in t for t in text)


def test_neither_is_what_stands_in_lines_that_are_skipped(logs, tmp_path):
    log = tmp_path / "dirty.log"
    log.write_text("203.0.113.7 alice /private/of Mozilla\n" * 3 + logs["haproxy"].read_text())
    f = fit(log, names=True)
    f.page(tmp_path / "p.html")
    text = [str(f), json.dumps(f.to_json()), (tmp_path / "p.html").read_text()]

    assert f.log.account.skipped["not a line of this format"].count == 3
    assert "3 skipped: not a line of this format (first: line 1)" in text[0]
    for secret in SECRETS[:-1]:
        assert not any(secret in t for t in text), secret
    assert all("berta-8001" in t for t in text[1:])  # names were asked for


def test_the_folder_of_a_log_is_not_told(logs):
    f = fit(logs["haproxy"])

    assert str(logs["haproxy"].parent) not in str(f) + json.dumps(f.to_json()) + f.to_toml()


def test_what_is_saved_is_the_scenario_with_where_its_numbers_come_from(logs, tmp_path):
    f, path = fit(logs["haproxy"]), tmp_path / "fitted.toml"
    f.save(path)
    text = path.read_text()
    read = Scenario.from_toml(path)

    assert read.to_dict() == f.scenario.to_dict()
    assert max(map(len, text.splitlines())) <= 130
    for line in ("mean = ", "scv = "):
        assert re.search(rf"^{line}[\d.]+  # \+- [\d.]+$", text, re.MULTILINE)
    assert "10,000 lines used" in text
    assert "least BIC" in text
    assert not list(tmp_path.glob(".*"))  # no temporary file is left
    assert tomllib.loads(text)["run"]["seed"] == 1


def test_a_fitted_scenario_runs_and_its_tasks_can_be_replayed(logs, tmp_path):
    f = fit(logs["traefik"])
    f.save(tmp_path / "fitted.toml")
    f.save_tasks(tmp_path / "tasks.csv")
    drawn = Scenario.from_toml(tmp_path / "fitted.toml").with_run(tasks=5000, replications=2)
    replay = Scenario.from_toml(tmp_path / "fitted.toml", trace=tmp_path / "tasks.csv")
    result = equipoise.compare(drawn, ["jsq", "random"])

    assert {p.label for p in result.policies} == {"jsq", "random"}
    assert replay.recording.times.size == 10_000
    assert replay.recording.sizes.mean() == pytest.approx(f.tasks.work.mean(), rel=1e-4)


def test_the_page_is_whole_and_asks_nothing_of_the_network(logs, tmp_path):
    f = fit(logs["nginx-ingress"])
    f.page(tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()

    for name in ("rate", "bursts", "service", "quantiles", "concurrency"):
        assert f'<figure id="{name}"' in text
    assert "nan" not in re.sub(r'href="[^"]*"', "", text)
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert "<script" not in text
    assert text.count("<svg") == text.count("</svg>") >= 10


def test_the_names_of_files_and_servers_cannot_break_a_page(logs, tmp_path):
    log = tmp_path / "<b>&.log"
    log.write_text(logs["haproxy"].read_text().replace("8001", '<i>"x'))
    f = fit(log, names=True)
    f.page(tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()

    assert "<b>" not in text
    assert "<i>" not in text
    assert Scenario.from_dict(tomllib.loads(f.to_toml())).name == "<b>&"


def test_json_is_plain_and_says_what_was_found(logs):
    found = json.loads(json.dumps(fit(logs["haproxy"]).to_json(), allow_nan=False))

    assert found["service"]["law"] == "lognormal"
    assert found["lines"] == {"read": 10_000, "used": 10_000, "skipped": {}}
    assert found["scenario"]["servers"]["count"] == 6
    assert [s["name"] for s in found["servers"]][:2] == ["server-1", "server-2"]
    assert found["bursts"]["kind"] in ("poisson", "rounded")


# --- What a log does not say ---------------------------------------------------------------------


COMBINED = '203.0.113.7 - - [05/Mar/2024:12:{:02d}:{:02d} +0000] "GET /a HTTP/1.1" 200 512 "-" "M"'


@pytest.fixture
def bare(tmp_path):
    """A log without durations or servers."""
    rng, path = np.random.default_rng(6), tmp_path / "bare.log"
    seconds = np.sort(rng.integers(0, 3600, 1800))
    path.write_text("\n".join(COMBINED.format(s // 60, s % 60) for s in seconds))
    return path


def test_a_log_without_durations_says_what_it_answers_and_asks_for_the_rest(bare):
    f = fit(bare)
    text = " ".join(str(f).split())

    assert "this log does not say how long requests took. It answers how many come when" in text
    assert "needs how long tasks take: --service 'exponential(mean=0.1)'" in text
    assert "how many servers there are: --servers 20" in text
    assert f.service is f.fleet is f.concurrency is None
    assert f.bursts.kind == "rounded"
    with pytest.raises(TraceError, match=r"bare.log does not say how long .*; nor how many"):
        f.scenario  # noqa: B018
    json.dumps(f.to_json(), allow_nan=False)


def test_with_a_law_and_servers_it_becomes_a_scenario(bare, tmp_path):
    f = fit(bare, service="exponential(mean=0.5)", servers=3, discipline="fcfs", workers=2)

    assert f.scenario.mean_service == 0.5
    assert (f.scenario.servers.count, f.scenario.servers.workers) == (3, 2)
    assert f.scenario.offered_load()[0] == pytest.approx(0.5 * 0.5 / 6, rel=0.1)
    f.page(tmp_path / "p.html")


def test_only_rates_take_little_memory_and_find_the_same_ones(bare):
    f, whole = fit(bare, rates_only=True), fit(bare)

    assert f.tasks is None
    assert f.rates.mean == pytest.approx(whole.rates.mean, rel=1e-2)
    assert f.bursts.kind == "rounded"
    assert f.rates.constant


def test_counts_become_rates_and_the_shape_of_a_day(tmp_path):
    rng, path = np.random.default_rng(7), tmp_path / "counts.csv"
    at = 300 * np.arange(5 * 288)
    wave = 60 + 40 * np.sin(2 * np.pi * at / 86_400)
    rows = [f"2024-03-0{1 + t // 86_400} {t % 86_400 // 3600:02d}:{t % 3600 // 60:02d}:00,{n}"
            for t, n in zip(at, rng.poisson(wave), strict=True)]  # fmt: skip
    path.write_text("timestamp,value\n" + "\n".join(rows))
    f = fit(path, servers=5, service="exponential(mean=1)", shape="daily")
    rates = np.array(f.scenario.arrivals.rates)

    assert f.bursts.kind == "counts"
    assert f.scenario.arrivals.bin == 3600
    truth = (60 + 40 * np.sin(2 * np.pi * (np.arange(24) + 0.5) / 24)) / 300
    assert np.abs(rates - truth).max() < 4 * np.sqrt(truth.max() / 3600 / 4)


def test_columns_of_a_table_may_make_the_service(tmp_path):
    rng, path = np.random.default_rng(8), tmp_path / "tokens.csv"
    times = np.cumsum(rng.exponential(0.5, 500))
    tokens = rng.integers(1, 100, 500)
    rows = "\n".join(f"{t:.6f},{n}" for t, n in zip(times, tokens, strict=True))
    path.write_text(f"at,Tokens\n{rows}\n")
    service = {"constant": 0.05, "Tokens": 0.02}
    f = fit(path, columns={"time": "at", "service": service}, servers=4)

    assert f.tasks.work == pytest.approx(0.05 + 0.02 * tokens)
    assert f.scenario.mean_service == pytest.approx(0.05 + 0.02 * tokens.mean(), rel=0.05)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"law": "weibull"}, "law = 'weibull': must be best, empirical"),
        ({"shape": "weekly"}, "shape = 'weekly': must be one of auto"),
        ({"shape": "daily"}, "the shape of a day needs a log of two days"),
        ({"servers": 0}, "servers = 0: there must be at least one"),
        ({"bin": -1.0}, "bin = -1: the seconds of a bin must be above 0"),
        ({"service": "exponential(mean=-1)"}, "service.mean"),
        ({"service": "fish"}, "service = 'fish': no such law"),
        ({"columns": {"times": "a"}}, "columns: there is no 'times'; there are time, end"),
        ({"format": "klingon"}, "no log format is called 'klingon'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(bare, how, said):
    with pytest.raises(EquipoiseError) as refused:
        fit(bare, **how)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_load_that_queues_cannot_carry_is_told(bare):
    f = fit(bare, service="exponential(mean=10)", servers=2, discipline="fcfs")

    assert "not possible: load = 2.5" in str(f)
    with pytest.raises(EquipoiseError, match="work arrives faster"):
        f.scenario  # noqa: B018


def test_the_package_offers_it():
    assert equipoise.fit is fit
    assert issubclass(ScenarioError, EquipoiseError)
