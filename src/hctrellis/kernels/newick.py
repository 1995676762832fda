"""Many trees of equal numbers of leaves in Newick format."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import jit

OPEN, COMMA, CLOSE, END = (ord(sign) for sign in "(,);")


@jit
def write_newick(children, names, starts, shared, out):
    """Write trees one after the other.

    children : int64 (m, n - 1, 2), of each tree
    names : uint8, the labels of the leaves, one after the other
    starts : int64, where each label begins, and where the last one ends: those of n leaves, if all
        trees share them, or else of m n leaves
    out : uint8, as long as all texts together
    """
    m, n = children.shape[0], children.shape[1] + 1
    lengths = np.empty(2 * n - 1, np.int64)
    places = np.empty(2 * n - 1, np.int64)
    root = 2 * n - 2
    end = 0
    for t in range(m):
        first = 0 if shared else t * n
        for leaf in range(n):
            lengths[leaf] = starts[first + leaf + 1] - starts[first + leaf]
        for node in range(n, root + 1):
            left, right = children[t, node - n]
            lengths[node] = lengths[left] + lengths[right] + 3
        places[root] = end
        for node in range(root, n - 1, -1):
            left, right = children[t, node - n]
            place = places[node]
            places[left] = place + 1
            places[right] = place + 2 + lengths[left]
            out[place] = OPEN
            out[places[right] - 1] = COMMA
            out[place + lengths[node] - 1] = CLOSE
        for leaf in range(n):
            start = starts[first + leaf]
            for k in range(lengths[leaf]):
                out[places[leaf] + k] = names[start + k]
        end += lengths[root]
        out[end] = END
        end += 1
