"""Sums over the splits of one block, for separable potentials: a multiply-add per split.

A template (see `bind`), on top of `weights` and below `full`, for potentials of the form
log psi = gain(L) |R| + gain(R) |L| (feature 0 is the gain, feature 1 the size) or 0 (no features).

In a block and for parents with j low leaves, a left child with its best tree weighs, up to what the
right child adds,

    v(L) = best(L) + gain(L) |R|,      |R| = (high leaves of R) + j - (low leaves of L),

so that the log weight of a split is v(L) + v(R); going from j to j + 1 adds gain to v. Its part of
the sum is u(L) u(R), with u = rest 2^(v - offset - slope * (low leaves)): offset and slope, chosen
per tile position and j such that no u exceeds rest, add up to the same scale for all splits of a
parent. Where the largest product would still come near the smallest double, the exponentials are
taken one by one instead.
"""

# mypy: ignore-errors
from __future__ import annotations

import numpy as np

from hctrellis.kernels.common import (
    bit_count,
    by_size,
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
    highest,
    load,
    maximum,
    minimum,
    splat,
    store,
    total,
    with_lane,
)
from hctrellis.logs import FORBIDDEN, LOG2E, NEVER

TILE = LANES  # splits side by side
RANGE = 800.0  # log2 of the largest over the smallest product that plain doubles are trusted with
STEEP = 1e6  # a rise beyond comes from forbidden clusters


@jit
def load_side(features, best, rest, low_bits, masks, siblings, count, v, r, g):
    """The rows v, rest and gain of one side of a tile, v at j = (low leaves of the row)."""
    load_values(best, rest, low_bits, masks, count, TILE, v, r)
    if GAINS:
        load_tile(features[0], low_bits, masks, TILE, g, 0)
        leaves = splat(0.0)
        for t in range(TILE):
            leaves = with_lane(leaves, t, LOG2E * bit_count(siblings[t]))
        for i in range(0, TILE << low_bits, TILE):
            store(v, i, load(v, i) + load(g, i) * leaves)


@jit
def slope_of(v, g, row, j):
    """How v rises with the number of low leaves, from the empty row to one of j low leaves."""
    bottom = load(v, 0)
    if GAINS:
        bottom = bottom + load(g, 0) * LOG2E  # the empty row is one step behind
    rise = load(v, row * TILE) - bottom
    return choose(STEEP - maximum(rise, -rise), rise, 0.0) * (0.5 / j)


@jit
def scale_side(v, u, r, g, slope, order, sizes, behind, count):
    """Bring v of the rows order[:behind] to the next j, fill u of order[:count]; the offsets."""
    top = splat(NEVER)
    for k in range(count):
        i = order[k] * TILE
        v_i = load(v, i)
        if GAINS and k < behind:
            v_i = v_i + load(g, i) * LOG2E
            store(v, i, v_i)
        top = maximum(top, v_i - slope * sizes[k])
    for k in range(count):
        i = order[k] * TILE
        store(u, i, load(r, i) * exp2(load(v, i) - (top + slope * sizes[k])))
    return top


@jit
def multiply(low, left_v, left_u, right_v, right_u):
    """The sums of products over the splits of a tile, and the largest log2 weights, by position."""
    peak = splat(NEVER)
    acc = splat(0.0)
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        peak = maximum(peak, load(left_v, i) + load(right_v, j))
        acc = acc + load(left_u, i) * load(right_u, j)
        if left_low == 0:
            return acc, peak
        left_low = (left_low - 1) & low


@jit
def exponentials(low, left_v, right_v, left_r, right_r, reference):
    """The sum over the splits of a tile, exponentials taken one by one."""
    acc = splat(0.0)
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        e = exp2(load(left_v, i) + load(right_v, j) - reference)
        acc = acc + e * (load(left_r, i) * load(right_r, j))
        if left_low == 0:
            return acc
        left_low = (left_low - 1) & low


@jit
def sum_tiles(high, low_bits, tables, cross_tables, params, root_params, work, partial, at):
    """Sum over the splits of high << low_bits | low, all low, whose children both have high bits.

    Writes the running sum and reference of every low part to two of the arrays of `partial`, at
    low * LANES + at.
    """
    features, best, rest, node = tables
    left_v, left_u, left_r, left_g = work[0]
    right_v, right_u, right_r, right_g = work[1]
    sum_v, lefts, rights, order, starts = work[2]
    sizes = work[3]
    tops, sums, references = partial
    n_low = 1 << low_bits
    for low in range(n_low):
        references[low * LANES + at] = NEVER
        store(sum_v, low * LANES, splat(0.0))
    gap = negligible_gap(bit_count(high) + low_bits)
    first = high & -high
    others = high ^ first
    sub = others
    while sub > 0:
        sub, count = next_tile(sub, others, first, lefts, rights)
        load_side(features, best, rest, low_bits, lefts, rights, count, left_v, left_r, left_g)
        load_side(features, best, rest, low_bits, rights, lefts, count, right_v, right_r, right_g)
        offset = slope = splat(0.0)
        for j in range(low_bits + 1):
            if GAINS or j == 0:
                # without gains v and u serve all j at once
                until = j if GAINS else low_bits
                if until > 0:
                    row = order[starts[until]]
                    slope = slope_of(left_v, left_g, row, until) + slope_of(
                        right_v, right_g, row, until
                    )
                behind, count = starts[until], starts[until + 1]
                offset = scale_side(
                    left_v, left_u, left_r, left_g, slope, order, sizes, behind, count
                ) + scale_side(
                    right_v, right_u, right_r, right_g, slope, order, sizes, behind, count
                )
            scale = offset + slope * float(j)
            for k in range(starts[j], starts[j + 1]):
                low = order[k]
                products, peak = multiply(low, left_v, left_u, right_v, right_u)
                new = highest(peak)
                reference = references[low * LANES + at]
                if new < reference - gap or new < FORBIDDEN:
                    continue
                acc = load(sum_v, low * LANES)
                if new > reference:
                    acc = acc * exp2(reference - new)
                    references[low * LANES + at] = reference = new
                excess = peak - (reference - gap)  # above 0 where the weights are not negligible
                if highest(choose(excess, scale - peak, 0.0)) < RANGE:
                    shift = exp2(minimum(scale - reference, RANGE))
                    acc = acc + choose(excess, products * shift, 0.0)
                else:
                    acc = acc + exponentials(low, left_v, right_v, left_r, right_r, reference)
                store(sum_v, low * LANES, acc)
    for low in range(n_low):
        tops[low * LANES + at] = 1.0
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@jit
def make_work(n_features, low_bits):
    """The buffers that `sum_tiles` needs, and the low parts in order of size."""
    n_low = 1 << low_bits
    rows = n_low * TILE
    order, counts, starts = by_size(low_bits)
    sizes = counts[order].astype(np.float64)
    left = (room(rows), room(rows), room(rows), room(rows))
    right = (room(rows), room(rows), room(rows), room(rows))
    masks = (np.empty(TILE, np.int64), np.empty(TILE, np.int64))
    return left, right, (room(n_low * LANES), masks[0], masks[1], order, starts), sizes
