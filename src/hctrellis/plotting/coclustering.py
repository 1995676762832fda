"""How probable it is that two leaves are close, for every two, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.plotting.axes import new_axes
from hctrellis.plotting.classes import Colors, label_colors
from hctrellis.plotting.heatmap import (
    SCALE_SPACE,
    Names,
    attach_scale,
    draw_heatmap,
    row_height,
)
from hctrellis.plotting.labels import label_space
from hctrellis.plotting.layout import leaf_rows
from hctrellis.plotting.style import as_posterior, condition, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.posterior.base import BasePosterior
    from hctrellis.tree import Tree

SMALLEST_MAP = 2.8  # in a new figure


def plot_coclustering(
    post: BasePosterior,
    size: int | None = None,
    ax: Axes | None = None,
    *,
    tree: Tree | None = None,
    colors: Colors | None = None,
) -> Axes:
    """Draw, for every two leaves, the probability that a cluster of at most `size` has both.

    Parameters
    ----------
    post : Posterior
    size : int, optional
        Number of leaves of the largest cluster that counts (see `Posterior.coclustering`): by
        default half of the leaves.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure. The colour scale is attached to them.
    tree : Tree, optional
        The tree in whose order the leaves stand (see `plot_dendrogram`): by default the MAP tree.
    colors : mapping or sequence of str, optional
        A colour for each label: by label, or in the order of ``post.labels``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], labels="abcd"))
    >>> ax = plot_coclustering(post, size=2)
    >>> round(float(ax.images[0].get_array()[0, 1]), 4)  # a and b
    0.5554
    """
    require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    n = as_posterior(post).n_leaves
    size = min(n, max(2, (n + 1) // 2)) if size is None else size
    matrix = post.coclustering(size).probability
    order = np.argsort(leaf_rows(tree or post.map_tree, post.labels))
    names = Names(
        [post.labels[leaf] for leaf in order],
        [label_colors(post.labels, colors)[leaf] for leaf in order],
    )
    ax = _new_axes(post.labels) if ax is None else ax
    look = (colormaps["Blues"], Normalize(0.0, 1.0))
    cells = matrix[np.ix_(order, order)]
    image = draw_heatmap(ax, cells, names, names, look, room=(0.0, SCALE_SPACE), square=True)
    attach_scale(ax, image, f"P(common cluster of at most {size}){condition(post)}")
    return ax


def _new_axes(labels: tuple[str, ...]) -> Axes:
    side = max(SMALLEST_MAP, row_height(len(labels)) * len(labels)) + 0.3 + label_space(labels)
    return new_axes(side, side + SCALE_SPACE)
