"""Trees as data: the conditional clade distribution of a sample of trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.clusters import BoolArray, Clusters
from hctrellis.memory import check_fits
from hctrellis.potentials.base import Described, Potential, Rows
from hctrellis.tree import Tree
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray

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

    Attributes
    ----------
    n_observed : int
        Number of trees given.

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
    """

    has_energy = False

    def __init__(self, trees: Iterable[Tree]) -> None:
        given = list(trees)
        if given and isinstance(given[0], Tree):
            _check_size(given[0].n_leaves, 2 * given[0].n_leaves - 1)
        self.trellis = SparseTrellis.from_trees(given)
        _check_size(self.trellis.n_leaves, self.trellis.n_clusters)
        self.labels = given[0].labels
        self.n_observed = len(given)
        splits: Counter[tuple[int, int]] = Counter()
        for tree in given:
            splits.update((parent, left) for parent, left, _ in self.align(tree).splits())
        self._splits = splits

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
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Sorted keys of the splits seen, and their log probabilities."""
        times: Counter[int] = Counter()
        for (parent, _), count in self._splits.items():
            times[parent] += count
        number = self._numbers
        rows = sorted(
            (
                float(number[parent] * len(number) + min(number[left], number[parent ^ left])),
                float(np.log(count / times[parent])),
            )
            for (parent, left), count in self._splits.items()
        )
        keys, values = np.array(rows).T
        return keys, values

    def _describe(self) -> str:
        return f", {self.n_observed} trees"


def _check_size(n_leaves: int, n_clusters: int) -> None:
    """Refuse clusters whose leaves, a byte for each, do not fit in memory."""
    what = f"{n_clusters} clusters of {n_leaves} leaves"
    check_fits(2 * n_leaves * n_clusters, what, "fewer trees, or of fewer leaves")
