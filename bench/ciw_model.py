"""W2 in Ciw: a node for each server, and one in front that sends to the shorter of two."""

from __future__ import annotations

import random
import time

import ciw


class ShorterOfTwo(ciw.routing.NodeRouting):
    """Two distinct nodes at random, the one with fewer tasks."""

    def next_node(self, individual):
        """Return the node where the task goes next."""
        nodes = self.simulation.nodes
        one, two = (nodes[i] for i in random.sample(range(2, len(nodes) - 1), 2))
        return two if two.number_of_individuals < one.number_of_individuals else one


def rate(servers: int, tasks: int, seed: int) -> tuple[float, float]:
    """Return events per second of CPU time, set-up not counted, and the mean wait."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=0.9 * servers)] + [None] * servers,
        service_distributions=[ciw.dists.Deterministic(0.0)]
        + [ciw.dists.Exponential(rate=1.0)] * servers,
        number_of_servers=[float("inf")] + [1] * servers,
        routing=ciw.routing.NetworkRouting(
            routers=[ShorterOfTwo()] + [ciw.routing.Leave() for _ in range(servers)]
        ),
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    began = time.process_time()
    simulation.simulate_until_max_time(tasks / (0.9 * servers))
    seconds = time.process_time() - began
    done = [record for record in simulation.get_all_records() if record.node > 1]
    wait = sum(record.waiting_time for record in done) / len(done)
    return (tasks + len(done)) / seconds, wait
