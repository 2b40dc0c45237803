"""W2 in cimba: `python cimba_model.py SERVERS FORM`, in a process of its own.

FORM is "processes", a coroutine per server that takes tasks from its store, as cimba's manual
teaches, or "events", an event for each departure and no process at a server, the fastest we
found. For each line read, the number of tasks, it prints events per second of CPU time, set-up
not counted, and the mean wait.

Apart from the bench, since cimba changes numba for the whole process and says so on stderr.
"""

from __future__ import annotations

import sys
import time

import cimba as cb
from cimba import random as draw


class Server(cb.Model):
    """A queue and whoever works on it, as a process."""

    length: int = 0
    queue: cb.Store[float]
    waits: float = 0.0
    begun: int = 0
    done: int = 0

    @cb.process
    def work(self):
        while True:
            came = self.queue.get()
            self.waits += cb.now() - came
            self.begun += 1
            cb.hold(draw.exponential(1.0))
            self.length -= 1
            self.done += 1


class QuickServer(cb.Model):
    """The same, one event for each departure."""

    length: int = 0
    queue: cb.Store[float]
    waits: float = 0.0
    begun: int = 0
    done: int = 0

    @cb.event
    def depart(self):
        self.done += 1
        self.length -= 1
        if self.length > 0:
            self.waits += cb.now() - self.queue.get()
            self.begun += 1
            cb.schedule(self.depart, draw.exponential(1.0))


class Fleet(cb.Model):
    """Servers that are processes, and the dispatcher."""

    servers: list[Server]
    gap: float = 1.0
    arrived: int = 0
    mean_wait: cb.Output[float]
    events: cb.Output[float]

    @cb.process
    def arrivals(self):
        n = len(self.servers)
        while True:
            cb.hold(draw.exponential(self.gap))
            one = int(draw.uniform(0.0, n))
            two = int(draw.uniform(0.0, n - 1))
            if two >= one:
                two += 1
            if self.servers[two].length < self.servers[one].length:
                one = two
            self.servers[one].length += 1
            self.servers[one].queue.put(cb.now())
            self.arrived += 1

    @cb.on_end
    def measure(self):
        waits = 0.0
        begun = 0
        done = 0
        for i in range(len(self.servers)):
            waits += self.servers[i].waits
            begun += self.servers[i].begun
            done += self.servers[i].done
        self.mean_wait = waits / begun
        self.events = 1.0 * (done + self.arrived)


class QuickFleet(cb.Model):
    """Servers that are events, and the dispatcher."""

    servers: list[QuickServer]
    gap: float = 1.0
    arrived: int = 0
    mean_wait: cb.Output[float]
    events: cb.Output[float]

    @cb.process
    def arrivals(self):
        n = len(self.servers)
        while True:
            cb.hold(draw.exponential(self.gap))
            one = int(draw.uniform(0.0, n))
            two = int(draw.uniform(0.0, n - 1))
            if two >= one:
                two += 1
            if self.servers[two].length < self.servers[one].length:
                one = two
            self.servers[one].length += 1
            self.arrived += 1
            if self.servers[one].length == 1:
                self.servers[one].begun += 1
                cb.schedule(self.servers[one].depart, draw.exponential(1.0))
            else:
                self.servers[one].queue.put(cb.now())

    @cb.on_end
    def measure(self):
        waits = 0.0
        begun = 0
        done = 0
        for i in range(len(self.servers)):
            waits += self.servers[i].waits
            begun += self.servers[i].begun
            done += self.servers[i].done
        self.mean_wait = waits / begun
        self.events = 1.0 * (done + self.arrived)


def run(fleet: Fleet | QuickFleet, duration: float, seed: int) -> tuple[float, object]:
    """Run for so many mean service times; return seconds of CPU time, and the results."""
    experiment = cb.Experiment(
        fleet, replications=1, window=cb.Window(duration=duration), seed=seed
    )
    began = time.process_time()
    results = experiment.run()
    return time.process_time() - began, results[fleet]


def main() -> None:
    """Compile, say so, then answer."""
    servers, form = int(sys.argv[1]), sys.argv[2]
    fleet, kind = (Fleet(), Server) if form == "processes" else (QuickFleet(), QuickServer)
    fleet.servers = [kind() for _ in range(servers)]
    fleet.gap = 1 / (0.9 * servers)
    run(fleet, 1.0, 1)
    print("ready", flush=True)
    for seed, line in enumerate(sys.stdin, 2):
        seconds, found = run(fleet, int(line) / (0.9 * servers), seed)
        setup, _ = run(fleet, 1e-9, seed)
        rate = float(found.events.values[0, 0]) / (seconds - setup)
        print(rate, float(found.mean_wait.values[0, 0]), flush=True)


if __name__ == "__main__":
    main()
