"""The picture of a limit: how pools get to rest and where; how long queues are.

Pools: on the left the fraction of pools with at least i tasks over time, a line for each i, with
the threshold as steps in a panel of its own; on the right the law of tasks at a pool, at rest, a
group of bars for each policy, with simulated points where there are any. Queues: the part of the
servers with at least i tasks, on a logarithmic axis. Colours after Okabe and Ito; each policy has
its own dash and marker too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .palette import LOOKS, Look, looks
from .pictures import INK, QUIET, RULE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .limit import LimitReport, PoolAnswer, QueueAnswer

LEAST = 1e-4  # of the servers: what is less is not drawn
MARKS = 12  # markers on a line


def draw(report: LimitReport) -> Figure:
    """Return the picture as a matplotlib figure, of no backend."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        return _pools(report) if report.pools else _queues(report)


def _looks(report: LimitReport) -> list[Look]:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    named: Any = [Named(answer.spec.policy.name) for answer in report.answers]
    return [LOOKS[i] for i in looks(named)]


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def _title(figure: Figure, title: str, under: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    inch = 1 / figure.get_figheight()
    figure.text(0.01, 1 - 0.42 * inch, under, fontsize=9.5, color=QUIET, va="top")


def _pools(report: LimitReport) -> Figure:
    from matplotlib.figure import Figure

    answers: list[Any] = list(report.answers)
    first: PoolAnswer = answers[0]
    t = first.theory
    figure = Figure(figsize=(10.5, 5.0))
    moving = t.path.levels is not None and len(t.path.changes) > 0
    bottom, top = 0.115, 0.84
    split = 0.27 if moving or report.load is None else 0.0
    over = figure.add_axes((0.065, bottom + split, 0.50, top - bottom - split))
    _trajectory(over, first)
    if split:
        below = figure.add_axes((0.065, bottom, 0.50, split - 0.06), sharex=over)
        over.tick_params(labelbottom=False)
        over.set_xlabel("")
        _threshold(below, first)
    right = figure.add_axes((0.645, bottom, 0.34, top - bottom))
    if report.load is not None:
        _at_rest(right, report, _looks(report))
    else:
        _imbalance(right, report, _looks(report))
    _title(figure, _finding(report), _about(report))
    return figure


def _about(report: LimitReport) -> str:
    from .table import plain

    n = report.scenario.servers.count
    offered = f"{plain(report.load)} tasks offered per server" if report.load else "a varying load"
    kind = "pools" if report.pools else "queues"
    return f"{n} {kind}, {offered}; lines are the limit of many servers"


def _finding(report: LimitReport) -> str:
    from .table import plain

    first: Any = report.answers[0]
    t = first.theory
    if report.load is None:
        return f"{first.label}: the threshold moves {len(t.path.changes)} times"
    if t.settled is not None:
        return (
            f"{first.label}: threshold {t.final_level} after {plain(t.settled, 3)} mean service "
            "times"
        )
    if t.level is not None and t.rest is not None:
        return f"{first.label}: {t.rest.regime} for this load"
    return f"{first.label}: how pools come to rest"


def _trajectory(axes: Axes, answer: PoolAnswer) -> None:
    """q(i) over time; the levels that are neither 0 nor 1 all along."""
    path = answer.theory.path
    q = path.occupancy[:, 1:]
    shown = [i for i in range(q.shape[1]) if q[:, i].max() > 0.01]
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.08, 0.88, max(2, len(shown))))
    for place, i in enumerate(shown):
        axes.plot(path.times, q[:, i], color=shades[place], linewidth=1.8)
    _name_lines(axes, path.times, q, shown, shades)
    axes.set_ylim(-0.02, 1.04)
    axes.set_xlim(float(path.times[0]), float(path.times[-1]))
    axes.set_ylabel("part of the pools with at least i tasks")
    axes.set_xlabel("mean service times")
    _plain(axes)


def _name_lines(axes: Axes, times: Any, q: Any, shown: list[int], shades: Any) -> None:
    """Write i in the middle of its line's way, where the last one leaves room."""
    span, last = float(times[-1] - times[0]), -np.inf
    for place, i in enumerate(shown):
        half = q[:, i].max() / 2
        at = int(np.argmax(q[:, i] >= half)) if q[0, i] < half else int(np.argmax(q[:, i] < half))
        if abs(times[at] - last) < 0.025 * span and place < len(shown) - 1:
            continue
        last = times[at]
        axes.annotate(
            str(i + 1), (times[at], q[at, i]), (0, 0),
            textcoords="offset points", fontsize=8, ha="center", va="center", color=INK,
            bbox={"facecolor": "white", "edgecolor": shades[place], "linewidth": 0.8, "pad": 1.0,
                  "boxstyle": "round,pad=0.15"},
        )  # fmt: skip


def _threshold(axes: Axes, answer: PoolAnswer) -> None:
    path = answer.theory.path
    axes.plot(path.times, path.offered, color=QUIET, linewidth=1.2, dashes=(4, 2))
    if path.levels is not None:
        axes.step(path.times, path.levels, where="post", color=LOOKS[0].light, linewidth=1.8)
    axes.set_ylabel("tasks")
    axes.set_xlabel("mean service times")
    top = max(float(path.offered.max()), 0 if path.levels is None else float(path.levels.max()))
    axes.set_ylim(-0.05 * top, 1.25 * top)
    axes.text(
        0.99, 0.04, "steps: threshold; dashed: tasks per pool", transform=axes.transAxes,
        fontsize=8, color=QUIET, ha="right", va="bottom",
    )  # fmt: skip
    _plain(axes)


def _at_rest(axes: Axes, report: LimitReport, shown: list[Look]) -> None:
    """Bars of the part of pools at each level, side by side; dots are simulated."""
    answers: list[Any] = list(report.answers)
    width = 0.8 / len(answers)
    span = [10**9, 0]
    for place, (answer, look) in enumerate(zip(answers, shown, strict=True)):
        q = answer.theory.occupancy
        x = q - np.append(q[1:], 0.0)
        seen = np.flatnonzero(x > 2e-3)
        span = [min(span[0], int(seen[0])), max(span[1], int(seen[-1]))]
        at = np.arange(x.size) + (place - (len(answers) - 1) / 2) * width
        axes.bar(at, x, 0.92 * width, color=look.light, label=answer.label)
        if answer.simulation is not None and not answer.simulation.policy.unstable:
            from .limit import _q

            found = _q(answer.simulation.policy.occupancy)
            y = found - np.append(found[1:], 0.0)
            axes.plot(
                np.arange(y.size) + (place - (len(answers) - 1) / 2) * width, y, "o",
                markersize=4, markerfacecolor="white", markeredgecolor=INK, zorder=4,
            )  # fmt: skip
    axes.set_xlim(span[0] - 0.7, span[1] + 0.7)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tasks at a pool, at rest")
    axes.set_ylabel("part of the pools")
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=9, loc="upper right")
    _plain(axes)


def _imbalance(axes: Axes, report: LimitReport, shown: list[Look]) -> None:
    answers: list[Any] = list(report.answers)
    for answer, look in zip(answers, shown, strict=True):
        t = answer.theory
        axes.plot(
            t.path.times, t.imbalance, color=look.light, linewidth=1.8, label=answer.label,
            dashes=_dashes(look), marker=look.marker, markersize=4,
            markevery=max(1, t.path.times.size // MARKS),
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlabel("mean service times")
    axes.set_ylabel("distance from the balanced state")
    axes.legend(frameon=False, fontsize=9)
    _plain(axes)


def _dashes(look: Look) -> Any:
    return tuple(float(x) for x in look.dash.split()) if look.dash else (None, None)


def _queues(report: LimitReport) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8.4, 5.0))
    axes = figure.add_axes((0.09, 0.115, 0.89, 0.72))
    answers: list[QueueAnswer] = list(report.answers)  # type: ignore[arg-type]
    most = 2
    for answer, look in zip(answers, _looks(report), strict=True):
        tail = answer.lengths[::-1].cumsum()[::-1]
        seen = np.flatnonzero(tail > LEAST)
        most = max(most, int(seen[-1]))
        seen = np.flatnonzero(tail > 1e-12)  # lines leave through the floor
        wait = f"{answer.label}: mean wait {answer.mean_wait:.3g}"
        axes.plot(
            seen, tail[seen], color=look.light, linewidth=1.8, dashes=_dashes(look),
            marker=look.marker, markersize=5, label=wait,
        )  # fmt: skip
        if answer.simulation is not None and not answer.simulation.policy.unstable:
            from .limit import _q

            found = _q(answer.simulation.policy.occupancy)
            seen = np.flatnonzero(found > LEAST)
            axes.plot(
                seen, found[seen], "o", markersize=7, markerfacecolor="none",
                markeredgecolor=look.light, zorder=4,
            )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(LEAST, 1.4)
    axes.set_xlim(-0.2, min(most, 24) + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("i, tasks at a server, the one in service included")
    axes.set_ylabel("part of the servers with at least i tasks")
    axes.legend(frameon=False, fontsize=9)
    _plain(axes)
    best = min(answers, key=lambda a: (a.mean_wait, a.messages))
    _title(
        figure, f"{best.label} waits least: {best.mean_wait:.3g} mean service times", _about(report)
    )
    return figure
