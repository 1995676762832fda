"""Summaries of a posterior: its best trees in order, credible sets, consensus."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import show_cluster
from hctrellis.posterior.sample import TreeList
from hctrellis.support.logs import FORBIDDEN, LOG2E
from hctrellis.support.memory import check_fits
from hctrellis.support.printable import printable, show_probability
from hctrellis.tree import Tree
from hctrellis.trees.newick import newick_text, quote_label

if TYPE_CHECKING:
    from hctrellis.potentials.base import Potential
    from hctrellis.support.types import FloatArray
    from hctrellis.trellis.solution import Solution

BYTES_PER_SPLIT = 300  # of a ranked tree, with its entries in the queue
CHECKED = 10_000  # trees after which the memory is checked again


# ---- the best trees ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class RankedTrees(TreeList):
    """Trees in decreasing order of probability.

    Attributes
    ----------
    log_weights, probabilities : float64 arrays, shape (size,)
    complete : bool
        Whether these are all the trees that were asked for (see `Posterior.credible_set`).
    """

    log_weights: FloatArray
    probabilities: FloatArray
    complete: bool = True

    def __repr__(self) -> str:
        mass = self.probabilities.sum()
        cut = "" if self.complete else ", cut short"
        return f"RankedTrees({len(self)} trees, {mass:.4g} of the probability{cut})"


_TreeSplits = list[tuple[int, int]]
"""A tree: its clusters with one child of each, from the root down, this child's subtree first."""


class _Ranked(NamedTuple):
    """A tree, and how far its log weight is below the best."""

    loss: float
    splits: _TreeSplits


def rank(
    solution: Solution,
    best: float,
    limit: int,
    enough: Callable[[float], bool] | None = None,
) -> RankedTrees:
    """The best trees in order, up to a limit, or until `enough(probability of the tree)` is True.

    best is the log weight of the best tree.
    """
    n = solution.potential.n_leaves
    rows: list[_TreeSplits] = []
    losses: list[float] = []
    complete = enough is None
    if complete:
        _check_memory(solution, limit)
    for tree in islice(best_first(solution, limit), limit):
        if len(rows) % CHECKED == 0:
            _check_memory(solution, min(limit, CHECKED))
        rows.append(tree.splits)
        losses.append(tree.loss)
        if enough and enough(math.exp(best - tree.loss - solution.log_partition)):
            complete = True
            break
    numbers = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.int64)
    table = numbers.reshape(len(rows), n - 1, 2)
    table = np.take_along_axis(table, np.argsort(-table[:, :, :1], axis=1), axis=1)
    log_weights = best - np.array(losses)
    return RankedTrees(
        solution.potential,
        solution.vertices,
        table[:, :, 0],
        table[:, :, 1],
        log_weights,
        np.exp(log_weights - solution.log_partition),
        complete or len(rows) < limit,
    )


def _check_memory(solution: Solution, count: int) -> None:
    """Refuse this many trees, or all if there are fewer, if they do not fit into memory."""
    n = solution.potential.n_leaves
    if count > CHECKED:
        count = min(count, solution.n_trees)
    check_fits(BYTES_PER_SPLIT * count * n, f"{count} trees of {n} leaves in order", "fewer trees")


def best_first(solution: Solution, limit: int) -> Iterator[_Ranked]:
    """The trees of non-zero weight, the best first, each as it is asked for, up to a limit.

    A tree is the list of choices made at its clusters, root first: how far down the list of
    splits, best first, each choice is. Every tree but the best differs from an earlier one by one
    step down at its last choice that is not the best; the tree handed out is replaced in the
    queue by those that take one more step at that choice or a first step at a later one.
    """
    choices = _Choices(solution, limit)
    order = count()
    queue: list[tuple[float, int, _TreeSplits, int, int]] = []
    loss, splits, last, taken = 0.0, choices.below(solution.root), 0, 0
    while True:
        yield _Ranked(loss, splits)
        for k in range(last, len(splits)):
            losses = choices.losses(splits[k][0])
            if taken + 1 < len(losses):
                more = losses[taken + 1] - losses[taken]
                heapq.heappush(queue, (loss + more, next(order), splits, k, taken + 1))
            taken = 0
        if not queue:
            return
        loss, _, splits, last, taken = heapq.heappop(queue)
        splits = choices.change(splits, last, taken)


class _Listed(NamedTuple):
    """The splits of a cluster, best first. (Views give single numbers faster than arrays.)"""

    lefts: memoryview
    rights: memoryview
    losses: memoryview


class _Choices:
    """The splits of clusters, best first; listed when a cluster is first met.

    The best k trees use only the best k splits of a cluster.
    """

    def __init__(self, solution: Solution, limit: int) -> None:
        self._solution = solution
        self._limit = limit
        self._listed: dict[int, _Listed] = {}
        self._below: dict[int, _TreeSplits] = {k: [] for k in solution.vertices.leaves.tolist()}

    def _list(self, parent: int) -> _Listed:
        if parent not in self._listed:
            solution = self._solution
            splits = solution.splits(np.array([parent]))
            lefts, rights = splits.lefts, splits.rights
            weights = solution.log_weights(splits)
            total = weights * LOG2E + solution.best[lefts] + solution.best[rights]
            kept = np.flatnonzero(total >= self._cut(total))
            order = kept[np.argsort(-total[kept], kind="stable")]
            ranked = total[order]
            losses = (ranked[0] - ranked) / LOG2E
            self._listed[parent] = _Listed(lefts[order].data, rights[order].data, losses.data)
        return self._listed[parent]

    def _cut(self, total: FloatArray) -> float:
        """The log weight of the last split that may be taken."""
        k = len(total) - self._limit
        return max(FORBIDDEN, float(np.partition(total, k)[k]) if k > 0 else FORBIDDEN)

    def losses(self, parent: int) -> memoryview:
        """How far the log weight of each split is below that of the best."""
        return self._list(parent).losses

    def below(self, cluster: int) -> _TreeSplits:
        """The splits of the best tree over a cluster."""
        if cluster not in self._below:
            splits: _TreeSplits = []
            open_clusters = [cluster]
            while open_clusters:
                parent = open_clusters.pop()
                known = self._below.get(parent)
                if known is not None:
                    splits += known
                else:
                    lefts, rights, _ = self._list(parent)
                    splits.append((parent, lefts[0]))
                    open_clusters += [rights[0], lefts[0]]
            self._below[cluster] = splits
        return self._below[cluster]

    def change(self, splits: _TreeSplits, k: int, taken: int) -> _TreeSplits:
        """The splits of a tree with another choice at the k-th cluster, the best ones below it.

        The splits below a cluster follow its own, and every tree over it has equally many.
        """
        parent, _ = splits[k]
        lefts, rights, _ = self._list(parent)
        left, right = lefts[taken], rights[taken]
        changed = [*splits[:k], (parent, left), *self.below(left), *self.below(right)]
        return changed + splits[len(changed) :]


# ---- consensus --------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ConsensusTree:
    """A hierarchy that may split a cluster into more than two parts.

    Attributes
    ----------
    labels : tuple of str
    support : mapping from int to float
        The probability of each cluster (mask), the root included, single leaves not.
    potential : Potential or None
        Where `to_tree` takes heights from.
    """

    labels: tuple[str, ...]
    support: Mapping[int, float]
    potential: Potential | None = field(default=None, compare=False)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.labels)

    def clusters(self) -> frozenset[int]:
        """The masks of all clusters, the root included, single leaves not."""
        return frozenset(self.support)

    @property
    def is_binary(self) -> bool:
        """Whether every cluster is split into two."""
        return len(self.support) == max(1, self.n_leaves) - 1

    def to_tree(self) -> Tree:
        """The same as a `Tree`; an error unless it is binary."""
        if not self.is_binary:
            raise ValueError(
                f"this consensus has {len(self.support)} clusters where a binary tree has "
                f"{self.n_leaves - 1}; lower the threshold, or use the MAP tree"
            )
        tree = Tree.from_clusters(self.support, labels=self.labels)
        return tree if self.potential is None else self.potential.with_heights(tree)

    def children(self) -> dict[int, list[int]]:
        """The parts into which each cluster is split, the one with the first leaf first."""
        nodes = sorted([*self.support, *(1 << i for i in range(self.n_leaves))], key=int.bit_count)
        parts: dict[int, list[int]] = {mask: [] for mask in self.support}
        for k, mask in enumerate(nodes[:-1]):
            parent = next((m for m in nodes[k + 1 :] if m & mask == mask and m != mask), None)
            if parent is not None:
                parts[parent].append(mask)
        return {mask: sorted(found, key=lambda m: m & -m) for mask, found in parts.items()}

    def to_newick(self, support_format: str = ".4g") -> str:
        """Newick text with the probability of each cluster below the root as its label."""
        parts = self.children()
        root = (1 << self.n_leaves) - 1
        names = {1 << i: quote_label(name) for i, name in enumerate(self.labels)}
        for mask, probability in self.support.items():
            names[mask] = "" if mask == root else format(probability, support_format)
        return newick_text(root, lambda mask: parts.get(mask, ()), names)

    def to_text(self, annotate: Callable[[int], str] | None = None) -> str:
        """Draw it for a terminal, a line per node; by default with the probabilities.

        Parameters
        ----------
        annotate : callable, optional
            A function that takes the mask of a cluster and returns the text to show there.

        Examples
        --------
        >>> print(ConsensusTree(("a", "b", "c"), {0b111: 1.0, 0b011: 0.93}).to_text())
        ┐
        ├─┐ 0.93
        │ ├─ a
        │ └─ b
        └─ c
        """
        parts, root = self.children(), (1 << self.n_leaves) - 1
        said = annotate or (lambda m: "" if m == root else show_probability(self.support[m]))
        lines: list[str] = []
        todo = [(root, "", "", "")]
        while todo:
            mask, head, stem, below = todo.pop()
            if mask not in parts:
                name = printable(self.labels[mask.bit_length() - 1])
                lines.append(f"{head}{stem} {name}" if stem else name)
                continue
            lines.append(f"{head}{stem}┐ {said(mask)}".rstrip())
            inner = head + below
            for k, part in reversed([*enumerate(parts[mask])]):
                last = k == len(parts[mask]) - 1
                todo.append((part, inner, "└─" if last else "├─", "  " if last else "│ "))
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown = [show_cluster(mask, self.labels) for mask in sorted(self.support)]
        return f"ConsensusTree({self.n_leaves} leaves, {len(shown)} clusters)"
