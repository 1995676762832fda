"""The dendrogram: one tree, drawn from the root at the left to the labels at the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from hctrellis.plotting.axes import extent, make_room, new_axes, show_scale
from hctrellis.plotting.circle import draw_circle
from hctrellis.plotting.classes import Classes, Colors, as_classes, explain_classes
from hctrellis.plotting.labels import (
    LABEL_SHARE,
    LEADER,
    LONGEST,
    SMALLEST,
    label_size,
    label_space,
    name_rows,
    text_width,
)
from hctrellis.plotting.layout import Layout, lay_out, supported
from hctrellis.plotting.style import (
    COLUMN,
    GREY,
    INK,
    LEGEND_HEIGHT,
    MARGIN_HEIGHT,
    MOST_HEIGHT,
    NUMBER_SIZE,
    POINTS,
    ROW_HEIGHT,
    TWO_COLUMNS,
    require_matplotlib,
    shade,
)
from hctrellis.plotting.subject import Subject, as_subject
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.colors import BLUE, ORANGE
from hctrellis.support.printable import printable
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.trees.newick import Support
    from hctrellis.trust.bootstrap import BootstrapSupport

NARROWEST_TREE = 1.7  # of a figure as wide as one column of a journal
FEW_LEAVES = 40  # up to which a figure may be that narrow
NUMBER_WIDTH = 0.45  # of one more number at each node
STEPS = 4  # of the search for the length of the lines to the labels
STRIP = 0.85  # of the height of a row: the width of its mark of a class, at most LABEL_SIZE points

Shape = Literal["rectangular", "circular"]


def plot_dendrogram(
    tree: Tree | BasePosterior | ConsensusTree,
    support: Support | None = None,
    colors: Colors | None = None,
    ax: Axes | None = None,
    *,
    bootstrap: BootstrapSupport | None = None,
    boxes: float | None = None,
    shape: Shape = "rectangular",
) -> Axes:
    """Draw a tree with the root at the left and the labels of the leaves at the right.

    A number stands to the right of the line that joins the two children of its cluster, between
    the leaves of one and the leaves of the other, where no line can pass: the probability of the
    cluster, with its standard error if it was sampled. The less probable a cluster, the fainter the
    branch that leads to it.

    Parameters
    ----------
    tree : Posterior, Tree or ConsensusTree
        Of a posterior the MAP tree is drawn, with the probabilities of its clusters and the heights
        of its merges. If a tree has heights, nodes stand at these (raised where a child is higher)
        and there is an axis; if not, at the number of leaves below them. Leaves are in
        ``tree.leaf_order()``; ``tree.reorder(labels)`` turns branches, so that they stand in the
        order of the labels where the tree allows it.
    support : mapping or callable, optional
        Other numbers than these probabilities, for each internal node but the root: a mapping from
        clusters (frozenset of labels, or mask), or a function of the mask. Nodes without one, or
        with None, get no number.
    colors : mapping or sequence, optional
        A colour or a class for each label: by label, or in the order of ``tree.labels``; a column
        of a DataFrame, say. Colours (red, #d55e00) are those of the labels. Classes are marked in
        front of the labels, with a legend; where the class is missing the mark is grey.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure as wide as one or two columns of a journal. Labels
        stay in the rectangle of given axes: the tree makes room for them, and long ones are cut.
        Text of less than 3 points is left out.
    bootstrap : BootstrapSupport, optional
        AU and BP values, written behind the probabilities.
    boxes : float, optional
        Draw boxes round the largest clusters whose support is at least this.
    shape : {"rectangular", "circular"}
        In a circle there is room for more leaves; support is then shown by dots.

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
    if boxes is not None and not 0 <= boxes <= 1:
        raise ValueError(f"boxes must be a probability, from 0 to 1; got {boxes!r:.80}")
    subject = as_subject(tree, support, bootstrap)
    classes = as_classes(subject.tree.labels, colors)
    if shape == "circular":
        return draw_circle(ax, subject, classes, boxes)
    if shape != "rectangular":
        raise ValueError(f'shape must be "rectangular" or "circular"; got {shape!r:.80}')
    if ax is None:
        ax = new_axes(*figure_size(subject.tree, len(classes.key), 3 if bootstrap else 1))
    return draw_dendrogram(ax, subject, classes, boxes=boxes)


def draw_dendrogram(
    ax: Axes,
    subject: Subject,
    classes: Classes,
    apart: Collection[int] = (),
    boxes: float | None = None,
) -> Axes:
    """Draw a tree with the support of every node; those in `apart` are orange."""
    tree = subject.tree
    layout = lay_out(tree, subject.hidden)
    draw_branches(ax, subject, layout, apart)
    set_axes(ax, tree.n_leaves, layout.x[-1], subject.height)
    size = number_size(extent(ax)[1] / tree.n_leaves)
    leader = _leader(ax, subject, layout, size)
    name_leaves(ax, layout.y[: tree.n_leaves], tree.labels, classes, leader)
    write_support(ax, subject, layout, size)
    if boxes is not None:
        _draw_boxes(ax, subject, layout, boxes)
    _explain(ax, subject)
    return ax


def _leader(ax: Axes, subject: Subject, layout: Layout, size: float) -> float:
    """How long the lines to the labels are, in points, so that numbers fit before the labels.

    A number begins at its node: the further left that is, the more of it is beside the tree.
    """
    width, height = extent(ax)
    row = label_size(height / subject.tree.n_leaves)
    named = max(text_width(printable(label)[:LONGEST], row) for label in subject.tree.labels)
    room = width - min(named + 2 * row / POINTS, LABEL_SHARE * width)
    top = 1.03 * (layout.x[-1] or 1.0)
    ends = [
        (text_width(text, size) + 4.0 / POINTS, x / top)
        for text, x in zip(subject.texts, layout.x, strict=True)
        if text
    ]
    leader = LEADER / POINTS
    for _ in range(STEPS):
        across = max(0.0, room - leader)
        leader = max([LEADER / POINTS, *(wide - at * across for wide, at in ends)])
    return min(leader, room / 2) * POINTS


def figure_size(tree: Tree, n_classes: int = 0, numbers: int = 1) -> tuple[float, float]:
    """Width and height, in inches, of a dendrogram in a journal: one column or two, one page.

    With `numbers` numbers at each node.
    """
    n = tree.n_leaves
    needed = NARROWEST_TREE + label_space(tree.labels) + NUMBER_WIDTH * (numbers - 1)
    width = COLUMN if n <= FEW_LEAVES and needed <= COLUMN else TWO_COLUMNS
    legend = LEGEND_HEIGHT * -(-n_classes // (3 if width == COLUMN else 6))
    return width, min(MOST_HEIGHT, MARGIN_HEIGHT + ROW_HEIGHT * n) + legend


def draw_branches(
    ax: Axes,
    subject: Subject,
    layout: Layout,
    apart: Collection[int] = (),
    upright: bool = False,
) -> None:
    """Draw the lines of a tree; if `upright`, with the root at the top."""
    from matplotlib.collections import LineCollection

    x, y, n = layout.x, layout.y, subject.tree.n_leaves
    lines, owners = [], []
    for node, parts in enumerate(layout.parts, start=n):
        if node in subject.hidden:
            continue
        lines.append([(x[node], y[parts[0]]), (x[node], y[parts[-1]])])
        lines += [[(x[node], y[child]), (x[child], y[child])] for child in parts]
        owners += [node, *parts]
    if upright:
        lines = [[(b, a) for a, b in line] for line in lines]
    shades = [ORANGE if node in apart else shade(subject.values[node]) for node in owners]
    order = sorted(range(len(owners)), key=lambda k: owners[k] in apart)  # to be on top
    ax.add_collection(
        LineCollection(
            [lines[k] for k in order],
            colors=[shades[k] for k in order],
            linewidths=1.0,
            capstyle="projecting",
        )
    )


def set_axes(ax: Axes, n_leaves: int, top: float, height: str) -> None:
    """Set the limits, and show a scale of heights or none."""
    ax.set_xlim(1.03 * (top or 1.0), 0.0)
    ax.set_ylim(n_leaves - 0.5, -0.5)
    ax.spines[["left", "right", "top"]].set_visible(False)
    if height:
        show_scale(ax, height)
    else:
        ax.spines["bottom"].set_visible(False)
        ax.set_xticks([])


def name_leaves(
    ax: Axes,
    rows: Sequence[float],
    labels: Sequence[str],
    classes: Classes,
    leader: float = LEADER,
) -> None:
    """Write the labels of the leaves behind marks of their classes, and make room for both."""
    width, height = extent(ax)
    size = label_size(height / len(rows))
    strip = STRIP * size if classes.key else 0.0
    colors = [INK] * len(rows) if classes.key else classes.colors
    beside = strip + 2.0 if strip else 0.0
    taken = name_rows(
        ax,
        rows,
        labels,
        colors,
        size=size,
        room=LABEL_SHARE * width,
        leader=leader,
        strip=beside,
    )
    if classes.key:
        taken = max(taken, (leader + beside + 4.0) / POINTS)
        _mark(ax, rows, classes.colors, leader, max(strip, 2.0))
        explain_classes(ax, classes.key, NUMBER_SIZE)
    make_room(ax, right=taken)


def _mark(
    ax: Axes, rows: Sequence[float], colors: Sequence[str], leader: float, size: float
) -> None:
    """Squares in the colours of classes, at the ends of the lines that lead to labels."""
    from matplotlib.transforms import blended_transform_factory, offset_copy

    figure = ax.figure.canvas.figure
    place = blended_transform_factory(ax.transAxes, ax.transData)
    ax.scatter(
        [1.0] * len(rows),
        rows,
        s=size**2,
        c=list(colors),
        marker="s",
        linewidths=0,
        clip_on=False,
        zorder=3,
        transform=offset_copy(place, figure, x=leader + size / 2, y=0.0, units="points"),
    )


def number_size(row: float) -> float:
    """The size, in points, of the numbers at nodes, given the height of a row."""
    return min(NUMBER_SIZE, 0.7 * POINTS * row)


def write_support(
    ax: Axes, subject: Subject, layout: Layout, size: float, upright: bool = False
) -> None:
    """Write the numbers at the nodes, if they are large enough to be read."""
    if size < SMALLEST:
        return
    for k, gap in enumerate(layout.gap):
        node = subject.tree.n_leaves + k
        if subject.texts[node] and node not in subject.hidden:
            at = (layout.x[node], gap)
            ax.annotate(
                subject.texts[node],
                at[::-1] if upright else at,
                xytext=(0, -2.5) if upright else (2.5, 0),
                textcoords="offset points",
                ha="center" if upright else "left",
                va="top" if upright else "center_baseline",
                rotation=90 if upright else 0,
                fontsize=size,
                color=GREY,
                annotation_clip=False,
            )


def _draw_boxes(ax: Axes, subject: Subject, layout: Layout, least: float) -> None:
    from matplotlib.patches import Rectangle

    top = layout.x[-1] or 1.0
    for node in supported(subject, least):
        first, last = layout.rows[node]
        left = min(layout.x[node] + 0.015 * top, 1.02 * top)
        ax.add_patch(
            Rectangle(
                (left, first - 0.45),
                -left,
                last - first + 0.9,
                facecolor=BLUE,
                alpha=0.08,
                linewidth=0,
            )
        )
        ax.add_patch(
            Rectangle(
                (left, first - 0.45),
                -left,
                last - first + 0.9,
                fill=False,
                edgecolor=BLUE,
                linewidth=0.7,
            )
        )


def _explain(ax: Axes, subject: Subject) -> None:
    """Say what the numbers are, if these are not probabilities alone."""
    if not subject.explanation:
        return
    title = f"{subject.height}; at joins: {subject.explanation}".removeprefix("; ")
    ax.set_xlabel(title, fontsize=NUMBER_SIZE, loc="left")
