"""The dispatcher before real servers: what it does is what the simulator says of the same tasks."""

import pytest

from examples.live.demo import MEANS, POLICIES, RATE, row, run

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SEED = 1


@pytest.fixture(scope="module")
def results():
    """A minute of each policy."""
    found = {}
    for result in run(60.0, SEED):
        print(row(result))
        found[result.policy] = result
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_the_simulator_predicts_the_mean_within_five_percent(results, policy):
    """The same tasks, policy and coins; a request's own time is measured with empty ones.

    What is left is the time for which the dispatcher does not know yet that a task has left, and
    whatever else this machine does.
    """
    assert abs(results[policy].error) <= 0.05, row(results[policy])


def test_every_task_was_served(results):
    """Poisson counts, the same for every policy: one seed."""
    (tasks,) = {result.tasks for result in results.values()}

    assert abs(tasks - 60 * RATE) < 4 * (60 * RATE) ** 0.5


def test_threshold_is_far_below_random_and_below_power_of_two(results):
    measured = {policy: result.measured for policy, result in results.items()}

    assert measured["threshold(level=1)"] <= 0.5 * measured["random"]
    assert measured["threshold(level=1)"] <= 0.93 * measured["jsq-d(d=2)"]


def test_the_model_of_random_is_that_of_four_queues(results):
    """M/M/1: 3 x 1/(100 - 40) s and 1/(50 - 40) s, a quarter of the tasks each."""
    assert [1 / mean for mean in MEANS] == pytest.approx([100, 100, 100, 50])
    assert results["random"].model == pytest.approx(0.0375)
