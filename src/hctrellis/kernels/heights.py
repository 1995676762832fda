"""Heights of the nodes of many trees, from branch lengths."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit


@jit
def node_heights(children, lengths, heights):
    """How high each node is above the lowest leaf of its tree.

    children : integers (m, n - 1, 2); lengths, heights : float64 (m, 2n - 1)
    """
    m, n = children.shape[0], children.shape[1] + 1
    for t in range(m):
        root = 2 * n - 2
        heights[t, root] = 0.0
        deepest = 0.0
        for node in range(root, n - 1, -1):
            for side in range(2):
                child = children[t, node - n, side]
                heights[t, child] = heights[t, node] + lengths[t, child]  # depths, for now
        for leaf in range(n):
            deepest = max(deepest, heights[t, leaf])
        for node in range(root + 1):
            heights[t, node] = deepest - heights[t, node]


@jit
def ancestor_heights(children, heights, offsets, members, out):
    """The height of the last common ancestor of clusters, in every tree.

    children : integers (m, n - 1, 2); heights : float64 (m, 2n - 1)
    offsets, members : int64, the parts of cluster k are members[offsets[k] : offsets[k + 1]]:
        leaves are below n, and n + j is cluster j, an earlier one
    out : float64 (m, clusters)
    """
    m, n = children.shape[0], children.shape[1] + 1
    parents = np.full(2 * n - 1, 2 * n - 2, np.int64)
    found = np.empty(offsets.size - 1, np.int64)
    for t in range(m):
        for row in range(n - 1):
            parents[children[t, row, 0]] = n + row
            parents[children[t, row, 1]] = n + row
        for k in range(offsets.size - 1):
            node = -1
            for i in range(offsets[k], offsets[k + 1]):
                other = members[i] if members[i] < n else found[members[i] - n]
                if node < 0:
                    node = other
                while node != other:  # parents have larger numbers
                    if node < other:
                        node = parents[node]
                    else:
                        other = parents[other]
            found[k] = node
            out[t, k] = heights[t, node]


@jit
def rows_with(splits, wanted, out):
    """In which row each tree has some clusters, -1 where it has none.

    splits : integers (m, n - 1)
    wanted : int64 per split, which of the clusters is its parent, or -1
    out : int64 (m, clusters)
    """
    for t in range(splits.shape[0]):
        for k in range(out.shape[1]):
            out[t, k] = -1
        for row in range(splits.shape[1]):
            k = wanted[splits[t, row]]
            if k >= 0:
                out[t, k] = row
