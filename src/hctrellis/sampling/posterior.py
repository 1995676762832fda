"""The posterior over all trees, from trees that Markov chains have come through."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from hctrellis.chains.frequencies import (
    Shares,
    cluster_codes,
    cluster_members,
    frequencies,
    member_codes,
    shares,
    split_codes,
)
from hctrellis.clusters import Cluster
from hctrellis.posterior.base import (
    CREDIBLE_LIMIT,
    DISTRIBUTION_SIZE,
    BasePosterior,
    Coclustering,
    Estimate,
    Method,
)
from hctrellis.posterior.distribution import LogWeightDistribution
from hctrellis.posterior.gradient import (
    Features,
    Gradient,
    Statistic,
    as_statistic,
    sampled_gradient,
    tree_sums,
)
from hctrellis.posterior.sample import TreeSample
from hctrellis.posterior.saved import write_posterior
from hctrellis.posterior.splits import SplitTable, sorted_splits
from hctrellis.posterior.table import ClusterTable
from hctrellis.potentials.base import Potential
from hctrellis.potentials.constraint import Constraint, Rewards, conditions
from hctrellis.sampling.verdict import Diagnostics, rare_error, widened
from hctrellis.support.keywords import renamed
from hctrellis.support.types import Seed
from hctrellis.tree import Tree
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.build.grow import Growth
    from hctrellis.chains.chains import Records
    from hctrellis.support.types import BoolArray, FloatArray, IntArray, SmallArray

AVERAGED_DRAWS = 500  # of each chain, for the mean of a statistic
GRADIENT_TREES = 400
SUMMARY_TREES = 300  # sampled trees whose clusters may make the tree of most expected clusters


class UnreliableError(ValueError):
    """Sampling has not earned the number that was asked for."""


class SampledPosterior(BasePosterior):
    """The probability distribution over all trees, known from trees that were sampled.

    Made by `sample_posterior`, and by `infer` for more leaves than the full trellis can hold. Every
    probability has a standard error. Where chains disagree there is no probability to quote, and
    asking for one raises `UnreliableError`; `diagnostics` says why, and what to do.

    Parameters
    ----------
    potential : Potential
    draws : Records
        The trees that were kept, chain by chain.
    map_tree : Tree
        The best tree found by any means.
    growth : Growth
        The sparse trellis beside the chains, which gives the lower bound.
    diagnostics : Diagnostics
    again : callable
        Samples another potential with the same settings.
    """

    def __init__(
        self,
        potential: Potential,
        draws: Records,
        map_tree: Tree,
        growth: Growth,
        diagnostics: Diagnostics,
        again: Callable[[Potential], SampledPosterior],
    ) -> None:
        self._potential = potential
        self._draws = draws
        self._map_tree = map_tree
        self._growth = growth
        self._diagnostics = diagnostics
        self._again = again

    # ---- how it was obtained ------------------------------------------------------------------

    @property
    def potential(self) -> Potential:
        """The model that weighs the trees."""
        return self._potential

    @property
    def method(self) -> Method:
        """How the answers were obtained."""
        return "sampled"

    @property
    def how(self) -> str:
        """One sentence on how the answers were obtained, and how far they can be trusted."""
        slow = "" if self.diagnostics.is_compiled else " (in plain NumPy, which is slow)"
        return f"Sampled{slow}: {self.diagnostics.verdict}"

    @property
    def is_reliable(self) -> bool:
        """Whether there are probabilities to quote; if not, asking for one is an error."""
        return self.diagnostics.is_reliable

    @property
    def diagnostics(self) -> Diagnostics:
        """How sampling went: chains, effective sizes, agreement, and the verdict in words."""
        return self._diagnostics

    @property
    def growth(self) -> Growth:
        """The sparse trellis that was grown beside the chains."""
        return self._growth

    @property
    def trellis(self) -> SparseTrellis:
        """The sparse trellis of `growth`: not what the probabilities are over."""
        return self._growth.trellis

    @property
    def coverage(self) -> Estimate | None:
        """The probability of the trees of the sparse trellis; None if it was not measured."""
        return self.diagnostics.coverage

    def _earned(self) -> None:
        if not self.is_reliable:
            raise UnreliableError(self.diagnostics.verdict)

    # ---- the distribution ---------------------------------------------------------------------

    @property
    def log_partition(self) -> float | None:
        """log Z if two ways of estimating it agree; else None, and `diagnostics` says why."""
        return self.diagnostics.log_partition.value

    @property
    def log_partition_error(self) -> float | None:
        """The standard error of log Z; None if it is withheld."""
        return self.diagnostics.log_partition.error

    @property
    def log_partition_bound(self) -> float:
        """A number that log Z is not below: log Z over the trees of the sparse trellis."""
        return self._growth.trace[-1].log_partition

    @property
    def expected_log_weight(self) -> float:
        """The mean of the log weight over the posterior."""
        return float(self.expected_log_weight_estimate.value)

    @property
    def expected_log_weight_estimate(self) -> Estimate:
        """The same with its standard error."""
        self._earned()
        found = shares(self._draws.log_weights)
        return Estimate(float(found.means[0]), float(found.errors[0]))

    @property
    def log_weight_variance(self) -> float:
        """The variance of the log weight over the posterior (beta^2 times that of the energy)."""
        self._earned()
        return float(self._draws.log_weights.var())

    def log_weight_distribution(
        self, size: int = DISTRIBUTION_SIZE, rng: Seed = None
    ) -> LogWeightDistribution:
        """The distribution of the log weight over the posterior, from all trees that were kept."""
        self._earned()
        values = np.sort(self._draws.log_weights.ravel())
        shared = np.full(len(values), 1 / len(values))
        return LogWeightDistribution(
            self.expected_log_weight,
            self.log_weight_variance,
            self.map_log_weight,
            values,
            shared,
            False,
        )

    def expected(self, statistic: Statistic, features: Features = None) -> float:
        """The posterior mean of a sum over the splits of a tree; see `Posterior.expected`."""
        return float(self.expected_estimate(statistic, features).value)

    def expected_estimate(self, statistic: Statistic, features: Features = None) -> Estimate:
        """The same with its standard error."""
        self._earned()
        known = as_statistic(statistic, features, self.labels)
        n_chains, n_draws = self._draws.log_weights.shape
        step = max(1, n_draws // AVERAGED_DRAWS)
        children = self._draws.children[:, ::step]
        trees = tree_sample(self.potential, children.reshape(-1, *children.shape[2:]))
        found = shares(tree_sums(trees, known).reshape(n_chains, -1))
        return Estimate(float(found.means[0]), float(found.errors[0]))

    def gradient(self) -> Gradient:
        """The derivatives of log Z, with standard errors; see `Posterior.gradient`.

        From trees chosen at random, no more than the number of independent ones.
        """
        self._earned()
        size = int(min(GRADIENT_TREES, self.diagnostics.effective_size[0]))
        return sampled_gradient(self.potential, self.sample(size, rng=0))

    # ---- the best tree ------------------------------------------------------------------------

    @property
    def map_tree(self) -> Tree:
        """The best tree that any method has found; `optimality` says how good it is."""
        return self._map_tree

    def top_trees(self, k: int) -> NoReturn:
        """Not known: the best trees cannot be told from a sample."""
        self._refuse("the most probable trees in order", "top_trees")

    def credible_set(self, mass: float = 0.95, limit: int = CREDIBLE_LIMIT) -> NoReturn:
        """Not known: the smallest set of trees of a probability cannot be told from a sample."""
        self._refuse("the smallest set of trees of a given probability", "credible_set")

    def _refuse(self, what: str, name: str) -> NoReturn:
        raise ValueError(
            f"{what} cannot be told from sampled trees; use infer(model, trellis=grow(model))."
            f"{name}(...) for the trees of a sparse trellis"
        )

    # ---- clusters -----------------------------------------------------------------------------

    def estimate(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> Estimate:
        """The probability that a tree contains some clusters or sub-trees, and lacks others.

        With its standard error.
        """
        self._earned()
        return self._share(self._meet(contains, lacks))

    def _share(self, met: BoolArray) -> Estimate:
        found = shares(met)
        return Estimate(float(found.means[0]), float(self._errors(found)[0]))

    def _errors(self, found: Shares) -> FloatArray:
        """The standard errors of probabilities."""
        errors = widened(found.means, found.errors, self.diagnostics.n_visits)
        return np.maximum(errors, rare_error(found.means, self.diagnostics.effective_size[1]))

    def _meet(self, contains: Iterable[Cluster | Tree], lacks: Iterable[Cluster]) -> BoolArray:
        """Whether each tree meets a condition, shape (chains, draws)."""
        condition = Constraint(self.labels, self._contained(contains), map(self._mask, lacks))
        found = np.ones(self._codes.shape[:2], bool)
        for mask in condition.contains:
            if mask.bit_count() > 1:
                found &= self._has(mask)
        for mask in condition.lacks:
            found &= ~self._has(mask)
        return found

    def _has(self, mask: int) -> BoolArray:
        """Whether each tree has a cluster of at least two leaves."""
        members = np.array([[mask >> leaf & 1 for leaf in range(self.n_leaves)]], bool)
        return np.asarray((self._codes == member_codes(members)[0]).any(axis=2))

    @cached_property
    def _codes(self) -> IntArray:
        """The clusters of all trees, shape (chains, draws, n - 1), the root last."""
        children = self._draws.children
        flat = cluster_codes(children.reshape(-1, *children.shape[2:]))
        return flat.reshape(*children.shape[:2], -1)

    def cluster_probabilities(self, min_probability: float = 0.01) -> ClusterTable:
        """All clusters (other than leaves and the root) of at least this probability, sorted.

        With standard errors.
        """
        self._earned()
        found = frequencies(self._codes[:, :, :-1], min_probability)
        masks = place_masks(self._draws.children, found.places)
        return ClusterTable(self.labels, masks, found.means, False, self._errors(found))

    def split_probabilities(self, min_probability: float = 0.01) -> SplitTable:
        """All splits of at least this probability, sorted: two clusters as siblings.

        With standard errors.
        """
        self._earned()
        children = self._draws.children
        n = self.n_leaves
        flat = children.reshape(-1, n - 1, 2)
        codes = split_codes(flat).reshape(*children.shape[:2], -1)
        found = frequencies(codes, min_probability)
        trees, nodes = found.places.T
        sides = []
        for side in range(2):
            below = flat[trees, nodes, side].astype(np.int64)
            inner = np.column_stack([trees, np.maximum(below - n, 0)])
            masks = place_masks(children, inner)
            sides.append(
                [1 << x if x < n else mask for x, mask in zip(below.tolist(), masks, strict=True)]
            )
        both = (sorted(pair, key=lambda mask: mask & -mask) for pair in zip(*sides, strict=True))
        rows = [
            (p, left, right, error)
            for (left, right), p, error in zip(
                both, found.means.tolist(), self._errors(found).tolist(), strict=True
            )
        ]
        return sorted_splits(self.labels, rows, False, sampled=True)

    def split_probability(self, left: Cluster, right: Cluster) -> float:
        """The probability that a tree has this split: the two clusters as siblings."""
        one, other = self._disjoint(left, right)
        return float(self.estimate([one, other, one | other]).value)

    def subtree_probability(self, tree: Tree) -> float:
        """The probability that a posterior tree contains exactly this tree over its leaves."""
        if tree.n_leaves == 1:
            return float(self.estimate([list(tree.labels)]).value)
        return float(self.estimate([tree]).value)

    def coclustering(self, size: int) -> Coclustering:
        """How closely every two leaves are clustered.

        The maximal clusters of at most `size` leaves partition the leaves of a tree; two leaves
        share one exactly if their smallest common cluster has at most `size` leaves. Standard
        errors are at most those of clusters (`diagnostics.worst_error`) where chains have mixed.
        """
        from hctrellis.kernels.codes import add_pairs

        self._earned()
        limit, n = self._as_size(size), self.n_leaves
        children = self._draws.children.reshape(-1, n - 1, 2)
        sizes, together = np.zeros((2, n, n))
        add_pairs(children, limit, sizes, together)
        sizes, together = ((part + part.T) / len(children) for part in (sizes, together))
        np.fill_diagonal(sizes, 1.0)
        np.fill_diagonal(together, 1.0)
        return Coclustering(together, sizes)

    @renamed(clusters="contains", forbidden="lacks")
    def given(
        self, contains: Iterable[Cluster | Tree] = (), lacks: Iterable[Cluster] = ()
    ) -> SampledPosterior:
        """The posterior over the trees that contain some clusters or sub-trees, and lack others.

        Chains are run anew under the condition, with the settings of this posterior; `probability`
        and `estimate` answer from the trees that are there.
        """
        constraint = Constraint(self.labels, self._contained(contains), map(self._mask, lacks))
        return self._again(sum(conditions(constraint), self.potential))

    # ---- samples and summaries ----------------------------------------------------------------

    def sample(self, size: int, rng: Seed = None) -> TreeSample:
        """Some of the trees that chains have come through, chosen at random without repetition.

        They are drawn from the posterior, but trees of one chain are not independent:
        `diagnostics.effective_size` says how many independent ones they amount to.

        Parameters
        ----------
        size : int
        rng : None, int or numpy Generator
        """
        self._earned()
        children = self._draws.children.reshape(-1, self.n_leaves - 1, 2)
        if not isinstance(size, int | np.integer) or not 0 <= size <= len(children):
            raise ValueError(
                f"size must be a whole number from 0 to {len(children)}, the number of trees that "
                f"were sampled; got {size!r:.80}"
            )
        chosen = np.random.default_rng(rng).permutation(len(children))[:size]
        return tree_sample(self.potential, children[chosen])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the posterior to a file (.npz) that `hctrellis.load` reads, and return its path.

        The model, all trees that were kept and how sampling went are written, as numbers and names
        (nothing is pickled).

        Raises
        ------
        ValueError
            If the model is none of those that come with the package.
        """
        draws = self._draws
        more: dict[str, npt.NDArray[Any]] = {
            "children": draws.children,
            "log_weights": draws.log_weights,
            "forbidden": draws.forbidden,
            "best": self.map_tree.children,
        }
        growth, said = self._growth, self.diagnostics.as_dict()
        return write_posterior(
            Path(path),
            self.potential,
            growth.trellis,
            self.log_partition_bound,
            growth.as_dict(),
            more,
            said,
        )

    def expected_clusters_tree(self) -> Tree:
        """The tree with the largest expected number of correct clusters.

        It maximises the sum of the probabilities of its clusters, among all trees that can be made
        of the clusters of the 300 sampled trees in which this sum is largest.
        """
        self._earned()
        found = frequencies(self._codes[:, :, :-1], 0.0)
        flat = self._codes[:, :, :-1].reshape(-1, self.n_leaves - 2)
        scores = found.at(flat.ravel()).reshape(flat.shape).sum(axis=1)
        best = np.argsort(-scores, kind="stable")[:SUMMARY_TREES]
        children = self._draws.children.reshape(-1, self.n_leaves - 1, 2)[best]
        trellis = SparseTrellis.from_children(children, "all")
        rewards = found.at(member_codes(trellis.vertices.members))
        rewards[trellis.vertices.leaves] = 0.0
        tree = trellis.solve(Rewards(self.labels, rewards)).map_tree
        return self.potential.with_heights(tree)

    def __repr__(self) -> str:
        if self.log_partition is None:
            value = f"log Z >= {self.log_partition_bound:.6g}"
        else:
            value = f"log Z = {self.log_partition:.6g} +- {self.log_partition_error:.2g}"
        doubt = "" if self.is_reliable else ", unreliable"
        return f"SampledPosterior({self.potential!r}, {value}{doubt})"


def place_masks(children: SmallArray, places: IntArray) -> list[int]:
    """The masks of internal nodes of trees; places : int64 (k, 2), tree and node."""
    n = children.shape[-2] + 1
    members = cluster_members(children.reshape(-1, n - 1, 2)[places[:, 0]], places[:, 1])
    packed = np.packbits(members, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def tree_sample(potential: Potential, children: SmallArray) -> TreeSample:
    """Trees as a sample: their clusters are those of the trellis that they make."""
    if len(children) == 0:
        children, keep = np.zeros((1, potential.n_leaves - 1, 2), np.int16), 0
        n = potential.n_leaves
        children[0] = [[k if k == 0 else n + k - 1, k + 1] for k in range(n - 1)]
    else:
        keep = len(children)
    vertices = SparseTrellis.from_children(children).vertices
    codes = member_codes(vertices.members)
    order = np.argsort(codes)
    nodes = np.empty((len(children), 2 * potential.n_leaves - 1), np.int64)
    nodes[:, : potential.n_leaves] = np.arange(potential.n_leaves)
    nodes[:, potential.n_leaves :] = order[np.searchsorted(codes[order], cluster_codes(children))]
    clusters = nodes[:, potential.n_leaves :]
    lefts = np.take_along_axis(nodes, children[:, :, 0].astype(np.int64), axis=1)
    down = np.argsort(-clusters, axis=1)
    clusters, lefts = (np.take_along_axis(part, down, axis=1)[:keep] for part in (clusters, lefts))
    return TreeSample(potential, vertices, clusters, lefts)
