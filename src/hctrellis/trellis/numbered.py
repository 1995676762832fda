"""Many trees as numbers: which splits of a sparse trellis each of them is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.support.memory import check_fits
from hctrellis.trellis.vertices import (
    SparseVertices,
    WordArray,
    empty_slots,
    hash_rows,
    leaf_hashes,
    leaf_words,
    merge,
    n_words,
)

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

FIRST_ROOM = 1 << 12  # clusters and splits for which there is room at first


@dataclass(frozen=True, eq=False)
class NumberedTrees:
    """Trees as rows of splits.

    Attributes
    ----------
    vertices : SparseVertices
        The clusters and splits that occur in the trees.
    splits : int32 array, shape (m, n - 1)
        The splits of each tree, in the order of the rows of `Tree.children`: places in the arrays
        `lefts` and `rights` of the vertices.
    """

    vertices: SparseVertices
    splits: Any

    @property
    def parents(self) -> IntArray:
        """The parent of each split of the vertices."""
        return np.repeat(np.arange(len(self.vertices)), np.diff(self.vertices.offsets))

    def split_weights(self, weights: FloatArray) -> FloatArray:
        """The total weight of the trees that have a split, for each."""
        from hctrellis.kernels.numbering import add_weights

        sums = np.zeros(len(self.vertices.lefts))
        add_weights(self.splits, np.ascontiguousarray(weights, float), sums)
        return sums

    def cluster_weights(self, weights: FloatArray) -> FloatArray:
        """The total weight of the trees that have a cluster, for each; of all trees for leaves."""
        sums = totals(self.parents, self.split_weights(weights), len(self.vertices))
        sums[: self.vertices.n_leaves] = weights.sum()
        return sums


def totals(numbers: IntArray, amounts: FloatArray, size: int) -> FloatArray:
    """The sum of the amounts of each number from 0 to size - 1.

    >>> totals(np.array([0, 2, 0]), np.array([1.0, 2.0, 4.0]), 3)
    array([5., 0., 2.])
    """
    return np.asarray(np.bincount(numbers, amounts, size), float)


def number_trees(children: Any) -> NumberedTrees:
    """The splits of trees, given as `Tree.children`, shape (trees, n - 1, 2), in canonical order.

    Memory grows with the number of different clusters, and by 4 bytes for each split of a tree.
    """
    from hctrellis.kernels import numbering

    m, n = children.shape[0], children.shape[1] + 1
    check_fits(4 * m * (n - 1), f"the splits of {m:,} trees", "fewer trees")
    splits = np.empty((m, n - 1), np.int32)
    tables, start = _Tables(n), 0
    while True:
        start = numbering.number_trees(children, start, *tables.arrays, tables.counts, splits)
        if start == m:
            break
        tables.grow()
    return _sorted(n, *tables.found(), splits)


def find_trees(children: Any, vertices: SparseVertices) -> Any:
    """The splits of trees as places in given vertices, -1 where they do not have one."""
    own = number_trees(children)
    return find_splits(own.vertices, vertices)[own.splits]


def find_splits(some: SparseVertices, vertices: SparseVertices) -> IntArray:
    """Where the splits of some vertices are among those of others; -1 if they are not there."""
    if some.n_leaves != vertices.n_leaves:
        raise ValueError(f"one has {some.n_leaves} leaves, the other {vertices.n_leaves}")
    number = vertices.find_words(some.words)
    triples = number[some.triples()]
    keys = _keys(vertices.triples(), len(vertices))
    order = np.argsort(keys)
    wanted = _keys(triples, len(vertices))
    at = np.searchsorted(keys[order], wanted).clip(max=max(0, len(keys) - 1))
    if len(keys) == 0:
        return np.full(len(wanted), -1)
    found = order[at]
    known = (keys[found] == wanted) & (triples >= 0).all(axis=1)
    return np.where(known, found, -1)


def _keys(triples: IntArray, size: int) -> IntArray:
    return triples[:, 0] * size + triples[:, 1]


class _Tables:
    """Clusters and splits met so far, and the tables by which they are found."""

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        room = FIRST_ROOM + 2 * n_leaves
        self.words: WordArray = np.zeros((room, n_words(n_leaves)), np.uint64)
        self.hashes: WordArray = np.zeros(room, np.uint64)
        self.triples = np.zeros((room, 3), np.int64)
        self.words[:n_leaves] = leaf_words(n_leaves)
        self.hashes[:n_leaves] = leaf_hashes(n_leaves)
        self.counts = np.array([n_leaves, 0])
        self._place()

    def _place(self) -> None:
        from hctrellis.kernels import bitsets, numbering

        count = int(self.counts[0])
        self.slots, self.split_slots = empty_slots(len(self.words)), empty_slots(len(self.triples))
        first = np.empty(count, np.int64)
        bitsets.number_rows(self.words[:count], self.hashes[:count], self.slots, first)
        numbering.place_splits(self.triples, self.counts[1], self.split_slots)

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.words, self.hashes, self.slots, self.triples, self.split_slots

    def grow(self) -> None:
        """Twice the room."""
        room = 2 * len(self.words)
        check_fits(room * (8 * n_words(self.n_leaves) + 96), f"{room:,} clusters", "fewer trees")
        for name in ("words", "hashes", "triples"):
            array = getattr(self, name)
            wide = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
            wide[: len(array)] = array
            setattr(self, name, wide)
        self._place()

    def found(self) -> tuple[WordArray, IntArray]:
        clusters, splits = self.counts.tolist()
        return self.words[:clusters], self.triples[:splits]


def _sorted(n: int, words: WordArray, triples: IntArray, splits: Any) -> NumberedTrees:
    """The same with clusters and splits in the order of `SparseVertices`."""
    vertices = merge(n, words, hash_rows(words), triples)
    number = vertices.find_words(words)
    keys = _keys(vertices.triples(), len(vertices))
    order = np.argsort(keys)
    place = order[np.searchsorted(keys[order], _keys(number[triples], len(vertices)))]
    place = place.astype(np.int32)
    for start in range(0, len(splits), 1 << 12):
        splits[start : start + (1 << 12)] = place[splits[start : start + (1 << 12)]]
    return NumberedTrees(vertices, splits)
