"""Large fleets: what is asked of memory ahead of time changes no result, and is what is needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies.harness import specs, world_of
from runs import assert_mean, run
from sim import test_memoryless_inflow, test_unequal
from sim.test_chains import assert_chain, chain_of
from sim.test_run import assert_same_run

from equipoise import Scenario
from equipoise.compile import kernel
from equipoise.policies import resolve
from equipoise.policies.base import foresee_nothing
from equipoise.rng import below, make_rng
from equipoise.sim import memoryless
from equipoise.sim.lookahead import SERVER, SLOT, Lookahead, coin, fit_frame, frame_of
from equipoise.sim.run import replicate


@pytest.fixture
def far(monkeypatch):
    """Every fleet is a large one."""
    monkeypatch.setattr(memoryless, "FAR", 1)


@pytest.fixture
def blind(monkeypatch):
    """Call it for a kernel that asks for nothing ahead of time, in plain Python."""

    def close_eyes():
        def nothing(world, tasks, number):
            """Ask for nothing."""

        monkeypatch.setattr(memoryless, "make_lookahead", lambda *_: Lookahead(nothing, nothing))
        monkeypatch.setattr(memoryless, "kernel", lambda function: function)
        memoryless.make_memoryless.cache_clear()

    yield close_eyes
    memoryless.make_memoryless.cache_clear()


QUEUES = ["jsq", "jsq-d", "jsq-d(d=3)", "jiq", "sujsq-det(delta=0.5)", "aujsq-exp(delta=0.5)"]
POOLS = ["jsq", "learning-threshold(alpha=0.7)", "total-threshold", "aujsq-det(delta=0.5)"]
MIXED = {"groups": [{"count": 20, "speed": 1.5}, {"count": 20, "speed": 0.5}]}


@pytest.mark.parametrize(
    ("policy", "how"),
    [(policy, {"load": 0.9}) for policy in QUEUES]
    + [(policy, {"load": 3.5, "discipline": "pool"}) for policy in POOLS]
    + [
        ("jsq", {"load": 0.9, "workers": 3}),
        ("jsq-d", {"load": 0.9, "limit": 2}),
        ("random", {"load": 0.9}),
    ],
    ids=str,
)
def test_looking_ahead_changes_no_result(policy, how, far, blind):
    scenario = Scenario.simple(servers=40, tasks=1500, warm_up=0.0, start="empty", **how)
    seeing = replicate(scenario, resolve(policy), 0, kernel="memoryless")

    blind()

    assert_same_run(replicate(scenario, resolve(policy), 0, kernel="memoryless"), seeing)


@pytest.mark.parametrize("policy", ["jsq", "sed", "jsq-d(sampling=speed)"])
def test_looking_ahead_changes_no_result_on_unequal_servers(policy, far, blind):
    scenario = Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", **MIXED},
            "arrivals": {"law": "poisson", "load": 0.9},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"tasks": 1500, "warm_up": 0.0, "replications": 1},
        }
    )
    seeing = replicate(scenario, resolve(policy), 0, kernel="memoryless")

    blind()

    assert_same_run(replicate(scenario, resolve(policy), 0, kernel="memoryless"), seeing)


@pytest.mark.parametrize(
    ("policy", "servers", "how"),
    [
        ("random", 2, {}),
        ("jsq", 3, {}),
        ("jsq-d(d=2)", 3, {}),
        ("threshold(level=1)", 2, {}),
        ("jsq", 3, {"workers": 2, "limit": 3}),
        ("jsq-d(d=2)", 3, {"limit": 3}),
    ],
    ids=str,
)
def test_frames_leave_queues_what_their_chains_say(policy, servers, how, far):
    rate = 0.7 * servers * how.get("workers", 1)
    scenario = Scenario.simple(
        servers=servers, rate=rate, tasks=20_000, warm_up=300.0, replications=40, **how
    )
    cap = how.get("limit", 60 if servers == 2 else 32)
    truth = chain_of(policy, servers, rate, workers=how.get("workers", 1), cap=cap)

    runs = run(scenario, policy, "memoryless")

    assert_chain(runs, truth, levels=min(4, cap))
    assert_mean(runs["mean_wait"], truth.mean_wait)


@pytest.mark.parametrize("policy", ["jsq", "learning-threshold(alpha=0.45)", "random"])
def test_frames_leave_pools_what_their_chains_say(policy, far):
    scenario = Scenario.simple(
        servers=2, discipline="pool", rate=5.0, tasks=20_000, warm_up=20.0, replications=40
    )

    runs = run(scenario, policy, "memoryless")

    assert_chain(runs, chain_of(policy, 2, 5.0, workers=np.inf, cap=20), levels=5)


@pytest.mark.parametrize("case", ["jsq, two", "sed, three", "jsq-d by speed, three"])
def test_frames_leave_unequal_servers_what_their_chains_say(case, far):
    test_unequal.test_lengths_are_those_of_the_exact_chain(case, "memoryless")


def test_rates_that_change_and_batches_come_as_they_should(far):
    test_memoryless_inflow.test_pools_hold_what_straight_lines_offer("memoryless")
    test_memoryless_inflow.test_one_server_is_m_x_m_1("memoryless", test_memoryless_inflow.TABLE)
    test_memoryless_inflow.test_geometric_batches_in_pools_are_negative_binomial("memoryless")


@pytest.mark.parametrize("discipline", ["pool", "fcfs"])
def test_the_path_does_not_depend_on_how_a_run_is_cut(discipline, far, monkeypatch):
    test_memoryless_inflow.test_the_path_does_not_depend_on_how_a_run_is_cut(
        discipline, test_memoryless_inflow.LINE, monkeypatch
    )


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_a_frame_has_room_for_all_and_not_much_more(numbers):
    frame = np.zeros(1, np.int64)
    for tasks in numbers:
        fit_frame(frame, 0, tasks)
        assert tasks <= frame[0] <= tasks + tasks // 32 + 2


def test_frames_hold_still_so_that_guesses_hold():
    """While tasks come and go at random, 2000 +- 30, the frame is set a few times."""
    frame, rng, tasks, set_ = frame_of(np.array([2000])), make_rng(5), 2000, 0
    for _ in range(3000):
        tasks += 1 if below(rng, 4000) >= tasks else -1
        before = frame[0]
        fit_frame(frame, 0, tasks)
        set_ += frame[0] != before
    assert set_ < 30


@pytest.mark.parametrize("how", [{"load": 0.9}, {"load": 3.5, "discipline": "pool"}], ids=str)
def test_the_slot_that_is_asked_for_is_the_one_that_is_drawn(how, far, monkeypatch):
    """The kernel as plain Python: guesses of eight and four events before against the last one."""
    guessed = []

    def watch(policy, queue, unequal):
        def events(world, tasks, rate):
            reach = rate + tasks.frame[0]
            guessed.append([int(max(0, coin(tasks, k) * reach - rate)) for k in (1, SLOT, SERVER)])

        return Lookahead(events, lambda world, tasks, workers: None)

    monkeypatch.setattr(memoryless, "make_lookahead", watch)
    monkeypatch.setattr(memoryless, "kernel", lambda function: function)
    memoryless.make_memoryless.cache_clear()
    scenario = Scenario.simple(servers=400, tasks=1500, warm_up=0.0, start="balanced", **how)
    replicate(scenario, resolve("random"), 0, kernel="memoryless")
    memoryless.make_memoryless.cache_clear()

    last, *before = (list(column) for column in zip(*guessed, strict=True))
    for ahead, slots in zip((SLOT, SERVER), before, strict=True):
        pairs = zip(slots, last[ahead - 1 :], strict=False)
        right = [slot == later for slot, later in pairs if later > 0]  # departures
        assert len(right) > 1000
        assert np.mean(right) > 0.75  # without frames: at most 0.42


SEEING = [spec for spec in specs() if spec.policy.foresight.choose is not foresee_nothing]


def content(value):
    """All numbers in nested tuples of arrays."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return tuple(map(content, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("spec", SEEING, ids=str)
def test_a_policy_goes_where_it_foresaw(spec):
    """Foreseeing touches nothing, neither its memory nor its coins, compiled or not."""
    rng, foresee = make_rng(11), spec.policy.foresight.choose
    compiled, right = kernel(foresee), 0
    for seed in range(60):
        world = world_of(spec, [below(rng, 5) for _ in range(30)], seed)
        state, fleet, coins = world.state, world.fleet, world.choice_rng
        before = content(world)

        server = foresee(state, fleet, coins)

        assert server == compiled(state, fleet, coins)
        assert content(world) == before
        if spec.policy.name == "jsq-d":  # it says who comes after the next one
            spec.policy.choose(state, fleet, coins)
        right += server == spec.policy.choose(state, fleet, coins)
    if spec.policy.name != "jsq-d":
        assert right == 60
    elif spec.params["d"] == 2 and spec.params["sampling"] == "uniform":
        assert right >= 50  # one time in 30 the same server is drawn twice, and another one then


@pytest.mark.parametrize("spec", specs(), ids=str)
def test_expecting_a_message_touches_nothing(spec):
    world = world_of(spec, [3, 0, 2, 2, 1, 4])
    before = content(world)

    for server in range(6):
        spec.policy.foresight.hear(world.state, server)

    assert content(world) == before
