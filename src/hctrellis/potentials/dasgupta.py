"""Dasgupta's cost: every pair pays its similarity times the size of its smallest common cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Clusters
from hctrellis.potentials.base import ExpectedPairs, PairEnergy, Separable, Sums
from hctrellis.potentials.energies import EnergyPotential
from hctrellis.potentials.heights import similarity_heights
from hctrellis.support.checks import as_labels, as_positive, as_symmetric

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree


class Dasgupta(EnergyPotential):
    """psi(L, R) = exp(-beta (|L| + |R|) w(L, R)), w(L, R) the similarity across the split.

    The energy of a tree is Dasgupta's cost: the sum over pairs of w_ij times the number of leaves
    of the smallest cluster that holds both. Small is good: similar leaves meet early.

    Parameters
    ----------
    similarity : array_like, shape (n, n)
        Symmetric similarities w; the diagonal is not used.
    beta : float
        Inverse temperature, >= 0.
    labels : iterable of str, optional
        By default the index of a DataFrame.

    References
    ----------
    S. Dasgupta, A cost function for similarity-based hierarchical clustering, STOC 2016.

    Examples
    --------
    A clique of n unit edges costs (n^3 - n) / 3 in every tree.

    >>> from hctrellis import Dasgupta, Tree
    >>> clique = Dasgupta([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> clique.energy(Tree.from_nested(((0, 1), 2)))
    8.0
    """

    height_name = "dissimilarity of the parts"

    def __init__(
        self,
        similarity: npt.ArrayLike,
        beta: float = 1.0,
        *,
        labels: Iterable[object] | None = None,
    ) -> None:
        self.similarity = as_symmetric(similarity, "similarity").copy()
        np.fill_diagonal(self.similarity, 0.0)
        self.labels = as_labels(labels, len(self.similarity), similarity, matrix=True)
        self.beta = as_positive(beta, "beta", zero=True)

    def sums(self) -> Sums:
        return Sums(pairs=[self.similarity])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import DASGUPTA

        return DASGUPTA

    def heights(self, tree: Tree) -> FloatArray:
        """The largest similarity minus the mean one across each merge; never falling upwards."""
        return similarity_heights(self.similarity, self._members(tree), tree)

    def pair_energy(self, expected: ExpectedPairs) -> PairEnergy:
        """Every pair pays the size of its smallest common cluster."""
        return PairEnergy("similarity", self.similarity, expected.common_size())

    def separable(self, clusters: Clusters) -> Separable:
        """A pair inside L saves |R| compared with a pair that meets only in the parent.

        cost = n w(all) - sum over splits of (w(L) |R| + w(R) |L|)
        """
        gain = clusters.pair_sums(self.similarity * self.beta)
        all_pairs = np.tril(self.similarity * self.beta).sum()
        return Separable(gain=gain, constant=-self.n_leaves * float(all_pairs))
