"""A dendrogram in a circle: the root in the middle, the leaves around it, for many leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.plotting.axes import bare, extent, new_axes
from hctrellis.plotting.classes import Classes, explain_classes
from hctrellis.plotting.labels import SMALLEST, fit_labels, text_width
from hctrellis.plotting.layout import Layout, lay_out, supported
from hctrellis.plotting.style import (
    GREY,
    INK,
    LABEL_SIZE,
    LEGEND_HEIGHT,
    NUMBER_SIZE,
    PALE,
    POINTS,
    TWO_COLUMNS,
    shade,
)
from hctrellis.plotting.subject import Subject
from hctrellis.support.colors import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.support.types import FloatArray

GAP = 0.04  # of the circle is left free, for the eye to find the first leaf, and for heights
RING, RING_VALUE = "#dedede", 5.5  # colour of the rings of heights, points of their values
MOST_RINGS = 4
LABEL_ROOM = 0.3  # of the radius, at most, for labels
DOTS = ((0.95, INK, 3.2), (0.8, "#7f7f7f", 2.8), (0.5, "white", 2.4))  # from a support on
ARC_STEP = math.pi / 180
KEY_WIDTH = 0.3  # of a sign of the legend, in inches
MARK_GAP = 0.02  # of the radius, before and after marks of classes


def draw_circle(
    ax: Axes | None, subject: Subject, classes: Classes, boxes: float | None = None
) -> Axes:
    """Draw a tree in a circle, with dots at supported clusters."""
    n = subject.tree.n_leaves
    if ax is None:
        legend = LEGEND_HEIGHT * -(-len(classes.key) // 6)
        ax = new_axes(TWO_COLUMNS, TWO_COLUMNS + 0.25 + legend)
    bare(ax)
    ax.set_aspect("equal")
    radius = min(extent(ax)) / 2
    size = min(LABEL_SIZE, 0.8 * POINTS * 2 * math.pi * 0.8 * radius * (1 - GAP) / n)
    texts, size = fit_labels(subject.tree.labels, size, LABEL_ROOM * radius)
    widest = 0.0 if size < SMALLEST else max(text_width(text, size) for text in texts)
    strip = 0.035 if classes.key else 0.0
    outer = 1 - (widest / radius + MARK_GAP * (2 if strip else 1) + strip)
    layout = lay_out(subject.tree, subject.hidden)
    turns = 2 * math.pi * (1 - GAP) / n
    angles = [math.pi / 2 - turns * (row + 0.5) for row in layout.y]
    radii = [outer * _share(height, layout.x[-1]) for height in layout.x]
    if subject.height:
        _draw_rings(ax, layout.x[-1], outer)
    if boxes is not None:
        _draw_sectors(ax, subject, layout, (radii, turns, outer), boxes)
    _draw_lines(ax, subject, layout, angles, radii)
    _draw_dots(ax, subject, angles, radii)
    for leaf in range(n):
        _name(ax, texts[leaf], angles[leaf], (outer, strip), size, classes, leaf)
    ax.set_xlim(-1.0, 1.0)
    ax.set_ylim(-1.0, 1.0)
    _explain(ax, subject)
    if classes.key:
        first = ax.get_legend()
        explain_classes(ax, classes.key, NUMBER_SIZE)
        if first is not None:  # which the second legend has put aside
            ax.add_artist(first)
    return ax


def _share(height: float, top: float) -> float:
    """Of the radius, at which a height stands."""
    return 1 - height / (1.03 * (top or 1.0))


def _draw_rings(ax: Axes, top: float, outer: float) -> None:
    """The scale of heights: rings, with their values in the gap of the circle."""
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    values = [v for v in MaxNLocator(MOST_RINGS).tick_values(0.0, top or 1.0) if 0 <= v <= top]
    formatter = ScalarFormatter(useOffset=False)
    formatter.create_dummy_axis()
    formatter.set_scientific(False)
    formatter.set_locs(values)
    for value in values:
        radius = outer * _share(value, top)
        look = {"edgecolor": RING, "linewidth": 0.6, "zorder": 0.5}
        ax.add_patch(Circle((0, 0), radius, fill=False, **look))
        ax.text(
            *_at(math.pi / 2 + math.pi * GAP, radius),
            formatter(value),
            ha="center",
            va="center",
            fontsize=RING_VALUE,
            color=GREY,
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.6},
            zorder=0.6,
        )


def _at(angle: float, radius: float) -> tuple[float, float]:
    return radius * math.cos(angle), radius * math.sin(angle)


def _arc(first: float, last: float, radius: float) -> FloatArray:
    steps = max(2, math.ceil(abs(last - first) / ARC_STEP))
    angles = np.linspace(first, last, steps)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _draw_lines(
    ax: Axes, subject: Subject, layout: Layout, angles: list[float], radii: list[float]
) -> None:
    from matplotlib.collections import LineCollection

    lines: list[Any] = []
    shades = []
    for node, parts in enumerate(layout.parts, start=subject.tree.n_leaves):
        if node in subject.hidden:
            continue
        lines.append(_arc(angles[parts[0]], angles[parts[-1]], radii[node]))
        lines += [[_at(angles[k], radii[node]), _at(angles[k], radii[k])] for k in parts]
        shades += [shade(subject.values[k]) for k in (node, *parts)]
    ax.add_collection(LineCollection(lines, colors=shades, linewidths=0.8, capstyle="round"))


def _draw_dots(ax: Axes, subject: Subject, angles: list[float], radii: list[float]) -> None:
    for node, value in enumerate(subject.values):
        if value is None or node in subject.hidden:
            continue
        look = next((look for look in DOTS if value >= look[0]), None)
        if look is not None:
            ax.plot(*_at(angles[node], radii[node]), **_dot(*look[1:]))


def _dot(color: str, size: float) -> dict[str, Any]:
    return {
        "marker": "o",
        "markersize": size,
        "markerfacecolor": color,
        "markeredgecolor": INK,
        "markeredgewidth": 0.5,
        "linestyle": "",
        "zorder": 3,
    }


def _draw_sectors(
    ax: Axes,
    subject: Subject,
    layout: Layout,
    place: tuple[list[float], float, float],
    least: float,
) -> None:
    from matplotlib.patches import Wedge

    radii, turns, outer = place
    for node in supported(subject, least):
        first, last = (90 - math.degrees(turns * (row + 0.5)) for row in layout.rows[node])
        half = math.degrees(turns) * 0.45
        inner = max(0.0, radii[node] - 0.01)
        edges = (last - half, first + half)
        looks: list[dict[str, Any]] = [
            {"facecolor": BLUE, "alpha": 0.08},
            {"fill": False, "edgecolor": BLUE},
        ]
        for look in looks:
            wedge = Wedge((0, 0), outer, *edges, width=outer - inner, linewidth=0.6, **look)
            ax.add_patch(wedge)


def _name(
    ax: Axes,
    text: str,
    angle: float,
    ring: tuple[float, float],
    size: float,
    classes: Classes,
    leaf: int,
) -> None:
    outer, strip = ring
    turned = math.degrees(angle) % 360
    left = 90 < turned < 270
    start = outer + MARK_GAP
    if classes.key:
        middle = outer + MARK_GAP + strip / 2
        ax.plot(
            *zip(_at(angle, middle - strip / 2), _at(angle, middle + strip / 2), strict=True),
            color=classes.colors[leaf],
            linewidth=max(1.0, 0.9 * size),
            solid_capstyle="butt",
        )
        start += strip + MARK_GAP / 2
    if size < SMALLEST:
        return
    ax.text(
        *_at(angle, start),
        text,
        rotation=turned - 180 if left else turned,
        rotation_mode="anchor",
        ha="right" if left else "left",
        va="center_baseline",
        fontsize=size,
        color=INK if classes.key else classes.colors[leaf],
    )


def _explain(ax: Axes, subject: Subject) -> None:
    """What dots and rings are."""
    from matplotlib.lines import Line2D

    known: dict[str, Any] = {}
    if any(value is not None for value in subject.values):
        known = {f"{least:g} or more": _dot(color, size) for least, color, size in DOTS}
        first = next(iter(known))
        known = {f"probability {first}": known.pop(first), **known}
    if subject.height:
        known[f"rings: {subject.height}"] = {"color": PALE, "linewidth": 1.0}
    if not known:
        ax.set_xlabel(subject.explanation, fontsize=NUMBER_SIZE)
        return
    width = sum(text_width(name, NUMBER_SIZE) + KEY_WIDTH for name in known)
    ax.legend(
        [Line2D([], [], **look) for look in known.values()],
        [*known],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(known) if width <= extent(ax)[0] else 2,
        frameon=False,
        fontsize=NUMBER_SIZE,
        handlelength=1.2,
        handletextpad=0.3,
        columnspacing=0.9,
        labelcolor=INK,
        borderaxespad=0.1,
    )
