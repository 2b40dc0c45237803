"""What several commands share: the forms of an answer, and the file it is kept in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ..errors import EquipoiseError
from .arguments import Asked

if TYPE_CHECKING:
    from ..report.results import Comparison

Function = TypeVar("Function", bound=Callable[..., object])

INTERRUPTED = 130  # the exit status after Ctrl-C, with or without an answer


def answer_options(command: Function) -> Function:
    """Give a command --save, --show, --json and --csv."""
    options = [
        click.option(
            "--save",
            type=click.Path(),
            metavar="FILE",
            help="Keep everything in a file, NetCDF if it ends in .nc, else JSON.",
        ),
        click.option(
            "--show",
            "shown",
            type=click.Path(),
            metavar="FILE",
            help="Show a result that was saved, in place of a run.",
        ),
        click.option(
            "--json", "as_json", is_flag=True, help="One JSON object, for other programs."
        ),
        click.option("--csv", "as_csv", is_flag=True, help="The estimates as CSV."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def check_form(as_json: bool, as_csv: bool) -> None:
    """Refuse two forms of one answer."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of one answer; give one")


def loaded(path: str, asked: Asked, **too_much: object) -> Comparison:
    """Return the result in a file; options that describe a run make no sense beside it."""
    asked.refuse_beside_show()
    for name, value in too_much.items():
        if value:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"--show takes a result that was saved; leave out {option}")

    from ..report.results import Comparison

    return Comparison.load(path)


def give(
    result: Comparison,
    *,
    as_json: bool,
    as_csv: bool,
    save: str | None,
    show: Callable[[str | None], None],
    page: str | None = None,
) -> int:
    """Write the files, print the answer, return the exit status.

    `show` prints the table and is told the page that was written. An answer that cannot be kept is
    printed all the same: it may have taken hours.
    """
    problem: EquipoiseError | None = None
    written = None
    try:
        if save is not None:
            result.save(save)
        if page is not None:
            result.page(page)
            written = page
    except EquipoiseError as error:
        problem = error
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    elif as_csv:
        click.echo(result.to_csv(), nl=False)
    else:
        show(written)
    if problem is not None:
        raise problem
    return INTERRUPTED if result.interrupted else 0
