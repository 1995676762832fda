"""Reading the files that users have: tables (CSV, TSV, Excel, Parquet) and trees (Newick, NEXUS).

`read_source` looks at a file and returns its trees, or its cells as they are written. Whatever is
wrong with a file is reported in one sentence that says what to do.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from hctrellis.support.printable import printable
from hctrellis.support.textfiles import MAX_BYTES, as_text, read_bytes
from hctrellis.tables.cells import Cells
from hctrellis.treefiles.weighted import WeightedTrees

MAX_ROWS = 1000
TREE_SUFFIXES = (
    *(".nwk", ".newick", ".tre", ".tree", ".trees", ".nex", ".nexus", ".nxs"),
    *(".t", ".trprobs", ".ufboot", ".treefile", ".contree", ".boottrees"),
)
START = 4096  # bytes that tell what a file holds
DELIMITERS = "\t;,|"
PANDAS_INDEX = "__index_level_0__"  # the column in which pandas keeps row names
TRIED_ROWS = 20  # that are looked at to find out what separates cells

WINDOWS = "cp1252"
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_MAGIC = (
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook; save it as .xlsx, or the sheet as CSV"),
    (b"\x93NUMPY", "a NumPy array; save it as CSV, for instance with numpy.savetxt"),
)
_BINARY = tuple(magic for magic, _ in _MAGIC)


def read_source(path: Path) -> WeightedTrees | Cells:
    """The trees of a file, or the cells of its table."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a table, a matrix or a file of trees")
    content = read_bytes(path)
    if content.startswith(b"PAR1"):
        return _read_parquet(path)
    if content.startswith(_GZIP):
        path, content = path.with_suffix(""), unpacked(content, path.name)
    if content.startswith(_ZIP):
        return _read_workbook(path.name, content)
    for magic, what in _MAGIC:
        if content.startswith(magic):
            raise ValueError(f"{path.name} is {what}")
    text, notes = _decoded(content, path.name)
    if not text.strip():
        raise ValueError(f"{path.name} is empty; expected a table with one row for each item")
    if _holds_trees(path, text):
        return _read_trees(path.name, text)
    return replace(_read_delimited(path.name, text), notes=notes)


def unpacked(content: bytes, name: str) -> bytes:
    """What gzip has packed, if it is not too large."""
    try:
        with gzip.open(io.BytesIO(content)) as file:
            whole = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise ValueError(f"{name} is compressed (gzip) but damaged; make it again") from None
    if len(whole) > MAX_BYTES:
        raise ValueError(f"{name} has more than {MAX_BYTES:,} bytes when unpacked; use fewer rows")
    return whole


def _decoded(content: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    """The text of a file, and a note if it is in the encoding of old Windows programs."""
    try:
        return as_text(content, name), ()
    except ValueError:
        if any(byte < 32 and byte not in b"\t\n\r\f" for byte in set(content)):
            raise  # not text at all
        try:
            text = content.decode(WINDOWS)
        except UnicodeDecodeError:
            raise ValueError(
                f"{name} is not text in UTF-8; save it as plain text with that encoding"
            ) from None
    return text, (f"{name} is not UTF-8 and was read as Windows-1252; check letters with accents",)


def _read_workbook(name: str, content: bytes) -> Cells:
    """The first sheet of an Excel workbook."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise ImportError(
            'Excel workbooks need openpyxl: pip install "hctrellis[excel]", or save the sheet as '
            "CSV"
        ) from None
    try:
        book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        found = [_as_texts(row) for row in islice(sheet.values, MAX_ROWS + 2)]
    except Exception:  # whatever openpyxl stumbles over
        raise ValueError(
            f"{name} is a zip archive that is no Excel workbook, or a damaged one; save the sheet "
            "as CSV"
        ) from None
    rows = [[cell.strip() for cell in row] for row in found if any(cell.strip() for cell in row)]
    if len(rows) > MAX_ROWS + 1:
        raise _too_many(name)
    width = max((k + 1 for row in rows for k, cell in enumerate(row) if cell), default=0)
    rows = [(row + [""] * width)[:width] for row in rows]
    more = len(book.worksheets) - 1
    notes = () if more == 0 else (f"only the first sheet, {sheet.title!r:.40}, of {name} was read",)
    return replace(_checked(name, rows), notes=notes)


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
