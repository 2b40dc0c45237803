"""What is known of every policy, and that no more is claimed than can be shown."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.sparse import csc_array
from scipy.sparse.linalg import spsolve
from theory.stability import brute

from equipoise.errors import EquipoiseError
from equipoise.policies import POLICIES
from equipoise.theory.stability import policy_stability, tokens

MIXED = [(8, 1.0), (2, 0.2)]
NEEDED = {
    "threshold": {"level": 2},
    "learning-threshold": {"max_load": 5.0},
    "sampled": {"law": {(0, 1): 1.0}},
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_registered_policy_gets_an_answer(name):
    found = policy_stability(name, MIXED, NEEDED.get(name), rate=1.0)

    assert 0 <= found.lam_max <= found.lam_upper <= found.capacity * (1 + 1e-12)
    assert found.rule.startswith(name)
    assert "\n" not in found.verdict
    assert found.known or found.at(0.99 * found.lam_upper).stable is None


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "sampled"])
def test_equal_servers_lose_nothing(name):
    """Of one worker each; a fleet of equal servers is stable below its capacity under all these."""
    found = policy_stability(name, [(7, 0.5)], NEEDED.get(name))

    assert found.known
    assert found.lam_max == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("name", "params", "lam_max"),
    [
        ("random", {}, 2.0),
        ("random", {"weighted": True}, 8.4),
        ("round-robin", {}, 2.0),
        ("round-robin", {"weighted": True}, 8.4),
        ("jsq", {}, 8.4),
        ("sed", {}, 8.4),
        ("jsq-d", {"d": 1}, 2.0),
        ("jsq-d", {"d": 2}, 8.4),
        ("jsq-d", {"d": 2, "replacement": True}, 8.4),
        ("jsq-d", {"d": 1, "sampling": "speed"}, 8.4),
        ("ll-d", {"d": 1}, 2.0),
        ("sampled", {"law": {(0, 1, 2, 3, 4, 5, 6, 7): 0.6, (8, 9): 0.4}}, 1.0),
    ],
)
def test_policies_whose_region_is_known(name, params, lam_max):
    found = policy_stability(name, MIXED, params)

    assert found.known
    assert found.lam_max == pytest.approx(lam_max)
    assert found.rule.startswith(name)


def test_of_a_policy_of_ones_own_nothing_is_claimed_but_the_capacity():
    found = policy_stability("mine.py:BEST", MIXED, rate=3.0)

    assert found.lam_max == 0
    assert found.stable is None
    assert found.at(8.5).stable is False
    assert found.verdict == (
        "not known whether stable at load 0.357 (3 tasks per unit of time); mine.py:BEST carries "
        "an unknown part of the load (no policy carries more than 1)"
    )


def test_pools_and_limits_carry_any_load():
    for given in ({"discipline": "pool"}, {"limit": 10}):
        found = policy_stability("random", MIXED, rate=100.0, **given)

        assert found.stable
        assert found.growth == 0
        assert found.loss == 0
        assert found.verdict.startswith("random carries any load: ")


# --- tokens --------------------------------------------------------------------------------------


def no_token(mu, n, lam, top):
    """Fraction of time in which all of these queues are busy, the other n - len(mu) being long.

    The Markov chain of jiq on the queues `mu`: uniform among idle ones; if none is idle each gets
    lam/n and the rest goes to the long ones. Exponential services.
    """
    states = list(product(range(top + 1), repeat=len(mu)))
    index = {state: number for number, state in enumerate(states)}
    balance = np.zeros((len(states), len(states)))

    def move(state, server, change, rate):
        after = list(state)
        after[server] += change
        if after[server] <= top:
            balance[index[tuple(after)], index[state]] += rate
            balance[index[state], index[state]] -= rate

    for state in states:
        idle = [server for server, length in enumerate(state) if length == 0]
        for server in idle or range(len(mu)):
            move(state, server, 1, lam / (len(idle) or n))
        for server, length in enumerate(state):
            if length:
                move(state, server, -1, mu[server])
    balance[0] = 1.0
    right = np.zeros(len(states))
    right[0] = 1.0
    law = spsolve(csc_array(balance), right)
    return sum(law[index[state]] for state in states if min(state) > 0)


@pytest.mark.parametrize(("slow", "fast"), [(0.2, 1.0), (0.5, 1.0), (0.05, 2.0)])
def test_jiq_on_two_servers_is_exact(slow, fast):
    found = tokens([fast, slow], 1)
    lam = found.lam_max

    assert found.known
    assert lam**2 == pytest.approx(slow * (2 * fast + lam))
    # at the boundary the slow server, long, gets exactly what it can do
    assert lam * no_token([fast], 2, lam, 200) / 2 == pytest.approx(slow, rel=1e-9)
    assert found.bottleneck.tolist() == [1]
    beyond = 1.1 * lam
    growth = beyond * no_token([fast], 2, beyond, 400) / 2 - slow
    assert found.at(beyond).growth == pytest.approx(growth, rel=1e-6)
    assert found.at(3 * fast).growth == pytest.approx(2 * fast - slow)


@pytest.mark.parametrize("mu", [[0.2, 1.0, 1.0], [0.1, 0.3, 1.0], [0.5, 0.9, 1.0]])
def test_jiq_on_three_servers_drains_every_set_of_long_queues_up_to_the_bound(mu):
    """The exact chain of the short queues: the bound on the time without token holds, and what the
    long queues get at the claimed rate is less than what they can do."""
    lam = tokens(mu, 1).lam_max

    assert lam > 3 * min(mu)
    for long in [*combinations(range(3), 1), *combinations(range(3), 2)]:
        short = [mu[i] for i in range(3) if i not in long]
        if lam / 3 > 0.95 * min(short):
            continue  # the short queues would themselves be long
        beta = no_token(short, 3, lam, 40)
        assert beta <= lam / (sum(short) + lam * len(long) / 3) + 1e-6
        assert lam * beta * len(long) / 3 < sum(mu[i] for i in long)


def sure_by_sets(mu, used):
    """The condition on tokens for all sets of long queues, by bisection on the rate."""
    n, whole = len(mu), mu.sum()

    def holds(lam):
        for size in range(1, n + 1):
            for long in combinations(range(n), size):
                m = mu[list(long)].sum()
                beta = min(1.0, lam / (used * (whole - m) + lam * size / n))
                if lam * beta * size / n >= m:
                    return False
        return True

    low, high = 0.0, whole
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@pytest.mark.parametrize("seed", range(40))
def test_the_slowest_servers_are_the_worst_set_of_long_queues(seed):
    rng = np.random.default_rng(seed)
    mu = brute.random_speeds(rng, int(rng.integers(1, 7)))
    workers = int(rng.integers(1, 5))

    found = tokens(mu, 1, workers=workers)

    assert found.lam_max == pytest.approx(sure_by_sets(mu, 1 / workers), rel=1e-9)
    assert found.lam_max >= len(mu) * mu.min() * (1 - 1e-12)


def test_groups_are_searched_inside_too():
    groups = [(500, 1.0), (300, 0.3), (200, 0.05)]
    mu = np.repeat([1.0, 0.3, 0.05], [500, 300, 200])
    for workers in (1, 4):
        listed = tokens(mu + np.arange(1000) * 1e-13, 1, workers=workers)  # a thousand groups

        assert tokens(groups, 1, workers=workers).lam_max == pytest.approx(listed.lam_max, rel=1e-8)


def test_higher_thresholds_and_more_workers_are_told_apart():
    one = policy_stability("jiq", MIXED, workers=4)
    four = policy_stability("jbt", MIXED, {"r": 4}, workers=4)
    high = policy_stability("threshold", MIXED, {"level": 3}, workers=4)

    assert one.lam_max < four.lam_max
    assert four.lam_max == high.lam_max == policy_stability("jiq", MIXED).lam_max


@pytest.mark.parametrize(
    ("name", "params", "line"),
    [
        ("jsq-d", {"d": 11}, "d = 11 is more than the 10 servers there are; use d <= 10"),
        ("jsq-d", {"sampling": "luck"}, "sampling = 'luck' must be 'uniform' or 'speed'"),
        ("sampled", {}, "sampled needs its law, e.g. {(0, 1): 0.7, (2,): 0.3}"),
        ("jbt", {"r": 0}, "r = 0 and workers = 1 must be whole numbers >= 1"),
    ],
)
def test_wrong_parameters_get_one_clear_line(name, params, line):
    with pytest.raises(EquipoiseError) as refused:
        policy_stability(name, MIXED, params)

    assert str(refused.value) == line
