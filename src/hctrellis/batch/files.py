"""Files of jets, read piece by piece: Parquet, and ROOT where uproot is installed.

A reader finds the momenta when it is made, and then yields rows of jets, some at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.batch import momenta as layout
from hctrellis.batch.momenta import Particles
from hctrellis.batch.rows import JetRows, as_rows
from hctrellis.support.arrow import (
    arrow,
    check_size,
    is_text,
    open_parquet,
    readable,
    stored,
    stored_schema,
    texts,
)
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from hctrellis.batch.momenta import Fields, Place

ROOT = ".root"
PREFIXES = ("_", ".")  # between the name of a collection and a component, in ROOT files


@dataclass(frozen=True)
class JetReader(ABC):
    """A file of jets.

    Attributes
    ----------
    path : Path
    column : str or None
        The column of the momenta, if the user said it.
    tree_column : str or None
        That of the true trees, if there is one.
    rate_columns : mapping from str to str
        Parameters of which each jet has its own, and their columns.
    """

    path: Path
    column: str | None
    tree_column: str | None
    rate_columns: Mapping[str, str]

    def __post_init__(self) -> None:
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Refuse a file without the columns that are needed."""

    def rows(self, step: int, first_event: int = 0) -> Iterator[JetRows]:
        """All jets, those of `step` rows of the file at a time."""
        for particles, trees, rates in self._pieces(step):
            found = as_rows(particles, trees, rates, first_event)
            first_event += 0 if particles.jets_per_event is None else len(particles.jets_per_event)
            yield found

    @abstractmethod
    def _pieces(self, step: int) -> Iterator[tuple[Particles, list[Any] | None, dict[str, Any]]]:
        """The particles, true trees and rates of some rows after the other."""

    def _refuse_missing(self, found: Iterable[str]) -> None:
        known = [*found]
        wanted = {"true trees": self.tree_column, **self.rate_columns}
        for what, name in wanted.items():
            if name is not None and name not in known:
                raise ValueError(
                    f"{self.path} has no column {name!r:.80} with {what}; it has "
                    f"{printable(', '.join(known)) or 'none':.200}"
                )


class ParquetReader(JetReader):
    """A Parquet file."""

    def _check(self) -> None:
        types = {field.name: field.type for field in self._schema}
        self._refuse_missing(types)
        if self.tree_column is not None and not is_text(_inner(types[self.tree_column])):
            raise ValueError(
                f"the column {self.tree_column!r:.80} of {self.path} holds "
                f"{str(types[self.tree_column])!r:.80}; "
                "expected trees in Newick format"
            )
        for name, column in self.rate_columns.items():
            kind = _inner(types[column])
            if not (arrow().types.is_integer(kind) or arrow().types.is_floating(kind)):
                raise ValueError(
                    f"the column {column!r:.80} of {self.path} holds {str(types[column])!r:.80}; "
                    f"expected a number for each jet, its {name}"
                )

    @cached_property
    def _file(self) -> Any:
        return open_parquet(self.path)

    @cached_property
    def _schema(self) -> Any:
        return stored_schema(self._file.schema_arrow)

    @cached_property
    def _place(self) -> Place:
        return layout.find_in_schema(self._schema, str(self.path), self.column)

    def _pieces(self, step: int) -> Iterator[tuple[Particles, list[Any] | None, dict[str, Any]]]:
        for rows in _full_batches(self._batches(step), step):
            particles = layout.from_arrow(rows, self._place, str(self.path))
            trees = texts(rows.column(self.tree_column)) if self.tree_column else None
            rates = {name: rows.column(c).to_pylist() for name, c in self.rate_columns.items()}
            yield particles, trees, rates

    def _batches(self, step: int) -> Iterator[Any]:
        columns = self._columns
        with readable(self.path):
            for batch in self._file.iter_batches(step, columns=columns):
                batch.validate(full=True)
                yield stored(batch)

    @cached_property
    def _columns(self) -> list[str]:
        """The columns to read, checked to fit in memory piece by piece."""
        others = [*([self.tree_column] if self.tree_column else []), *self.rate_columns.values()]
        columns = [*dict.fromkeys(self._place.columns + others)]
        check_size(self._file, self.path, columns, whole=False)
        return columns


def _inner(kind: Any) -> Any:
    """The type of what is in lists of an Arrow type."""
    while hasattr(kind, "value_type") and not arrow().types.is_dictionary(kind):
        kind = kind.value_type
    return kind


def _full_batches(batches: Iterable[Any], step: int) -> Iterator[Any]:
    """Arrow batches joined so that all but the last have `step` rows."""
    pa = arrow()
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= step:
            rows = pa.Table.from_batches(waiting).combine_chunks()
            yield rows.slice(0, step)
            waiting = rows.slice(step).to_batches()
    if sum(map(len, waiting)) > 0:
        yield pa.Table.from_batches(waiting).combine_chunks()


# ---- ROOT -------------------------------------------------------------------------------------


def is_root(path: Path) -> bool:
    """Whether a path is that of a ROOT file, or of a tree in one (``file.root:tree``)."""
    return path.suffix == ROOT or f"{ROOT}:" in path.name


class RootReader(JetReader):
    """A tree of a ROOT file, as uproot reads it: TTree or RNTuple.

    Branches ``jets_px``, ``jets_py``, ... (or ``jets.px``) are the components of ``jets``, and so
    are the fields of records ``jets`` of an RNTuple.
    """

    def _check(self) -> None:
        self._refuse_missing(self._tree.keys(recursive=False))

    @cached_property
    def _tree(self) -> Any:
        try:
            with ONE_AT_A_TIME:
                import uproot
        except ImportError:
            raise ImportError('ROOT files need uproot: pip install "hctrellis[root]"') from None
        file, _, name = str(self.path).partition(f"{ROOT}:")
        file = f"{file}{ROOT}" if name else file
        if not Path(file).exists():
            raise FileNotFoundError(f"there is no file {file}")
        with _sound(self.path):
            content = uproot.open(file)
            trees = [
                key
                for key, kind in content.classnames(cycle=False).items()
                if kind in ("TTree", "ROOT::RNTuple", "ROOT::Experimental::RNTuple")
            ]
        if not name and len(trees) == 1:
            name = trees[0]
        if not trees:
            raise ValueError(f"{file} has no tree (TTree or RNTuple), and so no jets")
        if name not in trees:
            raise ValueError(
                f"{file} has the trees {printable(', '.join(trees)):.200}; say which to read, as "
                f"{Path(file).name}:{trees[0]}"
            )
        with _sound(self.path):
            return content[name]

    @cached_property
    def _place(self) -> Place:
        return layout.find(self._fields, str(self.path), self.column)

    @cached_property
    def _fields(self) -> Fields:
        """The branches by collection."""
        found: dict[tuple[str, ...], list[str]] = {(): []}
        for key in self._tree.keys(recursive=False):
            found[()].append(key)
            for prefix in PREFIXES:
                collection, _, component = key.rpartition(prefix)
                if collection and component:
                    found.setdefault((collection,), []).append(component)
        for key in {*self._tree.keys(recursive=True)} - {*found[()]}:
            collection, _, component = key.partition(".")
            if collection in found[()] and component and not {*component} & {".", "/"}:
                found.setdefault((collection,), []).append(component)
        return found

    def _branch(self, component: str) -> tuple[str, ...]:
        """The branch of a component of the momenta, or a branch of records and its name there."""
        path = self._place.path
        names = [prefix.join([*path, component]) for prefix in PREFIXES]
        return next(((name,) for name in names if name in self._fields[()]), (*path, component))

    def _pieces(self, step: int) -> Iterator[tuple[Particles, list[Any] | None, dict[str, Any]]]:
        branches = [self._branch(name) for name in self._place.names]
        others = [*([self.tree_column] if self.tree_column else []), *self.rate_columns.values()]
        wanted = [*dict.fromkeys([*(branch[0] for branch in branches), *others])]
        for start in range(0, self._tree.num_entries, step):
            with _sound(self.path):
                rows = self._tree.arrays(wanted, entry_start=start, entry_stop=start + step)
            for collection, *component in branches:
                if component and component[0] not in rows[collection].fields:
                    raise ImportError(
                        f"this version of uproot does not read the records {collection:.80} of "
                        f'{self.path}; install a newer one: pip install -U "uproot>=5.7"'
                    )
            parts = [rows[branch] for branch in branches]
            particles = layout.from_lists(parts, self._place, str(self.path))
            trees = rows[self.tree_column].to_list() if self.tree_column else None
            rates = {name: rows[column].to_list() for name, column in self.rate_columns.items()}
            yield particles, trees, rates


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Say in one sentence what uproot finds wrong with a file."""
    try:
        yield
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # of many kinds
        reason = printable(" ".join(str(error).split()))[:200]
        raise ValueError(f"{path} is not a ROOT file that can be read: {reason}") from None
