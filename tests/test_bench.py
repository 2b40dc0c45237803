"""The bench measures what there is today, and its C does the work it is said to do."""

import asyncio
import math

import pytest

from bench import against_c, decisions, live, logs, messages, reference, run, timing
from bench.reference import CannotCompile, Check
from equipoise.policies import POLICIES, resolve
from equipoise.sim import memoryless


@pytest.fixture(scope="module")
def loops():
    try:
        return reference.library()
    except CannotCompile as error:
        pytest.skip(str(error))


def test_every_policy_that_can_be_live_is_timed():
    assert [spec.policy.name for spec in decisions.live_policies()] == [
        name for name in POLICIES if name != "ll-d"
    ]


def test_a_decision_takes_some_time():
    choose, both = decisions.decision(decisions.live_policies()[0], 100)

    assert 0 < choose < both


def test_a_message_takes_some_time(monkeypatch):
    monkeypatch.setattr(messages, "BATCHES", 3)

    inside, outside = asyncio.run(messages._message("jiq"))

    assert inside > 0
    assert outside > 0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("policy", messages.POLICIES)
def test_a_message_of_an_agent_costs_at_most_thirty_microseconds(policy):
    assert asyncio.run(messages._message(policy))[1] <= 30.0


@pytest.mark.usefixtures("loops")
def test_the_loops_in_c_do_what_theory_says():
    wrong = [str(check) for check in reference.checks(tasks=100_000) if not check.good]

    assert wrong == []


def test_a_figure_that_is_off_by_more_than_four_errors_is_wrong():
    assert Check("wait", 4.3, 0.1, 4.0).good
    assert not Check("wait", 4.5, 0.1, 4.0).good
    assert Check("wait", 4.5, 0.1, 4.0, bias=0.2).good


@pytest.mark.usefixtures("loops")
def test_one_seed_gives_one_path_whatever_the_layout():
    """Servers are other ones, since they are drawn otherwise; how many have how many is not."""
    runs = [
        reference.run(loop, 50, 5.5, 20_000)
        for loop in (
            "pools_separate_list",
            "pools_packed_list",
            "pools_separate_index",
            "pools_packed_index",
            "pools_packed_index_full",
        )
    ]

    assert len({one.mean_tasks for one in runs}) == 1
    assert len({one.events for one in runs}) == 1
    assert (runs[0].occupancy == runs[1].occupancy).all()
    assert (runs[2].occupancy == runs[3].occupancy).all()
    assert (runs[2].occupancy == runs[4].occupancy).all()


@pytest.mark.usefixtures("loops")
def test_keeping_more_changes_nothing_that_was_kept_before():
    for loop, scv in (("queues_exponential", 0.0), ("queues_lognormal", 4.0)):
        bare = reference.run(loop, 20, 0.8, 20_000, before=1000, scv=scv)
        full = reference.run(loop + "_full", 20, 0.8, 20_000, before=1000, scv=scv)

        assert full.mean_wait == bare.mean_wait
        assert full.mean_response == bare.mean_response
        assert bare.imbalance == 0 < full.imbalance
        # Little's law; 1000 mean service times, so the edges are small
        assert full.mean_tasks == pytest.approx(0.8 * full.mean_response, rel=0.02)


@pytest.mark.usefixtures("loops")
def test_kernel_and_c_find_the_same():
    """W2, scaled down; the kernel's own tests hold it against theory."""
    pair = against_c.PAIRS[1]
    work = timing.scenario(10, pair.discipline, 0.7)
    loop = timing.Loop(work, pair.policy, pair.kernel, 1000)
    loop.rate(400_000)

    tally = loop.driver.tally
    kernel = tally.area[1:].sum() / tally.now[0] / 10
    c = [reference.run(pair.loop, 10, 0.7, 100_000, 1000, seed=s).mean_tasks for s in range(1, 9)]
    mean = sum(c) / len(c)
    error = math.sqrt(sum((x - mean) ** 2 for x in c) / (len(c) - 1))

    assert kernel == pytest.approx(mean, abs=4 * error * math.sqrt(1 / 8 + 1 / 4))


def test_without_a_compiler_the_bench_says_so_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(reference.shutil, "which", lambda name: None)
    monkeypatch.setattr(against_c, "library", reference.library.__wrapped__)

    against_c.compare_with_c()

    assert capsys.readouterr().out == "skipped: no C compiler (cc, gcc or clang) on the path\n"


def test_a_source_that_does_not_compile_is_one_line(monkeypatch, tmp_path):
    bad = tmp_path / "bad.c"
    bad.write_text("int main(void) { return }\n")
    monkeypatch.setattr(reference, "SOURCE", bad)

    with pytest.raises(CannotCompile) as refused:
        reference.library.__wrapped__()

    assert "\n" not in str(refused.value)


def test_departures_are_drawn_as_asked_and_as_before_afterwards():
    before = memoryless.MANY
    work = timing.scenario(50, "pool", 5.5)

    with timing.departures("index"):
        index = timing.Loop(work, "jsq", "memoryless", 100)
    with timing.departures("list"):
        listed = timing.Loop(work, "jsq", "memoryless", 100)

    restored = memoryless.MANY
    assert restored == before
    assert index.driver.tasks.server.size == 0 < listed.driver.tasks.server.size
    assert index.rate(1000) > 0


def test_a_ratio_is_the_median_of_ratios_measured_side_by_side():
    assert timing.ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == 2.0
    calls = []
    columns = timing.interleaved(
        [lambda: calls.append(0) or 1.0, lambda: calls.append(1) or 2.0], 3
    )
    assert calls == [0, 1, 0, 1, 0, 1]
    assert columns == [[1.0] * 3, [2.0] * 3]


def test_a_goal_says_what_there_is_and_whether_that_is_enough():
    assert timing.goal("speed", 0.9, 0.8) == "speed: 0.90 (goal >= 0.8) reached"
    assert timing.goal("bytes", 41.0, 40, most=True) == "bytes: 41.00 (goal <= 40) MISSED"


def test_every_table_has_a_name_to_be_run_by(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(run, "sections", lambda: {"C": lambda: ran.append("C"), "Sizes": print})
    monkeypatch.setattr(run, "pin", lambda: None)
    monkeypatch.setattr(run.sys, "argv", ["bench", "c"])

    run.main()

    assert ran == ["C"]
    assert "Sizes" not in capsys.readouterr().out
    assert resolve("jsq").policy.knows is not None  # the row that departs through the index


def test_every_format_that_is_timed_is_read_as_it_was_written(capsys, monkeypatch):
    monkeypatch.setattr(logs, "REPETITIONS", 1)
    ratios = logs.compare_formats(lines=500)

    assert set(ratios) == set(logs.FORMATS)
    assert "traefik" in capsys.readouterr().out


def test_the_memory_for_a_log_is_measured(capsys):
    found = logs.measure_memory(gigabytes=0.005)

    assert set(found) == {"table", "rates"}
    assert all(0 < megabytes < 1000 for megabytes in found.values())


def test_the_proxies_are_compared_by_their_medians():
    rates = {"haproxy": [9, 10, 90], "ours": [5, 4, 1]}
    results = {
        (name, work): [live.Measured(rate, 100 / rate) for rate in runs]
        for name, runs in rates.items()
        for work in live.WORKS
    }

    text = live.report(results)

    assert (
        "ours / haproxy, 100 B: 0.40 of the requests/s, 0.40 by CPU time; goal 0.4: reached" in text
    )
    assert "envoy is not installed" in text
