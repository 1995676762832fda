"""Two trees over the same leaves, face to face, with lines between equal leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hctrellis.plotting.axes import bare, extent, new_axes
from hctrellis.plotting.classes import Colors, as_classes, explain_classes
from hctrellis.plotting.dendrogram import figure_size, number_size
from hctrellis.plotting.labels import SMALLEST, fit_labels, label_size, text_width
from hctrellis.plotting.layout import lay_out
from hctrellis.plotting.style import (
    GREY,
    NUMBER_SIZE,
    PALE,
    TWO_COLUMNS,
    require_matplotlib,
    shade,
)
from hctrellis.plotting.subject import Subject, as_subject
from hctrellis.posterior.compare import compare, restricted
from hctrellis.support.colors import ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.tree import Tree

BETWEEN = 0.9  # inches for the lines between the trees
NAMES = 0.2  # of the width, at most, for the names of each side
NUMBER = 0.28  # inches between leaves and their names, for numbers


def plot_tanglegram(
    first: Any,
    second: Any,
    ax: Axes | None = None,
    *,
    colors: Colors | None = None,
    titles: tuple[str, str] = ("", ""),
) -> Axes:
    """Draw two trees or posteriors face to face, with a line between equal leaves.

    Numbers are the probabilities of clusters. Clusters that the other tree does not have are
    orange, and so are the lines of leaves that stand in different rows. The leaves of the second
    tree stand in the order of the first as far as it allows.

    Parameters
    ----------
    first, second : Tree, Posterior or Clustering
        Items that only one of them has are cut off.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.
    colors : mapping or sequence, optional
        A colour or a class for each label; see `plot_dendrogram`.
    titles : pair of str
        Written above the trees.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from hctrellis import Tree
    >>> ax = plot_tanglegram(Tree.from_newick("((a,b),c);"), Tree.from_newick("(a,(b,c));"))
    >>> [text.get_text() for text in ax.texts if text.get_text() != "1.00"][:3]
    ['a', 'b', 'c']
    """
    require_matplotlib()
    found = compare(first, second)
    left, right = found.trees
    order = [left.labels[leaf] for leaf in left.leaf_order()]
    sides = [_side(given, tree.reorder(order)) for given, tree in ((first, left), (second, right))]
    if ax is None:
        ax = new_axes(TWO_COLUMNS, figure_size(left)[1])
    bare(ax)
    classes = as_classes(order, colors)
    _draw(ax, sides, order, classes.colors, titles)
    if classes.key:
        explain_classes(ax, classes.key, NUMBER_SIZE)
    return ax


def _side(given: Any, tree: Tree) -> Subject:
    """A tree with the probabilities of its clusters; a bare tree has none."""
    post = getattr(given, "posterior", given)
    if not hasattr(post, "cluster_probability"):
        return as_subject(tree)
    if set(post.labels) == set(tree.labels):
        known = as_subject(post)
        by_name = {
            frozenset(known.tree.labels[k] for k in range(known.tree.n_leaves) if mask >> k & 1): p
            for mask, p in zip(known.tree.masks, known.values, strict=True)
        }
    else:
        rest = tuple(tree.labels)
        by_name = {row.cluster: row.first for row in compare(post, restricted(tree, rest))}
    inside = {cluster: p for cluster, p in by_name.items() if _inside(cluster, tree)}
    return as_subject(tree, inside)


def _inside(cluster: frozenset[str], tree: Tree) -> bool:
    return len(cluster) > 1 and cluster <= set(tree.labels)


def _draw(
    ax: Axes,
    sides: list[Subject],
    order: list[str],
    colors: list[str],
    titles: tuple[str, str],
) -> None:
    width, height = extent(ax)
    n = len(order)
    size = label_size(height / n)
    texts, size = fit_labels(order, size, NAMES * width)
    named = 0.0 if size < SMALLEST else max(text_width(text, size) for text in texts) + 0.06
    number = NUMBER if any(any(side.texts) for side in sides) else 0.05
    tree_width = max(0.3, (width - 2 * (named + number) - BETWEEN) / 2)
    rows = []
    for side, mirrored, title in zip(sides, (False, True), titles, strict=True):
        rows.append(_draw_side(ax, side, sides, (width, tree_width), mirrored))
        start = (tree_width + number) / width
        for leaf, label in enumerate(side.tree.labels):
            x = 1 - start if mirrored else start
            if size >= SMALLEST:
                k = order.index(label)
                look: dict[str, Any] = {
                    "ha": "right" if mirrored else "left",
                    "va": "center_baseline",
                }
                ax.text(x, rows[-1][leaf], texts[k], fontsize=size, color=colors[k], **look)
        if title:
            at = 1 - tree_width / width if mirrored else 0.0
            ax.text(at, -0.9, title, fontsize=NUMBER_SIZE + 1, ha="left", va="bottom")
    edge = (tree_width + number + named) / width
    for leaf, label in enumerate(sides[0].tree.labels):
        other = sides[1].tree.labels.index(label)
        ends = [rows[0][leaf], rows[1][other]]
        moved = ends[0] != ends[1]
        ax.plot([edge, 1 - edge], ends, color=ORANGE if moved else PALE, linewidth=0.7)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(n - 0.5, -1.6 if any(titles) else -0.5)


def _draw_side(
    ax: Axes, side: Subject, sides: list[Subject], widths: tuple[float, float], mirrored: bool
) -> list[float]:
    """Draw one of the trees; returns the rows of its leaves."""
    from matplotlib.collections import LineCollection

    other = sides[0] if mirrored else sides[1]
    shared = {frozenset(names) for names in other.tree.cluster_labels()}
    layout, n = lay_out(side.tree), side.tree.n_leaves
    top = 1.03 * (layout.x[-1] or 1.0)

    def place(height: float) -> float:
        x = widths[1] / widths[0] * (1 - height / top)
        return 1 - x if mirrored else x

    lines, looks = [], []
    for node, parts in enumerate(layout.parts, start=n):
        own = place(layout.x[node])
        lines.append([(own, layout.y[parts[0]]), (own, layout.y[parts[-1]])])
        lines += [[(own, layout.y[k]), (place(layout.x[k]), layout.y[k])] for k in parts]
        looks += [_look(side, k, shared) for k in (node, *parts)]
    ax.add_collection(LineCollection(lines, colors=looks, linewidths=1.0, capstyle="projecting"))
    size = number_size(extent(ax)[1] / n)
    for k, gap in enumerate(layout.gap):
        if side.texts[n + k] and size >= SMALLEST:
            ax.annotate(
                side.texts[n + k],
                (place(layout.x[n + k]), gap),
                xytext=(-2.5 if mirrored else 2.5, 0),
                textcoords="offset points",
                ha="right" if mirrored else "left",
                va="center_baseline",
                fontsize=size,
                color=GREY,
            )
    return layout.y[:n]


def _look(side: Subject, node: int, shared: set[frozenset[str]]) -> str:
    tree = side.tree
    if node < tree.n_leaves:
        return shade(1.0)
    names = frozenset(tree.labels[k] for k in range(tree.n_leaves) if tree.masks[node] >> k & 1)
    return shade(side.values[node]) if names in shared else ORANGE
