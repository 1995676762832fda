"""Where the nodes of a tree stand when it is drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.plotting.subject import Subject
from hctrellis.tree import Tree
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


class Layout(NamedTuple):
    """Where the nodes stand.

    Attributes
    ----------
    x, y : list of float
        The height and the row of each node.
    gap : list of float
        Of internal nodes: the row boundary between the leaves of the first two children.
    rows : list of (float, float)
        The first and the last row of the leaves of each node.
    parts : list of list of int
        Of internal nodes: the nodes that hang on each.
    """

    x: list[float]
    y: list[float]
    gap: list[float]
    rows: list[tuple[float, float]]
    parts: list[list[int]]


def lay_out(tree: Tree, hidden: Collection[int] = ()) -> Layout:
    """Place a tree: each node between its children."""
    n = tree.n_leaves
    x = [0.0] * n + raised(tree).tolist()
    y = [0.0] * n
    for row, leaf in enumerate(tree.leaf_order()):
        y[leaf] = float(row)
    rows = [(row, row) for row in y]
    gap: list[float] = []
    parts: list[list[int]] = []
    for pair in tree.children.tolist():
        shown = [k for child in pair for k in (parts[child - n] if child in hidden else [child])]
        parts.append(shown)
        y.append((y[shown[0]] + y[shown[-1]]) / 2)
        rows.append((rows[shown[0]][0], rows[shown[-1]][1]))
        gap.append(rows[shown[0]][1] + 0.5)
    return Layout(x, y, gap, rows, parts)


def leaf_rows(tree: Tree, labels: Sequence[str]) -> FloatArray:
    """The row of each label when the tree is drawn."""
    if set(labels) != set(tree.labels):
        odd = min(set(labels) ^ set(tree.labels))
        raise ValueError(
            f"the labels of the tree differ from those of what is drawn, for instance {odd!r}"
        )
    row_of = {tree.labels[leaf]: row for row, leaf in enumerate(tree.leaf_order())}
    return np.array([row_of[label] for label in labels], float)


def supported(subject: Subject, least: float) -> list[int]:
    """The largest clusters (nodes) whose support is at least this."""
    tree, found, covered = subject.tree, [], 0
    for node in range(2 * tree.n_leaves - 3, tree.n_leaves - 1, -1):
        value = subject.values[node]
        if value is None or value < least or node in subject.hidden:
            continue
        if not tree.masks[node] & covered:
            found.append(node)
            covered |= tree.masks[node]
    return found
