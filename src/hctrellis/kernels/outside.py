"""Downward pass over the full lattice: how much the trees around each cluster weigh, vectorised.

A template (see `bind`), on top of `weights`. With best and rest from the upward pass, q(P -> S, R)
the probability of a split given its parent P, and a number h(P) per cluster,

    target(S) rest(S) = sum over R disjoint from S of h(P) q(P -> S, R),     P = S + R.

With h(P) = source(P) rest(P) and source = target this is the recursion of the probabilities of
clusters, which are target * rest; with another source it is an expectation over the parent of each
cluster. The same blocks as on the way up, in the opposite order: the high parts RH of the other
child run over the submasks of the complement of SH in tiles; pairs in which R has no high part
lie inside the block of S and are finished afterwards, low parts in decreasing order. Splits of
the root are left to `root_splits`, since the root may have parameters of its own.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import (
    CROSS,
    GAINS,
    LEAF_APART,
    LINEAR,
    NOWHERE,
    SCALED,
    USES_PARENT,
    combine,
    gather_row,
    inner,
    jit,
    leaf,
    load_row,
    pair,
    splat_row,
    take_row,
)
from hctrellis.kernels.common import bit_count, by_size, load_tile, room
from hctrellis.kernels.elementary import exp2
from hctrellis.kernels.simd import (
    LANES,
    choose,
    gather,
    highest,
    lane,
    load,
    maximum,
    splat,
    store,
    total,
)
from hctrellis.kernels.weights import cross_lanes, cross_lookup, log2_weight, split_terms
from hctrellis.support.logs import FORBIDDEN, LOG2E, NEVER

TILE = 16  # other children side by side
TRUSTED = 600.0  # log2 of the largest scale at which what underflows is below 2^-300
STEEP = 40.0  # log2 of the largest gain that is multiplied up
VANISHING = 2.0**-200  # parents whose source is smaller are passed over


@jit
def root_splits(tables, params, low_bits, cross_tables, source_root, target):
    """The first term of every target: over the splits of the root."""
    features, best, rest, node = tables
    root = best.size - 1
    own = node[root] if node.size > 0 else 0.0
    target[0] = target[root] = 0.0
    for left in range(1, (root + 1) // 2):
        right = root ^ left
        cross = cross_lookup(left, right, features, low_bits, cross_tables) if CROSS else 0.0
        x, factor = split_terms(left, right, root, features, params, cross)
        w = log2_weight(x, best[left] + best[right] + own - best[root])
        e = exp2(w) * factor * source_root if best[root] > FORBIDDEN else 0.0
        target[left] = e * rest[right]
        target[right] = e * rest[left]


@inner
def load_parents(node, best, source, low_bits, masks, width, scratch, tops, sources):
    """The rows of the parents of a tile: log2 of own weight over best tree, and source."""
    load_tile(best, low_bits, masks, width, tops, 0)
    load_tile(source, low_bits, masks, width, sources, 0)
    if node.size > 0:
        load_tile(node, low_bits, masks, width, scratch, 0)
    for low in range(1 << low_bits):
        for t in range(0, width, LANES):
            i = low * TILE + t
            top = load(tops, i)
            own = load(scratch, i) if node.size > 0 else splat(0.0)
            store(tops, i, choose(top - FORBIDDEN, own - top, NEVER))


@inner
def scale_rows(logs, scales, n_low, width, out, tops):
    """out = scales 2^(logs - tops), where tops is the largest log of each position of a tile."""
    for t in range(0, TILE, LANES):
        top = splat(NEVER)
        if t < width:
            for low in range(n_low):
                top = maximum(top, load(logs, low * TILE + t))
        store(tops, t, top)
        for i in range(t, n_low * TILE, TILE):
            store(out, i, load(scales, i) * exp2(load(logs, i) - top) if t < width else splat(0.0))


@inner
def grown_rows(other_best, other_f, size, n_low, out):
    """What a child weighs with the gain by a sibling of `size` leaves, in all rows of a tile."""
    for i in range(0, n_low * TILE, LANES):
        out_i = load(other_best, i) + load(other_f, i) * (LOG2E * size)
        store(out, i, out_i)


@inner
def multiply_around(low, n_low, best, gain, leaves, counts, u, tops, parent_u, parent_tops, powers):
    """The sum over a tile by multiply-adds, for separable potentials.

    best, gain : of the cluster itself; leaves : number of high leaves of the other child, by
    position; counts : number of leaves of low parts; u, tops, parent_u, parent_tops : from
    `scale_rows`. Returns whether it can be trusted (what underflows must be far below any
    probability of interest), and the sum.
    """
    free = n_low - 1 ^ low
    scale = splat(NEVER)
    for t in range(0, TILE, LANES):
        more = load(leaves, t) * gain if GAINS else splat(0.0)
        scale = maximum(scale, load(tops, t) + load(parent_tops, t) + more)
    if best + highest(scale) + max(0.0, gain * counts[free]) > TRUSTED or abs(gain) > STEEP:
        return False, scale
    if GAINS:
        for k in range(counts[free] + 1):
            powers[k] = exp2(gain * k)
    a = b = splat(0.0)
    other_low = free
    while True:
        i = other_low * TILE
        j = (low | other_low) * TILE
        power = powers[counts[other_low]] if GAINS else 1.0
        a = a + load(u, i) * power * load(parent_u, j)
        b = b + load(u, i + LANES) * power * load(parent_u, j + LANES)
        if other_low == 0:
            break
        other_low = (other_low - 1) & ~low
    acc = splat(0.0)
    for t, part in ((0, a), (LANES, b)):
        more = load(leaves, t) * gain if GAINS else splat(0.0)
        acc = acc + part * exp2(load(tops, t) + load(parent_tops, t) + more + best)
    return True, acc


@inner
def sum_around(high, low_bits, tables, cross_tables, params, source, work, sums, at):
    """Sum over all R with high bits, for the clusters high << low_bits | low, all low.

    Writes the sum of every low part to sums[low * LANES + at].
    """
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    other_f, other_best, other_rest, parent_f, parent_top, parent_source = work[0]
    log_weights, scales, sum_v, high_cross, largest = work[1]
    others, parents = work[2]
    other_u, other_tops, parent_u, parent_tops, leaves, powers = work[3]
    order, counts, _starts = work[4]
    high_size = bit_count(high)
    n_low = 1 << low_bits
    stride = TILE << low_bits
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
    for low in range(n_low):
        store(sum_v, low * LANES, splat(0.0))
    free = (root >> low_bits) ^ high
    sub = free
    while sub > 0:
        count = 0
        while sub > 0 and count < TILE:
            others[count] = sub
            parents[count] = high | sub
            sub = (sub - 1) & free
            count += 1
        width = -(-count // LANES) * LANES
        for t in range(count, width):
            others[t] = others[0]
            parents[t] = parents[0]
        for f in range(features.shape[0]):
            load_tile(features[f], low_bits, others, width, other_f, f * stride)
            if USES_PARENT:
                load_tile(features[f], low_bits, parents, width, parent_f, f * stride)
        load_tile(best, low_bits, others, width, other_best, 0)
        load_tile(rest, low_bits, others, width, other_rest, 0)
        load_parents(
            node, best, source, low_bits, parents, width, scales, parent_top, parent_source
        )
        for t in range(width):
            if t >= count or (LEAF_APART and others[t] & (others[t] - 1) == 0):
                for low in range(n_low if t >= count else 1):
                    other_rest[low * TILE + t] = 0.0
            for low in range(n_low):
                if parents[t] << low_bits | low == root:
                    parent_source[low * TILE + t] = 0.0
            if CROSS:
                high_cross[t] = NOWHERE
                for i in range(near.shape[0]):
                    if high >> i & 1:
                        high_cross[t] = combine(high_cross[t], near[i, others[t]])
        for low in range(n_low):
            top = splat(0.0)
            for t in range(0, width, LANES):
                top = maximum(top, load(parent_source, low * TILE + t))
            largest[low] = highest(top)
        if LINEAR:
            scale_rows(parent_top, parent_source, n_low, width, parent_u, parent_tops)
            for t in range(TILE):
                leaves[t] = bit_count(others[t]) if t < width else 0.0
        size = -1
        for k in range(n_low):
            low = order[k]
            mask = high << low_bits | low
            if mask == 0 or best[mask] < FORBIDDEN:
                continue
            if LINEAR:
                if not GAINS and size < 0:
                    scale_rows(other_best, other_rest, n_low, width, other_u, other_tops)
                elif GAINS and size != counts[low]:
                    grown_rows(other_best, other_f, high_size + counts[low], n_low, scales)
                    scale_rows(scales, other_rest, n_low, width, other_u, other_tops)
                size = counts[low]
                gain = features[0, mask] * LOG2E if GAINS else 0.0
                ready, acc = multiply_around(
                    low,
                    n_low,
                    best[mask],
                    gain,
                    leaves,
                    counts,
                    other_u,
                    other_tops,
                    parent_u,
                    parent_tops,
                    powers,
                )
                if ready:
                    store(sum_v, low * LANES, load(sum_v, low * LANES) + acc)
                    continue
            own = take_row(features, mask)
            single = mask & (mask - 1) == 0
            entries = 0
            other_low = n_low - 1 ^ low
            while True:
                parent_low = low | other_low
                if largest[parent_low] > VANISHING:
                    i = other_low * TILE
                    j = parent_low * TILE
                    for t in range(0, width, LANES):
                        cross = 0.0
                        if CROSS:
                            cross = combine(
                                combine(load(high_cross, t), low_cross[low, other_low]),
                                combine(
                                    load(other_f, cross_at + low * TILE + t),
                                    features[features.shape[0] - 1, high << low_bits | other_low],
                                ),
                            )
                        r = load_row(other_f, i + t, stride)
                        p = load_row(parent_f, j + t, stride)
                        if LEAF_APART and single:
                            x, factor = leaf(own, r, p, params, cross)
                        else:
                            x, factor = pair(own, r, p, params, cross)
                        w = log2_weight(x, load(other_best, i + t) + load(parent_top, j + t))
                        store(log_weights, entries, w)
                        scale = load(other_rest, i + t) * load(parent_source, j + t)
                        store(scales, entries, scale * factor if SCALED else scale)
                        entries += LANES
                if other_low == 0:
                    break
                other_low = (other_low - 1) & ~low
            acc = load(sum_v, low * LANES)
            for i in range(0, entries, LANES):
                acc = acc + exp2(load(log_weights, i) + best[mask]) * load(scales, i)
            store(sum_v, low * LANES, acc)
    for low in range(n_low):
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@inner
def lacks(best, node, index, low):
    """log2 of own weight over best tree, of eight parents; NEVER for forbidden ones."""
    top = gather(best, index, low)
    own = gather(node, index, low) if node.size > 0 else splat(0.0)
    return choose(top - FORBIDDEN, own - top, NEVER)


@inner
def finish_around(highs, low_bits, tables, cross_tables, params, source, target, block, sums):
    """Complete eight blocks: pairs in which the other child has no high bit. Lanes are blocks."""
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    block_f, block_lack, block_source = block
    n_low = 1 << low_bits
    stride = n_low * LANES
    cross_at = (features.shape[0] - 1) * stride
    root = best.size - 1
    index = highs << low_bits
    single_high = highs[0] > 0 and highs[0] & (highs[0] - 1) == 0
    for low in range(n_low):
        for f in range(features.shape[0]):
            store(block_f, f * stride + low * LANES, gather(features[f], index, low))
        store(block_lack, low * LANES, lacks(best, node, index, low))
        store(block_source, low * LANES, gather(source, index, low))
    if index[0] | (n_low - 1) == root:
        store(block_source, (n_low - 1) * LANES, splat(0.0))
    for k in range(n_low):
        low = n_low - 1 - k
        if index[0] | low == 0 or index[0] | low == root:
            continue
        own = load_row(block_f, low * LANES, stride)
        own_best = gather(best, index, low)
        single = (single_high and low == 0) or (highs[0] == 0 and low & (low - 1) == 0)
        acc = load(sums, low * LANES)
        other_low = n_low - 1 ^ low
        while other_low > 0:
            j = (low | other_low) * LANES
            r = splat_row(features, other_low)
            p = load_row(block_f, j, stride)
            cross = 0.0
            if CROSS:
                cross = combine(
                    load(block_f, cross_at + other_low * LANES), low_cross[low, other_low]
                )
            if LEAF_APART and single:
                x, factor = leaf(own, r, p, params, cross)
            elif LEAF_APART and other_low & (other_low - 1) == 0:
                x, factor = leaf(r, own, p, params, cross)
            else:
                x, factor = pair(own, r, p, params, cross)
            e = exp2(log2_weight(x, own_best + best[other_low] + load(block_lack, j)))
            if SCALED:
                e = e * factor
            acc = acc + e * (rest[other_low] * load(block_source, j))
            other_low = (other_low - 1) & ~low
        if LEAF_APART:
            around = (own, own_best)
            acc = acc + leaves_around(
                highs, low_bits, tables, distances, params, source, low, around
            )
        for lane_ in range(LANES):
            if lane_ == 0 or index[lane_] != index[lane_ - 1]:
                target[index[lane_] | low] += lane(acc, lane_)
        store(block_source, low * LANES, gather(source, index, low))


@inner
def leaves_around(highs, low_bits, tables, distances, params, source, low, around):
    """The pairs in which the other child is a single leaf among the high ones.

    around : features and best of the clusters
    """
    features, best, _rest, node = tables
    own, own_best = around
    root = best.size - 1
    remaining = (root >> low_bits) ^ highs
    leaves = highs.copy()
    parents = highs.copy()
    acc = splat(0.0)
    while remaining[0] > 0:
        for block in range(LANES):
            bit = remaining[block] & -remaining[block]
            remaining[block] ^= bit
            leaves[block] = bit << low_bits
            parents[block] = (highs[block] | bit) << low_bits
        if parents[0] | low == root:
            continue
        cross = cross_lanes(leaves, highs << low_bits, low, distances) if CROSS else 0.0
        x, factor = leaf(
            gather_row(features, leaves, 0), own, gather_row(features, parents, low), params, cross
        )
        w = log2_weight(x, own_best + lacks(best, node, parents, low))
        acc = acc + exp2(w) * factor * gather(source, parents, low)
    return acc


@jit
def solve_around(highs, low_bits, tables, cross_tables, params, source, target):
    """The recursion for all clusters with one of the given high parts (equal numbers of bits)."""
    n_features = tables[0].shape[0]
    n_low = 1 << low_bits
    rows = n_low * TILE
    work = (
        (
            room(n_features * rows),
            room(rows),
            room(rows),
            room(n_features * rows),
            room(rows),
            room(rows),
        ),
        (
            room(rows),
            room(rows),
            room(n_low * LANES),
            room(TILE),
            np.empty(n_low),
        ),
        (np.empty(TILE, np.int64), np.empty(TILE, np.int64)),
        (
            room(rows),
            room(TILE),
            room(rows),
            room(TILE),
            room(TILE),
            np.empty(low_bits + 1),
        ),
        by_size(low_bits),
    )
    quads = n_low * LANES
    block = (room(n_features * quads), room(quads), room(quads))
    sums = room(quads)
    group = np.empty(LANES, np.int64)
    for start in range(0, highs.size, LANES):
        for at in range(LANES):
            if start + at < highs.size:
                group[at] = highs[start + at]
                sum_around(
                    group[at],
                    low_bits,
                    tables,
                    cross_tables,
                    params,
                    source,
                    work,
                    sums,
                    at,
                )
            else:
                group[at] = group[at - 1]
        finish_around(
            group,
            low_bits,
            tables,
            cross_tables,
            params,
            source,
            target,
            block,
            sums,
        )
