"""`equipoise simulate`: one policy in front of a scenario's traffic."""

from __future__ import annotations

import json
from typing import Any

import click

from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress


@click.command("simulate")
@scenario_arguments
@click.option(
    "--policy",
    required=True,
    metavar="P",
    shell_complete=complete_policies,
    help="A name, with parameters as in 'threshold(level=9)', or your own, file.py:NAME.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
@click.option("--csv", "as_csv", is_flag=True, help="The estimates as CSV.")
def command(policy: str, kernel: str, as_json: bool, as_csv: bool, **options: Any) -> None:
    """Simulate one policy.

    SCENARIO is a TOML file (`equipoise new` writes one to start from); flags can describe a
    simple scenario instead. Every number comes with the half-width of its interval.

    \b
    Examples:
        equipoise simulate mine.toml --policy 'threshold(level=9)'
        equipoise simulate --servers 100 --discipline fcfs --load 0.9 --policy jsq-d
        equipoise simulate --servers 500 --discipline pool --load 5.5 --policy my.py:MINE --json
    """
    asked = Asked.take(options)
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of one answer; give one")
    scenario = asked.read()

    from ..report.simulate import simulate

    same = again(scenario.run.seed)
    with progress() as told:
        simulation = simulate(scenario, policy, kernel=kernel, progress=told, command=same)

    if as_json:
        click.echo(json.dumps(simulation.to_json(), indent=2, ensure_ascii=False))
    elif as_csv:
        click.echo(simulation.to_csv(), nl=False)
    else:
        click.echo(simulation)
