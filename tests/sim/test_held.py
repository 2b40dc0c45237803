"""Tasks that wait at the dispatcher: exact chains, conservation, and their order."""

import numpy as np
import pytest
from runs import assert_mean, cut, run

from equipoise import Scenario, resolve
from equipoise.sim.run import pick_kernel, replicate


def scenario(count=2, limit=1, queue=2, load=0.9, discipline="fcfs", **run_):
    return Scenario.from_dict(
        {
            "servers": {
                "count": count, "discipline": discipline, "limit": limit, "queue": queue,
            },
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential"},
            "run": {"tasks": 20_000, "warm_up": 50.0, "replications": 30} | run_,
        }
    )  # fmt: skip


@pytest.mark.parametrize("load", [0.7, 1.3])
def test_servers_without_a_queue_of_their_own_are_m_m_n_with_a_queue_at_the_dispatcher(load):
    """jsq finds every idle server: 3 servers and 4 places are M/M/3/7."""
    runs = run(scenario(count=3, limit=1, queue=4, load=load), "jsq")

    weights = [1.0]
    for k in range(1, 8):
        weights.append(weights[-1] * 3 * load / min(k, 3))
    law = np.array(weights) / sum(weights)
    accepted = 3 * load * (1 - law[7])
    assert_mean(runs["lost"], law[7])
    assert_mean(runs["mean_tasks"], accepted / 3)
    assert_mean(runs["mean_wait"], law @ np.maximum(np.arange(8) - 3, 0) / accepted)
    assert_mean(runs["mean_response"], law @ np.arange(8) / accepted)


def test_tasks_chosen_for_at_random_wait_in_order_as_a_small_chain_says():
    """Two servers of one place each, two places at the dispatcher.

    State (b, w): b servers busy, w tasks waiting. A task that comes while others wait goes behind
    them; after a departure the first is chosen for anew, and when it finds room the next one.
    """
    rate, servers, places = 1.8, 2, 2
    # with nobody busy every choice finds room: nobody waits
    states = [(b, w) for b in range(servers + 1) for w in range(places + 1) if b or not w]
    index = {state: i for i, state in enumerate(states)}
    q = np.zeros((len(states), len(states)))

    def after_departure(b, w, chance, source, speed):
        """Add the ways in which those waiting find room from (b, w) on."""
        room = (servers - b) / servers
        if w == 0:
            q[source, index[b, 0]] += speed * chance
            return
        if room < 1:
            q[source, index[b, w]] += speed * chance * (1 - room)
        if room > 0:
            after_departure(b + 1, w - 1, chance * room, source, speed)

    for b, w in states:
        i = index[b, w]
        if w == 0:
            q[i, index[min(b + 1, servers), 0]] += rate * (servers - b) / servers
            if b > 0:
                q[i, index[b, 1]] += rate * b / servers
        elif w < places:
            q[i, index[b, w + 1]] += rate
        if b > 0:
            after_departure(b - 1, w, 1.0, i, float(b))
    q -= np.diag(q.sum(axis=1))
    system = np.vstack((q.T, np.ones(len(states))))
    law = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    lost = sum(law[index[b, places]] for b in range(1, servers + 1))
    busy = sum(law[index[b, w]] * b for b, w in states)
    waiting = sum(law[index[b, w]] * w for b, w in states)
    assert busy == pytest.approx(rate * (1 - lost))

    runs = run(scenario(), "random")

    assert_mean(runs["lost"], lost)
    assert_mean(runs["mean_tasks"], busy / servers)
    assert_mean(runs["mean_wait"], waiting / (rate * (1 - lost)))


@pytest.mark.parametrize("discipline", ["fcfs", "pool"])
def test_every_task_is_somewhere(discipline):
    """Arrived = finished + present + lost, those at the dispatcher included."""
    one = scenario(3, 2, 5, load=3.0, discipline=discipline, duration=200.0, tasks=None)
    one = one.with_run(warm_up=0.0)
    spec = resolve("jsq-d")

    with cut(rows=1, stretches=1):
        record = replicate(one, spec, 0, kernel="events", trail=50_000)
    with cut(rows=7, stretches=9):
        pieces = replicate(one, spec, 0, kernel="events", trail=50_000)

    assert record.arrived == record.finished + record.present + record.lost
    assert record.lost > 20
    length, most = np.zeros(3, int), 0
    for event in record.trail:
        length[event if event >= 0 else -1 - event] += 1 if event >= 0 else -1
        assert length.max() <= 2
        most = max(most, length.max())
    assert most == 2
    assert 0 <= record.present - length.sum() <= 5
    assert record.trail.tolist() == pieces.trail.tolist()
    assert record.sums.sum(axis=0) == pytest.approx(pieces.sums.sum(axis=0), rel=1e-9)


def test_a_queue_at_the_dispatcher_takes_the_events_kernel():
    assert pick_kernel(scenario()) == "events"
    assert pick_kernel(scenario(queue=0)) == "memoryless"
