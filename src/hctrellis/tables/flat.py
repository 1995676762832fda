"""The tree that is cut into flat clusters, with heights, and the flat clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from hctrellis.clusters import split_members
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.partition import Partition, best_partition, cut_tree, probable_partition
from hctrellis.potentials.linkage import Linkage, Method
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.tables.models import CONTRASTS, LINKAGES
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

Cut = Literal["map", "best"]
HALF = 0.5  # probability above which flat clusters are taken if no number of them is given
TIE = 1e-9  # smaller relative differences of log weights count as ties
ALL_SINGLE = (
    f"no cluster has a probability above {HALF:g}, so every item is a flat cluster of its own; "
    "give n_clusters to cut the tree nonetheless"
)


def best_tree(post: BasePosterior, distances: FloatArray, name: str) -> Tree:
    """The MAP tree with heights; SciPy's if it is as good (single linkage has many ties).

    Heights are those of the linkage; of contrasts, the spread; average distances for other models.
    """
    if name == CONTRASTS:
        return post.map_tree
    method = cast(Method, name if name in LINKAGES else "average")
    greedy = _scipy_tree(distances, method, post.labels)
    top = post.map_log_weight
    ties = post.potential.log_weight(greedy) >= top - TIE * max(1.0, abs(top))
    tree = greedy if ties else post.map_tree
    model = Linkage(distances, method, metric="precomputed")
    heights = -model.split_log_weights(*split_members(tree))
    return Tree(tree.children, labels=tree.labels, heights=heights)


def flat_clusters(
    post: BasePosterior,
    tree: Tree,
    n_clusters: int | None = None,
    threshold: float | None = None,
    cut: Cut = "map",
) -> Partition:
    """n_clusters flat clusters, or the largest ones with a probability above a threshold."""
    if n_clusters is None and not post.is_reliable:
        raise ValueError(
            f"{post.diagnostics.verdict} So there are no probable clusters; give n_clusters to cut "
            "the best tree found"
        )
    if n_clusters is None:
        return probable_partition(post, HALF if threshold is None else threshold)
    if cut == "map" or not post.is_reliable:
        return cut_tree(post, tree, n_clusters)
    return best_partition(post, n_clusters)


def all_single(part: Partition) -> str:
    """What to say if every item is a flat cluster of its own; nothing if not."""
    return ALL_SINGLE if 1 < len(part) == len(part.labels) else ""


def _scipy_tree(distances: FloatArray, method: str, labels: Sequence[str]) -> Tree:
    with ONE_AT_A_TIME:
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

    merges = linkage(squareform(distances, checks=False), method)
    return Tree(merges[:, :2].astype(np.int64), labels=labels)
