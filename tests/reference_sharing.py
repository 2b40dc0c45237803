"""Servers whose tasks share them, in plain Python: what is left of every task, event by event.

No virtual time, no heaps: between two events each task in service has its share of the server's
speed taken off what it has left. The choices are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ENOUGH = 1e-9  # s; what is left by rounding


@dataclass
class Done:
    """What became of the tasks."""

    left: list[int] = field(default_factory=list)  # servers, in the order in which tasks left them
    waits: list[float] = field(default_factory=list)  # of those that began, in that order, s
    responses: list[float] = field(default_factory=list)  # of those that left, s
    area: float = 0.0  # tasks present, summed over time, s


def simulate(
    tasks: Sequence[tuple[float, float]],
    choices: Sequence[int],
    duration: float,
    speeds: Sequence[float],
    workers: int | None = None,
    curve: Sequence[float] = (1.0,),
) -> Done:
    """Follow tasks (arrival s, size s) that go to `choices`, up to `duration` s."""
    done, now, coming = Done(), 0.0, 0
    # of each server: [arrival, work left] in the order of arrival; the first `workers` are served
    here: list[list[list[float]]] = [[] for _ in speeds]
    most = workers or len(tasks)

    def pace(server: int) -> float:
        k = min(len(here[server]), most)
        return speeds[server] * curve[min(k, len(curve)) - 1] / k

    while True:
        next_arrival = tasks[coming][0] if coming < len(tasks) else float("inf")
        ends, who = float("inf"), -1
        for server, present in enumerate(here):
            if present:
                end = now + min(work for _, work in present[:most]) / pace(server)
                if end < ends:
                    ends, who = end, server
        at = min(next_arrival, ends, duration)
        for server, present in enumerate(here):
            done.area += len(present) * (at - now)
            if present:
                step = (at - now) * pace(server)
                for task in present[:most]:
                    task[1] -= step
        now = at
        if now >= duration:
            return done
        if ends <= next_arrival:
            present = here[who]
            i = min(range(min(most, len(present))), key=lambda i: present[i][1])
            assert abs(present[i][1]) < ENOUGH
            came, _ = present.pop(i)
            done.left.append(who)
            done.responses.append(now - came)
            if len(present) >= most:
                done.waits.append(now - present[most - 1][0])
        else:
            server = choices[coming]
            here[server].append([now, tasks[coming][1]])
            if len(here[server]) <= most:
                done.waits.append(0.0)
            coming += 1
