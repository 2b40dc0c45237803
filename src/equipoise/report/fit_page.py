"""What was found in a log, as one HTML file that can be mailed.

The words are those of `fit.py`, the styles those of the comparison's page. Figures are complete
without scripts; the numbers behind each can be taken away as CSV.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EquipoiseError
from ..logs.laws import below_of
from . import page
from .axes import Scale, log_ticks, ticks, time_axis, time_ticks
from .figures import NARROW, WIDE, Size, esc, grid, num, number, percent, svg
from .results import csv_text

if TYPE_CHECKING:
    from .fit import Fit

MOST_SERVERS = 100  # rows of their table
HUE = "s1"  # of everything seen; the law has its own
LAW = "s0"


def html(f: Fit) -> str:
    """Return the page of a fit as HTML text."""
    title = esc(f.name)
    body = [
        "<header>",
        '<p class="kicker">Equipoise <span aria-hidden="true">·</span> What a log says</p>',
        f"<h1>{title}</h1>",
        *(f'<p class="deck">{page.pretty(s)}</p>' for s in _reading(f)),
        "</header>",
        "<main>",
        f'<section><div class="scroll">{_facts(f)}</div></section>',
        *_figures(f),
        _servers(f),
        _method(f),
        "</main>",
    ]
    parts = [part for part in body if part]
    return page.document(title, parts, version("equipoise"), _STYLE, script=False)


_STYLE = """
.told td { white-space: normal; } .told th { font-weight: 650; }
.law { fill: none; stroke: var(--c); stroke-width: 2; }
.dot { fill: var(--c); opacity: .75; } .even { stroke: var(--soft); stroke-dasharray: 4 4; }
"""


def summary(f: Fit) -> str:
    """Return the table of facts alone, for a notebook's cell."""
    style = (
        ".eq-fit :is(td,th){text-align:left;vertical-align:top;padding:.2em 1em .2em 0}"
        ".eq-fit table{border-collapse:collapse}"
    )
    return f'<div class="eq-fit"><style>{style}</style>{_facts(f)}</div>'


def _reading(f: Fit) -> list[str]:
    """The scenario in a sentence, and what is missing for one."""
    from .fit import _scenario_sentence, _when

    mean = f"{number(round(f.stream.total))} tasks, {_when(f)}"
    return [f"{mean}.", f"Scenario: {_scenario_sentence(f)}."]


def _facts(f: Fit) -> str:
    from .fit import text_rows

    rows = "".join(
        f'<tr><th scope="row">{esc(head)}</th><td>{page.pretty(text)}</td></tr>'
        for head, text in text_rows(f)
    )
    return f'<table class="told"><caption>What was found</caption><tbody>{rows}</tbody></table>'


# --- Figures -------------------------------------------------------------------------------------

Draw = Callable[[Size], str]


def _figure(name: str, title: str, words: str, draw: Draw, csv: str) -> str:
    art = "".join(
        svg(size, draw(size), title, kind=kind)
        for size, kind in ((WIDE, "wide"), (NARROW, "narrow"))
    )
    return (
        f'<figure id="{name}" aria-labelledby="{name}-title">'
        f'<figcaption><h2 id="{name}-title">{esc(title)}</h2><p>{page.pretty(words)}</p>'
        f'</figcaption><div class="art">{art}</div>'
        f'<p class="tools">{page.download(f"{name}.csv", csv, "Data as CSV")}</p></figure>'
    )


def _csv(names: Sequence[str], *columns: Sequence[float] | np.ndarray) -> str:
    return csv_text([names, *zip(*(np.asarray(c).tolist() for c in columns), strict=True)])


def _figures(f: Fit) -> list[str]:
    out = [_rate(f)]
    if f.rates.daily is not None:
        out.append(_daily(f))
    if f.bursts.scales:
        out.append(_bursts(f))
    if f.service is not None:
        out += [_tail(f), _qq(f)]
    if f.concurrency is not None:
        out.append(_concurrency(f))
    return out


def _path(xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray) -> str:
    return "M" + "L".join(f"{num(x)} {num(y)}" for x, y in zip(xs, ys, strict=True))


def _steps(edges: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a step function, float64[2 k] each."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def _over_time(size: Size, span: float, high: float) -> tuple[Scale, Scale, str]:
    """Return both scales from 0 and the grid of a figure over time."""
    left, top, right, bottom = size.inside
    x, y = Scale(0.0, span, left, right), Scale(0.0, high or 1.0, bottom, top)
    unit, seconds = time_axis(span)
    about = 8 if size.width > 500 else 4
    marks = [(t * seconds, number(t)) for t in time_ticks(span, seconds, about)]
    rules = [(v, number(v)) for v in ticks(0.0, y.high, 5)]
    return x, y, grid(size, x, y, marks, rules, unit)


def _band(x: Scale, y: Scale, xs: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    there = [(x(a), y(b)) for a, b in zip(xs, high, strict=True)]
    back = [(x(a), y(b)) for a, b in zip(xs[::-1], low[::-1], strict=True)]
    points = there + back
    return f'<path class="band" d="{_path([p[0] for p in points], [p[1] for p in points])}Z"/>'


def _rate(f: Fit) -> str:
    r = f.rates
    edges = np.append(np.arange(r.rate.size) * r.width, min(f.stream.span, r.rate.size * r.width))

    def draw(size: Size) -> str:
        # the band of a bin that is nearly empty must not flatten all others
        top = min(float(r.high.max()), 3 * float(r.rate.max()) or 1.0)
        x, y, out = _over_time(size, float(edges[-1]), 1.05 * top)
        xs, middle = _steps(edges, r.rate)
        _, low = _steps(edges, r.low)
        _, high = _steps(edges, np.minimum(r.high, y.high))
        line = _path([x(v) for v in xs], [y(v) for v in middle])
        return (
            f'{out}<g class="{HUE}">{_band(x, y, xs, low, high)}'
            f'<path class="line thin" d="{line}" style="stroke-dasharray:none"/></g>'
        )

    csv = _csv(["start_s", "tasks_per_s", "low", "high"], edges[:-1], r.rate, r.low, r.high)
    said = "constant as far as the log shows" if r.constant else "it changes"
    return _figure(
        "rate", "How many come",
        f"Tasks per second in bins of {number(r.width)} s, with 95 % intervals; {said}.", draw, csv,
    )  # fmt: skip


def _daily(f: Fit) -> str:
    d = f.rates.daily
    assert d is not None

    def draw(size: Size) -> str:
        left, top, right, bottom = size.inside
        high = float(np.nanmax(d.rate + np.nan_to_num(d.error)))
        x, y = Scale(0, 24, left, right), Scale(0, 1.05 * high, bottom, top)
        hours = range(0, 25, 3 if size.width > 500 else 6)
        out = grid(size, x, y, [(h, f"{h}:00") for h in hours],
                   [(v, number(v)) for v in ticks(0, y.high)], "hour of the day, UTC")  # fmt: skip
        marks = []
        for hour, (rate, error) in enumerate(zip(d.rate, d.error, strict=True)):
            if math.isnan(rate):
                continue
            at = num(x(hour + 0.5))
            e = 0.0 if math.isnan(error) else error
            marks.append(
                f'<path class="bar" d="M{at} {num(y(max(rate - e, 0)))}V{num(y(rate + e))}"/>'
                f'<circle class="mark" cx="{at}" cy="{num(y(rate))}" r="4"/>'
            )
        return f'{out}<g class="{HUE}">{"".join(marks)}</g>'

    csv = _csv(["hour_utc", "tasks_per_s", "error"], range(24), d.rate, d.error)
    return _figure("day", "The shape of a day",
                   f"Tasks per second by the hour, over {d.days} days, with 95 % intervals.",
                   draw, csv)  # fmt: skip


def _log_log(
    size: Size,
    low: tuple[float, float],
    high: tuple[float, float],
    title: str,
    shares: bool = False,
) -> tuple[Scale, Scale, str]:
    left, top, right, bottom = size.inside
    x = Scale(low[0], high[0], left, right, "log")
    y = Scale(low[1], high[1], bottom, top, "log")
    about = 7 if size.width > 500 else 4
    name = percent if shares else _power
    return x, y, grid(size, x, y, [(v, _power(v)) for v in log_ticks(x.low, x.high, about)],
                      [(v, name(v)) for v in log_ticks(y.low, y.high, 5)], title)  # fmt: skip


def _power(v: float) -> str:
    return number(v) if 1e-3 <= v < 1e6 else f"{v:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _bursts(f: Fit) -> str:
    scales = [s for s in f.bursts.scales if s.index > 0]

    def draw(size: Size) -> str:
        widths = [s.width for s in scales]
        seen = [max(v, 0.05) for s in scales for v in (s.index, s.local)]
        x, y, out = _log_log(size, (widths[0], min([*seen, 0.5])),
                             (max(widths[-1], 2 * widths[0]), 1.3 * max([*seen, 2.0])),
                             "seconds of a bin")  # fmt: skip
        left, _, right, _ = size.inside
        one = num(y(1.0))
        out += f'<line class="even" x1="{num(left)}" x2="{num(right)}" y1="{one}" y2="{one}"/>'
        for kind, hue in (("index", HUE), ("local", LAW)):
            values = [max(getattr(s, kind), 0.05) for s in scales]
            line = _path([x(w) for w in widths], [y(v) for v in values])
            dots = "".join(
                f'<circle class="mark" cx="{num(x(w))}" cy="{num(y(v))}" r="3.5"/>'
                for w, v in zip(widths, values, strict=True)
            )
            out += f'<g class="{hue}"><path class="law" d="{line}"/>{dots}</g>'
        return out

    names = ["seconds", "dispersion", "local_dispersion", "standard_errors"]
    keys = ("width", "index", "local", "deviation")
    csv = _csv(names, *([getattr(s, key) for s in f.bursts.scales] for key in keys))
    return _figure(
        "bursts", "How even they come",
        "Index of dispersion, the variance of counts over their mean, in bins of so many seconds: "
        "of all bins (blue), and between neighbours (orange), where slow changes of the rate drop "
        "out. Single tasks at a constant rate are at 1; batches are above it from the start; a "
        "rate that changes makes it rise.",
        draw, csv,
    )  # fmt: skip


def _tail(f: Fit) -> str:
    s = f.service
    assert s is not None
    shares, seen, _ = s.quantiles
    x_values = np.geomspace(max(float(seen[0]), 1e-9), float(seen[-1]) * 1.3, 300)
    by_law = 1 - below_of(s.law, x_values)

    def draw(size: Size) -> str:
        least = max(1e-5, 0.5 * float(1 - shares[-1]))
        x, y, out = _log_log(size, (float(x_values[0]), least), (float(x_values[-1]), 1.0),
                             "seconds", shares=True)  # fmt: skip
        inside = by_law >= least
        line = _path([x(v) for v in seen], [y(1 - p) for p in shares])
        law = _path([x(v) for v in x_values[inside]], [y(v) for v in by_law[inside]])
        return (
            f'{out}<g class="{HUE}"><path class="line" d="{line}" style="stroke-dasharray:none;'
            f'stroke-width:5;opacity:.45"/></g><g class="{LAW}"><path class="law" d="{law}"/></g>'
        )

    csv = _csv(["seconds", "share_longer"], seen, 1 - shares)
    return _figure(
        "service", "How long they take",
        f"Share of tasks that take longer: seen (blue, broad) and by the law, {s.law.name} "
        f"(orange). Kolmogorov distance {s.law.distance:.3g}.",
        draw, csv,
    )  # fmt: skip


def _qq(f: Fit) -> str:
    s = f.service
    assert s is not None
    shares, seen, law = s.quantiles
    good = (seen > 0) & (law > 0)
    shares, seen, law = shares[good], seen[good], law[good]

    def draw(size: Size) -> str:
        low = float(min(seen.min(), law.min()))
        high = float(max(seen.max(), law.max())) * 1.1 or 1.0
        low = min(low, high / 2)
        x, y, out = _log_log(size, (low, low), (high, high), f"seconds by the law, {s.law.name}")
        out += (f'<line class="even" x1="{num(x(low))}" y1="{num(y(low))}" x2="{num(x(high))}" '
                f'y2="{num(y(high))}"/>')  # fmt: skip
        dots = "".join(
            f'<circle class="dot" cx="{num(x(a))}" cy="{num(y(b))}" r="2.6"/>'
            for a, b in zip(law, seen, strict=True)
        )
        return f'{out}<g class="{HUE}">{dots}</g>'

    csv = _csv(["share", "seen_s", "law_s"], shares, seen, law)
    return _figure(
        "quantiles", "Does the law fit?",
        "Quantiles of the times that were seen (up) against those of the law (across): on the "
        "dashed line they agree. The last points are few tasks each.",
        draw, csv,
    )  # fmt: skip


def _concurrency(f: Fit) -> str:
    c = f.concurrency
    assert c is not None

    def draw(size: Size) -> str:
        x, y, out = _over_time(size, float(c.edges[-1]), 1.05 * float(c.top.max(initial=1)))
        xs, mean = _steps(c.edges, c.mean)
        _, top = _steps(c.edges, c.top)
        line = _path([x(v) for v in xs], [y(v) for v in mean])
        left, _, right, _ = size.inside
        at = num(y(min(c.little, y.high)))
        return (
            f'{out}<g class="{HUE}">{_band(x, y, xs, mean, top)}<path class="line thin" d="{line}" '
            f'style="stroke-dasharray:none"/></g><line class="even" x1="{num(left)}" '
            f'x2="{num(right)}" y1="{at}" y2="{at}"/>'
        )

    csv = _csv(["start_s", "mean", "most"], c.edges[:-1], c.mean, c.top)
    return _figure(
        "concurrency", "How many are there at once",
        "Tasks present, all servers together: the line is the mean over each piece of the time, "
        f"the band reaches up to the most. Dashed: rate times mean duration (Little), "
        f"{number(float(f'{c.little:.4g}'))}.",
        draw, csv,
    )  # fmt: skip


# --- Tables --------------------------------------------------------------------------------------


def _servers(f: Fit) -> str:
    if f.fleet is None:
        return ""
    from .fit import _num, _pm

    rows = []
    for i, s in enumerate(f.fleet.servers[:MOST_SERVERS]):
        mean = "" if math.isnan(s.mean) else _pm(s.mean, s.error)
        speed = "too few" if math.isnan(s.speed_error) else _pm(s.speed, s.speed_error)
        group = f.fleet.groups[s.group]
        rows.append(
            f'<tr><th scope="row">{esc(f.server_name(i))}</th><td>{s.tasks:,}</td>'
            f"<td>{page.pretty(mean)}</td><td>{page.pretty(speed)}</td>"
            f"<td>{_num(group.speed, 3)}</td></tr>"
        )
    more = len(f.fleet.servers) - len(rows)
    note = f'<p class="asides">and {more:,} more</p>' if more > 0 else ""
    return (
        '<section><h2>The servers</h2><div class="scroll" tabindex="0" role="region" '
        'aria-label="Table of servers"><table><caption>Speed is told against the mean of all '
        "servers; the last column is that of the group a server is put into</caption><thead><tr>"
        '<th scope="col">Server</th><th scope="col">Tasks</th><th scope="col">Mean time '
        '<span class="unit">s</span></th><th scope="col">Speed</th><th scope="col">Taken as</th>'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}</section>"
    )


def _method(f: Fit) -> str:
    fields = "".join(
        f"<dt>{esc(field.name)}</dt><dd>{esc(field.meaning)}</dd>"
        for field in f.log.format.fields
        if field.used
    )
    if fields:
        fields = f'<h3>Fields of the log that were used</h3><dl class="meant">{fields}</dl>'
    try:
        scenario = f"<pre>{esc(f.to_toml())}</pre>" if not f.missing else ""
    except EquipoiseError:
        scenario = ""
    told = f"<details open><summary>The scenario</summary>{scenario}</details>" if scenario else ""
    laws = ""
    if f.service is not None and f.service.candidates:
        best = f.service.candidates[0].bic
        rows = "".join(
            f'<tr><th scope="row">{esc(c.name)}</th><td>{c.free}</td><td>{c.bic - best:,.1f}</td>'
            f"<td>{c.distance:.3g}</td><td>{c.mean:.4g}</td><td>{c.scv:.3g}</td></tr>"
            for c in f.service.candidates
        )
        laws = (
            '<h3>Laws that were tried</h3><div class="scroll"><table><thead><tr>'
            '<th scope="col">Law</th><th scope="col">Parameters</th><th scope="col">BIC above the '
            'best</th><th scope="col">Kolmogorov distance</th><th scope="col">Mean, s</th>'
            f'<th scope="col">scv</th></tr></thead><tbody>{rows}</tbody></table></div>'
        )
    command = f"<dt>Command</dt><dd>{page.command(f.command)}</dd>" if f.command else ""
    return (
        '<section class="method" aria-labelledby="method"><h2 id="method">How this was found</h2>'
        f'{laws}<div class="columns"><div>{fields}</div><div><h3>To do it again</h3>'
        '<dl class="again">'
        f"{command}<dt>Version</dt><dd>equipoise {esc(version('equipoise'))}</dd></dl>"
        "<p>Addresses, paths and user agents of the log are not kept.</p></div></div>"
        f"{told}</section>"
    )
