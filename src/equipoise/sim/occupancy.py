"""n exchangeable servers behind one dispatcher, exponential service: only the counts are kept.

State: `least[i]`, the number of servers with at least i tasks (tally.py), and nothing else: servers
of one length are alike, so which of them gets a task does not matter, and with instant messages
what the dispatcher keeps of them (idle bits, tokens) follows from the counts. Memory and time for
an event do not depend on n: 10^9 servers cost what 10^3 do.

A server with k tasks works at speed r(k) in all, a table, `curve`: k for a pool, min(k, c) for c
workers; with D = sum over servers of r(length) the next event comes after Exp(1) / (rate + D), in
mean service times.

An arrival is a rank u, 0 the longest server: the policy draws it (Ranked.choose), and its length
k has least[k + 1] <= u < least[k]. A departure is at length k in proportion to r(k) times the
servers of that length. Both are looked for on foot, from where the last arrival was and from the
median of the departures: a few steps, at any n and around any length.

D and its part below the median are sums of r that are brought up to date at each event: exact
where r is whole, as it is for pools and workers, else summed anew every 4096 events, since
rounding would add up. The path does not depend on how a run is cut into calls, as in memoryless.py.

A task that finds k at a server of c workers waits for k - c + 1 services at rate c, if that is not
negative: its wait is drawn as that Erlang when it comes, its response one exponential later. Their
means add up what is expected, not what was drawn, which has the same mean and less noise. What is
kept for the quantiles is drawn.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, kernel, outline
from ..policies.base import Policy, Ranks
from ..policies.spec import PolicySpec
from ..policies.steps import ANNOUNCEMENTS, ANSWER, CHANGES, JOIN, LEAVE, NO_LIMIT, PROBE
from ..rng import (
    ARRIVALS_SEED,
    POLICY_SEED,
    SERVERS_SEED,
    SERVICE_SEED,
    erlang,
    exponential,
    make_rng,
    uniform,
)
from ..scenario import Scenario
from ..stats.histogram import bucket
from .driver import ByRates
from .store import NEEDS_LEVELS, REACHED
from .tally import (
    ARRIVED,
    BALANCED,
    FINISHED,
    LOST,
    NOW,
    PENDING,
    RESPONSES,
    TALLEST,
    WAITS,
    announced,
    fallen,
    pass_time,
    risen,
    settle,
)

U = np.uintp
BUSY, LOWER = range(2)  # of Counted.rates
ARRIVALS_AT, MEDIAN = range(2)  # of Counted.places
SUMMED_ANEW = 4096  # events, a power of two


class Counted(NamedTuple):
    """Everything about n servers that are alike but their counts, which are the tally's."""

    size: int  # n
    limit: int  # most tasks at a server
    count: np.ndarray  # type: ignore[assignment]  # int64[7], messages, announcements, changes
    asked: np.ndarray  # int64[1], the messages for probing among them
    announcement: np.ndarray  # int64[1], the value in force
    rates: np.ndarray  # float64[2], speed of all servers; of those up to the median
    places: np.ndarray  # int64[2], length that the last task found; median of departures
    event_rng: np.ndarray  # uint64[4], the coins of arrivals and departures
    choice_rng: np.ndarray  # uint64[4], the dispatcher's
    server_rng: np.ndarray  # uint64[4], the servers'
    wait_rng: np.ndarray  # uint64[4], those of waits


def make_counted(
    size: int,
    limit: int | None,
    announcement: int,
    event_rng: np.ndarray,
    choice_rng: np.ndarray,
    server_rng: np.ndarray,
    wait_rng: np.ndarray,
) -> Counted:
    """Return `size` servers to be counted; generators as `make_rng` makes them."""
    count = np.zeros(7, np.int64)
    return Counted(
        int(size),
        NO_LIMIT if limit is None else int(limit),
        count,
        count[PROBE : PROBE + 1],
        np.array([announcement], np.int64),
        np.zeros(2),
        np.zeros(2, np.int64),
        event_rng,
        choice_rng,
        server_rng,
        wait_rng,
    )


def find_level(least, rank, level):
    """Return the length of the server of a rank, looking from `level` on."""
    while least[U(level + 1)] > rank:
        level += 1
    while least[U(level)] <= rank:
        level -= 1
    return level


@outline
def sum_anew(world, tally, curve):
    """Add up the speed of all servers, and find the median of departures."""
    least, tallest = tally.least, tally.number[TALLEST]
    total = 0.0
    for k in range(1, tallest + 1):
        total += curve[k] * (least[k] - least[k + 1])
    lower, median = 0.0, 0
    while median < tallest and 2.0 * lower < total:
        median += 1
        lower += curve[median] * (least[median] - least[median + 1])
    world.rates[BUSY], world.rates[LOWER] = total, lower
    world.places[MEDIAN] = median


def find_departure(world, tally, curve, rest):
    """Return the length at which a task leaves, in proportion to speed; 0 if nothing is there.

    `rest` is uniform below the speed of all servers.
    """
    least, lower = tally.least, world.rates[LOWER]
    k = world.places[MEDIAN]
    if rest < lower:
        rest = lower - rest
        while k > 1:
            rest -= curve[U(k)] * (least[U(k)] - least[U(k + 1)])
            if rest <= 0.0:
                break
            k -= 1
    else:
        rest -= lower
        tallest = tally.number[TALLEST]
        k += 1
        while k < tallest:
            rest -= curve[U(k)] * (least[U(k)] - least[U(k + 1)])
            if rest < 0.0:
                break
            k += 1
        k = min(k, tallest)
    while k > 0 and least[U(k)] == least[U(k + 1)]:  # only where rounding led astray
        k -= 1
    return k


def book_speed(world, curve, before, after):
    """Book that a server has gone from `before` to `after` tasks, one more or one fewer."""
    gone, come = curve[U(before)], curve[U(after)]
    rates, median = world.rates, world.places[MEDIAN]
    rates[BUSY] += come - gone
    rates[LOWER] += (come if after <= median else 0.0) - (gone if before <= median else 0.0)


def expected_wait(found, workers):
    """Return the mean wait of a task that finds so many at a server, in mean service times."""
    return max(0, found - workers + 1) / workers


def draw_wait(world, tally, found, workers):
    """Draw the wait and the response of a task that found so many at its server."""
    wait = 0.0
    if found >= workers:
        wait = erlang(world.wait_rng, found - workers + 1) / workers
        tally.sums[WAITS] += expected_wait(found, workers)
    tally.sums[RESPONSES] += expected_wait(found, workers) + 1.0
    tally.waits[U(bucket(wait))] += 1
    tally.responses[U(bucket(wait + exponential(world.wait_rng)))] += 1


@cache
def make_learn(policy: Policy) -> Any:
    """Return learn(world, state, tally): let the policy adapt after an arrival, and announce."""
    see, adapt = policy.ranked.see, policy.adapt  # type: ignore[union-attr]
    tell_state, announces = policy.tell_state, policy.announces

    @outline
    def announce(world, state, tally):
        world.count[ANNOUNCEMENTS] += 1
        for k in range(tally.number[TALLEST] + 1):
            alike = tally.least[k] - tally.least[k + 1]
            if alike > 0:
                m = tell_state(k, world.announcement[0], state.par, world.server_rng)
                if m > 0:
                    world.count[ANSWER] += alike

    def learn(world, state, tally):
        see(state, Ranks(world.size, tally.least, world.asked))
        value = adapt(state)
        if value != world.announcement[0]:
            world.announcement[0] = value
            world.count[CHANGES] += 1
            if announces:
                announce(world, state, tally)
            announced(tally, value)

    return learn


@cache
def make_occupancy(policy: Policy, queue: bool, limited: bool) -> Any:
    """Return the kernel of one policy: for queues (tasks wait for workers) or not, limited or not.

    run(world, state, tally, curve, rate, workers, until, most) runs to time `until` (mean service
    times) or until `most` tasks have arrived, at `rate` tasks per mean service time, all servers
    together; `curve`, float64[levels], is the speed of a server with 0, 1, .. tasks, `state` as the
    policy's `Ranked.init` makes it. It returns REACHED, or NEEDS_LEVELS: grow the tally outside.
    """
    choose, learn, learns = policy.ranked.choose, make_learn(policy), policy.learns  # type: ignore[union-attr]
    tell_start, tell_finish = policy.tell_start, policy.tell_finish

    def occupancy(world, state, tally, curve, rate, workers, until, most):
        world, state, tally, curve = borrow(world), borrow(state), borrow(tally), borrow(curve)
        size, levels = world.size, tally.least.size
        number, now, least = tally.number, tally.now, tally.least
        ranks = Ranks(size, least, world.asked)
        code = REACHED
        while True:
            if number[ARRIVED] >= most:
                break
            if number[TALLEST] + 3 >= levels or number[BALANCED] + 3 >= levels:
                code = NEEDS_LEVELS
                break
            if (number[ARRIVED] + number[FINISHED]) & (SUMMED_ANEW - 1) == 0:
                sum_anew(world, tally, curve)
            total_rate = rate + world.rates[BUSY]
            at = now[PENDING]
            if not at >= 0.0:
                at = until
                if total_rate > 0.0:
                    at = now[NOW] + exponential(world.event_rng) / total_rate
            if at >= until:
                if total_rate > 0.0:
                    now[PENDING] = at
                pass_time(tally, until, size)
                break
            now[PENDING] = np.nan
            pass_time(tally, at, size)
            drawn = uniform(world.event_rng) * total_rate
            if drawn < rate:  # a task arrives
                rank = choose(state, ranks, world.choice_rng)
                found = find_level(least, rank, world.places[ARRIVALS_AT])
                world.places[ARRIVALS_AT] = found
                number[ARRIVED] += 1
                if limited and found >= world.limit:
                    number[LOST] += 1
                    continue
                length = found + 1
                book_speed(world, curve, found, length)
                risen(tally, length, size)
                m = tell_start(length, world.announcement[0], state.par, world.server_rng)
                if m > 0:
                    world.count[JOIN] += 1
                if learns:
                    learn(world, state, tally)
                if queue:
                    draw_wait(world, tally, found, workers)
            else:  # a task leaves
                length = find_departure(world, tally, curve, drawn - rate)
                if length == 0:
                    continue
                number[FINISHED] += 1
                book_speed(world, curve, length, length - 1)
                fallen(tally, length, size)
                m = tell_finish(length - 1, world.announcement[0], state.par, world.server_rng)
                if m > 0:
                    world.count[LEAVE] += 1
        settle(tally)
        return code

    occupancy.__name__ = f"occupancy_{policy.name.replace('-', '_')}"
    return kernel(occupancy)


class CountsDriver(ByRates):
    """What occupancy.py and leap.py have in common: no servers, only how many are alike."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int) -> None:
        super().__init__(scenario, spec, replication)
        self.take_rates()
        self.waiting = scenario.servers.discipline == "fcfs"  # so that waits are known
        assert spec.policy.ranked is not None
        self.tasks, self.first = spec.policy.ranked.init(self.size, **spec.params)
        self.start(scenario.start_counts(), self.first)
        self.see_levels()

    def see_levels(self) -> None:
        self.curve = self.scenario.servers.speed_curve(self.tally.least.size - 1)

    def grow(self, code: int) -> None:
        super().grow(code)
        self.see_levels()


class OccupancyDriver(CountsDriver):
    """Drives occupancy.py."""

    def __init__(
        self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int = 0
    ) -> None:
        super().__init__(scenario, spec, replication)
        self.kernel = make_occupancy(spec.policy, self.waiting, self.limited)
        which = (ARRIVALS_SEED, POLICY_SEED, SERVERS_SEED, SERVICE_SEED)
        generators = (make_rng(self.streams[i]) for i in which)
        self.world = make_counted(self.size, scenario.servers.limit, self.first, *generators)

    def go(self, rate: float, end: float, until: float, most: int) -> int:
        return self.call(self.curve, rate, self.workers, min(until, end), most)
