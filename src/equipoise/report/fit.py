"""From a log to a scenario: `fit`, and what it found.

What a log says about rates, bursts, the service law, the servers and tasks at once is found by
`logs`; here it becomes a scenario whose every number tells how sure it is and where it came from.
The scenario *is* the text that `to_toml` returns, read again: there is no second way to it.

Nothing of a log that could name a person is kept: no address, path or user agent. Servers are
called server-1, server-2, .. in the order in which the log first names them, unless their names
are asked for; of a line that was skipped only its number and the reason are told.
"""

from __future__ import annotations

import math
import os
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EquipoiseError, ScenarioError, TraceError
from ..logs.bursts import Bursts, find_bursts
from ..logs.concurrency import Concurrency, find_concurrency
from ..logs.fleet import Fleet, find_fleet
from ..logs.laws import FEWEST, LAWS, ServiceFit, fit_service
from ..logs.rates import Rates, find_rates
from ..logs.read import Log, read_log
from ..logs.stream import Stream
from ..logs.tables import Mapping as Columns
from .files import check_target, write_atomic

if TYPE_CHECKING:
    from ..logs.tasks import Tasks
    from ..scenario import Scenario

SHAPES = ("auto", "constant", "log", "daily")
MOST_TASKS = 2_000_000  # of a run that a fitted scenario asks for
MOST_SIZES = 30  # of batches that are written one by one
WIDTH = 98


@dataclass(frozen=True)
class Fit:
    """What a log says, and the scenario that follows.

    `print(fit)` tells it in a screenful, `page` draws it, `save` writes the scenario.
    """

    name: str  # of the file, without its folder
    log: Log
    stream: Stream
    rates: Rates
    bursts: Bursts
    service: ServiceFit | None  # None where the log has too few times, or a law was given
    fleet: Fleet | None
    concurrency: Concurrency | None
    given: dict[str, Any]  # what the user said: servers, discipline, workers, service, shape
    names: bool = False  # whether servers are called as in the log
    command: str = ""

    @property
    def tasks(self) -> Tasks | None:
        """The table of tasks as it was read; None where only counts are known."""
        return self.log.tasks

    @property
    def missing(self) -> tuple[str, ...]:
        """What a scenario needs that neither the log nor the user has said; empty: nothing."""
        out = []
        if self.service is None and not self.given.get("service"):
            out.append("how long tasks take: --service 'exponential(mean=0.1)', or another law")
        if self.fleet is None and not self.given.get("servers"):
            out.append("how many servers there are: --servers 20")
        return tuple(out)

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario, checked.

        Raises
        ------
        TraceError
            If something is missing; `missing` says what.
        UnstableError
            If the servers cannot do what comes.
        """
        from ..scenario import Scenario

        return Scenario.from_dict(tomllib.loads(self.to_toml()))

    def to_toml(self) -> str:
        """Return the scenario as a commented TOML file. Raises `TraceError` as `scenario`."""
        if self.missing:
            raise TraceError(f"{self.name} does not say {'; nor '.join(self.missing)}")
        return _toml(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scenario, whole or not at all. Raises `EquipoiseError` where it cannot."""
        self.scenario  # noqa: B018  (what is wrong with it is said before a file is there)
        write_atomic(path, self.to_toml())

    def save_tasks(self, path: str | os.PathLike[str]) -> None:
        """Write the tasks as CSV, arrival and service in seconds, to be replayed by `--trace`.

        Tasks whose time is unknown are left out. Raises `TraceError` where none is known.
        """
        check_target(path)
        tasks = self.tasks
        known = np.isfinite(tasks.work) if tasks is not None else np.zeros(0, bool)
        if tasks is None or not known.any():
            raise TraceError(f"{self.name} does not say how long each task took; nothing to replay")
        rows = zip(tasks.arrival[known].tolist(), tasks.work[known].tolist(), strict=True)
        lines = "\n".join(f"{arrival:.6f},{work:.6g}" for arrival, work in rows)
        write_atomic(path, f"arrival,service\n{lines}\n")

    def page(self, path: str | os.PathLike[str]) -> None:
        """Write everything as one HTML file that can be mailed."""
        from .fit_page import html

        check_target(path)
        write_atomic(path, html(self))

    def server_name(self, i: int) -> str:
        """Return what server i of the log is called."""
        tasks = self.tasks
        return tasks.servers[i] if self.names and tasks is not None else f"server-{i + 1}"

    def to_json(self) -> dict[str, Any]:
        """Return all that was found, for other programs; times in seconds."""
        return _json(self)

    def __str__(self) -> str:
        return "\n".join(text_lines(self))

    def __repr__(self) -> str:
        return f"Fit({self.name!r}, {self.log.format.name}, {self.log.account.used:,} lines)"

    def _repr_html_(self) -> str:
        from .fit_page import summary

        return summary(self)


def fit(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: Columns | Mapping[str, Any] | None = None,
    servers: int | None = None,
    discipline: str | None = None,
    workers: int | None = None,
    service: str | None = None,
    law: str = "best",
    shape: str = "auto",
    bin: float | None = None,
    names: bool = False,
    rates_only: bool = False,
    on_progress: Callable[[float, str], None] | None = None,
    command: str = "",
) -> Fit:
    """Read a log and find what it says about traffic, service times and servers.

    Parameters
    ----------
    path
        An access log, a trace with named columns, or counts by time; gzipped or not.
    format
        A name of `equipoise.logs.FORMATS`, or a pattern such as '$time_iso8601 $request_time';
        None: found from the first lines.
    columns
        What the columns of a table mean: {"time": .., "service": .., ..}, keys as in
        `equipoise.logs.Mapping`. `service` may be seconds per unit by column:
        {"constant": 0.05, "GeneratedTokens": 0.02}.
    servers, discipline, workers
        How many servers there are and how they work, where the log does not say, or in its place.
    service
        A law in place of what the log says, as "lognormal(mean=0.2, scv=4)".
    law
        "best", "empirical", or the name of the law to fit.
    shape
        Of the rate in the scenario: "constant", as over the "log", "daily" (the hours of a day), or
        "auto": constant unless a test says that it is not, then as over the log.
    bin
        Width of the bins of the rate (s); None: found from the data.
    names
        Call servers as the log does, instead of server-1, server-2, ..
    rates_only
        Count requests per second instead of keeping a row for each.
    on_progress
        Told the part done, 0 to 1, and what is being done.

    Raises
    ------
    EquipoiseError
        `TraceError` or `ScenarioError`, one line: the file cannot be read, or an argument makes no
        sense.
    """
    if shape not in SHAPES:
        raise ScenarioError(f"shape = '{shape}': must be one of {', '.join(SHAPES)}")
    if law not in ("best", "empirical", "deterministic", *LAWS):
        raise ScenarioError(
            f"law = '{law}': must be best, empirical, deterministic or one of {', '.join(LAWS)}"
        )
    if servers is not None and servers < 1:
        raise ScenarioError(f"servers = {servers}: there must be at least one")
    if bin is not None and not 0 < bin < math.inf:
        raise ScenarioError(f"bin = {bin:g}: the seconds of a bin must be above 0")
    given: dict[str, Any] = {
        "servers": servers,
        "discipline": discipline,
        "workers": workers,
        "shape": shape,
    }
    given["service"] = _checked_service(service)
    told = on_progress or (lambda done, what: None)
    name = Path(path).name
    log = read_log(
        path, format, mapping=_mapping(columns), rates_only=rates_only,
        on_progress=lambda done: told(0.8 * done, f"reading {name}"),
    )  # fmt: skip
    told(0.8, "fitting")
    source = log.tasks if log.tasks is not None else log.counts
    assert source is not None
    stream = Stream.of(source)
    bursts = find_bursts(stream)
    rates = find_rates(stream, bursts.dispersion, bin)
    if shape == "daily" and rates.daily is None:
        raise TraceError(f"{name}: the shape of a day needs a log of two days at least")
    fleet, found, at_once = None, None, None
    if log.tasks is not None:
        fleet = find_fleet(log.tasks)
        at_once = find_concurrency(log.tasks, stream)
        told(0.85, "fitting the service law")
        if given["service"] is None:
            found = _service_of(log.tasks, fleet, law, servers)
    told(1.0, "done")
    return Fit(name, log, stream, rates, bursts, found, fleet, at_once,
               {k: v for k, v in given.items() if v is not None}, names, command)  # fmt: skip


def _mapping(columns: Columns | Mapping[str, Any] | None) -> Columns | None:
    if columns is None or isinstance(columns, Columns):
        return columns
    known = tuple(Columns.__dataclass_fields__)
    for key in columns:
        if key not in known:
            raise TraceError(f"columns: there is no '{key}'; there are {', '.join(known)}")
    return Columns(**columns)


def _checked_service(text: str | None) -> dict[str, Any] | None:
    """Return the table of a law that was given; wrong parameters are said at once."""
    if text is None:
        return None
    from ..scenario import Scenario
    from ..scenario.flags import parse_service

    table = parse_service(text)
    if table["law"] == "trace":
        raise ScenarioError("service = 'trace': a log's own times are used where none is given")
    Scenario.simple(servers=1, discipline="pool", load=1.0, service=text)
    return table


def _service_of(
    tasks: Tasks, fleet: Fleet | None, law: str, servers: int | None
) -> ServiceFit | None:
    """Return the law of service times at speed 1; None where too few are known."""
    work = tasks.work
    if np.isfinite(work).sum() < FEWEST:
        return None
    if fleet is not None and not fleet.identical and servers in (None, len(fleet.servers)):
        speed = np.append(fleet.speeds, 1.0)  # the last one for place -1: no server
        work = work * speed[tasks.server]
    return fit_service(work, law)


# --- The scenario --------------------------------------------------------------------------------


def _toml(f: Fit) -> str:
    stem = f.name.removesuffix(".gz").rpartition(".")[0] or f.name
    kind = f.log.format.name
    head = [
        f"# Fitted by Equipoise {version('equipoise')} to {f.name} ({kind}): {_count(f)}, "
        f"{_when(f)}.",
        "# Times are in seconds, rates in tasks per second. Intervals are 95 %.",
    ]
    if f.command:
        head.append(f"#     {f.command}")
    parts = [
        "\n".join(line for text in head for line in _wrapped(text)),
        f"name = {_quoted(stem)}",
        _servers_toml(f),
        _arrivals_toml(f),
        _service_toml(f),
        _rest_toml(f),
    ]
    return "\n\n".join(parts) + "\n"


def _servers_toml(f: Fit) -> str:
    out = ["[servers]"]
    named, given = f.fleet, f.given.get("servers")
    unequal = named is not None and not named.identical and given in (None, len(named.servers))
    if unequal:
        assert named is not None
        out += _wrapped(f"# {_fleet_sentence(f)}")
        groups = [f"{{count = {g.count}, speed = {_num(g.speed)}}}" for g in named.groups]
        told = ", ".join(
            "1 (those with most tasks)" if g.error == 0 else _pm(g.speed, g.error)
            for g in named.groups
        )
        out += [f"groups = [{', '.join(groups)}]", f"# speeds {told}"]
    elif given is not None:
        seen = f"; the log names {len(named.servers)}" if named is not None else ""
        out.append(_commented(f"count = {given}", f"as given{seen}"))
    else:
        assert named is not None
        out += _wrapped(f"# {_fleet_sentence(f)}")
        out.append(f"count = {len(named.servers)}")
    out += _discipline_toml(f)
    return "\n".join(out)


def _discipline(f: Fit) -> tuple[str, int | None, str]:
    """Return the discipline, workers, and why."""
    given, workers = f.given.get("discipline"), f.given.get("workers")
    bound = f.concurrency.workers if f.concurrency is not None else None
    if given is not None or workers is not None:
        return given or "fcfs", workers, "as given"
    if bound is not None:
        return (
            "fcfs",
            bound,
            (
                f"no server was seen with more than {bound} in service at once, where tasks that "
                "do not queue would often have made it more"
            ),
        )
    return (
        "pool",
        None,
        (
            "assumed: a server works on all its tasks at once. The log's times hold whatever "
            "waiting there was inside the servers; say --discipline fcfs --workers K, or ps, if "
            "they queue"
        ),
    )


def _discipline_toml(f: Fit) -> list[str]:
    discipline, workers, why = _discipline(f)
    out = [*_wrapped(f"# {why}"), f'discipline = "{discipline}"']
    return out if workers is None else [*out, f"workers = {workers}"]


def _shape(f: Fit) -> str:
    shape: str = f.given["shape"]
    return ("constant" if f.rates.constant else "log") if shape == "auto" else shape


def _arrivals_toml(f: Fit) -> str:
    r, shape = f.rates, _shape(f)
    out = ["[arrivals]"]
    if shape == "constant":
        out += _wrapped(f"# {_rate_sentence(f)}")
        told = f"{f.stream.total:,.0f} tasks in {_num(f.stream.span)} s"
        out += ['law = "poisson"', f"rate = {_num(r.mean)}  # {told}"]
    elif shape == "daily":
        assert r.daily is not None
        out += _wrapped(
            f"# The hours of the day, UTC, on average over {r.daily.days} days, with intervals "
            "over the days"
        )
        out += ['law = "rates"', "bin = 3600.0", "rates = ["]
        for hour, (rate, error) in enumerate(zip(r.daily.rate, r.daily.error, strict=True)):
            value = 0.0 if math.isnan(rate) else rate
            out.append(f"  {_num(value)},  # {hour:02d}:00, +- {_num(error, 2)}")
        out.append("]")
    else:
        out += _wrapped(f"# {_rate_sentence(f)}")
        out += ['law = "rates"', f"bin = {_num(r.width)}", "rates = [", *_rate_rows(f), "]"]
    return "\n".join([*out, *_batch_toml(f)])


def _rate_rows(f: Fit) -> Iterable[str]:
    """Ten rates a row, with when they begin and how far off they may be; one a row if few."""
    r = f.rates
    each = 1 if r.rate.size <= 48 else 10
    half = (r.high - r.low) / 2
    for first in range(0, r.rate.size, each):
        some = slice(first, first + each)
        text = ", ".join(_num(x, 5) for x in r.rate[some])
        if each == 1:
            told = f"{_num(r.low[first], 4)} to {_num(r.high[first], 4)}"
        else:
            told = f"+- {_num(float(half[some].mean()), 2)}"
        yield f"  {text},  # {_moment(f, first * r.width)}, {told}"


def _batch_toml(f: Fit) -> list[str]:
    b = f.bursts
    if b.kind != "batches" or b.ties is None:
        return []
    out = _wrapped(f"# {_bursts_sentence(f)}")
    if b.batch_sizes is not None and len(b.batch_sizes[0]) <= MOST_SIZES:
        sizes, shares = b.batch_sizes
        whole = [round(s, 6) for s in shares]
        largest = int(np.argmax(whole))
        whole[largest] = round(1 - sum(whole[:largest] + whole[largest + 1 :]), 6)
        out.append(f"batch = {{values = {list(sizes)}, probabilities = {whole}}}")
    else:
        out.append(f'batch = {{law = "geometric", mean = {_num(max(1.0, b.batch_mean))}}}')
    return out


def _service_toml(f: Fit) -> str:
    given = f.given.get("service")
    if given is not None:
        return "\n".join(
            ["[service]  # as given", *(f"{k} = {_value(v)}" for k, v in given.items())]
        )
    s = f.service
    assert s is not None
    out = ["[service]", *(line for text in _service_sentences(f) for line in _wrapped(f"# {text}"))]
    out.append(f'law = "{s.law.name}"')
    for key, value in s.law.params.items():
        errors = s.law.errors.get(key)
        told = ""
        if isinstance(errors, list) and not all(map(math.isnan, errors)):
            told = "+- " + ", ".join(_num(1.96 * e, 2) for e in errors)
        elif isinstance(errors, float) and not math.isnan(errors):
            told = f"+- {_num(1.96 * errors, 2)}"
        if s.law.name == "empirical":
            out += [f"{key} = [", *_rows_of(value), "]"]
        else:
            text = _shares(value) if key == "probabilities" and len(value) > 1 else _value(value)
            out.append(_commented(f"{key} = {text}", told))
    return "\n".join(out)


def _shares(values: Sequence[float]) -> str:
    """Probabilities of which the last makes the sum 1."""
    first = [round(v, 6) for v in values[:-1]]
    return f"[{', '.join(f'{v:.6f}' for v in [*first, 1 - sum(first)])}]"


def _rows_of(values: Sequence[float]) -> Iterable[str]:
    for first in range(0, len(values), 8):
        yield "  " + ", ".join(_num(v, 7) for v in values[first : first + 8]) + ","


def _rest_toml(f: Fit) -> str:
    discipline = _discipline(f)[0]
    out = []
    if f.tasks is not None and f.service is not None:
        out += [
            "# The tasks as they were: equipoise fit .. --tasks tasks.csv writes them, and",
            "# equipoise compare .. --trace tasks.csv replays them",
            "[trace]",
            'time = "arrival"',
            'service = "service"',
            "",
        ]
    policies = ["random", "round-robin", "jsq-d", "jiq", "learning-threshold", "jsq"]
    if discipline == "pool":
        policies.remove("jiq")
    for policy in policies:
        out += ["[[policies]]", f'name = "{policy}"', ""]
    out.append("[run]")
    mean = f.stream.total / f.stream.span
    length = 86400.0 if _shape(f) == "daily" else f.rates.width * f.rates.rate.size
    if _shape(f) == "constant":
        tasks = int(min(MOST_TASKS, max(200_000, round(f.stream.total, -3))))
        out.append(f"tasks = {tasks}")
    elif mean * length > MOST_TASKS:
        duration = MOST_TASKS / mean
        out.append(_commented(
            f"duration = {_num(duration, 3)}",
            f"of {_num(length)}: two million tasks; leave it out to run all of it"))  # fmt: skip
    out += ["replications = 8", "seed = 1"]
    return "\n".join(out)


# --- In words ------------------------------------------------------------------------------------


def text_lines(f: Fit) -> list[str]:
    """Return what was found, as the terminal shows it."""
    return [line for head, text in text_rows(f) for line in _row(head, text)]


def text_rows(f: Fit) -> list[tuple[str, str]]:
    """Return what was found: what it is about, empty where as above, and a sentence."""
    rows: list[tuple[str, str]] = [
        ("Log", f"{f.name} ({f.log.format.name}): {_count(f)}, {_when(f)}"),
    ]
    account = f.log.account
    for reason, entry in sorted(account.skipped.items(), key=lambda item: -item[1].count):
        rows.append(("", f"{entry.count:,} skipped: {reason} (first: line {entry.line})"))
    rows += [("", note) for note in _notes(f)]
    rows.append(("Rate", _rate_sentence(f)))
    if f.rates.daily is not None:
        rows.append(("", _daily_sentence(f)))
    rows.append(("Bursts", _bursts_sentence(f)))
    if f.given.get("service"):
        law = f.given["service"]
        rows.append(("Service", f"{law['law']}, as given"))
    elif f.service is not None:
        rows += [("Service" if i == 0 else "", s) for i, s in enumerate(_service_sentences(f))]
    else:
        rows.append(("Service", _no_service(f)))
    if f.fleet is not None:
        rows.append(("Servers", _fleet_sentence(f)))
    if f.concurrency is not None:
        rows.append(("At once", _concurrency_sentence(f)))
    rows.append(("Scenario", _scenario_sentence(f)))
    return rows


def _row(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{head:<11}{text}", WIDTH, subsequent_indent=" " * 11, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _count(f: Fit) -> str:
    account = f.log.account
    if f.log.counts is not None and f.stream.bins and f.log.format.name == "counts":
        return f"{f.stream.total:,.0f} tasks in {account.used:,} bins of {_num(f.stream.bins)} s"
    lines = f"{account.used:,} of {account.read:,} lines used"
    return lines if account.used != account.read else f"all {account.used:,} lines used"


def _when(f: Fit) -> str:
    if not f.stream.daytime:
        return f"{_long(f.stream.span)} on a clock of its own"
    return f"{_moment(f, 0.0, day=True)} to {_moment(f, f.stream.span, day=True)} UTC"


def _moment(f: Fit, seconds: float, day: bool = False) -> str:
    """A moment of the log: the time of day, with the day where the log has several."""
    if not f.stream.daytime:
        return f"{_num(seconds)} s"
    at = datetime.fromtimestamp(f.stream.first + seconds, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}" if day or f.stream.span > 86400 else f"{at:%H:%M:%S}"


def _notes(f: Fit) -> list[str]:
    """Notes of the reader, without the folder that stands in some."""
    notes = [n.replace(f"{f.log.path}: ", "") for n in f.log.notes]
    return [n for n in notes if not n.startswith("this log does not say how long")]


def _rate_sentence(f: Fit) -> str:
    r = f.rates
    half = (r.mean_high - r.mean_low) / 2
    mean, low, high = (_to(x, half) for x in (r.mean, r.mean_low, r.mean_high))
    text = f"{mean} tasks/s ({low} to {high})"
    if f.bursts.kind == "few":
        return f"{text}; too few tasks to say if it changes"
    if r.constant:
        return f"{text}, constant as far as the log shows (chi-squared, p = {_num(r.p, 2)})"
    chance = "below 1e-300" if r.p == 0 else f"{r.p:.1g}"
    text += (
        f"; it changes (p {'' if r.p == 0 else '= '}{chance}), from {_num(float(r.rate.min()), 3)} "
        f"to {_num(float(r.rate.max()), 3)} in {r.rate.size:,} bins of {_num(r.width)} s"
    )
    changes = f.bursts.changes
    single = f.bursts.kind not in ("batches", "counts")
    if changes is not None and single and changes.width < r.width:
        text += f"; also within these bins, over {_num(changes.width, 2)} s and longer"
    return text


def _daily_sentence(f: Fit) -> str:
    d = f.rates.daily
    assert d is not None
    low, high = int(np.nanargmin(d.rate)), int(np.nanargmax(d.rate))
    return (
        f"a day, over {d.days}: least at {low:02d}:00, {_pm(d.rate[low], d.error[low])}, most at "
        f"{high:02d}:00 UTC, {_pm(d.rate[high], d.error[high])} tasks/s"
    )


def _bursts_sentence(f: Fit) -> str:
    b, t = f.bursts, f.bursts.ties
    if b.kind == "few":
        return "too few tasks to say if they come one by one"
    if b.kind == "counts":
        return (
            f"only counts in bins of {_num(b.resolution)} s are known: they vary "
            f"{_num(b.scales[0].local, 3)} times as much from one to the next as "
            "Poisson counts would"
            if b.scales
            else "only counts are known"
        )
    assert t is not None
    clock = ""
    if b.resolution:
        whose = "ends, from which arrivals were computed," if b.of_ends else "times"
        clock = f"{whose} are rounded to {_num(b.resolution)} s; "
    pairs = f"{t.pairs:,.0f} pairs at one instant, {_num(t.expected, 4)} by chance"
    if b.kind == "batches":
        near = "" if t.tick <= max(b.resolution, f.stream.finest) else f" within {_num(t.tick)} s"
        size = f"batches of {_num(b.batch_mean, 3)} on average{near}"
        return f"{clock}{size} ({pairs}; p {_p(t.p)}); dispersion {_num(t.dispersion, 3)}"
    if b.kind == "rounded":
        return (
            f"one by one: {clock}{t.tasks:,} tasks share a tick with an earlier one, no more than "
            f"rounding explains ({pairs}; p {_p(t.p)})"
        )
    return f"one by one: {clock}no more ties than chance ({pairs}; p {_p(t.p)})"


def _p(p: float) -> str:
    return "below 1e-300" if p == 0 else f"= {p:.2g}"


def _service_sentences(f: Fit) -> list[str]:
    s = f.service
    assert s is not None
    law = s.law
    what = f"{s.count:,} times, mean {s.mean} s, scv {_num(s.scv, 3)}"
    if s.resolution:
        what += f", rounded to {_num(s.resolution)} s"
    if s.widened > 1:
        what += f"; they depend on one another, so errors are {_num(s.widened, 2)} times wider"
    if f.fleet is not None and not f.fleet.identical:
        what += "; at speed 1"
    out = [f"{law.name}: {_params(s)}" if law.name != "empirical" else "empirical, by quantiles"]
    out[0] += f"; {s.why}"
    out.append(what)
    others = [c for c in s.candidates if c.name != law.name][:2]
    if others and law.name != "empirical":
        told = ", ".join(f"{c.name} +{c.bic - s.candidates[0].bic:,.0f}" for c in others)
        out.append(f"next by BIC: {told}")
    return out


def _params(s: ServiceFit) -> str:
    out = []
    for key, value in s.law.params.items():
        error = s.law.errors.get(key)
        if isinstance(value, list):
            errors = error if isinstance(error, list) else [math.nan] * len(value)
            told = [_pm(v, 1.96 * e) for v, e in zip(value, errors, strict=True)]
            out.append(f"{key} {', '.join(told)}")
        else:
            error = error if isinstance(error, float) else math.nan
            out.append(f"{key} {_pm(value, 1.96 * error)}")
    return ", ".join(out)


def _no_service(f: Fit) -> str:
    known = 0 if f.tasks is None else int(np.isfinite(f.tasks.work).sum())
    if known:
        return f"only {known} times are known; a law needs at least {FEWEST}"
    return (
        "this log does not say how long requests took. It answers how many come when, and if they "
        "come in bursts; not how long they take, how many are there at once, or how fast "
        "servers are"
    )


def _fleet_sentence(f: Fit) -> str:
    fleet = f.fleet
    assert fleet is not None
    n = len(fleet.servers)
    some = sum(not math.isnan(s.speed_error) for s in fleet.servers)
    if n == 1:
        return "1 is named"
    if fleet.identical:
        why = "their times do not tell them apart" if some > 1 else "too few times to compare them"
        return f"{n} are named; {why}"
    told = " + ".join(
        f"{g.count} x {'1' if g.error == 0 else _pm(g.speed, g.error)}" for g in fleet.groups
    )
    return (
        f"{n} are named, of unequal speed by their times: {told}; so if they had the same requests "
        "and like loads"
    )


def _concurrency_sentence(f: Fit) -> str:
    c = f.concurrency
    assert c is not None
    text = f"{_num(c.counted, 4)} tasks on average, at most {c.most:,}; by Little's law "
    text += f"{_num(c.little, 4)}"
    if not c.agrees:
        text += ": the two differ, since many tasks end after the log does or began before it"
    return text


def _scenario_sentence(f: Fit) -> str:
    if f.missing:
        return f"needs {'; and '.join(f.missing)}"
    try:
        s = f.scenario
    except EquipoiseError as error:
        return f"not possible: {error}"
    load, least, most = s.offered_load()
    per = " tasks per server" if s.servers.discipline == "pool" else " of what the servers can do"
    span = "" if least == most else f" ({_num(least, 3)} to {_num(most, 3)})"
    return f"{s.servers.count} servers ({s.servers.discipline}), load {_num(load, 4)}{span}{per}"


# --- Numbers -------------------------------------------------------------------------------------


def _num(x: float, digits: int = 6) -> str:
    """A number for a file: enough digits, no more; with a point where TOML needs none."""
    if not math.isfinite(x):
        return "unknown"
    text = f"{x:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(x) < 1e15 else text


def _to(x: float, error: float) -> str:
    """A number to the second digit of an error."""
    if not (math.isfinite(error) and error > 0):
        return _num(x, 4)
    decimals = 1 - math.floor(math.log10(error))
    return f"{x:.{max(decimals, 0)}f}" if decimals < 12 else _num(x, 3)


def _pm(value: float, error: float) -> str:
    from ..stats import Estimate

    if not math.isfinite(error) or error == 0:
        return _num(value, 4)
    return str(Estimate(float(value), float(error)))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(v) for v in value)}]"
    return str(value) if isinstance(value, int) else _num(float(value), 7)


def _quoted(text: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _long(seconds: float) -> str:
    for name, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 3 * size:
            return f"{_num(seconds / size, 3)} {name}"
    return f"{_num(seconds, 3)} s"


def _wrapped(text: str) -> list[str]:
    """A comment as lines that all begin with its sign."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _commented(text: str, comment: str) -> str:
    return f"{text}  # {comment}" if comment else text


# --- For other programs --------------------------------------------------------------------------


def _json(f: Fit) -> dict[str, Any]:
    account, r, b, s = f.log.account, f.rates, f.bursts, f.service
    out: dict[str, Any] = {
        "version": version("equipoise"),
        "file": f.name,
        "format": f.log.format.name,
        "lines": {
            "read": account.read,
            "used": account.used,
            "skipped": {
                reason: {"count": e.count, "first_line": e.line}
                for reason, e in account.skipped.items()
            },
        },
        "notes": _notes(f),
        "tasks": f.stream.total,
        "seconds": f.stream.span,
        "first": f.stream.first,
        "rate": {
            "mean": r.mean, "low": r.mean_low, "high": r.mean_high, "constant": r.constant,
            "p": r.p, "bin": r.width, "rates": r.rate.tolist(), "lows": r.low.tolist(),
            "highs": r.high.tolist(),
        },
        "bursts": {
            "kind": b.kind, "resolution": b.resolution, "of_ends": b.of_ends,
            "batch_mean": b.batch_mean, "dispersion": b.dispersion,
            "ties": None if b.ties is None else dict(vars(b.ties)),
            "scales": [dict(vars(scale)) for scale in b.scales],
        },
        "missing": list(f.missing),
    }  # fmt: skip
    if r.daily is not None:
        out["rate"]["daily"] = {
            "days": r.daily.days, "rates": r.daily.rate.tolist(), "errors": r.daily.error.tolist()
        }  # fmt: skip
    if s is not None:
        out["service"] = {
            **s.law.table, "errors": s.law.errors, "why": s.why, "count": s.count,
            "mean_seen": s.mean.value, "mean_error": s.mean.error, "scv_seen": s.scv,
            "resolution": s.resolution, "distance": s.law.distance,
            "candidates": [
                {"law": c.name, "bic": c.bic, "log_likelihood": c.log_likelihood,
                 "distance": c.distance} for c in s.candidates],
            "same": s.same,
        }  # fmt: skip
    if f.fleet is not None:
        out["servers"] = [
            {"name": f.server_name(i), **vars(server)} for i, server in enumerate(f.fleet.servers)
        ]
        out["groups"] = [dict(vars(g)) for g in f.fleet.groups]
    if f.concurrency is not None:
        c = f.concurrency
        out["concurrency"] = {"counted": c.counted, "little": c.little, "most": c.most,
                              "workers": c.workers, "most_at_server": c.most_at_server}  # fmt: skip
    if not f.missing:
        try:
            out["scenario"] = f.scenario.to_dict()
        except EquipoiseError as error:
            out["unstable"] = str(error)
    return _plain(out)


def _plain(value: Any) -> Any:
    """Return the value with numbers as JSON has them: null for what is not finite."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
