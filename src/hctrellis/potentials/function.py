"""A user's own potential, from a function of the features of the three clusters of a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import ClusterList, Clusters, show_cluster
from hctrellis.potentials.base import Described, Potential, Rows, Sums
from hctrellis.potentials.elementwise import is_elementwise
from hctrellis.potentials.trial import trial
from hctrellis.support.checks import as_count, as_finite, as_floats, as_labels
from hctrellis.support.fingerprint import OpaqueError, fingerprint
from hctrellis.support.types import BoolArray
from hctrellis.support.watch import Watch

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray

STEP = 1e-3  # relative, of differences by parameters
_REMEMBERED = 200  # log weights of splits, about, that are kept to be compared later


class FunctionPotential(Potential):
    """log psi(L, R) given by a function of the features of L, R and their union P.

    The function is called as ``function(left, right, parent)``; ``left[f]`` is feature f of the
    left child, and so on. It must be symmetric in left and right, and return log psi: a number
    from -1e280 to 1e280, or -inf for a forbidden split. It may also return two numbers, ``(x,
    factor)``, for psi = factor * e^x (a factor of 0 forbids the split): a formula with logarithms
    is quicker without them.

    - A plain Python function is given NumPy arrays (many splits at once), all of shape (m,), and
      returns such an array. If it is elementwise, that is, made of operators, ufuncs, `numpy.where`
      and `numpy.clip` alone, the splits of each parent are a row: ``left[f]`` and ``right[f]`` are
      of shape (p, m) and ``parent[f]`` of shape (p, 1), so that what depends on the parent alone is
      computed once.
    - A Numba function (decorated with ``@numba.njit``) is given floats (one split) and returns a
      float. It is compiled into the kernels, for eight splits at a time if it is made of
      arithmetic, of max, min, abs, sqrt, exp, expm1, log and log1p (of Python or NumPy), and of
      branches: `hctrellis.where`, or ``if``, of which both sides are then computed and one is
      chosen. With other functions, with ``while``, or without source text (typed at a prompt), it
      works as well but is called for one split after the other, which takes several times longer.

    What depends on one cluster alone is best made a feature: it is then computed once per cluster,
    not once per split.

    The function must not change: if something that it refers to, such as a global, changes after
    the potential is made, the next question raises an error; make a new potential. (The function
    may keep notes, such as counts or results, in lists, dictionaries or globals of its own.)

    Parameters
    ----------
    function : callable
    features : callable or array_like
        ``features(clusters)`` returns a list of arrays, one per feature, with one number per
        cluster; it may use ``clusters.sizes``, ``clusters.leaf_sums(values)``,
        ``clusters.pair_sums(matrix)`` and ``clusters.members``. Or an array, shape (n,) or (n, d):
        values of the leaves, which are summed over a cluster.
    n_leaves : int, optional
        Needed if neither an array of features nor labels are given.
    labels : iterable of str, optional
    params : mapping from str to float, optional
        Parameters with names and values. The function is then called as ``function(left, right,
        parent, params)``, with a tuple of their values in this order. It is compiled once for all
        values; ``with_parameters`` gives the same potential with others, `Posterior.gradient` has
        the derivatives of log Z, and `fit` fits them.
    bound : float or callable, optional
        A log weight that no tree exceeds, or a function without arguments that returns one; it is
        believed. `hctrellis.solve_map` then says how far from the best a tree can be.

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
        params: Mapping[str, float] | None = None,
        bound: float | Callable[[], float] | None = None,
    ) -> None:
        self._bound = bound
        if not callable(function):
            raise TypeError(f"function must be callable; got {type(function).__name__}")
        self.function = function
        self._features: Any = features
        self._sums = None if callable(features) else _summed(features)
        names = None if labels is None else tuple(labels)
        n = _n_leaves(features, n_leaves, names)
        self.labels = as_labels(names, n, features)
        self._params = _as_params(params)
        self._is_numba = hasattr(function, "py_func")
        self._mark = _mark(function) if self._is_numba else None
        self._n_features = len(self._described(ClusterList(np.ones((1, n), bool))))
        self._told = np.empty(0)
        self._first = self._params
        if n > 1:
            features_of = self._on_trial()
            self._told = self._try_out(features_of)
            with np.errstate(all="ignore"):
                self.broadcasts = not self._is_numba and is_elementwise(self._call, *features_of())
        given = {"function": function, "features": features}
        self._watches = {what: Watch(value) for what, value in given.items() if callable(value)}

    def sums(self) -> Sums | None:
        return self._sums

    def bound(self) -> float | None:
        """What was given as `bound`."""
        found = self._bound() if callable(self._bound) else self._bound
        if found is None:
            return None
        if not isinstance(found, int | float | np.number) or math.isnan(found):
            raise ValueError(
                f"bound must be a number, or a function that returns one; got {found!r:.80}"
            )
        return float(found)

    def describe(self, clusters: Clusters) -> Described:
        return Described(self._described(clusters))

    def code(self) -> SplitCode | None:
        if not self._is_numba:
            return None
        from hctrellis.kernels.bind import SplitCode, same

        n = self._n_features
        known = len(self._params)
        return SplitCode(self._own, same, n_features=n, n_sums=n, n_params=known, users=True)

    def params(self, root: bool = False) -> tuple[float, ...]:
        return tuple(self._params.values())

    def parameters(self) -> dict[str, float]:
        return dict(self._params)

    def derivative(self, name: str) -> Potential:
        """By differences of the function, of fourth order: right to about ten digits."""
        return _FunctionSlope(self, name) if name in self._params else super().derivative(name)

    def with_parameters(self, **values: float) -> Potential:
        super().with_parameters(**values)
        return self._at(_as_params(self._params | values))

    def _at(self, params: dict[str, float]) -> FunctionPotential:
        model = copy(self)
        model._params = params
        return model

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        return self._evaluated(left, right, parent, single.shape[1:])

    def fingerprint_parts(self) -> list[Any]:
        """What makes this potential what it is, for `hctrellis.support.fingerprint`."""
        return [self.function, self._features, self.labels, self._params]

    # ---- what the function says now -----------------------------------------------------------

    @property
    def _own(self) -> Any:
        """A copy of a Numba function, which nobody has compiled before."""
        import hctrellis.kernels.simd  # noqa: F401  # teaches Numba `hctrellis.where`
        from hctrellis.kernels.renewed import renewed

        return renewed(self.function, self._mark)

    def _call(self, left: Rows, right: Rows, parent: Rows) -> Any:
        if self._params:
            return self.function(left, right, parent, self.params())
        return self.function(left, right, parent)

    def _described(self, clusters: Clusters) -> list[FloatArray]:
        given = self._sums.of(clusters) if self._sums else self._features(clusters)
        return _as_rows(given, len(clusters))

    def _evaluated(
        self, left: Rows, right: Rows, parent: Rows, shape: tuple[int, ...]
    ) -> FloatArray:
        if self._is_numba:
            from hctrellis.kernels.renewed import weigher

            sides = (np.reshape(list(rows), (-1, *shape)).T for rows in (left, right, parent))
            array = np.empty(shape)
            weigh = weigher(self._own, self._n_features, len(self._params))
            weigh(*sides, self.params(), array)
            return array
        array = _log_weights(self._call(left, right, parent))
        by_parent = len(shape) == 2 and array.shape == (shape[0], 1)
        if array.shape not in ((), shape) and not by_parent:
            raise ValueError(
                f"function returned an array of shape {array.shape} for {math.prod(shape)} splits; "
                f"expected {shape}, one log weight each"
            )
        return array if array.shape == shape else np.broadcast_to(array, shape)

    # ---- trials -------------------------------------------------------------------------------

    def _on_trial(self) -> Callable[[], list[list[FloatArray]]]:
        """The features of the children and parents of the splits to be tried, each time anew."""
        clusters, *sides = trial(self.n_leaves)
        rows = self._described(ClusterList(clusters))
        return lambda: [[row[side] for row in rows] for side in sides]

    def _try_out(self, features: Callable[[], list[list[FloatArray]]]) -> FloatArray:
        """Call the function on many splits: it must run, and be symmetric. Returns log weights."""
        shape = trial(self.n_leaves).left.shape
        with np.errstate(all="ignore"):
            left, right, parent = features()
            one = self._evaluated(left, right, parent, shape)
            left, right, parent = features()  # the function may have changed them
            other = self._evaluated(right, left, parent, shape)
            same = np.isclose(one, other, rtol=1e-8, atol=1e-8, equal_nan=True)
        if not same.all():
            k = int(np.flatnonzero(~same)[0])
            raise ValueError(
                "function must give a split the same log weight whichever child is left; it gave "
                f"{one[k]:.12g} and {other[k]:.12g} for {self._show(k)}"
            )
        return one[:: 1 + len(one) // _REMEMBERED].copy()

    def _show(self, k: int) -> str:
        """A split that was tried, in words."""
        tried = trial(self.n_leaves)
        rows = (tried.clusters[side[k]] for side in (tried.left, tried.right))
        masks = (sum(1 << int(leaf) for leaf in np.flatnonzero(row)) for row in rows)
        return " | ".join(show_cluster(mask, self.labels) for mask in masks)

    def check(self) -> None:
        """Refuse a function that is no longer the one that was given."""
        for what, watch in self._watches.items():
            changed = watch.changed()
            if changed or watch.unknown:
                frozen = self._is_numba and what == "function"
                seen = changed if frozen else watch.rebound() or self._seen(changed)
                if seen:
                    raise ValueError(
                        f"{what} has changed since this potential was made ({', '.join(seen)}); "
                        "make a new FunctionPotential"
                    )

    def _seen(self, changed: list[str]) -> list[str]:
        """What has changed, if it makes a difference to the splits that are tried."""
        first = self._at(self._first)  # at the values with which it was tried before
        told = first._try_out(self._on_trial()) if self.n_leaves > 1 else self._told
        same = np.array_equal(told, self._told, equal_nan=True)
        return [] if same else changed or ["something it refers to"]

    def _details(self) -> str:
        return f", {getattr(self.function, '__name__', 'function')}"


class _FunctionSlope(Potential):
    """The derivative of a function with respect to one of its parameters."""

    def __init__(self, model: FunctionPotential, name: str) -> None:
        self.labels, self.model, self.name = model.labels, model, name
        self.broadcasts = model.broadcasts

    def sums(self) -> Sums | None:
        return self.model.sums()

    def describe(self, clusters: Clusters) -> Described:
        return self.model.describe(clusters)

    def code(self) -> None:
        return None

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        known = self.model.parameters()
        step = STEP * max(abs(known[self.name]), 0.1)
        total = np.zeros(single.shape[1:])
        for count, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
            near = self.model._at(known | {self.name: known[self.name] + count * step})
            total = total + weight * near.evaluate(left, right, parent, root, single, cross)
        slopes: FloatArray = total / (12 * step)
        return np.where(np.isnan(slopes), 0.0, slopes)  # of splits that are forbidden


def _as_params(given: Mapping[str, float] | None) -> dict[str, float]:
    params = {} if given is None else dict(given)
    for name, value in params.items():
        if not isinstance(name, str) or not isinstance(value, int | float | np.number):
            raise TypeError(f"params must have names and numbers; got {name!r:.40}: {value!r:.40}")
        if not math.isfinite(value):
            raise ValueError(f"parameter {name} must be a finite number; got {value}")
    return {name: float(value) for name, value in params.items()}


def _log_weights(returned: Any) -> FloatArray:
    """Log psi, from what a function of arrays returned: log psi, or x and factor."""
    what = "what function returns"
    if not isinstance(returned, tuple):
        return as_floats(returned, what)
    if len(returned) != 2:
        raise ValueError(
            f"function returned {len(returned)} arrays; expected one, log psi, or two, x and factor"
        )
    x, factor = (as_floats(part, what) for part in returned)
    return np.asarray(x + np.log(factor))


def _mark(function: Callable[..., Any]) -> str | None:
    try:
        return fingerprint(function)
    except OpaqueError:
        return None


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
        rows = [as_floats(row, "what features returns") for row in given]
    else:
        array = as_floats(given, "what features returns")
        rows = list(array.T) if array.ndim == 2 else [array]
    for row in rows:
        if row.shape != (n_clusters,):
            raise ValueError(
                f"features returned an array of shape {row.shape} for {n_clusters} clusters; "
                f"expected a list of arrays of shape ({n_clusters},), one per feature"
            )
    return rows
