"""The yardsticks themselves, against printed values, each other, and conservation laws."""

import math

import exact
import numpy as np
import pytest
from exact import chain, sparsified, threshold_law, threshold_messages
from exact_estimates import estimates

POOLS = math.inf  # workers


# lam; mean wait of random, JSQ(2), JSQ(3), JSQ(5); D/M/1 root and wait; round robin n = 10, 100.
BASELINES = [
    (0.5, 1, 0.26568604, 0.12524414, 0.03125000, 0.20318787, 0.25500097, 0.32464240, 0.26185976),
    (
        0.7,
        7 / 3,
        0.61445377,
        0.35684220,
        0.16809254,
        0.46699642,
        0.87616001,
        1.01980435,
        0.89048137,
    ),
    (0.9, 9, 1.61405738, 1.02785597, 0.63288124, 0.80689983, 4.17865942, 4.66027639, 4.22681074),
    (0.95, 19, 2.38304600, 1.53513348, 0.98877220, 0.90169511, 9.17243395, 10.15494844, 9.27068057),
]


@pytest.mark.parametrize("row", BASELINES, ids=lambda row: f"load {row[0]}")
def test_baselines_are_the_printed_ones(row):
    lam = row[0]
    computed = (
        exact.mmc_wait(1, lam),
        *(exact.jsq_d_wait(lam, d) for d in (2, 3, 5)),
        exact.dm1_root(lam),
        exact.dm1_wait(lam),
        exact.round_robin_wait(10, lam),
        exact.round_robin_wait(100, lam),
    )

    assert computed == pytest.approx(row[1:], abs=1.01e-8)


def test_round_robin_over_many_servers_tends_to_evenly_spaced_arrivals():
    assert exact.round_robin_wait(10**6, 0.9) == pytest.approx(exact.dm1_wait(0.9), abs=1e-4)
    assert exact.round_robin_wait(1, 0.9) == pytest.approx(exact.mmc_wait(1, 0.9))


# lam, level, step, r, the fractions of pools with the lowest and following numbers of tasks.
CUT_LAWS = [
    (2.5, 3, 1, 6.487417775, None, [0.98649310, 0.89886823, 0.61463866]),
    (2.5, 4, 1, 3.272204869, None, [0.95059836, 0.78894608, 0.52446640, 0.23598916]),
    (5.9, 6, 1, 63.83877785, None, [0.99999999, 0.99999937, 0.99997970, 0.99956109]),
    (2.5, 0, 1, 2.231611884, 0.268388116, [0.73161188, 0.43214283, 0.20937660, 0.08509465]),
    (2.5, 1, 1, 1.229933200, 0.6350333998, [0.36496660, 0.10461705, 0.02456391, 0.00487190]),
    (5.5, 4, 1, 2.263602088, 0.6472795825, [0.35272042, 0.10852318, 0.02955670, 0.00721311]),
    (5.5, 5, 1, 6.0, 0.5, [0.5]),
    (5.5, 4, 2, 12.94987437, 0.10893306, [0.89106694, 0.60893306]),
    (5.0, 4, 2, 5.477225575, 0.32305532, [0.67694468, 0.32305532]),
    (7.3, 6, 3, 6.719879057, 0.29687393, [0.70312607, 0.41813223, 0.17874171]),
]


@pytest.mark.parametrize(("lam", "level", "step", "r", "lowest", "q"), CUT_LAWS)
def test_laws_under_a_threshold_are_the_printed_ones(lam, level, step, r, lowest, q):
    law = threshold_law(lam, level, step)

    assert law.mean == pytest.approx(lam, rel=1e-12)
    assert law.rate == pytest.approx(r, rel=1e-8)
    assert law.q[: len(q)] == pytest.approx(q, abs=1.01e-8)
    if lowest is not None:
        assert law.pi[0] == pytest.approx(lowest, abs=1.01e-8)


@pytest.mark.parametrize(("lam", "level"), [(2.5, 3), (2.5, 4), (5.5, 8)])
def test_a_threshold_too_high_is_an_erlang_fixed_point(lam, level):
    theta = threshold_law(lam, level).at(level)

    assert theta == pytest.approx(exact.erlang_b(level, lam / (1 - theta)), rel=1e-10)


@pytest.mark.parametrize(
    ("lam", "level", "step", "join", "leave"),
    [
        (2.5, 2, 1, 0, 1),
        (2.5, 4, 1, 0.62241735, 0.37758265),
        (2.5, 1, 1, 0, 0.50802672),
        (5.5, 4, 2, 0.25648618, 0.74351382),
    ],
)
def test_messages_under_a_threshold_are_the_printed_ones(lam, level, step, join, leave):
    assert threshold_messages(lam, level, step) == pytest.approx((join, leave), abs=1e-6)


def test_erlang_formulas_agree_with_their_chains():
    lossy = chain("random", 1, 2.5, workers=POOLS, cap=4)
    waiting = chain("random", 1, 1.6, workers=2, cap=150)

    assert lossy.edge == pytest.approx(exact.erlang_b(4, 2.5), rel=1e-12)
    assert waiting.mean_wait == pytest.approx(exact.mmc_wait(2, 1.6), rel=1e-10)


def test_a_wait_with_one_worker_is_that_of_general_service():
    assert exact.pollaczek_khinchine(0.8, 1.0, 1.0) == pytest.approx(exact.mmc_wait(1, 0.8))
    assert exact.pollaczek_khinchine(0.4, 2.0, 1.0) == pytest.approx(exact.mmc_wait(1, 0.4, 2.0))
    assert exact.pollaczek_khinchine(0.8, 1.0, 0.0) == pytest.approx(2.0)


def test_quantiles_invert_their_tails():
    t = exact.mmc_wait_quantile(3, 2.4, 0.99)

    assert exact.erlang_c(3, 2.4) * math.exp(-0.6 * t) == pytest.approx(0.01)
    assert exact.mmc_wait_quantile(3, 2.4, 0.1) == 0
    assert exact.mm1_response_quantile(0.5, 0.5) == pytest.approx(2 * math.log(2))


QUEUES = [
    ("random", {}),
    ("round-robin", {}),
    ("jsq", {}),
    ("jsq-d", {"d": 2, "replacement": True}),
    ("jsq-d", {"d": 2}),
    ("jiq", {}),
    ("jbt", {"r": 2}),
    ("threshold", {"level": 1, "step": 2}),
]


@pytest.mark.parametrize(("policy", "params"), QUEUES)
@pytest.mark.parametrize("servers", [2, 3])
def test_queues_are_busy_as_often_as_work_arrives(policy, params, servers):
    # The longest tail is .6^i, so .6^30 = 2e-7 of it lies beyond a cap of 30. Round robin
    # keeps its servers in order, and has six times the states.
    cap = 55 if servers == 2 else 14 if policy == "round-robin" else 30
    solved = chain(policy, servers, 0.6 * servers, cap=cap, **params)

    if cap == 14:
        assert solved.occupancy[0] == pytest.approx(0.6 * (1 - solved.edge), rel=1e-9)
        return
    assert solved.edge < (1e-11 if servers == 2 else 1e-6)
    assert solved.occupancy[0] == pytest.approx(0.6, abs=1e-6)
    assert solved.occupancy.sum() == pytest.approx(solved.mean_tasks)
    assert solved.mean_wait == pytest.approx(solved.mean_tasks / 0.6 - 1, abs=1e-5)


def test_random_queues_are_geometric():
    solved = chain("random", 2, 1.2, cap=60)

    assert solved.occupancy[:20] == pytest.approx(0.6 ** np.arange(1, 21), abs=1e-11)


def test_round_robin_over_two_servers_sees_erlang_arrivals():
    solved = chain("round-robin", 2, 1.4, cap=80)

    assert solved.mean_wait == pytest.approx(exact.round_robin_wait(2, 0.7), abs=1e-9)


def test_probing_all_servers_is_joining_the_shortest():
    shortest = chain("jsq", 3, 2.1, cap=30)
    probing = chain("jsq-d", 3, 2.1, cap=30, d=3)

    assert probing.mean_wait == pytest.approx(shortest.mean_wait, rel=1e-9)
    assert probing.messages["probe"] == pytest.approx(6)
    assert shortest.messages["leave"] == pytest.approx(1)


def test_a_threshold_at_the_extremes_is_joining_below_or_the_idle():
    """l = 0 with step r knows who has fewer than r tasks, as jbt(r) does, and pays alike."""
    by_threshold = chain("threshold", 2, 1.4, cap=55, level=0, step=2)
    by_jbt = chain("jbt", 2, 1.4, cap=55, r=2)

    assert by_threshold.mean_wait == pytest.approx(by_jbt.mean_wait, rel=1e-9)
    assert by_threshold.messages == pytest.approx(by_jbt.messages, rel=1e-9)


@pytest.mark.parametrize(
    ("policy", "params"),
    [
        ("random", {}),
        ("jsq", {}),
        ("threshold", {"level": 2}),
        ("threshold", {"level": 1, "step": 3}),
        ("learning-threshold", {"alpha": 0.6}),
        ("learning-threshold", {"alpha": 0.6, "rule": "program"}),
    ],
)
def test_the_number_of_tasks_in_pools_is_poisson_under_every_policy(policy, params):
    solved = chain(policy, 2, 3.0, workers=POOLS, cap=18, **params)

    assert solved.edge < 1e-8
    for total in range(12):
        weight = solved.mean(lambda x: sum(x) == total)  # noqa: B023
        assert weight == pytest.approx(math.exp(-3) * 3**total / math.factorial(total), abs=1e-8)


def test_joining_the_shortest_pool_balances_best():
    of = {
        (name, *params.values()): chain(name, 3, 7.5, workers=POOLS, cap=24, **params).imbalance
        for name, params in [
            ("jsq", {}),
            ("jsq-d", {"d": 2}),
            ("threshold", {"level": 2}),
            ("random", {}),
        ]
    }

    assert min(of, key=of.get) == ("jsq",)
    assert max(of, key=of.get) == ("random",)


# --- Sparse feedback -----------------------------------------------------------------------------


def test_sparsified_jiq_lies_between_random_and_jiq():
    jiq = chain("jiq", 2, 1.4, cap=60)

    assert sparsified(2, 0.7, 0.0, cap=60)[0] == pytest.approx(0.7 / 0.3, rel=1e-6)
    assert sparsified(2, 0.7, 1.0, cap=60) == pytest.approx(
        (jiq.mean_wait, jiq.messages["leave"]), rel=1e-6
    )


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("regular", [True, False])
def test_estimates_that_are_corrected_all_the_time_are_the_lengths(together, regular):
    jsq = chain("jsq", 2, 1.0, cap=40)
    known = [
        estimates(2, 0.5, together=together, regular=regular, delta=delta, cap=9)
        for delta in (10.0, 20.0)
    ]

    waits = np.array([each.mean_wait for each in known]) - jsq.mean_wait
    assert 0 < waits[1] < 0.6 * waits[0] < 0.05
    assert [each.updates for each in known] == pytest.approx([20.0, 40.0])


@pytest.mark.parametrize("counted", [True, False])
def test_one_queue_leaves_nothing_to_choose(counted):
    for regular in (True, False):
        known = estimates(
            1, 0.5, together=True, regular=regular, delta=1.0, counted=counted, cap=30
        )
        assert known.mean_wait == pytest.approx(1.0, rel=1e-4)


def test_a_synchronous_clock_that_is_slow_makes_round_robin_for_two():
    """Between updates estimates alternate; the ties that each pair begins with are tossed."""
    slow = [
        estimates(2, 0.3, together=True, regular=False, delta=d, cap=11).mean_wait
        for d in (0.4, 0.2)
    ]
    random = 0.3 / 0.7

    assert slow[0] < slow[1] < random
