"""The greedy baseline of the paper for similarities: join the two most similar on average."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hctrellis.tree import Tree


def average_linkage(similarity: npt.ArrayLike, labels: Iterable[str] | None = None) -> Tree:
    """Repeatedly join the two clusters with the largest mean similarity between them.

    Examples
    --------
    >>> average_linkage([[0, 2, 0], [2, 0, 1], [0, 1, 0]])
    Tree(3 leaves: ((0,1),2))
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    w = np.asarray(similarity, float)
    distances = w.max() - w
    np.fill_diagonal(distances, 0.0)
    merges = Tree.from_linkage(linkage(squareform(distances, checks=False), "average"))
    return Tree(merges.children, labels=labels)
