"""What a report shows of a posterior, as plain values: clusters, their rivals, trees, pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import Cluster, asked_mask
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.placements import Placements, unsettled
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
MAX_PLACED = 200  # leaves up to which it is said how settled each is
QUICK_LEAVES = 18  # up to here, one more pass over all trees takes no time to speak of


class Found(NamedTuple):
    """A cluster (leaf i is bit i) and its probability; None if it cannot be quoted."""

    mask: int
    probability: float | None


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
    known : Lookup
        The probabilities of clusters.
    trees : list of Tree
        The most probable ones in order, the best first, with heights if the potential has them;
        only the best that was found where trees were sampled.
    tree_probabilities : float64 array
        Empty where they are not known.
    clusters : list of Found
        Those of the best tree and all other probable ones, the most probable first.
    rivals : dict from int to list of Found
        For every cluster that is shown, those that cross it, the most probable first.
    samples : list of Tree
        Drawn from the posterior.
    pairs : list of Pairs
    watched : list of Found
        The clusters that were asked about.
    placements : Placements or None
        How settled each item is; None where there are too few or too many items.
    """

    post: BasePosterior
    known: Lookup
    trees: list[Tree]
    tree_probabilities: FloatArray
    clusters: list[Found]
    rivals: dict[int, list[Found]]
    samples: list[Tree]
    pairs: list[Pairs]
    watched: list[Found]
    placements: Placements | None = None

    @property
    def tree(self) -> Tree:
        """The most probable tree."""
        return self.trees[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the leaves."""
        return self.post.labels


def collect(
    post: BasePosterior,
    watch: Iterable[Cluster] = (),
    k: int = 10,
    size: int = 100,
    rng: Seed = 0,
) -> Findings:
    """Ask a posterior for all that a report shows."""
    index_of = {label: i for i, label in enumerate(post.labels)}
    asked = [asked_mask(items, index_of, post.n_leaves) for items in watch]
    known = Lookup(post)
    trees, probabilities = _best(post, k)
    likely = _likely(post)
    listed = _listed(known, likely, trees[0])
    inner = [mask for tree in trees for mask in below_root(tree)]
    masks = dict.fromkeys([*(found.mask for found in (*likely, *listed)), *inner, *asked])
    return Findings(
        post=post,
        known=known,
        trees=trees,
        tree_probabilities=probabilities,
        clusters=listed,
        rivals={mask: _rivals(mask, likely) for mask in masks},
        samples=[*post.sample(size, rng)] if post.is_reliable else [],
        pairs=_pairs(post),
        watched=[Found(mask, known.probability(mask)) for mask in asked],
        placements=_placements(post, rng),
    )


def _best(post: BasePosterior, k: int) -> tuple[list[Tree], FloatArray]:
    """The best trees in order and their probabilities; one where others are not known."""
    if post.method != "sampled":
        ranked = post.top_trees(k)
        return [*ranked], ranked.probabilities
    log_p = post.map_log_probability if post.is_reliable else None
    return [post.map_tree], np.exp([] if log_p is None else [log_p])


def _placements(post: BasePosterior, rng: Seed) -> Placements | None:
    if not post.is_reliable or not 3 < post.n_leaves <= MAX_PLACED:
        return None
    return unsettled(post, rng=rng)


def below_root(tree: Tree) -> list[int]:
    """The clusters of a tree other than leaves and the root."""
    return list(tree.masks[tree.n_leaves : -1])


def _likely(post: BasePosterior) -> list[Found]:
    if not post.is_reliable:
        return []
    table = post.cluster_probabilities(RIVAL)
    pairs = zip(table.masks, table.probabilities.tolist(), strict=True)
    return [Found(mask, p) for mask, p in pairs][:MAX_CANDIDATES]


def _listed(known: Lookup, likely: list[Found], best: Tree) -> list[Found]:
    listed = [found for found in likely if (found.probability or 0.0) >= LISTED][:MAX_LISTED]
    there = {found.mask for found in listed}
    inner = [Found(m, known.probability(m)) for m in below_root(best) if m not in there]
    return sorted([*listed, *inner], key=lambda found: -(found.probability or 0.0))


def _rivals(mask: int, likely: list[Found]) -> list[Found]:
    crossing = (
        found
        for found in likely
        if (both := found.mask & mask) > 0 and both not in (mask, found.mask)
    )
    return [found for _, found in zip(range(MAX_RIVALS), crossing, strict=False)]


def _pairs(post: BasePosterior) -> list[Pairs]:
    n = post.n_leaves
    if n > MAX_PAIRED or n < 3 or not post.is_reliable:
        return []
    quick = n <= QUICK_LEAVES or isinstance(post.trellis, SparseTrellis)
    sizes = {2, n // 4, n // 2, 3 * n // 4} if quick else {n // 2}
    return [
        Pairs(size, np.clip(post.coclustering(size).probability, 0.0, 1.0))
        for size in sorted(sizes)
        if 1 < size < n
    ]
