"""The posterior: what users ask about a potential on a trellis, after the passes."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import Cluster
from hctrellis.posterior.base import (
    CREDIBLE_LIMIT,
    DISTRIBUTION_SIZE,
    BasePosterior,
    Coclustering,
    Estimate,
    Method,
    NoTreeError,
)
from hctrellis.posterior.distribution import LogWeightDistribution
from hctrellis.posterior.gradient import (
    Features,
    Gradient,
    Statistic,
    as_statistic,
    solved_gradient,
)
from hctrellis.posterior.sample import TreeSample, draw
from hctrellis.posterior.saved import write_posterior
from hctrellis.posterior.splits import SplitTable, solved_splits
from hctrellis.posterior.summary import RankedTrees, rank
from hctrellis.posterior.table import ClusterTable
from hctrellis.posterior.ties import count_best
from hctrellis.potentials.base import Potential
from hctrellis.potentials.constraint import Constraint, Rewards
from hctrellis.support.checks import as_count
from hctrellis.support.keywords import renamed
from hctrellis.support.logs import LARGEST_LOG_WEIGHT
from hctrellis.support.types import Seed
from hctrellis.tree import Tree
from hctrellis.trellis.averages import expected, pair_sums
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.sparse import SparseSolution, SparseTrellis

if TYPE_CHECKING:
    from hctrellis.build.grow import Growth
    from hctrellis.support.types import FloatArray
    from hctrellis.trellis.solution import Solution

ROUNDED = 1e-15  # relative difference of two log weights that may be rounding alone


class Posterior(BasePosterior):
    """The probability distribution over the trees of a trellis: P(tree) = weight(tree) / Z.

    Made by `infer`. Clusters are given as iterables of labels or leaf indices, or as masks (leaf i
    is bit i). What needs a pass over the trellis is computed when first asked for, and kept.

    Parameters
    ----------
    solution : Solution
        The upward pass of a potential over the trellis.
    trellis : FullTrellis or SparseTrellis
    threads : int, optional
        Number of threads for later passes.
    growth : Growth, optional
    """

    def __init__(
        self,
        solution: Solution,
        trellis: FullTrellis | SparseTrellis,
        *,
        threads: int | None = None,
        growth: Growth | None = None,
    ) -> None:
        self._solution = solution
        self._trellis = trellis
        self._threads = threads
        self._growth = growth
        self._check_range()

    def _check_range(self) -> None:
        """Refuse log weights of which too few digits are left to tell trees apart."""
        size = abs(self.log_partition)
        if LARGEST_LOG_WEIGHT < size < math.inf:
            raise ValueError(
                f"log Z is {self.log_partition:.3g}; beyond {LARGEST_LOG_WEIGHT:g} too few digits "
                "are left to tell trees apart, and probabilities would mean nothing: lower beta "
                "if there is one, or rescale the data, by a factor of "
                f"{size / LARGEST_LOG_WEIGHT:.2g} or more"
            )

    # ---- the distribution ---------------------------------------------------------------------

    @property
    def potential(self) -> Potential:
        """The model that weighs the trees."""
        return self._solution.potential

    @property
    def trellis(self) -> FullTrellis | SparseTrellis:
        """The trees that are considered."""
        return self._trellis

    @property
    def growth(self) -> Growth | None:
        """How the trellis was grown, if it was."""
        return self._growth

    @property
    def log_partition(self) -> float:
        """log Z, the log of the sum of the weights of all trees; -inf if all are forbidden."""
        return self._solution.log_partition

    @property
    def log_partition_error(self) -> float | None:
        """0 over all trees; None over some of them, where log Z is a lower bound."""
        return 0.0 if self.is_exact else None

    @property
    def log_partition_bound(self) -> float:
        """A number that log Z over all trees is not below: log Z over these."""
        return self.log_partition

    @property
    def method(self) -> Method:
        """Whether all trees are considered ("exact"); if not, log Z and MAP are lower bounds.

        Those of weight 0 need not be: a clade distribution has a trellis of all others.
        """
        own = self.potential.trellis is self.trellis
        return "exact" if own or isinstance(self.trellis, FullTrellis) else "sparse"

    @property
    def how(self) -> str:
        """One sentence on how the answers were obtained."""
        if self.is_exact:
            return f"Exact: all trees over {self.n_leaves} leaves were weighed."
        return (
            f"Over the trees of a sparse trellis of {self.trellis.n_clusters:,} clusters: log Z is "
            "a lower bound, and probabilities are conditional on these trees."
        )

    @property
    def n_trees(self) -> int:
        """The exact number of trees of non-zero weight."""
        return self._solution.n_trees

    def log_probability(self, tree: Tree) -> float:
        """Log of the posterior probability of a tree."""
        self._check_possible()
        weight = self.potential.log_weight(tree)
        if weight == -math.inf or not self._holds(tree):
            return -math.inf
        return weight - self.log_partition

    @property
    def expected_log_weight(self) -> float:
        """The mean of the log weight over the posterior."""
        return self.log_partition - self.entropy

    @property
    def log_weight_variance(self) -> float:
        """The variance of the log weight over the posterior (beta^2 times that of the energy)."""
        self._check_possible()
        return self._solution.moments[1]

    def log_weight_distribution(
        self, size: int = DISTRIBUTION_SIZE, rng: Seed = None
    ) -> LogWeightDistribution:
        """The distribution of the log weight over the posterior.

        If there are at most `size` trees, all of them are listed; if not, `size` trees are drawn.

        Parameters
        ----------
        size : int
        rng : None, int or numpy Generator
        """
        self._check_possible()
        is_exact = self.n_trees <= as_count(size, "size")
        if is_exact:
            trees = self.top_trees(size)
            values, shares = trees.log_weights[::-1], trees.probabilities[::-1]
        else:
            values, shares = np.sort(self.sample(size, rng).log_weights), np.full(size, 1 / size)
        mean, variance = self._solution.moments
        return LogWeightDistribution(mean, variance, self.map_log_weight, values, shares, is_exact)

    @property
    def entropy(self) -> float:
        """The entropy of the posterior in nats; exp(entropy) is an effective number of trees."""
        self._check_possible()
        return self._solution.entropy

    def kl_divergence(self, other: Posterior) -> float:
        """The Kullback-Leibler divergence D(self || other) in nats, over the same leaves.

        Between sparse trellises it is infinite if the other lacks a tree that this one has.
        """
        self._check_possible()
        if not isinstance(other, Posterior):
            raise TypeError(f"expected a Posterior, got {type(other).__name__}")
        if other.labels != self.labels:
            raise ValueError("the two posteriors must be over the same leaves in the same order")
        if other.log_partition == -math.inf:
            return math.inf
        full = isinstance(self.trellis, FullTrellis) and isinstance(other.trellis, FullTrellis)
        if not full and other.trellis != self.trellis:
            return self._kl_elsewhere(other)
        mean, _ = self._solution.log_weight_moments(other._solution)
        if math.isnan(mean):
            return math.inf
        cross = other.log_partition - mean
        own = self.log_partition - self._solution.moments[0]  # the entropy, rounded alike
        return max(0.0, cross - own)

    def _kl_elsewhere(self, other: Posterior) -> float:
        """The divergence from a posterior over another trellis, if both are sparse."""
        from hctrellis.posterior.divergence import expected_log_probability

        one, two = self._solution, other._solution
        if not (isinstance(one, SparseSolution) and isinstance(two, SparseSolution)):
            raise ValueError("the two posteriors must be over the same trellis, or sparse ones")
        return max(0.0, -expected_log_probability(one, two) - self.entropy)

    # ---- the best tree ------------------------------------------------------------------------

    @cached_property
    def map_tree(self) -> Tree:
        """The tree of largest weight.

        Ties are broken in the same way on every machine and for any number of threads: from the
        root down, among splits whose log weights agree to 1e-12 relative to their size, the one is
        taken in which the child that holds the first leaf of the cluster has the smallest mask (as
        a number; leaf i counts 2^i).

        Raises
        ------
        NoTreeError
            If every tree is forbidden.
        """
        self._check_possible()
        return self._solution.map_tree

    @cached_property
    def n_map_trees(self) -> int | None:
        """The number of trees that share the largest weight, to rounding; None if very many do."""
        self._check_possible()
        return count_best(self._solution)

    @property
    def map_log_probability(self) -> float:
        """Log of the posterior probability of the MAP tree."""
        found = self.map_log_weight - self.log_partition
        near = abs(found) <= ROUNDED * max(1.0, abs(self.log_partition))
        return 0.0 if near and self.n_trees == 1 else found

    def top_trees(self, k: int) -> RankedTrees:
        """The k most probable trees in order (fewer if there are fewer), with probabilities."""
        self._check_possible()
        return rank(self._solution, self.map_log_weight, as_count(k, "k"))

    def credible_set(self, mass: float = 0.95, limit: int = CREDIBLE_LIMIT) -> RankedTrees:
        """The smallest set of trees with at least the given posterior probability.

        At most `limit` trees are listed; if that is not enough, `complete` is False and a warning
        says how much probability they hold.
        """
        self._check_possible()
        if not 0 < mass <= 1:
            raise ValueError(f"mass must be above 0 and at most 1; got {mass}")
        so_far = 0.0

        def enough(probability: float) -> bool:
            nonlocal so_far
            so_far += probability
            return so_far >= mass * (1 - 1e-12)

        trees = rank(self._solution, self.map_log_weight, as_count(limit, "limit"), enough)
        if not trees.complete:
            warnings.warn(
                f"the {limit} most probable trees hold {so_far:.3g} of the probability, not "
                f"{mass}; ask for less or raise limit",
                stacklevel=2,
            )
        return trees

    # ---- clusters -----------------------------------------------------------------------------

    def cluster_probability(self, items: Cluster) -> float:
        """The probability that a tree has this cluster."""
        return self._probability(self._mask(items))

    def cluster_probabilities(self, min_probability: float = 0.01) -> ClusterTable:
        """All clusters (other than leaves and the root) of at least this probability, sorted."""
        p = self._probabilities
        kept = p >= max(min_probability, np.finfo(float).tiny)
        kept[self._solution.root] = False
        kept[self._solution.vertices.leaves] = False
        clusters = np.flatnonzero(kept)
        masks = self._solution.vertices.masks(clusters)
        return ClusterTable(self.labels, masks, p[clusters], self.is_exact)

    def split_probability(self, left: Cluster, right: Cluster) -> float:
        """The probability that a tree has this split: the two clusters as siblings."""
        one, other = self._disjoint(left, right)
        return self._probability(one | other) * math.exp(self._log_split(one, other))

    def subtree_probability(self, tree: Tree) -> float:
        """The probability that a posterior tree contains exactly this tree over its leaves."""
        self._check_possible()
        masks = [self._mask([tree.labels[i]]) for i in range(tree.n_leaves)]
        given = 0.0
        for left, right in tree.children:
            given += self._log_split(masks[left], masks[right])
            masks.append(masks[left] | masks[right])
        return self._probability(masks[-1]) * math.exp(given)

    def estimate(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> Estimate:
        """The probability that a tree contains some clusters or sub-trees, and lacks others."""
        part = self.given(contains, lacks).log_partition
        return Estimate(math.exp(part - self.log_partition), 0.0)

    @renamed(clusters="contains", forbidden="lacks")
    def given(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> Posterior:
        """The posterior over the trees that contain some clusters or sub-trees, and lack others.

        A `Tree` that is contained stands for all its clusters. Weights are those of this
        posterior, so exp(log Z there - log Z here) is the probability of the condition.
        """
        self._check_possible()
        condition = Constraint(self.labels, self._contained(contains), map(self._mask, lacks))
        solution = self.trellis.solve(self.potential + condition, self._threads)
        return Posterior(solution, self.trellis, threads=self._threads)

    def coclustering(self, size: int) -> Coclustering:
        """How closely every two leaves are clustered.

        The maximal clusters of at most `size` leaves partition the leaves of a tree; two leaves
        share one exactly if their smallest common cluster has at most `size` leaves.
        """
        n, size = self.n_leaves, self._as_size(size)
        p = self._probabilities
        sizes = self._solution.vertices.sizes
        last = self._solution.around(p * (sizes > size))  # with a parent of more than `size` leaves
        last[sizes > size] = 0.0
        if size == n:
            last[self._solution.root] = 1.0
        grows = self._solution.growth
        vertices = self._solution.vertices
        return Coclustering(pair_sums(vertices, last), n - pair_sums(vertices, grows))

    # ---- expectations and derivatives ---------------------------------------------------------

    def expected(self, statistic: Statistic, features: Features = None) -> float:
        """The exact posterior mean of a sum over the splits of a tree.

        Parameters
        ----------
        statistic : Potential or callable
            A number for every split: log psi of a potential over the same leaves, or a function
            of the features of left, right and parent, as `FunctionPotential` takes it.
        features : callable or array_like, optional
            The features of such a function, as `FunctionPotential` takes them; by default one,
            the number of leaves.

        Examples
        --------
        The expected number of splits that cut off a single leaf:

        >>> import numpy as np
        >>> import hctrellis as hct
        >>> post = hct.infer(hct.BetaSplitting(4))
        >>> round(post.expected(lambda l, r, p: np.minimum(l[0], r[0]) == 1), 4)
        2.6667
        """
        self._check_possible()
        return expected(self._solution, as_statistic(statistic, features, self.labels))

    def gradient(self) -> Gradient:
        """The derivatives of log Z: by the parameters of the potential, and by its matrix.

        Parameters are those of ``potential.parameters()``: beta, lam, lam_root, the shape of a
        prior; the matrix is that of the similarities of `Dasgupta`, of the affinities of
        `CorrelationClustering`, or of the distances of `Linkage` with average heights. See
        `hctrellis.posterior.gradient.Gradient`.

        Examples
        --------
        >>> import hctrellis as hct
        >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], beta=1.0))
        >>> post.gradient()
        Gradient(beta: -9.93371, distances: 4 x 4)
        """
        self._check_possible()
        return solved_gradient(self._solution)

    def split_probabilities(self, min_probability: float = 0.01) -> SplitTable:
        """All splits of at least this probability, sorted: two clusters as siblings."""
        return solved_splits(self._solution, self._probabilities, min_probability, self.is_exact)

    # ---- samples and summaries ----------------------------------------------------------------

    def sample(self, size: int, rng: Seed = None) -> TreeSample:
        """Trees drawn independently and exactly from the posterior.

        Parameters
        ----------
        size : int
        rng : None, int or numpy Generator
        """
        self._check_possible()
        return draw(self._solution, size, rng)

    def expected_clusters_tree(self) -> Tree:
        """The tree with the largest expected number of correct clusters.

        Among all trees of the trellis, it maximises the sum of the probabilities of its clusters.
        """
        rewards = Rewards(self.labels, self._probabilities)
        return self.potential.with_heights(self.trellis.solve(rewards, self._threads).map_tree)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the posterior to a file (.npz) that `hctrellis.load` reads, and return its path.

        The model and the trees that are considered are written, as numbers and names (nothing is
        pickled); the passes over them are run again when the file is read.

        Raises
        ------
        ValueError
            If the model is none of those that come with the package.
        """
        grown = None if self.growth is None else self.growth.as_dict()
        return write_posterior(Path(path), self.potential, self.trellis, self.log_partition, grown)

    # ---- inside -------------------------------------------------------------------------------

    @property
    def _probabilities(self) -> FloatArray:
        self._check_possible()
        return self._solution.probabilities

    def _holds(self, tree: Tree) -> bool:
        if isinstance(self.trellis, FullTrellis):
            return True
        return self.potential.align(tree) in self.trellis

    def _probability(self, mask: int) -> float:
        probabilities, cluster = self._probabilities, self._solution.vertices.find(mask)
        return float(probabilities[cluster]) if cluster >= 0 else 0.0

    def _log_split(self, left: int, right: int) -> float:
        """The log probability of a split, given its parent; of masks."""
        found = [self._solution.vertices.find(mask) for mask in (left | right, left, right)]
        return self._solution.split_log_probability(*found) if min(found) >= 0 else -math.inf

    def _check_possible(self) -> None:
        if self.log_partition == -math.inf:
            raise NoTreeError(
                f"there is no best tree: every tree over these {self.n_leaves} leaves is forbidden "
                "(has weight 0) under this potential"
            )

    def __repr__(self) -> str:
        sign = "=" if self.is_exact else ">="
        return f"Posterior({self.potential!r}, log Z {sign} {self.log_partition:.6g})"
