"""Two methods for the same fluid limit, which share no step, agree; modes change when they must."""

import math

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.theory.pools import fluid
from equipoise.theory.pools.modes import threshold_by_modes
from equipoise.theory.pools.offered_load import Piecewise, Sinusoid

MANY = pytest.param(200, marks=pytest.mark.slow)


@pytest.mark.parametrize("cases", [12, MANY])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_both_methods_agree_on_random_cases(step, cases):
    """Loads 0.3 to 8, thresholds 0 to 10, all pools starting with 0 to 9 tasks, times 0.5 to 5."""
    random = np.random.default_rng(7 + step)
    for _ in range(cases):
        load, end = random.uniform(0.3, 8), random.uniform(0.5, 5)
        level, start = int(random.integers(0, 11)), int(random.integers(0, 10))
        case = f"load {load}, level {level}, start {start}, time {end}"
        split = fluid.threshold(load, [end], level, step, start)
        modes, _ = threshold_by_modes(load, [end], level, step, start)
        mass = load + (start - load) * math.exp(-end)

        assert np.abs(split.occupancy - modes.occupancy).max() <= 1e-5, case
        assert np.abs(split.occupancy - modes.occupancy).max() <= split.error + modes.error, case
        assert split.tasks[0] == pytest.approx(mass, abs=1e-10), case
        assert modes.tasks[0] == pytest.approx(mass, abs=1e-7), case
        for j, rest in ((level + step + 1, max(load - level - step, 0)),
                        (level + 1, max(load - level, 0))):  # fmt: skip
            bound = rest + (max(start - j + 1, 0) - rest) * math.exp(-end)
            assert split.occupancy[0, j:].sum() <= bound + 1e-10 + split.error, case
            assert modes.occupancy[0, j:].sum() <= bound + 1e-7, case


@pytest.mark.parametrize(
    ("load", "level", "start", "modes"),
    [
        (2.5, 1, "empty", [("A", 0), ("B", 0.510826), ("C", 1.609438)]),
        (2.5, 2, 6, [("C", 0), ("B", 1.577492)]),
        (2.5, 2, "empty", [("A", 0), ("B", math.log(5))]),
        (5.5, 5, "empty", [("A", 0), ("B", math.log(11))]),
        (2.5, 4, "empty", [("A", 0)]),
    ],
)
def test_modes_are_entered_at_the_known_times(load, level, start, modes):
    _, entered = threshold_by_modes(load, [5.0], level, start=start)

    assert [mode for _, mode in entered] == [mode for mode, _ in modes]
    assert [time for time, _ in entered] == pytest.approx([t for _, t in modes], abs=1e-6)


@pytest.mark.parametrize(
    "rate", [Sinusoid(3.0, 2.0, 2.0), Piecewise([0, 1.3, 2.2, 9], [6.0, 0.5, 4.0])]
)
@pytest.mark.parametrize("step", [1, 2])
def test_they_agree_when_the_rate_varies(rate, step):
    times = np.linspace(0.4, 5, 8)
    split = fluid.threshold(rate, times, 2, step)
    modes, entered = threshold_by_modes(rate, times, 2, step)

    assert len(entered) >= 3
    assert np.abs(split.occupancy - modes.occupancy).max() <= 1e-5


def test_they_agree_from_mixed_starts():
    for start in ({0: 0.3, 3: 0.3, 7: 0.4}, 2.5, [0.1, 0.0, 0.9]):
        split = fluid.threshold(2.5, [0.3, 1.0, 3.0], 2, 2, start)
        modes, _ = threshold_by_modes(2.5, [0.3, 1.0, 3.0], 2, 2, start)

        assert np.abs(split.occupancy - modes.occupancy).max() <= 1e-5


def test_the_start_is_returned_at_time_0():
    path, _ = threshold_by_modes(2.5, [0.0, 1.0], 2, start=4)

    assert path.occupancy[0, :6].tolist() == [1, 1, 1, 1, 1, 0]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(EquipoiseError, match="step = 0 must be a whole number >= 1"):
        threshold_by_modes(2.5, [1.0], 2, 0)
