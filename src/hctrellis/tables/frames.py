"""Tables in memory as the cells that are read from files.

Arrays, lists, DataFrames of pandas or Polars, and Arrow tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from hctrellis.support.checks import as_floats, frame_labels
from hctrellis.tables.cells import Cells

NAME = "the table"
MISSING = ("nan", "NaT", "<NA>")  # as pandas shows what is missing
INDEX = "index"  # heads the column of names


def as_cells(data: Any, labels: Iterable[object] | None) -> Cells:
    """A table with a first column of names, if there are any: those given, or of the index."""
    if (frame := _frame(data)) is not None:
        columns = [str(name) for name in frame[0]]
        rows = [[_text(cell) for cell in row] for row in frame[1]]
        names = _index(data) if labels is None else _as_names(labels)
    else:
        values = as_floats(data, "data")
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(
                "data must be a table with a row for each item (n x d), or a square matrix; got "
                f"shape {values.shape}"
            )
        columns = [f"column {k + 1}" for k in range(values.shape[1])]
        rows = [[_text(cell) for cell in row] for row in values.tolist()]
        names = None if labels is None else _as_names(labels)
    if names is None:
        return Cells(NAME, rows, columns, first=0)
    if len(names) != len(rows):
        raise ValueError(f"{len(names)} labels were given for {len(rows)} rows; give one for each")
    named = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return Cells(NAME, named, [_unused(columns), *columns], first=0)


def _frame(data: Any) -> tuple[Iterable[object], Iterable[Iterable[object]]] | None:
    """The names of the columns of a DataFrame or Arrow table, and its rows; None for others."""
    if hasattr(data, "columns") and hasattr(data, "index"):  # pandas
        return data.columns, np.asarray(data, object).tolist()
    if hasattr(data, "columns") and hasattr(data, "rows"):  # Polars
        return data.columns, data.rows()
    if hasattr(data, "column_names") and hasattr(data, "to_pydict"):  # Arrow
        return data.column_names, zip(*data.to_pydict().values(), strict=True)
    return None


def _index(data: Any) -> list[str] | None:
    """The names of the rows of a DataFrame, if it has any."""
    found = frame_labels(data)
    if found is None:
        return None
    twice, times = Counter(found).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"the index has {twice!r:.40} {times} times, so it cannot name the items; give "
            "labels=, or use DataFrame.reset_index()"
        )
    return list(found)


def _as_names(labels: Iterable[object]) -> list[str]:
    return [str(label) for label in labels]


def _unused(columns: list[str]) -> str:
    name = INDEX
    while name in columns:
        name = f"{name}_"
    return name


def _text(cell: object) -> str:
    """A cell as it would stand in a file: numbers with all their digits, nothing if missing."""
    if cell is None or str(cell) in MISSING:
        return ""
    if isinstance(cell, bool | np.bool_):
        return str(int(cell))
    return repr(float(cell)) if isinstance(cell, int | float | np.number) else str(cell).strip()
