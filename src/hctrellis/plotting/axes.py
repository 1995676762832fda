"""Axes: new ones, the room in given ones, their scale and legend. Lengths are in inches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hctrellis.plotting.labels import text_width
from hctrellis.plotting.style import LABEL_SIZE, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec
    from matplotlib.transforms import Bbox

LEGEND_HANDLE = 0.43  # width of a line in a legend, with the space around it
LAID_OUT = 0.94  # the part of their share of a figure that a layout engine leaves to axes


def new_axes(width: float, height: float) -> Axes:
    """Axes in a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def extent(ax: Axes) -> tuple[float, float]:
    """The width and height that there are for axes and for what is written beside them."""
    figure: Any = ax.figure  # or a subfigure, which serves as well
    width, height = figure_extent(ax)
    spec = ax.get_subplotspec()
    if spec is None or not _is_laid_out(ax):
        box = ax.get_position(original=True)
        return box.width * width, box.height * height
    box, margins = spec.get_position(figure), figure.subplotpars  # the engine drops the margins
    across, along = margins.right - margins.left, margins.top - margins.bottom
    return LAID_OUT * width * box.width / across, LAID_OUT * height * box.height / along


def figure_extent(ax: Axes) -> tuple[float, float]:
    """Width and height of the figure of axes."""
    figure = ax.figure
    return figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi


def _is_laid_out(ax: Axes) -> bool:
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    engine = ax.figure.get_layout_engine()
    return engine is not None and not isinstance(engine, PlaceHolderLayoutEngine)


class Sides(NamedTuple):
    """Widths of margins."""

    left: float = 0.0
    bottom: float = 0.0
    right: float = 0.0
    top: float = 0.0


class Margins:
    """Locates axes within their rectangle, with margins for what is written beside them.

    A layout engine, or a window that is resized, may change the rectangle.
    """

    def __init__(self, ax: Axes, sides: Sides) -> None:
        located: Any = ax.get_axes_locator()
        self.ax = ax
        self.before: Any = located.before if isinstance(located, Margins) else located
        self.sides = sides

    def __call__(self, ax: object, renderer: object) -> Bbox:
        from matplotlib.transforms import Bbox

        outer = self.ax.get_position(original=True)
        if self.before is not None:
            outer = self.before(ax, renderer)
        width, height = figure_extent(self.ax)
        left, bottom, right, top = self.sides
        x0, x1 = _within(outer.x0, outer.x1, left / width, right / width)
        y0, y1 = _within(outer.y0, outer.y1, bottom / height, top / height)
        return Bbox.from_extents(x0, y0, x1, y1)

    def get_subplotspec(self) -> SubplotSpec | None:
        """The place in a grid of subplots, which ``tight_layout`` asks for."""
        return self.ax.get_subplotspec()


def _within(low: float, high: float, before: float, after: float) -> tuple[float, float]:
    """An interval without its margins, which take at most nine tenths of it."""
    share = min(1.0, 0.9 * (high - low) / max(before + after, 1e-9))
    return low + share * before, high - share * after


def inner_extent(ax: Axes) -> tuple[float, float]:
    """Width and height that are left to the data."""
    width, height = extent(ax)
    located = ax.get_axes_locator()
    if isinstance(located, Margins):
        left, bottom, right, top = located.sides
        width, height = width - left - right, height - bottom - top
    return width, height


def make_room(ax: Axes, **sides: float) -> None:
    """Shrink axes, so that what is written beside them stays in the rectangle they have."""
    ax.set_axes_locator(Margins(ax, Sides(**sides)))


def bare(ax: Axes) -> None:
    """Remove the frame and the ticks of axes."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])


def show_scale(ax: Axes, title: str) -> None:
    """A light axis of numbers at the bottom."""
    ax.spines["bottom"].set_color(PALE)
    ax.tick_params(axis="x", color=PALE, labelsize=LABEL_SIZE - 1)
    ax.set_xlabel(title, fontsize=LABEL_SIZE - 0.5)


def legend_above(ax: Axes, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """A legend above the axes: names, and how their lines look; in two rows if it is long."""
    from matplotlib.lines import Line2D

    size = LABEL_SIZE - 1.5
    width = sum(text_width(name, size) + LEGEND_HANDLE for name in looks)
    ax.legend(
        [Line2D([], [], **look) for look in looks.values()],
        [*looks],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(looks) if width <= extent(ax)[0] else (len(looks) + 1) // 2,
        frameon=False,
        fontsize=size,
        handlelength=1.6,
        borderaxespad=0.2,
        borderpad=0.2,
        columnspacing=1.4,
    )
