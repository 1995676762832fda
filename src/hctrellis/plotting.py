"""Pictures of trees, with matplotlib (an extra: ``pip install "hctrellis[plot]"``).

A plot takes and returns matplotlib axes, and draws a new figure of a fitting size without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.tree import FloatArray
    from hctrellis.treeformats import Support

TREE_WIDTH = 4.2  # inches of a new figure, without the labels
CHARACTER_WIDTH = 0.075  # inches of a label's character
ROW_HEIGHT = 0.27  # inches per leaf of a new figure
MARGIN_HEIGHT = 0.7  # inches for the axis of heights
LABEL_SIZE, SUPPORT_SIZE = 9.5, 7.5  # points; less where rows are narrow
LEADER = 26.0  # points between the end of a leaf's branch and its label: room for a number
DARKEST, FAINTEST = 0.13, 0.72  # grey of the branch above a cluster of probability 1, and 0

_INK = "#222222"
_PALE = "#c8c8c8"


def plot_dendrogram(
    tree: Tree,
    support: Support | None = None,
    colors: Mapping[str, str] | Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree with the root at the left and the labels of the leaves at the right.

    A number of `support` stands right of the line that joins the two children of its cluster,
    between the leaves of one and the leaves of the other, where no line can pass. Branches are the
    fainter the smaller the support of the cluster they lead to.

    Parameters
    ----------
    tree : Tree
        Drawn at its heights (raised where a child is higher than its parent), or, if it has none,
        each node at the number of leaves below it.
    support : mapping or callable, optional
        A probability for each internal node but the root: a mapping from clusters (frozenset of
        labels, or mask), or a function of the mask. Nodes that are missing or have None are bare.
    colors : mapping or sequence of str, optional
        A colour for each label: by label, or in the order of ``tree.labels``.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.

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
    ax = _new_axes(tree) if ax is None else ax
    layout = _lay_out(tree)
    values = _support_values(tree, support)
    _draw_branches(ax, tree, layout, values)
    _set_axes(ax, tree, layout)
    _name_leaves(ax, tree, layout, _label_colors(tree, colors))
    _write_support(ax, tree, layout, values)
    return ax


def require_matplotlib() -> None:
    """Raise an error that says what to install, unless matplotlib is there."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError('plots need matplotlib: pip install "hctrellis[plot]"') from None


def show_probability(probability: float, digits: int = 2) -> str:
    """A probability as text that says 0 or 1 only if it is.

    Examples
    --------
    >>> [show_probability(p) for p in (0.0, 0.001, 0.126, 0.9999, 1.0)]
    ['0.00', '<0.01', '0.13', '>0.99', '1.00']
    """
    least = 10.0**-digits
    text = f"{probability:.{digits}f}"
    if probability > 0 and float(text) == 0:
        return f"<{least:.{digits}f}"
    if probability < 1 and float(text) >= 1:
        return f">{1 - least:.{digits}f}"
    return text


class _Layout(NamedTuple):
    """Where the nodes stand: x the height, y the row, and the gap between two children."""

    x: list[float]
    y: list[float]
    gap: list[float]  # of internal nodes: the row boundary between the leaves of both children


def _lay_out(tree: Tree) -> _Layout:
    n = tree.n_leaves
    x = [0.0] * n + _monotone(tree).tolist()
    y = [0.0] * n
    for row, leaf in enumerate(tree.leaf_order()):
        y[leaf] = float(row)
    last = list(y)
    gap = []
    for left, right in tree.children.tolist():
        y.append((y[left] + y[right]) / 2)
        last.append(last[right])
        gap.append(last[left] + 0.5)
    return _Layout(x, y, gap)


def _monotone(tree: Tree) -> FloatArray:
    """Heights of the internal nodes that no child exceeds."""
    if tree.n_leaves == 1:
        return tree.children[:, 0].astype(float)
    heights = Tree.from_linkage(tree.to_linkage()).heights
    assert heights is not None
    return heights


def _support_values(tree: Tree, support: Support | None) -> list[float | None]:
    """The support of every node; of leaves, the root and where nothing is known, None."""
    values: list[float | None] = [None] * (2 * tree.n_leaves - 1)
    if support is None:
        return values
    lookup = support if callable(support) else _by_mask(tree, support)
    for node in range(tree.n_leaves, 2 * tree.n_leaves - 2):
        values[node] = lookup(tree.masks[node])
    return values


def _by_mask(tree: Tree, support: Mapping[Any, float | None]) -> Callable[[int], float | None]:
    return {tree.mask(cluster): value for cluster, value in support.items()}.get


def _label_colors(tree: Tree, colors: Mapping[str, str] | Sequence[str] | None) -> list[str]:
    if colors is None:
        return [_INK] * tree.n_leaves
    if isinstance(colors, Mapping):
        return [colors.get(label, _INK) for label in tree.labels]
    if len(colors) != tree.n_leaves:
        raise ValueError(f"there are {len(colors)} colors for {tree.n_leaves} leaves")
    return list(colors)


def figure_size(tree: Tree) -> tuple[float, float]:
    """Width and height, in inches, of a figure in which a dendrogram is easy to read."""
    width = TREE_WIDTH + CHARACTER_WIDTH * max(map(len, tree.labels))
    return width, MARGIN_HEIGHT + ROW_HEIGHT * tree.n_leaves


def _new_axes(tree: Tree) -> Axes:
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figure_size(tree), layout="constrained")[1]


def _draw_branches(ax: Axes, tree: Tree, layout: _Layout, values: list[float | None]) -> None:
    from matplotlib.collections import LineCollection

    x, y, _ = layout
    lines, owners = [], []
    for node, (left, right) in enumerate(tree.children.tolist(), start=tree.n_leaves):
        lines.append([(x[node], y[left]), (x[node], y[right])])
        lines += [[(x[node], y[child]), (x[child], y[child])] for child in (left, right)]
        owners += [node, left, right]
    shades = [_shade(values[node]) for node in owners]
    ax.add_collection(LineCollection(lines, colors=shades, linewidths=1.3, capstyle="projecting"))


def _shade(value: float | None) -> str:
    """A shade of grey, in matplotlib's way of writing it."""
    doubt = 0.0 if value is None else 1.0 - min(max(value, 0.0), 1.0)
    return str(DARKEST + doubt * (FAINTEST - DARKEST))


def _set_axes(ax: Axes, tree: Tree, layout: _Layout) -> None:
    top = layout.x[-1] or 1.0
    ax.set_xlim(1.03 * top, 0.0)
    ax.set_ylim(tree.n_leaves - 0.5, -0.5)
    ax.spines[["left", "right", "top"]].set_visible(False)
    if tree.heights is None:
        ax.spines["bottom"].set_visible(False)
        ax.set_xticks([])
    else:
        ax.spines["bottom"].set_color(_PALE)
        ax.tick_params(axis="x", color=_PALE, labelsize=LABEL_SIZE - 1.5)
        ax.set_xlabel("height", fontsize=LABEL_SIZE - 0.5)


def _name_leaves(ax: Axes, tree: Tree, layout: _Layout, colors: Sequence[str]) -> None:
    """Write the labels, with the tick marks as lines that lead to them."""
    ax.yaxis.tick_right()
    ax.set_yticks(layout.y[: tree.n_leaves], [_literal(label) for label in tree.labels])
    size = min(LABEL_SIZE, 0.85 * _row_points(ax, tree.n_leaves))
    ax.tick_params(
        axis="y", length=LEADER, width=0.6, color=_PALE, pad=3, labelsize=size, labelright=True
    )
    for text, color in zip(ax.get_yticklabels(), colors, strict=True):
        text.set_color(color)


def _literal(label: str) -> str:
    """A label as it is: matplotlib takes text between dollar signs for mathematics."""
    return label.replace("$", r"\$")


def _row_points(ax: Axes, n_leaves: int) -> float:
    """The height of a row, in points."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return float(ax.get_window_extent().height / figure.dpi * 72 / n_leaves)


def _write_support(ax: Axes, tree: Tree, layout: _Layout, values: list[float | None]) -> None:
    size = min(SUPPORT_SIZE, 0.7 * _row_points(ax, tree.n_leaves))
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
                color="#555555",
                annotation_clip=False,
            )
