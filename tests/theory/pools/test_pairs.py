"""The chain of missing and extra tasks against whole generators of small fleets, and simulation."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from equipoise.errors import EquipoiseError, PolicyError
from equipoise.theory.pools.pairs import (
    TooLarge,
    missing_at,
    pair_law,
    threshold_changes,
    total_changes,
)


def stationary(start, moves):
    """The stationary law of a chain given by `moves(state)` -> {state: rate}."""
    states, rows = {start: 0}, []
    queue = [start]
    for state in queue:
        for to in moves(state):
            if to not in states:
                states[to] = len(states)
                queue.append(to)
        rows.append(moves(state))
    generator = np.zeros((len(states), len(states)))
    for here, row in zip(queue, rows, strict=True):
        for to, rate in row.items():
            generator[states[here], states[to]] += rate
            generator[states[here], states[here]] -= rate
    generator[:, 0] = 1
    law = np.linalg.solve(generator.T, np.eye(len(states))[0])
    return dict(zip(queue, law, strict=True))


def pools(policy, servers, load, level):
    """All of the state, the lengths of every pool, with room for level + 1 tasks in each."""

    def move(lengths, s, by):
        return tuple(sorted((*lengths[:s], lengths[s] + by, *lengths[s + 1 :])))

    def moves(lengths):
        out = Counter()
        if policy == "jsq":
            chosen = [s for s, x in enumerate(lengths) if x == min(lengths)]
        else:
            low = [s for s, x in enumerate(lengths) if x < level]
            high = [s for s, x in enumerate(lengths) if x < level + 1]
            chosen = low or high or list(range(servers))
        for s in chosen:
            if lengths[s] <= level:  # else it is lost
                out[move(lengths, s, 1)] += servers * load / len(chosen)
        for s, x in enumerate(lengths):
            if x:
                out[move(lengths, s, -1)] += x
        return out

    return stationary((0,) * servers, moves)


@pytest.mark.parametrize("policy", ["jsq", "threshold"])
@pytest.mark.parametrize(
    ("servers", "load", "level"), [(4, 2.5, 2), (5, 1.5, 1), (3, 3.0, 3), (4, 2.0, 3), (6, 0.7, 0)]
)
def test_with_a_limit_it_is_exact_for_jsq_and_for_the_threshold(policy, servers, load, level):
    """The coupled system of the proofs: pools of level + 1 places, the state lumped to (M, Q)."""
    law = np.zeros((servers * level + 1, servers + 1))
    for lengths, p in pools(policy, servers, load, level).items():
        law[sum(max(level - x, 0) for x in lengths), lengths.count(level + 1)] += p
    m, q = np.indices(law.shape)
    chain = pair_law(servers, load, level)

    assert chain.law == pytest.approx(law, abs=1e-13)
    assert chain.missing == pytest.approx((law * m).sum(), rel=1e-10)
    assert chain.beyond == pytest.approx((law * q).sum(), rel=1e-10)
    assert chain.missing_square == pytest.approx((law * m**2).sum(), rel=1e-10)
    assert chain.beyond_square == pytest.approx((law * q**2).sum(), rel=1e-10)
    assert chain.product == pytest.approx((law * m * q).sum(), rel=1e-10, abs=1e-14)
    assert chain.none_missing == pytest.approx(law[0].sum(), rel=1e-10)
    assert chain.loss == pytest.approx(law[0, servers], rel=1e-10)


def test_at_20_pools_it_solves_its_generator():
    n, load, k = 20, 2.5, 2

    def moves(state):
        m, q = state
        out = Counter({(m - 1, q) if m else (0, min(q + 1, n)): n * load})
        out[m + 1, q] += n * k - m - k * q
        out[m, q - 1] += (k + 1) * q
        return {to: rate for to, rate in out.items() if rate > 0 and to != state}

    law = stationary((0, 0), moves)
    chain = pair_law(n, load)

    assert chain.level == 2
    assert chain.loss == pytest.approx(law[0, n], rel=1e-9)
    assert chain.missing == pytest.approx(sum(p * m for (m, _), p in law.items()), rel=1e-9)
    assert chain.beyond == pytest.approx(sum(p * q for (_, q), p in law.items()), rel=1e-9)
    assert chain.mass == pytest.approx(load * (1 - chain.loss), rel=1e-10)  # Little's law


@pytest.mark.parametrize(("n", "missing"), [(144, 0.920087), (576, 0.940113), (2304, 0.950285)])
def test_at_a_whole_load_it_has_the_known_means(n, missing):
    chain = pair_law(n, 3.0)

    assert chain.missing / math.sqrt(n) == pytest.approx(missing, abs=1.001e-6)
    assert chain.beyond == pytest.approx(chain.missing, rel=1e-8)
    assert chain.variance / n == pytest.approx(3, abs=1e-6)


def test_a_law_that_would_be_large_is_left_out():
    assert pair_law(100, 2.5).law.sum() == pytest.approx(1, abs=1e-12)
    assert pair_law(13_000, 3.0).law is None


def test_away_from_whole_loads_few_tasks_are_missing():
    """Geometric with ratio K (1 - q(K+1)) / lam = 0.4 on average, plus what Q's swing adds."""
    for n, within in ((500, 0.03), (10_000, 0.003)):
        assert pair_law(n, 2.5).missing == pytest.approx(2 / 3, abs=within)


def test_missing_tasks_are_one_to_a_pool_while_they_are_few():
    assert missing_at(10_000, 3, 0.999) == pytest.approx(10, abs=1)
    assert missing_at(100, 3, 0.97) == 3
    assert missing_at(5000, 3, 0.9) == 534  # the law cut to 0..3 with pi(3) = 0.9 has mean 2.8932


def simulated_changes(n, load, alpha, level, end, seed):
    """Changes of a learning threshold per unit of time: counts by length, the tokens' rule."""
    random = np.random.default_rng(seed)
    count = np.zeros(60, int)  # pools by length
    count[level] = n
    time, changes, tasks = 0.0, 0, n * level
    most = math.floor(alpha * n + 1e-9)
    draws = iter(())
    while True:
        if (pair := next(draws, None)) is None:
            draws = zip(random.exponential(size=10_000), random.random(10_000), strict=True)
            continue
        gap, where = pair
        rate = n * load + tasks
        time += gap / rate
        if time > end:
            return changes / end
        where *= rate
        if where < n * load:
            below, under = count[:level].sum(), count[: level + 1].sum()
            top = level if below else level + 1 if under else 60
            chosen = np.searchsorted(
                np.cumsum(count[:top]), where / (n * load) * count[:top].sum(), "right"
            )
            count[chosen] -= 1
            count[chosen + 1] += 1
            tasks += 1
            if under <= 1:
                level, changes = level + 1, changes + 1
            elif level > 0 and n - below <= most:
                level, changes = level - 1, changes + 1
        else:
            ends = np.cumsum(count * np.arange(60))
            chosen = np.searchsorted(ends, where - n * load, "right")
            count[chosen] -= 1
            count[chosen - 1] += 1
            tasks -= 1


@pytest.mark.parametrize(
    ("n", "load", "alpha", "end", "bias"),
    [
        (100, 2.9, 0.97, 60, 0.03),
        pytest.param(100, 3.1, 0.97, 500, 0.02, marks=pytest.mark.slow),
        pytest.param(400, 2.9, 0.97, 300, 0.06, marks=pytest.mark.slow),
        pytest.param(60, 2.5, 0.9, 1500, 0.12, marks=pytest.mark.slow),
    ],
)
def test_the_threshold_moves_as_often_as_in_simulations(n, load, alpha, end, bias):
    """To four standard errors and the bias that the docstring owns up to; errors from 8 parts."""
    parts = [
        simulated_changes(n, load, alpha, math.floor(load), end / 8, seed) for seed in range(8)
    ]
    error = np.std(parts, ddof=1) / math.sqrt(8)
    known = threshold_changes(n, load, alpha)

    assert np.mean(parts) == pytest.approx(known, abs=4 * error + bias * known)


def test_the_threshold_moves_ever_less_as_the_fleet_grows():
    rates = [threshold_changes(n, 2.9, 0.97) for n in (50, 100, 200, 400)]

    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.2 * rates[0]
    assert threshold_changes(50_000, 2.5, 0.9) == 0.0


def test_the_total_count_scheme_moves_when_the_count_passes_a_multiple():
    """Up-crossings of n k by an M/M/inf count at rest, from its Poisson law by hand."""
    n, load = 3, 1.2
    mean = n * load
    up = sum(
        mean * math.exp(-mean) * mean ** (3 * k - 1) / math.factorial(3 * k - 1)
        for k in range(1, 12)
    )

    assert total_changes(n, load) == pytest.approx(2 * up, rel=1e-12)
    assert total_changes(10_000, 2.5) == pytest.approx(0, abs=1e-200)
    assert total_changes(100, 5.0, 2) < total_changes(100, 5.0, 1)


@pytest.mark.parametrize(
    ("kind", "ask", "said"),
    [
        (EquipoiseError, lambda: pair_law(0, 2.5), "servers = 0 must be a whole number >= 1"),
        (EquipoiseError, lambda: pair_law(5, 2.5, -1), "level = -1 must be a whole number >= 0"),
        (TooLarge, lambda: pair_law(10_000_000, 3.0),
         "10000000 servers at load 3 make a chain of 3e+09 states; at most 6e+07 can be solved: "
         "ask about fewer servers"),
        (TooLarge, lambda: threshold_changes(1000, 2.9, 0.97, most=1000),
         "1000 servers at load 2.9 make chains of too many states"),
        (PolicyError, lambda: threshold_changes(1, 2.5, 0.5),
         "one server leaves nothing to balance or learn; use 2 or more"),
        (PolicyError, lambda: threshold_changes(10, 2.5, 0.95),
         "alpha = 0.95 >= 1 - 1/n = 0.9 for 10 servers: an increase would be undone at once; use "
         "a smaller alpha"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_or_is_too_large_is_refused(kind, ask, said):
    with pytest.raises(kind) as caught:
        ask()

    assert str(caught.value) == said


def test_all_levels_of_the_law_carry_mass():
    chain = pair_law(6, 1.5, 1)

    assert chain.lowest == 0
    for m, q in itertools.product(range(3), range(4)):
        assert chain.law[m, q] > 0
