"""Parallel tempering: chains at all heats from uniform trees to the posterior, which swap trees.

A chain at heat 1 may stay in one mode for ever; one at a low heat goes everywhere. Every sweep,
neighbouring heats exchange their trees with the probability that leaves each heat's distribution as
it is, and the chain at heat 0 is drawn anew, uniformly. A tree that has come from heat 0 to heat 1
owes nothing to where the chain at heat 1 began; how often that happens (`round trips`) says how far
the answers can be trusted. Swaps are tried between even and odd neighbours in turn.

Reference: S. Syed, A. Bouchard-Côté, G. Deligiannidis, A. Doucet, Non-reversible parallel
tempering, J. R. Stat. Soc. B 84 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.sampling.chains import Chains

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, SmallArray


@dataclass
class Ladder:
    """Chains at heats 0 = h_0 < ... < h_K = 1.

    Attributes
    ----------
    heats : float64 array, shape (K + 1,)
    trees : int16 array, shape (K + 1, n - 1, 2)
        The tree at each heat.
    origins : int64 array, shape (K + 1,)
        In which sweep the tree at each heat was drawn at heat 0; -1 for those of the start.
    accepted : float64 array, shape (K,)
        Sum of the probabilities of swaps between neighbours, and (`tried`) how many there were.
    """

    chains: Chains
    heats: FloatArray
    trees: SmallArray
    rng: np.random.Generator

    def __post_init__(self) -> None:
        k = len(self.heats) - 1
        self.origins = np.full(k + 1, -1)
        self.accepted, self.tried = np.zeros(k), np.zeros(k)
        self.works: list[FloatArray] = []
        self.sweep_number = 0
        self.arrivals: list[int] = []

    def sweep(self, n_moves: int) -> None:
        """Move all chains, and swap neighbours."""
        self.trees[0] = self.chains.uniform(1, self.rng)[0]
        self.origins[0] = self.sweep_number
        found = self.chains.run(self.trees, self.heats, self.rng, 1, n_moves)
        self.trees = found.children[:, 0].copy()
        targets = np.array([found.log_targets(heat)[:, 0] for heat in self.heats])
        self._swap(targets)
        if self.origins[-1] >= 0 and (not self.arrivals or self.origins[-1] > self.arrivals[-1]):
            self.arrivals.append(int(self.origins[-1]))
        self.sweep_number += 1

    def _swap(self, targets: FloatArray) -> None:
        """targets[h, k]: the log weight at heat h of the tree at heat k."""
        k = len(self.heats) - 1
        diagonal = np.arange(k + 1)
        here = targets[diagonal, diagonal]
        with np.errstate(invalid="ignore"):
            forward = targets[diagonal[1:], diagonal[:-1]] - here[:-1]
            backward = targets[diagonal[:-1], diagonal[1:]] - here[1:]
            gains = np.nan_to_num(forward + backward, nan=-np.inf)
        self.works.append(np.array([forward, backward]))
        chances = np.exp(np.minimum(gains, 0.0))
        uniforms = self.rng.random(k)
        for i in range(self.sweep_number % 2, k, 2):
            self.tried[i] += 1
            self.accepted[i] += chances[i]
            if uniforms[i] < chances[i]:
                pair = [i, i + 1]
                self.trees[pair] = self.trees[pair[::-1]]
                self.origins[pair] = self.origins[pair[::-1]]

    @property
    def round_trips(self) -> int:
        """How many trees drawn at heat 0 have arrived at heat 1, each later than the one before."""
        return len(self.arrivals)
