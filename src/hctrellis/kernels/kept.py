"""Compiled code that is kept on disk, by Numba's cache, and cannot break any work.

Numba's cache files are pickles, and reading one can run anything. So files are read only from a
folder into which no other user can write (see `support.private`), which is made for its owner alone
if it is missing; the places that Numba would choose are tried in turn. Each file ends in a digest
of what comes before, and the code in it knows for which text and arguments it was compiled: files
that are cut short, spoiled, or left over from a disk that was full are not used. Numba looks at the
file of a function alone, and at its time, which packages set to a constant; so the text of all
kernels counts here, since functions of other files are compiled into them. Whatever goes
wrong with the files, the code is compiled anew, in memory, and that is said once.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hctrellis.kernels.door import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from hctrellis.support.private import make_private, who_else_writes

DIGEST_BYTES = 32
CONSTANTS = ("arrays", "bounded", "branch", "logs")  # modules of `support` that kernels import
_refused: list[str] = []
_said: list[str] = []


def keep(function: Any, made_of: bytes) -> None:
    """Have Numba keep the code of a compiled function, if there is a place for it.

    made_of : what stands for the text of all that is compiled into it
    """
    try:
        function._cache = _Cache(function.py_func, made_of)
    except RuntimeError:  # there is none
        if _refused:
            _say(f"{_refused[0]}, so nothing is kept there (NUMBA_CACHE_DIR may name a folder)")


def _say(reason: str) -> None:
    """Say, once, that code is not taken from disk."""
    if not _said:
        _said.append(reason)
        warnings.warn(
            f"code is compiled anew, which takes longer: {reason}", RuntimeWarning, stacklevel=2
        )


@cache
def kernel_texts() -> bytes:
    """What stands for the text of all kernels, and of the constants that are compiled into them."""
    here = Path(__file__).parent
    shared = [here.with_name("support") / f"{name}.py" for name in CONSTANTS]
    return texts_of([*shared, *sorted(here.glob("*.py"))])


def texts_of(paths: list[Path]) -> bytes:
    """What stands for the text of some files."""
    return _digest(b"".join(_digest(path.name.encode() + path.read_bytes()) for path in paths))


# ---- where ------------------------------------------------------------------------------------


def _ensure_cache_path(self: Any) -> None:
    """Make the folder of a locator; an OSError has Numba try the next one."""
    folder = Path(self.get_cache_path())
    make_private(folder)
    reason = who_else_writes(folder)
    if reason is not None:
        _refused.append(reason)
        raise PermissionError(reason)
    tempfile.TemporaryFile(dir=folder).close()  # can it be written?


class _Impl(CompileResultCacheImpl):
    """Looks for a folder in the places of Numba, but trusts only some."""

    _locator_classes: Any = [  # noqa: RUF012
        type(place.__name__, (place,), {"ensure_cache_path": _ensure_cache_path})
        for place in CompileResultCacheImpl._locator_classes
    ]


# ---- what -------------------------------------------------------------------------------------


class _Files(IndexDataCacheFile):
    """The files of one function."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, self._source_stamp, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return None if found is None or found[:2] != (key, self._source_stamp) else found[2]

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if _is_whole(self._data_path(name)) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _digest(content.getvalue()))


def _is_whole(path: str) -> bool:
    """Whether a file is there and is what was once written."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return False
    whole = _digest(content[:-DIGEST_BYTES]) == content[-DIGEST_BYTES:]
    if not whole:
        _say(f"{path} is spoiled")
    return whole


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class _Cache(FunctionCache):
    """Numba's cache of one function, which never fails."""

    _impl_class = _Impl

    def __init__(self, function: Any, made_of: bytes) -> None:
        super().__init__(function)
        reason = who_else_writes(Path(self.cache_path))  # a place that the user chose otherwise
        if reason is not None:
            _refused.append(reason)
            raise RuntimeError(reason)
        stamp = (self._impl.locator.get_source_stamp(), made_of)
        self._cache_file = _Files(self.cache_path, f"{self._impl.filename_base}.kept", stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _say(f"{self.cache_path} cannot be read: {error}")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _say(f"{self.cache_path} cannot be written: {error}")
