"""Trees as data: the conditional clade distribution of a sample of trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Cluster, Clusters, cluster_mask
from hctrellis.potentials.base import Described, Potential, Rows
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree
from hctrellis.treefiles.weighted import WeightedTrees
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

UNSEEN = -1


class CladeDistribution(Potential):
    """psi(L, R) = how often P is split into L and R among the trees that have the cluster P.

    Splits that no tree has are forbidden. The weights of all trees sum to one (log Z = 0), and the
    distribution also gives a probability to trees that were not in the sample, put together from
    splits that were. Give its `trellis` to `hctrellis.infer`: it holds exactly these trees.

    Parameters
    ----------
    trees : iterable of Tree
        Over the same labels, for instance draws of a Bayesian phylogenetics program.
    weights : array_like of float, optional
        How much each tree counts: a tree of weight 2 counts as if it were given twice, and only
        the ratios of weights matter. By default the weights that the trees have (`WeightedTrees`,
        which `read_nexus` returns), else all are equal.

    Attributes
    ----------
    n_observed : int
        Number of trees given, without those of weight 0.
    n_draws : int or None
        The number of trees behind the frequencies: the sum of the weights if all are whole numbers.
        None for other weights, which do not tell how many trees were drawn.

    References
    ----------
    B. Larget, The estimation of tree posterior probabilities using conditional clade probability
    distributions, Syst. Biol. 62, 2013.

    Examples
    --------
    >>> import hctrellis as hct
    >>> trees = [hct.Tree.from_newick(text) for text in ("((a,b),c);", "((a,b),c);", "((a,c),b);")]
    >>> model = CladeDistribution(trees)
    >>> post = hct.infer(model, model.trellis)
    >>> round(post.cluster_probability(["a", "b"]), 4), post.map_tree
    (0.6667, Tree(3 leaves: ((a,b),c)))
    >>> model = CladeDistribution(trees, weights=[0.7, 0.2, 0.1])
    >>> round(hct.infer(model, model.trellis).cluster_probability(["a", "b"]), 4)
    0.9
    """

    has_energy = False

    def __init__(self, trees: Iterable[Tree], weights: npt.ArrayLike | None = None) -> None:
        given = WeightedTrees(trees, weights).counted()
        if given and isinstance(given[0], Tree):
            _check_size(given[0].n_leaves, 2 * given[0].n_leaves - 1)
        self.trellis = SparseTrellis.from_trees(given)
        _check_size(self.trellis.n_leaves, self.trellis.n_clusters)
        self.labels = given[0].labels
        self.n_observed = len(given)
        counts = np.ones(len(given)) if given.weights is None else given.weights
        self._total = float(counts.sum())
        self.n_draws = int(self._total) if (counts % 1 == 0).all() else None
        self._splits = self._count(given, counts)

    def _count(self, trees: Iterable[Tree], counts: FloatArray) -> dict[tuple[int, int], float]:
        """The total weight of the trees that have a split, by its parent and left child."""
        splits: defaultdict[tuple[int, int], float] = defaultdict(float)
        for tree, weight in zip(trees, counts.tolist(), strict=True):
            for parent, left, _ in self.align(tree).splits():
                splits[parent, left] += weight
        return dict(splits)

    def seen(self, items: Cluster) -> float:
        """The total weight of the trees that have a cluster; without weights, their number."""
        mask = cluster_mask(items, {name: i for i, name in enumerate(self.labels)}, self.n_leaves)
        return self._total if mask.bit_count() == 1 else self._times.get(mask, 0.0)

    def interval(self, items: Cluster, level: float = 0.95) -> tuple[float, float] | None:
        """An interval for the probability of a cluster, if the trees are independent draws.

        Jeffreys' interval for a frequency among `n_draws` trees; None if that number is not known.

        Examples
        --------
        >>> tree = Tree.from_newick("((a,b),c);")
        >>> low, high = CladeDistribution([tree] * 200).interval(["a", "b"])
        >>> round(low, 3), high
        (0.988, 1.0)
        """
        with ONE_AT_A_TIME:
            from scipy.special import betaincinv

        if self.n_draws is None:
            return None
        seen, tail = self.seen(items), (1 - level) / 2
        missed = self.n_draws - seen
        low = betaincinv(seen + 0.5, missed + 0.5, tail) if seen > 0 else 0.0
        high = betaincinv(seen + 0.5, missed + 0.5, 1 - tail) if missed > 0 else 1.0
        return float(low), float(high)

    def sums(self) -> None:
        return None

    def code(self) -> None:
        return None

    def describe(self, clusters: Clusters) -> Described:
        rows = np.packbits(clusters.members, axis=1, bitorder="little")
        masks = (int.from_bytes(row.tobytes(), "little") for row in rows)
        return Described([np.array([self._numbers.get(mask, UNSEEN) for mask in masks], float)])

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        keys, values = self._table
        wanted = parent[0] * len(self._numbers) + np.minimum(left[0], right[0])
        at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        known = (keys[at] == wanted) & (np.minimum(left[0], right[0]) > UNSEEN)
        return np.where(known & (parent[0] > UNSEEN), values[at], -np.inf)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """A number for each cluster seen, single leaves included."""
        seen = {1 << leaf for leaf in range(self.n_leaves)}
        for parent, left in self._splits:
            seen |= {parent, left, parent ^ left}
        return {mask: number for number, mask in enumerate(sorted(seen))}

    @cached_property
    def _times(self) -> dict[int, float]:
        """The total weight of the trees that have a cluster; single leaves are left out."""
        times: defaultdict[int, float] = defaultdict(float)
        for (parent, _), count in self._splits.items():
            times[parent] += count
        return dict(times)

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Sorted keys of the splits seen, and their log probabilities."""
        number, times = self._numbers, self._times
        rows = sorted(
            (
                float(number[parent] * len(number) + min(number[left], number[parent ^ left])),
                float(np.log(count / times[parent])),
            )
            for (parent, left), count in self._splits.items()
        )
        keys, values = np.array(rows).T
        return keys, values

    def _details(self) -> str:
        return f", {self.n_observed} trees"


def _check_size(n_leaves: int, n_clusters: int) -> None:
    """Refuse clusters whose leaves, a byte for each, do not fit in memory."""
    what = f"{n_clusters} clusters of {n_leaves} leaves"
    check_fits(2 * n_leaves * n_clusters, what, "fewer trees, or trees of fewer leaves")
