"""Heights of merges for models of similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import ClusterList
from hctrellis.support.types import BoolArray
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree


def similarity_heights(
    similarity: FloatArray, members: tuple[BoolArray, BoolArray, BoolArray], tree: Tree
) -> FloatArray:
    """How dissimilar the two parts of each merge are, raised where a part merged higher.

    The largest similarity of two leaves less the mean similarity between the leaves of one part
    and those of the other: average linkage of largest - similarity. The height is 0 if the parts
    are as similar as the two most similar leaves. The members are the left child, right child and
    parent of each split of the tree.

    Examples
    --------
    >>> from hctrellis import Tree
    >>> from hctrellis.clusters import split_members
    >>> similarity = np.array([[0.0, 0.9, 0.2], [0.9, 0.0, 0.4], [0.2, 0.4, 0.0]])
    >>> tree = Tree.from_newick("((a,b),c);")
    >>> similarity_heights(similarity, split_members(tree), tree).round(3)
    array([0. , 0.6])
    """
    apart = ~np.eye(len(similarity), dtype=bool)
    gaps = np.zeros(similarity.shape)
    gaps[apart] = similarity[apart].max(initial=-np.inf) - similarity[apart]
    left, right, parent = map(ClusterList, members)
    across = parent.pair_sums(gaps) - left.pair_sums(gaps) - right.pair_sums(gaps)
    return raised(tree, across / (left.sizes * right.sizes))
