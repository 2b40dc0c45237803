"""The advice as one HTML file: the answer, the evidence for it, what would change it.

The frame, the colours and the figures are those of a comparison's page (page.py). The rows of the
answer are those of the terminal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...stats import Estimate
from ..figures import esc
from ..page import assumed, capital, command, document, download, drawn_figures, key, pretty
from ..palette import looks
from ..results import METRICS, csv_text
from ..table import bits, pm
from .race import OPEN, SAME, WORSE

if TYPE_CHECKING:
    from .answer import Advice, Entry

TOLD = {
    "advised": "use this",
    SAME: "as good, costs more",
    OPEN: "not decided",
    WORSE: "surely worse",
    "messages": "too many messages",
    "now": "used now",
}
TOP = ("Use", "Instead of")  # said above the list


def html(advice: Advice) -> str:
    """Return the page of a piece of advice."""
    a = advice
    title = esc(a.scenario.name or "Advice")
    rows = dict(a.rows())
    decks = [f"Use {a.advised}."]
    if "Instead of" in rows:
        decks.append(f"Instead of {rows['Instead of']}.")
    body = [
        "<header>",
        '<p class="kicker">Equipoise <span aria-hidden="true">·</span> Advice</p>',
        f"<h1>{title}</h1>",
        *(f'<p class="deck">{pretty(words)}</p>' for words in decks),
        _facts(a),
        "</header>",
        "<main>",
        _answer(a),
        _evidence(a),
        _changes(a),
        _fleet(a),
        _configuration(a),
        *drawn_figures(a.comparison),
        _method(a),
        "</main>",
    ]
    return document(title, [part for part in body if part], a.version)


def notebook(advice: Advice) -> str:
    """Return the rows of the answer as a table, for a notebook's cell."""
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{esc(label)}</th>'
        f'<td style="text-align:left">{pretty(words)}</td></tr>'
        for label, words in advice.rows()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _facts(a: Advice) -> str:
    facts = [cell for line in a._head() for cell in line.split("     ")][1:]
    return f'<ul class="facts">{"".join(f"<li>{pretty(f)}</li>" for f in facts)}</ul>'


def _answer(a: Advice) -> str:
    rows = "".join(
        f"<dt>{esc(label)}</dt><dd>{pretty(words)}</dd>"
        for label, words in a.rows()
        if label not in TOP
    )
    return (
        '<section class="method" aria-labelledby="answer"><h2 id="answer" class="hidden">The answer'
        f'</h2><dl class="meant">{rows}</dl></section>'
    )


def _evidence(a: Advice) -> str:
    """Everything that was simulated, the best first, and what was not, with the reason."""
    what, unit = METRICS[a.metric]
    order = [r.label for r in a.comparison.policies]
    slots = dict(zip(order, looks(a.comparison.policies), strict=True))
    rows = []
    for e in a.entries:
        first = ' class="first"' if e.label == a.advised else ""
        # a look only for those that the figures show
        mark = key(slots[e.label]) if e.label in slots else '<svg class="key"></svg>'
        now = " · used now" if e.label == a.current and e.standing != "now" else ""
        rows.append(
            f'<tr{first}><th scope="row">{mark}{esc(e.label)} '
            f'<span class="remark">{esc(TOLD[e.standing] + now)}</span></th>'
            f"<td>{_value(a, e, a.metric)}</td><td>{_against(a, e)}</td>"
            f"<td>{_sent(e)}</td><td>{esc(bits(e.spec.policy.memory))}</td>"
            f"<td>{e.replications}</td></tr>"
        )
    for x in a.excluded:
        if x.label not in {e.label for e in a.entries}:
            rows.append(
                f'<tr class="refused"><th scope="row">{esc(x.label)}</th>'
                f'<td colspan="5">not run: {pretty(x.reason)}</td></tr>'
            )
    heads = "".join(
        f'<th scope="col">{esc(capital(head))} <span class="unit">{esc(below)}</span></th>'
        for head, below in (
            (what, "" if unit == "s" else unit),  # times have theirs beside them
            ("above the advised", "paired difference"),
            ("messages", "per task"),
            ("memory", "per server"),
            ("runs", "on the same tasks"),
        )
    )
    return (
        '<section aria-labelledby="evidence"><h2 id="evidence">The evidence</h2>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Policies simulated"><table>'
        "<caption>Policies, the best first; the more runs, the longer a policy was in the race"
        f'</caption><thead><tr><th scope="col">Policy</th>{heads}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="tools">'
        f"{download('policies.csv', _csv(a), 'All estimates as CSV')}</p></section>"
    )


def _value(a: Advice, e: Entry, metric: str) -> str:
    return pretty(a.in_unit(metric, e.result.metrics[metric]))


def _against(a: Advice, e: Entry) -> str:
    if e.against is None or not math.isfinite(e.against.value):
        return ""
    return pretty(a.amount(e.against))


def _sent(e: Entry) -> str:
    sent = e.result.metrics["messages_per_task"]
    return "none" if sent.value == 0 else pretty(pm(sent.value, sent.error, 1))


def _csv(a: Advice) -> str:
    rows: list[tuple[object, ...]] = [("policy", "standing", "metric", "value", "error")]
    for e in a.entries:
        for name, x in e.result.metrics.items():
            if math.isfinite(x.value):
                error = repr(float(x.error)) if math.isfinite(x.error) else ""
                rows.append((e.label, e.standing, name, repr(float(x.value)), error))
    return csv_text(rows)


def _changes(a: Advice) -> str:
    if not a.changes:
        return ""
    labels = list(dict.fromkeys(label for c in a.changes for label in (*c.values, *c.unstable)))
    rows = []
    for c in a.changes:
        cells = "".join(
            f"<td>{'does not carry it' if label in c.unstable else ''}"
            f"{pretty(a.in_unit(a.metric, c.values[label])) if label in c.values else ''}</td>"
            for label in labels
        )
        verdict = "holds" if c.holds else f"{c.better}" if c.better else (c.note or "nobody")
        rows.append(
            f'<tr><th scope="row">{esc(capital(c.words))} <span class="remark" '
            f'style="padding-left:0">{esc(verdict)}</span></th>{cells}</tr>'
        )
    heads = "".join(f'<th scope="col">{esc(label)}</th>' for label in labels)
    return (
        '<section aria-labelledby="changes"><h2 id="changes">What would change it</h2>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Changes"><table>'
        f"<caption>{esc(capital(METRICS[a.metric][0]))} of the advised policy and its rivals, with "
        f'the parameters they have, on the same tasks</caption><thead><tr><th scope="col">Change'
        f"</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _fleet(a: Advice) -> str:
    rows = []
    for fleet in (a.fleet, a.fleet_now):
        for t in fleet.tried if fleet is not None else ():
            assert fleet is not None
            value = "does not carry the load"
            if t.value is not None:
                value = a.in_unit(fleet.goal.metric, t.value)
            verdict = (
                "enough" if t.enough else "not decided, taken as too few" if t.open else "too few"
            )
            rows.append(
                f'<tr><th scope="row">{t.servers} servers</th><td>{esc(t.label)}</td>'
                f"<td>{pretty(value)}</td><td>{verdict}</td></tr>"
            )
    if not rows or a.fleet is None:
        return ""
    return (
        '<section aria-labelledby="fleet"><h2 id="fleet">The smallest fleet</h2>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Sizes tried"><table>'
        f"<caption>Sizes tried for {pretty(a.fleet.goal.words)}</caption><thead><tr>"
        '<th scope="col">Fleet</th><th scope="col">Policy</th><th scope="col">'
        f"{esc(capital(METRICS[a.fleet.goal.metric][0]))}</th>"
        f'<th scope="col">Verdict</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        "</section>"
    )


def _configuration(a: Advice) -> str:
    text = a.configuration()
    return (
        '<section class="method" aria-labelledby="configuration"><h2 id="configuration">'
        f"The configuration to use</h2><pre>{esc(text)}</pre></section>"
    )


def _method(a: Advice) -> str:
    confidence = f"{100 * a.confidence:g} %"
    points = [
        "Every policy meets the same tasks in a run, so that differences are known better than "
        "values.",
        f"What surely does worse was dropped, the others ran on. All intervals of the race hold "
        f"together with {confidence} (Bonferroni, over all pairs and looks).",
        f"Differences below {a.amount(_margin(a))} do not matter: they are ties, and among ties "
        "the cheapest is advised, by messages, then memory, then announcements.",
        f"The budget is {a.budget / 1e6:g} million tasks, of which {a.spent / 1e6:.3g} were "
        "simulated; seconds are not counted, so the same seed gives the same answer.",
    ]
    told = "".join(f"<li>{pretty(p)}</li>" for p in points)
    again = f"<dt>Command</dt><dd>{command(a.command)}</dd>" if a.command else ""
    return (
        '<section class="method" aria-labelledby="method"><h2 id="method">How this was decided</h2>'
        f'<div class="columns"><div><h3>The race</h3><ul>{told}</ul></div>'
        f"<div><h3>Assumed</h3><ul>{assumed(a.comparison)}</ul><h3>To run it again</h3>"
        f'<dl class="again">{again}<dt>Seed</dt><dd>{a.seed}</dd></dl></div></div></section>'
    )


def _margin(a: Advice) -> Estimate:
    return Estimate(a.standing.margin, math.nan)
