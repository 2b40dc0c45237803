"""`equipoise simulate`: one policy in front of a scenario's traffic."""

from __future__ import annotations

from typing import Any

import click

from .answer import answer_options, check_form, give, loaded
from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress


@click.command("simulate")
@scenario_arguments
@click.option(
    "--policy",
    metavar="P",
    shell_complete=complete_policies,
    help="A name, with parameters as in 'threshold(level=9)', or your own, file.py:NAME. "
    "[required]",
)
@click.option(
    "--replication",
    type=int,
    metavar="K",
    help="Only this one of the replications, counted from 0, with the same numbers.",
)
@click.option(
    "--leave-out",
    type=float,
    metavar="X",
    help="Share of the run to leave out at its start, in place of the warm-up.",
)
@answer_options
def command(
    policy: str | None,
    replication: int | None,
    leave_out: float | None,
    kernel: str,
    jobs: int | None,
    save: str | None,
    shown: str | None,
    as_json: bool,
    as_csv: bool,
    **options: Any,
) -> int:
    """Simulate one policy.

    SCENARIO is a TOML file (`equipoise new` writes one to start from); flags can describe a
    simple scenario instead. Every number comes with the half-width of its interval.

    \b
    Examples:
        equipoise simulate mine.toml --policy 'threshold(level=9)'
        equipoise simulate --servers 100 --discipline fcfs --load 0.9 --policy jsq-d
        equipoise simulate --servers 100 --load 0.9 --policy jiq --precision 0.01
        equipoise simulate --servers 500 --discipline pool --load 5.5 --policy my.py:MINE --json
    """
    asked = Asked.take(options)
    check_form(as_json, as_csv)
    if shown is not None:
        result = loaded(shown, asked, policy=policy, replication=replication is not None, jobs=jobs)
    else:
        if policy is None:
            raise click.UsageError("Missing option '--policy'.")
        scenario = asked.read()
        if save is not None:
            from ..report.files import check_target

            check_target(save, results=True)

        from ..report.simulate import simulate

        same = again(scenario.run.seed)
        with progress() as told:
            result = simulate(
                scenario, policy, kernel=kernel, progress=told, command=same, workers=jobs,
                replication=replication, leave_out=leave_out,
            )  # fmt: skip

    return give(
        result, as_json=as_json, as_csv=as_csv, save=save, show=lambda _: click.echo(result)
    )
