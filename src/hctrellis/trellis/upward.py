"""The upward pass over the full lattice with the compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import n_splits
from hctrellis.trellis.blocks import Blocks

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray
    from hctrellis.trellis.terms import Terms

Done = Callable[[int, int], None]
"""Called with a cluster of which a split weighs no valid number, or 0, and the splits done."""


def go_up(terms: Terms, n_leaves: int, threads: int, done: Done) -> tuple[FloatArray, FloatArray]:
    """The tables `best` and `rest` of all clusters (see `Solution`)."""
    best, rest = np.zeros(1 << n_leaves), np.zeros(1 << n_leaves)
    rest[1 << np.arange(n_leaves)] = 1.0
    tables = (terms.features, best, rest, terms.node)
    kernel, low_bits = terms.kernel(*terms.upward), terms.low_bits

    def solve(highs: IntArray) -> int:
        bad: int = kernel.solve_blocks(
            highs, low_bits, tables, terms.cross, terms.params, terms.root_params
        )
        return bad

    bad = kernel.solve_low(low_bits, tables, terms.params, terms.root_params, terms.distances)
    done(bad, n_splits(low_bits))
    Blocks(n_leaves, low_bits).visit(solve, done, threads)
    return best, rest
