"""What the kernels of the full lattice share: constants, and copying tables into tiles."""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.compile import jit
from hctrellis.kernels.simd import LANES, load, store, transpose
from hctrellis.support.logs import NEVER

LINE = 8  # numbers in a line of the cache
NEGLIGIBLE = 64.0  # log2 of the ratio of the largest sum to the smallest that counts


@jit
def room(size):
    """Space for numbers, aligned so that no vector lies across two lines of the cache."""
    space = np.empty(size + LINE)
    start = -(space.ctypes.data // space.itemsize) % LINE
    return space[start : start + size]


@jit
def next_tile(sub, others, first, lefts, rights):
    """The next submasks of a high part, as left and right sides; where to go on, and how many.

    Positions that are left over repeat the first.
    """
    count = 0
    while sub > 0 and count < lefts.size:
        sub = (sub - 1) & others
        lefts[count] = first | sub
        rights[count] = others ^ sub
        count += 1
    for t in range(count, lefts.size):
        lefts[t] = lefts[0]
        rights[t] = rights[0]
    return sub, count


@jit
def load_tile(source, low_bits, masks, width, out, offset):
    """Copy source[mask << low_bits | low] to out[offset + low * masks.size + position].

    The first `width` positions are filled, a multiple of eight.
    """
    tile = masks.size
    for t in range(0, width, LANES):
        a = masks[t] << low_bits
        b = masks[t + 1] << low_bits
        c = masks[t + 2] << low_bits
        d = masks[t + 3] << low_bits
        e = masks[t + 4] << low_bits
        f = masks[t + 5] << low_bits
        g = masks[t + 6] << low_bits
        h = masks[t + 7] << low_bits
        for low in range(0, 1 << low_bits, LANES):
            rows = transpose(
                load(source, a + low),
                load(source, b + low),
                load(source, c + low),
                load(source, d + low),
                load(source, e + low),
                load(source, f + low),
                load(source, g + low),
                load(source, h + low),
            )
            at = offset + low * tile + t
            for k in range(LANES):
                store(out, at + k * tile, rows[k])


@jit
def load_values(best, rest, low_bits, masks, count, width, out_best, out_rest):
    """The two numbers of the clusters of one side of a tile; none beyond `count` positions."""
    load_tile(best, low_bits, masks, width, out_best, 0)
    load_tile(rest, low_bits, masks, width, out_rest, 0)
    for t in range(count, width):
        for low in range(1 << low_bits):
            out_best[low * masks.size + t] = NEVER
            out_rest[low * masks.size + t] = 0.0


@jit
def bit_count(mask):
    """Number of leaves of a cluster."""
    count = 0
    while mask > 0:
        mask &= mask - 1
        count += 1
    return count


@jit
def by_size(low_bits):
    """The low parts in order of their number of leaves, that number, and where each begins."""
    n_low = 1 << low_bits
    counts = np.zeros(n_low, np.int64)
    starts = np.zeros(low_bits + 2, np.int64)
    for low in range(n_low):
        counts[low] = counts[low >> 1] + (low & 1)
        starts[counts[low] + 1] += 1
    for size in range(low_bits + 1):
        starts[size + 1] += starts[size]
    order = np.empty(n_low, np.int64)
    filled = starts.copy()
    for low in range(n_low):
        order[filled[counts[low]]] = low
        filled[counts[low]] += 1
    return order, counts, starts


@jit
def negligible_gap(n_leaves):
    """How far (log2) below the largest weight of a tree others may be left out of a sum.

    All trees together, at most (2n - 3)!!, then change the sum by less than 2^-NEGLIGIBLE.
    """
    gap = NEGLIGIBLE
    for k in range(3, 2 * n_leaves - 2, 2):
        gap += math.log2(k)
    return gap
