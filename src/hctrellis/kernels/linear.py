"""Sums over the splits of one block, for separable potentials: a multiply-add per split.

A template (see `bind`), on top of `weights` and below `full`, for potentials of the form
log psi = gain(L) |R| + gain(R) |L| (feature 0 is the gain, feature 1 the size) or 0 (no features).

In a block and for parents with j low leaves, a left child with its best tree weighs, up to what the
right child adds,

    v_j(L) = best(L) + gain(L) |R|,      |R| = (high leaves of R) + j - (low leaves of L),

so that the weight of a split is v_j(L) + v_j(R), its part of the sum u_j(L) u_j(R) with
u_j = rest 2^(v_j - scale), and going from j to j + 1 adds gain to v and multiplies u by 2^gain.
Scales are chosen per tile such that no u exceeds rest; where the largest product would come near
the smallest double, the exponentials are taken one by one instead.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

import numpy as np

from hctrellis.kernels.common import FORBIDDEN, NEVER, load_tile, load_values, next_tile
from hctrellis.kernels.simd import (
    LANES,
    LOG2E,
    exp2,
    highest,
    load,
    maximum,
    pack,
    splat,
    store,
    total,
)

TILE = 8  # splits side by side
RANGE = 800.0  # log2 of the largest over the smallest product that plain doubles are trusted with
GAINS = N_FEATURES > 0


@jit
def bit_count(mask):
    """Number of leaves of a cluster."""
    count = 0
    while mask > 0:
        mask &= mask - 1
        count += 1
    return count


@jit
def load_side(features, best, rest, low_bits, masks, siblings, count, side):
    """The rows v, u, rest and gain of one side of a tile at j = (low leaves); returns the scale."""
    v, u, r, g, q = side
    rows = TILE << low_bits
    load_values(best, rest, low_bits, masks, count, TILE, v, r)
    if GAINS:
        load_tile(features[0], low_bits, masks, TILE, g, 0)
    top = splat(NEVER)
    for t in range(0, TILE, LANES):
        leaves = splat(0.0)
        if GAINS:
            leaves = pack(
                float(bit_count(siblings[t])),
                float(bit_count(siblings[t + 1])),
                float(bit_count(siblings[t + 2])),
                float(bit_count(siblings[t + 3])),
            )
        for i in range(t, rows, TILE):
            if GAINS:
                gain = load(g, i) * LOG2E
                store(g, i, gain)
                store(v, i, load(v, i) + gain * leaves)
            top = maximum(top, load(v, i))
    scale = highest(top)
    for i in range(0, rows, LANES):
        store(u, i, load(r, i) * exp2(load(v, i) - scale))
    return scale


@jit
def highest_gain(side, rows):
    """The largest gain of one side of a tile."""
    g = side[3]
    top = load(g, 0)
    for i in range(LANES, rows, LANES):
        top = maximum(top, load(g, i))
    return highest(top)


@jit
def prepare_steps(side, rows, step):
    """The factors by which u grows from one j to the next, less a common scale."""
    v, u, r, g, q = side
    for i in range(0, rows, LANES):
        store(q, i, exp2(load(g, i) - step))


@jit
def take_step(side, order, count):
    """Go from j to j + 1 in the rows order[:count], those with at most j low leaves."""
    v, u, r, g, q = side
    for k in range(count):
        for i in range(order[k] * TILE, (order[k] + 1) * TILE, LANES):
            store(v, i, load(v, i) + load(g, i))
            store(u, i, load(u, i) * load(q, i))


@jit
def add_exactly(low, left, right, new, acc):
    """The sum over one tile, exponentials taken one by one, relative to the largest."""
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        for t in range(0, TILE, LANES):
            e = exp2(load(left[0], i + t) + load(right[0], j + t) - new)
            acc = acc + e * (load(left[2], i + t) * load(right[2], j + t))
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
    left, right, sum_v, lefts, rights, order, starts = work
    tops, sums, references = partial
    n_low = 1 << low_bits
    rows = n_low * TILE
    for low in range(n_low):
        references[low * LANES + at] = NEVER
        store(sum_v, low * LANES, splat(0.0))
    first = high & -high
    others = high ^ first
    sub = others
    while sub > 0:
        sub, count = next_tile(sub, others, first, lefts, rights)
        scale = load_side(features, best, rest, low_bits, lefts, rights, count, left)
        scale += load_side(features, best, rest, low_bits, rights, lefts, count, right)
        step = 0.0
        if GAINS:
            step = max(highest_gain(left, rows), highest_gain(right, rows))
            prepare_steps(left, rows, step)
            prepare_steps(right, rows, step)
        for j in range(low_bits + 1):
            if GAINS and j > 0:
                take_step(left, order, starts[j])
                take_step(right, order, starts[j])
                scale += step
            for k in range(starts[j], starts[j + 1]):
                low = order[k]
                add_tile(low, left, right, scale, low * LANES, references, at, sum_v)
    for low in range(n_low):
        tops[low * LANES + at] = 1.0
        sums[low * LANES + at] = total(load(sum_v, low * LANES))


@jit
def add_tile(low, left, right, scale, k, references, at, sum_v):
    """Add one tile to the sum and the reference of one low part."""
    left_v, left_u = left[0], left[1]
    right_v, right_u = right[0], right[1]
    peak0 = peak1 = splat(NEVER)
    acc0 = acc1 = splat(0.0)
    left_low = low
    while True:
        i = left_low * TILE
        j = (low ^ left_low) * TILE
        peak0 = maximum(peak0, load(left_v, i) + load(right_v, j))
        peak1 = maximum(peak1, load(left_v, i + LANES) + load(right_v, j + LANES))
        acc0 = acc0 + load(left_u, i) * load(right_u, j)
        acc1 = acc1 + load(left_u, i + LANES) * load(right_u, j + LANES)
        if left_low == 0:
            break
        left_low = (left_low - 1) & low
    new = highest(maximum(peak0, peak1))
    if new < FORBIDDEN:
        return
    if new - scale > -RANGE:
        acc = acc0 + acc1
    else:
        acc = add_exactly(low, left, right, new, splat(0.0))
        scale = new
    reference = references[k + at]
    if new > reference:
        store(sum_v, k, load(sum_v, k) * exp2(reference - new))
        references[k + at] = new
        reference = new
    store(sum_v, k, load(sum_v, k) + acc * exp2(scale - reference))


@jit
def make_work(n_features, low_bits):
    """The buffers that `sum_tiles` needs, and the low parts in order of size."""
    n_low = 1 << low_bits
    rows = n_low * TILE
    order = np.empty(n_low, np.int64)
    starts = np.empty(low_bits + 2, np.int64)
    count = 0
    for size in range(low_bits + 1):
        starts[size] = count
        for low in range(n_low):
            if bit_count(low) == size:
                order[count] = low
                count += 1
    starts[low_bits + 1] = count
    left = (np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows))
    right = (np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows))
    masks = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    return left, right, np.empty(n_low * LANES), masks[0], masks[1], order, starts
