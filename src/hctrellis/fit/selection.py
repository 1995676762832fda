"""How probable it is that a shower has some number of particles, under its rates.

Of a node of squared mass t > t_cut, the first child has t_a = t r and the second t_b = T r' with
T = (sqrt(t) - sqrt(t_a))^2, and r, r' have the density f. So, with p_n(t) the probability of n
particles and q_n(T) that of a second child, both 1 for n = 1 where nothing can split,

    q_n(T) = integral of f(r) p_n(T r) dr,   p_n(t) = sum over k of
             integral of f(r) p_k(t r) q_(n-k)((sqrt(t) - sqrt(t r))^2) dr,

which gives all p_n on a grid of t, one n after the other. The integrals are split where a child
begins to split itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.potentials.density import RATIO_CUT

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

GRID = 240  # squared masses
NODES = 24  # of each integral
STEP = 1e-4  # relative, of derivatives by the rates


class Selection:
    """The jets with a number of particles in a window.

    Parameters
    ----------
    window : (int, int)
        The least and the largest number.
    t_root : float64 array
        The squared mass of each jet that was kept.
    parameters : mapping
        lam, t_cut and perhaps lam_root.
    """

    def __init__(
        self, window: tuple[int, int], t_root: FloatArray, parameters: Mapping[str, Any]
    ) -> None:
        self.window = window
        self.t_root = t_root
        self.parameters = {"lam_root": None, **parameters}

    def log_probabilities(self, values: Mapping[str, float]) -> FloatArray:
        """For each jet, the log probability that one of its squared mass is kept."""
        rates = self.parameters | dict(values)
        lam = float(rates["lam"])
        lam_root = lam if rates["lam_root"] is None else float(rates["lam_root"])
        t_cut = float(rates["t_cut"])
        top = max(float(self.t_root.max()), t_cut) * (1 + 1e-9)
        grid, table = leaf_counts(lam, lam_root, t_cut, top, self.window[1])
        kept = table[self.window[0] - 1 :].sum(axis=0)
        at = np.interp(np.log(np.maximum(self.t_root, t_cut)), np.log(grid), kept)
        below = 1.0 if self.window[0] == 1 else 0.0  # a root that does not split is one particle
        return np.log(np.maximum(np.where(self.t_root > t_cut, at, below), 1e-300))

    def total(self, values: Mapping[str, float]) -> tuple[float, FloatArray]:
        """The sum over jets, and its derivatives by some parameters."""

        def at(changed: Mapping[str, float]) -> float:
            return float(self.log_probabilities(changed).sum())

        slopes = []
        for name, value in values.items():
            step = STEP * max(abs(value), STEP)
            up, down = ({**values, name: value + sign * step} for sign in (1, -1))
            slopes.append((at(up) - at(down)) / (2 * step))
        return at(values), np.array(slopes)


@lru_cache(maxsize=64)
def leaf_counts(
    lam: float, lam_root: float, t_cut: float, t_max: float, largest: int
) -> tuple[FloatArray, FloatArray]:
    """A grid of squared masses from t_cut to t_max, and the probability of 1 .. largest particles.

    Returns
    -------
    grid : array, shape (g,)
    table : array, shape (largest, g)
        Of jets whose root has the rate lam_root and all other nodes lam.
    """
    grid = np.geomspace(t_cut, t_max, GRID)
    first = np.zeros((largest + 1, GRID))  # p_n at t > t_cut, of nodes that are not the root
    second, of_root = np.zeros((2, largest + 1, GRID))  # q_n with the rates of the two
    found = np.zeros((largest, GRID))
    for n in range(2, largest + 1):
        first[n] = _splittings(n, grid, first, second, t_cut, lam)
        found[n - 1] = _splittings(n, grid, first, of_root, t_cut, lam_root)
        second[n] = _seconds(grid, first[n], t_cut, lam)
        of_root[n] = _seconds(grid, first[n], t_cut, lam_root)
    return grid, found


def _density(r: FloatArray, lam: float) -> FloatArray:
    return np.asarray(lam * np.exp(-lam * r) / -np.expm1(-lam * RATIO_CUT))


def _below(r: FloatArray, lam: float) -> FloatArray:
    """The probability that a ratio is below r."""
    return np.asarray(np.expm1(-lam * np.minimum(r, RATIO_CUT)) / np.expm1(-lam * RATIO_CUT))


def _nodes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights from low to high, shape (g, NODES)."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = np.maximum(high - low, 0.0)[:, None] / 2
    return low[:, None] + half * (1 + x), half * w


def _at(grid: FloatArray, values: FloatArray, t: FloatArray) -> FloatArray:
    found = np.interp(np.log(np.maximum(t, 1e-300)), np.log(grid), values)
    return np.where(t > grid[0], found, 0.0)


def _seconds(grid: FloatArray, p: FloatArray, t_cut: float, lam: float) -> FloatArray:
    """q_n on the grid."""
    r, w = _nodes(np.minimum(t_cut / grid, RATIO_CUT), np.full(GRID, RATIO_CUT))
    found: FloatArray = (w * _density(r, lam) * _at(grid, p, grid[:, None] * r)).sum(axis=1)
    return found


def _splittings(
    n: int, grid: FloatArray, first: FloatArray, second: FloatArray, t_cut: float, rate: float
) -> FloatArray:
    """p_n on the grid, of nodes with this rate, given p of first and q of second children."""
    total = np.zeros(GRID)
    t, edge = grid[:, None], np.minimum(t_cut / grid, RATIO_CUT)
    for k in range(1, n):
        low, high = (np.zeros(GRID), edge) if k == 1 else (edge, np.full(GRID, RATIO_CUT))
        r, w = _nodes(low, high)
        left = 1.0 if k == 1 else _at(grid, first[k], t * r)
        over = t * (1 - np.sqrt(r)) ** 2
        if k == n - 1:
            right = _below(t_cut / np.maximum(over, 1e-300), rate)
        else:
            right = _at(grid, second[n - k], over)
        total += (w * _density(r, rate) * left * right).sum(axis=1)
    return total
