"""The contract of a potential: what a model must say about splits, and what follows from it.

A potential is bound to n labelled leaves. It weighs a split of a cluster P into L and R by
psi(L, R) > 0 (or 0: forbidden), and a tree by the product over its splits. A model states

- `sums`: what describes a cluster: sums over its leaves, over its pairs of leaves, or numbers that
  depend on its size;
- `code`: how the features of a cluster follow from its sums, and log psi from the features of L, R
  and P, in a text that compiled kernels and NumPy share (a `SplitCode`), with its parameters from
  `params`; a term of log psi that depends on the parent alone (`own`) comes with the features;
- `separable`: if the log weight of a tree is a sum of one term per cluster (and gains that grow
  with the sibling's size), those terms; a faster kernel then serves it;
- `heights`: the heights at which clusters merge, for plots and linkage matrices, if it has any;
- `parameters` and `derivative`: the parameters by which log psi can be differentiated, and the
  derivatives, which are potentials too: numbers for splits; `pair_energy`: how the energy follows
  from the matrix of pairs that the model is made of, if it is linear in one.

Potentials add: log psi of ``a + b`` is the sum of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from hctrellis.clusters import ClusterList, Clusters, split_members
from hctrellis.support.checks import default_labels
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray, IntArray

Rows = Sequence["FloatArray"]
"""The features of many clusters: one array per feature."""

_CHUNK = 1 << 15  # clusters described at a time


class Sums(NamedTuple):
    """What a potential sums over the leaves of a cluster.

    Attributes
    ----------
    leaves : list of arrays, shape (n,)
        A value per leaf, summed over leaves.
    pairs : list of arrays, shape (n, n)
        Symmetric; summed over pairs of leaves, and the diagonal over leaves.
    by_size : list of arrays, shape (n + 1,)
        A number for each number of leaves.
    """

    leaves: Sequence[FloatArray] = ()
    pairs: Sequence[FloatArray] = ()
    by_size: Sequence[FloatArray] = ()

    def of(self, clusters: Clusters) -> list[FloatArray]:
        """One array per sum, each with one number per cluster."""
        sizes = clusters.sizes.astype(int) if self.by_size else np.empty(0, int)
        return [
            *(clusters.leaf_sums(values) for values in self.leaves),
            *(clusters.pair_sums(matrix) for matrix in self.pairs),
            *(table[sizes] for table in self.by_size),
        ]


class Described(NamedTuple):
    """Clusters, as split functions see them.

    Attributes
    ----------
    features : list of arrays
        One array per feature, with one number per cluster.
    own : array or None
        The part of log psi that depends on the parent alone; -inf forbids the parent.
    """

    features: list[FloatArray]
    own: FloatArray | None = None


class Separable(NamedTuple):
    """The log weight of a tree as a sum over its clusters.

    log weight = constant + sum over internal clusters other than the root of own
                          + sum over splits of gain(L) |R| + gain(R) |L|
    """

    own: FloatArray | None = None
    gain: FloatArray | None = None
    constant: float = 0.0


class ExpectedPairs(Protocol):
    """Expectations over the posterior for every two leaves, shape (n, n); the diagonals are 0."""

    def common_size(self) -> Any:
        """The number of leaves of the smallest cluster that has both."""

    def common_clusters(self) -> Any:
        """The number of clusters below the root that have both."""

    def parting(self, statistic: Potential) -> Any:
        """What a statistic is for the split that parts the two."""


class PairEnergy(NamedTuple):
    """An expected energy that is a sum over pairs of leaves i < j of matrix[i, j] counts[i, j].

    Attributes
    ----------
    name : str
        Of the matrix.
    matrix : float64 array, shape (n, n)
    counts : float64 array, shape (n, n)
        How much of each entry is paid; symmetric, the diagonal is 0.
    """

    name: str
    matrix: FloatArray
    counts: FloatArray

    def total(self) -> float:
        """The energy."""
        return float(np.tril(self.matrix * self.counts, -1).sum())


class Potential(ABC):
    """A weight for every split of every cluster of n labelled leaves."""

    labels: tuple[str, ...]
    beta: float = 1.0
    """Inverse temperature: the weight of a tree is exp(-beta energy)."""
    has_energy: bool = True
    """Whether the log weight is an energy; a constraint, which only forbids, has none."""
    height_name: str = "height"
    """What `heights` measure, for the labels of axes."""
    distances: FloatArray | None = None
    """Between leaves, if `code` asks for the least or greatest distance between two clusters."""
    broadcasts: bool = False
    """Whether `evaluate` takes splits in rows, one per parent, and each parent's features once."""
    only_root: bool = False
    """Whether log psi is 0 for all splits but those of the root."""

    # ---- the contract -------------------------------------------------------------------------

    @abstractmethod
    def sums(self) -> Sums | None:
        """What describes a cluster; None if `describe` says it in another way."""

    @abstractmethod
    def code(self) -> SplitCode | None:
        """How log psi follows from features; None if only NumPy can tell it (see `evaluate`)."""

    def params(self, root: bool = False) -> tuple[float, ...]:
        """The parameters of `code`, for the split at the root or for all others."""
        return (self.beta,)

    def separable(self, clusters: Clusters) -> Separable | None:
        """The log weight of trees as a sum over clusters, if it is one."""
        return None

    def heights(self, tree: Tree) -> FloatArray | None:
        """The height at which each cluster of a tree is merged, in the order of ``tree.children``.

        None if the model has no such heights. Trees that are found for a potential carry these
        (``tree.heights``), and plots, linkage matrices and branch lengths show them. A sum of
        potentials has the heights of its one part that has some.
        """
        return None

    def parameters(self) -> dict[str, float]:
        """The parameters by which log psi can be differentiated: their names and values."""
        return {}

    def derivative(self, name: str) -> Potential:
        """The derivative of log psi with respect to a parameter: a number for every split.

        It is a potential, so that everything that adds up log weights adds it up as well.
        """
        known = ", ".join(self.parameters()) or "none"
        raise ValueError(f"{name!r:.80} is not a parameter of {self!r:.80}; it has {known}")

    def with_parameters(self, **values: float) -> Potential:
        """The same model of the same data with other values of some parameters."""
        for name in values:
            self.derivative(name)  # an error if there is no such parameter
        return self

    def pair_energy(self, expected: ExpectedPairs) -> PairEnergy | None:
        """The expected energy as a sum over pairs of leaves; None if it is not linear in a matrix.

        Only where log psi is -beta times such an energy.
        """
        return None

    # ---- what follows -------------------------------------------------------------------------

    def named_parameters(self) -> dict[str, tuple[Potential, str]]:
        """The parts that the parameters belong to, and what they are called there."""
        return {name: (self, name) for name in self.parameters()}

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.labels)

    @property
    def parts(self) -> tuple[Potential, ...]:
        """The potentials of which this one is the sum."""
        return (self,)

    def describe(self, clusters: Clusters) -> Described:
        """The features of clusters and what they add as parents.

        The arrays of sums are overwritten, some thousand clusters at a time.
        """
        code, sums = self.code(), self.sums()
        assert code is not None and sums is not None
        found, sizes = sums.of(clusters), clusters.sizes
        more = max(0, code.n_features + code.has_own - len(found))
        table = [*found, *(np.empty(len(clusters)) for _ in range(more))]
        for start in range(0, len(clusters), _CHUNK):
            rows = slice(start, start + _CHUNK)
            some = [row[rows].copy() for row in found]
            self._describe_rows(code, table, some, sizes[rows], start)
        return Described(table[: code.n_features], table[code.n_features] if code.has_own else None)

    def _describe_rows(
        self, code: SplitCode, table: Rows, sums: Rows, sizes: FloatArray, start: int
    ) -> None:
        """Fill some rows of a table; those of the root have parameters of their own."""
        self._fill(code, table, sums, sizes, start, slice(None), root=False)
        root = np.flatnonzero(sizes == self.n_leaves)
        if len(root) > 0:
            self._fill(code, table, sums, sizes, start, root, root=True)

    def _fill(
        self,
        code: SplitCode,
        table: Rows,
        sums: Rows,
        sizes: FloatArray,
        start: int,
        chosen: slice | IntArray,
        root: bool,
    ) -> None:
        row, own = code.describe(sizes[chosen], [part[chosen] for part in sums], self.params(root))
        for target, values in zip(table, (*row, own) if code.has_own else row, strict=False):
            target[start : start + len(sizes)][chosen] = values

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        """Log psi of many splits from feature rows, less `own`; in NumPy.

        Parameters
        ----------
        left, right, parent : sequences of arrays
            Features of the three clusters of every split.
        root : bool
            Whether the parents are the root.
        single : bool array, shape (2, m)
            Whether the left and the right children are single leaves; ignored where `code` does not
            tell these apart.
        cross : array or None
            The least or greatest distance between the children, if `code` asks for it.
        """
        code = self.code()
        assert code is not None
        params = self.params(root)
        if code.leaf is None:
            return _log(code.pair(left, right, parent, params, cross))
        pairs = _log(code.pair(left, right, parent, params, cross))
        lefts = _log(code.leaf(left, right, parent, params, cross))
        rights = _log(code.leaf(right, left, parent, params, cross))
        return np.where(single[0], lefts, np.where(single[1], rights, pairs))

    def split_log_weights(
        self, left: BoolArray, right: BoolArray, parent: BoolArray | None = None
    ) -> FloatArray:
        """Log psi of many splits.

        Parameters
        ----------
        left, right : bool array, shape (m, n)
            Row k, column i: whether leaf i is in that child of split k.

        Returns
        -------
        array, shape (m,)
        """
        both = left | right if parent is None else parent
        total = np.zeros(len(both))
        root = both.all(axis=1)
        for is_root in (False, True):
            rows = root == is_root
            if rows.any():
                total[rows] = self._log_weights(left[rows], right[rows], both[rows], is_root)
        return total

    def _log_weights(
        self, left: BoolArray, right: BoolArray, parent: BoolArray, root: bool
    ) -> FloatArray:
        single = np.array([left.sum(axis=1) == 1, right.sum(axis=1) == 1])
        total = np.zeros(len(left))
        for part in self.parts:
            lists = [ClusterList(members) for members in (left, right, parent)]
            (left_rows, _), (right_rows, _), (parent_rows, own) = map(part.describe, lists)
            with np.errstate(all="ignore"):
                total += part.evaluate(
                    left_rows,
                    right_rows,
                    parent_rows,
                    root,
                    single,
                    extreme_distances(part, left, right),
                )
            if own is not None:
                total += own
        return total

    def check(self) -> None:
        """Raise an error if this is no longer what it was when it was made.

        Passes and searches call it once, before they begin.
        """
        for part in self.parts:
            if part is not self:
                part.check()

    def log_weight(self, tree: Tree) -> float:
        """The log weight of a tree: the sum of log psi over its splits."""
        self.check()
        return float(self.split_log_weights(*split_members(self.align(tree))).sum())

    def energy(self, tree: Tree) -> float:
        """The energy of a tree, E = -log weight / beta (beta = 1 for models without one)."""
        if self.beta == 0:
            raise ValueError("the energy of a tree is not defined by its weight at beta = 0")
        return -self.log_weight(tree) / self.beta

    def align(self, tree: Tree) -> Tree:
        """The same tree with leaf i named labels[i]."""
        if not isinstance(tree, Tree):
            raise TypeError(f"expected a Tree, got {type(tree).__name__}")
        if tree.labels == self.labels:
            return tree
        if set(tree.labels) != set(self.labels):
            odd = sorted(set(tree.labels) ^ set(self.labels))
            raise ValueError(
                f"the tree has {tree.n_leaves} leaves and the potential {self.n_leaves}, and "
                f"their labels differ, for instance {odd[0]!r}; use tree.relabel(...) to rename"
            )
        return tree.reorder(self.labels)

    def with_heights(self, tree: Tree) -> Tree:
        """The same tree with the heights of this potential, found when they are asked for."""
        return tree.with_heights(self.heights)

    def _members(self, tree: Tree) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Left child, right child and parent of each split: a row each, a column for each label."""
        if tree.labels == self.labels:
            return split_members(tree)
        self.align(tree)  # an error if it has other labels
        place = {label: leaf for leaf, label in enumerate(tree.labels)}
        columns = [place[label] for label in self.labels]
        left, right, parent = (rows[:, columns] for rows in split_members(tree))
        return left, right, parent

    def __add__(self, other: Potential) -> Potential:
        if not isinstance(other, Potential):
            return NotImplemented
        return SumPotential((*self.parts, *other.parts))

    def __radd__(self, other: object) -> Potential:
        if other == 0:  # so that sum([...]) works
            return self
        return NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_leaves} leaves{self._details()})"

    def _details(self) -> str:
        return f", beta={self.beta:g}"


def _log(weight: tuple[Any, Any]) -> FloatArray:
    x, factor = weight
    return np.asarray(x + np.log(factor))


def extreme_distances(part: Potential, left: BoolArray, right: BoolArray) -> FloatArray | None:
    """The extreme distance between the two children of each split."""
    code = part.code()
    if code is None or code.cross is None:
        return None
    assert part.distances is not None
    extreme, nothing = extremes(code)
    result = np.full(len(left), nothing)
    for i, row in enumerate(part.distances):
        reach = extreme.reduce(np.where(right, row, nothing), axis=1)
        result = np.where(left[:, i], extreme(result, reach), result)
    return result


def extremes(code: SplitCode) -> tuple[np.ufunc, float]:
    """The ufunc that finds the least or greatest distance, and its value for no distances."""
    from hctrellis.kernels import simd

    return (np.minimum, np.inf) if code.cross is simd.minimum else (np.maximum, -np.inf)


class SumPotential(Potential):
    """The sum of several potentials over the same leaves."""

    def __init__(self, parts: Sequence[Potential]) -> None:
        self._parts = tuple(parts)
        named = [part.labels for part in parts if part.labels != default_labels(part.n_leaves)]
        self.labels = named[0] if named else parts[0].labels
        betas = {part.beta for part in parts if part.has_energy}
        self.beta = betas.pop() if len(betas) == 1 else 1.0
        for part in parts:
            if part.n_leaves != self.n_leaves:
                raise ValueError(
                    f"cannot add potentials over {self.n_leaves} and {part.n_leaves} leaves"
                )
            if part.labels not in (self.labels, default_labels(self.n_leaves)):
                raise ValueError(
                    "cannot add potentials with different labels: "
                    f"{self.labels!r:.60} and {part.labels!r:.60}"
                )

    @property
    def parts(self) -> tuple[Potential, ...]:
        return self._parts

    @property
    def height_name(self) -> str:  # type: ignore[override]
        names = {part.height_name for part in self.parts} - {Potential.height_name}
        return names.pop() if len(names) == 1 else Potential.height_name

    def sums(self) -> Sums | None:
        return None

    def code(self) -> SplitCode | None:
        return None

    def parameters(self) -> dict[str, float]:
        return {
            name: part.parameters()[own] for name, (part, own) in self.named_parameters().items()
        }

    def derivative(self, name: str) -> Potential:
        if name not in self.named_parameters():
            return super().derivative(name)
        part, own = self.named_parameters()[name]
        return part.derivative(own)

    def with_parameters(self, **values: float) -> Potential:
        named = self.named_parameters()
        changed = {id(part): part for part in self.parts}
        for name, value in values.items():
            if name not in named:
                return super().derivative(name)
            part, own = named[name]
            changed[id(part)] = changed[id(part)].with_parameters(**{own: value})
        return SumPotential([changed[id(part)] for part in self.parts])

    def named_parameters(self) -> dict[str, tuple[Potential, str]]:
        """The parameters of all parts; a name that several parts use comes with their places."""
        names = [name for part in self.parts for name in part.parameters()]
        return {
            name if names.count(name) == 1 else f"{name}_{place}": (part, name)
            for place, part in enumerate(self.parts)
            for name in part.parameters()
        }

    def heights(self, tree: Tree) -> FloatArray | None:
        known = []
        for part in self.parts:
            names = dict(zip(self.labels, part.labels, strict=True))
            known.append(part.heights(tree.relabel(names)))
        found = [heights for heights in known if heights is not None]
        return found[0] if len(found) == 1 else None

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)
