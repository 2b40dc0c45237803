"""Servers that their tasks share: closed forms, birth and death, a slow loop over the work left.

Source of insensitivity: Kelly (1979), Reversibility and Stochastic Networks, section 3.3.
"""

import heapq

import numpy as np
import pytest
import reference_sharing
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_law, assert_mean, cut, run
from scipy.stats import poisson

from equipoise import PolicyMismatch, Scenario, resolve
from equipoise.rng import ARRIVALS_SEED, SERVICE_SEED, seeds
from equipoise.scenario import stream
from equipoise.sim import sharing
from equipoise.sim.run import pick_kernel, replicate
from equipoise.sim.store import NOBODY


def bounded_pareto(index=1.5, ratio=1000.0):
    """A law of mean 1 s whose longest times are `ratio` times its shortest, by its quantiles."""
    p = np.concatenate((np.linspace(0, 0.99, 400), 1 - np.geomspace(0.0099, 1e-7, 400), [1.0]))
    x = (1 - p * (1 - ratio**-index)) ** (-1 / index)
    steps, mean = np.diff(p), (x[1:] + x[:-1]) / 2
    law = {"law": "empirical", "quantiles": x.tolist(), "probabilities": p.tolist()}
    return law | {"factor": 1 / float(steps @ mean)}


LAWS = {
    "deterministic": {"law": "deterministic"},
    "exponential": {"law": "exponential"},
    "hyperexponential": {"law": "hyperexponential", "scv": 10.0},
    "bounded Pareto": bounded_pareto(),
}
every_law = pytest.mark.parametrize("law", LAWS)


def scenario(servers, law="exponential", load=0.7, **run):
    return Scenario.from_dict(
        {
            "servers": servers,
            "arrivals": {"law": "poisson", "load": load},
            "service": LAWS[law],
            "run": {"tasks": 20_000, "warm_up": 300.0, "replications": 40} | run,
        }
    )


@every_law
def test_a_shared_server_responds_as_if_service_were_exponential(law):
    """1 / (1 - load) and geometric numbers of tasks, whatever the law."""
    runs = run(scenario({"count": 1, "discipline": "ps"}, law, tasks=40_000), "random")

    assert_mean(runs["mean_response"], 1 / 0.3)
    assert_mean(runs["mean_tasks"], 0.7 / 0.3)
    for tasks in (1, 2, 5):
        assert_mean(runs.at_least(tasks, 1), 0.7**tasks)


@every_law
def test_the_number_at_pools_is_poisson_whatever_the_law(law):
    """Looked at every 30 s, when nearly all have left that were there before."""
    pools = {"count": 4, "discipline": "pool"}
    runs = run(
        scenario(pools, law, load=3.0, tasks=None, duration=1800.0, warm_up=300.0, seed=5),
        "round-robin",
        "events",
        rows=6,
        stretches=10,
    )

    # the bounded Pareto law remembers longest: tasks of 300 s are 1 in 10^5
    assert_law(runs.totals(4)[:, 10:].ravel(), poisson(12.0))


def birth_and_death(rate, speed, most=400):
    """The stationary law of one queue that serves at `speed(k)` with k tasks."""
    weights = [1.0]
    for k in range(1, most):
        weights.append(weights[-1] * rate / speed(k))
    return np.array(weights) / sum(weights)


@pytest.mark.parametrize(
    ("workers", "curve"),
    [(3, None), (None, (1.0, 1.6, 2.0)), (2, (1.0, 1.6, 2.0)), (4, (1.0, 1.8, 2.4, 2.2, 0.1))],
)
def test_limits_and_curves_hold_to_birth_and_death(workers, curve):
    """Tasks above `workers` wait; the wait is theirs over the rate, by Little's law."""
    servers = {"count": 1, "discipline": "ps", "workers": workers, "curve": curve}
    servers = {key: value for key, value in servers.items() if value is not None}
    one = scenario(servers, load=0.8, tasks=40_000)
    rate = one.rate_table()[1][0]
    top = len(curve or (1,))
    law = birth_and_death(rate, lambda k: (curve or (1.0,))[min(k, workers or k, top) - 1])
    k = np.arange(law.size)

    runs = run(one, "random")

    assert_mean(runs["mean_tasks"], law @ k)
    for tasks in (1, 2, 4, 6):
        assert_mean(runs.at_least(tasks, 1), law[tasks:].sum())
    assert_mean(runs["mean_wait"], law @ np.maximum(0, k - (workers or law.size)) / rate)
    assert_mean(runs["mean_response"], law @ k / rate)


FLEETS = {
    "shared": {"count": 5},
    "unequal, three at once": {"speeds": [0.5, 1.0, 1.0, 2.0, 3.0], "workers": 3},
    "with a curve": {"count": 5, "workers": 4, "curve": [1.0, 1.5, 1.8]},
}


@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("law", ["exponential", "hyperexponential"])
def test_the_tasks_leave_as_a_loop_over_the_work_left_says(fleet, law):
    """In the same order, with the same waits and responses."""
    servers = {"discipline": "ps", **FLEETS[fleet]}
    one = scenario(servers, law, load=0.9, tasks=None, duration=300.0, warm_up=0.0)
    streams = seeds(one.run.seed, 0)
    times, sizes = one.task_stream(streams[ARRIVALS_SEED], streams[SERVICE_SEED]).block()
    here = times <= 300.0
    tasks = list(zip(times[here].tolist(), sizes[here].tolist(), strict=True))

    record = replicate(one, resolve("jsq-d"), 0, kernel="events", trail=100_000)
    choices = [int(server) for server in record.trail if server >= 0]
    loop = reference_sharing.simulate(
        tasks, choices, 300.0, one.servers.speed_of, FLEETS[fleet].get("workers"),
        FLEETS[fleet].get("curve", (1.0,)),
    )  # fmt: skip

    sums = record.sums.sum(axis=0)
    assert len(loop.left) > 300
    assert [-1 - int(server) for server in record.trail if server < 0] == loop.left
    assert record.waits.sum() == len(loop.waits)
    assert sums[3] == pytest.approx(sum(loop.waits), rel=1e-9)
    assert sums[5] == pytest.approx(sum(loop.responses), rel=1e-9)
    assert sums[1] == pytest.approx(loop.area, rel=1e-9)


def test_the_path_does_not_depend_on_how_a_run_is_cut():
    """Nor on where its arrays grew, nor on the blocks its tasks came in."""
    servers = {"discipline": "ps", **FLEETS["unequal, three at once"]}
    one = scenario(
        servers, load=0.99, tasks=None, duration=4000.0, warm_up=0.0, start=[900, 0, 3, 0, 0]
    )
    spec = resolve("jsq-d")

    with cut(rows=1, stretches=1):
        whole = replicate(one, spec, 0, kernel="events", trail=100_000)
    with cut(rows=13, stretches=7, chunk=stream.CHUNK):
        pieces = replicate(one, spec, 0, kernel="events", trail=100_000)

    assert whole.present + whole.finished > 20_000
    assert whole.trail.tolist() == pieces.trail.tolist()
    assert whole.sums.sum(axis=0) == pytest.approx(pieces.sums.sum(axis=0), rel=1e-9)
    assert (whole.responses.sum(axis=0) == pieces.responses.sum(axis=0)).all()


times = st.floats(0, 10, width=16)


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), times)), max_size=80))
def test_the_tasks_of_a_server_leave_by_their_finishes(script):
    """After any arrivals and departures at four servers, against Python's own heap."""
    none = np.zeros(0, np.int64)
    memory = sharing.make_sharing(4, none, np.zeros(0), none > 0, 80, np.ones(1))
    theirs: list[list[float]] = [[] for _ in range(4)]
    for task, (server, size) in enumerate(script):
        if size is not None:
            sharing.add(memory, server, task, size)
            heapq.heappush(theirs[server], memory.clock[server] + size)
        elif theirs[server]:
            left = sharing.leave(memory, server, 0.0)
            assert memory.finish[left] == heapq.heappop(theirs[server])
        sharing.set_due(memory, server, len(theirs[server]), 0.0)

        due = [(t[0] - memory.clock[s]) * len(t) if t else np.inf for s, t in enumerate(theirs)]
        assert memory.due[1] == pytest.approx(min(due))
        if any(theirs):
            assert due[sharing.first_due(memory)] == pytest.approx(min(due))
        assert all((root == NOBODY) == (not t) for root, t in zip(memory.root, theirs, strict=True))


def test_sizes_on_shared_servers_need_the_events_kernel_and_a_speed_without_a_curve():
    plain = scenario({"count": 2, "discipline": "ps"})
    curved = scenario({"count": 2, "discipline": "ps", "curve": [1.0, 1.5]})

    assert pick_kernel(plain, "auto", [resolve("ll-d")]) == "events"
    with pytest.raises(PolicyMismatch, match=r"ll-d.*remove servers\.curve"):
        pick_kernel(curved, "auto", [resolve("ll-d")])
    with pytest.raises(PolicyMismatch, match="which the memoryless kernel does not know"):
        pick_kernel(plain, "memoryless", [resolve("ll-d")])


def test_the_least_work_left_of_two_shared_servers_is_what_the_loop_has_left():
    """Under ll-d(d=2) on two servers each task goes where less work is left, to rounding."""
    one = scenario({"count": 2, "discipline": "ps"}, tasks=None, duration=400.0, warm_up=0.0)
    streams = seeds(one.run.seed, 0)
    times, sizes = one.task_stream(streams[ARRIVALS_SEED], streams[SERVICE_SEED]).block()

    record = replicate(one, resolve("ll-d(d=2)"), 0, kernel="events", trail=100_000)
    choices = [int(server) for server in record.trail if server >= 0]

    work, before, checked = np.zeros(2), 0.0, 0
    for at, size, server in zip(times, sizes, choices, strict=False):
        work = np.maximum(0.0, work - (at - before))  # each server works at speed 1 while it can
        before = at
        if abs(work[0] - work[1]) > 1e-9:
            assert server == int(work.argmin())
            checked += 1
        work[server] += size
    assert checked > 400
