"""The names that `bind` supplies to kernel templates: decorators, split functions and flags.

A template is a kernel file that imports from here. `bind` runs a chain of templates once for each
distinct set of split functions, in a module of its own, and puts the real functions and flags in
the place of these imports (and of what one template imports from another, which is in the same
module by then). Imported as an ordinary module, a template is plain Python around the stand-ins
below, which state what each name is: a template can be read, checked and navigated like any module.

Rows of features are tuples with one entry per feature. An entry is a float, or a vector with one
lane for each of eight splits (see `simd`); `params` is a tuple of floats, or of vectors where every
lane is a data set of its own (see `batch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

Row = tuple[Any, ...]
"""The features of a cluster: one float or one vector per feature."""

Terms = tuple[Any, Any]
"""x and factor: the weight of a split is factor * e^x."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _unbound(name: str) -> NotImplementedError:
    return NotImplementedError(f"{name} is supplied by hctrellis.kernels.bind")


# -- decorators --------------------------------------------------------------------------------


def jit(function: Kernel) -> Kernel:
    """Compile a kernel that Python calls, for this set of split functions."""
    return function


def inner(function: Kernel) -> Kernel:
    """Compile a function that only kernels call."""
    return function


def lean(function: Kernel) -> Kernel:
    """The same for one that makes no arrays, without counting references to those it is given."""
    return function


def fused(function: Kernel) -> Kernel:
    """The same for a function that loops call: it becomes a part of its callers."""
    return function


# -- the weight of a split -----------------------------------------------------------------------


def pair(left: Row, right: Row, parent: Row, params: Row, cross: Any) -> Terms:
    """The weights of eight splits, one in each lane.

    `cross` is the extreme distance between the children where CROSS says that it is used.
    """
    raise _unbound("pair")


def unchecked_pair(left: Row, right: Row, parent: Row, params: Row, cross: Any) -> Terms:
    """As `pair`, for callers that find by themselves what users' functions must not return."""
    raise _unbound("unchecked_pair")


def leaf(left: Row, right: Row, parent: Row, params: Row, cross: Any) -> Terms:
    """The same where the left child is a single leaf; differs from `pair` if LEAF_APART."""
    raise _unbound("leaf")


def pair_one(left: Row, right: Row, parent: Row, params: Row, cross: float) -> Terms:
    """As `pair`, for one split: floats instead of vectors."""
    raise _unbound("pair_one")


def leaf_one(left: Row, right: Row, parent: Row, params: Row, cross: float) -> Terms:
    """As `leaf`, for one split: floats instead of vectors."""
    raise _unbound("leaf_one")


def values(left: Row, right: Row, parent: Row, params: Row, cross: Any) -> Row:
    """Numbers of eight splits apart from their weights, of which averages are wanted."""
    raise _unbound("values")


def leaf_values(left: Row, right: Row, parent: Row, params: Row, cross: Any) -> Row:
    """The same where the left child is a single leaf."""
    raise _unbound("leaf_values")


def store_each(array: Any, row: Row) -> None:
    """Write the numbers of `values`, one vector after the other."""
    raise _unbound("store_each")


def add_each(array: Any, p: Any, row: Row) -> None:
    """Add p times the numbers of `values` to vectors, one after the other; nothing where p is 0."""
    raise _unbound("add_each")


def describe(size: Any, sums: Row, params: Row) -> tuple[Row, Any]:
    """The features of a cluster from its size and sums, and what it adds to log psi as a parent."""
    raise _unbound("describe")


def combine(a: Any, b: Any) -> Any:
    """The smaller or the larger of two distances, whichever the potential takes."""
    raise _unbound("combine")


# -- the features of clusters ----------------------------------------------------------------------


def load_row(buffer: Any, i: Any, stride: Any) -> Row:
    """The features of eight clusters side by side: feature f is at i + f * stride of a buffer."""
    raise _unbound("load_row")


def splat_row(features: Any, i: Any) -> Row:
    """The features of cluster i in all lanes; features : float64 (k, clusters)."""
    raise _unbound("splat_row")


def gather_row(features: Any, index: Any, offset: Any) -> Row:
    """The features of the eight clusters index[lane] | offset; features : float64 (k, clusters)."""
    raise _unbound("gather_row")


def take_row(features: Any, i: Any) -> Row:
    """The features of cluster i as floats; features : float64 (k, clusters)."""
    raise _unbound("take_row")


def take_cluster(table: Any, i: Any) -> Row:
    """The features of the cluster in row i of a table of a search (see `arrays`), as floats."""
    raise _unbound("take_cluster")


def fill_cluster(table: Any, i: Any, params: Row) -> None:
    """Fill in the features of row i of a table, and what it adds as a parent, from its sums."""
    raise _unbound("fill_cluster")


def fill_clusters(table: Any, places: Any, at: Any, offset: Any, params: Row) -> None:
    """As `fill_cluster`, for eight rows: offset + places[at], ..."""
    raise _unbound("fill_clusters")


# -- flags: constants when a kernel is compiled, so that what they exclude is left out -------------

SCALED = True
"""Whether the factor of a split is anything but 1."""

FACTOR_RANGE = 200.0
"""log2 of the ratio of the largest factor of a split to the smallest; 0 if all are 1."""

LEAF_APART = True
"""Whether `leaf` differs from `pair`."""

CROSS = True
"""Whether a split function asks for the extreme distance between the two children."""

NOWHERE = math.inf
"""The extreme of no distances at all: +inf for the smallest, -inf for the largest."""

CHECKED = True
"""Whether a split may have the log weight -inf, or one that is not a number: users' may."""

N_VALUES = 1
"""How many numbers `values` returns."""

USES_PARENT = True
"""Whether a split function looks at the features of the parent."""

GAINS = True
"""Whether a split function is that of separable potentials, gain(L) |R| + gain(R) |L|."""

LINEAR = True
"""Whether all split functions are of that kind (or there are none)."""
