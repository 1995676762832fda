"""The clusters and splits of a sparse trellis as arrays: numbered, sorted, found by hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.support.checks import as_floats
from hctrellis.support.memory import check_fits
from hctrellis.support.steps import in_steps
from hctrellis.support.types import BoolArray
from hctrellis.trellis.listed import CHUNK_SPLITS, Splits

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

ROOM = 1 << 18  # splits that are found at a time
BYTES_PER_SPLIT = 150  # while they are sorted

WordArray = npt.NDArray[np.uint64]
Triples = npt.NDArray[np.int64]
"""Splits, shape (s, 3): the rows of parent, left and right child in an array of clusters."""


@dataclass(frozen=True, eq=False)
class SparseVertices:
    """The clusters of a sparse trellis: the leaves first, then by size and mask, the root last.

    Attributes
    ----------
    n_leaves : int
    words : uint64 array, shape (m, ceil(n / 64))
        The leaves of each cluster: leaf i is bit i % 64 of word i // 64.
    offsets : int64 array, shape (m + 1,)
        The splits of cluster k are offsets[k] .. offsets[k + 1] of the other two arrays.
    lefts, rights : int64 arrays
        The children of each split, the one with the lowest leaf first; sorted by its mask.
    """

    n_leaves: int
    words: WordArray
    offsets: IntArray
    lefts: IntArray
    rights: IntArray

    def __len__(self) -> int:
        return len(self.words)

    @property
    def leaves(self) -> IntArray:
        return np.arange(self.n_leaves)

    @property
    def root(self) -> int:
        return len(self) - 1

    @cached_property
    def sizes(self) -> FloatArray:
        return self.leaf_sums(np.ones(self.n_leaves))

    @property
    def members(self) -> BoolArray:
        return self.rows(np.arange(len(self)))

    def single(self, numbers: IntArray) -> BoolArray:
        return np.asarray(numbers < self.n_leaves)

    def find(self, mask: int) -> int:
        return int(self.find_all([mask])[0])

    def find_all(self, masks: Sequence[int]) -> IntArray:
        """The numbers of clusters given as masks; -1 for those that are not there."""
        return self.find_words(_words(masks, self.n_leaves))

    def find_words(self, words: WordArray) -> IntArray:
        """The numbers of clusters given as words; -1 for those that are not there."""
        from hctrellis.kernels import bitsets

        found = np.empty(len(words), np.int64)
        hashes, slots = self._table
        bitsets.find_rows(words, hash_rows(words), self.words, hashes, slots, found)
        return found

    def masks(self, numbers: IntArray) -> list[int]:
        little = self.words[numbers].astype("<u8")
        return [int.from_bytes(row.tobytes(), "little") for row in little]

    def rows(self, numbers: IntArray) -> BoolArray:
        return _rows(self.words[numbers], self.n_leaves)

    def leaf_sums(self, values: npt.ArrayLike) -> FloatArray:
        from hctrellis.kernels import bitsets

        sums = np.zeros(len(self))
        sums[: self.n_leaves] = as_floats(values, "values")
        bitsets.sum_leaves(self.offsets, self.lefts, self.rights, sums)
        return sums

    def pair_sums(self, matrix: npt.ArrayLike) -> FloatArray:
        from hctrellis.kernels import bitsets

        sums = np.zeros(len(self))
        given = np.ascontiguousarray(as_floats(matrix, "matrix"))
        bitsets.sum_pairs(self.words, self.offsets, self.lefts, self.rights, given, sums)
        return sums

    @cached_property
    def _table(self) -> tuple[WordArray, IntArray]:
        """Hashes, and the table by which clusters are found."""
        from hctrellis.kernels import bitsets

        hashes, slots = hash_rows(self.words), empty_slots(len(self))
        bitsets.number_rows(self.words, hashes, slots, np.empty(len(self), np.int64))
        return hashes, slots

    def splits(self, start: int | None = None, end: int | None = None) -> Splits:
        """The splits of the clusters start .. end, or of all."""
        first = self.n_leaves if start is None else start
        last = len(self) if end is None else end
        offsets = self.offsets[first : last + 1]
        some = slice(int(offsets[0]), int(offsets[-1]))
        parents = np.arange(first, last)
        return Splits(parents, offsets - offsets[0], self.lefts[some], self.rights[some])

    def chunks(self, size: int = CHUNK_SPLITS) -> Iterator[IntArray]:
        """The clusters that can be split, in chunks of about `size` splits, the root alone."""
        start, root = self.n_leaves, self.root
        while start <= root:
            end = int(np.searchsorted(self.offsets, self.offsets[start] + size, "right")) - 1
            end = max(start + 1, min(end, root))
            yield np.arange(start, end)
            start = end

    def triples(self) -> Triples:
        """All splits."""
        parents = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return np.stack([parents, self.lefts, self.rights], axis=1)

    def restrict(self, keep: BoolArray) -> SparseVertices:
        """Some of the clusters, those that can form trees, and the splits between them."""
        from hctrellis.kernels import bitsets

        kept = np.array(keep, bool)
        kept[self.leaves] = True
        bitsets.keep_closed(self.offsets, self.lefts, self.rights, self.n_leaves, kept)
        if not (kept[self.root] and kept[self.leaves].all()):
            raise ValueError("no tree can be made of these clusters")
        number = np.cumsum(kept) - 1
        triples = self.triples()
        triples = number[triples[kept[triples].all(axis=1)]]
        offsets = np.searchsorted(triples[:, 0], np.arange(kept.sum() + 1))
        lefts, rights = (np.ascontiguousarray(triples[:, side]) for side in (1, 2))
        return SparseVertices(self.n_leaves, self.words[kept], offsets, lefts, rights)

    def interchanges(
        self, chances: FloatArray, masses: FloatArray, least: float, out: IntArray
    ) -> int:
        """Fill rows (A, C, D, P) with interchanges that make new clusters; how many.

        Where P is split into A and B, and B into C and D, with a probability of at least `least`:
        A and C may be joined instead, D apart. Returns one more than there is room for if there are
        too many.
        """
        from hctrellis.kernels import bitsets

        splits = (self.offsets, self.lefts, self.rights, self.n_leaves)
        count: int = bitsets.interchanges(
            self.words, *self._table, *splits, chances, masses, least, out
        )
        return count

    def extend(self, joins: IntArray) -> SparseVertices:
        """More clusters and splits: row (A, C, D, P) joins A and C, next to D in P."""
        words = np.concatenate([self.words, self.words[joins[:, 0]] | self.words[joins[:, 1]]])
        hashes, _ = self._table
        hashes = np.concatenate([hashes, hashes[joins[:, 0]] + hashes[joins[:, 1]]])
        joined = len(self) + np.arange(len(joins))
        below = np.stack([joined, joins[:, 0], joins[:, 1]], axis=1)
        above = np.stack([joins[:, 3], joined, joins[:, 2]], axis=1)
        triples = np.concatenate([self.triples(), below, above])
        return merge(self.n_leaves, words, hashes, triples)

    def find_splits(self) -> Triples:
        """Every split of a cluster into two of these clusters."""
        from hctrellis.kernels import bitsets

        firsts, _ = _first_leaves(self.words)
        mates = np.argsort(firsts, kind="stable")
        starts = np.searchsorted(firsts[mates], np.arange(self.n_leaves + 1))
        room = np.empty((ROOM + int(np.diff(starts).max()), 3), np.int64)
        tables = (self.words, *self._table, firsts, mates, starts, room)
        found: list[Triples] = []
        for start, stop in in_steps(0, len(self)):
            while start < stop:
                start, count = bitsets.find_splits(start, stop, *tables)
                found.append(room[:count].copy())
                needed = BYTES_PER_SPLIT * sum(map(len, found))
                check_fits(needed, f"the splits between {len(self)} clusters", "fewer clusters")
        return np.concatenate(found)


def n_words(n_leaves: int) -> int:
    return (n_leaves + 63) // 64


def _words(masks: Sequence[int], n_leaves: int) -> WordArray:
    width = 8 * n_words(n_leaves)
    text = b"".join(mask.to_bytes(width, "little") for mask in masks)
    return np.frombuffer(text, "<u8").astype(np.uint64).reshape(len(masks), n_words(n_leaves))


def _rows(words: WordArray, n_leaves: int) -> BoolArray:
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    bits = np.unpackbits(octets.reshape(len(words), 8 * words.shape[1]), axis=1, bitorder="little")
    return bits[:, :n_leaves].astype(bool)


@cache
def leaf_hashes(n_leaves: int) -> WordArray:
    """The hash of each single leaf."""
    generator = np.random.default_rng(0x7265_6C6C)
    return generator.integers(0, 2**64, n_leaves, np.uint64, endpoint=False)


def hash_rows(words: WordArray) -> WordArray:
    """The hash of each cluster (see `kernels.bitsets`)."""
    from hctrellis.kernels import bitsets

    hashes = np.empty(len(words), np.uint64)
    bitsets.hash_rows(words, leaf_hashes(64 * words.shape[1]), hashes)
    return hashes


def empty_slots(n_rows: int) -> IntArray:
    """An empty table with room for some clusters (see `kernels.bitsets`)."""
    return np.full(1 << max(3, (2 * n_rows).bit_length()), -1, np.int64)


def _first_leaves(words: WordArray) -> tuple[IntArray, IntArray]:
    """The lowest leaf of each cluster, and the number of its leaves."""
    from hctrellis.kernels import bitsets

    firsts, sizes = np.empty((2, len(words)), np.int64)
    bitsets.first_leaves(words, firsts, sizes)
    return firsts, sizes


# ---- from rows to sorted clusters and splits --------------------------------------------------


def tree_rows(children: IntArray) -> tuple[int, WordArray, WordArray, Triples]:
    """The number of leaves, the clusters of trees (the leaves first), hashes and splits."""
    from hctrellis.kernels import bitsets

    if children.ndim != 3 or children.shape[2] != 2 or len(children) == 0:
        raise ValueError(f"children must have the shape (trees, n - 1, 2); got {children.shape}")
    n, rows = children.shape[1] + 1, children.shape[0] * children.shape[1]
    above = n + np.arange(n - 1)[:, None]
    each = np.sort(children.reshape(len(children), 2 * n - 2), axis=1)
    if (children >= above).any() or (each != np.arange(2 * n - 2)).any():
        raise ValueError(
            f"in children of {n} leaves each of 0 .. {2 * n - 3} must be a child of one later node"
        )
    needed = rows * (8 * n_words(n) + 96)
    check_fits(needed, f"the clusters of {len(children)} trees", "fewer trees")
    words = np.zeros((n + rows, n_words(n)), np.uint64)
    words[:n] = leaf_words(n)
    hashes = np.zeros(n + rows, np.uint64)
    hashes[:n] = leaf_hashes(n)
    triples = np.empty((rows, 3), np.int64)
    bitsets.fill_trees(children, words, hashes, triples)
    return n, words, hashes, triples


def leaf_words(n_leaves: int) -> WordArray:
    """The single leaves as words."""
    words = np.zeros((n_leaves, n_words(n_leaves)), np.uint64)
    leaves = np.arange(n_leaves, dtype=np.uint64)
    words[np.arange(n_leaves), np.arange(n_leaves) // 64] = np.uint64(1) << leaves % np.uint64(64)
    return words


def packed(members: BoolArray) -> WordArray:
    """Rows of a boolean matrix as words."""
    wide = np.zeros((len(members), 64 * n_words(members.shape[1])), bool)
    wide[:, : members.shape[1]] = members
    octets = np.packbits(wide, axis=1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64)


def merge(n_leaves: int, words: WordArray, hashes: WordArray, triples: Triples) -> SparseVertices:
    """Equal clusters and splits become one; numbered in order."""
    from hctrellis.kernels import bitsets

    first = np.empty(len(words), np.int64)
    bitsets.number_rows(words, hashes, empty_slots(len(words)), first)
    kept = np.flatnonzero(first == np.arange(len(words)))
    by_mask = np.lexsort(words[kept].T)
    _, sizes = _first_leaves(words[kept])
    order = by_mask[np.argsort(sizes[by_mask], kind="stable")]
    number = np.empty(len(words), np.int64)
    number[kept[order]] = np.arange(len(kept))
    rank = np.empty(len(kept), np.int64)  # of each cluster among all, by its mask
    rank[np.argsort(order, kind="stable")[by_mask]] = np.arange(len(kept))
    merged = words[kept[order]]
    return _listed(n_leaves, merged, number[first[triples]], rank)


def _listed(
    n_leaves: int, words: WordArray, triples: Triples, rank: IntArray | None = None
) -> SparseVertices:
    """Clusters in order, and their splits, sorted."""
    if rank is None:
        rank = np.empty(len(words), np.int64)
        rank[np.lexsort(words.T)] = np.arange(len(words))
    firsts, _ = _first_leaves(words)
    parents, one, other = triples.T
    swap = firsts[one] > firsts[other]
    lefts, rights = np.where(swap, other, one), np.where(swap, one, other)
    keys, at = np.unique(parents * len(words) + rank[lefts], return_index=True)
    offsets = np.searchsorted(keys, np.arange(len(words) + 1) * len(words))
    return SparseVertices(n_leaves, words, offsets, lefts[at], rights[at])


def complete(vertices: SparseVertices) -> SparseVertices:
    """The same clusters with every split between them."""
    return _listed(vertices.n_leaves, vertices.words, vertices.find_splits())
