"""`equipoise stability`: which load a policy can carry on unequal servers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..errors import EquipoiseError
from .arguments import complete_policies

if TYPE_CHECKING:
    from ..report.stability import Fleet


@click.command("stability")
@click.argument("scenario", required=False, type=click.Path())
@click.option(
    "--speeds",
    metavar="KxS,...",
    help="Instead of a file: groups of servers, 90x1,10x0.2, or a speed for each, 0.5,1,1.",
)
@click.option(
    "--policies",
    "--policy",
    multiple=True,
    metavar="P,P,...",
    shell_complete=complete_policies,
    help="Instead of the scenario's: names, with parameters as in 'jsq-d(d=3)'.",
)
@click.option("--d", type=int, metavar="D", help="Short for --policy 'jsq-d(d=D)'.")
@click.option("--load", type=float, metavar="X", help="Load to ask about, a part of the capacity.")
@click.option(
    "--rate", type=float, metavar="X", help="Or tasks per second (per slot) to ask about."
)
@click.option(
    "--picture",
    type=click.Path(),
    metavar="FILE.svg",
    help="Draw capacity against d, for 2 or 3 servers the speeds that lose nothing (.svg, .png, "
    ".pdf). [default: none is written]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def command(
    scenario: str | None,
    speeds: str | None,
    policies: tuple[str, ...],
    d: int | None,
    load: float | None,
    rate: float | None,
    picture: str | None,
    as_json: bool,
) -> None:
    """Tell which load a policy can carry on unequal servers.

    SCENARIO is a TOML file; --speeds names servers alone. Nothing is simulated: the answers are
    exact, or say that they are not known.

    \b
    Examples:
        equipoise stability mine.toml
        equipoise stability --speeds 90x1,10x0.2 --d 2 --load 0.9
        equipoise stability --speeds 0.3,0.5,1 --policies random,jsq-d --picture stability.svg
    """
    if scenario is None and speeds is None:
        raise click.UsageError(
            "name a scenario file, or the speeds of the servers: --speeds 90x1,10x0.2"
        )
    if scenario is not None and speeds is not None:
        raise click.UsageError(f"--speeds would contradict {scenario}: give the file or the speeds")
    if load is not None and rate is not None:
        raise click.UsageError("--load and --rate both say how much comes; give one")

    from ..policies.spec import split_list
    from ..report.stability import stability
    from ..scenario import Scenario

    chosen = [name for text in policies for name in split_list(text)]
    if policies and not chosen:
        raise click.UsageError("--policies names none; write e.g. --policies 'jsq,jsq-d(d=3)'")
    if d is not None:
        chosen.append(f"jsq-d(d={d})")
    if picture is not None:
        from ..report.pictures import check_target

        check_target(picture)
    about = read_speeds(speeds) if speeds is not None else Scenario.from_toml(str(scenario))
    found = stability(about, chosen or None, rate=rate, load=load)
    if picture is not None:
        found.picture(picture)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo(found.text(picture))


def read_speeds(text: str) -> Fleet:
    """Return the fleet that --speeds names.

    Raises
    ------
    EquipoiseError
        If it does not read like 90x1,10x0.2, or a count or a speed makes no sense.
    """
    from ..report.stability import fleet_of

    groups: list[tuple[int, float]] = []
    for part in text.split(","):
        count, times, speed = part.strip().rpartition("x")
        try:
            groups.append((int(count) if times else 1, float(speed)))
        except ValueError:
            raise EquipoiseError(
                f"--speeds: '{part.strip()}' should read like 10x0.2, ten servers of speed 0.2, "
                "or 0.2, one of them"
            ) from None
        number, value = groups[-1]
        if number < 1:
            raise EquipoiseError(f"--speeds: '{part.strip()}': a group needs at least one server")
        if not 0 < value < float("inf"):
            raise EquipoiseError(f"--speeds: '{part.strip()}': a speed must be a number > 0")
    return fleet_of(groups, name=text)
