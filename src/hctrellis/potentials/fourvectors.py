"""Four-momenta of particles: their products, and particles off their mass shells.

Rows are E, px, py, pz; arrays of them have the shape (..., n, 4), for one jet or for many of equal
size. Momenta that were rounded when they were written, to a few digits or to single precision,
may leave a light particle with E < |p|: it is *space-like*. To put it on its mass shell is to set
E = |p|. That moves the squared mass t of the clusters that hold it, for a soft particle by next to
nothing and for a hard one by a lot. Repairs are judged by how far they move it: see `repair`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray

OnShell: TypeAlias = Literal["auto"] | bool
"""Which space-like particles are put on their mass shells: "auto", where it cannot matter; True,
all; False, none."""

ROUNDING = 1e-14  # -m^2 / E^2 of a massless particle in double precision
MOST_CHANGE = 0.1  # relative, of the squared mass of any cluster that counts
LARGEST_ENERGY = 1e30  # and LEAST_SQUARE: where kernels neither overflow nor lose small numbers
LEAST_SQUARE = 1e-60


class Repair(NamedTuple):
    """Jets with their space-like particles on their mass shells.

    Attributes
    ----------
    momenta : float64 array, shape (..., n, 4)
    moved : bool array, shape (..., n)
        Which particles were put there.
    changes : float64 array, shape (..., n)
        The most that each of them adds to the squared mass of any cluster, relative to that mass.
    """

    momenta: FloatArray
    moved: BoolArray
    changes: FloatArray

    def accepted(self, on_shell: OnShell) -> BoolArray:
        """Whether each jet may be repaired."""
        if isinstance(on_shell, bool):
            return np.full(self.moved.shape[:-1], on_shell)
        return np.asarray(self.changes.sum(axis=-1) <= MOST_CHANGE)


def sizes(momenta: FloatArray) -> FloatArray:
    """The sizes |p| of the three-momenta."""
    return np.asarray(np.sqrt((momenta[..., 1:] ** 2).sum(axis=-1)))


def space_like(momenta: FloatArray) -> BoolArray:
    """Whether E < |p|, by more than rounding in double precision; False for NaN."""
    return np.asarray(momenta[..., 0] < (1 - ROUNDING / 2) * sizes(momenta))


def repair(momenta: FloatArray, t_cut: float) -> Repair:
    """Put space-like particles on their mass shells, and bound what that does to the model.

    If the energies of particles i grow by d_i, the squared mass of a cluster C grows by at most
    2 E(C) times the sum of its d_i, where E(C), and t below, are those after the repair. Relative
    to t(C) that is a sum over particles i of 2 d_i E(C) / t(C). Each term has two bounds, since t
    is at least the sum of the t_ij of i with all other particles of C.

    - E(C) / t(C) does not exceed the largest (E_i + E_j) / t_ij.
    - Only clusters of t(C) >= t_cut matter: E(C) / t(C) does not exceed E / t_cut, E being the
      most energy that can be collected around i before the sum of t_ij is t_cut (the particle
      that would exceed it counts with the part that fits).

    Parameters
    ----------
    momenta : float64 array, shape (..., n, 4)
    t_cut : float
        The squared mass below which clusters do not split, 0 if there is none.
    """
    moved = space_like(momenta)
    repaired = momenta.copy()
    repaired[..., 0] = np.where(moved, sizes(momenta), momenta[..., 0])
    gains = repaired[..., 0] - momenta[..., 0]
    with np.errstate(all="ignore"):
        changes = np.where(moved, 2 * gains * _energy_per_square(repaired, t_cut), 0.0)
    return Repair(repaired, moved, changes)


def _energy_per_square(momenta: FloatArray, t_cut: float) -> FloatArray:
    """For each particle, a bound on E(C) / t(C) over the clusters C of two or more that hold it."""
    energies = momenta[..., 0]
    n = energies.shape[-1]
    t = np.maximum(minkowski_products(momenta), 0.0)
    t[..., np.arange(n), np.arange(n)] = 0.0
    others = np.broadcast_to(energies[..., None, :], t.shape)
    counts = (others > 0) & ~np.eye(n, dtype=bool)
    nearest = np.where(counts, (energies[..., :, None] + others) / t, 0.0).max(axis=-1)
    if t_cut == 0:
        return np.asarray(nearest)
    order = np.argsort(t / others, axis=-1)
    t, others = (np.take_along_axis(rows, order, axis=-1) for rows in (t, others))
    room = np.maximum(t_cut - (np.cumsum(t, axis=-1) - t), 0.0)
    collected = (others * np.where(t > room, room / t, 1.0)).sum(axis=-1)
    return np.asarray(np.minimum(nearest, collected / t_cut))


def minkowski_products(momenta: FloatArray) -> FloatArray:
    """t of single particles on the diagonal, 2 p_i p_j elsewhere; rounded once.

    Particles are almost massless and almost parallel: the four products nearly cancel. So each is
    kept exactly, as a sum of two floats, and so are their sums.
    """
    rows, columns = momenta[..., :, None, :], momenta[..., None, :, :]
    high, low = _product(rows[..., 0], columns[..., 0])
    for k in (1, 2, 3):
        product, error = _product(rows[..., k], -columns[..., k])
        total = high + product
        part = total - high
        low += (high - (total - part)) + (product - part) + error
        high = total
    doubled: FloatArray = 2.0 * (high + low)
    diagonal = np.arange(momenta.shape[-2])
    doubled[..., diagonal, diagonal] *= 0.5
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
