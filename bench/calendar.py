"""The future-event set in the hold model: take the first event, put one back later.

`python -m bench.calendar` prints how many such steps a second the bucketed calendar does against
the binary heap of policies/heap.py (which puts the next event in the place of the first, in one
pass), with so many events pending and so long between an event and the one it brings, mean 1.
CPU times, medians of interleaved repetitions. Nothing fails; goals are reached or missed.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from equipoise.compile import borrow, kernel
from equipoise.policies.heap import replace_first
from equipoise.sim.calendar import book, make_calendar, take_first

U = np.uintp
PENDING = (1_000, 100_000, 1_000_000)
DRAWS = 1 << 14
REPETITIONS = 5


def exponential(generator: np.random.Generator, k: int) -> np.ndarray:
    """Return float64[k] of mean 1."""
    return generator.standard_exponential(k)


def pareto(generator: np.random.Generator, k: int, index: float = 2.2) -> np.ndarray:
    """Return float64[k] of mean 1 and tail x^-2.2."""
    return (1 + generator.pareto(index, k)) * (index - 1) / index


def hold_heap(key, item, draws, steps):
    """Take steps with a heap; return the time of the last one."""
    key, item, draws = borrow(key), borrow(item), borrow(draws)
    now, size = 0.0, key.size
    for i in range(steps):
        now = key[0]
        replace_first(key, item, size, now + draws[U(i & (DRAWS - 1))], item[0])
    return now


def hold_calendar(calendar, draws, steps):
    """The same with a calendar."""
    calendar, draws = borrow(calendar), borrow(draws)
    now = 0.0
    for i in range(steps):
        item = take_first(calendar)
        now = calendar.time[U(item)]
        book(calendar, now + draws[U(i & (DRAWS - 1))], item)
    return now


def fill(calendar, times):
    """Book the first events."""
    calendar, times = borrow(calendar), borrow(times)
    for i in range(times.size):
        book(calendar, times[U(i)], i)


def measure(pending: int, law, guess: float, kernels) -> tuple[float, float]:
    """Return millions of steps a second of the calendar, and its ratio to the heap."""
    by_heap, by_calendar, filled = kernels
    generator = np.random.default_rng(1)
    draws, first = law(generator, DRAWS), law(generator, pending)
    key, item = np.sort(first), np.argsort(first).astype(np.int32)
    calendar = make_calendar(
        np.zeros(pending), np.zeros(pending, np.int32), guess / pending, pending
    )
    filled(calendar, first)
    steps = max(1_000_000, 2 * pending)
    rates, ratios = [], []
    for repetition in range(REPETITIONS + 1):
        began = time.process_time()
        one = by_heap(key, item, draws, steps)
        middle = time.process_time()
        other = by_calendar(calendar, draws, steps)
        ended = time.process_time()
        assert one == other, "not the same path"
        if repetition:  # the first one forgets the start
            rates.append(steps / (ended - middle) / 1e6)
            ratios.append((middle - began) / (ended - middle))
    return median(rates), median(ratios)


def main() -> None:
    """Print the table."""
    kernels = kernel(hold_heap), kernel(hold_calendar), kernel(fill)
    print(f"{'pending':>10}{'time to the next':>20}{'Msteps/s':>10}{'x heap':>8}")
    least = {}
    for pending in PENDING:
        for law in (exponential, pareto):
            rate, ratio = measure(pending, law, 1.0, kernels)
            least[pending, law.__name__] = ratio
            print(f"{pending:>10,}{law.__name__:>20}{rate:>10.1f}{ratio:>8.2f}", flush=True)
    for guess in (1e-3, 1e3):
        _, ratio = measure(PENDING[1], exponential, guess, kernels)
        print(f"{PENDING[1]:>10,}, width {guess:g} times too large at first: {ratio:.2f} x heap")
    said = {True: "reached", False: "MISSED"}
    print(f"goal, 2.5 x heap at 100,000: {said[least[PENDING[1], 'exponential'] >= 2.5]}")
    print(f"goal, never below 0.8 x heap: {said[min(least.values()) >= 0.8]}")


if __name__ == "__main__":
    main()
