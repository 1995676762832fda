"""Writing files whole: a reader never sees half a file, and a failed run leaves the old one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raise a clear error if a file cannot be written there."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into")


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file whole, in place of one that may be there."""
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def write_text(path: Path, text: str) -> Path:
    """The same with text."""
    return write_bytes(path, text.encode("utf-8"))
