"""Minkowski products of particles, for many jets at once."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit

SPLITTER = 2.0**27 + 1


@jit
def minkowski_products(momenta):
    """As in `potentials.fourvectors`, to the last bit, for jets of equal numbers of particles.

    momenta : float64 (4, n, m) of m jets; returns float64 (n, n, m), the lower triangle filled.
    """
    _, n, m = momenta.shape
    halves = np.empty((4, n, m))
    for c in range(4):
        for i in range(n):
            for k in range(m):
                scaled = SPLITTER * momenta[c, i, k]
                halves[c, i, k] = scaled - (scaled - momenta[c, i, k])
    products = np.zeros((n, n, m))
    for i in range(n):
        for j in range(i + 1):
            twice = 1.0 if i == j else 2.0
            for k in range(m):
                high = 0.0
                low = 0.0
                for c in range(4):
                    a, a_high = momenta[c, i, k], halves[c, i, k]
                    b, b_high = momenta[c, j, k], halves[c, j, k]
                    if c > 0:
                        b, b_high = -b, -b_high
                    a_low, b_low = a - a_high, b - b_high
                    product = a * b
                    error = product - a_high * b_high
                    error = a_low * b_low - ((error - a_low * b_high) - a_high * b_low)
                    added = high + product
                    part = added - high
                    low += (high - (added - part)) + (product - part) + error
                    high = added
                products[i, j, k] = twice * (high + low)
    return products
