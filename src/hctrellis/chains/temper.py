"""Parallel tempering: chains at all heats from uniform trees to the posterior, which swap trees.

A chain at heat 1 may stay in one mode for ever; one at a low heat goes everywhere. Every sweep,
neighbouring heats exchange their trees with the probability that leaves each heat's distribution as
it is, and the chain at heat 0 is drawn anew, uniformly. A tree that has come from heat 0 to heat 1
owes nothing to where the chain at heat 1 began; how often that happens (`round_trips`) says how far
the answers can be trusted. Swaps are tried between even and odd neighbours in turn.

The trees of two neighbouring heats also tell the ratio of the sums of all weights at these heats
(Bennett's acceptance ratio), hence log Z.

References: S. Syed, A. Bouchard-Côté, G. Deligiannidis, A. Doucet, Non-reversible parallel
tempering, J. R. Stat. Soc. B 84 (2022); C. H. Bennett, J. Comput. Phys. 22 (1976) 245.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.chains.chains import Chains, Records, joined
from hctrellis.clusters import n_trees
from hctrellis.support.imports import ONE_AT_A_TIME

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray, SmallArray

TOLERANCE = 1e-9


class Ladders:
    """Independent ladders of chains, each at heats 0 = h_0 < ... < h_K = 1.

    Attributes
    ----------
    heats : float64 array, shape (K + 1,)
    trees : int16 array, shape (ladders, K + 1, n - 1, 2)
        The tree at each heat.
    round_trips : int64 array, shape (ladders,)
        How many trees drawn at heat 0 have arrived at heat 1, each drawn later than the one before.
    n_sweeps : int
        Of each ladder, so far.
    """

    def __init__(
        self, chains: Chains, heats: FloatArray, trees: SmallArray, rng: np.random.Generator
    ) -> None:
        self.heats = np.asarray(heats, float)
        self.trees = trees.copy()
        self.round_trips = np.zeros(len(trees), np.int64)
        self._chains = chains
        self._rng = rng
        self._origins = np.full(trees.shape[:2], -1)  # the sweep in which a tree was drawn
        self._arrived = np.full(len(trees), -1)  # the latest of those that have reached heat 1
        self.n_sweeps = 0
        self._works: list[FloatArray] = []
        k = len(self.heats) - 1
        self._accepted, self._tried = np.zeros(k), np.zeros(k)

    def run(self, n_sweeps: int, n_moves: int) -> Records:
        """Move all chains and swap neighbours, again and again; the trees at heat 1."""
        return joined([self._sweep(n_moves) for _ in range(n_sweeps)])

    @property
    def acceptance(self) -> FloatArray:
        """The mean probability of a swap between neighbours, shape (K,)."""
        return self._accepted / np.maximum(1, self._tried)

    def _sweep(self, n_moves: int) -> Records:
        n_ladders, n_rungs, *shape = self.trees.shape
        self.trees[:, 0] = self._chains.uniform(n_ladders, self._rng)
        self._origins[:, 0] = self.n_sweeps
        flat = self.trees.reshape(-1, *shape)
        found = self._chains.run(flat, np.tile(self.heats, n_ladders), self._rng, 1, n_moves)
        self.trees = found.children.reshape(self.trees.shape).copy()
        weights = Records(
            self.trees,
            found.log_weights.reshape(n_ladders, n_rungs),
            found.forbidden.reshape(n_ladders, n_rungs),
        )
        order = self._swap(weights)
        self.trees = np.take_along_axis(self.trees, order[:, :, None, None], axis=1)
        self._origins = np.take_along_axis(self._origins, order, axis=1)
        new = self._origins[:, -1] > self._arrived
        self.round_trips += new
        self._arrived = np.where(new, self._origins[:, -1], self._arrived)
        self.n_sweeps += 1
        top = order[:, -1:]
        return Records(
            self.trees[:, -1:],
            np.take_along_axis(weights.log_weights, top, axis=1),
            np.take_along_axis(weights.forbidden, top, axis=1),
        )

    def _swap(self, weights: Records) -> IntArray:
        """Which tree each heat has after the swaps, shape (ladders, K + 1)."""
        targets = np.array([weights.log_targets(heat) for heat in self.heats])  # heat, ladder, rung
        k = len(self.heats) - 1
        here = targets[np.arange(k + 1), :, np.arange(k + 1)]
        with np.errstate(invalid="ignore"):
            forward = targets[np.arange(1, k + 1), :, np.arange(k)] - here[:-1]
            backward = targets[np.arange(k), :, np.arange(1, k + 1)] - here[1:]
            gains = np.nan_to_num(forward + backward, nan=-np.inf)
        self._works.append(np.array([forward, backward]))
        chances = np.exp(np.minimum(gains, 0.0))
        uniforms = self._rng.random(chances.shape)
        order = np.tile(np.arange(k + 1), (len(self.trees), 1))
        for i in range(self.n_sweeps % 2, k, 2):
            self._tried[i] += 1
            self._accepted[i] += chances[i].mean()
            swapped = uniforms[i] < chances[i]
            order[swapped, i], order[swapped, i + 1] = i + 1, i
        return order

    def log_partitions(self, skipped: int = 0) -> FloatArray:
        """An estimate of log Z by each ladder, from all sweeps but the first ones."""
        works = np.array(self._works[skipped:])  # sweep, direction, pair of heats, ladder
        first = math.log(n_trees(self._chains.potential.n_leaves))
        return np.array(
            [
                first + sum(bennett(*works[:, :, i, ladder].T) for i in range(works.shape[2]))
                for ladder in range(works.shape[3])
            ]
        )


def bennett(forward: FloatArray, backward: FloatArray) -> float:
    """log(Z_1 / Z_0) from log ratios of weights: log w_1/w_0 of draws from 0, log w_0/w_1 from 1.

    Solves sum over draws from 0 of f(x - forward) = sum over draws from 1 of f(-backward - x)
    for x, with f(t) = 1 / (1 + e^t).

    >>> round(bennett(np.full(10, 2.0), np.full(10, -2.0)), 6)
    2.0
    """
    with ONE_AT_A_TIME:
        from scipy.optimize import brentq
        from scipy.special import expit

    forward, backward = (np.nan_to_num(w, nan=-np.inf) for w in (forward, backward))
    finite = np.concatenate([forward, -backward])
    finite = finite[np.isfinite(finite)]
    if len(finite) == 0:
        return -math.inf
    low, high = float(finite.min()) - 1, float(finite.max()) + 1

    def excess(x: float) -> float:
        return float(expit(forward - x).mean() - expit(backward + x).mean())

    if excess(low) <= 0:
        return low
    return high if excess(high) >= 0 else float(brentq(excess, low, high, xtol=TOLERANCE))
