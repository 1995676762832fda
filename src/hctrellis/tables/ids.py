"""Columns that number the rows, or hold ids of them: these are not features.

A column does so if it holds whole numbers and

- all of them differ, and it is named like an id or has no name (as pandas writes an index); or
- each is the row number plus a constant. This must be the first column, or a column of a table that
  is long enough for this not to be chance.

In a square matrix any column may look like that, for instance the distances from the first of
several points on a line. There, only columns outside the square count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hctrellis.tables.cells import Cells

LEAST_ROWS = 3  # of a first column, or one named like ids
LONG = 5  # rows of a table in which any column may number them

_WHOLE = re.compile(r"([0-9]{1,15})(?:\.0*)?")
_ID = re.compile(r"(?:.*[\W_])?(?:id|ids|idx|index|row|nr|no)\W*|.*[a-z](?:ID|Id)|#")
_UNNAMED = re.compile(r"|Unnamed: [0-9]+")  # by pandas: as it writes an index, and as it reads that


def named_as_ids(name: str) -> bool:
    """Whether a column of this name is expected to hold ids."""
    return bool(_UNNAMED.fullmatch(name) or _ID.fullmatch(name) or _ID.fullmatch(name.lower()))


def id_columns(cells: Cells, columns: Sequence[int], kind: str | None) -> list[int]:
    """Those of some columns of numbers that number the rows or hold ids of them."""
    names = cells.columns or []
    texts = {k: [row[k] for row in cells.rows] for k in columns}
    found = [k for k in columns if _is_id(texts[k], names[k], first=k == 0)]
    if len(found) == len(columns):  # something must be left to compare items by
        named = [k for k in found if named_as_ids(names[k])]
        found = sorted({*found[:-1], *named})
    beyond = found[: max(0, len(columns) - len(cells.rows))]
    rest = [texts[k] for k in columns if k not in beyond]
    matrix = kind != "features" and (kind is not None or _is_matrix(rest))
    return beyond if matrix else found


def _is_id(column: Sequence[str], name: str, first: bool) -> bool:
    matches = [_WHOLE.fullmatch(cell) for cell in column]
    if len(column) < LEAST_ROWS or not all(matches):
        return False
    numbers = [int(match[1]) for match in matches if match]
    if named_as_ids(name):
        return len({*numbers}) == len(numbers)
    counts = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return counts and (len(numbers) >= LONG or (first and numbers[0] in (0, 1)))


def _is_matrix(columns: Sequence[Sequence[str]]) -> bool:
    """Whether columns of numbers are a symmetric matrix, or one half of it."""
    if any(len(column) != len(columns) for column in columns):
        return False
    try:
        values = np.array([[float(cell or "nan") for cell in column] for column in columns])
    except ValueError:
        return False
    halves = (values[indices(len(values), 1)] for indices in (np.triu_indices, np.tril_indices))
    return np.array_equal(values, values.T, equal_nan=True) or any(
        np.isnan(half).all() for half in halves
    )
