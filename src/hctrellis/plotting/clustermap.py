"""The clustermap: a table as a heat map, with trees at its sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hctrellis.plotting.axes import bare, extent, new_axes
from hctrellis.plotting.dendrogram import draw_branches, lay_out, support_values
from hctrellis.plotting.heatmap import (
    GAP,
    SCALE_SPACE,
    Names,
    above,
    attach,
    attach_scale,
    draw_heatmap,
    left_of,
    row_height,
)
from hctrellis.plotting.labels import Colors, label_colors, label_space
from hctrellis.plotting.style import INK, PALE, require_matplotlib
from hctrellis.posterior.posterior import Posterior
from hctrellis.support.checks import as_floats
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

    from hctrellis.support.types import FloatArray

TREE_SIZE = 1.3  # of a tree at a side, if that is no more than a quarter of the axes
CELL_WIDTH, NARROWEST_MAP, WIDEST_MAP = 0.3, 2.0, 8.0  # of a new figure
BOTH_SIDES = 0.25  # of the largest number: beyond this on the other side of 0, 0 is white
MOST_LABEL = 24  # characters of the name of a column that a new figure has room for


def plot_clustermap(
    table: npt.ArrayLike,
    tree: Tree | Posterior,
    ax: Axes | None = None,
    *,
    column_tree: Tree | Posterior | None = None,
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
    tree : Tree or Posterior
        The tree of the rows; for a posterior, the MAP tree with the probabilities of its clusters
        as shades of grey and, if the model has them, the heights of its merges.
    ax : matplotlib Axes, optional
        Where to draw the heat map: by default in a new figure. Trees and the colour scale are
        attached to these axes (``ax.child_axes``) and move with them.
    column_tree : Tree or Posterior, optional
        The tree of the columns, drawn above; without it, columns keep their own order.
    columns : sequence of str, optional
        Names of the columns: by default those of a DataFrame, else the labels of `column_tree`.
    colors : mapping or sequence of str, optional
        A colour for each label of a row: by label, or in the order of the leaves.
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
    rows = _side(tree, "tree")
    upper = None if column_tree is None else _side(column_tree, "column_tree")
    values, names = _arrange(table, columns, rows.tree, None if upper is None else upper.tree)
    shown = _names(rows.tree, label_colors(rows.tree.labels, colors))
    ax = _new_axes(shown.labels, names, values.shape[1], upper is not None) if ax is None else ax
    width, height = extent(ax)
    left = min(TREE_SIZE, width / 4)
    top = 0.0 if upper is None else min(TREE_SIZE, height / 4)
    look = _look(values, cmap)
    space = (left + GAP, top + GAP + SCALE_SPACE)
    image = draw_heatmap(ax, values, shown, Names(names, [INK] * len(names)), look, room=space)
    _attach_tree(ax, rows, left)
    if upper is not None:
        _attach_tree(ax, upper, top, upright=True)
    attach_scale(ax, image, title, top + GAP)
    return ax


class _Side(NamedTuple):
    """A tree at a side of the map, and the support of its nodes."""

    tree: Tree
    values: Sequence[float | None]


def _side(given: object, what: str) -> _Side:
    if isinstance(given, Posterior):
        return _Side(given.map_tree, support_values(given.map_tree, given.cluster_probability))
    if not isinstance(given, Tree):
        raise TypeError(f"{what} must be a Tree or a Posterior; got {type(given).__name__}")
    return _Side(given, support_values(given, None))


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


def _new_axes(rows: Sequence[str], columns: Sequence[str], n_columns: int, upper: bool) -> Axes:
    cells = min(WIDEST_MAP, max(NARROWEST_MAP, CELL_WIDTH * n_columns))
    height = max(NARROWEST_MAP, row_height(len(rows)) * len(rows)) + SCALE_SPACE
    named = label_space(columns, MOST_LABEL) if columns else 0.0
    return new_axes(
        TREE_SIZE + cells + label_space(rows) + 0.3, height + named + TREE_SIZE * upper + 0.2
    )


def _attach_tree(ax: Axes, side: _Side, size: float, upright: bool = False) -> None:
    layout = lay_out(side.tree)
    child = attach(ax, partial(above if upright else left_of, size))
    draw_branches(child, side.tree, layout, side.values, upright=upright)
    bare(child)
    top, n = 1.03 * (layout.x[-1] or 1.0), side.tree.n_leaves
    if upright:
        child.set(xlim=(-0.5, n - 0.5), ylim=(0.0, top))
    else:
        child.set(xlim=(top, 0.0), ylim=(n - 0.5, -0.5))
