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


@jit
def read_newick(text, ends, children, read):
    """Read trees over leaves called 0, 1, ... that are written with brackets and commas only.

    text : uint8, all trees one after the other; ends : int64 (m), where each ends
    children : int64 (m, n - 1, 2), as in `Tree`
    read : bool (m), whether a tree was read; False if anything else is written, or it is wrong
    """
    n = children.shape[1] + 1
    stack = np.empty(4 * n + 4, np.int64)  # nodes, and -1 for an open bracket
    at = 0
    for t in range(ends.size):
        met = np.zeros(n, np.bool_)
        height = made = 0
        fine = True
        before = True  # a leaf or a bracket comes next
        while fine and at < ends[t]:
            char = text[at]
            at += 1
            if char == ord("(") and before and height < stack.size - 1:
                stack[height] = -1
                height += 1
            elif ord("0") <= char <= ord("9") and before and height < stack.size - 1:
                leaf = np.int64(char) - ord("0")
                fine = leaf > 0 or at == ends[t] or not ord("0") <= text[at] <= ord("9")
                while at < ends[t] and ord("0") <= text[at] <= ord("9") and leaf < n:
                    leaf = 10 * leaf + text[at] - ord("0")
                    at += 1
                fine = fine and leaf < n and not met[leaf]
                if fine:
                    met[leaf] = True
                    stack[height] = leaf
                    height += 1
                    before = False
            elif char == ord(",") and not before:
                before = True
            elif char == ord(")") and not before and height >= 3 and stack[height - 3] == -1:
                fine = stack[height - 2] >= 0
                if fine:
                    children[t, made, 0] = stack[height - 2]
                    children[t, made, 1] = stack[height - 1]
                    height -= 2
                    stack[height - 1] = n + made
                    made += 1
            else:
                fine = char == ord(";") and at == ends[t]
        read[t] = fine and made == n - 1 and height == 1 and not before
        at = ends[t]
