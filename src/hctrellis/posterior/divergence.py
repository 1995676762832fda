"""Divergences between posteriors over different sparse trellises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clades.contexts import ContextVertices
from hctrellis.trellis.numbered import find_splits
from hctrellis.trellis.vertices import SparseVertices

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray
    from hctrellis.trellis.sparse import SparseSolution


def expected_log_probability(one: SparseSolution, other: SparseSolution) -> float:
    """The mean of log q(tree) over trees drawn from p; -inf if q lacks a tree that p has.

    M(x, y) = sum over splits s of p(s | x) [log q(s | y) + M(left x, left y) + M(right x, right y)]
    for every pair of vertices x of p and y of q that one tree can reach together, from the leaves
    up.
    """
    p, q = _Chances.of(one), _Chances.of(other)
    places = find_splits(p.base, q.base)[p.base_splits]
    if ((places < 0) & (p.chances > 0)).any():
        return -math.inf
    pairs, edges = _pairs(p, q, places)
    if edges is None:
        return -math.inf
    means: dict[tuple[int, int], float] = {}
    for pair in sorted(pairs):  # children before parents
        total = 0.0
        for k, j in edges[pair]:
            below = [(int(p.lefts[k]), int(q.lefts[j])), (int(p.rights[k]), int(q.rights[j]))]
            total += float(p.chances[k]) * (
                float(q.logs[j]) + sum(means.get(child, 0.0) for child in below)
            )
        means[pair] = total
    return means[p.root, q.root] if means else 0.0


class _Chances(NamedTuple):
    """The splits of vertices with their conditional probabilities."""

    base: SparseVertices
    base_splits: IntArray
    offsets: IntArray
    lefts: IntArray
    rights: IntArray
    chances: FloatArray
    logs: FloatArray
    n_leaves: int
    root: int

    @classmethod
    def of(cls, solution: SparseSolution) -> _Chances:
        v = solution.vertices
        chances = solution.split_probabilities(v.splits()) if len(v.lefts) else np.empty(0)
        with np.errstate(divide="ignore"):
            logs = np.log(chances)
        base, numbers = v, np.arange(len(v.lefts))
        if isinstance(v, ContextVertices):
            base, numbers = v.base, v.base_splits
        return cls(base, numbers, v.offsets, v.lefts, v.rights, chances, logs, v.n_leaves, v.root)


_Pair = tuple[int, int]


def _pairs(
    p: _Chances, q: _Chances, places: IntArray
) -> tuple[set[_Pair], dict[_Pair, list[_Pair]] | None]:
    """The pairs of vertices that a tree can reach, and the pairs of splits below each.

    None for the latter if p has a split that q does not have there.
    """
    todo = [(p.root, q.root)] if p.root >= p.n_leaves else []
    found, edges = set(todo), dict[_Pair, list[_Pair]]()
    while todo:
        pair = x, y = todo.pop()
        start, stop = int(p.offsets[x]), int(p.offsets[x + 1])
        first, last = int(q.offsets[y]), int(q.offsets[y + 1])
        at = first + np.searchsorted(q.base_splits[first:last], places[start:stop])
        edges[pair] = []
        for k, j in zip(range(start, stop), at.tolist(), strict=True):
            if p.chances[k] == 0:
                continue
            if j == last or q.base_splits[j] != places[k] or q.chances[j] == 0:
                return found, None
            edges[pair].append((k, j))
            for child in (
                (int(p.lefts[k]), int(q.lefts[j])),
                (int(p.rights[k]), int(q.rights[j])),
            ):
                if child[0] >= p.n_leaves and child not in found:
                    found.add(child)
                    todo.append(child)
    return found, edges
