"""What theory says of a scenario: the answers, the words, what is refused."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import EquipoiseError, PolicyMismatch, UnstableError
from equipoise.report.limit import limit, rate_of
from equipoise.scenario import Scenario


def pools(load=7.3, servers=500, **run):
    return Scenario.simple(servers=servers, discipline="pool", load=load, **run)


def queues(load=0.7, servers=1000, **run):
    return Scenario.simple(servers=servers, load=load, **run)


def plain(report):
    """The text without its line breaks."""
    return " ".join(report.text().split())


def test_a_newcomer_learns_which_threshold_how_long_and_at_what_cost():
    report = limit(pools())

    answer = report["learning-threshold"]
    # theory of pools: l = floor(lam), reached from empty at log(lam / (lam - 7))
    assert answer.theory.best_level == answer.theory.final_level == 7
    assert answer.theory.settled == pytest.approx(np.log(7.3 / 0.3), abs=2e-3)
    assert answer.theory.alpha == pytest.approx(10 / 11)
    text = plain(report)
    for words in (
        "7 is right for load 7.3",
        "stands at 7 after 3.19 mean service times",
        "70.0 % of the pools at 7, 30.0 % at 8",
        "1 per task",
        "2 bits per server",
        "--picture limit.svg draws it",
    ):
        assert words in text


def test_times_are_told_in_seconds_too_where_a_service_takes_another_time():
    scenario = Scenario.simple(
        servers=500, discipline="pool", load=7.3, service="exponential(mean=0.2)"
    )

    assert "3.19 mean service times (0.638 s)" in plain(limit(scenario))


def test_a_threshold_too_low_says_what_it_costs():
    text = plain(limit(pools(), "threshold(level=6)"))

    assert "level = 6 is too low for a load of 7.3: use level = 7" in text
    # variance of 7 and 8 with mean 7.3: .3 x .7
    assert "variance of the tasks at a pool 0.21" in text


def test_a_load_that_changes_has_a_path_and_no_rest():
    tables = {
        "servers": {"count": 100, "discipline": "pool"},
        "arrivals": {"law": "sinusoid", "load": 4.5, "amplitude": 1.0, "period": 2 * np.pi / 3},
        "service": {"law": "exponential", "mean": 1.0},
        "run": {"duration": 12.0},
    }
    report = limit(Scenario.from_dict(tables), "learning-threshold")

    answer = report["learning-threshold"]
    assert report.load is None
    # rho of 4.5 + sin 3t from empty at the end, in closed form
    t = 12.0
    rho = 4.5 * (1 - np.exp(-t)) + (np.sin(3 * t) - 3 * np.cos(3 * t) + 3 * np.exp(-t)) / 10
    assert answer.theory.path.offered[-1] == pytest.approx(rho, abs=1e-6)
    assert "moves between" in plain(report)


def test_the_rate_of_a_scenario_is_that_of_its_flow():
    tables = {
        "servers": {"count": 10, "discipline": "pool"},
        "arrivals": {"law": "rates", "times": [0, 4, 10], "rates": [20.0, 60.0]},
        "service": {"law": "exponential", "mean": 2.0},
    }
    rate = rate_of(Scenario.from_dict(tables))

    # times in mean service times, rates per pool and mean service time
    assert rate.at(np.array([0.5, 1.9, 2.1, 4.9])).tolist() == [4.0, 4.0, 12.0, 12.0]


@pytest.mark.parametrize(
    ("policy", "wait", "messages"),
    [
        # M/M/1 and Erlang_n/M/1 are exact; the others are those of many servers
        ("random", 7 / 3, 0.0),
        ("jsq-d", 0.61445377, 4.0),
        ("jiq", 0.0, 1.0),
        ("sparsified-jiq(p=0.5)", 1.16666667, 0.23076923),
        ("sujsq-det(delta=0.7)", 0.30923652, 1.0),
        ("aujsq-exp(delta=0.4)", 1.35526955, 0.4 / 0.7),
        ("aujsq-det(delta=0.35)", 0.72057477, 0.5),
        ("aujsq-det(delta=0.35, mode=push)", 0.72057477, 1.0),
    ],
)
def test_queues_have_the_waits_and_messages_of_the_literature(policy, wait, messages):
    answer = limit(queues(), policy).answers[0]

    assert answer.mean_wait == pytest.approx(wait, abs=1e-8)
    assert answer.messages == pytest.approx(messages, abs=1e-8)
    assert answer.mean_tasks == pytest.approx(0.7 * (1 + wait), abs=1e-6)
    assert answer.exact == (policy == "random")


def test_a_simulation_beside_the_limit_agrees_with_it():
    """n = 2000 is within four standard errors and 10/n."""
    report = limit(
        queues(servers=2000, tasks=300_000, replications=4),
        ["sujsq-det(delta=0.7)", "jsq-d(replacement=true)"],
        simulate=True,
    )

    for answer in report.answers:
        waits = answer.simulation.policy.replications["mean_wait"]
        error = waits.std(ddof=1) / 2
        assert abs(waits.mean() - answer.mean_wait) <= 4 * error + 10 / 2000
    assert "simulated wait" in report.text()


def test_a_budget_names_a_policy_the_wait_and_what_one_more_message_buys():
    report = limit(queues(0.8), messages_per_task=0.3)

    text = plain(report)
    assert "Budget 0.3 messages per task (pull): sujsq-det" in text
    assert "One more with 1.3 messages per task jiq waits 0" in text
    best = report.recommendation.best
    assert report[best.policy].mean_wait == pytest.approx(best.mean_wait, abs=1e-4)
    assert best.messages == pytest.approx(0.3, abs=1e-5)


def test_everything_is_in_the_json_too():
    for report in (limit(pools()), limit(queues(), messages_per_task=0.5)):
        data = json.loads(json.dumps(report.to_json()))
        assert data["servers"] == report.scenario.servers.count
        assert [p["label"] for p in data["policies"]] == [a.label for a in report.answers]
    assert data["recommendation"]["options"][0]["messages_per_task"] == pytest.approx(0.5, abs=1e-5)


def test_the_scenario_s_own_policies_are_asked_about_where_their_limit_is_known():
    scenario = pools().model_copy(
        update={"policies": ({"name": "jiq"}, {"name": "threshold", "level": 7})}
    )

    assert [a.label for a in limit(scenario).answers] == ["threshold(level=7)"]


@pytest.mark.parametrize(
    ("make", "how", "error", "line"),
    [
        (lambda: pools(), {"policies": "jiq"}, PolicyMismatch,
         "no limit is known here of 'jiq' on servers of discipline \"pool\"; known are threshold"),
        (lambda: queues(), {"policies": "threshold(level=1)"}, PolicyMismatch,
         "no limit is known here of 'threshold(level=1)'"),
        (lambda: pools(), {"messages_per_task": 1.0}, EquipoiseError,
         "a budget of messages is for queues"),
        (lambda: queues(), {"messages_per_task": -1.0}, EquipoiseError, "must be a number >= 0"),
        (lambda: queues(1.2), {}, UnstableError, "load = 1.2 >= 1"),
        (lambda: Scenario.simple(servers=5, load=0.5, workers=2), {}, EquipoiseError,
         "queues with several workers"),
        (lambda: Scenario.simple(servers=5, load=0.5, service="lognormal(mean=1, scv=2)"), {},
         EquipoiseError, "service by the law 'lognormal'; take exponential service"),
        (lambda: Scenario.simple(servers=5, discipline="ps", load=0.5), {}, EquipoiseError,
         'servers of discipline "ps"'),
        (lambda: pools(servers=100), {"policies": "learning-threshold(alpha=0.999)"},
         EquipoiseError, "alpha"),
        (lambda: queues(), {"policies": "aujsq-exp(delta=0)"}, EquipoiseError, "delta"),
    ],
)  # fmt: skip
def test_what_theory_does_not_cover_is_refused_in_one_line(make, how, error, line):
    with pytest.raises(error) as caught:
        limit(make(), **how)

    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [pools, queues])
def test_the_picture_is_drawn_and_names_its_axes(make, tmp_path):
    report = eq.limit(make())

    figure = report.plot()
    report.picture(tmp_path / "limit.png")

    assert all(axes.get_ylabel() for axes in figure.axes)
    assert any("tasks" in axes.get_xlabel() for axes in figure.axes)
    assert (tmp_path / "limit.png").stat().st_size > 10_000
    with pytest.raises(EquipoiseError, match="must end in"):
        report.picture(tmp_path / "limit.gif")
