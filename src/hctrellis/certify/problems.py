"""Potentials as problems in whole numbers, taken apart into pieces that are solved on their own.

The energy of a tree is that of its pieces, plus a constant, rounded down and divided by a power of
two: a bound of the sum over the pieces is a bound of all trees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.certify.blocks import (
    Node,
    blocks,
    components,
    ladder,
    leaves_of,
    merged,
    neighbours,
    nodes_of,
    two_sides,
)
from hctrellis.certify.tables import average_tables, correlation_tables, dasgupta_tables
from hctrellis.clusters import split_members
from hctrellis.potentials.base import Potential
from hctrellis.potentials.bounds import DOUBLED, as_whole, triples_low
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.linkage import Linkage
from hctrellis.support.bounded import MOST_LEAVES
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.bounded import Tables
    from hctrellis.support.types import BoolArray, IntArray


class Problem(ABC):
    """The energies of all trees of a potential, in whole numbers.

    Attributes
    ----------
    potential : Potential
    pieces : list of int
        The clusters that are solved, each on its own.
    """

    potential: Potential
    pieces: list[int]

    @abstractmethod
    def tables(self, piece: int) -> tuple[Tables, int]:
        """The tables of a piece, and what every tree of it costs beyond what these say."""

    def least(self, piece: int) -> int:
        """A bound of a piece that takes no time."""
        return 0

    @abstractmethod
    def split_cost(self, left: BoolArray, right: BoolArray) -> int:
        """What a split costs, in whole numbers."""

    @abstractmethod
    def energy(self, total: int) -> Fraction:
        """The least energy of a tree whose pieces have this sum."""

    @abstractmethod
    def assemble(self, trees: Sequence[list[int]]) -> list[int]:
        """The clusters of a tree of all leaves, from the clusters of trees of the pieces."""

    def cost(self, piece: int, tree: Tree) -> int:
        """What a tree costs, restricted to a piece."""
        inside = np.zeros(tree.n_leaves, bool)
        inside[[*leaves_of(piece)]] = True
        left, right, _ = split_members(tree)
        pairs = zip(left & inside, right & inside, strict=True)
        return sum(self.split_cost(one, two) for one, two in pairs if one.any() and two.any())


class DasguptaProblem(Problem):
    """Connected components, if no similarity is negative; each pays for its triples."""

    def __init__(self, potential: Dasgupta) -> None:
        self.potential = potential
        self._whole = as_whole(potential.similarity)
        n, weights = potential.n_leaves, self._whole.values
        every = (1 << n) - 1
        if (weights < 0).any():
            self._components = [every]
        else:
            self._components = components(every, neighbours(weights > 0))
        self.pieces = [part for part in self._components if part & (part - 1)]

    def tables(self, piece: int) -> tuple[Tables, int]:
        return dasgupta_tables(_part(self._whole.values, piece))

    def least(self, piece: int) -> int:
        return triples_low(_part(self._whole.values, piece))

    def split_cost(self, left: BoolArray, right: BoolArray) -> int:
        across = int(self._whole.values[np.ix_(left, right)].sum())
        return int(left.sum() + right.sum()) * across

    def energy(self, total: int) -> Fraction:
        return self._whole.energy(total)

    def assemble(self, trees: Sequence[list[int]]) -> list[int]:
        return [*(cluster for tree in trees for cluster in tree), *ladder(self._components)]


class CorrelationProblem(Problem):
    """Biconnected blocks of the graph of negative pairs; those with two sides cost nothing."""

    def __init__(self, potential: CorrelationClustering) -> None:
        self.potential = potential
        self._whole, plus = as_whole(potential._negative), as_whole(potential._positive)
        self._constant = plus.energy(int(np.tril(plus.values, -1).sum()))
        graph = neighbours(self._whole.values > 0)
        sides = {
            block: two_sides(block, graph) for block in blocks((1 << potential.n_leaves) - 1, graph)
        }
        self._even = [Node(b, (Node(s[0]), Node(s[1]))) for b, s in sides.items() if s]
        self.pieces = [block for block, side in sides.items() if side is None]

    def tables(self, piece: int) -> tuple[Tables, int]:
        return correlation_tables(_part(self._whole.values, piece))

    def split_cost(self, left: BoolArray, right: BoolArray) -> int:
        inside = (int(self._whole.values[np.ix_(side, side)].sum()) for side in (left, right))
        return sum(inside) // 2

    def energy(self, total: int) -> Fraction:
        return self._constant + self._whole.energy(total)

    def assemble(self, trees: Sequence[list[int]]) -> list[int]:
        odd = [nodes_of(piece, tree) for piece, tree in zip(self.pieces, trees, strict=True)]
        return merged((1 << self.potential.n_leaves) - 1, [*self._even, *odd])


class AverageProblem(Problem):
    """All leaves at once; each pays for its neighbours by their ranks."""

    def __init__(self, potential: Linkage) -> None:
        assert potential.distances is not None
        self.potential = potential
        self._whole = as_whole(potential.distances, float(potential.distances.sum()))
        self.pieces = [(1 << potential.n_leaves) - 1]

    def tables(self, piece: int) -> tuple[Tables, int]:
        return average_tables(self._whole.values)

    def split_cost(self, left: BoolArray, right: BoolArray) -> int:
        across = DOUBLED * int(self._whole.values[np.ix_(left, right)].sum())
        return across // int(left.sum() * right.sum())

    def energy(self, total: int) -> Fraction:
        return self._whole.energy(total) / DOUBLED

    def assemble(self, trees: Sequence[list[int]]) -> list[int]:
        return trees[0]


def problem_of(potential: Potential) -> Problem | None:
    """The problem of a potential that a certified search can solve; None for others.

    A piece must have no more leaves than a search can hold.
    """
    found: Problem
    if type(potential) is Dasgupta:
        found = DasguptaProblem(potential)
    elif type(potential) is CorrelationClustering:
        found = CorrelationProblem(potential)
    elif type(potential) is Linkage and potential.method == "average":
        found = AverageProblem(potential)
    else:
        return None
    return found if all(piece.bit_count() <= MOST_LEAVES for piece in found.pieces) else None


def _part(values: IntArray, piece: int) -> IntArray:
    leaves = [*leaves_of(piece)]
    part: IntArray = values[np.ix_(leaves, leaves)]
    return part
