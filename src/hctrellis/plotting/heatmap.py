"""Heat maps with named rows and columns, and what is attached to them. Lengths are in inches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hctrellis.plotting.axes import extent, figure_extent, make_room
from hctrellis.plotting.labels import (
    LABEL_SHARE,
    PAD,
    SMALLEST,
    fit_labels,
    label_size,
    name_rows,
    text_width,
)
from hctrellis.plotting.style import LABEL_SIZE, PALE, POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.image import AxesImage
    from matplotlib.transforms import Bbox

    from hctrellis.support.types import FloatArray

TICK = 3.0  # points
BESIDE = (TICK + PAD) / POINTS
STEPS = 12  # of the search for sizes of names that fit
GAP = 0.06  # between a heat map and what is attached
SCALE_WIDTH, SCALE_HEIGHT, SCALE_SPACE = 1.3, 0.09, 0.55  # the space includes numbers and title
ROW, SMALLEST_ROW, MOST_HEIGHT = 0.25, 0.09, 9.0  # of a new figure


class Names(NamedTuple):
    """The labels of rows or columns, and their colours."""

    labels: Sequence[str]
    colors: Sequence[str]


class Box(NamedTuple):
    """A rectangle: left and bottom edge, width and height."""

    x: float
    y: float
    width: float
    height: float


def row_height(n_rows: int) -> float:
    """The height of a row in a new figure."""
    return min(ROW, max(SMALLEST_ROW, MOST_HEIGHT / n_rows))


def draw_heatmap(
    ax: Axes,
    values: FloatArray,
    rows: Names,
    columns: Names,
    colors: tuple[Colormap, Normalize],
    *,
    room: tuple[float, float] = (0.0, 0.0),
    square: bool = False,
) -> AxesImage:
    """Draw cells with names at the right and at the bottom, and room at the left and the top."""
    cmap, norm = colors
    image = ax.imshow(values, cmap=cmap, norm=norm, interpolation="nearest")
    ax.set_aspect("equal" if square else "auto")
    for spine in ax.spines.values():
        spine.set_visible(False)
    left, top = room
    right, bottom = _name_cells(ax, rows, columns, room, square)
    make_room(ax, left=left, bottom=bottom, right=right, top=top)
    return image


def _name_cells(
    ax: Axes, rows: Names, columns: Names, taken: tuple[float, float], square: bool
) -> tuple[float, float]:
    """Name rows and columns; returns the space that this takes at the right and at the bottom."""
    width, height = (whole - part for whole, part in zip(extent(ax), taken, strict=True))
    sizes = _label_sizes(rows.labels, columns.labels, width, height, square)
    right = name_rows(
        ax,
        range(len(rows.labels)),
        *rows,
        size=sizes[0],
        room=LABEL_SHARE * width,
        leader=TICK,
    )
    return right, _name_columns(ax, columns, sizes[1], LABEL_SHARE * height)


def _label_sizes(
    rows: Sequence[str], columns: Sequence[str], width: float, height: float, square: bool
) -> tuple[float, float]:
    """The sizes of the names of rows and columns: such that the cells are large enough for them."""

    def fitting(row_size: float, column_size: float) -> tuple[float, float]:
        across = width - _taken(rows, row_size, LABEL_SHARE * width)
        along = height - _taken(columns, column_size, LABEL_SHARE * height)
        if square:
            across = along = min(across, along)
        return label_size(along / len(rows)), label_size(across / max(1, len(columns)))

    row_size = column_size = LABEL_SIZE
    for _ in range(STEPS):
        next_row, next_column = fitting(row_size, column_size)
        row_size, column_size = (row_size + next_row) / 2, (column_size + next_column) / 2
    next_row, next_column = fitting(row_size, column_size)
    return min(row_size, next_row), min(column_size, next_column)


def _taken(labels: Sequence[str], size: float, most: float) -> float:
    """The space that labels take beside a heat map."""
    if not labels or size < SMALLEST:
        return 0.0
    return min(most, BESIDE + text_width(max(labels, key=len), size))


def _name_columns(ax: Axes, columns: Names, size: float, room: float) -> float:
    if size < SMALLEST or not columns.labels:
        ax.set_xticks([])
        return 0.0
    texts, size = fit_labels(columns.labels, size, room - BESIDE)
    ax.set_xticks(range(len(texts)), texts, rotation=90)
    ax.tick_params(axis="x", length=TICK, width=0.6, color=PALE, pad=PAD, labelsize=size)
    for text, color in zip(ax.get_xticklabels(), columns.colors, strict=True):
        text.set_color(color)
    return BESIDE + max(text_width(text, size) for text in texts)


def attach(ax: Axes, place: Callable[[Box], Box]) -> Axes:
    """Axes that keep their place beside others, wherever these move."""
    child = ax.inset_axes((0.0, 0.0, 1.0, 1.0))
    child.set_axes_locator(partial(_locate, ax, place))
    return child


def _locate(ax: Axes, place: Callable[[Box], Box], child: object, renderer: object) -> Bbox:
    from matplotlib.transforms import Bbox

    width, height = figure_extent(ax)
    x, y, w, h = ax.get_position().bounds
    x, y, w, h = place(Box(x * width, y * height, w * width, h * height))
    return Bbox.from_bounds(x / width, y / height, w / width, h / height)


def left_of(size: float, box: Box) -> Box:
    """The place to the left of a heat map, of a given width."""
    return Box(box.x - GAP - size, box.y, size, box.height)


def above(size: float, box: Box) -> Box:
    """The place above a heat map, of a given height."""
    return Box(box.x, box.y + box.height + GAP, box.width, size)


def corner_above(left: float, distance: float, height: float, box: Box) -> Box:
    """The place above a heat map and what is attached to it, from its left edge on."""
    return Box(box.x - left, box.y + box.height + distance, left + box.width, height)


def _scale_above(distance: float, box: Box) -> Box:
    y = box.y + box.height + GAP + distance
    return Box(box.x, y, min(SCALE_WIDTH, box.width), SCALE_HEIGHT)


def attach_scale(ax: Axes, image: AxesImage, title: str, distance: float = 0.0) -> None:
    """A colour scale above a heat map, at the left."""
    from matplotlib.ticker import MaxNLocator

    cax = attach(ax, partial(_scale_above, distance))
    scale = ax.figure.colorbar(
        image, cax=cax, orientation="horizontal", ticks=MaxNLocator(3, steps=[1, 2, 5, 10])
    )
    scale.outline.set_visible(False)
    cax.xaxis.set_ticks_position("top")
    cax.xaxis.set_label_position("top")
    cax.tick_params(color=PALE, labelsize=LABEL_SIZE - 2, length=TICK, pad=2)
    (text,), size = fit_labels([title], LABEL_SIZE - 1, extent(ax)[0])
    scale.set_label(text, loc="left", fontsize=size)
