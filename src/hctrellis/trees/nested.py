"""Nested pairs, and sets of clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hctrellis.clusters import Cluster, cluster_mask, leaf_index, show_cluster
from hctrellis.trees.parts import Parts, number_joins

if TYPE_CHECKING:
    from hctrellis.tree import Tree

Nested: TypeAlias = "str | int | Sequence[Nested]"
"""A leaf (label or index) or a pair of such."""


def parse_nested(nested: Nested, labels: Sequence[str] | None = None) -> Parts:
    """Read nested pairs; see `Tree.from_nested`."""
    leaves, joins = _flatten(nested)
    places, names = _index_leaves(leaves, labels)
    children = [
        tuple(places[child] if child < len(leaves) else child for child in pair)
        for pair in number_joins(joins, len(leaves))
    ]
    return Parts(children, names)


def format_nested(tree: Tree) -> Nested:
    """Return nested tuples of labels; see `Tree.to_nested`."""
    nodes: list[Nested] = list(tree.labels)
    for left, right in tree.children.tolist():
        nodes.append((nodes[left], nodes[right]))
    return nodes[-1]


_JOIN = object()


def _flatten(nested: Nested) -> tuple[list[str | int], list[tuple[int, int]]]:
    """Return the leaves from left to right and the joins (leaf i is i, join k is ~k)."""
    leaves: list[str | int] = []
    joins: list[tuple[int, int]] = []
    done: list[int] = []
    stack: list[Any] = [nested]
    inside: dict[int, None] = {}  # the pairs that are being read, the innermost last
    while stack:
        item = stack.pop()
        if item is _JOIN:
            inside.popitem()
            right, left = done.pop(), done.pop()
            done.append(~len(joins))
            joins.append((left, right))
        elif isinstance(item, str | int | np.integer):
            done.append(len(leaves))
            leaves.append(item if isinstance(item, str) else int(item))
        else:
            if id(item) in inside:
                raise ValueError("the nested tree contains itself; expected pairs down to leaves.")
            left, right = _pair(item)
            inside[id(item)] = None
            stack += [_JOIN, right, left]
    return leaves, joins


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list):
        raise ValueError(
            f"found a {type(item).__name__} in the nested tree; expected a label, a leaf index, "
            "or a tuple or list of two."
        )
    if len(item) != 2:
        raise ValueError(
            f"found a {type(item).__name__} of {len(item)} in the nested tree; expected pairs: "
            "every internal node has two children."
        )
    return item[0], item[1]


def _index_leaves(
    leaves: list[str | int], labels: Sequence[str] | None
) -> tuple[list[int], Sequence[str] | None]:
    """Return the index of each leaf and the labels in that order (None: the default)."""
    named = [leaf for leaf in leaves if isinstance(leaf, str)]
    if labels is None and 0 < len(named) < len(leaves):
        raise ValueError("the nested tree mixes labels and indices; give labels= to order them.")
    if labels is None and named:
        return list(range(len(leaves))), named
    index_of = {label: place for place, label in enumerate(labels or ())}
    places = [leaf_index(leaf, index_of, len(leaves)) for leaf in leaves]
    twice = [leaf for leaf, times in Counter(places).items() if times > 1]
    if twice:
        raise ValueError(f"leaf {twice[0]} is repeated in the nested tree; give each leaf once.")
    return places, labels


def parse_clusters(clusters: Iterable[Cluster], labels: Sequence[str] | None = None) -> Parts:
    """Find the tree that has the given clusters; see `Tree.from_clusters`."""
    given = [_as_cluster(cluster) for cluster in clusters]
    names = _cluster_leaves(given) if labels is None else tuple(labels)
    index_of = {label: place for place, label in enumerate(names)}
    masks = {cluster_mask(cluster, index_of, len(names)) for cluster in given}
    masks.add((1 << len(names)) - 1)
    inner = sorted((mask for mask in masks if mask & (mask - 1)), key=int.bit_count)
    return Parts(_join_clusters(inner, names), names)


def _as_cluster(cluster: Cluster) -> int | list[str | int]:
    if isinstance(cluster, int | np.integer):
        return int(cluster)
    return [cluster] if isinstance(cluster, str) else list(cluster)


def _cluster_leaves(clusters: list[int | list[str | int]]) -> tuple[str, ...]:
    """Return the labels that the clusters refer to: those named, or "0" to the largest index."""
    n_leaves, named = 0, set()
    for cluster in clusters:
        if isinstance(cluster, int):
            n_leaves = max(n_leaves, cluster.bit_length())
            continue
        named |= {item for item in cluster if isinstance(item, str)}
        indices = (index(item) for item in cluster if not isinstance(item, str))
        n_leaves = max(n_leaves, 1 + max(indices, default=-1))
    if bool(n_leaves) == bool(named):
        given = "mix labels and indices" if named else "name no leaves"
        raise ValueError(f"the clusters {given}; give labels= to say what the leaves are.")
    if n_leaves > len(clusters) + 2:
        raise ValueError(
            f"{len(clusters)} clusters refer to leaves up to {n_leaves - 1}; a binary tree over so "
            "many leaves has more clusters: leave out only single leaves and the set of all leaves."
        )
    return tuple(sorted(named)) if named else tuple(map(str, range(n_leaves)))


def _join_clusters(clusters: list[int], labels: Sequence[str]) -> list[tuple[int, int]]:
    """Return the children of each cluster, in the given order: by size, the full set last.

    Every leaf points towards the largest cluster made so far that contains it; a cluster joins
    those of its leaves.
    """
    masks = [1 << leaf for leaf in range(len(labels))]
    parent = list(range(len(labels)))
    children = []
    for cluster in clusters:
        left, right = _parts_of(cluster, masks, parent, labels)
        parent[left] = parent[right] = len(parent)
        parent.append(len(parent))
        masks.append(cluster)
        children.append((left, right))
    return children


def _parts_of(
    cluster: int, masks: list[int], parent: list[int], labels: Sequence[str]
) -> tuple[int, int]:
    """Return the two nodes made so far that make up a cluster."""
    parts, rest = [], cluster
    while rest:
        part = _top((rest & -rest).bit_length() - 1, parent)
        if masks[part] & ~cluster:
            shown = show_cluster(masks[part], labels), show_cluster(cluster, labels)
            raise ValueError(
                f"clusters {shown[0]} and {shown[1]} cross; expected each pair to be nested or "
                "disjoint."
            )
        parts.append(part)
        rest &= ~masks[part]
    if len(parts) != 2:
        raise ValueError(
            f"cluster {show_cluster(cluster, labels)} is made of {len(parts)} smaller ones; "
            "expected 2: give all clusters of a binary tree."
        )
    return parts[0], parts[1]


def _top(node: int, parent: list[int]) -> int:
    """Return the root of a node, halving the path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node
