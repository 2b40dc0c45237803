"""What is known of the load that each policy carries on unequal servers.

Exact, by the drift argument in `draws` (for general service laws by its fluid limit):

- random, round-robin: every server gets its fixed share, so lam_max = min_i mu_i / share_i: n times
  the slowest speed, or everything if the shares are in proportion to the speeds.
- jsq, sed: everything. (sed: sum mu_i (q_i/mu_i)^2 falls. The index of jsq keeps lengths up to
  65 536 tasks apart; theory has no such limit.)
- total-threshold: everything. The longest queues get nothing while another is shorter than the
  mean, and where all are alike their total falls.
- JSQ on sparse feedback (sujsq-det, sujsq-exp, aujsq-det, aujsq-exp) and stale-jsq: everything, for
  any delta > 0. In the fluid limit a queue of order K changes by o(K) between two updates, so the
  estimates (the stale lengths) are the lengths and the longest queues get nothing while another is
  shorter, as under jsq. With idle_only an estimate is corrected only where a server is found empty.
  There the total falls: either all servers work, at M > lam; or some are empty for a part of the
  time, are found so, have estimates of o(K) and get all that comes, while the others work.
- jsq-d, ll-d, sampled: the law of who is looked at decides.

Policies with tokens (jiq, jbt, threshold) send to a server known to have fewer than r tasks, and to
a uniformly random one if none is known. A queue that is long holds no token, so it gets tasks only
when nobody does, a fraction beta of the time, and then lam/n each. Let S be the long queues, s of
them, R the others, M = mu_all, and kappa = min(r, workers)/workers, the part of its speed that a
server of r tasks uses. While nobody holds a token all of R have r tasks or more, so R finishes
kappa mu(R) beta at the least; it gets lam (1 - beta s/n), and in the fluid limit the two balance:

    beta <= lam / (kappa mu(R) + lam s/n),  beta <= 1.

The total of the long queues falls if lam beta s/n < mu(S). For every S of s servers that holds if
it holds for the s slowest (the failing range of mu(S) lies where mu(S) (kappa mu(R) + lam s/n)
rises in mu(S)). So stable is proved for every lam < M with, for s = 1 .. n,

    lam s/n < m_s   or   lam^2 s/n < m_s (kappa (M - m_s) + lam s/n),   m_s: speed of the s slowest.

This is at least n times the slowest speed, M for equal speeds and one worker, and exact for two
servers under jiq with one worker each, where R is one queue and beta = lam/(mu_2 + lam/2) by flow
balance: lam^2 < mu_1 (2 mu_2 + lam). In between it is not known: beta depends on the law of
service and is far smaller in large fleets. There jiq carries nearly everything, in the limit all:
the bound is then far from the truth, and a simulation the way to learn more.

learning-threshold moves its threshold with no fixed limit, and sparsified-jiq misses idle servers;
there only n times the slowest speed is proved: let A be the longest queues. Whatever the
thresholds, tasks go to a uniformly random server of the lowest class that is not empty, so A gets
at most its part |A|/n of the tasks, and the longest queues fall if lam |A|/n < mu(A).

Nothing is proved for a policy that is not listed: no policy carries more than M.

Not affected by any of this: pools, which work on all their tasks at once, and servers with a
limit, which lose tasks and never pile them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from . import draws, laws
from .fleet import Fleet, as_fleet, check_rate
from .result import Stability

MOST_ROUNDS = 100


def policy_stability(
    name: str,
    servers: Any,
    params: Mapping[str, Any] | None = None,
    *,
    rate: float | None = None,
    discipline: str = "fcfs",
    workers: int = 1,
    limit: int | None = None,
) -> Stability:
    """Return what is known of the load that a policy carries on a fleet.

    Parameters
    ----------
    name
        As registered, e.g. "jsq-d". Of an unknown policy nothing is known but the capacity.
    servers
        Speeds (tasks per unit of time, all workers of a server together), one per server, or
        groups of (count, speed).
    params
        The policy's parameters, e.g. `{"d": 3, "replacement": False, "sampling": "speed"}`; those
        left out have the policy's defaults. Others than those that matter here are not read.
    rate
        Tasks per unit of time, all servers together, if the answer is wanted for one.
    discipline
        "fcfs" (or "ps"), or "pool".
    workers
        Tasks in service at once at each server.
    limit
        Most tasks at a server, None if there is no limit.

    Raises
    ------
    EquipoiseError
        If a speed is not > 0, or a parameter or the rate is not allowed.

    Examples
    --------
    >>> print(policy_stability("random", [0.25, 0.75], rate=0.4).verdict)
    stable at load 0.4 (0.4 tasks per unit of time); random carries load 0.5 of 1 (0.5 tasks per \
unit of time; loses 50 % of the capacity); bottleneck: the slowest of 2 servers (speed 0.25), \
which must take 50 % of the tasks with 25 % of the speed
    """
    fleet = as_fleet(servers)
    params = dict(params or {})
    if discipline == "pool" or limit is not None:
        return _endless(name, fleet, rate, pool=discipline == "pool")
    known = KNOWN.get(name)
    if known is None:
        return _between(name, fleet, 0.0, rate, "nothing is proved for this policy")
    return known(name, fleet, params, rate, workers)


def _random(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    if params.get("weighted", False):
        return draws.random(fleet, weights=fleet.given_speeds, rate=rate)
    return draws.random(fleet, rate=rate)


def _round_robin(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    # the shares are those of random sending, only evener
    found = _random(name, fleet, params, rate, workers)
    return replace(found, rule=found.rule.replace("random", name, 1))


def _jsq(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    return draws.jsq(fleet, rate=rate, rule=name)


def _shorter(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    found = draws.jsq(fleet, rate=rate, rule=name)
    if params.get("idle_only", False):
        return replace(found, reason="a server that is found empty gets all that comes")
    return replace(found, reason="long queues get nothing while others are shorter")


def _jsq_d(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    d, replacement = params.get("d", 2), params.get("replacement", False)
    sampling = params.get("sampling", "uniform")
    if sampling == "uniform":
        found = draws.jsq_d(fleet, d, replacement=replacement, rate=rate)
    elif sampling == "speed":
        found = draws.proportional(fleet, d, replacement=replacement, rate=rate)
    else:
        raise EquipoiseError(f"sampling = '{sampling}' must be 'uniform' or 'speed'")
    return replace(found, rule=found.rule.replace("jsq-d", name, 1))


def _sampled(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    if "law" not in params:
        raise EquipoiseError("sampled needs its law, e.g. {(0, 1): 0.7, (2,): 0.3}")
    return laws.sampled(fleet, params["law"], rate=rate)


def _jiq(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    return tokens(fleet, 1, workers=workers, rate=rate, rule="jiq")


def _jbt(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    r = params.get("r", 2)
    return tokens(fleet, r, workers=workers, rate=rate, rule=f"jbt(r={r})")


def _threshold(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    level, step = params.get("level", 0), params.get("step", 1)
    # tokens are gone once every server has h = level + step tasks
    return tokens(fleet, level + step, workers=workers, rate=rate, rule=f"threshold(level={level})")


def _longest(
    name: str, fleet: Fleet, params: dict[str, Any], rate: float | None, workers: int
) -> Stability:
    reason = "the longest queues get at most their part of the tasks"
    return _between(name, fleet, fleet.size * float(fleet.speeds[0]), rate, reason)


KNOWN: dict[str, Callable[[str, Fleet, dict[str, Any], float | None, int], Stability]] = {
    "random": _random,
    "round-robin": _round_robin,
    "jsq": _jsq,
    "sed": _jsq,
    "jsq-d": _jsq_d,
    "ll-d": _jsq_d,
    "sampled": _sampled,
    "jiq": _jiq,
    "jbt": _jbt,
    "threshold": _threshold,
    "learning-threshold": _longest,
    "sparsified-jiq": _longest,
    "total-threshold": _shorter,
    "sujsq-det": _shorter,
    "sujsq-exp": _shorter,
    "aujsq-det": _shorter,
    "aujsq-exp": _shorter,
    "stale-jsq": _shorter,
}


def tokens(
    servers: Any, r: int, *, workers: int = 1, rate: float | None = None, rule: str | None = None
) -> Stability:
    """Return the load that sending to servers known to have fewer than r tasks surely carries.

    Where no such server is known a task goes to a uniformly random one. jiq is r = 1; a threshold
    policy has r = level + step. Reasoning in the opening of this file; exact for equal speeds with
    one worker, and for two servers under jiq.

    Parameters
    ----------
    servers
        Speeds (tasks per unit of time, all workers of a server together), one per server, or
        groups of (count, speed).
    r
        A server holds a token while it has fewer than r tasks, >= 1.
    workers
        Tasks in service at once at each server, >= 1.

    Raises
    ------
    EquipoiseError
        If a speed is not > 0, r or workers is not >= 1, or the rate is not allowed.

    Examples
    --------
    >>> s = tokens([0.2, 1.0], 1)
    >>> round(s.lam_max, 6), s.known, s.bottleneck.tolist()
    (0.740312, True, [0])
    """
    fleet = as_fleet(servers)
    if r < 1 or workers < 1:
        raise EquipoiseError(f"r = {r} and workers = {workers} must be whole numbers >= 1")
    rule = rule or f"tokens(r={r})"
    used = min(r, workers) / workers
    carried = _surely(fleet, used)
    reason = "long queues get tasks only when no server holds a token"
    found = _between(rule, fleet, carried, rate, reason)
    if found.known or fleet.size != 2 or r != 1 or workers != 1:
        return found
    slow, fast = float(fleet.speeds[0]), float(fleet.speeds[-1])

    def excess(rate: float) -> float:
        if rate >= 2 * fast:
            return rate - slow - fast
        return max(0.0, rate**2 / (2 * fast + rate) - slow)

    return Stability(
        rule=rule,
        size=2,
        capacity=fleet.capacity,
        lam_max=carried,
        lam_upper=carried,
        bottleneck=np.flatnonzero(fleet.each() == slow),
        bottleneck_speed=slow,
        bottleneck_share=slow / carried,
        bottleneck_name=f"the slower of 2 servers (speed {slow:.3g})",
        reason="flow balance at the faster server while the slower one is busy",
        rate=found.rate,
        excess=excess,
    )


def _surely(fleet: Fleet, used: float) -> float:
    """Return the largest rate for which the condition on tokens holds for all s; O(groups).

    For one s it holds up to threshold(s), the larger root of the two ways. Inside a group of equal
    speed the least threshold may lie between the ends, so start at the capacity and go down: at
    lam, some s of a group fails iff one fails that is an end, or the vertex of the quadratic
    lam^2 s/n - m (used (M - m) + lam s/n), of the stretch of s with m <= lam s/n; then lam is put
    to the least threshold of these. A few rounds.
    """
    n, whole = fleet.size, fleet.capacity
    first, last = fleet.ends - fleet.counts + 1.0, fleet.ends.astype(float)
    lag = fleet.speeds * last - fleet.sums  # >= 0; the s slowest have speed v s - lag in a group

    def threshold(s: np.ndarray, v: np.ndarray, lag: np.ndarray) -> np.ndarray:
        m = v * s - lag
        root = (m + np.sqrt(m**2 + 4 * used * n / s * m * np.maximum(whole - m, 0.0))) / 2
        return np.maximum(n * m / s, root)

    lam = min(whole, float(threshold(last, fleet.speeds, lag).min()))
    wide = fleet.counts > 1
    first, last, lag, v = first[wide], last[wide], lag[wide], fleet.speeds[wide]
    for _ in range(MOST_ROUNDS if v.size else 0):
        gap = v - lam / n
        end = np.where(gap > 0, np.floor(lag / np.where(gap > 0, gap, 1.0)), last)
        end = np.minimum(np.maximum(end, first), last)
        square = used * v**2 - lam * v / n
        linear = lam**2 / n - used * v * (whole + 2 * lag) + lam * lag / n
        vertex = np.where(square < 0, -linear / (2 * np.where(square < 0, square, -1.0)), first)
        vertex = np.floor(np.clip(vertex, first, end))
        found = min(
            float(threshold(s, v, lag).min())
            for s in (first, end, vertex, np.minimum(vertex + 1, end))
        )
        if found >= lam * (1 - 1e-13):
            return lam
        lam = found
    return lam


def _between(rule: str, fleet: Fleet, surely: float, rate: float | None, reason: str) -> Stability:
    """Return an answer that is known up to `surely` and beyond the capacity only."""
    whole = fleet.capacity
    known = surely >= whole * (1 - 1e-12)

    def excess(rate: float) -> float | None:
        if rate <= surely:
            return 0.0
        return rate - whole if known else None

    return Stability(
        rule=rule,
        size=fleet.size,
        capacity=whole,
        lam_max=whole if known else surely,
        lam_upper=whole,
        bottleneck=np.arange(fleet.size) if known else np.empty(0, dtype=np.int64),
        bottleneck_speed=whole if known else 0.0,
        bottleneck_share=1.0 if known else 0.0,
        bottleneck_name=f"all {fleet.size} servers" if known else "",
        reason=reason,
        rate=None if rate is None else check_rate(rate),
        excess=excess,
    )


def _endless(name: str, fleet: Fleet, rate: float | None, pool: bool) -> Stability:
    reason = (
        "a pool works on all its tasks at once"
        if pool
        else "with a limit tasks are lost, they never pile up"
    )
    return Stability(
        rule=name,
        size=fleet.size,
        capacity=fleet.capacity,
        lam_max=np.inf,
        lam_upper=np.inf,
        bottleneck=np.empty(0, dtype=np.int64),
        bottleneck_speed=0.0,
        bottleneck_share=0.0,
        bottleneck_name="",
        reason=reason,
        rate=None if rate is None else check_rate(rate),
        excess=lambda rate: 0.0,
    )
