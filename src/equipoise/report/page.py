"""The comparison as one HTML file that can be mailed: no network, no missing pieces.

The reading and the table first, then the figures large and plain, then how it was
measured. Readable without scripts; `page.js` adds values on hover, `page.css` both
colour schemes, phone and paper. Words and numbers are those of `table.py`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import quote

from equipoise.report import figures, table
from equipoise.report.figures import Drawing, esc
from equipoise.report.palette import LOOKS, looks
from equipoise.report.results import MESSAGE_KINDS, Simulation

if TYPE_CHECKING:
    from equipoise.report.results import Comparison, PolicyResult

# What every number means, in the order in which they are told.
DEFINITIONS = {
    "imbalance": "Tasks that would have to move to even out the tasks now present, per server; "
    "half the sum over servers of the distance to the balanced state of the same total, "
    "averaged over time.",
    "mean_neighbours": "Other tasks at the server of a task, averaged over tasks and time.",
    "p99_neighbours": "One task in a hundred, over time, shares its server with this many others "
    "or more.",
    "mean_response": "From a task's arrival to its end, waiting included.",
    "mean_wait": "From a task's arrival to the start of its service.",
    "p50_response": "Half of the tasks take this long or less.",
    "p99_response": "One task in a hundred takes this long or longer.",
    "p99_wait": "One task in a hundred waits this long or longer.",
    "max_tasks": "The most tasks ever seen at one server in a run.",
    "mean_tasks": "Tasks present, over servers and time.",
    "utility": "The mean over tasks and time of a concave function of 1/x, x being the tasks at "
    "the task's server.",
    "messages_per_task": "All messages between servers and dispatcher, for each task that "
    "arrived; a question and its answer are two.",
    "lost": "Tasks that met a full server and never got in.",
    "announcements": "Times in one run that the dispatcher told a new threshold to all servers.",
    "threshold_changes": "Times in one run that the threshold moved.",
    "last_change": "When the threshold moved last, from the start of the run.",
    "throughput": "Tasks finished per second, all servers together.",
    "memory": "What the dispatcher keeps for each server; a length or an estimate counts 32 bits.",
}


def html(comparison: Comparison) -> str:
    """Return the page of a comparison (or of a single simulation) as HTML text."""
    c = comparison
    title = esc(c.scenario.name or "Comparison")
    kind = "One policy, simulated" if isinstance(c, Simulation) else "Policies compared"
    body = [
        "<header>",
        f'<p class="kicker">Equipoise <span aria-hidden="true">·</span> {kind}</p>',
        f"<h1>{title}</h1>",
        *(f'<p class="deck">{pretty(s)}</p>' for s in table.reading(c)),
        _facts(c),
        "</header>",
        "<main>",
        _table_section(c),
        *drawn_figures(c),
        _method(c),
        "</main>",
    ]
    return document(title, body, c.version)


def document(
    title: str, body: list[str], version: str, style: str = "", script: bool = True
) -> str:
    """Return one self-contained page around a body; `title` is HTML already, `style` more CSS.

    `script` has values shown on hover, in figures that have them.
    """
    assets = resources.files("equipoise.report")
    css = palette_css() + assets.joinpath("page.css").read_text(encoding="utf-8")
    js = assets.joinpath("page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="Equipoise {esc(version)}">\n'
        f"<title>{title} · Equipoise</title>\n<style>\n{css}{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + (f"\n<script>\n{js}</script>" if script else "")
        + "\n</body>\n</html>\n"
    )


def notebook_table(comparison: Comparison) -> str:
    """Return the table alone, with the little styling it needs, for a notebook's cell."""
    words = " ".join(pretty(s) for s in table.reading(comparison))
    style = (
        "<style>"
        + palette_css(".eq-table")
        + ".eq-table table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        ".eq-table :is(td,th){text-align:left;padding:.25em .9em .25em 0;white-space:nowrap}"
        ".eq-table thead th{border-bottom:1px solid currentColor;vertical-align:bottom}"
        ".eq-table :is(.unit,.error){opacity:.65;font-weight:normal}"
        ".eq-table .unit{display:block}.eq-table tr.first :is(td,th){font-weight:600}"
        ".eq-table caption{text-align:left;padding-bottom:.4em}"
        ".eq-table .where{width:120px;height:16px;overflow:visible}"
        ".eq-table :is(.bar,.stem){stroke:var(--c);fill:none;stroke-width:2}"
        ".eq-table .stem{opacity:.3}.eq-table .mark{fill:var(--c)}"
        ".eq-table .key{display:none}"
        "</style>"
    )
    return f'<div class="eq-table">{style}{_table(comparison)}<p>{words}</p></div>'


# Pieces.


def pretty(sentence: str) -> str:
    """A sentence with the signs that HTML has and a terminal may lack."""
    return (
        esc(sentence)
        .replace(" +- ", "\u00a0\u00b1\u00a0")
        .replace(" %", "\u2009%")
        .replace("&#x27;", "\u2019")
    )


def _facts(c: Comparison) -> str:
    rows = table.header(c)
    facts = [cell for row in rows for cell in row][1:]
    return f'<ul class="facts">{"".join(f"<li>{pretty(f)}</li>" for f in facts)}</ul>'


def _table_section(c: Comparison) -> str:
    asides = "".join(f"<p>{pretty(s)}</p>" for s in [*_ties_told(c), *table.asides(c)])
    link = download("estimates.csv", c.to_csv(), "All estimates as CSV")
    return (
        '<section aria-labelledby="numbers"><h2 id="numbers" class="hidden">The numbers</h2>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table of results">'
        f'{_table(c)}</div><div class="asides">{asides}</div><p class="tools">{link}</p></section>'
    )


def _ties_told(c: Comparison) -> list[str]:
    if table.ties(c) is None:
        return []
    return [
        f"Intervals after +- hold at {100 * c.confidence:g} %. Ties with the best are judged by "
        f"differences paired by replication, at {100 * c.confidence:g} % for all of them together "
        "(Holm)."
    ]


def _table(c: Comparison) -> str:
    several = len(c.stable) > 1
    cols = [
        col
        for col in table.columns(c, digits=1)
        if not (several and col.same and col.key != c.rank_by)
    ]
    slots = looks(c.policies)
    heads = "".join(
        f'<th scope="col">{esc(capital(col.head))} <span class="unit">{esc(col.unit)}</span></th>'
        + ('<th scope="col" class="picture"><span class="hidden">Picture</span></th>' * (i == 0))
        for i, col in enumerate(cols)
    )
    if not cols:
        heads = '<th scope="col">Result</th>'
    marks = _interval_marks(c, slots)
    said = table.remarks(c)
    aligned = [
        [(esc(value), error) for value, error in col.cells]
        if col.key == "memory"
        else _figure_spaces(col.cells)
        for col in cols
    ]
    rows = []
    for i, p in enumerate(c.stable):
        slot = slots[c.policies.index(p)]
        cells = []
        for j in range(len(cols)):
            value, error = aligned[j][i]
            plus = f' <span class="error">\u00b1\u2009{error}</span>' if error else ""
            cells.append(f"<td>{value}{plus}</td>")
            if j == 0:
                cells.append(f'<td class="picture">{marks[i]}</td>')
        short = table.short_name(c, p)
        params = p.label[len(short) :].strip("()") if p.label.startswith(short) else ""
        told = [params, said[i]] if p.label != short else [said[i]]
        remark = ' <span aria-hidden="true">\u00b7</span> '.join(esc(t) for t in told if t)
        remark = f' <span class="remark">{remark}</span>' if remark else ""
        first = ' class="first"' if i == 0 and several else ""
        rows.append(
            f'<tr{first}><th scope="row" data-label="{esc(p.label)}">{key(slot)}'
            f"{esc(short)}{remark}</th>"
            f"{''.join(cells)}</tr>"
        )
    across = len(cols) + 1 if cols else 1
    for p in c.policies:
        if p.unstable is not None:
            slot = slots[c.policies.index(p)]
            rows.append(
                f'<tr class="refused"><th scope="row">{key(slot)}{esc(p.label)}</th>'
                f'<td colspan="{across}">not run: {esc(p.unstable)}</td></tr>'
            )
    caption = "Policies, the best first" if several else "What the policy did"
    return (
        f"<table><caption>{caption}</caption>"
        f'<thead><tr><th scope="col">Policy</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def key(slot: int) -> str:
    """A policy's line and marker, as in the figures."""
    return (
        f'<svg class="key" viewBox="0 0 34 14" aria-hidden="true">'
        f'<path class="line s{slot}" d="M1 7H33"/>{figures.marker(slot, 17, 7, 4.2)}</svg>'
    )


def _figure_spaces(cells: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Values padded by spaces as wide as a digit or a point, so that points line up."""
    parts = [value.partition(".") if value[:1].isdigit() else ("", "", "") for value, _ in cells]
    before = max(len(whole) for whole, _, _ in parts)
    after = max(len(fraction) for _, _, fraction in parts)
    out = []
    for (value, error), (whole, dot, fraction) in zip(cells, parts, strict=True):
        if not whole:
            out.append((esc(value), error))
            continue
        lead = "\u2007" * (before - len(whole))
        tail = "\u2007" * (after - len(fraction)) + ("\u2008" if after and not dot else "")
        out.append((lead + esc(value) + tail, error))
    return out


def _interval_marks(c: Comparison, slots: list[int]) -> list[str]:
    values = [p.metrics.get(c.rank_by) for p in c.stable]
    known = [e.value for e in values if e is not None]
    if not known:
        return [""] * len(values)
    scale = figures.spread_scale(known, 0, 112)
    return [
        ""
        if e is None
        else figures.interval_mark(slots[c.policies.index(p)], e.value, e.error, scale)
        for p, e in zip(c.stable, values, strict=True)
    ]


def drawn_figures(c: Comparison) -> list[str]:
    pool = table.is_pool(c)
    what, unit = figures.cost_axis(c)
    shape = [
        (
            "over-time",
            "Tasks per server, over time",
            "The first run, server by server: the line is the mean over all servers, the band "
            "reaches from the emptiest to the fullest. The narrower the band, the more even.",
            figures.paths(c),
        ),
        (
            "distribution",
            "How crowded a task's server is" if pool else "How long a task takes",
            "Share of tasks that have at least so many others at their server, over time. "
            "Lower and further left is better."
            if pool
            else "Share of tasks that take longer than so many seconds. Both axes are "
            "logarithmic, so that the slow few can be seen. Lower and further left is better.",
            figures.distribution(c),
        ),
        (
            "cost",
            "What it costs",
            f"{capital(what)}{f' ({unit})' if unit else ''} against messages per task, with "
            f"{100 * c.confidence:g} % intervals; beside the name, the dispatcher's memory per "
            "server. The thin line links the policies that nothing at their cost or less does "
            "better.",
            figures.cost(c),
        ),
        (
            "threshold",
            "What the threshold learnt",
            "The threshold in the first run, and the tasks per server offered to the fleet "
            "behind it. A threshold that learns should follow the load.",
            figures.thresholds(c),
        ),
    ]
    drawn = [(name, title, words, d) for name, title, words, d in shape if d is not None]
    return [_figure(c, name, title, words, d) for name, title, words, d in drawn]


def _figure(c: Comparison, name: str, title: str, words: str, drawing: Drawing) -> str:
    slots = dict(zip((p.label for p in c.policies), looks(c.policies), strict=True))
    if drawing.panels:
        panels = "".join(
            f'<div class="cell"><h3 class="s{slots[p.label]}" title="{esc(p.label)}">'
            f'{esc(table.short_name(c, p))}</h3><p class="now" data-rest="{esc(remark)}">'
            f"{esc(remark)}</p>{picture}</div>"
            for (p, remark), picture in zip(drawing.panels, drawing.pictures, strict=True)
        )
        key = (
            '<p class="legend"><span><i class="swatch band"></i>emptiest to fullest server</span>'
            '<span><i class="swatch line"></i>mean</span>'
            '<span><i class="swatch offered"></i>offered load</span></p>'
        )
        art = (
            f'{key}<div class="panels">{panels}</div><p class="axis-words">{esc(drawing.words)}</p>'
        )
    else:
        art = f'<div class="art">{"".join(drawing.pictures)}</div>'
    extra = _threshold_time(c) if name == "threshold" else ""
    link = download(f"{name}.csv", drawing.csv, "Data as CSV")
    return (
        f'<figure id="{name}" aria-labelledby="{name}-title">'
        f'<figcaption><h2 id="{name}-title">{pretty(title)}</h2>'
        f"<p>{pretty(words)}</p></figcaption>"
        f'{art}{extra}<p class="tools">{link}</p></figure>'
    )


def _threshold_time(c: Comparison) -> str:
    """Where each learning threshold spent its time, in words."""
    out = []
    for p in c.stable:
        if figures.learns(p) and p.threshold_time:
            often = sorted(p.threshold_time.items(), key=lambda item: -item[1])
            told = [f"{x} for {table.plain(100 * f, 2)} %" for x, f in often[:4] if f >= 0.005]
            changes = p.metrics.get("threshold_changes")
            sentence = f"{table.short_name(c, p)} stood at {', '.join(told)} of the time"
            if changes is not None:
                sentence += f" and moved {table.pm(changes.value, changes.error)} times in a run"
            out.append(f"<p>{pretty(sentence)}.</p>")
    return f'<div class="asides">{"".join(out)}</div>' if out else ""


def download(name: str, csv: str, words: str) -> str:
    data = quote(csv, safe=",.-+:()=_ ").replace(" ", "%20")
    return f'<a class="csv" download="{name}" href="data:text/csv;charset=utf-8,{data}">{words}</a>'


def _method(c: Comparison) -> str:
    metrics = {name for p in c.stable for name in p.metrics} | {"memory"}
    meant = "".join(
        f"<dt>{esc(capital(_called(name)))}</dt><dd>{pretty(words)}</dd>"
        for name, words in DEFINITIONS.items()
        if name in metrics
    )
    facts = [
        ("Command", command(c.command)),
        ("Seed", esc(c.seed)),
        ("Runs", _runs(c)),
        ("Kernel", _kernel(c)),
        ("Versions", esc(", ".join(f"{k} {v}" for k, v in _versions(c).items()))),
    ]
    told = "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in facts if v)
    scenario = esc(json.dumps(c.to_json()["scenario"], indent=2, ensure_ascii=False))
    return (
        '<section class="method" aria-labelledby="method">'
        '<h2 id="method">How this was measured</h2>'
        f'<div class="columns"><div><h3>Assumed</h3><ul>{assumed(c)}</ul>'
        f'<h3>To run it again</h3><dl class="again">{told}</dl></div>'
        f'<div><h3>What the numbers mean</h3><dl class="meant">{meant}</dl></div></div>'
        f"<h3>Policies</h3>{_policies(c)}"
        f"<details><summary>The scenario in full</summary><pre>{scenario}</pre></details>"
        "</section>"
    )


def command(words: str) -> str:
    """A command that breaks between words only: a browser would part the two hyphens of --seed."""
    inside = " ".join(f"<span>{esc(word)}</span>" for word in words.split(" "))
    return f"<code>{inside}</code>" if words else ""


def _called(metric: str) -> str:
    from equipoise.report.results import METRICS

    return METRICS[metric][0] if metric in METRICS else metric


def _versions(c: Comparison) -> dict[str, str]:
    return {"equipoise": c.version, **{k: v for k, v in c.versions.items() if k != "equipoise"}}


def _runs(c: Comparison) -> str:
    arrived = max((p.tasks.get("arrived", 0) for p in c.stable), default=0)
    words = table.replications(c)
    if arrived:
        words += f", {figures.number(arrived)} tasks under each policy in all"
    if c.warm_up > 0:
        words += f"; the first {table.plain(c.warm_up, 3)} s of each left out"
    return esc(words)


def _kernel(c: Comparison) -> str:
    words = c.kernel
    if c.events:
        words += f", {figures.number(c.events)} events"
    if c.seconds > 0:
        words += f" in {table.plain(c.seconds, 2)} s"
    return esc(words)


def assumed(c: Comparison) -> str:
    given = {
        "traffic": "Arrivals and sizes of tasks are given by a trace; intervals speak of the "
        "policies' own randomness in front of this traffic, not of other days.",
        "arrivals": "Arrivals are given by a trace; sizes are drawn from the service law.",
        None: "Arrivals and sizes are drawn from the scenario's laws; every policy meets the "
        "same laws.",
    }
    work = (
        "A server works on all its tasks at once, each as fast as if it were alone."
        if table.is_pool(c)
        else "A server works on its tasks in the order of their arrival."
    )
    points = [
        "Servers are identical. A task goes to one of them at once, and stays.",
        work,
        given.get(c.given, given[None]),
        "Messages take no time and none is lost.",
    ]
    if c.scenario.dispatchers.several:
        heard = (
            "counts its own tasks and knows of no other's"
            if c.scenario.dispatchers.own
            else "hears what every server tells, and each message to each of them is counted"
        )
        points.append(
            f"Each task comes to one of {c.scenario.dispatchers.count} dispatchers, which {heard}."
        )
    if c.kernel == "events":
        points.append(
            "All policies meet the very same tasks in a replication, so that differences are "
            "known better than the values."
        )
    return "".join(f"<li>{pretty(p)}</li>" for p in points)


def _policies(c: Comparison) -> str:
    rows = []
    slots = looks(c.policies)
    for p, slot in zip(c.policies, slots, strict=True):
        sent = "".join(f"<td>{_message(p, kind)}</td>" for kind in MESSAGE_KINDS)
        rows.append(
            f'<tr><th scope="row">{key(slot)}{esc(p.label)}</th>{sent}'
            f"<td>{esc(table.bits(p.memory_bits))}</td>"
            f'<td class="long">{esc(p.cost)}</td><td class="long">{esc(p.source)}</td></tr>'
        )
    kinds = "".join(f'<th scope="col">{capital(k)}</th>' for k in MESSAGE_KINDS)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of policies"><table>'
        "<caption>Messages per task by kind: when a task joins or leaves a server, by the clock, "
        "in answer to an announcement, and by asking</caption>"
        f'<thead><tr><th scope="col">Policy</th>{kinds}<th scope="col">Memory</th>'
        '<th scope="col">Promised cost</th><th scope="col">Source</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _message(p: PolicyResult, kind: str) -> str:
    return "" if p.unstable is not None else table.plain(p.messages.get(kind, 0.0), 3)


def palette_css(root: str = ":root") -> str:
    """The colours of `palette.py` as variables, light and dark."""
    light = "".join(f"--l{i}:{k.light};--w{i}:{k.words};" for i, k in enumerate(LOOKS))
    dark = "".join(f"--l{i}:{k.dark};--w{i}:{k.dark};" for i, k in enumerate(LOOKS))
    pre = "" if root == ":root" else f"{root} "
    use = "".join(
        f"{pre}.s{i}{{--c:var(--l{i});--w:var(--w{i});"
        f"--dash:{k.dash.replace(' ', ',') or 'none'}}}\n"
        for i, k in enumerate(LOOKS)
    )
    return (
        f"{root}{{{light}}}\n@media screen and (prefers-color-scheme:dark){{{root}{{{dark}}}}}\n"
        f"{use}"
    )
