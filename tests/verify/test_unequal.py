"""How much load is carried, simulated on both sides of the boundary; heavy traffic, measured."""

from functools import cache

import exact
import exact_slotted
import numpy as np
import pytest
from drive import Drive, queues, slotted
from runs import run

from equipoise.policies import resolve
from equipoise.report.stability import fleet_of, stability_of
from equipoise.sim.slotted import SPREAD2, SPREAD4
from equipoise.theory import heavy_traffic

pytestmark = pytest.mark.slow

RUNS = 10


@cache
def fleets():
    """Twenty random fleets, each with a policy whose region is known."""
    coins = np.random.default_rng(20)
    found = []
    while len(found) < 20:
        n = int(coins.integers(3, 9))
        speeds = np.round(np.exp(coins.uniform(np.log(0.05), np.log(0.95), n)), 4).tolist()
        kind = len(found) % 5
        if kind < 2:
            policy = f"jsq-d(d={int(coins.integers(2, min(n, 4)))})"
        elif kind == 2:
            policy = "random"
        elif kind == 3:
            policy = "jsq-d(sampling=speed)" if len(found) % 2 else "sed"
        else:
            sets = [sorted(coins.choice(n, int(coins.integers(1, 4)), replace=False).tolist())
                    for _ in range(6)]  # fmt: skip
            chances = coins.dirichlet(np.ones(6))
            law: dict[tuple[int, ...], float] = {}
            for members, chance in zip(sets, chances, strict=True):
                law[tuple(members)] = law.get(tuple(members), 0.0) + float(chance)
            parts = ", ".join(f"{'+'.join(map(str, s))}:{p!r}" for s, p in law.items())
            policy = f"sampled(law={{{parts}}})"
        found.append((speeds, policy))
    return found


def lam_max(speeds, policy):
    return stability_of(fleet_of(speeds), resolve(policy)).lam_max


def growth(speeds, policy, lam):
    from dataclasses import replace

    return stability_of(replace(fleet_of(speeds), rate=lam), resolve(policy)).growth


MAKE = {"slotted": slotted, "memoryless": queues}


@pytest.mark.parametrize("kernel", MAKE)
@pytest.mark.parametrize("which", range(20))
def test_below_the_boundary_a_run_ten_times_longer_has_the_same_mean(which, kernel):
    speeds, policy = fleets()[which]
    lam = 0.9 * lam_max(speeds, policy)
    slowest = min(speeds)
    # the slowest queue forgets in about 1/(its speed 0.1^2) units of time
    start = 20 / slowest / 0.1
    length = 400 / slowest

    def means(length, seed):
        scenario = MAKE[kernel](speeds, lam, duration=start + 10 * length, seed=seed)
        out = []
        for replication in range(RUNS):
            drive = Drive(scenario, policy, replication, kernel=kernel)
            drive.to(np.ceil(start))
            before = drive.area
            drive.to(np.ceil(start + length))
            out.append((drive.area - before) / (np.ceil(start + length) - np.ceil(start)))
        return np.array(out)

    short, long = means(10 * length, 1), means(100 * length, 2)

    error = np.hypot(short.std(ddof=1), long.std(ddof=1)) / np.sqrt(RUNS)
    assert abs(short.mean() - long.mean()) <= 4 * error


@pytest.mark.parametrize("kernel", MAKE)
@pytest.mark.parametrize("which", range(20))
def test_beyond_the_boundary_the_total_grows_as_theory_says(which, kernel):
    """Over the second half of 10^6 slots or seconds, 10 runs, plus 2 %."""
    speeds, policy = fleets()[which]
    lam = 1.1 * lam_max(speeds, policy)
    end = 10**6 if kernel == "slotted" else 3 * 10**5
    found = []
    for replication in range(RUNS):
        scenario = MAKE[kernel](speeds, 0.5 * sum(speeds))
        drive = Drive(scenario, policy, replication, kernel=kernel, rate=lam)
        half = drive.to(end // 2)
        found.append((drive.to(end) - half) / (end - end // 2))

    told = growth(speeds, policy, lam)
    error = np.std(found, ddof=1) / np.sqrt(RUNS)
    assert told > 0
    assert abs(np.mean(found) - told) <= 4 * error + 0.02 * told, (
        f"{np.mean(found):.5g} +- {error:.2g}, but {told:.5g}"
    )


# Heavy traffic. n = 4, mu = .35 .45 .55 .65, a ~ Bin(4, lam/4): simulated means of the table,
# with 99 % half-widths.

FOUR = (0.35, 0.45, 0.55, 0.65)
FIGURES = {
    ("jsq-d", 0.2): (11.400, 0.044),
    ("jsq-d", 0.1): (18.37, 0.16),
    ("jsq-d", 0.05): (29.68, 0.50),
    ("jsq", 0.2): (7.443, 0.016),
    ("jsq", 0.1): (12.53, 0.11),
    ("jsq", 0.05): (22.48, 0.38),
}


@pytest.mark.parametrize(("policy", "eps"), FIGURES)
def test_four_servers_hold_what_the_table_says(policy, eps):
    figure, half = FIGURES[policy, eps]
    scenario = slotted(FOUR, 2.0 - eps, "binomial", trials=4)
    totals = []
    for replication in range(RUNS):
        drive = Drive(scenario, policy, replication, kernel="slotted")
        drive.to(20_000)
        before = drive.area
        drive.to(1_520_000)
        totals.append((drive.area - before) / 1_500_000)

    error = np.hypot(np.std(totals, ddof=1) / np.sqrt(RUNS), half / 2.576)
    assert abs(np.mean(totals) - figure) <= 4 * error


def distance(sample, mean):
    """Kolmogorov distance of a sample (or of a law on 0, 1, ...) from the exponential law."""
    x = np.sort(sample)
    limit = 1 - np.exp(-x / mean)
    steps = np.arange(1, x.size + 1) / x.size
    return float(max(np.abs(steps - limit).max(), np.abs(steps - 1 / x.size - limit).max()))


def distances(mu, trials, policy, eps):
    """Kolmogorov distance of eps times the total from its limit, one for each run."""
    lam = sum(mu) - eps
    arrivals = lam * (1 - lam / trials)
    limit = (arrivals + sum(m * (1 - m) for m in mu)) / 2
    scenario = slotted(mu, lam, "binomial", trials=trials)
    found = []
    for replication in range(RUNS):
        drive = Drive(scenario, policy, replication, kernel="slotted")
        drive.to(int(100 / eps**2))
        gap = max(10, int(1 / eps**2))
        start = int(100 / eps**2)
        sample = eps * drive.totals(start, start + 2000 * gap, 2000)
        found.append(distance(sample, limit))
    return np.array(found)


@pytest.mark.parametrize(
    ("mu", "trials", "policy"),
    [((0.3, 0.6), 2, "jsq"), (FOUR, 4, "jsq-d"), (FOUR, 4, "jsq")],
    ids=["two, jsq", "four, jsq-d", "four, jsq"],
)
def test_the_law_of_the_total_tends_to_the_exponential_as_eps_falls(mu, trials, policy):
    found = [distances(mu, trials, policy, eps) for eps in (0.2, 0.1, 0.05)]

    means = [one.mean() for one in found]
    errors = [one.std(ddof=1) / np.sqrt(RUNS) for one in found]
    assert means[0] > means[1] - 2 * np.hypot(*errors[:2])
    assert means[1] > means[2] - 2 * np.hypot(*errors[1:])
    assert means[0] - means[2] > 4 * np.hypot(errors[0], errors[2])


def test_for_two_servers_the_distances_are_those_of_the_exact_law():
    """And they fall: no sampling error in these."""
    exact_distance = []
    for eps, top in ((0.2, 200), (0.1, 260), (0.05, 420)):
        lam = 0.9 - eps
        chain = exact_slotted.slotted((0.3, 0.6), exact_slotted.binomial(2, lam), 2, top)
        law = np.bincount(chain.lengths.sum(axis=0).ravel(), chain.law.ravel())
        below = law.cumsum()
        limit = heavy_traffic.heavy_traffic([0.3, 0.6], 2, lam * (1 - lam / 2))
        at = 1 - limit.tail(eps * np.arange(law.size))
        exact_distance.append(max(np.abs(below - at).max(), np.abs(below - law - at).max()))

    assert exact_distance[0] > exact_distance[1] > exact_distance[2]
    sampled = distances((0.3, 0.6), 2, "jsq", 0.1)
    # a sample of 2000 is 0.87/sqrt(2000) away from its own law on average
    assert abs(sampled.mean() - exact_distance[1]) < 0.03


@pytest.mark.parametrize("policy", ["jsq-d", "jsq"])
def test_lengths_stay_together_however_small_eps_is(policy):
    """State-space collapse: E ||q_perp||^r is bounded, while E ||q||^r grows like eps^-r."""
    spread, fourth = [], []
    for eps in (0.2, 0.1, 0.05, 0.025):
        drive = Drive(slotted(FOUR, 2.0 - eps, "binomial", trials=4), policy, kernel="slotted")
        drive.to(int(50 / eps**2))
        drive.take_sums()
        slots = 2_000_000
        drive.to(int(50 / eps**2) + slots)
        sums = drive.take_sums() / slots
        spread.append(sums[SPREAD2])
        fourth.append(sums[SPREAD4])

    # eight times nearer to capacity the squared total is 64 times as large
    assert spread[-1] < 2.5 * spread[0]
    assert fourth[-1] < 8 * fourth[0]


# Exact chains of continuous time, more precisely than in the default tests.


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize(
    ("policy", "chain", "params"),
    [
        ("jsq", "jsq", {}),
        ("sed", "sed", {}),
        ("jsq-d", "jsq-d", {}),
        ("jsq-d(sampling=speed)", "jsq-d", {"weight": (0.4, 1.0, 1.6)}),
    ],
)
def test_three_unequal_servers_are_those_of_the_exact_chain(policy, chain, params, kernel):
    speeds = (0.4, 1.0, 1.6)
    truth = exact.unequal(chain, speeds, 2.1, 32, **params)
    scenario = queues(speeds, 2.1, duration=60_000.0, warm_up=500.0, replications=16, seed=6)

    means = run(scenario, policy, kernel)["mean_tasks"]

    error = means.std(ddof=1) / 4
    assert truth.edge < 1e-4
    assert error < 0.01 * truth.mean_tasks
    assert abs(means.mean() - truth.mean_tasks) <= 4 * error + 40 * truth.edge
