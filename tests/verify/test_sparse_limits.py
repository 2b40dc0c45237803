"""Queues on sparse feedback simulated against their limits, n = 20000.

Mean waits within four standard errors of 8 runs + 10/n, at points where the limit is a good test:
away from the loads at which its tangent is vertical, and below 0.9 of the rate from which nobody
waits. Runs are long against the memory of the load.
"""

import numpy as np
import pytest

import equipoise as eq
from equipoise.scenario import Scenario
from equipoise.theory import sparse

pytestmark = pytest.mark.slow

N, RUNS = 20_000, 8

POINTS = [
    ("aujsq-exp", 0.5, 0.5, 0.27128645),
    ("aujsq-exp", 0.3, 0.2, 0.34760407),
    ("aujsq-exp", 0.7, 0.4, 1.35526955),
    ("aujsq-exp", 0.9, 0.9, 1.66870133),
    ("aujsq-exp", 0.9, 0.5, 2.98366533),
    ("sujsq-det", 0.5, 0.5, 0.15655020),
    ("sujsq-det", 0.5, 0.25, 0.22010579),
    ("sujsq-det", 0.7, 0.7, 0.30923652),
    ("sujsq-det", 0.7, 0.35, 0.46094375),
    ("sujsq-det", 0.9, 0.9, 0.84697245),
    ("sujsq-det", 0.9, 0.45, 1.13244230),
    ("aujsq-det", 0.7, 0.7, 0.30977991),
    ("aujsq-det", 0.7, 0.35, 0.72057477),
    ("aujsq-det", 0.9, 0.45, 1.46756821),
]


def waits(policy, load, n=N, service_times=80.0):
    """Mean wait of each run, whole periods of a synchronous clock alike."""
    scenario = Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": "fcfs"},
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {
                "duration": service_times + 60.0,
                "warm_up": 60.0 if load < 0.8 else service_times / 2 + 60.0,
                "replications": RUNS,
                "start": "balanced",
            },
        }
    )
    found = eq.simulate(scenario, policy).policy
    return found.replications["mean_wait"], found.replications["messages_per_task"]


@pytest.mark.parametrize(("scheme", "load", "delta", "wait"), POINTS)
def test_twenty_thousand_queues_wait_as_the_limit_says(scheme, load, delta, wait):
    times = 80.0 if load < 0.8 else 240.0
    found, messages = waits(f"{scheme}(delta={delta})", load, service_times=times)

    error = found.std(ddof=1) / np.sqrt(RUNS)
    assert sparse.equilibrium(scheme, load, delta).mean_wait == pytest.approx(wait, abs=1e-8)
    assert abs(found.mean() - wait) <= 4 * error + 10 / N
    assert messages.mean() == pytest.approx(delta / load, rel=0.02)


@pytest.mark.parametrize(
    ("load", "delta", "wait", "messages"),
    [(0.5, 0.5, 0.18612, 0.52778), (0.7, 0.7, 0.50372, 0.36092)],
)
def test_servers_that_tell_only_when_idle_wait_as_the_limit_says(load, delta, wait, messages):
    found, sent = waits(f"sujsq-det(delta={delta}, idle_only=true)", load)

    error = found.std(ddof=1) / np.sqrt(RUNS)
    assert abs(found.mean() - wait) <= 4 * error + 2e-4 + 10 / N
    assert sent.mean() == pytest.approx(messages, rel=0.02)


def test_one_message_per_task_of_idle_servers_is_nearly_enough():
    """Load .5, delta 1: waits .0355 and .0110 at n = 100 and 1000, four combined errors."""
    for n, wait, half, messages in ((100, 0.0355, 0.0035, 1.016), (1000, 0.0110, 0.0071, 1.008)):
        found, sent = waits("sujsq-det(delta=1, idle_only=true)", 0.5, n, 4_000_000 / n / 10)
        error = np.hypot(found.std(ddof=1) / np.sqrt(RUNS), half / 1.96)
        assert abs(found.mean() - wait) <= 4 * error
        assert sent.mean() == pytest.approx(messages, abs=0.02)


def test_sparsified_jiq_has_the_wait_and_messages_of_its_closed_form():
    found, messages = waits("sparsified-jiq(p=0.5)", 0.7, 5000, 150.0)

    error = found.std(ddof=1) / np.sqrt(RUNS)
    assert abs(found.mean() - 7 / 6) <= 4 * error + 10 / 5000
    assert messages.mean() == pytest.approx(0.23076923, rel=0.01)
