"""The search for the best tree of one piece: arrays that grow, budgets that rise, a bound."""

from __future__ import annotations

from itertools import permutations
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.certify.blocks import Node, blocks, merged, nodes_of, two_sides
from hctrellis.support.bounded import (
    AT,
    BEST,
    BOUND,
    DONE,
    LAST,
    MEMO_FULL,
    SPLIT,
    SPLITS_FULL,
    TOP,
    TRIANGLES,
    Lister,
    SearchStack,
)
from hctrellis.support.memory import check_fits

if TYPE_CHECKING:
    from hctrellis.support.bounded import Tables
    from hctrellis.support.types import IntArray

SHARES = (0.5, 1.0)  # of the gap at the start, below which trees are looked for, in turn
STEP_SECONDS = 0.1  # of one call of the kernel
FIRST_SPLITS = 1 << 12  # rows of arrays that are doubled when they are full
FIRST_CLUSTERS = 1 << 10


class Search:
    """A search for a tree of less energy than a known one.

    Attributes
    ----------
    low, high : int
        No tree has less energy than `low`; one is known that has `high`.
    """

    def __init__(self, tables: Tables, high: int) -> None:
        from hctrellis.kernels import branch, memo, rotations
        from hctrellis.kernels.bounds import bound_of

        self._kernel = branch if tables.kind[0] == TRIANGLES else rotations
        self._memory = memo
        self._tables = tables
        n = len(tables.pairs)
        self._root = (1 << n) - 1
        self._lister, self._stack = _lister(n), _stack(n)
        self._memo = np.zeros((FIRST_CLUSTERS, 5), np.int64)
        self.low = min(int(bound_of(self._root, tables)), high)
        self.high = high
        self._gap = high - self.low
        self._start = self.low
        self._round = 0
        self._found = 0  # the left child of a tree that is better than the known one
        self._n_steps = 1000
        self._running = False

    @property
    def done(self) -> bool:
        """Whether no tree is better than the best known."""
        return self.low >= self.high

    @property
    def n_steps(self) -> int:
        """How many partial splits have been looked at."""
        return int(self._stack.counts[2])

    def step(self) -> None:
        """Go on for about a tenth of a second."""
        if self.done:
            return
        if not self._running:
            self._begin()
        began = perf_counter()
        state = self._kernel.search(
            self._n_steps, self._tables, self._lister, self._stack, self._memo
        )
        took = max(perf_counter() - began, 1e-6)
        if state == MEMO_FULL:
            self._memo = self._grown_memo()
        elif state == SPLITS_FULL:
            self._stack = self._stack._replace(
                splits=_doubled(self._stack.splits), order=_doubled(self._stack.order)
            )
        else:
            wanted = int(self._n_steps * STEP_SECONDS / took)
            self._n_steps = max(1000, min(4 * self._n_steps, wanted))
        self._note(state == DONE)

    def _begin(self) -> None:
        """Look for trees below the next budget."""
        share = SHARES[min(self._round, len(SHARES) - 1)]
        budget = min(self.high, max(self.low + 1, self._start + int(self._gap * share)))
        if share == 1.0:
            budget = self.high
        self._kernel.begin(self._root, budget, self._tables, self._lister, self._stack, self._memo)
        self._round += 1
        self._running = True

    def _note(self, done: bool) -> None:
        """Update what is known about the best tree."""
        root = self._stack.frames[0]
        if root[TOP] < self.high and root[SPLIT] != 0:
            self.high, self._found = int(root[TOP]), int(root[SPLIT])
        if done:
            self._running = False
            self.low = max(self.low, min(int(root[TOP]), self.high))
        elif self._stack.depth[0] > 1 or self._lister.level[0] < 0:  # the root is listed
            bounds = self._stack.splits[:, BOUND]
            if self._tables.kind[0] == TRIANGLES:
                bounds = bounds[root[AT] : root[LAST]]
            else:
                bounds = bounds[self._stack.order[root[AT] : root[LAST], 0]]
            reached = bounds.min(initial=root[TOP])
            self.low = max(self.low, min(int(reached), self.high))

    def _grown_memo(self) -> IntArray:
        memo = _doubled(np.zeros_like(self._memo))
        self._memory.grow_memo(self._memo, memo)
        return memo

    def tree(self) -> list[int] | None:
        """The clusters of a tree that is better than the known one; None if none was found."""
        if self._found == 0:
            return None
        if self._tables.kind[0] == TRIANGLES:
            return merged(self._root, [self._node(self._root, self._found)])
        found = [self._root]
        todo = [(self._found, self._root ^ self._found)]
        while todo:
            for cluster, sibling in permutations(todo.pop()):
                if cluster.bit_count() > 1:
                    found.append(cluster)
                    left = cluster & -cluster
                    if cluster.bit_count() > 2:
                        left = int(
                            self._kernel.best_split(
                                cluster, sibling, self._tables, self._stack, self._memo
                            )
                        )
                    todo.append((left, cluster ^ left))
        return found

    def _best(self, cluster: int) -> int:
        """The left child of a solved cluster."""
        return int(self._memo[self._memory.find(cluster, self._memo), BEST])

    def _node(self, cluster: int, left: int) -> Node:
        """The tree of a solved block."""
        return Node(cluster, (self._below(left), self._below(cluster ^ left)))

    def _below(self, cluster: int) -> Node:
        """A tree of any cluster, from those of its blocks."""
        graph = [int(mask) for mask in self._tables.graph]
        nodes = []
        for block in blocks(cluster, graph):
            sides = two_sides(block, graph)
            if sides is None:
                nodes.append(self._node(block, self._best(block)))
            else:
                nodes.append(Node(block, (Node(sides[0]), Node(sides[1]))))
        return nodes_of(cluster, merged(cluster, nodes))


def _lister(n: int) -> Lister:
    return Lister(
        level=np.full(1, -1),
        size=np.zeros(2, np.int64),
        masks=np.zeros((n + 2, 3), np.int64),
        sums=np.zeros((n + 2, 4), np.int64),
        costs=np.zeros((n + 2, 2, n), np.int64),
        gains=np.zeros((n + 2, 2, n), np.int64),
        branch=np.zeros((n + 2, 4), np.int64),
        sides=np.zeros((2, n), np.int64),
        counts=np.zeros(2, np.int64),
    )


def _stack(n: int) -> SearchStack:
    return SearchStack(
        depth=np.zeros(1, np.int64),
        frames=np.zeros((n + 1, 10), np.int64),
        parts=np.zeros((n + 1, 6 * n + 1), np.int64),
        splits=np.zeros((FIRST_SPLITS, 7), np.int64),
        order=np.zeros((FIRST_SPLITS, 2), np.int64),
        counts=np.zeros(5, np.int64),
    )


def _doubled(rows: IntArray) -> IntArray:
    """The same rows, and as many of zeros."""
    check_fits(2 * rows.nbytes, "the clusters and splits of the search", "a shorter time limit")
    return np.concatenate([rows, np.zeros_like(rows)])
