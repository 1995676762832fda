"""Walks through vertices that are clusters with contexts."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit


@jit
def reach(root, offsets, lefts, rights, chances, n_leaves, alive):
    """Mark the vertices that can be reached from the root by splits of positive probability.

    alive : bool per vertex, all False at first; leaves (below n_leaves) are not marked
    """
    stack = np.empty(offsets.size, np.int64)
    stack[0] = root
    alive[root] = True
    count = 1
    while count > 0:
        count -= 1
        v = stack[count]
        for k in range(offsets[v], offsets[v + 1]):
            if chances[k] > 0.0:
                for side in range(2):
                    child = lefts[k] if side == 0 else rights[k]
                    if child >= n_leaves and not alive[child]:
                        alive[child] = True
                        stack[count] = child
                        count += 1


@jit
def walk_trees(children, splits, offsets, lefts, rights, base_splits, values, sums):
    """The sum of a value over the splits of trees; -inf for trees that the trellis does not hold.

    children : integers (m, n - 1, 2); splits : integers (m, n - 1), places among the splits of the
        base, -1 for others
    offsets, lefts, rights, base_splits, values : the splits of the vertices
    """
    m, n = children.shape[0], children.shape[1] + 1
    vertex = np.empty(2 * n - 1, np.int64)
    for t in range(m):
        total = 0.0
        vertex[2 * n - 2] = offsets.size - 2
        for row in range(n - 2, -1, -1):
            v = vertex[n + row]
            wanted = splits[t, row]
            low, high = offsets[v], offsets[v + 1]
            stop = high
            while low < high:
                middle = (low + high) >> 1
                if base_splits[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            if wanted < 0 or low == stop or base_splits[low] != wanted:
                total = -np.inf
                break
            total += values[low]
            one, other = children[t, row, 0], children[t, row, 1]
            vertex[one] = lefts[low]
            vertex[other] = rights[low]
        sums[t] = total
