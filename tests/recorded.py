"""Tables of tasks made by hand or drawn, for tests of what is found in them."""

import numpy as np

from equipoise.logs import Tasks

NOON = 1_709_640_000  # 2024-03-05 12:00:00 UTC, s since 1970


def tasks_at(times, service=None, server=None, names=(), first=NOON):
    """A table of tasks that come at these times, s from `first`, and wait for nothing."""
    times = np.asarray(times, float)
    order = np.argsort(times, kind="stable")
    k = times.size
    took = np.full(k, np.nan) if service is None else np.asarray(service, float)[order]
    place = np.full(k, -1, np.int32) if server is None else np.asarray(server, np.int32)[order]
    zero = np.zeros(k, np.int64)
    arrival = times[order] - times[order][0]
    return Tasks(
        arrival, took, took, place, zero, zero, tuple(names), first + float(times[order][0])
    )


def poisson(rng, rate, k):
    """Times of k tasks that come one by one, to the microsecond that a log would have."""
    return np.round(np.cumsum(rng.exponential(1 / rate, k)), 6)


def in_batches(rng, rate, k, mean):
    """Times of about k tasks that come in batches of geometric size."""
    sizes = rng.geometric(1 / mean, int(k / mean))
    return np.repeat(poisson(rng, rate / mean, sizes.size), sizes)
