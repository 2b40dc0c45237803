"""Drives a policy event by event, and knows what its memory must say. Shared by contract tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.compile import kernel
from equipoise.policies import POLICIES, Policy, PolicySpec, resolve
from equipoise.policies.base import book_work
from equipoise.policies.levels import Bands, Levels, band_at
from equipoise.policies.segments import Segments
from equipoise.policies.steps import OUT_OF_RANGE, make_steps, make_world
from equipoise.rng import make_rng

# every set of the law is among the first four servers, which all scripts have
LAW = "sampled(law={0+1:0.35, 1+2+3:0.4, 3:0.05, 0+3:0.2})"
REQUIRED = {"threshold": "threshold(level=2)", "sampled": LAW}
WRITTEN = [
    *(REQUIRED.get(name, name) for name in POLICIES),
    "jsq-d(d=3)",
    "jsq-d(d=2, replacement=true)",
    "jsq-d(d=5)",
    "random(weighted=true)",
    "round-robin(weighted=true)",
    "jsq-d(d=2, sampling=speed)",
    "jsq-d(d=4, sampling=speed)",
    "jsq-d(d=3, sampling=speed, replacement=true)",
    "ll-d(d=3, sampling=speed)",
    "jbt(r=1)",
    "threshold(level=0)",
    "threshold(level=1, step=3)",
    "learning-threshold(alpha=0.6, level=3)",
    "learning-threshold(alpha=0.7, step=2)",
    "learning-threshold(alpha=0.6, rule=program)",
    "total-threshold(step=3)",
    "sparsified-jiq(p=0)",
    "sparsified-jiq(p=1)",
    "sujsq-det(delta=2, idle_only=true)",
    "aujsq-exp(delta=0.5, mode=push)",
    "sujsq-exp(delta=3, idle_only=true, mode=push)",
]
UPDATES = 30  # a move of a script from here on is an update, where the policy has a clock


def specs() -> list[PolicySpec]:
    """Every registered policy, and some with other parameters."""
    return [resolve(written) for written in WRITTEN]


def speeds_for(spec: PolicySpec, n: int) -> np.ndarray:
    """Unequal speeds where the policy looks at them, float64[n]; all 1 where it does not."""
    params = spec.params
    looks = "speeds" in spec.policy.needs or params.get("weighted", False)
    if looks or params.get("sampling") == "speed":
        return np.array([1.0, 0.25, 2.0, 0.5, 1.0, 3.0, 0.25, 1.0, 0.1])[np.arange(n) % 9]
    return np.ones(n)


def world_of(spec: PolicySpec, lengths, seed: int = 1, *, limit=None, tracked=True, speeds=None):
    """A world of this policy, its coins from one seed; speeds as `speeds_for` says if not given."""
    return make_world(
        spec.policy,
        dict(spec.params),
        np.asarray(lengths),
        choice_rng=make_rng(seed),
        server_rng=make_rng(seed + 1),
        limit=limit,
        tracked=tracked,
        speeds=speeds_for(spec, len(lengths)) if speeds is None else speeds,
    )


def sized(policy: Policy) -> bool:
    """Whether a policy sees the sizes of tasks, so that its drivers must keep account of them."""
    return "sizes" in policy.needs


def plain_drive(spec, lengths, seed, script, limit=None, speeds=None):
    """Follow a script in plain Python; yield (world, server) after each event.

    The script is a list of integers: negative, a task comes; else a task of the k-th of those
    present leaves (nothing happens when nobody is there). For a policy with a clock, from `UPDATES`
    on: a server updates, all of them if that is how they do it.
    """
    world = world_of(spec, lengths, seed, limit=limit, speeds=speeds)
    steps = make_steps(spec.policy, True)
    present = list(np.repeat(np.arange(len(lengths)), lengths))
    for i, move in enumerate(script):
        if sized(spec.policy):
            world.fleet.now[0] = i
        if move < 0:
            server = int(steps.arrive(world))
            assert server != OUT_OF_RANGE
            if server >= 0:
                present.append(server)
                if sized(spec.policy):  # sizes of 1, 2, 3 s in turn
                    book_work(world.fleet, server, world.length[server] - 1, 1.0 + i % 3)
            yield world, server
        elif spec.policy.clock and move >= UPDATES:
            server = move % len(lengths)
            for other in range(len(lengths)):
                if other == server or spec.policy.clock.together:
                    steps.update(world, other)
            yield world, server
        elif present:
            server = int(present.pop(move % len(present)))
            steps.depart(world, server)
            if sized(spec.policy):
                book_work(world.fleet, server, world.length[server] + 1, 0.0)
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
        arrive, depart, with_sizes = steps.arrive, steps.depart, sized(policy)
        update, clocked = steps.update, policy.clock is not None
        together = clocked and policy.clock.together

        def contract(world, script, present, count, out):
            for i in range(script.size):
                if with_sizes:
                    world.fleet.now[0] = i
                if script[i] < 0:
                    server = arrive(world)
                    if server >= 0:
                        present[count] = server
                        count += 1
                        if with_sizes:
                            before = world.length[server] - 1
                            book_work(world.fleet, server, before, 1.0 + i % 3)
                    out[i] = server
                elif clocked and script[i] >= UPDATES:
                    server = script[i] % world.length.size
                    for other in range(world.length.size):
                        if other == server or together:
                            update(world, other)
                    out[i] = server
                elif count > 0:
                    k = script[i] % count
                    server = present[k]
                    for j in range(k, count - 1):
                        present[j] = present[j + 1]
                    count -= 1
                    depart(world, server)
                    if with_sizes:
                        book_work(world.fleet, server, world.length[server] + 1, 0.0)
                    out[i] = server

        _loops[policy] = kernel(contract)
    return _loops[policy]


def index_of(world) -> Levels | Bands | Segments | None:
    """The index that a policy's memory holds, if it holds one."""
    for part in world.state:
        if isinstance(part, Levels | Bands | Segments):
            return part
    return None


def believed_below(world, spec: PolicySpec) -> np.ndarray:
    """What the dispatcher believes: each server has fewer than this many tasks; huge: nothing.

    Of the stale lengths of stale-jsq it had better believe nothing.
    """
    index, n = index_of(world), world.length.size
    if index is None or spec.policy.name == "stale-jsq":
        return np.full(n, 2**40)
    if isinstance(index, Levels | Segments):
        return index.place[:, 1].astype(np.int64) + 1
    bounds = [*promises(world, spec), 2**40]
    return np.array([bounds[band_at(index, index.position[s])] for s in range(n)])


def promises(world, spec: PolicySpec) -> list[int]:
    """What each band but the last stands for: fewer than so many tasks."""
    if spec.policy.name in ("jiq", "sparsified-jiq"):
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
        tell_state=noting("update" if policy.clock else "answer", policy.tell_state),
    )
