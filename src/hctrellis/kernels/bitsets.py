"""Clusters as rows of 64-bit words: unions, a table to find them by, sums over their leaves.

Leaf i is bit i % 64 of word i // 64. The hash of a cluster is the sum of a random number per leaf,
so that those of disjoint unions and of differences are sums and differences too.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit


@jit
def fill_trees(children, words, hashes, triples):
    """The clusters of trees, as rows after those of the leaves.

    children : int64 (trees, n - 1, 2), as `Tree.children`
    words : uint64 (n + trees * (n - 1), w) and hashes : uint64, the first n rows filled
    triples : int64 (trees * (n - 1), 3), the rows of parent, left and right child
    """
    n_splits = children.shape[1]
    n = n_splits + 1
    for t in range(children.shape[0]):
        base = t * n_splits
        for k in range(n_splits):
            row = n + base + k
            triples[base + k, 0] = row
            hashes[row] = 0
            for side in range(2):
                child = children[t, k, side]
                child = child if child < n else child + base
                triples[base + k, 1 + side] = child
                hashes[row] += hashes[child]
                for w in range(words.shape[1]):
                    words[row, w] |= words[child, w]


@jit
def hash_rows(words, leaf_hashes, hashes):
    """The hash of each cluster."""
    for row in range(words.shape[0]):
        hashes[row] = 0
        for w in range(words.shape[1]):
            word = words[row, w]
            leaf = 64 * w
            while word != 0:
                if word & np.uint64(1) != 0:
                    hashes[row] += leaf_hashes[leaf]
                word >>= np.uint64(1)
                leaf += 1


@jit
def slot_of(words, hash_, hashes, rows, slots):
    """The slot of a cluster in a table, or the free one where it would be."""
    slot = np.int64(hash_ >> np.uint64(1)) & (slots.size - 1)
    while slots[slot] >= 0:
        row = slots[slot]
        if hashes[row] == hash_:
            same = True
            for w in range(words.size):
                same &= rows[row, w] == words[w]
            if same:
                return slot
        slot = (slot + 1) & (slots.size - 1)
    return slot


@jit
def number_rows(words, hashes, slots, first):
    """Give equal rows the same number: first[row] is the first row that equals it.

    slots : int64 (a power of two above the number of rows), filled with -1: becomes the table.
    """
    for row in range(words.shape[0]):
        slot = slot_of(words[row], hashes[row], hashes, words, slots)
        if slots[slot] < 0:
            slots[slot] = row
        first[row] = slots[slot]


@jit
def find_rows(sought, sought_hashes, words, hashes, slots, found):
    """The row of each sought cluster, or -1."""
    for i in range(sought.shape[0]):
        found[i] = slots[slot_of(sought[i], sought_hashes[i], hashes, words, slots)]


@jit
def first_leaves(words, firsts, sizes):
    """The lowest leaf of each cluster, and the number of its leaves."""
    for row in range(words.shape[0]):
        firsts[row] = -1
        sizes[row] = 0
        for w in range(words.shape[1]):
            leaf = 64 * w
            word = words[row, w]
            while word != 0:
                if word & np.uint64(1) != 0:
                    if firsts[row] < 0:
                        firsts[row] = leaf
                    sizes[row] += 1
                word >>= np.uint64(1)
                leaf += 1


@jit
def find_splits(start, stop, words, hashes, slots, firsts, mates, starts, found):
    """The splits of the clusters from start to stop into two of the table.

    firsts : int64 per cluster, its lowest leaf
    mates, starts : int64, the clusters with lowest leaf f, in order: mates[starts[f] : starts[f+1]]
    found : int64 (as many as a cluster may have, or more, 3), rows parent, left, right
    Returns the cluster before which there was no more room, or stop; and the number of rows.
    """
    rest = np.empty(words.shape[1], np.uint64)
    count = 0
    for parent in range(start, stop):
        if count + starts[firsts[parent] + 1] - starts[firsts[parent]] > found.shape[0]:
            return parent, count
        for i in range(starts[firsts[parent]], starts[firsts[parent] + 1]):
            left = mates[i]
            if left >= parent:
                break
            inside = True
            for w in range(rest.size):
                inside &= words[left, w] & ~words[parent, w] == 0
            if not inside:
                continue
            for w in range(rest.size):
                rest[w] = words[parent, w] ^ words[left, w]
            right = slots[slot_of(rest, hashes[parent] - hashes[left], hashes, words, slots)]
            if right >= 0:
                found[count, 0] = parent
                found[count, 1] = left
                found[count, 2] = right
                count += 1
    return stop, count


@jit
def leaves_of(words, out):
    """List the leaves of a cluster; returns how many."""
    count = 0
    for w in range(words.size):
        word = words[w]
        leaf = 64 * w
        while word != 0:
            if word & np.uint64(1) != 0:
                out[count] = leaf
                count += 1
            word >>= np.uint64(1)
            leaf += 1
    return count


@jit
def sum_leaves(offsets, lefts, rights, sums):
    """Sums over leaves: those of a cluster are those of the children of its first split."""
    for cluster in range(sums.size):
        k = offsets[cluster]
        if k < offsets[cluster + 1]:
            sums[cluster] = sums[lefts[k]] + sums[rights[k]]


@jit
def sum_pairs(words, offsets, lefts, rights, matrix, sums):
    """Sums over pairs of leaves (and the diagonal), from the children of the first split."""
    one, other = np.empty((2, matrix.shape[0]), np.int64)
    for cluster in range(sums.size):
        k = offsets[cluster]
        if k == offsets[cluster + 1]:
            sums[cluster] = matrix[cluster, cluster]
            continue
        n_one = leaves_of(words[lefts[k]], one)
        n_other = leaves_of(words[rights[k]], other)
        across = 0.0
        for i in range(n_one):
            for j in range(n_other):
                across += matrix[one[i], other[j]]
        sums[cluster] = (sums[lefts[k]] + sums[rights[k]]) + across


@jit
def extreme_across(words, lefts, rights, distances, largest, out):
    """The least (or largest) distance between the two children of each split."""
    one, other = np.empty((2, distances.shape[0]), np.int64)
    for k in range(lefts.size):
        n_one = leaves_of(words[lefts[k]], one)
        n_other = leaves_of(words[rights[k]], other)
        extreme = distances[one[0], other[0]]
        for i in range(n_one):
            for j in range(n_other):
                d = distances[one[i], other[j]]
                extreme = max(extreme, d) if largest else min(extreme, d)
        out[k] = extreme


@jit
def check_splits(words, offsets, lefts, rights):
    """The first cluster with a split that does not divide it, or -1."""
    for cluster in range(words.shape[0]):
        for k in range(offsets[cluster], offsets[cluster + 1]):
            left, right = lefts[k], rights[k]
            if not (0 <= left < cluster and 0 <= right < cluster):
                return cluster
            for w in range(words.shape[1]):
                a, b = words[left, w], words[right, w]
                if a & b != 0 or a | b != words[cluster, w]:
                    return cluster
    return -1


@jit
def keep_closed(offsets, lefts, rights, n_leaves, keep):
    """Reduce the clusters to keep to those that have a tree and are in a tree of the root.

    keep : bool per cluster, changed in place.
    """
    n_clusters = keep.size
    for cluster in range(n_leaves, n_clusters):
        some = False
        for k in range(offsets[cluster], offsets[cluster + 1]):
            some |= keep[lefts[k]] and keep[rights[k]]
        keep[cluster] &= some
    reached = np.zeros(n_clusters, np.bool_)
    reached[n_clusters - 1] = True
    for cluster in range(n_clusters - 1, n_leaves - 1, -1):
        if reached[cluster] and keep[cluster]:
            for k in range(offsets[cluster], offsets[cluster + 1]):
                if keep[lefts[k]] and keep[rights[k]]:
                    reached[lefts[k]] = True
                    reached[rights[k]] = True
    for cluster in range(n_clusters):
        keep[cluster] &= reached[cluster]


@jit
def interchanges(
    words, hashes, slots, offsets, lefts, rights, n_leaves, chances, masses, least, out
):
    """The nearest-neighbour interchanges of trees of at least some probability: new clusters only.

    Where P is split into A and B, and B into C and D: A and C may be joined instead, D apart.
    chances : float64 per split, its probability given the parent; masses : per cluster
    out : int64 (capacity, 4), rows A, C, D, P
    Returns their number, or the capacity + 1 if there are more.
    """
    count = 0
    union = np.empty(words.shape[1], np.uint64)
    for parent in range(n_leaves, masses.size):
        if masses[parent] < least:
            continue
        for k in range(offsets[parent], offsets[parent + 1]):
            mass = masses[parent] * chances[k]
            if mass < least:
                continue
            for side in range(2):
                one = lefts[k] if side == 0 else rights[k]
                other = rights[k] if side == 0 else lefts[k]
                for j in range(offsets[other], offsets[other + 1]):
                    if mass * chances[j] < least:
                        continue
                    for i in range(2):
                        joined = lefts[j] if i == 0 else rights[j]
                        for w in range(union.size):
                            union[w] = words[one, w] | words[joined, w]
                        hash_ = hashes[one] + hashes[joined]
                        if slots[slot_of(union, hash_, hashes, words, slots)] >= 0:
                            continue
                        if count == out.shape[0]:
                            return count + 1
                        out[count, 0] = one
                        out[count, 1] = joined
                        out[count, 2] = rights[j] if i == 0 else lefts[j]
                        out[count, 3] = parent
                        count += 1
    return count
