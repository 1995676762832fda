"""Figures as files: vector formats with text that can be edited, and fine pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.plotting.classes import Colors, as_classes
from hctrellis.plotting.dendrogram import Shape, figure_size
from hctrellis.plotting.style import TWO_COLUMNS, require_matplotlib
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PIXELS_PER_INCH = 300
ROUND_LEAVES = 80  # from which a figure is better round
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "0",
}


def fitting_shape(tree: Tree) -> Shape:
    """The shape in which the labels of a tree can be read on one page."""
    return "rectangular" if tree.n_leaves <= ROUND_LEAVES else "circular"


def figure_axes(
    tree: Tree, colors: Colors | None = None, shape: Shape | None = None, numbers: int = 1
) -> Axes:
    """Axes in a figure of a fitting size that no window shows; see `figure_size`."""
    require_matplotlib()
    from matplotlib.figure import Figure

    n_classes = len(as_classes(tree.labels, colors).key)
    size = figure_size(tree, n_classes, numbers)
    if (shape or fitting_shape(tree)) == "circular":
        size = (TWO_COLUMNS, TWO_COLUMNS + 0.25)
    axes: Axes = Figure(figsize=size, layout="constrained").subplots()
    return axes


def save_figure(ax: Axes, path: Path, ending: str) -> None:
    """Write the figure of axes as pdf, svg, png or eps; the same figure gives the same file."""
    import matplotlib as mpl

    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending)
    with mpl.rc_context(SETTINGS):
        figure = ax.figure.canvas.figure
        figure.savefig(path, format=ending, dpi=PIXELS_PER_INCH, metadata=metadata)
