"""`equipoise new`: a scenario to start from, with a comment on everything."""

from __future__ import annotations

import os

import click

from ..errors import EquipoiseError


@click.command("new")
@click.argument("file", default="scenario.toml", type=click.Path())
@click.option(
    "--kind",
    type=click.Choice(["pool", "fcfs", "ps"]),
    default="pool",
    show_default=True,
    help="pool: a server works on all its tasks at once; fcfs: on one after the other; ps: on "
    "all, sharing its speed.",
)
def command(file: str, kind: str) -> None:
    """Write a commented scenario to start from.

    It goes to FILE, scenario.toml by default, which must not exist yet; `-` prints it.

    \b
    Examples:
        equipoise new mine.toml
        equipoise new --kind fcfs -
    """
    from ..scenario import template

    if file == "-":
        click.echo(template(kind), nl=False)
        return
    try:
        with open(file, "x", encoding="utf-8") as target:
            target.write(template(kind, file))
    except FileExistsError:
        what = "is a directory" if os.path.isdir(file) else "exists already"
        raise EquipoiseError(f"{file} {what}; choose another name, or - to print it") from None
    except FileNotFoundError:
        folder = os.path.dirname(os.path.abspath(file))
        raise EquipoiseError(
            f"cannot write {file}: the directory {folder} does not exist; make it first"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise EquipoiseError(f"cannot write {file}: {reason}") from None
    click.echo(f"Wrote {file}; next: equipoise compare {file}")
