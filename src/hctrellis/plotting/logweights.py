"""The distribution of the log weight, with the best tree and the truth in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.plotting.axes import legend_above, new_axes, show_scale
from hctrellis.plotting.style import (
    INK,
    LABEL_SIZE,
    PALE,
    as_posterior,
    condition,
    require_matplotlib,
)
from hctrellis.posterior.sample import TreeSample
from hctrellis.support.colors import BLUE, ORANGE
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import FloatArray, Seed

MOST_BINS = 60
LOOKS: dict[str, dict[str, Any]] = {
    "MAP": {"color": BLUE, "linestyle": "-"},
    "best found": {"color": BLUE, "linestyle": "-"},
    "truth": {"color": ORANGE, "linestyle": "--"},
    "mean": {"color": INK, "linestyle": ":"},
}
SAME = 1e-9  # relative: log weights closer than this are the same


def plot_log_weights(
    post: BasePosterior,
    sample: int | TreeSample = 2000,
    truth: Tree | float | None = None,
    ax: Axes | None = None,
    *,
    rng: Seed = None,
) -> Axes:
    """Draw a histogram of the log weights of sampled trees.

    Lines mark the log weight of the MAP tree, or of the best tree found where not all are
    considered (blue), that of the truth (orange, dashed), and the mean over the posterior (black,
    dotted).

    Parameters
    ----------
    post : Posterior
    sample : int or TreeSample
        How many trees to sample; or a sample of this posterior.
    truth : Tree or float, optional
        The true tree, or its log weight.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.
    rng : None, int or numpy Generator

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]]))
    >>> ax = plot_log_weights(post, truth=post.map_tree, rng=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['MAP −9.167', 'truth −9.167', 'mean −9.934']
    """
    require_matplotlib()
    as_posterior(post)
    drawn = sample if isinstance(sample, TreeSample) else post.sample(sample, rng)
    if len(drawn) == 0:
        raise ValueError("there are no trees to draw; sample at least one")
    best = "MAP" if post.is_exact else "best found"
    marks = {best: post.map_log_weight}
    if truth is not None:
        marks["truth"] = _log_weight(post, truth)
    marks["mean"] = post.expected_log_weight
    ax = new_axes(5.2, 3.2) if ax is None else ax
    ax.hist(drawn.log_weights, bins=_bins(drawn.log_weights), color=PALE)
    for name, value in marks.items():
        ax.axvline(value, linewidth=1.5, **LOOKS[name])
    legend_above(ax, {f"{name} {_show(value)}": LOOKS[name] for name, value in marks.items()})
    _set_axes(ax, f"number of {len(drawn)} sampled trees", f"log weight{condition(post)}")
    return ax


def _log_weight(post: BasePosterior, truth: Tree | float) -> float:
    weight = post.potential.log_weight(truth) if isinstance(truth, Tree) else float(truth)
    if not math.isfinite(weight):
        raise ValueError(
            f"the log weight of the truth is {weight}, which has no place on the axis; the "
            "potential forbids the true tree"
        )
    return weight


def _show(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _bins(values: FloatArray) -> list[float]:
    """Edges of bins; of one bin if all values are the same."""
    low, high = float(values.min()), float(values.max())
    if high - low <= SAME * max(1.0, abs(low)):
        return [low - 0.5, low + 0.5]
    edges = np.histogram_bin_edges(values, "auto")
    if len(edges) > MOST_BINS:
        edges = np.linspace(low, high, MOST_BINS + 1)
    return [*edges.tolist()]


def _set_axes(ax: Axes, height: str, scale: str) -> None:
    ax.spines[["right", "top"]].set_visible(False)
    ax.spines["left"].set_color(PALE)
    ax.tick_params(axis="y", color=PALE, labelsize=LABEL_SIZE - 1.5)
    ax.set_ylabel(height, fontsize=LABEL_SIZE - 0.5)
    show_scale(ax, scale)
