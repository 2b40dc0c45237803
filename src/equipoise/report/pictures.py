"""Writing a matplotlib figure to a file, whole or not at all, and how all figures look."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import EquipoiseError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png", ".pdf")
INK, QUIET, RULE, GROUND = "#22211f", "#5c5a55", "#e4e1da", "#f4f1ea"
STYLE: Any = {
    "font.size": 10,
    "axes.labelcolor": INK,
    "text.color": INK,
    "svg.fonttype": "path",
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "axes.edgecolor": "#8b8880",
}


class Drawn:
    """What has a picture."""

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure, of no backend."""
        raise NotImplementedError

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an SVG, PNG or PDF file, as its name says.

        Raises
        ------
        EquipoiseError
            If it has another ending, or cannot be written there.
        """
        write(self.plot, path)


def write(draw: Callable[[], Figure], path: str | os.PathLike[str]) -> None:
    """Draw a figure and write it; the name's ending says which form.

    Raises
    ------
    EquipoiseError
        If the ending is another, the folder does not exist or may not be written to.
    """
    from matplotlib import rc_context

    ending = check_target(path)
    figure = draw()
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "equipoise", "svg.fonttype": "path"}):
        # no date in it: the same question gives the same file
        meta: dict[str, Any] = {} if ending == ".png" else {_date(ending): None}
        figure.savefig(buffer, format=ending[1:], dpi=160, metadata=meta, facecolor="white")
    target = pathlib.Path(path)
    temporary = target.with_name(f".{target.name[:80]}.{os.getpid()}")
    try:
        try:
            temporary.write_bytes(buffer.getvalue())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise EquipoiseError(f"cannot write {path}: {why}") from None


def check_target(path: str | os.PathLike[str]) -> str:
    """Return the ending of a picture's name; refuse what could not be written.

    Raises
    ------
    EquipoiseError
        If the ending is not known or the folder does not exist.
    """
    target = pathlib.Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise EquipoiseError(
            f"cannot write {path}: a picture's name must end in {', '.join(ENDINGS)}"
        )
    if target.is_dir():
        raise EquipoiseError(f"cannot write {path}: it is a directory; name a file in it")
    folder = target.absolute().parent
    if not folder.is_dir():
        raise EquipoiseError(
            f"cannot write {path}: the directory {folder} does not exist; make it first"
        )
    return ending


def _date(ending: str) -> str:
    return "Date" if ending == ".svg" else "CreationDate"
