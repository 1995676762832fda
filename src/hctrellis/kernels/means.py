"""Sums of a value over the splits of each cluster, and over those of which it is a child.

A template (see `bind`), on top of `weights` and `tiles`. With best and rest from the upward pass,
a(P) an amount for each cluster and v the value (the first of `values`), the splits of P add

    a(P) q(P -> L, R) v(L, R)

to `sums` of P and, if that is asked for, to `shares` of L and of R. With the probabilities of
clusters as amounts, these are parts of an expectation over trees. If the sums are `nested`, those
of L and R are added to v: with a(P) = 1 they are then the means over the trees of each cluster, and
no probabilities are needed, but children must be done before their parents.

Several values are found together, and then only their sums over all clusters: `shares` holds eight
parts of the sum of each, and `sums` is not used.

Without a value, v is how far log2 of the weight of a split, with the best trees of its children, is
below that of the best tree of its parent. Nested, these add up to how far a tree is below the best
one, of which the mean is found without taking the difference of large numbers.

Each split is visited once, in the tiles of the upward pass; but the scale of each weight is known,
and clusters that hardly ever occur are passed over: `amounts` is a / rest, or 0.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import (
    CROSS,
    LEAF_APART,
    N_VALUES,
    SCALED,
    add_each,
    combine,
    gather_row,
    inner,
    jit,
    leaf,
    leaf_values,
    load_row,
    pair,
    splat_row,
    take_row,
    values,
)
from hctrellis.kernels.common import load_tile, next_tile, room
from hctrellis.kernels.elementary import exp2, log
from hctrellis.kernels.simd import (
    LANES,
    choose,
    gather,
    lane,
    load,
    maximum,
    minimum,
    splat,
    store,
    total,
    with_lane,
)
from hctrellis.kernels.tiles import TILE, high_distances, load_side
from hctrellis.kernels.weights import cross_distance, cross_lanes, log2_weight, split_terms
from hctrellis.support.logs import LOG2E

TINY = 1e-300  # its logarithm is finite
FAR = 1100.0  # log2: what is farther below has no share; `exp2` ends at 2^-960


if N_VALUES > 0:

    @inner
    def value_of(row, log2_share, factor):
        """The value of a split, if there is one."""
        return row[0]

else:

    @inner
    def value_of(row, log2_share, factor):
        """The value of a split: how far it is below the best one."""
        below = minimum(-log2_share, FAR)
        if SCALED:
            below = below - LOG2E * log(maximum(factor, TINY))
        return below


@inner
def chance(log2_share, factor, amount):
    """The amount of a split: that of its parent, times its probability given the parent."""
    p = exp2(log2_share) * amount
    if SCALED:
        p = p * factor
    return p


@inner
def weighed(p, value):
    """What a split adds; 0 if it is impossible, whatever its value."""
    return choose(p, p * value, 0.0)


@inner
def own_scale(parent, best, node):
    """log2 of the weight that a cluster adds as a parent over that of its best tree."""
    return (node[parent] if node.size > 0 else 0.0) - best[parent]


@inner
def values_of(left, right, parent, features, params, cross):
    """The values of one split, whichever of its children are leaves."""
    l = take_row(features, left)
    r = take_row(features, right)
    p = take_row(features, parent)
    if LEAF_APART and left & (left - 1) == 0:
        return leaf_values(l, r, p, params, cross)
    if LEAF_APART and right & (right - 1) == 0:
        return leaf_values(r, l, p, params, cross)
    return values(l, r, p, params, cross)


@jit
def mean_low(low_bits, tables, params, root_params, distances, amounts, sums, shares, nested):
    """All clusters of low bits only, one split after the other."""
    features, best, rest, node = tables
    for parent in range(1, 1 << low_bits):
        amount = amounts[parent]
        if parent & (parent - 1) == 0 or amount == 0.0:
            continue
        prm = root_params if parent == best.size - 1 else params
        scale = own_scale(parent, best, node)
        first = parent & -parent
        others = parent ^ first
        sub = others
        while sub > 0:
            sub = (sub - 1) & others
            left = first | sub
            right = others ^ sub
            cross = cross_distance(left, right, distances) if CROSS else 0.0
            x, factor = split_terms(left, right, parent, features, prm, cross)
            row = values_of(left, right, parent, features, prm, cross)
            both = amount * rest[left] * rest[right]
            share = log2_weight(x, best[left] + best[right] + scale)
            p = chance(share, factor, both)
            if N_VALUES > 1:
                add_each(shares, with_lane(splat(0.0), 0, p), row)
                continue
            value = value_of(row, share, factor)
            if nested:
                value += sums[left] + sums[right]
            term = weighed(p, value)
            sums[parent] += term
            if shares.size > 0:
                shares[left] += term
                shares[right] += term


@inner
def add_tile(rows, low_bits, masks, count, shares):
    """Add the rows of a tile to what its clusters have."""
    for t in range(count):
        high = masks[t] << low_bits
        for low in range(1 << low_bits):
            shares[high | low] += rows[low * TILE + t]


@inner
def mean_tiles(high, low_bits, tables, cross_tables, params, root_params, amounts, work, out):
    """The splits of high << low_bits | low, all low, whose children both have high bits."""
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    left_f, right_f, left_best, right_best, left_rest, right_rest = work[0]
    left_share, right_share, high_cross = work[1]
    lefts, rights = work[2]
    sums, shares, nested = out
    n_low = 1 << low_bits
    stride = TILE << low_bits
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
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
        if nested:
            load_tile(sums, low_bits, lefts, width, left_share, 0)
            load_tile(sums, low_bits, rights, width, right_share, 0)
        elif N_VALUES <= 1 and shares.size > 0:
            left_share[:] = 0.0
            right_share[:] = 0.0
        for low in range(n_low):
            mask = high << low_bits | low
            amount = amounts[mask]
            if amount == 0.0:
                continue
            scale = own_scale(mask, best, node)
            parent = take_row(features, mask)
            prm = root_params if mask == root else params
            acc = splat(0.0)
            left_low = low
            while True:
                right_low = low ^ left_low
                i = left_low * TILE
                j = right_low * TILE
                for t in range(0, TILE, LANES):
                    if t == width:  # a loop of constant length is unrolled
                        break
                    cross = 0.0
                    if CROSS:
                        cross = combine(
                            combine(load(high_cross, t), low_cross[left_low, right_low]),
                            combine(
                                load(right_f, cross_at + i + t), load(left_f, cross_at + j + t)
                            ),
                        )
                    left = load_row(left_f, i + t, stride)
                    right = load_row(right_f, j + t, stride)
                    x, factor = pair(left, right, parent, prm, cross)
                    row = values(left, right, parent, prm, cross)
                    share = log2_weight(x, load(left_best, i + t) + load(right_best, j + t) + scale)
                    both = load(left_rest, i + t) * load(right_rest, j + t) * amount
                    p = chance(share, factor, both)
                    if N_VALUES > 1:
                        add_each(shares, p, row)
                        continue
                    value = value_of(row, share, factor)
                    if nested:
                        value = value + (load(left_share, i + t) + load(right_share, j + t))
                    term = weighed(p, value)
                    acc = acc + term
                    if shares.size > 0:
                        store(left_share, i + t, load(left_share, i + t) + term)
                        store(right_share, j + t, load(right_share, j + t) + term)
                if left_low == 0:
                    break
                left_low = (left_low - 1) & low
            if N_VALUES <= 1:
                sums[mask] += total(acc)
        if N_VALUES <= 1 and shares.size > 0:
            add_tile(left_share, low_bits, lefts, count, shares)
            add_tile(right_share, low_bits, rights, count, shares)


@inner
def mean_rest(
    highs, known, low_bits, tables, cross_tables, params, root_params, amounts, work, out
):
    """The splits of eight blocks with a child that has no high bit. Lanes are blocks.

    known : how many of `highs` are different; the others repeat the last.
    """
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    block_f, block_best, block_rest, block_share = work
    sums, shares, nested = out
    n_low = 1 << low_bits
    stride = n_low * LANES
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
    index = highs << low_bits
    single = highs[0] & (highs[0] - 1) == 0  # all have the same number of bits
    amount_of = np.zeros(LANES)
    scale_of = np.zeros(LANES)
    for low in range(n_low):
        for f in range(features.shape[0]):
            store(block_f, f * stride + low * LANES, gather(features[f], index, low))
        store(block_best, low * LANES, gather(best, index, low))
        store(block_rest, low * LANES, gather(rest, index, low))
        store(block_share, low * LANES, splat(0.0))
    for low in range(n_low):
        any_amount = 0.0
        for block in range(known):
            mask = index[block] | low
            amount_of[block] = amounts[mask]
            scale_of[block] = own_scale(mask, best, node) if amounts[mask] > 0.0 else 0.0
            any_amount += amounts[mask]
        if any_amount == 0.0 or (single and low == 0):
            continue
        amount = load(amount_of, 0)
        scale = load(scale_of, 0)
        parent = load_row(block_f, low * LANES, stride)
        prm = root_params if index[0] | low == root else params
        acc = splat(0.0)
        left_low = low
        while left_low > 0:
            right_low = low ^ left_low
            left = splat_row(features, left_low)
            right = load_row(block_f, right_low * LANES, stride)
            cross = splat(0.0)
            if CROSS:
                cross = combine(
                    load(block_f, cross_at + left_low * LANES), low_cross[left_low, right_low]
                )
            if LEAF_APART and left_low & (left_low - 1) == 0:
                x, factor = leaf(left, right, parent, prm, cross)
                row = leaf_values(left, right, parent, prm, cross)
            elif LEAF_APART and single and right_low == 0:
                x, factor = leaf(right, left, parent, prm, cross)
                row = leaf_values(right, left, parent, prm, cross)
            else:
                x, factor = pair(left, right, parent, prm, cross)
                row = values(left, right, parent, prm, cross)
            share = log2_weight(x, load(block_best, right_low * LANES) + best[left_low] + scale)
            both = load(block_rest, right_low * LANES) * rest[left_low] * amount
            p = chance(share, factor, both)
            if N_VALUES > 1:
                add_each(shares, p, row)
            else:
                at = right_low * LANES
                value = value_of(row, share, factor)
                if nested:
                    value = value + (load(block_share, at) + sums[left_low])
                term = weighed(p, value)
                acc = acc + term
                if shares.size > 0:
                    shares[left_low] += total(term)
                    store(block_share, at, load(block_share, at) + term)
            left_low = (left_low - 1) & low
        if LEAF_APART and not single:
            acc = acc + mean_leaves(
                highs, known, low, low_bits, tables, distances, parent, prm, (amount, scale), out
            )
        if N_VALUES > 1:
            continue
        for block in range(known):
            sums[index[block] | low] += lane(acc, block)
        if nested:
            store(block_share, low * LANES, gather(sums, index, low))
    if N_VALUES <= 1 and shares.size > 0:
        for low in range(n_low):
            own = load(block_share, low * LANES)
            for block in range(known):
                shares[index[block] | low] += lane(own, block)


@inner
def mean_leaves(highs, known, low, low_bits, tables, distances, parent, prm, of_parent, out):
    """The splits in which one child is a single leaf among the high ones; returns their sum."""
    features, best, rest, _node = tables
    amount, scale = of_parent
    sums, shares, nested = out
    acc = splat(0.0)
    remaining = highs.copy()
    leaves = highs.copy()
    others = highs.copy()
    while remaining[0] > 0:
        for block in range(LANES):
            bit = remaining[block] & -remaining[block]
            remaining[block] ^= bit
            leaves[block] = bit << low_bits
            others[block] = (highs[block] ^ bit) << low_bits
        cross = cross_lanes(leaves, others, low, distances) if CROSS else splat(0.0)
        one, other = gather_row(features, leaves, 0), gather_row(features, others, low)
        x, factor = leaf(one, other, parent, prm, cross)
        row = leaf_values(one, other, parent, prm, cross)
        share = log2_weight(x, gather(best, others, low) + scale)
        p = chance(share, factor, gather(rest, others, low) * amount)
        if N_VALUES > 1:
            add_each(shares, p, row)
        else:
            value = value_of(row, share, factor)
            if nested:
                value = value + gather(sums, others, low)
            term = weighed(p, value)
            acc = acc + term
            if shares.size > 0:
                for block in range(known):
                    shares[others[block] | low] += lane(term, block)
        if low == 0 and others[0] & (others[0] - 1) == 0:
            break  # two leaves: one split
    return acc


@jit
def mean_blocks(
    highs, low_bits, tables, cross_tables, params, root_params, amounts, sums, shares, nested
):
    """All clusters with one of the given high parts, which have equal numbers of bits.

    amounts : float64 (2^n), a / rest, or 0 for clusters that are passed over
    sums : float64 (2^n), to which the splits of each cluster add
    shares : the same for the children, which no two threads may share; or (0); of several values,
        eight parts of the sum of each
    nested : bool, whether the sums of children are added to the value; without shares
    """
    n_features = tables[0].shape[0]
    n_low = 1 << low_bits
    rows = n_low * TILE
    quads = n_low * LANES
    sides = (
        room(n_features * rows),
        room(n_features * rows),
        room(rows),
        room(rows),
        room(rows),
        room(rows),
    )
    work = (
        sides,
        (room(rows), room(rows), room(TILE)),
        (np.empty(TILE, np.int64), np.empty(TILE, np.int64)),
    )
    block = (room(n_features * quads), room(quads), room(quads), room(quads))
    group = np.empty(LANES, np.int64)
    out = (sums, shares, nested)
    for start in range(0, highs.size, LANES):
        known = min(LANES, highs.size - start)
        for at in range(LANES):
            group[at] = highs[start + min(at, known - 1)]
        for at in range(known):
            first = group[at] << low_bits
            if np.any(amounts[first : first + n_low]):
                mean_tiles(
                    group[at],
                    low_bits,
                    tables,
                    cross_tables,
                    params,
                    root_params,
                    amounts,
                    work,
                    out,
                )
        mean_rest(
            group,
            known,
            low_bits,
            tables,
            cross_tables,
            params,
            root_params,
            amounts,
            block,
            out,
        )
