"""`equipoise limit`: what theory says as the number of servers grows."""

from __future__ import annotations

import json
from typing import Any

import click

from .arguments import Asked, complete_policies, scenario_arguments
from .progress import progress


@click.command("limit")
@scenario_arguments
@click.option(
    "--policies",
    "--policy",
    multiple=True,
    metavar="P,P,...",
    shell_complete=complete_policies,
    help="Instead of the scenario's: names, with parameters as in 'threshold(level=9)'.",
)
@click.option(
    "--messages-per-task",
    type=float,
    metavar="X",
    help="Which policy for queues waits least with so many messages per task.",
)
@click.option(
    "--push",
    is_flag=True,
    help="Servers only answer when asked (two messages), they do not tell by themselves.",
)
@click.option("--simulate", is_flag=True, help="Simulate the scenario too and put it beside.")
@click.option(
    "--picture",
    type=click.Path(),
    metavar="FILE.svg",
    help="Draw it (.svg, .png, .pdf). [default: none is written]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def command(
    policies: tuple[str, ...],
    messages_per_task: float | None,
    push: bool,
    simulate: bool,
    picture: str | None,
    as_json: bool,
    kernel: str,
    jobs: int | None,
    **options: Any,
) -> None:
    """Tell what theory says as the number of servers grows.

    SCENARIO is a TOML file; flags can describe a simple scenario instead. For pools: which
    threshold is right, how long it takes to learn it, where pools come to rest, what it costs, and
    how far this many servers are from the limit. For queues: waits and messages of each policy.

    \b
    Examples:
        equipoise limit --servers 500 --discipline pool --load 7.3
        equipoise limit mine.toml --picture limit.svg
        equipoise limit --load 0.8 --messages-per-task 0.3
        equipoise limit --servers 1000 --load 0.9 --policy 'jsq-d,sujsq-det(delta=0.9)' --simulate
    """
    asked = Asked.take(options)
    if asked.scenario is None and asked.simple and "servers" not in asked.simple:
        asked.simple["servers"] = 1000  # a limit does not depend on it
    scenario = asked.read()

    from ..policies.spec import split_list
    from ..report.limit import limit

    chosen = [name for text in policies for name in split_list(text)]
    if policies and not chosen:
        raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
    if picture is not None:
        from ..report.pictures import check_target

        check_target(picture)
    with progress() as told:
        found = limit(
            scenario,
            chosen or None,
            messages_per_task=messages_per_task,
            mode="push" if push else "pull",
            simulate=simulate,
            kernel=kernel,
            progress=told,
            workers=jobs,
        )
    if picture is not None:
        found.picture(picture)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo(found.text(picture))
