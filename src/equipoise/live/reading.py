"""What the dashboard reads of a running service: numbers that have a name in /metrics.

A `Reading` is taken every second and must cost little; `servers` and what follows it is read only
while somebody looks. Readings of several dispatchers, each of its own, add up: see `total`; `told`
is what a worker tells of itself, for the page of them all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .health import State

if TYPE_CHECKING:
    from .fleet import Backend, Fleet
    from .serve import Service

SLOW = "slow start"
# as `server_state` names them, what is wrong first
STATES = (State.DOWN, State.EJECTED, State.DRAINING, State.NEW, SLOW, State.UP)


class Reading(NamedTuple):
    """What is counted of a dispatcher as a whole."""

    at: float  # s since it was made
    values: dict[str, float]  # by the metric's name; those with labels are sums over them
    buckets: list[int]  # request_duration_seconds_bucket, not accumulated


def read(service: Service) -> Reading:
    """Read a dispatcher; 10 us and 0.3 us for each server."""
    fleet = service.fleet
    figures = service.proxy.figures()
    backends, gone = fleet.backends.values(), fleet.gone
    slots = fleet.up_slots()
    values: dict[str, float] = {
        "proxy_requests_total": figures.requests,
        "proxy_under_way": figures.under_way,
        "proxy_queued": figures.queued,
        "proxy_clients": figures.clients,
        "errors_total": sum(fleet.errors.values()),
        "retries_total": fleet.retries,
        "messages_total": sum(fleet.core.messages().values()),
        "server_started_total": gone.started + sum([b.started for b in backends]),
        "server_failures_total": gone.failures + sum([b.failures for b in backends]),
        "server_duration_seconds_sum": gone.seconds + sum([b.seconds for b in backends]),
        "server_duration_seconds_count": gone.outcomes["ok"]
        + sum([b.outcomes["ok"] for b in backends]),
        "request_duration_seconds_sum": fleet.lasted_seconds,
        "servers_up": len(slots),
        "server_slots": sum(slots),
        "least_slots": min(slots, default=0),
        "most_slots": max(slots, default=0),
    }
    threshold = fleet.threshold
    if threshold is not None:
        values["threshold"] = threshold
    return Reading(fleet.up_seconds, values, list(fleet.lasted))


# How dispatchers' own values make one for all, where that is no sum. Each knows its own tasks only,
# so that the fullest server of all of them has at least what the fullest of one has.
JOINED: dict[str, Callable[[Iterable[float]], float]] = {
    "threshold": statistics.median_low,
    "servers_up": max,
    "least_slots": min,
    "most_slots": max,
}


def total(readings: Sequence[Reading]) -> Reading:
    """Return what several dispatchers have counted together; the threshold is the middle one."""
    names = dict.fromkeys(name for reading in readings for name in reading.values)
    values = {
        name: JOINED.get(name, sum)([r.values[name] for r in readings if name in r.values])
        for name in names
    }
    buckets = np.sum([reading.buckets for reading in readings], axis=0)
    return Reading(max(reading.at for reading in readings), values, buckets.tolist())


# -- servers, one by one ------------------------------------------------------------------------

COUNTED = ("started", "ok", "seconds", "failures")  # columns of `counts`


def counts(backends: Iterable[Backend]) -> np.ndarray:
    """Return what is counted of servers, float64[n, 4], columns as `COUNTED`."""
    found = [(b.started, b.outcomes["ok"], b.seconds, b.failures) for b in backends]
    return np.array(found, float).reshape(-1, len(COUNTED))


def state(fleet: Fleet, name: str) -> str:
    """Return the state of a server, one of `STATES`."""
    return SLOW if fleet.starts_slowly(name) else str(fleet.state(name))


def servers(fleet: Fleet, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return what is known of servers now."""
    core, now = fleet.core, fleet.now
    known = core.known() if core.tells else {}
    found = []
    for name in names:
        backend, condition = fleet.backends[name], fleet.health.of[name]
        row: dict[str, Any] = {
            "name": name,
            "address": backend.address,
            "state": state(fleet, name),
            "why": condition.why,
            "for": round(now - condition.since, 1),
            "slots": fleet.slots(name),
            "limit": backend.limit,
        }
        if (one := known.get(name)) is not None and one.most is not None:
            row["most"], row["told"] = one.most, round(now - one.since, 2)
        found.append(row)
    return found


# -- by a worker, to its parent -----------------------------------------------------------------

WHOLE, COUNTS, SERVERS = "whole", "counts", "servers"  # what can be asked for; each has the first
PART = 500  # servers of an answer; a few ms, in which no request is served


def told(service: Service, what: str, start: int = 0) -> dict[str, Any]:
    """Return what a worker tells of itself: text, numbers, lists and dicts.

    Parameters
    ----------
    what
        `WHOLE`: the reading, and the tasks at each server that is up. `COUNTS`: what is counted of
        each server, too. `SERVERS`: and all else that is known of it.
    start
        Of servers that one and those after it, at most `PART`; `next` is where to go on, or None.
        Where it is not 0 the whole is left out.
    """
    fleet = service.fleet
    names = [] if what == WHOLE else list(fleet.backends)
    end = start + PART
    found: dict[str, Any] = {} if start else _whole(service)
    found["next"] = end if end < len(names) else None
    names = names[start:end]
    if what != WHOLE:
        numbers = counts(fleet.backends[name] for name in names).tolist()
        found["counts"] = dict(zip(names, numbers, strict=True))
    if what == SERVERS:
        found["servers"] = servers(fleet, names)
        if fleet.hearing is not None:
            for row in found["servers"]:
                row["agent"] = fleet.hearing.status(row["name"], fleet.now)
    return found


def _whole(service: Service) -> dict[str, Any]:
    fleet = service.fleet
    up = (server.name for server in fleet.core.servers)
    return {
        "reading": read(service),
        "up": dict(zip(up, fleet.up_slots(), strict=True)),
        "policy": fleet.core.spec.label,
        "learns": fleet.core.spec.policy.learns,
        "tokens": fleet.core.tokens(),
        "tells": fleet.core.tells,
        "deaf": fleet.hearing is not None and fleet.hearing.deaf,
    }
