"""Reading a file of lines in chunks: gzipped or not, with any line ends, cut off or not."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import TraceError

CHUNK = 2**20  # bytes read at a time
LONGEST = 2**16  # bytes of a line; a longer one is none of a log
# What containers put in front of a line: the CRI's "time stream F ", compose's "name  | ",
# and a byte order mark
PREFIX = re.compile(rb"(?:\xef\xbb\xbf)?(?:\S+ std(?:out|err) [FP] |[\w.-]+ +\| )?")
GZIP = b"\x1f\x8b"


class Source:
    """The lines of a file, chunk by chunk.

    `cut` tells after reading whether a gzipped file ended too early; what came before is used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.cut = ""
        try:
            self.size = self.path.stat().st_size
            if self.path.is_dir():
                raise TraceError(f"{path}: a directory; name the file, or its files one by one")
            with self.path.open("rb") as start:
                self.zipped = start.read(2) == GZIP
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror or error}") from None
        if self.size == 0:
            raise TraceError(f"{path}: the file is empty; a log has a line for each request")

    def chunks(self, on_bytes: Callable[[int], None] | None = None) -> Iterator[list[bytes]]:
        """Yield lists of lines without their ends; tell `on_bytes` how far the file is read."""
        rest = b""
        with self.path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if self.zipped else raw
            while True:
                try:
                    block = file.read(CHUNK)
                except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                    self.cut = f"the gzip data end too early or are damaged ({error})"
                    block = b""
                if not block:
                    break
                if on_bytes is not None:
                    on_bytes(raw.tell())
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                if len(rest) > LONGEST:  # binary: no line ends
                    lines.append(rest[:LONGEST])
                    rest = b""
                if lines:
                    yield [line[:-1] if line[-1:] == b"\r" else line for line in lines]
        if rest:
            yield [rest[:-1] if rest[-1:] == b"\r" else rest]


def bare(line: bytes) -> bytes:
    """Return a line without what a container put in front of it."""
    found = PREFIX.match(line)
    return line[found.end() :] if found else line
