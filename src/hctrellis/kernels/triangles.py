"""A fractional packing of negative triangles: bounds of correlation clustering."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit


@jit
def pack_triangles(parts, rest, packed):
    """Let every triangle take 1 / parts of what its three edges have in common left.

    rest : int64 (n, n), what is left of each edge
    packed : int64 (n, n, n), the weight of each triangle, in all orders of its leaves; not
        written if it is empty
    returns the sum of what was taken
    """
    n = rest.shape[0]
    total = np.int64(0)
    for i in range(n):
        for j in range(i):
            for k in range(j):
                taken = min(rest[i, j], rest[i, k], rest[j, k])
                taken = (taken + parts - 1) // parts
                if taken > 0:
                    for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
                        rest[a, b] -= taken
                        rest[b, a] -= taken
                        if packed.size > 0:
                            packed[a, b, c] += taken
                            packed[b, a, c] += taken
                    total += taken
    return total


@jit
def largest_sums(weights):
    """The sum over all triples of leaves of the largest of their three weights."""
    n = weights.shape[0]
    total = np.int64(0)
    for i in range(n):
        for j in range(i):
            for k in range(j):
                total += max(weights[i, j], weights[i, k], weights[j, k])
    return total
