"""SimPy and plain Python doing the work of a kernel, to measure ratios within one run.

The scenario: `servers` first-come-first-served servers of rate 1, Poisson arrivals at load
0.9, exponential sizes; each task asks two servers and joins the shorter (jsq-d with d = 2,
without replacement); the wait of each task is recorded. Every model starts from the same
state, one task at nine servers of ten, does nothing but this, and stops at its last arrival.

* `with_processes`: a process per task and a Resource per server, SimPy as its manual teaches.
* `with_callbacks`: timeouts and callbacks, no process and no resource: SimPy's event list
  with as little on top of it as can be.
* `plain_loop`: the loop of tests/reference.py, a heap and lists, any policy, pools too; it
  keeps occupancies and imbalance besides.

An event is an arrival or a departure. Seconds are CPU time of the loop alone, without set-up,
so that they hold on a machine with other work to do.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import simpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference import simulate


@dataclass(frozen=True)
class Measured:
    """How much was done, in how much time; the mean wait shows that it was the right work."""

    events: int  # arrivals and departures
    seconds: float  # of CPU time
    mean_wait: float  # s of simulated time

    @property
    def rate(self) -> float:
        """Events per second of CPU time."""
        return self.events / self.seconds


def busy(servers: int, load: float) -> list[int]:
    """One task at a fraction `load` of the servers."""
    return [int(s < round(load * servers)) for s in range(servers)]


def with_processes(tasks: int, servers: int = 1000, load: float = 0.9, seed: int = 1) -> Measured:
    """SimPy with a process for each task and a resource for each server."""
    rng = random.Random(seed)
    env = simpy.Environment()
    stations = [simpy.Resource(env, capacity=1) for _ in range(servers)]
    waits: list[float] = []
    left = 0

    def length(station: simpy.Resource) -> int:
        return station.count + len(station.queue)

    def task(station: simpy.Resource):
        nonlocal left
        came = env.now
        with station.request() as turn:
            yield turn
            waits.append(env.now - came)
            yield env.timeout(rng.expovariate(1.0))
        left += 1

    def arrivals():
        rate = load * servers
        for _ in range(tasks):
            yield env.timeout(rng.expovariate(rate))
            first, second = _two(rng, servers)
            shorter = second if length(stations[second]) < length(stations[first]) else first
            env.process(task(stations[shorter]))

    for server, present in enumerate(busy(servers, load)):
        for _ in range(present):
            env.process(task(stations[server]))
    last = env.process(arrivals())
    start = time.process_time()
    env.run(until=last)
    return Measured(tasks + left, time.process_time() - start, _mean(waits, servers, load))


def with_callbacks(tasks: int, servers: int = 1000, load: float = 0.9, seed: int = 1) -> Measured:
    """SimPy's events and callbacks alone."""
    rng = random.Random(seed)
    env = simpy.Environment()
    lengths = [0] * servers
    queues: list[deque[float]] = [deque() for _ in range(servers)]
    waits: list[float] = []
    rate = load * servers
    arrived = left = 0
    over = env.event()

    def serve(server: int) -> None:
        done = env.timeout(rng.expovariate(1.0), value=server)
        done.callbacks.append(depart)

    def join(server: int) -> None:
        lengths[server] += 1
        if lengths[server] == 1:
            waits.append(0.0)
            serve(server)
        else:
            queues[server].append(env.now)

    def depart(event: simpy.Event) -> None:
        nonlocal left
        left += 1
        server = event.value
        lengths[server] -= 1
        if lengths[server]:
            waits.append(env.now - queues[server].popleft())
            serve(server)

    def arrive(event: simpy.Event) -> None:
        nonlocal arrived
        arrived += 1
        first, second = _two(rng, servers)
        join(second if lengths[second] < lengths[first] else first)
        if arrived == tasks:
            over.succeed()
        else:
            env.timeout(rng.expovariate(rate)).callbacks.append(arrive)

    for server, present in enumerate(busy(servers, load)):
        for _ in range(present):
            join(server)
    env.timeout(rng.expovariate(rate)).callbacks.append(arrive)
    start = time.process_time()
    env.run(until=over)
    return Measured(arrived + left, time.process_time() - start, _mean(waits, servers, load))


def plain_loop(
    tasks: int,
    policy: str = "jsq-d",
    servers: int = 1000,
    load: float = 0.9,
    discipline: str = "fcfs",
    seed: int = 1,
    **params,
) -> Measured:
    """The reference simulator under any policy.

    `load` is tasks per server for pools, and the start is balanced; for queues it is the
    fraction of capacity, and the start is that of the other models.
    """
    if discipline == "pool":
        even, extra = divmod(round(load * servers), servers)
        start = [even + (s < extra) for s in range(servers)]
    else:
        start = busy(servers, load)
    run = simulate(
        policy,
        servers=servers,
        discipline=discipline,
        rate=load * servers,
        count=tasks,
        start=start,
        seed=seed,
        **params,
    )
    return Measured(run.events, run.seconds, run.mean_wait)


def _two(rng: random.Random, servers: int) -> tuple[int, int]:
    """Two servers, drawn without replacement."""
    first, second = int(rng.random() * servers), int(rng.random() * (servers - 1))
    return first, second + (second >= first)


def _mean(waits: list[float], servers: int, load: float) -> float:
    """The mean wait of the tasks that arrived: those of the start came first, and did not wait."""
    begun = sum(busy(servers, load))
    return sum(waits[begun:]) / max(len(waits) - begun, 1)


if __name__ == "__main__":
    for model in (with_processes, with_callbacks, plain_loop):
        measured = model(200_000)
        print(
            f"{model.__name__:<15} {measured.rate:>9,.0f} events/s   "
            f"mean wait {measured.mean_wait:.3f}"
        )
