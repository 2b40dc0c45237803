"""Laws made to carry a load: they do, and no other of their kind is cheaper."""

import numpy as np
import pytest
from theory.stability import brute

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory import stability

FLEET = [(80, 1.0), (20, 0.01)]


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("rate", [0.5, 10.0, 60.0, 79.0, 80.15])
def test_the_smallest_d_carries_the_load_and_the_next_smaller_does_not(rate, replacement):
    d = stability.smallest_d(FLEET, rate, replacement=replacement)

    assert stability.jsq_d(FLEET, d, replacement=replacement, rate=rate).stable
    assert d == 1 or not stability.jsq_d(FLEET, d - 1, replacement=replacement, rate=rate).stable


def test_a_margin_asks_for_more():
    assert stability.smallest_d(FLEET, 28.0) == 3  # which carries 28.37
    assert stability.smallest_d(FLEET, 28.0, margin=0.1) == 4
    assert stability.smallest_d([1.0, 1.0], 1.9) == 1
    assert stability.smallest_d([1.0, 1.0], 0.0) == 1


def spend(chances, one_is_free):
    return sum(p * (0 if d == 1 and one_is_free else d) for d, p in chances.items())


@pytest.mark.parametrize("one_is_free", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_fewest_looks_carry_the_load_and_no_other_mixture_is_cheaper(seed, one_is_free):
    """Against a grid of all mixtures of two d, which hold the best of a program with two rows or
    fewer binding, and against random mixtures."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    mu = brute.random_speeds(rng, n)
    rate = 0.9 * float(rng.random()) * mu.sum()

    chances, found = stability.fewest_looks(mu, rate, margin=0.05, one_is_free=one_is_free)

    assert sum(chances.values()) == pytest.approx(1)
    assert rate <= 0.95 * found.lam_max * (1 + 1e-8)
    best = spend(chances, one_is_free)
    for low in range(1, n + 1):
        for high in range(low + 1, n + 1):
            for part in np.linspace(0, 1, 21):
                other = {low: 1 - part, high: part}
                if spend(other, one_is_free) < best - 1e-7:
                    assert stability.mixture(mu, other).lam_max < rate / 0.95
    for _ in range(50):
        drawn = rng.dirichlet(np.full(n, 0.3))
        other = {d + 1: float(p) for d, p in enumerate(drawn)}
        if spend(other, one_is_free) < best - 1e-7:
            assert stability.mixture(mu, other).lam_max < rate / 0.95


def test_two_neighbouring_d_are_enough_if_every_look_costs_the_same():
    for rate in (1.0, 10.0, 60.0, 75.0):
        chances, _ = stability.fewest_looks(FLEET, rate, one_is_free=False)

        assert len(chances) <= 2
        assert max(chances) - min(chances) <= 1
        assert max(chances) == stability.smallest_d(FLEET, rate, margin=0.05)


def test_a_million_servers_are_no_hindrance():
    chances, found = stability.fewest_looks([(900_000, 1.0), (100_000, 0.01)], 800_000)

    assert set(chances) == {2, 3}
    assert found.lam_max == pytest.approx(800_000 / 0.95)


def test_the_cheapest_law_uses_the_near_rack_up_to_what_it_can_do():
    """Greedy by hand: the near rack at 95 % of its speed, the rest far away."""
    made = stability.cheapest_law(
        [1, 1, 0.5, 0.5], 2.4, [(0, 1), (2, 3), (0, 1, 2, 3)], costs=[1, 3, 9]
    )

    assert dict(made.law) == {
        (0, 1): pytest.approx(1.9 / 2.4),
        (2, 3): pytest.approx(0.5 / 2.4),
    }
    assert made.cost == pytest.approx((1.9 + 3 * 0.5) / 2.4)
    assert made.stability.stable
    assert made.stability.utilisation <= 0.95 * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_the_cheapest_law_carries_its_load_and_no_random_law_on_the_sets_is_cheaper(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    mu = brute.random_speeds(rng, n)
    sets = [*brute.random_law(rng, n), *((i,) for i in range(n))]
    sets = list(dict.fromkeys(sets))
    costs = rng.random(len(sets))
    rate = 0.8 * float(rng.random()) * mu.sum()

    made = stability.cheapest_law(mu, rate, sets, costs=costs)

    exact = brute.lam_max(mu, dict(made.law))
    assert rate <= 0.95 * exact * (1 + 1e-8)
    price = dict(zip(sets, costs, strict=True))
    assert made.cost == pytest.approx(sum(p * price[one] for one, p in made.law))
    for _ in range(200):
        chances = rng.dirichlet(np.full(len(sets), 0.2))
        if chances @ costs < made.cost - 1e-9:
            law = dict(zip(sets, chances, strict=True))
            assert brute.lam_max(mu, law) < rate / 0.95 * (1 + 1e-9)


def test_every_server_gets_its_least_share_of_the_looks():
    sets = [(0,), (1,), (2,), (0, 1, 2)]

    made = stability.cheapest_law([3.0, 1.0, 0.1], 2.0, sets, least_share={1: 0.2, 2: 0.1})

    assert made.law.shares[1] >= 0.2 - 1e-9
    assert made.law.shares[2] >= 0.1 - 1e-9
    assert made.stability.stable


def test_costs_left_out_are_the_numbers_of_looks():
    made = stability.cheapest_law([1.0, 1.0, 1.0], 1.5, [(0, 1), (0, 1, 2)])

    assert made.cost == pytest.approx(made.law.looks) == 2.0


@pytest.mark.parametrize(
    ("call", "error", "line"),
    [
        (
            lambda: stability.smallest_d([1.0, 1.0], 2.5),
            UnstableError,
            "rate = 2.5 is more than the fleet can do: all servers together have speed 2; "
            "ask for less than 2",
        ),
        (
            lambda: stability.fewest_looks([1.0, 1.0], 1.95),
            UnstableError,
            "rate = 1.95 with margin 0.05 is more than the fleet can do: all servers together have "
            "speed 2; ask for less than 1.9",
        ),
        (
            lambda: stability.fewest_looks([1.0, 1.0], 1.0, margin=0),
            EquipoiseError,
            "margin = 0 must be more than 0 and less than 1",
        ),
        (
            lambda: stability.smallest_d([1.0], 0.5, margin=1.0),
            EquipoiseError,
            "margin = 1.0 must be at least 0 and less than 1",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 1.5, [(0,)]),
            UnstableError,
            "rate = 1.5 with margin 0.05 is more than the servers in these sets can do, 0.95; "
            "allow sets with other servers",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, []),
            EquipoiseError,
            "no sets are allowed; give at least one, e.g. [(0, 1)]",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, [(0, 1), (1, 0)]),
            EquipoiseError,
            "the set (1, 0) is allowed twice; once is enough",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, [(0, 2)]),
            EquipoiseError,
            "set {0, 2}: no server 2; the servers are 0 to 1",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, [(0, 1)], costs=[1, 2]),
            EquipoiseError,
            "costs must be 1 numbers >= 0, one for each set",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, [(0,), (1,)], least_share=0.6),
            EquipoiseError,
            "no law on these sets gives every server its least share of the looks while it "
            "carries the load; lower least_share or allow more sets",
        ),
        (
            lambda: stability.cheapest_law([1.0, 1.0], 0.5, [(0, 1)], least_share={4: 0.1}),
            EquipoiseError,
            "least_share: no server 4; they are 0 to 1",
        ),
    ],
)
def test_what_cannot_be_made_gets_one_clear_line(call, error, line):
    with pytest.raises(error) as refused:
        call()

    assert str(refused.value) == line
