"""Any sampling law: the table, four ways that agree, and clear lines for wrong laws."""

import numpy as np
import pytest
from theory.stability import brute

from equipoise.errors import EquipoiseError
from equipoise.theory import stability

RING = {(i, (i + 1) % 5): 0.2 for i in range(5)}


@pytest.mark.parametrize("method", ["cut", "lp"])
@pytest.mark.parametrize(
    ("mu", "law", "lam_max", "bottleneck"),
    [
        ([0.3, 0.2, 0.5], {(0, 1): 0.5, (1, 2): 0.3, (0,): 0.2}, 5 / 7, [0, 1]),
        ([0.3, 0.2, 0.5], {(0, 1): 0.7, (2,): 0.3}, 5 / 7, [0, 1]),
        (
            [1, 0.5, 0.25, 0.25],
            {(0, 1): 0.4, (2, 3): 0.35, (1, 2): 0.15, (0, 1, 2, 3): 0.1},
            10 / 7,
            [2, 3],
        ),
        ([0.4] * 5, RING, 2.0, [0, 1, 2, 3, 4]),
        ([0.1, 0.4, 0.4, 0.4, 0.7], RING, 2.0, [0, 1, 2, 3, 4]),
    ],
)
def test_the_table_of_laws(mu, law, lam_max, bottleneck, method):
    found = stability.sampled(mu, law, method=method)

    assert found.lam_max == pytest.approx(lam_max, rel=1e-12)
    assert found.bottleneck.tolist() == bottleneck
    assert brute.lam_max(np.array(mu), law) == pytest.approx(lam_max, rel=1e-12)


@pytest.mark.parametrize("block", range(10))
def test_formula_brute_force_program_and_cuts_agree(block):
    """500 random fleets of up to 10 servers: half under any law, half under uniform d-sets."""
    rng = np.random.default_rng([3, block])
    for case in range(50):
        n = int(rng.integers(1, 11))
        mu = brute.random_speeds(rng, n)
        d = int(rng.integers(1, n + 1))
        law = brute.uniform_sets(n, d) if case % 2 else brute.random_law(rng, n)
        exact = brute.lam_max(mu, law)
        beyond = 1.3 * exact

        cut = stability.sampled(mu, law, rate=beyond)
        program = stability.sampled(mu, law, method="lp")

        assert cut.lam_max == pytest.approx(exact, rel=1e-9)
        assert program.lam_max == pytest.approx(exact, rel=1e-9)
        growth = brute.growth(mu, law, beyond)
        assert cut.growth == pytest.approx(growth, rel=1e-9, abs=1e-12)
        for found in (cut, program):
            assert found.bottleneck_speed == pytest.approx(mu[found.bottleneck].sum())
            ratio = found.bottleneck_speed / found.bottleneck_share
            assert ratio == pytest.approx(exact, rel=1e-9)
        if case % 2:
            formula = stability.jsq_d(mu, d, rate=beyond)
            assert formula.lam_max == pytest.approx(exact, rel=1e-9)
            assert formula.growth == pytest.approx(growth, rel=1e-9, abs=1e-12)


def test_speeds_in_any_unit_give_the_same_answer():
    law = {(0, 1): 0.5, (1, 2): 0.3, (0,): 0.2}
    for unit in (1e-9, 1.0, 1e9):
        found = stability.sampled(np.array([0.3, 0.2, 0.5]) * unit, law, rate=unit * 0.9)

        assert found.lam_max == pytest.approx(5 / 7 * unit, rel=1e-12)
        assert found.growth == pytest.approx(0.13 * unit, rel=1e-12)


def test_a_server_that_is_never_looked_at_is_capacity_lost():
    found = stability.sampled([1.0, 1.0, 2.0], {(0, 1): 1.0})

    assert found.lam_max == 2.0
    assert found.loss == pytest.approx(50)
    assert found.bottleneck.tolist() == [0, 1]


def test_a_new_server_that_gets_one_look_in_a_hundred():
    """Alone it takes 1 % of the load at the most; beside others it loses nothing."""
    old = [(10, 1.0)]
    pairs = {one: 0.99 * p for one, p in brute.uniform_sets(10, 2).items()}

    alone = stability.sampled([*old, (1, 1.0)], {**pairs, (10,): 0.01})
    beside = stability.sampled([*old, (1, 1.0)], {**pairs, (9, 10): 0.01})

    assert alone.lam_max == pytest.approx(10 / 0.99)
    assert alone.bottleneck.tolist() == list(range(10))
    assert beside.lam_max == pytest.approx(10 / 0.99)
    assert beside.at(10.5).growth == pytest.approx(0.99 * 10.5 - 10)


def test_a_law_tells_its_looks_and_the_share_of_every_server():
    law = stability.as_law({(0, 1): 0.7, (2,): 0.3}, 4)

    assert law.looks == pytest.approx(1.7)
    assert law.shares.tolist() == pytest.approx([0.7, 0.7, 0.3, 0.0])
    assert dict(law) == {(0, 1): pytest.approx(0.7), (2,): pytest.approx(0.3)}


def test_large_laws_are_quick():
    rng = np.random.default_rng(5)
    sets = {tuple(sorted(rng.choice(1000, 3, replace=False).tolist())) for _ in range(3000)}
    mu = rng.random(1000) + 0.1

    found = stability.sampled(mu, [(one, 1 / len(sets)) for one in sets])

    worst = overflow_ratio(mu, sets, found)
    assert found.lam_max == pytest.approx(worst, rel=1e-9)
    assert found.lam_max < mu.sum()


def overflow_ratio(mu, sets, found):
    inside = set(found.bottleneck.tolist())
    share = sum(1 for one in sets if inside.issuperset(one)) / len(sets)
    return mu[found.bottleneck].sum() / share


@pytest.mark.parametrize(
    ("law", "lines"),
    [
        ({}, ["the law names no sets; write e.g. {(0, 1): 0.7, (2,): 0.3}"]),
        ({(0, 1): 0.5, (2,): 0.4}, ["the probabilities of the law sum to 0.9, not 1"]),
        ({(): 0.5, (0,): 0.5}, ["the set {} is empty; a task must look at one server at least"]),
        ({(0, 3): 1.0}, ["set {0, 3}: no server 3; the servers are 0 to 2"]),
        ({(0, -1): 1.0}, ["set {0, -1}: no server -1; the servers are 0 to 2"]),
        ({(1, 1): 1.0}, ["set {1, 1} names server 1 twice"]),
        (
            [((0, 1), 0.5), ((1, 0), 0.5)],
            ["set {0, 1} has two probabilities, 0.5 and 0.5; add them up"],
        ),
        ({(0,): -0.5, (1,): 1.5}, ["set {0}: probability = -0.5 must be a number >= 0"]),
        ({(0,): float("nan")}, ["set {0}: probability = nan must be a number >= 0"]),
        ({"web1": 1.0}, ["('web1', 1.0) is not (set of server numbers, probability)"]),
        (
            {(0, 7): 0.5, (): 0.2},
            [
                "set {0, 7}: no server 7; the servers are 0 to 2",
                "the set {} is empty; a task must look at one server at least",
            ],
        ),
    ],
)
def test_a_wrong_law_gets_a_clear_line_for_every_mistake(law, lines):
    with pytest.raises(EquipoiseError) as refused:
        stability.sampled([1.0, 1.0, 1.0], law)

    assert str(refused.value).splitlines() == lines


def test_an_unknown_method_is_refused():
    with pytest.raises(EquipoiseError, match="method = 'magic' must be 'cut' or 'lp'"):
        stability.sampled([1.0], {(0,): 1.0}, method="magic")
