"""Collections of clusters, and sums over their leaves and pairs of leaves.

A cluster is a set of leaves; a mask writes it as an integer in which leaf i is bit i. Potentials
describe clusters by sums: over leaves (`leaf_sums`), over pairs of leaves (`pair_sums`), or counts
(`sizes`). Two collections answer the same calls, so that a potential states its features once:

- `Lattice`: all 2^n subsets of n leaves, at position = mask, computed by adding one leaf at a time;
- `ClusterList`: any list of clusters, given as rows of a boolean matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.support.checks import as_floats

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray, IntArray
    from hctrellis.tree import Tree

Cluster: TypeAlias = int | str | Iterable[str | int]
"""A cluster of leaves: a mask, one label, or an iterable of labels or leaf indices."""

FEW_LEAVES = 14  # up to here tables over all subsets are small enough to be kept
_SHOWN_LABELS = 6


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
    """The clusters of a trellis, numbered: children before parents, the root last."""

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
        if self.n_leaves <= FEW_LEAVES:
            return _all_sizes(self.n_leaves).copy()
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
        from hctrellis.kernels.lattice import add_pairs

        sums = np.empty(len(self))
        add_pairs(np.ascontiguousarray(as_floats(matrix, "matrix")), sums)
        return sums


@cache
def _all_sizes(n_leaves: int) -> FloatArray:
    """The sizes of all subsets of a few leaves, cached."""
    return Lattice(n_leaves).leaf_sums(np.ones(n_leaves))


class ClusterList:
    """A list of clusters given by a boolean matrix, one row per cluster.

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


def cluster_mask(items: Cluster, index_of: Mapping[str, int], n_leaves: int) -> int:
    """Return the mask of a set of leaves given as mask, label, or labels and indices."""
    if isinstance(items, int | np.integer):
        mask = int(items)
        if not 0 < mask < 1 << n_leaves:
            raise ValueError(
                f"{mask} is not the mask of a cluster of {n_leaves} leaves; expected an integer "
                f"from 1 to 2**{n_leaves} - 1 (to name leaf {mask}, give [{mask}])."
            )
        return mask
    mask = 0
    for item in (items,) if isinstance(items, str) else items:
        mask |= 1 << leaf_index(item, index_of, n_leaves)
    if not mask:
        raise ValueError("the cluster is empty; expected at least one label or leaf index.")
    return mask


def asked_mask(items: Cluster, index_of: Mapping[str, int], n_leaves: int) -> int:
    """The same for a cluster that is asked about: an index must not be another leaf's label.

    Whoever reads "1" and "2" in a tree and asks for 1 and 2 would be told about other leaves.
    """
    if isinstance(items, str | int | np.integer):
        return cluster_mask(items, index_of, n_leaves)
    items = [*items]
    for item in items:
        if not isinstance(item, str) and index_of.get(str(item), item) != item:
            raise ValueError(
                f"{item} may be the leaf at index {item} or the one with the label '{item}', which "
                f"is at index {index_of[str(item)]}; give labels, as text"
            )
    return cluster_mask(items, index_of, n_leaves)


def show_cluster(mask: int, labels: Sequence[str]) -> str:
    """Return a cluster as text for messages, cut after a few labels."""
    members = mask_labels(mask, labels)
    shown = ", ".join(f"{label!r:.80}" for label in members[:_SHOWN_LABELS])
    more = f", ... ({len(members)} leaves)" if len(members) > _SHOWN_LABELS else ""
    return "{" + shown + more + "}"


def leaf_index(item: str | int, index_of: Mapping[str, int], n_leaves: int) -> int:
    """Return the index of a leaf given by label or index."""
    if isinstance(item, str) and item in index_of:
        return index_of[item]
    if isinstance(item, int | np.integer) and 0 <= item < n_leaves:
        return int(item)
    raise ValueError(
        f"{item!r:.80} is not a leaf; expected a label of the tree or an index from 0 to "
        f"{n_leaves - 1}."
    )


def mask_leaves(mask: int) -> list[int]:
    """The leaves of a cluster, in order.

    >>> mask_leaves(0b1011)
    [0, 1, 3]
    """
    return [leaf for leaf in range(mask.bit_length()) if mask >> leaf & 1]


def mask_labels(mask: int, labels: Sequence[str]) -> list[str]:
    """The labels of the leaves of a cluster, in order.

    >>> mask_labels(0b101, ("a", "b", "c"))
    ['a', 'c']
    """
    return [labels[leaf] for leaf in mask_leaves(mask)]


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
