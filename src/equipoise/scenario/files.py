"""Opening and reading files, with every way to fail said in one line."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import EquipoiseError, ScenarioError
from equipoise.scenario.mistakes import did_you_mean

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def opened(path: str | os.PathLike[str], error: type[EquipoiseError]) -> Iterator[io.TextIOWrapper]:
    """Open a text file in UTF-8, gzipped or not; whatever goes wrong in the block is one `error`.

    Line ends are left as they are (for `csv`), a byte order mark is skipped.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            # Peeking leaves the stream as it was, so that a pipe can be read too.
            packed = raw.peek(2)[:2] == GZIP_MAGIC
            data: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError:
        line = _first_broken_line(path)
        raise error(
            f"{path}, line {line}: not UTF-8 text; convert it, e.g. iconv -f LATIN1 -t UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise error(
            f"{path}: the compressed file is damaged or cut short; fetch it again"
        ) from None
    except FileNotFoundError:
        raise error(f"{path}: no such file{_neighbour(path)}") from None
    except IsADirectoryError:
        raise error(f"{path}: is a directory; name a file in it") from None
    except PermissionError:
        raise error(f"{path}: no permission to read it; see chmod +r") from None
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror or failure}") from None


def read_text(path: str | os.PathLike[str], error: type[EquipoiseError]) -> str:
    """Return the whole text of a file."""
    with opened(path, error) as text:
        return text.read()


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML file; raise `ScenarioError` with the line of a syntax error."""
    text = read_text(path, ScenarioError)
    if not text.strip():
        raise ScenarioError(f"{path}: the file is empty; `equipoise new` writes one to start from")
    try:
        # TOML knows no lone carriage return, and tomllib wants line ends as text files have them.
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as failure:
        raise ScenarioError(f"{path}: not TOML: {failure}") from None


def read_table(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the columns of a small CSV of numbers: float64[rows] by name.

    Lines that begin with "#" are comments; the first other line names the columns.
    """
    columns: list[str] | None = None
    rows: list[list[float]] = []
    with opened(path, ScenarioError) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            if columns is None:
                columns = cells
                continue
            if len(cells) != len(columns):
                raise ScenarioError(
                    f"{path}, line {number}: {len(cells)} values, but the header names "
                    f"{len(columns)} columns ({', '.join(columns)})"
                )
            try:
                values = [float(cell) for cell in cells]
            except ValueError:
                raise ScenarioError(
                    f"{path}, line {number}: {line.strip()!r} must be numbers"
                ) from None
            if not np.isfinite(values).all():
                raise ScenarioError(f"{path}, line {number}: the numbers must be finite")
            rows.append(values)
    if columns is None or not rows:
        raise ScenarioError(f"{path}: holds no rows; it needs a header and numbers below it")
    table = np.array(rows, dtype=np.float64)
    return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(columns)}


def _first_broken_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8."""
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == GZIP_MAGIC
        data: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        number = 0
        for number, line in enumerate(data, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return number


def _neighbour(path: Path) -> str:
    """Return a guess at the file that was meant, from those in the same folder."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return ""
    return did_you_mean(path.name, names)
