"""Leaps of time are within their stated error, of limits, closed forms and the exact kernel."""

import math

import exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import assert_mean, cut, run
from scipy.integrate import solve_ivp

from equipoise import EquipoiseError, Scenario, resolve, simulate
from equipoise.rng import make_rng
from equipoise.scenario.servers import ALL_AT_ONCE
from equipoise.sim.leap import change_rate, leap_error, make_leap, make_leaping
from equipoise.sim.occupancy import make_counted, make_occupancy
from equipoise.sim.run import ANY, pick_kernel, replicate
from equipoise.sim.tally import TOTAL, tally_of
from equipoise.theory.limits import jsq_d

LEVELS = 200
POOL = ALL_AT_ONCE


def curve_of(workers):
    """The speed of a server with 0, 1, .. tasks."""
    return np.minimum(np.arange(LEVELS), workers).astype(float)


def leaping(policy, counts, seed=1, workers=1):
    """Return go(until, load, step), which runs on and returns the tally of its servers."""
    spec = resolve(policy)
    size = int(counts.sum())
    state, _ = spec.policy.ranked.init(size, **spec.params)
    tally, curve = tally_of(counts, LEVELS, 0), curve_of(workers)
    world = make_leaping(size, None, 0, LEVELS, make_rng(seed))
    kernel = make_leap(spec.policy, workers != POOL, False)

    def go(until, load, step):
        until += 1e-9  # the last step may end there but for rounding
        kernel(world, state, tally, curve, load * size, step, workers, np.inf, until, ANY)
        return tally

    return go


def fluid(load, times):
    """Shares of servers with at least 1, 2, .. tasks under jsq-d(2) from empty, [levels, times]."""
    solved = solve_ivp(
        lambda t, x: jsq_d.drift(x, load, 2),
        (0, times[-1]),
        np.zeros(30),
        rtol=1e-10,
        atol=1e-12,
        t_eval=times,
    )
    return solved.y


@pytest.mark.parametrize("step", [0.04, 0.02, 0.01])
def test_a_thousand_million_queues_follow_the_fluid_limit_within_the_stated_error(step):
    n, load, times = 10**9, 0.9, np.arange(0.4, 10.1, 0.4)
    changes = 2 * load + 1  # a server gets twice the mean rate at most, and works at speed 1

    go = leaping("jsq-d(d=2)", np.array([n]))
    shares = np.array([go(t, load, step).least[1:31] / n for t in times]).T

    noise = 4 * math.sqrt(0.5 / n)  # no share varies by more than that of a coin, about
    worst = np.abs(shares - fluid(load, times)).max()
    assert worst <= leap_error(step, changes).share + noise
    assert worst > leap_error(step, changes).share / 20  # and it says something


def test_at_rest_there_is_no_error_but_noise():
    n, load = 10**9, 0.9
    tails = jsq_d.rest_point(load, 12)
    counts = -np.diff(np.rint(n * np.concatenate(([1.0], tails, [0.0]))).astype(np.int64))

    go = leaping("jsq-d(d=2)", counts)
    shares = np.mean([go(t, load, 0.04).least[1:13] / n for t in range(1, 100)], axis=0)

    assert np.abs(shares - tails).max() < 4 * math.sqrt(0.5 / n)


@pytest.mark.parametrize("step", [0.05, 0.1])
def test_the_variance_of_tasks_in_pools_is_too_large_by_what_is_stated(step):
    """The truth is Poisson. Sampled every 2 mean service times: correlation e^-2."""
    n, load = 10**4, 2.5
    samples = []
    for seed in range(8):
        go = leaping("random", np.bincount([2, 3], minlength=4) * (n // 2), seed, POOL)
        totals = [go(t, load, step).number[TOTAL] for t in np.arange(20.0, 4020.0, 2.0)]
        samples.append(np.var(totals) / (n * load))

    assert_mean(samples, 1 + leap_error(step, 1.0).variance, bias=0.003)


def test_the_variance_of_tasks_in_queues_is_that_of_the_exact_kernel_within_what_is_stated():
    n, load, step, workers = 10**4, 0.7, 0.1, 1
    tails = jsq_d.rest_point(load, 8)
    counts = -np.diff(np.rint(n * np.concatenate(([1.0], tails, [0.0]))).astype(np.int64))
    spec = resolve("jsq-d(d=2)")
    kernel, curve = make_occupancy(spec.policy, True, False), curve_of(workers)
    times = np.arange(10.0, 300.0, 1.0)

    leaps, truth = [], []
    for seed in range(10):
        go = leaping("jsq-d(d=2)", counts, seed)
        leaps.append(np.var([go(t, load, step).number[TOTAL] for t in np.arange(10, 3010.0)]) / n)
        state, _ = spec.policy.ranked.init(n, **spec.params)
        tally = tally_of(counts, LEVELS, 0)
        world = make_counted(n, None, 0, *(make_rng(10 * seed + i) for i in range(4)))
        totals = []
        for t in times:
            kernel(world, state, tally, curve, load * n, workers, t, ANY)
            totals.append(tally.number[TOTAL])
        truth.append(np.var(totals) / n)

    error = math.hypot(np.std(leaps, ddof=1), np.std(truth, ddof=1)) / math.sqrt(10)
    ratio, error = np.mean(leaps) / np.mean(truth), error / np.mean(truth)
    assert 1 - 4 * error <= ratio <= 1 + leap_error(step, 1.0).variance + 4 * error
    assert error < 0.05


def test_means_of_a_run_are_those_of_the_limit():
    """Waits, messages and occupancy of what a scenario runs, 120 s after a balanced start."""
    scenario = Scenario.simple(
        servers=10**8, load=0.8, start="balanced", duration=160.0, warm_up=120.0, replications=4
    )

    runs = run(scenario, "jsq-d(d=2)", "leap")

    for i, share in enumerate(exact.jsq_d_tail(0.8, 2)[:5]):
        assert_mean(runs.at_least(i + 1, 10**8), share, bias=3e-5)
    assert_mean(runs["mean_wait"], exact.jsq_d_wait(0.8, 2), bias=2e-4)
    assert_mean(runs["mean_response"], exact.jsq_d_wait(0.8, 2) + 1, bias=2e-4)
    assert_mean(runs["messages_per_task"], 4.0, bias=1e-12)
    assert all(r.arrived == r.finished + r.present for r in runs.records)


def test_full_pools_lose_as_erlang_says():
    scenario = Scenario.simple(
        servers=10**6, discipline="pool", load=2.5, limit=4, duration=80.0, warm_up=20.0,
        replications=6,
    )  # fmt: skip

    runs = run(scenario, "random", "leap(step=0.02)")

    lost = exact.erlang_b(4, 2.5)
    assert_mean(runs["lost"], lost, bias=1e-4)
    assert_mean(runs["mean_tasks"], 2.5 * (1 - lost), bias=3e-4)
    assert runs["max_tasks"].max() == 4


def changing(warm_up=0.0, limit=None, n=10**6):
    return Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": "pool"} | ({"limit": limit} if limit else {}),
            "arrivals": {"law": "rates", "times": [0, 1, 1.333, 7], "rates": [4 * n, 0, 9 * n]},
            "service": {"law": "exponential", "mean": 0.9},
            "run": {"duration": 5.0, "warm_up": warm_up, "replications": 8},
        }
    )


def test_traffic_that_changes_is_followed_from_piece_to_piece():
    """d rho / dt = rate - rho / 0.9; the pieces are no multiples of a step."""
    runs = run(changing(), "jsq-d", "leap(step=0.01)", rows=1)

    rho = 0.0
    for rate, length in ((4, 1.0), (0, 0.333), (9, 5.0 - 1.333)):
        rho = 0.9 * rate + (rho - 0.9 * rate) * math.exp(-length / 0.9)
    present = [r.present / 10**6 for r in runs.records]
    # between the last step and the end nothing is done: up to 0.01 * 0.9 s at a drift of 0.13
    assert_mean(present, rho, bias=2e-3)


@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(1, 8), st.sampled_from([None, 3]))
def test_the_path_does_not_depend_on_how_a_run_is_cut(rows, stretches, limit):
    with cut(rows=1, stretches=1):
        one = replicate(changing(0.0, limit), resolve("jsq-d"), 3, kernel="leap(step=0.01)")
    with cut(rows + 1, stretches):
        spec = resolve("jsq-d")
        other = replicate(changing(2.22, limit), spec, 3, kernel="leap(step=0.01)")

    assert (one.arrived, one.finished, one.lost) == (other.arrived, other.finished, other.lost)
    assert one.arrived == one.finished + one.present + one.lost
    assert one.sums.sum(axis=0) == pytest.approx(other.sums.sum(axis=0), rel=1e-9)


def test_its_error_is_stated_with_the_results():
    scenario = Scenario.simple(servers=10**9, load=0.9, duration=2.0, replications=2)

    found = simulate(scenario, "jsq-d", kernel="leap(step=0.005)")

    assert found.kernel == "leap(step=0.005)"
    assert any("leaps of 0.005 mean service times" in note for note in found.notes)
    assert "0.50% too large" in str(found)


def test_a_step_fits_the_servers_where_none_is_given():
    """At most 0.1 changes of a server: pools of 40 tasks change 40 + 3 sqrt(40) + 2 * 40 times."""
    queues = Scenario.simple(servers=1000, load=0.9, tasks=1000)
    pools = Scenario.simple(servers=1000, discipline="pool", load=40.0, tasks=1000)
    spec = resolve("jsq-d")

    assert pick_kernel(queues, "leap", [spec]) == "leap(step=0.01)"
    assert change_rate(queues, spec) == pytest.approx(2 * 0.9 + 1, rel=0.01)
    step = float(pick_kernel(pools, "leap", [spec])[len("leap(step=") : -1])
    assert step == pytest.approx(0.1 / (40 + 3 * math.sqrt(40) + 2 * 40), rel=0.1)


@pytest.mark.parametrize(
    ("policy", "kernel", "said"),
    [
        ("jsq", "leap", "policy 'jsq' cannot leap"),
        ("round-robin", "leap", "no form for the leap kernel"),
        ("jsq-d", "leap(step=0)", "step = 0 must be a number > 0"),
        ("jsq-d", "leap(step=fast)", "step = fast must be a number > 0"),
        ("jsq-d", "leap(step=1)", "step = 1 is too long"),
        ("jsq-d", "leap(h=0.1)", "leap has no parameter 'h'"),
        ("jsq-d", "leap(step", r"'leap\(step' is not"),
        ("jsq-d", "leaps", "no kernel is called 'leaps'"),
    ],
)
def test_what_cannot_leap_is_refused_in_one_line(policy, kernel, said):
    scenario = Scenario.simple(servers=1000, load=0.9, tasks=1000)

    with pytest.raises(EquipoiseError, match=said) as refused:
        simulate(scenario, policy, kernel=kernel)

    assert "\n" not in str(refused.value)
