"""A policy played out in plain Python, task by task, with every message taken down.

The steps are those that drive it everywhere (`policies/steps.py`), uncompiled. What they ought to
do is said by the tests.
"""

import dataclasses
import math
import random

import numpy as np

from equipoise.policies import resolve
from equipoise.policies.steps import (
    ANNOUNCEMENTS,
    ANSWER,
    CHANGES,
    JOIN,
    LEAVE,
    PROBE,
    UPDATE,
    make_steps,
    make_world,
)
from equipoise.rng import make_rng

KINDS = {
    "join": JOIN,
    "leave": LEAVE,
    "update": UPDATE,
    "answer": ANSWER,
    "probe": PROBE,
    "announcements": ANNOUNCEMENTS,
    "changes": CHANGES,
}


class Play:
    """Servers with these lengths behind one dispatcher, under one policy.

    `heard` collects (server, bound) of every message since it was last emptied.
    """

    def __init__(self, policy, lengths, *, seed=1, limit=None, bounds=None, announcement=None):
        self.spec = resolve(policy)
        self.heard = []
        original = self.spec.policy.hear

        def hear(state, server, bound):
            self.heard.append((int(server), int(bound)))
            original(state, server, bound)

        self.policy = dataclasses.replace(self.spec.policy, hear=hear)
        self.world = make_world(
            self.policy,
            dict(self.spec.params),
            np.array(lengths),
            choice_rng=make_rng(seed),
            server_rng=make_rng(seed + 1),
            limit=limit,
            bounds=None if bounds is None else np.array(bounds),
            announcement=announcement,
        )
        self.steps = make_steps(self.policy, True)

    @property
    def state(self):
        """The dispatcher's memory."""
        return self.world.state

    @property
    def lengths(self):
        """Tasks at each server."""
        return self.world.length.tolist()

    @property
    def level(self):
        """The announcement in force."""
        return int(self.world.announcement[0])

    @property
    def bands(self):
        """The band of each server, as the dispatcher's memory has it."""
        index = self.state.bands
        bands = [0] * index.size
        for position, server in enumerate(index.order.tolist()):
            assert index.position[server] == position
            bands[server] = sum(position >= end for end in index.end.tolist())
        return bands

    def counted(self, kind):
        """How many messages of a kind were counted so far."""
        return int(self.world.count[KINDS[kind]])

    def choose(self):
        """Only choose: no task is placed, no message sent."""
        return int(self.policy.choose(self.state, self.world.fleet, self.world.choice_rng))

    def come(self):
        """A task comes; return its server, -1 - server if it was full."""
        return int(self.steps.arrive(self.world))

    def go(self, server):
        """A task leaves a server."""
        self.steps.depart(self.world, server)

    def update(self, *servers):
        """These servers update by the clock; all of them if none is named."""
        for server in servers or range(len(self.lengths)):
            self.steps.update(self.world, server)

    @property
    def levels(self):
        """The level of each server in the dispatcher's memory."""
        return self.state.levels.place[:, 1].tolist()

    def said(self, step, *arguments):
        """Take one step; return the promises heard in it, in order."""
        self.heard.clear()
        step(*arguments)
        return [bound for _, bound in self.heard]

    def events(self, count, load, seed):
        """Let tasks come and go at random, around `load` tasks a server; yield what happened.

        Yields ("come", server) or ("go", server) after each event; a task in any server's room
        is as likely to leave as another.
        """
        rng = random.Random(seed)
        for _ in range(count):
            total = sum(self.lengths)
            if rng.random() * (total + load * len(self.lengths)) < total:
                server = rng.choices(range(len(self.lengths)), self.lengths)[0]
                self.go(server)
                yield "go", server
            else:
                yield "come", self.come()


@dataclasses.dataclass
class Seen:
    """What a run of queues showed."""

    mean_tasks: float  # per server
    mean_wait: float  # in mean service times, by Little's law
    messages: dict[str, float]  # per task, by kind
    most: int  # tasks at one server


def queues(policy, servers, load, *, time, warm_up, seed, speeds=None):
    """Run queues with Poisson arrivals and exponential service through the plain steps.

    `load` tasks come per server and unit of time, the mean service time at speed 1. Servers that
    update in turn begin at T/n, 2T/n, ..., those that do it together at T.
    """
    play, rng = Play(policy, [0] * servers, seed=seed), random.Random(seed)
    clock, delta = play.spec.policy.clock, play.spec.params.get("delta", 0.0)
    speeds = [1.0] * servers if speeds is None else speeds
    gap = math.inf if clock is None else 1 / delta if clock.together else 1 / delta / servers
    now, due, turn, area, tasks, most, told = 0.0, gap, 0, 0.0, 0, 0, None
    if clock is not None and not clock.regular:
        due = rng.expovariate(1 / gap)
    lengths = [0] * servers
    while now < time:
        if told is None and now >= warm_up:
            told, area, tasks, most = play.world.count.copy(), 0.0, 0, 0
        total = load * servers + sum(v for v, q in zip(speeds, lengths, strict=True) if q)
        step = rng.expovariate(total)
        if now + step >= due:  # without memory: the rest of the step is drawn anew
            area += sum(lengths) * (due - now)
            now = due
            turn += 1
            if clock.together:
                play.update()
            else:
                play.update(turn % servers if clock.regular else rng.randrange(servers))
            due += gap if clock.regular else rng.expovariate(1 / gap)
            continue
        area += sum(lengths) * step
        now += step
        pick = rng.random() * total - load * servers
        if pick < 0:
            server = play.come()
            lengths[server] += 1
            most = max(most, lengths[server])
            tasks += 1
            continue
        for server, length in enumerate(lengths):
            if length:
                pick -= speeds[server]
                if pick < 0:
                    break
        lengths[server] -= 1
        play.go(server)
    span, count = now - warm_up, play.world.count - told
    messages = {kind: int(count[i]) / tasks for kind, i in KINDS.items()}
    mean = area / span
    return Seen(mean / servers, mean / (load * servers) - 1, messages, most)


def assert_mean(values, truth, bias=0.0):
    """The mean of independent values is the truth, within four standard errors and a bias."""
    values = np.asarray(values, float)
    error = values.std(ddof=1) / math.sqrt(values.size)
    assert abs(values.mean() - truth) <= 4 * error + bias, (
        f"{values.mean():.6g} +- {error:.2g}, but {truth:.6g}"
    )


def colors(lengths, *bounds):
    """The band of each length: the number of ascending bounds that it has reached."""
    return [sum(length >= bound for bound in bounds) for length in lengths]


def even(counts):
    """Whether counts may come from equally likely outcomes.

    Pearson's statistic has mean k - 1 and standard deviation sqrt(2 (k - 1)): four of them.
    """
    counts = np.asarray(counts, float)
    expected = counts.mean()
    assert expected >= 20, "too few for the chi-square law"
    free = counts.size - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return free - 4 * math.sqrt(2 * free) <= statistic <= free + 4 * math.sqrt(2 * free)
