"""`equipoise compare`: policies in front of the same traffic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from .answer import INTERRUPTED, answer_options, check_form, give, loaded
from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress

if TYPE_CHECKING:
    from ..report.results import Comparison
    from ..scenario import Scenario


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
@answer_options
def command(
    policies: tuple[str, ...],
    rank_by: str | None,
    report: str | None,
    kernel: str,
    jobs: int | None,
    save: str | None,
    shown: str | None,
    as_json: bool,
    as_csv: bool,
    **options: Any,
) -> int:
    """Compare policies in front of the same traffic.

    SCENARIO is a TOML file (`equipoise new` writes one to start from), or an access log or a trace,
    whose tasks are replayed; flags can describe a simple scenario instead. With several numbers of
    servers, --servers 12,16,20, the same traffic meets fleets of all these sizes. Every number
    comes with the half-width of its interval.

    \b
    Examples:
        equipoise compare mine.toml --report mine.html
        equipoise compare mine.toml --trace tuesday.csv
        equipoise compare access.log --servers 12,16,20 --policies jsq,jsq-d
        equipoise compare mine.toml --policies 'jsq-d(d=3),threshold(level=9),my.py:MINE'
        equipoise compare --servers 50 --discipline fcfs --load 0.9 --policies jiq,jsq-d
    """
    asked = Asked.take(options)
    check_form(as_json, as_csv)

    from ..report.files import check_target

    if report is not None:
        check_target(report)  # not after minutes of simulation
    if shown is not None:
        result = loaded(shown, asked, policies=policies, rank_by=rank_by, jobs=jobs)
    else:
        scenario = asked.read(sizes=True)
        for note in asked.notes:
            click.echo(f"note: {note}", err=True)
        if save is not None:
            check_target(save, results=True)

        from ..policies.spec import split_list
        from ..report.compare import compare

        chosen = [name for text in policies for name in split_list(text)]
        if policies and not chosen:
            raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
        same = again(scenario.run.seed)
        if asked.sizes:
            return _sizes(
                scenario, chosen or None, asked.sizes, rank_by, kernel, jobs, same,
                as_json=as_json, as_csv=as_csv, no_file=save or report,
            )  # fmt: skip
        with progress() as told:
            result = compare(
                scenario, chosen or None, rank_by=rank_by, kernel=kernel, progress=told,
                command=same, workers=jobs,
            )  # fmt: skip

    return give(
        result,
        as_json=as_json,
        as_csv=as_csv,
        save=save,
        page=report,
        show=lambda written: _show(result, written),
    )


def _sizes(
    scenario: Scenario,
    policies: list[str] | None,
    sizes: tuple[int, ...],
    rank_by: str | None,
    kernel: str,
    jobs: int | None,
    command: str,
    *,
    as_json: bool,
    as_csv: bool,
    no_file: str | None,
) -> int:
    """Compare the policies with fleets of several sizes."""
    if no_file is not None:
        raise click.UsageError("--save and --report are for one size; give --servers one number")
    from ..report.sweep import sweep

    with progress() as told:
        found = sweep(
            scenario, policies, servers=sizes, rank_by=rank_by, kernel=kernel, progress=told,
            workers=jobs, command=command,
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    elif as_csv:
        click.echo(found.to_csv(), nl=False)
    else:
        click.echo(found.text())
    return INTERRUPTED if found.interrupted else 0


def _show(result: Comparison, page: str | None) -> None:
    from ..report.results import Simulation
    from ..report.table import show

    if isinstance(result, Simulation):  # a file of `equipoise simulate`
        click.echo(result)
    else:
        show(result, page=page)
