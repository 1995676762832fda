"""A piece of a problem while it is solved: the best tree known, and a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hctrellis.certify.blocks import leaves_of
from hctrellis.certify.search import Search
from hctrellis.clusters import split_members

if TYPE_CHECKING:
    from hctrellis.certify.problems import Problem
    from hctrellis.tree import Tree


class Piece:
    """A cluster of the leaves of a problem, and a tree of all leaves that is known at the start."""

    def __init__(self, problem: Problem, cluster: int, tree: Tree) -> None:
        self.size = cluster.bit_count()
        self._problem = problem
        self._cluster = cluster
        self._tree = tree
        self._cost = problem.cost(cluster, tree)
        self._low = min(problem.least(cluster), self._cost)
        self._constant = 0
        self._search: Search | None = None

    def prepare(self) -> None:
        """Make the tables of the search."""
        tables, self._constant = self._problem.tables(self._cluster)
        self._search = Search(tables, self._cost - self._constant)

    @property
    def low(self) -> int:
        """No tree of the piece costs less."""
        return self._low if self._search is None else self._search.low + self._constant

    @property
    def high(self) -> int:
        """What the best known tree of the piece costs."""
        return self._cost if self._search is None else self._search.high + self._constant

    @property
    def done(self) -> bool:
        """Whether no tree of the piece costs less than the best known."""
        return self.low >= self.high

    def step(self) -> None:
        """Go on for a short time."""
        assert self._search is not None
        self._search.step()

    def clusters(self) -> list[int]:
        """The clusters of the best known tree of the piece."""
        leaves = [*leaves_of(self._cluster)]
        found = None if self._search is None else self._search.tree()
        if found is not None:
            return [sum(1 << leaves[k] for k in leaves_of(cluster)) for cluster in found]
        clusters = set()
        for row in split_members(self._tree)[2][:, leaves]:
            if row.sum() > 1:
                clusters.add(sum(1 << leaf for leaf, has in zip(leaves, row, strict=True) if has))
        return sorted(clusters)


def open_gap(pieces: list[Piece]) -> int:
    """How far the bounds of all pieces together are from what their trees cost."""
    return sum(piece.high - piece.low for piece in pieces)
