"""The dendrogram: one tree, drawn from the root at the left to the labels at the right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.plotting.axes import extent, make_room, new_axes, show_scale
from hctrellis.plotting.labels import (
    LABEL_SHARE,
    SMALLEST,
    Colors,
    label_colors,
    label_size,
    label_space,
    name_rows,
)
from hctrellis.plotting.style import (
    GREY,
    NUMBER_SIZE,
    POINTS,
    ROW_HEIGHT,
    require_matplotlib,
    shade,
)
from hctrellis.support.colors import ORANGE
from hctrellis.support.printable import show_probability
from hctrellis.tree import Tree
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.support.types import FloatArray
    from hctrellis.trees.newick import Support

TREE_WIDTH = 4.2  # of a new figure, without the labels
MARGIN_HEIGHT = 0.7  # for the axis of heights


def plot_dendrogram(
    tree: Tree,
    support: Support | None = None,
    colors: Colors | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree with the root at the left and the labels of the leaves at the right.

    A number of `support` stands to the right of the line that joins the two children of its
    cluster, between the leaves of one and the leaves of the other, where no line can pass. The
    smaller the support of a cluster, the fainter the branch that leads to it.

    Parameters
    ----------
    tree : Tree
        Drawn at its heights (raised where a child is higher than its parent), or, if it has none,
        each node at the number of leaves below it. Its leaves stand in the order of
        ``tree.leaf_order()``; ``tree.reorder(labels)`` turns branches, so that they stand in the
        order of the labels where the tree allows it.
    support : mapping or callable, optional
        A probability for each internal node but the root: a mapping from clusters (frozenset of
        labels, or mask), or a function of the mask. Nodes without one, or with None, get no number.
    colors : mapping or sequence of str, optional
        A colour for each label: by label, or in the order of ``tree.labels``.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure. Labels stay in the rectangle of given axes: the
        tree makes room for them, and long ones are cut. Text of less than 3 points is left out.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from hctrellis import Tree
    >>> ax = plot_dendrogram(Tree.from_newick("((a,b),c);"), support={frozenset("ab"): 0.93})
    >>> [text.get_text() for text in ax.texts]
    ['0.93']
    """
    require_matplotlib()
    if not isinstance(tree, Tree):
        raise TypeError(f"expected a Tree, got {type(tree).__name__}")
    return draw_dendrogram(
        new_axes(*figure_size(tree)) if ax is None else ax,
        tree,
        support_values(tree, support),
        label_colors(tree.labels, colors),
    )


def draw_dendrogram(
    ax: Axes,
    tree: Tree,
    values: Sequence[float | None],
    colors: Sequence[str],
    apart: Collection[int] = (),
) -> Axes:
    """Draw a tree with the support of every node; those in `apart` are orange."""
    layout = lay_out(tree)
    draw_branches(ax, tree, layout, values, apart)
    set_axes(ax, tree.n_leaves, layout.x[-1], tree.heights is not None)
    name_leaves(ax, layout.y[: tree.n_leaves], tree.labels, colors)
    _write_support(ax, tree, layout, values)
    return ax


class Layout(NamedTuple):
    """Where the nodes stand: x the height, y the row, and the gap between two children."""

    x: list[float]
    y: list[float]
    gap: list[float]  # of internal nodes: the row boundary between the leaves of both children


def lay_out(tree: Tree) -> Layout:
    """Place a tree: each node between its children."""
    n = tree.n_leaves
    x = [0.0] * n + raised(tree).tolist()
    y = [0.0] * n
    for row, leaf in enumerate(tree.leaf_order()):
        y[leaf] = float(row)
    last = list(y)
    gap = []
    for left, right in tree.children.tolist():
        y.append((y[left] + y[right]) / 2)
        last.append(last[right])
        gap.append(last[left] + 0.5)
    return Layout(x, y, gap)


def leaf_rows(tree: Tree, labels: Sequence[str]) -> FloatArray:
    """The row of each label when the tree is drawn."""
    if set(labels) != set(tree.labels):
        odd = min(set(labels) ^ set(tree.labels))
        raise ValueError(
            f"the labels of the tree differ from those of what is drawn, for instance {odd!r}"
        )
    row_of = {tree.labels[leaf]: row for row, leaf in enumerate(tree.leaf_order())}
    return np.array([row_of[label] for label in labels], float)


def support_values(tree: Tree, support: Support | None) -> list[float | None]:
    """The support of every node; None for leaves and the root, and where nothing is known."""
    values: list[float | None] = [None] * (2 * tree.n_leaves - 1)
    if support is None:
        return values
    lookup = support if callable(support) else _by_mask(tree, support)
    for node in range(tree.n_leaves, 2 * tree.n_leaves - 2):
        values[node] = lookup(tree.masks[node])
    return values


def _by_mask(tree: Tree, support: Mapping[Any, float | None]) -> Callable[[int], float | None]:
    return {tree.mask(cluster): value for cluster, value in support.items()}.get


def figure_size(tree: Tree) -> tuple[float, float]:
    """Width and height, in inches, of a figure in which a dendrogram is easy to read."""
    return TREE_WIDTH + label_space(tree.labels), MARGIN_HEIGHT + ROW_HEIGHT * tree.n_leaves


def draw_branches(
    ax: Axes,
    tree: Tree,
    layout: Layout,
    values: Sequence[float | None],
    apart: Collection[int] = (),
    upright: bool = False,
) -> None:
    """Draw the lines of a tree; if `upright`, with the root at the top."""
    from matplotlib.collections import LineCollection

    x, y, _ = layout
    lines, owners = [], []
    for node, (left, right) in enumerate(tree.children.tolist(), start=tree.n_leaves):
        lines.append([(x[node], y[left]), (x[node], y[right])])
        lines += [[(x[node], y[child]), (x[child], y[child])] for child in (left, right)]
        owners += [node, left, right]
    if upright:
        lines = [[(b, a) for a, b in line] for line in lines]
    shades = [ORANGE if node in apart else shade(values[node]) for node in owners]
    order = sorted(range(len(owners)), key=lambda k: owners[k] in apart)  # to be on top
    ax.add_collection(
        LineCollection(
            [lines[k] for k in order],
            colors=[shades[k] for k in order],
            linewidths=1.3,
            capstyle="projecting",
        )
    )


def set_axes(ax: Axes, n_leaves: int, top: float, scale: bool) -> None:
    """Set the limits, and show a scale of heights or none."""
    ax.set_xlim(1.03 * (top or 1.0), 0.0)
    ax.set_ylim(n_leaves - 0.5, -0.5)
    ax.spines[["left", "right", "top"]].set_visible(False)
    if scale:
        show_scale(ax, "height")
    else:
        ax.spines["bottom"].set_visible(False)
        ax.set_xticks([])


def name_leaves(
    ax: Axes, rows: Sequence[float], labels: Sequence[str], colors: Sequence[str]
) -> None:
    """Write the labels of the leaves, and make room for them."""
    width, height = extent(ax)
    taken = name_rows(
        ax, rows, labels, colors, size=label_size(height / len(rows)), room=LABEL_SHARE * width
    )
    make_room(ax, right=taken)


def _write_support(ax: Axes, tree: Tree, layout: Layout, values: Sequence[float | None]) -> None:
    size = min(NUMBER_SIZE, 0.7 * POINTS * extent(ax)[1] / tree.n_leaves)
    if size < SMALLEST:
        return
    for k, gap in enumerate(layout.gap):
        node = tree.n_leaves + k
        value = values[node]
        if value is not None:
            ax.annotate(
                show_probability(value),
                (layout.x[node], gap),
                xytext=(2.5, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=size,
                color=GREY,
                annotation_clip=False,
            )
