"""Branch and bound over the blocks of clusters: correlation clustering, with a memo and budgets.

To solve a block below a budget its splits whose bounds are below it are listed and sorted; the
blocks of the children of one after the other are solved, each below what the others leave. A block
without a tree below the budget has a new bound, the budget. All of this is kept in arrays, so that
a call can end after some steps and the next one can go on. (For trees whose clusters do not fall
apart into blocks, see `rotations`.)
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bounds import bound_of
from hctrellis.kernels.common import bit_count
from hctrellis.kernels.compile import inner, jit
from hctrellis.kernels.lister import begin_listing, list_splits
from hctrellis.kernels.masks import odd_blocks
from hctrellis.kernels.memo import slot_of
from hctrellis.support.bounded import (
    AT,
    BEST,
    BOUND,
    BUDGET,
    CLUSTER,
    COST,
    DONE,
    FIRST,
    HIGH,
    KEY,
    LAST,
    LOW,
    MASK,
    MEMO_FULL,
    PART,
    RUNNING,
    SPLIT,
    SPLITS_FULL,
    TOP,
    UNKNOWN,
)


@inner
def entry(cluster, tables, stack, memo):
    """The row of a cluster in the memo, which is made if there is none."""
    slot = slot_of(cluster, memo)
    if memo[slot, KEY] == 0:
        memo[slot, KEY] = cluster
        memo[slot, LOW] = bound_of(cluster, tables)
        memo[slot, HIGH] = UNKNOWN
        memo[slot, BEST] = 0
        stack.counts[1] += 1
    return slot


@inner
def take_apart(cluster, split, tables, parts):
    """List the blocks of the two children of a split that are not solved at once."""
    left = split[MASK]
    count = 0
    for side in range(2):
        child = left if side == 0 else cluster ^ left
        count += odd_blocks(child, tables.graph, parts[count:-1])
    for i in range(1, count):  # small ones first
        part, size = parts[i], bit_count(parts[i])
        j = i
        while j > 0 and bit_count(parts[j - 1]) > size:
            parts[j] = parts[j - 1]
            j -= 1
        parts[j] = part
    parts[-1] = count


@inner
def push(cluster, budget, tables, lister, stack):
    """Begin to solve a cluster."""
    frame = stack.frames[stack.depth[0]]
    frame[CLUSTER] = cluster
    frame[BUDGET] = budget
    frame[TOP] = budget
    frame[SPLIT] = 0
    frame[FIRST] = stack.counts[0]
    frame[PART] = -1
    stack.depth[0] += 1
    begin_listing(cluster, tables, lister)


@jit
def begin(cluster, budget, tables, lister, stack, memo):
    """Begin to solve the whole problem below a budget."""
    stack.depth[0] = 0
    stack.counts[0] = 0
    stack.counts[4] += 1
    entry(cluster, tables, stack, memo)
    push(cluster, budget, tables, lister, stack)


@inner
def sort_splits(frame, stack):
    """Sort the listed splits of a frame by their bounds."""
    first, last = frame[FIRST], stack.counts[0]
    splits = stack.splits[first:last]
    splits[:] = splits[np.argsort(splits[:, BOUND])]
    frame[LAST] = last
    frame[AT] = first


@inner
def finish(frame, stack, memo):
    """Note what was found about the cluster of the last frame, and drop the frame."""
    slot = slot_of(frame[CLUSTER], memo)
    if frame[TOP] < frame[BUDGET]:
        memo[slot, LOW] = frame[TOP]
        memo[slot, HIGH] = frame[TOP]
        memo[slot, BEST] = frame[SPLIT]
    else:
        memo[slot, LOW] = max(memo[slot, LOW], frame[BUDGET])
        memo[slot, BEST] = -stack.counts[4]
    stack.counts[0] = frame[FIRST]
    stack.counts[3] += 1
    stack.depth[0] -= 1


@inner
def try_split(frame, parts, tables, lister, stack, memo):
    """Go on with the split at which a frame is: solve its next part, or know that it is solved."""
    split = stack.splits[frame[AT]]
    if frame[PART] < 0:
        take_apart(frame[CLUSTER], split, tables, parts)
        frame[PART] = 0
    total = split[COST]
    open_part = np.int64(0)
    open_low = np.int64(0)
    fresh = False
    for k in range(parts[-1]):
        slot = entry(parts[k], tables, stack, memo)
        total += memo[slot, LOW]
        if open_part == 0 and memo[slot, HIGH] > memo[slot, LOW]:
            open_part, open_low, fresh = (
                parts[k],
                memo[slot, LOW],
                memo[slot, BEST] != -stack.counts[4],
            )
    if total >= frame[TOP]:
        frame[AT] += 1
        frame[PART] = -1
    elif open_part == 0:
        frame[TOP] = total
        frame[SPLIT] = split[MASK]
        frame[AT] += 1
        frame[PART] = -1
    else:
        budget = frame[TOP] - (total - open_low)
        if not fresh:  # so that it is not solved again and again below this budget
            budget += budget // 16
        push(open_part, budget, tables, lister, stack)


@jit
def search(n_steps, tables, lister, stack, memo):
    """Go on for some steps; returns RUNNING, DONE, or which array must become larger."""
    while stack.depth[0] > 0:
        if n_steps <= 0:
            return RUNNING
        if 2 * (stack.counts[1] + stack.parts.shape[1]) > memo.shape[0]:
            return MEMO_FULL
        n_steps -= 1
        depth = stack.depth[0] - 1
        frame = stack.frames[depth]
        if lister.level[0] >= 0:
            before = n_steps
            count, n_steps = list_splits(
                frame[BUDGET], n_steps, tables, lister, stack.splits, stack.counts[0]
            )
            stack.counts[0] = count
            stack.counts[2] += before - n_steps
            if lister.level[0] < 0:
                sort_splits(frame, stack)
            elif stack.counts[0] >= stack.splits.shape[0]:
                return SPLITS_FULL
        elif frame[AT] >= frame[LAST] or stack.splits[frame[AT], BOUND] >= frame[TOP]:
            finish(frame, stack, memo)
        else:
            try_split(frame, stack.parts[depth], tables, lister, stack, memo)
    return DONE
