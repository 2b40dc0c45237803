"""`equipoise compare`: policies in front of the same traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .answer import answer_options, check_form, give, loaded
from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress

if TYPE_CHECKING:
    from ..report.results import Comparison


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
    check_form(as_json, as_csv)

    from ..report.files import check_target

    if report is not None:
        check_target(report)  # not after minutes of simulation
    if shown is not None:
        result = loaded(shown, asked, policies=policies, rank_by=rank_by, jobs=jobs)
    else:
        scenario = asked.read()
        if save is not None:
            check_target(save, results=True)

        from ..policies.spec import split_list
        from ..report.compare import compare

        chosen = [name for text in policies for name in split_list(text)]
        if policies and not chosen:
            raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
        same = again(scenario.run.seed)
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


def _show(result: Comparison, page: str | None) -> None:
    from ..report.results import Simulation
    from ..report.table import show

    if isinstance(result, Simulation):  # a file of `equipoise simulate`
        click.echo(result)
    else:
        show(result, page=page)
