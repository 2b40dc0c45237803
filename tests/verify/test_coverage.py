"""How often 95 % intervals hold a truth that is known, over two thousand studies each.

The mean wait of M/M/1 is load / (1 - load); that of jsq on two servers comes from the exact chain
of their lengths. Of 2000 intervals that hold the truth with probability .95, four standard errors
either way are 93 to 97 %. Batches of one run depend on their neighbours, and a run that may stop as
soon as it looks precise stops too early now and then: for those 91 % is asked for.
"""

import math

import numpy as np
import pytest
from runs import cut

from bench import coverage as c
from equipoise import Scenario, simulate
from equipoise.policies import resolve
from equipoise.sim.memoryless import MemorylessDriver
from equipoise.stats import quantile_interval
from equipoise.stats.histogram import edges

slow = pytest.mark.slow
systems = pytest.mark.parametrize("system", [c.MM1, c.JSQ2], ids=["mm1", "jsq"])


def test_the_means_are_the_known_ones():
    """Two servers under jsq at load .8 wait less than an M/M/1, longer than an M/M/2."""
    from exact import mmc_wait

    assert c.MM1.truth == pytest.approx(4.0)
    assert mmc_wait(2, 1.6) < c.JSQ2.truth < 4.0
    for system in (c.MM1, c.JSQ2):
        means = [c.mean_wait(system, r, 200_000) for r in range(8)]
        error = np.std(means, ddof=1) / math.sqrt(8)
        assert abs(np.mean(means) - system.truth) < 4 * error


@slow
@systems
def test_replications_hold_the_truth_nineteen_times_in_twenty(system):
    held, _, bias = c.coverage(
        lambda k: c.by_replications(system, k, 20_000, 16), system.truth, 2000
    )

    assert 0.93 <= held <= 0.97
    assert abs(bias) < 0.005  # what is left of the empty start


@slow
@systems
def test_batches_of_one_run_hold_the_truth_as_often_as_is_asked(system):
    held, _, _ = c.coverage(lambda k: c.by_batches(system, k, 320_000), system.truth, 2000)

    assert 0.91 <= held <= 0.97


@slow
@systems
def test_runs_stopped_by_precision_hold_the_truth_as_often_as_is_asked(system):
    estimates = []

    def study(k):
        estimates.append(c.by_precision(system, k, 20_000, 0.02))
        return estimates[-1]

    held, error, _ = c.coverage(study, system.truth, 2000)

    assert all(e.error <= 0.02 * e.value for e in estimates)
    assert error > 0.015  # none of them runs much longer than it must
    assert 0.91 <= held <= 0.97


@slow
def test_the_whole_package_stopped_by_precision_holds_the_truth():
    """Its own length, its warm-up by rule: of 300 studies four standard errors are 5 %."""
    held = 0
    for seed in range(300):
        scenario = Scenario.simple(
            servers=1, load=0.8, precision=0.05, precision_of="mean_wait", seed=seed
        )
        with cut(rows=20, stretches=3):
            estimate = simulate(scenario, "random", kernel="memoryless", workers=1)["mean_wait"]
        assert estimate.error <= 0.05 * estimate.value
        held += abs(estimate.value - 4.0) <= estimate.error

    assert 0.90 <= held / 300 <= 0.99


# The response of M/M/1 is exponential at rate 1 - load. The wait has an atom: 1 - load do not wait.
LOAD = 0.8
TRUTH = {
    ("responses", 0.5): -math.log(0.5) / (1 - LOAD),
    ("responses", 0.9): -math.log(0.1) / (1 - LOAD),
    ("responses", 0.99): -math.log(0.01) / (1 - LOAD),
    ("waits", 0.1): 0.0,
    ("waits", 0.5): math.log(LOAD / 0.5) / (1 - LOAD),
    ("waits", 0.99): math.log(LOAD / 0.01) / (1 - LOAD),
}


@slow
def test_quantile_intervals_hold_the_known_quantiles():
    """1000 studies of 8 replications: four standard errors of .95 are .028."""
    scenario = Scenario.simple(servers=1, load=LOAD, tasks=20_000)
    spec = resolve("random")
    bounds = {"responses": edges(), "waits": edges()}
    bounds["waits"][1] = 0.0  # exactly 0 is an atom
    held = dict.fromkeys(TRUTH, 0)
    for study in range(1000):
        counts = {"responses": [], "waits": []}
        for replication in range(8):
            driver = MemorylessDriver(scenario, spec, study * 8 + replication, 0)
            driver.run(np.inf, 1000)
            driver.tally.waits[:] = 0
            driver.tally.responses[:] = 0
            driver.run(np.inf, 20_000)
            for which, tables in counts.items():
                tables.append(getattr(driver.tally, which).copy())
        for (which, p), truth in TRUTH.items():
            e = quantile_interval(counts[which], bounds[which], p)
            held[which, p] += abs(e.value - truth) <= e.error

    assert held.pop(("waits", 0.1)) == 1000  # certain: 0 +- 0
    for (which, p), times in held.items():
        assert 922 <= times <= 978, f"{which}, {p}: {times} of 1000"
