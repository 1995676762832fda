"""Trees of one or several runs as arrays: what `hctrellis.read_trees` returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from hctrellis.tree import Tree
from hctrellis.treefiles.weighted import WeightedTrees

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

ULTRAMETRIC = 1e-5
"""How far leaves may be from equally deep, relative to the depth, to count as equally deep: files
often round lengths to six digits."""


@dataclass(frozen=True, eq=False, repr=False)
class TreeRuns(Sequence[Tree]):
    """Trees over the same leaves, as arrays; a `Tree` is made when it is asked for.

    Made by `read_trees` or `TreeRuns.from_trees`. A slice is again such a collection.

    Attributes
    ----------
    labels : tuple of str
    children : int array, shape (m, n - 1, 2)
        `Tree.children` of each tree.
    lengths : float64 array, shape (m, 2n - 1), or None
        Length of the branch above each node, leaves first, the root last; NaN where none is
        written. None if no tree has lengths.
    weights : float64 array, shape (m,), or None
        How much each tree counts; None if all count alike.
    runs : int array, shape (m,)
        The number of the run (the file) that each tree is from.
    names : tuple of str
        Of the runs.
    notes : mapping from str to float64 array, shape (m, 2n - 1)
        Numbers that are written with the nodes, as in BEAST's ``[&rate=0.5]``; NaN where there is
        none.
    remarks : tuple of str
        What a reader should know: how trees were rooted, what was left out.
    """

    labels: tuple[str, ...]
    children: npt.NDArray[np.signedinteger]
    lengths: FloatArray | None
    weights: FloatArray | None
    runs: IntArray
    names: tuple[str, ...]
    notes: Mapping[str, FloatArray] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_trees(
        cls, trees: Iterable[Tree], weights: npt.ArrayLike | None = None, name: str = "trees"
    ) -> TreeRuns:
        """Trees over the same labels as one run, with lengths if all have heights.

        Examples
        --------
        >>> runs = TreeRuns.from_trees([Tree.from_newick("((a,b),c);")] * 3)
        >>> runs
        TreeRuns(3 trees of 3 leaves)
        >>> runs[0]
        Tree(3 leaves: ((a,b),c))
        """
        if isinstance(trees, TreeRuns) and weights is None:
            return trees
        given = WeightedTrees(trees, weights)
        if not given:
            raise ValueError("there are no trees; give at least one")
        labels = given[0].labels
        aligned = [_aligned(tree, labels) for tree in given]
        children = np.array([tree.children for tree in aligned], np.int64)
        return cls(
            labels,
            children.reshape(len(aligned), len(labels) - 1, 2),
            _lengths(aligned),
            given.weights,
            np.zeros(len(aligned), np.int64),
            (name,),
        )

    # ---- a sequence of trees ------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.children)

    @overload
    def __getitem__(self, index: int) -> Tree: ...

    @overload
    def __getitem__(self, index: slice) -> TreeRuns: ...

    def __getitem__(self, index: int | slice) -> Tree | TreeRuns:
        if isinstance(index, slice):
            return self.some(np.arange(len(self))[index])
        return self._tree(range(len(self))[index])

    def __iter__(self) -> Iterator[Tree]:
        return (self._tree(k) for k in range(len(self)))

    def _tree(self, k: int) -> Tree:
        tree = Tree(self.children[k], labels=self.labels)
        return tree.with_heights(lambda tree: self._heights(k))

    def _heights(self, k: int) -> FloatArray | None:
        """Heights of internal nodes, if all leaves are equally deep."""
        if self.lengths is None or self.n_leaves < 2:
            return None
        some = replace(self, children=self.children[k : k + 1], lengths=self.lengths[k : k + 1])
        heights = some.node_heights()[0]
        spread = heights[: self.n_leaves].max()
        if not spread <= ULTRAMETRIC * abs(heights[-1]):
            return None
        return np.asarray(heights[self.n_leaves :])

    def some(self, chosen: IntArray) -> TreeRuns:
        """Some of the trees, by their numbers."""
        return replace(
            self,
            children=self.children[chosen],
            lengths=None if self.lengths is None else self.lengths[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            runs=self.runs[chosen],
            notes={name: values[chosen] for name, values in self.notes.items()},
        )

    # ---- what is asked of them ----------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.labels)

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.names)

    @property
    def shares(self) -> FloatArray:
        """How much each tree counts: the weights, or 1 for each."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def run(self, number: int) -> TreeRuns:
        """The trees of one run, the first of which is run 0."""
        chosen = np.flatnonzero(self.runs == range(self.n_runs)[number])
        found = self.some(chosen)
        return replace(found, runs=np.zeros(len(found), np.int64), names=(self.names[number],))

    def counted(self) -> TreeRuns:
        """The trees that count: those of weight 0 are left out."""
        if self.weights is None or (self.weights > 0).all():
            return self
        return self.some(np.flatnonzero(self.weights))

    def node_heights(self) -> FloatArray:
        """How high each node is above the lowest leaf of its tree, shape (m, 2n - 1)."""
        from hctrellis.kernels.heights import node_heights

        if self.lengths is None:
            raise ValueError("these trees have no branch lengths, so no heights")
        heights = np.empty(self.lengths.shape)
        node_heights(self.children, self.lengths, heights)
        return heights

    @property
    def is_clock(self) -> bool:
        """Whether heights mean something: in every tree all leaves are equally deep.

        Lengths are then times, as under a molecular clock; otherwise they are amounts of change.
        """
        if self.lengths is None or self.n_leaves < 2 or len(self) == 0:
            return False
        step = max(1, (1 << 18) // self.lengths.shape[1])
        for start in range(0, len(self), step):
            heights = self[start : start + step].node_heights()
            spread = heights[:, : self.n_leaves].max(axis=1)
            if not (spread <= ULTRAMETRIC * np.abs(heights[:, -1])).all():
                return False
        return True

    def __repr__(self) -> str:
        number = f"{len(self):,} {'tree' if len(self) == 1 else 'trees'} of {self.n_leaves} leaves"
        runs = f" in {self.n_runs} runs" if self.n_runs > 1 else ""
        lengths = "" if self.lengths is None else ", with lengths"
        weights = "" if self.weights is None else ", with weights"
        return f"TreeRuns({number}{runs}{lengths}{weights})"


def _aligned(tree: object, labels: tuple[str, ...]) -> Tree:
    if not isinstance(tree, Tree):
        raise TypeError(f"expected trees, got {type(tree).__name__}")
    if tree.labels == labels:
        return tree
    if set(tree.labels) != set(labels):
        odd = sorted(set(tree.labels) ^ set(labels))
        raise ValueError(f"the trees have different labels, for instance {odd[0]!r:.80}")
    return tree.reorder(labels)


def _lengths(trees: Sequence[Tree]) -> FloatArray | None:
    """Branch lengths from heights, if all trees have them."""
    rows = []
    for tree in trees:
        if tree.heights is None:
            return None
        heights = np.concatenate([np.zeros(tree.n_leaves), tree.heights])
        lengths = np.full(len(heights), np.nan)
        lengths[tree.children] = tree.heights[:, None] - heights[tree.children]
        rows.append(lengths)
    return np.array(rows)
