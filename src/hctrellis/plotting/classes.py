"""Colours of leaves: those given, or those of their classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hctrellis.plotting.style import INK, POINTS
from hctrellis.support.colors import MISSING_COLOR, PALETTE
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colors: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""A colour or a class for each label: by label, or in the order of the leaves."""

MISSING, OTHER = "missing", "other"
OTHER_COLOR = "#777777"
_COLOR = re.compile(r"#[0-9a-fA-F]{3,8}|[A-Za-z:]{3,}")


class Classes(NamedTuple):
    """What colours leaves.

    Attributes
    ----------
    colors : list of str
        Of each leaf.
    key : dict from str to str
        The colour of each class, in the order of their names; empty if colours were given.
    """

    colors: list[str]
    key: dict[str, str]


def as_classes(labels: Sequence[str], given: Colors | None) -> Classes:
    """The colours of leaves, and what they stand for.

    Colours are given by names of CSS (red), as #rrggbb or as tuples of numbers. All else is taken
    for classes: those that are most frequent have a colour each.
    """
    if given is None:
        return Classes([INK] * len(labels), {})
    values = _by_label(labels, given)
    known = [value for value in values if not _is_missing(value)]
    if all(map(_is_color, known)):
        return Classes([INK if _is_missing(value) else value for value in values], {})
    names = [MISSING if _is_missing(value) else printable(str(value)) for value in values]
    key = _key([name for name in names if name != MISSING])
    colors = [MISSING_COLOR if name == MISSING else key.get(name, OTHER_COLOR) for name in names]
    if any(name not in (MISSING, *key) for name in names):
        key[OTHER] = OTHER_COLOR
    if MISSING in names:
        key[MISSING] = MISSING_COLOR
    return Classes(colors, key)


def label_colors(labels: Sequence[str], given: Colors | None) -> list[str]:
    """The colour of each label."""
    return as_classes(labels, given).colors


def legend_rows(key: Mapping[str, str], size: float, width: float) -> int:
    """How many rows a legend of classes has in a width."""
    return -(-len(key) // _across(key, size, width)) if key else 0


def _across(key: Mapping[str, str], size: float, width: float) -> int:
    from hctrellis.plotting.labels import text_width

    widest = max(text_width(name, size) for name in _brief(key)) + 2.6 * size / POINTS
    return max(1, min(len(key), int(0.95 * width / widest)))


def _brief(key: Mapping[str, str]) -> list[str]:
    return [f"{name[:27]}…" if len(name) > 28 else name for name in key]


def explain_classes(
    ax: Axes, key: Mapping[str, str], size: float, width: float | None = None
) -> None:
    """A legend of classes above the axes, in as many columns as there is room for.

    If a width is given, the axes are nothing but the place for the legend, from their lower edge.
    """
    from matplotlib.lines import Line2D

    from hctrellis.plotting.axes import extent
    from hctrellis.plotting.labels import literal

    handles = [
        Line2D([], [], linestyle="", marker="s", markersize=0.75 * size, color=color)
        for color in key.values()
    ]
    ax.legend(
        handles,
        [literal(name) for name in _brief(key)],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0 if width is None else 0.0),
        ncols=_across(key, size, extent(ax)[0] if width is None else width),
        frameon=False,
        fontsize=size,
        handletextpad=0.1,
        columnspacing=0.8,
        borderaxespad=0.2,
        borderpad=0.1,
        labelspacing=0.25,
    )


def _by_label(labels: Sequence[str], given: Any) -> list[Any]:
    if hasattr(given, "to_dict"):  # a column of pandas
        named = {str(name): value for name, value in given.to_dict().items()}
        given = named if set(labels) & set(named) else [*given]
    if isinstance(given, Mapping):
        return [given.get(label) for label in labels]
    values = [*given]
    if len(values) != len(labels):
        raise ValueError(
            f"there are {len(values)} colors for {len(labels)} leaves; give a colour or a class "
            "for each"
        )
    return values


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("", "<NA>")  # NaN differs from itself


def _is_color(value: Any) -> bool:
    from matplotlib.colors import is_color_like

    if isinstance(value, str):
        return bool(_COLOR.fullmatch(value)) and is_color_like(value)
    return isinstance(value, tuple) and is_color_like(value)


def _key(names: Sequence[Hashable]) -> dict[str, str]:
    """A colour for each name; if there are too many names, for the most frequent."""
    counts = Counter(map(str, names))
    first = sorted(counts)
    if len(first) > len(PALETTE):
        first = [name for name, _ in counts.most_common(len(PALETTE) - 1)]
    return dict(zip(first, PALETTE, strict=False))
