"""Square matrices between items: distances, or similarities."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.support.checks import SYMMETRY_TOLERANCE
from hctrellis.tables.cells import Items, Options

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

_NAMELESS = re.compile(r"column \d+")


def as_matrix(items: Items, options: Options) -> Items:
    n, d = items.values.shape
    if n != d:
        raise ValueError(
            f"a matrix of {items.kind} has as many columns as rows; {items.name} has {n} rows and "
            f"{d} columns of numbers (leave others out with --ignore)"
        )
    if options.log10 or options.standardize:
        raise ValueError(f"--log10 and --standardize are for features, not for {items.kind}")
    items = _named_alike(items)
    values = np.where(np.isnan(items.values), items.values.T, items.values)
    own = np.diagonal(values).copy()
    if np.isnan(own).all() or items.kind == "similarities":
        np.fill_diagonal(values, np.nan_to_num(own))
    items = replace(items, values=values)
    whole = _whole(items, options)
    items = items.keep(whole, whole)
    _check_matrix(items)
    return replace(items, used=items.values)


def _check_matrix(items: Items) -> None:
    values = items.values
    gap = np.abs(values - values.T)
    if gap.max() > SYMMETRY_TOLERANCE * np.abs(values).max():
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ValueError(
            f"{items.name} is not symmetric: {items.labels[i]!r:.40} to {items.labels[j]!r:.40} is "
            f"{values[i, j]:g}, but the reverse is {values[j, i]:g}; correct it or take the mean"
        )
    if items.kind == "distances":
        wrong = (values < 0) | (np.eye(len(values), dtype=bool) & (values != 0))
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"{items.name} has {values[i, j]:g} between {items.labels[i]!r:.40} and "
                f"{items.labels[j]!r:.40}; distances are not negative, and 0 from an item to "
                "itself (give --similarities if large numbers mean similar items)"
            )


def _named_alike(items: Items) -> Items:
    """The matrix with columns in the order of the rows; names of columns serve nameless rows."""
    n = len(items.labels)
    counted = [[str(k + first) for k in range(n)] for first in (0, 1)]
    if items.labels in counted and not all(map(_NAMELESS.fullmatch, items.columns)):
        return replace(items, labels=list(items.columns))
    if sorted(items.columns) == sorted(items.labels):
        return items.keep(np.arange(n), np.array([items.columns.index(x) for x in items.labels]))
    return items


def _whole(items: Items, options: Options) -> IntArray:
    """The items between which no value is missing: those with the most holes are left out."""
    holes = np.isnan(items.values)
    keep = np.arange(len(holes))
    if not holes.any():
        return keep
    if options.missing != "drop-rows":
        i, j = np.argwhere(holes)[0]
        raise ValueError(
            f"{items.name} has no value between {items.labels[i]!r:.40} and "
            f"{items.labels[j]!r:.40}; fill it in, or leave out items with --missing drop-rows"
        )
    while holes[np.ix_(keep, keep)].any():
        counts = holes[np.ix_(keep, keep)].sum(axis=0)
        keep = np.delete(keep, counts.argmax())
    items.notes.append(f"left out for missing values: {len(holes) - len(keep)} items")
    return keep
