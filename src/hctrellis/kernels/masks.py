"""Clusters of at most 62 leaves as whole numbers, and graphs over leaves as masks of neighbours."""

from __future__ import annotations

from hctrellis.kernels.compile import inner
from hctrellis.kernels.door import IS_COMPILING, trailing_zeros

if IS_COMPILING:

    @inner
    def lowest(mask):
        """The lowest leaf of a cluster."""
        return trailing_zeros(mask)

else:

    def lowest(mask):
        """The lowest leaf of a cluster, without the compiler."""
        return (int(mask) & -int(mask)).bit_length() - 1


@inner
def reached(start, within, graph):
    """The leaves that can be reached from those of `start` by edges inside a cluster."""
    found = start
    front = start
    while front != 0:
        around = 0
        while front != 0:
            around |= graph[lowest(front)]
            front &= front - 1
        front = around & within & ~found
        found |= front
    return found


@inner
def is_connected(cluster, within, graph):
    """Whether the leaves of a cluster are joined by edges inside another one that contains it."""
    if cluster == 0:
        return True
    found = reached(cluster & -cluster, within, graph)
    return cluster & ~found == 0


@inner
def is_bipartite(cluster, graph):
    """Whether a connected cluster has two sides without an edge inside a side."""
    sides = cluster & -cluster, 0
    front = sides[0]
    found = front
    while front != 0:
        around = 0
        while front != 0:
            leaf = lowest(front)
            if graph[leaf] & sides[0] != 0:
                return False
            around |= graph[leaf]
            front &= front - 1
        front = around & cluster & ~found
        found |= front
        sides = sides[1] | front, sides[0]
    return True


@inner
def odd_blocks(cluster, graph, out):
    """List the biconnected blocks of a cluster that are not bipartite; how many there are.

    out : int64, at least as long as the cluster has leaves; what is still to be taken apart is
        kept at its end
    """
    count = 0
    todo = out.size - 1
    out[todo] = cluster
    while todo < out.size:
        part = out[todo]
        todo += 1
        if part & (part - 1) == 0:
            continue
        first = reached(part & -part, part, graph)
        if first != part:
            todo -= 1
            out[todo] = part & ~first
        if is_bipartite(first, graph):
            continue
        leaves = first
        whole = True
        while leaves != 0 and whole:
            bit = leaves & -leaves
            leaves ^= bit
            rest = first ^ bit
            one = reached(rest & -rest, rest, graph)
            if one != rest:
                whole = False
                todo -= 2
                out[todo] = one | bit
                out[todo + 1] = first & ~one
        if whole:
            out[count] = first
            count += 1
    return count
