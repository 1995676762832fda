"""Passes over splits that are listed chunk by chunk, with log weights in an array.

They serve potentials that only NumPy can evaluate, on the full lattice, and any potential on a
sparse trellis: the potential weighs some 10,000 splits in one call, and a compiled loop adds them
up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from hctrellis.clusters import Vertices
from hctrellis.potentials.base import Potential, Rows, extreme_distances
from hctrellis.support.types import BoolArray

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

CHUNK_SPLITS = 15 << 10  # weighed in one call: arrays of 120 kB stay in the cache and in the heap


class Splits(NamedTuple):
    """Splits of some clusters, one parent after the other.

    Attributes
    ----------
    parents : int64 array, shape (p,)
    offsets : int64 array, shape (p + 1,)
        Those of parents[k] are offsets[k] .. offsets[k + 1] of the other two arrays.
    lefts, rights : int64 arrays
    """

    parents: IntArray
    offsets: IntArray
    lefts: IntArray
    rights: IntArray


def is_fusable(potential: Potential) -> bool:
    """Whether all parts have split functions that can be fused (one extreme distance at most)."""
    codes = [part.code() for part in potential.parts]
    return None not in codes and sum(c is not None and c.cross is not None for c in codes) <= 1


class Fetched(Sequence["FloatArray"]):
    """The features of one of the three clusters of many splits, each fetched when asked for."""

    def __init__(self, table: Rows, fetch: Callable[[FloatArray], FloatArray]) -> None:
        self._table = table
        self._fetch = fetch
        self._found: dict[int, FloatArray] = {}

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> FloatArray: ...

    @overload
    def __getitem__(self, index: slice) -> list[FloatArray]: ...

    def __getitem__(self, index: int | slice) -> FloatArray | list[FloatArray]:
        if isinstance(index, slice):
            return [self[f] for f in range(len(self))[index]]
        f = index if index in self._found else range(len(self))[index]
        if f not in self._found:
            self._found[f] = self._fetch(self._table[f])
        return self._found[f]


class Weights:
    """Log psi of splits given by the numbers of their clusters, in NumPy."""

    def __init__(self, potential: Potential, vertices: Vertices) -> None:
        self.potential = potential
        self.vertices = vertices
        with np.errstate(all="ignore"):
            described = [part.describe(vertices) for part in potential.parts]
        self.features = [features for features, _ in described]
        terms = [own for _, own in described if own is not None]
        self.own: FloatArray | None = sum(terms[1:], terms[0]) if terms else None

    def __call__(self, splits: Splits) -> FloatArray:
        """Log psi of each split; the root is the only parent, or not among the parents."""
        each = np.diff(splits.offsets)
        even = bool((each == each[0]).all())
        if self.own is None:
            total = np.zeros(len(splits.lefts))
        else:
            total = np.repeat(self.own[splits.parents], each)
        with np.errstate(all="ignore"):
            for part, table in zip(self.potential.parts, self.features, strict=True):
                total += self._of_part(part, table, splits, each, even and part.broadcasts)
        return total

    def _of_part(
        self, part: Potential, table: Rows, splits: Splits, each: IntArray, in_rows: bool
    ) -> FloatArray:
        """Log psi by one part; in_rows: splits in rows, with one number of each parent."""
        lefts, rights, parents = splits.lefts, splits.rights, splits.parents
        shape = (len(each), int(each[0])) if in_rows else (len(lefts),)
        left = Fetched(table, lambda row: row.take(lefts).reshape(shape))
        right = Fetched(table, lambda row: row.take(rights).reshape(shape))
        if in_rows:
            parent = Fetched(table, lambda row: row[parents, None])
        else:
            parent = Fetched(table, lambda row: np.repeat(row[parents], each))
        root = bool(parents[-1] == self.vertices.root)
        single = self._single(part, splits).reshape(2, *shape)
        cross = self._cross(part, lefts, rights)
        return part.evaluate(left, right, parent, root, single, cross).ravel()

    def _single(self, part: Potential, splits: Splits) -> BoolArray:
        """Whether the children are single leaves; "no" where it makes no difference."""
        code = part.code()
        if code is None or code.leaf is None:
            return np.zeros((2, len(splits.lefts)), bool)
        return np.array([self.vertices.single(side) for side in (splits.lefts, splits.rights)])

    def _cross(self, part: Potential, lefts: IntArray, rights: IntArray) -> FloatArray | None:
        code = part.code()
        if code is None or code.cross is None:
            return None
        left: BoolArray = self.vertices.rows(lefts)
        return extreme_distances(part, left, self.vertices.rows(rights))


def lattice_chunks(n_leaves: int) -> Iterator[IntArray]:
    """The clusters of two leaves or more, by size, in chunks of about equally many splits."""
    from hctrellis.clusters import Lattice

    sizes = Lattice(n_leaves).sizes
    for size in range(2, n_leaves + 1):
        parents = np.flatnonzero(sizes == size)
        step = max(1, CHUNK_SPLITS // ((1 << (size - 1)) - 1))
        for start in range(0, len(parents), step):
            yield parents[start : start + step]


def lattice_splits(parents: IntArray) -> Splits:
    """All splits of clusters of equal size, given as masks."""
    from hctrellis.kernels import passes

    each = (1 << (int(parents[0]).bit_count() - 1)) - 1
    lefts, rights = np.empty((2, len(parents) * each), np.int64)
    passes.list_splits(parents, lefts, rights)
    return Splits(parents, np.arange(len(parents) + 1) * each, lefts, rights)
