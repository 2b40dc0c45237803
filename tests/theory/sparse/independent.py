"""Sparse feedback worked out by other means: generators solved as linear equations, Euler's method.

Nothing here is shared with the package: chains are built state by state from the rules, the lowest
estimate and the rate to it are searched for from below, time goes in small explicit steps.
"""

import numpy as np
from scipy.linalg import expm
from scipy.optimize import brentq


def stationary(generator):
    """Return the law with law @ generator = 0."""
    n = len(generator)
    matrix = np.vstack((generator.T, np.ones(n)))
    return np.linalg.lstsq(matrix, np.append(np.zeros(n), 1.0), rcond=None)[0]


def states(m):
    """Servers at rest: (tasks, estimate), the estimate m or m + 1."""
    return [(i, j) for j in (m, m + 1) for i in range(j + 1)]


def told(i, j, m, idle_only):
    """What telling and the filling to m at once make of (i, j)."""
    if idle_only and i > 0:
        return i, j
    return max(i, m), max(i, m)


def between(m, nu):
    """The generator of service and of tasks at rate nu to those of estimate m; rows from."""
    where = {state: k for k, state in enumerate(states(m))}
    generator = np.zeros((len(where), len(where)))
    for (i, j), k in where.items():
        if i > 0:
            generator[k, where[i - 1, j]] += 1
        if j == m:
            generator[k, where[i + 1, j + 1]] += nu
    return generator - np.diag(generator.sum(axis=1)), where


def lengths_of(law, where, m):
    lengths = np.zeros(m + 2)
    for (i, _), k in where.items():
        lengths[i] += law[k]
    return lengths


def exp_law(m, nu, delta, idle_only=False):
    """The stationary law if each server tells at rate delta; also the part of estimate m."""
    generator, where = between(m, nu)
    for (i, j), k in where.items():
        generator[k, where[told(i, j, m, idle_only)]] += delta
        generator[k, k] -= delta
    law = stationary(generator)
    return lengths_of(law, where, m), sum(law[k] for (_, j), k in where.items() if j == m)


def det_law(m, nu, delta, idle_only=False):
    """The mean law over a cycle of 1/delta, and the part found idle at its end."""
    generator, where = between(m, nu)
    n, time = len(where), 1 / delta
    tell = np.zeros((n, n))
    for (i, j), k in where.items():
        tell[k, where[told(i, j, m, idle_only)]] = 1
    whole = expm(generator * time)
    start = stationary(whole @ tell - np.eye(n))
    block = expm(np.block([[generator, np.eye(n)], [np.zeros((n, n)), np.zeros((n, n))]]) * time)
    idle = sum((start @ whole)[k] for (i, _), k in where.items() if i == 0)
    return lengths_of(start @ block[:n, n:] / time, where, m), idle


def rest(law_of, load):
    """Return (m, nu) with a part 1 - load idle, the first m whose servers can do the load."""

    def surplus(nu, m):
        return law_of(m, nu)[0][0] - (1 - load)

    m = 0
    while surplus(1e7, m) > 0:
        m += 1
    return m, brentq(surplus, 0.0, 1e7, args=(m,), xtol=1e-14, rtol=1e-14)


def euler(y, load, duration, steps, delta=0.0, idle_only=False):
    """Return y[i, j] after `duration` in explicit steps; asynchronous updates at rate delta."""
    y = np.pad(y, ((0, 12), (0, 12)))
    dt = duration / steps
    for _ in range(steps):
        change = np.zeros_like(y)
        change[:-1] += y[1:]
        change[1:] -= y[1:]
        if idle_only:
            change[0] -= delta * y[0]
            change[0, 0] += delta * y[0].sum()
        else:
            change -= delta * y
            change[np.diag_indices_from(y)] += delta * y.sum(axis=1)
        y = y + dt * change
        tasks, m = load * dt, 0
        while tasks > 1e-18:
            weight = y[:, m].sum()
            if weight > 0:
                part = min(1.0, tasks / weight)
                flow = part * y[:, m]
                y[:, m] -= flow
                y[1:, m + 1] += flow[:-1]
                tasks -= part * weight
            m += 1
    return y


def synchronised(y):
    return np.diag(y.sum(axis=1))


def idle_told(y):
    y = y.copy()
    y[0, 0], y[0, 1:] = y[0].sum(), 0
    return y
