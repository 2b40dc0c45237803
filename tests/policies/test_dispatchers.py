"""Several dispatchers: what each believes of servers that others send to as well."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.harness import (
    UPDATES,
    index_of,
    plain_drive,
    promises,
    sized,
    specs,
    speeds_for,
    watched,
)

from equipoise.compile import content_key, kernel
from equipoise.policies import POLICIES, resolve
from equipoise.policies.base import Blind
from equipoise.policies.dispatchers import make_dispatchers, make_shared_steps
from equipoise.policies.levels import Bands, Levels, band_at
from equipoise.policies.segments import Segments
from equipoise.policies.steps import MESSAGES, PROBE
from equipoise.rng import make_rng

MORE = ["threshold(level=1, step=3)", "learning-threshold(alpha=0.7, step=2)"]
SPECS = [s for s in specs()[: len(POLICIES)] if not sized(s.policy)] + [resolve(w) for w in MORE]
every_policy = pytest.mark.parametrize("spec", SPECS, ids=str)
some = settings(max_examples=20)
both = pytest.mark.parametrize("hear", ["all", "own"])
starts = st.lists(st.integers(0, 5), min_size=5, max_size=9)
scripts = st.lists(st.integers(-25, 44), max_size=60)
counts = st.integers(1, 4)
seeds = st.integers(0, 2**32)


def dispatchers_of(spec, lengths, seed, m, hear, limit=None):
    """Dispatchers of this policy; the first has the coins that `world_of` gives to one alone."""
    owners = None
    if hear == "own":
        owners = np.random.default_rng(seed).integers(0, m, sum(lengths))
    made = make_dispatchers(
        spec.policy,
        dict(spec.params),
        np.array(lengths),
        choice_rngs=[make_rng(seed + 100 * k) for k in range(m)],
        server_rng=make_rng(seed + 1),
        coins=make_rng(seed + 2),
        owners=owners,
        limit=limit,
        speeds=speeds_for(spec, len(lengths)),
    )
    return made, [] if owners is None else owners.tolist()


@cache
def compiled_steps(policy, hear):
    return [kernel(step) for step in make_shared_steps(policy, hear)]


def drive(spec, lengths, seed, script, m, hear, limit=None, compiled=False):
    """Follow a script as `plain_drive` does; yield (what, dispatcher, server, dispatchers).

    `what` is "came", "left", "lost" or "updated". A task that leaves is one of its dispatcher's.
    """
    made, owners = dispatchers_of(spec, lengths, seed, m, hear, limit)
    world, steps = made.world, make_shared_steps(spec.policy, hear)
    arrive, depart, update = compiled_steps(spec.policy, hear) if compiled else steps
    at = np.repeat(np.arange(len(lengths)), lengths).tolist()
    present = list(zip(at, owners or [0] * len(at), strict=True))
    for move in script:
        if move < 0:
            server = int(arrive(world))
            k = int(world.whose[0])
            if server >= 0:
                present.append((server, k))
            yield "came" if server >= 0 else "lost", k, server, made
        elif spec.policy.clock and move >= UPDATES:
            server = move % len(lengths)
            for other in range(len(lengths)):
                if other == server or spec.policy.clock.together:
                    update(world, other)
            yield "updated", None, server, made
        elif present:
            server, k = present.pop(move % len(present))
            world.whose[0] = k
            depart(world, server)
            yield "left", k, server, made


@every_policy
@both
@some
@given(start=starts, seed=seeds, script=scripts)
def test_one_dispatcher_of_several_is_one_dispatcher(spec, hear, start, seed, script):
    """The same choices, counts, memory: nothing is drawn or told twice."""
    events = drive(spec, start, seed, script, 1, hear)
    for (alone, server), (*_, here, made) in zip(
        plain_drive(spec, start, seed, script), events, strict=True
    ):
        assert here == server
        assert made.world.length.tolist() == alone.length.tolist()
        assert made.world.count.tolist() == alone.count.tolist()
        assert made.world.announcement[0] == alone.announcement[0]
        for name in ("choice_rng", "server_rng", "sent", "promise"):
            assert getattr(made.worlds[0], name).tolist() == getattr(alone, name).tolist()


@pytest.mark.parametrize(
    "policy",
    [
        "jsq",
        "jsq-d",
        "sparsified-jiq(p=0.5)",
        "learning-threshold(alpha=0.6)",
        "sujsq-det(delta=2, mode=push)",
    ],
)
@both
@some
@given(start=starts, seed=seeds, script=scripts, m=counts, limit=st.sampled_from([None, 5, 7]))
def test_compiled_and_plain_dispatchers_choose_alike(policy, hear, start, seed, script, m, limit):
    spec = resolve(policy)
    plain = list(drive(spec, start, seed, script, m, hear, limit))
    compiled = list(drive(spec, start, seed, script, m, hear, limit, compiled=True))

    assert [event[:3] for event in compiled] == [event[:3] for event in plain]
    if plain:
        one, other = plain[-1][3], compiled[-1][3]
        assert other.world.count.tolist() == one.world.count.tolist()
        for a, b in zip(one.worlds, other.worlds, strict=True):
            assert b.promise.tolist() == a.promise.tolist()


@every_policy
@both
@some
@given(start=starts, seed=seeds, script=scripts, m=counts)
def test_every_task_is_somebodys_and_every_message_is_counted(spec, hear, start, seed, script, m):
    """Arrivals are departures and those left; what was counted is what servers said."""
    seen, came, left = [], 0, 0
    noted = dataclasses.replace(spec, policy=watched(spec.policy, seen))
    for what, _, _, made in drive(noted, start, seed, script, m, hear):
        came, left = came + (what == "came"), left + (what == "left")
        world, worlds = made.world, made.worlds
        assert world.length.sum() == sum(start) + came - left
        assert sum(w.sent.sum() for w in worlds) == came
        if hear == "own":
            assert sum(w.length for w in worlds).tolist() == world.length.tolist()
        kinds = [kind for kind, _ in seen]
        for i, kind in enumerate(MESSAGES):
            if i != PROBE:
                assert world.count[i] == kinds.count(kind)


@every_policy
@some
@given(start=starts, seed=seeds, script=scripts, m=counts)
def test_with_all_a_belief_is_wrong_by_others_tasks_alone(spec, start, seed, script, m):
    """No token is missing, and a false one is due to others; levels lack just what others sent.

    What others sent counts from the last time that the server told, to the dispatcher in question,
    whatever it was.
    """
    n = len(start)
    others = np.zeros((m, n), int)  # sent by others since the server told this dispatcher
    own = np.zeros((m, n), int)
    last = np.array(start)  # length when the server told by the clock
    heard: list[tuple[int, int]] = []
    noted = dataclasses.replace(spec, policy=hearing(spec.policy, heard))
    for what, sender, server, made in drive(noted, start, seed, script, m, "all"):
        worlds, length = made.worlds, made.world.length
        if what == "came":
            for k in range(m):
                others[k, server] += k != sender
            own[sender, server] += 1
        for k, w in enumerate(worlds):
            for state, about in heard:
                if state is index_of(w):
                    others[k, about] = 0
                    own[k, about] = 0
                    last[about] = length[about]
        if not spec.policy.announces and spec.policy.name != "sparsified-jiq":
            assert len(heard) % m == 0  # all of them, or none
            assert all(sum(a is index_of(w) for a, _ in heard) == len(heard) / m for w in worlds)
        heard.clear()
        for k, w in enumerate(worlds):
            assert_beliefs(spec, w, length, others[k], own[k], last)


def hearing(policy, heard):
    """The same policy; what a dispatcher hears is noted as (its index, server)."""

    def hear(state, server, bound):
        policy.hear(state, server, bound)
        index = next((part for part in state if isinstance(part, Bands | Levels | Segments)), None)
        heard.append((index, int(server)))

    return dataclasses.replace(policy, hear=hear)


def assert_beliefs(spec, w, length, others, own, last):
    """What one dispatcher believes, others having sent so many tasks since each server told."""
    index = index_of(w)
    if spec.policy.name == "stale-jsq":
        assert index.place[:, 1].tolist() == last.tolist()
    elif spec.policy.clock:
        assert index.place[:, 1].tolist() == (last + own).tolist()
        assert (index.place[:, 1] + others >= length).all()
    elif isinstance(index, Levels | Segments):
        assert (index.place[:, 1] + others).tolist() == length.tolist()
    elif isinstance(index, Bands):
        bounds = [*promises(w, spec), 2**40]
        for s, x in enumerate(length):
            band = band_at(index, index.position[s])
            true = next(b for b, bound in enumerate(bounds) if x < bound)
            if spec.policy.name != "sparsified-jiq":  # a server may keep still
                assert band <= true
            if band < true:
                assert others[s] > 0
    else:
        assert index is None


@every_policy
@some
@given(start=starts, seed=seeds, script=scripts, m=counts)
def test_with_own_each_dispatcher_is_exact_about_its_own_tasks(spec, start, seed, script, m):
    """Bands are the colors of its own lengths, and levels are these lengths."""
    for *_, made in drive(spec, start, seed, script, m, "own"):
        for w in made.worlds:
            index = index_of(w)
            if spec.policy.clock:
                if spec.policy.name != "stale-jsq":
                    assert (index.place[:, 1] >= w.length).all()
            elif isinstance(index, Levels | Segments):
                assert index.place[:, 1].tolist() == w.length.tolist()
            elif isinstance(index, Bands) and spec.policy.name != "sparsified-jiq":
                bounds = [*promises(w, spec), 2**40]
                bands = [band_at(index, index.position[s]) for s in range(len(start))]
                assert bands == [next(b for b, m in enumerate(bounds) if x < m) for x in w.length]


@every_policy
@both
@some
@given(start=starts, seed=seeds, script=scripts, m=counts, limit=st.integers(1, 7))
def test_a_limit_holds_whoever_sends(spec, hear, start, seed, script, m, limit):
    """A task that is lost leaves no trace in any dispatcher's counts."""
    start, came = [min(length, limit) for length in start], 0
    for what, _, server, made in drive(spec, start, seed, script, m, hear, limit):
        came += what == "came"
        assert made.world.length.max() <= limit
        assert sum(w.sent.sum() for w in made.worlds) == came
        if what == "lost":
            assert made.world.length[-1 - server] == limit


@both
def test_what_a_policy_sees_of_the_fleet(hear):
    """True lengths with all, own tasks with own; and nothing at all if it does not probe."""
    jsq, _ = dispatchers_of(resolve("jsq"), [1, 2, 3], 1, 2, hear)
    asking, owners = dispatchers_of(resolve("jsq-d"), [1, 2, 3], 1, 2, hear)

    assert [w.fleet for w in jsq.worlds] == [Blind(3)] * 2
    seen = [w.fleet.length.tolist() for w in asking.worlds]
    assert np.sum(seen, axis=0).tolist() == ([2, 4, 6] if hear == "all" else [1, 2, 3])
    assert sum(seen[1]) == (6 if hear == "all" else sum(owners))
    assert all(w.fleet.asked.base is asking.world.count for w in asking.worlds)


@both
def test_their_kernels_can_be_kept_on_disk(hear):
    """What can be named by content is found there by the next process."""
    steps = make_shared_steps(resolve("jiq").policy, hear)

    assert len({content_key(step) for step in steps}) == len(steps)
