"""The page's figures for notebooks and papers, drawn with matplotlib.

Same data, same palette, dashes and markers as `figures.py`. Figures belong to no
backend and open no window; a notebook shows them, `figure.savefig` writes them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.errors import EquipoiseError
from equipoise.report import figures, table
from equipoise.report.axes import Scale, time_axis, time_ticks
from equipoise.report.palette import LOOKS, Look, looks
from equipoise.report.results import METRICS, held

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equipoise.report.results import Comparison, PolicyResult

KINDS = ("distribution", "path", "cost", "threshold")


def plot(comparison: Comparison, kind: str = "distribution") -> Figure:
    """Return a matplotlib figure of one `kind`: distribution, path, cost or threshold.

    Raises
    ------
    EquipoiseError
        If there is no such kind, or the comparison has nothing to draw in it.
    """
    draw = {"distribution": _distribution, "path": _path, "cost": _cost, "threshold": _threshold}
    if kind not in draw:
        raise EquipoiseError(f"no figure is called '{kind}'; the figures are: {', '.join(KINDS)}")
    return draw[kind](comparison)


def _look(c: Comparison) -> dict[str, Look]:
    return {p.label: LOOKS[i] for p, i in zip(c.policies, looks(c.policies), strict=True)}


def _style(look: Look, width: float = 1.8) -> dict[str, Any]:
    """Matplotlib's colour and dashes of a look; its dashes are in line widths, ours in px."""
    if not look.dash:
        return {"color": look.light, "linewidth": width}
    dashes = tuple(float(d) / 2 for d in look.dash.split())
    return {"color": look.light, "linewidth": width, "linestyle": (0, dashes)}


def _figure(width: float = 7.2, height: float = 4.2) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    _plain(axes)
    return figure, axes


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.grid(axis="y", color="#e4e1da", linewidth=0.8)
    axes.set_axisbelow(True)


def _nothing(what: str) -> EquipoiseError:
    return EquipoiseError(f"nothing to draw: {what}")


def _distribution(c: Comparison) -> Figure:
    tails = figures.tails(c)
    if not tails:
        raise _nothing("no policy has a distribution of neighbours or response times")
    figure, axes = _figure()
    styles = _look(c)
    pool = table.is_pool(c)
    for t in tails:
        seen = t.beyond > 0
        axes.plot(t.x[seen], t.beyond[seen], label=t.policy.label, **_style(styles[t.policy.label]))
    low, high = figures.tail_range(tails, pool)
    axes.set_yscale("log")
    axes.set_xscale("linear" if pool else "log")
    axes.set(xlim=(low, high), ylim=(figures.FLOOR, 1.2))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.minorticks_off()
    axes.set_xlabel("at least so many other tasks at the server" if pool else "response time (s)")
    axes.set_ylabel("share of tasks" if pool else "share of tasks that take longer")
    axes.legend(frameon=False)
    return figure


def _path(c: Comparison) -> Figure:
    drawn = [(p, p.path) for p in c.stable if p.path is not None and p.path.times.size > 1]
    if not drawn:
        raise _nothing("no policy has a path over time")
    from matplotlib.figure import Figure

    across = min(4, len(drawn))
    down = math.ceil(len(drawn) / across)
    figure = Figure(figsize=(2.4 * across + 0.6, 1.9 * down + 0.5), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    styles = _look(c)
    unit, second = time_axis(float(drawn[0][1].times[-1]))
    for axes in grid.flat[len(drawn) :]:
        axes.set_visible(False)
    for axes, (p, path) in zip(grid.flat, drawn, strict=False):
        _plain(axes)
        colour = styles[p.label].light
        at = path.times / second
        axes.fill_between(at, held(path.times, *c.offered), color="#ebe7de", linewidth=0)
        axes.fill_between(at, path.least, path.most, color=colour, alpha=0.3, linewidth=0)
        axes.plot(at, path.mean, color=colour, linewidth=1)
        axes.set_title(table.short_name(c, p), loc="left", fontsize=10, color=styles[p.label].words)
    # Only now: a limit set earlier would freeze the scale that all panels share.
    axes = grid.flat[0]
    high = max(float(np.max(path.most)) for _, path in drawn)
    if figures.far_apart([p for p, _ in drawn]):
        axes.set_yscale("function", functions=(np.log1p, np.expm1))
        axes.set_yticks(Scale(0, high, 0, 1, "root").ticks(5))
    axes.set_ylim(0, 1.04 * max(high, 1.0))
    axes.set_xticks(time_ticks(float(drawn[0][1].times[-1]), second, 4))
    figure.supxlabel(f"time ({unit})", fontsize=10)
    figure.supylabel("tasks at a server: mean, least to most", fontsize=10)
    return figure


def _cost(c: Comparison) -> Figure:
    drawn = [p for p in c.stable if "messages_per_task" in p.metrics and c.rank_by in p.metrics]
    if not drawn:
        raise _nothing(f"no policy has both messages_per_task and {c.rank_by}")
    figure, axes = _figure()
    styles = _look(c)
    unit = ""
    for p in drawn:
        messages, e = p.metrics["messages_per_task"], p.metrics[c.rank_by]
        value, error, unit = table.in_unit(c, c.rank_by, e.value, e.error)
        look = styles[p.label]
        axes.errorbar(
            messages.value,
            value,
            xerr=np.nan_to_num(messages.error),
            yerr=np.nan_to_num(error),
            fmt=look.marker,
            color=look.light,
            markersize=7,
            label=p.label,
        )
    axes.set_xlabel("messages per task")
    name = METRICS.get(c.rank_by, (c.rank_by, ""))[0]
    axes.set_ylabel(f"{name} ({unit})" if unit else name)
    axes.legend(frameon=False)
    return figure


def _threshold(c: Comparison) -> Figure:
    drawn: list[tuple[PolicyResult, np.ndarray, np.ndarray]] = [
        (p, p.path.times, p.path.threshold)
        for p in c.stable
        if p.path is not None and p.path.threshold is not None
    ]
    if not drawn:
        raise _nothing("no policy here has a threshold")
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure(height=3.4)
    styles = _look(c)
    times = drawn[0][1]
    unit, second = time_axis(float(times[-1]))
    axes.fill_between(
        times / second,
        held(times, *c.offered),
        color="#ebe7de",
        linewidth=0,
        label="offered load",
    )
    for p, at, threshold in drawn:
        axes.step(
            at / second, threshold, where="post", label=p.label, **_style(styles[p.label], 1.5)
        )
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("tasks per server")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xticks(time_ticks(float(times[-1]), second, 8))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure
