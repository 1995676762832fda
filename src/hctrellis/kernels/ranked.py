"""Numbers of trees by ranked subset convolution: O(2^n n^2) instead of O(3^n)."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import inner, jit


@inner
def add_subsets(values, n):
    """Replace every value by the sum over all subsets of its set."""
    for i in range(n):
        half = 1 << i
        for start in range(0, values.size, 2 * half):
            for k in range(start, start + half):
                values[half + k] += values[k]


@inner
def take_subsets(values, n):
    """The opposite of `add_subsets`."""
    for i in range(n):
        half = 1 << i
        for start in range(0, values.size, 2 * half):
            for k in range(start, start + half):
                values[half + k] -= values[k]


@jit
def count_ordered(allowed, sizes, sums):
    """The number of trees, with the children of each split in either order, modulo 2^64.

    D(P) = sum over all L and R with L + R = P of D(L) D(R), if P is allowed. If L and R run over
    all sets of k and m leaves, a product of the sums over subsets gives the sum over all pairs
    whose union is within P; those of k + m leaves that are exactly P are disjoint.

    allowed : bool (2^n); sizes : number of leaves of each cluster, int (2^n)
    sums : uint64 (n, 2^n), zeros
    """
    n = sums.shape[0]
    for i in range(n):
        sums[0, 1 << i] = 1
    add_subsets(sums[0], n)
    for size in range(2, n + 1):
        row = sums[size - 1]
        for k in range(1, size // 2 + 1):
            one, other = sums[k - 1], sums[size - k - 1]
            times = np.uint64(1 if 2 * k == size else 2)
            for s in range(row.size):
                row[s] += times * one[s] * other[s]
        take_subsets(row, n)
        if size == n:
            break
        for s in range(row.size):
            if sizes[s] != size or not allowed[s]:
                row[s] = 0
        add_subsets(row, n)
    last = sums.shape[1] - 1
    return sums[n - 1, last] if allowed[last] else np.uint64(0)
