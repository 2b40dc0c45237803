"""The polytope of fleets that lose nothing: membership, distance, corners."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from theory.stability import brute

from equipoise.errors import EquipoiseError
from equipoise.theory.stability import corners, distance_to_boundary, in_polytope, jsq_d


@pytest.mark.parametrize("seed", range(40))
def test_a_fleet_lies_in_it_exactly_if_it_loses_nothing(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    mu = brute.random_speeds(rng, n)
    for d in range(1, n + 1):
        assert in_polytope(mu, d) is jsq_d(mu, d).optimal


def test_equal_speeds_lie_inside_for_two_choices_and_on_the_edge_for_one():
    assert in_polytope([0.7] * 6, 2, strictly=True)
    assert in_polytope([0.7] * 6, 1)
    assert not in_polytope([0.7] * 6, 1, strictly=True)


def test_groups_hide_no_face_inside_them():
    """n - 1 lies inside the last group, and is the face that two equal fast servers touch."""
    assert in_polytope([(1, 1.0), (2, 1.0)], 2, strictly=True)
    assert in_polytope([1 / 6, 1 / 6, 2 / 3], 2)
    assert not in_polytope([1 / 6, 1 / 6, 2 / 3], 2, strictly=True)
    assert not in_polytope([0.1, 0.2, 0.7], 2)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (5, 3)])
def test_corners_lie_on_the_edge_and_every_fleet_inside_is_a_mixture_of_them(n, d):
    points = corners(n, d)

    assert np.allclose(points.sum(axis=1), 1)
    for point in points:
        positive = np.maximum(point, 1e-13)  # a server of speed 0 is no server
        assert in_polytope(positive, d)
        assert d == n or not in_polytope(positive, d, strictly=True)
    rng = np.random.default_rng(n + d)
    for _ in range(30):
        mu = rng.dirichlet(np.full(n, 2.0))
        mixed = linprog(
            np.zeros(len(points)),
            A_eq=np.vstack((points.T, np.ones(len(points)))),
            b_eq=np.append(mu, 1.0),
        )
        assert (mixed.status == 0) is in_polytope(mu, d)


def test_corners_of_three_servers_go_round_the_polygon():
    points = corners(3, 2)

    sides = np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1)
    assert sorted(map(tuple, points.round(12))) == sorted(
        {tuple(np.round(p, 12)) for p in permutations((0, 1 / 3, 2 / 3))}
    )
    assert sides == pytest.approx(np.full(6, np.sqrt(2) / 3))


@pytest.mark.parametrize("seed", range(12))
def test_distance_is_that_to_the_nearest_face(seed):
    """Every face {x(S) = p x(all)} and {x_i = 0} by a small quadratic program."""
    rng = np.random.default_rng(seed)
    n, d = 4, int(rng.integers(2, 5))
    mu = rng.dirichlet(np.full(n, 30.0))
    law = brute.uniform_sets(n, d)
    pi, _ = brute.over_sets(mu, law)
    faces = [
        np.array([(code >> i & 1) - pi[code] for i in range(n)]) for code in range(1, 2**n - 1)
    ]
    nearest = min(
        np.sqrt(
            minimize(
                lambda x: np.sum((x - mu) ** 2),
                mu,
                constraints={"type": "eq", "fun": lambda x, face=face: face @ x},
            ).fun
        )
        for face in faces
    )

    assert in_polytope(mu, d, strictly=True)
    assert distance_to_boundary(mu, d) == pytest.approx(nearest, abs=1e-5)


def test_distance_is_negative_outside_and_none_at_the_edge():
    assert distance_to_boundary([0.1, 0.2, 0.3, 0.9, 0.9], 2) < 0
    assert distance_to_boundary([1 / 6, 1 / 6, 2 / 3], 2) == pytest.approx(0, abs=1e-12)
    assert distance_to_boundary([0.4, 0.4], 2) == 0.4


def test_too_many_corners_are_refused():
    with pytest.raises(EquipoiseError, match="n = 9 must be 1 to 8 to list the corners"):
        corners(9, 2)
