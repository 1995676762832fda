"""Linkage matrices, as SciPy has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.trees.heights import raised
from hctrellis.trees.parts import Parts

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray
    from hctrellis.tree import Tree


def parse_linkage(Z: npt.ArrayLike, labels: Sequence[str] | None = None) -> Parts:
    """Read a scipy linkage matrix; see `Tree.from_linkage`."""
    matrix = _as_linkage(Z)
    pairs = matrix[:, :2]
    wrong = ((pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= 2 * len(matrix))).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        left, right = pairs[row].tolist()
        raise ValueError(
            f"row {row} of the linkage matrix joins {left:g} and {right:g}; expected whole numbers "
            f"from 0 to {2 * len(matrix) - 1}."
        )
    return Parts(pairs.astype(np.int64), labels, matrix[:, 2])


def format_linkage(tree: Tree, heights: FloatArray | None = None) -> FloatArray:
    """Return a scipy linkage matrix; see `Tree.to_linkage`."""
    level = raised(tree, heights)
    order = np.argsort(level, kind="stable")
    number = np.arange(2 * tree.n_leaves - 1)
    number[tree.n_leaves + order] = np.arange(tree.n_leaves, 2 * tree.n_leaves - 1)
    pairs = np.sort(number[tree.children[order]], axis=1)
    sizes: IntArray = tree.sizes[tree.n_leaves :][order]
    return np.column_stack([pairs, level[order], sizes]).astype(np.float64)


def _as_linkage(Z: npt.ArrayLike) -> FloatArray:
    try:
        given = np.asarray(Z)
        if np.iscomplexobj(given):
            raise TypeError
        matrix = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "the linkage matrix is not an array of numbers; expected (n, 4)."
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] != 4:
        raise ValueError(
            f"the linkage matrix has shape {matrix.shape}; expected (n_leaves - 1, 4) as "
            "scipy.cluster.hierarchy.linkage returns it."
        )
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise ValueError(
            f"row {row} of the linkage matrix is {matrix[row].tolist()}; expected finite numbers."
        )
    return matrix
