"""Drawings of trees as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from hctrellis.tree import Tree


def format_text(tree: Tree, annotate: Callable[[int], str] | None = None) -> str:
    """Draw a tree with a line per node; see `Tree.to_text`."""
    notes = _notes(tree, annotate)
    lines = []
    stack = [(2 * tree.n_leaves - 2, "", "")]
    while stack:
        node, head, margin = stack.pop()
        if node < tree.n_leaves:
            lines.append(f"{head} {notes[node]}" if head else notes[node])
            continue
        lines.append(f"{head}┐ {notes[node]}".rstrip())
        left, right = tree.children[node - tree.n_leaves].tolist()
        stack.append((right, margin + "└─", margin + "  "))
        stack.append((left, margin + "├─", margin + "│ "))
    return "\n".join(lines)


def _notes(tree: Tree, annotate: Callable[[int], str] | None) -> list[str]:
    """Return what is shown at each node: labels, and annotations of internal nodes."""
    inner = [""] * (tree.n_leaves - 1)
    if annotate is not None:
        inner = [annotate(mask) for mask in tree.masks[tree.n_leaves :]]
    return [printable(text) for text in (*tree.labels, *inner)]
