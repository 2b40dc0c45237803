"""SimPy and plain Python doing the work of a kernel, to measure ratios within one run.

Servers of rate 1, Poisson arrivals, sizes of mean 1; queues (one task in service at a time) or
pools (all at once). Every model starts from the same state, does nothing but this, and stops at
its last arrival; queues also note the wait of each task.

* `with_processes`: a process per task, and a Resource per server where tasks queue: SimPy as
  its manual teaches.
* `with_callbacks`: timeouts and callbacks, no process and no resource: SimPy's event list
  with as little on top of it as can be.
* `plain_loop`: the loop of tests/reference.py, a heap and lists; it keeps occupancies and
  imbalance besides.

jsq-d with d = 2 asks two servers and needs nothing else. Other policies choose from the sorted
lists of tests/reference.py, as fast as plain Python has it: a scan over a thousand servers would
be five times slower and say nothing about SimPy.

An event is an arrival or a departure. Seconds are CPU time of the loop alone, without set-up,
so that they hold on a machine with other work to do.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import simpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference import POLICIES, Fleet, exponential, simulate

Size = Callable[[random.Random], float]
UNIT = exponential()  # sizes of mean 1


@dataclass(frozen=True)
class Measured:
    """How much was done, in how much time; the mean wait shows that it was the right work."""

    events: int  # arrivals and departures
    seconds: float  # of CPU time
    mean_wait: float  # s of simulated time; nan for pools, where nobody waits

    @property
    def rate(self) -> float:
        """Events per second of CPU time."""
        return self.events / self.seconds


@dataclass(frozen=True)
class Work:
    """What is to be simulated. `load` is tasks per server for pools, else part of the capacity."""

    policy: str = "jsq-d"
    servers: int = 1000
    discipline: str = "fcfs"
    load: float = 0.9
    service: Size = UNIT
    params: tuple[tuple[str, object], ...] = ()  # of the policy

    @property
    def rate(self) -> float:
        """Tasks per second, all servers together."""
        return self.load * self.servers

    @property
    def pools(self) -> bool:
        """Whether a server works on all its tasks at once."""
        return self.discipline == "pool"

    def start(self) -> list[int]:
        """Tasks at each server at time 0: the load, spread evenly."""
        even, extra = divmod(round(self.load * self.servers), self.servers)
        return [even + (s < extra) for s in range(self.servers)]


def lognormal(mean: float, scv: float) -> Size:
    """Sizes of a lognormal law of this mean and squared coefficient of variation."""
    variance = math.log(1 + scv)
    middle, spread = math.log(mean) - variance / 2, math.sqrt(variance)
    return lambda rng: rng.lognormvariate(middle, spread)


class Dispatcher:
    """Chooses a server for each task; told of every task that has joined or left."""

    def __init__(self, work: Work, rng: random.Random) -> None:
        self.lengths = lengths = work.start()
        n = work.servers
        if work.policy == "jsq-d" and not work.params:

            def choose() -> int:
                first, second = int(rng.random() * n), int(rng.random() * (n - 1))
                second += second >= first
                return second if lengths[second] < lengths[first] else first

            def joined(server: int) -> None:
                lengths[server] += 1

            def left(server: int) -> None:
                lengths[server] -= 1

        else:
            rule, fleet = POLICIES[work.policy](**dict(work.params)), Fleet(lengths)
            self.lengths = fleet.lengths

            def choose() -> int:
                rule.look(fleet)
                return rule.choose(fleet, rng)

            def joined(server: int) -> None:
                fleet.add(server)
                rule.learn(fleet)

            def left(server: int) -> None:
                fleet.remove(server)

        self.choose, self.joined, self.left = choose, joined, left


def with_processes(tasks: int, work: Work = Work(), seed: int = 1) -> Measured:
    """SimPy with a process for each task and a resource for each server."""
    rng = random.Random(seed)
    env = simpy.Environment()
    dispatcher = Dispatcher(work, rng)
    choose, joined, left = dispatcher.choose, dispatcher.joined, dispatcher.left
    stations = [simpy.Resource(env, capacity=1) for _ in range(0 if work.pools else work.servers)]
    draw, rate = work.service, work.rate
    waits: list[float] = []
    done = 0

    def queueing(server: int):
        nonlocal done
        came = env.now
        with stations[server].request() as turn:
            yield turn
            waits.append(env.now - came)
            yield env.timeout(draw(rng))
        left(server)
        done += 1

    def sharing(server: int):
        nonlocal done
        yield env.timeout(draw(rng))
        left(server)
        done += 1

    task = sharing if work.pools else queueing

    def arrivals():
        for _ in range(tasks):
            yield env.timeout(rng.expovariate(rate))
            server = choose()
            joined(server)
            env.process(task(server))

    for server, present in enumerate(work.start()):
        for _ in range(present):
            env.process(task(server))
    last = env.process(arrivals())
    begun = _settle(env, waits)
    start = time.process_time()
    env.run(until=last)
    return Measured(tasks + done, time.process_time() - start, _mean(waits, begun))


def with_callbacks(tasks: int, work: Work = Work(), seed: int = 1) -> Measured:
    """SimPy's events and callbacks alone."""
    rng = random.Random(seed)
    env = simpy.Environment()
    dispatcher = Dispatcher(work, rng)
    choose, joined, left = dispatcher.choose, dispatcher.joined, dispatcher.left
    lengths, pools = dispatcher.lengths, work.pools
    queues: list[deque[float]] = [deque() for _ in range(0 if pools else work.servers)]
    draw, rate = work.service, work.rate
    waits: list[float] = []
    arrived = done = 0
    over = env.event()

    def serve(server: int) -> None:
        env.timeout(draw(rng), value=server).callbacks.append(depart)

    def depart(event: simpy.Event) -> None:
        nonlocal done
        done += 1
        server = event.value
        left(server)
        if not pools and lengths[server]:
            waits.append(env.now - queues[server].popleft())
            serve(server)

    def arrive(event: simpy.Event) -> None:
        nonlocal arrived
        arrived += 1
        server = choose()
        joined(server)
        if pools:
            serve(server)
        elif lengths[server] == 1:
            waits.append(0.0)
            serve(server)
        else:
            queues[server].append(env.now)
        if arrived == tasks:
            over.succeed()
        else:
            env.timeout(rng.expovariate(rate)).callbacks.append(arrive)

    for server, present in enumerate(work.start()):
        for k in range(present):
            if pools or k == 0:
                serve(server)
            else:
                queues[server].append(0.0)
    env.timeout(rng.expovariate(rate)).callbacks.append(arrive)
    start = time.process_time()
    env.run(until=over)
    return Measured(arrived + done, time.process_time() - start, _mean(waits, 0))


def plain_loop(tasks: int, work: Work = Work(), seed: int = 1) -> Measured:
    """The reference simulator."""
    run = simulate(
        work.policy,
        servers=work.servers,
        discipline=work.discipline,
        rate=work.rate,
        service=work.service,
        count=tasks,
        start=work.start(),
        seed=seed,
        **dict(work.params),
    )
    return Measured(run.events, run.seconds, math.nan if work.pools else run.mean_wait)


def _settle(env: simpy.Environment, waits: list[float]) -> int:
    """Let the tasks of the start begin; return how many waits are theirs."""
    while env.peek() == 0.0:
        env.step()
    return len(waits)


def _mean(waits: list[float], begun: int) -> float:
    """The mean wait of the tasks that arrived: those of the start came first, and did not wait."""
    return sum(waits[begun:]) / (len(waits) - begun) if len(waits) > begun else math.nan


if __name__ == "__main__":
    for model in (with_processes, with_callbacks, plain_loop):
        measured = model(200_000)
        print(
            f"{model.__name__:<15} {measured.rate:>9,.0f} events/s   "
            f"mean wait {measured.mean_wait:.3f}"
        )
