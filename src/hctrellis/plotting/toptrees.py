"""The most probable trees side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.plotting.classes import Classes, Colors, label_colors
from hctrellis.plotting.dendrogram import draw_dendrogram
from hctrellis.plotting.labels import label_space
from hctrellis.plotting.style import (
    LABEL_SIZE,
    MARGIN_HEIGHT,
    MOST_HEIGHT,
    ROW_HEIGHT,
    as_posterior,
    condition,
    require_matplotlib,
)
from hctrellis.plotting.subject import as_subject
from hctrellis.support.printable import show_probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.posterior.base import BasePosterior

MOST_WIDTH = 11.0  # of a new figure
NARROWEST, MOST_ACROSS = 2.2, 5  # of a tree with its labels; trees of many leaves side by side
TREE_WIDTH, TITLE_HEIGHT = 2.4, 0.25
MOST_LABEL = 30  # characters
DIGITS = 3


def plot_top_trees(
    post: BasePosterior,
    k: int = 4,
    axes: Sequence[Axes] | None = None,
    *,
    colors: Colors | None = None,
) -> list[Axes]:
    """Draw the k most probable trees, each with its probability and those of its clusters.

    Clusters that the most probable tree does not have are orange. All trees have the same scale of
    heights, and keep the order of the leaves of the first as far as they can.

    Parameters
    ----------
    post : Posterior
    k : int
        How many trees; fewer are drawn if there are fewer.
    axes : sequence of matplotlib Axes, optional
        Where to draw, k of them or more (those beyond the last tree stay as they are): by default
        in a new figure.
    colors : mapping or sequence of str, optional
        A colour for each label: by label, or in the order of ``post.labels``.

    Returns
    -------
    list of matplotlib Axes
        One for each tree, the most probable first.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], labels="abcd"))
    >>> [ax.get_title("left") for ax in plot_top_trees(post, k=2)]
    ['1: probability 0.281', '2: probability 0.201']
    """
    require_matplotlib()
    ranked = as_posterior(post).top_trees(k)
    given = _new_axes(post, len(ranked)) if axes is None else list(np.ravel(np.array(axes, object)))
    if len(given) < len(ranked):
        raise ValueError(
            f"there are {len(ranked)} trees but only {len(given)} axes; give axes for each tree"
        )
    first = ranked[0]
    names = [first.labels[leaf] for leaf in first.leaf_order()]
    trees = [tree.reorder(names) for tree in ranked]
    shown = dict(zip(post.labels, label_colors(post.labels, colors), strict=True))
    height = "" if first.heights is None else post.potential.height_name
    for number, (ax, tree) in enumerate(zip(given, trees, strict=False)):
        subject = replace(as_subject(tree, post.support(tree)), height=height)
        apart = [node for node, mask in enumerate(tree.masks) if mask not in trees[0]]
        colored = Classes([shown[name] for name in tree.labels], {})
        draw_dendrogram(ax, subject, colored, apart)
        words = _show(float(ranked.probabilities[number])) + condition(post)
        ax.set_title(f"{number + 1}: probability {words}", loc="left", fontsize=LABEL_SIZE)
    drawn = given[: len(trees)]
    widest = max(ax.get_xlim()[0] for ax in drawn)
    for ax in drawn:
        ax.set_xlim(widest, 0.0)
    return drawn


def _show(probability: float) -> str:
    if probability < 10.0**-DIGITS:
        return f"{probability:.2g}"
    return show_probability(probability, DIGITS)


def _new_axes(post: BasePosterior, n_trees: int) -> list[Axes]:
    import matplotlib.pyplot as plt

    width = TREE_WIDTH + label_space(post.labels, MOST_LABEL)
    height = TITLE_HEIGHT + min(MOST_HEIGHT, MARGIN_HEIGHT + ROW_HEIGHT * post.n_leaves)
    rows = math.ceil(n_trees / max(1, int(MOST_WIDTH / width)))
    if n_trees <= MOST_ACROSS:  # side by side, rather than on two pages
        rows = min(rows, max(1, int((TITLE_HEIGHT + MOST_HEIGHT) / height)))
    across = math.ceil(n_trees / rows)
    width = min(width, max(NARROWEST, MOST_WIDTH / across))
    _, grid = plt.subplots(
        rows,
        across,
        figsize=(width * across, height * rows),
        layout="constrained",
        squeeze=False,
    )
    for ax in grid.ravel()[n_trees:]:
        ax.remove()
    return list(grid.ravel()[:n_trees])
