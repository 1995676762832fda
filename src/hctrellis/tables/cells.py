"""Tables as they are written, how they are to be read, and the labelled numbers they become."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray


@dataclass(frozen=True)
class Cells:
    """A table as it is written.

    Attributes
    ----------
    name : str
        Of the file.
    rows : list of lists of str
        All have the same number of cells.
    columns : list of str or None
        Names of the columns, if they are known and not in the first row.
    notes : tuple of str
        What was done while reading that the user should know.
    first : int
        The number of the first row, if rows have no names: 1 in files, 0 in memory.
    """

    name: str
    rows: list[list[str]]
    columns: list[str] | None = None
    notes: tuple[str, ...] = ()
    first: int = 1

    def transposed(self) -> Cells:
        """The same table with its rows as columns."""
        whole = self.rows if self.columns is None else [self.columns, *self.rows]
        return replace(self, rows=[list(row) for row in zip(*whole, strict=True)], columns=None)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a table is to be read.

    Attributes
    ----------
    kind : {"features", "distances", "similarities"} or None
        What the numbers are; features if None, unless they look like a square matrix.
    labels, color : str or None
        Columns, by name or number.
    all_columns : bool
        Columns that number the rows are features, too.
    ignore : tuple of str
        Columns that are left out.
    missing : {"error", "mean", "zero", "drop-rows", "drop-columns"}
    log10, standardize : bool
        Take logarithms; then shift and scale columns to mean 0 and variance 1.
    decimal_comma : bool
    header : bool or None
        Whether the first row holds names; detected if None.
    transpose : bool
        The columns are the items.
    """

    kind: str | None = None
    labels: str | None = None
    color: str | None = None
    ignore: tuple[str, ...] = ()
    missing: str = "error"
    log10: bool = False
    standardize: bool = False
    decimal_comma: bool = False
    header: bool | None = None
    all_columns: bool = False
    transpose: bool = False


@dataclass(frozen=True, eq=False)
class Items:
    """Labelled numbers.

    Attributes
    ----------
    name : str
        Of the file.
    kind : {"features", "distances", "similarities"}
    labels : list of str
    values : float64 array
        As they were read, shape (n, d); for matrices (n, n).
    columns : list of str
    groups : list of str
        The entries of the colour column, empty where one is missing; no entries without one.
    used : float64 array
        The values after logarithms and scaling.
    notes : list of str
        What was done that the user should know.
    """

    name: str
    kind: str
    labels: list[str]
    values: FloatArray
    columns: list[str]
    groups: list[str]
    used: FloatArray
    notes: list[str] = field(default_factory=list)

    def keep(self, rows: IntArray, columns: IntArray) -> Items:
        """Some of the rows and columns."""
        return replace(
            self,
            labels=[self.labels[k] for k in rows],
            values=self.values[np.ix_(rows, columns)],
            columns=[self.columns[k] for k in columns],
            groups=[self.groups[k] for k in rows] if self.groups else [],
        )
