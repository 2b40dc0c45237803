"""What every policy must keep, registered or a user's: the seam's promises, tested."""

import inspect
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies.harness import (
    believed_below,
    compiled_drive,
    index_of,
    plain_drive,
    promises,
    sized,
    specs,
    speeds_for,
    watched,
    world_of,
)

import equipoise
from equipoise.errors import EquipoiseError, PolicyMismatch
from equipoise.live.core import Core
from equipoise.policies import CONSTRUCTORS, POLICIES, PolicySpec
from equipoise.policies.base import Blind
from equipoise.policies.law import law_sets
from equipoise.policies.levels import Bands, Levels, band_at
from equipoise.policies.segments import Segments
from equipoise.policies.steps import MESSAGES, PROBE, UPDATE, make_steps
from equipoise.rng import POLICY_SEED, SERVERS_SEED, below, make_rng, seeds
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate

every_policy = pytest.mark.parametrize("spec", specs(), ids=str)
# Sizes are known only after a task has run, so nothing that needs them can stand before traffic.
every_live_policy = pytest.mark.parametrize(
    "spec", [spec for spec in specs() if not sized(spec.policy)], ids=str
)
every_live_policy_without_clock = pytest.mark.parametrize(
    "spec", [s for s in specs() if not sized(s.policy) and s.policy.clock is None], ids=str
)
every_policy_with_clock = pytest.mark.parametrize(
    "spec", [s for s in specs() if s.policy.clock is not None], ids=str
)
starts = st.lists(st.integers(0, 6), min_size=4, max_size=9)
scripts = st.lists(st.integers(-4, 40), min_size=1, max_size=60)


@every_policy
@given(start=starts, seed=st.integers(0, 2**32), script=scripts)
def test_compiled_and_plain_python_choose_alike(spec, start, seed, script):
    """What runs in simulation and in front of traffic is what we can read and step through."""
    servers, world = compiled_drive(spec, start, seed, script)
    plain = list(plain_drive(spec, start, seed, script))

    assert servers == [server for _, server in plain]
    if plain:
        last = plain[-1][0]
        assert (world.count == last.count).all()
        assert (world.choice_rng == last.choice_rng).all()


def scenario_of(spec, n, discipline, load, **more) -> Scenario:
    """Poisson arrivals, exponential service of mean 1 s, speeds as the harness has them."""
    limit = {"limit": more.pop("limit")} if "limit" in more else {}
    return Scenario.from_dict(
        {
            "servers": {"discipline": discipline, "speeds": speeds_for(spec, n).tolist(), **limit},
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": 1.0},
            "run": more,
        }
    )


def core_of(spec, scenario) -> Core:
    """A dispatcher for the servers of a scenario, with the coins of its first replication."""
    core = Core(spec, seed=scenario.run.seed, limit=scenario.servers.limit, other_if_full=False)
    for i, speed in enumerate(scenario.servers.speed_of.tolist()):
        core.joined(f"server {i}", speed=speed)
    return core


@every_live_policy
@pytest.mark.parametrize("discipline", ["fcfs", "pool"])
def test_simulator_and_live_core_choose_the_same_servers(spec, discipline):
    """One recorded sequence of events; what was simulated is, choice for choice, what is served.

    A core with the scenario's seed has the coins of its first replication.
    """
    n, load = 12, {"fcfs": 0.95, "pool": 3.5}[discipline]
    scenario = scenario_of(spec, n, discipline, load, tasks=1500)
    record = replicate(scenario, spec, 0, kernel="events", trail=200_000)
    core = Core(spec, seed=scenario.run.seed)
    for i, speed in enumerate(scenario.servers.speed_of.tolist()):
        core.joined(f"server {i}", speed=speed)

    chosen, updates, held = [], 0, [[] for _ in range(n)]
    for event in record.trail.tolist():
        if event >= 0:
            slot = core.choose()
            chosen.append((event, slot.server.index))
            held[event].append(slot)
        elif event >= -n:
            core.finished(held[-1 - event].pop())
        else:  # an update by the clock, the last one that of all servers
            updates += 1
            server = -1 - n - event
            core.update(None if server == n else f"server {server}")

    assert len(chosen) == 1500
    assert all(simulated == live for simulated, live in chosen)
    assert (updates > 0) == (spec.policy.clock is not None)


@every_live_policy_without_clock
def test_simulator_and_live_core_lose_the_same_tasks_at_full_servers(spec):
    n = 8
    scenario = scenario_of(spec, n, "fcfs", 1.3, limit=3, tasks=800)
    record = replicate(scenario, spec, 0, kernel="events", trail=1600)
    core = core_of(spec, scenario)

    held, lost, steps = [[] for _ in range(n)], 0, 0
    for event in record.trail[: record.events].tolist():
        steps += 1
        if event < 0:
            core.finished(held[-1 - event].pop())
        elif (slot := core.choose()) is None:
            lost += 1
        else:
            assert slot.server.index == event
            held[event].append(slot)

    assert lost == record.lost > 0
    assert steps == record.events


@every_policy_with_clock
@pytest.mark.parametrize("limit", [None, 3])
def test_the_live_core_chooses_as_the_steps_do_whoever_keeps_the_time(spec, limit):
    """The core has no clock: it is told when servers update, and hears what they say."""
    n, rng, present = 12, np.random.default_rng(3), []
    scenario = scenario_of(spec, n, "fcfs", 0.95, **({} if limit is None else {"limit": limit}))
    core = core_of(spec, scenario)
    streams = seeds(scenario.run.seed, 0)
    world = world_of(spec, [0] * n, limit=limit)
    world.choice_rng[:] = make_rng(streams[POLICY_SEED])
    world.server_rng[:] = make_rng(streams[SERVERS_SEED])
    steps, asked = make_steps(spec.policy, True), 0

    for event in rng.random(1500):
        if event < 0.1:
            servers = range(n) if spec.policy.clock.together else [int(rng.integers(n))]
            for server in servers:
                asked += 1
                steps.update(world, server)
                core.update(f"server {server}")
        elif event < 0.5 and present:
            server, slot = present.pop(int(rng.integers(len(present))))
            steps.depart(world, server)
            core.finished(slot)
        else:
            server, slot = int(steps.arrive(world)), core.choose()
            assert (slot.server.index if slot else None) == (server if server >= 0 else None)
            if slot:
                present.append((server, slot))

    questions = asked if spec.params.get("mode") == "push" else 0
    assert core.messages()["update"] == world.count[UPDATE] + questions > 0


@every_policy_with_clock
def test_an_update_is_a_message_and_the_question_for_it_another(spec):
    core = Core(spec, ["a", "b", "c"])
    slots = [core.choose() for _ in range(3 * spec.params.get("idle_only", False))]

    core.update("b")
    core.update()
    core.update("gone")

    assert core.messages()["update"] == (0 if slots else 4) + 4 * (
        spec.params.get("mode") == "push"
    )
    with pytest.raises(EquipoiseError, match="with agents the servers update by themselves"):
        Core(spec, ["a"], agents=True).update("a")


@pytest.mark.parametrize("spec", [s for s in specs() if sized(s.policy)], ids=str)
def test_a_policy_that_needs_sizes_cannot_stand_in_front_of_traffic(spec):
    with pytest.raises(PolicyMismatch, match="must observe sizes, which a live dispatcher cannot"):
        Core(spec, ["a", "b", "c", "d"])


@every_policy
@given(start=starts, seed=st.integers(0, 2**32), script=scripts)
def test_memory_equals_the_true_state_after_every_event(spec, start, seed, script):
    """With instant messages bands are the colors of the true lengths, and levels the lengths.

    Where servers tell by the clock they are the lengths at an update and the estimates between.
    """
    told = np.array(start)  # length at the last update and, if they are counted, own sends since
    counted = spec.policy.name != "stale-jsq"
    before = np.array(start)
    for world, server in plain_drive(spec, start, seed, script):
        index = index_of(world)
        if spec.policy.clock:
            change = world.length - before
            before = world.length.copy()
            if not change.any():
                due = np.arange(told.size) == server
                due |= spec.policy.clock.together
                if spec.params.get("idle_only"):
                    due &= world.length == 0
                told = np.where(due, world.length, told)
            elif counted:
                told = told + np.maximum(change, 0)
            assert (index.place[:, 1] == told).all()
        elif isinstance(index, Levels | Segments):
            assert (index.place[:, 1] == world.length).all()
        elif isinstance(index, Bands):
            bounds = [*promises(world, spec), 2**40]
            bands = [band_at(index, index.position[s]) for s in range(world.length.size)]
            true = [next(b for b, m in enumerate(bounds) if x < m) for x in world.length]
            if spec.policy.name in (
                "jiq",
                "sparsified-jiq",
            ):  # a token is used up: an idle server is told of once
                assert all(band >= color for band, color in zip(bands, true, strict=True))
            else:
                assert bands == true


@every_policy
@given(start=starts, seed=st.integers(0, 2**32), script=scripts, limit=st.integers(1, 7))
def test_beliefs_are_never_below_the_truth_when_tasks_are_lost(spec, start, seed, script, limit):
    start = [min(length, limit) for length in start]
    for world, _ in plain_drive(spec, start, seed, script, limit):
        assert (world.length < believed_below(world, spec)).all()
        assert world.length.max() <= limit


@every_policy
@given(start=starts, seed=st.integers(0, 2**32), script=scripts)
def test_messages_counted_are_messages_sent_and_none_is_a_lie(spec, start, seed, script):
    """At most one message on a start and one on a finish; each says fewer than m, and it is so."""
    seen: list[tuple[str, int]] = []
    noted = replace_policy(spec, watched(spec.policy, seen))
    before = 0
    for world, _ in plain_drive(noted, start, seed, script):
        new = Counter(kind for kind, _ in seen[before:])
        before = len(seen)
        assert new["join"] + new["leave"] <= 1
        kinds = Counter(kind for kind, _ in seen)
        for i, kind in enumerate(MESSAGES):
            if i != PROBE:
                assert world.count[i] == kinds[kind]


@every_policy
def test_only_a_policy_that_probes_can_see_lengths(spec):
    world = world_of(spec, [1, 2, 3, 4, 5])

    if spec.policy.probes:
        assert world.fleet.length is world.length
    else:
        assert world.fleet == Blind(5)
    source = inspect.getsource(inspect.getmodule(spec.policy.choose))
    assert bool(re.search(r"\bask(_work)?\(", source)) == spec.policy.probes
    assert ("ask_work(" in source) == sized(spec.policy)


@every_live_policy
@given(seed=st.integers(0, 2**32), moves=st.lists(st.integers(0, 99), min_size=1, max_size=80))
def test_servers_may_come_and_go_at_any_moment(spec, seed, moves):
    """`init` again at any moment, from any bounds, and going on is legal; no slot is lost."""
    core = Core(spec, ["a", "b", "c", "d", "e"], seed=seed)
    held, next_name = [], 0
    for move in moves:
        kind, pick = move % 5, move // 5
        if spec.policy.clock and pick % 3 == 0:
            core.update(core.servers[move % len(core.servers)].name)
        if kind == 0 and len(core.servers) > 1:
            core.left(core.servers[pick % len(core.servers)].name)
        elif kind == 1 and len(core.servers) < 9:
            core.joined(f"new {next_name}", length=None if pick % 2 else 0)
            next_name += 1
        elif kind == 2 and held:
            core.finished(held.pop(pick % len(held)))
        elif kind == 3 and held:
            core.not_sent(held.pop(pick % len(held)))
        else:
            held.append(core.choose())
        assert (core.world.length >= 0).all()
        assert (core.world.length < believed_below(core.world, spec)).all()
    for slot in held:
        core.finished(slot)

    assert set(core.lengths().values()) == {0}


@pytest.mark.parametrize("spec", [s for s in specs() if not s.policy.announces], ids=str)
@given(seed=st.integers(0, 2**32), delays=st.lists(st.integers(0, 12), min_size=20, max_size=80))
def test_beliefs_hold_however_late_messages_are(spec, seed, delays):
    """Own sends added, a promise stays true, whatever overtook it on its way."""
    world, steps = world_of(spec, [0] * 5, seed), make_steps(spec.policy, True)
    coins, params = make_rng(seed + 7), world.state.par
    length, received, present = [0] * 5, [0] * 5, []
    on_the_way: list[tuple[int, int, int, int]] = []  # due, server, m, received when it was made

    def say(m, server, now, delay):
        if m > 0:
            on_the_way.append((now + delay, server, m, received[server]))

    for now, delay in enumerate(delays):
        due = sorted(message for message in on_the_way if message[0] <= now)
        on_the_way = [message for message in on_the_way if message[0] > now]
        for _, server, m, had in due:
            steps.hear_from(world, server, m, had)
        if spec.policy.clock and delay % 4 == 1:
            server = now % 5
            tell = spec.policy.tell_state
        elif present and delay % 3 == 0:
            server = present.pop(below(coins, len(present)))
            length[server] -= 1
            world.length[server] -= 1
            tell = spec.policy.tell_finish
        else:
            server = int(steps.send(world))
            length[server] += 1
            received[server] += 1
            present.append(server)
            tell = spec.policy.tell_start
        say(tell(length[server], world.announcement[0], params, coins), server, now, delay)
        assert (np.array(length) < believed_below(world, spec)).all()


@every_policy
def test_facts_are_stated(spec):
    policy = spec.policy

    assert policy.about
    assert policy.source
    assert policy.cost
    assert policy.memory >= 0
    assert inspect.getmodule(policy.choose).__doc__
    assert all(param.meaning for param in policy.params.values())
    camel = "".join(word.capitalize() for word in policy.name.split("-"))
    assert getattr(equipoise, camel)(**spec.params).label == spec.label


@every_policy
def test_tasks_are_spread_over_all_servers_when_nothing_distinguishes_them(spec):
    """Ties are uniform: from equal lengths each server is the first choice 1/n of the time."""
    n, runs, alike = 4, 400, np.ones(4)
    first = Counter(
        int(next(plain_drive(spec, [3] * n, seed, [-1], speeds=alike))[1]) for seed in range(runs)
    )

    if spec.policy.name == "round-robin":
        assert set(first) == {0}
    elif "law" in spec.params:  # the sets distinguish them; within a set ties are uniform
        parts = np.zeros(n)
        for members, probability in law_sets(spec.params["law"]).items():
            parts[list(members)] += probability / len(members)
        error = (runs * parts * (1 - parts)) ** 0.5
        assert all(abs(first[s] - runs * parts[s]) < 4 * error[s] for s in range(n))
    else:
        error = (runs * (1 / n) * (1 - 1 / n)) ** 0.5
        assert all(abs(first[s] - runs / n) < 4 * error for s in range(n))


def test_registry_names_are_unique_and_match_their_files():
    for name, policy in POLICIES.items():
        camel = "".join(word.capitalize() for word in name.split("-"))
        module = CONSTRUCTORS[camel].__module__
        assert module.rpartition(".")[2] == name.replace("-", "_")
        assert policy.name == name


def replace_policy(spec: PolicySpec, policy) -> PolicySpec:
    return replace(spec, policy=policy)
