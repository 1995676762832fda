"""Pictures for a page, as SVG text."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from hctrellis.plotting import figure_size, plot_dendrogram, require_matplotlib
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.treeformats import Support


def dendrogram_svg(
    tree: Tree,
    support: Support | None = None,
    colors: Mapping[str, str] | None = None,
    strong: Collection[str] = (),
) -> str:
    """A dendrogram as an ``<svg>`` element; labels stay text, those in `strong` are bold.

    Examples
    --------
    >>> dendrogram_svg(Tree.from_newick("(a,b);"))[:4]
    '<svg'
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=figure_size(tree), layout="constrained")
    ax = plot_dendrogram(tree, support, colors, figure.subplots())
    for text, label in zip(ax.get_yticklabels(), tree.labels, strict=True):
        if label in strong:
            text.set_fontweight("bold")
    written = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hctrellis"}):
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    svg = written.getvalue()
    return svg[svg.index("<svg") :]
