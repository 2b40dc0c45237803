"""The page's figures, as SVG text.

Nothing is loaded and nothing computed in the browser: a figure is complete without
scripts. Colours are CSS variables (`page.css`), so light, dark and print need one
drawing. Each figure is drawn for a wide and for a narrow page, the style sheet shows
one. `data-*` attributes tell `page.js` what lies where, for the values on hover.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from equipoise.report import table
from equipoise.report.axes import Box, Scale, place, time_axis, time_ticks, whole_ticks
from equipoise.report.palette import LOOKS, looks
from equipoise.report.results import csv_text, held

if TYPE_CHECKING:
    from equipoise.report.results import Comparison, PolicyResult

CHARACTER = 7.1  # px, mean width of a 13 px letter, on the safe side
FLOOR = 1e-4  # a distribution is drawn down to one task in ten thousand


@dataclass(frozen=True)
class Drawing:
    """A figure: its pictures, its numbers, what it shows in words."""

    pictures: tuple[str, ...]  # SVG; one for each panel, or (wide, narrow)
    csv: str
    words: str
    panels: tuple[tuple[PolicyResult, str], ...] = ()  # of small multiples: whose, and a remark


@dataclass(frozen=True)
class Size:
    """Of the drawing and of its margins, px."""

    width: float
    height: float
    left: float = 56
    right: float = 18
    top: float = 14
    bottom: float = 46

    @property
    def inside(self) -> Box:
        return self.left, self.top, self.width - self.right, self.height - self.bottom


WIDE, NARROW = Size(920, 460), Size(372, 400, left=46, right=10)


# Small tools.


def esc(text: object) -> str:
    """Make text safe inside HTML and attributes; policy labels come from users."""
    return html.escape(str(text), quote=True)


def num(x: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{x:.1f}".removesuffix(".0")


def points(xs: Iterable[float], ys: Iterable[float]) -> str:
    """Return SVG path data through the points, leaving out those on a straight line."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(xs, ys, strict=True):
        p = (round(x, 1), round(y, 1))
        if len(kept) >= 2 and kept[-1][1] == kept[-2][1] == p[1]:
            kept[-1] = p
        elif not kept or kept[-1] != p:
            kept.append(p)
    return "M" + "L".join(f"{num(x)} {num(y)}" for x, y in kept)


def stairs(xs: np.ndarray, ys: Sequence[float], end: float) -> tuple[list[float], list[float]]:
    """Return the corners of a step function that jumps at `xs` and lasts to `end`."""
    x2 = [v for x in xs[1:] for v in (float(x), float(x))]
    y2 = [float(v) for y in ys for v in (y, y)]
    return [float(xs[0]), *x2, end], y2


def svg(size: Size, body: str, words: str, extra: str = "", kind: str = "") -> str:
    """Return an <svg> with a title that readers and screen readers find."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {num(size.width)} {num(size.height)}" role="img" '
        f'aria-label="{esc(words)}" {extra}>{body}</svg>'
    )


def span(scale: Scale) -> str:
    """What the script needs to turn positions back into values, as one attribute."""
    fields = (scale.low, scale.high, scale.start, scale.end)
    return f"{','.join(f'{v:.6g}' for v in fields)},{scale.kind},{scale.unit:.6g}"


def grid(
    size: Size,
    x: Scale,
    y: Scale,
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    x_title: str = "",
) -> str:
    """Return horizontal rules with their values, and values with short marks below."""
    left, _, right, bottom = size.inside
    out = []
    for value, name in y_ticks:
        at = num(y(value))
        kind = "axis" if abs(y(value) - bottom) < 0.6 else "rule"
        out.append(f'<line class="{kind}" x1="{num(left)}" x2="{num(right)}" y1="{at}" y2="{at}"/>')
        out.append(
            f'<text class="tick" x="{num(left - 8)}" y="{at}" dy=".34em" '
            f'text-anchor="end">{esc(name)}</text>'
        )
    out.append(
        f'<line class="axis" x1="{num(left)}" x2="{num(right)}" '
        f'y1="{num(bottom)}" y2="{num(bottom)}"/>'
    )
    for value, name in x_ticks:
        at = num(x(value))
        out.append(
            f'<line class="axis" x1="{at}" x2="{at}" y1="{num(bottom)}" y2="{num(bottom + 5)}"/>'
            f'<text class="tick" x="{at}" y="{num(bottom + 18)}" '
            f'text-anchor="middle">{esc(name)}</text>'
        )
    if x_title:
        out.append(
            f'<text class="title" x="{num(right)}" y="{num(bottom + 38)}" '
            f'text-anchor="end">{esc(x_title)}</text>'
        )
    return "".join(out)


def number(x: float) -> str:
    """Return a tick's value: no trailing zeros, thousands set apart by a thin space."""
    return f"{x:,.0f}".replace(",", "\u2009") if abs(x) >= 1000 else f"{x:.6g}"


def percent(share: float) -> str:
    """Return a fraction as a percentage, as short as can be."""
    return f"{100 * share:.6g}\u2009%"


def marker(slot: int, x: float, y: float, r: float = 6) -> str:
    """Return the marker of a look, centred on (x, y)."""
    sides: dict[str, list[tuple[float, float]]] = {
        "s": [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
        "^": [(0, -1.1), (1, 0.8), (-1, 0.8)],
        "v": [(0, 1.1), (1, -0.8), (-1, -0.8)],
        "D": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
        "P": [
            (a * s, b * s)
            for s in (1.1,)
            for a, b in (
                (-0.35, -1),
                (0.35, -1),
                (0.35, -0.35),
                (1, -0.35),
                (1, 0.35),
                (0.35, 0.35),
                (0.35, 1),
                (-0.35, 1),
                (-0.35, 0.35),
                (-1, 0.35),
                (-1, -0.35),
                (-0.35, -0.35),
            )
        ],
        "*": [
            (1.25 * k * math.sin(math.pi * i / 5), -1.25 * k * math.cos(math.pi * i / 5))
            for i in range(10)
            for k in ((1.0, 0.45)[i % 2],)
        ],
    }
    shape = LOOKS[slot].marker
    if shape == "X":
        half = math.sqrt(0.5)
        corners = [(half * (a - b), half * (a + b)) for a, b in sides["P"]]
    elif shape in sides:
        corners = sides[shape]
    else:
        return f'<circle class="mark s{slot}" cx="{num(x)}" cy="{num(y)}" r="{num(r)}"/>'
    where = " ".join(f"{num(x + r * a)},{num(y + r * b)}" for a, b in corners)
    return f'<polygon class="mark s{slot}" points="{where}"/>'


def label(slot: int, text: str, x: float, y: float, anchor: str = "start", small: str = "") -> str:
    """Return words in a policy's colour, on a halo so that they stay legible over lines."""
    more = f'<tspan class="small" dx="6">{esc(small)}</tspan>' if small else ""
    return (
        f'<text class="name s{slot}" x="{num(x)}" y="{num(y)}" dy=".34em" '
        f'text-anchor="{anchor}">{esc(text)}{more}</text>'
    )


def text_box(x: float, y: float, text: str, anchor: str = "start", high: float = 17) -> Box:
    """Return about the box that a 13 px text covers, y being its middle."""
    wide = CHARACTER * len(text)
    left = x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    return left, y - high / 2, left + wide, y + high / 2


def _csv(names: Sequence[str], series: Sequence[np.ndarray]) -> str:
    """Columns of numbers under their names; empty where there is none."""
    rows = [["" if math.isnan(v) else f"{v:.6g}" for v in row] for row in np.column_stack(series)]
    return csv_text([names, *rows])


# 1. Tasks per server over time.


def paths(c: Comparison) -> Drawing | None:
    """Draw a small panel for each policy: mean, least to most loaded, the offered load behind."""
    drawn = [p for p in c.stable if p.path is not None and p.path.times.size > 1]
    if not drawn:
        return None
    slots = dict(zip((p.label for p in c.policies), looks(c.policies), strict=True))
    times = drawn[0].path.times  # type: ignore[union-attr]
    offered = held(times, *c.offered)
    high = max([float(np.max(p.path.most)) for p in drawn] + [*offered[np.isfinite(offered)], 1.0])  # type: ignore[union-attr]
    bent = far_apart(drawn)
    size = Size(236, 168, left=26, right=6, top=8, bottom=22)
    left, top, right, bottom = size.inside
    unit, second = time_axis(float(times[-1]))
    x = Scale(0.0, float(times[-1]) / second, left, right)
    y = Scale(0.0, high * 1.04, bottom, top, "root" if bent else "linear")
    across = [(v, number(v)) for v in time_ticks(float(times[-1]), second, 4)]
    up = [(v, number(v)) for v in y.ticks(5 if bent else 4)]
    where = f'data-x="{span(x)}" data-y="{span(y)}"'
    at = times / second

    pictures, panels = [], []
    names, series = ["time_s", "offered"], [times, offered]
    for p in drawn:
        path = p.path
        assert path is not None
        mean, least, most = (held(times, path.times, s) for s in (path.mean, path.least, path.most))
        names += [f"{p.label} mean", f"{p.label} least", f"{p.label} most"]
        series += [mean, least, most]
        xs = [x(float(t)) for t in at]
        body = []
        if np.isfinite(offered).all():
            ground = points([xs[0], *xs, xs[-1]], [y(0), *map(y, offered), y(0)])
            body.append(f'<path class="offered" d="{ground}Z"/>')
        body.append(grid(size, x, y, across, up))
        band = points([*xs, *xs[::-1]], [*map(y, most), *map(y, least[::-1])])
        line = points(xs, map(y, mean))
        slot = slots[p.label]
        body.append(f'<path class="band s{slot}" d="{band}Z"/>')
        body.append(f'<path class="line s{slot}" d="{line}"/>')
        words = (
            f"{p.label}: from {number(least.min())} to {number(most.max())} tasks at a server, "
            f"on average {table.plain(float(np.nanmean(mean)), 3)}"
        )
        extra = f'{where} data-col="{len(names) - 3}" tabindex="0"'
        pictures.append(svg(size, "".join(body), words, extra, "panel"))
        panels.append((p, f"{number(least.min())} to {number(most.max())}"))
    words = f"Time in {unit}; tasks at a server upwards"
    if bent:
        words += ", on a scale that narrows upwards"
    return Drawing(tuple(pictures), _csv(names, series), words + ".", tuple(panels))


def far_apart(drawn: Sequence[PolicyResult]) -> bool:
    """Whether one policy's fullest server is so far above another's that it presses it flat."""
    peaks = [max(float(np.max(p.path.most)), 1.0) for p in drawn if p.path is not None]
    return max(peaks) > 5 * min(peaks)


# 2. The distribution of neighbours or of response times.


@dataclass(frozen=True)
class Tail:
    """How much of the tasks lies beyond x."""

    policy: PolicyResult
    x: np.ndarray
    beyond: np.ndarray  # fraction of tasks, falling


def tails(c: Comparison) -> list[Tail]:
    """Return P(at least x neighbours) for pools, P(response > x seconds) for queues."""
    out = []
    for p in c.stable:
        if table.is_pool(c):
            if not p.share:
                continue
            most = max(p.share)
            fractions = np.array([p.share.get(k + 1, 0.0) for k in range(most + 1)])
            beyond = np.cumsum(fractions[::-1])[::-1] / fractions.sum()
            out.append(Tail(p, np.arange(most + 1, dtype=float), beyond))
        elif "response" in p.distribution:
            edges, counts = (np.asarray(a, dtype=float) for a in p.distribution["response"])
            if counts.sum() <= 0:
                continue
            beyond = 1 - np.concatenate(([0.0], np.cumsum(counts))) / counts.sum()
            keep = np.isfinite(edges) & (edges > 0)
            if keep.any():
                out.append(Tail(p, edges[keep], np.clip(beyond[keep], 0.0, 1.0)))
    return out


def distribution(c: Comparison) -> Drawing | None:
    """Draw the tails of all policies, with a name on each line."""
    all_tails = tails(c)
    if not all_tails:
        return None
    words = (
        "Share of tasks that meet at least so many others at their server"
        if table.is_pool(c)
        else "Share of tasks that take longer than so many seconds"
    )
    pictures = tuple(_distribution(c, all_tails, size, words) for size in (WIDE, NARROW))
    first = all_tails[0].x
    grid_x = first if not table.is_pool(c) else max((t.x for t in all_tails), key=len)
    columns = [
        np.interp(grid_x, t.x, t.beyond, left=1.0, right=0.0 if table.is_pool(c) else np.nan)
        for t in all_tails
    ]
    low, high = tail_range(all_tails, table.is_pool(c))
    keep = (grid_x >= low * 0.999) & (grid_x <= high * 1.001)
    head = "neighbours_at_least" if table.is_pool(c) else "response_longer_than_s"
    csv = _csv(
        [head, *(t.policy.label for t in all_tails)], [grid_x[keep], *(v[keep] for v in columns)]
    )
    return Drawing(pictures, csv, words + ".")


def tail_range(all_tails: Sequence[Tail], pool: bool) -> tuple[float, float]:
    """Return from where to where the tails are worth drawing, in neighbours or seconds."""
    high = max(float(t.x[t.beyond >= FLOOR].max(initial=t.x[0])) for t in all_tails)
    if pool:
        return 0.0, high + 1
    low = min(float(t.x[t.beyond > 0.98].max(initial=t.x[0])) for t in all_tails)
    return min(low, high / 5), high * 1.1  # tasks may all take the same time


def _distribution(c: Comparison, all_tails: list[Tail], size: Size, words: str) -> str:
    pool = table.is_pool(c)
    slots = dict(zip((p.label for p in c.policies), looks(c.policies), strict=True))
    left, top, right, bottom = size.inside
    low, high = tail_range(all_tails, pool)
    x = Scale(low, high, left, right, "linear" if pool else "log")
    y = Scale(FLOOR, 1.0, bottom, top, "log")
    up = [(v, percent(v)) for v in (1, 0.1, 0.01, 0.001, 0.0001)]
    about = 10 if size is WIDE else 5
    values = whole_ticks(low, high, about) if pool else x.ticks(about)
    across = [(v, number(v)) for v in values]
    title = "other tasks at the server" if pool else "response time, seconds"
    body = [grid(size, x, y, across, up, title)]
    one = num(y(0.01))
    body.append(
        f'<line class="notice" x1="{num(left)}" x2="{num(right)}" y1="{one}" y2="{one}"/>'
        f'<text class="small" x="{num(left + 6)}" y="{num(y(0.01) - 7)}">'
        "one task in a hundred</text>"
    )

    lines, candidates, curves = [], [], []
    for t in all_tails:
        seen = np.nonzero(t.beyond > 0)[0]
        xs = [x.clipped(float(v)) for v in t.x[seen]]
        ys = [y(float(v)) for v in t.beyond[seen]]
        if seen[-1] + 1 < t.x.size or pool:  # nothing was seen beyond: down to the floor
            after = t.x[seen[-1]] + 1 if pool else t.x[seen[-1] + 1]
            xs.append(x.clipped(float(after)))
            ys.append(max(bottom, ys[-1]))
        # End where the line meets the floor, not below it.
        cut = next((i for i, v in enumerate(ys) if v > bottom), None)
        if cut is not None and cut > 0:
            share = (bottom - ys[cut - 1]) / (ys[cut] - ys[cut - 1])
            xs = [*xs[:cut], xs[cut - 1] + share * (xs[cut] - xs[cut - 1])]
            ys = [*ys[:cut], bottom]
        slot = slots[t.policy.label]
        lines.append(f'<path class="line s{slot}" d="{points(xs, ys)}"/>')
        dense = np.linspace(top + 0.08 * (bottom - top), bottom - 22, 60)
        across_at = np.interp(dense, ys, xs)
        curves.append(
            [(a - 2.5, b - 3.0, a + 2.5, b + 3.0) for a, b in zip(across_at, dense, strict=True)]
        )
        candidates.append(list(zip(across_at, dense, strict=True)))

    names = [table.short_name(c, t.policy) for t in all_tails]
    # Names keep clear of all lines, the one at 1 % included.
    covered = [box for curve in curves for box in curve]
    covered.append((left, y(0.01) - 2, right, y(0.01) + 2))
    boxes, obstacles, anchors = [], [], []
    for name, along in zip(names, candidates, strict=True):
        # Down the line from the middle, then back up; right of it, then left.
        order = [*range(30, 60), *range(29, -1, -1)]
        spots = [
            (along[k][0] + side * 9, along[k][1], anchor)
            for side, anchor in ((1, "start"), (-1, "end"))
            for k in order
        ]
        anchors.append(spots)
        boxes.append([text_box(a, b, name, anchor) for a, b, anchor in spots])
        obstacles.append(covered)
    chosen = place(boxes, obstacles, (left, top, right, bottom))
    body += lines[::-1]
    for t, name, spots, k in zip(all_tails, names, anchors, chosen, strict=True):
        a, b, anchor = spots[k]
        body.append(label(slots[t.policy.label], name, a, b, anchor))
    extra = f'data-x="{span(x)}" data-y="{span(y)}" tabindex="0"'
    return svg(size, "".join(body), words, extra, _which(size))


def _which(size: Size) -> str:
    return "wide" if size.width == WIDE.width else "narrow"


# 3. Benefit against cost.


def cost(c: Comparison) -> Drawing | None:
    """Draw each policy by its messages per task and by what it is ranked by, with error bars."""
    rows = []
    for p in c.stable:
        across, up = p.metrics.get("messages_per_task"), p.metrics.get(c.rank_by)
        if across is None or up is None:
            continue
        value, error, _ = table.in_unit(c, c.rank_by, up.value, up.error)
        rows.append((p, (across.value, _finite(across.error)), (value, _finite(error))))
    if len(rows) < 2:
        return None
    what, unit = cost_axis(c)
    words = f"Messages per task against {what}"
    pictures = tuple(_cost(c, rows, size, words) for size in (WIDE, NARROW))
    csv = csv_text(
        [
            (
                "policy",
                "messages_per_task",
                "error",
                f"{c.rank_by} ({unit})",
                "error",
                "memory_bits",
            ),
            *((p.label, *(f"{v:.6g}" for v in (*a, *b)), f"{p.memory_bits:g}") for p, a, b in rows),
        ]
    )
    return Drawing(pictures, csv, words + ".")


def cost_axis(c: Comparison) -> tuple[str, str]:
    """Return what goes up in figure 3, and its unit."""
    from equipoise.report.results import METRICS

    _, _, unit = table.in_unit(c, c.rank_by, 0.0, 0.0)
    return METRICS.get(c.rank_by, (c.rank_by, ""))[0], unit


def _finite(error: float) -> float:
    return error if math.isfinite(error) else 0.0


def spread_scale(values: Sequence[float], start: float, end: float, low: float = 0.0) -> Scale:
    """Return a scale from 0 to a little above the largest value, bent if they span decades."""
    high = max(values) or 1.0
    positive = sorted(v for v in values if v > 0)
    if min(values) < 0:
        room = 0.08 * (high - min(values) or 1.0)
        return Scale(min(values) - room, high + room, start, end)
    if positive and high > 25 * positive[len(positive) // 3]:
        return Scale(low, high * 1.3, start, end, "root", positive[0] * 2)
    return Scale(low, high * 1.1, start, end)


Row = tuple["PolicyResult", tuple[float, float], tuple[float, float]]


def _cost(c: Comparison, rows: list[Row], size: Size, words: str) -> str:
    slots = dict(zip((p.label for p in c.policies), looks(c.policies), strict=True))
    left, top, right, bottom = size.inside
    x = spread_scale([a for _, (a, _), _ in rows], left + 18, right)
    y = spread_scale([b for _, _, (b, _) in rows], bottom, top)
    wide = size is WIDE
    across = [(v, number(v)) for v in x.ticks(8 if wide else 4)]
    up = [(v, number(v)) for v in y.ticks(6)]
    body = [grid(size, x, y, across, up, "messages per task")]

    best, edge_boxes = table.front(c), []
    edge = sorted((a[0], b[0]) for p, a, b in rows if p.label in best)
    if len(edge) > 1:
        xs, ys = [x(edge[0][0])], [y(edge[0][1])]
        for a, b in edge[1:]:
            xs += [x(a), x(a)]
            ys += [ys[-1], y(b)]
        xs, ys = [*xs, right], [*ys, ys[-1]]
        body.append(f'<path class="front" d="{points(xs, ys)}"/>')
        corners = list(zip(xs, ys, strict=True))
        for (x1, y1), (x2, y2) in pairwise(corners):
            edge_boxes.append((min(x1, x2) - 2, min(y1, y2) - 2, max(x1, x2) + 2, max(y1, y2) + 2))

    shapes, marks = [], []
    for p, (a, da), (b, db) in rows:
        slot, px, py = slots[p.label], x(a), y(b)
        bars = ""
        if db > 0:
            lo, hi = y.clipped(b - db), y.clipped(b + db)
            bars += f'<path class="bar s{slot}" d="M{num(px)} {num(lo)}V{num(hi)}"/>'
        if da > 0:
            lo, hi = x.clipped(a - da), x.clipped(a + da)
            bars += f'<path class="bar s{slot}" d="M{num(lo)} {num(py)}H{num(hi)}"/>'
        hover = (
            f"{p.label}: {table.pm(b, db)} {cost_axis(c)[1]}, {table.pm(a, da)} messages per task"
        ).replace("+-", "\u00b1")
        shapes.append(
            f'<g class="point" data-px="{num(px)}" data-py="{num(py)}" data-text="{esc(hover)}">'
            f"<title>{esc(hover)}</title>{bars}{marker(slot, px, py)}</g>"
        )
        marks.append((px, py))

    names = [table.short_name(c, p) for p, _, _ in rows]
    extras = [table.bits(p.memory_bits) if wide else "" for p, _, _ in rows]
    extras = ["" if e == "none" else e for e in extras]
    obstacles = [(px - 8, py - 8, px + 8, py + 8) for px, py in marks] + edge_boxes
    order = sorted(range(len(rows)), key=lambda i: -marks[i][1])
    spots = [_around(*marks[i]) for i in order]
    boxes = [
        [text_box(a, b, f"{names[i]} {extras[i]}".strip(), anchor) for a, b, anchor in spot]
        for i, spot in zip(order, spots, strict=True)
    ]
    chosen = place(boxes, [obstacles] * len(rows), (left + 4, top - 6, right + 8, bottom - 2))
    for i, spot, k in zip(order, spots, chosen, strict=True):
        a, b, anchor = spot[k]
        px, py = marks[i]
        slot = slots[rows[i][0].label]
        toward = a + {"start": -4, "middle": 0, "end": 4}[anchor]
        if math.hypot(toward - px, b - py) > 17:
            body.append(f'<path class="leader" d="M{num(px)} {num(py)}L{num(toward)} {num(b)}"/>')
        body.append(label(slot, names[i], a, b, anchor, extras[i]))
    body += shapes
    return svg(size, "".join(body), words, "", f"{_which(size)} scatter")


def _around(px: float, py: float) -> list[tuple[float, float, str]]:
    """Places for a name near a point, the best first."""
    out: list[tuple[float, float, str]] = []
    for r in (13, 26, 42, 60, 80, 104):
        for turn in (0, 0.5, -0.5, 1, -1, 3, -3, 3.5, -3.5, 4, 1.5, -1.5, 2, -2, 2.5, -2.5):
            angle = turn * math.pi / 4
            dx, dy = r * math.cos(angle), -r * math.sin(angle)
            anchor = "middle" if abs(turn) == 2 else "start" if dx > 0 else "end"
            out.append((px + dx, py + dy - (4 if turn == 2 else -4 if turn == -2 else 0), anchor))
    return out


# 4. Thresholds over time.


def learns(p: PolicyResult) -> bool:
    """Whether a policy's threshold moved."""
    if len([f for f in p.threshold_time.values() if f > 0]) > 1:
        return True
    series = None if p.path is None else p.path.threshold
    return series is not None and np.unique(series[np.isfinite(series)]).size > 1


def thresholds(c: Comparison) -> Drawing | None:
    """Draw the thresholds of learning policies over time, fixed ones with them, and the load."""
    drawn = [p for p in c.stable if p.path is not None and p.path.threshold is not None]
    if not any(learns(p) for p in drawn):
        return None
    words = "Thresholds over time against the offered load"
    pictures = tuple(
        _thresholds(c, drawn, size, words)
        for size in (Size(920, 340, right=150), Size(372, 320, left=30, right=10))
    )
    times = drawn[0].path.times  # type: ignore[union-attr]
    series = [
        held(times, p.path.times, p.path.threshold)  # type: ignore[union-attr, arg-type]
        for p in drawn
    ]
    names = ["time_s", "offered", *(p.label for p in drawn)]
    csv = _csv(names, [times, held(times, *c.offered), *series])
    return Drawing(pictures, csv, words + ".")


def _thresholds(c: Comparison, drawn: list[PolicyResult], size: Size, words: str) -> str:
    slots = dict(zip((p.label for p in c.policies), looks(c.policies), strict=True))
    left, top, right, bottom = size.inside
    times = drawn[0].path.times  # type: ignore[union-attr]
    offered = held(times, *c.offered)
    unit, second = time_axis(float(times[-1]))
    every = [held(times, p.path.times, p.path.threshold) for p in drawn]  # type: ignore
    high = max([1.0, *(float(np.nanmax(s)) for s in every), *offered[np.isfinite(offered)]])
    x = Scale(0.0, float(times[-1]) / second, left, right)
    y = Scale(0.0, high * 1.08, bottom, top)
    wide = size.width == WIDE.width
    across = [(v, number(v)) for v in time_ticks(float(times[-1]), second, 8 if wide else 4)]
    up = [(v, number(v)) for v in whole_ticks(0, high, 6)]
    at = times / second
    body = []
    if np.isfinite(offered).all():
        xs = [x(float(t)) for t in at]
        ground = points([xs[0], *xs, xs[-1]], [y(0), *map(y, offered), y(0)])
        body.append(f'<path class="offered" d="{ground}Z"/>')
    body.append(grid(size, x, y, across, up, f"time, {unit}"))
    ends = []
    for p, series in zip(drawn, every, strict=True):
        known = np.isfinite(series)
        xs, ys = stairs(at[known], series[known], float(at[-1]))
        body.append(
            f'<path class="line thin s{slots[p.label]}" d="{points(map(x, xs), map(y, ys))}"/>'
        )
        ends.append(y(ys[-1]))
    if wide:
        names = [(table.short_name(c, p), f"s{slots[p.label]}") for p in drawn]
        names.append(("offered load", "ground"))
        ends.append(y(float(offered[-1])) if np.isfinite(offered[-1]) else bottom)
        for (name, kind), level in zip(names, apart(ends, 18, top, bottom - 8), strict=True):
            body.append(
                f'<text class="name {kind}" x="{num(right + 8)}" y="{num(level)}" '
                f'dy=".34em">{esc(name)}</text>'
            )
    extra = f'data-x="{span(x)}" data-y="{span(y)}" tabindex="0"'
    return svg(size, "".join(body), words, extra, _which(size))


def apart(levels: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near `levels`, in the same order, at least `gap` apart, in [low, high].

    Neighbours that clash share the room around their common mean.
    """
    order = sorted(range(len(levels)), key=lambda i: levels[i])
    groups: list[tuple[float, list[int]]] = []  # (centre, members)
    for i in order:
        groups.append((max(low, min(levels[i], high)), [i]))
        while len(groups) > 1:
            (a, upper), (b, lower) = groups[-2:]
            if b - a >= gap * (len(upper) + len(lower)) / 2:
                break
            both = upper + lower
            half = gap * (len(both) - 1) / 2
            centre = sum(levels[j] for j in both) / len(both)
            groups[-2:] = [(max(low + half, min(centre, high - half)), both)]
    out = [0.0] * len(levels)
    for centre, members in groups:
        half = gap * (len(members) - 1) / 2
        for k, j in enumerate(members):
            out[j] = centre - half + k * gap
    return out


# In the table: where a value lies among the others, with its interval.


def interval_mark(slot: int, value: float, error: float, scale: Callable[[float], float]) -> str:
    """Return a tiny picture, 120 x 16 px, of a value and its interval."""
    at = scale(value)
    bar = ""
    if math.isfinite(error) and error > 0:
        lo, hi = scale(value - error), scale(value + error)
        bar = f'<path class="bar s{slot}" d="M{num(max(lo, 0))} 8H{num(min(hi, 120))}"/>'
    return (
        '<svg class="where" viewBox="0 0 120 16" aria-hidden="true">'
        f'<path class="stem s{slot}" d="M0 8H{num(at)}"/>{bar}{marker(slot, at, 8, 4.5)}</svg>'
    )
