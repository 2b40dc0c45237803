"""What sparse feedback is held against: mean wait and messages per task of the usual policies.

    random          M/M/1                                     0 messages per task
    round-robin     D/M/1; Erlang_n/M/1 for n servers         0
    jsq-d           the limit of many servers                 2d, d >= 2: d questions, d answers
    jsq, jiq        nobody waits                              1
    sparsified-jiq  an idle server tells with probability p   p (1 - lam)/(1 - p lam)

But for jsq-d, each server sees tasks with which its length is geometric once it is busy,

    pi(0) = 1 - lam,  pi(i) = lam (1 - b) b^(i-1),            mean wait b/(1 - b),

with b = lam for random, the root sigma for round robin, 0 for jiq, (1 - p) lam/(1 - p lam) for
sparsified jiq: a server that has told gets a task at once, the others get tasks at a rate such that
all of them, those who told included, do lam. jsq and jiq reach 0 in the limit only.

Source: for jsq-d Vvedenskaya et al. 1996 and Mitzenmacher 2001; jiq Lu et al. 2011, Stolyar 2015.
Sparsified jiq is worked out here; van der Boor et al. 2019 compare with it, but whether they leave
out messages in exactly this way we do not know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..limits import jsq_d as limit
from .base import check_count, check_fraction, check_load
from .extremes import round_robin_root

MOST_LEVELS = 1_000_000
TAIL = 1e-16  # the part of servers beyond the last length


@dataclass(frozen=True, eq=False)
class Baseline:
    """A policy without clocks, at rest; time in mean service times."""

    policy: str
    load: float
    mean_wait: float
    messages: float  # per task
    lengths: np.ndarray = field(repr=False)  # float64[levels], part of servers with i tasks

    @property
    def mean_tasks(self) -> float:
        """Mean number of tasks per server (Little's law)."""
        return self.load * (1 + self.mean_wait)


def random(load: float) -> Baseline:
    """Return M/M/1, exact for any number of servers.

    This and the other functions here raise `UnstableError` if load >= 1 and `EquipoiseError` if
    load <= 0 or another argument is not allowed.
    """
    return _geometric("random", check_load(load), check_load(load), 0.0)


def round_robin(load: float, servers: int | None = None) -> Baseline:
    """Return round robin over `servers`, exact; over a fleet without end if they are not given."""
    if servers is not None:
        servers = check_count(servers, "servers")
    return _geometric("round-robin", check_load(load), round_robin_root(load, servers), 0.0)


def jsq_d(load: float, d: int = 2) -> Baseline:
    """Return the limit of the shortest of d random queues; a fleet of n is off by order 1/n."""
    load, d = check_load(load), check_count(d, "d")
    if d == 1:
        return random(load)
    tail = np.concatenate(([1.0], limit.rest_point(load, 1024, d)))
    lengths = tail[:-1] - tail[1:]
    lengths = lengths[: int(np.flatnonzero(tail > TAIL)[-1]) + 1]
    return Baseline("jsq-d", load, limit.mean_wait(load, d), 2.0 * d, lengths)


def jsq(load: float) -> Baseline:
    """Return the limit of the shortest of all queues, every departure told."""
    return _geometric("jsq", check_load(load), 0.0, 1.0)


def jiq(load: float) -> Baseline:
    """Return the limit of join the idle queue, every idle server telling."""
    return _geometric("jiq", check_load(load), 0.0, 1.0)


def sparsified_jiq(load: float, p: float) -> Baseline:
    """Return the limit of join the idle queue if a server that runs empty tells with chance `p`.

    0 <= p <= 1; p = 1 is jiq, p = 0 random.

    Examples
    --------
    >>> half = sparsified_jiq(0.7, 0.5)
    >>> round(half.mean_wait, 8), round(half.messages, 8)
    (1.16666667, 0.23076923)
    """
    load, p = check_load(load), check_fraction(p, "p")
    messages = p * (1 - load) / (1 - p * load)
    return _geometric("sparsified-jiq", load, (1 - p) * load / (1 - p * load), messages)


def sparsified_jiq_p(load: float, messages: float) -> float:
    """Return the p with which sparsified jiq costs so many messages per task, 0 to 1."""
    load, messages = check_load(load), check_fraction(messages, "messages")
    return messages / (1 - load + messages * load)


def _geometric(policy: str, load: float, ratio: float, messages: float) -> Baseline:
    levels = 2
    if ratio > 0:
        levels += min(MOST_LEVELS, math.ceil(math.log(TAIL) / math.log(ratio)))
    lengths = load * (1 - ratio) * ratio ** np.arange(-1.0, levels - 1) if ratio > 0 else None
    if lengths is None:
        lengths = np.array([0.0, load])
    lengths[0] = 1 - load
    return Baseline(policy, load, ratio / (1 - ratio), messages, lengths)
