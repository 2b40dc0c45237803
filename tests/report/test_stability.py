"""The verdict on a fleet: in words, in numbers, as a picture, and before a simulation."""

import json

import numpy as np
import pytest

from equipoise import EquipoiseError, UnstableError, compare, simulate
from equipoise.policies import resolve
from equipoise.report.stability import (
    Fleet,
    fleet_of,
    groups_of,
    numbered,
    stability,
    stability_of,
    unstable_reason,
)
from equipoise.report.stability_plot import draw
from equipoise.scenario import Scenario

SLOW = [(80, 1.0), (20, 0.01)]


def scenario(groups=SLOW, load=0.9, discipline="fcfs", mean=1.0, **servers):
    groups = [{"count": count, "speed": speed} for count, speed in groups]
    return Scenario.from_dict(
        {
            "servers": {"discipline": discipline, "groups": groups, **servers},
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": mean},
            "run": {"tasks": 5000, "replications": 2},
        }
    )


def test_an_overloaded_bottleneck_is_named_with_all_its_numbers():
    """Pi = 20 19/(100 99), mu(S) = 0.2 of 80.2, so lam_max = 0.2/Pi = 5.2105."""
    answer = stability(scenario(), "jsq-d")["jsq-d"]
    rows = dict(answer.rows())

    assert answer.verdict == (
        "UNSTABLE: load 90 % of the capacity, carries only 6.5 %: queues grow for ever"
    )
    assert answer.found.lam_max == pytest.approx(0.2 * 99 * 5 / 19)
    assert rows["Bottleneck"].startswith("the 20 slowest of 100 servers (speed 0.01): 3.84 % of")
    assert rows["Safe from"] == (
        "d = 4, or sampling in proportion to speed: jsq-d(d=2, sampling=speed)"
    )
    assert rows["Growth"].startswith("2.5705 tasks per s")
    assert rows["Fewest looks"].startswith("d = 3 for 24 % and 4 for 76 % of the tasks, 3.76")
    assert rows["Speeds"].startswith("at least 0.667 from")


@pytest.mark.parametrize(
    ("policy", "load", "verdict"),
    [
        ("jsq-d(d=4)", 0.9, "stable: load 90 % of the capacity, carries up to 100 %"),
        ("jsq", 1.2, "UNSTABLE: load 120 % of the capacity, more than any policy can carry"),
        ("jiq", 0.5, "not known: load 50 % of the capacity, surely carries"),
        ("random", None, "carries 1.25 % of the capacity (1 of 80.2 tasks per s); 98.8 % is lost"),
        ("jsq", None, "loses nothing: it carries all of 80.2 tasks per s"),
        ("jiq", None, "carries at least"),
    ],
)
def test_the_verdict_is_one_line(policy, load, verdict):
    answer = stability(fleet_of(SLOW), policy, load=load).answers[0]

    assert answer.verdict.startswith(verdict)
    assert "\n" not in answer.verdict


def test_on_the_boundary_nothing_is_said():
    answer = stability(fleet_of([0.25, 0.75]), "random", rate=0.5).answers[0]

    assert answer.found.stable is None
    assert answer.verdict.startswith("on the edge: load 50 % of the capacity")


def test_percentages_that_differ_are_shown_apart():
    answer = stability(fleet_of([0.25, 0.75]), "random", rate=0.499999).answers[0]

    assert answer.verdict == "stable: load 49.9999 % of the capacity, carries up to 50 %"


@pytest.mark.parametrize("servers", [{"discipline": "pool"}, {"limit": 5}])
def test_pools_and_limits_carry_any_load(servers):
    report = stability(scenario(load=3.0, **servers), "random")

    assert report.answers[0].verdict.startswith("carries any load")
    assert report.to_json()["policies"][0]["carries_any_load"] is True
    with pytest.raises(EquipoiseError, match="nothing to draw"):
        report.plot()


def test_speeds_are_said_as_they_were_written_whatever_the_service_time():
    """4 workers, tasks of 2 s: a server of speed 0.01 does 0.02 tasks per s."""
    answer = stability(scenario(mean=2.0, workers=4), "jsq-d").answers[0]

    assert answer.found.capacity == pytest.approx(160.4)
    assert "(speed 0.01)" in answer.found.bottleneck_name
    assert answer.carried == pytest.approx(stability(fleet_of(SLOW), "jsq-d").answers[0].carried)


def test_a_changing_rate_is_asked_at_its_mean_and_its_peak_is_told():
    tables = scenario().to_dict()
    tables["arrivals"] = {"law": "rates", "times": [0, 10, 20], "rates": [20.0, 40.1]}
    report = stability(Scenario.from_dict(tables), "jsq")

    assert report.fleet.rate == pytest.approx(30.05)
    assert report.to_json()["peak_load"] == pytest.approx(0.5)
    assert "At its highest the load is 0.5" in str(report)


def test_slotted_servers_are_told_in_slots():
    tables = {
        "servers": {"discipline": "slotted", "speeds": [0.1, 0.2, 0.3, 0.9, 0.9]},
        "arrivals": {"law": "slots", "jobs": "binomial", "trials": 8, "mean": 2.2},
        "service": {"law": "slots", "jobs": "bernoulli"},
    }
    answer = stability(Scenario.from_dict(tables), "jsq-d").answers[0]

    assert answer.found.lam_max == pytest.approx(2.0)
    assert answer.found.growth == pytest.approx(2.2 * 0.3 - 0.6)
    assert dict(answer.rows())["Growth"] == "0.06 tasks per slot, all queues together"


def test_compare_says_why_a_policy_is_not_run_and_runs_the_others():
    result = compare(scenario(), ["jsq-d", "jsq"])
    refused = next(p for p in result.policies if p.label == "jsq-d(d=2)")

    assert [p.label for p in result.stable] == ["jsq"]
    assert "unstable at load 0.9" in refused.unstable
    assert "the 20 slowest of 100 servers (speed 0.01)" in refused.unstable
    assert "not run: unstable at load 0.9" in " ".join(str(result).split())
    assert result.to_json()["policies"][-1]["unstable"] == refused.unstable


def test_simulate_refuses_with_the_reason():
    with pytest.raises(UnstableError, match=r"jsq-d\(d=2\): unstable at load 0.9 .* bottleneck"):
        simulate(scenario(), "jsq-d")


def test_on_equal_servers_only_a_law_of_ones_own_can_overload():
    equal = Scenario.simple(servers=3, load=0.9)

    assert unstable_reason(equal, resolve("jsq-d")) is None
    law = resolve("sampled(law={0:0.5, 1+2:0.5})")
    assert "server" in unstable_reason(equal, law)


def test_a_new_server_that_is_seldom_looked_at_leaves_the_others_with_its_work():
    """The first two servers alone are looked at by 99 % of the tasks: 2/0.99."""
    law = "sampled(law={0+1:0.99, 2:0.01})"
    answer = stability(fleet_of([1.0, 1.0, 1.0]), law).answers[0]

    assert answer.found.lam_max == pytest.approx(2 / 0.99)
    assert answer.found.bottleneck.tolist() == [0, 1]
    assert answer.found.bottleneck_name == "servers 0 and 1 (speed 1)"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([4], "server 4"),
        ([0, 1], "servers 0 and 1"),
        ([0, 1, 2, 7], "servers 0 to 2 and 7"),
        (range(0, 40, 2), "servers 0, 2, 4, 6, 8, 10 and 20 in all"),
    ],
)
def test_servers_are_listed_shortly(members, text):
    assert numbered(np.array(list(members))) == text


def test_a_fleet_is_taken_in_groups_however_it_is_written():
    speeds = Scenario.from_dict(
        {**scenario().to_dict(), "servers": {"discipline": "fcfs", "speeds": [1, 1, 0.5, 1]}}
    )

    assert groups_of(speeds.servers) == ((2, 1.0), (1, 0.5), (1, 1.0))
    assert groups_of(scenario().servers) == ((80, 1.0), (20, 0.01))
    assert groups_of(Scenario.simple(servers=7, load=0.5).servers) == ((7, 1.0),)
    assert Fleet.of(speeds).capacity == pytest.approx(3.5)


def test_a_million_servers_in_groups_cost_next_to_nothing():
    fleet = fleet_of([(900_000, 1.0), (100_000, 0.01)])
    answer = stability(fleet, "jsq-d(d=2)", load=0.9).answers[0]

    assert answer.found.stable is False
    assert answer.safe_d == 3
    assert answer.found.bottleneck.size == 100_000
    assert len(str(stability(fleet, "jsq-d(d=2)", load=0.9))) < 1500


def test_the_json_goes_through_json_and_has_the_curve():
    report = stability(scenario(), ["jsq-d", "jiq", "sed"])
    data = json.loads(json.dumps(report.to_json()))

    assert data["groups"] == [{"count": 80, "speed": 1.0}, {"count": 20, "speed": 0.01}]
    assert data["load"] == pytest.approx(0.9)
    jsq_d, jiq, sed = data["policies"]
    assert jsq_d["stable"] is False
    assert jsq_d["bottleneck"]["servers"] == [[80, 99]]
    assert jsq_d["safe_d"] == 4
    assert jsq_d["growth"] > 0
    assert jiq["known"] is False
    assert jiq["stable"] is None
    assert sed["stable"] is True
    curve = data["capacity_by_d"]["lam_max"]
    assert curve[1] == pytest.approx(jsq_d["lam_max"])
    assert curve == sorted(curve)
    assert data["capacity_by_d"]["bottleneck"][:2] == [20, 20]


@pytest.mark.parametrize(
    ("policy", "cure"),
    [
        ("random", ("Instead", "random(weighted=true), or jsq-d with d = 4")),
        ("round-robin", ("Instead", "round-robin(weighted=true), or jsq-d with d = 4")),
        ("ll-d", ("Safe from", "d = 4, or sampling in proportion to speed: ll-d(d=2, samp")),
    ],
)
def test_what_is_advised_carries_the_load(policy, cure):
    report = stability(scenario(), policy)
    what, text = cure

    assert dict(report.answers[0].rows())[what].startswith(text)
    for advised in ("random(weighted=true)", "round-robin(weighted=true)", "jsq-d(d=4)",
                    "ll-d(d=2, sampling=speed)"):  # fmt: skip
        assert stability_of(report.fleet, resolve(advised)).stable


def _words(figure):
    from matplotlib.text import Text

    figure.canvas.draw()
    return " | ".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def test_the_picture_shows_capacity_against_d_with_the_bottleneck():
    words = _words(draw(stability(scenario(), ["jsq-d", "jiq", "sed"])))

    for said in ("jsq-d(d=2) loses 93.5 %", "held back by the 20 slowest (speed 0.01)",
                 "d = 2: 6.5 %", "load asked, 90 %", "part of the capacity", "servers looked at",
                 "jiq", "for certain", "sed", "100 %, stable", "queues grow for ever"):  # fmt: skip
        assert said in words, said


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        ([0.3, 0.7], "this fleet: 30 % of the speed at server 0"),
        ([0.1, 0.2, 0.7], "jsq-d(d=2) loses nothing inside"),
    ],
)
def test_for_two_and_three_servers_the_speeds_that_lose_nothing_are_drawn(speeds, said):
    report = stability(fleet_of(speeds), ["jsq-d(d=1)", "jsq-d", "jiq"], load=0.5)

    assert said in _words(draw(report))


def test_the_triangle_of_a_law_agrees_with_its_capacity():
    from equipoise.report.stability_plot import _carried

    law = "sampled(law={0+1:0.5, 1+2:0.4, 0+2:0.1})"
    report = stability(fleet_of([0.1, 0.2, 0.7]), law)
    parts = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])

    # {0, 1}: 0.3/0.5; the second point has room in every set
    assert _carried(report, report.answers[0], parts).tolist() == pytest.approx([0.6, 1.0])


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_question_gives_the_same_picture(tmp_path, ending):
    report = stability(fleet_of(SLOW), "jsq-d")
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    report.picture(first)
    report.picture(second)

    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 5000
    assert sorted(p.name for p in tmp_path.iterdir()) == [first.name, second.name]


def test_a_report_is_short_to_look_at():
    report = stability(fleet_of(SLOW), ["jsq-d", "jsq"], load=0.5)

    assert repr(report) == (
        "StabilityReport(80 x 1 + 20 x 0.01; jsq-d(d=2): UNSTABLE; jsq: stable)"
    )
    with pytest.raises(EquipoiseError, match="no policy here is called 'sed'; they are: jsq-d"):
        report["sed"]


def shared(**servers):
    return Fleet.of(
        Scenario.from_dict(
            {
                "servers": {"discipline": "ps", "count": 3, **servers},
                "arrivals": {"law": "poisson", "load": 0.5},
                "service": {"law": "exponential", "mean": 2.0},
            }
        )
    )


@pytest.mark.parametrize(
    ("servers", "capacity", "kind"),
    [
        ({}, 1.5, "ps"),
        ({"workers": 4}, 1.5, "ps, at most 4 share"),
        ({"curve": [1.0, 1.6, 2.0]}, 3.0, "ps, speed by a curve"),
        ({"curve": [1.0, 1.6, 2.0], "workers": 2}, 2.4, "ps, at most 2 share, speed by a curve"),
        ({"curve": [3.0, 1.0]}, 1.5, "ps, speed by a curve"),
    ],
)
def test_servers_that_share_can_do_what_they_do_with_many_tasks(servers, capacity, kind):
    fleet = shared(**servers)

    assert fleet.capacity == pytest.approx(capacity)
    assert fleet.rate == pytest.approx(capacity / 2)
    assert fleet.kind == kind


@pytest.mark.parametrize("curve", [(1.0,), (1.0, 1.6, 2.0), (0.7, 1.9, 1.2, 2.5, 2.2), (3.0, 1.0)])
def test_what_workers_carry_servers_with_a_faster_curve_carry_too(curve):
    """min(k, w)/w is nowhere above the part of its speed that a server of k or more tasks has."""
    w = shared(curve=list(curve)).like_workers

    for k in range(1, 12):
        part = min(curve[min(j, len(curve)) - 1] for j in range(k, 20)) / curve[-1]
        assert min(k, w) / w <= part + 1e-12
    assert (w == 1) == (len(curve) == 1)
