"""The comparison as text: a table, what it says in a sentence or two, and what to do next.

`columns` decides what is shown and in which unit, `reading` puts the result into
words, `ties` says who is as good as the best; the page uses the same three, so that
the terminal, a notebook and the page never disagree.

A line of text is a list of (string, style) so that one layout serves a pipe (styles
dropped) and a terminal (rich applies them).
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from equipoise.report.results import HIGHER_IS_BETTER, METRICS, Difference
from equipoise.stats import Estimate

if TYPE_CHECKING:
    from equipoise.report.results import Comparison, PolicyResult, Simulation

Line = list[tuple[str, str]]  # (text, rich style)

WIDTH = 120
POOL_COLUMNS = ("imbalance", "mean_neighbours", "p99_neighbours", "max_tasks")
QUEUE_COLUMNS = ("mean_response", "mean_wait", "p99_response", "max_tasks")
# Given up in this order when the table is too wide for its place.
EXPENDABLE = (
    *("max_tasks", "mean_wait", "p99_neighbours", "p99_response", "lost", "memory"),
    *("mean_neighbours", "messages_per_task"),
)

BEST, TIES, CHEAPER, FRONT = "best", "ties with the best", "ties, costs less", "best at this cost"
MARKS = {BEST: "*", TIES: "=", CHEAPER: "=", FRONT: "+", "": ""}
MEANING = {
    "*": "best",
    "=": "not different from the best",
    "+": "best of those that cost as much or less",
}


@dataclass(frozen=True)
class Column:
    """One quantity under all policies that were run, in rank order."""

    key: str  # the metric's name, or "memory"
    head: str
    unit: str
    cells: tuple[tuple[str, str], ...]  # (value, error), "" where there is none

    @property
    def same(self) -> str | None:
        """What every policy has, if they all have the same; else None."""
        first = self.cells[0]
        return " +- ".join(filter(None, first)) if set(self.cells) == {first} else None


# Numbers.


def rounded(value: float, error: float, digits: int = 2) -> tuple[str, str]:
    """Return the two as text, rounded to the error's `digits` significant digits.

    With `digits = 1` an error that begins with 1, 2 or 3 keeps its second digit all the
    same (the Particle Data Group's rule): 87 +- 13, not 90 +- 10. An error that is 0
    (every replication gave the same) or NaN (there is only one) is "", and the value then
    has four significant digits.

    >>> rounded(0.63971, 0.02491)
    ('0.640', '0.025')
    >>> rounded(12346.0, 678.9)
    ('12350', '680')
    """
    if not math.isfinite(value):
        return "", ""
    if not math.isfinite(error) or error <= 0:
        return plain(value), ""
    if digits == 1 and float(f"{error:.2e}"[:4]) < 3.55:
        digits = 2
    error = float(f"{error:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(error))
    shown = max(decimals, 0)
    return f"{round(value, decimals):.{shown}f}", f"{round(error, decimals):.{shown}f}"


def plain(value: float, digits: int = 4) -> str:
    """Return a number with that many significant digits and no exponent where that is readable.

    >>> plain(12345.6), plain(0.5), plain(2e-7)
    ('12346', '0.5', '2e-07')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10**digits:
        return f"{value:.0f}" if abs(value) < 1e9 else f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}"


def pm(value: float, error: float, digits: int = 2) -> str:
    """Return "value +- error", or the value alone where there is no error."""
    return " +- ".join(filter(None, rounded(value, error, digits)))


def time_unit(largest: float) -> tuple[str, float]:
    """Return the unit in which times up to `largest` seconds read well, and its size in seconds.

    >>> time_unit(0.02)
    ('ms', 0.001)
    """
    if not math.isfinite(largest) or largest <= 0 or largest >= 1:
        return "s", 1.0
    return ("ms", 1e-3) if largest >= 1e-3 else ("us", 1e-6)


def in_unit(
    comparison: Comparison, metric: str, value: float, error: float
) -> tuple[float, float, str]:
    """Return a metric's value and error in the unit it is shown in, and that unit's name."""
    _, unit = METRICS.get(metric, (metric, ""))
    if unit == "s":
        times = [
            p.metrics[m].value
            for p in comparison.stable
            for m in p.metrics
            if METRICS.get(m, ("", ""))[1] == "s" and m != "last_change"
        ]
        unit, size = time_unit(max(times, default=1.0))
        return value / size, error / size, unit
    if metric == "lost":
        return 100 * value, 100 * error, "% of arrivals"
    return value, error, unit


def shown(comparison: Comparison, metric: str, estimate: Estimate | Difference) -> str:
    """Return an estimate or difference with its unit, as in a sentence."""
    value, error, unit = in_unit(comparison, metric, estimate.value, estimate.error)
    return f"{pm(value, error, 1)} {unit}".strip()


def bits(memory: float) -> str:
    """Return memory per server in words."""
    if memory == 0:
        return "none"
    return "1 bit" if memory == 1 else f"{memory:g} bits"


# What to say.


def is_pool(comparison: Comparison) -> bool:
    """Whether servers work on all their tasks at once, so that nobody waits."""
    return comparison.scenario.servers.discipline == "pool"


def columns(comparison: Comparison, digits: int = 2) -> list[Column]:
    """Return the columns that answer the question: what is ranked by, its relatives, the costs."""
    run = comparison.stable
    if not run:
        return []
    keys = POOL_COLUMNS if is_pool(comparison) else QUEUE_COLUMNS
    first = comparison.rank_by
    out = []
    for key in dict.fromkeys((first, *keys, "lost", "messages_per_task")):
        if not any(key in p.metrics for p in run):
            continue
        head, unit = METRICS.get(key, (key, ""))
        cells = []
        for p in run:
            estimate = p.metrics.get(key)
            if estimate is None:
                cells.append(("", ""))
                continue
            value, error, unit = in_unit(comparison, key, estimate.value, estimate.error)
            cells.append(rounded(value, error, digits))
            unit = "tasks" if key == "max_tasks" else unit
        out.append(Column(key, head, unit, tuple(cells)))
    memory = tuple((bits(p.memory_bits), "") for p in run)
    out.append(Column("memory", "memory", "per server", memory))
    return out


def ties(comparison: Comparison) -> frozenset[str] | None:
    """Return the labels of policies not significantly different from the best.

    Each policy is tested against the best by its differences paired by replication
    (Student), and Holm's step-down rule keeps the chance of a single false "different"
    below 1 - confidence over all of them. The best itself is not among them. None when
    nothing can be tested: one replication, or no differences.
    """
    best = comparison.best
    if best is None or comparison.replications < 2:
        return None
    from scipy.special import stdtr, stdtrit

    freedom = comparison.replications - 1
    half = stdtrit(freedom, 0.5 + comparison.confidence / 2)
    chances = []
    for p in comparison.stable[1:]:
        d = comparison.difference(best.label, p.label)
        if d is None or not math.isfinite(d.error):
            continue
        if d.error > 0:
            chance = 2.0 * float(stdtr(freedom, -abs(d.value) / (d.error / half)))
        else:
            chance = 1.0 if d.value == 0 else 0.0
        chances.append((chance, p.label))
    if not chances:
        return None
    chances.sort()
    for i, (chance, _) in enumerate(chances):
        if chance > (1 - comparison.confidence) / (len(chances) - i):
            return frozenset(label for _, label in chances[i:])
    return frozenset()


def front(comparison: Comparison) -> frozenset[str]:
    """Return the labels of policies that nothing at their cost in messages or less does better."""
    out = []
    for p in comparison.stable:
        mine = _cost_and_rank(comparison, p)
        if mine is None:
            continue
        others = (_cost_and_rank(comparison, q) for q in comparison.stable if q is not p)
        # A hair more messages (0.98 against 0.97) is the same cost.
        if not any(o and o[0] <= 1.02 * mine[0] + 0.005 and o[1] <= mine[1] for o in others):
            out.append(p.label)
    return frozenset(out)


def _cost_and_rank(comparison: Comparison, p: PolicyResult) -> tuple[float, float] | None:
    """Messages per task, and the metric ranked by turned so that less is better."""
    cost, value = p.metrics.get("messages_per_task"), p.metrics.get(comparison.rank_by)
    if cost is None or value is None:
        return None
    sign = -1 if comparison.rank_by in HIGHER_IS_BETTER else 1
    return cost.value, sign * value.value


def remarks(comparison: Comparison) -> list[str]:
    """Return what to say beside each policy that was run: best, a tie, best at its cost, or ""."""
    tied = ties(comparison) or frozenset()
    cheapest = front(comparison)
    best = comparison.best
    out = []
    for p in comparison.stable:
        if p is best:
            out.append(BEST)
        elif p.label in tied:
            out.append(CHEAPER if p.label in cheapest else TIES)
        else:
            out.append(FRONT if p.label in cheapest else "")
    return out if len(out) > 1 else [""] * len(out)


def reading(comparison: Comparison) -> list[str]:
    """Return one or two sentences on what was found, from the data alone."""
    best = comparison.best
    if best is None:
        return ["No policy could be run; the reasons are above."]
    if comparison.rank_by not in best.metrics:
        return []
    if len(comparison.stable) == 1:
        return []
    return [s for s in (_leader(comparison, best), _laggard(comparison, best)) if s]


def _leader(c: Comparison, best: PolicyResult) -> str:
    """Who is best, and how close the cheapest way to nearly the same comes."""
    what = METRICS.get(c.rank_by, (c.rank_by, ""))[0]
    most = "highest" if c.rank_by in HIGHER_IS_BETTER else "lowest"
    tied = ties(c)
    full = next((p for p in c.stable if p.name == "jsq"), None)
    cheap = next((p for p in c.stable[1:] if _cheaper(p, best)), None)
    value = shown(c, c.rank_by, best.metrics[c.rank_by])

    def name(p: PolicyResult) -> str:
        return short_name(c, p)

    if cheap is not None and tied is not None and cheap.label in tied:
        d = c.difference(cheap.label, best.label)
        assert d is not None  # ties() found it
        return (
            f"{name(cheap)} cannot be told apart from {name(best)} "
            f"({what} {value}; difference {shown(c, c.rank_by, d)}) "
            f"and costs less: {_price(cheap, best)}."
        )
    even = [p for p in c.stable if tied and p.label in tied]
    sentence = f"{name(best)} has the {most} {what}, {value}"
    if len(even) == 1:
        sentence += f", and {name(even[0])} cannot be told apart from it"
    elif even:
        sentence += f", and {len(even)} others cannot be told apart from it"
    rival = full if full is not None and full is not best else c.stable[1]
    if cheap is not None:
        d = c.difference(cheap.label, best.label)
        more = "less" if c.rank_by in HIGHER_IS_BETTER else "more"
        if d is None:
            return f"{sentence}; {name(cheap)} costs less: {_price(cheap, best)}."
        size = Difference(d.a, d.b, d.metric, abs(d.value), d.error)
        base = abs(best.metrics[c.rank_by].value)
        share = f" ({plain(100 * size.value / base, 2)} %)" if base > 0 else ""
        return (
            f"{sentence}; {name(cheap)} has {shown(c, c.rank_by, size)} {more}{share}"
            f" and costs less: {_price(cheap, best)}."
        )
    d = c.difference(rival.label, best.label)
    if d is None:
        return f"{sentence}."
    return f"{sentence}; {name(rival)} differs by {shown(c, c.rank_by, d)}."


def _cheaper(p: PolicyResult, than: PolicyResult) -> bool:
    """Whether `p` sends about as many messages at most, and asks for clearly less of something."""
    mine, theirs = p.metrics.get("messages_per_task"), than.metrics.get("messages_per_task")
    if mine is None or theirs is None:
        return p.memory_bits < than.memory_bits
    fewer = mine.value < 0.9 * theirs.value
    as_few = mine.value <= 1.1 * theirs.value
    return (as_few and p.memory_bits < than.memory_bits) or (
        fewer and p.memory_bits <= than.memory_bits
    )


def _price(p: PolicyResult, than: PolicyResult) -> str:
    """What `p` costs, against what `than` does."""
    parts = []
    if p.memory_bits != than.memory_bits:
        of = "no memory" if p.memory_bits == 0 else bits(p.memory_bits)
        parts.append(f"{of} per server instead of {bits(than.memory_bits)}")
    mine, theirs = p.metrics.get("messages_per_task"), than.metrics.get("messages_per_task")
    if mine is not None and theirs is not None:
        ours, other = plain(mine.value, 3), plain(theirs.value, 3)
        against = f"instead of {other}" if ours != other else "under both"
        parts.append(f"{ours} messages per task {against}")
    return ", ".join(parts)


def _laggard(c: Comparison, best: PolicyResult) -> str:
    """Who crowds or delays most, and by how much."""
    last = c.stable[-1]
    tied = ties(c)
    if last is best or tied is None or last.label in tied:
        return ""
    if is_pool(c) and "p99_neighbours" in last.metrics and "p99_neighbours" in best.metrics:
        theirs, ours = last.metrics["p99_neighbours"], best.metrics["p99_neighbours"]
        if theirs.value > ours.value:
            return (
                f"Most crowded is {short_name(c, last)}: one task in a hundred shares its server "
                f"with {pm(theirs.value, theirs.error, 1)} others or more, against "
                f"{pm(ours.value, ours.error, 1)} under {short_name(c, best)}."
            )
    if "mean_response" in last.metrics and "mean_response" in best.metrics:
        theirs, ours = last.metrics["mean_response"], best.metrics["mean_response"]
        if theirs.value > ours.value > 0:
            sentence = (
                f"Slowest is {short_name(c, last)}: a task takes "
                f"{shown(c, 'mean_response', theirs)} on average"
            )
            if theirs.value > 1.2 * ours.value:
                times = plain(theirs.value / ours.value, 2)
                sentence += f", {times} times as long as under {short_name(c, best)}"
            tail = last.metrics.get("p99_response")
            if tail is not None:
                sentence += f", and one in a hundred {shown(c, 'p99_response', tail)} or more"
            return sentence + "."
    return ""


def header(comparison: Comparison) -> list[list[str]]:
    """Return the facts above the table, in two rows of three."""
    c = comparison
    servers = c.scenario.servers
    scale = getattr(getattr(c.scenario, "arrivals", None), "scale", 1)
    kind = str(servers.discipline)
    if kind == "fcfs":
        workers = getattr(servers, "workers", 1)
        kind += f", {workers} worker{'s' * (workers != 1)} each"
    if kind == "ps":
        workers, curve = getattr(servers, "workers", None), getattr(servers, "curve", None)
        kind += f", at most {workers} share" if workers else ""
        kind += ", speed by a curve" if curve else ""
    if getattr(servers, "limit", None):
        kind += f", at most {servers.limit} tasks"
    count = f"{servers.count} server{'s' * (servers.count != 1)} ({kind}){dispatchers(c)}"
    mean, least, most = c.scenario.offered_load()
    load = plain(mean, 3)
    if plain(least, 3) != plain(most, 3):
        load += f" ({plain(least, 3)} to {plain(most, 3)})"
    offered = f"offered {load} tasks per server" if is_pool(c) else f"load {load}"
    runs = f"{replications(c)}, seed {c.seed}"
    kernel = f"{c.kernel} kernel"
    if c.seconds > 0 and c.events > 0:
        kernel += f", {_speed(c.events / c.seconds)}"
    sure = f"intervals are {plain(100 * c.confidence)} %"
    if c.replications < 2:
        known = any(math.isfinite(e.error) for p in c.stable for e in p.metrics.values())
        sure += ", from batches of one run" if known else ""
        sure = sure if known else "one replication: no intervals"
    return [
        [c.scenario.name, f"scale {plain(scale)}, {count}" if scale != 1 else count, offered],
        [runs, kernel, sure],
    ]


def dispatchers(comparison: Comparison) -> str:
    """Return how many dispatchers there are, for the end of a fact; "" if there is one."""
    found = comparison.scenario.dispatchers
    if not found.several:
        return ""
    return f", {found.count} dispatchers{' (own counts)' * found.own}"


def replications(comparison: Comparison) -> str:
    """Return how many replications there are, of how many, or which one it is."""
    c = comparison
    run = getattr(c.scenario, "run", None)
    asked = c.replications if run is None or run.precision is not None else run.replications
    words = f"{c.replications} replication{'s' * (c.replications != 1)}"
    if asked == c.replications or not c.numbers:
        return words
    if c.interrupted:
        return f"{c.replications} of {asked} replications"
    return f"replication {c.numbers[0]} alone"


def _speed(rate: float) -> str:
    if rate >= 1e6:
        return f"{plain(rate / 1e6, 2)} million events/s"
    return f"{plain(rate / 1e3, 2)} thousand events/s" if rate >= 1e3 else f"{rate:.0f} events/s"


def asides(comparison: Comparison) -> list[str]:
    """Return what has to be said once: the same for all, what was given, warm-up, notes."""
    c = comparison
    out = []
    if len(c.stable) > 1:
        same = [f"{col.head} {col.same}" for col in columns(c) if col.same]
        if same:
            out.append(f"The same for all: {', '.join(same)}.")
    given = {
        "traffic": "Given this traffic: arrivals and sizes come from a trace, so replications "
        "differ in the policies' own randomness only.",
        "arrivals": "Given these arrivals: they come from a trace; replications differ in the "
        "sizes of tasks and in the policies' own randomness.",
    }
    if c.given in given:
        out.append(given[c.given])
    if c.warm_up > 0:
        out.append(f"The first {plain(c.warm_up, 3)} s of every run are left out.")
    return out + list(c.notes)


# Layout.


def text(comparison: Comparison, width: int = WIDTH, page: str | None = None) -> str:
    """Return the table and what belongs to it as plain text.

    Parameters
    ----------
    width
        Characters per line; from 80 up nothing is wider.
    page
        Path of the page that was written, to be told.
    """
    lines = compose(comparison, width, page)
    return "\n".join("".join(part for part, _ in line).rstrip() for line in lines)


def show(comparison: Comparison, page: str | None = None, file: TextIO | None = None) -> None:
    """Print the table to `file` (standard output), in colour where it is a terminal."""
    file = sys.stdout if file is None else file
    if not file.isatty():
        print(text(comparison, page=page), file=file)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False)
    width = max(40, min(console.width, WIDTH))
    for line in compose(comparison, width, page):
        console.print(Text.assemble(*line), soft_wrap=True)


def compose(comparison: Comparison, width: int = WIDTH, page: str | None = None) -> list[Line]:
    """Return the lines of the whole answer, each a list of (text, style)."""
    lines = _header_lines(comparison, width)
    lines.append([])
    if comparison.stable:
        table, said = _fitting(comparison, width)
        lines += table
    else:
        said = []
    lines += _refused(comparison, width)
    for sentence in said + asides(comparison):
        lines += _wrapped(sentence, width, style="dim")
    sentences = reading(comparison)
    if sentences:
        lines.append([])
        lines += _wrapped(" ".join(sentences), width, lead="Reading: ")
    lines += _ending(comparison, width, page)
    return lines


def simulation_text(simulation: Simulation) -> str:
    """Return every estimate of one policy, a line each, under the facts of the run."""
    lines: list[str] = [
        "".join(part for part, _ in line).rstrip() for line in _header_lines(simulation, WIDTH)
    ]
    policy = simulation.policy
    lines += ["", policy.label]
    if policy.unstable is not None:
        return "\n".join([*lines, f"  not run: {policy.unstable}"])
    rows = []
    for name, e in policy.metrics.items():
        _, unit = METRICS.get(name, ("", ""))
        rows.append((name, *rounded(e.value, e.error), unit))
    heads = _widths([(r[0],) for r in rows])
    numbers = _aligned([(r[1], r[2]) for r in rows])
    for row, number in zip(rows, numbers, strict=True):
        lines.append(f"  {row[0]:<{heads[0]}}   {number}   {row[3]}".rstrip())
    messages = [f"{k} {plain(v, 3)}" for k, v in policy.messages.items() if v]
    if messages:
        lines.append(f"  messages per task: {', '.join(messages)}")
    if policy.threshold_time:
        spent = [f"{x}: {100 * f:.3g} %" for x, f in sorted(policy.threshold_time.items())]
        lines.append(f"  time at each threshold: {', '.join(spent)}")
    if policy.tasks:
        counts = ", ".join(f"{n} {what}" for what, n in policy.tasks.items())
        lines.append(f"  tasks in all runs: {counts}")
    lines.append(f"  memory per server: {bits(policy.memory_bits)}")
    lines += ["", *asides(simulation)]
    if simulation.command:
        lines.append(f"Same again: {simulation.command}")
    return "\n".join(lines).rstrip()


def _header_lines(c: Comparison, width: int) -> list[Line]:
    rows = header(c)
    widths = _widths(rows)
    if sum(widths) + 10 <= width:
        lines: list[Line] = [
            [("     ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)), "dim")]
            for row in rows
        ]
    else:
        lines = []
        for row in rows:  # broken between facts, not inside one
            kept = "   ".join(cell.replace(" ", "\xa0") for cell in row)
            parts = textwrap.wrap(kept, width, break_on_hyphens=False)
            lines += [[(part.replace("\xa0", " "), "dim")] for part in parts]
    name = c.scenario.name
    whole = lines[0][0][0]
    if name and whole.startswith(name):
        lines[0] = [(name, "bold"), (whole[len(name) :], "dim")]
    return lines


def _fitting(c: Comparison, width: int) -> tuple[list[Line], list[str]]:
    """Lay the table out as rich in detail as `width` allows; say what had to go."""
    several = len(c.stable) > 1
    dropped: list[str] = []
    while True:
        for short, marks, digits, gap in (
            (False, False, 2, 3),
            (False, True, 2, 3),
            (True, False, 2, 3),
            (True, True, 2, 3),
            (True, True, 2, 2),
            (True, True, 1, 2),
        ):
            cols = [
                col
                for col in columns(c, digits)
                if col.key not in dropped and not (several and col.same and col.key != c.rank_by)
            ]
            lines = _table(c, cols, short, marks, gap)
            if max(sum(len(part) for part, _ in line) for line in lines) <= width:
                return lines, _legend(c, short, marks, dropped, width)
        left = [k for k in EXPENDABLE if any(col.key == k for col in cols) and k != c.rank_by]
        if not left:  # a terminal narrower than a label and a number: let it wrap
            return lines, _legend(c, True, True, dropped, width)
        dropped.append(left[0])


def _table(c: Comparison, cols: list[Column], short: bool, marks: bool, gap: int) -> list[Line]:
    said = remarks(c)
    names = [short_name(c, p) if short else p.label for p in c.stable]
    first = max(len("policy"), *map(len, names))
    space = " " * gap
    blocks = []
    for col in cols:
        body = [cell[0] for cell in col.cells] if col.key == "memory" else _aligned(col.cells)
        w = max(len(col.head), len(col.unit), *map(len, body))
        blocks.append((w, col, [f"{cell:<{w}}" for cell in body]))
    indent = "  " if marks else ""
    lines: list[Line] = [
        [(indent + f"{'policy':<{first}}", "bold")]
        + [(f"{space}{col.head:<{w}}", "bold") for w, col, _ in blocks],
        [(indent + " " * first, "")] + [(f"{space}{col.unit:<{w}}", "dim") for w, col, _ in blocks],
    ]
    for i, (name, remark) in enumerate(zip(names, said, strict=True)):
        style = "bold" if remark == BEST else ""
        line: Line = [(f"{MARKS[remark]:<2}", "green")] if marks else []
        line.append((f"{name:<{first}}", style))
        line += [(space + body[i], style) for _, _, body in blocks]
        if not marks and remark:
            line.append((space + remark, "green"))
        lines.append(line)
    return lines


def short_name(c: Comparison, p: PolicyResult) -> str:
    """Return a policy's bare name where only one has it, else its label."""
    return p.name if sum(q.name == p.name for q in c.policies) == 1 else p.label


def _legend(c: Comparison, short: bool, marks: bool, dropped: list[str], width: int) -> list[str]:
    out = []
    used = list(dict.fromkeys(MARKS[r] for r in remarks(c) if r))
    if marks and used:
        out.append(";  ".join(f"{m} {MEANING[m]}" for m in used) + ".")
    if ties(c) is not None:
        out.append(
            f"Ties are judged by differences paired by replication, at {100 * c.confidence:g} % "
            "for all together (Holm)."
        )
    if short:
        full = [p.label for p in c.policies if short_name(c, p) != p.label]
        if full:
            out.append(f"In full: {', '.join(full)}.")
    if dropped:
        heads = [next(col.head for col in columns(c) if col.key == k) for k in dropped]
        out.append(f"Left out to fit {width} columns: {', '.join(heads)}.")
    return out


def _refused(c: Comparison, width: int) -> list[Line]:
    lines: list[Line] = []
    for p in c.policies:
        if p.unstable is not None:
            lines += _wrapped(f"not run: {p.unstable}", width, lead=f"{p.label}   ")
    return lines


def _ending(c: Comparison, width: int, page: str | None) -> list[Line]:
    parts = [f"Page: {page}"] if page else []
    if c.command:
        parts.append(f"Same again: {c.command}")
    one = "     ".join(parts)
    # A command that is to be copied is never broken.
    return [[(line, "")] for line in ([one] if len(one) <= width else parts) if line]


def _wrapped(sentence: str, width: int, lead: str = "", style: str = "") -> list[Line]:
    kept = (lead + sentence).replace(" +- ", "\xa0+-\xa0").replace(" %", "\xa0%")
    rows = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False) or [""]
    rows = [row.replace("\xa0", " ") for row in rows]
    lines: list[Line] = [[(row, style)] for row in rows]
    if lead:
        lines[0] = [(lead, "bold"), (rows[0][len(lead) :], style)]
    return lines


def _aligned(cells: Iterable[tuple[str, str]]) -> list[str]:
    """Return "value +- error" texts with decimal points below each other, and the +- too."""
    cells = list(cells)
    points = [value.partition(".") for value, _ in cells]
    before = max((len(whole) for whole, _, _ in points), default=0)
    after = max((len(dot + fraction) for _, dot, fraction in points), default=0)
    out = []
    for (whole, dot, fraction), (_, error) in zip(points, cells, strict=True):
        value = f"{whole:>{before}}{dot + fraction:<{after}}"
        out.append(f"{value} +- {error}" if error else value)
    width = max(map(len, out), default=0)
    return [f"{cell:<{width}}" for cell in out]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
