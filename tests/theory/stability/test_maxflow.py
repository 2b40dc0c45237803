"""Maximum flow, against the linear program and against its own cut."""

import numpy as np
import pytest
from scipy.optimize import linprog

from equipoise.theory.stability.maxflow import Network


def random_network(rng):
    nodes = int(rng.integers(2, 9))
    arcs = [
        (int(tail), int(head), float(rng.exponential()))
        for tail, head in rng.integers(nodes, size=(int(rng.integers(1, 25)), 2))
        if tail != head
    ]
    return nodes, arcs


def by_program(nodes, arcs):
    """Flow on every arc, kept at every node but the source 0 and the sink 1."""
    if not arcs:
        return 0.0
    kept = np.zeros((nodes, len(arcs)))
    for number, (tail, head, _) in enumerate(arcs):
        kept[tail, number] -= 1
        kept[head, number] += 1
    solved = linprog(
        -kept[1],
        A_eq=kept[2:] if nodes > 2 else None,
        b_eq=np.zeros(nodes - 2) if nodes > 2 else None,
        bounds=[(0, room) for _, _, room in arcs],
    )
    return -solved.fun


@pytest.mark.parametrize("seed", range(60))
def test_flow_equals_the_linear_program_and_the_cut_that_proves_it(seed):
    nodes, arcs = random_network(np.random.default_rng(seed))
    network = Network(nodes)
    for tail, head, room in arcs:
        network.add(tail, head, room)

    sent = network.send(0, 1)

    reached = network.reached(0)
    cut = sum(room for tail, head, room in arcs if reached[tail] and not reached[head])
    assert sent == pytest.approx(by_program(nodes, arcs), abs=1e-9)
    assert sent == pytest.approx(cut, abs=1e-12)
    assert not reached[1]


def test_a_path_found_too_early_is_taken_back():
    """The classic: the middle arc must carry nothing in the end."""
    network = Network(4)
    for tail, head in ((0, 2), (0, 3), (2, 3), (2, 1), (3, 1)):
        network.add(tail, head, 1.0)

    assert network.send(0, 1) == 2.0
