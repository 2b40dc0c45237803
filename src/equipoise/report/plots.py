"""The page's figures for notebooks and papers, and three more, drawn with matplotlib.

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
from equipoise.report.palette import LOOKS, Look, level_colours, looks
from equipoise.report.results import METRICS, held
from equipoise.stats import quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equipoise.report.results import Comparison, PolicyResult

KINDS = ("distribution", "path", "cost", "threshold", "occupancy", "lengths", "quantiles")
MOST_LEVELS = 8  # told apart in one picture
FEW_BEYOND = 20  # tasks beyond a quantile that is drawn: fewer say little about it


def plot(comparison: Comparison, kind: str = "distribution") -> Figure:
    """Return a matplotlib figure of one of `KINDS`; `Comparison.plot` says what each shows.

    Raises
    ------
    EquipoiseError
        If there is no such kind, or the comparison has nothing to draw in it.
    """
    draw = {
        "distribution": _distribution,
        "path": _path,
        "cost": _cost,
        "threshold": _threshold,
        "occupancy": _occupancy,
        "lengths": _lengths,
        "quantiles": _quantiles,
    }
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


def _hide(grid: np.ndarray, used: int) -> None:
    """Hide the panels behind the first `used`; those above them take over their labels."""
    for axes in grid.flat[used:]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, used - grid.shape[1]) : used]:
        axes.tick_params(labelbottom=True)


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
    _hide(grid, len(drawn))
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
    axes.legend(framealpha=1, edgecolor="none")  # white behind it: one entry is the filled area
    return figure


def _occupancy(c: Comparison) -> Figure:
    """Over time, the fraction of servers with at least i tasks, for the levels i that tell."""
    drawn = [
        (p, p.path.cells, p.path.occupancy)
        for p in c.stable
        if p.path is not None and p.path.cells is not None and p.path.occupancy is not None
    ]
    levels = telling_levels([occupancy for _, _, occupancy in drawn])
    if not levels:
        raise _nothing("no policy has its occupancy over time")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    across = min(4, len(drawn))
    down = math.ceil(len(drawn) / across)
    figure = Figure(figsize=(2.4 * across + 1.6, 1.9 * down + 0.7), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    colours = level_colours(len(levels))
    styles = _look(c)
    end = max(float(cells[-1]) for _, cells, _ in drawn)
    unit, second = time_axis(end)
    _hide(grid, len(drawn))
    for axes, (p, cells, occupancy) in zip(grid.flat, drawn, strict=False):
        _plain(axes)
        for i, colour in zip(levels, colours, strict=True):
            at_least = occupancy[:, i - 1] if i <= occupancy.shape[1] else np.zeros(len(occupancy))
            axes.stairs(at_least, cells / second, fill=True, color=colour)
        axes.set_title(table.short_name(c, p), loc="left", fontsize=10, color=styles[p.label].words)
    axes = grid.flat[0]
    axes.set(xlim=(0, end / second), ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.set_xticks(time_ticks(end, second, 4))
    figure.supxlabel(f"time ({unit})", fontsize=10)
    figure.supylabel("servers with at least so many tasks", fontsize=10)
    handles = [Patch(color=colour, label=str(i)) for i, colour in zip(levels, colours, strict=True)]
    figure.legend(handles=handles[::-1], title="tasks", loc="outside right upper", frameon=False)
    return figure


def telling_levels(occupancy: list[np.ndarray]) -> list[int]:
    """Return the levels to draw, ascending, at most `MOST_LEVELS`.

    `occupancy`: float64[C, L] each, entry (c, i) being the fraction with at least i + 1 tasks. A
    level tells if it is neither full nor empty all the time, by half a per cent; if there are too
    many, those are taken whose mean fractions are most evenly spread, and some between them.
    """
    if not occupancy:
        return []
    highest = max(table.shape[1] for table in occupancy)
    padded = [np.pad(table, ((0, 0), (0, highest - table.shape[1]))) for table in occupancy]
    least, mean, most = (
        np.array([f(table, axis=0) for table in padded]) for f in (np.min, np.mean, np.max)
    )
    tells = np.flatnonzero((most.max(axis=0) > 0.005) & (least.min(axis=0) < 0.995))
    if tells.size > MOST_LEVELS:
        fractions = mean.mean(axis=0)[tells]  # falling from level to level
        wanted = np.linspace(fractions[0], fractions[-1], MOST_LEVELS)
        taken = np.unique(np.abs(fractions[None, :] - wanted[:, None]).argmin(axis=1))
        while taken.size < MOST_LEVELS:  # where the next is relatively farthest
            i = int(np.argmax(np.log((taken[1:] + 1) / (taken[:-1] + 2))))
            taken = np.insert(taken, i + 1, round(math.sqrt((taken[i] + 2) * taken[i + 1])))
        tells = tells[taken]
    return [int(i) + 1 for i in tells]


def _lengths(c: Comparison) -> Figure:
    """The fraction of servers with exactly i tasks, over time, where one in a thousand has."""
    drawn = [p for p in c.stable if np.asarray(p.occupancy).size]
    if not drawn:
        raise _nothing("no policy has an occupancy")
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure()
    styles = _look(c)
    low, high = math.inf, 0
    for p in drawn:
        at_least = np.concatenate(([1.0], p.occupancy, [0.0]))
        exactly = at_least[:-1] - at_least[1:]
        seen = np.flatnonzero(exactly > 1e-3)
        low, high = min(low, int(seen[0])), max(high, int(seen[-1]))
        look = styles[p.label]
        axes.plot(
            np.arange(exactly.size),
            exactly,
            marker=look.marker,
            markersize=4,
            label=p.label,
            **_style(look, 1.5),
        )
    axes.set_xlim(low - 0.5, high + 0.5)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.set_xlabel("tasks at a server")
    axes.set_ylabel("servers, over time")
    axes.legend(frameon=False)
    return figure


def _quantiles(c: Comparison) -> Figure:
    """The response time against the fraction that takes no longer, in nines; marks have errors."""
    drawn = [(p, *p.distribution["response"]) for p in c.stable if "response" in p.distribution]
    if not drawn:
        raise _nothing("no policy has the response times of single tasks")
    figure, axes = _figure()
    styles = _look(c)
    far = max(1 - FEW_BEYOND / max(float(counts.sum()), 2 * FEW_BEYOND) for _, _, counts in drawn)
    for p, edges, counts in drawn:
        look = styles[p.label]
        most = 1 - FEW_BEYOND / max(float(counts.sum()), 2 * FEW_BEYOND)
        at = 1 - np.geomspace(0.9, 1 - most, 200)
        values = np.array([quantile(counts, edges, float(q)) for q in at])
        axes.plot(-np.log10(1 - at), values, label=p.label, **_style(look))
        for q, name in ((0.5, "p50_response"), (0.99, "p99_response")):
            if name in p.metrics and q <= most:
                e = p.metrics[name]
                axes.errorbar(
                    -math.log10(1 - q), e.value, yerr=np.nan_to_num(e.error),
                    fmt=look.marker, color=look.light, markersize=6, capsize=3,
                )  # fmt: skip
    ticks = [q for q in (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999) if q <= far]
    axes.set_xticks([-math.log10(1 - q) for q in ticks], [f"{100 * q:.6g} %" for q in ticks])
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.set_xlabel("share of tasks that take no longer")
    axes.set_ylabel("response time (s)")
    axes.legend(frameon=False)
    return figure
