"""Particle showers: the likelihood of a binary splitting history of a jet's constituents.

A leaf is a particle with four-momentum (E, px, py, pz); the momentum of a cluster is the sum; its
squared mass is t = E^2 - |p|^2, a sum over pairs of particles (twice their Minkowski products).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import ClusterList
from hctrellis.imports import load_kernel
from hctrellis.potentials.base import Potential, Sums
from hctrellis.potentials.checks import as_finite, as_labels, as_positive
from hctrellis.tree import raised

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.tree import FloatArray, Tree

SPACE_LIKE_TOLERANCE = 1e-5  # -m^2 / E^2 of a massless particle stored in single precision


class _Jet(Potential):
    """Leaves with four-momenta, an exponential decay rate in units of t / t_parent."""

    height_name = "invariant mass"

    def __init__(self, momenta: npt.ArrayLike, lam: float, labels: Iterable[object] | None) -> None:
        self.momenta = _as_momenta(momenta)
        self.labels = as_labels(labels, len(self.momenta))
        self.lam = as_positive(lam, "lam")
        self._products = _minkowski_products(self.momenta)

    def sums(self) -> Sums:
        """The squared mass t = E^2 - |p|^2."""
        return Sums(pairs=[self._products])

    def heights(self, tree: Tree) -> FloatArray:
        """The invariant mass of each cluster, which is no less than that of its parts."""
        _, _, parents = self._members(tree)
        t = ClusterList(parents).pair_sums(self._products)
        return raised(tree, np.sqrt(np.maximum(t, 0.0)))


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
    non_stop : bool
        The later variant of the model, in which a particle that splits also had to survive the
        stopping rule: for t > t_cut the density is multiplied by 1 - F, with
        F = (1 - e^(-lam t_cut / T))
        / (1 - e^-lam); a leaf has min(T, t_cut) in place of t_cut; and t_P = t_cut does not split.

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
        non_stop: bool = False,
    ) -> None:
        super().__init__(momenta, lam, labels)
        self.non_stop = bool(non_stop)
        self.t_cut = as_positive(t_cut, "t_cut")
        self.lam_root = self.lam if lam_root is None else as_positive(lam_root, "lam_root")

    def code(self) -> SplitCode:
        splits = load_kernel("splits")
        code: SplitCode = splits.GINKGO_NON_STOP if self.non_stop else splits.GINKGO
        return code

    def params(self, root: bool = False) -> tuple[float, ...]:
        lam = self.lam_root if root else self.lam
        return (lam, self.t_cut, 2 * _log_norm(lam) - math.log(4 * math.pi))

    def _describe(self) -> str:
        root = "" if self.lam_root == self.lam else f", lam_root={self.lam_root:g}"
        later = ", non_stop" if self.non_stop else ""
        return f", lam={self.lam:g}, t_cut={self.t_cut:g}{root}{later}"


def _log_norm(lam: float) -> float:
    """log of lam / (1 - e^-lam)."""
    return math.log(lam) - math.log(-math.expm1(-lam))


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

    def code(self) -> SplitCode:
        code: SplitCode = load_kernel("splits").JET_MASS
        return code

    def params(self, root: bool = False) -> tuple[float, ...]:
        return (self.lam, 2 * _log_norm(self.lam))

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
    """t of single particles on the diagonal, 2 p_i p_j elsewhere; rounded once.

    Particles are almost massless and almost parallel: what is left of the four products may be a
    tiny part of them, so each is a sum of two floats that is exact, and so are their sums.
    """
    high, low = _product(momenta[:, :1], momenta[:, 0])
    for k in (1, 2, 3):
        product, error = _product(momenta[:, k : k + 1], -momenta[:, k])
        total = high + product
        part = total - high
        low += (high - (total - part)) + (product - part) + error
        high = total
    doubled = 2.0 * (high + low)
    np.fill_diagonal(doubled, np.diagonal(high + low))
    return doubled


def _product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The product of two arrays, rounded, and what rounding took from it."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two floats of half the digits, whose sum is a float."""
    scaled = (2.0**27 + 1) * a
    high = scaled - (scaled - a)
    return high, a - high
