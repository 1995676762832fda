"""Weights of whole clusters: constraints (clusters that a tree contains or lacks), and rewards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import Clusters
from hctrellis.potentials.base import Described, Potential, Separable, Sums
from hctrellis.support.checks import as_labels

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray, IntArray


class _ClusterPotential(Potential):
    """A weight for every cluster below the root; nothing depends on how it is split."""

    @abstractmethod
    def weights(self, clusters: Clusters) -> FloatArray:
        """The log weight of each cluster."""

    def sums(self) -> None:
        return None

    def describe(self, clusters: Clusters) -> Described:
        return Described([self.weights(clusters), np.zeros(len(clusters))])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import SIZES

        return SIZES

    def params(self, root: bool = False) -> tuple[float, ...]:
        return ()

    def separable(self, clusters: Clusters) -> Separable:
        return Separable(own=self.weights(clusters))


class Constraint(_ClusterPotential):
    """Weight 1 for trees that contain some clusters and lack others, weight 0 for all others.

    A tree has the cluster C exactly if none of its clusters crosses C, that is, overlaps it with
    neither inside the other.

    Parameters
    ----------
    labels : iterable of str
    contains, lacks : iterables of masks
        Leaf i is bit i.
    """

    has_energy = False

    def __init__(
        self, labels: Iterable[object], contains: Iterable[int] = (), lacks: Iterable[int] = ()
    ) -> None:
        names = tuple(labels)
        self.labels = as_labels(names, len(names))
        self.contains = tuple(contains)
        self.lacks = tuple(lacks)
        for mask in self.lacks:
            if mask.bit_count() in (1, self.n_leaves):
                raise ValueError(
                    "single leaves and the set of all leaves are in every tree, so they cannot be "
                    "forbidden"
                )

    def weights(self, clusters: Clusters) -> FloatArray:
        result = np.zeros(len(clusters))
        sizes = clusters.sizes
        for mask in self.contains:
            shared = clusters.leaf_sums(_indicator(mask, self.n_leaves))
            crossing = (shared > 0) & (shared < sizes) & (shared < mask.bit_count())
            result[crossing] = -np.inf
        for mask in self.lacks:
            shared = clusters.leaf_sums(_indicator(mask, self.n_leaves))
            result[(shared == sizes) & (shared == mask.bit_count())] = -np.inf
        return result

    def bound(self) -> float:
        """Weights are 0 or 1."""
        return 0.0

    def _details(self) -> str:
        return f", contains {len(self.contains)}, lacks {len(self.lacks)}"


class Condition(Potential):
    """The same for one cluster that trees contain or lack, for compiled searches and chains.

    Parameters
    ----------
    labels : iterable of str
    mask : int
    contains : bool
        Whether trees must contain the cluster or must not.
    """

    has_energy = False

    def __init__(self, labels: Iterable[object], mask: int, contains: bool) -> None:
        names = tuple(labels)
        self.labels = as_labels(names, len(names))
        self.mask = mask
        self.contains = contains

    def sums(self) -> Sums:
        return Sums(leaves=[_indicator(self.mask, self.n_leaves)])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import CONDITION

        return CONDITION

    def params(self, root: bool = False) -> tuple[float, ...]:
        return float(self.mask.bit_count()), float(self.contains)

    def _details(self) -> str:
        return ", contains one cluster" if self.contains else ", lacks one cluster"


def conditions(constraint: Constraint) -> list[Condition]:
    """A constraint, cluster by cluster; what every tree contains is left out."""
    wanted = [(mask, True) for mask in constraint.contains] + [
        (mask, False) for mask in constraint.lacks
    ]
    return [
        Condition(constraint.labels, mask, contains)
        for mask, contains in wanted
        if 1 < mask.bit_count() < constraint.n_leaves
    ]


class Rewards(_ClusterPotential):
    """The log weight of a tree is the sum of a reward over its clusters below the root.

    Parameters
    ----------
    labels : iterable of str
    rewards : float64 array, shape (2^n,)
        A reward for every cluster, by its mask.
    """

    def __init__(self, labels: Iterable[object], rewards: FloatArray) -> None:
        names = tuple(labels)
        self.labels = as_labels(names, len(names))
        self.rewards = rewards

    def weights(self, clusters: Clusters) -> FloatArray:
        if len(clusters) == len(self.rewards):
            return self.rewards.copy()
        masks: IntArray = clusters.members @ (1 << np.arange(self.n_leaves))
        return self.rewards[masks]


def _indicator(mask: int, n_leaves: int) -> FloatArray:
    return np.array([float(mask >> i & 1) for i in range(n_leaves)])
