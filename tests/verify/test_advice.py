"""Advice at full size: theory's best is found, and real traces are answered within two minutes."""

import os
import time
from pathlib import Path

import pytest

from equipoise import Scenario, advise

ROOT = Path(__file__).parents[2]
DATA = os.environ.get("EQUIPOISE_DATA")
real = pytest.mark.skipif(not DATA, reason="EQUIPOISE_DATA names no folder of public traces")
pytestmark = pytest.mark.slow

TRACES = {
    "azure_llm_2023_code.csv": "code-assistant.toml",
    "azure_functions_2021_invocations.csv": "functions.toml",
}


@real
@pytest.mark.parametrize("trace", TRACES)
def test_a_real_trace_is_answered_within_two_minutes_and_the_same_again(trace):
    scenario = Scenario.from_toml(ROOT / "examples" / TRACES[trace], trace=Path(str(DATA)) / trace)
    begin = time.perf_counter()

    first = advise(scenario, current="round-robin")

    assert time.perf_counter() - begin < 120
    assert first.decided or first.undecided
    assert advise(scenario, current="round-robin").to_json() == first.to_json()


@real
def test_a_real_trace_of_functions_is_answered_as_a_log():
    """Ends and durations, no servers: the number of servers is asked for."""
    path = Path(str(DATA)) / "azure_functions_2021_invocations.csv"

    advice = advise(path, servers=5, current="round-robin", budget=2_000_000)

    assert len(advice.scenario.recording.times) == 199
    assert advice.advised not in ("random", "round-robin")


@pytest.mark.parametrize("load", [2.6, 7.3, 10.5])
def test_with_two_bits_the_best_threshold_is_advised_for_pools(load):
    scenario = Scenario.simple(servers=500, discipline="pool", load=load)

    limited = advise(scenario, memory=2, budget=4_000_000)
    free = advise(scenario, budget=4_000_000)

    assert limited.advised == f"threshold(level={int(load)})"
    assert free.advised == f"threshold(level={int(load)})"
    assert "jsq" in free.ties


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("messages", [0.2, 0.3, 0.4])
def test_with_few_messages_synchronous_updates_are_advised_for_queues(messages, seed):
    """At load .7 theory has sujsq-det first at each of these, of idle servers or of all."""
    scenario = Scenario.simple(servers=100, load=0.7, seed=seed)

    advice = advise(scenario, messages_per_task=messages, budget=5_000_000)

    assert advice.use.policy.name == "sujsq-det"
    sent = advice[advice.advised].result.metrics["messages_per_task"].value
    assert sent <= 1.02 * messages
    assert advice["sparsified-jiq"].standing == advice["random"].standing == "worse"


def test_a_power_of_two_without_room_is_never_advised():
    """Twenty servers of speed 1 and eighty of .05: pairs of slow ones get .64 of the tasks."""
    groups = [{"count": 20, "speed": 1.0}, {"count": 80, "speed": 0.05}]
    for load in (0.3, 0.5, 0.7):
        scenario = Scenario.from_dict(
            {
                "servers": {"discipline": "fcfs", "groups": groups},
                "arrivals": {"law": "poisson", "load": load},
                "service": {"law": "exponential", "mean": 0.1},
            }
        )

        advice = advise(scenario, budget=4_000_000)

        assert "jsq-d(d=2)" not in {e.label for e in advice.entries}
        assert "jsq-d(d=2)" in {e.label for e in advice.excluded}
