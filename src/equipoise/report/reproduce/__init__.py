"""The papers' figures, made again: numbers with errors beside those published, and pictures.

>>> from equipoise.report.reproduce import FIGURES, reproduce
>>> print(reproduce("shares").text())  # doctest: +SKIP
"""

from __future__ import annotations

from ...errors import EquipoiseError
from .base import Reproduction, Row, Told
from .pools import FIGURES as _POOLS
from .sparse import FIGURES as _SPARSE

FIGURES = {**_POOLS, **_SPARSE}


def reproduce(
    name: str, *, runs: int | None = None, seed: int = 1, progress: Told = None
) -> Reproduction:
    """Make a figure of the papers again.

    Parameters
    ----------
    name
        One of FIGURES.
    runs
        Replications; each figure has a number of its own at which it takes some seconds.
    seed, progress
        As for `compare`.

    Raises
    ------
    EquipoiseError
        If there is no such figure, or runs < 2.
    """
    if name not in FIGURES:
        raise EquipoiseError(f"no figure is called '{name}'; there are {', '.join(FIGURES)}")
    if runs is not None and runs < 2:
        raise EquipoiseError(f"runs = {runs} must be at least 2: one run alone has no error")
    chosen = FIGURES[name]
    if runs is None:
        return chosen(seed=seed, told=progress)
    return chosen(runs, seed=seed, told=progress)


def about(name: str) -> str:
    """Return what a figure shows, one line."""
    return (FIGURES[name].__doc__ or "").strip().splitlines()[0]


__all__ = ["FIGURES", "Reproduction", "Row", "about", "reproduce"]
