"""What searches need of a potential: clusters in rows of a table, unions and weights of splits.

A potential that states sums and a compiled split function is searched by compiled kernels. For any
other the same kernels run as plain Python, over tables with a column for each leaf (1 where a
cluster has it) and with the weights of splits from NumPy, many in one call: that is slower
and gives the same answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.support.arrays import BY_LEAF, BY_SIZE, SIZE, SPARE, SUMS, ModelArrays, SplitBuffer
from hctrellis.trellis.full import bad_log_weights, name_bad_split

if TYPE_CHECKING:
    from types import ModuleType

    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray, IntArray

CHAINS = {
    "unions": (),
    "greedy": ("listing", "joins", "greedy"),
    "beam": ("listing", "joins", "beam"),
    "climb": ("listing", "climb"),
    "gibbs": ("listing", "climb", "gibbs"),
    "metropolis": ("listing", "climb", "gibbs", "metropolis"),
}
"""The templates of each search, on top of `unions`."""

_CODE_SEED = 0  # of the numbers that stand for leaves


class SearchModel(ABC):
    """A potential, ready for searches.

    Attributes
    ----------
    potential : Potential
    arrays : ModelArrays
    links : float64 array, shape (l, n, n)
        Between leaves.
    """

    potential: Potential
    arrays: ModelArrays
    links: FloatArray

    @abstractmethod
    def kernel(self, name: str) -> ModuleType:
        """The kernels of a search, for this potential."""

    @abstractmethod
    def table(self, n_rows: int) -> FloatArray:
        """A table with the leaves in its first rows."""

    def codes(self) -> IntArray:
        """A number for each leaf; that of a cluster is their exclusive or."""
        bounds = np.iinfo(np.int64)
        rng = np.random.default_rng(_CODE_SEED)
        return rng.integers(bounds.min, bounds.max, self.potential.n_leaves, endpoint=True)


def search_model(potential: Potential) -> SearchModel:
    """The compiled model if there is one, else the plain one."""
    if not isinstance(potential, Potential):
        raise TypeError(f"expected a Potential, got {type(potential).__name__}")
    potential.check()
    codes = [part.code() for part in potential.parts]
    stated = all(part.sums() is not None for part in potential.parts)
    n_extremes = sum(code is not None and code.cross is not None for code in codes)
    if None in codes or not stated or n_extremes > 1:
        return PlainModel(potential)
    return CompiledModel(potential)


def room_for(n_splits: int) -> SplitBuffer:
    """An empty list of splits."""
    rows, count = np.zeros((n_splits, 3), np.int64), np.zeros(1, np.int64)
    log_psi, factors = np.zeros(n_splits + SPARE), np.ones(n_splits + SPARE)
    return SplitBuffer(rows, np.zeros(n_splits), log_psi, factors, count)


class CompiledModel(SearchModel):
    """A potential whose parts all state sums and compiled split functions."""

    def __init__(self, potential: Potential) -> None:
        self.potential = potential
        n = potential.n_leaves
        self._codes = tuple(code for part in potential.parts if (code := part.code()) is not None)
        sums = _Sums(n, [part.distances for part, code in self._parts() if code.cross is not None])
        for part in potential.parts:
            sums.add(part)
        self.links = np.array(sums.links).reshape(-1, n, n)
        self._leaves = np.array(sums.leaves).reshape(-1, n)
        self.arrays = ModelArrays(
            np.array(sums.kinds, np.int64),
            np.array(sums.by_size).reshape(-1, n + 1),
            tuple(float(p) for part in potential.parts for p in part.params()),
            tuple(float(p) for part in potential.parts for p in part.params(root=True)),
        )

    def _parts(self) -> Iterator[tuple[Potential, SplitCode]]:
        return zip(self.potential.parts, self._codes, strict=True)

    def kernel(self, name: str) -> ModuleType:
        from hctrellis.kernels.bind import bind

        return bind(("unions", *CHAINS[name]), self._codes)

    def table(self, n_rows: int) -> FloatArray:
        n = self.potential.n_leaves
        n_features = sum(code.n_features for code in self._codes)
        table = np.zeros((n_rows, SUMS + len(self._leaves) + n_features))
        table[:n, SIZE] = 1.0
        table[:n, SUMS : SUMS + len(self._leaves)] = self._leaves.T
        self.kernel("unions").describe_leaves(n, table, self.arrays)
        return table


class _Sums:
    """The sums of all parts of a potential, one after the other."""

    def __init__(self, n_leaves: int, links: list[Any]) -> None:
        self._n_leaves = n_leaves
        self.links = links
        self.kinds: list[int] = []
        self.leaves: list[FloatArray] = []
        self.by_size: list[FloatArray] = []

    def add(self, part: Potential) -> None:
        sums = part.sums()
        assert sums is not None
        for values in sums.leaves:
            self._add(BY_LEAF, values)
        for matrix in sums.pairs:
            self._add(len(self.links), np.diagonal(matrix))
            self.links.append(matrix)
        for numbers in sums.by_size:
            self._add(BY_SIZE, np.full(self._n_leaves, numbers[1]), numbers)

    def _add(self, kind: int, leaves: FloatArray, by_size: FloatArray | None = None) -> None:
        self.kinds.append(kind)
        self.leaves.append(leaves)
        self.by_size.append(np.zeros(self._n_leaves + 1) if by_size is None else by_size)


class PlainModel(SearchModel):
    """Any potential, its splits weighed by NumPy; a cluster has a sum for each leaf, 1 or 0."""

    def __init__(self, potential: Potential) -> None:
        self.potential = potential
        n = potential.n_leaves
        self.links = np.empty((0, n, n))
        self.arrays = ModelArrays(np.empty(0, np.int64), np.zeros((0, n + 1)), (), ())

    def kernel(self, name: str) -> ModuleType:
        from hctrellis.kernels.bind import interpret

        scope = {
            "unite": _unite,
            "unite_places": _unite_places,
            "weigh_list": self._weigh_list,
            "CROSS": False,
        }
        return interpret(CHAINS[name], scope)

    def table(self, n_rows: int) -> FloatArray:
        n = self.potential.n_leaves
        table = np.zeros((n_rows, SUMS + n))
        table[:n, SIZE] = 1.0
        table[:n, SUMS:] = np.eye(n)
        return table

    def _weigh_list(self, splits: SplitBuffer, table: FloatArray, model: ModelArrays) -> bool:
        """See `kernels.unions`; a bad log psi is an error at once."""
        count = int(splits.number[0])
        splits.number[0] = 0
        if count > 0:
            left, right = (table[splits.rows[:count, side], SUMS:] > 0 for side in (0, 1))
            splits.log_psi[:count] = self.potential.split_log_weights(left, right)
            if bad_log_weights(splits.log_psi[:count]).any():
                raise ValueError(name_bad_split(self.potential, left, right))
        return True


def _unite(
    c: int, a: int, b: int, links: FloatArray, i: int, j: int, table: FloatArray, model: ModelArrays
) -> None:
    """See `kernels.unions`."""
    table[c] = table[a] + table[b]


def _unite_places(
    s: int,
    count: int,
    offset: int,
    joints: FloatArray,
    places: IntArray,
    rows: IntArray,
    table: FloatArray,
    model: ModelArrays,
) -> None:
    """See `kernels.unions`."""
    table[offset + places[:count]] = table[rows[places[:count]]] + table[s]
