"""The clustermap: a table as a heat map, with trees at its sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.plotting.axes import LAID_OUT, bare, extent, new_axes, show_scale
from hctrellis.plotting.classes import Colors, as_classes, explain_classes, legend_rows
from hctrellis.plotting.dendrogram import draw_branches, number_size, write_support
from hctrellis.plotting.heatmap import (
    GAP,
    SCALE_SPACE,
    Names,
    above,
    attach,
    attach_scale,
    corner_above,
    draw_heatmap,
    left_of,
    row_height,
)
from hctrellis.plotting.labels import LABEL_SHARE, label_space
from hctrellis.plotting.layout import lay_out
from hctrellis.plotting.style import (
    INK,
    LABEL_SIZE,
    LEGEND_HEIGHT,
    MOST_HEIGHT,
    NUMBER_SIZE,
    PALE,
    require_matplotlib,
)
from hctrellis.plotting.subject import Subject, as_subject
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.checks import as_floats
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

    from hctrellis.support.types import FloatArray

TREE_SIZE = 1.5  # of a tree at a side, if that is no more than a quarter of the axes
CELL_WIDTH, NARROWEST_MAP, WIDEST_MAP = 0.3, 2.0, 8.0  # of a new figure
BOTH_SIDES = 0.25  # of the largest number: beyond this on the other side of 0, 0 is white
NUMBER_ROOM = 0.22  # of the height of a tree, between its leaves and the map
NUMBER_SHARE = 0.9  # of the size of numbers in a dendrogram, as there is less room
MOST_LABEL = 24  # characters of the name of a column that a new figure has room for


def plot_clustermap(
    table: npt.ArrayLike,
    tree: Tree | BasePosterior | ConsensusTree,
    ax: Axes | None = None,
    *,
    column_tree: Tree | BasePosterior | ConsensusTree | None = None,
    columns: Sequence[str] | None = None,
    colors: Colors | None = None,
    cmap: str | None = None,
    title: str = "",
) -> Axes:
    """Draw a table as a heat map, with its rows in the order of a tree that is drawn beside it.

    Parameters
    ----------
    table : array_like, shape (n, d)
        Row i belongs to leaf i; those of a pandas DataFrame whose index has the labels of the
        leaves are found by label. Missing values (NaN) are grey.
    tree : Posterior, Tree or ConsensusTree
        The tree of the rows; for a posterior, the MAP tree with the probabilities of its clusters
        and, if the model has them, the heights of its merges, with an axis.
    ax : matplotlib Axes, optional
        Where to draw the heat map: by default in a new figure. Trees and the colour scale are
        attached to these axes (``ax.child_axes``) and move with them.
    column_tree : Posterior, Tree or ConsensusTree, optional
        The tree of the columns, drawn above; without it, columns keep their own order.
    columns : sequence of str, optional
        Names of the columns: by default those of a DataFrame, else the labels of `column_tree`.
    colors : mapping or sequence of str, optional
        A colour or a class for each label of a row: by label, or in the order of the leaves.
        Labels have the colours of their classes, which a legend explains.
    cmap : str, optional
        Name of a colour map of matplotlib: by default from blue through white at 0 to red if the
        table reaches far to both sides of 0, else from white to blue.
    title : str
        What the numbers are, written at the colour scale.

    Returns
    -------
    matplotlib Axes
        Of the heat map.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from hctrellis import Tree
    >>> table = [[1.0, 2.0], [8.0, 9.0], [2.0, 2.0]]
    >>> ax = plot_clustermap(table, Tree.from_newick("((a,c),b);").reorder("abc"))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['a', 'c', 'b']
    >>> ax.images[0].get_array().tolist()
    [[1.0, 2.0], [2.0, 2.0], [8.0, 9.0]]
    """
    require_matplotlib()
    rows = as_subject(tree)
    upper = None if column_tree is None else as_subject(column_tree)
    values, names = _arrange(table, columns, rows.tree, None if upper is None else upper.tree)
    classes = as_classes(rows.tree.labels, colors)
    shown = _names(rows.tree, classes.colors)
    if ax is None:
        ax = _new_axes(shown.labels, names, values.shape[1], upper is not None, classes.key)
    width, height = extent(ax)
    legend = LEGEND_HEIGHT * legend_rows(classes.key, NUMBER_SIZE, width)
    left = min(TREE_SIZE, width / 4)
    top = 0.0 if upper is None else min(TREE_SIZE, height / 4)
    look = _look(values, cmap)
    space = (left + GAP, top + GAP + SCALE_SPACE + legend)
    image = draw_heatmap(ax, values, shown, Names(names, [INK] * len(names)), look, room=space)
    _attach_tree(ax, rows, left)
    if upper is not None:
        _attach_tree(ax, upper, top, upright=True)
    attach_scale(ax, image, title, top + GAP)
    if classes.key:
        place = partial(corner_above, left + GAP, top + GAP + SCALE_SPACE, legend)
        child = attach(ax, place)
        bare(child)
        explain_classes(child, classes.key, NUMBER_SIZE, width)
    return ax


def _names(tree: Tree, colors: Sequence[str]) -> Names:
    order = tree.leaf_order()
    return Names([tree.labels[leaf] for leaf in order], [colors[leaf] for leaf in order])


# ---- the table --------------------------------------------------------------------------------


def _arrange(
    table: Any, columns: Sequence[str] | None, tree: Tree, column_tree: Tree | None
) -> tuple[FloatArray, list[str]]:
    """The table as it is drawn, and the names of its columns (none if they have no names)."""
    values = as_floats(table, "table")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"table must have rows and columns; got an array of shape {values.shape}")
    index = None
    if hasattr(table, "iloc"):  # a DataFrame
        index = [str(name) for name in table.index]
        columns = [str(name) for name in table.columns] if columns is None else columns
    values = values[_order(tree, index, len(values), "rows")]
    if columns is not None and len(columns) != values.shape[1]:
        raise ValueError(f"there are {len(columns)} names for {values.shape[1]} columns")
    if column_tree is None:
        return values, list(columns or ())
    order = _order(column_tree, columns, values.shape[1], "columns")
    names = column_tree.leaf_order() if columns is None else order
    return values[:, order], [(columns or column_tree.labels)[k] for k in names]


def _order(tree: Tree, names: Sequence[str] | None, size: int, what: str) -> list[int]:
    """The rows or columns in the order of the leaves: found by name, or else leaf i is the i-th."""
    if size != tree.n_leaves:
        raise ValueError(
            f"the table has {size} {what}, but their tree has {tree.n_leaves} leaves; give one for "
            "each leaf"
        )
    if names is None or set(names) != set(tree.labels):
        return list(tree.leaf_order())
    place = {name: k for k, name in enumerate(names)}
    return [place[tree.labels[leaf]] for leaf in tree.leaf_order()]


def _look(values: FloatArray, cmap: str | None) -> tuple[Colormap, Normalize]:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        raise ValueError("the table has no finite number, so there is nothing to draw")
    low, high = float(finite.min()), float(finite.max())
    far = max(-low, high)
    if cmap is None and min(-low, high) > BOTH_SIDES * far:
        cmap, low, high = "RdBu_r", -far, far
    return colormaps[cmap or "Blues"].with_extremes(bad=PALE), Normalize(low, high)


# ---- the axes ---------------------------------------------------------------------------------


def _new_axes(
    rows: Sequence[str],
    columns: Sequence[str],
    n_columns: int,
    upper: bool,
    key: Mapping[str, str],
) -> Axes:
    cells = min(WIDEST_MAP, max(NARROWEST_MAP, CELL_WIDTH * n_columns))
    height = max(NARROWEST_MAP, row_height(len(rows)) * len(rows)) + SCALE_SPACE
    named = label_space(columns, MOST_LABEL) if columns else 0.0
    width = TREE_SIZE + cells + label_space(rows) + 0.3
    legend = LEGEND_HEIGHT * legend_rows(key, NUMBER_SIZE, LAID_OUT * width)
    return new_axes(width, min(MOST_HEIGHT, height + named + TREE_SIZE * upper + legend + 0.2))


def _attach_tree(ax: Axes, side: Subject, size: float, upright: bool = False) -> None:
    layout = lay_out(side.tree, side.hidden)
    child = attach(ax, partial(above if upright else left_of, size))
    draw_branches(child, side, layout, upright=upright)
    bare(child)
    top, n = 1.03 * (layout.x[-1] or 1.0), side.tree.n_leaves
    width, height = extent(ax)
    if upright:
        child.set(xlim=(-0.5, n - 0.5), ylim=(0.0, top))
    else:
        room = NUMBER_ROOM * top if any(side.texts) else 0.0
        child.set(xlim=(top, -room), ylim=(n - 0.5, -0.5))
        child.hlines(range(n), -room, 0.0, color=PALE, linewidth=0.5)
        if side.height:
            _show_heights(child, side.height)
    row = LABEL_SHARE * (width if upright else height) / n
    write_support(child, side, layout, NUMBER_SHARE * number_size(row), upright)


def _show_heights(child: Axes, height: str) -> None:
    """A scale of heights below the tree of the rows."""
    from matplotlib.ticker import MaxNLocator

    child.spines["bottom"].set_visible(True)
    child.xaxis.set_major_locator(MaxNLocator(3))
    show_scale(child, height)
    child.tick_params(axis="x", labelsize=LABEL_SIZE - 2, length=2.5, pad=1.5)
    child.xaxis.label.set_fontsize(LABEL_SIZE - 2)
    child.xaxis.labelpad = 1.0
