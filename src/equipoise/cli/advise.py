"""`equipoise advise`: which policy to use, under which limits, with the evidence."""

from __future__ import annotations

import json
from typing import Any

import click

from .answer import INTERRUPTED
from .arguments import Asked, again, complete_policies, scenario_arguments
from .progress import progress


@click.command("advise")
@scenario_arguments
@click.option(
    "--current",
    metavar="POLICY",
    shell_complete=complete_policies,
    help="The policy used now, to be compared with.",
)
@click.option(
    "--messages-per-task", type=float, metavar="X", help="At most so many messages per task."
)
@click.option(
    "--memory",
    type=float,
    metavar="BITS",
    help="At most so many bits per server at the dispatcher.",
)
@click.option(
    "--sees",
    metavar="WHAT,..",
    help="What the dispatcher can observe: messages, answers, speeds, sizes, or nothing. "
    "[default: all but sizes]",
)
@click.option(
    "--stable-to", type=float, metavar="X", help="Must carry X times the mean load, e.g. 1.2."
)
@click.option(
    "--goal",
    metavar="METRIC=X",
    help="Find the smallest fleet that reaches it, e.g. p99_response=0.2.",
)
@click.option(
    "--policies",
    multiple=True,
    metavar="P,P,...",
    shell_complete=complete_policies,
    help="Only these, parameters as written, in place of those proposed.",
)
@click.option("--rank-by", metavar="METRIC", help="What decides. [default: imbalance for pools, "
              "mean wait for equal fcfs servers, mean response for others]")  # fmt: skip
@click.option(
    "--matters",
    type=float,
    default=0.01,
    show_default=True,
    metavar="X",
    help="Differences below this fraction do not matter.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE.toml",
    help="Write the configuration to use.",
)
@click.option(
    "--report",
    type=click.Path(),
    metavar="FILE.html",
    help="Write a self-contained page with the evidence.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def command(
    current: str | None,
    messages_per_task: float | None,
    memory: float | None,
    sees: str | None,
    stable_to: float | None,
    goal: str | None,
    policies: tuple[str, ...],
    rank_by: str | None,
    matters: float,
    output: str | None,
    report: str | None,
    as_json: bool,
    kernel: str,
    jobs: int | None,
    **options: Any,
) -> int:
    """Advise which policy to use in front of this traffic.

    SCENARIO is a TOML file, or an access log or a trace, whose tasks are replayed; flags can
    describe a simple scenario instead. Policies that keep the limits meet the same tasks until it
    is decided which is best, or the budget is spent; then the answer is tried with more load, with
    a server less and with late messages.

    \b
    Examples:
        equipoise advise access.log --servers 12 --current round-robin -o advised.toml
        equipoise advise mine.toml --messages-per-task 0.4 --report advice.html
        equipoise advise mine.toml --memory 2 --stable-to 1.2
        equipoise advise mine.toml --goal p99_response=0.2
    """
    if kernel != "auto":
        raise click.UsageError(
            "--kernel: advise chooses it, so that all policies meet the same tasks"
        )
    if options.get("precision") is not None or options.get("precision_of") is not None:
        raise click.UsageError(
            "--precision: advise runs until it is decided; see --matters, --budget"
        )
    budget = options.pop("budget")
    asked = Asked.take({**options, "budget": None})

    from ..policies.spec import split_list
    from ..report.advise import BUDGET, advise
    from ..report.files import check_target

    for target in (output, report):
        if target is not None:
            check_target(target)  # not after a minute of simulation
    chosen = [name for text in policies for name in split_list(text)]
    if policies and not chosen:
        raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
    scenario = asked.read()
    for note in asked.notes:
        click.echo(f"note: {note}", err=True)
    same = again(scenario.run.seed)
    with progress() as told:
        advice = advise(
            scenario,
            messages_per_task=messages_per_task,
            memory=memory,
            sees=sees,
            stable_to=stable_to,
            current=current,
            goal=goal,
            policies=chosen or None,
            rank_by=rank_by,
            matters=matters,
            budget=BUDGET if budget is None else budget,
            progress=told,
            workers=jobs,
            command=same,
        )
    if output is not None:
        advice.save(output)
    if report is not None:
        advice.page(report)
    if as_json:
        click.echo(json.dumps(advice.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo(advice.text())
    return INTERRUPTED if advice.interrupted else 0
