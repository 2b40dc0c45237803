"""ll-d: the least remaining work of d, in kernels that know it; no others run it."""

import heapq
import random

import numpy as np
import pytest

from equipoise import PolicyError, PolicyMismatch, compare, simulate
from equipoise.policies import resolve
from equipoise.policies.base import SizedFleet, ask_work, book_work
from equipoise.scenario import Scenario


def fleet(speeds, workers=1):
    n = len(speeds)
    return SizedFleet(
        n, np.zeros(n, np.int32), np.zeros(1, np.int64), np.zeros(n), np.zeros(n), np.zeros(1),
        np.array(speeds, float), np.array([workers], np.int64),
    )  # fmt: skip


def test_work_falls_at_the_servers_speed_and_rises_by_what_comes():
    one = fleet([0.5, 2.0])
    for server in (0, 1):
        book_work(one, server, 0, 4.0)  # 4 s of work at speed 1
        one.length[server] = 1
    one.now[0] = 1.0

    assert ask_work(one, 0) == pytest.approx((4.0 - 0.5) / 0.5)
    assert ask_work(one, 1) == pytest.approx((4.0 - 2.0) / 2.0)
    one.now[0] = 100.0
    assert ask_work(one, 1) == 0.0
    assert one.asked[0] == 6


def test_work_left_is_a_plain_account_of_the_tasks():
    """One server of speed 0.7, first come, first served, against sizes summed by hand."""
    coins, one, speed = random.Random(3), fleet([0.7]), 0.7
    now, free_at, waiting = 0.0, 0.0, []
    for _ in range(500):
        now += coins.expovariate(1.0)
        while waiting and waiting[0] <= now:
            one.now[0] = heapq.heappop(waiting)
            one.length[0] -= 1
            book_work(one, 0, one.length[0] + 1, 0.0)
        one.now[0] = now
        assert ask_work(one, 0) == pytest.approx(max(0.0, free_at - now), abs=1e-9)
        size = coins.expovariate(2.0)
        free_at = max(free_at, now) + size / speed
        heapq.heappush(waiting, free_at)
        one.length[0] += 1
        book_work(one, 0, one.length[0] - 1, size)


def test_least_work_of_all_waits_like_one_line_for_all():
    """Among n equal servers the least work is who is free first: M/G/n, here deterministic sizes.

    Against a heap of when servers are free, fed with the scenario's own tasks.
    """
    n, tasks = 3, 20_000
    scenario = Scenario.simple(
        servers=n, load=0.85, service="lognormal(mean=1, scv=4)", tasks=tasks, replications=2,
        warm_up=0.0,
    )  # fmt: skip
    found = simulate(scenario, "ll-d(d=3)")

    from equipoise.rng import ARRIVALS_SEED, SERVICE_SEED, seeds

    for replication in range(2):
        streams = seeds(scenario.run.seed, replication)
        stream = scenario.task_stream(streams[ARRIVALS_SEED], streams[SERVICE_SEED])
        free, waits = [0.0] * n, []
        while len(waits) < tasks:
            times, sizes = stream.block()
            for at, size in zip(times.tolist(), sizes.tolist(), strict=True):
                start = max(at, heapq.heappop(free))
                heapq.heappush(free, start + size)
                if len(waits) < tasks:
                    waits.append(start - at)
        # the run counts waits of the tasks that began in it, all but the last few
        assert found.policy.replications["mean_wait"][replication] == pytest.approx(
            np.mean(waits), rel=0.01
        )


@pytest.mark.parametrize("servers", [{"speeds": [1.0, 0.2, 1.0, 0.5]}, {"count": 4}])
def test_knowing_the_work_waits_less_than_knowing_the_number(servers):
    scenario = Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", **servers},
            "arrivals": {"law": "poisson", "load": 0.8},
            "service": {"law": "lognormal", "mean": 1.0, "scv": 4.0},
            "run": {"tasks": 60_000, "replications": 8},
        }
    )
    found = compare(scenario, ["ll-d(d=3)", "jsq-d(d=3)"], kernel="events", rank_by="mean_wait")

    (difference,) = found.differences  # on the same tasks, the better first
    assert difference.a == "ll-d(d=3)"
    assert difference.value < -difference.error


def test_kernels_that_do_not_know_sizes_refuse_it():
    scenario = Scenario.simple(servers=4, load=0.5, tasks=1000)
    with pytest.raises(PolicyMismatch, match="memoryless kernel does not know; use events"):
        simulate(scenario, "ll-d", kernel="memoryless")

    slotted = Scenario.from_dict(
        {
            "servers": {"discipline": "slotted", "speeds": [0.5, 0.5]},
            "arrivals": {"law": "slots", "jobs": "bernoulli", "load": 0.5},
            "service": {"law": "slots", "jobs": "bernoulli"},
            "run": {"tasks": 1000},
        }
    )
    with pytest.raises(PolicyMismatch, match="in slotted time tasks have none"):
        simulate(slotted, "ll-d")


def test_more_may_be_asked_than_there_are_only_with_replacement():
    resolve("ll-d(d=3, replacement=true)").check(2)

    with pytest.raises(PolicyError, match="d = 3 is more than the 2 servers there are"):
        resolve("ll-d(d=3)").check(2)
