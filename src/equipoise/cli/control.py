"""`equipoise control`: what runs, changed while it runs."""

from __future__ import annotations

import json
from typing import Any

import click


@click.group(name="control")
@click.argument("socket", type=click.Path())
@click.pass_context
def command(context: click.Context, socket: str) -> None:
    """Change servers of a dispatcher that runs.

    SOCKET is the path that its configuration has as control, in [admin].

    \b
    Examples:
        equipoise control equipoise.sock servers
        equipoise control equipoise.sock add 10.0.0.3:8000 --limit 50
        equipoise control equipoise.sock remove 10.0.0.1:8000
        equipoise control equipoise.sock limit 10.0.0.2:8000 20
        equipoise control equipoise.sock reload
    """
    context.obj = socket


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON value, for programs.")


def _ask(context: click.Context, as_json: bool, **given: Any) -> Any:
    """Have a command done; return its answer, None if it was printed as JSON."""
    from ..live.control import ask

    answer = ask(context.obj, {key: value for key, value in given.items() if value is not None})
    if as_json:
        click.echo(json.dumps(answer))
        return None
    return answer


@command.command()
@json_option
@click.pass_context
def servers(context: click.Context, as_json: bool) -> None:
    """List the servers."""
    answer = _ask(context, as_json, command="servers")
    if answer is None:
        return
    rows = [("server", "address", "state", "requests", "limit", "speed")]
    for one in answer:
        limit = "-" if one["limit"] is None else str(one["limit"])
        speed = f"{one['speed']:g}"
        row = (one["name"], one["address"], one["state"], str(one["slots"]), limit, speed)
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


@command.command()
@json_option
@click.argument("address")
@click.option("--name", help="In logs and metrics; the address if left out.")
@click.option("--speed", type=float, help="As in a scenario; 1 if left out.")
@click.option("--limit", type=int, help="Most requests that it is sent at once.")
@click.pass_context
def add(
    context: click.Context,
    as_json: bool,
    address: str,
    name: str | None,
    speed: float | None,
    limit: int | None,
) -> None:
    """Take in the server at ADDRESS, HOST:PORT."""
    answer = _ask(
        context, as_json, command="add", address=address, name=name, speed=speed, limit=limit
    )
    if answer is not None:
        why = f": {answer['why']}" if answer["why"] else ""
        click.echo(f"{answer['name']} is {answer['state']}{why}")


@command.command()
@json_option
@click.argument("name")
@click.pass_context
def remove(context: click.Context, as_json: bool, name: str) -> None:
    """Send the server NAME nothing more; it leaves with its last request."""
    answer = _ask(context, as_json, command="remove", name=name)
    if answer is not None:
        waits = f", {answer['slots']} under way" if answer["slots"] else ""
        click.echo(f"{answer['name']} is {answer['state']}{waits}")


@command.command()
@json_option
@click.argument("name")
@click.argument("limit", metavar="N|none")
@click.pass_context
def limit(context: click.Context, as_json: bool, name: str, limit: str) -> None:
    """Send the server NAME at most N requests at once, or any number."""
    most = None
    if limit != "none":
        try:
            most = int(limit)
        except ValueError:
            raise click.BadParameter(f"{limit} is no whole number, nor none") from None
    answer = _ask(context, as_json, command="limit", name=name, limit=most)
    if answer is not None:
        said = "no limit" if answer["limit"] is None else f"limit {answer['limit']}"
        click.echo(f"{answer['name']} has {said}")


@command.command()
@json_option
@click.pass_context
def reload(context: click.Context, as_json: bool) -> None:
    """Have the configuration read anew, as at SIGHUP."""
    answer = _ask(context, as_json, command="reload")
    if answer is not None:
        for line in answer:
            click.echo(line)
