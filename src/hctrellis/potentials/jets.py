"""Particle showers: the likelihood of a binary splitting history of a jet's constituents.

A leaf is a particle with four-momentum (E, px, py, pz); the momentum of a cluster is the sum; its
squared mass is t = E^2 - |p|^2, a sum over pairs of particles (twice their Minkowski products).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Clusters
from hctrellis.potentials.base import Potential
from hctrellis.potentials.checks import as_finite, as_labels, as_positive

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.tree import FloatArray

SPACE_LIKE_TOLERANCE = 1e-5  # -m^2 / E^2 of a massless particle stored in single precision


class _Jet(Potential):
    """Leaves with four-momenta, an exponential decay rate in units of t / t_parent."""

    def __init__(self, momenta: npt.ArrayLike, lam: float, labels: Iterable[object] | None) -> None:
        self.momenta = _as_momenta(momenta)
        self.labels = as_labels(labels, len(self.momenta))
        self.lam = as_positive(lam, "lam")
        self._products = _minkowski_products(self.momenta)

    def squared_masses(self, clusters: Clusters) -> FloatArray:
        """t = E^2 - |p|^2 of each cluster, never below 0."""
        masses = clusters.pair_sums(self._products)
        np.maximum(masses, 0.0, out=masses)
        return masses


class Ginkgo(_Jet):
    r"""The toy shower Ginkgo: splittings ordered by mass, with a threshold t_cut.

    With t_P the parent's squared mass, t_1 >= t_2 those of the children (0 for a leaf) and
    T_2 = (sqrt(t_P) - sqrt(t_1))^2,

    log psi = g(t_1 | t_P) + g(t_2 | T_2) - log(4 pi), or -inf if t_P < t_cut,

    where g(t | T) is the log of lam e^(-lam t / T) / T / (1 - e^-lam) for t > 0, and of
    (1 - e^(-lam t_cut / T)) / (1 - e^-lam) for a leaf.

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz.
    lam : float
        Decay rate.
    t_cut : float
        Squared mass below which nothing splits.
    lam_root : float, optional
        Decay rate of the first splitting, if it differs (decay of a heavy particle).
    labels : iterable of str, optional

    References
    ----------
    K. Cranmer, S. Macaluso, D. Pappadopulo, Toy generative model for jets, 2019.
    """

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        t_cut: float,
        lam_root: float | None = None,
        labels: Iterable[object] | None = None,
    ) -> None:
        super().__init__(momenta, lam, labels)
        self.t_cut = as_positive(t_cut, "t_cut")
        self.lam_root = self.lam if lam_root is None else as_positive(lam_root, "lam_root")

    def features(self, clusters: Clusters) -> list[FloatArray]:
        masses = self.squared_masses(clusters)
        np.sqrt(masses, out=masses)
        masses[clusters.sizes == 1] = 0.0
        return [masses]

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import GINKGO

        return GINKGO

    def params(self, root: bool = False) -> tuple[float, ...]:
        return (self.lam_root if root else self.lam, self.t_cut)

    def own(self, clusters: Clusters) -> FloatArray:
        masses = self.squared_masses(clusters)
        with np.errstate(divide="ignore"):
            terms = -np.log(masses)
        terms += _ginkgo_constant(self.lam)
        terms[clusters.sizes == self.n_leaves] += _ginkgo_constant(self.lam_root) - (
            _ginkgo_constant(self.lam)
        )
        terms[masses < self.t_cut] = -np.inf
        return terms

    def _describe(self) -> str:
        return f", lam={self.lam:g}, t_cut={self.t_cut:g}"


def _ginkgo_constant(lam: float) -> float:
    return float(2 * np.log(lam) - 2 * np.log(-np.expm1(-lam)) - np.log(4 * np.pi))


class JetMass(_Jet):
    """The jet model as displayed in the paper: psi = f(t_L | t_P) f(t_R | t_P).

    f(t | T) = lam / (1 - e^-lam) e^(-lam t / T) / T, with the true masses of the leaves and no
    threshold. Clusters without mass (collinear massless particles) cannot split.

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz.
    lam : float
        Decay rate.
    labels : iterable of str, optional
    """

    def __init__(
        self, momenta: npt.ArrayLike, lam: float, labels: Iterable[object] | None = None
    ) -> None:
        super().__init__(momenta, lam, labels)

    def features(self, clusters: Clusters) -> list[FloatArray]:
        return [self.squared_masses(clusters)]

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import JET_MASS

        return JET_MASS

    def params(self, root: bool = False) -> tuple[float, ...]:
        return (self.lam,)

    def own(self, clusters: Clusters) -> FloatArray:
        masses = self.squared_masses(clusters)
        forbidden = masses <= 0
        masses[forbidden] = 1.0
        terms = 2 * (np.log(self.lam) - np.log(-np.expm1(-self.lam)) - np.log(masses))
        terms[forbidden] = -np.inf
        return np.asarray(terms)

    def _describe(self) -> str:
        return f", lam={self.lam:g}"


def _as_momenta(momenta: npt.ArrayLike) -> FloatArray:
    rows = as_finite(momenta, "momenta")
    if rows.ndim != 2 or rows.shape[1] != 4 or len(rows) == 0:
        raise ValueError(
            f"momenta must have one row (E, px, py, pz) per particle; got shape {rows.shape}"
        )
    energy = rows[:, 0]
    if (energy < 0).any():
        i = int(np.argmin(energy))
        raise ValueError(
            f"particle {i} has a negative energy ({energy[i]:g}); rows are E, px, py, pz"
        )
    masses = energy**2 - (rows[:, 1:] ** 2).sum(axis=1)
    allowed = -SPACE_LIKE_TOLERANCE * np.maximum(energy**2, (rows[:, 1:] ** 2).sum(axis=1))
    if (masses < allowed).any():
        i = int(np.argmin(masses - allowed))
        raise ValueError(
            f"particle {i} is space-like (E^2 - |p|^2 = {masses[i]:g}); rows are E, px, py, pz"
        )
    return rows


def _minkowski_products(momenta: FloatArray) -> FloatArray:
    """t of single particles on the diagonal, 2 p_i p_j elsewhere; in extended precision."""
    wide = momenta.astype(np.longdouble)
    products = np.outer(wide[:, 0], wide[:, 0]) - wide[:, 1:] @ wide[:, 1:].T
    doubled = 2 * products
    np.fill_diagonal(doubled, np.diagonal(products))
    return np.asarray(np.maximum(doubled, 0), float)
