"""Trees as small pictures in SVG, for notebooks; no packages are needed to draw them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from hctrellis.support.printable import printable, show_probability
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from hctrellis.tree import Tree

ROW, WIDTH, LEADER, BOTTOM = 17, 340, 32, 34  # pixels
CHARACTER = 6.6  # pixels, of a label
LONGEST = 40  # characters of a label
LOOKS = 'font-family="sans-serif" font-size="12" fill="#222"'


def format_svg(
    tree: Tree,
    support: Mapping[frozenset[str], float] | None = None,
    marks: Mapping[str, str] | None = None,
    axis: str = "",
) -> str:
    """A tree with the root at the left, its support at the joins, marks of colour at the labels.

    Parameters
    ----------
    tree : Tree
    support : mapping from clusters to float, optional
    marks : mapping from labels to colours, optional
    axis : str
        What the heights are; without it there is no axis.
    """
    n = tree.n_leaves
    known = {tree.mask(names): value for names, value in (support or {}).items()}
    heights = [0.0] * n + raised(tree).tolist()
    top = heights[-1] or 1.0
    x = [LEADER / 8 + WIDTH * (1 - height / top) for height in heights]
    y = [0.0] * n
    for row, leaf in enumerate(tree.leaf_order()):
        y[leaf] = ROW * (row + 0.5)
    lines, texts, last = [], [], list(y)
    for node, (left, right) in enumerate(tree.children.tolist(), start=n):
        y.append((y[left] + y[right]) / 2)
        gap = last[left] + ROW / 2
        last.append(last[right])
        for child in (left, right):
            shade = _shade(known.get(tree.masks[child]) if child >= n else None)
            path = f"M{x[node]:.1f},{y[node]:.1f}V{y[child]:.1f}H{x[child]:.1f}"
            lines.append(f'<path d="{path}" stroke="{shade}"/>')
        value = known.get(tree.masks[node])
        if value is not None and node < 2 * n - 2:
            place = f'x="{x[node] + 3:.1f}" y="{gap + 3.5:.1f}"'
            texts.append(f'<text {place} font-size="10">{escape(show_probability(value))}</text>')
    texts += _labels(tree, x[0] if n else 0.0, y, marks or {})
    texts += _scale(top, n, axis) if axis and n > 1 else []
    wide = WIDTH + LEADER + 24 + CHARACTER * min(LONGEST, max(map(len, tree.labels)))
    tall = ROW * n + (BOTTOM if axis else 4)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{tall:.0f}" {LOOKS}>'
        f'<g fill="none" stroke-width="1.4">{"".join(lines)}</g>{"".join(texts)}</svg>'
    )


def _shade(value: float | None) -> str:
    level = round(34 + 150 * (0.0 if value is None else 1 - value))
    return f"#{level:02x}{level:02x}{level:02x}"


def _labels(tree: Tree, start: float, y: list[float], marks: Mapping[str, str]) -> list[str]:
    found = []
    for leaf, label in enumerate(tree.labels):
        at = start + LEADER
        if label in marks:
            found.append(
                f'<circle cx="{at + 4:.1f}" cy="{y[leaf]:.1f}" r="4.5" fill="{marks[label]}"/>'
            )
        text = printable(label)
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        place = f'x="{at + (14 if marks else 0):.1f}" y="{y[leaf] + 4:.1f}"'
        found.append(f"<text {place}>{escape(short)}</text>")
        found.append(
            f'<line x1="{start:.1f}" x2="{at - 3:.1f}" y1="{y[leaf]:.1f}" y2="{y[leaf]:.1f}" '
            'stroke="#ddd"/>'
        )
    return found


def _scale(top: float, n_leaves: int, axis: str) -> list[str]:
    left, right, line = LEADER / 8, LEADER / 8 + WIDTH, ROW * n_leaves + 4
    mid = (left + right) / 2
    small = 'font-size="10" fill="#555"'
    return [
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{line}" y2="{line}" stroke="#bbb"/>',
        f'<text x="{left:.1f}" y="{line + 12}" {small}>{top:.3g}</text>',
        f'<text x="{right:.1f}" y="{line + 12}" {small} text-anchor="end">0</text>',
        f'<text x="{mid:.1f}" y="{line + 24}" {small} text-anchor="middle">{escape(axis)}</text>',
    ]
