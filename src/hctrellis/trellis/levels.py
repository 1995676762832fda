"""The upward pass for potentials that only NumPy can evaluate: level by level, in chunks.

All splits of clusters with m leaves are listed, some 100,000 at a time; the potential weighs them
in one call; a compiled loop adds them up. The answers are those of the fused kernels, slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.clusters import Lattice
from hctrellis.potentials.base import Potential, extreme_distances

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray

CHUNK_SPLITS = 1 << 16  # weighed in one call


def needed(potential: Potential) -> bool:
    """Whether some part has no compiled split function (or two parts need extreme distances)."""
    codes = [part.code() for part in potential.parts]
    return None in codes or sum(code is not None and code.cross is not None for code in codes) > 1


class LevelWeights:
    """Log psi of splits given by masks, from feature tables over the full lattice."""

    def __init__(self, potential: Potential) -> None:
        lattice = Lattice(potential.n_leaves)
        self.potential = potential
        self.root = len(lattice) - 1
        self.features = [part.features(lattice) for part in potential.parts]
        self.own = np.zeros(len(lattice))
        with np.errstate(all="ignore"):
            for part in potential.parts:
                own = part.own(lattice)
                if own is not None:
                    self.own += own

    def __call__(self, parents: IntArray, lefts: IntArray) -> FloatArray:
        """Log psi of the splits of `parents` (equal sizes), listed one parent after the other."""
        parent = np.repeat(parents, len(lefts) // len(parents))
        rights = parent ^ lefts
        single = np.array([lefts & (lefts - 1) == 0, rights & (rights - 1) == 0])
        root = bool(parents[0] == self.root)
        total = self.own[parent]
        with np.errstate(all="ignore"):
            for part, table in zip(self.potential.parts, self.features, strict=True):
                left, right, both = (
                    [row.take(masks) for row in table] for masks in (lefts, rights, parent)
                )
                cross = self._cross(part, lefts, rights)
                total += part.evaluate(left, right, both, root, single, cross)
        return total

    def _cross(self, part: Potential, lefts: IntArray, rights: IntArray) -> Any:
        code = part.code()
        if code is None or code.cross is None:
            return None
        bits = np.arange(self.potential.n_leaves)
        left, right = ((masks[:, None] >> bits) & 1 == 1 for masks in (lefts, rights))
        return extreme_distances(part, left, right)


def levels(n_leaves: int) -> list[IntArray]:
    """The clusters of 2, 3, ... n leaves."""
    sizes = Lattice(n_leaves).sizes
    return [np.flatnonzero(sizes == m) for m in range(2, n_leaves + 1)]


def chunks(parents: IntArray, size: int) -> list[tuple[IntArray, int]]:
    """Clusters of `size` leaves in chunks, with the number of splits of each chunk."""
    each = (1 << (size - 1)) - 1
    step = max(1, CHUNK_SPLITS // each)
    parts = [parents[i : i + step] for i in range(0, len(parents), step)]
    return [(part, each * len(part)) for part in parts]
