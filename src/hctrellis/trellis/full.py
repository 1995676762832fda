"""The full trellis: every cluster and every split of n leaves, hence every tree.

`FullTrellis.solve` runs the upward pass for a potential: for each of the 2^n clusters the best tree
and the partition function, in O(3^n) time. What it returns, a `FullSolution`, answers what a
posterior asks of a trellis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import FEW_LEAVES, ClusterList, Lattice, n_splits, n_trees, show_cluster
from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_count
from hctrellis.support.logs import LARGEST
from hctrellis.support.memory import SMALL, TooLargeError, available_memory, show_bytes
from hctrellis.support.progress import Progress, followed
from hctrellis.support.steps import check_stop
from hctrellis.support.threads import default_threads
from hctrellis.support.types import BoolArray
from hctrellis.trellis.listed import Weights, is_fusable, lattice_splits
from hctrellis.trellis.solution import CompiledSolution, FullSolution, NumpySolution, Solution
from hctrellis.trellis.terms import assemble
from hctrellis.trellis.upward import go_up

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

MAX_LEAVES = 28  # 2^28 clusters, 1e13 splits: a night
THREADED_SPLITS = 1_000_000  # below, threads cost more than they save
LOW_BITS = 6  # leaves in the low part of a mask, see the kernels
LINEAR_LOW_BITS = 8  # the same for the multiply-add kernel
LEAST_LOW_BITS = 3  # low parts are read eight at a time
BYTES_PER_CLUSTER = 40  # of the tables and what is needed to build them, for two features
BYTES_PER_FEATURE = 16  # for each further one


@dataclass(frozen=True)
class FullTrellis:
    """All clusters and splits of n leaves.

    Examples
    --------
    >>> trellis = FullTrellis(4)
    >>> trellis.n_clusters, trellis.n_splits, trellis.n_trees
    (15, 25, 15)
    """

    n_leaves: int

    def __post_init__(self) -> None:
        as_count(self.n_leaves, "n_leaves")

    @property
    def n_clusters(self) -> int:
        """Number of clusters, single leaves included: 2^n - 1."""
        return (1 << self.n_leaves) - 1

    @property
    def n_splits(self) -> int:
        """Number of pairs (cluster, split of it): (3^n - 2^(n+1) + 1) / 2."""
        return n_splits(self.n_leaves)

    @property
    def n_trees(self) -> int:
        """Number of trees: (2n - 3)!!."""
        return n_trees(self.n_leaves)

    @property
    def log_n_trees(self) -> float:
        """Logarithm of the number of trees."""
        return math.log(self.n_trees)

    @property
    def sparsity(self) -> float:
        """Fraction of all trees that the trellis holds: 1."""
        return 1.0

    @property
    def n_bytes(self) -> int:
        """An upper estimate of the memory that `solve` needs."""
        return BYTES_PER_CLUSTER << self.n_leaves

    def solve(
        self,
        potential: Potential,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> FullSolution:
        """Run the upward pass."""
        potential.check()
        self._check(potential)
        few = self.n_splits < THREADED_SPLITS
        chosen = threads or (1 if few else default_threads())
        with followed(progress, "splits") as report:
            if not is_fusable(potential):
                return _solve_numpy(potential, report)
            return _solve_compiled(potential, chosen, report)

    def _check(self, potential: Potential) -> None:
        if potential.n_leaves != self.n_leaves:
            raise ValueError(
                f"the potential has {potential.n_leaves} leaves, the trellis {self.n_leaves}"
            )
        if self.n_leaves <= FEW_LEAVES:
            return
        everyone = ClusterList(np.ones((1, self.n_leaves), bool))
        rows = sum(len(part.describe(everyone).features) for part in potential.parts)
        more = max(0, rows - 2)
        needed = self.n_bytes + (more * BYTES_PER_FEATURE << self.n_leaves)
        if needed <= SMALL:
            return
        available = available_memory()
        if self.n_leaves > MAX_LEAVES or needed > available:
            raise TooLargeError(
                f"exact inference over {self.n_leaves} leaves needs about "
                f"{show_bytes(needed)} of memory, and {show_bytes(available)} are available "
                f"(at most {MAX_LEAVES} leaves in any case); use fewer leaves, or a sparse "
                "trellis: infer(potential, trellis=grow(potential))",
                lasting=f"exact inference over {self.n_leaves} leaves needs about "
                f"{show_bytes(needed)} of memory, more than there is; lower max_leaves",
            )


def _solve_compiled(potential: Potential, threads: int, progress: Progress) -> FullSolution:
    """The upward pass with the compiled kernels."""
    n = potential.n_leaves
    terms = assemble(potential, _low_bits)
    finished, total = 0, n_splits(n)

    def advance(bad: int, cost: int) -> None:
        nonlocal finished
        if bad:
            splits = lattice_splits(np.array([int(bad)]))
            left, right = (Lattice(n).rows(side) for side in (splits.lefts, splits.rights))
            raise ValueError(name_bad_split(potential, left, right))
        finished += cost
        progress(min(finished, total), total)

    best, rest = go_up(terms, n, threads, advance)
    return CompiledSolution(potential, best, best, rest, terms, threads)


def _low_bits(n_leaves: int, linear: bool) -> int:
    """How many of the leaves are in the low part of a mask."""
    if linear:
        most, wanted = LINEAR_LOW_BITS, n_leaves // 2
    else:
        most, wanted = LOW_BITS, n_leaves - 6
    return min(most, max(LEAST_LOW_BITS, wanted), n_leaves)


def name_bad_split(potential: Potential, left: BoolArray, right: BoolArray) -> str:
    """A message that names the first of some splits whose weight is not valid."""
    weights = potential.split_log_weights(left, right)
    bad = np.flatnonzero(bad_log_weights(weights))
    k = int(bad[0]) if len(bad) > 0 else 0
    one, other = (show_cluster(_mask(side[k]), potential.labels) for side in (left, right))
    return (
        f"the log weight of the split {one} | {other} is {weights[k]}; it must be a number from "
        f"{-LARGEST:g} to {LARGEST:g}, or -inf to forbid the split"
    )


def bad_log_weights(weights: FloatArray) -> BoolArray:
    """Which log weights of splits are not numbers, or out of range."""
    bad: BoolArray = ~(np.abs(weights) <= LARGEST) & (weights != -np.inf)
    return bad


def _mask(row: BoolArray) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(row))


def solve_listed(solution: Solution, total: int, progress: Progress) -> None:
    """The upward pass over listed splits: fills the tables of a solution."""
    from hctrellis.kernels import passes

    solution.rest[solution.vertices.leaves] = 1.0
    done = 0
    for chunk in solution.chunks():
        check_stop()
        splits = solution.splits(chunk)
        weights = solution.log_weights(splits)
        tables = (solution.best, solution.scale, solution.rest)
        bad = passes.absorb(*splits, weights, *tables, solution.shares(splits))
        if bad >= 0:
            sides = (splits.lefts[bad : bad + 1], splits.rights[bad : bad + 1])
            left, right = (solution.vertices.rows(side) for side in sides)
            raise ValueError(name_bad_split(solution.potential, left, right))
        done += len(weights)
        progress(done, total)


def _solve_numpy(potential: Potential, progress: Progress) -> FullSolution:
    """The upward pass with log weights from NumPy."""
    n = potential.n_leaves
    best, scale, rest = (np.zeros(1 << n) for _ in range(3))
    solution = NumpySolution(potential, best, scale, rest, Weights(potential, Lattice(n)))
    solve_listed(solution, n_splits(n), progress)
    return solution
