"""Reading a file of lines in chunks: gzipped or not, with any line ends, cut off or not."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import TraceError

CHUNK = 2**18  # bytes read at a time: what is made of them stays in the cache
LONGEST = 2**16  # bytes of a line; a longer one is none of a log
# What containers put in front of a line: the CRI's "time stream F ", compose's "name  | ",
# and a byte order mark
PREFIX = re.compile(rb"(?:\xef\xbb\xbf)?(?:\S+ std(?:out|err) [FP] |[\w.-]+ +\| )?")
GZIP = b"\x1f\x8b"


class Chunk(Sequence[bytes]):
    """Lines that were read together, without their ends; split when one is asked for.

    Patterns run over the whole block; most chunks are never split.
    """

    def __init__(self, block: bytes) -> None:
        self.block = block
        self._length = block.count(b"\n") + 1
        self._split: list[bytes] | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice) and which == slice(0, None):
            return self
        if self._split is None:
            self._split = self.block.split(b"\n")
        return self._split[which]

    def __iter__(self) -> Iterator[bytes]:
        found: list[bytes] = self[:None]
        return iter(found)


def block_of(lines: Sequence[bytes]) -> bytes:
    """Return lines as one block, a line end between them."""
    return lines.block if isinstance(lines, Chunk) else b"\n".join(lines)


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

    def _read(self, file: gzip.GzipFile | io.BufferedReader) -> bytes:
        """Return the next bytes; all there are where the file is cut off."""
        parts, size = [], 0
        while size < CHUNK and not self.cut:
            try:
                part = file.read1(CHUNK - size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self.cut = f"the gzip data end too early or are damaged ({error})"
                break
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def chunks(self, on_bytes: Callable[[int], None] | None = None) -> Iterator[Chunk]:
        """Yield lines without their ends; tell `on_bytes` how far the file is read."""
        rest = b""
        with self.path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if self.zipped else raw
            while True:
                block = self._read(file)
                if not block:
                    break
                if on_bytes is not None:
                    on_bytes(raw.tell())
                whole, end, rest = (rest + block).rpartition(b"\n")
                if len(rest) > LONGEST:  # binary: no line ends
                    whole += end + rest[:LONGEST]
                    end, rest = b"\n", b""
                if end:
                    if b"\r" in whole:  # looking for one character is far faster than for two
                        whole = whole.replace(b"\r\n", b"\n").removesuffix(b"\r")
                    yield Chunk(whole)
        if rest:
            yield Chunk(rest.removesuffix(b"\r"))


def bare(line: bytes) -> bytes:
    """Return a line without what a container put in front of it."""
    found = PREFIX.match(line)
    return line[found.end() :] if found else line
