"""Fluid limits: published trajectories, exact mass, bounds, rest points, and learning."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, PolicyError
from equipoise.theory.pools import fluid, kernel
from equipoise.theory.pools.offered_load import Coxian, Curve, Piecewise, Sinusoid, offered_load
from equipoise.theory.pools.states import balanced, distance, mean_tasks, shares_of
from equipoise.theory.pools.stationary import cut_poisson, jsq_d_rest, rest_point

TRAJECTORIES = [  # start, load, level, time, q(1)...q(7)
    ("empty", 2.5, 2, 0.5, "0.6830495 0.3006239 0 0 0 0 0"),
    ("empty", 2.5, 2, 1, "0.9246243 0.6556771 0 0 0 0 0"),
    ("empty", 2.5, 2, 2, "1 1 0.1616618 0 0 0 0"),
    ("empty", 2.5, 2, 5, "1 1 0.4831551 0 0 0 0"),
    ("empty", 2.5, 4, 0.5, "0.6280567 0.2601771 0.0780987 0.0173408 0 0 0"),
    ("empty", 2.5, 4, 1, "0.8041141 0.4840411 0.2206407 0.0715055 0 0 0"),
    ("empty", 2.5, 4, 2, "0.9089134 0.6847094 0.4043729 0.1636661 0 0 0"),
    ("empty", 2.5, 4, 5, "0.9488277 0.7840393 0.5182927 0.2319954 0 0 0"),
    ("empty", 2.5, 1, 0.5, "0.9836734 0 0 0 0 0 0"),
    ("empty", 2.5, 1, 1, "1 0.5803014 0 0 0 0 0"),
    ("empty", 2.5, 1, 2, "1 1 0.1472127 0.0135122 0.0008895 0.0000454 0.0000019"),
    ("empty", 2.5, 1, 5, "1 1 0.3564428 0.0991293 0.0224735 0.0042879 0.0007051"),
    (6, 2.5, 2, 0.5, "1 1 1 0.7597421 0.4930278 0.2459609 0.0913240"),
    (6, 2.5, 2, 1, "1 1 1 0.4655601 0.2092411 0.0796381 0.0249466"),
    (6, 2.5, 2, 2, "1 1 0.9200081 0.0443656 0.0078887 0.0012305 0.0001610"),
    (6, 2.5, 2, 5, "1 1 0.5235823 0.0000005 0 0 0"),
    (6, 2.5, 8, 1, "0.9873298 0.9225336 0.7696737 0.5478196 0.3245561 0.1578311 0.0612459"),
    (6, 2.5, 8, 5, "0.9204519 0.7189490 0.4637635 0.2483451 0.1119824 0.0429447 0.0138305"),
    ("empty", 5.5, 5, 1, "0.9816118 0.9075123 0.7560832 0.5415533 0.2899024 0 0"),
    ("empty", 5.5, 5, 2, "0.9999600 0.9993617 0.9943993 0.9634307 0.7985043 0 0"),
    ("empty", 5.5, 5, 5, "1 1 1 1 1 0.4629413 0"),
]
STEP_2 = [  # empty, load 5.5, level 4, step 2
    (0.5, "0.901615 0.673127 0.405438 0.183901"),
    (1, "0.994997 0.966345 0.875665 0.639656"),
    (2, "1 1 1 1 0.547163 0.208493"),
    (5, "1 1 1 1 0.877769 0.585172"),
]


def numbers(text):
    return [float(word) for word in text.split()]


@pytest.mark.parametrize(("start", "load", "level", "time", "q"), TRAJECTORIES)
def test_trajectories_are_the_known_ones(start, load, level, time, q):
    path = fluid.threshold(load, [time], level, start=start)

    assert path.occupancy[0, 1:8] == pytest.approx(numbers(q), abs=2e-6)
    assert path.error < 2e-6


@pytest.mark.parametrize(("time", "q"), STEP_2)
def test_trajectories_with_step_2_are_the_known_ones(time, q):
    path = fluid.threshold(5.5, [time], 4, 2)
    known = numbers(q)

    assert path.occupancy[0, 1 : len(known) + 1] == pytest.approx(known, abs=2.5e-6)


def test_the_first_levels_fill_as_they_must():
    """From empty, l = 2: all mass is below 3 until log(lam / (lam - 2)), then 3 takes the rest."""
    times = np.array([0.3, 1.0, math.log(5), 2.0, 4.0])
    q = fluid.threshold(2.5, times, 2).occupancy
    mass = 2.5 * (1 - np.exp(-times))

    assert q[:, 1] + q[:, 2] == pytest.approx(np.minimum(mass, 2), abs=1e-6)
    assert q[3:, 3] == pytest.approx(mass[3:] - 2, abs=1e-9)
    assert q[:3, 3] == pytest.approx(0, abs=1e-9)


@settings(max_examples=20)
@given(
    load=st.floats(0.3, 8),
    level=st.integers(0, 10),
    step=st.integers(1, 3),
    start=st.integers(0, 9),
    end=st.floats(0.5, 5),
)
def test_mass_is_exact_and_tails_stay_below_their_bounds(load, level, step, start, end):
    times, h = np.array([0.3, 0.7, 1.0]) * end, level + step
    path = fluid.threshold(load, times, level, step, start)
    q, fade = path.occupancy, np.exp(-times)

    assert path.tasks == pytest.approx(load + (start - load) * fade, abs=1e-10)
    for j, rest in ((h + 1, max(load - h, 0)), (level + 1, max(load - level, 0))):
        tail, first = q[:, j:].sum(axis=1), max(start - j + 1, 0)
        assert (tail <= rest + (first - rest) * fade + 1e-10 + path.error).all()


@settings(max_examples=25)
@given(
    load=st.floats(0.3, 8),
    level=st.integers(0, 10),
    step=st.integers(1, 3),
    start=st.sampled_from(["empty", 3, 7.4, {0: 0.5, 8: 0.5}]),
)
def test_it_comes_to_rest_where_the_stationary_law_says(load, level, step, start):
    path = fluid.threshold(load, [60.0], level, step, start, dt=0.02)
    rest = rest_point(load, level, step).occupancy
    q = path.occupancy[0]
    shared = min(len(q), len(rest))

    assert q[:shared] == pytest.approx(rest[:shared], abs=1e-6 + 2 * path.error)


@pytest.mark.parametrize("dt", [0.016, 0.008, 0.004])
def test_the_stated_error_covers_the_error_and_falls_with_the_square_of_the_step(dt):
    fine = fluid.threshold(5.5, [2.0], 5, dt=5e-4).occupancy
    coarse = fluid.threshold(5.5, [2.0], 5, dt=dt)
    half = fluid.threshold(5.5, [2.0], 5, dt=dt / 2)

    assert np.abs(coarse.occupancy - fine).max() <= coarse.error
    assert coarse.error / half.error == pytest.approx(4, rel=0.1)


def test_a_rate_that_varies_brings_the_offered_load_at_every_moment():
    times = np.linspace(0.5, 12, 24)
    for rate in (Sinusoid(4.5, 1.0, 3.0), Piecewise([0, 3.1, 7, 20], [2.0, 6.5, 1.0])):
        path = fluid.threshold(rate, times, 4, start=2)

        expected = offered_load(rate, times) + 2 * np.exp(-times)
        assert path.tasks == pytest.approx(expected, abs=1e-9)
        assert path.offered == pytest.approx(expected, abs=1e-9)


def test_the_start_is_returned_at_time_0():
    path = fluid.threshold(2.5, [0.0, 1.0], 2, start={1: 0.25, 6: 0.75})

    assert path.occupancy[0, :8] == pytest.approx([1, 1, 0.75, 0.75, 0.75, 0.75, 0.75, 0])


# -- service in phases -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "load", "level", "step"),
    [
        (Coxian((3.0, 1.5), (1.0,)), 0.9, 0, 2),
        pytest.param(Coxian((2.0, 0.5), (0.25,)), 2.5, 1, 2, marks=pytest.mark.slow),
        pytest.param(Coxian((4.0, 0.4), (0.3,)), 1.9, 3, 1, marks=pytest.mark.slow),
        pytest.param(Coxian((3.0, 1.5), (1.0,)), 2.6, 0, 1, marks=pytest.mark.slow),
    ],
)
def test_the_law_at_rest_depends_on_service_only_by_its_mean(service, load, level, step):
    """Right, too high and too low thresholds; the last is Erlang-like."""
    end = 14.0 if load < 1 else 40.0
    path = fluid.threshold(load / service.mean, [end], level, step, service=service, dt=0.02)
    known = rest_point(load, level, step).shares[:9]

    assert path.tasks[0] == pytest.approx(load, abs=2e-3)
    assert shares_of(path.occupancy)[0, : len(known)] == pytest.approx(known, abs=6e-4)


def test_two_equal_phases_of_one_are_exponential():
    """Phase 2 never comes (p = 0), so nothing but the number of rows differs."""
    times = [0.5, 2.0]
    path = fluid.threshold(2.5, times, 2, service=Coxian((1.0, 7.0), (0.0,)))
    other = fluid.threshold(2.5, times, 2)

    assert path.occupancy == pytest.approx(other.occupancy, abs=1e-6)


def test_tasks_in_phases_come_to_the_offered_load():
    service, times = Coxian((2.0, 0.5), (0.25,)), np.array([0.5, 1.5, 4.0])
    path = fluid.jsq(2.2, times, service=service, dt=0.01)

    assert path.tasks == pytest.approx(offered_load(2.2, times, service), abs=1e-4)
    assert path.tasks == pytest.approx(path.offered, abs=1e-4)


def test_too_many_phases_are_refused_with_what_is_possible():
    with pytest.raises(EquipoiseError) as caught:
        fluid.threshold(5.5, [1.0], 5, service=Coxian((1.0,) * 4, (0.5,) * 3))

    assert "4 phases of service and up to" in str(caught.value)
    assert "at most 15 tasks can be followed" in str(caught.value)


# -- jsq, jsq-d -------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["empty", 9, {0: 0.5, 11: 0.5}])
@pytest.mark.parametrize("load", [0.6, 2.5, 5.0])
def test_jsq_comes_to_the_balanced_state(load, start):
    path = fluid.jsq(load, [40.0], start)

    assert distance(path.occupancy, load)[0] <= 1e-6
    assert path.levels is None


def test_jsq_from_empty_is_balanced_at_all_times():
    times = np.linspace(0.1, 6, 30)
    path = fluid.jsq(3.7, times)

    for q, u in zip(path.occupancy, 3.7 * (1 - np.exp(-times)), strict=True):
        assert q == pytest.approx(balanced(u, len(q)), abs=1e-9)


def test_jsq_leaves_the_crowded_alone_while_others_have_room():
    """Half start with 9, half with none: 9 is pure death, and the rest fill level by level."""
    t = 0.3
    path = fluid.jsq(2.0, [t], start={0: 0.5, 9: 0.5})
    filled = 2 * (1 - math.exp(-t))

    assert path.occupancy[0, 9] == pytest.approx(0.5 * math.exp(-9 * t), abs=1e-6)
    assert path.occupancy[0, 1] == pytest.approx(1.0, abs=1e-2)
    assert path.occupancy[0, 1:3].sum() == pytest.approx(1 + filled, abs=5e-3)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_jsq_d_comes_to_its_rest_point(d):
    for start in ("empty", 9):
        path = fluid.jsq_d(3.3, [1.0, 45.0], d, start)
        known = jsq_d_rest(3.3, d)
        size = min(len(known), path.occupancy.shape[1])

        assert path.tasks == pytest.approx(path.offered, abs=1e-8)
        assert path.occupancy[1, :size] == pytest.approx(known[:size], abs=1e-8)


def test_random_sending_from_empty_is_poisson_at_all_times():
    path = fluid.jsq_d(4.0, [0.7], 1)
    known = cut_poisson(4 * (1 - math.exp(-0.7)), 0)[1]

    assert shares_of(path.occupancy)[0, :20] == pytest.approx(known[:20], abs=1e-8)


def test_jsq_d_follows_a_rate_that_jumps():
    rate, times = Piecewise([0, 1, 9], [6.0, 1.0]), np.array([0.5, 1.0, 3.0])
    path = fluid.jsq_d(rate, times, 2)

    assert path.tasks == pytest.approx(offered_load(rate, times), abs=1e-7)


# -- the threshold that learns -----------------------------------------------------------------

LAST_CHANGE = [  # load, alpha, start, level, when, to within
    (5.5, 0.925, "empty", 0, math.log(11), 1e-3),
    (5.5, 0.925, 9, 9, 2.097, 2e-3),
    (2.4, 0.9, "empty", 0, math.log(6), 1e-3),
    (2.4, 0.9, 9, 9, 2.513, 2e-3),
    (2.5, 10 / 11, "empty", 0, math.log(5), 1e-3),
    (2.5, 10 / 11, 9, 9, 2.707, 2e-3),
]


@pytest.mark.parametrize(("load", "alpha", "start", "level", "when", "within"), LAST_CHANGE)
def test_the_threshold_is_right_for_good_at_the_known_time(load, alpha, start, level, when, within):
    path = fluid.learning(load, [12.0], alpha, level=level, start=start)

    assert path.levels[-1] == math.floor(load)
    assert path.last_change == pytest.approx(when, abs=within)
    assert abs(path.last_change - when) <= 2 * path.time_error + within
    assert distance(path.occupancy, load)[0] <= 1e-4


def test_from_empty_it_passes_every_level_at_the_time_its_mass_does():
    path = fluid.learning(5.5, [6.0], 0.925)
    known = [math.log(5.5 / (5.5 - k)) for k in range(1, 6)]

    assert [change.level for change in path.changes] == [1, 2, 3, 4, 5]
    assert [change.time for change in path.changes] == pytest.approx(known, abs=1e-3)
    assert [change.answers for change in path.changes] == pytest.approx([1] * 5)


def test_from_above_it_passes_every_level_at_the_known_times():
    path = fluid.learning(5.5, [6.0], 0.925, level=9, start=9)

    assert [change.level for change in path.changes] == [8, 7, 6, 5]
    assert [change.time for change in path.changes] == pytest.approx(
        [0.024, 0.318, 0.854, 2.097], abs=2e-3
    )
    assert [change.answers for change in path.changes] == pytest.approx([0.075] * 4, abs=2e-3)


@pytest.mark.parametrize("load", [2.4, 5.5])
def test_from_empty_the_mass_says_when_with_any_step_and_service(load):
    path = fluid.learning(load, [9.0], 0.925, step=2)
    known = [math.log(load / (load - k)) for k in range(2, math.ceil(load), 2)]

    assert [change.time for change in path.changes] == pytest.approx(known, abs=1e-3)


@pytest.mark.parametrize("step", [1, 2])
def test_a_small_load_is_learnt_down_to_threshold_0(step):
    path = fluid.learning(0.4, [12.0], 0.9, step, level=2 * step, start=2.0 * step)

    assert [change.level for change in path.changes] == [step, 0]
    assert path.occupancy[0, 1] == pytest.approx(rest_point(0.4, 0, step).occupancy[1], abs=1e-4)


def test_where_it_settles_depends_on_where_it_comes_from():
    """Load 5.9, alpha 0.8: l = 6 is kept by q(6) = .90758 >= .8, l = 5 too."""
    low = fluid.learning(5.9, [30.0], 0.8)
    high = fluid.learning(5.9, [30.0], 0.8, level=9, start=9)

    assert (low.levels[-1], high.levels[-1]) == (5, 6)
    assert low.occupancy[0, 6] == pytest.approx(0.9, abs=1e-6)
    assert high.occupancy[0, 4:7] == pytest.approx([0.99956, 0.99288, 0.90758], abs=1e-5)


def test_what_is_wrong_at_the_start_is_changed_at_once():
    crowded = fluid.learning(5.5, [0.0], 0.925, level=0, start=9)
    empty = fluid.learning(5.5, [0.0], 0.925, level=7)

    assert crowded.levels.tolist() == [9]
    assert empty.levels.tolist() == [0]
    assert {change.time for change in crowded.changes + empty.changes} == {0.0}


@pytest.mark.parametrize("rule", ["tokens", "total"])
@pytest.mark.parametrize(
    ("rate", "step", "alpha", "level", "last"),
    [
        (Sinusoid(4.5, 1.0, 3.0), 1, 0.98, 4, 2.38),
        (Sinusoid(5.0, 1.2, 2.0), 2, 0.95, 4, 1.11),
    ],
)
def test_a_load_that_stays_between_two_multiples_is_learnt(rule, rate, step, alpha, level, last):
    """rho stays in [4.18, 4.82] and [4.46, 5.54]; simulated runs of 4000 pools changed last at
    `last`, when rho first reaches 4."""
    times = np.linspace(0.25, 30, 120)
    path = fluid.learning(rate, times, alpha, step, rule=rule)
    late = times > 10
    high = path.occupancy[late, level + step + 1]

    assert set(path.levels[times > last + 0.1]) == {level}
    assert path.last_change == pytest.approx(last, abs=0.15)
    assert path.occupancy[late, level].min() >= 1 - 1e-9
    assert high.max() <= 1e-4


def test_the_published_time_varying_run_is_followed():
    """The authors' rate rises to 6.7 and falls to 3; alpha for loads up to 10."""

    def lam(t):
        return np.select(
            [t < 2, t < 15, t < 20, t < 30, t < 33],
            [1.2 * t, 2.4 + 0.3 * np.sin(2 * np.pi * t), 2.4 + 0.172 * (t - 15) ** 2,
             np.full(np.shape(t), 6.7), 6.7 - 3.7 / 9 * (t - 30) ** 2],
            3 + 0.3 * np.sin(2 * np.pi * (t - 3) / 10),
        )  # fmt: skip

    rate = Curve(lam, breaks=np.array([2, 15, 20, 30, 33.0]), panel=0.1)
    path = fluid.learning(rate, [14.0, 29.0, 44.0], 10 / 11)

    assert path.levels.tolist()[:2] == [2, 6]
    assert path.levels[2] in (2, 3)
    assert path.tasks == pytest.approx(path.offered, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("service", [Coxian((2.0, 0.5), (0.25,)), Coxian((4.0, 0.25), (0.1875,))])
def test_service_in_phases_is_learnt_too(service):
    path = fluid.learning(5.5, [40.0], 0.98, service=service, dt=0.02)

    assert path.levels.tolist() == [5]
    assert path.occupancy[0, 6] == pytest.approx(0.5, abs=3e-3)
    assert path.last_change <= 9.1 + 1


# -- the compiled step -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [kernel.THRESHOLD, kernel.TOKENS, kernel.TOTAL, kernel.JSQ])
def test_compiled_and_plain_steps_do_the_same(rule):
    cells = fluid._Cells(Coxian((2.0, 0.5), (0.25,)), 12)
    ends = []
    for advance in (kernel.advance, kernel.compiled()):
        x, record = cells.start(np.array([0.25, 0, 0.75])), np.empty((9, 3))
        end = advance(
            x, *cells.serving(0.05), np.full(40, 0.11), 0.05, 0.0, rule, 1, 1, 0.9, record, 0,
            *kernel.room(x),
        )  # fmt: skip
        ends.append((*end, x, record[: end[1]]))

    (level, count, x, record), (level2, count2, x2, record2) = ends
    assert (level, count) == (level2, count2)
    assert x2 == pytest.approx(x, abs=1e-14)
    assert record2 == pytest.approx(record, abs=1e-12)
    assert x.sum() == pytest.approx(1, abs=1e-12)


def test_many_tasks_at_once_are_poured_as_poisson():
    """Threshold 0 and step 1 with all at 1 and above: what is sent anywhere is Poisson."""
    x, weights = np.zeros((1, 60)), np.empty(60)
    x[0, 0] = 1.0
    kernel.pour(x, 59, 7.5, weights)

    assert x[0] == pytest.approx(cut_poisson(7.5, 0)[1][:60], abs=1e-12)


def test_time_to_pour_places_exactly_the_mass():
    x, shares, weights = np.zeros((1, 9)), np.empty(9), np.empty(9)
    x[0, :4] = [0.4, 0.3, 0.2, 0.1]
    before = np.arange(9) @ x[0]
    kernel.fill_to(x, 5, 3.99, shares, weights)

    assert np.arange(9) @ x[0] - before == pytest.approx(3.99, abs=1e-13)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: fluid.threshold(0, [1], 2),
         "load = 0 must be a number > 0, in tasks per pool; without tasks there is nothing to "
         "balance"),
        (lambda: fluid.threshold(2.5, [1, 1], 2), "times must ascend from 0 on"),
        (lambda: fluid.threshold(2.5, [1], -1), "level = -1 must be a whole number >= 0"),
        (lambda: fluid.threshold(2.5, [1], 2, 0), "step = 0 must be a whole number >= 1"),
        (lambda: fluid.threshold(2.5, [1], 2, dt=0),
         "dt = 0 must be a number > 0, in mean service times"),
        (lambda: fluid.jsq_d(2.5, [1], 0), "d = 0 must be a whole number >= 1"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(ask, said):
    with pytest.raises(EquipoiseError) as caught:
        ask()

    assert str(caught.value) == said


@pytest.mark.parametrize("alpha", [0, 1, 1.5])
def test_an_alpha_outside_its_range_is_refused(alpha):
    with pytest.raises(PolicyError, match="must be between 0 and 1, both excluded"):
        fluid.learning(2.5, [1], alpha)


def test_an_unknown_rule_is_refused():
    with pytest.raises(PolicyError) as caught:
        fluid.learning(2.5, [1], 0.9, rule="basic")

    assert str(caught.value) == "rule = 'basic' is unknown; the rules are: tokens, program, total"


def test_tasks_are_the_sum_of_the_occupancy():
    path = fluid.threshold(2.5, [1.0], 2)

    assert path.tasks == pytest.approx(mean_tasks(path.occupancy))
