"""Arrays in a file, as `numpy.savez_compressed` writes them, read with suspicion.

A file may be damaged or malicious: nothing in it is unpickled or evaluated, and before an array
is read, its stated shape must agree with the stated size of its member, and all must fit in memory.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hctrellis.support.memory import check_fits
from hctrellis.support.printable import printable

MAGIC = b"\x93NUMPY\x01\x00"
KINDS = "iuU"  # of arrays that are read: whole numbers and texts
NUMBERS = "fiu"  # of arrays of any numbers
COPIES = 3  # of the arrays, in memory while they are checked

_HEADER = re.compile(
    rb"\{'descr': '([<>|][a-zA-Z][0-9]{1,4})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n"
)
_DAMAGED = (  # what zipfile raises for damaged files
    ValueError,
    LookupError,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class _Stated(NamedTuple):
    """What a member says that it holds."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


def read_arrays(
    path: str | Path, names: Sequence[str], kinds: str = KINDS
) -> dict[str, npt.NDArray[Any]]:
    """Read some arrays of an .npz file.

    Parameters
    ----------
    path : path
    names : sequence of str
    kinds : str
        The kinds of arrays that are expected, as NumPy abbreviates them.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not such a file, is damaged, or does not fit in memory.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {name: archive.getinfo(f"{name}.npy") for name in names}
                needed = COPIES * sum(member.file_size for member in members.values())
                check_fits(needed, f"the arrays of {path}", "a machine with more memory")
                return {name: _array(archive, member, kinds) for name, member in members.items()}
        except MemoryError:  # a refusal already in words
            raise
        except _DAMAGED as error:
            raise ValueError(printable(" ".join(f"{error}".split()))[:200]) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, kinds: str) -> npt.NDArray[Any]:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r:.80} is packed in an unknown way")
    with archive.open(member) as stream:
        start = stream.read(len(MAGIC) + 2)
        if len(start) < len(MAGIC) + 2 or not start.startswith(MAGIC):
            raise ValueError(f"{member.filename!r:.80} is not an array")
        header = stream.read(int.from_bytes(start[-2:], "little"))
        stated = _stated(header, member.filename, kinds)
        if member.file_size != len(start) + len(header) + stated.n_bytes:
            raise ValueError(
                f"{member.filename!r:.80} has {member.file_size} bytes, which is not the size of "
                f"an array of shape {stated.shape}"
            )
        content = stream.read(stated.n_bytes)
    if len(content) < stated.n_bytes:
        raise ValueError(f"{member.filename!r:.80} ends early")
    return np.frombuffer(content, stated.dtype).reshape(stated.shape).copy()


def _stated(header: bytes, name: str, kinds: str) -> _Stated:
    found = _HEADER.fullmatch(header)
    if found is None or chr(found[1][1]) not in kinds:
        what = "whole numbers or texts" if kinds == KINDS else "numbers"
        raise ValueError(f"{name!r:.80} is not an array of {what}")
    shape = tuple(int(size) for size in found[2].replace(b",", b" ").split())
    try:
        return _Stated(np.dtype(found[1].decode()), shape)
    except TypeError:
        raise ValueError(f"{name!r:.80} holds values of an unknown kind") from None
