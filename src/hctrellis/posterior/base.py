"""What every posterior answers, however it was obtained: by a trellis, or by sampling.

Reports, plots, the estimator and the command line rely on this class alone.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hctrellis.clusters import Cluster, asked_mask, show_cluster, split_members
from hctrellis.posterior.optimality import Optimality, judge
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.tree import Tree
from hctrellis.trees.svg import format_svg

if TYPE_CHECKING:
    from hctrellis.posterior.distribution import LogWeightDistribution
    from hctrellis.posterior.sample import TreeSample
    from hctrellis.posterior.summary import RankedTrees
    from hctrellis.posterior.table import ClusterTable
    from hctrellis.potentials.base import Potential
    from hctrellis.support.types import FloatArray, Seed
    from hctrellis.trellis.full import FullTrellis
    from hctrellis.trellis.sparse import SparseTrellis

MOST_DRAWN = 150  # leaves of a tree that a notebook shows
MAJORITY_MARGIN = 1e-9
ROUNDING = 1e-12  # of the best tree by a trellis, per leaf; relative to log weights, if above 1
CREDIBLE_LIMIT = 100_000  # trees of a credible set, unless another limit is given
DISTRIBUTION_SIZE = 100_000  # trees listed or drawn for a distribution, unless told otherwise

Method = Literal["exact", "sparse", "sampled"]
"""Over all trees; over the trees of a sparse trellis; over all trees, by sampling."""


class NoTreeError(ValueError):
    """Every tree is forbidden, so there is no best one."""


class Estimate(NamedTuple):
    """A number (or an array), and its standard error: 0 if it was computed and not estimated."""

    value: Any
    error: Any


class Coclustering(NamedTuple):
    """How closely every two leaves are clustered.

    Attributes
    ----------
    probability : float64 array, shape (n, n)
        That the smallest cluster with both leaves has at most the given size.
    expected_size : float64 array, shape (n, n)
        Expected number of leaves of that cluster.
    """

    probability: FloatArray
    expected_size: FloatArray


class BasePosterior(ABC):
    """The probability distribution over trees: P(tree) = weight(tree) / Z.

    Clusters are given as iterables of labels or leaf indices, or as masks (leaf i is bit i).
    """

    # ---- how it was obtained ------------------------------------------------------------------

    @property
    @abstractmethod
    def potential(self) -> Potential:
        """The model that weighs the trees."""

    @property
    @abstractmethod
    def method(self) -> Method:
        """How the answers were obtained: "exact", "sparse" or "sampled"."""

    @property
    @abstractmethod
    def how(self) -> str:
        """One sentence on how the answers were obtained, and how far they can be trusted."""

    @property
    def is_exact(self) -> bool:
        """Whether all trees are considered, and nothing is estimated."""
        return self.method == "exact"

    @property
    def is_reliable(self) -> bool:
        """Whether there are probabilities to quote; if not, asking for one is an error."""
        return True

    @property
    def diagnostics(self) -> Any:
        """How sampling went (`Diagnostics`); None where nothing was sampled."""
        return None

    @property
    @abstractmethod
    def trellis(self) -> FullTrellis | SparseTrellis:
        """The trees that are considered; where trees are sampled, a sparse trellis beside them."""

    @property
    def growth(self) -> Any:
        """How the sparse trellis was grown (`Growth`), if one was."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the leaves."""
        return self.potential.labels

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.potential.n_leaves

    # ---- the distribution ---------------------------------------------------------------------

    @property
    @abstractmethod
    def log_partition(self) -> float | None:
        """log Z, the log of the sum of the weights of all trees; None if it is not known."""

    @property
    @abstractmethod
    def log_partition_error(self) -> float | None:
        """The standard error of log Z: 0 if it is exact, None if it is a bound or not known."""

    @property
    @abstractmethod
    def log_partition_bound(self) -> float:
        """A number that log Z is not below: the log of the sum of the weights of some trees."""

    @property
    @abstractmethod
    def expected_log_weight(self) -> float:
        """The mean of the log weight over the posterior."""

    @property
    @abstractmethod
    def log_weight_variance(self) -> float:
        """The variance of the log weight over the posterior (beta^2 times that of the energy)."""

    @abstractmethod
    def log_weight_distribution(
        self, size: int = DISTRIBUTION_SIZE, rng: Seed = None
    ) -> LogWeightDistribution:
        """The distribution of the log weight over the posterior."""

    def log_probability(self, tree: Tree) -> float | None:
        """Log of the posterior probability of a tree; None if log Z is not known."""
        weight = self.potential.log_weight(tree)
        return None if self.log_partition is None else weight - self.log_partition

    @property
    def expected_energy(self) -> float:
        """The mean energy over the posterior, -(mean log weight) / beta."""
        if self.potential.beta == 0:
            raise ValueError("the energy of a tree is not defined by its weight at beta = 0")
        return -self.expected_log_weight / self.potential.beta

    @property
    def entropy(self) -> float | None:
        """The entropy of the posterior in nats; exp(entropy) is an effective number of trees.

        None if log Z is not known.
        """
        if self.log_partition is None:
            return None
        return max(0.0, self.log_partition - self.expected_log_weight)

    # ---- the best tree ------------------------------------------------------------------------

    @property
    @abstractmethod
    def map_tree(self) -> Tree:
        """The tree of largest weight, or the best that was found where not all are considered."""

    @property
    def map_name(self) -> str:
        """What to call the MAP tree in words: "most probable tree", or "best tree found"."""
        return "most probable tree" if self.is_exact else "best tree found"

    @cached_property
    def map_log_weight(self) -> float:
        """Log weight of the MAP tree."""
        return self.potential.log_weight(self.map_tree)

    @cached_property
    def optimality(self) -> Optimality:
        """How good the MAP tree is among all trees.

        Where all trees are considered it is proven optimal, unless log weights are so small that
        rounding decides. Elsewhere ``potential.bound()`` is computed when this is asked for: in
        polynomial time, some seconds for 60 to 80 leaves. In print "proven optimal", "within 1.3%
        of the optimum", or "best found" without a bound. `hctrellis.solve_map` finds better bounds:
        see ``MapResult.optimality_of``.
        """
        if not self.is_exact:
            return judge(self.map_log_weight, self.potential.bound())
        sizes = np.abs(self.potential.split_log_weights(*split_members(self.map_tree)))
        rounding = ROUNDING * self.n_leaves * max(1.0, float(sizes.sum()))
        return judge(self.map_log_weight, self.map_log_weight + rounding)

    @property
    def map_log_probability(self) -> float | None:
        """Log of the posterior probability of the MAP tree; None if log Z is not known."""
        return None if self.log_partition is None else self.map_log_weight - self.log_partition

    @abstractmethod
    def top_trees(self, k: int) -> RankedTrees:
        """The k most probable trees in order; an error where they cannot be known."""

    @abstractmethod
    def credible_set(self, mass: float = 0.95, limit: int = CREDIBLE_LIMIT) -> RankedTrees:
        """The smallest set of trees with at least the given probability; an error likewise."""

    # ---- clusters -----------------------------------------------------------------------------

    @abstractmethod
    def estimate(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> Estimate:
        """The probability that a tree contains some clusters or sub-trees, and lacks others.

        With its standard error, which is 0 where nothing is sampled.
        """

    @abstractmethod
    def cluster_probabilities(self, min_probability: float = 0.01) -> ClusterTable:
        """All clusters (other than leaves and the root) of at least this probability, sorted."""

    def cluster_probability(self, items: Cluster) -> float:
        """The probability that a tree has this cluster."""
        return float(self.estimate([items]).value)

    def probability(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> float:
        """The probability that a tree contains some clusters or sub-trees, and lacks others."""
        return float(self.estimate(contains, lacks).value)

    @abstractmethod
    def split_probability(self, left: Cluster, right: Cluster) -> float:
        """The probability that a tree has this split: the two clusters as siblings."""

    @abstractmethod
    def subtree_probability(self, tree: Tree) -> float:
        """The probability that a posterior tree contains exactly this tree over its leaves."""

    @abstractmethod
    def coclustering(self, size: int) -> Coclustering:
        """How closely every two leaves are clustered.

        The maximal clusters of at most `size` leaves partition the leaves of a tree; two leaves
        share one exactly if their smallest common cluster has at most `size` leaves.
        """

    @abstractmethod
    def given(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> BasePosterior:
        """The posterior over the trees that contain some clusters or sub-trees, and lack others."""

    def support(self, tree: Tree) -> dict[frozenset[str], float]:
        """The probability of every cluster of a tree, as `Tree.to_newick(support=...)` takes it."""
        return {names: self.cluster_probability(names) for names in tree.cluster_labels()}

    # ---- samples and summaries ----------------------------------------------------------------

    @abstractmethod
    def sample(self, size: int, rng: Seed = None) -> TreeSample:
        """Trees drawn from the posterior."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the posterior to a file (.npz) that `hctrellis.load` reads, and return its path."""

    @abstractmethod
    def expected_clusters_tree(self) -> Tree:
        """The tree with the largest expected number of correct clusters."""

    def consensus_tree(self, threshold: float = 0.5) -> ConsensusTree:
        """The clusters of probability above `threshold` (at least 1/2, so that they are nested)."""
        if not 0.5 <= threshold <= 1:
            raise ValueError(
                f"threshold must be from 0.5 to 1, got {threshold}; clusters of probability "
                "above one half are always nested or disjoint, others need not be"
            )
        # a margin for rounding: two clusters of one half each may cross
        above = threshold + MAJORITY_MARGIN if threshold < 1 else 1 - MAJORITY_MARGIN
        table = self.cluster_probabilities(above)
        support = dict(zip(table.masks, table.probabilities.tolist(), strict=True))
        if self.n_leaves > 1:
            support[(1 << self.n_leaves) - 1] = 1.0
        return ConsensusTree(self.labels, support, self.potential)

    def _repr_html_(self) -> str:
        """The tree with support and how it was obtained, for notebooks."""
        tree = self.map_tree
        support = self.support(tree) if self.is_reliable else {}
        axis = "" if tree.heights is None else self.potential.height_name
        picture = format_svg(tree, support, axis=axis) if self.n_leaves <= MOST_DRAWN else ""
        return f"<div><code>{escape(repr(self))}</code><p>{escape(self.how)}</p>{picture}</div>"

    # ---- inside -------------------------------------------------------------------------------

    @cached_property
    def _index_of(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def _mask(self, items: Cluster) -> int:
        return asked_mask(items, self._index_of, self.n_leaves)

    def _contained(self, items: Iterable[Cluster | Tree]) -> list[int]:
        masks = []
        for item in items:
            if isinstance(item, Tree):
                masks += [self._mask(names) for names in item.cluster_labels()]
            else:
                masks.append(self._mask(item))
        return masks

    def _disjoint(self, left: Cluster, right: Cluster) -> tuple[int, int]:
        """The masks of the two sides of a split."""
        one, other = self._mask(left), self._mask(right)
        if one & other:
            shared = show_cluster(one & other, self.labels)
            raise ValueError(f"the two sides of a split must be disjoint; both have {shared}")
        return one, other

    def _as_size(self, size: int) -> int:
        """The size of clusters that `coclustering` asks about."""
        n = self.n_leaves
        if not isinstance(size, int | np.integer) or not 1 <= size <= n:
            raise ValueError(f"size must be a whole number from 1 to {n}; got {size!r}")
        return int(size)
