"""Trees drawn uniformly from all trees over n leaves."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit
from hctrellis.support.arrays import LEFT, RIGHT, UP


@jit
def uniform_trees(uniforms, children):
    """Draw trees: leaf after leaf is put at a random place, each as probable as all others.

    uniforms : float64 (m, n - 1), numbers from 0 to 1
    children : int (m, n - 1, 2), filled as in `Tree`
    """
    n = children.shape[1] + 1
    nodes = np.full((2 * n - 1, 3), -1)
    number = np.empty(2 * n - 1, np.int64)
    order = np.empty(2 * n - 1, np.int64)
    for t in range(children.shape[0]):
        root = 0
        nodes[0, UP] = -1
        for leaf in range(1, n):  # places: the leaves before it, and the nodes above them
            k = int(uniforms[t, leaf - 1] * (2 * leaf - 1))
            x = k if k < leaf else n + k - leaf
            above, parent = nodes[x, UP], n + leaf - 1
            nodes[parent, UP] = above
            nodes[parent, LEFT] = x
            nodes[parent, RIGHT] = leaf
            nodes[x, UP] = nodes[leaf, UP] = parent
            if above < 0:
                root = parent
            else:
                nodes[above, LEFT if nodes[above, LEFT] == x else RIGHT] = parent
        order[0] = root
        count = 1
        for k in range(2 * n - 1):  # from the root down
            x = order[k]
            number[x] = x
            if x >= n:
                order[count] = nodes[x, LEFT]
                order[count + 1] = nodes[x, RIGHT]
                count += 2
        made = n
        for k in range(2 * n - 2, -1, -1):
            x = order[k]
            if x >= n:
                children[t, made - n, 0] = number[nodes[x, LEFT]]
                children[t, made - n, 1] = number[nodes[x, RIGHT]]
                number[x] = made
                made += 1
