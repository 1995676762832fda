"""A user's own potential, from a function of the features of the three clusters of a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import ClusterList, Clusters
from hctrellis.potentials.base import Described, Potential, Rows, Sums
from hctrellis.potentials.elementwise import is_elementwise
from hctrellis.support.checks import as_count, as_finite, as_labels
from hctrellis.support.types import BoolArray

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray

_TRIED_SPLITS = 32  # random splits on which a function is tried when it is given


class FunctionPotential(Potential):
    """log psi(L, R) by a function of the features of L, R and their union P.

    The function is called as ``function(left, right, parent)``; ``left[f]`` is feature f of the
    left child, and so on. It must be symmetric in left and right, and return log psi: finite, or
    -inf for a forbidden split.

    - A plain Python function is given NumPy arrays (many splits at once), all of shape (m,), and
      returns such an array. If it is elementwise, that is, made of operators, ufuncs, `numpy.where`
      and `numpy.clip` alone, the splits of each parent are a row: ``left[f]`` and ``right[f]`` are
      of shape (p, m) and ``parent[f]`` of shape (p, 1), so that what depends on the parent alone is
      computed once.
    - A Numba function (decorated with ``@numba.njit``) is given floats (one split) and returns a
      float. It is compiled into the kernels, for eight splits at a time if it is made of
      arithmetic, of max, min, abs, sqrt, exp, expm1, log and log1p (of Python or NumPy), and of
      branches: `hctrellis.where`, or ``if``, of which both sides are then computed and one is
      chosen. With other functions, with ``while``, or without a text (typed at a prompt), it works
      as well but is called for one split after the other, which takes several times longer.

    What depends on one cluster alone is best made a feature: it is then computed once per cluster,
    not once per split.

    Parameters
    ----------
    function : callable
    features : callable or array_like
        ``features(clusters)`` returns an array per feature, in a list, with one number per cluster;
        it may ask ``clusters.sizes``, ``clusters.leaf_sums(values)``,
        ``clusters.pair_sums(matrix)`` and ``clusters.members``. Or an array, shape (n,) or (n, d):
        values of the leaves, which are summed over a cluster.
    n_leaves : int, optional
        Needed if neither an array of features nor labels are given.
    labels : iterable of str, optional

    Examples
    --------
    The weight of a tree falls with the sum of its cluster sizes: balanced trees are preferred.

    >>> from hctrellis import FunctionPotential, infer
    >>> balanced = FunctionPotential(
    ...     lambda left, right, parent: -parent[0], features=lambda c: [c.sizes], n_leaves=4
    ... )
    >>> infer(balanced).map_tree
    Tree(4 leaves: ((0,1),(2,3)))

    A branch that NumPy and Numba both take: children of very unequal sizes are forbidden.

    >>> import numpy as np
    >>> import hctrellis as hct
    >>> def weigh(left, right, parent):
    ...     gap = abs(left[0] - right[0])
    ...     return hct.where(gap < 3, -np.log(1 + gap), -np.inf)
    >>> infer(FunctionPotential(weigh, lambda c: [c.sizes], n_leaves=5)).n_trees
    30
    """

    def __init__(
        self,
        function: Callable[..., Any],
        features: Callable[[Clusters], Any] | npt.ArrayLike,
        n_leaves: int | None = None,
        *,
        labels: Iterable[object] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable; got {type(function).__name__}")
        self.function = function
        self._features: Any = features
        self._sums = None if callable(features) else _summed(features)
        names = None if labels is None else tuple(labels)
        n = _n_leaves(features, n_leaves, names)
        self.labels = as_labels(names, n, features)
        self._compiled = hasattr(function, "py_func")
        if self._compiled:
            import hctrellis.kernels.simd  # noqa: F401  # teaches Numba `hctrellis.where`
        self._n_features = len(self.describe(ClusterList(np.ones((1, n), bool))).features)
        self.broadcasts = self._try_out()

    def sums(self) -> Sums | None:
        return self._sums

    def describe(self, clusters: Clusters) -> Described:
        given = self._sums.of(clusters) if self._sums else self._features(clusters)
        return Described(_as_rows(given, len(clusters)))

    def code(self) -> SplitCode | None:
        if not self._compiled:
            return None
        from hctrellis.kernels.bind import SplitCode, same

        n = self._n_features
        return SplitCode(self.function, same, n_features=n, n_sums=n, users=True)

    def params(self, root: bool = False) -> tuple[float, ...]:
        return ()

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        shape = single.shape[1:]
        if self._compiled:
            splits = zip(*(zip(*rows, strict=True) for rows in (left, right, parent)), strict=True)
            values: Any = [self.function(*split) for split in splits]
        else:
            values = self.function(left, right, parent)
        array = np.asarray(values, float)
        by_parent = len(shape) == 2 and array.shape == (shape[0], 1)
        if array.shape not in ((), shape) and not by_parent:
            raise ValueError(
                f"function returned an array of shape {array.shape} for {math.prod(shape)} splits; "
                f"expected {shape}, one log weight each"
            )
        return array if array.shape == shape else np.broadcast_to(array, shape)

    def _try_out(self) -> bool:
        """Call the function on random splits: it must run, and be symmetric.

        Returns whether it takes arrays of any shapes that broadcast.
        """
        rng = np.random.default_rng(0)
        side = rng.integers(0, 3, (_TRIED_SPLITS, self.n_leaves))
        some = (side == 0).any(axis=1) & (side == 1).any(axis=1)
        if self.n_leaves < 2 or not some.any():
            return False
        left, right = side[some] == 0, side[some] == 1
        one = self.split_log_weights(left, right)
        other = self.split_log_weights(right, left)
        with np.errstate(invalid="ignore"):
            same = np.isclose(one, other, rtol=1e-8, atol=1e-8, equal_nan=True)
        if not same.all():
            k = int(np.flatnonzero(~same)[0])
            raise ValueError(
                "function must give a split the same log weight whichever child is left; it gave "
                f"{one[k]:g} and {other[k]:g} for one of them"
            )
        if self._compiled:
            return False
        lists = [ClusterList(members) for members in (left, right, left | right)]
        with np.errstate(all="ignore"):
            return is_elementwise(self.function, *(self.describe(c).features for c in lists))

    def _details(self) -> str:
        return f", {getattr(self.function, '__name__', 'function')}"


def _n_leaves(features: Any, n_leaves: int | None, labels: Sequence[object] | None) -> int:
    given = None if n_leaves is None else as_count(n_leaves, "n_leaves")
    rows = None if callable(features) else len(np.asarray(features))
    named = None if labels is None else len(labels)
    known = [n for n in (rows, given, named) if n is not None]
    if not known:
        raise ValueError("n_leaves or labels must be given when features is a function")
    if rows is not None and given not in (None, rows):
        raise ValueError(f"n_leaves is {given}, but features has {rows} rows")
    return known[0]


def _summed(values: npt.ArrayLike) -> Sums:
    array = as_finite(values, "features")
    if array.ndim not in (1, 2) or len(array) == 0:
        raise ValueError(
            f"features must be a function, or an array with a row per leaf; got shape {array.shape}"
        )
    return Sums(leaves=list(np.atleast_2d(array.T)))


def _as_rows(given: Any, n_clusters: int) -> list[FloatArray]:
    """A list of arrays, one per feature."""
    if isinstance(given, list | tuple):
        rows = [np.asarray(row, float) for row in given]
    else:
        array = np.asarray(given, float)
        rows = list(array.T) if array.ndim == 2 else [array]
    for row in rows:
        if row.shape != (n_clusters,):
            raise ValueError(
                f"features returned an array of shape {row.shape} for {n_clusters} clusters; "
                f"expected a list of arrays of shape ({n_clusters},), one per feature"
            )
    return rows
