"""The clusters and splits of many trees, numbered in the order in which they are first met.

A table of splits finds them by parent and left child: `slots` (int64, a power of two in size) holds
numbers of splits or -1.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bitsets import slot_of
from hctrellis.kernels.compile import inner, jit


@inner
def split_slot(parent, left, triples, slots):
    """The slot of a split, or the free one where it would be."""
    key = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(left)
    key *= np.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> np.uint64(31)
    slot = np.int64(key & np.uint64(slots.size - 1))
    while slots[slot] >= 0:
        k = slots[slot]
        if triples[k, 0] == parent and triples[k, 1] == left:
            return slot
        slot = (slot + 1) & (slots.size - 1)
    return slot


@jit
def place_splits(triples, count, slots):
    """Fill an empty table with some splits."""
    for k in range(count):
        slots[split_slot(triples[k, 0], triples[k, 1], triples, slots)] = k


@jit
def number_trees(children, start, words, hashes, slots, triples, split_slots, counts, out):
    """Number the clusters and splits of the trees from `start` on, as far as there is room.

    children : integers (m, n - 1, 2), canonical
    words, hashes, slots : the clusters and their table (see `bitsets`), the leaves first
    triples : int64 (room, 3), parent, left and right child of each split; split_slots : its table
    counts : int64 (2), the numbers of clusters and splits so far
    out : integers (m, n - 1), the number of each split
    Returns the tree for which there was no more room, or m.
    """
    m, n = children.shape[0], children.shape[1] + 1
    node = np.empty(2 * n - 1, np.int64)
    union = np.empty(words.shape[1], np.uint64)
    for leaf in range(n):
        node[leaf] = leaf
    for t in range(start, m):
        if counts[0] + n > words.shape[0] or counts[1] + n > triples.shape[0]:
            return t
        for k in range(n - 1):
            left, right = node[children[t, k, 0]], node[children[t, k, 1]]
            hash_ = hashes[left] + hashes[right]
            for w in range(union.size):
                union[w] = words[left, w] | words[right, w]
            slot = slot_of(union, hash_, hashes, words, slots)
            if slots[slot] < 0:
                new = counts[0]
                for w in range(union.size):
                    words[new, w] = union[w]
                hashes[new] = hash_
                slots[slot] = new
                counts[0] = new + 1
            parent = slots[slot]
            node[n + k] = parent
            slot = split_slot(parent, left, triples, split_slots)
            if split_slots[slot] < 0:
                new = counts[1]
                triples[new, 0], triples[new, 1], triples[new, 2] = parent, left, right
                split_slots[slot] = new
                counts[1] = new + 1
            out[t, k] = split_slots[slot]
    return m


@jit
def add_weights(splits, weights, sums):
    """Add the weight of each tree to all its splits."""
    for t in range(splits.shape[0]):
        for k in range(splits.shape[1]):
            sums[splits[t, k]] += weights[t]


@jit
def add_up(splits, values, out):
    """The sum of a value per split over the splits of each tree; those numbered -1 give -inf."""
    for t in range(splits.shape[0]):
        total = 0.0
        for k in range(splits.shape[1]):
            total += values[splits[t, k]] if splits[t, k] >= 0 else -np.inf
        out[t] = total
