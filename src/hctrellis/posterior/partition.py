"""Flat clusters from a posterior over trees: disjoint clusters that cover the leaves.

Three ways, each of which gives a `Partition`: `cut_tree` cuts a tree where it is highest;
`best_partition` finds the most probable clusters, whatever the tree; `probable_partition` takes the
largest clusters above a probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hctrellis.clusters import mask_leaves
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.support.checks import as_count
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

__all__ = ["Partition", "best_partition", "cut_tree", "probable_partition"]

EXACT_LEAVES = 18  # for the dynamic program over all sets of leaves
FLOOR = 1e-3  # probability of a cluster that it considers


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Disjoint clusters that cover the leaves, the one with the first leaf first.

    Attributes
    ----------
    labels : tuple of str
        Labels of the leaves.
    masks : tuple of int
        The clusters; leaf i is bit i.
    probabilities : float64 array
        The probability that a tree has each of them; 1 for a single leaf, NaN where it cannot be
        quoted.
    is_exact : bool
        Whether all partitions were considered, not only those of one tree.
    """

    labels: tuple[str, ...]
    masks: tuple[int, ...]
    probabilities: FloatArray
    is_exact: bool = True

    @property
    def assignment(self) -> IntArray:
        """The number of the cluster of each leaf."""
        numbers = np.empty(len(self.labels), np.int64)
        for number, mask in enumerate(self.masks):
            numbers[mask_leaves(mask)] = number
        return numbers

    def clusters(self) -> list[frozenset[str]]:
        """The clusters as sets of labels."""
        return [frozenset(self.labels[leaf] for leaf in mask_leaves(mask)) for mask in self.masks]

    def __len__(self) -> int:
        return len(self.masks)

    def __repr__(self) -> str:
        sizes = ", ".join(str(mask.bit_count()) for mask in self.masks)
        return f"Partition({len(self)} clusters of {sizes} of {len(self.labels)} leaves)"


def cut_tree(post: BasePosterior, tree: Tree, n_clusters: int) -> Partition:
    """The clusters that remain of a tree without its highest merges.

    Parameters
    ----------
    post : Posterior
    tree : Tree
        Over the same leaves. If it has no heights, larger clusters count as higher.
    n_clusters : int

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [7.0], [8.0], [30.0]], beta=1.0))
    >>> cut_tree(post, post.map_tree, 3).assignment.tolist()
    [0, 0, 1, 1, 2]
    """
    aligned = post.potential.align(tree)
    n, k = aligned.n_leaves, _as_number(n_clusters, post)
    masks = [1 << leaf for leaf in range(n)]
    for left, right in aligned.to_linkage()[: n - k, :2].astype(int).tolist() if n > 1 else []:
        masks.append(masks[left] | masks[right])
    return _partition(post, _outermost(masks), is_exact=False)


def probable_partition(post: BasePosterior, threshold: float = 0.5) -> Partition:
    """The largest clusters, except the root, of probability above `threshold` (at least 1/2).

    Leaves in none of them stay single.

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [7.0], [8.0], [30.0]], beta=1.0))
    >>> probable_partition(post, 0.9).clusters() == [{"0", "1", "2", "3"}, {"4"}]
    True
    """
    everything = (1 << post.n_leaves) - 1
    found = post.consensus_tree(threshold).clusters() - {everything}
    return _partition(post, _outermost([*found, *_singles(post)]))


def best_partition(
    post: BasePosterior, n_clusters: int, total: Literal["leaves", "clusters"] = "leaves"
) -> Partition:
    """The n_clusters disjoint clusters that cover the leaves and are most probable.

    They maximise the sum over leaves of the probability of the leaf's cluster, or, if `total` is
    "clusters", the sum over clusters of their probabilities, which favours single leaves, since
    every tree has those. Disjoint clusters always fit into one tree,
    so this is a question about sets of leaves, answered by a dynamic program over all of them for
    up to 18 leaves: exactly, among clusters of probability 0.001 or more and those of the MAP tree.
    For more leaves only the clusters of one tree are considered, the one with the greatest expected
    number of correct clusters; `is_exact` says which.

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [7.0], [8.0], [30.0]], beta=1.0))
    >>> best_partition(post, 3).assignment.tolist()
    [0, 0, 1, 1, 2]
    """
    k = _as_number(n_clusters, post)
    if total not in ("leaves", "clusters"):
        raise ValueError(f'total must be "leaves" or "clusters"; got {total!r:.80}')
    by_size = total == "leaves"
    if post.n_leaves > EXACT_LEAVES:
        return _partition(post, _best_cut(post, k, by_size), is_exact=False)
    table = post.cluster_probabilities(FLOOR)
    masks = sorted({*table.masks, *post.map_tree.clusters(leaves=True), *_singles(post)})
    return _partition(post, _best_cover(masks, _worth(post, masks, by_size), post.n_leaves, k))


# ---- the dynamic programs ---------------------------------------------------------------------


def _best_cover(masks: list[int], worth: FloatArray, n_leaves: int, n_clusters: int) -> list[int]:
    """The clusters of greatest total worth that partition the leaves.

    best[k, S], the greatest worth of k clusters that partition a set S of leaves, is the maximum of
    worth(C) + best[k - 1, S - C] over clusters C that hold the last leaf of S. For each C, all S
    are visited at once: S - C is any set of leaves before the last of C that are not in C.
    """
    best = np.full((n_clusters + 1, 1 << n_leaves), -np.inf)
    best[0, 0] = 0.0
    for mask, value in zip(masks, worth.tolist(), strict=True):  # by last leaf: increasing
        others = _subsets(~mask & ((1 << mask.bit_length()) - 1))
        for k in range(1, n_clusters + 1):
            target = best[k, others | mask]
            best[k, others | mask] = np.maximum(target, best[k - 1, others] + value)
    found, rest = [], (1 << n_leaves) - 1
    for k in range(n_clusters, 0, -1):
        inside = [i for i, mask in enumerate(masks) if mask & ~rest == 0 and mask > rest >> 1]
        scores = [worth[i] + best[k - 1, rest ^ masks[i]] for i in inside]
        found.append(masks[inside[int(np.argmax(scores))]])
        rest ^= found[-1]
    return found


def _subsets(mask: int) -> IntArray:
    """All subsets of a set of leaves, as masks."""
    subsets = np.zeros(1, np.int64)
    for leaf in mask_leaves(mask):
        subsets = np.concatenate([subsets, subsets | 1 << leaf])
    return subsets


def _best_cut(post: BasePosterior, n_clusters: int, by_size: bool) -> list[int]:
    """The clusters of greatest total worth that partition the leaves, all of one tree."""
    tree = post.expected_clusters_tree()
    n = tree.n_leaves
    worths = _worth(post, tree.masks, by_size)
    best = [np.array([-np.inf, worth])[: n_clusters + 1] for worth in worths]
    for node, (left, right) in enumerate(tree.children.tolist(), start=n):
        joined = _best_sums(best[left], best[right], n_clusters)
        joined[1] = best[node][1]
        best[node] = joined
    found, todo = [], [(2 * n - 2, n_clusters)]
    while todo:
        node, k = todo.pop()
        if k == 1:
            found.append(tree.masks[node])
            continue
        left, right = tree.children[node - n].tolist()
        ways = range(max(1, k - len(best[right]) + 1), min(k, len(best[left])))
        share = max(ways, key=lambda j: best[left][j] + best[right][k - j])
        todo += [(left, share), (right, k - share)]
    return found


def _best_sums(left: FloatArray, right: FloatArray, most: int) -> FloatArray:
    """max over i + j = k of left[i] + right[j], for every k up to the most."""
    sums = np.full(min(most, len(left) + len(right) - 2) + 1, -np.inf)
    for i, value in enumerate(left.tolist()):
        part = sums[i : i + len(right)]
        np.maximum(part, value + right[: len(part)], out=part)
    return sums


def _worth(post: BasePosterior, masks: Sequence[int], by_size: bool) -> FloatArray:
    """The probability of each cluster, times its number of leaves if `by_size`."""
    probabilities = [post.cluster_probability(mask) for mask in masks]
    return np.array(probabilities) * ([mask.bit_count() for mask in masks] if by_size else 1.0)


# ---- small things -----------------------------------------------------------------------------


def _partition(post: BasePosterior, masks: Iterable[int], is_exact: bool = True) -> Partition:
    ordered = tuple(sorted(masks, key=lambda mask: mask & -mask))
    known = Lookup(post)
    values = [1.0 if mask.bit_count() == 1 else known.probability(mask) for mask in ordered]
    probabilities = np.array([np.nan if value is None else value for value in values])
    return Partition(post.labels, ordered, probabilities, is_exact)


def _outermost(masks: list[int]) -> list[int]:
    """Those of some nested or disjoint clusters that lie in no other of them."""
    found, covered = [], 0
    for mask in sorted(masks, key=int.bit_count, reverse=True):
        if not mask & covered:
            found.append(mask)
            covered |= mask
    return found


def _singles(post: BasePosterior) -> list[int]:
    return [1 << leaf for leaf in range(post.n_leaves)]


def _as_number(n_clusters: object, post: BasePosterior) -> int:
    number = as_count(n_clusters, "n_clusters")
    if number > post.n_leaves:
        raise ValueError(
            f"n_clusters must be at most {post.n_leaves}, the number of leaves; got {number}"
        )
    return number
