"""The recursions of log Z, MAP and count, one split at a time in natural logarithms.

A template like `full` (see `bind`), the plain text of the mathematics: what the vectorised pass is
held against and measured beside, and the pass that counts trees.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

import math

import numpy as np


LN2 = math.log(2.0)


@jit
def cross_distance(left, right, distances):
    """The extreme distance between a leaf of one cluster and a leaf of the other."""
    extreme = np.nan
    first = True
    for i in range(distances.shape[0]):
        if left >> i & 1:
            for j in range(distances.shape[0]):
                if right >> j & 1:
                    extreme = distances[i, j] if first else combine(extreme, distances[i, j])
                    first = False
    return extreme


@jit
def split_log_weight(left, right, parent, features, params, distances):
    """log psi of one split, whichever of its children are leaves."""
    l = take_row(features, left)
    r = take_row(features, right)
    p = take_row(features, parent)
    cross = cross_distance(left, right, distances) if CROSS else 0.0
    if LEAF_APART and left & (left - 1) == 0:
        x, factor = leaf_one(l, r, p, params, cross)
    elif LEAF_APART and right & (right - 1) == 0:
        x, factor = leaf_one(r, l, p, params, cross)
    else:
        x, factor = pair_one(l, r, p, params, cross)
    if SCALED:
        return x + math.log(factor)
    return x


@jit
def list_splits(parent, features, params, distances, lefts, log_weights):
    """All splits of a cluster: the child with its first leaf, and log psi; increasing masks."""
    first = parent & -parent
    others = parent ^ first
    sub = 0
    for i in range(lefts.size):
        lefts[i] = first | sub
        log_weights[i] = split_log_weight(
            lefts[i], others ^ sub, parent, features, params, distances
        )
        sub = (sub - others) & others


@jit
def solve(features, node, params, root_params, distances, log_z, log_max, count, count_modulo):
    """Fill log Z, the log weight of the best tree and the number of trees of every cluster.

    log_z, log_max, count : float64 (2^n); count_modulo : uint64 (2^n), the count modulo 2^64.
    node : float64 (2^n or 0), log2 of the cluster's own weight.
    """
    root = log_z.size - 1
    for parent in range(1, log_z.size):
        first = parent & -parent
        others = parent ^ first
        if others == 0:
            log_z[parent] = log_max[parent] = 0.0
            count[parent] = count_modulo[parent] = 1
            continue
        own = node[parent] * LN2 if node.size > 0 else 0.0
        prm = root_params if parent == root else params
        peak = -np.inf
        total = trees = 0.0
        best = -np.inf
        modulo = np.uint64(0)
        sub = others
        while sub > 0:
            sub = (sub - 1) & others
            left = first | sub
            right = others ^ sub
            x = own + split_log_weight(left, right, parent, features, prm, distances)
            if x == -np.inf or count[left] == 0 or count[right] == 0:
                continue
            best = max(best, x + log_max[left] + log_max[right])
            z = x + log_z[left] + log_z[right]
            if z > peak:
                total = total * math.exp(peak - z) + 1.0
                peak = z
            else:
                total += math.exp(z - peak)
            trees += count[left] * count[right]
            modulo += count_modulo[left] * count_modulo[right]
        log_max[parent] = best
        log_z[parent] = peak + math.log(total) if total > 0.0 else -np.inf
        count[parent] = trees
        count_modulo[parent] = modulo
