"""How many trees share the largest weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.support.logs import LOG2E, TIE

if TYPE_CHECKING:
    from hctrellis.trellis.solution import Solution

MOST_VISITED = 2_000  # clusters of best trees, beyond which counting takes too long


def count_best(solution: Solution) -> int | None:
    """The number of trees whose log weights agree with the largest to rounding; None if too many.

    A cluster of a best tree is split, in best trees, in one of the ways that reach its best weight.
    """
    vertices = solution.vertices
    leaves = set(vertices.leaves.tolist())
    ways: dict[int, list[tuple[int, int]]] = {}
    todo = [solution.root]
    while todo:
        cluster = todo.pop()
        if cluster in ways or cluster in leaves:
            continue
        if len(ways) >= MOST_VISITED:
            return None
        splits = solution.splits(np.array([cluster]))
        lefts, rights = splits.lefts, splits.rights
        total = solution.log_weights(splits) * LOG2E
        total = total + solution.best[lefts] + solution.best[rights]
        top = float(total.max())
        best = np.flatnonzero(total >= top - TIE * max(1.0, abs(top)))
        ways[cluster] = list(zip(lefts[best].tolist(), rights[best].tolist(), strict=True))
        todo += [part for pair in ways[cluster] for part in pair]
    counts: dict[int, int] = dict.fromkeys(leaves, 1)
    for cluster in sorted(ways, key=lambda c: len(vertices.rows(np.array([c]))[0].nonzero()[0])):
        counts[cluster] = sum(counts[left] * counts[right] for left, right in ways[cluster])
    return counts[solution.root]
