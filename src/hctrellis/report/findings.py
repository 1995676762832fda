"""What a report shows of a posterior, as plain values: clusters, their rivals, trees, pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import Cluster, cluster_mask
from hctrellis.posterior.posterior import Posterior
from hctrellis.support.types import Seed
from hctrellis.tree import Tree
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

LISTED = 0.2  # clusters below this probability are listed only if they are in the best tree
RIVAL = 0.01  # clusters below this probability do not count as rivals
MAX_CANDIDATES = 2000  # clusters that are looked through for rivals
MAX_RIVALS = 5
MAX_LISTED = 150
MAX_PAIRED = 400  # leaves up to which pairs of leaves are shown
QUICK_LEAVES = 18  # up to here, one more pass over all trees takes no time to speak of


class Found(NamedTuple):
    """A cluster (leaf i is bit i) and its probability."""

    mask: int
    probability: float


class Pairs(NamedTuple):
    """How probable it is that two leaves share a cluster of at most a given size."""

    size: int
    probability: FloatArray


@dataclass(frozen=True, eq=False)
class Findings:
    """What a report shows.

    Attributes
    ----------
    post : Posterior
    trees : list of Tree
        The most probable ones in order, the best first, with heights if the potential has them.
    tree_probabilities : float64 array
    clusters : list of Found
        Those of the best tree and all other probable ones, the most probable first.
    rivals : dict from int to list of Found
        For every cluster that is shown, those that cross it, the most probable first.
    samples : list of Tree
        Drawn from the posterior.
    pairs : list of Pairs
    watched : list of Found
        The clusters that were asked about.
    """

    post: Posterior
    trees: list[Tree]
    tree_probabilities: FloatArray
    clusters: list[Found]
    rivals: dict[int, list[Found]]
    samples: list[Tree]
    pairs: list[Pairs]
    watched: list[Found]

    @property
    def tree(self) -> Tree:
        """The most probable tree."""
        return self.trees[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the leaves."""
        return self.post.labels


def collect(
    post: Posterior,
    watch: Iterable[Cluster] = (),
    k: int = 10,
    size: int = 100,
    rng: Seed = 0,
) -> Findings:
    """Ask a posterior for all that a report shows."""
    index_of = {label: i for i, label in enumerate(post.labels)}
    asked = [cluster_mask(items, index_of, post.n_leaves) for items in watch]
    ranked = post.top_trees(k)
    likely = _likely(post)
    listed = _listed(post, likely, ranked[0])
    inner = [mask for tree in ranked for mask in below_root(tree)]
    masks = dict.fromkeys([*(found.mask for found in (*likely, *listed)), *inner, *asked])
    return Findings(
        post=post,
        trees=[*ranked],
        tree_probabilities=ranked.probabilities,
        clusters=listed,
        rivals={mask: _rivals(mask, likely) for mask in masks},
        samples=[*post.sample(size, rng)],
        pairs=_pairs(post),
        watched=[Found(mask, post.cluster_probability(mask)) for mask in asked],
    )


def below_root(tree: Tree) -> list[int]:
    """The clusters of a tree other than leaves and the root."""
    return list(tree.masks[tree.n_leaves : -1])


def _likely(post: Posterior) -> list[Found]:
    table = post.cluster_probabilities(RIVAL)
    pairs = zip(table.masks, table.probabilities.tolist(), strict=True)
    return [Found(mask, p) for mask, p in pairs][:MAX_CANDIDATES]


def _listed(post: Posterior, likely: list[Found], best: Tree) -> list[Found]:
    listed = [found for found in likely if found.probability >= LISTED][:MAX_LISTED]
    there = {found.mask for found in listed}
    inner = [Found(m, post.cluster_probability(m)) for m in below_root(best) if m not in there]
    return sorted([*listed, *inner], key=lambda found: -found.probability)


def _rivals(mask: int, likely: list[Found]) -> list[Found]:
    crossing = (
        found
        for found in likely
        if (both := found.mask & mask) > 0 and both not in (mask, found.mask)
    )
    return [found for _, found in zip(range(MAX_RIVALS), crossing, strict=False)]


def _pairs(post: Posterior) -> list[Pairs]:
    n = post.n_leaves
    if n > MAX_PAIRED or n < 3:
        return []
    quick = n <= QUICK_LEAVES or isinstance(post.trellis, SparseTrellis)
    sizes = {2, n // 4, n // 2, 3 * n // 4} if quick else {n // 2}
    return [
        Pairs(size, np.clip(post.coclustering(size).probability, 0.0, 1.0))
        for size in sorted(sizes)
        if 1 < size < n
    ]
