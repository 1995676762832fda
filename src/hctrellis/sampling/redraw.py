"""Fresh draws from a sparse trellis, for chains whose tree is one of its trees.

On the trees of the trellis the posterior is known, so a chain that has come to one of them may be
given another, drawn anew: this leaves the posterior as it is, and the chain forgets where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.chains.frequencies import cluster_codes, member_codes
from hctrellis.posterior.sample import draw

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, IntArray, SmallArray
    from hctrellis.trellis.solution import Solution

AT_ONCE = 256  # trees drawn ahead


class Redraws:
    """The trees of a sparse trellis that holds every split between its clusters."""

    def __init__(self, solution: Solution, rng: np.random.Generator) -> None:
        self._solution = solution
        self._rng = rng
        self._codes = member_codes(solution.vertices.members)
        self._order = np.argsort(self._codes)
        self._sorted = self._codes[self._order]
        self._ready: list[SmallArray] = []

    def hold(self, codes: IntArray) -> BoolArray:
        """Whether the trellis has all clusters of each tree; codes : int64 (..., m)."""
        return np.asarray((self._sorted[self._find(codes)] == codes).all(axis=-1))

    def _find(self, codes: IntArray) -> IntArray:
        return np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)

    def draw(self, size: int) -> SmallArray:
        """Trees drawn independently from the trellis, as children."""
        sample = draw(self._solution, size, self._rng)
        n, m = self._solution.potential.n_leaves, len(self._codes)
        parents, lefts = sample.clusters[:, ::-1], sample.lefts[:, ::-1]
        rights = self._order[self._find(self._codes[parents] ^ self._codes[lefts])]
        rows = np.arange(size)[:, None]
        keys = (rows * m + parents).ravel()  # in increasing order: children before parents

        def node(numbers: IntArray) -> IntArray:
            place = np.searchsorted(keys, (rows * m + numbers).ravel()).reshape(numbers.shape)
            return np.where(numbers < n, numbers, n + place - rows * (n - 1))

        return np.stack([node(lefts), node(rights)], axis=-1).astype(np.int16)

    def renew(self, trees: SmallArray) -> SmallArray:
        """The same trees, those of the trellis replaced by fresh draws from it."""
        held = np.flatnonzero(self.hold(cluster_codes(trees)))
        renewed = trees.copy()
        for k in held.tolist():
            if not self._ready:
                self._ready = list(self.draw(AT_ONCE))
            renewed[k] = self._ready.pop()
        return renewed
