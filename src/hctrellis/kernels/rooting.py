"""From trees as they are written to rooted binary ones, in canonical order.

The nodes of a tree as written are numbered in any order in which parents come first; the k-th node
hangs from parents[k], the root from -1. The tree that comes out is that of `Tree`: leaves 0 .. n-1,
internal nodes in post-order, the child with the smallest leaf first.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import inner, jit

DONE, ONE_CHILD, MANY_CHILDREN, FEW_LEAVES, NO_LENGTHS = range(5)
"""What came of it: a tree, or what is wrong with it."""
WRITTEN, OUTGROUP, MIDPOINT, LOOSE = range(4)
"""Where the root goes: where it is, next to the outgroup, in the middle; LOOSE: next to the
outgroup if three branches meet at the root, or else where it is."""


@inner
def hang(nodes, parents, root, heads, nexts, numbers, order):
    """Lists of children (heads, nexts), their numbers, and the nodes from the root down."""
    heads[:nodes] = -1
    numbers[:nodes] = 0
    for v in range(nodes - 1, -1, -1):
        p = parents[v]
        if p >= 0:
            nexts[v] = heads[p]
            heads[p] = v
            numbers[p] += 1
    order[0] = root
    end = 1
    k = 0
    while k < end:
        v = heads[order[k]]
        while v >= 0:
            order[end] = v
            end += 1
            v = nexts[v]
        k += 1
    return end


@inner
def put_root(nodes, parents, leaves, lengths, root, heads, nexts, numbers, v, below):
    """Put the root on the branch above v, at a distance from it; the new root.

    The nodes from there to the old root turn around; an old root of two branches goes.
    """
    if numbers[root] == 2 and parents[v] == root:
        other = heads[root] if heads[root] != v else nexts[heads[root]]
        whole = lengths[v] + lengths[other]
        lengths[v] = below
        lengths[other] = whole - below
        return root
    new = nodes
    parents[new], leaves[new], lengths[new] = -1, -1, lengths[root]
    above = lengths[v] - below
    x, previous = parents[v], new
    parents[v], lengths[v] = new, below
    while x != root:
        following, length = parents[x], lengths[x]
        parents[x], lengths[x] = previous, above
        previous, above, x = x, length, following
    if numbers[root] == 2:
        other = heads[root] if heads[root] != previous else nexts[heads[root]]
        parents[other] = previous
        lengths[other] += above
        parents[root] = -2  # gone
    else:
        parents[root], lengths[root] = previous, above
    return new


@inner
def outgroup_branch(order, end, parents, leaves, outside, n_outside, n, inside, sizes):
    """The node whose branch parts the outgroup from the rest, or that of the first of it."""
    first = -1
    for k in range(end):
        inside[order[k]] = sizes[order[k]] = 0
    for k in range(end - 1, -1, -1):
        v = order[k]
        if leaves[v] >= 0:
            sizes[v] = 1
            inside[v] = outside[leaves[v]] > 0
            if outside[leaves[v]] == 1:
                first = v
        if parents[v] >= 0:
            inside[parents[v]] += inside[v]
            sizes[parents[v]] += sizes[v]
    for k in range(1, end):
        v = order[k]
        if inside[v] == sizes[v] == n_outside or (inside[v] == 0 and sizes[v] == n - n_outside):
            return v, True
    return first, False


@inner
def middle_branch(order, end, parents, lengths, leaves, depths, ends_):
    """The node on whose branch the middle of the longest path lies, and how far above it.

    Lengths may be negative: whether a node has been reached is told by `ends_`, not by its depth.
    """
    longest, deepest = 0.0, -1
    for k in range(end):
        ends_[order[k]] = -1
    for k in range(end - 1, -1, -1):
        v = order[k]
        if leaves[v] >= 0:
            depths[v], ends_[v] = 0.0, v
        p = parents[v]
        if p >= 0:
            reach = depths[v] + lengths[v]
            if ends_[p] >= 0 and (deepest < 0 or depths[p] + reach > longest):
                longest = depths[p] + reach
                deepest = ends_[v] if reach > depths[p] else ends_[p]
            if ends_[p] < 0 or reach > depths[p]:
                depths[p], ends_[p] = reach, ends_[v]
    v, left = deepest, longest / 2
    while parents[v] >= 0 and left > lengths[v] and parents[parents[v]] >= 0:
        left -= lengths[v]
        v = parents[v]
    return v, max(0.0, min(left, lengths[v]) if parents[parents[v]] >= 0 else left)


@jit
def arrange(
    nodes,
    parents,
    leaves,
    lengths,
    n,
    mode,
    outside,
    n_outside,
    resolve,
    work,
    depths,
    children,
    out_lengths,
    sources,
):
    """Root a tree, and write it in canonical order.

    nodes : number of nodes; parents, leaves, lengths : as `treetext.read_nodes` gives them, with
        room for 2n more nodes
    outside : int64 (n), 1 for the first leaf of the outgroup, 2 for its others, 0 for the rest
    resolve : whether a node of more than two children is split one child at a time
    work : int64 (7, room), depths : float64 (room)
    children : int64 (n - 1, 2), out_lengths : float64 (2n - 1), of the tree that comes out
    sources : int64 (2n - 1), which node each of its nodes was, -1 if it is new
    Returns what is wrong, at which node, and whether the outgroup is one side of a branch.
    """
    heads, nexts, numbers, order, firsts, sizes, ends_ = work
    root = 0
    whole = True
    end = hang(nodes, parents, root, heads, nexts, numbers, order)
    n_leaves = 0
    for v in range(nodes):
        n_leaves += leaves[v] >= 0
        if leaves[v] < 0 and numbers[v] == 1:
            return ONE_CHILD, v, whole
    if n_leaves != n:
        return FEW_LEAVES, n_leaves, whole
    written = nodes
    if mode == LOOSE:
        mode = OUTGROUP if numbers[root] == 3 else WRITTEN
    if mode != WRITTEN and n > 1:
        if mode == OUTGROUP:
            v, whole = outgroup_branch(
                order, end, parents, leaves, outside, n_outside, n, firsts, sizes
            )
            length = lengths[v]
            if parents[v] == root and numbers[root] == 2:
                other = heads[root] if heads[root] != v else nexts[heads[root]]
                length += lengths[other]
            below = length / 2
        else:
            for v in range(1, nodes):
                if np.isnan(lengths[v]):
                    return NO_LENGTHS, v, whole
            v, below = middle_branch(order, end, parents, lengths, leaves, depths, ends_)
        fresh = put_root(nodes, parents, leaves, lengths, root, heads, nexts, numbers, v, below)
        nodes += fresh == nodes
        root = fresh
        end = hang(nodes, parents, root, heads, nexts, numbers, order)
    for k in range(end):
        v = order[k]
        if numbers[v] > 2 and not resolve:
            return MANY_CHILDREN, v, whole
    for k in range(end - 1, -1, -1):
        v = order[k]
        if leaves[v] >= 0:
            firsts[v] = leaves[v]
        else:
            firsts[v] = n
            child = heads[v]
            while child >= 0:
                firsts[v] = min(firsts[v], firsts[child])
                child = nexts[child]
    k = 0
    while k < end:  # nodes of more than two children: the last leaf's child against all others
        v = order[k]
        if numbers[v] > 2:
            latest = child = heads[v]
            while child >= 0:
                if firsts[child] > firsts[latest]:
                    latest = child
                child = nexts[child]
            new = nodes
            nodes += 1
            leaves[new], lengths[new] = -1, 0.0
            parents[new], firsts[new] = v, firsts[v]
            numbers[new] = numbers[v] - 1
            numbers[v] = 2
            heads[new] = -1
            child = heads[v]
            while child >= 0:
                following = nexts[child]
                if child != latest:
                    parents[child] = new
                    nexts[child] = heads[new]
                    heads[new] = child
                child = following
            heads[v] = new
            nexts[new] = latest
            nexts[latest] = -1
            order[end] = new
            end += 1
        k += 1
    if nodes > written:
        end = hang(nodes, parents, root, heads, nexts, numbers, order)
    for k in range(end - 1, -1, -1):
        v = order[k]
        sizes[v] = 1
        if leaves[v] < 0:
            one = heads[v]
            other = nexts[one]
            sizes[v] = sizes[one] + sizes[other]
            firsts[v] = min(firsts[one], firsts[other])
    number = ends_
    number[root] = 2 * n - 2 if n > 1 else 0
    for k in range(end):
        v = order[k]
        if leaves[v] >= 0:
            number[v] = leaves[v]
        else:
            one = heads[v]
            other = nexts[one]
            if firsts[one] > firsts[other]:
                one, other = other, one
            node = number[v]
            number[other] = node - 1 if leaves[other] < 0 else leaves[other]
            number[one] = node - sizes[other] if leaves[one] < 0 else leaves[one]
            children[node - n, 0] = number[one]
            children[node - n, 1] = number[other]
        out_lengths[number[v]] = lengths[v]
        sources[number[v]] = v if v < written else -1
    return DONE, root, whole
