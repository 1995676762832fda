"""What many trees have in common: the codes of their clusters, how closely they join leaves."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit


@jit
def fill_codes(children, leaves, codes):
    """The exclusive or of the codes of the leaves of each internal cluster.

    children : int (m, n - 1, 2), as in `Tree`
    leaves : int64 (n), the code of each leaf
    codes : int64 (m, n - 1), filled
    """
    n = leaves.size
    all_codes = np.empty(2 * n - 1, np.int64)
    all_codes[:n] = leaves
    for t in range(children.shape[0]):
        for k in range(n - 1):
            code = all_codes[children[t, k, 0]] ^ all_codes[children[t, k, 1]]
            all_codes[n + k] = code
            codes[t, k] = code


@jit
def add_pairs(children, size, sizes, together):
    """Add up the size of the smallest common cluster of every two leaves, over trees.

    children : int (m, n - 1, 2), as in `Tree`
    size : clusters up to which `together` counts
    sizes, together : float64 (n, n), the sums so far; one half of each is filled
    """
    n = children.shape[1] + 1
    after = np.empty(n, np.int64)  # the next leaf in the list of a cluster
    first = np.empty(2 * n - 1, np.int64)
    last = np.empty(2 * n - 1, np.int64)
    count = np.empty(2 * n - 1, np.int64)
    for t in range(children.shape[0]):
        for leaf in range(n):
            first[leaf] = last[leaf] = leaf
            count[leaf] = 1
            after[leaf] = -1
        for k in range(n - 1):
            left, right = children[t, k, 0], children[t, k, 1]
            m = count[left] + count[right]
            near = 1.0 if m <= size else 0.0
            i = first[left]
            while i >= 0:
                j = first[right]
                while j >= 0:
                    a, b = min(i, j), max(i, j)
                    sizes[a, b] += m
                    together[a, b] += near
                    j = after[j]
                i = after[i]
            after[last[left]] = first[right]
            first[n + k] = first[left]
            last[n + k] = last[right]
            count[n + k] = m
