"""Branch and bound over splits: the tree of least energy that no rotation improves.

A rotation exchanges a child of a cluster with the sibling of that cluster. No rotation improves the
best tree, so a split of a cluster is of interest only beside siblings with which it cannot be
rotated for the better. What a split of a cluster costs at least, both children solved beside each
other, does not depend on the sibling of the cluster: the splits of every cluster are listed once,
kept, and what is found out about them is noted there. A cluster is solved beside a sibling by
trying those of its splits that fit, in the order of their bounds.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.common import bit_count
from hctrellis.kernels.compile import inner, jit
from hctrellis.kernels.lister import begin_listing, list_splits
from hctrellis.kernels.masks import lowest
from hctrellis.kernels.memo import slot_of
from hctrellis.kernels.sized import begin_sized, list_sized
from hctrellis.support.bounded import (
    ACROSS,
    AT,
    BEGIN,
    BOUND,
    BUDGET,
    CLUSTER,
    DONE,
    END,
    FIRST,
    KEY,
    LAST,
    LISTED,
    LOW,
    LOW_LEFT,
    MASK,
    MEMO_FULL,
    PART,
    RUNNING,
    SERIES,
    SIBLING,
    SPLIT,
    SPLITS_FULL,
    SURE,
    TOP,
    WIDE,
)

BOTH = 3  # children of a split whose energies are known


@inner
def sum_over(cluster, values):
    """The sum of the values of the leaves of a cluster."""
    total = np.int64(0)
    while cluster != 0:
        total += values[lowest(cluster)]
        cluster &= cluster - 1
    return total


@inner
def pairs_with(cluster, tables, values):
    """The sum of the pairs of every leaf with those of a cluster."""
    n = tables.pairs.shape[0]
    for i in range(n):
        values[i] = sum_over(cluster, tables.pairs[i])


@inner
def sum_across(left, right, tables):
    """The sum of the pairs between two clusters."""
    total = np.int64(0)
    while left != 0:
        total += sum_over(right, tables.pairs[lowest(left)])
        left &= left - 1
    return total


@inner
def stays(x, y, z, xy, xz, yz, tables):
    """Whether no rotation of y or z with their sibling x costs less; sizes, and sums of pairs."""
    if tables.kind[0] == SERIES:
        now = (xy + xz) // (x * (y + z)) + yz // (y * z)
        one = (xy + yz) // (y * (x + z)) + xz // (x * z)
        other = (xz + yz) // (z * (x + y)) + xy // (x * y)
        return now <= one and now <= other
    return y * xz <= x * yz and z * xy <= x * yz


@inner
def fits(cluster, sibling, split, values, tables):
    """Whether a split of a cluster may be beside a sibling; values: its pairs with all leaves."""
    left = split[MASK]
    right = cluster ^ left
    return stays(
        bit_count(sibling),
        bit_count(left),
        bit_count(right),
        sum_over(left, values),
        sum_over(right, values),
        split[ACROSS],
        tables,
    )


@jit
def best_split(cluster, sibling, tables, stack, memo):
    """The left child of the best tree of a solved cluster beside its sibling."""
    slot = slot_of(cluster, memo)
    values = np.zeros(tables.pairs.shape[0], np.int64)
    pairs_with(sibling, tables, values)
    best = -1
    for row in range(memo[slot, BEGIN], memo[slot, END]):
        split = stack.splits[row]
        if (
            split[SURE] == BOTH
            and (best < 0 or split[BOUND] < stack.splits[best, BOUND])
            and fits(cluster, sibling, split, values, tables)
        ):
            best = row
    return stack.splits[best, MASK]


@inner
def push(cluster, sibling, budget, tables, lister, stack, memo):
    """Begin to solve a cluster beside its sibling."""
    slot = slot_of(cluster, memo)
    if memo[slot, KEY] == 0:
        memo[slot, KEY] = cluster
        stack.counts[1] += 1
    frame = stack.frames[stack.depth[0]]
    frame[CLUSTER] = cluster
    frame[SIBLING] = sibling
    frame[BUDGET] = budget
    frame[TOP] = budget
    frame[SPLIT] = 0
    frame[PART] = 0
    frame[FIRST] = 0 if stack.depth[0] == 0 else stack.frames[stack.depth[0] - 1, LAST]
    stack.depth[0] += 1
    if memo[slot, LISTED] >= budget:
        order_splits(frame, tables, stack, memo)
        return
    frame[WIDE] = budget
    if memo[slot, LISTED] > 0 and sibling != 0:  # so that it is not listed again and again
        frame[WIDE] += budget // (16 if tables.kind[0] == SERIES else 4)
    frame[AT] = stack.counts[0]  # where the list begins
    if tables.kind[0] == SERIES:
        begin_sized(cluster, tables, lister)
    else:
        begin_listing(cluster, tables, lister)


@jit
def begin(cluster, budget, tables, lister, stack, memo):
    """Begin to solve the whole problem below a budget."""
    stack.depth[0] = 0
    push(cluster, np.int64(0), budget, tables, lister, stack, memo)


@inner
def keep_list(frame, tables, stack, memo):
    """Keep the splits that were listed, with what was known about them before."""
    cluster = frame[CLUSTER]
    slot = slot_of(cluster, memo)
    splits = stack.splits
    first, last = frame[AT], stack.counts[0]
    old = splits[memo[slot, BEGIN] : memo[slot, END]]
    order = np.argsort(old[:, MASK])
    kept = first
    for row in range(first, last):
        split = splits[row]
        left, right = split[MASK], cluster ^ split[MASK]
        split[SURE] = 0
        split[ACROSS] = sum_across(left, right, tables)
        at, above = 0, order.size
        while at < above:
            middle = (at + above) // 2
            if old[order[middle], MASK] < left:
                at = middle + 1
            else:
                above = middle
        if at < order.size and old[order[at], MASK] == left:
            for column in range(splits.shape[1]):
                split[column] = old[order[at], column]
        elif not (
            pair_stays(left, right, tables)
            and pair_stays(right, left, tables)
            and leaves_stay(left, right, split[ACROSS], tables)
            and leaves_stay(right, left, split[ACROSS], tables)
        ):
            continue
        else:
            split[SURE] = (bit_count(left) <= 2) + 2 * (bit_count(right) <= 2)
        if split[BOUND] < frame[WIDE]:
            for column in range(splits.shape[1]):
                splits[kept, column] = split[column]
            kept += 1
    stack.counts[0] = kept
    memo[slot, LISTED] = frame[WIDE]
    memo[slot, BEGIN] = first
    memo[slot, END] = kept


@inner
def pair_stays(pair, sibling, tables):
    """Whether a child, if it is a pair, may be beside its sibling."""
    if bit_count(pair) != 2:
        return True
    one, other = lowest(pair), lowest(pair & (pair - 1))
    return stays(
        bit_count(sibling),
        1,
        1,
        sum_over(sibling, tables.pairs[one]),
        sum_over(sibling, tables.pairs[other]),
        tables.pairs[one, other],
        tables,
    )


@inner
def leaves_stay(side, other, across, tables):
    """Whether no leaf of a side is better taken out and put above all, or above the other side."""
    if tables.kind[0] == SERIES or tables.near.shape[0] == 0:
        return True
    size = bit_count(side)
    whole = size + bit_count(other)
    n = tables.near.shape[0]
    leaves = side
    while leaves != 0:
        y = lowest(leaves)
        leaves &= leaves - 1
        near, pairs = tables.near[y], tables.pairs[y]
        kept = np.int64(0)
        out = np.int64(0)
        factor = whole - 2
        for k in range(n):
            j = near[k]
            if side >> j & 1 and j != y:
                kept += factor * pairs[j]
                factor -= 1
            elif other >> j & 1:
                out += pairs[j]
        if size > 1 and (kept < (size - 1) * out or kept < across - out):
            return False
    return True


@inner
def order_splits(frame, tables, stack, memo):
    """Sort the splits that fit by their bounds, which the memo may have raised."""
    cluster, sibling = frame[CLUSTER], frame[SIBLING]
    slot = slot_of(cluster, memo)
    values = np.zeros(tables.pairs.shape[0], np.int64)
    if sibling != 0:
        pairs_with(sibling, tables, values)
    count = frame[FIRST]
    for row in range(memo[slot, BEGIN], memo[slot, END]):
        split = stack.splits[row]
        for side in range(2):
            if not split[SURE] >> side & 1:
                child = split[MASK] if side == 0 else cluster ^ split[MASK]
                below = slot_of(child, memo)
                if memo[below, KEY] == child and memo[below, LOW] > split[LOW_LEFT + side]:
                    split[BOUND] += memo[below, LOW] - split[LOW_LEFT + side]
                    split[LOW_LEFT + side] = memo[below, LOW]
        if split[BOUND] < frame[BUDGET] and (
            sibling == 0 or fits(cluster, sibling, split, values, tables)
        ):
            stack.order[count, 0] = row
            stack.order[count, 1] = split[BOUND]
            count += 1
    chosen = stack.order[frame[FIRST] : count]
    chosen[:] = chosen[np.argsort(chosen[:, 1])]
    frame[AT] = frame[FIRST]
    frame[LAST] = count


@inner
def finish(frame, stack, memo):
    """Note what was found about the cluster of the last frame, and drop the frame."""
    slot = slot_of(frame[CLUSTER], memo)
    low = memo[slot, LISTED]
    for row in range(memo[slot, BEGIN], memo[slot, END]):
        low = min(low, stack.splits[row, BOUND])
    memo[slot, LOW] = max(memo[slot, LOW], low)
    stack.counts[3] += 1
    stack.depth[0] -= 1
    if stack.depth[0] > 0:
        above = stack.frames[stack.depth[0] - 1]
        split = stack.splits[stack.order[above[AT], 0]]
        side = above[PART]
        found = min(frame[TOP], frame[BUDGET])
        split[BOUND] += found - split[LOW_LEFT + side]
        split[LOW_LEFT + side] = found
        if frame[TOP] < frame[BUDGET]:
            split[SURE] |= 1 << side


@inner
def try_split(frame, tables, lister, stack, memo):
    """Go on with the split at which a frame is: solve its next child, or know that it is solved."""
    split = stack.splits[stack.order[frame[AT], 0]]
    if split[BOUND] >= frame[TOP]:
        frame[AT] += 1
        return
    if split[SURE] == BOTH:
        frame[TOP] = split[BOUND]
        frame[SPLIT] = split[MASK]
        frame[AT] += 1
        return
    left, right = split[MASK], frame[CLUSTER] ^ split[MASK]
    side = 0 if bit_count(left) <= bit_count(right) else 1  # the small one first
    if split[SURE] >> side & 1:
        side = 1 - side
    frame[PART] = side
    budget = frame[TOP] - (split[BOUND] - split[LOW_LEFT + side])
    if side == 0:
        push(left, right, budget, tables, lister, stack, memo)
    else:
        push(right, left, budget, tables, lister, stack, memo)


@jit
def search(n_steps, tables, lister, stack, memo):
    """Go on for some steps; returns RUNNING, DONE, or which array must become larger."""
    while stack.depth[0] > 0:
        if n_steps <= 0:
            return RUNNING
        if 2 * (stack.counts[1] + 2) > memo.shape[0]:
            return MEMO_FULL
        n_steps -= 1
        frame = stack.frames[stack.depth[0] - 1]
        if lister.level[0] >= 0:
            before = n_steps
            if tables.kind[0] == SERIES:
                count, n_steps = list_sized(
                    frame[WIDE], n_steps, tables, lister, stack.splits, stack.counts[0]
                )
            else:
                count, n_steps = list_splits(
                    frame[WIDE], n_steps, tables, lister, stack.splits, stack.counts[0]
                )
            stack.counts[0] = count
            stack.counts[2] += before - n_steps
            if lister.level[0] < 0:
                keep_list(frame, tables, stack, memo)
                order_splits(frame, tables, stack, memo)
            elif stack.counts[0] >= stack.splits.shape[0]:
                return SPLITS_FULL
        elif frame[AT] >= frame[LAST] or stack.order[frame[AT], 1] >= frame[TOP]:
            finish(frame, stack, memo)
        else:
            try_split(frame, tables, lister, stack, memo)
    return DONE
