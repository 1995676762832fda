"""A tree with numbers at its nodes, as FigTree, ggtree and iTOL read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.files import replaced
from hctrellis.tree import Tree
from hctrellis.trees.newick import newick_text, quote_label

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

Value = float | tuple[float, float]
"""A number, or an interval."""

PROBABILITY = "posterior"
NEXUS_SUFFIXES = (".nex", ".nexus", ".tre", ".tree", ".trees")


@dataclass(frozen=True, eq=False, repr=False)
class AnnotatedTree:
    """A rooted tree, binary or not, with branch lengths and numbers at its nodes.

    Made by `summary_tree`. Nodes are clusters, written as masks (leaf i is bit i).

    Attributes
    ----------
    labels : tuple of str
    children : mapping from int to list of int
        The parts of each cluster that is not a leaf.
    lengths : mapping from int to float, or None
        The length of the branch above each node but the root, where the sample tells it.
    heights : mapping from int to float, or None
        How high each node is above the lowest leaf, if lengths are times.
    notes : mapping from int to mapping from str to number or interval
        What is known about each node: ``posterior``, ``height``, ``height_95%_HPD``, and so on.
    remarks : tuple of str
        How the tree was made.
    """

    labels: tuple[str, ...]
    children: Mapping[int, Sequence[int]]
    lengths: Mapping[int, float] | None = None
    heights: Mapping[int, float] | None = None
    notes: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.labels)

    @property
    def root(self) -> int:
        """The mask of all leaves."""
        return (1 << self.n_leaves) - 1

    @property
    def is_binary(self) -> bool:
        """Whether every cluster is split into two."""
        return all(len(parts) == 2 for parts in self.children.values())

    def clusters(self) -> frozenset[int]:
        """The masks of all clusters, the root included, single leaves not."""
        return frozenset(self.children)

    @cached_property
    def support(self) -> dict[int, float]:
        """The probability of each cluster."""
        found = {}
        for mask in self.children:
            value = self.notes.get(mask, {}).get(PROBABILITY)
            if isinstance(value, float):
                found[mask] = value
        return found

    def to_tree(self) -> Tree:
        """The same as a `Tree`, with heights if it has them; an error unless it is binary."""
        tree = ConsensusTree(self.labels, dict.fromkeys(self.children, 1.0)).to_tree()
        if self.heights is None or not {*tree.masks} <= {*self.heights}:
            return tree
        heights: FloatArray = np.array([self.heights[mask] for mask in tree.masks[self.n_leaves :]])
        return tree.with_heights(heights)

    def to_newick(self, support: bool = True, notes: bool = False, digits: int = 6) -> str:
        """Write the tree in Newick format, with lengths if it has them.

        Parameters
        ----------
        support : bool
            Write the probability of each cluster below the root as its label.
        notes : bool
            Write all that is known about the nodes, as in ``[&posterior=0.93,rate=0.5]``.
        digits : int
            Significant digits of numbers.
        """
        names = {1 << i: quote_label(label) for i, label in enumerate(self.labels)}
        for mask in self.children:
            shown = support and not notes and mask != self.root and mask in self.support
            names[mask] = f"{self.support[mask]:.{digits}g}" if shown else ""
        for mask in names:
            if notes and self.notes.get(mask):
                names[mask] += _note(self.notes[mask], digits)
            if self.lengths is not None and mask in self.lengths:
                names[mask] += f":{self.lengths[mask]:.{digits}g}"
        return newick_text(self.root, lambda mask: self.children.get(mask, ()), names)

    def to_nexus(self, name: str = "summary", digits: int = 6) -> str:
        """Write the tree as a NEXUS file with annotations that FigTree and ggtree read."""
        labels = [quote_label(label) for label in self.labels]
        lines = [
            "#NEXUS",
            *(f"[{remark.replace('[', '(').replace(']', ')')}]" for remark in self.remarks),
            "BEGIN TAXA;",
            f"  DIMENSIONS NTAX={len(labels)};",
            "  TAXLABELS",
            *(f"    {label}" for label in labels),
            "  ;",
            "END;",
            "BEGIN TREES;",
            f"  TREE {quote_label(name)} = [&R] {self.to_newick(notes=True, digits=digits)}",
            "END;",
            "",
        ]
        return "\n".join(lines)

    def write(self, path: str | Path) -> None:
        """Write a file: annotated NEXUS if its name ends so (.nex, .nexus, .tre, .tree, .trees),
        else Newick."""
        target = Path(path)
        nexus = target.suffix.lower() in NEXUS_SUFFIXES
        with replaced(target) as half:
            half.write_text(self.to_nexus() if nexus else self.to_newick() + "\n", "utf-8")

    def __repr__(self) -> str:
        lengths = "" if self.lengths is None else ", with lengths"
        return f"AnnotatedTree({self.n_leaves} leaves, {len(self.children)} clusters{lengths})"


def _note(notes: Mapping[str, Value], digits: int) -> str:
    """Numbers and intervals, as BEAST writes them."""
    parts = []
    for name, value in notes.items():
        key = name.replace(" ", "_")
        if isinstance(value, tuple):
            parts.append(f"{key}={{{value[0]:.{digits}g},{value[1]:.{digits}g}}}")
        else:
            parts.append(f"{key}={value:.{digits}g}")
    return f"[&{','.join(parts)}]"
