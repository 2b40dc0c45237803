"""`equipoise reproduce`: the papers' figures, made again."""

from __future__ import annotations

import json
import pathlib

import click

from .progress import progress


@click.command("reproduce")
@click.argument("figures", nargs=-1)
@click.option(
    "--into",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a picture of each figure there. [default: none is written]",
)
@click.option(
    "--form",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    show_default=True,
    help="Which form pictures have.",
)
@click.option("--runs", type=int, metavar="R", help="Replications. [default: the figure's own]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of everything random.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def command(
    figures: tuple[str, ...],
    into: str | None,
    form: str,
    runs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Make the papers' figures again.

    Without names it lists them. Each prints its numbers with standard errors, beside what was
    published or what theory says where there is such a number. `all` makes all of them.

    \b
    Examples:
        equipoise reproduce
        equipoise reproduce settling shares --into figures
        equipoise reproduce all --into figures --form png
    """
    from ..report.reproduce import FIGURES, about, reproduce

    if not figures:
        width = max(map(len, FIGURES))
        for name in FIGURES:
            click.echo(f"{name:<{width}}   {about(name)}")
        return
    names = list(FIGURES) if "all" in figures else list(figures)
    folder = None
    if into is not None:
        from ..errors import EquipoiseError

        folder = pathlib.Path(into)
        if not folder.is_dir():
            raise EquipoiseError(f"--into: the directory {into} does not exist; make it first")
    made = []
    for i, name in enumerate(names):
        with progress() as told:
            found = reproduce(name, runs=runs, seed=seed, progress=told)
        target = None if folder is None else folder / f"{name}.{form}"
        if target is not None:
            found.picture(target)
        made.append(found.to_json())
        if not as_json:
            click.echo(("\n" if i else "") + found.text(None if target is None else str(target)))
    if as_json:
        click.echo(json.dumps(made, indent=2, ensure_ascii=False))
