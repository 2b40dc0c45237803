"""`equipoise compare`: policies in front of the same traffic."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from ..errors import EquipoiseError
from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress


@click.command("compare")
@scenario_arguments
@click.option(
    "--policies",
    multiple=True,
    metavar="P,P,...",
    shell_complete=complete_policies,
    help="Instead of the scenario's: names, with parameters as in 'threshold(level=9)', "
    "or your own, file.py:NAME.",
)
@click.option(
    "--rank-by",
    metavar="METRIC",
    help="What decides the order. [default: imbalance for pools, mean_response for fcfs]",
)
@click.option(
    "--report",
    type=click.Path(),
    metavar="FILE.html",
    help="Write a self-contained page with the figures.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
@click.option("--csv", "as_csv", is_flag=True, help="The estimates as CSV.")
def command(
    policies: tuple[str, ...],
    rank_by: str | None,
    report: str | None,
    kernel: str,
    as_json: bool,
    as_csv: bool,
    **options: Any,
) -> None:
    """Compare policies in front of the same traffic.

    SCENARIO is a TOML file (`equipoise new` writes one to start from); flags can describe a
    simple scenario instead. Every number comes with the half-width of its interval.

    \b
    Examples:
        equipoise compare mine.toml --report mine.html
        equipoise compare mine.toml --trace tuesday.csv
        equipoise compare mine.toml --policies 'jsq-d(d=3),threshold(level=9),my.py:MINE'
        equipoise compare --servers 50 --discipline fcfs --load 0.9 --policies jiq,jsq-d
    """
    asked = Asked.take(options)
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of one answer; give one")
    scenario = asked.read()
    if report is not None:
        _check_target(report)  # not after minutes of simulation

    from ..policies.spec import split_list
    from ..report.compare import compare
    from ..report.table import show

    chosen = [name for text in policies for name in split_list(text)]
    if policies and not chosen:
        raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
    same = again(scenario.run.seed)
    with progress() as told:
        comparison = compare(
            scenario, chosen or None, rank_by=rank_by, kernel=kernel, progress=told, command=same
        )

    if report is not None:
        comparison.page(report)
    if as_json:
        click.echo(json.dumps(comparison.to_json(), indent=2, ensure_ascii=False))
    elif as_csv:
        click.echo(comparison.to_csv(), nl=False)
    else:
        show(comparison, page=report)


def _check_target(path: str) -> None:
    """Refuse a file for the page that could not be written when the simulation is over."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        why = "it is a directory; name a file in it"
    elif not os.path.isdir(folder):
        why = f"the directory {folder} does not exist; make it first"
    elif not os.access(folder, os.W_OK | os.X_OK):
        why = f"no permission to write in {folder}; choose another directory"
    else:
        return
    raise EquipoiseError(f"cannot write {path}: {why}")
