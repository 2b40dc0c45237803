"""Several dispatchers before real servers, with agents and without: what the simulator says of
the same tasks, and what tokens are worth.
"""

import pytest

from examples.live.many import HEAD, Run, measure, row

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SEED = 1
LONG, SHORT = 60.0, 45.0  # s
THRESHOLD = "threshold(level=1)"
ALONE = [
    Run(1, "agents", policy, LONG, SEED) for policy in (THRESHOLD, "jiq", "aujsq-exp(delta=2)")
]
LOCAL = Run(1, "local", THRESHOLD, SHORT, SEED)
SEVERAL = [
    Run(dispatchers, information, THRESHOLD, SHORT, SEED)
    for dispatchers in (2, 4)
    for information in ("agents", "local")
]
RUNS = [*ALONE, LOCAL, *SEVERAL]

# Mean waits in service times, of the model: exponential service, load 0.7, instant messages. Found
# with a plain simulator that shares no code with this one.
MODEL = {
    (1, "agents"): 0.22,
    (1, "local"): 0.22,
    (2, "agents"): 0.42,
    (2, "local"): 0.50,
    (4, "agents"): 0.70,
    (4, "local"): 0.85,
}


@pytest.fixture(scope="module")
def results():
    """Each run once; one that leaves a task or a message behind ends here."""
    print(f"\n{HEAD}")
    found = {}
    for run in RUNS:
        found[run] = measure(run)
        print(row(found[run]), flush=True)
    return found


every_run = pytest.mark.parametrize(
    "run", RUNS, ids=lambda run: f"{run.dispatchers}-{run.information}-{run.policy}"
)


@every_run
def test_the_simulator_predicts_the_mean_within_five_percent(results, run):
    """The same tasks; with one dispatcher the same coins, too; messages as slow as they were."""
    assert abs(results[run].error) <= 0.05, row(results[run])


@every_run
def test_the_simulator_predicts_the_wait_at_the_servers(results, run):
    """To 0.05 service times: four standard errors that are due to the coins, which differ where
    there are several dispatchers or the servers keep time, are 0.04 at most in 45 s.
    """
    assert abs(results[run].wait_predicted - results[run].wait) <= 0.05, row(results[run])


@every_run
def test_messages_are_as_many_as_the_simulator_counts(results, run):
    """To 3 %; of local counts there are none. Updates by the servers' own clocks are a Poisson
    stream of 48,000 expected in 60 s, whose four standard errors are 2 %.
    """
    assert results[run].messages == pytest.approx(results[run].messages_replayed, rel=0.03)
    assert (results[run].messages > 0) is run.agents


def test_two_updates_in_a_service_time_of_each_server_are_as_many_for_each_task(results):
    """2 x 8 updates and 8 x 0.7 tasks in a service time."""
    assert results[ALONE[2]].messages == pytest.approx(2 / 0.7, rel=0.03)


@pytest.mark.parametrize(("dispatchers", "least"), [(2, 0.015), (4, 0.09)])
def test_with_tokens_tasks_wait_less_than_with_local_counts(results, dispatchers, least):
    """The same tasks. In the simulator the differences in 45 s are 0.069 and 0.162 service times
    with standard deviations of 0.009 and 0.014; messages that take 0.5 ms cost 0.015 of them.
    """
    tokens, local = (
        results[Run(dispatchers, information, THRESHOLD, SHORT, SEED)]
        for information in ("agents", "local")
    )

    assert tokens.wait < local.wait - least, f"{row(tokens)}\n{row(local)}"


def test_one_dispatcher_needs_no_tokens(results):
    """It knows all by itself; messages only come later. 45 s: a standard deviation of 0.02."""
    assert results[LOCAL].wait == pytest.approx(MODEL[1, "local"], abs=0.1)
    assert results[ALONE[0]].wait == pytest.approx(MODEL[1, "agents"], abs=0.1)


@pytest.mark.parametrize("run", [ALONE[0], LOCAL, *SEVERAL], ids=str)
def test_the_model_is_that_of_a_plain_simulator(results, run):
    found = results[run]

    assert found.wait_model == pytest.approx(MODEL[run.dispatchers, run.information], abs=0.015)
