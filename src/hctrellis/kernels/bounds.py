"""Bounds of clusters, additive over what lies inside them."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.common import bit_count
from hctrellis.kernels.compile import inner, jit
from hctrellis.kernels.masks import lowest
from hctrellis.support.bounded import LEAF, LEAF_BITS, TRIANGLES, TRIPLES


@jit
def bound_of(cluster, tables):
    """The bound of a cluster: the least energy (TRIPLES: excess) that its trees can have."""
    if tables.kind[0] == TRIPLES:
        return quadruples_inside(cluster, tables)
    if tables.kind[0] == TRIANGLES:
        return triangles_inside(cluster, tables)
    return series(cluster, tables)


@inner
def quadruples_inside(cluster, tables):
    """The sum over the quadruples inside a cluster."""
    n = tables.pairs.shape[0]
    total = np.int64(0)
    for i in range(n):
        if cluster >> i & 1:
            for j in range(i + 1, n):
                if cluster >> j & 1:
                    for h in range(j + 1, n):
                        if cluster >> h & 1:
                            row = (i * n + j) * n + h
                            for k in range(tables.starts[row], tables.starts[row + 1]):
                                leaf = tables.lows[k] & LEAF
                                if leaf > h and cluster >> leaf & 1:
                                    total += tables.lows[k] >> LEAF_BITS
    return total


@inner
def triangles_inside(cluster, tables):
    """The sum over the packed triangles inside a cluster."""
    n = tables.pairs.shape[0]
    total = np.int64(0)
    for i in range(n):
        if cluster >> i & 1:
            for j in range(i):
                if cluster >> j & 1:
                    for k in range(j):
                        if cluster >> k & 1:
                            total += tables.keep[i, j, k]
    return total


@inner
def series(cluster, tables):
    """The sum over leaves and ranks r of the distance to the r-th neighbour over r (r + 1)."""
    size = bit_count(cluster)
    total = np.int64(0)
    leaves = cluster
    while leaves != 0:
        total += least_share(lowest(leaves), cluster, 0, 0, size, size, tables)
        leaves &= leaves - 1
    return total


@inner
def least_share(i, sure, maybe, others, size, whole, tables):
    """What leaf i pays at least in a cluster of `whole` leaves, if its own child has `size` leaves.

    That child has the leaves of `sure`, i among them, and some of `maybe`; the nearest of these
    cost least. All other leaves are met at once, at the split of the cluster.
    """
    free = size - bit_count(sure)
    rank = 0
    inside = np.int64(0)
    across = np.int64(0)
    everything = sure | maybe | others
    near, keep, distances = tables.near[i], tables.keep[i], tables.pairs[i]
    for k in range(1, near.size):
        j = near[k]
        if everything >> j & 1:
            may = maybe >> j & 1
            if sure >> j & 1 or (may and free > 0):
                free -= may
                rank += 1
                inside += keep[j, rank]
            else:
                across += distances[j]
    return inside + across // (size * whole)
