"""The trellis as a Hasse diagram: clusters by size, joined by the splits between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hctrellis.plotting.axes import (
    extent,
    inner_extent,
    legend_above,
    make_room,
    new_axes,
    show_scale,
)
from hctrellis.plotting.hasse import (
    Place,
    Split,
    by_label,
    by_row,
    choose_clusters,
    list_splits,
    place_clusters,
)
from hctrellis.plotting.labels import (
    label_size,
    label_space,
    literal,
    name_rows,
    shorten,
    text_width,
)
from hctrellis.plotting.layout import leaf_rows
from hctrellis.plotting.style import (
    INK,
    MOST_HEIGHT,
    NUMBER_SIZE,
    PALE,
    POINTS,
    ROW_HEIGHT,
    TWO_COLUMNS,
    as_posterior,
    condition,
    require_matplotlib,
    shade,
)
from hctrellis.support.colors import BLUE
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree

WIDEST_LINE, HAIRLINE = 6.0, 0.25  # points, of a split of probability 1, and 0
COLUMN_WIDTH, MARGIN_HEIGHT = 1.15, 0.9  # of a new figure, which is as wide as a page at most
NARROWEST_DIAGRAM, FEWEST_ROWS = 4.4, 5
MOST_LABEL = 40  # characters of a label that a new figure has room for
TEXT_SHARE = 0.8  # of a column that a text may take
SHORT_LEADER = 5.0  # points
TICK_WIDTH = 0.35  # that the number of a column takes
SHORT_NAME, TINY = (
    "{10…16}",
    4.0,
)  # the name that a box must hold, at this size in points; else it is a dot
LINE = "#8c8c8c"
OPAQUE = 0.6  # the box of a cluster of probability 0: lines behind it are seen
HAIR = 0.02  # probability below which a split is a hairline

Name = Callable[[int, float, float], str]
"""The name of a cluster, given the size of text and the room for it."""


def plot_trellis(
    post: BasePosterior,
    ax: Axes | None = None,
    max_clusters: int | None = None,
    *,
    min_probability: float | None = None,
) -> Axes:
    """Draw clusters by size, from all leaves at the left to single leaves at the right.

    Each split is two lines, from a cluster to its two parts; they are as wide as the split is
    probable. The splits of the MAP tree are blue. The less probable a cluster, the fainter its
    name; where labels are long, leaves are numbered from the top, and clusters named by these
    numbers, as in {1–4,7} or, where there is no room, {1…7}.

    Parameters
    ----------
    post : Posterior
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.
    max_clusters : int, optional
        How many of the most probable clusters to draw, besides single leaves and all leaves: by
        default all for up to 6 leaves, and twice as many as there are leaves for more. Those of
        the MAP tree are always drawn.
    min_probability : float, optional
        The least probability of the clusters to draw: by default, all are drawn for up to 6 leaves,
        and those of probability 0.05 or more for more leaves.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0]], labels="abc"))
    >>> [text.get_text() for text in plot_trellis(post).texts]
    ['{a,b,c}', '{a,b}', '{a,c}', '{b,c}']
    """
    require_matplotlib()
    clusters = choose_clusters(as_posterior(post), max_clusters, min_probability)
    rows = leaf_rows(post.map_tree, post.labels)
    places = place_clusters(clusters, rows)
    labels = [printable(label) for label in post.labels]
    ax = _new_axes(labels, places) if ax is None else ax
    numbered = _name_leaves(ax, labels, places, rows)
    _set_axes(ax, places, post.n_leaves)
    _draw_splits(ax, list_splits(post, clusters), places, post.map_tree)

    def name(mask: int, size: float, room: float) -> str:
        if not numbered:
            return shorten(by_label(mask, labels), size, room)
        text = by_row(mask, rows)
        return text if text_width(text, size) <= room else by_row(mask, rows, brief=True)

    _name_clusters(ax, clusters, places, name)
    _explain(ax, condition(post), post.map_name)
    return ax


def _name_leaves(
    ax: Axes, labels: Sequence[str], places: Mapping[int, Place], rows: FloatArray
) -> bool:
    """Write the labels of the leaves; with numbers if clusters are too long to be named by labels.

    Returns whether leaves have numbers.
    """
    width, height = extent(ax)
    room = TEXT_SHARE * width / (_n_columns(places) + 1)
    parts = [by_label(mask, labels) for mask in places if 1 < mask.bit_count() < len(labels)]
    numbered = any(text_width(part, NUMBER_SIZE) > room for part in parts)
    if numbered:
        labels = [f"{row + 1:.0f}  {label}" for row, label in zip(rows, labels, strict=True)]
    taken = name_rows(
        ax,
        rows.tolist(),
        labels,
        [INK] * len(labels),
        size=label_size(height / len(labels)),
        room=width / 3,
        leader=SHORT_LEADER,
    )
    make_room(ax, right=taken)
    return numbered


def _n_columns(places: Mapping[int, Place]) -> int:
    return 1 + int(max(x for x, _ in places.values()))


def _fullest(places: Mapping[int, Place]) -> int:
    """The number of clusters in the column that has the most."""
    return max(Counter(x for x, _ in places.values()).values())


def _new_axes(labels: Sequence[str], places: Mapping[int, Place]) -> Axes:
    columns = max(NARROWEST_DIAGRAM, COLUMN_WIDTH * _n_columns(places))
    rows = max(FEWEST_ROWS, _fullest(places))
    height = min(MOST_HEIGHT, MARGIN_HEIGHT + ROW_HEIGHT * rows)
    return new_axes(min(TWO_COLUMNS, columns + label_space(labels, MOST_LABEL)), height)


def _set_axes(ax: Axes, places: Mapping[int, Place], n_leaves: int) -> None:
    size_of = {x: mask.bit_count() for mask, (x, _) in places.items()}
    ax.set_xlim(-0.5, _n_columns(places) - 1)
    ax.set_ylim(n_leaves - 0.5, -0.5)
    ax.spines[["left", "right", "top"]].set_visible(False)
    show_scale(ax, "leaves in the cluster")
    step = math.ceil(TICK_WIDTH * len(size_of) / inner_extent(ax)[0])
    ticks = [0.0, *(x for x in [*size_of][::-step][::-1] if x >= step)]  # both ends have one
    ax.set_xticks(ticks, [str(size_of[x]) for x in ticks])


def _draw_splits(
    ax: Axes, splits: Sequence[Split], places: Mapping[int, Place], best: Tree
) -> None:
    from matplotlib.collections import LineCollection

    bests = {frozenset(split[1:]) for split in best.splits()}
    lines, widths, colors = [], [], []
    for parent, left, right, probability in splits:
        color = LINE if probability >= HAIR else PALE
        color = BLUE if {left, right} in bests else color
        lines += [[places[parent], places[part]] for part in (left, right)]
        widths += [max(HAIRLINE, WIDEST_LINE * probability)] * 2
        colors += [color] * 2
    ax.add_collection(LineCollection(lines, linewidths=widths, colors=colors, capstyle="butt"))


def _name_clusters(
    ax: Axes, clusters: Mapping[int, float], places: Mapping[int, Place], name: Name
) -> None:
    """Write the names of clusters in boxes; where there is no room, draw dots."""
    from matplotlib.colors import to_rgb

    inner = [mask for mask in clusters if mask.bit_count() > 1]
    width, height = inner_extent(ax)
    room = TEXT_SHARE * width / (_n_columns(places) - 0.5)
    size = min(NUMBER_SIZE, 0.6 * POINTS * height / _fullest(places))
    size = min(size, size * room / text_width(SHORT_NAME, size))
    if size < TINY:
        for mask in inner:
            ax.plot(*places[mask], "o", markersize=2.5, color=shade(clusters[mask]))
        return
    for mask in inner:
        color = shade(clusters[mask])
        opacity = OPAQUE + (1 - OPAQUE) * clusters[mask]
        ax.text(
            *places[mask],
            literal(name(mask, size, room)),
            ha="center",
            va="center",
            fontsize=size,
            color=color,
            bbox={
                "boxstyle": "round,pad=0.2",
                "facecolor": (*to_rgb(ax.get_facecolor()), opacity),
                "edgecolor": color,
                "linewidth": 0.6,
            },
        )


def _explain(ax: Axes, condition: str, best: str) -> None:
    looks = {
        name: {"color": LINE, "linewidth": WIDEST_LINE * probability}
        for name, probability in (
            (f"split of probability 1{condition}", 1.0),
            ("0.5", 0.5),
            ("0.1", 0.1),
        )
    }
    legend_above(ax, {**looks, best: {"color": BLUE}})
