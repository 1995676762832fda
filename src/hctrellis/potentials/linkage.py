"""Merge heights as energies: the familiar linkages of SciPy, turned into a distribution."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Clusters
from hctrellis.potentials.base import Described, ExpectedPairs, PairEnergy, Potential, Sums
from hctrellis.potentials.bounds import average_energy, log_weight_bound, single_energy
from hctrellis.potentials.energies import EnergyPotential
from hctrellis.support.checks import (
    as_finite,
    as_labels,
    as_positive,
    as_symmetric,
    default_labels,
)
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree

Method = Literal["single", "complete", "average", "centroid", "ward"]
LEAST_DISTANCE = 1e-120  # between the leaves farthest apart: squares far below it would be lost


class Linkage(EnergyPotential):
    """psi(L, R) = exp(-beta h(L, R)), h the height at which SciPy's linkage would merge L and R.

    The energy of a tree is the sum of its merge heights.

    ========== ==========================================================================
    method     height of the merge of L and R
    ========== ==========================================================================
    single     least distance between a leaf of L and a leaf of R
    complete   greatest such distance
    average    mean such distance
    centroid   distance between the two centroids
    ward       sqrt(2 |L| |R| / (|L| + |R|)) times the distance between the two centroids
    ========== ==========================================================================

    Ward's *increase of the sum of squares* itself would be useless here: it telescopes, so that
    every tree has the same total. The height, its square root, does not.

    Parameters
    ----------
    data : array_like
        A table, shape (n, d), one row per leaf; or distances: condensed as in SciPy, shape
        (n (n-1) / 2,), or a square matrix with ``metric="precomputed"``.
    method : {"single", "complete", "average", "centroid", "ward"}
    beta : float
        Inverse temperature, >= 0, per unit of distance. The default of 1 is a unit, not a choice:
        `hctrellis.cluster` and `hctrellis.choose_beta` choose one, and say how.
    metric : str
        For a table: any metric of `scipy.spatial.distance.pdist`. "centroid" and "ward" need
        Euclidean distances.
    labels : iterable of str, optional
        By default the index of a DataFrame.

    Examples
    --------
    >>> from hctrellis import Linkage, Tree
    >>> model = Linkage([[0.0], [1.0], [5.0]], method="average")
    >>> model.energy(Tree.from_nested(((0, 1), 2)))
    5.5
    """

    height_name = "distance at the merge"

    def __init__(
        self,
        data: npt.ArrayLike,
        method: Method = "average",
        beta: float = 1.0,
        metric: str = "euclidean",
        *,
        labels: Iterable[object] | None = None,
    ) -> None:
        if method not in get_args(Method):
            raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
        self.method: Method = method
        self.distances = _distances(data, metric)
        named = data if getattr(data, "ndim", 0) == 2 else None  # else names are those of pairs
        square = metric == "precomputed"
        self.labels = as_labels(labels, len(self.distances), named, matrix=square)
        self.beta = as_positive(beta, "beta", zero=True)
        if method in ("centroid", "ward") and metric not in ("euclidean", "precomputed"):
            raise ValueError(
                f"{method} heights need Euclidean distances; got metric={metric!r} "
                "(use average, single or complete with other metrics)"
            )

    def sums(self) -> Sums:
        assert self.distances is not None
        if self.method in ("single", "complete"):
            return Sums()
        return Sums(pairs=[self.distances if self.method == "average" else self.distances**2])

    def code(self) -> SplitCode:
        from hctrellis.kernels import splits

        code: SplitCode = getattr(splits, self.method.upper())
        return code

    def bound(self) -> float | None:
        """From the distances to the nearest leaves, the next ones, and so on.

        For single linkage, the least spanning tree, which the best tree attains. The greatest
        distance is at least the mean one, so complete linkage has the bound of average linkage.
        None for centroid and Ward's linkage.
        """
        assert self.distances is not None
        if self.method in ("centroid", "ward"):
            return None
        energy = single_energy if self.method == "single" else average_energy
        return log_weight_bound(self.beta, energy(self.distances))

    def heights(self, tree: Tree) -> FloatArray:
        """The heights h at which SciPy would merge the clusters of a tree, whatever beta is.

        Other trees than SciPy's may have clusters that merge lower than their own parts did.
        """
        heights: FloatArray = np.abs(self._at(1.0)._log_weights(*self._members(tree), root=False))
        return heights

    def pair_energy(self, expected: ExpectedPairs) -> PairEnergy | None:
        """Of average heights: each distance counts for 1 / (|L| |R|) where it is cut."""
        if self.method != "average":
            return None
        assert self.distances is not None
        counts = expected.parting(PairShares(self.n_leaves))
        return PairEnergy("distances", self.distances, counts)

    def _details(self) -> str:
        return f", {self.method}, beta={self.beta:g}"


class PairShares(Potential):
    """The number 1 / (|L| |R|) for every split: the share of a pair in an average."""

    def __init__(self, n_leaves: int) -> None:
        self.labels = default_labels(n_leaves)

    def sums(self) -> None:
        return None

    def describe(self, clusters: Clusters) -> Described:
        return Described([1.0 / np.maximum(clusters.sizes, 1.0)])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import SHARES

        return SHARES

    def params(self, root: bool = False) -> tuple[float, ...]:
        return ()


def _distances(data: npt.ArrayLike, metric: str) -> FloatArray:
    """The square matrix of distances."""
    values = as_finite(data, "distances" if metric == "precomputed" else "data")
    if metric == "precomputed" and values.ndim != 1:
        return _checked(as_symmetric(data, "distances"))
    if values.ndim == 1:
        return _checked(_square(_condensed(values)))
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            "data must be a table (n x d), condensed distances (n (n-1) / 2 numbers) or a square "
            f'matrix with metric="precomputed"; got shape {values.shape}'
        )
    if _looks_like_distances(values):
        warnings.warn(
            f"the {len(values)} x {len(values)} table looks like a matrix of distances; if it is "
            'one, say metric="precomputed"',
            stacklevel=3,
        )
    _refuse_tiny(float(np.ptp(values, axis=0).max()), "the largest difference in a column")
    n = len(values)
    check_fits(36 * n * n, f"the distances between {n} rows", "fewer rows")
    square = _square(_pairwise(values, metric))
    if not np.isfinite(square).all():
        raise ValueError(
            f"the {metric} distance between some rows is not defined; "
            "leave out constant rows or choose another metric"
        )
    return square


def _pairwise(table: FloatArray, metric: str) -> FloatArray:
    """The distances between rows, condensed; Euclidean ones as SciPy has them, without SciPy.

    Importing that part of SciPy would take longer than all else that a small problem needs.
    """
    if metric == "euclidean":
        one, other = np.triu_indices(len(table), 1)
        squares = np.zeros(len(one))
        for column in table.T:
            squares += (column[one] - column[other]) ** 2
        return np.sqrt(squares)
    with ONE_AT_A_TIME:
        from scipy.spatial.distance import pdist
    found: FloatArray = pdist(table, metric=metric)
    return found


def _square(condensed: FloatArray) -> FloatArray:
    """Condensed distances as a symmetric matrix."""
    n = round((1 + (1 + 8 * condensed.size) ** 0.5) / 2)
    square = np.zeros((n, n))
    square[np.triu_indices(n, 1)] = condensed
    return square + square.T


def _condensed(values: FloatArray) -> FloatArray:
    if values.size == 0:
        raise ValueError("data is empty; give a table with one row per leaf, or distances")
    n = round((1 + (1 + 8 * values.size) ** 0.5) / 2)
    if values.size != n * (n - 1) // 2:
        raise ValueError(
            f"condensed distances of n leaves are n (n-1) / 2 numbers; got {values.size}"
        )
    return values


def _checked(distances: FloatArray) -> FloatArray:
    if (distances < 0).any():
        i, j = np.argwhere(distances < 0)[0]
        raise ValueError(
            f"distances must not be negative; [{i}, {j}] is {distances[i, j]:g} (similarities? "
            "use Dasgupta or CorrelationClustering, or turn them into distances)"
        )
    if np.diagonal(distances).any():
        i = int(np.flatnonzero(np.diagonal(distances))[0])
        raise ValueError(
            f"the distance of a leaf to itself must be 0; [{i}, {i}] is {distances[i, i]:g} "
            "(similarities? use Dasgupta or CorrelationClustering)"
        )
    _refuse_tiny(float(distances.max()), "the largest distance")
    return distances


def _refuse_tiny(largest: float, what: str) -> None:
    if 0 < largest < LEAST_DISTANCE:
        raise ValueError(
            f"{what} is {largest:g}; it must be 0 or at least {LEAST_DISTANCE:g}, since squares of "
            "such small numbers are lost: rescale the data, and beta with it"
        )


def _looks_like_distances(values: FloatArray) -> bool:
    return (
        values.shape[0] == values.shape[1]
        and len(values) > 1
        and not np.diagonal(values).any()
        and bool((values >= 0).all())
        and np.allclose(values, values.T)
    )
