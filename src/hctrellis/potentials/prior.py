"""Priors over tree shapes: weights that depend on the sizes of clusters only."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import Clusters
from hctrellis.potentials.base import Potential, Separable, Sums
from hctrellis.support.checks import as_count, as_labels
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.keywords import renamed

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray

ROUNDING = 2.0**-52  # of a sum, relative to its largest term


class BetaSplitting(Potential):
    """Aldous' beta-splitting model over labelled trees, a probability distribution (Z = 1).

    A cluster of m leaves is split into i and m - i leaves with probability proportional to
    Gamma(shape + i + 1) Gamma(shape + m - i + 1) / (i! (m - i)!), and then into any such pair of
    clusters with equal probability. The shape, which Aldous calls beta, is 0 for the Yule model;
    -1.5 makes all trees equally likely; small shapes prefer caterpillars and large ones balanced
    trees. Add it to a model to use it as a prior.

    Parameters
    ----------
    n_leaves : int
    shape : float
        Greater than -2.
    labels : iterable of str, optional

    References
    ----------
    D. Aldous, Probability distributions on cladograms, 1996.

    Examples
    --------
    >>> import math
    >>> from hctrellis import BetaSplitting, Tree
    >>> yule = BetaSplitting(4)
    >>> round(math.exp(yule.log_weight(Tree.from_nested(((0, 1), (2, 3))))), 6)
    0.111111
    """

    @renamed(beta="shape")
    def __init__(
        self, n_leaves: int, shape: float = 0.0, *, labels: Iterable[object] | None = None
    ) -> None:
        n = as_count(n_leaves, "n_leaves")
        if not isinstance(shape, int | float | np.number):
            raise TypeError(f"shape must be a number; got {shape!r:.80}")
        if not -2 < shape < np.inf:
            raise ValueError(f"shape must be a finite number greater than -2; got {shape}")
        self.labels = as_labels(labels, n)
        self.shape = float(shape)
        self._child, self._parent = self._tables(n)

    def _tables(self, n: int) -> tuple[FloatArray, FloatArray]:
        """The log weight of a child of each size, and of a parent of each size.

        That of a child of i leaves is log Gamma(shape + i + 1) less a constant and a multiple of i:
        these change no answer, and without them digits would be lost.
        """
        with ONE_AT_A_TIME:
            from scipy.special import gammaln, logsumexp

        sizes = np.arange(n + 1)
        child = np.cumsum(np.log1p(np.maximum(sizes - 2, 0) / (self.shape + 2)))
        parent = np.zeros(n + 1)
        for m in range(2, n + 1):
            parent[m] = np.log(2) - logsumexp(self._planar(child, m)) - gammaln(m + 1)
        return child, parent

    @staticmethod
    def _planar(child: FloatArray, m: int) -> FloatArray:
        """The log weight of splitting m leaves into 1 .. m - 1 and the others, up to a constant."""
        with ONE_AT_A_TIME:
            from scipy.special import gammaln

        i = np.arange(1, m)
        planar: FloatArray = child[i] + child[m - i] - gammaln(i + 1) - gammaln(m - i + 1)
        return planar

    def sums(self) -> Sums:
        return Sums(by_size=[self._child, self._parent])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import SIZES

        return SIZES

    def params(self, root: bool = False) -> tuple[float, ...]:
        return ()

    def parameters(self) -> dict[str, float]:
        return {"shape": self.shape}

    def with_parameters(self, **values: float) -> Potential:
        super().with_parameters(**values)
        return BetaSplitting(self.n_leaves, values.get("shape", self.shape), labels=self.labels)

    def derivative(self, name: str) -> Potential:
        if name != "shape":
            return super().derivative(name)
        model = copy(self)
        model._child, model._parent = self._slopes()
        return model

    def _slopes(self) -> tuple[FloatArray, FloatArray]:
        """The derivatives of the two tables with respect to the shape."""
        sizes = np.arange(self.n_leaves + 1)
        from_three = np.maximum(sizes, 2)
        child = np.cumsum(1 / (self.shape + from_three) - 1 / (self.shape + 2))
        parent = np.zeros(self.n_leaves + 1)
        for m in range(2, self.n_leaves + 1):
            planar = self._planar(self._child, m)
            shares = np.exp(planar - planar.max())
            parent[m] = -(shares @ (child[1:m] + child[m - 1 : 0 : -1])) / shares.sum()
        return child, parent

    def separable(self, clusters: Clusters) -> Separable:
        own = (self._child + self._parent)[clusters.sizes.astype(int)]
        n = self.n_leaves
        leaves = n * self._child[1] if n > 1 else 0.0
        return Separable(own=own, constant=float(leaves + self._parent[n]))

    def bound(self) -> float:
        """The probability of the most probable tree shape's trees: O(n^2), by size."""
        best = np.zeros(self.n_leaves + 1)
        for m in range(2, self.n_leaves + 1):
            child = self._child[1:m] + best[1:m]
            best[m] = self._parent[m] + (child + child[::-1]).max()
        size = float(np.abs(self._child).max() + np.abs(self._parent).max())
        return float(best[-1]) + ROUNDING * self.n_leaves**2 * size

    def _details(self) -> str:
        return f", shape={self.shape:g}"
