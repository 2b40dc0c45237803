"""The picture of stability: capacity against d; for 2 and 3 servers the speeds that lose nothing.

Four servers and more: what jsq-d carries for d = 1, 2, ..., as part of the capacity, each d in the
colour and marker of the servers that hold it back; below the curve queues settle, above they grow.
The policies that were asked about stand beside it.

Two servers: how much is carried as one server's part of the speed goes from nothing to all; the
segment of speeds at which nothing is lost lies under it. Three servers: the same as a triangle,
every point a way to share the speed out, with the polytopes M^(d) of theory/stability/polytope.
Colours after Okabe and Ito, as in `palette`; nothing is told by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EquipoiseError
from .palette import LOOKS
from .pictures import GROUND, INK, QUIET, RULE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .stability import Answer, StabilityReport

GROWS = "#f6dfd2"  # the part in which queues grow
ORDER = (0, 1, 2, 4, 3, 5, 6, 7)  # looks of bottlenecks, the tightest first
GRID = 60  # points along a side of the triangle


def draw(report: StabilityReport) -> Figure:
    """Return the picture as a matplotlib figure, of no backend.

    Raises
    ------
    EquipoiseError
        If no load is too high: then there is nothing to draw.
    """
    from matplotlib import rc_context

    if all(answer.endless for answer in report.answers):
        raise EquipoiseError(f"nothing to draw: these servers carry any load ({_why(report)})")
    with rc_context(STYLE):
        count = report.fleet.count
        if count == 2:
            return _segment(report)
        if count == 3:
            return _triangle(report)
        return _curve(report)


def _why(report: StabilityReport) -> str:
    return report.answers[0].found.reason


def _percent(share: float, digits: int = 3) -> str:
    return f"{100 * share:.{digits}g} %"


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def _title(figure: Figure, report: StabilityReport, text: str) -> None:
    """The finding in a sentence, and what it is about in a smaller line under it."""
    from .stability import per

    fleet = report.fleet
    asked = "" if fleet.rate is None else f", asked at load {fleet.rate / fleet.capacity:.3g}"
    tail = f": {per(fleet.capacity, fleet.unit)} together{asked}"
    room = int(12.5 * figure.get_figwidth()) - len(tail)  # letters
    under = (fleet.shape if len(fleet.shape) <= room else fleet.span) + tail
    size = 12.5 if len(text) < 75 else 11
    figure.suptitle(text, x=0.01, ha="left", fontsize=size, fontweight="bold")
    inch = 1 / figure.get_figheight()
    figure.text(0.01, 1 - 0.42 * inch, under, fontsize=9.5, color=QUIET, va="top")


# Capacity against d.


def _curve(report: StabilityReport) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    fleet = report.fleet
    best, slow = report.curve
    part, d = best / fleet.capacity, np.arange(1, best.size + 1)
    others = [
        a
        for a in report.answers
        if not a.endless and not (a.uniform and a.spec.policy.name == "jsq-d")
    ]
    height = 4.9 + 0.16 * max(0, len(others) - 6)
    figure = Figure(figsize=(9.6 if others else 7.6, height))
    bottom, top = 0.125, 0.83
    start = 0.085 if others else 0.107
    left = figure.add_axes((start, bottom, 0.52 if others else 0.87, top - bottom))
    _plain(left)

    load = None if fleet.rate is None else fleet.rate / fleet.capacity
    ceiling = max(1.0, 0.0 if load is None else min(load, 1.3)) * 1.09
    edges = np.concatenate(([d[0] - 0.5], np.repeat(d[:-1] + 0.5, 2), [d[-1] + 0.5]))
    steps = np.repeat(part, 2)
    left.fill_between(edges, steps, ceiling, color=GROWS, linewidth=0, zorder=0)
    left.fill_between(edges, 0, steps, color=GROUND, linewidth=0, zorder=0)
    left.plot(edges, steps, color="#8b8880", linewidth=1, zorder=2)

    full = part >= 1 - 1e-9
    held = [int(j) for j in dict.fromkeys(slow[~full].tolist())]
    shown = held[: len(ORDER) - 1]
    for place, j in enumerate(shown):
        look = LOOKS[ORDER[place]]
        here = (slow == j) & ~full
        left.plot(
            d[here], part[here], look.marker, color=look.light, markersize=8, linestyle="none",
            markeredgecolor="white", zorder=4, label=f"held back by {_slowest(report, j)}",
        )  # fmt: skip
    rest = ~full & ~np.isin(slow, shown)
    if rest.any():
        left.plot(d[rest], part[rest], "*", color=LOOKS[7].light, markersize=8, linestyle="none",
                  zorder=4, label="held back by other sets")  # fmt: skip
    if full.any():
        left.plot(d[full], part[full], "o", markerfacecolor="white", markeredgecolor=INK,
                  markersize=7, linestyle="none", zorder=4, label="nothing is lost")  # fmt: skip
    if load is not None and load <= ceiling:
        left.axhline(load, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=3)
        above = not 0.9 < load < 1
        asked = [a.spec.params["d"] for a in report.answers if a.uniform]
        right = not asked or min(asked) <= d.size / 2  # clear of the label of the d asked about
        left.annotate(
            f"load asked, {_percent(load)}", (d[-1] + 0.45 if right else d[0] - 0.42, load),
            (0, 4 if above else -4), textcoords="offset points", ha="right" if right else "left",
            va="bottom" if above else "top", fontsize=9, zorder=6,
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1},
        )  # fmt: skip
    for answer in report.answers:
        if answer.uniform and answer.spec.policy.name == "jsq-d":
            at = answer.spec.params["d"]
            _point_out(left, at, answer.carried, ceiling, len(d))
    left.text(
        d[0] - 0.42, 0.985 * ceiling, "queues grow for ever", va="top", fontsize=9, color="#8a4320"
    )
    if part[-1] > 0.6:
        left.text(d[-1] + 0.42, 0.5, "queues settle", ha="right", fontsize=9, color=QUIET)
    left.set(xlim=(d[0] - 0.5, d[-1] + 0.5), ylim=(0, ceiling))
    left.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    left.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g} %")
    left.set_xlabel("d, servers looked at for each task (jsq-d, uniform draws)")
    left.set_ylabel("load carried, part of the capacity")
    quiet = part[-1] > 0.45 and part[len(part) // 2] > 0.45
    left.legend(loc="lower right" if quiet else "best", fontsize=9, frameon=True, framealpha=0.92,
                edgecolor=RULE, borderpad=0.6)  # fmt: skip
    if others:
        _beside(figure, report, others, load, (bottom, top))
    _title(figure, report, _finding(report))
    return figure


def _point_out(axes: Axes, d: int, part: float, ceiling: float, most: int) -> None:
    """Ring the d that was asked about and say what it carries."""
    axes.plot(
        [d], [part], "o", markersize=15, markerfacecolor="none", markeredgecolor=INK, zorder=5
    )
    low = part < 0.75 * ceiling
    axes.annotate(
        f"d = {d}: {_percent(part)}", (d, part), (0, 13 if low else -13),
        textcoords="offset points", ha="left" if d < most / 2 else "right",
        va="bottom" if low else "top", fontweight="bold", zorder=6, fontsize=10,
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.2},
    )  # fmt: skip


def _slowest(report: StabilityReport, j: int) -> str:
    """The j slowest servers, in few words."""
    speeds = np.sort(report.fleet.speed_of)[:j]
    span = f"{speeds[0]:.3g}" if speeds[0] == speeds[-1] else f"{speeds[0]:.3g} to {speeds[-1]:.3g}"
    return f"the slowest (speed {span})" if j == 1 else f"the {j} slowest (speed {span})"


def _beside(
    figure: Figure,
    report: StabilityReport,
    others: list[Answer],
    load: float | None,
    span: tuple[float, float],
) -> None:
    """Bars of what other policies carry; hatched where it is not known."""
    bottom, top = span
    axes = figure.add_axes((0.69, bottom, 0.29, top - bottom))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for row, answer in enumerate(others):
        part, upper = answer.carried, answer.found.lam_upper / report.fleet.capacity
        sound = answer.found.stable
        look = LOOKS[0] if sound is False else LOOKS[1]
        axes.barh(row, part, 0.34, color=look.light, zorder=2)
        words = _percent(part)
        if not answer.found.known:
            axes.barh(row, upper - part, 0.34, left=part, facecolor="white", edgecolor="#a9a59b",
                      hatch="////", linewidth=0.8, zorder=2)  # fmt: skip
            words = f"{_percent(part)} for certain"
        text = answer.label if len(answer.label) < 34 else answer.label[:31] + "..."
        sign = {True: ", stable", False: ", UNSTABLE", None: ""}[sound]
        axes.text(0, row - 0.26, text, va="bottom", fontsize=9, fontweight="bold", zorder=5,
                  bbox={"facecolor": "white", "linewidth": 0, "pad": 1})  # fmt: skip
        axes.text(0, row + 0.2, f"{words}{sign}", va="top", fontsize=8.5, color=QUIET)
    if load is not None and load <= 1.08:
        axes.axvline(load, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=3)
    axes.set(xlim=(0, 1.08), ylim=(max(len(others), 4) - 0.4, -0.75), yticks=[])
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xlabel("load carried by other policies")


def _finding(report: StabilityReport) -> str:
    """The picture's headline."""
    fleet = report.fleet
    first = next((a for a in report.answers if a.uniform), report.answers[0])
    name = _short(first.label)
    if first.endless or not first.found.known:
        return f"What {name} carries on this fleet is not known to the end"
    if first.found.optimal:
        return f"{name} loses nothing on this fleet"
    lost = f"{name} loses {first.found.loss:.3g} % of this fleet's capacity"
    safe = first.safe_d
    if safe is None:
        return lost
    enough = first.found.stable is True
    ending = "this load does not need it" if enough else f"d = {safe} is enough for this load"
    if fleet.rate is None:
        ending = f"d = {safe} loses nothing"
    return f"{lost}; {ending}"


# Two servers.


def _carried(report: StabilityReport, answer: Answer, parts: np.ndarray) -> np.ndarray:
    """Return what a policy carries if the speed is shared out so, part of the capacity.

    parts: float64[k, n], each row positive with sum 1; returns float64[k].
    """
    from dataclasses import replace

    from .stability import stability_of

    fleet, out = report.fleet, np.empty(len(parts))
    for i, row in enumerate(parts):
        groups = tuple((1, float(speed)) for speed in row)
        other = replace(
            fleet, groups=groups, workers=1, mean_service=1.0, rate=None, peak=None, curve=None
        )
        out[i] = min(1.0, stability_of(other, answer.spec).lam_max)
    return out


def _shown(report: StabilityReport, most: int) -> list[Answer]:
    """The policies drawn: the first few."""
    return [a for a in report.answers if not a.endless][:most]


def _segment(report: StabilityReport) -> Figure:
    from matplotlib.figure import Figure

    fleet = report.fleet
    speeds = fleet.speed_of
    mine = speeds[0] / speeds.sum()
    figure = Figure(figsize=(7.6, 4.9))
    axes = figure.add_axes((0.1, 0.215, 0.86, 0.615))
    _plain(axes)
    x = np.linspace(0.002, 0.998, 249)
    parts = np.stack((x, 1 - x), axis=1)
    answers = _shown(report, 4)
    for place, answer in enumerate(answers):
        look = LOOKS[ORDER[place]]
        y = _carried(report, answer, parts)
        words = _short(answer.label) + ("" if answer.found.known else " (for certain)")
        dashes: Any = (0, tuple(float(p) / 2 for p in look.dash.split())) if look.dash else "-"
        axes.plot(x, y, color=look.light, linestyle=dashes, linewidth=2, zorder=3, label=words)
        axes.plot([mine], [answer.carried], look.marker, color=look.light, markersize=10,
                  markeredgecolor="white", zorder=5)  # fmt: skip
        flat = x[y >= 1 - 1e-9]
        # the segment of speeds at which this policy loses nothing, on a lane of its own
        lane = -0.035 - 0.03 * place
        if flat.size > 1:
            axes.plot([flat[0], flat[-1]], [lane, lane], color=look.light, linewidth=4,
                      solid_capstyle="butt", clip_on=False, zorder=4)  # fmt: skip
        elif answer.found.known and y.max() > 0.98:
            axes.plot([x[y.argmax()]], [lane], look.marker, color=look.light, markersize=6,
                      clip_on=False, zorder=4)  # fmt: skip
    axes.axvline(mine, color=INK, linewidth=1, zorder=2)
    side = "left" if mine < 0.6 else "right"
    axes.annotate(
        f"this fleet: {_percent(mine)} of the speed at server 0", (mine, 1.075),
        (5 if side == "left" else -5, 0), textcoords="offset points", ha=side, va="center",
        fontsize=9,
    )  # fmt: skip
    if fleet.rate is not None and fleet.rate / fleet.capacity < 1.1:
        load = fleet.rate / fleet.capacity
        axes.axhline(load, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
        axes.annotate(f"load asked, {_percent(load)}", (1, load), (-2, 4), ha="right", fontsize=9,
                      textcoords="offset points", zorder=6)  # fmt: skip
    depth = 0.06 + 0.03 * len(answers)
    axes.set(xlim=(0, 1), ylim=(-depth, 1.11))
    axes.set_xticks(np.linspace(0, 1, 6), [f"{p} %" for p in range(0, 101, 20)])
    axes.set_yticks(np.linspace(0, 1, 6), [f"{p} %" for p in range(0, 101, 20)])
    axes.set_xlabel("part of the speed that server 0 has (marked below 0 %: where nothing is lost)")
    axes.set_ylabel("load carried, part of the capacity")
    figure.legend(loc="lower center", ncols=len(answers), frameon=False, fontsize=9)
    _title(figure, report, _finding(report))
    return figure


# Three servers.

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def _triangle(report: StabilityReport) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon
    from matplotlib.tri import Triangulation

    from ..theory.stability import corners

    fleet = report.fleet
    speeds = fleet.speed_of
    point = speeds / speeds.sum() @ CORNERS
    answers = _shown(report, 6)
    answer = next((a for a in answers if not a.found.optimal), answers[0])
    figure = Figure(figsize=(8.6, 5.6))
    axes = figure.add_axes((0.02, 0.06, 0.62, 0.82))
    axes.set_aspect("equal")
    axes.axis("off")

    grid = np.array(
        [(i, j, GRID - i - j) for i in range(GRID + 1) for j in range(GRID + 1 - i)], float
    )
    # a corner itself has a server of speed 0; stay a little inside
    parts = (grid + 1e-4) / (GRID + 3e-4)
    values = _carried(report, answer, parts)
    places = parts @ CORNERS
    shades = LinearSegmentedColormap.from_list(
        "carried", ["#f3d5c2", "#f7ece2", "#dbe9f3", "#8fbfe0"]
    )
    mesh = Triangulation(places[:, 0], places[:, 1])
    levels = [0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.999, 1.0001]
    filled = axes.tricontourf(mesh, values, levels=levels, cmap=shades, vmin=0, vmax=1, zorder=1)
    axes.tricontour(mesh, values, levels=levels[1:-1], colors="white", linewidths=0.8, zorder=2)
    axes.add_patch(
        Polygon(CORNERS, closed=True, fill=False, edgecolor=INK, linewidth=1.2, zorder=3)
    )
    hexagon = corners(3, 2) @ CORNERS
    two, one = LOOKS[1], LOOKS[2]
    axes.add_patch(
        Polygon(hexagon, closed=True, fill=False, edgecolor=two.light, linewidth=2.2, zorder=4,
                linestyle=(0, (5, 2)), label="jsq-d(d=2) loses nothing inside")
    )  # fmt: skip
    middle = np.full(3, 1 / 3) @ CORNERS
    axes.plot(*middle, one.marker, color=one.light, markersize=9, markeredgecolor="white", zorder=5,
              linestyle="none", label="d = 1, random: nothing lost here only")  # fmt: skip
    axes.plot([], [], color=INK, linewidth=1.2, label="d = 3, jsq: nothing lost anywhere")
    axes.plot(*point, "o", color=LOOKS[0].light, markersize=12, markeredgecolor=INK, zorder=6,
              linestyle="none", label=f"this fleet: {_percent(answer.carried)}")  # fmt: skip
    for i, (corner, away) in enumerate(zip(CORNERS, ((-8, -8), (8, -8), (0, 8)), strict=True)):
        axes.annotate(
            f"server {i}\nhas all the speed", corner, away, textcoords="offset points", fontsize=9,
            ha="center", va="top" if i < 2 else "bottom", color=QUIET,
        )  # fmt: skip
    axes.set(xlim=(-0.16, 1.16), ylim=(-0.12, 0.99))
    bar = figure.colorbar(
        filled, cax=figure.add_axes((0.69, 0.40, 0.022, 0.40)), spacing="proportional"
    )
    bar.set_ticks(
        [0, 0.2, 0.4, 0.6, 0.8, 0.9, 1],
        labels=["0", "20 %", "40 %", "60 %", "80 %", "90 %", "100 %"],
    )
    bar.outline.set_visible(False)
    bar.set_label(f"load carried by\n{_short(answer.label)}", fontsize=9)
    figure.legend(loc="lower right", bbox_to_anchor=(0.99, 0.05), frameon=False, fontsize=9)
    _title(figure, report, _finding(report))
    return figure


def _short(label: str) -> str:
    return label if len(label) < 30 else label[:27] + "..."
