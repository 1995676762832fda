"""Heights of the merges of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree


def raised(tree: Tree, heights: FloatArray | None = None) -> FloatArray:
    """Heights that no child exceeds: each raised to that of its highest child, leaves at 0.

    What is raised: those given, else those of the tree, else the number of leaves less one.

    Examples
    --------
    >>> from hctrellis import Tree
    >>> raised(Tree.from_newick("((a,b),c);"), np.array([2.0, 1.0]))
    array([2., 2.])
    """
    heights = tree.heights if heights is None else heights
    wanted = (tree.sizes[tree.n_leaves :] - 1 if heights is None else heights).tolist()
    level = [0.0] * tree.n_leaves
    for (left, right), height in zip(tree.children.tolist(), wanted, strict=True):
        level.append(max(height, level[left], level[right]))
    return np.array(level[tree.n_leaves :], float)
