"""The full trellis: every cluster and every split of n leaves, hence every tree.

`FullTrellis.solve` runs the upward pass for a potential: for each of the 2^n clusters the best tree
and the partition function, in O(3^n) time. What it returns, a `FullSolution`, answers what a
posterior asks of a trellis.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.clusters import n_splits, n_trees
from hctrellis.memory import TooLargeError, available_memory, show_bytes
from hctrellis.potentials.base import Potential
from hctrellis.tree import Tree, show_cluster
from hctrellis.trellis import levels
from hctrellis.trellis.terms import Terms, assemble, cross_tables

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.tree import FloatArray, IntArray

Progress = Callable[[int, int], None]
"""Called as progress(splits done, splits in all)."""

MAX_LEAVES = 28  # 2^28 clusters: 8 GB, days
LOW_BITS = 5  # leaves in the low part of a mask, see the kernels
LINEAR_LOW_BITS = 8  # the same for the multiply-add kernel
BYTES_PER_CLUSTER = 40  # of the tables and what is needed to build them
TIE = 1e-12  # as in the kernels: log weights closer than this, relative to their size, are equal
CHUNK_SPLITS = 20_000_000  # of one call of a kernel: the time until Ctrl-C is heard


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
        if not isinstance(self.n_leaves, int | np.integer) or self.n_leaves < 1:
            raise ValueError(f"n_leaves must be a whole number, at least 1; got {self.n_leaves!r}")

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
        self, potential: Potential, threads: int | None = None, progress: Progress | None = None
    ) -> FullSolution:
        """Run the upward pass."""
        self._check(potential)
        if levels.needed(potential):
            return _solve_levels(potential, progress or _silent)
        return _Pass(potential, threads or default_threads(), progress or _silent).run()

    def _check(self, potential: Potential) -> None:
        if potential.n_leaves != self.n_leaves:
            raise ValueError(
                f"the potential has {potential.n_leaves} leaves, the trellis {self.n_leaves}"
            )
        available = available_memory()
        if self.n_leaves > MAX_LEAVES or self.n_bytes > available:
            raise TooLargeError(
                f"exact inference over {self.n_leaves} leaves needs about "
                f"{show_bytes(self.n_bytes)} of memory, and {show_bytes(available)} are available "
                f"(at most {MAX_LEAVES} leaves in any case); use fewer leaves, for instance one "
                "per group of near-identical items"
            )


def default_threads() -> int:
    """The number of cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


class _Pass:
    """One upward pass with the compiled kernels."""

    def __init__(self, potential: Potential, threads: int, progress: Progress) -> None:
        self.potential = potential
        self.threads = threads
        self.progress = progress
        self.n_leaves = potential.n_leaves
        terms = assemble(potential)
        self.low_bits = _low_bits(self.n_leaves, terms.linear)
        self.n_high = max(0, self.n_leaves - self.low_bits)
        self.kernel = _kernel(terms.chain, terms.codes)
        features, self.cross = _with_cross(terms, self.low_bits)
        self.terms = terms
        size = 1 << self.n_leaves
        best, rest = np.zeros(size), np.zeros(size)
        rest[1 << np.arange(self.n_leaves)] = 1.0
        self.tables = (features, best, rest, terms.node)
        self.done = 0

    def run(self) -> FullSolution:
        terms = self.terms
        low = min(self.low_bits, self.n_leaves)
        bad = self.kernel.solve_low(
            low, self.tables, terms.params, terms.root_params, terms.distances
        )
        self._advance(bad, n_splits(low))
        if self.threads == 1:
            for _, chunks in self._levels():
                for chunk, cost in chunks:
                    self._advance(self._solve(chunk), cost)
        else:
            self._run_threads()
        _, best, rest, _ = self.tables
        return CompiledSolution(self.potential, best, rest, terms)

    def _run_threads(self) -> None:
        """Blocks of one level are independent of each other; levels wait for each other."""
        pool = ThreadPoolExecutor(self.threads)
        try:
            for _, chunks in self._levels():
                costs = [(pool.submit(self._solve, chunk), cost) for chunk, cost in chunks]
                for future, cost in costs:
                    self._advance(future.result(), cost)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _solve(self, highs: IntArray) -> int:
        terms = self.terms
        cross = (terms.distances, *self.cross)
        bad: int = self.kernel.solve_blocks(
            highs, self.low_bits, self.tables, cross, terms.params, terms.root_params
        )
        return bad

    def _advance(self, bad: int, cost: int) -> None:
        if bad:
            raise ValueError(_name_bad_split(self.potential, int(bad)))
        self.done += cost
        self.progress(self.done, n_splits(self.n_leaves))

    def _levels(self) -> Iterator[tuple[int, list[tuple[IntArray, int]]]]:
        """The high parts by number of bits, each level cut into chunks with their costs."""
        parts = np.arange(1 << self.n_high)
        bits = np.bitwise_count(parts) if hasattr(np, "bitwise_count") else _bit_counts(parts)
        for level in range(1, self.n_high + 1):
            highs = parts[bits == level]
            each = _block_splits(level, self.low_bits)
            size = max(4, min(CHUNK_SPLITS // each, -(-len(highs) // (4 * self.threads))))
            size = -(-size // 4) * 4
            chunks = [highs[i : i + size] for i in range(0, len(highs), size)]
            yield level, [(chunk, each * len(chunk)) for chunk in chunks]


def _low_bits(n_leaves: int, linear: bool) -> int:
    """How many of the leaves are in the low part of a mask."""
    if linear:
        return min(LINEAR_LOW_BITS, max(2, n_leaves // 2))
    return min(LOW_BITS, max(2, n_leaves - 5))


def _silent(done: int, total: int) -> None:
    """No progress is shown."""


def _bit_counts(masks: IntArray) -> IntArray:
    return np.array([int(mask).bit_count() for mask in masks])


def _block_splits(level: int, low_bits: int) -> int:
    """Number of splits of the 2^low_bits clusters with a given high part of `level` bits."""
    return int((3**low_bits * 2**level - 2 * 2**low_bits) // 2)


def _with_cross(terms: Terms, low_bits: int) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """The features, with the table of extreme distances as the last one if it is needed."""
    for code in terms.codes:
        if code.cross is not None:
            tables = cross_tables(code, terms.distances, low_bits)
            return np.vstack([terms.features, tables.between]), (tables.near, tables.low)
    return terms.features, (np.empty((0, 0)), np.empty((0, 0)))


def _name_bad_split(potential: Potential, parent: int) -> str:
    """Which split of a cluster has a weight that is not a number, in words."""
    lefts = submasks(parent)
    n = potential.n_leaves
    left = (lefts[:, None] >> np.arange(n)) & 1 == 1
    right = ((parent ^ lefts)[:, None] >> np.arange(n)) & 1 == 1
    weights = potential.split_log_weights(left, right)
    bad = np.flatnonzero(np.isnan(weights) | (weights == np.inf))
    k = int(bad[0]) if len(bad) > 0 else 0
    one, other = int(lefts[k]), parent ^ int(lefts[k])
    return (
        f"the log weight of the split {show_cluster(one, potential.labels)} | "
        f"{show_cluster(other, potential.labels)} is {weights[k]}; it must be a finite number, "
        "or -inf to forbid the split"
    )


def submasks(parent: int) -> IntArray:
    """The proper submasks of a mask that hold its lowest bit, in increasing order."""
    first = parent & -parent
    masks = np.array([first])
    rest = parent ^ first
    while rest:
        bit = rest & -rest
        masks = np.concatenate([masks, masks | bit])
        rest ^= bit
    return masks[:-1]


def _solve_levels(potential: Potential, progress: Progress) -> FullSolution:
    """The upward pass with log weights from NumPy."""
    from hctrellis.kernels import levels as kernel

    weights = levels.LevelWeights(potential)
    n = potential.n_leaves
    best, rest, count = np.zeros(1 << n), np.zeros(1 << n), np.zeros(1 << n)
    modulo = np.zeros(1 << n, np.uint64)
    leaves = 1 << np.arange(n)
    rest[leaves] = count[leaves] = 1.0
    modulo[leaves] = 1
    done = 0
    for size, parents in enumerate(levels.levels(n), start=2):
        for chunk, cost in levels.chunks(parents, size):
            lefts = np.empty(cost, np.int64)
            kernel.list_splits(chunk, lefts)
            bad = kernel.absorb(chunk, lefts, weights(chunk, lefts), best, rest, count, modulo)
            if bad >= 0:
                raise ValueError(_name_bad_split(potential, int(chunk[bad * len(chunk) // cost])))
            done += cost
            progress(done, n_splits(n))
    trees = exact_count(float(count[-1]), int(modulo[-1]))
    return LevelSolution(potential, best, rest, weights, trees)


@dataclass(frozen=True)
class FullSolution(ABC):
    """The upward pass over the full lattice, for one potential.

    Attributes
    ----------
    best : float64 array, shape (2^n,)
        log2 of the largest weight of a tree over each cluster; very negative if there is none.
    rest : float64 array, shape (2^n,)
        Z of each cluster divided by 2^best.
    """

    potential: Potential
    best: FloatArray
    rest: FloatArray

    @property
    def constant(self) -> float:
        """What the tables leave out of the log weight of every tree."""
        return 0.0

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """The exact number of trees of non-zero weight."""

    @abstractmethod
    def best_split(self, parent: int) -> int:
        """The child with the lowest leaf of the best split of a cluster.

        Among splits whose log weights agree to 1e-12, relative to their size, the one in which
        that child is the smallest number.
        """

    @property
    def log_partition(self) -> float:
        """log Z over all trees."""
        if self.rest[-1] == 0:
            return -math.inf
        return float(self.best[-1] * math.log(2) + math.log(self.rest[-1])) + self.constant

    @cached_property
    def map_tree(self) -> Tree:
        """The best tree, traced from the root."""
        masks = [(1 << self.potential.n_leaves) - 1]
        clusters = []
        while masks:
            mask = masks.pop()
            if mask & (mask - 1):
                clusters.append(mask)
                left = self.best_split(mask)
                masks += [left, mask ^ left]
        return Tree.from_clusters(clusters, labels=self.potential.labels)


@dataclass(frozen=True)
class CompiledSolution(FullSolution):
    """An upward pass with the compiled kernels."""

    terms: Terms

    @property
    def constant(self) -> float:
        return self.terms.constant

    def best_split(self, parent: int) -> int:
        terms = self.terms
        params = terms.root_params if parent == self.best.size - 1 else terms.params
        kernel = _kernel(terms.chain, terms.codes)
        return int(kernel.best_split(parent, terms.features, self.best, params, terms.distances))

    @cached_property
    def n_trees(self) -> int:
        terms, size = self.terms, self.best.size
        if not (terms.forbids_clusters or terms.forbids_splits):
            return n_trees(self.potential.n_leaves)
        codes = terms.codes if terms.forbids_splits else ()
        features = terms.features if codes else np.empty((0, size))
        params = (terms.params, terms.root_params) if codes else ((), ())
        count, modulo = np.zeros(size), np.zeros(size, np.uint64)
        kernel = _kernel(("weights", "scalar"), codes)
        kernel.count_trees(features, terms.node, *params, terms.distances, count, modulo)
        return exact_count(float(count[-1]), int(modulo[-1]))


@dataclass(frozen=True)
class LevelSolution(FullSolution):
    """An upward pass with log weights from NumPy."""

    weights: levels.LevelWeights
    trees: int

    @property
    def n_trees(self) -> int:
        return self.trees

    def best_split(self, parent: int) -> int:
        lefts = submasks(parent)
        log_weights = self.weights(np.array([parent]), lefts) / math.log(2)
        total = log_weights + self.best[lefts] + self.best[parent ^ lefts]
        top = total.max()
        return int(lefts[np.argmax(total >= top - TIE * max(1.0, abs(top)))])


def _kernel(chain: Sequence[str], codes: Sequence[SplitCode]) -> Any:
    from hctrellis.kernels.bind import bind

    return bind(chain, codes)


def exact_count(approximate: float, modulo: int) -> int:
    """The whole number that is `modulo` modulo 2^64 and nearest to an approximate value.

    Right as long as the error of the approximation is below 2^63, so for counts up to about 2^110.

    >>> exact_count(1e30, 12345) % 2**64
    12345
    """
    return modulo + (round((int(approximate) - modulo) / 2**64) << 64)
