"""A chunk of data sets: a unit of work, and its answers as a table.

A chunk holds consecutive data sets. `solve_chunk` checks them, groups those with the same number of
leaves, has each group solved, and returns an Arrow table with one row per data set, in order. It
is what threads, processes and machines run.
"""

from __future__ import annotations

import heapq
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.batch.extras import Answers, Extras
from hctrellis.batch.lanes import (
    DEFAULT,
    METHODS,
    Columns,
    JetPotential,
    Look,
    Rates,
    explain,
    of_jet,
    solve_group,
    solve_jets,
    weigh_group,
    weigh_jets,
)
from hctrellis.batch.prepared import Prepared, prepare
from hctrellis.posterior.base import BasePosterior
from hctrellis.potentials.base import Potential
from hctrellis.sampling.policy import Policy
from hctrellis.support.arrow import arrow
from hctrellis.support.checks import default_labels
from hctrellis.support.fingerprint import fingerprint
from hctrellis.tree import Tree
from hctrellis.trees.newick import newick_many, read_plain

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray, IntArray

SECONDS_PER_SPLIT = 2e-9
SECONDS_BEYOND = 2.0  # of a data set that is not solved exactly
LOOK_AHEAD = 64  # chunks among which the longest comes first
ANSWERS = ("log_partition", "map_log_weight", "entropy")
NOTHING_MORE = Extras()
DECIMAL_DIGITS = 38  # of an Arrow decimal; (2n - 3)!! has 36 at 28 leaves, the most possible


def seconds(sizes: IntArray, most: int) -> FloatArray:
    """About how long data sets take, if up to so many leaves are solved exactly."""
    exact = SECONDS_PER_SPLIT / 2 * 3.0 ** np.minimum(sizes, most)
    return np.where(sizes <= most, exact, SECONDS_BEYOND)


def longest_first(chunks: Iterable[tuple[int, Chunk]], most: int) -> Iterator[tuple[int, Chunk]]:
    """Numbered chunks, of the next few always the longest, so that none of them ends last alone."""
    waiting: list[tuple[float, int, Chunk]] = []
    for index, chunk in chunks:
        heapq.heappush(waiting, (-chunk.cost(most), index, chunk))
        if len(waiting) >= LOOK_AHEAD:
            yield heapq.heappop(waiting)[1:]
    while waiting:
        yield heapq.heappop(waiting)[1:]


@dataclass(frozen=True)
class Wanted:
    """Which columns a table has besides those it always has."""

    entropy: bool = False
    truth: bool = False
    seconds: bool = False
    wide: bool = False
    """Whether the number of trees may not fit into 64 bits."""
    policy: Policy = DEFAULT
    """Up to how many leaves inference is exact, and what is done beyond."""
    repaired: bool = False
    """Whether the data sets are jets, whose particles may have been put on their mass shells."""
    heights: bool = False
    count: bool = False
    """Whether to count trees also where that takes long."""
    extras: Extras = NOTHING_MORE
    events: bool = False
    """Whether the data sets are jets nested in events."""

    def schema(self) -> Any:
        """The Arrow schema of the tables."""
        pa = arrow()
        number = pa.float64()
        fields = {
            **({"event": pa.int64()} if self.events else {}),
            "n_leaves": pa.int64(),
            "log_partition": number,
            "map_log_weight": number,
            "map_tree": pa.string(),
            "n_trees": pa.decimal128(DECIMAL_DIGITS, 0) if self.wide else pa.int64(),
            "method": pa.string(),
            "log_partition_error": number,
            "bound": number,
            **({"map_heights": pa.list_(number)} if self.heights else {}),
            **({"entropy": number} if self.entropy else {}),
            **self.extras.fields(),
            **({"true_log_weight": number} if self.truth else {}),
            **({"seconds": number} if self.seconds else {}),
            **({"repaired": pa.int64()} if self.repaired else {}),
            "error": pa.string(),
        }
        return pa.schema(fields.items())


class Chunk(ABC):
    """Consecutive data sets.

    Attributes
    ----------
    sizes : int64 array, shape (m,)
        Numbers of leaves.
    trees : sequence of str or None, or None
        The true trees in Newick format, if there are any.
    start : int
        The number of the first among all data sets.
    events : int64 array or None
        The number of the event of each, if they are jets that were nested in events.
    """

    sizes: IntArray
    trees: Sequence[str | None] | None
    start: int
    events: IntArray | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def cost(self, most: int) -> float:
        """About how long it takes, in seconds, if up to so many leaves are solved exactly."""
        return float(seconds(self.sizes, most).sum())

    @abstractmethod
    def check(self) -> dict[int, str]:
        """What is wrong with the data sets that cannot be solved, by position."""

    @property
    def repaired(self) -> IntArray:
        """How many particles of each data set were put on their mass shells."""
        return np.zeros(len(self), np.int64)

    @abstractmethod
    def solve(
        self,
        rows: IntArray,
        entropy: bool,
        policy: Policy,
        look: Look | None = None,
        count: bool = False,
    ) -> Columns:
        """Solve data sets of equal size; `look` is given the posterior of each, if there is one."""

    @abstractmethod
    def potential(self, row: int) -> Potential:
        """The model of one data set."""

    @abstractmethod
    def labels(self, rows: IntArray) -> list[tuple[str, ...]] | None:
        """The labels of the leaves; None if they are "0", "1", ..."""

    @abstractmethod
    def weigh_trees(self, rows: IntArray, children: IntArray) -> FloatArray:
        """The log weights of trees, one tree for each of these data sets of equal size."""

    @abstractmethod
    def align(self, row: int, tree: Tree) -> Tree:
        """A tree with the leaves in the order of the data set."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that tells this chunk from all others."""


@dataclass(frozen=True)
class JetChunk(Chunk):
    """Jets of one model.

    Attributes
    ----------
    model : type
        `Ginkgo` or `JetMass`.
    parameters : mapping
        What the model takes besides momenta.
    momenta : float64 array, shape (number of particles, 4)
        Those of all jets, one after the other.
    errors : mapping from int to str
        What is known to be wrong, by position; such a jet has no momenta here.
    rates : mapping from str to array
        Parameters of which each jet has its own.
    """

    model: JetPotential
    parameters: Mapping[str, Any]
    momenta: FloatArray
    sizes: IntArray
    errors: Mapping[int, str]
    trees: Sequence[str | None] | None = None
    rates: Rates = field(default_factory=dict)
    start: int = 0
    events: IntArray | None = None

    def check(self) -> dict[int, str]:
        return dict(self._prepared.errors)

    @property
    def repaired(self) -> IntArray:
        return self._prepared.repaired

    def solve(
        self,
        rows: IntArray,
        entropy: bool,
        policy: Policy,
        look: Look | None = None,
        count: bool = False,
    ) -> Columns:
        given = (self.model, self._block(rows), self.parameters, entropy, policy)
        return solve_jets(*given, self._rates(rows), look, count)

    def potential(self, row: int) -> Potential:
        jet = self._block(np.array([row]))[0]
        return self.model(jet, **of_jet(self.parameters, self.rates, row))

    def labels(self, rows: IntArray) -> None:
        return None

    def weigh_trees(self, rows: IntArray, children: IntArray) -> FloatArray:
        rates = self._rates(rows)
        return weigh_jets(self.model, self._block(rows), children, self.parameters, rates)

    def align(self, row: int, tree: Tree) -> Tree:
        return _align(tree, default_labels(int(self.sizes[row])))

    def fingerprint(self) -> str:
        told = [self.momenta, self.sizes, self.trees, dict(self.errors)]
        others = [dict(self.rates), self.events]
        return fingerprint(*told, *(other for other in others if other is not None and len(other)))

    def _rates(self, rows: IntArray) -> Rates:
        return {name: values[rows] for name, values in self.rates.items()}

    def _block(self, rows: IntArray) -> FloatArray:
        """The momenta of jets of equal size, shape (m, n, 4)."""
        places = self._starts[rows][:, None] + np.arange(self.sizes[rows[0]])
        return self._prepared.momenta[places]

    @cached_property
    def _prepared(self) -> Prepared:
        return prepare(self.model, self.parameters, self.momenta, self.sizes, self.errors)

    @cached_property
    def _starts(self) -> IntArray:
        return np.cumsum(self.sizes) - self.sizes


@dataclass(frozen=True)
class PotentialChunk(Chunk):
    """Potentials of any kind."""

    potentials: Sequence[Potential]
    sizes: IntArray
    trees: Sequence[str | None] | None = None
    start: int = 0

    def check(self) -> dict[int, str]:
        return {}

    def solve(
        self,
        rows: IntArray,
        entropy: bool,
        policy: Policy,
        look: Look | None = None,
        count: bool = False,
    ) -> Columns:
        return solve_group(self._group(rows), entropy, policy, look, count)

    def potential(self, row: int) -> Potential:
        return self.potentials[row]

    def labels(self, rows: IntArray) -> list[tuple[str, ...]]:
        return [potential.labels for potential in self._group(rows)]

    def weigh_trees(self, rows: IntArray, children: IntArray) -> FloatArray:
        return weigh_group(self._group(rows), children)

    def align(self, row: int, tree: Tree) -> Tree:
        return _align(tree, self.potentials[row].labels)

    def fingerprint(self) -> str:
        return fingerprint(list(self.potentials), self.trees)

    def _group(self, rows: IntArray) -> list[Potential]:
        return [self.potentials[row] for row in rows]


def _align(tree: Tree, labels: tuple[str, ...]) -> Tree:
    if set(tree.labels) != set(labels):
        odd = min(set(tree.labels) ^ set(labels))
        raise ValueError(
            f"it has {tree.n_leaves} leaves, the data set has {len(labels)}, and their labels "
            f"differ, for instance in {odd!r}"
        )
    return tree.reorder(labels)


# ---- answers ----------------------------------------------------------------------------------


class AnswerColumns:
    """The columns of a table while it is filled; NaN and None become null."""

    def __init__(self, chunk: Chunk, wanted: Wanted) -> None:
        m = len(chunk)
        self.chunk, self.wanted = chunk, wanted
        self.errors = chunk.check()
        self.n_trees = np.zeros(m, object if wanted.wide else np.int64)
        self.uncounted = np.ones(m, bool)
        self.methods = np.full(m, -1)
        self.map_trees: list[tuple[IntArray, Any]] = []
        self.heights: list[Any] = [None] * m
        self.extras: dict[int, Answers] = {}
        names = [*ANSWERS, "log_partition_error", "bound", "true_log_weight", "seconds"]
        self.numbers = {name: np.full(m, np.nan) for name in names}

    def groups(self) -> Iterator[IntArray]:
        """The rows that can be solved, those of equal size together."""
        sizes = self.chunk.sizes.copy()
        sizes[list(self.errors)] = -1
        for size in np.unique(sizes[sizes >= 0]):
            yield np.flatnonzero(sizes == size)

    def solve(self, rows: IntArray) -> None:
        """Fill in the answers for a group."""
        start = time.perf_counter()
        wanted, first = self.wanted, self.chunk.start

        def look(i: int, post: BasePosterior) -> None:
            row = int(rows[i])
            self.extras[row] = wanted.extras.ask(post, first + row)

        asked = look if wanted.extras else None
        found = self.chunk.solve(rows, wanted.entropy, wanted.policy, asked, wanted.count)
        each = (time.perf_counter() - start) / len(rows)
        solved = np.ones(len(rows), bool)
        solved[list(found.errors)] = False
        self.errors.update({int(rows[i]): message for i, message in found.errors.items()})
        for name in ANSWERS:
            self.numbers[name][rows] = getattr(found, name)
        self.numbers["seconds"][rows] = np.where(solved, each, np.nan)
        self.n_trees[rows] = found.n_trees
        exact = solved & (found.method == 0)
        self.methods[rows[solved]] = found.method[solved]
        self.numbers["bound"][rows] = np.where(exact, found.log_partition, found.bound)
        errors = np.where(solved, found.log_partition_error, np.nan)
        self.numbers["log_partition_error"][rows] = errors
        self.uncounted[rows] = ~exact | (found.n_trees < 0)
        self._write_trees(rows, found.children, solved & (found.map_log_weight > -math.inf))

    def _write_trees(self, rows: IntArray, children: IntArray, possible: BoolArray) -> None:
        possible = possible & self._writable(rows)
        if not possible.all():
            rows, children = rows[possible], children[possible]
        for row, tree in zip(rows.tolist(), children, strict=True) if self.wanted.heights else ():
            self.heights[row] = self._heights(row, tree)
        if len(rows) > 0:
            texts, offsets = newick_many(children, self.chunk.labels(rows))
            pa = arrow()
            buffers = (pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(texts))
            self.map_trees.append((rows, pa.StringArray.from_buffers(len(rows), *buffers)))

    def _heights(self, row: int, children: IntArray) -> FloatArray | None:
        """The heights of a tree, where its model has some."""
        model = self.chunk.potential(row)
        return model.heights(Tree(children, labels=model.labels))

    def _writable(self, rows: IntArray) -> BoolArray:
        """Whether trees can be written with their labels; the errors of those that cannot."""
        fine = np.ones(len(rows), bool)
        for i, labels in enumerate(self.chunk.labels(rows) or ()):
            try:
                "".join(labels).encode()
            except UnicodeEncodeError as error:
                odd = error.object[error.start : error.end]
                message = f"the character {odd!r:.40} of a label cannot be written in UTF-8"
                self.errors.setdefault(int(rows[i]), f"{message}; replace it")
                fine[i] = False
        return fine

    def _trees_in_order(self) -> Any:
        """The Newick texts of all groups, each in the row of its data set."""
        pa = arrow()
        if not self.map_trees:
            return pa.nulls(len(self.chunk), pa.string())
        rows, texts = zip(*self.map_trees, strict=True)
        places = np.full(len(self.chunk), -1)
        found = np.concatenate(rows)
        places[found] = np.arange(len(found))
        return pa.concat_arrays(texts).take(pa.array(places, mask=places < 0))

    def weigh_true_trees(self, rows: IntArray) -> None:
        """Fill in the log weights of the true trees of a group."""
        given = self.chunk.trees
        assert given is not None
        known = [row for row in rows if given[row] is not None and int(row) not in self.errors]
        children = np.zeros((len(known), int(self.chunk.sizes[rows[0]]) - 1, 2), np.int64)
        plain = np.zeros(len(known), bool)
        if self.chunk.labels(rows) is None:
            plain = read_plain([str(given[row]) for row in known], children)
        for i in np.flatnonzero(~plain):
            tree = self._true_tree(known[i])
            if tree is not None:
                children[i], plain[i] = tree.children, True
        places = np.array(known, np.int64)[plain]
        if len(places) > 0:
            found = self.chunk.weigh_trees(places, children[plain])
            self.numbers["true_log_weight"][places] = found

    def _true_tree(self, row: int) -> Tree | None:
        assert self.chunk.trees is not None
        text = self.chunk.trees[row]
        if text is None or row in self.errors:
            return None
        try:
            return self.chunk.align(row, Tree.from_newick(text))
        except ValueError as error:
            self.errors[int(row)] = f"the true tree cannot be weighed: {explain(error)}"
            return None

    def table(self) -> Any:
        """All columns as an Arrow table."""
        pa = arrow()
        m, schema = len(self.chunk), self.wanted.schema()
        errors = [self.errors.get(row) for row in range(m)] if self.errors else pa.nulls(m)
        columns = {
            "n_leaves": self.chunk.sizes,
            "method": pa.array(METHODS).take(pa.array(self.methods, mask=self.methods < 0)),
            "map_tree": self._trees_in_order(),
            "n_trees": pa.array(self.n_trees, schema.field("n_trees").type, mask=self.uncounted),
            "repaired": self.chunk.repaired,
            "error": errors,
            "event": self.chunk.events,
            "map_heights": self.heights,
        }
        for name, kind in self.wanted.extras.fields().items():
            found = [self.extras.get(row, {}).get(name) for row in range(m)]
            columns[name] = pa.array(found, kind)
        for name, values in self.numbers.items():
            columns[name] = pa.array(values, mask=np.isnan(values))
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def solve_chunk(chunk: Chunk, wanted: Wanted) -> Any:
    """Solve all data sets of a chunk; returns an Arrow table with a row for each."""
    answers = AnswerColumns(chunk, wanted)
    for rows in answers.groups():
        answers.solve(rows)
        if wanted.truth:
            answers.weigh_true_trees(rows)
    return answers.table()
