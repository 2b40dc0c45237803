"""A plain loop over slots, straight from the definition: an independent oracle, and slow.

A slot: the tasks that come all join one queue, chosen on the lengths at its beginning; then each
server finishes as many as it can. Nothing of the package is used, except by whoever compares.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Choice = Callable[[list[int], random.Random], int]


@dataclass
class Slots:
    """What a run summed up; means are over its slots."""

    slots: int
    mean_total: float  # at the beginning of a slot
    unused: float  # service not used
    unused_square: float
    cross: float  # tasks at the end of a slot times the service that it did not use
    lengths: list[int]  # at the end


def shortest_of(d: int) -> Choice:
    """The shortest of d distinct servers, ties uniform."""

    def choose(lengths: list[int], rng: random.Random) -> int:
        drawn = rng.sample(range(len(lengths)), d)
        least = min(lengths[i] for i in drawn)
        return rng.choice([i for i in drawn if lengths[i] == least])

    return choose


def bernoulli(p: float) -> Callable[[random.Random], int]:
    """0 or 1."""
    return lambda rng: int(rng.random() < p)


def binomial(trials: int, mean: float) -> Callable[[random.Random], int]:
    """Of so many chances."""
    p = mean / trials
    return lambda rng: sum(rng.random() < p for _ in range(trials))


def simulate(
    services: Sequence[Callable[[random.Random], int]],
    arrivals: Callable[[random.Random], int],
    choose: Choice,
    slots: int,
    seed: int,
    lengths: Sequence[int] | None = None,
) -> Slots:
    """Run so many slots from these lengths, empty if not given."""
    rng = random.Random(seed)
    q = list(lengths or [0] * len(services))
    total = unused = square = cross = 0
    for _ in range(slots):
        total += sum(q)
        came = arrivals(rng)
        if came:
            q[choose(q, rng)] += came
        left = 0
        for i, service in enumerate(services):
            s = service(rng)
            done = min(s, q[i])
            q[i] -= done
            left += s - done
        unused += left
        square += left * left
        cross += left * sum(q)
    return Slots(slots, total / slots, unused / slots, square / slots, cross / slots, q)
