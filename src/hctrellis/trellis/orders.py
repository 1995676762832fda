"""Orders: which leaf of a data set takes which place of a trellis.

A sparse trellis is built on some data sets and applied to others of the same size, whose leaves
have nothing in common but their places. An order is an array: leaf order[k] takes place k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hctrellis.support.checks import as_floats
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

__all__ = ["at_random", "by_key", "by_norm", "by_traversal"]

Order = Literal["norm", "random", "traversal"] | Callable[[Any, Tree], npt.ArrayLike]
"""How leaves are ordered: by the norm of their momenta, at random, as a tree is traversed, or by a
function of the data set (a potential or a jet) and a tree over it."""


def by_key(values: npt.ArrayLike) -> IntArray:
    """The leaf with the largest value first.

    >>> by_key([0.1, 0.7, 0.3]).tolist()
    [1, 2, 0]
    """
    array = as_floats(values, "values")
    if array.ndim != 1 or np.isnan(array).any():
        raise ValueError(f"expected one number per leaf; got an array of shape {array.shape}")
    return np.argsort(-array, kind="stable")


def by_norm(momenta: npt.ArrayLike) -> IntArray:
    """The particle with the largest |p| first, given rows (E, px, py, pz)."""
    rows = as_floats(momenta, "momenta")
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"momenta must have rows (E, px, py, pz); got shape {rows.shape}")
    return by_key(np.sqrt((rows[:, 1:] ** 2).sum(axis=1)))


def at_random(n_leaves: int, rng: int | np.random.Generator | None = None) -> IntArray:
    """A uniformly random order."""
    return np.random.default_rng(rng).permutation(n_leaves)


def by_traversal(tree: Tree) -> IntArray:
    """The leaves as they are met from the root, the child with the smallest index first.

    >>> by_traversal(Tree.from_newick("((a,c),(b,d));")).tolist()
    [0, 1, 2, 3]
    >>> by_traversal(Tree.from_nested(((0, 2), (1, 3)))).tolist()
    [0, 2, 1, 3]
    """
    n = tree.n_leaves
    found, open_nodes = [], [2 * n - 2]
    while open_nodes:
        node = open_nodes.pop()
        if node < n:
            found.append(node)
        else:
            left, right = tree.children[node - n].tolist()
            open_nodes += [right, left]
    return np.array(found)


def order_leaves(
    data: Any, tree: Tree, order: Order, rng: np.random.Generator | None = None
) -> IntArray:
    """The order of the leaves of a data set (with `momenta`, for "norm") with a tree over it."""
    if order == "norm":
        if not hasattr(data, "momenta"):
            raise ValueError(
                f'order="norm" needs momenta; {type(data).__name__} has none: give a function of '
                "the data set and the tree instead"
            )
        return by_norm(data.momenta)
    if order == "random":
        return at_random(tree.n_leaves, rng)
    if order == "traversal":
        return by_traversal(tree)
    if callable(order):
        return np.asarray(order(data, tree), np.int64)
    raise ValueError(
        f'order must be "norm", "random", "traversal" or a function; got {order!r:.80}'
    )


def place(tree: Tree, order: IntArray) -> IntArray:
    """The children of a tree whose leaf order[k] is leaf k."""
    n = tree.n_leaves
    places = np.arange(2 * n - 1)
    places[order] = np.arange(n)
    return places[tree.children]
