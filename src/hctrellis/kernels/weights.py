"""The weight of a split, from the functions of a potential; sums and the largest of such weights.

The first of a chain of templates (see `bind`).
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import (
    CHECKED,
    CROSS,
    LEAF_APART,
    SCALED,
    combine,
    inner,
    jit,
    leaf_one,
    pair_one,
    take_row,
)
from hctrellis.kernels.elementary import exp2, log2_above
from hctrellis.kernels.simd import LANES, load, maximum, splat, with_lane
from hctrellis.support.logs import LOG2E, NEVER, TIE


@inner
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


@inner
def cross_lanes(lefts, rights, low, distances):
    """The extreme distances of the splits of lefts[i] and rights[i] | low, one in each lane."""
    extremes = splat(0.0)
    for i in range(LANES):
        extremes = with_lane(extremes, i, cross_distance(lefts[i], rights[i] | low, distances))
    return extremes


@inner
def cross_lookup(left, right, features, low_bits, cross_tables):
    """The same from the tables of extreme distances between parts of clusters."""
    _distances, near, low_cross = cross_tables
    between = features[features.shape[0] - 1]
    mask = (1 << low_bits) - 1
    left_low, right_low = left & mask, right & mask
    extreme = combine(
        low_cross[left_low, right_low],
        combine(between[(right ^ right_low) | left_low], between[(left ^ left_low) | right_low]),
    )
    for i in range(near.shape[0]):
        if left >> (low_bits + i) & 1:
            extreme = combine(extreme, near[i, right >> low_bits])
    return extreme


@inner
def split_terms(left, right, parent, features, params, cross):
    """The x and factor of one split, whichever of its children are leaves."""
    l = take_row(features, left)
    r = take_row(features, right)
    p = take_row(features, parent)
    if LEAF_APART and left & (left - 1) == 0:
        return leaf_one(l, r, p, params, cross)
    if LEAF_APART and right & (right - 1) == 0:
        return leaf_one(r, l, p, params, cross)
    return pair_one(l, r, p, params, cross)


@jit
def split_log_weight(left, right, parent, features, params, distances):
    """log psi of one split, less what depends on the parent alone."""
    cross = cross_distance(left, right, distances) if CROSS else 0.0
    x, factor = split_terms(left, right, parent, features, params, cross)
    return x + np.log(factor) if SCALED else x


@inner
def log2_weight(x, best):
    """log2 of a split's weight with the best trees of its children; forbidden ones stay finite."""
    if CHECKED:
        x = maximum(NEVER, x)  # in this order NaN propagates
    return x * LOG2E + best


@jit
def best_split(parent, tables, params, low_bits, cross_tables):
    """The child with the lowest leaf of the best split of a cluster.

    Among splits whose log weights agree with the best to TIE, relative to their size, the one in
    which that child has the smallest mask: the rule does not depend on the order of computation.
    """
    _features, best, _rest, node = tables
    top = best[parent] - (node[parent] if node.size > 0 else 0.0)
    found, left = first_split(parent, top, tables, params, low_bits, cross_tables)
    if left == 0:  # rounding in the table: search again below the largest that there is
        _found, left = first_split(parent, found, tables, params, low_bits, cross_tables)
    return left


@inner
def first_split(parent, top, tables, params, low_bits, cross_tables):
    """The first split whose log weight is `top`, up to a tie, or 0; and the largest before it."""
    features, best, _rest, _node = tables
    first = parent & -parent
    others = parent ^ first
    bar = top - TIE * max(1.0, abs(top))
    largest = NEVER
    sub = 0
    while sub != others:
        left = first | sub
        right = others ^ sub
        cross = cross_lookup(left, right, features, low_bits, cross_tables) if CROSS else 0.0
        x, factor = split_terms(left, right, parent, features, params, cross)
        w = log2_weight(x, best[left] + best[right])
        if SCALED:  # logarithms take long: only where a quick bound does not settle it
            w = w + math.log2(factor) if w + log2_above(factor) > largest else NEVER
        if w >= bar:
            return w, left
        largest = max(largest, w)
        sub = (sub - others) & others
    return largest, 0


@inner
def add_entries(count, reference, log_weights, factors, rests, top, acc):
    """Add `count` entries to a running maximum and sum (vectors), relative to a reference."""
    for i in range(0, count, LANES):
        top, acc = add_entry(i, load(rests, i), reference, log_weights, factors, top, acc)
    return top, acc


@inner
def add_entry(i, rest, reference, log_weights, factors, top, acc):
    """Add the eight entries from i on, with these rests, to a running maximum and sum."""
    e = exp2(load(log_weights, i) - reference)
    if SCALED:
        e = e * load(factors, i)
        top = maximum(top, e)
    return top, acc + e * rest
