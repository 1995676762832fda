"""What `infer_many` is given, cut into chunks.

A `Source` knows what it can without reading everything (how many data sets there are, how many
leaves the largest has) and yields chunks in order. There is one for potentials, one for jets in
memory, and one for jets in files, of which only some rows are in memory at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from hctrellis.batch import momenta as layout
from hctrellis.batch.chunks import Chunk, JetChunk, PotentialChunk, seconds
from hctrellis.batch.files import ROOT, JetReader, ParquetReader, RootReader, is_root
from hctrellis.batch.lanes import EXACT_LEAVES, JetPotential
from hctrellis.batch.momenta import Particles
from hctrellis.batch.rows import JetRows, as_rows, spoiled_rates
from hctrellis.potentials.base import Potential
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.support.arrow import stored
from hctrellis.support.checks import as_floats
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
CHUNKS = 64  # of an input, if chunk_size is not given, or more ...
CHUNKS_PER_WORKER = 8  # ... if there are many workers; each chunk ...
MAX_CHUNK = 4000  # ... has at most this many data sets ...
MIN_SECONDS = 0.5  # ... and takes at least this time, or has at least MIN_CHUNK data sets
UNKNOWN_CHUNK = 1000  # data sets in a chunk, if the number of all is not known
MIN_CHUNK = 512
MAX_SECONDS = 20.0  # that a chunk takes on average, if that leaves it a data set


class Source(ABC):
    """Data sets in order."""

    jets: ClassVar[bool] = False
    """Whether the data sets are jets, to be given to a model here."""

    @property
    def jets_per_event(self) -> IntArray | None:
        """Numbers of jets of the events that they are nested in, if they are."""
        return None

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

    def chunk_size(self, most: int = EXACT_LEAVES, workers: int = 1) -> int:
        """A size of chunks that keeps all workers busy.

        Up to `most` leaves are solved exactly.
        """
        if self.rows is None or self.sizes is None:
            return UNKNOWN_CHUNK
        each = seconds(self.sizes, most)
        worst = float(each.max(initial=MIN_SECONDS / MIN_CHUNK))
        least = max(1, int(MIN_SECONDS / worst))
        mean = max(float(each.sum()) / max(1, len(each)), MAX_SECONDS / MAX_CHUNK)
        longest = max(1, int(MAX_SECONDS / mean))
        chunks = max(CHUNKS, CHUNKS_PER_WORKER * workers)
        return min(max(least, min(MAX_CHUNK, self.rows // chunks)), longest)


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
        start = 0
        while True:
            sizes = np.array([potential.n_leaves for potential in group], np.int64)
            taken = None if trees is None else _take(trees, len(group))
            yield PotentialChunk(group, sizes, taken, start)
            start += len(group)
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

    def chunk(self, rows: JetRows, start: int) -> JetChunk:
        """A chunk of these jets, the first of which is that of number `start`."""
        refused, rates = spoiled_rates(self.model, self.parameters, rows.rates)
        particles = rows.particles
        return JetChunk(
            self.model,
            self.parameters,
            particles.momenta,
            particles.sizes,
            refused | particles.errors,
            rows.trees,
            rates,
            start,
            rows.events,
        )


@dataclass(frozen=True)
class JetArrays(_JetSource):
    """Jets in memory."""

    all: JetRows

    @property
    def rows(self) -> int:
        return len(self.all)

    @property
    def sizes(self) -> IntArray:
        return self.all.particles.sizes

    @property
    def jets_per_event(self) -> IntArray | None:
        return self.all.particles.jets_per_event

    def chunks(self, size: int) -> Iterator[Chunk]:
        for start in range(0, max(1, self.rows), size):
            yield self.chunk(self.all.cut(start, min(start + size, self.rows)), start)


class Outline(NamedTuple):
    """How many particles the jets of some files have, and how many jets their events."""

    sizes: IntArray
    jets_per_event: IntArray | None


@dataclass(frozen=True)
class JetFiles(_JetSource):
    """Jets in one or several files, one after the other."""

    files: tuple[JetReader, ...]

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self.files[0].rate_columns}

    @property
    def rows(self) -> int:
        return len(self.sizes)

    @property
    def sizes(self) -> IntArray:
        return self._outline.sizes

    @property
    def jets_per_event(self) -> IntArray | None:
        return self._outline.jets_per_event

    @cached_property
    def _outline(self) -> Outline:
        none = np.empty(0, np.int64)
        found = [rows.particles for rows in self._read(READ_ROWS)]
        counts = [p.jets_per_event for p in found if p.jets_per_event is not None]
        if 0 < len(counts) < len(found):
            raise ValueError("some files have events with jets in them, others jets alone")
        sizes = np.concatenate([none, *(particles.sizes for particles in found)])
        return Outline(sizes, np.concatenate([none, *counts]) if counts else None)

    def _read(self, step: int) -> Iterator[JetRows]:
        event = 0
        for file in self.files:
            for rows in file.rows(step, event):
                counts = rows.particles.jets_per_event
                event += 0 if counts is None else len(counts)
                yield rows

    def chunks(self, size: int) -> Iterator[Chunk]:
        waiting, number = self._nothing(), 0
        for rows in self._read(max(size, READ_ROWS // size * size)):
            waiting = waiting.joined(rows)
            start = 0
            while len(waiting) - start >= size:
                yield self.chunk(waiting.cut(start, start + size), number)
                start += size
                number += size
            waiting = waiting.cut(start, len(waiting))
        if len(waiting) > 0 or self.rows == 0:
            yield self.chunk(waiting, number)

    def _nothing(self) -> JetRows:
        """No jets, with what the others have."""
        none = np.empty(0, np.int64)
        reader = self.files[0]
        return JetRows(
            Particles(np.empty((0, 4)), none, {}),
            [] if reader.tree_column else None,
            dict.fromkeys(reader.rate_columns, np.empty(0)),
            none if self.jets_per_event is not None else None,
        )


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
    given = {name: v for name, v in parameters.items() if name in RATES}
    named = {name: value for name, value in given.items() if isinstance(value, str)}
    rates = {name: v for name, v in given.items() if name not in named and hasattr(v, "__len__")}
    each = dict.fromkeys([*named, *rates], 1.0)  # in place of what differs from jet to jet
    parameters = _as_parameters(model, {**parameters, **each})
    paths = _as_paths(data)
    if paths:
        if not isinstance(true_trees, str | None):
            raise TypeError("true_trees must be the name of a column when the jets are in a file")
        if rates:
            raise TypeError(
                f"{next(iter(rates))} must be one number, or the name of a column, when the jets "
                "are in a file"
            )
        files = (
            (RootReader if is_root(path) else ParquetReader)(path, column, true_trees, named)
            for path in paths
        )
        return JetFiles(model, parameters, tuple(files))
    if hasattr(data, "to_arrow") and hasattr(data, "columns"):  # a DataFrame of Polars
        data = data.to_arrow()
    particles = _as_particles(data, column)
    rows = as_rows(particles, _as_trees(true_trees), {**rates, **_columns(data, named)})
    if rows.trees is not None and len(rows.trees) != len(particles):
        raise ValueError(
            f"{len(rows.trees)} true trees were given for {len(particles)} jets; give a tree or "
            "None for each jet"
        )
    for name, values in rows.rates.items():
        if values.shape != (len(particles),):
            raise ValueError(
                f"{name} has the shape {values.shape} for {len(particles)} jets; give one number "
                "for all, or one for each jet"
            )
        ends = [values.min(), values.max()] if len(values) > 0 and name in rates else []
        for value in ends:  # NaN is both
            model([[1.0, 0.0, 0.0, 0.0]], **{**parameters, name: float(value)})
    return JetArrays(model, parameters, rows)


def _columns(data: Any, named: Mapping[str, str]) -> dict[str, list[Any]]:
    """The columns of a table or array with the rates of jets."""
    found = {}
    for name, column in named.items():
        if hasattr(data, "schema") and column in data.schema.names:
            found[name] = data.column(column).to_pylist()
        elif hasattr(data, "fields") and column in data.fields:
            found[name] = data[column].to_list()
        else:
            raise ValueError(
                f"{name} must be a number, or the name of a column of the jets; there is no "
                f"column {column!r:.80}"
            )
    return found


def _as_paths(data: Any) -> list[Path]:
    """The files that are meant: one, several, or those of a folder in the order of their names."""
    if isinstance(data, list | tuple) and data and isinstance(data[0], str | PathLike):
        return [path for item in data for path in _as_paths(item)]
    if not isinstance(data, str | PathLike):
        return []
    path = Path(data)
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.parquet")) or sorted(path.glob(f"*{ROOT}"))
    if not found:
        raise ValueError(
            f"{path} is a folder without Parquet or ROOT files; give one with jets, or a file"
        )
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


def _as_trees(trees: Any) -> list[Any] | None:
    if trees is None:
        return None
    if isinstance(trees, str):
        raise TypeError("true_trees names a column only when the jets are in a file; give a list")
    return [_as_text(tree) for tree in trees]


def _as_text(tree: Any) -> Any:
    """A tree as text; those of an event as a list."""
    if isinstance(tree, Tree):
        return tree.to_newick()
    if hasattr(tree, "__len__") and not isinstance(tree, str | dict):
        return [_as_text(each) for each in tree]
    if not isinstance(tree, str | None):
        raise TypeError(f"a true tree must be a Tree or Newick text; got {tree!r:.80}")
    return None if tree is None else str(tree)


def _as_particles(data: Any, column: str | None) -> Particles:
    from hctrellis.simulate import Jets

    if hasattr(data, "schema") and hasattr(data, "column"):
        rows = stored(data.combine_chunks() if hasattr(data, "combine_chunks") else data)
        place = layout.find_in_schema(rows.schema, "the table", column)
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
    blocks, errors = [], {}
    for row, jet in enumerate(jets):
        if jet is None:
            errors[row] = layout.MISSING
        block = _rows(jet, f"jet {row}") if jet is not None and len(jet) else np.empty((0, 4))
        if block.ndim != 2 or block.shape[1] != 4:
            raise ValueError(
                f"jet {row} has shape {block.shape}; expected a row (E, px, py, pz) per particle"
            )
        blocks.append(block)
    sizes = np.array([len(block) for block in blocks], np.int64)
    return Particles(np.concatenate([np.empty((0, 4)), *blocks]), sizes, errors)


def _rows(jet: Any, what: str) -> FloatArray:
    """The momenta of a jet: numbers, records of NumPy, or objects with E, px, py and pz."""
    if getattr(getattr(jet, "dtype", None), "names", None):
        return layout.from_fields(jet, what)
    if isinstance(jet[0], Mapping):
        raise TypeError(f"{what} is a list of dicts; give awkward.Array(jets) in place of the jets")
    if all(hasattr(jet[0], name) for name in layout.COMPONENTS):
        jet = [[getattr(particle, name) for name in layout.COMPONENTS] for particle in jet]
    return as_floats(jet, what)
