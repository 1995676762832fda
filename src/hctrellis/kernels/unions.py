"""Unions of clusters, and the weights of splits given by rows of a table (see `arrays`).

The first of a chain of templates (see `bind`), for potentials that state sums; `search.model` has
the same functions for all others.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import (
    CROSS,
    LEAF_APART,
    SCALED,
    combine,
    fill_cluster,
    fill_clusters,
    fused,
    inner,
    jit,
    leaf_one,
    lean,
    pair_one,
    take_cluster,
)
from hctrellis.kernels.simd import LANES, load, store
from hctrellis.support.arrays import BY_SIZE, EXTREME, MOVED, OWN, SIZE, SUMS


@inner
def linked(link, a, b):
    """The link to a union from those to its two parts."""
    return combine(a, b) if CROSS and link == EXTREME else a + b


@fused
def unite(c, a, b, links, i, j, table, model):
    """Put the union of rows a and b into row c; links[:, i, j] are those between the two."""
    size = table[a, SIZE] + table[b, SIZE]
    table[c, SIZE] = size
    for s in range(model.kinds.size):
        kind = model.kinds[s]
        if kind == BY_SIZE:
            table[c, SUMS + s] = model.by_size[s, int(size)]
        else:
            between = links[kind, i, j] if kind >= 0 else 0.0
            table[c, SUMS + s] = table[a, SUMS + s] + table[b, SUMS + s] + between
    root = size == model.by_size.shape[1] - 1
    fill_cluster(table, c, model.root_params if root else model.params)


@lean
def unite_places(s, count, offset, joints, places, rows, table, model):
    """Put the union of s and each of some nodes x into row offset + x of the table.

    Without s, x is in rows[x]; joints[:, MOVED, x] are the links between the two. The first of the
    places is the root.
    """
    own = table[s, SIZE]
    for k in range(count):
        x = places[k]
        table[offset + x, SIZE] = table[rows[x], SIZE] + own
    for i in range(model.kinds.size):
        kind, column = model.kinds[i], SUMS + i
        own = table[s, column]
        if kind == BY_SIZE:
            for k in range(count):
                row = offset + places[k]
                table[row, column] = model.by_size[i, int(table[row, SIZE])]
        elif kind >= 0:
            between = joints[kind, MOVED]
            for k in range(count):
                x = places[k]
                table[offset + x, column] = table[rows[x], column] + own + between[x]
        else:
            for k in range(count):
                x = places[k]
                table[offset + x, column] = table[rows[x], column] + own
    fill_cluster(table, offset + places[0], model.root_params)
    if not SCALED or count <= LANES:
        for k in range(1, count):
            fill_cluster(table, offset + places[k], model.params)
        return
    for k in range(1, count, LANES):  # the last ones together with some of those before
        fill_clusters(table, places, min(k, count - LANES), offset, model.params)


@jit
def describe_leaves(n, table, model):
    """Fill the first n rows, of leaves whose size and sums are already there."""
    for leaf in range(n):
        fill_cluster(table, leaf, model.params)


@inner
def weigh_list(splits, table, model):
    """Fill log psi of the listed splits and end the list; False if one of them is NaN or +inf."""
    number = splits.number[0]
    for k in range(number):
        left, right, parent = splits.rows[k, 0], splits.rows[k, 1], splits.rows[k, 2]
        if table[parent, OWN] == -np.inf:
            splits.log_psi[k] = -np.inf
            splits.factors[k] = 1.0
            continue
        root = table[parent, SIZE] == model.by_size.shape[1] - 1
        params = model.root_params if root else model.params
        l, r, p = take_cluster(table, left), take_cluster(table, right), take_cluster(table, parent)
        if LEAF_APART and table[left, SIZE] == 1:
            x, factor = leaf_one(l, r, p, params, splits.cross[k])
        elif LEAF_APART and table[right, SIZE] == 1:
            x, factor = leaf_one(r, l, p, params, splits.cross[k])
        else:
            x, factor = pair_one(l, r, p, params, splits.cross[k])
        splits.log_psi[k] = table[parent, OWN] + x
        if SCALED:
            splits.factors[k] = factor
    if SCALED:
        for k in range(0, number, LANES):  # eight at a time, some of which may not be listed
            sums = load(splits.log_psi, k) + np.log(load(splits.factors, k))
            store(splits.log_psi, k, sums)
    splits.number[0] = 0
    fine = True
    for k in range(number):
        fine &= splits.log_psi[k] < np.inf
    return fine
