"""Labels that fit the room they have. Lengths are in inches, sizes of text in points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from hctrellis.plotting.style import LABEL_SIZE, PALE, POINTS
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READABLE, SMALLEST = (
    7.0,
    3.0,
)  # points: labels are cut rather than made smaller; left out if smaller
LEADER = 26.0  # points between the end of a leaf's branch and its label: room for a number
PAD = 3.0  # points between a leader and its label
CHARACTER_WIDTH = 0.064  # of a label
LONGEST = 60  # characters of a label that a new figure has room for
LABEL_SHARE = 0.55  # of a width or height, at most
MOST_LABELS = 0.8  # labels are made smaller until this share of them fits uncut, ...
A_LITTLE_SMALLER = 0.85  # ... or all of them, if this factor is enough for that
ROUNDED_UP = 0.5  # points by which size text may seem larger, as letters are whole pixels wide
ROUNDING = 1e-6


def literal(text: str) -> str:
    """Text to show as it is: matplotlib reads what stands between dollar signs as mathematics."""
    return text.replace("$", r"\$")


def text_width(text: str, size: float) -> float:
    """The width that text of a size in points takes, also when it is drawn in pixels."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size)
    width = text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
    return float(width) * (1 + ROUNDED_UP / size) / POINTS


def shorten(text: str, size: float, room: float) -> str:
    """Text that is not wider than `room`: its start and end, with an ellipsis between."""
    width = text_width(text, size)
    if width <= room * (1 + ROUNDING):
        return text
    kept = min(len(text) - 1, int(len(text) * room / width) + 1)
    for most in range(kept, 0, -1):
        head = most - most // 3
        cut = f"{text[:head]}…{text[len(text) - most // 3 :]}"
        if text_width(cut, size) <= room:
            return cut
    return "…"


def shorten_all(texts: Sequence[str], size: float, room: float) -> list[str]:
    """Shorten each, and those that would then read alike to where they differ, if that fits."""
    cut = [shorten(text, size, room) for text in texts]
    alike: dict[str, set[str]] = {}
    for text, short in zip(texts, cut, strict=True):
        alike.setdefault(short, set()).add(text)
    for i, text in enumerate(texts):
        others = [*alike[cut[i]]]
        if len(others) > 1:
            start = _shared(others)
            rest = min(len(other) for other in others) - start
            end = min(rest, _shared([other[::-1] for other in others]))
            cut[i] = _around(text, start, len(text) - end, size, room)
    return cut


def _shared(texts: Sequence[str]) -> int:
    """How many characters all texts begin with."""
    columns = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))


def _around(text: str, start: int, stop: int, size: float, room: float) -> str:
    """A part of a text, and as much of what is before it as there is room for."""
    part = text[start:stop] + ("…" if stop < len(text) else "")
    for head in range(start, -1, -1):
        cut = f"{text[:head]}{'…' if head < start else ''}{part}"
        if text_width(cut, size) <= room:
            return cut
    return shorten(part, size, room)


def fit_labels(labels: Sequence[str], size: float, room: float) -> tuple[list[str], float]:
    """Labels as text, and their size: smaller until most fit; those still too wide are cut."""
    texts = [printable(label) for label in labels]
    widths = sorted(text_width(text, size) for text in texts)
    width = widths[int(MOST_LABELS * len(widths))]
    if widths[-1] * A_LITTLE_SMALLER <= room:
        width = widths[-1]
    if width > room:
        fitting = (size + ROUNDED_UP) * room / width - ROUNDED_UP
        size = max(min(size, READABLE), fitting)
    return [literal(text) for text in shorten_all(texts, size, room)], size


def name_rows(
    ax: Axes,
    rows: Sequence[float],
    labels: Sequence[str],
    colors: Sequence[str],
    *,
    size: float,
    room: float,
    leader: float = LEADER,
    strip: float = 0.0,
) -> float:
    """Write labels to the right of the axes, with the tick marks as lines that lead to them.

    Parameters
    ----------
    size : float
        Of the text, at most. Labels too small to read are left out.
    room : float
        For the labels and the lines that lead to them.
    leader : float
        Length of these lines, in points.
    strip : float
        Points left free between a line and its label.

    Returns
    -------
    float
        The width that was taken.
    """
    ax.yaxis.tick_right()
    if size < SMALLEST:
        ax.set_yticks([])
        return 0.0
    beside = (leader + strip + PAD) / POINTS
    texts, size = fit_labels(labels, size, room - beside)
    ax.set_yticks(rows, texts)
    ax.tick_params(
        axis="y",
        length=leader,
        width=0.6,
        color=PALE,
        pad=PAD + strip,
        labelsize=size,
        labelright=True,
    )
    for text, color in zip(ax.get_yticklabels(), colors, strict=True):
        text.set_color(color)
    return beside + max(text_width(text, size) for text in texts)


def label_size(row: float) -> float:
    """The size, in points, of labels in rows of a given height."""
    return min(LABEL_SIZE, 0.85 * POINTS * row)


def label_space(labels: Sequence[str], longest: int = LONGEST) -> float:
    """The width that labels take in a new figure."""
    return CHARACTER_WIDTH * min(longest, max(map(len, labels)))
