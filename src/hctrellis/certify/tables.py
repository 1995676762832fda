"""What the kernels of the search are given: a problem as tables of whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.certify.blocks import neighbours
from hctrellis.potentials.bounds import DOUBLED, excesses, packed_triangles, quadruples, triples_low
from hctrellis.support.bounded import LEAF_BITS, SERIES, TRIANGLES, TRIPLES, Tables

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, IntArray


def dasgupta_tables(weights: IntArray) -> tuple[Tables, int]:
    """The excesses of triples and quadruples, and the cost that all trees have."""
    n = len(weights)
    excess = excesses(weights)
    found = quadruples(excess)
    useful = found.lows > 0
    leaves, lows = found.leaves[useful], found.lows[useful]
    rows, packed = [], []
    for fourth in range(4):
        i, j, k = (leaves[:, place] for place in range(4) if place != fourth)
        rows.append((i * n + j) * n + k)
        packed.append(lows << LEAF_BITS | leaves[:, fourth])
    row, values = np.concatenate(rows), np.concatenate(packed)
    order = np.argsort(row, kind="stable")
    is_sparse = bool((weights >= 0).all()) and (weights == 0).sum() > n
    tables = _tables(
        TRIPLES,
        weights,
        keep=np.ascontiguousarray(excess.transpose(1, 2, 0)),
        alone=excess,
        near=np.argsort(-weights, axis=1, kind="stable") if (weights >= 0).all() else weights[:0],
        graph=_graph(weights > 0),
        sparse=np.array([int(is_sparse)]),
        starts=np.searchsorted(row[order], np.arange(n**3 + 1)),
        lows=values[order],
    )
    return tables, triples_low(weights)


def correlation_tables(negative: IntArray) -> tuple[Tables, int]:
    """Negative edges and the packed triangles."""
    n = len(negative)
    packed = np.zeros((n, n, n), np.int64)
    _, rest = packed_triangles(negative, packed)
    graph = _graph(negative > 0)
    return _tables(TRIANGLES, negative, rest=rest, keep=packed, graph=graph), 0


def average_tables(distances: IntArray) -> tuple[Tables, int]:
    """Distances, each leaf's neighbours by distance, and distances over r (r + 1)."""
    even = DOUBLED * distances
    ranks = np.maximum(np.arange(len(even)), 1)
    keep = even[:, :, None] // (ranks * (ranks + 1))
    ordered = even.copy()
    np.fill_diagonal(ordered, -1)
    near = np.argsort(ordered, axis=1, kind="stable")
    return _tables(SERIES, even, keep=keep, near=near), 0


def _graph(edges: BoolArray) -> IntArray:
    return np.array(neighbours(edges), np.int64)


def _tables(kind: int, pairs: IntArray, **given: IntArray) -> Tables:
    """Tables in which what a kind does not need is empty."""
    empty = {
        "rest": np.zeros((0, 0), np.int64),
        "keep": np.zeros((0, 0, 0), np.int64),
        "alone": np.zeros((0, 0, 0), np.int64),
        "near": np.zeros((0, 0), np.int64),
        "graph": np.zeros(0, np.int64),
        "sparse": np.zeros(1, np.int64),
        "starts": np.zeros(0, np.int64),
        "lows": np.zeros(0, np.int64),
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in {**empty, **given}.items()}
    return Tables(kind=np.array([kind]), pairs=np.ascontiguousarray(pairs), **arrays)
