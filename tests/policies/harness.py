"""Drives a policy event by event, and knows what its memory must say. Shared by contract tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.compile import kernel
from equipoise.policies import POLICIES, Policy, PolicySpec, resolve
from equipoise.policies.levels import Bands, Levels, band_at
from equipoise.policies.steps import OUT_OF_RANGE, make_steps, make_world
from equipoise.rng import make_rng

REQUIRED = {"threshold": "threshold(level=2)"}
WRITTEN = [
    *(REQUIRED.get(name, name) for name in POLICIES),
    "jsq-d(d=3)",
    "jsq-d(d=2, replacement=true)",
    "jsq-d(d=5)",
    "jbt(r=1)",
    "threshold(level=0)",
    "threshold(level=1, step=3)",
    "learning-threshold(alpha=0.6, level=3)",
    "learning-threshold(alpha=0.7, step=2)",
    "learning-threshold(alpha=0.6, rule=program)",
]


def specs() -> list[PolicySpec]:
    """Every registered policy, and some with other parameters."""
    return [resolve(written) for written in WRITTEN]


def world_of(spec: PolicySpec, lengths, seed: int = 1, *, limit=None, tracked=True):
    """A world of this policy, its coins from one seed."""
    return make_world(
        spec.policy,
        dict(spec.params),
        np.asarray(lengths),
        choice_rng=make_rng(seed),
        server_rng=make_rng(seed + 1),
        limit=limit,
        tracked=tracked,
    )


def plain_drive(spec, lengths, seed, script, limit=None):
    """Follow a script in plain Python; yield (world, server) after each event.

    The script is a list of integers: negative, a task comes; else a task of the k-th of those
    present leaves (nothing happens when nobody is there).
    """
    world = world_of(spec, lengths, seed, limit=limit)
    steps = make_steps(spec.policy, True)
    present = list(np.repeat(np.arange(len(lengths)), lengths))
    for move in script:
        if move < 0:
            server = int(steps.arrive(world))
            assert server != OUT_OF_RANGE
            if server >= 0:
                present.append(server)
            yield world, server
        elif present:
            server = int(present.pop(move % len(present)))
            steps.depart(world, server)
            yield world, server


def compiled_drive(spec, lengths, seed, script, limit=None):
    """Follow the same script in one compiled loop; return the servers and the world."""
    world = world_of(spec, lengths, seed, limit=limit)
    present = np.zeros(len(script) + int(np.sum(lengths)), np.int64)
    start = np.repeat(np.arange(len(lengths)), lengths)
    present[: start.size] = start
    out = np.full(len(script), -(2**40))
    _loop(spec.policy)(world, np.array(script, np.int64), present, start.size, out)
    return [int(server) for server in out if server != -(2**40)], world


_loops: dict[Policy, object] = {}


def _loop(policy):
    if policy not in _loops:
        steps = make_steps(policy, True)
        arrive, depart = steps.arrive, steps.depart

        def contract(world, script, present, count, out):
            for i in range(script.size):
                if script[i] < 0:
                    server = arrive(world)
                    if server >= 0:
                        present[count] = server
                        count += 1
                    out[i] = server
                elif count > 0:
                    k = script[i] % count
                    server = present[k]
                    for j in range(k, count - 1):
                        present[j] = present[j + 1]
                    count -= 1
                    depart(world, server)
                    out[i] = server

        _loops[policy] = kernel(contract)
    return _loops[policy]


def index_of(world) -> Levels | Bands | None:
    """The index that a policy's memory holds, if it holds one."""
    for part in world.state:
        if isinstance(part, Levels | Bands):
            return part
    return None


def believed_below(world, spec: PolicySpec) -> np.ndarray:
    """What the dispatcher believes: each server has fewer than this many tasks; huge: nothing."""
    index, n = index_of(world), world.length.size
    if index is None:
        return np.full(n, 2**40)
    if isinstance(index, Levels):
        return index.place[:, 1].astype(np.int64) + 1
    bounds = [*promises(world, spec), 2**40]
    return np.array([bounds[band_at(index, index.position[s])] for s in range(n)])


def promises(world, spec: PolicySpec) -> list[int]:
    """What each band but the last stands for: fewer than so many tasks."""
    if spec.policy.name == "jiq":
        return [1]
    if spec.policy.name == "jbt":
        return [spec.params["r"]]
    level = int(world.announcement[0])
    return [level, level + spec.params["step"]]


def watched(policy: Policy, seen: list[tuple[str, int]]) -> Policy:
    """The same policy, each message it sends noted as (kind, m)."""

    def noting(kind, tell):
        def told(length, announcement, params, rng):
            m = tell(length, announcement, params, rng)
            if m > 0:
                seen.append((kind, int(m)))
                assert length < m, f"{kind}: {length} tasks, but said fewer than {m}"
            return m

        return told

    return replace(
        policy,
        tell_start=noting("join", policy.tell_start),
        tell_finish=noting("leave", policy.tell_finish),
        tell_state=noting("answer", policy.tell_state),
    )
