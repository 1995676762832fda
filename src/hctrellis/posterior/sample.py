"""Trees drawn from the posterior, kept as arrays of clusters until a `Tree` is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from hctrellis.posterior.table import ClusterTable
from hctrellis.support.memory import check_fits
from hctrellis.support.steps import in_steps
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.clusters import Vertices
    from hctrellis.potentials.base import Potential
    from hctrellis.support.types import FloatArray, IntArray, Seed
    from hctrellis.trellis.solution import Solution

BYTES_PER_ENTRY = 40  # while samples are drawn, for each of their n - 1 clusters
AT_ONCE = 200_000  # samples drawn by one call of the kernel, which Ctrl-C has to wait for


def draw(solution: Solution, size: int, rng: Seed = None) -> TreeSample:
    """Draw trees independently from the posterior of an upward pass.

    All samples descend the trellis together: clusters are visited in decreasing order, and the
    splits of each are listed once for all the samples that have reached it.
    """
    from hctrellis.kernels import sample as kernel

    if not isinstance(size, int | np.integer) or size < 0:
        raise ValueError(f"size must be a whole number, not negative; got {size!r}")
    n = solution.potential.n_leaves
    entries = int(size) * (n - 1)
    vertices = solution.vertices
    needed = BYTES_PER_ENTRY * entries + 8 * (int(size) + len(vertices))
    check_fits(needed, f"{size} trees of {n} leaves", "fewer trees per call")
    uniforms, owners = np.empty(entries), np.empty(entries, np.int64)
    links = np.empty(entries + 1, np.int64)  # the last one counts the entries
    generator = np.random.default_rng(rng)
    for start, stop in in_steps(0, entries):
        generator.random(out=uniforms[start:stop])
        owners[start:stop] = np.arange(start, stop)
        links[start:stop] = owners[start:stop] - 1
    clusters, lefts = (np.zeros((size, n - 1), np.int64) for _ in range(2))
    heads = np.full(len(vertices), -1, np.int64)
    if entries > 0:
        heads[solution.root] = size - 1
        links[-1] = size
    ends = np.zeros(size, np.int64)
    used = 0
    parent = solution.root if entries > 0 else -1
    while parent >= 0:
        splits = solution.splits(np.array([parent]))
        children = np.array([splits.lefts, splits.rights])
        single = vertices.single(children)
        cumulative = np.cumsum(solution.split_probabilities(splits))
        while heads[parent] >= 0:
            used = kernel.split_samples(
                AT_ONCE,
                parent,
                heads,
                links,
                owners,
                children,
                single,
                cumulative,
                uniforms,
                used,
                ends,
                clusters,
                lefts,
            )
        parent = kernel.next_reached(heads, parent)
    return TreeSample(solution.potential, vertices, clusters, lefts)


@dataclass(frozen=True, eq=False, repr=False)
class TreeList(Sequence[Tree]):
    """Trees over the leaves of a potential: a sequence of `Tree`, each made when it is asked for.

    Attributes
    ----------
    potential : Potential
    vertices : Vertices
        The clusters of the trellis.
    clusters, lefts : int64 arrays, shape (size, n - 1)
        The clusters of each tree in decreasing order, and one child of each, by their numbers in
        the trellis (masks on the full one).
    """

    potential: Potential
    vertices: Vertices
    clusters: IntArray
    lefts: IntArray

    def __len__(self) -> int:
        return len(self.clusters)

    @overload
    def __getitem__(self, index: int) -> Tree: ...

    @overload
    def __getitem__(self, index: slice) -> list[Tree]: ...

    def __getitem__(self, index: int | slice) -> Tree | list[Tree]:
        if isinstance(index, slice):
            return [self._tree(row) for row in self.clusters[index]]
        return self._tree(self.clusters[index])

    def __iter__(self) -> Iterator[Tree]:
        return (self._tree(row) for row in self.clusters)

    def _tree(self, row: IntArray) -> Tree:
        tree = Tree.from_clusters(self.vertices.masks(row), labels=self.potential.labels)
        return self.potential.with_heights(tree)


@dataclass(frozen=True, eq=False, repr=False)
class TreeSample(TreeList):
    """Trees drawn independently from a posterior."""

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where each distinct tree first occurs, which of them each sample is, and how often."""
        keys = _row_keys(self.clusters)
        _, first, inverse, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        if not (self.clusters == self.clusters[first[inverse]]).all():  # two trees share a key
            _, first, inverse, counts = np.unique(
                self.clusters, axis=0, return_index=True, return_inverse=True, return_counts=True
            )
        return first, inverse.ravel(), counts

    @property
    def n_distinct(self) -> int:
        """Number of distinct trees."""
        return len(self._distinct[0])

    def counts(self) -> tuple[TreeList, IntArray]:
        """The distinct trees and how often each was drawn, the most frequent first."""
        first, _, counts = self._distinct
        order = np.lexsort((first, -counts))
        rows = first[order]
        trees = TreeList(self.potential, self.vertices, self.clusters[rows], self.lefts[rows])
        return trees, counts[order]

    @cached_property
    def log_weights(self) -> FloatArray:
        """The log weight of each tree."""
        return self.sums(self.potential)

    def sums(self, statistic: Potential) -> FloatArray:
        """The sum of a statistic (a potential: a number for every split) over each tree."""
        first, inverse, _ = self._distinct
        shape = self.clusters[first].shape
        keys = (self.clusters[first] * len(self.vertices) + self.lefts[first]).ravel()
        pairs = _different(keys)
        weights = np.empty(len(pairs))
        for start, stop in in_steps(0, len(pairs)):
            both = np.divmod(pairs[start:stop], len(self.vertices))
            parent, left = (self.vertices.rows(side) for side in both)
            weights[start:stop] = statistic.split_log_weights(left, parent & ~left, parent)
        each = np.empty(len(keys))
        for start, stop in in_steps(0, len(keys)):
            each[start:stop] = weights[np.searchsorted(pairs, keys[start:stop])]
        totals: FloatArray = each.reshape(shape).sum(axis=1)
        return totals[inverse]

    def cluster_frequencies(self, min_frequency: float = 0.01) -> ClusterTable:
        """How often each cluster (other than leaves and root) occurs among the trees."""
        clusters, counts = np.unique(self.clusters, return_counts=True)
        frequencies = counts / max(1, len(self))
        kept = (frequencies >= min_frequency) & (clusters != self.vertices.root)
        masks = self.vertices.masks(clusters[kept])
        return ClusterTable(self.potential.labels, masks, frequencies[kept])

    def __repr__(self) -> str:
        return f"TreeSample({len(self)} trees, {self.n_distinct} distinct)"


def _different(keys: IntArray) -> IntArray:
    """The distinct numbers of an array, sorted."""
    parts = [np.unique(keys[start:stop]) for start, stop in in_steps(0, len(keys))]
    return np.unique(np.concatenate([keys[:0], *parts]))


def _row_keys(rows: IntArray) -> IntArray:
    """A 64-bit key per row, equal for equal rows."""
    keys = np.zeros(len(rows), np.uint64)
    for column in rows.T.astype(np.uint64):
        keys ^= (
            column + np.uint64(0x9E3779B97F4A7C15) + (keys << np.uint64(6)) + (keys >> np.uint64(2))
        )
        keys *= np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(29)
    return keys.view(np.int64)
