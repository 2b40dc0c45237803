"""Slotted time: the order of events, exact accounting, and what is known of it exactly."""

from functools import cache

import exact_slotted
import numpy as np
import pytest
import reference_slotted as plain
from drive import Drive, slotted
from runs import assert_mean, run

from equipoise import EquipoiseError, PolicyMismatch, simulate
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import pick_kernel, replicate
from equipoise.sim.slotted import (
    CAME,
    CAME2,
    SPREAD2,
    TASKS_UNUSED,
    UNUSED,
    UNUSED2,
)
from equipoise.theory import heavy_traffic, stability

TWO, THREE = (0.3, 0.6), (0.3, 0.5, 0.6)


def measured(scenario, policy, slots, runs, warm_up=2000):
    """Run so often; return the mean total and the mean of each of the kernel's sums, per slot."""
    totals, sums = [], []
    for replication in range(runs):
        drive = Drive(scenario, policy, replication, kernel="slotted")
        drive.to(warm_up)
        drive.take_sums()
        before = drive.area
        drive.to(warm_up + slots)
        totals.append((drive.area - before) / slots)
        sums.append(drive.take_sums() / slots)
    return np.array(totals), np.array(sums)


@cache
def equilibrium(mu, trials, lam, d):
    top = 150 if len(mu) == 2 else 44
    return exact_slotted.slotted(mu, exact_slotted.binomial(trials, lam), d, top)


@pytest.mark.parametrize(
    ("mu", "trials", "lam", "policy", "d"),
    [
        (TWO, 2, 0.6, "jsq", 2),
        (TWO, 2, 0.7, "jsq-d(d=2)", 2),
        ((0.2, 0.9), 3, 0.8, "jsq", 2),
        (THREE, 3, 0.6, "random", 1),
        (THREE, 3, 1.0, "jsq-d(d=2)", 2),
        (THREE, 3, 1.0, "jsq", 3),
    ],
)
def test_means_are_those_of_the_exact_chain(mu, trials, lam, policy, d):
    truth = equilibrium(mu, trials, lam, d)
    scenario = slotted(mu, lam, "binomial", trials=trials)

    totals, sums = measured(scenario, policy, 50_000, 16)

    assert_mean(totals, truth.total)
    assert_mean(sums[:, UNUSED], sum(mu) - lam)
    assert_mean(sums[:, UNUSED2], truth.unused_square)
    assert_mean(sums[:, TASKS_UNUSED], truth.cross)
    assert_mean(sums[:, SPREAD2], truth.apart)
    assert_mean(sums[:, CAME], lam)
    assert_mean(sums[:, CAME2], lam * (1 - lam / trials) + lam**2)


SERVICES = {
    "bernoulli": {"law": "slots", "jobs": "bernoulli"},
    "binomial": {"law": "slots", "jobs": "binomial", "trials": 4},
    "poisson": {"law": "slots", "jobs": "poisson"},
    "geometric": {"law": "slots", "jobs": "geometric"},
    "shared": {"law": "slots", "jobs": "binomial", "trials": 5, "up": 0.8},
    "rows": {
        "law": "slots",
        "rows": [
            {"probability": 0.3, "services": [1, 0, 2]},
            {"probability": 0.5, "services": [0, 1, 0]},
            {"probability": 0.2, "services": [0, 0, 0]},
        ],
    },
}


@pytest.mark.parametrize("policy", ["jsq", "jsq-d", "random", "sed", "jsq-d(sampling=speed)"])
@pytest.mark.parametrize("service", SERVICES)
def test_the_identity_of_heavy_traffic_holds_at_any_eps(policy, service):
    """E q_S from the variances and from what was not used, for every policy and law."""
    speeds = [0.3, 0.5, 0.6]
    lam = 0.65  # random carries 0.9
    scenario = slotted(speeds, lam, "geometric", SERVICES[service])
    speeds = scenario.servers.speed_of
    eps = speeds.sum() - lam
    variance = scenario.service.total_variance(speeds)

    totals, sums = measured(scenario, policy, 40_000, 12)

    # a geometric law of mean lam has variance lam + lam^2; what came is not quite lam in a run
    told = [
        heavy_traffic.identity(lam + lam**2, variance, eps, row[UNUSED2], row[TASKS_UNUSED])
        for row in sums
    ]
    assert_mean(totals - np.array([one.total for one in told]), 0.0)
    assert_mean(sums[:, UNUSED], eps)


def test_a_plain_loop_over_slots_agrees():
    services, arrivals = [plain.bernoulli(p) for p in THREE], plain.binomial(3, 1.0)
    slow = [
        plain.simulate(services, arrivals, plain.shortest_of(2), 15_000, seed) for seed in range(8)
    ]
    totals, sums = measured(slotted(THREE, 1.0, "binomial", trials=3), "jsq-d", 15_000, 8, 1)

    def assert_alike(a, b):
        error = np.hypot(np.std(a, ddof=1), np.std(b, ddof=1)) / np.sqrt(8)
        assert abs(np.mean(a) - np.mean(b)) < 4 * error

    assert_alike(totals, [one.mean_total for one in slow])
    assert_alike(sums[:, UNUSED2], [one.unused_square for one in slow])
    assert_alike(sums[:, TASKS_UNUSED], [one.cross for one in slow])


def fixed(speeds, come, policy="round-robin", start="empty", slots=4):
    """Everything certain: so many tasks come, so many could be finished at each server."""
    scenario = Scenario.from_dict(
        {
            "servers": {"discipline": "slotted", "speeds": list(speeds)},
            "arrivals": {
                "law": "slots", "jobs": "table", "values": [come], "probabilities": [1.0],
            },
            "service": {"law": "slots", "jobs": "deterministic"},
            "run": {"duration": float(slots), "start": start},
        }
    )  # fmt: skip
    drive = Drive(scenario, policy, kernel="slotted")
    seen = []
    for slot in range(1, slots + 1):
        drive.to(slot)
        seen.append(drive.lengths.tolist())
    return seen, drive.take_sums()


def test_tasks_that_come_can_be_finished_in_their_own_slot_and_unused_service_is_accounted_for():
    """Two tasks a slot in turn, from lengths 0 and 3, servers that finish one and two, by hand."""
    seen, sums = fixed([1.0, 2.0], 2, start=[0, 3], slots=5)

    assert seen == [[1, 1], [0, 1], [1, 0], [0, 0], [1, 0]]
    assert sums[UNUSED] == 0 + 0 + 1 + 0 + 2
    assert sums[UNUSED2] == 1 + 4
    assert sums[TASKS_UNUSED] == 1 * 1 + 1 * 2
    assert sums[CAME] == 10


def test_the_choice_is_made_on_the_lengths_at_the_beginning_of_the_slot():
    """Lengths 1, 2: the first is shorter now; after its service the second would be."""
    seen, _ = fixed([1.0, 2.0], 2, "jsq", start=[1, 2], slots=1)

    assert seen == [[2, 0]]


def test_all_tasks_of_a_slot_go_to_one_server():
    seen, _ = fixed([1.0, 1.0, 1.0, 1.0], 3, "jsq", slots=1)

    assert sorted(seen[0]) == [0, 0, 0, 2]


@pytest.mark.parametrize("policy", ["jsq", "sed", "jsq-d", "threshold(level=2)"])
def test_the_path_does_not_depend_on_how_a_run_is_cut(policy):
    scenario = slotted([0.4, 0.8, 0.2], 1.1, seed=3)
    at_once, cut = (Drive(scenario, policy, kernel="slotted") for _ in range(2))

    at_once.to(3000)
    for t in np.linspace(1, 3000, 77):
        cut.to(float(np.floor(t)))

    assert at_once.lengths.tolist() == cut.lengths.tolist()
    assert at_once.take_sums().tolist() == cut.take_sums().tolist()


@pytest.mark.parametrize("policy", ["jsq", "sed", "threshold(level=2)", "jsq-d"])
def test_tasks_are_conserved_and_memory_follows_the_lengths(policy):
    scenario = slotted([0.4, 0.8, 0.2], 1.1, duration=5000.0, replications=1)
    record = replicate(scenario, resolve(policy), 0, kernel="slotted")

    assert record.arrived == record.finished + record.present
    came, unused = record.extra[:, CAME].sum(), record.extra[:, UNUSED].sum()
    assert came == record.arrived
    assert record.extra.shape[0] == len(record.area)
    # what could be finished and was not used is the rest of what could be finished
    assert unused > 0
    area = sum(float(row[1:].sum()) for row in record.area)
    assert area == pytest.approx(record.sums[:, 1].sum())


def test_results_carry_what_little_s_law_makes_of_them():
    scenario = slotted(TWO, 0.6, "binomial", trials=2, duration=100_000.0, replications=4)
    found = simulate(scenario, "jsq")
    truth = equilibrium(TWO, 2, 0.6, 2)

    assert found["mean_tasks"].value == pytest.approx(truth.total / 2, abs=0.05)
    assert found["mean_response"].value == pytest.approx(truth.total / 0.6, abs=0.15)
    assert found.kernel == "slotted"


@pytest.mark.parametrize(
    ("lam", "growth"), [(1.9, 0.0), (2.1, 0.03), (2.3, 0.09)], ids=lambda x: f"{x}"
)
def test_growth_beyond_the_boundary_is_as_published(lam, growth):
    """mu = .1 .2 .3 .9 .9, d = 2, a ~ Bin(8, lam/8): 2.0 is carried."""
    speeds = [0.1, 0.2, 0.3, 0.9, 0.9]
    found = []
    for replication in range(6):
        drive = Drive(
            slotted(speeds, lam, "binomial", trials=8), "jsq-d", replication, kernel="slotted"
        )
        half = drive.to(50_000)
        found.append((drive.to(100_000) - half) / 50_000)

    assert stability.jsq_d(speeds, 2, rate=lam).growth == pytest.approx(growth, abs=1e-12)
    error = np.std(found, ddof=1) / np.sqrt(6)
    assert abs(np.mean(found) - growth) <= 4 * error + 0.02 * growth


def test_sampling_in_proportion_to_speed_is_stable_there():
    scenario = slotted([0.1, 0.2, 0.3, 0.9, 0.9], 2.3, "binomial", trials=8)

    totals, _ = measured(scenario, "jsq-d(sampling=speed, replacement=true)", 60_000, 6)

    assert 15 < totals.mean() < 45  # 27.5 in theory's table, without an error


def test_long_queues_at_many_servers_are_held():
    """Ten more come than can be finished, 160 in a slot at one of 300 servers."""
    drive = Drive(slotted([0.5] * 300, 140.0), "jsq-d", kernel="slotted", rate=160.0)

    half = drive.to(8000)

    assert half > 100_000  # 160 at once and 0.5 a slot: servers run empty until queues are long
    assert drive.to(16_000) - half == pytest.approx(10 * 8000, rel=0.15)


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
def test_other_kernels_refuse_slotted_servers_and_the_other_way_round(kernel):
    with pytest.raises(EquipoiseError, match="slotted servers take the slotted kernel"):
        pick_kernel(slotted(TWO, 0.5), kernel)
    with pytest.raises(EquipoiseError, match="slotted servers take the slotted kernel"):
        pick_kernel(Scenario.simple(servers=2, load=0.5), "slotted")


@pytest.mark.parametrize(
    "policy", ["sujsq-det", "sujsq-exp", "aujsq-det", "aujsq-exp", "stale-jsq"]
)
def test_policies_with_a_clock_are_refused_since_no_update_would_come(policy):
    with pytest.raises(
        PolicyMismatch, match=f"policy '{policy}.* which slotted time does not model"
    ):
        simulate(slotted(TWO, 0.5), policy)


def test_replications_differ_and_a_seed_gives_the_same_again():
    scenario = slotted(TWO, 0.6, duration=2000.0, replications=2, seed=8, warm_up=10.0)

    a, b = run(scenario, "jsq"), run(scenario, "jsq")

    assert a["mean_tasks"].tolist() == b["mean_tasks"].tolist()
    assert a["mean_tasks"][0] != a["mean_tasks"][1]
