"""One step of the fluid limit of pools: serve, then fill. The compiled part of fluid.py.

    serve   every task in service ends its time step on its own: a linear map of the shares
    fill    what came and is still there is poured onto the pools as the policy sends it

Departures from a full level are made good first and the rest goes up, so the boundaries on which
the differential equation jumps (all pools at l, all at h) need no case of their own, shares stay
>= 0 with sum 1, and the mass is exact to rounding. Read the state after the fill. A last half serve
(Strang) is worse: it leaves the boundary by O(dt).

State: x float64[rows, B + 1]. A column is the number of tasks in all; a row what of them is beyond
the first phase of service (one row if service is exponential). New tasks move a pool along its row.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

THRESHOLD, TOKENS, TOTAL, JSQ = range(4)  # rules: fixed threshold, two ways to learn it, jsq
NOTHING = 1e-60  # denormal numbers would take 20 times as long
MOST_CHANGES = 100_000
NEWTON_STEPS = 200
TIME, LEVEL, ANSWERS = range(3)  # columns of the record of changes


def serve(x, starts, froms, parts, old):
    """x <- A x for A in compressed rows; `old` float64[states] is room to work in."""
    flat = x.reshape(x.size)
    for state in range(flat.size):
        old[state] = flat[state]
    for state in range(flat.size):
        total = 0.0
        for entry in range(starts[state], starts[state + 1]):
            total += parts[entry] * old[froms[entry]]
        flat[state] = total if total > NOTHING else 0.0


def at_level(x, level):
    """Return the fraction of pools with exactly `level` tasks."""
    total = 0.0
    for row in range(x.shape[0]):
        total += x[row, level]
    return total


def at_least(x, level):
    """Return q(level), summed from the top so that tiny fractions keep their digits."""
    total = 0.0
    for m in range(x.shape[1] - 1, level - 1, -1):
        total += at_level(x, m)
    return total


def lift(x, low, part):
    """Move a part of the pools with `low` tasks one level up."""
    for row in range(x.shape[0]):
        moved = part * x[row, low]
        x[row, low] -= moved
        x[row, low + 1] += moved


def lift_all(x, high):
    """Move all pools with fewer than `high` tasks to `high`."""
    for row in range(x.shape[0]):
        for m in range(high):
            x[row, high] += x[row, m]
            x[row, m] = 0.0


def poisson(weights, tau, count):
    """weights[k] <- P(Pois(tau) = k), k < count; return how many of them matter."""
    weights[0] = math.exp(-tau)
    for k in range(1, count):
        weights[k] = weights[k - 1] * tau / k
        if k > tau and weights[k] < 1e-24:
            return k
    return count


def pour(x, high, tau, weights):
    """Give every pool below `high` Pois(tau) tasks, stopped at `high`."""
    count = poisson(weights, tau, high)
    for row in range(x.shape[0]):
        left = 0.0
        for m in range(high - 1, -1, -1):
            share = 0.0
            for i in range(max(0, m + 1 - count), m + 1):
                share += x[row, i] * weights[m - i]
            left += x[row, m] - share
            x[row, m] = share
        x[row, high] += left


def pouring_time(x, high, mass, shares, weights):
    """Return tau at which `pour` places `mass`, less than there is room for.

    What is placed is concave in tau, so Newton's steps from 0 rise to the root.
    """
    room = 0.0
    for m in range(high):
        shares[m] = at_level(x, m)
        room += (high - m) * shares[m]
    tau, below, left = 0.0, 0.0, room
    for m in range(high):
        below += shares[m]
    for _ in range(NEWTON_STEPS):
        change = (mass - (room - left)) / below
        if not change > 1e-16 * (1 + tau):
            break
        tau += change
        count = poisson(weights, tau, high)
        below, left = 0.0, 0.0
        for m in range(high):
            share = 0.0
            for i in range(max(0, m + 1 - count), m + 1):
                share += shares[i] * weights[m - i]
            below += share
            left += (high - m) * share
    return tau


def fill_to(x, high, mass, shares, weights):
    """Send `mass` to uniformly random pools below `high` while there are any; return the rest."""
    room = 0.0
    lowest = high
    for m in range(high - 1, -1, -1):
        share = at_level(x, m)
        if share > 0:
            room += (high - m) * share
            lowest = m
    if room <= mass:
        lift_all(x, high)
        return mass - room
    if lowest == high - 1:
        lift(x, lowest, mass / room)
    else:
        pour(x, high, pouring_time(x, high, mass, shares, weights), weights)
    return 0.0


def fill_lowest(x, mass):
    """Send `mass` to the pools with the fewest tasks, level by level."""
    for m in range(x.shape[1] - 1):
        share = at_level(x, m)
        if share > mass:
            lift(x, m, mass / share)
            return
        lift(x, m, 1.0)
        mass -= share


def note(record, count, time, level, answers):
    """Enter a change of the threshold; return how many there are."""
    if count < record.shape[0]:
        record[count, TIME], record[count, LEVEL], record[count, ANSWERS] = time, level, answers
    return count + 1


def fill_threshold(x, mass, level, step, learning, now, dt, record, count, shares, weights):
    """Fill to l, to h, then anywhere, or raise l if it learns; return (l, changes so far)."""
    came = mass
    while True:
        mass = fill_to(x, level, mass, shares, weights)
        if mass > 0:
            mass = fill_to(x, level + step, mass, shares, weights)
        if not mass > 0:
            return level, count
        if not learning or level + 2 * step >= x.shape[1]:
            pour(x, x.shape[1] - 1, mass, weights)
            return level, count
        level += step
        answers = 1 - at_least(x, level + step)
        count = note(record, count, now + dt * (came - mass) / came, level, answers)


def lower(x, level, step, alpha, before, now, dt, record, count):
    """Lower l while at most alpha of the pools have reached it; return (l, changes so far)."""
    while level >= step:
        reached = at_least(x, level)
        if reached > alpha:
            break
        part = (before - alpha) / (before - reached) if before > alpha else 1.0
        count = note(record, count, now + part * dt, level - step, 1 - reached)
        level -= step
        before = 0.0  # those below have been passed by the end of the step
    return level, count


def follow(x, level, step, now, dt, record, count):
    """Set l by the tasks in the system, u: l = step floor(u / step); return (l, changes)."""
    tasks = 0.0
    for m in range(1, x.shape[1]):
        tasks += m * at_level(x, m)
    wanted = step * math.floor(tasks / step + 1e-12)
    if wanted != level:
        count = note(record, count, now + dt, wanted, 1 - at_least(x, wanted + step))
    return wanted, count


def advance(
    x, starts, froms, parts, masses, dt, now, rule, level, step, alpha, record, count,
    old, shares, weights,
):  # fmt: skip
    """Take len(masses) steps of length dt from time `now`; return (threshold, changes so far).

    Changes x in place, and enters changes of the threshold into `record` float64[most, 3].
    """
    for k in range(masses.size):
        before = at_least(x, level) if rule == TOKENS else 0.0
        serve(x, starts, froms, parts, old)
        if rule == JSQ:
            fill_lowest(x, masses[k])
        else:
            level, count = fill_threshold(
                x, masses[k], level, step, rule == TOKENS, now + k * dt, dt,
                record, count, shares, weights,
            )  # fmt: skip
        if rule == TOKENS:
            level, count = lower(x, level, step, alpha, before, now + k * dt, dt, record, count)
        elif rule == TOTAL:
            level, count = follow(x, level, step, now + k * dt, dt, record, count)
    return level, count


@cache
def compiled() -> Any:
    """Return `advance` as machine code; some seconds the first time on a machine."""
    from ...compile import kernel  # loads numba, 0.5 s

    return kernel(advance)


def room(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrays for `advance` to work in."""
    return np.empty(x.size), np.empty(x.shape[1]), np.empty(x.shape[1])
