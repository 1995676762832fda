"""Text in files: read whole, if it fits in memory, and decoded.

Errors say in one sentence what is wrong with a file and what to do.
"""

from __future__ import annotations

from pathlib import Path

from hctrellis.support.memory import check_fits

MAX_BYTES = 1 << 30  # of a file
PIECE = 1 << 22  # bytes that are read at a time
LESS = "a file of fewer rows or trees"
BYTES_PER_BYTE = 8  # of memory, while a text is decoded and cut into cells or tokens


def read_bytes(path: Path) -> bytes:
    """The content of a file, even of one that states no size or a wrong one."""
    content = bytearray()
    try:
        stated = path.stat().st_size
        check_fits(BYTES_PER_BYTE * min(stated, MAX_BYTES), f"the {stated:,} bytes of {path}", LESS)
        with path.open("rb") as file:
            while len(content) <= MAX_BYTES and (piece := file.read(PIECE)):
                content += piece
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES:,} bytes; use {LESS}")
    return bytes(content)


def as_text(content: bytes, name: str) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark."""
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValueError(f"{name} is not text in UTF-8; save it as plain text with that encoding")
    return text
