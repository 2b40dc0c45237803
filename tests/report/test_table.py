"""What a terminal shows."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.report import table
from equipoise.report.results import Comparison, PolicyResult
from equipoise.stats import Estimate, student


@pytest.mark.parametrize(
    ("value", "error", "digits", "text"),
    [
        (0.63971, 0.02491, 2, "0.640 +- 0.025"),
        (12346.0, 678.9, 2, "12350 +- 680"),
        (1.0, 0.0996, 2, "1.00 +- 0.10"),
        (87.4, 13.2, 1, "87 +- 13"),
        (0.3526, 0.0052, 1, "0.353 +- 0.005"),
        (14.0, 0.0, 2, "14"),
        (9.87654, math.nan, 2, "9.877"),
        (math.nan, 1.0, 2, ""),
        (-3.14159, 0.2, 2, "-3.14 +- 0.20"),
    ],
)
def test_numbers_are_rounded_to_their_error(value, error, digits, text):
    assert table.pm(value, error, digits) == text


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
def test_rounding_agrees_with_how_an_estimate_prints(value, error):
    assert table.pm(value, error) == str(Estimate(value, error))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("kind", ["pools", "queues"])
def test_no_line_is_wider_than_the_terminal(kind, width, request):
    lines = table.text(request.getfixturevalue(kind), width, page="compare.html").splitlines()

    assert max(map(len, lines)) <= width


def test_policies_stand_in_rank_order_with_units_above_and_plus_minus_below_each_other(pools):
    lines = table.text(pools).splitlines()

    head = next(i for i, line in enumerate(lines) if "policy" in line and "imbalance" in line)
    assert "tasks per server" in lines[head + 1]
    rows = lines[head + 2 : head + 7]
    names = ["jsq", "learning-threshold", "threshold", "jsq-d", "random"]
    assert [row.split()[1 if row[0] in "*=+" else 0].partition("(")[0] for row in rows] == names
    assert len({row.index("+-") for row in rows}) == 1


def test_crowding_is_shown_for_pools_and_waiting_for_queues(pools, queues):
    assert [c.key for c in table.columns(pools)] == [
        *("imbalance", "mean_neighbours", "p99_neighbours", "max_tasks"),
        *("messages_per_task", "memory"),
    ]
    assert [c.key for c in table.columns(queues)] == [
        *("mean_response", "mean_wait", "p99_response", "max_tasks"),
        *("messages_per_task", "memory"),
    ]


def test_what_is_ranked_by_comes_first(pools):
    assert table.columns(replace(pools, rank_by="mean_neighbours"))[0].key == "mean_neighbours"


def test_short_times_are_shown_in_milliseconds(queues):
    fast = [
        replace(
            p,
            metrics={
                k: Estimate(e.value / 1e3, e.error / 1e3) if "re" in k or "wait" in k else e
                for k, e in p.metrics.items()
            },
        )
        for p in queues.policies
    ]

    assert table.columns(replace(queues, policies=tuple(fast)))[0].unit == "ms"


def test_a_column_that_is_the_same_for_all_is_told_once(pools):
    alike = replace(pools, policies=tuple(replace(p, memory_bits=0) for p in pools.policies))

    text = table.text(alike)

    assert "The same for all: memory none." in text
    assert "per server  " not in next(line for line in text.splitlines() if "tasks per s" in line)


def test_a_policy_close_to_the_best_is_a_tie_and_a_far_one_is_not(pools):
    assert table.ties(pools) == {"learning-threshold(alpha=0.91)"}
    assert table.remarks(pools) == [table.BEST, table.CHEAPER, table.FRONT, "", table.FRONT]


def test_ties_follow_holm_step_by_step(make):
    # Student quantiles turned into differences: with p = .02 and .03 of two, plain tests
    # would find both different, Holm's first step (.025) and second (.05) too; with .03
    # and .04 the first step already fails, and both are ties.
    best, *others = (
        make.policy("pool", name, name, level, 1.0, 0)
        for name, level in (("jsq", 1), ("jiq", 2), ("jbt", 3))
    )
    base = make.comparison("pool", [best, *others])
    freedom = base.replications - 1

    def with_chances(*chances):
        half = student(freedom, 0.95)
        found = [
            replace(
                next(d for d in base.differences if (d.a, d.b) == (best.label, p.label)),
                value=-student(freedom, 1 - chance) / half,
                error=1.0,
            )
            for p, chance in zip(others, chances, strict=True)
        ]
        return table.ties(replace(base, differences=tuple(found)))

    assert with_chances(0.02, 0.03) == frozenset()
    assert with_chances(0.03, 0.04) == {"jiq", "jbt"}
    assert with_chances(0.02, 0.06) == {"jbt"}


def test_with_a_single_replication_no_ties_are_claimed(pools):
    lone = replace(
        pools,
        replications=1,
        policies=tuple(
            replace(p, metrics={k: Estimate(e.value, math.nan) for k, e in p.metrics.items()})
            for p in pools.policies
        ),
        differences=tuple(replace(d, error=math.nan) for d in pools.differences),
    )

    assert table.ties(lone) is None
    assert "one replication: no intervals" in table.text(lone)
    assert "nan" not in table.text(lone)


def test_a_single_replication_cut_into_batches_keeps_its_intervals(pools):
    lone = replace(
        pools,
        replications=1,
        differences=tuple(replace(d, error=math.nan) for d in pools.differences),
    )

    text = table.text(lone)

    assert "from batches of one run" in text
    assert "nan" not in text


def test_refused_policies_come_last_with_the_reason(queues):
    refused = PolicyResult("jiq", "jiq", {}, 1, "", "", unstable="load = 1.2 >= 1: too much work")

    lines = table.text(replace(queues, policies=(*queues.policies, refused))).splitlines()

    at = next(i for i, line in enumerate(lines) if "random" in line)
    assert lines[at + 1] == "jiq   not run: load = 1.2 >= 1: too much work"


def test_when_all_are_refused_the_reasons_are_the_answer(queues):
    refused = PolicyResult("jiq", "jiq", {}, 1, "", "", unstable="load = 1.2 >= 1")

    text = table.text(replace(queues, policies=(refused,), differences=()))

    assert "jiq   not run: load = 1.2 >= 1" in text
    assert "No policy could be run" in text


def test_the_reading_names_the_cheap_tie_with_the_difference_and_its_error(pools):
    first, second = table.reading(pools)

    d = pools.difference("learning-threshold(alpha=0.91)", "jsq")
    assert first.startswith("learning-threshold cannot be told apart from jsq")
    assert f"difference {table.pm(d.value, d.error, 1)} tasks per server" in first
    assert "2 bits per server instead of 32 bits" in first
    assert second.startswith("Most crowded is random: one task in a hundred")


def test_the_reading_of_queues_says_how_long_the_slowest_takes(queues):
    assert "Slowest is random: a task takes " in table.reading(queues)[1]
    assert " s on average" in table.reading(queues)[1]


def test_the_reading_never_calls_a_tie_a_difference(make):
    twins = [make.policy("pool", n, n, 0.3, 1.0, 32, noise=0.1) for n in ("jsq", "total")]

    (said,) = table.reading(make.comparison("pool", twins))

    assert "cannot be told apart" in said


def test_the_way_to_run_it_again_is_never_broken_over_lines(pools):
    command = "equipoise compare " + "x" * 90 + " --seed 1"

    assert f"Same again: {command}" in table.text(replace(pools, command=command), 80)


def test_given_traffic_and_notes_are_told(pools):
    text = table.text(replace(pools, given="traffic", notes=("jsq had not settled",)))

    assert "Given this traffic" in text
    assert "jsq had not settled" in text


def test_a_pipe_gets_plain_text_and_a_terminal_restrained_colour(pools, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    pipe, terminal = io.StringIO(), Terminal()

    table.show(pools, file=pipe)
    table.show(pools, file=terminal)

    assert pipe.getvalue() == table.text(pools) + "\n"
    assert "\x1b[" not in pipe.getvalue()
    assert "\x1b[1m" in terminal.getvalue()


def test_a_policy_that_lacks_a_metric_leaves_its_cell_empty(pools):
    first, *rest = pools.policies
    short = replace(first, metrics={k: e for k, e in first.metrics.items() if "p99" not in k})

    column = next(
        c for c in table.columns(replace(pools, policies=(short, *rest))) if c.key.startswith("p99")
    )

    assert column.cells[0] == ("", "")
    assert isinstance(table.text(replace(pools, policies=(short, *rest))), str)


def test_loss_is_a_percentage(queues):
    lossy = [
        replace(p, metrics={**p.metrics, "lost": Estimate(0.0123 * (i + 1), 0.001)})
        for i, p in enumerate(queues.policies)
    ]

    column = next(
        c for c in table.columns(replace(queues, policies=tuple(lossy))) if c.key == "lost"
    )

    assert column.unit == "% of arrivals"
    assert column.cells[0] == ("1.23", "0.10")


def test_higher_is_better_where_it_is(pools):
    happy = [
        replace(p, metrics={**p.metrics, "utility": Estimate(-1.0 - i, 0.1)})
        for i, p in enumerate(pools.policies)
    ]
    ranked = replace(pools, rank_by="utility", policies=tuple(happy), differences=())

    assert "has the highest utility" in table.reading(ranked)[0]
    assert isinstance(ranked, Comparison)


def test_the_table_of_one_policy_needs_no_remarks(make):
    one = make.comparison("pool", [make.policy("pool", "jsq", "jsq", 0.3, 1.0, 32)])

    assert table.reading(one) == []
    assert table.remarks(one) == [""]
    assert np.isfinite(one.policies[0].metrics["imbalance"].value)
    assert "jsq" in table.text(one)
