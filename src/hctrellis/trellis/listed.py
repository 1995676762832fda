"""Passes over splits that are listed chunk by chunk, with log weights in an array.

They serve potentials that only NumPy can evaluate, on the full lattice, and any potential on a
sparse trellis: the potential weighs some 100,000 splits in one call, and a compiled loop adds them
up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import BoolArray, Vertices
from hctrellis.potentials.base import Potential, extreme_distances

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray

CHUNK_SPLITS = 1 << 16  # weighed in one call


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


def compiled(potential: Potential) -> bool:
    """Whether all parts have split functions that can be fused (one extreme distance at most)."""
    codes = [part.code() for part in potential.parts]
    return None not in codes and sum(c is not None and c.cross is not None for c in codes) <= 1


class Weights:
    """Log psi of splits given by the numbers of their clusters, in NumPy."""

    def __init__(self, potential: Potential, vertices: Vertices) -> None:
        self.potential = potential
        self.vertices = vertices
        with np.errstate(all="ignore"):
            described = [part.describe(vertices) for part in potential.parts]
        self.features = [features for features, _ in described]
        terms = (own for _, own in described if own is not None)
        self.own: FloatArray = sum(terms, np.zeros(len(vertices)))

    def __call__(self, splits: Splits) -> FloatArray:
        """Log psi of each split; the root is alone, or not among the parents."""
        lefts, rights = splits.lefts, splits.rights
        parents = np.repeat(splits.parents, np.diff(splits.offsets))
        single = np.array([self.vertices.single(lefts), self.vertices.single(rights)])
        root = bool(splits.parents[-1] == self.vertices.root)
        total = self.own[parents]
        with np.errstate(all="ignore"):
            for part, table in zip(self.potential.parts, self.features, strict=True):
                left, right, both = (
                    [row.take(numbers) for row in table] for numbers in (lefts, rights, parents)
                )
                cross = self._cross(part, lefts, rights)
                total += part.evaluate(left, right, both, root, single, cross)
        return total

    def _cross(self, part: Potential, lefts: IntArray, rights: IntArray) -> FloatArray | None:
        code = part.code()
        if code is None or code.cross is None:
            return None
        left: BoolArray = self.vertices.rows(lefts)
        return extreme_distances(part, left, self.vertices.rows(rights))


def lattice_chunks(n_leaves: int) -> Iterator[IntArray]:
    """The clusters of two leaves or more, by size, in chunks of about as many splits."""
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
