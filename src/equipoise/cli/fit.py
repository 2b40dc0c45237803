"""`equipoise fit`: what a log says, and the scenario that follows."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click

from ..errors import EquipoiseError
from .progress import progress

LEFT_OUT = ("output", "page", "tasks", "as_json")  # of the command that a scenario tells


@click.command("fit")
@click.argument("log", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE.toml",
    help="Write the scenario, with where each number comes from.",
)
@click.option(
    "--page", type=click.Path(), metavar="FILE.html", help="Write a self-contained page of it."
)
@click.option(
    "--tasks",
    type=click.Path(),
    metavar="FILE.csv",
    help="Write the tasks, arrival and service, to be replayed by `compare --trace`.",
)
@click.option(
    "--format",
    metavar="FORMAT",
    help="A format's name, csv, jsonl, or a pattern such as "
    "'$time_iso8601 $request_time $upstream_addr'. [default: found from the first lines]",
)
@click.option(
    "--columns",
    metavar="KEY=COLUMN,..",
    help="What the columns of a table mean: time or end, duration, service, server, status, "
    "size. A service may be made of columns: service=0.05+0.02*Tokens.",
)
@click.option("--servers", type=int, metavar="N", help="How many servers there are.")
@click.option(
    "--discipline",
    type=click.Choice(["pool", "fcfs", "ps"]),
    help="How a server works: on all its tasks at once (pool), one after the other (fcfs), or on "
    "all, sharing its speed (ps). [default: pool, unless the log shows a bound]",
)
@click.option("--workers", type=int, metavar="K", help="Tasks in service at once at a server.")
@click.option(
    "--service",
    metavar="LAW",
    help="Law of service times in place of the log's, e.g. 'lognormal(mean=0.2, scv=4)'.",
)
@click.option(
    "--law",
    default="best",
    show_default=True,
    metavar="NAME",
    help="The law to fit: best, empirical, or a name.",
)
@click.option(
    "--shape",
    type=click.Choice(["auto", "constant", "log", "daily"]),
    default="auto",
    show_default=True,
    help="Rate of the scenario: constant, as over the log, or by the hours of a day; auto: "
    "constant unless it is seen to change.",
)
@click.option("--bin", type=float, metavar="S", help="Seconds of a bin of the rate.")
@click.option("--server-names", is_flag=True, help="Call servers as the log does.")
@click.option(
    "--rates-only", is_flag=True, help="Count requests per second only, in little memory."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def command(
    log: str,
    output: str | None,
    page: str | None,
    tasks: str | None,
    columns: str | None,
    server_names: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Tell what a log says, and make a scenario of it.

    LOG is an access log of HAProxy, nginx, Envoy, Traefik, Caddy or Apache, a CSV or JSONL trace,
    or counts by time; gzipped or not. Nothing is written unless asked for, and addresses, paths
    and user agents are never copied.

    \b
    Examples:
        equipoise fit access.log
        equipoise fit access.log.gz -o mine.toml --page fit.html
        equipoise fit trace.csv --columns 'time=TIMESTAMP,service=0.05+0.02*Tokens' --servers 20
        equipoise fit access.log --service 'exponential(mean=0.1)' --servers 8 -o mine.toml
    """
    from ..report.files import check_target
    from ..report.fit import fit

    for target in (output, page, tasks):
        if target is not None:
            check_target(target)  # not after minutes of reading
    mapping = None if columns is None else read_columns(columns)
    with progress() as told:
        found = fit(
            log, columns=mapping, names=server_names, on_progress=told, command=_again(), **options
        )
    if page is not None:
        found.page(page)
    if tasks is not None:
        found.save_tasks(tasks)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo(found)
    if output is not None:
        found.save(output)
    written = [target for target in (output, page, tasks) if target is not None]
    if written and not as_json:
        click.echo(f"{'Wrote':<11}{', '.join(written)}")
    if output is not None and not as_json:
        click.echo(f"{'Next':<11}equipoise compare {shlex.quote(output)}")


def _again() -> str:
    """Return what to type to fit the same again; the log by its name, wherever it lay."""
    import os

    context = click.get_current_context()
    words = ["equipoise", "fit"]
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in LEFT_OUT:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            words.append(os.path.basename(str(value)))
        elif value is True:
            words.append(parameter.opts[0])
        else:
            words += [parameter.opts[0], str(value)]
    return shlex.join(words)


def read_columns(text: str) -> dict[str, Any]:
    """Return what --columns says: columns by key, those of a service with their seconds.

    Raises
    ------
    EquipoiseError
        If it does not read like time=TIMESTAMP,service=0.05+0.02*Tokens.
    """
    out: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise EquipoiseError(
                f"--columns: '{part.strip()}' should read like time=TIMESTAMP or "
                "service=0.05+0.02*Tokens"
            )
        out[key] = _combination(value) if key == "service" and _is_sum(value) else value
    return out


def _is_sum(text: str) -> bool:
    return "+" in text or "*" in text


def _combination(text: str) -> dict[str, float]:
    """Return seconds per unit by column of a text such as 0.05+0.02*Tokens."""
    out: dict[str, float] = {}
    for term in text.split("+"):
        weight, times, column = (piece.strip() for piece in term.partition("*"))
        try:
            if times:
                out[column] = float(weight)
            elif _is_number(weight):
                out["constant"] = float(weight)
            else:
                out[weight] = 1.0
        except ValueError:
            raise EquipoiseError(
                f"--columns: '{term.strip()}' should be seconds times a column, such as 0.02*Tokens"
            ) from None
    return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
