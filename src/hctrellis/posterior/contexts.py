"""The posterior of a clade distribution with contexts: several vertices may be one cluster.

What is asked about clusters is summed over the vertices that stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clades.contexts import ContextTrellis, ContextVertices
from hctrellis.clusters import Cluster
from hctrellis.posterior.posterior import Posterior
from hctrellis.posterior.table import ClusterTable
from hctrellis.potentials.constraint import Constraint, Rewards
from hctrellis.tree import Tree
from hctrellis.trellis.numbered import totals

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


class ContextPosterior(Posterior):
    """A posterior over trees whose trellis has clusters in contexts; see `Posterior`."""

    @property
    def _vertices(self) -> ContextVertices:
        assert isinstance(self.trellis, ContextTrellis)
        return self.trellis.vertices

    @cached_property
    def _of_clusters(self) -> FloatArray:
        """The probability of each cluster of the base; 1 for leaves and root, or at most."""
        v, base = self._vertices, self._vertices.base
        sums = totals(v.clusters, self._probabilities, len(base))
        sums[base.leaves] = sums[base.root] = 1.0
        return np.minimum(sums, 1.0)

    def cluster_probabilities(self, min_probability: float = 0.01) -> ClusterTable:
        p, base = self._of_clusters, self._vertices.base
        kept = p >= max(min_probability, np.finfo(float).tiny)
        kept[base.root] = False
        kept[base.leaves] = False
        clusters = np.flatnonzero(kept)
        return ClusterTable(self.labels, base.masks(clusters), p[clusters], self.is_exact)

    def split_probability(self, left: Cluster, right: Cluster) -> float:
        one, other = self._mask(left), self._mask(right)
        if one & other:
            return super().split_probability(left, right)  # which refuses them
        return self._pattern([(one | other, one, other)])

    def subtree_probability(self, tree: Tree) -> float:
        self._check_possible()
        masks = [self._mask([label]) for label in tree.labels]
        if len(masks) == 1:
            return 1.0
        splits = []
        for left, right in tree.children.tolist():
            masks.append(masks[left] | masks[right])
            splits.append((masks[-1], masks[left], masks[right]))
        return self._pattern(splits[::-1])

    def _pattern(self, splits: list[tuple[int, int, int]]) -> float:
        """The probability of nested splits, from the top one down."""
        v = self._vertices
        top = v.base.find(splits[0][0])
        if top < 0:
            return 0.0
        total = 0.0
        for vertex in v.copies(top).tolist():
            at, share = {splits[0][0]: vertex}, float(self._probabilities[vertex])
            for parent, left, right in splits:
                start, end = v.offsets[at[parent] : at[parent] + 2].tolist()
                sides = [v.base.find(left), v.base.find(right)]
                pairs = np.sort(
                    [v.clusters[v.lefts[start:end]], v.clusters[v.rights[start:end]]], 0
                )
                hit = np.flatnonzero((pairs == np.sort(sides)[:, None]).all(axis=0))
                if len(hit) == 0:
                    share = 0.0
                    break
                k = start + int(hit[0])
                share *= float(self._conditional[k])
                for child in (int(v.lefts[k]), int(v.rights[k])):
                    at[left if v.clusters[child] == sides[0] else right] = child
            total += share
        return min(total, 1.0)

    @cached_property
    def _conditional(self) -> FloatArray:
        """The probability of each split of a vertex, given the vertex."""
        return self._solution.split_probabilities(self._vertices.splits())

    def given(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> ContextPosterior:
        self._check_possible()
        condition = Constraint(self.labels, self._contained(contains), map(self._mask, lacks))
        solution = self.trellis.solve(self.potential + condition, self._threads)
        return ContextPosterior(solution, self.trellis, threads=self._threads)

    def expected_clusters_tree(self) -> Tree:
        rewards = Rewards(self.labels, self._of_clusters[self._vertices.clusters])
        return self.potential.with_heights(self.trellis.solve(rewards, self._threads).map_tree)

    def _probability(self, mask: int) -> float:
        cluster = self._vertices.base.find(mask)
        return float(self._of_clusters[cluster]) if cluster >= 0 else 0.0

    def _log_split(self, left: int, right: int) -> float:
        whole, part = self._probability(left | right), self._pattern([(left | right, left, right)])
        return math.log(part / whole) if part > 0 else -math.inf
