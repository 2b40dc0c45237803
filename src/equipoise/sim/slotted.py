"""n servers in slotted time: tasks of a slot go to one server, then every server works.

With q the lengths at the beginning of a slot, a the tasks that come in it, i* the server chosen
on q, and s_i what server i could finish,

    q_i(k+1) = max( q_i(k) + a(k) 1{i = i*} - s_i(k), 0 ),      u_i = the service not used,

so that q_i(k+1) u_i(k) = 0. The laws of a and s are tables, drawn by alias in O(1); a slot costs
O(n), for every server's s is drawn, used or not: that is what `unused` accounts for exactly.
Source: Hurtado-Lange and Maguluri (2021), Oper. Res. Lett. 49(4), eqs. (1), (2).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import borrow, kernel, outline
from ..policies.alias import Alias, draw_alias, make_alias
from ..policies.base import Policy
from ..policies.spec import PolicySpec
from ..policies.steps import OUT_OF_RANGE, make_steps
from ..rng import ARRIVALS_SEED, SERVICE_SEED, TWO_53, make_rng, stepped, uniform
from ..scenario import Scenario
from ..scenario.slots import SlotArrivals, SlotService
from .driver import Driver
from .store import NEEDS_LEVELS, NO_SUCH_SERVER, REACHED
from .tally import (
    ABOVE,
    ARRIVED,
    BALANCED,
    BEGAN,
    FINISHED,
    NOW,
    TALLEST,
    THRESHOLD,
    TOTAL,
    all_fallen,
    announced,
    pass_time,
    passed,
    risen_by,
    settle,
)

U = np.uintp
# Slotted.sums, added up over slots: unused service u_S and its square, q'_S u_S with q' the lengths
# after the slot, the tasks that came and their square, ||q_perp||^2 and ^4 at the beginning
UNUSED, UNUSED2, TASKS_UNUSED, CAME, CAME2, SPREAD2, SPREAD4 = range(7)


class Slotted(NamedTuple):
    """The laws of a slotted system, its coins, and its own sums."""

    arriving: Alias  # over the places of `tasks`
    tasks: np.ndarray  # int64[k], how many come
    keep: np.ndarray  # float64[kinds * width], alias tables of services, one row for each speed
    services: np.ndarray  # int64[kinds * width], how many could be finished if it is kept
    instead: np.ndarray  # int64[kinds * width], how many if not
    row: np.ndarray  # int32[n], where each server's row begins
    width: int
    up: float  # fraction of good slots; in the others nobody works
    outcome: Alias  # over joint outcomes; empty where services are independent
    together: np.ndarray  # int64[outcomes, n]
    arrival_rng: np.ndarray  # uint64[4]
    service_rng: np.ndarray  # uint64[4]
    squares: np.ndarray  # float64[1], sum of squared lengths
    leaving: np.ndarray  # int32[n], servers that finish tasks in the slot
    leave: np.ndarray  # int32[n], how many
    sums: np.ndarray  # float64[7], see above


@cache
def make_slotted(policy: Policy) -> Any:
    """Return the kernel of one policy.

    run(world, tasks, tally, until, most) runs slot by slot until the clock stands at `until` or
    `most` tasks have come, and returns why it came back.
    """
    steps = make_steps(policy, True)
    arrive_together, depart = steps.arrive_together, steps.depart
    learns = policy.learns

    def slotted(world, tasks, tally, until, most):
        world, tasks, tally = borrow(world), borrow(tasks), borrow(tally)
        n, levels = world.length.size, tally.least.size
        number, now, sums = tally.number, tally.now, tasks.sums
        together, largest = tasks.outcome.keep.size > 0, np.int64(0)
        for i in range(tasks.tasks.size):
            largest = max(largest, tasks.tasks[U(i)])
        code = REACHED
        while now[NOW] + 1.0 <= until and number[ARRIVED] < most:
            if max(number[TALLEST], number[BALANCED]) + largest + 3 >= levels:
                code = NEEDS_LEVELS
                break
            total = number[TOTAL]
            spread = tasks.squares[0] - total * total / n
            sums[SPREAD2] += spread
            sums[SPREAD4] += spread * spread
            pass_time(tally, now[NOW] + 1.0, n)
            came = tasks.tasks[U(draw_alias(tasks.arriving, tasks.arrival_rng))]
            if came > 0:
                server = arrive_together(world, came)
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                length = np.int64(world.length[U(server)])
                number[ARRIVED] += came
                tasks.squares[0] += length * length - (length - came) * (length - came)
                risen_by(tally, length, came, n)
                if learns and world.announcement[0] != number[THRESHOLD]:
                    announced(tally, world.announcement[0])
            leavers, unused = np.int64(0), np.int64(0)
            if together:
                leavers, unused = work_jointly(tasks, world.length)
            elif tasks.up >= 1.0 or uniform(tasks.service_rng) < tasks.up:
                leavers, unused = work(tasks, world.length)
            finished, squares = np.int64(0), np.int64(0)
            elapsed = now[NOW] - now[BEGAN]
            above, brink = number[ABOVE], number[BALANCED] + 2
            for at in range(leavers):
                server, done = np.int64(tasks.leaving[U(at)]), np.int64(tasks.leave[U(at)])
                length = np.int64(world.length[U(server)])
                finished += done
                squares += done * (2 * length - done)
                for left in range(length, length - done, -1):
                    depart(world, server)
                    above -= passed(tally, left, elapsed, brink)
            tasks.squares[0] -= squares
            number[FINISHED] += finished
            number[ABOVE] = above
            all_fallen(tally, finished, n)
            sums[UNUSED] += unused
            sums[UNUSED2] += unused * unused
            sums[TASKS_UNUSED] += number[TOTAL] * unused
            sums[CAME] += came
            sums[CAME2] += came * came
        settle(tally)
        return code

    slotted.__name__ = f"slotted_{policy.name.replace('-', '_')}"
    return kernel(slotted)


@outline
def work(tasks, length):
    """Draw what every server could finish; list in `leaving` who finishes some, `leave` how many.

    Returns how long the list is, and the service not used.
    """
    leaving, leave, rng = tasks.leaving, tasks.leave, tasks.service_rng
    # the generator's state in registers: half of the time per server
    s0, s1, s2, s3 = rng[U(0)], rng[U(1)], rng[U(2)], rng[U(3)]
    scale = TWO_53 * tasks.width
    leavers, unused = np.int64(0), np.int64(0)
    for server in range(length.size):
        word, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
        service = draw_service(tasks, tasks.row[U(server)], np.int64(word >> np.uint64(11)) * scale)
        # without branches, which would be guessed wrong half the time
        spare = above_zero(service - np.int64(length[U(server)]))
        leaving[U(leavers)], leave[U(leavers)] = server, service - spare
        leavers += int(service > spare)
        unused += spare
    rng[U(0)], rng[U(1)], rng[U(2)], rng[U(3)] = s0, s1, s2, s3
    return leavers, unused


@outline
def work_jointly(tasks, length):
    """The same where the services of a slot are drawn together."""
    drawn = draw_alias(tasks.outcome, tasks.service_rng)
    leavers, unused = np.int64(0), np.int64(0)
    for server in range(length.size):
        service = tasks.together[drawn, server]
        spare = above_zero(service - np.int64(length[U(server)]))
        tasks.leaving[U(leavers)], tasks.leave[U(leavers)] = server, service - spare
        leavers += int(service > spare)
        unused += spare
    return leavers, unused


def above_zero(x):
    """Return max(x, 0) of an int64, without a branch."""
    return x & ~(x >> 63)


def draw_service(tasks, row, place):
    """Return how many tasks a server of this row could finish, `place` uniform on the row."""
    i = int(place)
    at = U(row + i)
    # both are loaded, so that choosing needs no branch
    kept, instead = tasks.services[at], tasks.instead[at]
    return kept if place - i < tasks.keep[at] else instead


def make_slotted_tasks(
    arrivals: SlotArrivals,
    mean: float,
    service: SlotService,
    speeds: np.ndarray,
    lengths: np.ndarray,
    arrival_rng: np.ndarray,
    service_rng: np.ndarray,
) -> Slotted:
    """Return the laws of a scenario as tables.

    Parameters
    ----------
    mean
        Tasks per slot.
    speeds, lengths
        float64[n] and int[n], mean service per slot and tasks at the start.
    """
    tasks, probability = arrivals.pmf(mean)
    empty = Alias(np.zeros(0), np.zeros(0, np.int32))
    outcome, together = empty, np.zeros((0, speeds.size), np.int64)
    tables = [(np.zeros(1, np.int64), np.ones(1))]
    kind = np.zeros(speeds.size, np.int32)
    if service.rows is not None:
        chance, together = service.row_table()
        outcome = make_alias(chance)
    else:
        distinct, inverse = np.unique(speeds, return_inverse=True)
        kind = inverse.astype(np.int32)
        tables = [service.pmf(float(speed) / service.up) for speed in distinct]
    width = max(len(values) for values, _ in tables)
    padded = [
        (np.pad(values, (0, width - len(values))), np.pad(chance, (0, width - len(chance))))
        for values, chance in tables
    ]
    aliases = [make_alias(chance) for _, chance in padded]
    return Slotted(
        make_alias(probability),
        tasks.astype(np.int64),
        np.concatenate([alias.keep for alias in aliases]),
        np.concatenate([values for values, _ in padded]).astype(np.int64),
        np.concatenate(
            [values[alias.other] for alias, (values, _) in zip(aliases, padded, strict=True)]
        ).astype(np.int64),
        (kind * width).astype(np.int32),
        width,
        float(service.up),
        outcome,
        together,
        arrival_rng,
        service_rng,
        np.array([float((np.asarray(lengths, float) ** 2).sum())]),
        np.zeros(speeds.size, np.int32),
        np.zeros(speeds.size, np.int32),
        np.zeros(7),
    )


class SlottedDriver(Driver):
    """Drives slotted.py; a slot is a second."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication, trail)
        self.kernel = make_slotted(spec.policy)
        arrivals, service = scenario.arrivals, scenario.service
        assert isinstance(arrivals, SlotArrivals)
        assert isinstance(service, SlotService)
        self.tasks = make_slotted_tasks(
            arrivals,
            float(scenario.rate_table()[1][0]),
            service,
            scenario.servers.speed_of,
            self.lengths,
            make_rng(self.streams[ARRIVALS_SEED]),
            make_rng(self.streams[SERVICE_SEED]),
        )

    def extra(self) -> np.ndarray:
        sums: np.ndarray = self.tasks.sums.copy()
        self.tasks.sums[:] = 0
        return sums

    def run(self, until: float, most: int) -> None:
        while (code := self.call(until, most)) != REACHED:
            self.grow(code)
