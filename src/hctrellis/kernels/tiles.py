"""Sums over the splits of one block, in tiles: one exponential per split.

A template (see `bind`), on top of `weights` and below `full`.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import (
    CHECKED,
    CROSS,
    FACTOR_RANGE,
    LEAF_APART,
    SCALED,
    combine,
    inner,
    load_row,
    take_row,
    unchecked_pair,
)
from hctrellis.kernels.common import (
    bit_count,
    load_tile,
    load_values,
    negligible_gap,
    next_tile,
    room,
)
from hctrellis.kernels.elementary import exp2
from hctrellis.kernels.simd import (
    LANES,
    choose,
    every,
    highest,
    load,
    maximum,
    splat,
    store,
    total,
)
from hctrellis.kernels.weights import add_entry
from hctrellis.support.logs import FORBIDDEN, LARGEST, LOG2E, NEVER

TILE = 16  # splits side by side
OVERFLOW = 2.0**100  # times it, a number beyond LARGEST is infinite, whatever is added
LARGEST_FINITE = float(np.finfo(np.float64).max)
LARGEST_LOG2 = LARGEST * LOG2E * (1.0 + 1e-12)  # with room for rounding


@inner
def load_side(features, best, rest, low_bits, masks, count, width, out_f, out_best, out_rest):
    """The rows of one side (left or right) of a tile; single leaves are left out if LEAF_APART."""
    for f in range(features.shape[0]):
        load_tile(features[f], low_bits, masks, width, out_f, f * (TILE << low_bits))
    load_values(best, rest, low_bits, masks, count, width, out_best, out_rest)
    if LEAF_APART:
        for t in range(count):
            if masks[t] & (masks[t] - 1) == 0:
                out_best[t] = NEVER
                out_rest[t] = 0.0


@inner
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


@inner
def check_row(low, width, left_best, right_best, log_weights):
    """Look through log weights of users' functions, of which some may be infinite or no numbers.

    log_weights : of the splits of one parent, in order, with the best trees of their children.
    Forbidden ones become finite, and those that are no log weights NaN. Returns the largest, or
    NaN if one is NaN.
    """
    peak = splat(NEVER)
    sound = True
    entries = 0
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        for t in range(0, width, LANES):
            best = load(left_best, i + t) + load(right_best, j + t)
            w = load(log_weights, entries)
            x = w - best
            infinite = choose(-x - LARGEST_FINITE, NEVER + best, np.nan)
            w = choose(LARGEST_LOG2 - maximum(x, -x), w, infinite)
            sound = sound and every(w == w)
            peak = maximum(peak, w)
            store(log_weights, entries, w)
            entries += LANES
        if left_low == 0:
            break
        left_low = (left_low - 1) & low
    return peak if sound else splat(np.nan)


@inner
def add_row(low, width, reference, log_weights, factors, left_rest, right_rest, top, acc):
    """Add the splits of one parent to a running maximum and sum (vectors)."""
    entries = 0
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        for t in range(0, TILE, LANES):
            if t == width:
                break
            rest = load(left_rest, i + t) * load(right_rest, j + t)
            top, acc = add_entry(entries, rest, reference, log_weights, factors, top, acc)
            entries += LANES
        if left_low == 0:
            return top, acc
        left_low = (left_low - 1) & low


@inner
def sum_tiles(high, low_bits, tables, cross_tables, params, root_params, work, partial, at):
    """Sum over the splits of high << low_bits | low, all low, whose children both have high bits.

    Writes the running maximum, sum and reference of every low part to the three arrays of
    `partial`, at low * LANES + at.
    """
    features, best, rest, node = tables
    distances, near, low_cross = cross_tables
    left_f, right_f, left_best, right_best, left_rest, right_rest = work[0]
    log_weights, factors, top_v, sum_v, high_cross = work[1]
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
    gap = negligible_gap(bit_count(high) + low_bits) + FACTOR_RANGE
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
            checked = splat(0.0)
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
                    x, factor = unchecked_pair(
                        load_row(left_f, i + t, stride),
                        load_row(right_f, j + t, stride),
                        parent,
                        prm,
                        cross,
                    )
                    if CHECKED:
                        checked = x * OVERFLOW + checked
                    w = x * LOG2E + (load(left_best, i + t) + load(right_best, j + t))
                    peak = maximum(peak, w)
                    store(log_weights, entries, w)
                    if SCALED:
                        store(factors, entries, factor)
                    entries += LANES
                if left_low == 0:
                    break
                left_low = (left_low - 1) & low
            if CHECKED and not every(abs(checked) < np.inf):
                peak = check_row(low, width, left_best, right_best, log_weights)
            k = low * LANES
            top = load(top_v, k)
            acc = load(sum_v, k)
            reference = references[k + at]
            new = highest(peak)
            if new < reference - gap or new < FORBIDDEN:
                continue
            if new > reference:
                shrink = exp2(reference - new)
                top = top * shrink
                acc = acc * shrink
                reference = new
                references[k + at] = new
            top, acc = add_row(
                low, width, reference, log_weights, factors, left_rest, right_rest, top, acc
            )
            store(top_v, k, top)
            store(sum_v, k, acc)
    for low in range(n_low):
        tops[low * LANES + at] = highest(load(top_v, low * LANES))
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@inner
def make_work(n_features, low_bits):
    """The buffers that `sum_tiles` needs."""
    n_low = 1 << low_bits
    rows = n_low * TILE
    sides = (
        room(n_features * rows),
        room(n_features * rows),
        room(rows),
        room(rows),
        room(rows),
        room(rows),
    )
    entries = (
        room(rows),
        room(rows),
        room(n_low * LANES),
        room(n_low * LANES),
        room(TILE),
    )
    return sides, entries, (np.empty(TILE, np.int64), np.empty(TILE, np.int64))
