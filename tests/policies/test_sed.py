"""sed: the least (length + 1) / speed, by kinds of speed or by a tree."""

from collections import Counter

import numpy as np
import pytest

from equipoise.policies import resolve
from equipoise.policies.sed import FEW_SPEEDS
from equipoise.policies.steps import make_steps, make_world
from equipoise.rng import below, make_rng

FEW = np.array([1.0, 0.25, 2.0, 0.25, 1.0, 0.5])
MANY = 0.5 + np.arange(2 * FEW_SPEEDS) / FEW_SPEEDS


def world_of(speeds, lengths, seed=1):
    spec = resolve("sed")
    coins = {"choice_rng": make_rng(seed), "server_rng": make_rng(seed + 1)}
    world = make_world(spec.policy, {}, np.array(lengths), speeds=speeds, **coins)
    return world, make_steps(spec.policy, True)


def choose(world):
    return int(resolve("sed").policy.choose(world.state, world.fleet, world.choice_rng))


@pytest.mark.parametrize("speeds", [FEW, MANY], ids=["few speeds", "many speeds"])
def test_every_task_goes_where_its_delay_is_shortest(speeds):
    n = speeds.size
    world, steps = world_of(speeds, [0] * n)
    assert world.state.few == (speeds is FEW)
    coins = make_rng(5)

    for _ in range(3000):
        lengths = world.length.copy()
        if below(coins, 2) and lengths.any():
            steps.depart(world, int(np.flatnonzero(lengths)[below(coins, (lengths > 0).sum())]))
        else:
            server = int(steps.arrive(world))
            delays = (lengths + 1) / speeds
            assert delays[server] == delays.min()


@pytest.mark.parametrize("many", [False, True])
def test_ties_are_uniform_over_servers_not_over_speeds(many):
    """One task at the two fast ones makes them as slow as the four slow ones: six tie."""
    speeds = np.array([2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    lengths = [1, 1, 0, 0, 0, 0]
    if many:  # slower ones that never tie
        speeds = np.append(speeds, 0.01 + np.arange(FEW_SPEEDS) / 1000)
        lengths = lengths + [0] * FEW_SPEEDS
    runs = 3000

    first = Counter(choose(world_of(speeds, lengths, seed)[0]) for seed in range(runs))

    assert set(first) == set(range(6))
    error = (runs * (1 / 6) * (5 / 6)) ** 0.5
    assert all(abs(first[s] - runs / 6) < 4 * error for s in range(6))


def test_a_fast_server_is_filled_before_a_slow_one_is_begun():
    """Speeds 1 and 0.2: delays 1, 2, 3, 4 against 5, so five tasks find the slow one no better."""
    world, steps = world_of(np.array([0.2, 1.0]), [0, 0])

    chosen = [int(steps.arrive(world)) for _ in range(4)]

    assert chosen == [1, 1, 1, 1]
    assert choose(world) in (0, 1)


@pytest.mark.parametrize("speeds", [np.ones(5), np.full(5, 3.0)])
def test_on_equal_servers_it_chooses_like_jsq(speeds):
    world, steps = world_of(speeds, [2, 1, 0, 1, 2])

    for _ in range(60):
        before = world.length.copy()
        server = int(steps.arrive(world))
        assert before[server] == before.min()


@pytest.mark.parametrize("speeds", [FEW, MANY], ids=["few speeds", "many speeds"])
def test_every_departure_is_told_and_nothing_else(speeds):
    world, steps = world_of(speeds, [1] * speeds.size)

    for server in range(speeds.size):
        steps.arrive(world)
        steps.depart(world, server)

    assert world.count.tolist() == [0, speeds.size, 0, 0, 0, 0, 0]


def test_it_starts_right_from_any_lengths():
    lengths = [3, 0, 7, 1, 2, 0]
    for speeds in (FEW, np.linspace(0.3, 3, 40)):
        held = np.resize(lengths, speeds.size)
        world, _ = world_of(speeds, held)

        delays = (held + 1) / speeds
        assert delays[choose(world)] == delays.min()
