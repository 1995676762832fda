"""Sums over the splits of one block, for separable potentials: a multiply-add per split.

A template (see `bind`), on top of `weights` and below `full`, for potentials of the form
log psi = gain(L) |R| + gain(R) |L| (feature 0 is the gain, feature 1 the size) or 0 (no features).

In a block and for parents with j low leaves, a left child with its best tree weighs, up to what the
right child adds,

    v(L) = best(L) + gain(L) |R|,      |R| = (high leaves of R) + j - (low leaves of L),

so that the log weight of a split is v(L) + v(R); going from j to j + 1 adds gain to v. Its part of
the sum is u(L) u(R), with u = rest 2^(v - offset - slope * (low leaves)): offset and slope, of a
tile position, add up to the same scale for all splits of a parent. They are chosen such that no u
exceeds rest; going from j to j + 1 multiplies u by 2^gain, until these powers come too far from 1
and all are chosen anew. Where the largest product would still come near the smallest double, the
exponentials are taken one by one instead.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import GAINS, inner
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
from hctrellis.support.logs import FORBIDDEN, LOG2E, NEVER

TILE = LANES  # splits side by side
RANGE = 800.0  # log2 of the ratio of products up to which plain doubles are trusted
STEEP = 1e6  # steeper rises come from forbidden clusters
GENTLE = 300.0  # log2 of the largest u / rest that is multiplied up


@inner
def load_side(features, best, rest, low_bits, masks, siblings, count, side):
    """The rows of one side of a tile, v at j = (low leaves of the row).

    side : v, u, rest, gain and 2^gain. Returns the largest |gain|.
    """
    v, _u, r, g, powers = side
    load_values(best, rest, low_bits, masks, count, TILE, v, r)
    steepest = splat(0.0)
    if GAINS:
        load_tile(features[0], low_bits, masks, TILE, g, 0)
        leaves = splat(0.0)
        for t in range(TILE):
            leaves = with_lane(leaves, t, 1.0 * bit_count(siblings[t]))
        for i in range(0, TILE << low_bits, TILE):
            gain = load(g, i) * LOG2E
            store(g, i, gain)
            store(v, i, load(v, i) + gain * leaves)
            store(powers, i, exp2(minimum(gain, GENTLE)))
            steepest = maximum(steepest, maximum(gain, -gain))
    return highest(steepest)


@inner
def slope_of(side, row, j):
    """How v rises with the number of low leaves, from the empty row to one of j low leaves."""
    v = side[0]
    rise = load(v, row * TILE) - load(v, 0)
    return choose(STEEP - maximum(rise, -rise), rise, 0.0) * (0.5 / j)


@inner
def step_side(side, j, slope, offset, order, sizes, starts):
    """Bring the rows of fewer than j low leaves from j - 1 to j.

    Returns how far log2 of u / rest is from 0 in the rows of up to j low leaves.
    """
    v, u, _r, g, powers = side
    top = bottom = offset
    for k in range(starts[j + 1]):
        i = order[k] * TILE
        v_i = load(v, i)
        if k < starts[j]:
            v_i = v_i + load(g, i)
            store(v, i, v_i)
            store(u, i, load(u, i) * load(powers, i))
        level = v_i - slope * sizes[k]
        top = maximum(top, level)
        bottom = minimum(bottom, level)
    return maximum(top - offset, offset - bottom)


@inner
def highest_level(side, count, slope, order, sizes):
    """The largest v less slope times the number of low leaves, of the first rows."""
    v = side[0]
    top = splat(NEVER)
    for k in range(count):
        top = maximum(top, load(v, order[k] * TILE) - slope * sizes[k])
    return top


@inner
def fill_side(side, first, count, slope, offset, order, sizes):
    """Fill u of the rows from `first` to `count`."""
    v, u, r, _g, _powers = side
    for k in range(first, count):
        i = order[k] * TILE
        store(u, i, load(r, i) * exp2(load(v, i) - (offset + slope * sizes[k])))


@inner
def multiply(low, left, right):
    """The sums of products over the splits of a tile, and the largest log2 weights, by position."""
    left_v, left_u, _r, _g, _powers = left
    right_v, right_u, _r, _g, _powers = right
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


@inner
def exponentials(low, left, right, reference):
    """The sum over the splits of a tile, exponentials taken one by one."""
    left_v, _u, left_r, _g, _powers = left
    right_v, _u, right_r, _g, _powers = right
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


@inner
def sum_tiles(high, low_bits, tables, cross_tables, params, root_params, work, partial, at):
    """Sum over the splits of high << low_bits | low, all low, whose children both have high bits.

    Writes the running sum and reference of every low part to two of the arrays of `partial`, at
    low * LANES + at.
    """
    features, best, rest, node = tables
    left, right = work[0], work[1]
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
        left_steepest = load_side(features, best, rest, low_bits, lefts, rights, count, left)
        right_steepest = load_side(features, best, rest, low_bits, rights, lefts, count, right)
        steep = max(left_steepest, right_steepest) > GENTLE
        slope = left_offset = right_offset = splat(0.0)
        for j in range(low_bits + 1):
            if GAINS or j == 0:
                # without gains v and u serve all j at once
                until = j if GAINS else low_bits
                start, stop = starts[until], starts[until + 1]
                apart = splat(0.0)
                if GAINS:
                    apart = maximum(
                        step_side(left, j, slope, left_offset, order, sizes, starts),
                        step_side(right, j, slope, right_offset, order, sizes, starts),
                    )
                if j == 0 or steep or highest(apart) > GENTLE:
                    if until > 0:
                        row = order[start]
                        slope = slope_of(left, row, until) + slope_of(right, row, until)
                    left_offset = highest_level(left, stop, slope, order, sizes)
                    right_offset = highest_level(right, stop, slope, order, sizes)
                    start = 0
                fill_side(left, start, stop, slope, left_offset, order, sizes)
                fill_side(right, start, stop, slope, right_offset, order, sizes)
            scale = left_offset + right_offset + slope * float(j)
            for k in range(starts[j], starts[j + 1]):
                low = order[k]
                products, peak = multiply(low, left, right)
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
                    acc = acc + exponentials(low, left, right, reference)
                store(sum_v, low * LANES, acc)
    for low in range(n_low):
        tops[low * LANES + at] = 1.0
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@inner
def make_work(n_features, low_bits):
    """The buffers that `sum_tiles` needs, and the low parts in order of size."""
    n_low = 1 << low_bits
    rows = n_low * TILE
    order, counts, starts = by_size(low_bits)
    sizes = counts[order].astype(np.float64)
    left = (room(rows), room(rows), room(rows), room(rows), room(rows))
    right = (room(rows), room(rows), room(rows), room(rows), room(rows))
    masks = (np.empty(TILE, np.int64), np.empty(TILE, np.int64))
    return left, right, (room(n_low * LANES), masks[0], masks[1], order, starts), sizes
