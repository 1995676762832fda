"""Checks of what users hand to a potential: one clear sentence for each mistake.

A DataFrame (of pandas or a similar package; none is imported here) is an array whose rows and
columns have names: its index labels the leaves, and a matrix must have the same names for its rows
and its columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

LARGEST = 1e150  # of numbers in data: their squares are still finite
SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry


def as_floats(values: npt.ArrayLike, what: str) -> FloatArray:
    """A float64 array of real numbers, none of them masked."""
    try:
        array = np.asarray(values)
        unreal = np.iscomplexobj(array) or array.dtype.kind in "mM"
        if values is None or unreal or np.ma.is_masked(values):
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(_no_numbers(values, what)) from None
    return array


def _no_numbers(values: object, what: str) -> str:
    """What is wrong with an array: which columns, if they have names."""
    columns = _names(values, "columns")
    odd = [] if columns is None else _odd_columns(columns, np.asarray(values, object))
    if not odd:
        return f"{what} must be an array of real numbers; got {' '.join(repr(values).split())[:80]}"
    shown = ", ".join(odd[:3]) + (", ..." if len(odd) > 3 else "")
    return (
        f"{what} must be numbers; other values are in column {shown}: leave such columns out "
        "(labels=, or the index of a DataFrame, names the leaves)"
    )


def _odd_columns(names: Sequence[str], cells: npt.NDArray[np.object_]) -> list[str]:
    """The columns that hold anything but numbers, each with its first such entry, in words."""
    odd = []
    for name, column in zip(names, np.atleast_2d(cells).T, strict=False):
        others = [cell for cell in column if not _is_real(cell)]
        if others:
            odd.append(f"{name!r:.40} ({str(others[0])!r:.40})")
    return odd


def _is_real(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def as_finite(values: npt.ArrayLike, what: str) -> FloatArray:
    """A float64 array without NaN, infinities and numbers too large to be squared."""
    array = as_floats(values, what)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad) > 0:
        where = ", ".join(str(i) for i in bad[0])
        raise ValueError(
            f"{what} has {len(bad)} entries that are not finite, the first at [{where}]; "
            "fill in or leave out missing values first"
        )
    large = np.argwhere(np.abs(array) > LARGEST)
    if len(large) > 0:
        where = ", ".join(str(i) for i in large[0])
        raise ValueError(
            f"{what} has {array[tuple(large[0])]:g} at [{where}]; numbers beyond {LARGEST:g} are "
            "too large to be squared: rescale them first"
        )
    return array


def as_symmetric(values: npt.ArrayLike, what: str) -> FloatArray:
    """A finite, symmetric n x n matrix with n >= 1, exactly symmetric."""
    matrix = _aligned(values, as_finite(values, what), what)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{what} must be a square matrix (n x n); got shape {matrix.shape}")
    if len(matrix) == 0:
        raise ValueError(f"{what} is empty; at least one leaf is needed")
    gap = np.abs(matrix - matrix.T)
    if gap.max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ValueError(
            f"{what} must be symmetric; [{i}, {j}] is {matrix[i, j]:g} but [{j}, {i}] is "
            f"{matrix[j, i]:g} (symmetrise it, for instance with (w + w.T) / 2)"
        )
    return matrix if gap.max() == 0 else (matrix + matrix.T) / 2


def _aligned(values: object, matrix: FloatArray, what: str) -> FloatArray:
    """The matrix of a DataFrame with its columns in the order of its rows."""
    rows, columns = _names(values, "index"), _names(values, "columns")
    if rows is None or columns is None or rows == columns or len(rows) != len(columns):
        return matrix
    if default_labels(len(rows)) in (tuple(rows), tuple(columns)):  # only one of the two has names
        return matrix
    if len({*rows}) < len(rows) or {*rows} != {*columns}:
        pair = next(pair for pair in zip(rows, columns, strict=True) if pair[0] != pair[1])
        raise ValueError(
            f"the rows and columns of {what} have different names, for instance {pair[0]!r:.40} "
            f"and {pair[1]!r:.40}; give both the same names, or give a plain array if they are in "
            "the same order"
        )
    return matrix[:, [columns.index(name) for name in rows]]


def _names(values: object, axis: str) -> list[str] | None:
    """The index or the columns of a DataFrame or Arrow table, as text; None if there are none."""
    names = getattr(values, axis, None)
    if axis == "columns":
        names = getattr(values, "column_names", names)  # of Arrow, whose columns are the data
    if names is None or callable(names) or not hasattr(values, "__array__"):
        return None
    return [str(name) for name in names]


def frame_labels(data: object, *, matrix: bool = False) -> Sequence[str] | None:
    """The index of a DataFrame, or else the columns of a matrix; None if these are 0, 1, ..."""
    found = [_names(data, axis) for axis in (("index", "columns") if matrix else ("index",))]
    named = [names for names in found if names and tuple(names) != default_labels(len(names))]
    return named[0] if named else None


def as_positive(value: float, what: str, *, zero: bool = False) -> float:
    """A finite number > 0 (or >= 0)."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{what} must be a number; got {value!r:.80}") from None
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        bound = "not negative" if zero else "positive"
        raise ValueError(f"{what} must be a finite number and {bound}; got {number}")
    return number


def as_between(value: float, what: str, low: float, high: float = math.inf) -> float:
    """A positive number from low to high: kernels would lose others."""
    number = as_positive(value, what)
    if not low <= number <= high:
        bounds = f"from {low:g} to {high:g}" if high < math.inf else f"at least {low:g}"
        raise ValueError(f"{what} must be {bounds}; got {number:g}: choose other units")
    return number


def as_count(value: object, what: str) -> int:
    """A whole number >= 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number, at least 1; got {value!r:.80}")
    return int(value)


def as_labels(
    labels: Iterable[object] | None, n_leaves: int, data: object = None, *, matrix: bool = False
) -> tuple[str, ...]:
    """n different strings; by default the index of a DataFrame, or else "0", "1", ..."""
    own = frame_labels(data, matrix=matrix) if labels is None else None
    given = labels if own is None else own
    if given is None:
        return default_labels(n_leaves)
    texts = tuple(str(label) for label in given)
    if len(texts) != n_leaves:
        raise ValueError(f"{len(texts)} labels were given for {n_leaves} leaves; give one for each")
    if len(set(texts)) < n_leaves:
        twice, times = Counter(texts).most_common(1)[0]
        hint = "" if own is None else " in the index; give labels=, or use DataFrame.reset_index()"
        raise ValueError(f"labels must differ, but {twice!r:.80} is given {times} times{hint}")
    return texts


def default_labels(n_leaves: int) -> tuple[str, ...]:
    """The labels of leaves that were given none: "0", "1", ..."""
    return tuple(str(i) for i in range(n_leaves))
