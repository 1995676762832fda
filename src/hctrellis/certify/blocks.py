"""Graphs over leaves taken apart: connected components, biconnected blocks, and trees of these.

Clusters and neighbours are masks of any number of leaves. A tree over a cluster is here the list of
its clusters, as masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hctrellis.support.types import BoolArray


def neighbours(edges: BoolArray) -> list[int]:
    """The neighbours of each leaf, as masks."""
    return [sum(1 << j for j, edge in enumerate(row) if edge) for row in edges.tolist()]


def leaves_of(cluster: int) -> Iterator[int]:
    """The leaves of a cluster, in increasing order.

    >>> [*leaves_of(0b1011)]
    [0, 1, 3]
    """
    while cluster:
        yield (cluster & -cluster).bit_length() - 1
        cluster &= cluster - 1


def components(cluster: int, graph: Sequence[int]) -> list[int]:
    """The connected components of a cluster.

    >>> components(0b111, [0b010, 0b001, 0])
    [3, 4]
    """
    found = []
    while cluster:
        part = front = cluster & -cluster
        while front:
            around = 0
            for leaf in leaves_of(front):
                around |= graph[leaf]
            front = around & cluster & ~part
            part |= front
        found.append(part)
        cluster &= ~part
    return found


def blocks(cluster: int, graph: Sequence[int]) -> list[int]:
    """The biconnected blocks of a graph inside a cluster, single edges included.

    By depth-first search: a block ends at a leaf below which no edge leads above it.

    >>> blocks(0b1111, [0b0110, 0b0101, 0b1011, 0b0100])
    [12, 7]
    """
    found: list[int] = []
    order: dict[int, int] = {}
    for start in leaves_of(cluster):
        if start in order:
            continue
        order[start] = len(order)
        low = {start: order[start]}
        path = [(start, leaves_of(graph[start] & cluster))]
        open_leaves = [start]
        while path:
            leaf, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[leaf])
                    if low[leaf] >= order[above]:
                        block = 1 << above
                        while not block >> leaf & 1:
                            block |= 1 << open_leaves.pop()
                        found.append(block)
            elif other not in order:
                order[other] = low[other] = len(order)
                path.append((other, leaves_of(graph[other] & cluster)))
                open_leaves.append(other)
            else:
                low[leaf] = min(low[leaf], order[other])
    return found


def two_sides(cluster: int, graph: Sequence[int]) -> tuple[int, int] | None:
    """The two sides of a connected cluster without an edge inside a side; None if there are none.

    >>> two_sides(0b111, [0b010, 0b101, 0b010]), two_sides(0b111, [0b110, 0b101, 0b011])
    ((5, 2), None)
    """
    front = cluster & -cluster
    sides = [front, 0]
    turn = 0
    while front:
        around = 0
        for leaf in leaves_of(front):
            around |= graph[leaf] & cluster
        if around & sides[turn]:
            return None
        turn = 1 - turn
        front = around & ~sides[turn]
        sides[turn] |= front
    return sides[0], sides[1]


class Node(NamedTuple):
    """A cluster and its two children; without children, nothing matters below it."""

    cluster: int
    children: tuple[Node, Node] | None = None


def nodes_of(cluster: int, clusters: list[int]) -> Node:
    """A tree as nodes, from its clusters in any order."""
    tops = {1 << leaf: Node(1 << leaf) for leaf in leaves_of(cluster)}
    for each in sorted({*clusters, cluster}, key=int.bit_count):
        if each.bit_count() > 1:
            one, other = (tops.pop(top) for top in [*tops] if top & each)
            tops[each] = Node(each, (one, other))
    return tops[cluster]


def ladder(clusters: Sequence[int]) -> list[int]:
    """The clusters of a tree that joins disjoint clusters, one after the other.

    >>> ladder([1, 2, 12])
    [3, 15]
    """
    joined, found = clusters[0], []
    for cluster in clusters[1:]:
        joined |= cluster
        found.append(joined)
    return found


def merged(cluster: int, nodes: Sequence[Node]) -> list[int]:
    """The clusters of one tree in which all blocks are split as in trees of their own.

    Each split of the tree splits all blocks that it can: two leaves of a block part as far from the
    root as they do in the block's own tree. Blocks share single leaves at most, and in no circles,
    so the two sides of a block can be chosen to agree with those of the blocks before it.

    nodes : the trees of the blocks, which may leave out leaves of the cluster
    """
    found = [cluster]
    todo = [(cluster, [node for node in nodes if node.children])]
    while todo:
        whole, waiting = todo.pop()
        if not waiting:
            found += ladder([1 << leaf for leaf in leaves_of(whole)])
            continue
        sides, below = [0, 0], ([], [])  # type: tuple[list[int], tuple[list[Node], list[Node]]]
        while waiting:
            seen = sides[0] | sides[1]
            node = next((each for each in waiting if each.cluster & seen), waiting[0])
            waiting.remove(node)
            assert node.children is not None
            one, other = node.children
            if one.cluster & sides[1] or other.cluster & sides[0]:
                one, other = other, one
            assert not (one.cluster & sides[1] or other.cluster & sides[0])
            for side, child in enumerate((one, other)):
                sides[side] |= child.cluster
                if child.children:
                    below[side].append(child)
        sides[0] |= whole & ~sides[1]
        found += sides
        todo += [(sides[0], below[0]), (sides[1], below[1])]
    return found
