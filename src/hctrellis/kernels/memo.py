"""What a certified search knows about clusters: a table with open addressing."""

from __future__ import annotations

from hctrellis.kernels.compile import inner, jit
from hctrellis.support.bounded import KEY

SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)  # an odd number that spreads keys over the table


@inner
def slot_of(cluster, memo):
    """The row of a cluster in the memo, or the free one where it would be."""
    mixed = cluster * SPREAD
    slot = (mixed ^ (mixed >> 29)) & (memo.shape[0] - 1)
    while memo[slot, KEY] != 0 and memo[slot, KEY] != cluster:
        slot = (slot + 1) & (memo.shape[0] - 1)
    return slot


@jit
def find(cluster, memo):
    """The row of a cluster in the memo; -1 if it is not there."""
    slot = slot_of(cluster, memo)
    return slot if memo[slot, KEY] == cluster else -1


@jit
def grow_memo(old, new):
    """Copy all clusters into a larger memo, which is filled with 0."""
    for row in range(old.shape[0]):
        if old[row, KEY] != 0:
            slot = slot_of(old[row, KEY], new)
            for column in range(old.shape[1]):
                new[slot, column] = old[row, column]
