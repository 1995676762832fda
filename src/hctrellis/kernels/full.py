"""Upward pass over the full lattice of clusters: the recursion of log Z and MAP, vectorised.

A template (see `bind`), on top of `weights` and of `tiles` or `linear`.

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
they are finished afterwards, eight high parts at a time. Cost: 3^n / 2 splits, no memory beyond
the tables and a few 10 kB of buffers.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import (
    CROSS,
    LEAF_APART,
    SCALED,
    combine,
    gather_row,
    inner,
    jit,
    leaf,
    load_row,
    pair,
    splat_row,
)
from hctrellis.kernels.common import room
from hctrellis.kernels.elementary import exp2
from hctrellis.kernels.simd import LANES, gather, lane, load, maximum, splat, store
from hctrellis.kernels.tiles import make_work, sum_tiles
from hctrellis.kernels.weights import (
    add_entries,
    cross_distance,
    cross_lanes,
    log2_weight,
    split_terms,
)
from hctrellis.support.logs import FORBIDDEN, NEVER


@inner
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
        cross = cross_distance(left, right, distances) if CROSS else 0.0
        x, factor = split_terms(left, right, parent, features, params, cross)
        w = log2_weight(x, best[left] + best[right])
        if w > reference:
            shrink = exp2(reference - w)
            top *= shrink
            acc *= shrink
            reference = w
        e = exp2(w - reference) * factor
        top = max(top, e)
        acc += e * rest[left] * rest[right]
    write_cluster(parent, reference, top, acc, best, rest, node)


@inner
def write_cluster(parent, reference, top, acc, best, rest, node):
    """Write the two numbers of a cluster."""
    own = node[parent] if node.size > 0 else 0.0
    if not acc < np.inf:
        best[parent] = NEVER
        rest[parent] = np.nan
    elif reference < FORBIDDEN or own < FORBIDDEN or acc == 0.0:
        best[parent] = NEVER
        rest[parent] = 0.0
    elif SCALED:
        best[parent] = own + reference + math.log2(top)
        rest[parent] = acc / top
    else:
        best[parent] = own + reference
        rest[parent] = acc


@inner
def finish(highs, low_bits, tables, cross_tables, params, root_params, work, partial):
    """Complete eight blocks (the eight `highs`): the splits with a child that has no high bit.

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
    single = highs[0] & (highs[0] - 1) == 0  # all have the same number of bits
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
            w = log2_weight(x, best[left_low] + load(block_best, right_low * LANES))
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
                w = log2_weight(x, gather(best, others, low))
                peak = maximum(peak, w)
                store(log_weights, entries, w)
                store(rests, entries, gather(rest, others, low))
                if SCALED:
                    store(factors, entries, factor)
                entries += LANES
                if low == 0 and others[0] & (others[0] - 1) == 0:
                    break  # two leaves: one split
        shrink = exp2(before - peak)
        top, acc = add_entries(
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
            write_cluster(
                mask, lane(peak, block), lane(top, block), lane(acc, block), best, rest, node
            )
            if bad == 0 and not rest[mask] < np.inf:
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
    quads = n_low * LANES
    work = make_work(n_features, low_bits)
    block = (
        room(n_features * quads),
        room(quads),
        room(quads),
        room((n_low + 64) * LANES),
        room((n_low + 64) * LANES),
        room((n_low + 64) * LANES),
    )
    partial = (room(quads), room(quads), room(quads))
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
                    work,
                    partial,
                    at,
                )
            else:  # fewer than eight: repeat the last
                group[at] = group[at - 1]
                for array in partial:
                    for low in range(n_low):
                        array[low * LANES + at] = array[low * LANES + at - 1]
        bad = finish(group, low_bits, tables, cross_tables, params, root_params, block, partial)
        if bad != 0:
            return bad
    return 0
