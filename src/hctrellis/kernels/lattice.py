"""Sums over the pairs of leaves of all clusters."""

from __future__ import annotations

from hctrellis.kernels.compile import jit


@jit
def add_pairs(matrix, sums):
    """The sum of a matrix over the pairs and single leaves of every cluster, leaf by leaf.

    matrix : float64 (n, n), of which the lower triangle is used; sums : float64 (2^n), to be filled
    """
    sums[0] = 0.0
    for i in range(matrix.shape[0]):
        half = 1 << i
        with_i = sums[half : 2 * half]
        with_i[0] = matrix[i, i]
        for j in range(i):  # what leaf i adds, for all subsets of the leaves before it
            part = 1 << j
            for k in range(part):
                with_i[part + k] = with_i[k] + matrix[i, j]
        for k in range(half):
            with_i[k] += sums[k]
