"""Files of trees, read piece by piece: statements that end with ';', wherever lines break.

Text that is compressed with gzip is unpacked on the way. A position in a file is told as line and
column, from 1, which is how editors count.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

PIECE = 1 << 20  # bytes that are read at a time
LONGEST = 1 << 28  # bytes of a statement
GZIP = b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")

ByteArray = npt.NDArray[np.uint8]


@dataclass
class Text:
    """A part of a file in memory, and where its first byte is."""

    name: str
    content: bytes = b""
    line: int = 1
    column: int = 1
    bytes_before: int = 0

    @property
    def array(self) -> ByteArray:
        return np.frombuffer(self.content, np.uint8)

    def place(self, position: int) -> tuple[int, int]:
        """The line and the column of a byte."""
        before = self.content[:position]
        lines = before.count(b"\n")
        if lines == 0:
            return self.line, self.column + len(before.decode("utf-8", "replace"))
        last = before[before.rfind(b"\n") + 1 :]
        return self.line + lines, 1 + len(last.decode("utf-8", "replace"))

    def error(self, position: int, problem: str) -> ValueError:
        """An error at a byte."""
        line, column = self.place(position)
        return ValueError(f"{self.name}, line {line}, column {column}: {problem}")


@dataclass(frozen=True)
class Statement:
    """Some text up to its ';' (or to the end of the file): bytes start .. stop of `text`."""

    text: Text
    array: ByteArray
    start: int
    stop: int

    @property
    def content(self) -> bytes:
        return self.text.content[self.start : self.stop]

    def error(self, position: int, problem: str) -> ValueError:
        """An error at a byte of the text."""
        return self.text.error(position, problem)


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if they are compressed."""
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder; give files of trees") from None
    with raw:
        if raw.peek(2)[:2] != GZIP:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as file:
            yield cast("IO[bytes]", file)


def statements(file: IO[bytes], name: str) -> Iterator[Statement]:
    """The statements of a file, one after the other.

    Blanks before a statement belong to it. What follows the last ';' is the last one, unless it is
    blank.
    """
    from hctrellis.kernels.treetext import statement_end

    text = Text(name, _piece(file, name))
    _check_encoding(text)
    if text.content.startswith(b"\xef\xbb\xbf"):
        text.content = text.content[3:]
    array, start, more = text.array, 0, True
    while True:
        end, unclosed = statement_end(array, start, len(array))
        if end >= 0:
            yield Statement(text, array, start, end)
            start = end
            continue
        piece = _piece(file, name) if more else b""
        if not piece:
            break
        text = _advance(text, start, piece)
        array, start = text.array, 0
    if unclosed >= 0:
        mark = "comment" if array[unclosed] == ord("[") else "quote"
        raise text.error(int(unclosed), f"this {mark} is never closed")
    if text.content[start:].strip():
        yield Statement(text, array, start, len(array))


def _piece(file: IO[bytes], name: str) -> bytes:
    try:
        return file.read(PIECE)
    except (EOFError, OSError, zlib.error):
        raise ValueError(f"{name} is damaged: it cannot be unpacked to its end") from None


def _advance(text: Text, start: int, piece: bytes) -> Text:
    """The text from `start` on, with one more piece of the file."""
    line, column = text.place(start)
    rest = text.content[start:]
    if len(rest) + len(piece) > LONGEST:
        raise text.error(start, f"there is no ';' in the {LONGEST:,} bytes from here on")
    # a long statement is joined a few times only: each piece is as long as what is there
    return Text(text.name, rest + piece, line, column, text.bytes_before + start)


def _check_encoding(text: Text) -> None:
    if text.content.startswith(UTF16) or b"\0" in text.content[:1000]:
        raise ValueError(
            f"{text.name} is not text in UTF-8; save it as plain text with that encoding"
        )
