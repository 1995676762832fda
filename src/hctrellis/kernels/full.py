"""Upward pass over the full lattice of clusters: the recursion of log Z and MAP, vectorised.

This module is loaded once per potential (see `bind`), with the potential's functions bound as
module globals before it runs, so that Numba fuses them and caches the result on disk:

    pair(left, right, parent, params, cross) -> (x, factor): the weight of a split is factor * e^x
    leaf(left, right, parent, params, cross) -> the same, where left is a single leaf
    pair_one, leaf_one                       -> the same for single splits: floats, not vectors
    combine(a, b)                            -> the smaller or larger of two distances (CROSS only)
    load_row, splat_row, gather_row          -> the features of clusters as a tuple of vectors
    take_row(features, i)                    -> the features of one cluster as a tuple of floats
    jit                                      -> the decorator that compiles for this potential

Every cluster P (a bit mask) holds two numbers, both of the trees over P alone:

    best[P]  log2 of the largest weight of a tree, or NEVER if every tree is forbidden
    rest[P]  Z(P) / 2^best[P], which lies between 1 and the number of trees, or 0

so nothing underflows at any energy, and one exponential per split serves both sums:

    e(L, R) = psi(L, R) 2^(best[L] + best[R] - reference)
    best[P] = node[P] + reference + log2 max e,      rest[P] = sum e rest[L] rest[R] / max e

The bits of a mask are divided into high and low ones. For a high part PH the submasks LH are
taken in tiles: the rows of all low parts of LH, and of its complement in PH, are copied into
buffers [low part][position in tile], and all 3^low combinations of low parts run over them with
unit stride. Splits in which one child has no high part depend on the block being computed;
they are finished afterwards, four high parts at a time. Cost: 3^n / 2 splits, no memory beyond
the tables and a few 10 kB of buffers.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.simd import (
    LANES,
    LOG2E,
    exp2,
    gather,
    highest,
    lane,
    load,
    maximum,
    pack,
    splat,
    store,
    total,
    transpose,
)

NEVER = -1e300  # log2 weight of a forbidden tree: finite, so that sums and differences stay so
FORBIDDEN = -1e290  # anything below is forbidden
TILE = 16  # positions of a tile
TIE = 1e-12  # log weights closer than this are equal


@jit
def weigh(x, best):
    """log2 of a split's weight with the best trees of its children; forbidden ones stay finite."""
    if CHECKED:
        x = maximum(NEVER, x)  # in this order a NaN stays one
    return x * LOG2E + best


@jit
def load_tile(source, low_bits, masks, width, out, offset):
    """Copy source[mask << low_bits | low] to out[offset + low * TILE + position], for each mask."""
    for t in range(0, width, LANES):
        a = masks[t] << low_bits
        b = masks[t + 1] << low_bits
        c = masks[t + 2] << low_bits
        d = masks[t + 3] << low_bits
        for low in range(0, 1 << low_bits, LANES):
            rows = transpose(
                load(source, a + low),
                load(source, b + low),
                load(source, c + low),
                load(source, d + low),
            )
            store(out, offset + low * TILE + t, rows[0])
            store(out, offset + (low + 1) * TILE + t, rows[1])
            store(out, offset + (low + 2) * TILE + t, rows[2])
            store(out, offset + (low + 3) * TILE + t, rows[3])


@jit
def load_side(features, best, rest, low_bits, masks, count, width, out_f, out_best, out_rest):
    """The rows of one side (left or right) of a tile."""
    stride = TILE << low_bits
    for f in range(features.shape[0]):
        load_tile(features[f], low_bits, masks, width, out_f, f * stride)
    load_tile(best, low_bits, masks, width, out_best, 0)
    load_tile(rest, low_bits, masks, width, out_rest, 0)
    for t in range(count, width):  # padding: no weight
        for low in range(1 << low_bits):
            out_best[low * TILE + t] = NEVER
            out_rest[low * TILE + t] = 0.0
    if LEAF_APART:
        for t in range(count):
            if masks[t] & (masks[t] - 1) == 0:
                out_best[t] = NEVER
                out_rest[t] = 0.0


@jit
def absorb(count, reference, log_weights, factors, rests, top, acc):
    """Add `count` entries to a running maximum and sum (vectors), relative to a reference."""
    for i in range(0, count, LANES):
        e = exp2(load(log_weights, i) - reference)
        if SCALED:
            e = e * load(factors, i)
            top = maximum(top, e)
        acc = acc + e * load(rests, i)
    return top, acc


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
def cross_lanes(lefts, rights, low, distances):
    """The extreme distances of four splits of lefts[i] and rights[i] | low."""
    return pack(
        cross_distance(lefts[0], rights[0] | low, distances),
        cross_distance(lefts[1], rights[1] | low, distances),
        cross_distance(lefts[2], rights[2] | low, distances),
        cross_distance(lefts[3], rights[3] | low, distances),
    )


@jit
def split_terms(left, right, parent, features, params, distances):
    """The x and factor of one split, whichever of its children are leaves."""
    l = take_row(features, left)
    r = take_row(features, right)
    p = take_row(features, parent)
    cross = cross_distance(left, right, distances) if CROSS else 0.0
    if LEAF_APART and left & (left - 1) == 0:
        return leaf_one(l, r, p, params, cross)
    if LEAF_APART and right & (right - 1) == 0:
        return leaf_one(r, l, p, params, cross)
    return pair_one(l, r, p, params, cross)


@jit
def solve_cluster(parent, tables, params, distances):
    """The recursion for one cluster, one split after the other."""
    features, best, rest, node = tables
    first = parent & -parent
    others = parent ^ first
    reference = NEVER
    top = 0.0
    acc = 0.0
    sub = others
    while sub > 0:
        sub = (sub - 1) & others
        left = first | sub
        right = others ^ sub
        x, factor = split_terms(left, right, parent, features, params, distances)
        w = weigh(x, best[left] + best[right])
        if w > reference:
            shrink = exp2(reference - w)
            top *= shrink
            acc *= shrink
            reference = w
        e = exp2(w - reference) * factor
        top = max(top, e)
        acc += e * rest[left] * rest[right]
    settle(parent, reference, top, acc, best, rest, node)


@jit
def settle(parent, reference, top, acc, best, rest, node):
    """Write the two numbers of a cluster."""
    own = node[parent] if node.size > 0 else 0.0
    if reference < FORBIDDEN or own < FORBIDDEN or acc == 0.0:
        best[parent] = NEVER
        rest[parent] = 0.0
    elif SCALED:
        best[parent] = own + reference + math.log2(top)
        rest[parent] = acc / top
    else:
        best[parent] = own + reference
        rest[parent] = acc
@jit
def next_tile(sub, others, first, lefts, rights):
    """The next submasks of the high part, as left and right sides; how many, and where we are."""
    count = 0
    while sub > 0 and count < TILE:
        sub = (sub - 1) & others
        lefts[count] = first | sub
        rights[count] = others ^ sub
        count += 1
    for t in range(count, -(-count // LANES) * LANES):
        lefts[t] = lefts[0]
        rights[t] = rights[0]
    return sub, count


@jit
def high_distances(lefts, rights, width, near, out):
    """The extreme distance between the high parts of the two sides of each split of a tile."""
    for t in range(width):
        extreme = np.nan
        first = True
        for i in range(near.shape[0]):
            if lefts[t] >> i & 1:
                d = near[i, rights[t]]
                extreme = d if first else combine(extreme, d)
                first = False
        out[t] = extreme


@jit
def sum_tiles(high, low_bits, tables, cross_tables, params, root_params, work, partial, at):
    """Sum over the splits of high << low_bits | low, all low, whose children both have high bits.

    Writes the running maximum, sum and reference of every low part to the three arrays of
    `partial`, at low * LANES + at.
    """
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    left_f, right_f, left_best, right_best, left_rest, right_rest = work[0]
    log_weights, factors, rests, top_v, sum_v, high_cross = work[1]
    lefts, rights = work[2]
    tops, sums, references = partial
    n_low = 1 << low_bits
    stride = TILE << low_bits
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
    for low in range(n_low):
        references[low * LANES + at] = NEVER
        store(top_v, low * LANES, splat(0.0))
        store(sum_v, low * LANES, splat(0.0))
    first = high & -high
    others = high ^ first
    sub = others
    while sub > 0:
        sub, count = next_tile(sub, others, first, lefts, rights)
        width = -(-count // LANES) * LANES
        load_side(features, best, rest, low_bits, lefts, count, width, left_f, left_best, left_rest)
        load_side(
            features, best, rest, low_bits, rights, count, width, right_f, right_best, right_rest
        )
        if CROSS:
            high_distances(lefts, rights, width, near, high_cross)
        for low in range(n_low):
            mask = high << low_bits | low
            parent = take_row(features, mask)
            prm = root_params if mask == root else params
            entries = 0
            peak = splat(NEVER)
            left_low = low
            while True:
                right_low = low ^ left_low
                i = left_low * TILE
                j = right_low * TILE
                for t in range(0, width, LANES):
                    cross = 0.0
                    if CROSS:
                        cross = combine(
                            combine(load(high_cross, t), low_cross[left_low, right_low]),
                            combine(
                                load(right_f, cross_at + i + t), load(left_f, cross_at + j + t)
                            ),
                        )
                    x, factor = pair(
                        load_row(left_f, i + t, stride),
                        load_row(right_f, j + t, stride),
                        parent,
                        prm,
                        cross,
                    )
                    w = weigh(x, load(left_best, i + t) + load(right_best, j + t))
                    peak = maximum(peak, w)
                    store(log_weights, entries, w)
                    store(rests, entries, load(left_rest, i + t) * load(right_rest, j + t))
                    if SCALED:
                        store(factors, entries, factor)
                    entries += LANES
                if left_low == 0:
                    break
                left_low = (left_low - 1) & low
            k = low * LANES
            top = load(top_v, k)
            acc = load(sum_v, k)
            reference = references[k + at]
            new = highest(peak)
            if new > reference:
                shrink = exp2(reference - new)
                top = top * shrink
                acc = acc * shrink
                reference = new
                references[k + at] = new
            top, acc = absorb(entries, reference, log_weights, factors, rests, top, acc)
            store(top_v, k, top)
            store(sum_v, k, acc)
    for low in range(n_low):
        tops[low * LANES + at] = highest(load(top_v, low * LANES))
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@jit
def finish(highs, low_bits, tables, cross_tables, params, root_params, work, partial):
    """Complete four blocks (the four `highs`): the splits with a child that has no high bit.

    Lanes are blocks. Low parts are completed in increasing order, since those of a block depend
    on each other. Returns a cluster whose sum is not a number, or 0.
    """
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    block_f, block_best, block_rest, log_weights, factors, rests = work
    tops, sums, references = partial
    n_low = 1 << low_bits
    stride = n_low * LANES
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
    index = highs << low_bits
    single = highs[0] & (highs[0] - 1) == 0  # all four have the same number of bits
    bad = 0
    for low in range(n_low):
        for f in range(features.shape[0]):
            store(block_f, f * stride + low * LANES, gather(features[f], index, low))
    for low in range(n_low):
        at = low * LANES
        if single and low == 0:
            store(block_best, at, splat(0.0))
            store(block_rest, at, splat(1.0))
            continue
        parent = load_row(block_f, at, stride)
        prm = root_params if index[0] | low == root else params
        before = load(references, at)
        peak = before
        entries = 0
        left_low = low
        while left_low > 0:
            right_low = low ^ left_low
            left = splat_row(features, left_low)
            right = load_row(block_f, right_low * LANES, stride)
            cross = 0.0
            if CROSS:
                cross = combine(
                    load(block_f, cross_at + left_low * LANES), low_cross[left_low, right_low]
                )
            if LEAF_APART and left_low & (left_low - 1) == 0:
                x, factor = leaf(left, right, parent, prm, cross)
            elif LEAF_APART and single and right_low == 0:
                x, factor = leaf(right, left, parent, prm, cross)
            else:
                x, factor = pair(left, right, parent, prm, cross)
            w = weigh(x, best[left_low] + load(block_best, right_low * LANES))
            peak = maximum(peak, w)
            store(log_weights, entries, w)
            store(rests, entries, rest[left_low] * load(block_rest, right_low * LANES))
            if SCALED:
                store(factors, entries, factor)
            entries += LANES
            left_low = (left_low - 1) & low
        if LEAF_APART and not single:
            remaining = highs.copy()
            leaves = highs.copy()
            others = highs.copy()
            while remaining[0] > 0:
                for block in range(LANES):
                    bit = remaining[block] & -remaining[block]
                    remaining[block] ^= bit
                    leaves[block] = bit << low_bits
                    others[block] = (highs[block] ^ bit) << low_bits
                cross = cross_lanes(leaves, others, low, distances) if CROSS else 0.0
                x, factor = leaf(
                    gather_row(features, leaves, 0),
                    gather_row(features, others, low),
                    parent,
                    prm,
                    cross,
                )
                w = weigh(x, gather(best, others, low))
                peak = maximum(peak, w)
                store(log_weights, entries, w)
                store(rests, entries, gather(rest, others, low))
                if SCALED:
                    store(factors, entries, factor)
                entries += LANES
                if low == 0 and others[0] & (others[0] - 1) == 0:
                    break  # two leaves: one split
        shrink = exp2(before - peak)
        top, acc = absorb(
            entries,
            peak,
            log_weights,
            factors,
            rests,
            load(tops, at) * shrink,
            load(sums, at) * shrink,
        )
        for block in range(LANES):
            mask = index[block] | low
            settle(mask, lane(peak, block), lane(top, block), lane(acc, block), best, rest, node)
            if not rest[mask] < np.inf:
                bad = mask
        store(block_best, at, gather(best, index, low))
        store(block_rest, at, gather(rest, index, low))
    return bad


@jit
def solve_low(low_bits, tables, params, root_params, distances):
    """All clusters of low bits only. Returns a cluster whose sum is not a number, or 0."""
    rest = tables[2]
    for mask in range(1, 1 << low_bits):
        if mask & (mask - 1) > 0:
            prm = root_params if mask == rest.size - 1 else params
            solve_cluster(mask, tables, prm, distances)
            if not rest[mask] < np.inf:
                return mask
    return 0


@jit
def solve_blocks(highs, low_bits, tables, cross_tables, params, root_params):
    """The recursion for all clusters with one of the given high parts.

    The high parts have equal numbers of bits, and everything below them is done.
    Returns a cluster whose sum is not a number, or 0.
    """
    n_features = tables[0].shape[0]
    n_low = 1 << low_bits
    rows = n_low * TILE
    sides = (
        np.empty(n_features * rows),
        np.empty(n_features * rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
    )
    log_weights, factors, rests = np.empty(rows), np.empty(rows), np.empty(rows)
    quads = n_low * LANES
    entries = (log_weights, factors, rests, np.empty(quads), np.empty(quads), np.empty(TILE))
    masks = (np.empty(TILE, np.int64), np.empty(TILE, np.int64))
    block = (
        np.empty(n_features * quads),
        np.empty(quads),
        np.empty(quads),
        np.empty((n_low + 64) * LANES),
        np.empty((n_low + 64) * LANES),
        np.empty((n_low + 64) * LANES),
    )
    partial = (np.empty(quads), np.empty(quads), np.empty(quads))
    group = np.empty(LANES, np.int64)
    for start in range(0, highs.size, LANES):
        for at in range(LANES):
            if start + at < highs.size:
                group[at] = highs[start + at]
                sum_tiles(
                    group[at],
                    low_bits,
                    tables,
                    cross_tables,
                    params,
                    root_params,
                    (sides, entries, masks),
                    partial,
                    at,
                )
            else:  # fewer than four: repeat the last
                group[at] = group[at - 1]
                for array in partial:
                    for low in range(n_low):
                        array[low * LANES + at] = array[low * LANES + at - 1]
        bad = finish(
            group, low_bits, tables, cross_tables, params, root_params, block, partial
        )
        if bad != 0:
            return bad
    return 0


@jit
def best_split(parent, features, best, params, distances):
    """The child with the lowest leaf of the best split of a cluster.

    Among splits whose log weights agree to TIE, relative to their size, the one in which that
    child is the smallest number: the rule does not depend on the order of computation.
    """
    first = parent & -parent
    others = parent ^ first
    top = NEVER
    for again in range(2):
        sub = 0
        while sub != others:
            left = first | sub
            right = others ^ sub
            x, factor = split_terms(left, right, parent, features, params, distances)
            w = weigh(x, best[left] + best[right])
            if SCALED:
                w += math.log2(factor)
            if again == 0:
                top = max(top, w)
            elif w >= top - TIE * max(1.0, abs(top)):
                return left
            sub = (sub - others) & others
    return 0
