"""Clusters and splits with conditional probabilities: what a clade distribution starts from.

`observed` counts the splits of trees, `by_clusters` takes the frequencies of clusters alone (CCD0),
`widened` gives a small share to splits and clusters that no tree has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.support.memory import check_fits
from hctrellis.trellis.numbered import NumberedTrees, find_splits, totals
from hctrellis.trellis.vertices import SparseVertices, complete

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

MOST_JOINS = 1 << 22  # interchanges that are considered
LEAST_SEEN = 1e-4  # the share of the trees that a cluster counts for that none of them has


@dataclass(frozen=True, eq=False)
class Graph:
    """Clusters, their splits, and the probability of each split given its cluster.

    Attributes
    ----------
    vertices : SparseVertices
    counts : float64 array, one per split
        The share of the trees that have the split.
    chances : float64 array, one per split
        Those of a cluster sum to one.
    prior : float64 array, one per split, or None
        Where the share of splits that no tree has goes; those of a cluster sum to one.
    shares : float64 array, one per split, or None
        The share of its cluster.
    """

    vertices: SparseVertices
    counts: FloatArray
    chances: FloatArray
    prior: FloatArray | None = None
    shares: FloatArray | None = None

    def mixed(self, chances: FloatArray, splits: IntArray | None = None) -> FloatArray:
        """Probabilities of splits, a share of which goes to those that no tree has."""
        if self.prior is None or self.shares is None:
            return chances
        at = slice(None) if splits is None else splits
        return np.asarray(chances + self.shares[at] * (self.prior[at] - chances))

    @property
    def parents(self) -> IntArray:
        """The parent of each split."""
        return np.repeat(np.arange(len(self.vertices)), np.diff(self.vertices.offsets))


def observed(numbered: NumberedTrees, weights: FloatArray) -> Graph:
    """How often each cluster is split so, among the trees that have it (CCD1)."""
    counts = numbered.split_weights(weights)
    chances = _normalised(numbered.vertices, counts)
    return Graph(numbered.vertices, counts / weights.sum(), chances)


def by_clusters(seen: Graph) -> Graph:
    """Trees weighed by the product of the frequencies of their clusters (CCD0).

    All splits between clusters that were seen are possible.
    """
    vertices = complete(seen.vertices)
    counts = moved(seen, vertices)
    least = 0.0 if seen.prior is None else LEAST_SEEN
    logs = np.log(np.maximum(frequencies(seen), least))
    chances = _by_weight(vertices, logs[vertices.lefts] + logs[vertices.rights])
    return Graph(vertices, counts, chances)


def widened(seen: Graph, share: float) -> Graph:
    """A share of the probability for splits that no tree has.

    These are all splits between clusters that were seen or that one interchange of neighbours
    makes of them. What a split gets of the share is in proportion to the square root of the
    product of how often its two parts were seen.

    The share itself is that of a cluster of all trees; the share s(f) of a cluster that a fraction
    f of the trees have is larger, since fewer trees have shown how it is split:
    s(f) : 1 - s(f) as s(1) : (1 - s(1)) times the square root of f. A cluster that no tree has is
    split by the proportions alone.
    """
    vertices = complete(_with_neighbours(seen.vertices))
    counts = moved(seen, vertices)
    often = np.full(len(vertices), LEAST_SEEN)
    place = vertices.find_words(seen.vertices.words)
    often[place] = np.maximum(often[place], frequencies(seen))
    prior = _normalised(vertices, np.sqrt(often[vertices.lefts] * often[vertices.rights]))
    parents = np.repeat(np.arange(len(vertices)), np.diff(vertices.offsets))
    whole = totals(parents, counts, len(vertices))[parents]
    chances = np.where(whole > 0, counts / np.where(whole > 0, whole, 1.0), prior)
    shares = share / (share + (1 - share) * np.sqrt(whole))
    return Graph(vertices, counts, chances, prior, shares)


def frequencies(graph: Graph) -> FloatArray:
    """The share of the trees that have a cluster, for each; 1 for leaves."""
    found = totals(graph.parents, graph.counts, len(graph.vertices))
    found[: graph.vertices.n_leaves] = 1.0
    return found


def moved(seen: Graph, vertices: SparseVertices) -> FloatArray:
    """The counts of splits, on vertices with more of them."""
    counts = np.zeros(len(vertices.lefts))
    counts[find_splits(seen.vertices, vertices)] = seen.counts
    return counts


def _normalised(vertices: SparseVertices, amounts: FloatArray) -> FloatArray:
    """Amounts of splits, divided by their sum over each cluster."""
    parents = np.repeat(np.arange(len(vertices)), np.diff(vertices.offsets))
    chances: FloatArray = amounts / totals(parents, amounts, len(vertices))[parents]
    return chances


def _by_weight(vertices: SparseVertices, weights: FloatArray) -> FloatArray:
    """The probabilities of splits given their clusters, from log weights of splits."""
    from hctrellis.kernels import passes

    best, scale, rest = np.zeros((3, len(vertices)))
    rest[: vertices.n_leaves] = 1.0
    shares, chances = np.empty((2, len(weights)))
    splits = vertices.splits()
    passes.absorb(*splits, weights, best, scale, rest, shares)
    passes.to_probabilities(splits.parents, splits.offsets, rest, shares, chances)
    return chances


def _with_neighbours(vertices: SparseVertices) -> SparseVertices:
    """The clusters, and those that one interchange of neighbours makes of them."""
    most = 1 << 14
    while True:
        check_fits(200 * most, "interchanges of neighbours", "smoothing=0")
        joins = np.empty((most, 4), np.int64)
        ones = np.ones(len(vertices))
        count = vertices.interchanges(np.ones(len(vertices.lefts)), ones, 0.0, joins)
        if count <= most:
            return vertices.extend(joins[:count]) if count else vertices
        if most >= MOST_JOINS:
            return vertices
        most *= 4
