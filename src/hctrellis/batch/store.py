"""Where answers are kept: in memory, or in a folder from which a killed run resumes.

A folder holds ``_manifest.json`` (the settings of the run), one Parquet file per chunk
(``part-00012.parquet``), and ``_lock``, held by the process that writes into it. Every
file is written under another name first and then renamed, so that no half file is ever seen. A
part carries the fingerprint of the data sets it was computed from; if it is there and readable, it
is not computed again. (Data sets for which `hctrellis.support.fingerprint` cannot tell whether they
are the same are always computed again.) Readers of Parquet folders skip names that begin with "_"
or ".".
"""

from __future__ import annotations

import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hctrellis._version import __version__
from hctrellis.batch.result import COUNTED, BatchResult, Summary
from hctrellis.support.arrow import arrow, parquet
from hctrellis.support.files import replaced
from hctrellis.support.fingerprint import OpaqueError
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from hctrellis.batch.chunks import Chunk

MANIFEST, LOCK, PARTS = "_manifest.json", "_lock", "part-*.parquet"
FORMAT = {"format": "hctrellis-batch", "version": 1}
FINGERPRINT = b"hctrellis.input"  # the key in the metadata of a part
SHOWN_CHANGES = 2  # of settings, in a message
MAX_PARTS = 100_000  # names have five digits


def begun_size(folder: Path) -> int | None:
    """The size of the chunks of the run that was begun in a folder, if one was."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        size = found["settings"]["chunk_size"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return size if isinstance(size, int) and size > 0 else None


class Store(ABC):
    """Keeps the tables of chunks."""

    def __init__(self, chunk_size: int) -> None:
        self._chunk_size = chunk_size
        self._summary = Summary()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @property
    def n_rows(self) -> int:
        """How many rows are kept so far."""
        return self._summary.n_rows

    @abstractmethod
    def missing(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, Chunk]]:
        """The chunks that are not yet solved, numbered."""

    @abstractmethod
    def add(self, index: int, table: Any) -> None:
        """Keep the table of a chunk."""

    @abstractmethod
    def result(self) -> BatchResult:
        """The result with all tables."""

    def _count(self, index: int, table: Any) -> None:
        columns = {name: table[name].combine_chunks() for name in COUNTED & {*table.column_names}}
        self._summary.add(index * self._chunk_size, columns)


class Memory(Store):
    """Tables in memory."""

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size)
        self._tables: dict[int, Any] = {}

    def missing(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, Chunk]]:
        return enumerate(chunks)

    def add(self, index: int, table: Any) -> None:
        self._count(index, table)
        self._tables[index] = table

    def result(self) -> BatchResult:
        tables = (self._tables[index] for index in sorted(self._tables))
        return BatchResult.from_parts(self._summary, tables)


class Folder(Store):
    """Parquet files in a folder, into which no other process may write meanwhile.

    Parameters
    ----------
    path : Path
        Made if it does not exist.
    settings : mapping
        What the answers depend on; a folder with other settings is refused.
    schema : pyarrow.Schema
        Of the tables.
    chunk_size : int
    overwrite : bool
        Remove what an earlier run left.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        schema: Any,
        chunk_size: int,
        overwrite: bool = False,
    ) -> None:
        super().__init__(chunk_size)
        self.path = path
        self._settings = {
            "hctrellis": __version__,
            "columns": schema.names,
            "n_trees": str(schema.field("n_trees").type),
            "chunk_size": chunk_size,
            **settings,
        }
        self._schema = schema
        self._overwrite = overwrite
        self._fingerprints: dict[int, str] = {}
        self._n_parts = 0
        self._warned = False

    def __enter__(self) -> Self:
        self._make()
        self._lock = _Lock(self.path)
        try:
            self._prepare()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise FileExistsError(
                f"{self.path} cannot be a folder for results: a file is in its place"
            ) from None
        except OSError as error:
            raise _cannot_write(self.path, error) from None

    def _prepare(self) -> None:
        """Compare with what an earlier run left, and write the manifest."""
        for half in self.path.glob(".*.tmp"):
            if half.name[1:-4] == MANIFEST or fnmatch(half.name[1:-4], PARTS):
                half.unlink()
        if self._overwrite:
            for old in (*self._parts(), self.path / MANIFEST):
                old.unlink(missing_ok=True)
        manifest = self.path / MANIFEST
        if manifest.exists():
            self._compare(manifest)
        elif self._parts():
            raise ValueError(
                f"{self.path} holds parts of unknown origin (no {MANIFEST}); {_anew()}"
            )
        else:
            text = json.dumps({**FORMAT, "settings": self._settings}, indent=1)
            with replaced(manifest, alone=True) as half:
                half.write_text(text, encoding="utf-8")

    def _compare(self, manifest: Path) -> None:
        try:
            found = json.loads(manifest.read_text(encoding="utf-8"))
            old = dict(found["settings"])
            known = {name: found[name] for name in FORMAT} == FORMAT
        except (ValueError, KeyError, TypeError, RecursionError):
            known = False
        if not known:
            raise ValueError(f"{manifest} was not written by this program; {_anew()}")
        new = json.loads(json.dumps(self._settings))
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names:
            changes = ", ".join(
                _change(name, old.get(name), new.get(name)) for name in names[:SHOWN_CHANGES]
            )
            raise ValueError(f"{self.path} holds results of another run ({changes}); {_anew()}")

    def missing(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, Chunk]]:
        for index, chunk in enumerate(chunks):
            if index >= MAX_PARTS:
                raise ValueError(
                    f"there are more than {MAX_PARTS} chunks of {self._chunk_size} data sets; "
                    "give a larger chunk_size"
                )
            self._n_parts = index + 1
            mark = self._mark(index, chunk)
            if not mark or not self._has(index, len(chunk), mark):
                self._fingerprints[index] = mark
                yield index, chunk
        self._refuse_surplus()

    def _mark(self, index: int, chunk: Chunk) -> str:
        """The fingerprint of a chunk; empty if it holds something that cannot be compared."""
        try:
            return chunk.fingerprint()
        except OpaqueError as error:
            if self._part(index).exists() and not self._warned:
                self._warned = True
                warnings.warn(
                    f"it is not known whether the data sets are those that {self.path} was "
                    f"computed from ({error}), so they are computed again",
                    stacklevel=4,
                )
            return ""

    def _has(self, index: int, n_rows: int, mark: str) -> bool:
        """Whether a part exists, is complete, and was computed from these data sets."""
        path = self._part(index)
        try:
            found = parquet().read_metadata(path)
            whole = found.schema.to_arrow_schema().equals(self._schema)
            table = parquet().read_table(path, columns=[*COUNTED & {*self._schema.names}])
        except (OSError, arrow().ArrowException):
            return False
        if not whole:
            return False
        if (found.metadata or {}).get(FINGERPRINT) != mark.encode() or found.num_rows != n_rows:
            first = index * self._chunk_size
            raise ValueError(
                f"{path} was computed from other data sets, not those numbered {first} to "
                f"{first + n_rows - 1} in this input; {_anew()}"
            )
        self._count(index, table)
        return True

    def _refuse_surplus(self) -> None:
        last = self._part(self._n_parts - 1)
        surplus = [path for path in self._parts() if path.name > last.name]
        if surplus:
            raise ValueError(
                f"{self.path} holds {len(surplus)} more parts than this input has; {_anew()}"
            )

    def add(self, index: int, table: Any) -> None:
        self._count(index, table)
        marked = table.replace_schema_metadata({FINGERPRINT: self._fingerprints.pop(index)})
        with replaced(self._part(index), alone=True) as half:
            parquet().write_table(marked, half)

    def result(self) -> BatchResult:
        return BatchResult.from_parts(
            self._summary, map(self._part, range(self._n_parts)), self.path
        )

    def _part(self, index: int) -> Path:
        return self.path / f"part-{index:05d}.parquet"

    def _parts(self) -> list[Path]:
        return sorted(self.path.glob(PARTS))


class _Lock:
    """A lock on a folder that vanishes with the process, even if it is killed."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file = (folder / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise _cannot_write(folder, error) from None
        try:
            _hold(self._file)
        except BlockingIOError:
            self._file.seek(0)
            who = self._file.read().strip() or "unknown"
            self._file.close()
            raise BlockingIOError(
                f"another process (number {who}) is writing into {folder}; wait until it has "
                "finished, or give another folder"
            ) from None
        try:
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # closing tries once more to write
                self._file.close()
            raise _cannot_write(folder / LOCK, error) from None

    def release(self) -> None:
        """Let others in."""
        self._file.close()


def _hold(file: Any) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _cannot_write(path: Path, error: OSError) -> OSError:
    return OSError(f"{path} cannot be written: {error.strerror or error}")


def _anew() -> str:
    return "give another folder, or start over with overwrite=True (--overwrite)"


def _change(name: str, old: Any, new: Any) -> str:
    """A setting that differs, in words; of lists only what is in one of them."""
    if isinstance(old, list) and isinstance(new, list):
        gone, more = ([x for x in a if x not in b] for a, b in ((old, new), (new, old)))
        changes = [("without", gone), ("with", more)]
        said = [f"{word} {', '.join(map(str, items))}" for word, items in changes if items]
        if said:
            return f"{printable(name):.40} now {printable(' and '.join(said)):.120}"
    return f"{printable(name):.40} was {_show(old)}, now {_show(new)}"


def _show(value: object) -> str:
    return "not given" if value is None else f"{json.dumps(value):.120}"
