"""Figures with matplotlib: what is drawn is what was measured."""

import io
from dataclasses import replace

import numpy as np
import pytest

from equipoise import EquipoiseError, Scenario, compare
from equipoise.report.palette import LEVELS, level_colours
from equipoise.report.plots import KINDS, MOST_LEVELS, telling_levels


@pytest.fixture(scope="module")
def queues():
    scenario = Scenario.simple(servers=20, load=0.9, tasks=20_000, replications=2)
    return compare(scenario, ["random", "jsq-d", "jsq"])


@pytest.fixture(scope="module")
def pools():
    scenario = Scenario.simple(
        servers=20, discipline="pool", load=5.5, duration=30.0, replications=2
    )
    return compare(scenario, ["threshold(level=5)", "learning-threshold(alpha=0.8)", "jsq"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_becomes_a_picture(pools, queues, kind):
    study = pools if kind == "threshold" else queues
    file = io.BytesIO()
    study.plot(kind).savefig(file, format="png", dpi=40)

    assert file.getvalue().startswith(b"\x89PNG")


def test_a_figure_that_is_not_there_is_told_with_those_that_are(pools, queues):
    with pytest.raises(EquipoiseError, match="the figures are: distribution, path, cost"):
        pools.plot("pie")
    with pytest.raises(EquipoiseError, match="nothing to draw: no policy here has a threshold"):
        queues.plot("threshold")
    with pytest.raises(EquipoiseError, match="nothing to draw: no policy has the response times"):
        pools.plot("quantiles")
    bare = replace(queues, policies=tuple(replace(p, path=None) for p in queues))
    with pytest.raises(EquipoiseError, match="nothing to draw: no policy has its occupancy"):
        bare.plot("occupancy")


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_lengths_are_fractions_of_servers(queues):
    """They add up to 1, to the mean weighted by length, and are load at 0 tasks: idle time."""
    (axes,) = queues.plot("lengths").axes

    for p in queues:
        data = lines(axes)[p.label]
        assert data[:, 1].sum() == pytest.approx(1.0)
        mean = p.metrics["mean_tasks"]
        assert data[:, 0] @ data[:, 1] == pytest.approx(
            mean.value, rel=1e-3
        )  # runs differ in length
        assert data[0, 1] == pytest.approx(0.1, abs=0.03)


def test_quantiles_go_through_the_estimates(queues):
    (axes,) = queues.plot("quantiles").axes

    for p in queues:
        data = lines(axes)[p.label]
        for share, metric in ((0.5, "p50_response"), (0.99, "p99_response")):
            at = np.interp(-np.log10(1 - share), data[:, 0], data[:, 1])
            assert at == pytest.approx(p.metrics[metric].value, rel=0.02)
        assert (np.diff(data[:, 1]) >= 0).all()


def test_occupancy_fills_one_step_for_each_level_and_cell(queues):
    figure = queues.plot("occupancy")

    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 3
    levels = telling_levels([p.path.occupancy for p in queues])
    for axes, p in zip(panels, queues, strict=True):
        assert len(axes.patches) == len(levels)
        values, edges, _ = axes.patches[0].get_data()
        np.testing.assert_allclose(values, p.path.occupancy[:, levels[0] - 1])
        assert edges.size == p.path.cells.size


def test_levels_that_say_nothing_are_not_drawn():
    always, never, half = np.ones(10), np.zeros(10), np.full(10, 0.5)

    assert telling_levels([np.column_stack((always, half, never))]) == [2]
    assert telling_levels([]) == []
    many = 0.9 ** np.arange(1, 100) * np.ones((10, 1))
    chosen = telling_levels([many])
    assert len(chosen) == MOST_LEVELS
    assert chosen == sorted(set(chosen))
    assert chosen[0] == 1


def test_levels_grow_darker():
    def light(colour):
        return sum(int(colour[i : i + 2], 16) * w for i, w in ((1, 0.21), (3, 0.72), (5, 0.07)))

    shades = [light(c) for c in level_colours(5)]
    assert shades == sorted(shades, reverse=True)
    assert level_colours(len(LEVELS)) == list(LEVELS)
    assert len(level_colours(1)) == 1
