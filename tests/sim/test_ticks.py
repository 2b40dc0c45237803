"""Updates by the clock: when each server's turn is, and how many there are."""

from typing import NamedTuple

import numpy as np
import pytest
from runs import assert_mean, cut

from equipoise import Scenario, resolve
from equipoise.policies import Policy
from equipoise.policies.base import Clock
from equipoise.policies.levels import Levels, lowest, make_levels, raise_one, set_level
from equipoise.policies.spec import spec
from equipoise.policies.steps import UPDATE
from equipoise.rng import make_rng
from equipoise.sim import ticks
from equipoise.sim.run import pick_kernel, replicate


class ToldParams(NamedTuple):
    idle_only: bool


class ToldState(NamedTuple):
    par: ToldParams
    levels: Levels


def init(bounds, speeds, announcement, delta=1.0, idle_only=False, mode="pull"):
    return ToldState(ToldParams(idle_only), make_levels(np.asarray(bounds))), 0


def choose(state, fleet, rng):
    server = lowest(state.levels, rng)
    raise_one(state.levels, server)
    return server


def hear(state, server, bound):
    set_level(state.levels, server, bound - 1)


def tell_state(length, announcement, params, rng):
    return 0 if params.idle_only and length > 0 else length + 1


def told(together, regular):
    """The shortest estimate, which is right only just after an update."""
    clock = Clock(together, regular)
    name = f"told-{'together' if together else 'own'}-{'regular' if regular else 'exponential'}"
    return Policy(name, init, choose, hear, tell_state=tell_state, clock=clock)


TOGETHER, OWN = told(True, True), told(False, True)
TOGETHER_EXP, OWN_EXP = told(True, False), told(False, False)


def scenario(duration=20.2, servers=7, delay=0.0, mean=2.0, **run):
    """Two seconds are a mean service time: with delta = 4 a server tells its state each 0.5 s."""
    return Scenario.from_dict(
        {
            "servers": {"count": servers, "discipline": "fcfs"},
            "arrivals": {"law": "poisson", "load": 0.7},
            "service": {"law": "exponential", "mean": mean},
            "messages": {"delay": delay},
            "run": {"duration": duration, "warm_up": 0.0, **run},
        }
    )


def moments_of(clock, period, servers, until):
    """Return [(time, server or ALL)] of a clock, up to a time."""
    watch = ticks.make_ticks(clock, period, False, servers, make_rng(3))
    found = []
    while watch.next[0] <= until:
        at = float(watch.next[0])
        found.append((at, int(ticks.turn(watch, clock.together, clock.regular, servers))))
        ticks.wind(watch, at, clock.together, clock.regular, servers)
    return found


def test_regular_clocks_are_on_time_to_the_last_digit():
    """All at T, 2T, ...; or server k at kT/n + jT, the first one at T."""
    together = moments_of(Clock(True, True), 0.1, 7, 1000.0)
    own = moments_of(Clock(False, True), 0.7, 7, 700.0)

    assert together == [(i * 0.1, ticks.ALL) for i in range(1, 10_001)]
    assert len(own) == 7000
    assert [server for _, server in own[:8]] == [1, 2, 3, 4, 5, 6, 0, 1]
    for at, server in own:
        turns = (at - server * 0.1) / 0.7
        assert abs(turns - round(turns)) < 1e-9
    assert [at for at, server in own if server == 0] == pytest.approx(
        [j * 0.7 for j in range(1, 1001)], rel=1e-15
    )


@pytest.mark.parametrize("together", [True, False])
def test_exponential_clocks_are_poisson_streams(together):
    """Of rate 1/T all together, of n/T where each has its own, every server alike."""
    found = moments_of(Clock(together, False), 0.5, 5, 4000.0)

    rate = 2.0 if together else 10.0
    gaps = np.diff([0.0] + [at for at, _ in found])
    assert_mean(gaps, 1 / rate)
    assert_mean(gaps**2, 2 / rate**2)
    if not together:
        for server in range(5):
            assert_mean([who == server for _, who in found], 0.2)


@pytest.mark.parametrize(
    ("policy", "updates"),
    # T = 0.5 s for 7 servers and 20.2 s: 40 sweeps of 7; or a tick each 0.5/7 s, 282 of them
    [(TOGETHER, 40 * 7), (OWN, 282)],
)
@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_regular_updates_are_counted_to_the_last_one(policy, updates, delay):
    one = scenario(delay=delay)

    pulled = replicate(one, spec(policy, delta=4.0), 0, kernel="events", trail=5000)
    pushed = replicate(one, spec(policy, delta=4.0, mode="push"), 0, kernel="events", trail=5000)

    assert pulled.messages.sum(axis=0)[UPDATE] == updates
    assert pushed.messages.sum(axis=0)[UPDATE] == 2 * updates
    assert pulled.messages.sum() == updates
    assert pulled.trail.tolist() == pushed.trail.tolist()


@pytest.mark.parametrize("policy", [TOGETHER_EXP, OWN_EXP])
def test_exponential_updates_come_at_their_rate(policy):
    one = scenario(duration=100.0)

    records = [replicate(one, spec(policy, delta=4.0), r, kernel="events") for r in range(40)]

    assert_mean([record.messages.sum(axis=0)[UPDATE] for record in records], 200 * 7)


def test_servers_with_nothing_to_say_send_nothing():
    """Where only idle ones tell, those that a loop over the events finds idle; asking costs."""
    one = scenario(duration=200.2)
    told_ = spec(TOGETHER, delta=4.0, idle_only=True)

    record = replicate(one, told_, 0, kernel="events", trail=50_000)
    asked = spec(TOGETHER, delta=4.0, idle_only=True, mode="push")
    other = replicate(one, asked, 0, kernel="events", trail=50_000)

    updates = int(record.messages.sum())
    share = updates / (400 * 7)  # the others work, 0.7 of the time
    assert 0.2 < share < 0.4
    assert other.messages.sum() == updates + 400 * 7
    assert record.trail.tolist() == other.trail.tolist()


def test_updates_at_every_moment_make_it_the_shortest_queue():
    """At a thousand sweeps in a service time the estimates are the lengths: jsq's own mean."""
    one = scenario(duration=60.0, servers=3)

    often, never, jsq = (
        np.array([replicate(one, by, r, kernel="events").sums.sum(axis=0)[1] for r in range(30)])
        for by in (
            spec(TOGETHER, delta=1000.0),
            spec(TOGETHER, delta=1e-3),
            resolve("jsq"),
        )
    )

    assert_mean(often - jsq, 0.0, bias=0.02 * jsq.mean())
    assert (never - jsq).mean() > 0.2 * jsq.mean()


@pytest.mark.parametrize("policy", [TOGETHER, OWN_EXP])
def test_the_path_does_not_depend_on_how_a_run_is_cut(policy):
    one, asked = scenario(duration=200.0, delay=0.3), spec(policy, delta=4.0)

    with cut(rows=1, stretches=1):
        whole = replicate(one, asked, 0, kernel="events", trail=50_000)
    with cut(rows=13, stretches=7):
        pieces = replicate(one, asked, 0, kernel="events", trail=50_000)

    assert whole.trail.tolist() == pieces.trail.tolist()
    assert (whole.messages.sum(axis=0) == pieces.messages.sum(axis=0)).all()
    assert whole.sums.sum(axis=0) == pytest.approx(pieces.sums.sum(axis=0), rel=1e-9)


def test_a_policy_with_a_clock_runs_in_both_kernels_and_takes_the_cheaper_one():
    assert pick_kernel(scenario(), "auto", [spec(OWN)]) == "memoryless"
    assert pick_kernel(scenario(), "events", [spec(OWN)]) == "events"
