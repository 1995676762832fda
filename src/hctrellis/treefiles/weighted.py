"""Trees that count more or less: a sequence of trees with a weight for each.

Readers of files return it (`hctrellis.treefiles.read_nexus`), and calls that make something from
trees take it (`SparseTrellis.from_trees`, `CladeDistribution`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from hctrellis.support.checks import as_finite
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


@dataclass(frozen=True, init=False, eq=False, repr=False)
class WeightedTrees(Sequence[Tree]):
    """Trees, and how much each of them counts. A slice keeps the weights of its trees.

    Parameters
    ----------
    trees : iterable of Tree
        If they have weights of their own (`WeightedTrees`), these are kept.
    weights : array_like of float, optional
        One for each tree, not negative and not all zero. Weights need not sum to one: a tree of
        weight 2 counts as if it were there twice.

    Attributes
    ----------
    trees : tuple of Tree
    weights : float64 array, read-only, or None
        None if there are none: every tree counts once.

    Examples
    --------
    >>> trees = [Tree.from_newick("((a,b),c);"), Tree.from_newick("((a,c),b);")]
    >>> given = WeightedTrees(trees, [0.9, 0.1])
    >>> given
    WeightedTrees(2 trees, with weights)
    >>> given[1:].weights.tolist()
    [0.1]
    """

    trees: tuple[Tree, ...]
    weights: FloatArray | None

    def __init__(self, trees: Iterable[Tree], weights: npt.ArrayLike | None = None) -> None:
        if weights is None and isinstance(trees, WeightedTrees):
            weights = trees.weights
        given = tuple(trees)
        object.__setattr__(self, "trees", given)
        object.__setattr__(
            self, "weights", None if weights is None else _as_weights(weights, len(given))
        )

    def __len__(self) -> int:
        return len(self.trees)

    @overload
    def __getitem__(self, index: int) -> Tree: ...

    @overload
    def __getitem__(self, index: slice) -> WeightedTrees: ...

    def __getitem__(self, index: int | slice) -> Tree | WeightedTrees:
        if isinstance(index, slice):
            return WeightedTrees(
                self.trees[index], None if self.weights is None else self.weights[index]
            )
        return self.trees[index]

    def __eq__(self, other: object) -> bool:
        """Whether these are the same trees in the same order, with the same weights."""
        if not isinstance(other, WeightedTrees | list | tuple):
            return NotImplemented
        two = WeightedTrees(other)
        if self.weights is None or two.weights is None:
            return self.trees == two.trees and self.weights is two.weights
        return self.trees == two.trees and np.array_equal(self.weights, two.weights)

    def __hash__(self) -> int:
        return hash(self.trees)

    def __add__(self, other: Sequence[Tree]) -> WeightedTrees:
        """The trees of one and then those of the other; all must have weights, or none."""
        two = WeightedTrees(other)
        if self.weights is None and two.weights is None:
            return WeightedTrees(self.trees + two.trees)
        if self.weights is None or two.weights is None:
            raise ValueError(
                "some of these trees have weights and others have none; give weights to all"
            )
        return WeightedTrees(self.trees + two.trees, [*self.weights, *two.weights])

    def counted(self) -> WeightedTrees:
        """The trees that count: those of weight 0 are left out."""
        if self.weights is None or (self.weights > 0).all():
            return self
        kept = np.flatnonzero(self.weights)
        return WeightedTrees([self.trees[k] for k in kept], self.weights[kept])

    def __repr__(self) -> str:
        number = f"{len(self)} {'tree' if len(self) == 1 else 'trees'}"
        return f"WeightedTrees({number}{'' if self.weights is None else ', with weights'})"


def _as_weights(weights: npt.ArrayLike, n_trees: int) -> FloatArray:
    array = as_finite(weights, "weights").copy()
    if array.shape != (n_trees,):
        raise ValueError(
            f"weights has shape {array.shape} for {n_trees} trees; give one number for each"
        )
    if (array < 0).any():
        k = int(np.argmax(array < 0))
        raise ValueError(f"weights[{k}] is {array[k]:g}; expected numbers that are not negative")
    if n_trees > 0 and not array.any():
        raise ValueError("all weights are 0, so no tree counts; expected one above 0")
    array.flags.writeable = False
    return array
