"""Sampled trees on top of each other, translucent: what they share is dark.

After R. R. Bouckaert, DensiTree: making sense of sets of phylogenetic trees, Bioinformatics 26,
2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.plotting.axes import legend_above, new_axes
from hctrellis.plotting.classes import Classes, Colors, label_colors
from hctrellis.plotting.dendrogram import figure_size, name_leaves, set_axes
from hctrellis.plotting.layout import leaf_rows
from hctrellis.plotting.style import INK, require_matplotlib
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.sample import TreeSample
from hctrellis.support.colors import BLUE
from hctrellis.support.keywords import renamed
from hctrellis.tree import Tree
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.support.types import FloatArray, Seed

FAINTEST_LINE = 0.015  # opacity: less cannot be seen


@renamed(n="size")
def plot_samples(
    trees: BasePosterior | TreeSample,
    size: int = 1000,
    ax: Axes | None = None,
    *,
    tree: Tree | None = None,
    colors: Colors | None = None,
    rng: Seed = None,
) -> Axes:
    """Draw sampled trees on top of each other, all with the same order of leaves.

    A line joins a cluster to its parent, and is as opaque as it is frequent among the trees. A
    cluster stands at the mean of the rows of its leaves and at the height of its merge if the model
    has such heights (raised where a child is higher), else at its number of leaves. The blue tree
    is the one that gives the order.

    Parameters
    ----------
    trees : Posterior or TreeSample
    size : int
        Number of trees to sample from a posterior; all trees of a given sample are drawn.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.
    tree : Tree, optional
        The tree in whose order the leaves stand (see `plot_dendrogram`): by default the MAP tree,
        or the tree of a given sample with the largest weight.
    colors : mapping or sequence of str, optional
        A colour for each label: by label, or in the order of the leaves.
    rng : None, int or numpy Generator

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], labels="abcd"))
    >>> ax = plot_samples(post, size=100, rng=1)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['a', 'b', 'c', 'd']
    """
    require_matplotlib()
    sample = _as_sample(trees, size, rng)
    potential = sample.potential
    guide, name = _guide(trees, sample) if tree is None else (tree, "the given tree")
    ax = new_axes(*figure_size(guide)) if ax is None else ax
    rows = leaf_rows(guide, potential.labels)
    distinct, counts = sample.counts()
    lines = _lines([*distinct], rows)
    _draw(ax, *_merge(lines, counts / len(sample)))
    own = potential.with_heights(potential.align(guide))
    _draw_guide(ax, _lines([own], rows)[0])
    top = float(lines[..., 0].max(initial=0.0))
    set_axes(ax, guide.n_leaves, top, "" if own.heights is None else potential.height_name)
    legend_above(ax, {f"{len(sample)} sampled trees": {"color": INK}, name: {"color": BLUE}})
    labels = potential.labels
    name_leaves(ax, rows.tolist(), labels, Classes(label_colors(labels, colors), {}))
    return ax


def _as_sample(trees: object, size: int, rng: Seed) -> TreeSample:
    sample = trees.sample(size, rng) if isinstance(trees, BasePosterior) else trees
    if not isinstance(sample, TreeSample):
        raise TypeError(f"expected a Posterior or a TreeSample, got {type(trees).__name__}")
    if len(sample) == 0:
        raise ValueError("there are no trees to draw; sample at least one")
    return sample


def _guide(trees: BasePosterior | TreeSample, sample: TreeSample) -> tuple[Tree, str]:
    """The tree that gives the order, and what it is."""
    if isinstance(trees, BasePosterior):
        return trees.map_tree, trees.map_name
    return sample[int(sample.log_weights.argmax())], "sampled tree of largest weight"


def _lines(trees: Sequence[Tree], rows: FloatArray) -> FloatArray:
    """The lines from each node to its parent, shape (trees, 2n - 2, 2, 2)."""
    n = len(rows)
    lines = np.empty((len(trees), 2 * n - 2, 2, 2))
    parents = np.repeat(np.arange(n, 2 * n - 1), 2)
    for tree, own in zip(trees, lines, strict=True):
        points = _points(tree, rows)
        own[:, 0] = points[tree.children.ravel()]
        own[:, 1] = points[parents]
    return lines


def _points(tree: Tree, rows: FloatArray) -> FloatArray:
    """Where the nodes stand: a cluster at the mean of its rows, no lower than its children."""
    sizes, y = tree.sizes.tolist(), rows.tolist()
    for left, right in tree.children.tolist():
        total = sizes[left] * y[left] + sizes[right] * y[right]
        y.append(total / (sizes[left] + sizes[right]))
    return np.column_stack([np.append(np.zeros(tree.n_leaves), raised(tree)), y])


def _merge(lines: FloatArray, frequencies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The distinct lines, the least frequent first, and how frequent each is."""
    flat = lines.reshape(-1, 4).round(9)
    distinct, inverse = np.unique(flat, axis=0, return_inverse=True)
    sums = np.bincount(inverse.ravel(), np.repeat(frequencies, lines.shape[1]), len(distinct))
    order = np.argsort(sums, kind="stable")
    return distinct[order].reshape(-1, 2, 2), np.asarray(sums[order], float)


def _draw(ax: Axes, lines: FloatArray, frequencies: FloatArray) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    colors = to_rgba_array([INK] * len(lines), np.clip(frequencies, FAINTEST_LINE, 1.0))
    ax.add_collection(LineCollection([*lines], colors=colors, linewidths=1.3, capstyle="butt"))


def _draw_guide(ax: Axes, lines: FloatArray) -> None:
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection([*lines], colors=BLUE, linewidths=0.8, capstyle="butt"))
