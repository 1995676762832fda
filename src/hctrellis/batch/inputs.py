"""What `infer_many` is given, cut into chunks.

A `Source` knows what it can without reading everything (how many data sets there are, how many
leaves the largest has) and yields chunks in order. There is one for potentials, one for jets in
memory, and one for jets in a Parquet file, of which only some rows are in memory at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np

from hctrellis.batch import momenta as layout
from hctrellis.batch.chunks import Chunk, JetChunk, PotentialChunk, seconds
from hctrellis.batch.lanes import EXACT_LEAVES, NO_RATES, JetPotential, Rates
from hctrellis.batch.momenta import Particles
from hctrellis.potentials.base import Potential
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.support.arrow import arrow, check_size, is_text, open_parquet, readable, texts
from hctrellis.support.checks import as_floats
from hctrellis.support.printable import printable
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

MODELS: dict[str, JetPotential] = {
    "ginkgo": Ginkgo,
    "ginkgo-density": GinkgoDensity,
    "jetmass": JetMass,
}
RATES = ("lam", "lam_root")  # of which each jet may have its own
READ_ROWS = 20_000  # jets of a file in memory at a time; a whole chunk if that is more
CHUNKS = 64  # of an input, if chunk_size is not given; each chunk ...
MAX_CHUNK = 4000  # ... has at most this many data sets ...
MIN_SECONDS = 0.5  # ... and takes at least this time, or has at least MIN_CHUNK data sets
UNKNOWN_CHUNK = 1000  # data sets in a chunk, if the number of all is not known
MIN_CHUNK = 512
MAX_SECONDS = 20.0  # that a chunk takes on average, if that leaves it a data set

Trees: TypeAlias = Sequence[str | None] | None


class Source(ABC):
    """Data sets in order."""

    jets: ClassVar[bool] = False
    """Whether the data sets are jets, to be given to a model here."""

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """How many there are, if it is known."""

    @property
    @abstractmethod
    def sizes(self) -> IntArray | None:
        """The numbers of leaves of all, if they are known."""

    def largest(self, most: int) -> int | None:
        """The largest number of leaves, of those up to `most`, if known."""
        if self.sizes is None:
            return None
        return int(self.sizes[self.sizes <= most].max(initial=1))

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the answers depend on, besides the data sets."""

    @abstractmethod
    def chunks(self, size: int) -> Iterator[Chunk]:
        """All data sets, `size` at a time; one empty chunk if there are none."""

    def chunk_size(self, most: int = EXACT_LEAVES) -> int:
        """A size of chunks that keeps all workers busy; the same in every run.

        Up to `most` leaves are solved exactly.
        """
        if self.rows is None or self.sizes is None:
            return UNKNOWN_CHUNK
        each = seconds(self.sizes, most)
        worst = float(each.max(initial=MIN_SECONDS / MIN_CHUNK))
        least = max(1, int(MIN_SECONDS / worst))
        mean = max(float(each.sum()) / max(1, len(each)), MAX_SECONDS / MAX_CHUNK)
        longest = max(1, int(MAX_SECONDS / mean))
        return min(max(least, min(MAX_CHUNK, self.rows // CHUNKS)), longest)


# ---- potentials -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Potentials(Source):
    """Potentials in a list, or one after the other from an iterator."""

    potentials: Iterable[Potential]
    trees: Iterable[str | None] | None

    @property
    def rows(self) -> int | None:
        return len(self.potentials) if isinstance(self.potentials, Sequence) else None

    @cached_property
    def sizes(self) -> IntArray | None:
        if not isinstance(self.potentials, Sequence):
            return None
        sizes = [_as_potential(p, i).n_leaves for i, p in enumerate(self.potentials)]
        return np.array(sizes, np.int64)

    def settings(self) -> dict[str, Any]:
        return {}

    def chunks(self, size: int) -> Iterator[Chunk]:
        potentials = (_as_potential(p, i) for i, p in enumerate(self.potentials))
        trees = None if self.trees is None else iter(self.trees)
        group = list(islice(potentials, size))
        while True:
            sizes = np.array([potential.n_leaves for potential in group], np.int64)
            taken = None if trees is None else _take(trees, len(group))
            yield PotentialChunk(group, sizes, taken)
            group = list(islice(potentials, size))
            if not group:
                return


def _take(trees: Iterator[str | None], number: int) -> list[str | None]:
    taken = list(islice(trees, number))
    if len(taken) < number:
        raise ValueError(
            "there are fewer true trees than data sets; give a tree or None for each data set"
        )
    return taken


def _as_potential(value: object, row: int) -> Potential:
    if not isinstance(value, Potential):
        raise TypeError(
            f"data set {row} is not a Potential but {type(value).__name__}; give a list of "
            "potentials, or jets with the model, such as potential=Ginkgo"
        )
    return value


# ---- jets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _JetSource(Source):
    """Jets of one model."""

    jets: ClassVar[bool] = True
    model: JetPotential
    parameters: Mapping[str, Any]

    def settings(self) -> dict[str, Any]:
        return {"potential": self.model.__name__, **self.parameters}

    def chunk(self, particles: Particles, trees: Trees, rates: Rates = NO_RATES) -> JetChunk:
        """A chunk of these jets."""
        return JetChunk(
            self.model,
            self.parameters,
            particles.momenta,
            particles.sizes,
            particles.errors,
            trees,
            rates,
        )


@dataclass(frozen=True)
class JetArrays(_JetSource):
    """Jets in memory."""

    particles: Particles
    trees: Trees
    rates: Rates = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.particles)

    @property
    def sizes(self) -> IntArray:
        return self.particles.sizes

    def chunks(self, size: int) -> Iterator[Chunk]:
        for start in range(0, max(1, self.rows), size):
            stop = min(start + size, self.rows)
            rates = {name: values[start:stop] for name, values in self.rates.items()}
            trees = self.trees and self.trees[start:stop]
            yield self.chunk(self.particles.cut(start, stop), trees, rates)


@dataclass(frozen=True)
class JetFile(_JetSource):
    """Jets in a Parquet file."""

    path: Path
    tree_column: str | None
    column: str | None

    def __post_init__(self) -> None:
        types = {field.name: field.type for field in self._file.schema_arrow}
        if self.tree_column is None:
            return
        if self.tree_column not in types:
            raise ValueError(
                f"{self.path} has no column {self.tree_column!r:.80} with true trees; it has "
                f"{printable(', '.join(types)) or 'none':.200}"
            )
        if not is_text(types[self.tree_column]):
            raise ValueError(
                f"the column {self.tree_column!r:.80} of {self.path} holds "
                f"{str(types[self.tree_column])!r:.80}; "
                "expected trees in Newick format"
            )

    @cached_property
    def _file(self) -> Any:
        return open_parquet(self.path)

    @cached_property
    def _place(self) -> layout.Place:
        return layout.find_in_schema(self._file.schema_arrow, str(self.path), self.column)

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @cached_property
    def sizes(self) -> IntArray:
        return np.concatenate([np.empty(0, np.int64), *(j.sizes for j, _ in self._read(READ_ROWS))])

    def chunks(self, size: int) -> Iterator[Chunk]:
        if self.rows == 0:
            nothing = Particles(np.empty((0, 4)), np.empty(0, np.int64), {})
            yield self.chunk(nothing, None if self.tree_column is None else [])
        step = max(size, READ_ROWS // size * size)
        for particles, trees in self._read(step):
            for start in range(0, len(particles), size):
                stop = min(start + size, len(particles))
                yield self.chunk(particles.cut(start, stop), trees and trees[start:stop])

    def _read(self, step: int) -> Iterator[tuple[Particles, Trees]]:
        """The jets and true trees, `step` at a time."""
        for rows in _full_batches(self._batches(step), step):
            particles = layout.from_arrow(rows, self._place, str(self.path))
            trees = texts(rows.column(self.tree_column)) if self.tree_column else None
            yield particles, trees

    def _batches(self, step: int) -> Iterator[Any]:
        columns = self._columns
        with readable(self.path):
            for batch in self._file.iter_batches(step, columns=columns):
                batch.validate(full=True)
                yield batch

    @cached_property
    def _columns(self) -> list[str]:
        """The columns to read, checked to fit in memory piece by piece."""
        columns = self._place.columns + ([self.tree_column] if self.tree_column else [])
        check_size(self._file, self.path, columns, whole=False)
        return columns


@dataclass(frozen=True)
class JetFiles(_JetSource):
    """Jets in several Parquet files, one after the other."""

    files: tuple[JetFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @cached_property
    def sizes(self) -> IntArray:
        return np.concatenate([file.sizes for file in self.files])

    def chunks(self, size: int) -> Iterator[Chunk]:
        waiting = Particles(np.empty((0, 4)), np.empty(0, np.int64), {})
        trees: list[str | None] | None = [] if self.files[0].tree_column else None
        for file in self.files:
            for particles, more in file._read(max(size, READ_ROWS)):
                waiting = waiting.joined(particles)
                trees = None if trees is None else [*trees, *(more or ())]
                start = 0
                while len(waiting) - start >= size:
                    stop = start + size
                    yield self.chunk(waiting.cut(start, stop), trees and trees[start:stop])
                    start = stop
                waiting = waiting.cut(start, len(waiting))
                trees = None if trees is None else trees[start:]
        if len(waiting) > 0 or self.rows == 0:
            yield self.chunk(waiting, trees)


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


# ---- which of them ----------------------------------------------------------------------------


def as_source(
    data: Any,
    potential: object,
    column: str | None,
    true_trees: Any,
    parameters: Mapping[str, Any],
    lasting: bool,
) -> Source:
    """Make a source of what the user gave.

    Parameters
    ----------
    lasting : bool
        Whether the answers are kept in a folder; an iterator is then not read into memory.
    """
    from hctrellis.simulate import Jets

    if potential is None and isinstance(data, Jets):
        potential = Ginkgo
        parameters = {name: getattr(data, name) for name in ("lam", "t_cut", "lam_root")} | dict(
            parameters
        )
    if column is not None and not isinstance(column, str):
        raise TypeError(f"column must be the name of a column; got {column!r:.80}")
    if potential is None:
        named = {} if column is None else {"column": column}
        return _as_potentials(data, true_trees, {**named, **parameters}, lasting)
    model = _as_model(potential)
    rates = {name: v for name, v in parameters.items() if name in RATES and np.ndim(v) > 0}
    firsts = {name: np.ravel(values)[:1] for name, values in rates.items()}
    if any(len(first) == 0 for first in firsts.values()):
        firsts = dict.fromkeys(rates, np.ones(1))  # of no jets
    ones = {name: float(first[0]) for name, first in firsts.items()}
    parameters = _as_parameters(model, {**parameters, **ones})
    paths = _as_paths(data)
    if paths:
        if not isinstance(true_trees, str | None):
            raise TypeError("true_trees must be the name of a column when the jets are in a file")
        if rates:
            raise TypeError(f"{next(iter(rates))} must be one number when the jets are in a file")
        files = [JetFile(model, parameters, path, true_trees, column) for path in paths]
        return files[0] if len(files) == 1 else JetFiles(model, parameters, tuple(files))
    particles = _as_particles(data, column)
    trees = _as_trees(true_trees)
    if trees is not None and len(trees) != len(particles):
        raise ValueError(
            f"{len(trees)} true trees were given for {len(particles)} jets; give a tree or None "
            "for each jet"
        )
    each = {name: _as_rates(model, parameters, name, v, particles) for name, v in rates.items()}
    return JetArrays(model, parameters, particles, trees, each)


def _as_rates(
    model: JetPotential, parameters: Mapping[str, Any], name: str, given: Any, jets: Particles
) -> FloatArray:
    """A number for each jet, which the model accepts."""
    values = as_floats(given, name)
    if values.shape != (len(jets),):
        raise ValueError(
            f"{name} has the shape {values.shape} for {len(jets)} jets; give one number for all, "
            "or one for each jet"
        )
    for value in [values.min(), values.max()] if len(values) > 0 else []:  # NaN is both
        model([[1.0, 0.0, 0.0, 0.0]], **{**parameters, name: float(value)})
    return values


def _as_paths(data: Any) -> list[Path]:
    """The files that are meant: one, several, or those of a folder in the order of their names."""
    if isinstance(data, list | tuple) and data and isinstance(data[0], str | PathLike):
        return [path for item in data for path in _as_paths(item)]
    if not isinstance(data, str | PathLike):
        return []
    path = Path(data)
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.parquet"))
    if not found:
        raise ValueError(f"{path} is a folder without Parquet files; give one with jets, or a file")
    return found


def _as_potentials(
    data: Any, true_trees: Any, parameters: Mapping[str, Any], lasting: bool
) -> Source:
    if parameters:
        raise TypeError(
            f"{next(iter(parameters))} was given without a potential class; potentials in a list "
            "have their parameters already"
        )
    if isinstance(data, str | PathLike | np.ndarray) or not isinstance(data, Iterable):
        raise TypeError(
            f"data must be a list of potentials, or jets with the model, such as "
            f"potential=Ginkgo; got {type(data).__name__} without a model"
        )
    trees = _as_trees(true_trees)
    potentials = data if lasting and not isinstance(data, Sequence) else list(data)
    if trees is not None and isinstance(potentials, list) and len(trees) != len(potentials):
        raise ValueError(
            f"{len(trees)} true trees were given for {len(potentials)} data sets; give a tree or "
            "None for each data set"
        )
    return Potentials(potentials, trees)


def _as_model(potential: object) -> JetPotential:
    model = MODELS.get(potential.lower()) if isinstance(potential, str) else potential
    if model not in MODELS.values():
        raise ValueError(
            f"potential must be a model of jets, {', '.join(MODELS)} (or the class); got "
            f"{potential!r:.80}; for other models give a list of potentials"
        )
    return cast(JetPotential, model)


def _as_parameters(model: JetPotential, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that the model accepts."""
    if "labels" in parameters:
        raise TypeError("the leaves of jets are called 0, 1, ... here; leave out labels")
    try:
        model([[1.0, 0.0, 0.0, 0.0]], **parameters)
    except TypeError as error:
        reason = str(error).replace(f"{model.__name__}.__init__() ", "")
        raise TypeError(f"the parameters of {model.__name__} are wrong: {reason}") from None
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
    }


def _as_trees(trees: Any) -> list[str | None] | None:
    if trees is None:
        return None
    if isinstance(trees, str):
        raise TypeError("true_trees names a column only when the jets are in a file; give a list")
    return [tree.to_newick() if isinstance(tree, Tree) else _as_text(tree) for tree in trees]


def _as_text(tree: object) -> str | None:
    if not isinstance(tree, str | None):
        raise TypeError(f"a true tree must be a Tree or Newick text; got {tree!r:.80}")
    return None if tree is None else str(tree)


def _as_particles(data: Any, column: str | None) -> Particles:
    from hctrellis.simulate import Jets

    if hasattr(data, "schema") and hasattr(data, "column"):
        rows = data.combine_chunks() if hasattr(data, "combine_chunks") else data
        place = layout.find_in_schema(data.schema, "the table", column)
        return layout.from_arrow(rows, place, "the table")
    if hasattr(data, "layout") and hasattr(data, "fields"):
        return layout.from_awkward(data, column)
    if column is not None:
        raise TypeError(f"column was given, but jets as {type(data).__name__} have no columns")
    if isinstance(data, Jets):
        return Particles(data.momenta, data.n_leaves, {})
    if isinstance(data, Mapping) or hasattr(data, "iterrows"):
        raise TypeError(
            f"jets cannot be taken from a {type(data).__name__}, whose rows may be jets or "
            "particles; give an Awkward array, an Arrow table (pyarrow.table(...), one row per jet "
            "with lists of components), or a list with an array of shape (n, 4) for each jet"
        )
    if isinstance(data, Iterable):
        return _from_arrays(data)
    raise TypeError(
        f"jets must be an Awkward array, an Arrow table, a list of arrays or the path of a Parquet "
        f"file; got {type(data).__name__}"
    )


def _from_arrays(jets: Iterable[Any]) -> Particles:
    """The particles of jets given as arrays of shape (n, 4)."""
    blocks = []
    for row, jet in enumerate(jets):
        block = _rows(jet, f"jet {row}") if len(jet) else np.empty((0, 4))
        if block.ndim != 2 or block.shape[1] != 4:
            raise ValueError(
                f"jet {row} has shape {block.shape}; expected a row (E, px, py, pz) per particle"
            )
        blocks.append(block)
    sizes = np.array([len(block) for block in blocks], np.int64)
    return Particles(np.concatenate([np.empty((0, 4)), *blocks]), sizes, {})


def _rows(jet: Any, what: str) -> FloatArray:
    """The momenta of a jet: numbers, records of NumPy, or objects with E, px, py and pz."""
    if getattr(getattr(jet, "dtype", None), "names", None):
        return layout.from_fields(jet, what)
    if all(hasattr(jet[0], name) for name in layout.COMPONENTS):
        jet = [[getattr(particle, name) for name in layout.COMPONENTS] for particle in jet]
    return as_floats(jet, what)
