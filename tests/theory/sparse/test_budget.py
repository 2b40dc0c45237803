"""The best policy for so many messages per task: within the budget, and better than the rest."""

import math
from functools import lru_cache

import pytest

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import (
    aujsq_exp,
    baselines,
    equilibrium,
    messages_per_task,
    recommend,
    sparsified_jiq,
    sujsq_det,
)

ask = lru_cache(recommend)  # several tests look at the same answer
QUESTIONS = [
    (0.8, 0.3, "pull"),
    (0.7, 0.1, "pull"),
    (0.95, 0.5, "pull"),
    (0.3, 1.4, "pull"),
    (0.8, 0.5, "push"),
    (0.9, 4.0, "push"),
]


@pytest.mark.parametrize(("load", "budget", "mode"), QUESTIONS)
def test_all_options_are_within_the_budget_and_the_first_waits_least(load, budget, mode):
    answer = ask(load, budget, mode=mode)

    waits = [option.mean_wait for option in answer.options]
    assert waits[1:] == sorted(waits[1:]) or waits[0] < 1e-9
    assert answer.best.mean_wait <= min(waits) + 1e-9
    assert all(option.messages <= budget * (1 + 2e-6) for option in answer.options)
    assert answer.saved_by_one_more >= -1e-12
    assert answer.marginal >= 0


@pytest.mark.parametrize(("load", "budget", "mode"), QUESTIONS)
def test_options_wait_as_long_as_their_scheme_does_at_their_delta(load, budget, mode):
    """Within what the six digits of delta leave open."""
    for option in ask(load, budget, mode=mode).options:
        parameters = dict(option.parameters)
        if "delta" not in parameters:
            continue
        idle_only = parameters.get("idle_only") == "true"
        rest = equilibrium(option.policy, load, float(parameters["delta"]), idle_only=idle_only)

        assert option.mean_wait == pytest.approx(rest.mean_wait, rel=1e-3, abs=2e-5)
        assert option.messages == pytest.approx(rest.messages(mode), rel=1e-4)
        assert (parameters.get("mode") == "push") == (mode == "push")


def test_the_answer_for_load_0_8_and_0_3_messages_per_task():
    answer = ask(0.8, 0.3)
    waits = {option.label: option.mean_wait for option in answer.options}
    all_tell = sujsq_det(0.8, 0.24).mean_wait

    assert answer.best.policy == "sujsq-det"
    assert dict(answer.best.parameters)["idle_only"] == "true"
    assert answer.best.messages == pytest.approx(0.3, rel=1e-5)
    assert waits["sujsq-det(delta=0.24)"] == pytest.approx(all_tell, rel=1e-12)
    assert answer.best.mean_wait < all_tell
    assert waits["aujsq-exp(delta=0.24)"] == pytest.approx(aujsq_exp(0.8, 0.24).mean_wait)
    p = 0.3 / (0.2 + 0.3 * 0.8)
    assert waits[f"sparsified-jiq(p={p:.6g})"] == pytest.approx(sparsified_jiq(0.8, p).mean_wait)
    assert waits["round-robin"] == baselines.round_robin(0.8).mean_wait
    assert answer.with_one_more.label == "jiq"
    assert answer.saved_by_one_more == answer.best.mean_wait
    assert answer.best.label in answer.verdict
    assert "jiq" in answer.verdict


def test_one_message_per_task_is_enough_for_no_wait():
    answer = ask(0.9, 1.0)

    assert answer.best.label == "jiq"
    assert answer.best.mean_wait == 0
    assert "no policy does better" in answer.verdict
    idle = [o for o in answer.options if ("idle_only", "true") in o.parameters]
    assert [o.mean_wait < 1e-9 for o in idle] == [True] * 3
    assert [o.messages for o in idle] == pytest.approx([1, 1, 1], abs=1e-6)


def test_without_messages_round_robin_is_best():
    answer = ask(0.9, 0)

    assert [option.label for option in answer.options] == ["round-robin", "random"]
    assert answer.marginal == 0


def test_next_to_no_messages_are_worth_less_than_taking_turns():
    """Rare synchronous updates leave a little more wait than round robin."""
    answer = ask(0.7, 0.01)

    assert answer.best.label == "round-robin"
    assert ask(0.7, 0.1).best.policy == "sujsq-det"


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_more_messages_never_make_the_best_wait_longer(load):
    waits = [ask(load, budget).best.mean_wait for budget in (0, 0.2, 0.6, 1.0)]

    assert waits == sorted(waits, reverse=True)


def test_where_servers_only_answer_jiq_is_out_and_an_update_costs_two():
    answer = ask(0.9, 4.0, mode="push")
    waits = {option.label: option.mean_wait for option in answer.options}

    assert "jiq" not in waits
    assert waits["jsq-d(d=2)"] == baselines.jsq_d(0.9, 2).mean_wait
    label = "sujsq-det(delta=1.8,mode=push)"
    assert waits[label] == pytest.approx(sujsq_det(0.9, 1.8).mean_wait, rel=1e-10)
    assert waits[label] < waits["jsq-d(d=2)"]
    assert answer.with_one_more.mean_wait < answer.best.mean_wait


@pytest.mark.parametrize("load", [0.7, 0.9])
def test_one_message_per_task_beats_the_four_of_two_choices(load):
    assert sujsq_det(load, load).messages() == pytest.approx(1)
    assert sujsq_det(load, load).mean_wait < 0.6 * baselines.jsq_d(load, 2).mean_wait


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_random_gaps_are_an_option_and_worse_than_equal_ones(load):
    answer = ask(load, 0.5, random_gaps=True)
    best = {}
    for option in answer.options:
        best.setdefault((option.policy, ("idle_only", "true") in option.parameters), option)

    for idle_only in (False, True):
        random, equal = best["sujsq-exp", idle_only], best["sujsq-det", idle_only]
        assert random.mean_wait > equal.mean_wait + random.error / 2
        assert random.messages == pytest.approx(0.5, rel=1e-5)


def test_the_margin_is_the_slope_of_the_wait():
    answer = ask(0.7, 0.1)
    h = 7e-4  # one message per task in a hundred
    slope = (sujsq_det(0.7, 0.07).mean_wait - sujsq_det(0.7, 0.07 + h).mean_wait) / (h / 0.7)

    assert answer.best.label == "sujsq-det(delta=0.07)"
    assert answer.marginal == pytest.approx(slope, rel=0.02)


def test_schemes_without_an_answer_are_named_with_the_reason():
    assert "do not settle" in ask(0.7, 0.1).left_out[0]
    few = ask(0.7, 1e-4)
    assert few.best.label == "round-robin"
    assert all("levels" in reason for reason in few.left_out)


@pytest.mark.parametrize(("mode", "times"), [("pull", 1), ("push", 2)])
def test_an_update_costs_one_message_or_two(mode, times):
    assert messages_per_task(0.7, 0.7, mode) == times
    assert messages_per_task(0.5, 1.0, mode, idle_told=0.5) == 2 * (times - 1 + 0.5)
    assert sujsq_det(0.7, 0.35).messages(mode) == pytest.approx(times / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recommend(0.5, -0.1), "messages_per_task = -0.1 must be a number >= 0"),
        (lambda: recommend(0.5, math.inf), "messages_per_task"),
        (lambda: recommend(0.5, None), "messages_per_task"),
        (lambda: recommend(0, 0.1), "load = 0"),
        (lambda: recommend(0.5, 0.1, mode="shout"), "no mode is called 'shout'; the modes are"),
        (lambda: messages_per_task(0.5, 0), "delta = 0"),
        (lambda: messages_per_task(0.5, 1, "post"), "no mode is called 'post'"),
        (lambda: messages_per_task(0.5, 1, idle_told=1.5), "idle_told = 1.5"),
        (lambda: equilibrium("jsq", 0.5, 1), "no scheme is called 'jsq'"),
    ],
)
def test_what_makes_no_sense_is_told(call, message):
    with pytest.raises(EquipoiseError, match=message):
        call()


def test_more_load_than_servers_can_do_is_unstable():
    with pytest.raises(UnstableError):
        recommend(1.0, 0.5)
