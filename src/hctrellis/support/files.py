"""Writing files whole: a reader never sees half a file, and a failed run keeps the old one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raise a clear error if a file cannot be written there."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into")


@contextmanager
def replaced(path: Path, alone: bool = False) -> Iterator[Path]:
    """A temporary name to write a file under; at the end the new file replaces an old one.

    If writing fails or is interrupted, the old file is left as it is. Links are followed; what is
    not a file, such as /dev/stdout, is written to directly. If nobody else writes there (`alone`),
    the temporary name is always the same, so that killed processes leave at most one unfinished
    file.
    """
    check_writable(path)
    target = path.resolve()
    if target.exists() and not target.is_file():
        with _named(path):
            yield path
        return
    half = target.with_name(f".{target.name[:80]}.{'tmp' if alone else secrets.token_hex(8)}")
    with _named(path):
        half.touch(exist_ok=alone)
    try:
        with _named(path):
            yield half
            _settle(half)
            half.replace(target)
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make errors of the system name the file that was asked for."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror or error}") from None


def _settle(half: Path) -> None:
    """Flush a file to disk."""
    with half.open("rb") as file:
        os.fsync(file.fileno())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a whole file, in place of one that may be there."""
    with replaced(path) as half:
        half.write_bytes(content)
    return path


def write_text(path: Path, text: str) -> Path:
    """The same for text."""
    return write_bytes(path, text.encode("utf-8"))
