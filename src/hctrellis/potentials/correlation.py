"""Correlation clustering as a hierarchy: dissimilar leaves should part early."""

from __future__ import annotations

import warnings
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


class CorrelationClustering(EnergyPotential):
    """psi(L, R) = exp(-beta E), E the positive affinity across plus |negative| affinity inside.

    E(L, R) = sum of positive w across (L, R) + sum of |negative w| inside L and inside R.

    Every positive pair is cut exactly once in any tree, so the energy of a tree is the sum of all
    positive affinities plus the |negative| affinity inside each cluster below the root: positive
    affinities shift all trees alike and never matter.

    Parameters
    ----------
    affinity : array_like, shape (n, n)
        Symmetric, > 0 for similar and < 0 for dissimilar leaves; the diagonal is not used.
    beta : float
        Inverse temperature, >= 0.
    ordered_pairs : bool
        Count each pair inside a child twice, as the literal double sum of the paper does.
    labels : iterable of str, optional
        By default the index of a DataFrame.

    Examples
    --------
    >>> from hctrellis import CorrelationClustering, Tree
    >>> model = CorrelationClustering([[0, 2, -1], [2, 0, -3], [-1, -3, 0]])
    >>> model.energy(Tree.from_nested(((0, 1), 2))), model.energy(Tree.from_nested(((1, 2), 0)))
    (2.0, 5.0)
    """

    height_name = "dissimilarity of the parts"

    def __init__(
        self,
        affinity: npt.ArrayLike,
        beta: float = 1.0,
        ordered_pairs: bool = False,
        *,
        labels: Iterable[object] | None = None,
    ) -> None:
        self.affinity = as_symmetric(affinity, "affinity").copy()
        np.fill_diagonal(self.affinity, 0.0)
        self.labels = as_labels(labels, len(self.affinity), affinity, matrix=True)
        self.beta = as_positive(beta, "beta", zero=True)
        self.ordered_pairs = bool(ordered_pairs)
        if self.n_leaves > 2 and not (self.affinity < 0).any():
            warnings.warn(
                "no affinity is negative, so every tree has the same weight (positive pairs are "
                "cut once in any tree); subtract a constant, for instance the mean, first",
                stacklevel=2,
            )

    @property
    def _positive(self) -> FloatArray:
        return np.maximum(self.affinity, 0.0)

    @property
    def _negative(self) -> FloatArray:
        return np.maximum(-self.affinity, 0.0) * self._inside_pays

    @property
    def _inside_pays(self) -> float:
        return 2.0 if self.ordered_pairs else 1.0

    def sums(self) -> Sums:
        return Sums(pairs=[self._positive, self._negative])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import CORRELATION

        return CORRELATION

    def heights(self, tree: Tree) -> FloatArray:
        """The largest affinity minus the mean affinity across each merge; never falling upwards."""
        return similarity_heights(self.affinity, self._members(tree), tree)

    def pair_energy(self, expected: ExpectedPairs) -> PairEnergy:
        """A positive pair is cut once; a negative one pays in every cluster below the root.

        An affinity of 0 counts as positive: its derivative is that from above.
        """
        apart = ~np.eye(self.n_leaves, dtype=bool)
        inside = expected.common_clusters() * self._inside_pays
        counts = np.where(self.affinity < 0, -inside, 1.0 * apart)
        return PairEnergy("affinity", self.affinity, counts)

    def separable(self, clusters: Clusters) -> Separable:
        """Each cluster below the root pays for the negative pairs inside it."""
        return Separable(
            own=clusters.pair_sums(self._negative * -self.beta),
            constant=-self.beta * float(np.tril(self._positive).sum()),
        )
