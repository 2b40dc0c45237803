"""The usual policies: known waits, and laws that agree with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.sparse import baselines, sparsified_jiq

DIGIT = 1.0001e-8  # one unit of the last digit

# load: random, jsq-d of 2, 3, 5; round robin over a fleet without end, 10 and 100 servers
WAITS = {
    0.5: (1, 0.26568604, 0.12524414, 0.03125000, 0.25500097, 0.32464240, 0.26185976),
    0.7: (
        2.33333333,
        0.61445377,
        0.35684220,
        0.16809254,
        0.87616001,
        1.01980435,
        0.89048137,
    ),
    0.9: (9, 1.61405738, 1.02785597, 0.63288124, 4.17865942, 4.66027639, 4.22681074),
    0.95: (19, 2.38304600, 1.53513348, 0.98877220, 9.17243395, 10.15494844, 9.27068057),
}


@pytest.mark.parametrize("load", WAITS)
def test_waits_are_the_known_ones_to_the_last_digit(load):
    found = [
        baselines.random(load),
        *(baselines.jsq_d(load, d) for d in (2, 3, 5)),
        *(baselines.round_robin(load, n) for n in (None, 10, 100)),
    ]

    assert [x.mean_wait for x in found] == pytest.approx(list(WAITS[load]), abs=DIGIT)
    assert [x.messages for x in found] == [0, 4, 6, 10, 0, 0, 0]


@pytest.mark.parametrize(
    ("load", "p", "ratio", "wait", "messages"),
    [
        (0.7, 0.5, 0.53846154, 1.16666667, 0.23076923),
        (0.7, 0.25, 0.63636364, 1.75, 0.09090909),
        (0.9, 0.5, 0.81818182, 4.5, 0.09090909),
        (0.9, 0.9, 0.47368421, 0.9, 0.47368421),
    ],
)
def test_sparsified_jiq_is_the_known_one_to_the_last_digit(load, p, ratio, wait, messages):
    found = sparsified_jiq(load, p)

    assert found.lengths[2] / found.lengths[1] == pytest.approx(ratio, abs=DIGIT)
    assert found.mean_wait == pytest.approx(wait, abs=DIGIT)
    assert found.messages == pytest.approx(messages, abs=DIGIT)


def test_sparsified_jiq_has_the_law_printed_in_the_literature():
    law = sparsified_jiq(0.7, 0.5).lengths[:5]

    assert law == pytest.approx([0.3, 0.3231, 0.1740, 0.0937, 0.0504], abs=5.1e-5)


@given(load=st.floats(0.05, 0.9), p=st.floats(0, 0.99))
def test_sparsified_jiq_is_at_rest(load, p):
    """Births at the rate that is left, deaths at 1; a server that tells is filled at once."""
    found = sparsified_jiq(load, p)
    ratio = found.lengths[2] / found.lengths[1]
    told = p * found.lengths[1]  # per server: from one task to none, and telling
    rate = load - told  # what is left for all servers alike

    assert ratio == pytest.approx(rate, abs=1e-12)  # births and deaths beyond one task
    # those who come to one task: from idle and silent ones; told ones never leave it
    assert found.lengths[0] * rate == pytest.approx((1 - p) * found.lengths[1], abs=1e-12)
    assert found.messages == pytest.approx(told / load, abs=1e-12)


@given(load=st.floats(0.02, 0.98), d=st.integers(1, 6), n=st.integers(1, 500), p=st.floats(0, 1))
def test_laws_are_laws_with_as_many_busy_as_there_is_load_and_the_mean_of_the_wait(load, d, n, p):
    for found in (
        baselines.random(load),
        baselines.round_robin(load),
        baselines.round_robin(load, n),
        baselines.jsq_d(load, d),
        baselines.jsq(load),
        baselines.jiq(load),
        sparsified_jiq(load, p),
    ):
        mean = found.lengths @ np.arange(found.lengths.size)

        assert found.lengths.sum() == pytest.approx(1, abs=1e-12)
        assert found.lengths[0] == pytest.approx(1 - load, abs=1e-15)
        assert mean == pytest.approx(found.mean_tasks, abs=1e-9)


def test_the_ends_are_known_policies():
    assert sparsified_jiq(0.7, 0).mean_wait == pytest.approx(baselines.random(0.7).mean_wait)
    assert sparsified_jiq(0.7, 1).mean_wait == baselines.jiq(0.7).mean_wait == 0
    assert sparsified_jiq(0.7, 1).messages == pytest.approx(baselines.jiq(0.7).messages) == 1
    assert baselines.jsq_d(0.7, 1).messages == 0
    assert baselines.round_robin(0.7, 1).mean_wait == pytest.approx(7 / 3, rel=1e-12)


@given(load=st.floats(0.02, 0.98), p=st.floats(0, 1))
def test_p_is_found_again_from_the_messages(load, p):
    assert baselines.sparsified_jiq_p(load, sparsified_jiq(load, p).messages) == pytest.approx(p)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "half"])
def test_p_outside_0_to_1_is_told(p):
    with pytest.raises(EquipoiseError, match="p = "):
        sparsified_jiq(0.5, p)


def test_other_nonsense_is_told():
    with pytest.raises(EquipoiseError, match="servers = 0 must be a whole number"):
        baselines.round_robin(0.5, 0)
    with pytest.raises(EquipoiseError, match=r"d = 1\.5 must be a whole number"):
        baselines.jsq_d(0.5, 1.5)
    for policy in (baselines.random, baselines.round_robin, baselines.jsq_d, baselines.jiq):
        with pytest.raises(UnstableError):
            policy(1.0)
        with pytest.raises(EquipoiseError, match="load = 0 "):
            policy(0)
