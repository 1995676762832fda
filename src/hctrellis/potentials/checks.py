"""Checks of what users hand to a potential: one clear sentence for each mistake."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray

LARGEST = 1e150  # of numbers in data: their squares are still finite
SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry


def as_floats(values: npt.ArrayLike, what: str) -> FloatArray:
    """A float64 array of real numbers, none of them masked."""
    try:
        array = np.asarray(values)
        if values is None or np.iscomplexobj(array) or np.ma.is_masked(values):
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        shown = " ".join(repr(values).split())[:80]
        raise TypeError(f"{what} must be an array of real numbers; got {shown}") from None
    return array


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
    matrix = as_finite(values, what)
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


def as_count(value: object, what: str) -> int:
    """A whole number >= 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number, at least 1; got {value!r:.80}")
    return int(value)


def as_labels(labels: Iterable[object] | None, n_leaves: int) -> tuple[str, ...]:
    """n different strings; "0", "1", ... by default."""
    if labels is None:
        return default_labels(n_leaves)
    texts = tuple(str(label) for label in labels)
    if len(texts) != n_leaves:
        raise ValueError(f"{len(texts)} labels were given for {n_leaves} leaves; give one each")
    if len(set(texts)) < n_leaves:
        twice, times = Counter(texts).most_common(1)[0]
        raise ValueError(f"labels must differ, but {twice!r:.80} is given {times} times")
    return texts


def default_labels(n_leaves: int) -> tuple[str, ...]:
    """The labels of leaves that were given none: "0", "1", ..."""
    return tuple(str(i) for i in range(n_leaves))
