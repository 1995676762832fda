"""The log weights of listed splits, from features of numbered clusters.

A template (see `bind`), on top of `weights`. Leaves have the first numbers.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import CROSS, LEAF_APART, SCALED, inner, jit, leaf, load_row, pair
from hctrellis.kernels.simd import LANES, load, store

BLOCK = 128  # splits whose features are brought together, so that eight are weighed at a time


@jit
def weigh_listed(parents, offsets, lefts, rights, n_leaves, features, own, params, cross, out):
    """Fill log psi of splits, listed one parent after the other (see `passes`).

    features : float64 (k, clusters); own : float64 (clusters)
    cross : float64, the extreme distance of each split, if a split function asks for it
    """
    pairs = new_block(features.shape[0])
    leaves = new_block(features.shape[0])
    n_pairs = n_leaf_splits = 0
    for p in range(parents.size):
        parent = parents[p]
        for k in range(offsets[p], offsets[p + 1]):
            left, right = lefts[k], rights[k]
            if LEAF_APART and (left < n_leaves or right < n_leaves):
                if left >= n_leaves:
                    left, right = right, left
                put(leaves, n_leaf_splits, k, left, right, parent, features, own, cross)
                n_leaf_splits += 1
                if n_leaf_splits == BLOCK:
                    weigh_gathered(leaves, n_leaf_splits, True, params, out)
                    n_leaf_splits = 0
            else:
                put(pairs, n_pairs, k, left, right, parent, features, own, cross)
                n_pairs += 1
                if n_pairs == BLOCK:
                    weigh_gathered(pairs, n_pairs, False, params, out)
                    n_pairs = 0
    weigh_gathered(pairs, n_pairs, False, params, out)
    weigh_gathered(leaves, n_leaf_splits, True, params, out)


@inner
def new_block(n_features):
    """Rows of left, right and parent; own, distance and log psi; number of each split."""
    rows = np.ones((3, max(1, n_features) * BLOCK))
    return rows, np.zeros((3, BLOCK)), np.zeros(BLOCK, np.int64)


@inner
def put(block, i, k, left, right, parent, features, own, cross):
    """Copy what describes split k to position i of a block."""
    rows, values, numbers = block
    numbers[i] = k
    values[0, i] = own[parent]
    if CROSS:
        values[1, i] = cross[k]
    for f in range(features.shape[0]):
        rows[0, f * BLOCK + i] = features[f, left]
        rows[1, f * BLOCK + i] = features[f, right]
        rows[2, f * BLOCK + i] = features[f, parent]


@inner
def weigh_gathered(block, count, apart, params, out):
    """Log psi of the splits of a block; apart: their left children are single leaves."""
    rows, values, numbers = block
    for i in range(0, count, LANES):
        left, right, parent = load_rows(rows, i)
        distance = load(values[1], i)
        if apart:
            x, factor = leaf(left, right, parent, params, distance)
        else:
            x, factor = pair(left, right, parent, params, distance)
        x = load(values[0], i) + x
        store(values[2], i, x + np.log(factor) if SCALED else x)
    for i in range(count):
        out[numbers[i]] = values[2, i]


@inner
def load_rows(rows, i):
    return load_row(rows[0], i, BLOCK), load_row(rows[1], i, BLOCK), load_row(rows[2], i, BLOCK)
