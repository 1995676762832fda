"""Collections of clusters, and sums over their leaves and pairs of leaves.

A cluster is a set of leaves; a mask writes it as an integer in which leaf i is bit i. Potentials
describe clusters by sums: over leaves (`leaf_sums`), over pairs of leaves (`pair_sums`), or counts
(`sizes`). Two collections answer the same calls, so that a potential states its features once:

- `Lattice`: all 2^n subsets of n leaves, at position = mask, computed by adding one leaf at a time;
- `ClusterList`: any list of clusters, given as rows of a boolean matrix.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from hctrellis.potentials.checks import as_floats

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray, Tree

BoolArray = npt.NDArray[np.bool_]


class Clusters(Protocol):
    """What a potential may ask of a collection of clusters."""

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> FloatArray:
        """Number of leaves of each cluster."""

    @property
    def members(self) -> BoolArray:
        """Row k, column i: whether cluster k has leaf i."""

    def leaf_sums(self, values: npt.ArrayLike) -> FloatArray:
        """The sum of a value per leaf, shape (n,), over the leaves of each cluster."""

    def pair_sums(self, matrix: npt.ArrayLike) -> FloatArray:
        """The sum of a symmetric matrix over unordered pairs in each cluster, plus its diagonal."""


class Vertices(Clusters, Protocol):
    """The clusters of a trellis, which have numbers, children before parents, the root last."""

    @property
    def leaves(self) -> IntArray:
        """The numbers of the single leaves, in order."""

    @property
    def root(self) -> int:
        """The number of the cluster of all leaves."""

    def single(self, numbers: IntArray) -> BoolArray:
        """Whether clusters are single leaves."""

    def find(self, mask: int) -> int:
        """The number of a cluster, or -1 if it is not there."""

    def masks(self, numbers: IntArray) -> list[int]:
        """The masks of clusters."""

    def rows(self, numbers: IntArray) -> BoolArray:
        """Row k, column i: whether the cluster numbers[k] has leaf i."""


class Lattice:
    """All subsets of n leaves, the empty one first: cluster k is the mask k.

    Examples
    --------
    >>> Lattice(2).pair_sums([[1, 5], [5, 2]]).tolist()
    [0.0, 1.0, 2.0, 8.0]
    """

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves

    def __len__(self) -> int:
        return 1 << self.n_leaves

    @property
    def sizes(self) -> FloatArray:
        return self.leaf_sums(np.ones(self.n_leaves))

    @property
    def members(self) -> BoolArray:
        return self.rows(np.arange(len(self)))

    @property
    def leaves(self) -> IntArray:
        return 1 << np.arange(self.n_leaves)

    @property
    def root(self) -> int:
        return len(self) - 1

    def single(self, numbers: IntArray) -> BoolArray:
        return np.asarray(numbers & (numbers - 1) == 0)

    def find(self, mask: int) -> int:
        return mask

    def masks(self, numbers: IntArray) -> list[int]:
        found: list[int] = numbers.tolist()
        return found

    def rows(self, numbers: IntArray) -> BoolArray:
        return np.asarray((numbers[:, None] >> np.arange(self.n_leaves)) & 1, bool)

    def leaf_sums(self, values: npt.ArrayLike) -> FloatArray:
        sums = np.zeros(len(self))
        for i, value in enumerate(as_floats(values, "values")):
            half = 1 << i
            np.add(sums[:half], value, out=sums[half : 2 * half])
        return sums

    def pair_sums(self, matrix: npt.ArrayLike) -> FloatArray:
        matrix = as_floats(matrix, "matrix")
        sums = np.zeros(len(self))
        for i in range(self.n_leaves):
            half = 1 << i
            with_i = sums[half : 2 * half]
            with_i[0] = matrix[i, i]
            for j in range(i):  # what leaf i adds, for all subsets of the leaves before it
                np.add(with_i[: 1 << j], matrix[i, j], out=with_i[1 << j : 2 << j])
            with_i += sums[:half]
        return sums


class ClusterList:
    """A list of clusters given by a boolean matrix, one row a cluster.

    Examples
    --------
    >>> ClusterList([[True, False], [True, True]]).pair_sums([[1, 5], [5, 2]]).tolist()
    [1.0, 8.0]
    """

    def __init__(self, members: npt.ArrayLike) -> None:
        self._members = np.asarray(members, bool)
        self.n_leaves = self._members.shape[1]

    def __len__(self) -> int:
        return len(self._members)

    @cached_property
    def sizes(self) -> FloatArray:
        return np.asarray(self._members.sum(axis=1), float)

    @property
    def members(self) -> BoolArray:
        return self._members

    def leaf_sums(self, values: npt.ArrayLike) -> FloatArray:
        return np.asarray(self._floats @ as_floats(values, "values"))

    def pair_sums(self, matrix: npt.ArrayLike) -> FloatArray:
        matrix = as_floats(matrix, "matrix")
        pairs = np.tril(matrix)  # each pair once: no cancellation against the diagonal
        sums: FloatArray = ((self._floats @ pairs) * self._floats).sum(axis=1)
        return sums

    @cached_property
    def _floats(self) -> FloatArray:
        return self._members.astype(float)


def split_members(tree: Tree) -> tuple[BoolArray, BoolArray, BoolArray]:
    """The left child, right child and parent of each split of a tree, as boolean matrices."""
    n = tree.n_leaves
    members = np.zeros((2 * n - 1, n), bool)
    members[:n] = np.eye(n, dtype=bool)
    for k, (left, right) in enumerate(tree.children):
        members[n + k] = members[left] | members[right]
    return members[tree.children[:, 0]], members[tree.children[:, 1]], members[n:]


def n_trees(n_leaves: int) -> int:
    """The number of rooted binary trees over n labelled leaves, (2n - 3)!!.

    >>> [n_trees(n) for n in (1, 2, 3, 4, 9)]
    [1, 1, 3, 15, 2027025]
    """
    return math.prod(range(1, 2 * n_leaves - 2, 2))


def n_splits(n_leaves: int) -> int:
    """The number of pairs (cluster, split of it) over n leaves, (3^n - 2^(n+1) + 1) / 2.

    >>> [n_splits(n) for n in (1, 2, 3, 4)]
    [0, 1, 6, 25]
    """
    return int((3**n_leaves - 2 ** (n_leaves + 1) + 1) // 2)
