"""The compiled pass of `kernels.means`: every split of the full lattice once more, with a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import n_splits
from hctrellis.support.steps import tell_progress
from hctrellis.trellis.blocks import Blocks

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray
    from hctrellis.trellis.solution import CompiledSolution
    from hctrellis.trellis.terms import Terms


class MeanPass:
    """The pass over a solution, for some amounts of clusters."""

    def __init__(self, solution: CompiledSolution, terms: Terms, a: FloatArray) -> None:
        self.terms = terms
        self.kernel = terms.kernel("weights", "tiles", "means")
        self.tables = (terms.features, solution.best, solution.rest, terms.node)
        self.amounts = np.divide(a, solution.rest, out=np.zeros(a.size), where=solution.rest > 0)
        self.blocks = Blocks(solution.potential.n_leaves, terms.low_bits)

    def low(self, sums: FloatArray, shares: FloatArray, nested: bool) -> None:
        """Clusters of low leaves only."""
        terms, amounts = self.terms, self.amounts
        params = (terms.params, terms.root_params, terms.distances)
        self.kernel.mean_low(terms.low_bits, self.tables, *params, amounts, sums, shares, nested)

    def high(self, highs: IntArray, sums: FloatArray, shares: FloatArray, nested: bool) -> int:
        """Clusters with some high parts."""
        terms = self.terms
        params = (terms.cross, terms.params, terms.root_params, self.amounts)
        self.kernel.mean_blocks(highs, terms.low_bits, self.tables, *params, sums, shares, nested)
        return 0


def means(solution: CompiledSolution, terms: Terms, own: FloatArray) -> FloatArray:
    """For each cluster, the mean of the sum of a value over the splits of its trees.

    own : what is added for each cluster that is split
    """
    run = MeanPass(solution, terms, np.ones(solution.best.size))
    found, nothing = np.where(run.amounts > 0, own, 0.0), np.empty(0)
    found[solution.vertices.leaves] = 0.0
    finished, total = 0, n_splits(solution.potential.n_leaves)

    def advance(result: int, cost: int) -> None:
        nonlocal finished
        finished += cost
        tell_progress(finished, total)

    run.low(found, nothing, True)
    run.blocks.visit(lambda highs: run.high(highs, found, nothing, True), advance, solution.threads)
    return found
