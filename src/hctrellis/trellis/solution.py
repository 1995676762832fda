"""What the upward pass over the full lattice leaves behind, and what follows from it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import n_trees
from hctrellis.logs import LOG2E, TIE
from hctrellis.potentials.base import Potential
from hctrellis.tree import Tree
from hctrellis.trellis import levels
from hctrellis.trellis.blocks import Blocks
from hctrellis.trellis.terms import Terms

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray


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

    @abstractmethod
    def split_log_weights(self, parents: IntArray, lefts: IntArray) -> FloatArray:
        """Log psi of all splits of parents of equal size, listed one parent after the other."""

    @abstractmethod
    def around(self, amounts: FloatArray | None = None) -> FloatArray:
        """The expectation of a number of the parent, over the trees that have a cluster.

        amounts[P] q(P -> S, R) summed over all R, where q is the probability of a split given its
        parent P. Without amounts: the probability of each cluster, amounts being the result.
        """

    @property
    def root(self) -> int:
        """The cluster of all leaves."""
        return self.best.size - 1

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

    @cached_property
    def probabilities(self) -> FloatArray:
        """The probability that a tree has the cluster, for every mask; 1 for leaves and root."""
        probabilities = self.around()
        probabilities[self.root] = 1.0
        probabilities[1 << np.arange(self.potential.n_leaves)] = 1.0
        return np.minimum(probabilities, 1.0, out=probabilities)

    def splits(self, parents: IntArray) -> tuple[IntArray, FloatArray]:
        """All splits of parents of equal size: the child with the lowest leaf, and log psi."""
        from hctrellis.kernels import levels as kernel

        each = (1 << (int(parents[0]).bit_count() - 1)) - 1
        lefts = np.empty(len(parents) * each, np.int64)
        kernel.list_splits(parents, lefts)
        return lefts, self.split_log_weights(parents, lefts)

    def split_probabilities(self, parents: IntArray) -> tuple[IntArray, FloatArray]:
        """All splits of parents of equal size, and their probabilities given the parent."""
        from hctrellis.kernels import levels as kernel

        lefts, weights = self.splits(parents)
        kernel.split_probabilities(parents, lefts, weights, self.best, self.rest)
        return lefts, weights

    def split_log_probability(self, parent: int, left: int) -> float:
        """The log probability of one split of a cluster, given the cluster."""
        right = parent ^ left
        if 0.0 in (self.rest[left], self.rest[right], self.rest[parent]):
            return -math.inf
        x = float(self.split_log_weights(np.array([parent]), np.array([left]))[0])
        powers = self.best[left] + self.best[right] - self.best[parent]
        rests = math.log(self.rest[left]) + math.log(self.rest[right]) - math.log(self.rest[parent])
        return x + float(powers) / LOG2E + rests

    def log_weight_moments(self, other: FullSolution | None = None) -> tuple[float, float]:
        """Mean and variance of the log weight of a tree (under another potential, if given)."""
        from hctrellis.kernels import levels as kernel

        of = other or self
        mean, variance = np.zeros(self.best.size), np.zeros(self.best.size)
        for size, parents in enumerate(levels.levels(self.potential.n_leaves), start=2):
            for chunk, _ in levels.chunks(parents, size):
                lefts, probabilities = self.split_probabilities(chunk)
                values = of.split_log_weights(chunk, lefts)
                kernel.moments(chunk, lefts, probabilities, values, mean, variance)
        return float(mean[-1]) + of.constant, float(variance[-1])


@dataclass(frozen=True)
class CompiledSolution(FullSolution):
    """An upward pass with the compiled kernels."""

    terms: Terms
    threads: int

    @property
    def constant(self) -> float:
        return self.terms.constant

    def best_split(self, parent: int) -> int:
        terms = self.terms
        params = terms.root_params if parent == self.best.size - 1 else terms.params
        kernel = terms.kernel(*terms.upward)
        tables = (terms.features, self.best, self.rest, terms.node)
        return int(kernel.best_split(parent, tables, params, terms.low_bits, terms.cross))

    def split_log_weights(self, parents: IntArray, lefts: IntArray) -> FloatArray:
        terms = self.terms
        log_weights = np.empty(lefts.size)
        terms.kernel("weights", "scalar").weigh_splits(
            parents,
            lefts,
            terms.features,
            terms.node,
            terms.params,
            terms.root_params,
            terms.distances,
            log_weights,
        )
        return log_weights

    def around(self, amounts: FloatArray | None = None) -> FloatArray:
        terms = self.terms
        tables = (terms.features, self.best, self.rest, terms.node)
        kernel = terms.kernel("weights", "outside")
        target = np.zeros(self.best.size)
        source = target
        if amounts is not None:
            source = np.zeros(self.best.size)
            np.divide(amounts, self.rest, out=source, where=self.rest > 0)
        at_root = (1.0 if amounts is None else float(amounts[-1])) / max(self.rest[-1], 1.0)
        kernel.root_splits(tables, terms.root_params, terms.low_bits, terms.cross, at_root, target)

        def solve(highs: IntArray) -> int:
            kernel.solve_around(
                highs, terms.low_bits, tables, terms.cross, terms.params, source, target
            )
            return 0

        blocks = Blocks(self.potential.n_leaves, terms.low_bits)
        blocks.visit(solve, lambda result, cost: None, self.threads, downward=True)
        target *= self.rest
        return target

    @cached_property
    def n_trees(self) -> int:
        terms, size = self.terms, self.best.size
        if not (terms.forbids_clusters or terms.forbids_splits):
            return n_trees(self.potential.n_leaves)
        codes = terms.codes if terms.forbids_splits else ()
        features = terms.features if codes else np.empty((0, size))
        params = (terms.params, terms.root_params) if codes else ((), ())
        count, modulo = np.zeros(size), np.zeros(size, np.uint64)
        kernel = replace(terms, codes=codes).kernel("weights", "scalar")
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

    def split_log_weights(self, parents: IntArray, lefts: IntArray) -> FloatArray:
        return self.weights(parents, lefts)

    def around(self, amounts: FloatArray | None = None) -> FloatArray:
        from hctrellis.kernels import levels as kernel

        target = np.zeros(self.best.size)
        target[self.root] = 1.0
        for size, parents in reversed([*enumerate(levels.levels(self.potential.n_leaves), 2)]):
            for chunk, _ in levels.chunks(parents, size):
                lefts, probabilities = self.split_probabilities(chunk)
                source = target if amounts is None else amounts
                kernel.spread(chunk, lefts, probabilities, source, target)
        if amounts is not None:
            target[self.root] = 0.0
        return target

    def best_split(self, parent: int) -> int:
        lefts, log_weights = self.splits(np.array([parent]))
        total = log_weights * LOG2E + self.best[lefts] + self.best[parent ^ lefts]
        top = total.max()
        return int(lefts[np.argmax(total >= top - TIE * max(1.0, abs(top)))])


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


def exact_count(approximate: float, modulo: int) -> int:
    """The whole number that is `modulo` modulo 2^64 and nearest to an approximate value.

    Right as long as the error of the approximation is below 2^63, so for counts up to about 2^110.

    >>> exact_count(1e30, 12345) % 2**64
    12345
    """
    return modulo + (round((int(approximate) - modulo) / 2**64) << 64)
