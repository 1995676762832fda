"""Heights of merges for models of similarities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.potentials.linkage import Linkage
from hctrellis.tree import raised

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, Tree


def similarity_heights(similarity: FloatArray, labels: Iterable[str], tree: Tree) -> FloatArray:
    """How dissimilar the two parts of each merge are, raised where a part merged higher.

    The largest similarity of two leaves less the mean similarity between the leaves of one part
    and those of the other: average linkage of largest - similarity. 0 joins what is as similar as
    can be.

    Examples
    --------
    >>> from hctrellis import Tree
    >>> similarity = np.array([[0.0, 0.9, 0.2], [0.9, 0.0, 0.4], [0.2, 0.4, 0.0]])
    >>> similarity_heights(similarity, "abc", Tree.from_newick("((a,b),c);")).round(3)
    array([0. , 0.6])
    """
    apart = ~np.eye(len(similarity), dtype=bool)
    gaps = np.zeros(similarity.shape)
    gaps[apart] = similarity[apart].max(initial=-np.inf) - similarity[apart]
    return raised(tree, Linkage(gaps, metric="precomputed", labels=labels).heights(tree))
