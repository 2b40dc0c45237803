"""Advice: what theory knows to be best is what is advised; the same seed, the same answer."""

import json
import tomllib

import numpy as np
import pytest
from runs import cut

from equipoise import EquipoiseError, Scenario, UnstableError, advise, resolve

SMALL = 1_500_000  # tasks


@pytest.fixture(scope="module", autouse=True)
def _coarse():
    """Short runs need no path of 500 points, which would take most of their time."""
    with cut(rows=21, stretches=2):
        yield


def queues(**more):
    return Scenario.simple(servers=40, load=0.7, **more)


@pytest.fixture(scope="module")
def sparse():
    """Queues at load .7 with at most .4 messages per task."""
    return advise(queues(), messages_per_task=0.4, current="round-robin", budget=SMALL)


@pytest.fixture(scope="module")
def pools():
    """Pools at load 7.3, no limits."""
    scenario = Scenario.simple(servers=200, discipline="pool", load=7.3)
    return advise(scenario, current="random", budget=SMALL)


def test_with_few_messages_queues_are_told_of_lengths_seldom_but_together(sparse):
    """In the limit sujsq-det waits .44 (idle servers) or .54, sparsified-jiq .72, random 2.33."""
    assert sparse.use.policy.name == "sujsq-det"
    assert sparse["sparsified-jiq"].standing == "worse"
    assert sparse["random"].standing == "worse"


def test_the_advised_policy_keeps_the_limit_as_measured(sparse):
    sent = sparse[sparse.advised].result.metrics["messages_per_task"]

    assert sent.value - sent.error <= 0.4
    for entry in sparse.entries:
        if entry.standing != "messages":
            sent = entry.result.metrics["messages_per_task"]
            assert sent.value - sent.error <= 1.02 * 0.4, entry.label


def test_who_sends_more_is_left_out_with_what_was_measured(sparse):
    reasons = {one.label: one.reason for one in sparse.excluded if one.limit == "messages"}

    assert reasons["jsq"] == "1 message per task, measured"
    assert reasons["jsq-d(d=2)"] == "takes 4 messages per task"


def test_the_gain_over_what_is_used_now_is_the_paired_difference(sparse):
    """The advised policy waits .44 and round robin .88 in the limit, .1 more at n = 40."""
    now = sparse["round-robin"]
    difference = (
        now.result.metrics["mean_wait"].value
        - sparse[sparse.advised].result.metrics["mean_wait"].value
    )

    assert now.against.value == pytest.approx(difference, rel=0.05)
    assert now.against.value - now.against.error > 0.2
    assert "round-robin (now): mean wait" in str(sparse)


def test_pools_without_a_limit_tie_honestly_between_threshold_and_jsq(pools):
    assert pools.advised == "threshold(level=7)"
    assert "jsq" in pools.ties
    assert "Ties with" in str(pools)
    assert pools["random"].standing == "worse"


def test_a_load_beyond_the_threshold_calls_for_one_that_learns(pools):
    """7.3 times 1.2 is 8.76: the right threshold is then 8."""
    (more,) = [change for change in pools.changes if change.kind == "load"]

    assert not more.holds
    assert more.better.startswith("learning-threshold")


def test_pools_with_two_bits_have_the_threshold_at_the_load():
    scenario = Scenario.simple(servers=200, discipline="pool", load=4.6)

    advice = advise(scenario, memory=2, budget=SMALL)

    assert advice.advised == "threshold(level=4)"
    assert [one.label for one in advice.excluded] == ["jsq"]


def test_a_power_of_two_that_is_unstable_is_never_advised():
    """Speeds .1 and .9: the power of two carries .45 of the capacity."""
    scenario = Scenario.from_dict(
        {
            "servers": {
                "discipline": "fcfs",
                "groups": [{"count": 5, "speed": 0.1}, {"count": 5, "speed": 0.9}],
            },
            "arrivals": {"law": "poisson", "load": 0.7},
            "service": {"law": "exponential", "mean": 1.0},
        }
    )

    advice = advise(scenario, current="jsq-d(d=2)", budget=SMALL)

    assert advice.advised != "jsq-d(d=2)"
    assert "jsq-d(d=2)" not in {e.label for e in advice.entries}
    assert any("jsq-d(d=2) (now) cannot be compared with" in note for note in advice.notes)


def test_the_same_seed_gives_the_same_answer(sparse):
    again = advise(queues(), messages_per_task=0.4, current="round-robin", budget=SMALL, workers=1)
    other = advise(queues(seed=2), messages_per_task=0.4, current="round-robin", budget=SMALL)

    assert again.to_json() == sparse.to_json()
    assert other.to_json() != sparse.to_json()


def test_the_configuration_is_a_file_whose_policies_are_those_of_a_scenario(sparse, tmp_path):
    path = tmp_path / "advised.toml"
    sparse.save(path)

    tables = tomllib.loads(path.read_text())

    (policy,) = tables["policies"]
    assert resolve(policy).label == sparse.advised
    assert tables["servers"] == {}
    assert "# addresses = " in path.read_text()
    assert str(sparse.written["configuration"]) == str(path)


def test_the_json_is_finite_and_says_what_the_answer_is(sparse):
    text = json.dumps(sparse.to_json(), allow_nan=False)

    data = json.loads(text)
    assert data["advised"]["label"] == sparse.advised
    assert {p["standing"] for p in data["policies"]} >= {"advised", "worse", "messages"}
    assert {c["kind"] for c in data["changes"]} == {"load", "server", "delay"}


def test_the_page_holds_every_policy_and_refers_to_nothing_outside(pools, tmp_path):
    path = tmp_path / "advice.html"
    text = pools.page(path)

    assert path.read_text() == text
    for entry in pools.entries:
        assert entry.label in text
    assert "The configuration to use" in text
    assert 'src="http' not in text
    assert "<link" not in text


def test_the_smallest_fleet_for_a_mean_response_is_the_known_one():
    """Single queues at random: 1 / (1 - 9 / n) s, which is 2.125 with 17 servers and 2 with 18."""
    scenario = Scenario.simple(servers=12, rate=9.0, tasks=60_000)

    advice = advise(scenario, goal="mean_response=2.06", policies=["random"], budget=SMALL)

    assert advice.fleet.servers == 18
    assert advice.fleet.value.value == pytest.approx(2.0, rel=0.03)
    assert not next(t for t in advice.fleet.tried if t.servers == 17).enough


def test_a_goal_that_no_fleet_reaches_is_said_to_be_out_of_reach():
    """A task alone takes 1 s on average."""
    scenario = Scenario.simple(servers=2, rate=1.0, tasks=2000)

    advice = advise(scenario, goal="mean_response=0.5", policies=["random"], budget=SMALL)

    assert advice.fleet.servers is None
    assert "not reached with 512 servers" in str(advice)


def test_an_impossible_load_names_whom_it_excludes():
    with pytest.raises(UnstableError) as refused:
        advise(queues(), stable_to=1.5)

    first, second = str(refused.value).splitlines()
    assert first == "no policy keeps all limits"
    assert second.startswith("stable_to = 1.5 excludes random, round-robin, ")
    assert second.endswith("(load 1.05 of the capacity, carries only 1)")


def test_a_limit_that_nobody_named_can_keep_says_so():
    with pytest.raises(EquipoiseError, match=r"memory = 2 excludes jsq \(keeps 32 bits per server"):
        advise(queues(), memory=2, policies=["jsq"])


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("speed=2", "goal: no metric 'speed' to reach; they are: "),
        ("throughput=2", "goal: no metric 'throughput' to reach"),
        ("p99_response", "goal = 'p99_response': write a metric and the most it may be"),
        ("p99_response=fast", "goal: p99_response = 'fast' must be a number, at least 0"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_in_one_line(goal, words):
    with pytest.raises(EquipoiseError) as refused:
        advise(queues(), goal=goal)

    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_slotted_servers_are_refused():
    scenario = Scenario.from_dict(
        {
            "servers": {"count": 2, "discipline": "slotted"},
            "arrivals": {"law": "slots", "load": 0.5, "jobs": "poisson"},
            "service": {"law": "slots", "jobs": "bernoulli"},
        }
    )
    with pytest.raises(EquipoiseError, match="slotted servers have none"):
        advise(scenario)


def test_ctrl_c_keeps_what_is_known(sparse):
    seen = []

    def stop(done, text):
        seen.append(done)
        if len(seen) == 700:  # in a later round: 16 replications of the first report 42 times each
            raise KeyboardInterrupt

    advice = advise(
        queues(tasks=2000), policies=["jsq", "random"], budget=10_000_000, workers=1, progress=stop
    )

    assert advice.interrupted
    assert advice.advised == "jsq"
    assert "Interrupted: this is what was known by then." in advice.notes


def test_a_tie_that_is_not_decided_says_what_would_decide():
    """Two jsq-d whose difference at so few servers is small, and no time to tell."""
    advice = advise(
        Scenario.simple(servers=8, load=0.5, tasks=500),
        policies=["jsq-d(d=7)", "jsq-d(d=6)"],
        matters=1e-4,
        budget=20_000,
    )

    assert advice.undecided
    assert not advice.decided
    assert "Not decided" in str(advice)
    assert "would decide" in str(advice)


def test_intervals_of_values_hold_the_known_wait():
    """Random dispatch waits load / (1 - load) = 7/3."""
    advice = advise(queues(), policies=["random"], budget=SMALL)
    found = advice["random"].result.metrics["mean_wait"]

    assert abs(found.value - 7 / 3) <= 2 * found.error
    assert np.isfinite(found.error)


@pytest.mark.parametrize("now", ["random", "round-robin"])
def test_what_is_used_now_stays_where_nothing_is_better_or_cheaper(now):
    """Ten servers and hardly any traffic: nobody ever waits."""
    scenario = Scenario.simple(servers=10, rate=1e-5, tasks=200)

    advice = advise(scenario, current=now, policies=["random", "round-robin", "jsq"], budget=SMALL)

    assert advice.advised == now
    assert set(advice.ties) == {"random", "round-robin", "jsq"} - {now}
    assert f"{now} is what you have (now): keep it" in str(advice)
