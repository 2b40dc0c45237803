"""Who may be advised, and which limit rules out whom."""

import pytest

from equipoise import EquipoiseError, Scenario, resolve
from equipoise.report.advise.candidates import (
    Limits,
    candidates_of,
    declared_messages,
    must_see,
    retuned,
)


def limits(messages=None, memory=None, sees=None, stable_to=None):
    return Limits.asked(messages, memory, sees, stable_to)


def names(candidates):
    return {one.spec.policy.name for one in candidates}


@pytest.fixture
def queues():
    return Scenario.simple(servers=100, load=0.7, tasks=100_000)


@pytest.fixture
def pools():
    return Scenario.simple(servers=100, discipline="pool", load=7.3, tasks=100_000)


def unequal(load, slow=0.1, fast=0.9):
    """Ten servers, half of them slow."""
    return Scenario.from_dict(
        {
            "servers": {
                "discipline": "fcfs",
                "groups": [{"count": 5, "speed": slow}, {"count": 5, "speed": fast}],
            },
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": 1.0},
        }
    )


def test_without_limits_nobody_is_left_out(queues, pools):
    assert candidates_of(queues, limits())[1] == []
    assert candidates_of(pools, limits())[1] == []


def test_the_threshold_of_pools_is_the_load_rounded_down(pools):
    found, _ = candidates_of(pools, limits())

    assert "threshold(level=7)" in {one.label for one in found}


def test_a_limit_on_memory_leaves_out_who_keeps_more_and_says_how_much(pools):
    found, out = candidates_of(pools, limits(memory=2))

    assert all(one.spec.policy.memory <= 2 for one in found)
    assert {(one.label, one.limit, one.reason) for one in out} == {
        ("jsq", "memory", "keeps 32 bits per server")
    }


@pytest.mark.parametrize(
    ("sees", "expected"),
    [
        ("nothing", {"random", "round-robin"}),
        ("answers", {"random", "round-robin", "jsq-d"}),
        ("messages", {"random", "round-robin", "jsq", "jiq", "jbt", "threshold"}),
        ("messages,answers,sizes", None),
    ],
)
def test_what_the_dispatcher_sees_decides_who_can_run(queues, sees, expected):
    found, _ = candidates_of(queues, limits(sees=sees))

    assert names(found) == expected if expected else "ll-d" in names(found)


@pytest.mark.parametrize(
    ("policy", "needed"),
    [
        ("random", set()),
        ("random(weighted=true)", {"speeds"}),
        ("jsq", {"messages"}),
        ("jsq-d(d=2, sampling=speed)", {"answers", "speeds"}),
        ("sed", {"messages", "speeds"}),
        ("ll-d(d=2)", {"answers", "sizes"}),
        ("sujsq-det(delta=1)", {"messages"}),
        ("sujsq-det(delta=1, mode=push)", {"answers"}),
        ("learning-threshold", {"messages"}),
    ],
)
def test_what_a_policy_must_see_follows_from_its_protocol(policy, needed):
    assert must_see(resolve(policy)) == needed


def test_a_power_of_two_that_cannot_carry_the_load_is_left_out():
    """Speeds .1 (5) and .9 (5): pairs of slow servers get 10 of 45 tasks and do .5, so 2.25 of 5.

    With d = 3 it is 10 of 120: 6, more than all servers can do.
    """
    found, out = candidates_of(unequal(0.7), limits())
    left_out = {one.label: one for one in out}

    assert left_out["jsq-d(d=2)"].limit == "stability"
    assert left_out["jsq-d(d=2)"].reason == "load 0.7 of the capacity, carries only 0.45"
    assert left_out["random"].reason == "load 0.7 of the capacity, carries only 0.2"
    assert {"jsq-d(d=3)", "jsq", "sed"} <= {one.label for one in found}


def test_a_load_to_be_carried_counts_as_a_multiple_of_the_mean():
    """.4 is carried by the power of two and 1.2 times .4 is not."""
    below, _ = candidates_of(unequal(0.4), limits())
    above, _ = candidates_of(unequal(0.4), limits(stable_to=1.2))

    assert "jsq-d(d=2)" in {one.label for one in below}
    assert "jsq-d(d=2)" not in {one.label for one in above}


@pytest.mark.parametrize("budget", [0.1, 0.4, 0.9])
def test_nobody_declares_more_messages_than_allowed(queues, budget):
    found, out = candidates_of(queues, limits(messages=budget))
    declared = [declared_messages(queues, one.spec) for one in found]

    assert all(sent <= budget for sent in declared if sent is not None)
    assert {"jsq-d(d=2)", "jsq-d(d=3)"} == {one.label for one in out if one.limit == "messages"}
    assert {"sujsq-det", "sparsified-jiq", "random"} <= names(found)


def test_sparsified_jiq_is_given_the_p_that_spends_the_budget(queues):
    """p (1 - load)/(1 - p load) messages per task; 2 % are kept back."""
    found, _ = candidates_of(queues, limits(messages=0.4))
    (p,) = (one.spec.params["p"] for one in found if one.role == "sparsified jiq")

    assert p * 0.3 / (1 - 0.7 * p) == pytest.approx(0.98 * 0.4, abs=1e-5)


def test_who_sent_too_much_is_made_to_send_less_in_proportion():
    (one,) = candidates_of(
        Scenario.simple(servers=10, load=0.5, tasks=1000), limits(), ["sujsq-det(delta=0.6)"]
    )[0]

    less = retuned(one, 0.8, limits(messages=0.4))

    assert less.spec.params["delta"] == pytest.approx(0.6 * 0.98 * 0.4 / 0.8)


def test_policies_that_are_named_take_the_place_of_those_proposed(queues):
    found, _ = candidates_of(queues, limits(), ["jsq", "threshold(level=3)"])

    assert [one.label for one in found] == ["jsq", "threshold(level=3)"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"messages": -1}, "messages_per_task = -1: must be a number, at least 0"),
        ({"memory": float("nan")}, "memory = nan: must be a number, at least 0"),
        ({"stable_to": 0}, "stable_to = 0: must be a multiple of the load, e.g. 1.2"),
        ({"sees": "length"}, "sees = 'length': a dispatcher can see messages, answers, speeds, "),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_in_one_line(given, words):
    with pytest.raises(EquipoiseError) as refused:
        limits(**given)

    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)
