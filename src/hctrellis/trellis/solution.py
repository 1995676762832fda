"""What the upward pass over a trellis leaves behind, and what follows from it.

A `Solution` answers what a posterior asks of any trellis. Clusters go by number; on the full
lattice the number of a cluster is its mask.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import Lattice, Vertices, n_splits, n_trees
from hctrellis.potentials.base import Potential
from hctrellis.support.logs import FORBIDDEN, LOG2E, NEVER, TIE
from hctrellis.support.steps import check_stop, in_steps, tell_progress
from hctrellis.tree import Tree
from hctrellis.trellis.blocks import Blocks
from hctrellis.trellis.listed import Splits, Weights, lattice_chunks, lattice_splits
from hctrellis.trellis.meanpass import means
from hctrellis.trellis.terms import Terms
from hctrellis.trellis.upward import go_up

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

NOTHING = 1e-250  # compiled exponentials end at 2^-960: smaller probabilities count as 0
PRIMES_AT_ONCE = 8
MOST_ROUND = 16  # leaves: (2n - 3)!! is below 2^53
MOST_POWERS = 3000  # log2 of a weight: the mean by sums over clusters is then right to 1e-9
MOST_RANKED = 20  # the same for `count_ordered`, whose tables take n numbers per cluster
ROUNDING = 1e-9  # of the sum of the probabilities of all trees that have a cluster
ENTRIES_AT_ONCE = 1 << 20  # of a matrix of clusters and leaves

Weighed = Callable[[], Iterable[tuple[Splits, "FloatArray"]]]
"""Lists all splits, chunk by chunk, with their log weights."""


@dataclass(frozen=True)
class Solution(ABC):
    """The upward pass over a trellis, for one potential.

    Attributes
    ----------
    best : float64 array, one per cluster
        log2 of the largest weight of a tree over each cluster; very negative if there is none.
    scale, rest : float64 arrays, one per cluster
        Z of each cluster is rest * 2^scale.
    """

    potential: Potential
    best: FloatArray
    scale: FloatArray
    rest: FloatArray

    @property
    @abstractmethod
    def vertices(self) -> Vertices:
        """The clusters."""

    @abstractmethod
    def chunks(self) -> Iterator[IntArray]:
        """The clusters that can be split, children before parents, the root alone."""

    @abstractmethod
    def splits(self, parents: IntArray) -> Splits:
        """All splits of one cluster, or of those of a chunk."""

    @abstractmethod
    def log_weights(self, splits: Splits) -> FloatArray:
        """Log psi of splits; -inf if the trellis does not have one."""

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """The exact number of trees of non-zero weight."""

    def shares(self, splits: Splits) -> FloatArray:
        """An array for what each split adds to `rest` of its parent, which the pass fills."""
        return np.empty(len(splits.lefts))

    @property
    def constant(self) -> float:
        """What the tables leave out of the log weight of every tree."""
        return 0.0

    @property
    def root(self) -> int:
        """The cluster of all leaves."""
        return self.vertices.root

    @property
    def log_partition(self) -> float:
        """log Z over all trees."""
        if self.rest[-1] == 0:
            return -math.inf
        return float(self.scale[-1] * math.log(2) + math.log(self.rest[-1])) + self.constant

    @property
    def log_spread(self) -> float:
        """log Z less the log weight of the best tree; 0 if there is none."""
        if self.rest[-1] == 0:
            return 0.0
        powers = float(self.scale[-1] - self.best[-1])
        return powers * math.log(2) + math.log(self.rest[-1])

    @cached_property
    def map_tree(self) -> Tree:
        """The best tree, traced from the root."""
        open_clusters = [self.root]
        found = []
        while open_clusters:
            cluster = open_clusters.pop()
            if not self.vertices.single(np.array([cluster]))[0]:
                found.append(cluster)
                open_clusters += self.best_split(cluster)
        masks = self.vertices.masks(np.array(found, np.int64))
        tree = Tree.from_clusters(masks, labels=self.potential.labels)
        return self.potential.with_heights(tree)

    def best_split(self, parent: int) -> tuple[int, int]:
        """The two children of the best split of a cluster, that with the lowest leaf first.

        Among splits whose log weights agree to 1e-12, relative to their size, the one in which
        that child has the smallest number.
        """
        splits = self.splits(np.array([parent]))
        lefts, rights = splits.lefts, splits.rights
        total = self.log_weights(splits) * LOG2E + self.best[lefts] + self.best[rights]
        top = total.max()
        k = int(np.argmax(total >= top - TIE * max(1.0, abs(top))))
        return int(lefts[k]), int(rights[k])

    def around(self, amounts: FloatArray | None = None) -> FloatArray:
        """For each cluster, the amounts of its possible parents, weighted by their splits.

        For a cluster S: amounts[P] q(P -> S, R) summed over all R, where P = S + R and q is the
        probability of a split given its parent. Without amounts: the probability of each cluster,
        amounts being the result.
        """
        from hctrellis.kernels import passes

        target = np.zeros(self.best.size)
        target[self.root] = 1.0
        for chunk in reversed([*self.chunks()]):
            splits = self.splits(chunk)
            source = target if amounts is None else amounts
            passes.spread(*splits, self.split_probabilities(splits), source, target)
        if amounts is not None:
            target[self.root] = 0.0
        return target

    @cached_property
    def probabilities(self) -> FloatArray:
        """The probability that a tree has the cluster, for each; 1 for leaves and root."""
        probabilities = self.around()
        probabilities[probabilities < NOTHING] = 0.0
        probabilities[self.root] = 1.0
        probabilities[self.vertices.leaves] = 1.0
        np.minimum(probabilities, 1.0, out=probabilities)
        probabilities[certain(self.vertices, probabilities)] = 1.0
        return probabilities

    @cached_property
    def growth(self) -> FloatArray:
        """For each cluster, its probability times the expected number of leaves of its sibling."""
        p, sizes = self.probabilities, self.vertices.sizes
        grows = self.around(p * sizes) - sizes * p
        grows[self.root] = 0.0
        return grows

    def split_probabilities(self, splits: Splits) -> FloatArray:
        """The probabilities of splits given their parents."""
        from hctrellis.kernels import passes

        weights = self.log_weights(splits)
        probabilities = np.empty(len(weights))
        passes.split_probabilities(*splits, weights, self.scale, self.rest, probabilities)
        return probabilities

    def split_log_probability(self, parent: int, left: int, right: int) -> float:
        """The log probability of one split of a cluster, given the cluster."""
        clusters = (left, right, parent)
        if any(self.rest[cluster] == 0 for cluster in clusters):
            return -math.inf
        x = float(self.log_weights(_one_split(parent, left, right))[0])
        powers = self.scale[left] + self.scale[right] - self.scale[parent]
        rests = math.log(self.rest[left]) + math.log(self.rest[right]) - math.log(self.rest[parent])
        return x + float(powers) / LOG2E + rests

    @cached_property
    def entropy(self) -> float:
        """The entropy of the trees, each with its share of Z, in nats."""
        return max(0.0, self.log_partition - self.moments[0])

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the log weight of a tree."""
        return self.log_weight_moments()

    def log_weight_moments(self, other: Solution | None = None) -> tuple[float, float]:
        """Mean and variance of the log weight of a tree (under another potential, if given)."""
        from hctrellis.kernels import passes

        of = other or self
        mean, variance = np.zeros(self.best.size), np.zeros(self.best.size)
        for chunk in self.chunks():
            check_stop()
            splits = self.splits(chunk)
            values = of.log_weights(splits)
            passes.moments(*splits, self.split_probabilities(splits), values, mean, variance)
        return float(mean[-1]) + of.constant, float(variance[-1])


def certain(vertices: Vertices, probabilities: FloatArray) -> IntArray:
    """The clusters that every tree has: no cluster of positive probability crosses them.

    Sums of probabilities are rounded; this tells 1 from slightly less.
    """
    doubtful = (probabilities < 1) & (probabilities > 1 - ROUNDING)
    near, possible = np.flatnonzero(doubtful), np.flatnonzero(probabilities)
    inside = vertices.rows(near).astype(np.float32)
    step = max(1, ENTRIES_AT_ONCE // vertices.n_leaves)
    for start in range(0, len(possible), step):
        if len(near) == 0:
            break
        rows = vertices.rows(possible[start : start + step]).astype(np.float32)
        shared = rows @ inside.T
        crossing = (shared > 0) & (shared < inside.sum(axis=1)) & (rows.sum(axis=1) > shared.T).T
        near, inside = near[~crossing.any(axis=0)], inside[~crossing.any(axis=0)]
    return near


def _one_split(parent: int, left: int, right: int) -> Splits:
    numbers = (np.array([number]) for number in (parent, left, right))
    parents, lefts, rights = numbers
    return Splits(parents, np.array([0, 1]), lefts, rights)


# ---- the full lattice -------------------------------------------------------------------------


class FullSolution(Solution):
    """An upward pass over the full lattice."""

    @property
    def vertices(self) -> Lattice:
        return Lattice(self.potential.n_leaves)

    def chunks(self) -> Iterator[IntArray]:
        return lattice_chunks(self.potential.n_leaves)

    def splits(self, parents: IntArray) -> Splits:
        return lattice_splits(parents)


@dataclass(frozen=True)
class CompiledSolution(FullSolution):
    """An upward pass with the compiled kernels; scale is best."""

    terms: Terms
    threads: int

    @property
    def constant(self) -> float:
        return self.terms.constant

    def best_split(self, parent: int) -> tuple[int, int]:
        terms = self.terms
        params = terms.root_params if parent == self.root else terms.params
        kernel = terms.kernel(*terms.upward)
        tables = (terms.features, self.best, self.rest, terms.node)
        left = int(kernel.best_split(parent, tables, params, terms.low_bits, terms.cross))
        return left, parent ^ left

    def log_weights(self, splits: Splits) -> FloatArray:
        terms = self.terms
        log_weights = np.empty(splits.lefts.size)
        terms.kernel("weights", "scalar").weigh_splits(
            *splits,
            terms.features,
            terms.node,
            terms.params,
            terms.root_params,
            terms.distances,
            log_weights,
        )
        return log_weights

    @cached_property
    def entropy(self) -> float:
        if not self.terms.codes and abs(self.best[-1]) < MOST_POWERS:
            gap = self._mean_gap()
        else:
            gap = float(means(self, self.terms, np.zeros(self.best.size))[self.root])
        return max(0.0, self.log_spread + gap / LOG2E)

    def _mean_gap(self) -> float:
        """How far log2 of a tree's weight is below that of the best one, on average.

        For potentials that are sums over clusters. Clusters that all trees have cancel.
        """
        if self.terms.node.size == 0:
            return 0.0
        p = self.around()
        tree = self.map_tree
        masks = [1 << leaf for leaf in range(tree.n_leaves)]
        for left, right in tree.children.tolist():
            masks.append(masks[left] | masks[right])
        p[self.root] = 1.0
        p[masks[tree.n_leaves :]] -= 1.0
        p[masks[: tree.n_leaves]] = 0.0  # leaves are not split
        return -float((p * np.where(p != 0.0, self.terms.node, 0.0)).sum())

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
        shared = (terms.low_bits, terms.cross)
        kernel.root_splits(tables, terms.root_params, *shared, at_root, target)

        def solve(highs: IntArray) -> int:
            kernel.solve_around(
                highs, terms.low_bits, tables, terms.cross, terms.params, source, target
            )
            return 0

        finished, total = 0, n_splits(self.potential.n_leaves)

        def advance(result: int, cost: int) -> None:
            nonlocal finished
            finished += cost
            tell_progress(finished, total)

        blocks = Blocks(self.potential.n_leaves, terms.low_bits)
        blocks.visit(solve, advance, self.threads, downward=True)
        target *= self.rest
        return target

    @cached_property
    def n_trees(self) -> int:
        terms, n = self.terms, self.potential.n_leaves
        if not (terms.forbids_clusters or terms.forbids_splits):
            return n_trees(n)
        if terms.forbids_splits or n > MOST_RANKED:
            return self._count_one_by_one()
        node = np.where(terms.node > FORBIDDEN, 0.0, NEVER)
        plain = replace(terms, codes=(), features=np.empty((0, node.size)), node=node, linear=True)
        plain = replace(plain, params=(), root_params=(), distances=np.empty((0, 0)))
        _best, counts = go_up(plain, n, self.threads, lambda bad, cost: None)
        if n <= MOST_ROUND:
            return int(counts[-1])
        from hctrellis.kernels.ranked import count_ordered

        sums = np.zeros((n, node.size), np.uint64)
        ordered = int(count_ordered(node == 0, self.vertices.sizes, sums))
        return exact_count(counts[-1], {2 ** (65 - n): ordered >> (n - 1)})

    def _count_one_by_one(self) -> int:
        terms, size = self.terms, self.best.size
        codes = terms.codes if terms.forbids_splits else ()
        features = terms.features if codes else np.empty((0, size))
        params = (terms.params, terms.root_params) if codes else ((), ())
        counts = (np.zeros(size), np.zeros(size, np.uint64), np.zeros(size, np.uint16))
        kernel = replace(terms, codes=codes).kernel("weights", "scalar")
        for start, stop in in_steps(1, size):
            kernel.count_trees(start, stop, features, terms.node, *params, terms.distances, counts)
        count, *remainders = (array[-1].item() for array in counts)
        return exact_count(count, dict(zip((2**64, kernel.PRIME), remainders, strict=True)))


@dataclass(frozen=True)
class NumpySolution(FullSolution):
    """An upward pass with log weights from NumPy."""

    weights: Weights

    def log_weights(self, splits: Splits) -> FloatArray:
        return self.weights(splits)

    @cached_property
    def n_trees(self) -> int:
        def weighed() -> Iterator[tuple[Splits, FloatArray]]:
            for chunk in self.chunks():
                splits = self.splits(chunk)
                yield splits, self.log_weights(splits)

        return count_trees(weighed, self.vertices, math.log2(n_trees(self.potential.n_leaves)))


# ---- exact counts -----------------------------------------------------------------------------


def count_trees(weighed: Weighed, vertices: Vertices, log2_bound: float) -> int:
    """The exact number of trees of non-zero weight, which is at most 2^log2_bound.

    It is counted modulo as many primes as it takes to know it (Chinese remainder theorem).
    """
    from hctrellis.kernels import passes

    primes = _primes(2 + int(log2_bound / 30))
    count, modulus = 0, 1
    for start in range(0, len(primes), PRIMES_AT_ONCE):
        some = np.array(primes[start : start + PRIMES_AT_ONCE])
        remainders = np.zeros((len(some), len(vertices)), np.int64)
        remainders[:, vertices.leaves] = 1
        for splits, log_weights in weighed():
            passes.count(*splits, log_weights, some, remainders)
        for prime, remainder in zip(some.tolist(), remainders[:, -1].tolist(), strict=True):
            count, modulus = _join(count, modulus, remainder, prime)
    return count


def _join(count: int, modulus: int, remainder: int, other: int) -> tuple[int, int]:
    """The number that is `count` mod `modulus` and `remainder` mod `other`; the joint modulus."""
    step = (remainder - count) * pow(modulus, -1, other) % other
    return count + modulus * step, modulus * other


@cache
def _primes(count: int) -> list[int]:
    """The largest primes below 2^31."""
    divisors = np.arange(3, math.isqrt(2**31) + 1, 2)
    found: list[int] = []
    candidate = 2**31 - 1
    while len(found) < count:
        if (candidate % divisors).all():
            found.append(candidate)
        candidate -= 2
    return found


def exact_count(approximate: float, remainders: Mapping[int, int]) -> int:
    """The whole number nearest to an approximate value with given remainders, by their moduli.

    Right as long as the error of the approximation is below half the product of the moduli.

    >>> exact_count(1e30, {2**64: 12345}) % 2**64
    12345
    """
    count, modulus = 0, 1
    for other, remainder in remainders.items():
        count, modulus = _join(count, modulus, remainder, other)
    return count + (int(approximate) - count + modulus // 2) // modulus * modulus
