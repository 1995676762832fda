"""The sparse trellis: some clusters and splits of n leaves, hence some of the trees.

It is a structure without data: built from trees (see `build`), it serves any potential over as many
leaves as it has. The passes over it are exact for the trees that it holds, so log Z and the best
weight are lower bounds of those over all trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import n_trees
from hctrellis.potentials.base import Potential, extremes
from hctrellis.support.checks import as_count
from hctrellis.support.files import replaced
from hctrellis.support.memory import TooLargeError
from hctrellis.support.progress import Progress, followed
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree
from hctrellis.treefiles.runs import TreeRuns
from hctrellis.treefiles.weighted import WeightedTrees
from hctrellis.trellis.full import solve_listed
from hctrellis.trellis.listed import Splits, Weights, is_fusable
from hctrellis.trellis.numbered import number_trees
from hctrellis.trellis.saved import read_arrays
from hctrellis.trellis.solution import Solution, count_trees
from hctrellis.trellis.vertices import (
    SparseVertices,
    complete,
    hash_rows,
    leaf_words,
    merge,
    n_words,
    packed,
    tree_rows,
)

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

Keep = Literal["observed", "all"]

FORMAT = "hctrellis sparse trellis 1"
SPLITS_AT_ONCE = 1 << 22  # of one call of a kernel
_ARRAYS = ("words", "offsets", "lefts", "rights")


# ---- the trellis ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class SparseTrellis:
    """Some clusters and splits of n leaves: all trees that can be put together from them.

    Made by `from_trees`, or by the functions of `hctrellis.build.sources`.

    Attributes
    ----------
    vertices : SparseVertices
        Clusters and splits.
    keep : {"observed", "all"}
        Which splits are kept when trees are added: those seen in the trees, or every split whose
        three clusters are there.

    Examples
    --------
    >>> trees = [Tree.from_newick("((a,b),(c,d));"), Tree.from_newick("(((a,b),c),d);")]
    >>> trellis = SparseTrellis.from_trees(trees)
    >>> trellis
    SparseTrellis(4 leaves, 8 clusters, 5 splits, 2 trees)
    >>> round(trellis.sparsity, 4)
    0.1333
    >>> trees[0] in trellis
    True
    """

    vertices: SparseVertices
    keep: Keep = "observed"

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[Tree],
        splits: Keep = "observed",
        weights: npt.ArrayLike | None = None,
    ) -> SparseTrellis:
        """The clusters and splits that occur in trees.

        Parameters
        ----------
        trees : iterable of Tree
            Over the same labels; leaf i of the trellis is leaf i of the first tree.
        splits : {"observed", "all"}
            Keep the splits seen in the trees, or every split whose three clusters are there (in
            phylogenetics: CCD1 and CCD0 graphs).
        weights : array_like of float, optional
            How much each tree counts; those that the trees have (`WeightedTrees`) by default. A
            trellis has no weights: trees of weight 0 are left out, all others count alike.
        """
        if isinstance(trees, TreeRuns) and weights is None:
            _check_keep(splits)
            vertices = number_trees(trees.counted().children).vertices
            return cls(complete(vertices) if splits == "all" else vertices, splits)
        return cls.from_children(_children(WeightedTrees(trees, weights).counted()), splits)

    @classmethod
    def from_children(cls, children: npt.ArrayLike, splits: Keep = "observed") -> SparseTrellis:
        """The same from the arrays `Tree.children` of trees, shape (trees, n - 1, 2)."""
        _check_keep(splits)
        vertices = merge(*tree_rows(np.ascontiguousarray(children, np.int64)))
        return cls(complete(vertices) if splits == "all" else vertices, splits)

    def union(self, other: SparseTrellis) -> SparseTrellis:
        """All clusters and splits of both; all splits between these clusters if one keeps all."""
        if not isinstance(other, SparseTrellis):
            raise TypeError(f"expected a SparseTrellis, got {type(other).__name__}")
        if other.n_leaves != self.n_leaves:
            raise ValueError(f"one trellis has {self.n_leaves} leaves, the other {other.n_leaves}")
        keep: Keep = "all" if "all" in (self.keep, other.keep) else "observed"
        one, two = self.vertices, other.vertices
        words = np.concatenate([one.words, two.words])
        triples = np.concatenate([one.triples(), two.triples() + len(one)])
        vertices = merge(self.n_leaves, words, hash_rows(words), triples)
        return SparseTrellis(complete(vertices) if keep == "all" else vertices, keep)

    def __or__(self, other: SparseTrellis) -> SparseTrellis:
        return self.union(other)

    def add_trees(self, trees: Iterable[Tree]) -> SparseTrellis:
        """This trellis and the clusters and splits of more trees (leaf i is leaf i here)."""
        return self.union(SparseTrellis.from_trees(trees))

    def reorder(self, order: Sequence[int] | IntArray) -> SparseTrellis:
        """The trellis in which leaf order[k] takes the place of leaf k."""
        given = as_order(order, self.n_leaves)
        members = np.empty((len(self.vertices), self.n_leaves), bool)
        members[:, given] = self.vertices.members
        words = packed(members)
        vertices = merge(self.n_leaves, words, hash_rows(words), self.vertices.triples())
        return SparseTrellis(vertices, self.keep)

    def restrict(self, keep: BoolArray) -> SparseTrellis:
        """The trees that are made of some of the clusters, all splits between these kept.

        Clusters then in no tree are left out too; a ValueError is raised if no tree remains.
        """
        return SparseTrellis(self.vertices.restrict(keep), self.keep)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.vertices.n_leaves

    @property
    def n_clusters(self) -> int:
        """Number of clusters, single leaves included."""
        return len(self.vertices)

    @property
    def n_splits(self) -> int:
        """Number of pairs (cluster, split of it)."""
        return len(self.vertices.lefts)

    @cached_property
    def n_trees(self) -> int:
        """The exact number of trees."""
        weighed = [(self.vertices.splits(), np.zeros(self.n_splits))]
        return count_trees(lambda: weighed, self.vertices, self.log_n_trees / math.log(2))

    @cached_property
    def log_n_trees(self) -> float:
        """Logarithm of the number of trees."""
        from hctrellis.kernels import passes

        best, scale, rest = (np.zeros(self.n_clusters) for _ in range(3))
        rest[: self.n_leaves] = 1.0
        zeros, shares = np.zeros(self.n_splits), np.empty(self.n_splits)
        passes.absorb(*self.vertices.splits(), zeros, best, scale, rest, shares)
        return float(math.log(rest[-1]) + scale[-1] * math.log(2))

    @property
    def sparsity(self) -> float:
        """Fraction of all (2n - 3)!! trees that the trellis holds."""
        return self.n_trees / n_trees(self.n_leaves)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTrellis):
            return NotImplemented
        one, two = self.vertices, other.vertices
        return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in _ARRAYS)

    def __hash__(self) -> int:
        return hash((self.n_leaves, self.n_clusters, self.n_splits))

    def __contains__(self, tree: object) -> bool:
        """Whether a tree is made of splits of this trellis (leaf i is leaf i here)."""
        if not isinstance(tree, Tree) or tree.n_leaves != self.n_leaves:
            return False
        other = SparseTrellis.from_trees([tree]).vertices
        found = self.vertices.find_all(other.masks(np.arange(len(other))))
        if (found < 0).any():
            return False
        wanted = found[other.triples()]
        return bool((self.split_numbers(wanted[:, 0], wanted[:, 1]) >= 0).all())

    def split_numbers(self, parents: IntArray, children: IntArray) -> IntArray:
        """Where splits, given by one child, are in the arrays; -1 for those that are not there."""
        found = np.full(len(parents), -1, np.int64)
        v = self.vertices
        for i, (parent, child) in enumerate(zip(parents.tolist(), children.tolist(), strict=True)):
            start, end = v.offsets[parent : parent + 2]
            at = np.flatnonzero((v.lefts[start:end] == child) | (v.rights[start:end] == child))
            if len(at) > 0:
                found[i] = start + at[0]
        return found

    def validate(self) -> None:
        """Check that the arrays describe a trellis; a ValueError says what is wrong."""
        from hctrellis.kernels import bitsets

        v = self.vertices
        m, s = len(v), len(v.lefts)
        shapes = (v.words.shape, v.offsets.shape, v.lefts.shape, v.rights.shape)
        if shapes != ((m, n_words(v.n_leaves)), (m + 1,), (s,), (s,)) or m < v.n_leaves:
            raise ValueError(f"not a sparse trellis: its arrays have the shapes {shapes}")
        inside = (v.offsets >= 0) & (v.offsets <= s)
        if not inside.all() or (np.diff(v.offsets) < 0).any() or v.offsets[-1] != s:
            raise ValueError("not a sparse trellis: the offsets of its splits do not grow")
        if not np.array_equal(v.words[: v.n_leaves], leaf_words(v.n_leaves)):
            raise ValueError("not a sparse trellis: it does not begin with the single leaves")
        if not np.array_equal(v.words[-1:], packed(np.ones((1, v.n_leaves), bool))):
            raise ValueError("not a sparse trellis: it does not end with the set of all leaves")
        if (np.diff(v.offsets[v.n_leaves :]) < 1).any() or v.offsets[v.n_leaves] != 0:
            raise ValueError("not a sparse trellis: every cluster but the leaves must have a split")
        bad = bitsets.check_splits(v.words, v.offsets, v.lefts, v.rights)
        if bad >= 0:
            raise ValueError(f"not a sparse trellis: a split of cluster {bad} does not divide it")
        again = merge(v.n_leaves, v.words, hash_rows(v.words), v.triples())
        if not all(np.array_equal(getattr(again, name), getattr(v, name)) for name in _ARRAYS):
            raise ValueError(
                "not a sparse trellis: its clusters or splits are repeated or unsorted"
            )

    def save(self, path: str | Path) -> None:
        """Write the arrays to a file (.npz)."""
        v = self.vertices
        arrays = {name: getattr(v, name) for name in _ARRAYS}
        with replaced(Path(path)) as half, half.open("wb") as file:
            np.savez_compressed(
                file, format=np.array([FORMAT, self.keep]), n_leaves=np.array(v.n_leaves), **arrays
            )

    @classmethod
    def load(cls, path: str | Path) -> SparseTrellis:
        """Read a trellis that `save` has written, and validate it."""
        try:
            found = read_arrays(path, ("format", "n_leaves", *_ARRAYS))
        except TooLargeError:
            raise
        except ValueError as error:
            raise ValueError(f"{path} is not a saved sparse trellis: {error}") from None
        name, keep = (*found["format"].ravel().tolist(), "", "")[:2]
        arrays = {key: found[key] for key in _ARRAYS}
        kinds = [array.dtype for array in arrays.values()]
        if (
            name != FORMAT
            or keep not in get_args(Keep)
            or kinds != [np.uint64, *[np.int64] * 3]
            or found["n_leaves"].shape != ()
        ):
            raise ValueError(f"{path} is not a saved sparse trellis of this version")
        n_leaves = found["n_leaves"].item()
        trellis = cls(SparseVertices(as_count(n_leaves, "n_leaves"), **arrays), keep)
        trellis.validate()
        return trellis

    def solve(
        self,
        potential: Potential,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> SparseSolution:
        """Run the upward pass."""
        potential.check()
        if potential.n_leaves != self.n_leaves:
            raise ValueError(
                f"the potential has {potential.n_leaves} leaves, the trellis {self.n_leaves}"
            )
        best, scale, rest = (np.zeros(self.n_clusters) for _ in range(3))
        weights, shares = _weigh(potential, self), np.empty(self.n_splits)
        solution = SparseSolution(potential, best, scale, rest, self, weights, shares)
        with followed(progress, "splits") as report:
            solve_listed(solution, self.n_splits, report)
        return solution

    def __repr__(self) -> str:
        trees = f"{self.n_trees}" if self.log_n_trees < 25 else f"{_power(self.log_n_trees)}"
        return (
            f"SparseTrellis({self.n_leaves} leaves, {self.n_clusters} clusters, "
            f"{self.n_splits} splits, {trees} trees)"
        )


def _check_keep(splits: object) -> None:
    if splits not in get_args(Keep):
        raise ValueError(f'splits must be "observed" or "all"; got {splits!r:.80}')


def _power(log: float) -> str:
    """A large number, given its logarithm, for people."""
    exponent = math.floor(log / math.log(10))
    return f"{math.exp(log - exponent * math.log(10)):.3g}e{exponent}"


def as_order(order: Sequence[int] | IntArray, n_leaves: int) -> IntArray:
    """A checked permutation of the leaves."""
    given = np.asarray(order)
    if sorted(given.tolist()) != list(range(n_leaves)):
        raise ValueError(
            f"an order of {n_leaves} leaves has each of 0 .. {n_leaves - 1} once; got {order!r:.80}"
        )
    return given.astype(np.int64)


def _children(given: Sequence[Tree]) -> IntArray:
    """The children of trees over the same labels, shape (trees, n - 1, 2)."""
    if not given:
        raise ValueError("a sparse trellis is made from at least one tree; got none")
    for tree in given:
        if not isinstance(tree, Tree):
            raise TypeError(f"expected trees, got {type(tree).__name__}")
    labels = given[0].labels
    for tree in given:
        if tree.labels != labels and set(tree.labels) != set(labels):
            odd = sorted(set(tree.labels) ^ set(labels))
            raise ValueError(f"the trees have different labels, for instance {odd[0]!r:.80}")
    return np.array([(t if t.labels == labels else t.reorder(labels)).children for t in given])


# ---- passes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparseSolution(Solution):
    """The upward pass over a sparse trellis."""

    trellis: SparseTrellis
    weights: FloatArray
    """Log psi of every split."""
    filled: FloatArray
    """What each split adds to `rest` of its parent."""

    @property
    def vertices(self) -> SparseVertices:
        return self.trellis.vertices

    def chunks(self) -> Iterator[IntArray]:
        return self.vertices.chunks(SPLITS_AT_ONCE)

    def splits(self, parents: IntArray) -> Splits:
        return self.vertices.splits(int(parents[0]), int(parents[-1]) + 1)

    def _part(self, splits: Splits) -> slice | None:
        """Where the splits are, if they are all splits of their parents."""
        first, last = int(splits.parents[0]), int(splits.parents[-1])
        start, end = self.vertices.offsets[first], self.vertices.offsets[last + 1]
        whole = np.array_equal(splits.lefts, self.vertices.lefts[start:end])
        return slice(start, end) if whole else None

    def shares(self, splits: Splits) -> FloatArray:
        return self.filled[self._part(splits)]

    def split_probabilities(self, splits: Splits) -> FloatArray:
        from hctrellis.kernels import passes

        probabilities = np.empty(len(splits.lefts))
        shares = self.shares(splits)
        passes.to_probabilities(splits.parents, splits.offsets, self.rest, shares, probabilities)
        return probabilities

    def log_weights(self, splits: Splits) -> FloatArray:
        part = self._part(splits)
        if part is not None:
            return self.weights[part]
        found = self.trellis.split_numbers(splits.parents, splits.lefts)
        return np.where(found >= 0, self.weights[found], -np.inf)

    @cached_property
    def n_trees(self) -> int:
        weighed = [(self.vertices.splits(), self.weights)]
        return count_trees(lambda: weighed, self.vertices, self.trellis.log_n_trees / math.log(2))


def _weigh(potential: Potential, trellis: SparseTrellis) -> FloatArray:
    """Log psi of every split of a trellis."""
    if trellis.n_splits == 0:
        return np.empty(0)
    if not is_fusable(potential):
        return _weigh_numpy(potential, trellis)
    from hctrellis.kernels.bind import bind

    v, parts = trellis.vertices, potential.parts
    codes = [code for code in (part.code() for part in parts) if code is not None]
    described = [part.describe(v) for part in parts]
    rows = [row for features, _ in described for row in features]
    own = sum((terms for _, terms in described if terms is not None), np.zeros(len(v)))
    features = np.array(rows) if rows else np.empty((0, len(v)))
    cross = _cross(parts, v)
    weights = np.empty(trellis.n_splits)
    kernel = bind(("weights", "sparse"), codes)
    at_root = int(v.offsets[v.root])
    for root, some in ((False, slice(at_root)), (True, slice(at_root, None))):
        params = tuple(p for part in parts for p in part.params(root))
        splits = v.splits(v.root, len(v)) if root else v.splits(v.n_leaves, v.root)
        tables = (v.n_leaves, features, own, params, cross[some])
        if len(splits.lefts) > 0:
            kernel.weigh_listed(*splits, *tables, weights[some])
    return weights


def _cross(parts: Sequence[Potential], v: SparseVertices) -> FloatArray:
    """The extreme distance between the children of every split, if a part asks for it."""
    from hctrellis.kernels import bitsets

    for part in parts:
        code = part.code()
        if code is not None and code.cross is not None:
            largest = extremes(code)[0] is np.maximum
            out = np.empty(len(v.lefts))
            bitsets.extreme_across(v.words, v.lefts, v.rights, part.distances, largest, out)
            return out
    return np.empty(0)


def _weigh_numpy(potential: Potential, trellis: SparseTrellis) -> FloatArray:
    v = trellis.vertices
    weigh = Weights(potential, v)
    return np.concatenate(
        [weigh(v.splits(int(chunk[0]), int(chunk[-1]) + 1)) for chunk in v.chunks()]
    )
