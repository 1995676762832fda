"""Reading the files that users have: tables (CSV, TSV, Parquet) and trees (Newick, NEXUS).

`read_source` looks at a file and returns its trees, or its cells as they are written. Whatever is
wrong with a file is reported in one sentence that says what to do.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hctrellis.support.printable import printable
from hctrellis.support.textfiles import as_text, read_bytes
from hctrellis.treefiles.weighted import WeightedTrees

MAX_ROWS = 1000
TREE_SUFFIXES = (
    *(".nwk", ".newick", ".tre", ".tree", ".trees", ".nex", ".nexus", ".nxs"),
    *(".t", ".trprobs"),
)
START = 4096  # bytes that tell what a file holds
DELIMITERS = "\t;,|"
PANDAS_INDEX = "__index_level_0__"  # the column in which pandas keeps row names
TRIED_ROWS = 20  # that are looked at to find out what separates cells

_MAGIC = (
    (b"PK\x03\x04", "an Excel workbook or a zip archive; save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook; save the sheet as CSV"),
    (b"\x1f\x8b", "compressed (gzip); unpack it first"),
    (b"\x93NUMPY", "a NumPy array; save it as CSV, for instance with numpy.savetxt"),
)
_BINARY = tuple(magic for magic, _ in _MAGIC)


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
    """

    name: str
    rows: list[list[str]]
    columns: list[str] | None = None


def read_source(path: Path) -> WeightedTrees | Cells:
    """The trees of a file, or the cells of its table."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a table, a matrix or a file of trees")
    content = read_bytes(path)
    if content.startswith(b"PAR1"):
        return _read_parquet(path)
    for magic, what in _MAGIC:
        if content.startswith(magic):
            raise ValueError(f"{path.name} is {what}")
    text = as_text(content, path.name)
    if not text.strip():
        raise ValueError(f"{path.name} is empty; expected a table with one row for each item")
    if _holds_trees(path, text):
        return _read_trees(path.name, text)
    return _read_delimited(path.name, text)


def holds_trees(path: Path) -> bool:
    """Whether a file holds trees, by its name and its first bytes."""
    if path.suffix.lower() == ".gz":
        return Path(path.stem).suffix.lower() in TREE_SUFFIXES
    try:
        with path.open("rb") as file:
            start = file.read(START)
    except OSError:
        return False
    if not start.strip() or start.startswith(b"PAR1") or any(map(start.startswith, _BINARY)):
        return False
    return _holds_trees(path, start.decode("utf-8-sig", "replace"))


def _holds_trees(path: Path, text: str) -> bool:
    start = text.lstrip()[:6].upper()
    return path.suffix.lower() in TREE_SUFFIXES or start.startswith(("#NEXUS", "(", "[&"))


def _read_trees(name: str, text: str) -> WeightedTrees:
    from hctrellis.treefiles import read_newicks, read_nexus

    nexus = text.lstrip()[:6].upper() == "#NEXUS"
    try:
        trees = read_nexus(text) if nexus else read_newicks(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not trees:
        raise ValueError(f"{name} has no trees")
    return trees


def _read_parquet(path: Path) -> Cells:
    from hctrellis.support.arrow import open_parquet, read_columns, texts

    file = open_parquet(path)
    if file.metadata.num_rows > MAX_ROWS:
        raise _too_many(path.name)
    _check_flat(file.schema_arrow, path.name)
    names = sorted(file.schema_arrow.names, key=lambda name: name != PANDAS_INDEX)
    table = read_columns(open_parquet(path, read_dictionary=names), path)
    columns = [_as_texts(texts(table.column(name))) for name in names]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return _checked(path.name, rows, ["" if name == PANDAS_INDEX else name for name in names])


def _check_flat(schema: Any, name: str) -> None:
    """Refuse columns that hold lists, records or bytes."""
    import pyarrow.types as types

    kinds = (types.is_nested, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    for field in schema:
        if any(is_kind(field.type) for is_kind in kinds):
            raise ValueError(
                f"column {field.name!r:.80} of {name} holds {str(field.type)!r:.80}; expected "
                "numbers or texts"
            )


def _as_texts(values: Iterable[Any]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def _read_delimited(name: str, text: str) -> Cells:
    delimiter = _delimiter(text)
    rows: list[list[str]] = []
    for line, row in _split(name, text, delimiter):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if rows and len(cells) != len(rows[0]):
            raise ValueError(_ragged(name, line, len(cells), len(rows[0]), delimiter))
        rows.append(cells)
        if len(rows) > MAX_ROWS + 1:
            raise _too_many(name)
    return _checked(name, rows)


def _split(name: str, text: str, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its line."""
    if delimiter is None:
        yield from ((k, line.split()) for k, line in enumerate(text.splitlines(), start=1))
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        reason = printable(str(error))
        raise ValueError(f"line {reader.line_num} of {name}: {reason}; check its quotes") from None


def _ragged(name: str, line: int, found: int, expected: int, delimiter: str | None) -> str:
    shown = {None: "blanks", "\t": "tabs"}.get(delimiter, f"'{delimiter}'")
    return (
        f"line {line} of {name} has {found} cells where the first line has {expected} (separated "
        f"by {shown}); put cells that hold the separator in double quotes"
    )


def _too_many(name: str) -> ValueError:
    return ValueError(
        f"{name} has more than {MAX_ROWS:,} rows, too many to weigh trees over; join near-identical"
        " rows first (k-means centres, say), or use scipy.cluster.hierarchy for a single tree"
    )


def _checked(name: str, rows: list[list[str]], columns: list[str] | None = None) -> Cells:
    """The cells, without the last column if it is empty."""
    width = len(rows[0]) if rows else len(columns or ())
    if width > 1 and not columns and not any(row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    if width == 0 or not rows:
        raise ValueError(f"{name} has no rows; expected one for each item")
    return Cells(name, rows, columns)


def _delimiter(text: str) -> str | None:
    """What separates cells: one of DELIMITERS, or None for blanks."""
    start = "\n".join(line for line in text.splitlines() if line.strip())[:100_000]
    widths = {}
    for delimiter in DELIMITERS:
        rows = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
        counts = Counter(len(row) for _, row in zip(range(TRIED_ROWS), rows, strict=False))
        width, times = max(counts.items(), key=lambda item: (item[1], item[0]))
        widths[delimiter] = (width > 1, times, width)
    best = max(DELIMITERS, key=widths.__getitem__)
    if widths[best][0]:
        return best
    blanks = {len(line.split()) for line in start.splitlines()[:TRIED_ROWS]}
    return None if len(blanks) == 1 and blanks != {1} and '"' not in start else ","
