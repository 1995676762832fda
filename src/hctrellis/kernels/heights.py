"""Heights of the nodes of many trees, from branch lengths."""

from __future__ import annotations

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
