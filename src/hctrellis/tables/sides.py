"""Which side of a table are the items? Tables of genes often have their samples as columns."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from hctrellis.tables.cells import Items

LEAST_COLUMNS, LEAST_ROWS = 5, 23  # of a table that may have its items as columns
TALL = 2.0  # rows for each column
VARIED = 3.0  # times as varied as the means of columns: the means of rows
SAME_NAMES = 0.8  # of the columns are one word with different numbers

VARIABLES = ("", "column", "col", "x", "v", "var", "variable", "f", "dim", "pc", "q", "t")

_FEATURES = re.compile(
    r"gene|probe|symbol|transcript|protein|peptide|otu|asv|taxon|species|feature", re.IGNORECASE
)
_NUMBERED = re.compile(r"(.*?)[\s._-]*[0-9]+[A-Za-z]?")


def looks_transposed(items: Items, name: str) -> bool:
    """Whether the columns of a table are rather its items; `name` heads the column of labels."""
    n, d = items.values.shape
    if d < LEAST_COLUMNS or n < LEAST_ROWS or n < TALL * d:
        return False
    return bool(_FEATURES.search(name)) or _numbered(items.columns) or _varied(items)


def _numbered(columns: list[str]) -> bool:
    """Whether columns are named like S1, S2, ..."""
    words = Counter(match[1] for match in map(_NUMBERED.fullmatch, columns) if match)
    (word, most), *_ = [*words.most_common(1), ("", 0)]
    known = _FEATURES.search(word) or word.lower() in VARIABLES
    return most >= SAME_NAMES * len(columns) and not known


def _varied(items: Items) -> bool:
    """Whether rows differ in level far more than columns do, as genes do more than samples."""
    values = np.ma.masked_invalid(items.values)
    return float(values.mean(axis=1).std()) > VARIED * float(values.mean(axis=0).std())
