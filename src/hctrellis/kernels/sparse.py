"""The log weights of listed splits, from features of numbered clusters.

A template (see `bind`), on top of `weights`. Leaves have the first numbers.
"""

# mypy: ignore-errors
from __future__ import annotations

import math


@jit
def weigh_listed(
    parents, offsets, lefts, rights, n_leaves, features, own, params, root_params, cross, out
):
    """Fill log psi of splits, listed one parent after the other (see `passes`).

    features : float64 (k, clusters); own : float64 (clusters)
    cross : float64, the extreme distance of each split, if a split function asks for it
    """
    root = own.size - 1
    for p in range(parents.size):
        parent = parents[p]
        prm = root_params if parent == root else params
        row = take_row(features, parent)
        for k in range(offsets[p], offsets[p + 1]):
            left, right = lefts[k], rights[k]
            l = take_row(features, left)
            r = take_row(features, right)
            distance = cross[k] if CROSS else 0.0
            if LEAF_APART and left < n_leaves:
                x, factor = leaf_one(l, r, row, prm, distance)
            elif LEAF_APART and right < n_leaves:
                x, factor = leaf_one(r, l, row, prm, distance)
            else:
                x, factor = pair_one(l, r, row, prm, distance)
            out[k] = own[parent] + (x + math.log(factor) if SCALED else x)
